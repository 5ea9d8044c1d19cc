package smp

import (
	"encoding/hex"
	"reflect"
	"strings"
	"testing"

	"heddle/ib"
	"heddle/internal/wiretest"
)

// TestDetails writes every trap's DataDetails as IBA §14.2.5.1 lays them out,
// byte by byte, and reads them back.
func TestDetails(t *testing.T) {
	g1 := ib.GID{0xFE, 0x80, 8: 1, 15: 2}
	g2 := ib.GID{0xFE, 0x80, 8: 3, 15: 4}
	const G1, G2 = "fe800000000000000100000000000002", "fe800000000000000300000000000004"
	change := DetailChange{
		LID: 0x0102, OtherLocalChanges: true, CapabilityMask: 0x11223344,
		ChangeFlags: ChangeNodeDescription | ChangeSMPriority, CapabilityMask2: 0x5566,
	}
	mkey := DetailMKey{
		LID: 0x0102, DrSLID: 0xFFFF, Method: ib.MethodSet, AttrID: AttrPortInfo, AttrMod: 0x80000001, MKey: 0x1122334455667788,
		DRNotice: true, PathTruncated: true, HopCount: 30, ReturnPath: [30]byte{1, 2, 29: 0xAB},
	}
	key := DetailKey{LID1: 0x0102, LID2: 0x0304, Key: 0x80010000, SL: 5, QP1: 0x010203, QP2: 0x040506, GID1: g1, GID2: g2}
	for _, c := range []struct {
		traps []uint16
		d     Detail
		hex   string // spaces between fields; the rest of the 54 bytes is 0
	}{
		{[]uint16{64, 65, 66, 67}, DetailGID{g1}, "000000000000 " + G1},
		{[]uint16{68, 69}, DetailPath{ComponentMask: 0x0C, WaitForRepath: true}, "000000000000000c 80"},
		{[]uint16{128}, DetailLID{0x0102}, "0102"},
		{[]uint16{129, 130, 131}, DetailPort{0x0102, 7}, "0000 0102 07"},
		{[]uint16{144}, change, "0000 0102 00 01 11223344 0009 5566"},
		{[]uint16{145}, DetailImage{0x0102, 0x1122334455667788}, "0000 0102 0000 1122334455667788"},
		{[]uint16{256}, mkey, "0000 0102 ffff 02 00 0015 80000001 1122334455667788 00 de 0102" + strings.Repeat("00", 27) + "ab"},
		{[]uint16{257, 258}, key, "0000 0102 0304 80010000 50 010203 00 040506 " + G1 + G2},
		{
			[]uint16{259},
			DetailSwitchPKey{
				DataValid: 0xFF, LID1: 0x0102, LID2: 0x0304, PKey: 0x8001, SL: 5, QP1: 0x010203, QP2: 0x040506,
				GID1: g1, GID2: g2, SwitchLID: 0x0506, PortNum: 9,
			},
			"00ff 0102 0304 8001 50 010203 00 040506 " + G1 + G2 + " 0506 09",
		},
		{
			[]uint16{1144},
			DetailVPortChange{LID: 0x0102, OtherLocalChanges: true, CapabilityMask: 0x1122, ChangeFlags: 0x0019, VPortIndex: 0x0304, VendorTrap: 0x0506},
			"0000 0102 00 01 1122 0019 0000 0304" + strings.Repeat("00", 38) + "0506",
		},
		{[]uint16{1146}, DetailVPortState{LID: 0x0102, VendorTrap: 0x0506}, "0000 0102" + strings.Repeat("00", 48) + "0506"},
		{
			[]uint16{1257, 1258},
			DetailVPortKey{DetailKey: key, VPortIndex: 0x0506, VendorTrap: 0x0708},
			"0000 0102 0304 80010000 50 010203 00 040506 " + G1 + G2 + " 0506 0708",
		},
		{[]uint16{1143, 63, 70, 260, 0}, DetailRaw{0: 1, 53: 2}, "01" + strings.Repeat("00", 52) + "02"},
	} {
		want, err := hex.DecodeString(strings.ReplaceAll(c.hex, " ", ""))
		if err != nil {
			t.Fatal(err)
		}
		for _, trap := range c.traps {
			n := NewTrap(trap, ProducerSwitch, 9, nil)
			for i := range n.DataDetails {
				n.DataDetails[i] = 0xFF // must not survive
			}
			n.SetDetail(c.d)
			var full Details
			copy(full[:], want)
			if n.DataDetails != full {
				t.Errorf("trap %d:\n%x, want\n%x", trap, n.DataDetails, full)
			}
			if got := n.Detail(); got != c.d {
				t.Errorf("trap %d: %#v, want %#v", trap, got, c.d)
			}
		}
	}
}

// TestDetailsReserved: bytes that a form does not use are ignored when read
// and 0 when written, and every used bit comes back.
func TestDetailsReserved(t *testing.T) {
	used := map[uint16]int{
		64: 128, 68: 65, 128: 16, 129: 24, 144: 16 + 1 + 32 + 16 + 16, 145: 80,
		256: 16 + 16 + 8 + 16 + 32 + 64 + 8 + 240, 257: 16 + 16 + 32 + 4 + 24 + 24 + 256, 259: 16 + 16 + 16 + 16 + 4 + 48 + 256 + 16 + 8, 1143: 432,
		1144: 16 + 1 + 16 + 16 + 16 + 16, 1146: 32, 1257: 372 + 32, 1258: 372 + 32,
	}
	for trap, bits := range used {
		n := NewTrap(trap, ProducerCA, 1, nil)
		for i := range n.DataDetails {
			n.DataDetails[i] = byte(i*29 + 5)
		}
		base := n.Detail()
		var out Details
		base.Put(&out)
		count := 0
		for i := range 8 * NoticeDetailsLen {
			c := n
			c.DataDetails[i/8] ^= 0x80 >> (i % 8)
			d := c.Detail()
			if d == base {
				if out[i/8]&(0x80>>(i%8)) != 0 {
					t.Errorf("trap %d: bit %d is ignored but written", trap, i)
				}
				continue
			}
			count++
			var o Details
			d.Put(&o)
			o[i/8] ^= 0x80 >> (i % 8)
			if o != out {
				t.Errorf("trap %d: bit %d does not come back where it was", trap, i)
			}
		}
		if count != bits {
			t.Errorf("trap %d: %d bits mean something, want %d", trap, count, bits)
		}
	}
}

// TestVendorNotice: the form of NVIDIA's devices has the trap number in the
// last two bytes of the attribute.
func TestVendorNotice(t *testing.T) {
	n := Notice{Type: NoticeInformational, Producer: 0x0002C9, TrapNumber: 0xD2F0, IssuerLID: 3}
	n.SetDetail(DetailVendor{Payload: [52]byte{0: 7}, TrapNumber: 1310})
	b := wiretest.Bytes(&n, NoticeLen)
	if b[10] != 7 || b[62] != 0x05 || b[63] != 0x1E || b[0] != 4 || b[3] != 0xC9 {
		t.Errorf("%x", b)
	}
	var m Notice
	if err := m.Decode(b); err != nil || m != n || m.Detail() != (DetailVendor{Payload: [52]byte{0: 7}, TrapNumber: 1310}) {
		t.Errorf("%v %#v", err, m.Detail())
	}
}

// TestTrapTypes: the types of IBA §14.2.5.1, and a name for each.
func TestTrapTypes(t *testing.T) {
	for trap, want := range map[uint16]NoticeType{
		64: 3, 65: 3, 66: 3, 67: 3, 68: 3, 69: 3, 128: 1, 129: 1, 130: 1, 131: 1, 144: 4, 145: 4,
		256: 2, 257: 2, 258: 2, 259: 2, 1143: 4, 1144: 4, 1146: 1, 1257: 2, 1258: 2,
	} {
		if TrapType(trap) != want {
			t.Errorf("trap %d is %v, want %v", trap, TrapType(trap), want)
		}
		if named := !strings.HasPrefix(TrapName(trap), "trap "); named != (trap != 1143) {
			t.Errorf("trap %d is called %q", trap, TrapName(trap))
		}
	}
	for ty, want := range map[NoticeType]string{0: "Fatal", 1: "Urgent", 2: "Security", 3: "SubnetManagement", 4: "Informational", 0x7F: "Empty", 9: "notice type 9"} {
		if ty.String() != want {
			t.Errorf("%q, want %q", ty, want)
		}
	}
}

// TestDetailAllocations: Get and Put of every form do not allocate.
func TestDetailAllocations(t *testing.T) {
	var d Details
	var (
		a DetailGID
		b DetailPath
		c DetailLID
		e DetailPort
		f DetailChange
		g DetailImage
		h DetailMKey
		i DetailKey
		j DetailSwitchPKey
		l DetailVendor
		m DetailRaw
		n DetailVPortChange
		o DetailVPortState
		p DetailVPortKey
	)
	if n := testing.AllocsPerRun(100, func() {
		a.Get(&d)
		a.Put(&d)
		b.Get(&d)
		b.Put(&d)
		c.Get(&d)
		c.Put(&d)
		e.Get(&d)
		e.Put(&d)
		f.Get(&d)
		f.Put(&d)
		g.Get(&d)
		g.Put(&d)
		h.Get(&d)
		h.Put(&d)
		i.Get(&d)
		i.Put(&d)
		j.Get(&d)
		j.Put(&d)
		l.Get(&d)
		l.Put(&d)
		m.Get(&d)
		m.Put(&d)
		n.Get(&d)
		n.Put(&d)
		o.Get(&d)
		o.Put(&d)
		p.Get(&d)
		p.Put(&d)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if reflect.TypeFor[DetailRaw]().Size() != NoticeDetailsLen {
		t.Error("DetailRaw keeps every byte")
	}
}
