package sm

import (
	"cmp"
	"slices"

	"heddle/fabric"
	"heddle/ib"
)

// buildGraph makes the dense graph of what is part of the subnet: switches in
// node-GUID order, end ports with a LID in port-GUID order.
func (c *Core) buildGraph() {
	f := c.f
	g := &fabric.Graph{}
	f.swNode = f.swNode[:0]
	for i := range f.nodes {
		f.nodes[i].gsw = -1
		if n := &f.nodes[i]; n.isSwitch() && n.ok() && f.portOf(int32(i), 0).lid != 0 {
			f.swNode = append(f.swNode, int32(i))
		}
	}
	slices.SortFunc(f.swNode, func(a, b int32) int {
		return cmp.Compare(f.nodes[a].info.NodeGUID, f.nodes[b].info.NodeGUID)
	})
	slots := 0
	for s, ni := range f.swNode {
		f.nodes[ni].gsw = int32(s)
		slots += int(f.nodes[ni].info.NumPorts) + 1
	}
	f.epPort = f.epPort[:0]
	for i := range f.ports {
		if f.ports[i].lid != 0 {
			f.epPort = append(f.epPort, int32(i))
		}
	}
	slices.SortFunc(f.epPort, func(a, b int32) int {
		return cmp.Or(cmp.Compare(f.ports[a].guid, f.ports[b].guid), cmp.Compare(a, b))
	})

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
	for i := range slab {
		slab[i] = -1
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
		for num := 1; num < np; num++ {
			p := f.portOf(ni, uint8(num))
			if !p.has(pLinked) || p.peer.Node == ni {
				continue
			}
			q := &f.nodes[p.peer.Node]
			if q.gsw < 0 {
				continue
			}
			g.PortChannel[s][num] = int32(len(g.Channels))
			g.Channels = append(g.Channels, fabric.Channel{
				From: int32(s), To: q.gsw, OutPort: uint8(num),
				InPort: p.peer.Port, Rev: -1, VLs: c.lanes(p), Gbps: float32(c.rate(p).Gbps()),
			})
		}
	}
	g.Off[len(f.swNode)] = int32(len(g.Channels))
	for i := range g.Channels {
		ch := &g.Channels[i]
		ch.Rev = g.PortChannel[ch.To][ch.InPort]
	}
	f.graph = g
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
