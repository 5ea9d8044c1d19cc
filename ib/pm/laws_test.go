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
	wiretest.Laws[PortSamplesControl](t, wiretest.Attr{
		Name: "PortSamplesControl", Len: 80, Also: area,
		Bits: 640 - 5 - 2 - 1 - 6 - 32,
	})
	wiretest.Laws[PortSamplesResult](t, wiretest.Attr{Name: "PortSamplesResult", Len: 64, Also: area, Bits: 16 + 2 + 15*32})
	wiretest.Laws[PortSamplesResultExtended](t, wiretest.Attr{
		Name: "PortSamplesResultExtended", Len: 128, Also: area,
		Bits: 16 + 2 + 2 + 15*64,
	})
	wiretest.Laws[PortRcvErrorDetails](t, wiretest.Attr{Name: "PortRcvErrorDetails", Len: 16, Also: area, Bits: 24 + 6*16})
	wiretest.Laws[PortXmitDiscardDetails](t, wiretest.Attr{Name: "PortXmitDiscardDetails", Len: 12, Also: area, Bits: 24 + 4*16})
	wiretest.Laws[PortOpRcvCounters](t, wiretest.Attr{Name: "PortOpRcvCounters", Len: 12, Also: area, Bits: 24 + 64})
	wiretest.Laws[PortFlowCtlCounters](t, wiretest.Attr{Name: "PortFlowCtlCounters", Len: 12, Also: area, Bits: 24 + 64})
	wiretest.Laws[PortRcvConCtrl](t, wiretest.Attr{Name: "PortRcvConCtrl", Len: 12, Also: area, Bits: 24 + 64})
	wiretest.Laws[PortXmitConCtrl](t, wiretest.Attr{Name: "PortXmitConCtrl", Len: 8, Also: area, Bits: 24 + 32})
	wiretest.Laws[PortVLCounters16](t, wiretest.Attr{Name: "PortVLCounters16", Len: 36, Also: area, Bits: 24 + 256})
	wiretest.Laws[PortVLCounters32](t, wiretest.Attr{Name: "PortVLCounters32", Len: 68, Also: area, Bits: 24 + 512})
	wiretest.Laws[PortVLXmitTimeCong](t, wiretest.Attr{Name: "PortVLXmitTimeCong", Len: 64, Also: area, Bits: 24 + 480})
	wiretest.Laws[PortVLXmitFlowCtlUpdateErrors](t, wiretest.Attr{Name: "PortVLXmitFlowCtlUpdateErrors", Len: 8, Also: area, Bits: 24 + 32})
	wiretest.Laws[VPortCountersExtended](t, wiretest.Attr{Name: "VPortCountersExtended", Len: 80, Also: area, Bits: 8 + 16 + 16 + 9*64})
	wiretest.Laws[PortExtendedSpeedsCounters](t, wiretest.Attr{
		Name: "PortExtendedSpeedsCounters", Len: 152, Also: area,
		Bits: 8 + 64 + 32 + 12*16 + 24*32 + 96,
	})
}

func FuzzPortCounters(f *testing.F)         { wiretest.Fuzz[PortCounters](f, 44, 192) }
func FuzzPortCountersExtended(f *testing.F) { wiretest.Fuzz[PortCountersExtended](f, 184, 192) }
func FuzzPortSamplesControl(f *testing.F)   { wiretest.Fuzz[PortSamplesControl](f, 80, 192) }
func FuzzPortSamplesResult(f *testing.F)    { wiretest.Fuzz[PortSamplesResult](f, 64, 192) }
func FuzzPortSamplesResultExtended(f *testing.F) {
	wiretest.Fuzz[PortSamplesResultExtended](f, 128, 192)
}
func FuzzPortRcvErrorDetails(f *testing.F)    { wiretest.Fuzz[PortRcvErrorDetails](f, 16, 192) }
func FuzzPortXmitDiscardDetails(f *testing.F) { wiretest.Fuzz[PortXmitDiscardDetails](f, 12, 192) }
func FuzzPortOpRcvCounters(f *testing.F)      { wiretest.Fuzz[PortOpRcvCounters](f, 12, 192) }
func FuzzPortFlowCtlCounters(f *testing.F)    { wiretest.Fuzz[PortFlowCtlCounters](f, 12, 192) }
func FuzzPortRcvConCtrl(f *testing.F)         { wiretest.Fuzz[PortRcvConCtrl](f, 12, 192) }
func FuzzPortXmitConCtrl(f *testing.F)        { wiretest.Fuzz[PortXmitConCtrl](f, 8, 192) }
func FuzzPortVLCounters16(f *testing.F)       { wiretest.Fuzz[PortVLCounters16](f, 36, 192) }
func FuzzPortVLCounters32(f *testing.F)       { wiretest.Fuzz[PortVLCounters32](f, 68, 192) }
func FuzzPortVLXmitTimeCong(f *testing.F)     { wiretest.Fuzz[PortVLXmitTimeCong](f, 64, 192) }
func FuzzPortVLXmitFlowCtlUpdateErrors(f *testing.F) {
	wiretest.Fuzz[PortVLXmitFlowCtlUpdateErrors](f, 8, 192)
}

func FuzzVPortCountersExtended(f *testing.F) { wiretest.Fuzz[VPortCountersExtended](f, 80, 192) }

func FuzzPortExtendedSpeedsCounters(f *testing.F) {
	wiretest.Fuzz[PortExtendedSpeedsCounters](f, 152, 192)
}
