package lane

import (
	"heddle/ib"
	"heddle/ib/smp"
	"heddle/sm/forward"
	"heddle/sm/topo"
	"heddle/sm/work"
)

// An earlier master may have died while its tables discarded packets (guards of a transition). A
// manager whose tables use several VLs finds that when it sets all tables up. One whose tables use
// a single VL sets none up; it looks for what was left between sweeps, once in a mastership of a
// subnet that ran before: at the tables from links to links between switches, the only ones that a
// transition guards. What discards service level 0 is set in the sweep that follows.

// left is the search for tables of an earlier manager.
type left struct {
	nodes []ib.GUID // switches that are still to be looked at
	at    int       // the next table of the first
	found []forward.LaneKey
}

// suspect begins the search if data may flow that an earlier manager let in.
func (t *Tables) suspect() {
	f := t.Fabric
	runs := false
	for _, ni := range f.SwitchNode {
		n := &f.Nodes[ni]
		for num := 1; num <= int(n.Info.NumPorts); num++ {
			runs = runs || f.PortOf(ni, uint8(num)).Info.PortState >= ib.StateArmed
		}
	}
	t.left = left{}
	if !runs {
		return
	}
	for _, ni := range f.SwitchNode {
		t.left.nodes = append(t.left.nodes, f.Nodes[ni].Info.NodeGUID)
	}
}

// turns reports whether packets of other switches can come in and leave by these ports of a
// switch, also if one has no link just now: only such tables are ever guards.
func (t *Tables) turns(ni int32, in, out uint8) bool {
	toHost := func(num uint8) bool {
		p := t.Fabric.PortOf(ni, num)
		return p.Has(topo.PortLinked) && !t.Fabric.Nodes[p.Peer.Node].IsSwitch()
	}
	return in != out && in > 0 && out > 0 && !toHost(in) && !toHost(out)
}

// search adds items for tables that an earlier manager may have left, until the phase has most.
func (t *Tables) search(most int) {
	x := &t.left
	for ; len(x.nodes) > 0 && !t.Matter(); x.nodes, x.at = x.nodes[1:], 0 {
		ni, ok := t.Fabric.Find(x.nodes[0])
		if !ok || !t.Fabric.Nodes[ni].OK() || t.reading[x.nodes[0]] {
			continue // it is gone, or all its tables are to be read
		}
		ports := int(t.Fabric.Nodes[ni].Info.NumPorts) + 1
		l := t.of(ni)
		for ; x.at < ports*ports; x.at++ {
			in, out := uint8(x.at/ports), uint8(x.at%ports)
			if l.sl[x.at] != 0 || !t.turns(ni, in, out) {
				continue
			}
			if t.Pending >= most {
				return
			}
			if t.Fabric.AgentPort(ni, out).Info.CapabilityMask.Has(ib.CapIsSLMappingSupported) {
				t.Add(work.Make(work.OpReadSL, ni, out, uint32(in)))
			}
		}
	}
	if t.Matter() {
		*x = left{} // all tables are set up
	}
}

// judge looks at a table of a switch that was read between sweeps.
func (t *Tables) judge(it work.Item, row *smp.SLtoVL) {
	ni, in, out := it.Node(), uint8(it.Extra()), it.Port()
	if t.Matter() || row[0] != 15 || !t.turns(ni, in, out) {
		return
	}
	t.left.found = append(t.left.found, forward.LaneKey{Node: t.Fabric.Nodes[ni].Info.NodeGUID, In: in, Out: out})
	t.Sweeper.AskSweep("SL-to-VL tables of an earlier manager discard packets")
}

// mend adds items that set what was found.
func (t *Tables) mend() {
	for _, k := range t.left.found {
		if ni, ok := t.Fabric.Find(k.Node); ok {
			t.Add(work.Make(work.OpSetSL, ni, k.Out, uint32(k.In)))
		}
	}
}

// returned adds items that set tables of the turns from and to a port whose link comes up. A
// transition leaves out turns of lost links, so what a switch holds there may be a guard of an
// earlier one. Only tables that are known to differ are set; those of packets to the port only if
// to says so.
func (t *Tables) returned(p *topo.Port, to bool) {
	n := &t.Fabric.Nodes[p.Node]
	l := t.byNode[n.Info.NodeGUID]
	if l == nil || !n.IsSwitch() || p.Info.PortState != ib.StateInit {
		return
	}
	ports := int(n.Info.NumPorts) + 1
	for i := 1; i < ports; i++ {
		num := uint8(i)
		if to {
			t.differs(p.Node, l, num, p.Num)
		}
		if t.Fabric.PortOf(p.Node, num).Info.PortState != ib.StateInit {
			t.differs(p.Node, l, p.Num, num)
		}
	}
}

// differs adds an item for a table of a switch that is known and not as wanted.
func (t *Tables) differs(ni int32, l *nodeTables, in, out uint8) {
	row := l.sl[int(in)*(int(t.Fabric.Nodes[ni].Info.NumPorts)+1)+int(out)]
	if row == 0 || row == unreadable || !t.turns(ni, in, out) || !t.Fabric.PortOf(ni, out).Has(topo.PortLinked) {
		return
	}
	if t.rows.sl[row-1] != t.wantedSL(ni, in, out) {
		t.Add(work.Make(work.OpSetSL, ni, out, uint32(in)))
	}
}
