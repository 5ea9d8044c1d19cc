package grid

import (
	"math/bits"

	"heddle/ib"
	"heddle/route"
)

// acyclic reports whether the channel dependency graph has no cycle when
// paths take lanes as lane says.
func (r *router) acyclic(legal, spare int) bool {
	return Acyclic(r.n, r.o.Workers, legal+spare, r.column,
		func(s, d int32) ib.SL { return r.level(r.gr.Cell[s], r.gr.Cell[d]) },
		func(in, out int32, sl ib.SL) int {
			from := -1
			if in >= 0 {
				from = int(r.dim[in])
			}
			return r.lane(from, int(r.dim[out]), sl, legal, spare)
		})
}

// Acyclic reports whether paths cannot deadlock. column fills hop with the link
// that each switch uses toward switch d, -1 at d itself; level is the service
// level of paths from s to d; lane is the lane of a packet that leaves by link
// out after arriving by link in (-1: from an end port). Every hop must lead to
// the destination. Parallel links count as one channel, and paths between
// switches without CA or router ports do not count: a grid that is acyclic here
// is acyclic link by link. Cost: O(switches² × path length).
func Acyclic(n *Net, workers, lanes int, column func(d int32, hop []int32), level func(s, d int32) ib.SL, lane func(in, out int32, sl ib.SL) int) bool {
	width := 0 // most links of a switch
	for s := range int32(n.size()) {
		width = max(width, n.degree(s))
	}
	words := (width*lanes + 63) / 64
	has := hosted(n.g)
	workers = max(workers, 1)
	deps := make([][]uint64, workers) // by link, lane: bit (place of the next link at its switch, lane)
	hops := make([][]int32, workers)
	route.ForEach(workers, n.size(), func(w, d int) {
		if deps[w] == nil {
			deps[w] = make([]uint64, len(n.to)*lanes*words)
			hops[w] = make([]int32, n.size())
		}
		hop, dep := hops[w], deps[w]
		column(int32(d), hop)
		for s := range int32(n.size()) {
			if int(s) == d || !has[s] && !has[d] {
				continue
			}
			sl := level(s, int32(d))
			k := hop[s]
			at := lane(-1, k, sl)
			for {
				u := n.to[k]
				f := hop[u]
				if f < 0 {
					break
				}
				next := lane(k, f, sl)
				bit := int(f-n.off[u])*lanes + next
				dep[(int(k)*lanes+at)*words+bit/64] |= 1 << (bit % 64)
				k, at = f, next
			}
		}
	})
	all := make([]uint64, len(n.to)*lanes*words)
	for _, dep := range deps {
		for i, b := range dep {
			all[i] |= b
		}
	}
	return sorted(n, all, lanes, words)
}

// sorted reports whether the channels can be put in an order that all
// dependencies follow (A. B. Kahn, 1962).
func sorted(n *Net, dep []uint64, lanes, words int) bool {
	nodes := len(n.to) * lanes
	incoming := make([]int32, nodes)
	each := func(v int, fn func(w int)) {
		u := n.to[v/lanes]
		for i, b := range dep[v*words : (v+1)*words] {
			for ; b != 0; b &= b - 1 {
				fn(int(n.off[u])*lanes + i*64 + bits.TrailingZeros64(b))
			}
		}
	}
	for v := range nodes {
		each(v, func(w int) { incoming[w]++ })
	}
	var ready []int32
	for v, k := range incoming {
		if k == 0 {
			ready = append(ready, int32(v))
		}
	}
	done := 0
	for len(ready) > 0 {
		v := int(ready[len(ready)-1])
		ready = ready[:len(ready)-1]
		done++
		each(v, func(w int) {
			if incoming[w]--; incoming[w] == 0 {
				ready = append(ready, int32(w))
			}
		})
	}
	return done == nodes
}
