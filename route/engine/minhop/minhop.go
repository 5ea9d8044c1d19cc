// Package minhop routes every LID by a shortest path, the load spread evenly
// over the equally short ones.
//
// For each destination switch one breadth-first search over the links gives the
// distance of every switch (E. F. Moore, 1959), or, where hops have weights, a
// search with buckets (R. B. Dial, 1969); the channels that lead nearer by
// their cost are the choices among which engine.Spread balances. Cost:
// O(switches × channels) for the searches and O(switches × LIDs × choices)
// for the spreading, on all workers; memory: the tables plus a few hundred KiB
// for each worker.
//
// Update repairs the distances in place (G. Ramalingam and T. Reps, "An
// incremental algorithm for a generalization of the shortest-path problem",
// 1996): for each destination only switches whose distance changes, and the
// adjacent ones, are visited. It keeps one byte for each pair of switches;
// tables with a cost above 254, or made with other options, are computed from
// scratch.
//
// Invariants: every entry is on a shortest path among the switches whose tables
// hold the LID; entries for unreachable LIDs are Drop; LIDs of one port leave
// each switch to different adjacent switches, then by different links, as far
// as there are any. Deadlock freedom is not promised: on trees it follows from
// the topology, elsewhere route/check decides.
package minhop

import (
	"heddle/fabric"
	"heddle/route"
	"heddle/route/engine"
)

// Engine computes min-hop tables. The zero value is ready to use.
type Engine struct{}

var _ route.Updater = Engine{}

// Name is "minhop".
func (Engine) Name() string { return "minhop" }

// Compute returns the tables. Options.Workers, Previous, HopWeights,
// PortOrder, RoutingOrder and Unbalanced are used.
func (Engine) Compute(g *fabric.Graph, o route.Options) (*route.Tables, error) {
	weights, note := engine.Weights(g, o)
	n := len(g.Switches)
	m := &memo{dist: make([][]uint8, n), asked: engine.Asked(o)}
	to := ends(g)
	t, loads, err := engine.Spread(g, "minhop", o, func() engine.Planner {
		if weights != nil {
			return newWeighted(g, weights, m)
		}
		return &planner{g: g, m: m, to: to, dist: make([]uint16, n), queue: make([]uint16, 0, n)}
	})
	if err != nil {
		return nil, err
	}
	t.Note = engine.Notes(note, t.Note)
	m.loads = loads
	if engine.Complete(g, m.dist) {
		t.Memo = m
	}
	return t, nil
}

// Update implements route.Updater.
func (e Engine) Update(from route.Solution, g *fabric.Graph, d *fabric.Delta, o route.Options) (*route.Tables, error) {
	if m, ok := from.Tables.Memo.(*memo); ok && m.asked == engine.Asked(o) {
		if ch := engine.NewChange(from, g, d, o); ch != nil {
			weights, note := engine.Weights(g, o)
			now := &memo{dist: ch.Rows(m.dist, none), asked: m.asked}
			r := newRepair(ch, weights, now)
			if t, loads := ch.Update("minhop", m.loads, r.worker); t != nil {
				now.loads = loads
				t.Note = engine.Notes(note, t.Note)
				t.Memo = now
				return t, nil
			}
		}
	}
	return e.Compute(g, engine.Restart(from, g, o))
}

// memo is the state for Update. Memos share rows; a row is copied before it
// changes.
type memo struct {
	dist  [][]uint8 // by destination switch: the cost from every switch, or none
	loads []uint64  // by channel
	asked uint64    // engine.Asked
}

// Maker implements route.Memory.
func (*memo) Maker() string { return "minhop" }

// none means no route; costs are below it.
const none = 255

// ends are the channels' To; an index fits, because there are at most as many
// switches as LIDs.
func ends(g *fabric.Graph) []uint16 {
	to := make([]uint16, len(g.Channels))
	for c := range g.Channels {
		to[c] = uint16(g.Channels[c].To)
	}
	return to
}

type planner struct {
	g     *fabric.Graph
	m     *memo
	to    []uint16
	dist  []uint16
	queue []uint16
}

const far = 0xFFFF

// Plan implements engine.Planner.
func (p *planner) Plan(dst int32, barred []bool, f *engine.Fan) {
	off, to, dist := p.g.Off, p.to, p.dist
	for s := range dist {
		dist[s] = far
	}
	for s, b := range barred {
		if b {
			dist[s] = far - 1 // unreachable: count it as visited
		}
	}
	dist[dst] = 0
	queue := append(p.queue[:0], uint16(dst))
	for h := 0; h < len(queue); h++ {
		u := queue[h]
		d := dist[u] + 1
		for _, v := range to[off[u]:off[u+1]] {
			if dist[v] == far {
				dist[v] = d
				queue = append(queue, v)
			}
		}
	}
	p.queue = queue
	f.Order = f.Order[:0]
	for h := len(queue) - 1; h > 0; h-- {
		s := queue[h]
		f.Order = append(f.Order, int32(s))
		want := dist[s] - 1
		first, end := off[s], off[s+1]
		cand := f.Cand[first:end]
		k := 0
		for i, v := range to[first:end] {
			if dist[v] == want {
				cand[k] = first + int32(i)
				k++
			}
		}
		f.Cnt[s] = int32(k)
	}
	if barred == nil && dist[queue[len(queue)-1]] < none {
		row := make([]uint8, len(dist))
		for s, d := range dist {
			row[s] = uint8(min(d, none))
		}
		p.m.dist[dst] = row
	}
}

// weighted is planner where hops have weights.
type weighted struct {
	g       *fabric.Graph
	m       *memo
	weights []uint8
	dist    []int32
	done    []bool
	queue   [256][]int32 // by cost mod 256: switches to visit
	order   []int32
}

func newWeighted(g *fabric.Graph, weights []uint8, m *memo) *weighted {
	n := len(g.Switches)
	return &weighted{g: g, m: m, weights: weights, dist: make([]int32, n), done: make([]bool, n), order: make([]int32, 0, n)}
}

// Plan implements engine.Planner.
func (p *weighted) Plan(dst int32, barred []bool, f *engine.Fan) {
	g, dist := p.g, p.dist
	const far = 1 << 30
	for s := range dist {
		dist[s] = far
	}
	clear(p.done)
	copy(p.done, barred)
	p.done[dst] = false
	dist[dst] = 0
	p.order = p.order[:0]
	p.queue[0] = append(p.queue[0][:0], dst)
	for at, left := 0, 1; left > 0; at++ {
		for i := 0; i < len(p.queue[at&255]); i++ {
			u := p.queue[at&255][i]
			left--
			if p.done[u] || int(dist[u]) != at {
				continue
			}
			p.done[u] = true
			p.order = append(p.order, u)
			for c := g.Off[u]; c < g.Off[u+1]; c++ {
				ch := &g.Channels[c]
				if d := dist[u] + int32(p.weights[ch.Rev]); d < dist[ch.To] && !p.done[ch.To] {
					dist[ch.To] = d
					p.queue[d&255] = append(p.queue[d&255], ch.To)
					left++
				}
			}
		}
		p.queue[at&255] = p.queue[at&255][:0]
	}
	f.Order = f.Order[:0]
	for h := len(p.order) - 1; h > 0; h-- {
		s := p.order[h]
		f.Order = append(f.Order, s)
		cand := f.Cand[g.Off[s]:g.Off[s+1]]
		k := 0
		for c := g.Off[s]; c < g.Off[s+1]; c++ {
			if dist[g.Channels[c].To]+int32(p.weights[c]) == dist[s] {
				cand[k] = c
				k++
			}
		}
		f.Cnt[s] = int32(k)
	}
	if barred == nil && dist[p.order[len(p.order)-1]] < none {
		row := make([]uint8, len(dist))
		for s, d := range dist {
			row[s] = uint8(min(d, none))
		}
		p.m.dist[dst] = row
	}
}
