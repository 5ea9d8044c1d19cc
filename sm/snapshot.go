package sm

import (
	"cmp"
	"slices"

	"heddle/ib"
	"heddle/sm/topo"
	"heddle/subnet"
)

// Publish builds a snapshot of what is known and hands it out.
func (c *Core) Publish() {
	if c.takeover.Answers() {
		c.PublishState() // what the predecessor published stands until the subnet is read
		return
	}
	s := c.buildSnapshot()
	c.shown.gen++
	s.Gen = c.shown.gen
	s.Finish()
	c.Snapshot = s
	c.out.Publish = s
}

// PublishState publishes the last snapshot again with our new state.
func (c *Core) PublishState() {
	s := &subnet.Snapshot{}
	if c.Snapshot != nil {
		*s = *c.Snapshot
	} else {
		s.Self = subnet.NoRef()
	}
	c.fillHead(s)
	if c.State != subnet.Master {
		s.Up = false
	}
	c.shown.gen++
	s.Gen = c.shown.gen
	if c.Snapshot == nil {
		s.Finish()
	}
	c.Snapshot = s
	c.out.Publish = s
}

// PublishPort publishes the last snapshot with what is known of a port now.
func (c *Core) PublishPort(node int32, port uint8) {
	old := c.Snapshot
	if old == nil || c.SnapshotFabric != c.Fabric || old.Graph == nil {
		c.shown.ports = true
		return
	}
	s := &subnet.Snapshot{}
	*s = *old
	c.fillHead(s)
	q := s.Edit(old, old.Nodes[c.SnapshotIndex[node]].First+int32(port))
	q.Info = c.Fabric.PortOf(node, port).Info
	q.Info.MKey = 0
	s.Carry(old, nil)
	c.shown.gen++
	s.Gen = c.shown.gen
	c.Snapshot = s
	c.out.Publish = s
}

func (c *Core) fillHead(s *subnet.Snapshot) {
	s.State, s.Up, s.Warm = c.State, c.Up, c.takeover.Answers()
	s.Prefix, s.PortGUID, s.Priority = c.Config.Prefix, c.Config.PortGUID, c.Config.Priority
	s.SMKey, s.ActCount = c.Config.SMKey, c.ActCount
	c.router.Show(s)
	s.PacketLife = c.Config.SubnetTimeOut
	s.Partitions, s.BasePartitions = c.pkeys.InForce(), c.pkeys.Base()
	s.Kept = c.keeping.list
	s.LID = c.OwnLID()
	s.Master = subnet.SM{}
	switch {
	case c.State == subnet.Master && !c.WaitHandover:
		s.Master = subnet.SM{GUID: c.Config.PortGUID, LID: s.LID, Priority: c.Config.Priority, State: subnet.Master, ActCount: c.ActCount}
	case c.mastership.Master().GUID != 0:
		s.Master = c.mastership.Master()
	}
	s.SMs = nil
	for _, o := range c.mastership.Others() {
		s.SMs = append(s.SMs, o.Public())
	}
}

// snapPort is a port as a snapshot shows it; at gives the snapshot's index of
// a node.
func (c *Core) snapPort(at []int32, p *topo.Port) subnet.Port {
	f := c.Fabric
	q := subnet.Port{
		GUID: p.GUID, Info: p.Info, Peer: subnet.NoRef(), Node: at[p.Node], EndPort: -1,
		Num: p.Num, Known: p.Has(topo.PortKnown), LID: p.LID, LMC: p.LMC, Held: p.Has(topo.PortHeld), Aliases: c.placements.AliasesOf(p),
		Placed: c.placements.LIDOwnerAt(p.GUID, p.LID), PKeys: c.pkeys.ShownAt(p), Adapter: c.vports.ShownAdapter(p),
	}
	q.Info.MKey = 0 // keys are nobody's business
	if f.Nodes[p.Node].IsSwitch() && p.Num > 0 {
		p0 := f.PortOf(p.Node, 0)
		q.GUID, q.LID, q.LMC, q.Placed = p0.GUID, p0.LID, p0.LMC, 0
	}
	if p.Has(topo.PortLinked) {
		q.Peer = ref{Node: at[p.Peer.Node], Port: p.Peer.Port}
		q.Rate = c.Fabric.Rate(p)
		q.MTU = p.Info.NeighborMTU
	}
	if q.MTU < 1 || q.MTU > 5 {
		q.MTU = min(max(p.Info.MTUCap, 1), 5)
	}
	if q.Rate == 0 && p.Num == 0 {
		// Port 0 of a switch has no link, but may say how fast it is.
		if q.Rate = c.Fabric.Rate(p); q.Rate == 0 {
			q.Rate = ib.RateOf(ib.Width4x, ib.SpeedSDR)
		}
	}
	return q
}

// buildSnapshot returns what is known of the subnet.
func (c *Core) buildSnapshot() *subnet.Snapshot {
	f := c.Fabric
	s := &subnet.Snapshot{Self: subnet.NoRef(), SweepNanos: int64(c.Now.Sub(c.sweep.start))}
	c.fillHead(s)
	if f == nil {
		return s
	}
	s.Problems = append(c.links.Problems(), f.Problems...)
	portAt := c.showNodes(s)
	c.absent.Show(s)
	c.guids.AllShown()
	c.pkeys.AllShown()
	if f.Self.Node >= 0 {
		s.Self = ref{Node: c.SnapshotIndex[f.Self.Node], Port: f.Self.Port}
	}
	if f.Graph == nil {
		showForeignLIDs(s)
		return s
	}
	s.Graph, s.Tables = f.Graph, c.install.Told()
	c.shown.moved, c.shown.ports = false, false
	s.SwitchNode = make([]int32, len(f.SwitchNode))
	for i, ni := range f.SwitchNode {
		s.SwitchNode[i] = c.SnapshotIndex[ni]
		s.Nodes[c.SnapshotIndex[ni]].SwitchIndex = int32(i)
	}
	s.EndPortPort = make([]int32, len(f.EndPort))
	for e, pi := range f.EndPort {
		s.EndPortPort[e] = portAt[pi]
		q := s.Ports[portAt[pi]]
		q.EndPort, q.LID, q.LMC = int32(e), f.Graph.EndPorts[e].LID, f.Graph.EndPorts[e].LMC
		q.Placed = c.placements.LIDOwnerAt(q.GUID, q.LID)
	}
	c.vports.Append(s)
	c.lanes.Show(s)
	c.install.ShowMulticast(s)
	if s.Tables != nil && s.Tables.Switches() != len(f.SwitchNode) {
		s.Tables = nil // of another set of switches: nothing was installed for this one
	}
	return s
}

// showNodes puts the nodes and their ports into s, in the order of node GUIDs. It notes their
// indices there in Env, and returns those of the ports.
func (c *Core) showNodes(s *subnet.Snapshot) (portAt []int32) {
	f := c.Fabric
	order := make([]int32, 0, len(f.Nodes)) // snapshot index → index in f
	for i := range f.Nodes {
		if f.Nodes[i].Flags&topo.NodeGone == 0 {
			order = append(order, int32(i))
		}
	}
	slices.SortFunc(order, func(a, b int32) int { return cmp.Compare(f.Nodes[a].Info.NodeGUID, f.Nodes[b].Info.NodeGUID) })
	at := make([]int32, len(f.Nodes)) // index in f → snapshot index
	for i, o := range order {
		at[o] = int32(i)
	}
	s.Nodes = make([]subnet.Node, len(order))
	s.Ports = make([]*subnet.Port, 0, len(f.Ports))
	all := make([]subnet.Port, len(f.Ports)) // one allocation
	portAt = make([]int32, len(f.Ports))
	paths := slices.Clone(f.Paths)
	for i, o := range order {
		n := &f.Nodes[o]
		s.Nodes[i] = subnet.Node{
			Info: n.Info, Desc: n.Desc, Said: n.Said, First: int32(len(s.Ports)), SwitchIndex: -1, Switch: n.Switch,
			Path: paths[n.Path.Off : n.Path.Off+uint32(n.Path.N) : n.Path.Off+uint32(n.Path.N)], OK: n.OK(),
			Unseen: n.Flags&topo.NodeUnseen != 0,
		}
		for k := range f.NodePorts(o) {
			portAt[int(n.First)+k] = int32(len(s.Ports))
			p := &all[len(s.Ports)]
			*p = c.snapPort(at, f.PortOf(o, uint8(k)))
			s.Ports = append(s.Ports, p)
		}
	}
	c.SnapshotFabric, c.SnapshotIndex = f, at
	return portAt
}

// showForeignLIDs shows the LIDs that ports have in a subnet that is not ours to manage.
func showForeignLIDs(s *subnet.Snapshot) {
	e := int32(0)
	for i := range s.Ports {
		if p := s.Ports[i]; p.LID == 0 && p.Known && p.Info.LID.IsUnicast() && (p.Num == 0 || s.Nodes[p.Node].Info.NodeType != ib.NodeSwitch) {
			p.LID, p.LMC, p.EndPort = p.Info.LID, p.Info.LMC, e
			e++
		}
	}
}
