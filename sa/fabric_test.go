package sa_test

import (
	"testing"

	"heddle/fabric"
	"heddle/ib"
	"heddle/ib/smp"
	"heddle/internal/fabrictest"
	"heddle/route"
	"heddle/subnet"
)

// fabricSnapshot is a snapshot of a generated fabric as a manager publishes it
// that routed it with an engine: every link Active, LIDs in ascending port-GUID
// order, everybody a full member of the default partition.
func fabricSnapshot(tb testing.TB, e route.Engine, lmc uint8, vls uint8, kind string, params ...string) *subnet.Snapshot {
	tb.Helper()
	f, err := fabrictest.Generate(kind, params, 1)
	if err != nil {
		tb.Fatal(err)
	}
	lid := ib.LID(1 << lmc)
	for _, r := range f.EndPortRefs(fabric.GraphOptions{}) {
		p := f.Port(r)
		if p.LID, p.LMC = lid, lmc; r.Port == 0 {
			p.LMC = 0
		}
		lid += 1 << lmc
	}
	g, err := f.Graph(fabric.GraphOptions{VLs: vls})
	if err != nil {
		tb.Fatal(err)
	}
	t, err := e.Compute(g, route.Options{Workers: 2})
	if err != nil {
		tb.Fatal(err)
	}
	s := &subnet.Snapshot{
		Gen: 1, State: subnet.Master, Up: true, Prefix: ib.DefaultSubnetPrefix, PacketLife: 18, Self: subnet.NoRef(), SMKey: 7,
		Graph: g, Tables: t, EndPortPort: make([]int32, len(g.EndPorts)),
	}
	keys := []ib.PKey{ib.PKeyDefaultFull}
	first := make([]int32, len(f.Nodes))
	for i := range f.Nodes {
		n := &f.Nodes[i]
		first[i] = int32(len(s.Ports))
		s.Nodes = append(s.Nodes, subnet.Node{
			Desc: n.Desc, First: first[i], SwitchIndex: -1, OK: true,
			Info: smp.NodeInfo{NodeType: n.Type, NumPorts: uint8(n.NumPorts), NodeGUID: n.GUID, PortGUID: n.GUID, SystemImageGUID: n.SystemImageGUID},
		})
		for k := range n.Ports {
			p := n.Ports[k]
			q := subnet.Port{
				GUID: p.GUID, Peer: subnet.Ref{Node: p.Peer.Node, Port: p.Peer.Port}, Node: int32(i), EndPort: -1, LID: p.LID, LMC: p.LMC,
				Num: uint8(k), MTU: ib.MTU4096, Rate: ib.RateOf(p.Width, p.Speed), Known: true, PKeys: keys,
			}
			if n.Type == ib.NodeSwitch {
				q.GUID, q.LID, q.LMC = n.GUID, n.Ports[0].LID, n.Ports[0].LMC
			}
			if q.Rate == 0 {
				q.Rate = ib.Rate100
			}
			q.Info.PortState, q.Info.GUIDCap = ib.StateActive, 32
			s.Ports = append(s.Ports, &q)
		}
	}
	for i, n := range f.SwitchNodes() {
		s.Nodes[n].SwitchIndex = int32(i)
		s.SwitchNode = append(s.SwitchNode, n)
	}
	for i, r := range f.EndPortRefs(fabric.GraphOptions{}) {
		pi := first[r.Node] + int32(r.Port)
		s.EndPortPort[i], s.Ports[pi].EndPort = pi, int32(i)
		if g.EndPorts[i].LID != s.Ports[pi].LID {
			tb.Fatalf("end port %d of the graph has LID %v, port %v has %v", i, g.EndPorts[i].LID, s.Ports[pi].GUID, s.Ports[pi].LID)
		}
	}
	s.Finish()
	return s
}
