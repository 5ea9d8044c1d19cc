package fabric

import (
	"cmp"
	"fmt"
	"slices"

	"heddle/ib"
)

// GraphOptions configure a Graph.
type GraphOptions struct {
	// Up reports whether the link at this port is up; it is called for both ends.
	// nil: every link is.
	Up func(Ref) bool
	// LinearFDBCap of every switch; 0: 49152, a full unicast LID space.
	LinearFDBCap uint16
	// FDBCap gives the capacity by node instead.
	FDBCap func(node int) uint16
	// VLs is the number of data VLs of every link, 1–15; 0: 1.
	VLs uint8
	// MoreLIDs returns the LIDs of a CA port outside its range: those of its
	// virtual functions or virtual ports. nil: none.
	MoreLIDs func(Ref) []ib.LID
}

// maxFDBCap is the LinearFDBCap of a switch that holds every unicast LID.
const maxFDBCap = uint16(ib.LIDMaxUnicast) + 1

// SwitchNodes lists the nodes that are switches in the order of
// Graph.Switches: ascending GUID, nodes with the same GUID in index order.
func (f *Fabric) SwitchNodes() []int32 {
	sw := make([]int32, 0, f.Count(ib.NodeSwitch))
	for i := range f.Nodes {
		if f.Nodes[i].IsSwitch() {
			sw = append(sw, int32(i))
		}
	}
	slices.SortStableFunc(sw, func(a, b int32) int { return cmp.Compare(f.Nodes[a].GUID, f.Nodes[b].GUID) })
	return sw
}

// EndPortRefs lists the ports that become the Graph's EndPorts, in their order:
// port 0 of every switch, every port of a CA or router whose link is up.
func (f *Fabric) EndPortRefs(o GraphOptions) []Ref {
	ends := endPorts(f)
	if o.Up == nil {
		return ends
	}
	return slices.DeleteFunc(ends, func(e Ref) bool { return e.Port != 0 && !f.up(e, o.Up) })
}

// up reports whether the link at a connected port is up at both ends.
func (f *Fabric) up(r Ref, up func(Ref) bool) bool {
	return up == nil || up(r) && up(f.Nodes[r.Node].Ports[r.Port].Peer)
}

// Graph makes the Graph of a fabric with the LIDs that its ports have. Netlists
// do not contain the MTU, so it is 4096 bytes everywhere. End ports without a
// LID are included. It fails with a *LIDError if two ports claim a LID, or a
// range leaves the unicast space.
func (f *Fabric) Graph(o GraphOptions) (*Graph, error) {
	order := f.SwitchNodes()
	index := make([]int32, len(f.Nodes)) // node → switch, -1 otherwise
	for i := range index {
		index[i] = -1
	}
	for s, n := range order {
		index[n] = int32(s)
	}
	vls := max(o.VLs, 1)
	g := &Graph{
		Switches:    make([]SwitchNode, len(order)),
		Off:         make([]int32, len(order)+1),
		PortChannel: make([][]int32, len(order)),
	}
	total, numPorts := 0, 0
	for s, n := range order {
		node := &f.Nodes[n]
		fdb := o.LinearFDBCap
		if o.FDBCap != nil {
			fdb = o.FDBCap(int(n))
		} else if fdb == 0 {
			fdb = maxFDBCap
		}
		g.Switches[s] = SwitchNode{GUID: node.GUID, NumPorts: uint8(node.NumPorts), LinearFDBCap: fdb}
		numPorts += len(node.Ports)
		for p := 1; p < len(node.Ports); p++ {
			if f.isChannel(n, p, index, o.Up) {
				total++
			}
		}
	}
	g.Channels = make([]Channel, 0, total)
	slab := make([]int32, numPorts)
	for i := range slab {
		slab[i] = -1
	}
	for s, n := range order {
		ports := f.Nodes[n].Ports
		g.PortChannel[s], slab = slab[:len(ports):len(ports)], slab[len(ports):]
		for p := 1; p < len(ports); p++ {
			if !f.isChannel(n, p, index, o.Up) {
				continue
			}
			port := &ports[p]
			g.PortChannel[s][p] = int32(len(g.Channels))
			g.Channels = append(g.Channels, Channel{
				From: int32(s), To: index[port.Peer.Node],
				OutPort: uint8(p), InPort: port.Peer.Port, VLs: vls, MTU: ib.MTU4096,
				Gbps: float32(float64(port.Width.Lanes()) * port.Speed.LaneGbps()),
			})
		}
		g.Off[s+1] = int32(len(g.Channels))
	}
	for i := range g.Channels {
		c := &g.Channels[i]
		c.Rev = g.PortChannel[c.To][c.InPort]
	}
	return g, f.addEndPorts(g, index, o)
}

// isChannel reports whether port p of switch n leads to another switch.
func (f *Fabric) isChannel(n int32, p int, index []int32, up func(Ref) bool) bool {
	peer := f.Nodes[n].Ports[p].Peer
	return peer.Node >= 0 && peer.Node != n && index[peer.Node] >= 0 && f.up(Ref{n, uint8(p)}, up)
}

func (f *Fabric) addEndPorts(g *Graph, index []int32, o GraphOptions) error {
	refs := f.EndPortRefs(o)
	g.EndPorts = make([]EndPort, len(refs))
	g.LIDOwner = []int32{NoLID}
	var ranges, more []LIDGrant
	for i, r := range refs {
		n := &f.Nodes[r.Node]
		p := &n.Ports[r.Port]
		e := EndPort{GUID: p.GUID, NodeGUID: n.GUID, Type: n.Type, PortNum: r.Port, Switch: index[r.Node], LID: p.LID, LMC: p.LMC}
		if e.Switch >= 0 {
			g.Switches[e.Switch].EndPort = int32(i)
		} else {
			e.Switch, e.Port = index[p.Peer.Node], p.Peer.Port
			e.MTU, e.Gbps = ib.MTU4096, float32(float64(p.Width.Lanes())*p.Speed.LaneGbps())
			if e.Switch < 0 {
				e.Port = 0
			}
		}
		g.EndPorts[i] = e
		if o.MoreLIDs != nil {
			for _, l := range o.MoreLIDs(r) {
				more = append(more, LIDGrant{l, int32(i)})
			}
		}
		if p.LID == 0 {
			continue
		}
		if last := int(p.LID) + p.LIDCount() - 1; !p.LID.IsUnicast() || last > int(ib.LIDMaxUnicast) {
			return &LIDError{LID: p.LID, A: f.PortName(r), Reason: fmt.Sprintf("its %d LIDs leave the unicast range 1–%d", p.LIDCount(), ib.LIDMaxUnicast)}
		}
		for k := range p.LIDCount() {
			ranges = append(ranges, LIDGrant{p.LID + ib.LID(k), int32(i)})
		}
	}
	name := func(e int32) string { return f.PortName(refs[e]) }
	if err := g.own(ranges, name); err != nil {
		return err
	}
	return g.grant(more, name)
}
