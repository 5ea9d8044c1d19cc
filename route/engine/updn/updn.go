// Package updn routes by up*/down* in a form that InfiniBand tables can express.
//
// A total order of the switches makes one end of every link the upper one; legal
// paths never go up after they went down (M. D. Schroeder et al., "Autonet",
// 1991). An InfiniBand switch decides by destination alone and does not know
// from where a packet came (A. Bermúdez, R. Casado, F. J. Quiles, T. M.
// Pinkston and J. Duato, "Evaluation of a subnet management mechanism for
// InfiniBand networks", 2003, therefore ignore all paths up if one exists that
// only goes down). Here, for each destination, from the top down: a switch to
// which some switch above it may send uses the shortest path that only goes
// down; every other uses the shortest legal path, and if both up and down are
// shortest, engine.Spread balances among both. A packet thus goes up, then down:
// no cycle of channel dependencies can form, on any topology, with one lane, for
// traffic of CAs and switches alike; and no path is longer than under the rule
// of 2003.
//
// The order is by distance from the nearest root, then by ID or node GUID, and
// grown so that one switch of each component of the fabric is above all others
// (rank): so every pair has a legal path, including two roots, with or without
// Options.ConnectRoots.
//
// Compute costs O(switches × channels) for the choices, on all workers, then as
// for min-hop; finding roots as much again. Update repairs, for each
// destination, the distances of the switches near a change, from the bottom up
// and then from the top down (the order makes both acyclic), which costs
// O(switches × ports) for a link on which no distance depends. It keeps two
// bytes for each pair of switches. Tables that were made with other options are
// computed from scratch.
package updn

import (
	"heddle/fabric"
	"heddle/route"
	"heddle/route/engine"
)

// Engine computes up*/down* tables. The zero value is ready to use.
type Engine struct{}

var _ route.Updater = Engine{}

// Name is "updn".
func (Engine) Name() string { return "updn" }

// Compute returns the tables. Options.Workers, Previous, Roots, IDs,
// HopWeights, PortOrder, RoutingOrder and Unbalanced are used.
func (Engine) Compute(g *fabric.Graph, o route.Options) (*route.Tables, error) {
	return compute(g, o, "updn", false)
}

// Update implements route.Updater. Detected roots stay roots, also when they
// leave and return, until Compute is called, a component of the fabric has
// none, or the fabric has grown since: new switches, more links or a quarter
// more CA ports. Distances are those that Compute would give with these roots
// (Roots).
func (Engine) Update(from route.Solution, g *fabric.Graph, d *fabric.Delta, o route.Options) (*route.Tables, error) {
	return update(from, g, d, o, "updn", false)
}

// Mirrored is the engine upside down: switches farthest from the roots come
// first in the order, so traffic turns at the bottom. Package dnup uses it.
type Mirrored struct{}

var _ route.Updater = Mirrored{}

// Name is "dnup".
func (Mirrored) Name() string { return "dnup" }

// Compute is as Engine's.
func (Mirrored) Compute(g *fabric.Graph, o route.Options) (*route.Tables, error) {
	return compute(g, o, "dnup", true)
}

// Update is as Engine's.
func (Mirrored) Update(from route.Solution, g *fabric.Graph, d *fabric.Delta, o route.Options) (*route.Tables, error) {
	return update(from, g, d, o, "dnup", true)
}

func compute(g *fabric.Graph, o route.Options, name string, mirrored bool) (*route.Tables, error) {
	r := rank(g, o, o.Roots, mirrored)
	weights, note := engine.Weights(g, o)
	n := len(g.Switches)
	m := &memo{dist: make([][]uint8, n), down: make([][]uint8, n), asked: engine.Asked(o)}
	s := newShape(g, r.Order, weights)
	t, loads, err := engine.Spread(g, name, o, func() engine.Planner { return s.planner(m) })
	if err != nil {
		return nil, err
	}
	t.Note = engine.Notes(r.Note, note, t.Note)
	m.loads, m.order = loads, r.Order
	m.learn(g, o, r)
	if engine.Complete(g, m.dist) {
		t.Memo = m
	}
	return t, nil
}

// shape is the graph directed by an order, shared by all planners.
type shape struct {
	g       *fabric.Graph
	order   []int32 // switches from the top down
	pos     []int32 // by switch: its place in order
	weights []uint8 // by channel; nil: all 1
	isUp    []bool  // by channel
	upOff   []int32
	up      []int32 // channels of s that go up are up[upOff[s]:upOff[s+1]]
	upTo    []uint16
	downOff []int32
	down    []int32
	downTo  []uint16
}

// newShape sorts the channels into those that go up and those that go down.
func newShape(g *fabric.Graph, order []int32, weights []uint8) *shape {
	n, m := len(g.Switches), len(g.Channels)
	s := &shape{
		g: g, order: order, weights: weights, pos: make([]int32, n), isUp: make([]bool, m),
		upOff: make([]int32, n+1), downOff: make([]int32, n+1),
		up: make([]int32, 0, m/2), upTo: make([]uint16, 0, m/2), down: make([]int32, 0, m/2), downTo: make([]uint16, 0, m/2),
	}
	for i, u := range order {
		s.pos[u] = int32(i)
	}
	for u := range n {
		at := s.pos[u]
		for c := g.Off[u]; c < g.Off[u+1]; c++ {
			to := g.Channels[c].To
			if s.pos[to] < at {
				s.isUp[c] = true
				s.up, s.upTo = append(s.up, c), append(s.upTo, uint16(to))
			} else {
				s.down, s.downTo = append(s.down, c), append(s.downTo, uint16(to))
			}
		}
		s.upOff[u+1], s.downOff[u+1] = int32(len(s.up)), int32(len(s.down))
	}
	return s
}

func (s *shape) cost(c int32) uint32 {
	if s.weights == nil {
		return 1
	}
	return uint32(s.weights[c])
}

type planner struct {
	*shape
	m       *memo
	dist    []uint32 // cost to the destination by the route taken
	only    []uint32 // cost of the cheapest path that only goes down
	entered []bool   // a switch above may send down to it
	low     []int32  // entered switches with a route, from the top down
}

const far = 1 << 30

func (s *shape) planner(m *memo) *planner {
	n := len(s.order)
	return &planner{shape: s, m: m, dist: make([]uint32, n), only: make([]uint32, n), entered: make([]bool, n)}
}

// Plan implements engine.Planner.
func (p *planner) Plan(dst int32, barred []bool, f *engine.Fan) {
	dist, only := p.dist, p.only
	for s := range dist {
		dist[s], only[s] = far, far
	}
	clear(p.entered)
	p.fromBelow(dst, barred)

	// From the top down, so that upper switches are settled first.
	f.Order, p.low = f.Order[:0], p.low[:0]
	for _, s := range p.order {
		if s == dst {
			dist[s] = 0
			continue
		}
		if barred != nil && barred[s] {
			continue
		}
		best, k := only[s], int32(0)
		cand := f.Cand[p.g.Off[s]:p.g.Off[s+1]]
		if !p.entered[s] {
			for i := p.upOff[s]; i < p.upOff[s+1]; i++ {
				d := dist[p.upTo[i]] + 1
				if p.weights != nil {
					d += uint32(p.weights[p.up[i]]) - 1
				}
				switch {
				case d > best || d >= far:
				case d < best:
					best, k = d, 1
					cand[0] = p.up[i]
				default:
					cand[k] = p.up[i]
					k++
				}
			}
		}
		if best >= far {
			continue
		}
		dist[s] = best
		if best == only[s] {
			mixed := k > 0
			for i := p.downOff[s]; i < p.downOff[s+1]; i++ {
				v := p.downTo[i]
				if d := only[v]; d != far && d+p.cost(p.down[i]) == best {
					p.entered[v] = true
					cand[k] = p.down[i]
					k++
				}
			}
			if mixed {
				sortChannels(cand[:k])
			}
		}
		f.Cnt[s] = k
		if p.entered[s] {
			p.low = append(p.low, s)
		} else {
			f.Order = append(f.Order, s)
		}
	}
	// First the switches that go up, from the bottom up; then those to which they
	// come down.
	for i, j := 0, len(f.Order)-1; i < j; i, j = i+1, j-1 {
		f.Order[i], f.Order[j] = f.Order[j], f.Order[i]
	}
	f.Order = append(f.Order, p.low...)
	if barred == nil {
		p.m.store(dst, p.dist, p.only, p.entered)
	}
}

// fromBelow finds the switches that can go down to dst, upwards from it, and what
// that costs.
func (p *planner) fromBelow(dst int32, barred []bool) {
	only := p.only
	only[dst] = 0
	for i := p.pos[dst]; i >= 0; i-- {
		v := p.order[i]
		d := only[v]
		if d == far {
			continue
		}
		for k := p.upOff[v]; k < p.upOff[v+1]; k++ {
			u := p.upTo[k]
			if barred != nil && barred[u] {
				continue
			}
			w := uint32(1)
			if p.weights != nil {
				w = uint32(p.weights[p.g.Channels[p.up[k]].Rev])
			}
			only[u] = min(only[u], d+w)
		}
	}
}

// sortChannels sorts the few choices of one switch.
func sortChannels(c []int32) {
	for i := 1; i < len(c); i++ {
		for j := i; j > 0 && c[j] < c[j-1]; j-- {
			c[j], c[j-1] = c[j-1], c[j]
		}
	}
}
