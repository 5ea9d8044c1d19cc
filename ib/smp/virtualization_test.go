package smp

import (
	"bytes"
	"encoding/hex"
	"strings"
	"testing"

	"heddle/ib"
	"heddle/internal/wiretest"
)

// TestVirtualizationLayout writes the attributes of virtualization as their
// tables lay them out, one group for each field, and reads them back. The rest
// of the 64 bytes is 0.
func TestVirtualizationLayout(t *testing.T) {
	var states VPortState
	states[0], states[1], states[2], states[127] = ib.StateActive, ib.StateInit, ib.StateDown, ib.StateArmed
	var desc VNodeDescription
	desc.Set("vm")
	for _, c := range []struct {
		v     wiretest.Codec
		fresh wiretest.Codec
		hex   string
	}{
		{
			&VirtualizationInfo{
				VPortCap: 0x0102, VPortIndexTop: 0x0304, VirtualizationEnable: true, VirtualizationRevision: 5, CapabilityMask: 6,
			},
			new(VirtualizationInfo), "0102 0304 80 00 05 06",
		},
		{&VirtualizationInfo{VClientReregister: true}, new(VirtualizationInfo), "0000 0000 40"},
		{&VirtualizationInfo{VPortStateChange: true}, new(VirtualizationInfo), "0000 0000 20"},
		{
			&VPortInfo{
				VPortState: ib.StateActive, GUIDCap: 0x11, CapabilityMask: 0x2233, PKeyViolations: 0x4455, QKeyViolations: 0x6677,
				VPortLID: 0x8899, LIDByVPortIndex: 0xAABB, PortGUID: 0x0102030405060708, PortProfile: 0x1112131415161718,
				SLMask: 0x2122, LocalPortNum: 0x23,
			},
			new(VPortInfo), "40 11 2233 4455 6677 8899 aabb 0102030405060708 1112131415161718 2122 23",
		},
		{&VPortInfo{ClientReregister: true}, new(VPortInfo), "08"},
		{&VPortInfo{LIDRequired: true}, new(VPortInfo), "04"},
		{
			&VNodeInfo{
				PartitionCap: 0x0102, LocalPortNum: 3, NumPorts: 4, VNodeGUID: 0x1112131415161718,
				SystemImageGUID: 0x2122232425262728, PortGUID: 0x3132333435363738,
			},
			new(VNodeInfo), "0102 03 04 1112131415161718 2122232425262728 3132333435363738",
		},
		{&states, new(VPortState), "42 10" + strings.Repeat("00", 61) + "03"},
		{&desc, new(VNodeDescription), "766d"},
		{&VPortGUIDInfo{0: 0x0102030405060708, 7: 1}, new(VPortGUIDInfo), "0102030405060708" + strings.Repeat("00", 55) + "01"},
		{&VPortPartitionTable{0: 0xFFFF, 1: 0x8001, 31: 2}, new(VPortPartitionTable), "ffff 8001" + strings.Repeat("00", 59) + "02"},
	} {
		want, err := hex.DecodeString(strings.ReplaceAll(c.hex, " ", ""))
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, make([]byte, DataLen-len(want))...)
		got := bytes.Repeat([]byte{0xFF}, DataLen)
		c.v.Put(got)
		if !bytes.Equal(got, want) {
			t.Errorf("%T:\n%x, want\n%x", c.v, got, want)
		}
		if err := c.fresh.Decode(want); err != nil {
			t.Fatal(err)
		}
		if back := wiretest.Bytes(c.fresh, DataLen); !bytes.Equal(back, want) {
			t.Errorf("%T: reads as %+v", c.v, c.fresh)
		}
	}
}

// TestVirtualizationModifiers: VPort above block in the modifiers of tables,
// VPort alone elsewhere.
func TestVirtualizationModifiers(t *testing.T) {
	if VPortMod(0x0102) != 0x0102 || VPortTableMod(0x0102, 0x0304) != 0x01020304 {
		t.Errorf("%#x %#x", VPortMod(0x0102), VPortTableMod(0x0102, 0x0304))
	}
	if i, ok := SplitVPortMod(0xFFFF); i != 0xFFFF || !ok {
		t.Error("VPort 65535")
	}
	if _, ok := SplitVPortMod(0x10000); ok {
		t.Error("no VPort has this modifier")
	}
	if i, b := SplitVPortTableMod(0x01020304); i != 0x0102 || b != 0x0304 {
		t.Errorf("%#x %#x", i, b)
	}
	for index, want := range map[uint16][2]int{0: {0, 0}, 127: {0, 127}, 128: {1, 0}, 65535: {VPortBlocks - 1, 127}} {
		if b, i := VPortStateBlockOf(index); int(b) != want[0] || int(i) != want[1] {
			t.Errorf("VPort %d is in block %d at %d, want %v", index, b, i, want)
		}
	}
}

// TestVirtualizationSet: what was read can be the base of a Set.
func TestVirtualizationSet(t *testing.T) {
	v := VirtualizationInfo{VPortCap: 9, VirtualizationEnable: true, VClientReregister: true, VPortStateChange: true}
	v.ClearForSet()
	if v != (VirtualizationInfo{VPortCap: 9, VirtualizationEnable: true}) {
		t.Errorf("%+v", v)
	}
	p := VPortInfo{VPortState: ib.StateActive, ClientReregister: true, LIDRequired: true, VPortLID: 7, SLMask: 3, PKeyViolations: 2}
	p.ClearForSet()
	if p != (VPortInfo{LIDRequired: true, VPortLID: 7, SLMask: 3, PKeyViolations: 2}) {
		t.Errorf("%+v", p)
	}
}

// TestVirtualizationSupported: the bit counts only where CapabilityMask says
// that the second mask is there.
func TestVirtualizationSupported(t *testing.T) {
	for _, c := range []struct {
		mask  ib.CapMask
		mask2 ib.CapMask2
		want  bool
	}{
		{1 << 15, 1 << 2, true},
		{0, 1 << 2, false},
		{1 << 15, 0xFFFF &^ (1 << 2), false},
	} {
		p := PortInfo{CapabilityMask: c.mask, CapabilityMask2: c.mask2}
		if p.IsVirtualizationSupported() != c.want {
			t.Errorf("%+v", c)
		}
	}
}

// TestVPortNotices: the traps of virtualization in a generic and in NVIDIA's
// envelope say the same; another vendor's notice of the same bytes says nothing.
func TestVPortNotices(t *testing.T) {
	for trap, d := range map[uint16]Detail{
		TrapVPortChange:  DetailVPortChange{LID: 7, OtherLocalChanges: true, ChangeFlags: ChangeNodeDescription, VPortIndex: 3},
		TrapVPortState:   DetailVPortState{LID: 7},
		TrapVPortBadPKey: DetailVPortKey{DetailKey: DetailKey{LID1: 1, LID2: 2, Key: 0x8001, QP1: 3, QP2: 4}, VPortIndex: 5},
		TrapVPortBadQKey: DetailVPortKey{DetailKey: DetailKey{LID1: 1, LID2: 2, Key: 0x80010000}, VPortIndex: 5},
	} {
		n := NewTrap(trap, ProducerCA, 7, d)
		if got, ok := n.Trap(); got != trap || !ok || n.Detail() != d {
			t.Errorf("generic trap %d: %d, %v, %#v", trap, got, ok, n.Detail())
		}
		b := wiretest.Bytes(&n, NoticeLen)
		b[0] &= 0x7F
		b[4], b[5] = 0x10, 0x17 // DeviceID
		b[62], b[63] = byte(trap>>8), byte(trap)
		for _, c := range []struct {
			vendor uint32
			known  bool
		}{{0x0002C9, true}, {0xB8599F, true}, {0x00066A, false}} {
			b[1], b[2], b[3] = byte(c.vendor>>16), byte(c.vendor>>8), byte(c.vendor)
			var v Notice
			if err := v.Decode(b); err != nil {
				t.Fatal(err)
			}
			if !c.known {
				if _, raw := v.Detail().(DetailVendor); !raw {
					t.Errorf("vendor %06x, trap %d: %#v", c.vendor, trap, v.Detail())
				}
				if got, ok := v.Trap(); ok || got != 0 {
					t.Errorf("vendor %06x, trap %d: %d, %v", c.vendor, trap, got, ok)
				}
				continue
			}
			if got, ok := v.Trap(); got != trap || !ok {
				t.Errorf("vendor %06x, trap %d: %d, %v", c.vendor, trap, got, ok)
			}
			var want Detail
			switch d := d.(type) {
			case DetailVPortChange:
				d.VendorTrap = trap
				want = d
			case DetailVPortState:
				d.VendorTrap = trap
				want = d
			case DetailVPortKey:
				d.VendorTrap = trap
				want = d
			}
			if v.Detail() != want {
				t.Errorf("vendor %06x, trap %d: %#v, want %#v", c.vendor, trap, v.Detail(), want)
			}
			if w := wiretest.Bytes(&v, NoticeLen); !bytes.Equal(w, b) {
				t.Errorf("vendor %06x, trap %d:\n%x, want\n%x", c.vendor, trap, w, b)
			}
		}
	}
}
