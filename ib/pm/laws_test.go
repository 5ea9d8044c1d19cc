package pm

import (
	"testing"

	"heddle/internal/wiretest"
)

var area = []int{DataLen}

// TestLaws flips every bit of every attribute. The numbers of bits are the
// sums of the field widths in the tables of IBA §16.1.
func TestLaws(t *testing.T) {
	wiretest.Laws[PortCounters](t, wiretest.Attr{Name: "PortCounters", Len: 44, Also: area, Bits: 344})
	wiretest.Laws[PortCountersExtended](t, wiretest.Attr{Name: "PortCountersExtended", Len: 184, Also: area, Bits: 56 + 22*64})
	wiretest.Laws[VPortCountersExtended](t, wiretest.Attr{Name: "VPortCountersExtended", Len: 80, Also: area, Bits: 8 + 16 + 16 + 9*64})
	wiretest.Laws[Counters32](t, wiretest.Attr{Name: "Counters32", Len: 68, Also: area, Bits: 32 + 16*32})
	wiretest.Laws[Counters16](t, wiretest.Attr{Name: "Counters16", Len: 36, Also: area, Bits: 32 + 16*16})
	wiretest.Laws[Counters2](t, wiretest.Attr{Name: "Counters2", Len: 8, Also: area, Bits: 24 + 16*2})
	wiretest.Laws[ExtendedSpeeds](t, wiretest.Attr{Name: "ExtendedSpeeds", Len: 152, Also: area, Bits: 8 + 64 + 2*16 + 12*16 + 24*32 + 3*32})
	wiretest.Laws[PortSamplesControl](t, wiretest.Attr{Name: "PortSamplesControl", Len: 80, Also: area, Bits: 24 + 3 + 30 + 15 + 8 + 2 + 128 + 64 + 16 + 15*16 + 64})
	wiretest.Laws[PortSamplesResult](t, wiretest.Attr{Name: "PortSamplesResult", Len: 64, Also: area, Bits: 16 + 2 + 15*32})
}

func FuzzPortCounters(f *testing.F)          { wiretest.Fuzz[PortCounters](f, 44, 192) }
func FuzzPortCountersExtended(f *testing.F)  { wiretest.Fuzz[PortCountersExtended](f, 184, 192) }
func FuzzVPortCountersExtended(f *testing.F) { wiretest.Fuzz[VPortCountersExtended](f, 80, 192) }
func FuzzCounters32(f *testing.F)            { wiretest.Fuzz[Counters32](f, 68, 192) }
func FuzzCounters16(f *testing.F)            { wiretest.Fuzz[Counters16](f, 36, 192) }
func FuzzCounters2(f *testing.F)             { wiretest.Fuzz[Counters2](f, 8, 192) }
func FuzzExtendedSpeeds(f *testing.F)        { wiretest.Fuzz[ExtendedSpeeds](f, 152, 192) }
func FuzzPortSamplesControl(f *testing.F)    { wiretest.Fuzz[PortSamplesControl](f, 80, 192) }
func FuzzPortSamplesResult(f *testing.F)     { wiretest.Fuzz[PortSamplesResult](f, 64, 192) }
