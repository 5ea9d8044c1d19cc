package sm

import (
	"cmp"
	"slices"

	"heddle/fabric"
	"heddle/ib"
	"heddle/sm/topo"
)

// listGraph lists what is part of the subnet: switches and end ports with a
// LID.
func (c *Core) listGraph() {
	f := c.Fabric
	f.SwitchNode = f.SwitchNode[:0]
	for i := range f.Nodes {
		f.Nodes[i].GraphSwitch = -1
		if n := &f.Nodes[i]; n.IsSwitch() && n.OK() && f.PortOf(int32(i), 0).LID != 0 {
			f.SwitchNode = append(f.SwitchNode, int32(i))
		}
	}
	f.EndPort = f.EndPort[:0]
	for i := range f.Ports {
		if f.Ports[i].LID != 0 {
			f.EndPort = append(f.EndPort, int32(i))
		}
	}
	c.sortLists()
}

// sortLists puts switches in node-GUID order and end ports in port-GUID order.
func (c *Core) sortLists() {
	slices.SortFunc(c.Fabric.SwitchNode, c.bySwitch)
	slices.SortFunc(c.Fabric.EndPort, c.byEndPort)
}

func (c *Core) bySwitch(a, b int32) int {
	return cmp.Compare(c.Fabric.Nodes[a].Info.NodeGUID, c.Fabric.Nodes[b].Info.NodeGUID)
}

func (c *Core) byEndPort(a, b int32) int {
	return cmp.Or(cmp.Compare(c.Fabric.Ports[a].GUID, c.Fabric.Ports[b].GUID), cmp.Compare(a, b))
}

// buildGraph makes the dense graph of what is listed.
func (c *Core) buildGraph() {
	f := c.Fabric
	g := &fabric.Graph{}
	slots := 0
	for s, ni := range f.SwitchNode {
		f.Nodes[ni].GraphSwitch = int32(s)
		slots += int(f.Nodes[ni].Info.NumPorts) + 1
	}
	g.EndPorts = make([]fabric.EndPort, len(f.EndPort))
	p0 := make([]int32, len(f.SwitchNode))
	for e, pi := range f.EndPort {
		p := &f.Ports[pi]
		n := &f.Nodes[p.Node]
		ep := fabric.EndPort{
			GUID: p.GUID, NodeGUID: n.Info.NodeGUID, Type: n.Info.NodeType,
			PortNum: p.Num, Switch: -1, LID: p.LID, LMC: p.LMC,
		}
		switch {
		case n.IsSwitch():
			ep.Switch = n.GraphSwitch
			p0[n.GraphSwitch] = int32(e)
		case p.Has(topo.PortLinked):
			ep.MTU, ep.Gbps = p.Info.NeighborMTU, float32(c.rate(p).Gbps())
			if q := &f.Nodes[p.Peer.Node]; q.GraphSwitch >= 0 {
				ep.Switch, ep.Port = q.GraphSwitch, p.Peer.Port
			}
		}
		g.EndPorts[e] = ep
		g.TopLID = max(g.TopLID, p.LID+ib.LID(1)<<p.LMC-1)
	}
	g.LIDOwner = make([]int32, int(g.TopLID)+1)
	for i := range g.LIDOwner {
		g.LIDOwner[i] = fabric.NoLID
	}
	for e := range g.EndPorts {
		ep := &g.EndPorts[e]
		for l := range 1 << ep.LMC {
			g.LIDOwner[int(ep.LID)+l] = int32(e)
		}
	}

	g.Switches = make([]fabric.SwitchNode, len(f.SwitchNode))
	g.Off = make([]int32, len(f.SwitchNode)+1)
	g.PortChannel = make([][]int32, len(f.SwitchNode))
	slab := make([]int32, slots)
	if f.Graph != nil {
		g.Channels = make([]fabric.Channel, 0, len(f.Graph.Channels)+256)
	}
	for s, ni := range f.SwitchNode {
		n := &f.Nodes[ni]
		np := int(n.Info.NumPorts) + 1
		g.Switches[s] = fabric.SwitchNode{
			GUID: n.Info.NodeGUID, NumPorts: n.Info.NumPorts,
			LinearFDBCap: n.Switch.LinearFDBCap, EndPort: p0[s],
		}
		g.PortChannel[s], slab = slab[:np:np], slab[np:]
		g.Off[s] = int32(len(g.Channels))
		g.Channels = c.channels(int32(s), g.Channels)
	}
	g.Off[len(f.SwitchNode)] = int32(len(g.Channels))
	linkChannels(g)
	f.Graph = c.grantLIDs(g)
	c.routing.regrant = false
}

// channels appends the channels that leave switch s of the graph.
func (c *Core) channels(s int32, list []fabric.Channel) []fabric.Channel {
	f := c.Fabric
	ni := f.SwitchNode[s]
	ports := f.NodePorts(ni)
	for num := 1; num < len(ports); num++ {
		p := &ports[num]
		if !p.Has(topo.PortLinked) || p.Peer.Node == ni {
			continue
		}
		q := &f.Nodes[p.Peer.Node]
		if q.GraphSwitch < 0 {
			continue
		}
		list = append(list, fabric.Channel{
			From: s, To: q.GraphSwitch, OutPort: uint8(num),
			InPort: p.Peer.Port, Rev: -1, VLs: c.lanes(p), MTU: p.Info.NeighborMTU, Gbps: float32(c.rate(p).Gbps()),
		})
	}
	return list
}

// linkChannels fills PortChannel, whose rows are there, and the way back of
// each channel.
func linkChannels(g *fabric.Graph) {
	for _, row := range g.PortChannel {
		for i := range row {
			row[i] = -1
		}
	}
	for i := range g.Channels {
		ch := &g.Channels[i]
		g.PortChannel[ch.From][ch.OutPort] = int32(i)
	}
	for i := range g.Channels {
		ch := &g.Channels[i]
		ch.Rev = g.PortChannel[ch.To][ch.InPort]
	}
}

// lanes is how many data lanes a link has or will have.
func (c *Core) lanes(p *topo.Port) uint8 {
	q := c.Fabric.Port(p.Peer)
	code := min(max(p.Info.VLCap, 1), max(q.Info.VLCap, 1), c.Config.MaxOpVLs)
	if p.Info.PortState >= ib.StateArmed && p.Info.OperationalVLs != 0 {
		code = min(code, p.Info.OperationalVLs)
	}
	return uint8(max(ib.VLsOf(code), 1))
}

// rate is the rate of a link. On a switch the capability bits that say which
// speed field counts are those of port 0.
func (c *Core) rate(p *topo.Port) ib.Rate {
	mask := c.Fabric.AgentPort(p.Node, p.Num).Info.CapabilityMask
	return ib.RateOf(p.Info.LinkWidthActive, p.Info.ActiveSpeedOf(mask, false))
}
