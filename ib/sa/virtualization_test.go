package sa

import (
	"bytes"
	"strings"
	"testing"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/internal/wiretest"
)

// TestVirtualizationLayout: the key is LID, VPort index and block; the
// attribute follows at byte 8, a VNodeDescription at 72.
func TestVirtualizationLayout(t *testing.T) {
	rid := VPortRID{LID: 0x0102, VPortIndex: 0x0304, BlockNum: 0x0506}
	const key = "0102 0304 0506 0000"
	vnode := VNodeRecord{VPortRID: rid, VNodeInfo: smp.VNodeInfo{PartitionCap: 0x1112, VNodeGUID: 0x2122232425262728}}
	vnode.VNodeDescription.Set("vm")
	for _, c := range []struct {
		attr ib.AttrID
		name string
		r    wiretest.Codec
		size int
		hex  string // the rest is 0
	}{
		{
			0xFFB0, "VirtualizationInfoRecord",
			&VirtualizationInfoRecord{VPortRID: rid, VirtualizationInfo: smp.VirtualizationInfo{VPortCap: 0x1112}}, 72, key + "1112",
		},
		{
			0xFFB1, "VPortInfoRecord",
			&VPortInfoRecord{VPortRID: rid, VPortInfo: smp.VPortInfo{VPortState: 4, GUIDCap: 0x11}}, 72, key + "40 11",
		},
		{0xFFB2, "VNodeRecord", &vnode, 136, key + "1112 0000 2122232425262728" + strings.Repeat("00", 52) + "766d"},
		{
			0xFFB5, "VPortGUIDInfoRecord",
			&VPortGUIDInfoRecord{VPortRID: rid, VPortGUIDInfo: smp.VPortGUIDInfo{0x1112131415161718, 7: 1}}, 72,
			key + "1112131415161718" + strings.Repeat("00", 55) + "01",
		},
		{
			0xFFB6, "VPortPartitionTableRecord",
			&VPortPartitionTableRecord{VPortRID: rid, VPortPartitionTable: smp.VPortPartitionTable{0xFFFF, 31: 1}}, 72,
			key + "ffff" + strings.Repeat("00", 61) + "01",
		},
	} {
		want, err := bytesOf(c.hex)
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, make([]byte, c.size-len(want))...)
		got := bytes.Repeat([]byte{0xFF}, c.size)
		c.r.Put(got)
		if !bytes.Equal(got, want) {
			t.Errorf("%s:\n%x, want\n%x", c.name, got, want)
		}
		if name := ib.AttrName(ib.ClassSA, c.attr); name != c.name {
			t.Errorf("%v is called %q", c.attr, name)
		}
		if c.size%8 != 0 || OffsetWords(c.size) != map[int]uint16{72: 9, 136: 17}[c.size] {
			t.Errorf("%s: %d bytes", c.name, c.size)
		}
	}
	for got, want := range map[ib.AttrID]ib.AttrID{
		AttrVirtualizationInfoRecord: smp.AttrVirtualizationInfo, AttrVPortInfoRecord: smp.AttrVPortInfo, AttrVNodeRecord: smp.AttrVNodeInfo,
		AttrVPortGUIDInfoRecord: smp.AttrVPortGUIDInfo, AttrVPortPartitionTableRecord: smp.AttrVPortPartitionTable,
	} {
		if got != want {
			t.Errorf("%v: a record's id is its attribute's, %v", got, want)
		}
	}
}
