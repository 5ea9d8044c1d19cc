// Package minhop routes every LID by a shortest path, the load spread evenly
// over the equally short ones.
//
// For each destination switch one breadth-first search over the cables gives
// the distance of every switch (E. F. Moore, 1959); the channels that lead one
// step nearer are the choices among which engine.Spread balances. Cost:
// O(switches × channels) for the searches and O(switches × LIDs × choices) for
// the spreading, on all workers; memory: the tables plus a few hundred KiB for
// each worker.
//
// Invariants: every entry is on a shortest path among the switches whose
// tables hold the LID; what no cable reaches is Drop; LIDs of one port leave
// each switch by different neighbours, then links, as far as there are any.
// Deadlock freedom is not promised: on trees it follows from the topology,
// elsewhere route/check will tell.
package minhop

import (
	"heddle/fabric"
	"heddle/route"
	"heddle/route/engine"
)

// Engine computes min-hop tables. The zero value is ready to use.
type Engine struct{}

// Name is "minhop".
func (Engine) Name() string { return "minhop" }

// Compute returns the tables; Options.Workers and Options.Previous are used.
func (Engine) Compute(g *fabric.Graph, o route.Options) (*route.Tables, error) {
	to := make([]uint16, len(g.Channels)) // an index fits: no more switches than LIDs
	for c := range g.Channels {
		to[c] = uint16(g.Channels[c].To)
	}
	return engine.Spread(g, "minhop", o, func() engine.Planner {
		return &planner{g: g, to: to, dist: make([]uint16, len(g.Switches)), queue: make([]uint16, 0, len(g.Switches))}
	})
}

type planner struct {
	g     *fabric.Graph
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
			dist[s] = far - 1 // never entered: looks visited
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
}
