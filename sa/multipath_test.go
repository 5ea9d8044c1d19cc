package sa_test

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/route/engine/updn"
	"heddle/sa"
)

// TestOtherGIDs: aliases are answered as requested, other subnets by a router,
// multicast groups with their parameters. Only a port's own GID may be cached.
func TestOtherGIDs(t *testing.T) {
	s := snapshot(3, 0)
	s.Ports[s.PortByGUID(0x1021)].Aliases = []ib.GUID{0, 0xA11A5}
	s.Nodes[3].Info.NodeType = ib.NodeRouter
	s.Finish()
	src := source(s)
	src.Opt.PathCaching = 1
	src.Opt.PrefixRoutes = []sa.PrefixRoute{{Prefix: 0xFEC0_0000_0000_0009, GUID: 0x1031}, {Prefix: 0xFEC0_0000_0000_0008, GUID: 0x1011}}
	a := asker{t, src, 2}
	if got, st := a.get(pathEnds, between(s, 0x1011, 0xA11A5)); st != 0 || got.DGID.GUID() != 0xA11A5 || got.DLID != 3 || got.Reserved3 != 0 {
		t.Errorf("to an alias: %+v, status %v", got, st)
	}
	if got, st := a.get(pathEnds, between(s, 0xA11A5, 0x1011)); st != 0 || got.SGID.GUID() != 0xA11A5 || got.SLID != 3 || got.Reserved3 != 1 {
		t.Errorf("from an alias: %+v, status %v", got, st)
	}
	r := between(s, 0x1011, 0)
	r.DGID = ib.MakeGID(0xFEC0_0000_0000_0009, 0x77)
	if got, st := a.get(pathEnds, r); st != 0 || got.DGID != r.DGID || got.DLID != 4 || got.HopLimit != 0xFF || got.Reserved3 != 0 {
		t.Errorf("to another subnet: %+v, status %v", got, st)
	}
	for _, p := range []ib.SubnetPrefix{0xFEC0_0000_0000_0008, 0xFEC0_0000_0000_0007} { // no router; no route
		r.DGID = ib.MakeGID(p, 0x77)
		if _, st := a.get(pathEnds, r); st != ib.StatusSANoRecords {
			t.Errorf("to %v: status %v", r.DGID, st)
		}
		if got := a.table(pathEnds, r); len(got) != 0 {
			t.Errorf("to %v: %d paths", r.DGID, len(got))
		}
	}
	g := &sa.Group{
		MGID: ib.GID{0xFF, 0x12, 15: 9}, MLID: 0xC003, PKey: 0x8002, MTU: ib.MTU2048, Rate: ib.Rate10, PacketLife: 16, SL: 3,
		TClass: 4, FlowLabel: 0x12345, HopLimit: 6, Members: []sa.Member{{PortGID: s.GID(s.PortByGUID(0x1011)), PortGUID: 0x1011, JoinState: 1}},
	}
	src.View = &sa.View{Groups: []*sa.Group{g}}
	r.DGID = g.MGID
	if _, st := a.get(pathEnds, r); st != ib.StatusSANoRecords {
		t.Errorf("a group of another partition: status %v", st)
	}
	for _, guid := range []ib.GUID{0x1011, 0x1021} {
		s.Ports[s.PortByGUID(guid)].PKeys = []ib.PKey{0xFFFF, 0x0002}
	}
	want := wire.PathRecord{
		SGID: r.SGID, DGID: g.MGID, SLID: 2, DLID: 0xC003, PKey: 0x8002, SL: 3, TClass: 4, FlowLabel: 0x12345, HopLimit: 6, NumbPath: 1,
		MTUSelector: 2, MTU: ib.MTU2048, RateSelector: 2, Rate: ib.Rate10, PacketLifeTimeSelector: 2, PacketLifeTime: 16,
	}
	if got, st := a.get(pathEnds, r); st != 0 || got != want {
		t.Errorf("to a group: %+v, status %v", got, st)
	}
	r.SGID = s.GID(s.PortByGUID(0x1021))
	if _, st := a.get(pathEnds, r); st != ib.StatusSANoRecords {
		t.Errorf("from a port that is no member: status %v", st)
	}
	r = wire.PathRecord{DGID: g.MGID, MTUSelector: wire.SelGreater, MTU: ib.MTU2048}
	if _, st := a.get(wire.PathCompDGID|wire.PathCompMTU|wire.PathCompMTUSelector, r); st != ib.StatusSANoRecords {
		t.Errorf("more than the group's MTU: status %v", st)
	}
}

// TestMultiPath: statuses, limits, and two paths that share nothing they need
// not share.
func TestMultiPath(t *testing.T) {
	s := fabricSnapshot(t, updn.Engine{}, 2, 1, "xgft", "2", "4,4", "1,2")
	var hosts []int32
	for _, p := range s.EndPortPort {
		if s.Ports[p].Num != 0 {
			hosts = append(hosts, p)
		}
	}
	a := asker{t, source(s), s.Ports[hosts[0]].LID}
	multi := func(mask wire.CompMask, m wire.MultiPathRecord, gids ...ib.GID) []byte {
		copy(m.GIDs[:], gids)
		b := a.raw(ib.MethodGetMulti, wire.AttrMultiPathRecord, mask, &m)
		if attr := ib.AttrID(binary.BigEndian.Uint16(b[16:])); attr != wire.AttrPathRecord {
			t.Errorf("attribute %v of the answer", attr)
		}
		return b
	}
	const counts = wire.MultiPathCompSGIDCount | wire.MultiPathCompDGIDCount
	g := func(i int) ib.GID { return s.GID(hosts[i]) }
	one := wire.MultiPathRecord{SGIDCount: 1, DGIDCount: 1}
	for _, c := range []struct {
		name string
		mask wire.CompMask
		gids []ib.GID
		want ib.Status
	}{
		{"good", counts, []ib.GID{g(0), g(5)}, 0},
		{"no DGIDCount", wire.MultiPathCompSGIDCount, []ib.GID{g(0), g(5)}, ib.StatusSAInsufficientComps},
		{"no SGIDCount", wire.MultiPathCompDGIDCount, []ib.GID{g(0), g(5)}, ib.StatusSAInsufficientComps},
		{"prefix 0", counts, []ib.GID{ib.MakeGID(0, s.Ports[hosts[0]].GUID), g(5)}, ib.StatusSAInvalidGID},
		{"unknown", counts, []ib.GID{g(0), ib.MakeGID(s.Prefix, 0x666)}, ib.StatusSAInvalidGID},
		{"multicast", counts, []ib.GID{g(0), {0xFF, 0x12}}, ib.StatusSAInvalidGID},
		{"half a service id", counts | wire.MultiPathCompServiceID8, []ib.GID{g(0), g(5)}, ib.StatusSAInsufficientComps},
		{"MTU 0", counts | wire.MultiPathCompMTU, []ib.GID{g(0), g(5)}, ib.StatusSAReqInvalid},
	} {
		if st := status(multi(c.mask, one, c.gids...)); st != c.want {
			t.Errorf("%s: status %v, want %v", c.name, st, c.want)
		}
	}
	if b := a.raw(ib.MethodGet, wire.AttrMultiPathRecord, counts, &one); status(b) != ib.StatusBadMethodAttr {
		t.Errorf("Get: status %v", status(b))
	}
	if n := len(paths(t, multi(counts, wire.MultiPathRecord{SGIDCount: 3, DGIDCount: 3}, g(0), g(1), g(2), g(5), g(6), g(7)))); n != 127 {
		t.Errorf("%d paths without NumbPath, want 127 of 144", n)
	}
	two := wire.MultiPathRecord{SGIDCount: 2, DGIDCount: 2, NumbPath: 2}
	got := paths(t, multi(counts|wire.MultiPathCompNumbPath, two, g(0), g(4), g(8), g(12)))
	if len(got) != 2 || got[0].SGID == got[1].SGID || got[0].DGID == got[1].DGID {
		t.Fatalf("two disjoint paths: %+v", got)
	}
	var seen [2]map[string]bool
	for i, p := range got {
		seen[i] = map[string]bool{}
		hops, ok := s.Trace(s.PortByLID(p.SLID), p.DLID, nil)
		for _, h := range hops {
			if seen[i][s.Nodes[h.Node].Desc] = true; seen[1-i][s.Nodes[h.Node].Desc] {
				t.Errorf("both paths cross %s", s.Nodes[h.Node].Desc)
			}
		}
		if !ok || len(hops) != 3 {
			t.Errorf("path %d: %d switches", i, len(hops))
		}
	}
	// Twice the same port, as osmtest asks.
	if st := status(multi(counts|wire.MultiPathCompNumbPath, two, g(0), g(0), g(0), g(0))); st != 0 {
		t.Errorf("one port four times: status %v", st)
	}
}

// TestTrace: every node of a path, in order, with the ports that it takes.
func TestTrace(t *testing.T) {
	s := fabricSnapshot(t, updn.Engine{}, 0, 1, "xgft", "2", "4,4", "1,2")
	src, dst := s.EndPortPort[0], s.EndPortPort[15]
	trace := func(from, to int32) (out []string) {
		r := wire.PathRecord{SGID: s.GID(from), DGID: s.GID(to)}
		for _, attr := range []ib.AttrID{wire.AttrTraceRecord, wire.AttrPathRecord} {
			b := asker{t, source(s), s.Ports[src].LID}.raw(ib.MethodGetTraceTable, attr, pathEnds, &r)
			if b[3] != byte(ib.MethodGetTraceTblResp) || binary.BigEndian.Uint16(b[16:]) != uint16(wire.AttrTraceRecord) {
				t.Errorf("method %#x, attribute %x", b[3], b[16:18])
			}
			out = nil
			for _, rec := range records(t, b) {
				var x wire.TraceRecord
				if err := x.Decode(rec); err != nil {
					t.Fatal(err)
				}
				out = append(out, fmt.Sprintf("%v %d>%d", ib.GUID(x.NodeID), x.EntryPort, x.ExitPort))
			}
		}
		return out
	}
	want := []string{fmt.Sprintf("%v 0>1", s.Nodes[s.Ports[src].Node].Info.NodeGUID)}
	hops, _ := s.Trace(src, s.Ports[dst].LID, nil)
	for _, h := range hops {
		want = append(want, fmt.Sprintf("%v %d>%d", s.Nodes[h.Node].Info.NodeGUID, h.In, h.Out))
	}
	want = append(want, fmt.Sprintf("%v 1>0", s.Nodes[s.Ports[dst].Node].Info.NodeGUID))
	if got := trace(src, dst); len(hops) != 3 || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("trace %v, want %v", got, want)
	}
	sw := s.Nodes[s.SwitchNode[0]].First
	if got := trace(sw, sw); len(got) != 1 {
		t.Errorf("a switch to itself: %v", got)
	}
	if got := trace(src, src); len(got) != 1 {
		t.Errorf("a host to itself: %v", got)
	}
	if got := trace(src, sw); len(got) != len(hops)-1 && len(got) != 2 && len(got) != 4 {
		t.Errorf("a host to a switch: %v", got)
	}
	// Who is of another partition is not named.
	for i := range s.Ports {
		if s.Nodes[s.Ports[i].Node].SwitchIndex >= 0 {
			s.Ports[i].PKeys = []ib.PKey{0x8002}
		}
	}
	if got := trace(src, dst); len(got) != len(want) || !strings.HasPrefix(got[1], ib.GUID(0).String()) {
		t.Errorf("over switches of another partition: %v", got)
	}
}
