package takeover

import (
	"cmp"
	"slices"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/sm/topo"
	"heddle/subnet"
)

// chart is a snapshot as a topology, with directed routes from our own port. Nodes that no Active
// link reaches are not in it.
type chart struct {
	s     *subnet.Snapshot
	key   func(port ib.GUID) ib.MKey
	f     *topo.Topology
	at    []int32 // by node of f: index in the snapshot's Nodes
	hops  []uint8 // by node of f: links crossed
	index []int32 // by node of the snapshot: 1 + node of f
}

// draw makes the chart of a snapshot for the manager at a port, or, if near is set, of the node of that
// port alone. ok is false if the snapshot does not show the port, or shows it without an Active link.
func draw(s *subnet.Snapshot, self ib.GUID, key func(port ib.GUID) ib.MKey, near bool) (c chart, ok bool) {
	i := s.PortByPortGUID(self)
	if i < 0 || i >= s.FirstVPort() || s.Ports[i].LID == 0 {
		return c, false
	}
	own := s.Ports[i]
	if own.Num > 0 && !carries(s, own) {
		return c, false
	}
	c = chart{s: s, key: key, f: topo.New(nil), index: make([]int32, len(s.Nodes))}
	if !near {
		c.f = &topo.Topology{
			Nodes: make([]topo.Node, 0, len(s.Nodes)), Ports: make([]topo.Port, 0, int(s.FirstVPort())),
			ByGUID: make(map[ib.GUID]int32, len(s.Nodes)), Self: subnet.NoRef(), Paths: make([]byte, 0, 8*len(s.Nodes)),
		}
		c.at, c.hops = make([]int32, 0, len(s.Nodes)), make([]uint8, 0, len(s.Nodes))
	}
	c.add(own.Node, nil, subnet.NoRef(), 0)
	c.f.Self = subnet.Ref{Port: own.Num}
	c.f.Port(c.f.Self).Path = c.f.Nodes[0].Path
	for k := int32(0); int(k) < len(c.f.Nodes) && !near; k++ {
		c.explore(k)
	}
	return c, true
}

// carries reports whether the link at a port carries data.
func carries(s *subnet.Snapshot, p *subnet.Port) bool {
	q := s.Port(p.Peer)
	return q != nil && p.State() == ib.StateActive && q.State() == ib.StateActive
}

// add adds a node of the snapshot.
func (c *chart) add(n int32, path []byte, via subnet.Ref, hops uint8) {
	nd := &c.s.Nodes[n]
	k := c.f.AddNode(&nd.Info, c.f.AddPath(path))
	c.index[n] = k + 1
	c.at, c.hops = append(c.at, n), append(c.hops, hops)
	t := &c.f.Nodes[k]
	t.Desc, t.Said, t.Switch, t.Via = nd.Desc, nd.Said, nd.Switch, via
	t.Flags = topo.NodeDesc | topo.NodeSwitchInfo
	for j, p := range c.s.NodePorts(n) {
		q := c.f.PortOf(k, uint8(j))
		q.Info, q.GUID, q.Flags = p.Info, p.GUID, 0
		if p.Known {
			q.Flags |= topo.PortKnown
		}
		if p.EndPort >= 0 {
			q.LID, q.LMC, q.MKey = p.LID, p.LMC, c.key(p.GUID)
			q.Flags |= topo.PortEnd
		}
	}
	if t.IsSwitch() {
		c.f.PortOf(k, 0).Path = t.Path
	}
}

// explore adds the links of a node and the nodes behind them.
func (c *chart) explore(k int32) {
	isSwitch := c.f.Nodes[k].IsSwitch()
	var route [smp.MaxHops]byte
	for j, p := range c.s.NodePorts(c.at[k]) {
		at := subnet.Ref{Node: k, Port: uint8(j)}
		if j == 0 || !isSwitch && at != c.f.Self || !carries(c.s, p) || int(c.hops[k]) >= smp.MaxHops {
			continue
		}
		path := append(append(route[:0], c.f.AgentPath(k, at.Port)...), at.Port)
		if c.index[p.Peer.Node] == 0 {
			c.add(p.Peer.Node, path, at, c.hops[k]+1)
		}
		far := subnet.Ref{Node: c.index[p.Peer.Node] - 1, Port: p.Peer.Port}
		if x := c.f.Port(far); !c.f.Nodes[far.Node].IsSwitch() && !x.Path.Set {
			x.Path = c.f.AddPath(path)
		}
		c.link(at, far)
	}
}

func (c *chart) link(a, b subnet.Ref) {
	p, q := c.f.Port(a), c.f.Port(b)
	p.Peer, q.Peer = b, a
	p.Flags |= topo.PortLinked
	q.Flags |= topo.PortLinked
}

// order lists the switches as they are to be checked: those with hosts first, each group the nearest
// first.
func (c *chart) order() (list []int32) {
	leaf := make([]bool, len(c.f.Nodes))
	for i := range c.f.Nodes {
		if !c.f.Nodes[i].IsSwitch() {
			continue
		}
		list = append(list, int32(i))
		for j := range c.f.NodePorts(int32(i)) {
			if p := c.f.PortOf(int32(i), uint8(j)); p.Has(topo.PortLinked) && !c.f.Nodes[p.Peer.Node].IsSwitch() {
				leaf[i] = true
			}
		}
	}
	slices.SortStableFunc(list, func(a, b int32) int {
		if leaf[a] != leaf[b] {
			if leaf[a] {
				return -1
			}
			return 1
		}
		return cmp.Compare(c.hops[a], c.hops[b])
	})
	return list
}
