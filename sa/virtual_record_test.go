package sa_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/sa"
)

// TestVirtualRecords: the records of virtualization, and their visibility.
func TestVirtualRecords(t *testing.T) {
	s := vms()
	list := func(a mad.Addr, attr ib.AttrID, mask wire.CompMask, r record, key uint64) (string, ib.Status) {
		b, v := askAs(t, source(s), a, trusted(ask(ib.MethodGetTable, attr, mask, r), key))
		if v != sa.Answered {
			t.Fatalf("verdict %d", v)
		}
		if status(b) != 0 {
			return "", status(b)
		}
		var out strings.Builder
		for _, rec := range records(t, b) {
			var err error
			switch attr {
			case wire.AttrVirtualizationInfoRecord:
				var x wire.VirtualizationInfoRecord
				err = x.Decode(rec)
				out.WriteString(fmt.Sprintf(" %d/%d/%d:%d", x.LID, x.VPortIndex, x.BlockNum, x.VirtualizationInfo.VPortCap))
			case wire.AttrVPortInfoRecord:
				var x wire.VPortInfoRecord
				err = x.Decode(rec)
				out.WriteString(fmt.Sprintf(" %d/%d/%d:%x", x.LID, x.VPortIndex, x.BlockNum, uint64(x.VPortInfo.PortGUID)))
			case wire.AttrVNodeRecord:
				var x wire.VNodeRecord
				err = x.Decode(rec)
				out.WriteString(fmt.Sprintf(" %d/%d/%d:%x,%s", x.LID, x.VPortIndex, x.BlockNum, uint64(x.VNodeInfo.VNodeGUID), x.VNodeDescription.String()))
			case wire.AttrVPortGUIDInfoRecord:
				var x wire.VPortGUIDInfoRecord
				err = x.Decode(rec)
				out.WriteString(fmt.Sprintf(" %d/%d/%d:%x,%x", x.LID, x.VPortIndex, x.BlockNum, uint64(x.VPortGUIDInfo[0]), uint64(x.VPortGUIDInfo[1])))
			case wire.AttrVPortPartitionTableRecord:
				var x wire.VPortPartitionTableRecord
				err = x.Decode(rec)
				out.WriteString(fmt.Sprintf(" %d/%d/%d:%v", x.LID, x.VPortIndex, x.BlockNum, x.VPortPartitionTable[:2]))
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		return out.String(), 0
	}
	host, b1 := from(4, 0), from(3, 0xB1)
	rid := func(lid ib.LID, index, block uint16) wire.VPortRID {
		return wire.VPortRID{LID: lid, VPortIndex: index, BlockNum: block}
	}
	for _, c := range []struct {
		a    mad.Addr
		attr ib.AttrID
		mask wire.CompMask
		r    record
		key  uint64
		want string
	}{
		{host, wire.AttrVirtualizationInfoRecord, 0, nil, 0, " 2/0/0:8 3/0/0:8"},
		{host, wire.AttrVirtualizationInfoRecord, 7, &wire.VirtualizationInfoRecord{VPortRID: rid(3, 0, 0)}, 0, " 3/0/0:8"},
		{host, wire.AttrVirtualizationInfoRecord, 2, &wire.VirtualizationInfoRecord{VPortRID: rid(0, 1, 0)}, 0, ""},
		{b1, wire.AttrVirtualizationInfoRecord, 0, nil, 0, ""},
		{host, wire.AttrVPortInfoRecord, 0, nil, 0, " 2/1/0:a1 2/2/0:a2 2/3/0:a3 2/4/0:a4"},
		{b1, wire.AttrVPortInfoRecord, 0, nil, 0, " 2/1/0:a1 3/1/0:b1"},
		{host, wire.AttrVPortInfoRecord, 3, &wire.VPortInfoRecord{VPortRID: rid(2, 3, 0)}, 0, " 2/3/0:a3"},
		{host, wire.AttrVPortInfoRecord, 4, &wire.VPortInfoRecord{VPortRID: rid(2, 3, 1)}, 0, ""},
		{host, wire.AttrVPortInfoRecord, 8, &wire.VPortInfoRecord{VPortInfo: smp.VPortInfo{PortGUID: 0xA2}}, 0, " 2/2/0:a2"},
		{host, wire.AttrVPortInfoRecord, 1, &wire.VPortInfoRecord{VPortRID: rid(20, 0, 0)}, 0, ""}, // the key is the port's LID
		{host, wire.AttrVNodeRecord, 2, &wire.VNodeRecord{VPortRID: rid(0, 2, 0)}, 0, " 2/2/0:fa2,vma2"},
		{host, wire.AttrVNodeRecord, 8, &wire.VNodeRecord{VNodeInfo: smp.VNodeInfo{VNodeGUID: 0xFA1}}, 0, " 2/1/0:fa1,vma1"},
		{host, wire.AttrVPortGUIDInfoRecord, 2, &wire.VPortGUIDInfoRecord{VPortRID: rid(0, 2, 0)}, 0, " 2/2/0:a2,a2a 2/2/1:0,0"},
		{host, wire.AttrVPortGUIDInfoRecord, 6, &wire.VPortGUIDInfoRecord{VPortRID: rid(0, 2, 1)}, 0, " 2/2/1:0,0"},
		{host, wire.AttrVPortPartitionTableRecord, 2, &wire.VPortPartitionTableRecord{VPortRID: rid(0, 1, 0)}, 7, " 2/1/0:[0xffff 0x8005] 2/1/1:[0x0000 0x0000]"},
	} {
		if got, st := list(c.a, c.attr, c.mask, c.r, c.key); got != c.want || st != 0 {
			t.Errorf("%v mask %#x: status %v,%s, want%s", c.attr, c.mask, st, got, c.want)
		}
	}
	for attr, may := range map[ib.AttrID]wire.CompMask{
		wire.AttrVirtualizationInfoRecord: 7, wire.AttrVPortInfoRecord: 15, wire.AttrVNodeRecord: 15, wire.AttrVPortGUIDInfoRecord: 7,
		wire.AttrVPortPartitionTableRecord: 7,
	} {
		for bit := range 64 {
			want := ib.Status(0x200)
			if may>>bit&1 != 0 {
				want = 0
			}
			if _, st := list(host, attr, 1<<bit, nil, 7); st != want {
				t.Errorf("%v with component %d: status %v, want %v", attr, bit, st, want)
			}
		}
		for _, m := range []ib.Method{ib.MethodSet, ib.MethodDelete} {
			if b, _ := askAs(t, source(s), host, ask(m, attr, 0, nil)); status(b) != ib.StatusBadMethodAttr {
				t.Errorf("%v of %v: status %v", m, attr, status(b))
			}
		}
	}
	if _, st := list(host, wire.AttrVPortPartitionTableRecord, 0, nil, 0); st != 0x200 {
		t.Errorf("P_Keys for who is not trusted: status %v", st)
	}
	if b := answer(t, s, 4, ask(ib.MethodGet, wire.AttrVPortInfoRecord, 3, &wire.VPortInfoRecord{VPortRID: rid(2, 1, 0)}), false); status(b) != 0 || !bytes.Equal(b[44:46], []byte{0, 9}) {
		t.Errorf("Get: status %v, offset %v", status(b), b[44:46])
	}
}

// TestVPortAsPort: NodeRecord and PortInfoRecord are of physical ports, unless VPorts
// with LIDs of their own are to be shown as such.
func TestVPortAsPort(t *testing.T) {
	s := vms()
	for _, c := range []struct {
		with  bool
		nodes int
		own   ib.Status
	}{{false, 5, 0x300}, {true, 6, 0}} {
		src := source(s)
		src.Opt.VirtRecords = c.with
		b, _ := askAs(t, src, from(4, 0), ask(ib.MethodGetTable, wire.AttrNodeRecord, 0, nil))
		if n := len(records(t, b)); n != c.nodes {
			t.Errorf("%v: %d NodeRecords", c.with, n)
		}
		b, _ = askAs(t, src, from(4, 0), ask(ib.MethodGet, wire.AttrNodeRecord, 1, &wire.NodeRecord{LID: 20}))
		var n wire.NodeRecord
		if status(b) != c.own || c.own == 0 && (n.Decode(b[wire.HeaderLen:wire.HeaderLen+wire.NodeRecordLen]) != nil ||
			n.LID != 20 || n.NodeInfo.PortGUID != 0xA2 || n.NodeInfo.NodeGUID != 0xFA2 || n.NodeDescription.String() != "vma2") {
			t.Errorf("%v: status %v, %+v", c.with, status(b), n)
		}
		b, _ = askAs(t, src, from(4, 0), ask(ib.MethodGet, wire.AttrPortInfoRecord, 1, &wire.PortInfoRecord{LID: 20}))
		var p wire.PortInfoRecord
		if status(b) != c.own || c.own == 0 && (p.Decode(b[wire.HeaderLen:wire.HeaderLen+wire.PortInfoRecordLen]) != nil ||
			p.LID != 20 || p.PortInfo.LID != 20 || p.PortInfo.PortState != ib.StateActive || p.PortInfo.MKey != 0) {
			t.Errorf("%v: status %v, %+v", c.with, status(b), p)
		}
	}
	b := answer(t, s, 4, ask(ib.MethodGet, wire.AttrGUIDInfoRecord, 3, &wire.GUIDInfoRecord{LID: 20}), false)
	var g wire.GUIDInfoRecord
	if status(b) != 0 || g.Decode(b[wire.HeaderLen:wire.HeaderLen+wire.GUIDInfoRecordLen]) != nil || g.GUIDInfo[0] != 0xA2 || g.GUIDInfo[1] != 0xA2A {
		t.Errorf("GUIDs of a VPort's own LID: status %v, %+v", status(b), g)
	}
}
