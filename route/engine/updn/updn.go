// Package updn routes by up*/down* in the form that InfiniBand can hold.
//
// A total order of the switches makes one end of every cable the upper one;
// legal paths never go up after they went down (M. D. Schroeder et al.,
// "Autonet", 1991). An InfiniBand switch decides by destination alone and does
// not know which way a packet came, so the routes follow the rule of
// A. Bermúdez, R. Casado, F. J. Quiles, T. M. Pinkston and J. Duato ("Evaluation
// of a subnet management mechanism for InfiniBand networks", 2003): if a switch has
// any way to a destination that only goes down, the ways up are ignored; of
// what remains the shortest are taken, and engine.Spread balances among them.
// A packet thus goes up until the destination is below, then down: no cycle of
// channel dependencies can form, on any topology, with one lane.
//
// The order is by distance from the nearest root, then by node GUID. Rank says
// how roots are found and what happens to roots that not every CA lies below.
// Where the roots of a fat tree can reach each other by no legal path (only
// switch port 0 traffic would want to), their entries take the shortest way to
// a switch that has a legal one; no path of a CA enters there.
//
// Cost: O(switches × channels) for the searches, then as for min-hop.
package updn

import (
	"heddle/fabric"
	"heddle/route"
	"heddle/route/engine"
)

// Engine computes up*/down* tables. The zero value is ready to use.
type Engine struct{}

// Name is "updn".
func (Engine) Name() string { return "updn" }

// Compute returns the tables; Options.Workers, Roots and Previous are used.
func (Engine) Compute(g *fabric.Graph, o route.Options) (*route.Tables, error) {
	r := Rank(g, o.Roots, o.Workers)
	p := split(g, r.Order)
	t, err := engine.Spread(g, "updn", o, func() engine.Planner { return p.fresh() })
	if t != nil {
		t.Note = r.Note
	}
	return t, err
}

// links are the channels of a graph by direction, shared by all planners.
type links struct {
	g       *fabric.Graph
	order   []int32 // switches from the top down
	upOff   []int32
	up      []int32 // channels of s that go up are up[upOff[s]:upOff[s+1]]
	upTo    []uint16
	downOff []int32
	down    []int32
	downTo  []uint16
}

// split sorts the channels into those that go up and those that go down.
func split(g *fabric.Graph, order []int32) *links {
	n := len(g.Switches)
	rank := make([]int32, n)
	for i, s := range order {
		rank[s] = int32(i)
	}
	l := &links{g: g, order: order, upOff: make([]int32, n+1), downOff: make([]int32, n+1)}
	for s := range n {
		for c := g.Off[s]; c < g.Off[s+1]; c++ {
			to := g.Channels[c].To
			if rank[to] < rank[s] {
				l.up = append(l.up, c)
				l.upTo = append(l.upTo, uint16(to))
			} else {
				l.down = append(l.down, c)
				l.downTo = append(l.downTo, uint16(to))
			}
		}
		l.upOff[s+1] = int32(len(l.up))
		l.downOff[s+1] = int32(len(l.down))
	}
	return l
}

type planner struct {
	*links
	dist   []uint16 // links to the destination by the route taken
	below  []bool   // the destination lies below: the route goes down
	queue  []uint16
	climb  []int32
	stuck  []int32
	strand []int32
}

const far = 0xFFFF

func (l *links) fresh() *planner {
	n := len(l.order)
	return &planner{links: l, dist: make([]uint16, n), below: make([]bool, n), queue: make([]uint16, 0, n)}
}

// Plan implements engine.Planner.
func (p *planner) Plan(dst int32, barred []bool, f *engine.Fan) {
	dist, below := p.dist, p.below
	for s := range dist {
		dist[s] = far
		below[s] = false
	}
	copy(below, barred) // looks visited, but has no distance

	// Who can go down to dst: search upwards from it.
	dist[dst], below[dst] = 0, true
	queue := append(p.queue[:0], uint16(dst))
	for h := 0; h < len(queue); h++ {
		v := queue[h]
		d := dist[v] + 1
		for _, u := range p.upTo[p.upOff[v]:p.upOff[v+1]] {
			if !below[u] {
				below[u] = true
				dist[u] = d
				queue = append(queue, u)
			}
		}
	}
	p.queue = queue

	// Everybody else goes up; from the top down, so that what lies above is
	// settled first.
	p.climb, p.stuck = p.climb[:0], p.stuck[:0]
	for _, s := range p.order {
		if below[s] {
			continue
		}
		lo, hi := p.upOff[s], p.upOff[s+1]
		cand := f.Cand[p.g.Off[s]:p.g.Off[s+1]]
		best, k := uint16(far), 0
		for i, u := range p.upTo[lo:hi] {
			switch d := dist[u]; {
			case d > best || d == far:
			case d < best:
				best, k = d, 1
				cand[0] = p.up[lo+int32(i)]
			default:
				cand[k] = p.up[lo+int32(i)]
				k++
			}
		}
		if k == 0 {
			p.stuck = append(p.stuck, s)
			continue
		}
		dist[s] = best + 1
		f.Cnt[s] = int32(k)
		p.climb = append(p.climb, s)
	}

	f.Order = f.Order[:0]
	if len(p.stuck) > 0 {
		p.rescue(f)
	}
	for i := len(p.climb) - 1; i >= 0; i-- {
		f.Order = append(f.Order, p.climb[i])
	}
	for h := len(queue) - 1; h > 0; h-- {
		s := int32(queue[h])
		want := dist[s] - 1
		cand := f.Cand[p.g.Off[s]:p.g.Off[s+1]]
		k := 0
		lo := p.downOff[s]
		for i, v := range p.downTo[lo:p.downOff[s+1]] {
			if dist[v] == want && below[v] {
				cand[k] = p.down[lo+int32(i)]
				k++
			}
		}
		f.Cnt[s] = int32(k)
		f.Order = append(f.Order, s)
	}
}

// rescue gives switches without a legal path the shortest way to one that has
// one, as far as cables go.
func (p *planner) rescue(f *engine.Fan) {
	g := p.g
	routed := func(s int32) bool { return p.dist[s] != far }
	// Layer by layer: those next to a routed switch, then those next to them.
	strand := p.strand[:0]
	for left := p.stuck; len(left) > 0; {
		layer := len(strand)
		rest := left[:0]
		for _, s := range left {
			cand := f.Cand[g.Off[s]:g.Off[s+1]]
			k := 0
			for c := g.Off[s]; c < g.Off[s+1]; c++ {
				if routed(g.Channels[c].To) {
					cand[k] = c
					k++
				}
			}
			if k == 0 {
				rest = append(rest, s)
				continue
			}
			f.Cnt[s] = int32(k)
			strand = append(strand, s)
		}
		if len(strand) == layer {
			break // no cable leads there
		}
		for _, s := range strand[layer:] {
			p.dist[s] = far - 1
		}
		left = rest
	}
	p.strand = strand
	for i := len(strand) - 1; i >= 0; i-- {
		f.Order = append(f.Order, strand[i])
	}
}
