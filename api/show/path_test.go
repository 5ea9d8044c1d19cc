package show

import (
	"strings"
	"testing"

	"heddle/fabric"
	"heddle/ib"
	"heddle/internal/fabrictest"
	"heddle/internal/snaptest"
	"heddle/route"
	"heddle/route/engine/minhop"
	"heddle/subnet"
)

// routed is a ring of four switches with a host each, and its tables.
func routed(t *testing.T, change func(s *subnet.Snapshot, tb *route.Tables)) *subnet.Snapshot {
	t.Helper()
	f, err := fabrictest.Generate("mesh", []string{"4"}, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := fabric.AssignLIDs(f, 1); err != nil {
		t.Fatal(err)
	}
	g, err := f.Graph(fabric.GraphOptions{VLs: 1})
	if err != nil {
		t.Fatal(err)
	}
	tb, err := minhop.Engine{}.Compute(g, route.Options{Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	s := snaptest.With(f, g, tb)
	if change != nil {
		change(s, tb)
	}
	return s
}

// TestTrace: both ways, switch by switch, with ports and lanes; a circle, a missing entry and a cable
// that is not active are said.
func TestTrace(t *testing.T) {
	s := routed(t, func(s *subnet.Snapshot, _ *route.Tables) {
		for _, p := range s.Ports {
			p.Info.OperationalVLs = 1
		}
	})
	there, err := Trace(s, nil, "host-1", "host-4")
	if err != nil || there.Broken != "" || len(there.Hops) != 4 || there.Back == nil || len(there.Back.Hops) != 4 || there.Differs {
		t.Fatalf("%+v, %v", there, err)
	}
	for i, h := range there.Hops {
		if b := there.Back.Hops[3-i]; b.GUID != h.GUID || b.In != h.Out || b.Out != h.In || h.VL == nil || *h.VL != 0 {
			t.Errorf("hop %d: %+v, back %+v", i, h, b)
		}
	}
	if there.VL == nil || there.From.Node == "" || there.Hops[0].In == 0 {
		t.Errorf("the first cable: %+v", there)
	}
	if p, err := Path(s, nil, "host-1", "host-4"); err != nil || p.Back != nil || len(p.Hops) != 4 {
		t.Errorf("Path: %+v, %v", p, err)
	}

	lid := ib.LID(there.To.LID)
	node := func(s *subnet.Snapshot, hop int) int32 {
		for i := range s.Nodes {
			if s.Nodes[i].Info.NodeGUID.String() == there.Hops[hop].GUID {
				return int32(i)
			}
		}
		return -1
	}
	for _, c := range []struct {
		change func(s *subnet.Snapshot, tb *route.Tables)
		want   string
		hops   int
		loop   bool
	}{
		{func(s *subnet.Snapshot, tb *route.Tables) { tb.LFT[s.Nodes[node(s, 2)].SwitchIndex][lid] = route.Drop }, "has no entry for LID", 2, false},
		{func(s *subnet.Snapshot, tb *route.Tables) { tb.LFT[s.Nodes[node(s, 2)].SwitchIndex][lid] = 99 }, "which is no port of it", 2, false},
		{func(s *subnet.Snapshot, tb *route.Tables) {
			tb.LFT[s.Nodes[node(s, 2)].SwitchIndex][lid] = byte(there.Hops[2].In)
		}, "lead in a circle", 4, true},
		{func(s *subnet.Snapshot, tb *route.Tables) { tb.LFT[s.Nodes[node(s, 2)].SwitchIndex][lid] = 0 }, "its own port 0", 3, false},
		{func(s *subnet.Snapshot, _ *route.Tables) {
			s.Port(subnet.Ref{Node: node(s, 1), Port: uint8(there.Hops[1].Out)}).Info.PortState = ib.StateInit
			s.Finish()
		}, "is not active", 2, false},
	} {
		s := routed(t, c.change)
		p, err := Trace(s, nil, "host-1", "host-4")
		if err != nil || !strings.Contains(p.Broken, c.want) || len(p.Hops) != c.hops || p.Loop != c.loop || !p.Differs && c.hops != 4 {
			t.Errorf("%s: %d hops, loop %v, %q, %v", c.want, len(p.Hops), p.Loop, p.Broken, err)
		}
		if _, err := Path(s, nil, "host-1", "host-4"); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("Path: %v", err)
		}
	}
	if _, err := Trace(s, nil, "host-1", "nobody"); err == nil {
		t.Error("a path to nobody")
	}
}
