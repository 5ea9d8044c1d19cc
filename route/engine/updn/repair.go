package updn

import (
	"math/bits"
	"slices"

	"heddle/route/engine"
)

// repair is the state that the workers of one Update share: where to begin.
type repair struct {
	*shape
	ch *engine.Change
	m  *memo
	// Bits, by position in the order, of the switches that gained or lost a
	// channel that goes down, or up.
	seedDown, seedUp []uint64
}

// turned is the share of channels whose direction may change before computing
// from scratch is better: one in turned.
const turned = 8

// newRepair compares the order with that of the old graph; nil if too many
// links change direction.
func newRepair(ch *engine.Change, s *shape, order []int32, m *memo) *repair {
	n := len(s.order)
	words := (n + 63) / 64
	r := &repair{shape: s, ch: ch, m: m, seedDown: make([]uint64, words), seedUp: make([]uint64, words)}
	old := make([]int32, len(order))
	for i, u := range order {
		old[u] = int32(i)
	}
	mark := func(seed []uint64, u int32) { seed[s.pos[u]>>6] |= 1 << (s.pos[u] & 63) }
	markAs := func(up bool, u int32) {
		if up {
			mark(r.seedUp, u)
		} else {
			mark(r.seedDown, u)
		}
	}
	wasUp := func(c int32) bool { h := &ch.Old.Channels[c]; return old[h.To] < old[h.From] }
	turns := 0
	for c := range ch.G.Channels {
		u := ch.G.Channels[c].From
		o := ch.Channel[c]
		switch {
		case o < 0:
			markAs(s.isUp[c], u)
		case wasUp(o) != s.isUp[c]:
			turns++
			mark(r.seedDown, u)
			mark(r.seedUp, u)
		}
	}
	for _, c := range ch.Lost {
		if u := ch.OldSwitch[ch.Old.Channels[c].From]; u >= 0 {
			markAs(wasUp(c), u)
		}
	}
	if turns > max(256, len(ch.G.Channels)/turned) {
		return nil
	}
	return r
}

func (r *repair) worker() engine.Repairer {
	words := len(r.seedUp)
	return &repairer{repair: r, lower: make([]uint64, words), upper: make([]uint64, words), fell: make([]int32, len(r.order))}
}

// repairer repairs the distances of one destination after another.
type repairer struct {
	*repair
	lower, upper []uint64 // by position: to be processed again
	fell         []int32  // by switch: 1 + the last destination whose down changed here
	plan         *planner
	fan          engine.Fan
}

// May implements engine.Repairer.
func (r *repairer) May(dst, c int32) bool {
	h := &r.g.Channels[c]
	d := r.m.dist[dst][h.From]
	if r.isUp[c] {
		return d < none && uint32(r.m.dist[dst][h.To]&cost)+r.cost(c) == uint32(d)
	}
	down := r.m.down[dst]
	return d&cost != none && d&cost == down[h.From] && uint32(down[h.To])+r.cost(c) == uint32(d&cost)
}

// Cost implements engine.Repairer.
func (r *repairer) Cost(dst, s int32) int {
	if d := r.m.dist[dst][s] & cost; d != none {
		return int(d)
	}
	return engine.Far
}

// Repair implements engine.Repairer.
func (r *repairer) Repair(dst int32, touched []int32) ([]int32, bool) {
	dist, down := r.m.dist[dst], r.m.down[dst]
	if dist == nil { // new, or without LIDs before: all entries are chosen
		r.whole(dst)
		return touched, r.m.dist[dst] != nil
	}
	ownDist, ownDown := !r.ch.SameSwitches, !r.ch.SameSwitches
	copy(r.lower, r.seedDown)
	copy(r.upper, r.seedUp)

	// From the bottom up: the paths that only go down.
	for w := len(r.lower) - 1; w >= 0; w-- {
		for r.lower[w] != 0 {
			b := 63 - bits.LeadingZeros64(r.lower[w])
			r.lower[w] &^= 1 << b
			s := r.order[w<<6|b]
			touched = append(touched, s)
			x, ok := r.below(dst, s, down)
			if !ok {
				return touched, false
			}
			was := down[s]
			if x == was {
				continue
			}
			if !ownDown {
				ownDown = true
				down = slices.Clone(down)
				r.m.down[dst] = down
			}
			down[s] = x
			r.fell[s] = dst + 1
			r.upper[w] |= 1 << b
			for i := r.upOff[s]; i < r.upOff[s+1]; i++ {
				u := r.upTo[i]
				c := r.cost(r.g.Channels[r.up[i]].Rev)
				if d := uint32(down[u]); uint32(was)+c == d || uint32(x)+c < d {
					r.lower[r.pos[u]>>6] |= 1 << (r.pos[u] & 63)
				}
			}
		}
	}

	// From the top down: the routes.
	for w := range r.upper {
		for r.upper[w] != 0 {
			b := bits.TrailingZeros64(r.upper[w])
			r.upper[w] &= r.upper[w] - 1
			s := r.order[w<<6|b]
			touched = append(touched, s)
			x, ok := r.above(dst, s, dist, down)
			if !ok {
				return touched, false
			}
			was := dist[s]
			if x == was && r.fell[s] != dst+1 {
				continue
			}
			if x != was {
				if !ownDist {
					ownDist = true
					dist = slices.Clone(dist)
					r.m.dist[dst] = dist
				}
				dist[s] = x
			}
			a, z := uint32(was&cost), uint32(x&cost)
			for i := r.downOff[s]; i < r.downOff[s+1]; i++ {
				v := r.downTo[i]
				c := r.cost(r.g.Channels[r.down[i]].Rev)
				if d := uint32(dist[v] & cost); down[v] != none || a+c == d || z+c < d {
					r.upper[r.pos[v]>>6] |= 1 << (r.pos[v] & 63)
				}
			}
		}
	}
	return touched, true
}

// below is the cost of the cheapest path from s that only goes down; false if
// it does not fit the row.
func (r *repairer) below(dst, s int32, down []uint8) (uint8, bool) {
	if s == dst {
		return 0, true
	}
	best := uint32(far)
	for i := r.downOff[s]; i < r.downOff[s+1]; i++ {
		if d := down[r.downTo[i]]; d != none {
			best = min(best, uint32(d)+r.cost(r.down[i]))
		}
	}
	return uint8(min(best, none)), best < none || best == far
}

// above is the entry of s in the row dist.
func (r *repairer) above(dst, s int32, dist, down []uint8) (uint8, bool) {
	if s == dst {
		return 0, true
	}
	best := uint32(far)
	if down[s] != none {
		best = uint32(down[s])
	}
	for i := r.upOff[s]; i < r.upOff[s+1]; i++ {
		u := r.upTo[i]
		d := dist[u] & cost
		if d == none {
			continue
		}
		if down[s] != none && d == down[u] && uint32(d) == uint32(down[s])+r.cost(r.g.Channels[r.up[i]].Rev) {
			return down[s] | entered, true
		}
		best = min(best, uint32(d)+r.cost(r.up[i]))
	}
	return uint8(min(best, none)), best < none || best == far
}

// whole makes the rows of a destination from scratch.
func (r *repairer) whole(dst int32) {
	n := len(r.order)
	if r.plan == nil {
		r.plan = r.planner(r.m)
		r.fan = engine.Fan{Order: make([]int32, 0, n), Cand: make([]int32, len(r.g.Channels)), Cnt: make([]int32, n)}
	}
	r.plan.Plan(dst, nil, &r.fan)
}
