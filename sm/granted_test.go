package sm

import (
	"testing"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/sm/config"
	"heddle/sm/placement"
	"heddle/sm/topo"
	"heddle/subnet"
)

// TestGrantLIDs: the graph has the LIDs of placements and functions at their ports, and leaves out
// what cannot be: ports that are not there, LIDs of others.
func TestGrantLIDs(t *testing.T) {
	c := found(100, 101, 102)
	var put []subnet.Placement
	for i, port := range []ib.GUID{101, 102, 999, 101} {
		put = append(put, subnet.Placement{GUID: 0x1000 + ib.GUID(i), Place: subnet.Place{Port: port, Function: 1}, LIDKind: subnet.OwnLID})
		c.lids.Give(put[i].GUID, 5+ib.LID(i))
	}
	c.placements.Set(placement.Change{Put: put})
	c.assignLIDs()
	c.Fabric.ListGraph()
	c.router.BuildGraph()
	c.lids.Give(0x1003, c.EndPort(102).LID)
	c.lids.SetFunction(subnet.Place{Port: 102, Function: 7}, 30)
	c.router.BuildGraph()
	for lid, want := range map[ib.LID]ib.GUID{5: 101, 6: 102, 7: 0, 30: 102, c.EndPort(102).LID: 102} {
		if got := c.router.Owner(lid); got != want {
			t.Errorf("LID %v leads to port %v, want %v", lid, got, want)
		}
	}
	if g := c.Fabric.Graph; g.TopLID != 30 {
		t.Errorf("top %v", g.TopLID)
	}
}

// found returns a core that has just discovered one switch (GUID 1) with hosts at its ports; the
// first is our own.
func found(hosts ...ib.GUID) *Core {
	c := New(config.Defaults())
	c.FirstSweep = true
	c.Fabric = topo.New(nil)
	f := c.Fabric
	add := func(ni smp.NodeInfo) int32 { return f.AddNode(&ni, f.AddPath(nil)) }
	for i, g := range hosts {
		n := add(smp.NodeInfo{NodeType: ib.NodeCA, NodeGUID: g, PortGUID: g, NumPorts: 1, LocalPortNum: 1})
		if i == 0 {
			add(smp.NodeInfo{NodeType: ib.NodeSwitch, NodeGUID: 1, PortGUID: 1, NumPorts: uint8(len(hosts))})
			f.Self = ref{Node: 0, Port: 1}
			f.Nodes[1].Switch.LinearFDBCap = 100
			f.Nodes[1].Flags |= topo.NodeSwitchInfo
			f.PortOf(1, 0).Flags |= topo.PortKnown | topo.PortEnd
		}
		p, q := f.PortOf(n, 1), f.PortOf(1, uint8(i+1))
		p.Info.PortState, q.Info.PortState = ib.StateInit, ib.StateInit
		p.Flags |= topo.PortKnown | topo.PortEnd
		q.Flags |= topo.PortKnown
		f.Join(ref{Node: n, Port: 1}, ref{Node: 1, Port: uint8(i + 1)})
	}
	f.MarkLinks()
	c.out = &Output{}
	c.Output = c.out
	return c
}
