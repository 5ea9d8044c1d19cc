package smp

import (
	"bytes"
	"testing"

	"heddle/internal/wiretest"
)

// area is the other length that every decoder takes.
var area = []int{DataLen}

// TestLaws flips every bit of every attribute. The numbers of bits are the
// sums of the field widths in the tables of IBA §14.2.5.
func TestLaws(t *testing.T) {
	wiretest.Laws[NodeInfo](t, wiretest.Attr{Name: "NodeInfo", Len: 40, Also: area, Bits: 320, Fix: fixNodeInfo})
	wiretest.Laws[NodeDescription](t, wiretest.Attr{Name: "NodeDescription", Len: 64, Bits: 512})
	wiretest.Laws[SwitchInfo](t, wiretest.Attr{Name: "SwitchInfo", Len: 20, Also: area, Bits: 149})
	wiretest.Laws[PortInfo](t, wiretest.Attr{Name: "PortInfo", Len: 64, Bits: 502})
	wiretest.Laws[GUIDInfo](t, wiretest.Attr{Name: "GUIDInfo", Len: 64, Bits: 512})
	wiretest.Laws[PKeyTable](t, wiretest.Attr{Name: "PKeyTable", Len: 64, Bits: 512})
	wiretest.Laws[SLtoVL](t, wiretest.Attr{Name: "SLtoVL", Len: 8, Also: area, Bits: 64})
	wiretest.Laws[VLArb](t, wiretest.Attr{Name: "VLArb", Len: 64, Bits: 32 * 12})
	wiretest.Laws[LFT](t, wiretest.Attr{Name: "LFT", Len: 64, Bits: 512})
	wiretest.Laws[MFT](t, wiretest.Attr{Name: "MFT", Len: 64, Bits: 512})
	wiretest.Laws[SMInfo](t, wiretest.Attr{Name: "SMInfo", Len: 21, Also: area, Bits: 168})
	wiretest.Laws[Notice](t, wiretest.Attr{Name: "Notice", Len: 64, Bits: 512})
	wiretest.Laws[VirtualizationInfo](t, wiretest.Attr{Name: "VirtualizationInfo", Len: 64, Bits: 16 + 16 + 3 + 8 + 8})
	wiretest.Laws[VPortInfo](t, wiretest.Attr{Name: "VPortInfo", Len: 64, Bits: 4 + 2 + 8 + 5*16 + 2*64 + 16 + 8})
	wiretest.Laws[VNodeInfo](t, wiretest.Attr{Name: "VNodeInfo", Len: 64, Bits: 16 + 8 + 8 + 3*64})
	wiretest.Laws[VPortState](t, wiretest.Attr{Name: "VPortState", Len: 64, Bits: 512})
}

// fixNodeInfo makes random bytes a NodeInfo that describes a node.
func fixNodeInfo(b []byte) {
	b[2] = b[2]%3 + 1
	b[3] = 254
	b[36] %= 200
}

func FuzzNodeInfo(f *testing.F)           { wiretest.Fuzz[NodeInfo](f, 40, 64) }
func FuzzNodeDescription(f *testing.F)    { wiretest.Fuzz[NodeDescription](f, 64) }
func FuzzSwitchInfo(f *testing.F)         { wiretest.Fuzz[SwitchInfo](f, 20, 64) }
func FuzzPortInfo(f *testing.F)           { wiretest.Fuzz[PortInfo](f, 64) }
func FuzzGUIDInfo(f *testing.F)           { wiretest.Fuzz[GUIDInfo](f, 64) }
func FuzzPKeyTable(f *testing.F)          { wiretest.Fuzz[PKeyTable](f, 64) }
func FuzzSLtoVL(f *testing.F)             { wiretest.Fuzz[SLtoVL](f, 8, 64) }
func FuzzVLArb(f *testing.F)              { wiretest.Fuzz[VLArb](f, 64) }
func FuzzLFT(f *testing.F)                { wiretest.Fuzz[LFT](f, 64) }
func FuzzMFT(f *testing.F)                { wiretest.Fuzz[MFT](f, 64) }
func FuzzSMInfo(f *testing.F)             { wiretest.Fuzz[SMInfo](f, 21, 64) }
func FuzzVirtualizationInfo(f *testing.F) { wiretest.Fuzz[VirtualizationInfo](f, 64) }
func FuzzVPortInfo(f *testing.F)          { wiretest.Fuzz[VPortInfo](f, 64) }
func FuzzVNodeInfo(f *testing.F)          { wiretest.Fuzz[VNodeInfo](f, 64) }
func FuzzVPortState(f *testing.F)         { wiretest.Fuzz[VPortState](f, 64) }

// FuzzNotice also takes the details of every trap through their typed form
// and back: what the form knows must survive.
func FuzzNotice(f *testing.F) {
	for _, trap := range []uint16{0, 64, 68, 128, 129, 144, 145, 256, 257, 258, 259, 1144, 1146, 1257, 1258, 1310} {
		n := NewTrap(trap, ProducerSwitch, 7, nil)
		for i := range n.DataDetails {
			n.DataDetails[i] = byte(i*7 + 3)
		}
		b := wiretest.Bytes(&n, NoticeLen)
		f.Add(b)
		b[0] &= 0x7F // vendor form, the trap number at the end
		f.Add(b)
		b = bytes.Clone(b)
		b[1], b[2], b[3], b[62], b[63] = 0, 0x02, 0xC9, byte(trap>>8), byte(trap)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var n, c Notice
		if n.Decode(b) != nil {
			return
		}
		w := wiretest.Bytes(&n, NoticeLen)
		if err := c.Decode(w); err != nil || n != c {
			t.Fatalf("%+v != %+v: %v", n, c, err)
		}
		d := n.Detail()
		c = n
		c.SetDetail(d)
		if c.Detail() != d {
			t.Fatalf("%#v != %#v", c.Detail(), d)
		}
	})
}
