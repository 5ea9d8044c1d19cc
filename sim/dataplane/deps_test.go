package dataplane

import (
	"math/rand/v2"
	"testing"

	"heddle/fabric"
)

// Dependencies between channels, for tests: walked by the tables, independent of
// the engine.

// channel is an output.
type channel struct{ port fabric.Ref }

// mixedDeps are the dependencies of packets that find the entry of p or of q at
// each switch.
func mixedDeps(n *net, p, q *Plain, hosts int) map[channel]map[channel]bool {
	deps := map[channel]map[channel]bool{}
	far := map[fabric.Ref]fabric.Ref{}
	for _, l := range n.Links {
		far[l.A], far[l.B] = l.B, l.A
	}
	for _, x := range [][2]*Plain{{p, p}, {p, q}, {q, p}, {q, q}} {
		for d := range hosts {
			lid := p.lidOf(d)
			for sw := hosts; sw < len(n.Nodes); sw++ {
				a := fabric.Ref{Node: int32(sw), Port: x[0].Route(int32(sw), lid)}
				b, ok := far[a]
				if !ok || !n.Nodes[b.Node].Switch {
					continue
				}
				c := fabric.Ref{Node: b.Node, Port: x[1].Route(b.Node, lid)}
				if z, ok := far[c]; !ok || !n.Nodes[z.Node].Switch || c.Port == b.Port {
					continue
				}
				from := channel{port: a}
				if deps[from] == nil {
					deps[from] = map[channel]bool{}
				}
				deps[from][channel{port: c}] = true
			}
		}
	}
	return deps
}

// hasCycle reports whether dependencies have a cycle.
func hasCycle(deps map[channel]map[channel]bool) bool {
	state := map[channel]int{}
	var visit func(c channel) bool
	visit = func(c channel) bool {
		if state[c] != 0 {
			return state[c] == 1
		}
		state[c] = 1
		for d := range deps[c] {
			if visit(d) {
				return true
			}
		}
		state[c] = 2
		return false
	}
	for c := range deps {
		if visit(c) {
			return true
		}
	}
	return false
}

// mixedTables runs a random net whose switches change one after another, under
// load, from tables to other ones. The result says whether a deadlock was found,
// whether any packet could have met a cycle (of the entries of old and new tables
// together), and whether the circle found consists of such dependencies.
func mixedTables(t *testing.T, seed uint64) (deadlock, cyclic, follows bool) {
	r := rand.New(rand.NewPCG(seed, 42))
	n, hosts := randomNet(r)
	p, q := randomRoutes(n, hosts, r), randomRoutes(n, hosts, r)
	deps := mixedDeps(n, p, q, hosts)
	cyclic = hasCycle(deps)

	c := testConfig()
	c.LaneBuffer = 34 + r.IntN(60)
	live := NewPlain(&n.Topology, 1)
	for sw := hosts; sw < len(n.Nodes); sw++ {
		live.LFT[sw] = append([]uint8(nil), p.LFT[sw]...)
	}
	e := mustNew(t, &n.Topology, live, c)
	for h := range hosts {
		mustAdd(t, e, Stream{Src: h, To: ToAny(), Bytes: rc2k, End: 400 * Microsecond})
	}
	e.Run(100 * Microsecond)
	for _, i := range r.Perm(len(n.Nodes) - hosts) {
		copy(live.LFT[hosts+i], q.LFT[hosts+i])
		e.Run(e.Now() + Time(r.IntN(20))*Microsecond)
	}
	e.Run(2 * Millisecond)
	mustCheck(t, e)
	if e.Live() > 0 != (e.Deadlock() != nil) {
		t.Errorf("seed %d: %d packets left, deadlock %v", seed, e.Live(), e.Deadlock())
	}
	if e.Deadlock() == nil {
		return false, cyclic, true
	}
	follows = true
	cycle := e.Deadlock().Cycle
	for i, w := range cycle {
		next := cycle[(i+1)%len(cycle)]
		if !deps[channel{port: w.Out}][channel{port: next.Out}] {
			follows = false
		}
	}
	return true, cyclic, follows
}

// randomNet is a connected net of 3 to 8 switches with a host each and some
// cables more than a tree has.
func randomNet(r *rand.Rand) (n *net, hosts int) {
	hosts = 3 + r.IntN(6)
	n = newNet(hosts, hosts, 12)
	for h := range hosts {
		n.link(h, hosts+h, qdr)
	}
	for i := 1; i < hosts; i++ {
		n.link(hosts+i, hosts+r.IntN(i), qdr)
	}
	for range 1 + r.IntN(hosts) {
		a, b := r.IntN(hosts), r.IntN(hosts)
		if a != b && n.used[hosts+a] < 12 && n.used[hosts+b] < 12 {
			n.link(hosts+a, hosts+b, qdr)
		}
	}
	return n, hosts
}

// randomRoutes routes each host along a random tree: shortest paths by random
// lengths of the cables, which may well close cycles together.
func randomRoutes(n *net, hosts int, r *rand.Rand) *Plain {
	p := NewPlain(&n.Topology, 1)
	for d := range hosts {
		dist := make([]int, len(n.Nodes))
		for i := range dist {
			dist[i] = 1 << 30
		}
		dist[hosts+d] = 0
		p.SetRoute(int32(hosts+d), p.lidOf(d), 1)
		length := make([]int, len(n.Links))
		for i := range length {
			length[i] = 1 + r.IntN(4)
		}
		for range n.Nodes {
			for i, l := range n.Links {
				for _, x := range [2][2]fabric.Ref{{l.A, l.B}, {l.B, l.A}} {
					a, b := x[0], x[1]
					if n.Nodes[a.Node].Switch && n.Nodes[b.Node].Switch && dist[b.Node]+length[i] < dist[a.Node] {
						dist[a.Node] = dist[b.Node] + length[i]
						p.SetRoute(a.Node, p.lidOf(d), a.Port)
					}
				}
			}
		}
	}
	return p
}
