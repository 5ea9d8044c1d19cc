package sm

import (
	"cmp"
	"slices"

	"heddle/fabric"
	"heddle/ib"
)

// listGraph lists what is part of the subnet: switches and end ports with a
// LID.
func (c *Core) listGraph() {
	f := c.f
	f.swNode = f.swNode[:0]
	for i := range f.nodes {
		f.nodes[i].gsw = -1
		if n := &f.nodes[i]; n.isSwitch() && n.ok() && f.portOf(int32(i), 0).lid != 0 {
			f.swNode = append(f.swNode, int32(i))
		}
	}
	f.epPort = f.epPort[:0]
	for i := range f.ports {
		if f.ports[i].lid != 0 {
			f.epPort = append(f.epPort, int32(i))
		}
	}
	c.sortLists()
}

// sortLists puts switches in node-GUID order and end ports in port-GUID order.
func (c *Core) sortLists() {
	slices.SortFunc(c.f.swNode, c.bySwitch)
	slices.SortFunc(c.f.epPort, c.byEndPort)
}

func (c *Core) bySwitch(a, b int32) int {
	return cmp.Compare(c.f.nodes[a].info.NodeGUID, c.f.nodes[b].info.NodeGUID)
}

func (c *Core) byEndPort(a, b int32) int {
	return cmp.Or(cmp.Compare(c.f.ports[a].guid, c.f.ports[b].guid), cmp.Compare(a, b))
}

// buildGraph makes the dense graph of what is listed.
func (c *Core) buildGraph() {
	f := c.f
	g := &fabric.Graph{}
	slots := 0
	for s, ni := range f.swNode {
		f.nodes[ni].gsw = int32(s)
		slots += int(f.nodes[ni].info.NumPorts) + 1
	}
	g.EndPorts = make([]fabric.EndPort, len(f.epPort))
	p0 := make([]int32, len(f.swNode))
	for e, pi := range f.epPort {
		p := &f.ports[pi]
		n := &f.nodes[p.node]
		ep := fabric.EndPort{
			GUID: p.guid, NodeGUID: n.info.NodeGUID, Type: n.info.NodeType,
			PortNum: p.num, Switch: -1, LID: p.lid, LMC: p.lmc,
		}
		switch {
		case n.isSwitch():
			ep.Switch = n.gsw
			p0[n.gsw] = int32(e)
		case p.has(pLinked):
			ep.MTU, ep.Gbps = p.info.NeighborMTU, float32(c.rate(p).Gbps())
			if q := &f.nodes[p.peer.Node]; q.gsw >= 0 {
				ep.Switch, ep.Port = q.gsw, p.peer.Port
			}
		}
		g.EndPorts[e] = ep
		g.TopLID = max(g.TopLID, p.lid+ib.LID(1)<<p.lmc-1)
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

	g.Switches = make([]fabric.SwitchNode, len(f.swNode))
	g.Off = make([]int32, len(f.swNode)+1)
	g.PortChannel = make([][]int32, len(f.swNode))
	slab := make([]int32, slots)
	if f.graph != nil {
		g.Channels = make([]fabric.Channel, 0, len(f.graph.Channels)+256)
	}
	for s, ni := range f.swNode {
		n := &f.nodes[ni]
		np := int(n.info.NumPorts) + 1
		g.Switches[s] = fabric.SwitchNode{
			GUID: n.info.NodeGUID, NumPorts: n.info.NumPorts,
			LinearFDBCap: n.sw.LinearFDBCap, EndPort: p0[s],
		}
		g.PortChannel[s], slab = slab[:np:np], slab[np:]
		g.Off[s] = int32(len(g.Channels))
		g.Channels = c.channels(int32(s), g.Channels)
	}
	g.Off[len(f.swNode)] = int32(len(g.Channels))
	linkChannels(g)
	f.graph = c.grantLIDs(g)
	c.regrant = false
}

// channels appends the channels that leave switch s of the graph.
func (c *Core) channels(s int32, list []fabric.Channel) []fabric.Channel {
	f := c.f
	ni := f.swNode[s]
	ports := f.nodePorts(ni)
	for num := 1; num < len(ports); num++ {
		p := &ports[num]
		if !p.has(pLinked) || p.peer.Node == ni {
			continue
		}
		q := &f.nodes[p.peer.Node]
		if q.gsw < 0 {
			continue
		}
		list = append(list, fabric.Channel{
			From: s, To: q.gsw, OutPort: uint8(num),
			InPort: p.peer.Port, Rev: -1, VLs: c.lanes(p), MTU: p.info.NeighborMTU, Gbps: float32(c.rate(p).Gbps()),
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
func (c *Core) lanes(p *port) uint8 {
	q := c.f.port(p.peer)
	code := min(max(p.info.VLCap, 1), max(q.info.VLCap, 1), c.cfg.MaxOpVLs)
	if p.info.PortState >= ib.StateArmed && p.info.OperationalVLs != 0 {
		code = min(code, p.info.OperationalVLs)
	}
	return uint8(max(ib.VLsOf(code), 1))
}

// rate is the rate of a link. On a switch the capability bits that say which
// speed field counts are those of port 0.
func (c *Core) rate(p *port) ib.Rate {
	mask := c.f.agentPort(p.node, p.num).info.CapabilityMask
	return ib.RateOf(p.info.LinkWidthActive, p.info.ActiveSpeedOf(mask, false))
}
