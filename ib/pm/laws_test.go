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
}

func FuzzPortCounters(f *testing.F)          { wiretest.Fuzz[PortCounters](f, 44, 192) }
func FuzzPortCountersExtended(f *testing.F)  { wiretest.Fuzz[PortCountersExtended](f, 184, 192) }
func FuzzVPortCountersExtended(f *testing.F) { wiretest.Fuzz[VPortCountersExtended](f, 80, 192) }
