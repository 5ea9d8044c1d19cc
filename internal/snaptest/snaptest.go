// Package snaptest makes snapshots of subnets that no manager brought up, for tests of what reads
// snapshots.
package snaptest

import (
	"slices"
	"testing"

	"heddle/fabric"
	"heddle/ib"
	"heddle/route"
	"heddle/subnet"
)

// New is a subnet that is up: all links are Active, and have vls data lanes. The tables are those
// of an engine. It gives LIDs to f.
func New(tb testing.TB, f *fabric.Fabric, e route.Engine, vls uint8) *subnet.Snapshot {
	tb.Helper()
	if err := fabric.AssignLIDs(f, 1); err != nil {
		tb.Fatal(err)
	}
	o := fabric.GraphOptions{VLs: vls}
	g, err := f.Graph(o)
	if err != nil {
		tb.Fatal(err)
	}
	t, err := e.Compute(g, route.Options{Workers: 1})
	if err != nil {
		tb.Fatal(err)
	}
	return With(f, g, t)
}

// With is a snapshot of a fabric with a graph of it and tables.
func With(f *fabric.Fabric, g *fabric.Graph, t *route.Tables) *subnet.Snapshot {
	s := &subnet.Snapshot{Gen: 1, Up: true, State: subnet.Master, Prefix: ib.DefaultSubnetPrefix, Graph: g, Tables: t, Self: subnet.NoRef()}
	order := make([]int, len(f.Nodes))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		if f.Nodes[a].GUID < f.Nodes[b].GUID {
			return -1
		}
		return 1
	})
	at := make([]int32, len(order))
	for k, i := range order {
		at[i] = int32(k)
	}
	switches := int32(0)
	for k, i := range order {
		n := &f.Nodes[i]
		x := subnet.Node{Desc: n.ID, First: int32(len(s.Ports)), SwitchIndex: -1, OK: true}
		x.Info.NodeType, x.Info.NodeGUID, x.Info.NumPorts = n.Type, n.GUID, uint8(n.NumPorts)
		if n.IsSwitch() {
			x.SwitchIndex = switches
			switches++
			s.SwitchNode = append(s.SwitchNode, int32(k))
		}
		for p := range n.NumPorts + 1 {
			fp := &n.Ports[p]
			y := &subnet.Port{GUID: fp.GUID, Node: int32(k), Num: uint8(p), Peer: subnet.NoRef(), EndPort: -1, LID: fp.LID, LMC: fp.LMC, Known: true, MTU: ib.MTU4096, Rate: ib.Rate40}
			y.Info.PortState, y.Info.PortPhysicalState = ib.StateActive, ib.PhysLinkUp
			y.Info.LinkWidthActive, y.Info.LinkSpeedActive = ib.Width4x, ib.SpeedBitDDR
			y.PKeys = []ib.PKey{ib.PKeyDefaultFull}
			if fp.Peer.Node >= 0 {
				y.Peer = subnet.Ref{Node: at[fp.Peer.Node], Port: fp.Peer.Port}
			}
			if n.IsSwitch() && p > 0 {
				y.GUID, y.LID = n.Ports[0].GUID, n.Ports[0].LID
			}
			s.Ports = append(s.Ports, y)
		}
		s.Nodes = append(s.Nodes, x)
	}
	for e := range g.EndPorts {
		x := &g.EndPorts[e]
		n := s.NodeByGUID(x.NodeGUID)
		i := s.Nodes[n].First + int32(x.PortNum)
		s.EndPortPort = append(s.EndPortPort, i)
		s.Ports[i].EndPort = int32(e)
	}
	s.Finish()
	return s
}
