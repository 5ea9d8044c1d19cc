package topo

import (
	"math/rand/v2"
	"testing"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/subnet"
)

// randomSubnet returns switches in a random connected graph, with our own host and others on them,
// and routes as a discovery finds them.
func randomSubnet(rng *rand.Rand) *Topology {
	f := New(nil)
	n := 2 + rng.IntN(12)
	add := func(ty ib.NodeType, ports uint8) int32 {
		g := ib.GUID(len(f.Nodes) + 1)
		i := f.AddNode(&smp.NodeInfo{NodeType: ty, NumPorts: ports, NodeGUID: g, PortGUID: g}, PathRef{})
		for k := range f.NodePorts(i) {
			p := f.PortOf(i, uint8(k))
			p.Flags |= PortKnown
			p.Info.PortState = ib.StateDown
		}
		return i
	}
	free := map[int32]uint8{}
	link := func(a, b int32) {
		free[a]++
		free[b]++
		x, y := subnet.Ref{Node: a, Port: free[a]}, subnet.Ref{Node: b, Port: free[b]}
		f.Join(x, y)
		f.Port(x).Info.PortState, f.Port(y).Info.PortState = ib.StateActive, ib.StateActive
	}
	own := add(ib.NodeCA, 1)
	for range n {
		add(ib.NodeSwitch, 40)
	}
	link(own, 1)
	f.Self = subnet.Ref{Node: own, Port: 1}
	for s := 2; s <= n; s++ {
		link(int32(s), int32(1+rng.IntN(s-1)))
	}
	for range rng.IntN(2 * n) {
		if a, b := int32(1+rng.IntN(n)), int32(1+rng.IntN(n)); a != b {
			link(a, b)
		}
	}
	for s := 1; s <= n; s++ {
		link(add(ib.NodeCA, 1), int32(s))
	}
	f.MarkLinks()
	f.Nodes[own].Path = f.AddPath(nil)
	f.PortOf(own, 1).Path = f.Nodes[own].Path
	for queue := []int32{own}; len(queue) > 0; queue = queue[1:] {
		for _, p := range f.NodePorts(queue[0]) {
			if q := p.Peer.Node; q >= 0 && !f.Nodes[q].Path.Set {
				at := subnet.Ref{Node: queue[0], Port: p.Num}
				f.Nodes[q].Path, f.Nodes[q].Via = f.AddPath(f.Hop(at)), at
				f.Port(p.Peer).Path = f.Nodes[q].Path
				if f.Nodes[q].IsSwitch() {
					queue = append(queue, q)
				}
			}
		}
	}
	return f
}

// distances counts the links between our own node and each switch, -1 where there is no path.
func (f *Topology) distances() []int {
	d := make([]int, len(f.Nodes))
	for i := range d {
		d[i] = -1
	}
	d[f.Self.Node] = 0
	for queue := []int32{f.Self.Node}; len(queue) > 0; queue = queue[1:] {
		for _, p := range f.NodePorts(queue[0]) {
			if q := p.Peer.Node; p.Has(PortLinked) && d[q] < 0 && f.Nodes[q].IsSwitch() {
				d[q] = d[queue[0]] + 1
				queue = append(queue, q)
			}
		}
	}
	return d
}

// walk follows a directed route over the links of the subnet.
func (f *Topology) walk(path []byte) int32 {
	n := f.Self.Node
	for _, out := range path {
		if p := f.PortOf(n, out); p.Has(PortLinked) {
			n = p.Peer.Node
		} else {
			return -1
		}
	}
	return n
}

// TestRepath: after links have failed each switch that can be reached has a shortest route, each
// host on it the route through it, and other switches have none.
func TestRepath(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 1))
		f := randomSubnet(rng)
		for round := range 4 {
			var cut [][2]subnet.Ref
			var touched []int32
			for i := range f.Ports {
				p := &f.Ports[i]
				if a := (subnet.Ref{Node: p.Node, Port: p.Num}); p.Has(PortLinked) && f.Nodes[p.Node].IsSwitch() && f.Nodes[p.Peer.Node].IsSwitch() && rng.IntN(6) == 0 {
					b := f.Unlink(a)
					cut = append(cut, [2]subnet.Ref{a, b})
					touched = append(touched, a.Node, b.Node)
				}
			}
			before := f.walks()
			moved := f.Repath(cut, touched)
			f.PackPaths()
			dist := f.distances()
			for i := range f.Nodes {
				nd := &f.Nodes[i]
				if !nd.IsSwitch() {
					continue
				}
				switch {
				case nd.Path.Set != (dist[i] >= 0):
					t.Fatalf("seed %d round %d: switch %d at distance %d has a route: %v", seed, round, i, dist[i], nd.Path.Set)
				case !nd.Path.Set:
					continue
				case int(nd.Path.N) != dist[i] || f.walk(f.Path(nd.Path)) != int32(i):
					t.Fatalf("seed %d round %d: switch %d at distance %d has route %v", seed, round, i, dist[i], f.Path(nd.Path))
				}
				for _, p := range f.NodePorts(int32(i)) {
					if q := p.Peer.Node; p.Has(PortLinked) && !f.Nodes[q].IsSwitch() && q != f.Self.Node && f.walk(f.AgentPath(q, p.Peer.Port)) != q {
						t.Fatalf("seed %d round %d: host %d has route %v", seed, round, q, f.AgentPath(q, p.Peer.Port))
					}
				}
			}
			if round == 0 && before != len(f.Nodes) && !moved {
				t.Fatalf("seed %d round %d: %d of %d routes were sound, and none moved", seed, round, before, len(f.Nodes))
			}
		}
	}
}

// walks counts the nodes whose route leads to them.
func (f *Topology) walks() (n int) {
	for i := range f.Nodes {
		if f.Nodes[i].Path.Set && f.walk(f.Path(f.Nodes[i].Path)) == int32(i) {
			n++
		}
	}
	return n
}
