package topo

import (
	"bytes"
	"slices"

	"heddle/ib/smp"
	"heddle/subnet"
)

// Hop is the directed route through port r.
func (f *Topology) Hop(r subnet.Ref) []byte {
	return append(slices.Clone(f.AgentPath(r.Node, r.Port)), r.Port)
}

// Repath replaces the directed routes that lead over links that are down. cut lists the links that
// were found to be down, touched the nodes that were looked at. The new routes are as short as
// possible; a node that no link reaches has none. It reports whether a route changed.
func (f *Topology) Repath(cut [][2]subnet.Ref, touched []int32) bool {
	moved := f.pathsBroken(cut, touched)
	if moved {
		f.reroute(f.soundPaths())
	}
	return f.repathMoved(touched) || moved
}

// pathsBroken reports whether a route leads over one of the links, or a node has none.
func (f *Topology) pathsBroken(cut [][2]subnet.Ref, touched []int32) bool {
	for _, x := range cut {
		for k, a := range x {
			if f.Nodes[x[1-k].Node].Via == a && !f.Port(a).Has(PortLinked) {
				return true
			}
		}
	}
	return slices.ContainsFunc(touched, func(n int32) bool { return !f.Nodes[n].Path.Set })
}

// soundPaths reports for each switch whether every link of its route is up. Our own node counts
// as reached.
func (f *Topology) soundPaths() []bool {
	const (
		unknown = iota
		sound
		broken
	)
	state := make([]uint8, len(f.Nodes))
	state[f.Self.Node] = sound
	stack := make([]int32, 0, 64)
	for i := range f.Nodes {
		if f.Nodes[i].Flags&NodeGone != 0 || !f.Nodes[i].IsSwitch() {
			continue
		}
		stack = append(stack[:0], int32(i))
		for len(stack) > 0 {
			n := stack[len(stack)-1]
			nd := &f.Nodes[n]
			v := nd.Via
			switch {
			case state[n] != unknown:
			case !nd.Path.Set || v.Node < 0 || !f.Port(v).Has(PortLinked) || f.Port(v).Peer.Node != n:
				state[n] = broken
			case state[v.Node] == unknown:
				stack = append(stack, v.Node)
				continue
			default:
				state[n] = state[v.Node]
			}
			stack = stack[:len(stack)-1]
		}
	}
	out := make([]bool, len(state))
	for i := range state {
		out[i] = state[i] == sound
	}
	return out
}

// reroute gives the switches whose route is not sound another one, breadth first by length from
// those whose route is. The CA ports on these switches follow.
func (f *Topology) reroute(sound []bool) {
	var rings [smp.MaxHops + 1][]int32
	for i := range f.Nodes {
		if n := &f.Nodes[i]; sound[i] && (n.IsSwitch() || int32(i) == f.Self.Node) {
			rings[n.Path.N] = append(rings[n.Path.N], int32(i))
		} else if n.IsSwitch() && n.Flags&NodeGone == 0 {
			n.Path.Set = false
		}
	}
	for d := range smp.MaxHops {
		for k := 0; k < len(rings[d]); k++ {
			n := rings[d][k]
			for i := range f.NodePorts(n) {
				p := f.PortOf(n, uint8(i))
				if !p.Has(PortLinked) || p.Num == 0 || !f.Nodes[n].IsSwitch() && p.Num != f.Self.Port {
					continue
				}
				q := &f.Nodes[p.Peer.Node]
				if !q.IsSwitch() || q.Path.Set {
					continue
				}
				at := subnet.Ref{Node: n, Port: p.Num}
				q.Path, q.Via = f.AddPath(f.Hop(at)), at
				rings[d+1] = append(rings[d+1], p.Peer.Node)
				f.repathHosts(p.Peer.Node)
			}
		}
	}
}

// repathMoved gives the CA ports on a switch whose route is another one than before, as it was cut
// off for a while, their route through that switch. It reports whether there are any.
func (f *Topology) repathMoved(touched []int32) (moved bool) {
	for _, n := range touched {
		if nd := &f.Nodes[n]; !nd.IsSwitch() || !nd.Path.Set || nd.Flags&NodeGone != 0 {
			continue
		}
		for i := range f.NodePorts(n) {
			p := f.PortOf(n, uint8(i))
			if !p.Has(PortLinked) || p.Num == 0 || f.Nodes[p.Peer.Node].IsSwitch() || p.Peer.Node == f.Self.Node {
				continue
			}
			if q := f.Port(p.Peer); q.Path.Set && !bytes.Equal(f.Path(q.Path), f.Hop(subnet.Ref{Node: n, Port: p.Num})) {
				f.repathHosts(n)
				moved = true
				break
			}
		}
	}
	return moved
}

// repathHosts gives the CA ports on a switch their route through it.
func (f *Topology) repathHosts(n int32) {
	for i := range f.NodePorts(n) {
		p := f.PortOf(n, uint8(i))
		if !p.Has(PortLinked) || p.Num == 0 {
			continue
		}
		q := &f.Nodes[p.Peer.Node]
		if q.IsSwitch() || p.Peer.Node == f.Self.Node {
			continue
		}
		at := subnet.Ref{Node: n, Port: p.Num}
		f.Port(p.Peer).Path = f.AddPath(f.Hop(at))
		if q.Via == at {
			q.Path = f.Port(p.Peer).Path
		}
	}
}

// pathBytes estimates how many bytes of Paths are in use.
func (f *Topology) pathBytes() (n int) {
	for i := range f.Nodes {
		n += int(f.Nodes[i].Path.N)
	}
	return 2*n + 1024
}

// PackPaths drops the paths that nothing uses any more, if they are many.
func (f *Topology) PackPaths() {
	if len(f.Paths) <= 1<<16 || len(f.Paths) <= 4*f.pathBytes() {
		return
	}
	old := f.Paths
	f.Paths = make([]byte, 0, f.pathBytes())
	move := func(r *PathRef) {
		if r.Set {
			*r = f.AddPath(old[r.Off : r.Off+uint32(r.N)])
		}
	}
	for i := range f.Nodes {
		move(&f.Nodes[i].Path)
	}
	for i := range f.Ports {
		move(&f.Ports[i].Path)
	}
}
