package cc

import (
	"testing"

	"heddle/ib"
	"heddle/internal/wiretest"
)

var (
	area    = []int{DataLen}
	logArea = []int{LogLen}
)

// TestLaws flips every bit of every attribute. The numbers of bits are the sums of the
// field widths in the tables of IBA annex A10.
func TestLaws(t *testing.T) {
	wiretest.Laws[CongestionInfo](t, wiretest.Attr{Name: "CongestionInfo", Len: 4, Also: area, Bits: 16 + 8})
	wiretest.Laws[CongestionKeyInfo](t, wiretest.Attr{Name: "CongestionKeyInfo", Len: 14, Also: area, Bits: 64 + 1 + 16 + 16})
	wiretest.Laws[TimeStamp](t, wiretest.Attr{Name: "TimeStamp", Len: 4, Also: area, Bits: 32})
	wiretest.Laws[SwitchCongestionSetting](t, wiretest.Attr{
		Name: "SwitchCongestionSetting", Len: 76, Also: area, Bits: 32 + 2*256 + 4 + 8 + 4 + 16 + 16,
	})
	wiretest.Laws[SwitchPortCongestionSetting](t, wiretest.Attr{
		Name: "SwitchPortCongestionSetting", Len: 128, Also: area, Bits: 32 * (1 + 1 + 4 + 8 + 16),
	})
	wiretest.Laws[CACongestionSetting](t, wiretest.Attr{
		Name: "CACongestionSetting", Len: 132, Also: area, Bits: 16 + 16 + 16*(16+8+8+8),
	})
	wiretest.Laws[CongestionControlTable](t, wiretest.Attr{
		Name: "CongestionControlTable", Len: 132, Also: area, Bits: 16 + 64*16,
	})
	wiretest.Laws[SwitchLog](t, wiretest.Attr{
		Name: "SwitchLog", Len: 220, Also: logArea, Bits: 8 + 8 + 16 + 32 + 256 + 15*(16+16+4+32),
	})
	wiretest.Laws[CALog](t, wiretest.Attr{
		Name: "CALog", Len: 220, Also: logArea, Bits: 8 + 8 + 16 + 16 + 32 + 13*(24+4+4+24+16+16+32),
	})
}

// TestPortMask compares the bits of a mask with a number of 256 bits.
func TestPortMask(t *testing.T) {
	var m PortMask
	for _, p := range []uint8{0, 7, 8, 36, 255} {
		m.Add(p)
	}
	want := PortMask{0: 0x80, 27: 0x10, 30: 0x01, 31: 0x81}
	if m != want {
		t.Errorf("mask %x, want %x", m, want)
	}
	for p := range 256 {
		if got, want := m.Has(uint8(p)), p == 0 || p == 7 || p == 8 || p == 36 || p == 255; got != want {
			t.Errorf("port %d: %v, want %v", p, got, want)
		}
	}
}

// TestDelay has the limits of both parts.
func TestDelay(t *testing.T) {
	for _, c := range []struct {
		shift uint8
		mult  uint16
		want  Delay
	}{{0, 0, 0}, {3, 0x3FFF, 0xFFFF}, {1, 46, 0x402E}, {4, 0x4000, 0}} {
		d := NewDelay(c.shift, c.mult)
		if d != c.want || d.Shift() != c.shift&3 || d.Multiplier() != c.mult&0x3FFF {
			t.Errorf("NewDelay(%d, %d) = %#x: %d, %d", c.shift, c.mult, uint16(d), d.Shift(), d.Multiplier())
		}
	}
}

// TestNew looks at the header, the key and the places of the data.
func TestNew(t *testing.T) {
	m := ib.MAD{100: 1, 40: 1}
	New(&m, ib.MethodSet, AttrSwitchPortCongestionSetting, 2, 0x0123456789ABCDEF)
	if m.Class() != 0x21 || m.ClassVersion() != 2 || m.AttrMod() != 2 || m[24] != 0x01 || m[31] != 0xEF || Key(&m) != 0x0123456789ABCDEF {
		t.Errorf("% x", m[:32])
	}
	Data(&m)[0], Log(&m)[0] = 5, 6
	if m[64] != 5 || m[32] != 6 || len(Data(&m)) != 192 || len(Log(&m)) != 224 {
		t.Errorf("% x", m)
	}
}

func FuzzCongestionInfo(f *testing.F)          { wiretest.Fuzz[CongestionInfo](f, 4, 192) }
func FuzzCongestionKeyInfo(f *testing.F)       { wiretest.Fuzz[CongestionKeyInfo](f, 14, 192) }
func FuzzTimeStamp(f *testing.F)               { wiretest.Fuzz[TimeStamp](f, 4, 192) }
func FuzzSwitchCongestionSetting(f *testing.F) { wiretest.Fuzz[SwitchCongestionSetting](f, 76, 192) }

func FuzzSwitchPortCongestionSetting(f *testing.F) {
	wiretest.Fuzz[SwitchPortCongestionSetting](f, 128, 192)
}
func FuzzCACongestionSetting(f *testing.F)    { wiretest.Fuzz[CACongestionSetting](f, 132, 192) }
func FuzzCongestionControlTable(f *testing.F) { wiretest.Fuzz[CongestionControlTable](f, 132, 192) }
func FuzzSwitchLog(f *testing.F)              { wiretest.Fuzz[SwitchLog](f, 220, 224) }
func FuzzCALog(f *testing.F)                  { wiretest.Fuzz[CALog](f, 220, 224) }
