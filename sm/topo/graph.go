package topo

import (
	"cmp"
	"slices"

	"heddle/fabric"
	"heddle/ib"
	"heddle/ib/smp"
)

// ListGraph lists what the graph has: the switches and the end ports with a LID.
func (f *Topology) ListGraph() {
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
	slices.SortFunc(f.SwitchNode, f.compareSwitches)
	slices.SortFunc(f.EndPort, f.compareEndPorts)
}

// RelistGraph brings the lists up to date after a region sweep: nodes are those that it touched,
// added the indices of the ports that it gave LIDs.
func (f *Topology) RelistGraph(nodes, added []int32) {
	// A node that is new since a sweep that was broken off is in the list, and stays there if this
	// region does not touch it.
	const fresh = NodeNew | NodeTouched
	f.SwitchNode = slices.DeleteFunc(f.SwitchNode, func(ni int32) bool {
		return !f.Nodes[ni].OK() || f.Nodes[ni].Flags&fresh == fresh
	})
	for _, ni := range nodes {
		if n := &f.Nodes[ni]; n.IsSwitch() && n.OK() && n.Flags&NodeNew != 0 && f.PortOf(ni, 0).LID != 0 {
			f.SwitchNode = insertSorted(f.SwitchNode, ni, f.compareSwitches)
		}
	}
	f.EndPort = slices.DeleteFunc(f.EndPort, func(pi int32) bool { return f.Ports[pi].LID == 0 })
	for _, pi := range added {
		f.EndPort = insertSorted(f.EndPort, pi, f.compareEndPorts)
	}
}

// insertSorted inserts x into a sorted list, if it is not there.
func insertSorted(list []int32, x int32, compare func(a, b int32) int) []int32 {
	i, found := slices.BinarySearchFunc(list, x, compare)
	if found {
		return list
	}
	return slices.Insert(list, i, x)
}

// compareSwitches orders nodes by node GUID.
func (f *Topology) compareSwitches(a, b int32) int {
	return cmp.Compare(f.Nodes[a].Info.NodeGUID, f.Nodes[b].Info.NodeGUID)
}

// compareEndPorts orders ports by port GUID.
func (f *Topology) compareEndPorts(a, b int32) int {
	return cmp.Or(cmp.Compare(f.Ports[a].GUID, f.Ports[b].GUID), cmp.Compare(a, b))
}

// BuildGraph returns the dense graph of what is listed, and gives the nodes their index in it.
// The field Graph stays. opVLs is the most operational VLs that a link gets (PortInfo code).
func (f *Topology) BuildGraph(opVLs uint8) *fabric.Graph {
	g := &fabric.Graph{}
	p0 := f.graphEndPorts(g)
	slots := 0
	for _, ni := range f.SwitchNode {
		slots += int(f.Nodes[ni].Info.NumPorts) + 1
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
		g.Channels = f.channels(int32(s), g.Channels, opVLs)
	}
	g.Off[len(f.SwitchNode)] = int32(len(g.Channels))
	linkChannels(g)
	return g
}

// graphEndPorts fills the end ports of a graph and the owners of LIDs. It returns the end port of
// each switch.
func (f *Topology) graphEndPorts(g *fabric.Graph) (p0 []int32) {
	for s, ni := range f.SwitchNode {
		f.Nodes[ni].GraphSwitch = int32(s)
	}
	g.EndPorts = make([]fabric.EndPort, len(f.EndPort))
	p0 = make([]int32, len(f.SwitchNode))
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
		case p.Has(PortLinked):
			ep.MTU, ep.Gbps = p.Info.NeighborMTU, float32(f.Rate(p).Gbps())
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
	return p0
}

// UpdateChannels gives the graph the channels that leave the switches of a region as they are now.
// It reports false if none of them changed: the graph then stays the same.
func (f *Topology) UpdateChannels(nodes []int32, opVLs uint8) bool {
	g := f.Graph
	type part struct {
		s    int32
		list []fabric.Channel
	}
	var parts []part
	grown := 0
	for _, n := range nodes {
		s := f.Nodes[n].GraphSwitch
		if s < 0 {
			continue
		}
		list := f.channels(s, nil, opVLs)
		old := g.Channels[g.Off[s]:g.Off[s+1]]
		if slices.EqualFunc(list, old, func(a, b fabric.Channel) bool { b.Rev = a.Rev; return a == b }) {
			continue
		}
		parts = append(parts, part{s, list})
		grown += len(list) - len(old)
	}
	if len(parts) == 0 {
		return false
	}
	slices.SortFunc(parts, func(a, b part) int { return cmp.Compare(a.s, b.s) })
	h := *g
	h.Channels = make([]fabric.Channel, 0, len(g.Channels)+grown)
	h.Off = make([]int32, len(g.Off))
	h.PortChannel = make([][]int32, len(g.PortChannel))
	slots := 0
	for s := range g.Switches {
		slots += int(g.Switches[s].NumPorts) + 1
	}
	slab := make([]int32, slots)
	for s := range g.Switches {
		h.Off[s] = int32(len(h.Channels))
		if len(parts) > 0 && parts[0].s == int32(s) {
			h.Channels = append(h.Channels, parts[0].list...)
			parts = parts[1:]
		} else {
			h.Channels = append(h.Channels, g.Channels[g.Off[s]:g.Off[s+1]]...)
		}
		np := int(g.Switches[s].NumPorts) + 1
		h.PortChannel[s], slab = slab[:np:np], slab[np:]
	}
	h.Off[len(g.Switches)] = int32(len(h.Channels))
	linkChannels(&h)
	f.Graph = &h
	return true
}

// HostsMoved reports whether an end port of a region is not where the graph has it.
func (f *Topology) HostsMoved(nodes []int32) bool {
	g := f.Graph
	for _, n := range nodes {
		if f.Nodes[n].IsSwitch() {
			continue
		}
		ports := f.NodePorts(n)
		for i := range ports {
			p := &ports[i]
			if p.LID == 0 {
				continue
			}
			at, num := int32(-1), uint8(0)
			if p.Has(PortLinked) {
				at, num = f.Nodes[p.Peer.Node].GraphSwitch, p.Peer.Port
			}
			if int(p.LID) >= len(g.LIDOwner) || g.LIDOwner[p.LID] == fabric.NoLID {
				return true // another LID floats there
			}
			e := &g.EndPorts[g.LIDOwner[p.LID]]
			if e.GUID != p.GUID || e.LID != p.LID || e.Switch != at || at >= 0 && e.Port != num {
				return true
			}
		}
	}
	return false
}

// channels appends the channels that leave switch s of the graph.
func (f *Topology) channels(s int32, list []fabric.Channel, opVLs uint8) []fabric.Channel {
	ni := f.SwitchNode[s]
	ports := f.NodePorts(ni)
	for num := 1; num < len(ports); num++ {
		p := &ports[num]
		if !p.Has(PortLinked) || p.Has(PortDrained) || p.Peer.Node == ni {
			continue
		}
		q := &f.Nodes[p.Peer.Node]
		if q.GraphSwitch < 0 {
			continue
		}
		list = append(list, fabric.Channel{
			From: s, To: q.GraphSwitch, OutPort: uint8(num), InPort: p.Peer.Port, Rev: -1,
			VLs: f.Lanes(p, opVLs), MTU: p.Info.NeighborMTU, Gbps: float32(f.Rate(p).Gbps()),
		})
	}
	return list
}

// linkChannels fills PortChannel, whose rows are allocated, and the reverse of each channel.
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

// Lanes is how many data VLs a link has or will have, 1 to 15. opVLs is the most operational VLs
// that it gets (PortInfo code).
func (f *Topology) Lanes(p *Port, opVLs uint8) uint8 {
	q := f.Port(p.Peer)
	code := min(max(p.Info.VLCap, 1), max(q.Info.VLCap, 1), opVLs)
	if p.Info.PortState >= ib.StateArmed && p.Info.OperationalVLs != 0 {
		code = min(code, p.Info.OperationalVLs)
	}
	return uint8(max(ib.VLsOf(code), 1))
}

// Rate is the rate of a link. On a switch the capability bits that say which speed field counts
// are those of port 0.
func (f *Topology) Rate(p *Port) ib.Rate {
	mask := f.AgentPort(p.Node, p.Num).Info.CapabilityMask
	return ib.RateOf(p.Info.LinkWidthActive, p.Info.ActiveSpeedOf(mask, false))
}

// Throttled reports whether a link is narrower or slower than both of its ends can be.
func (f *Topology) Throttled(p *Port) bool {
	q := f.Port(p.Peer)
	mask := func(x *Port) ib.CapMask { return f.AgentPort(x.Node, x.Num).Info.CapabilityMask }
	return smp.Throttled(&p.Info, &q.Info, mask(p), mask(q))
}
