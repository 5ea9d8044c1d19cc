package minhop

import (
	"slices"

	"heddle/route/engine"
)

// repair is the state that the workers of one Update share.
type repair struct {
	ch      *engine.Change
	m       *memo
	to      []uint16
	weights []uint8 // by channel; nil: all 1
	weak    []int32 // switches that were there before and lost a channel
}

func newRepair(ch *engine.Change, weights []uint8, m *memo) *repair {
	r := &repair{ch: ch, m: m, to: ends(ch.G), weights: weights}
	for _, c := range ch.Lost {
		if s := ch.OldSwitch[ch.Old.Channels[c].From]; s >= 0 {
			r.weak = append(r.weak, s)
		}
	}
	slices.Sort(r.weak)
	r.weak = slices.Compact(r.weak)
	return r
}

func (r *repair) cost(c int32) int {
	if r.weights == nil {
		return 1
	}
	return int(r.weights[c])
}

func (r *repair) worker() engine.Repairer { return &repairer{repair: r} }

// repairer repairs the distances to one destination after another.
type repairer struct {
	*repair
	queue [none][]int32 // by cost: switches to process
	most  int           // no queue after it has any
	was   []change
	plan  *planner
	fan   engine.Fan
}

type change struct {
	s   int32
	old uint8
}

// May implements engine.Repairer.
func (r *repairer) May(dst, c int32) bool {
	row := r.m.dist[dst]
	s := r.ch.G.Channels[c].From
	return row[s] != none && int(row[r.to[c]])+r.cost(c) == int(row[s])
}

// Cost implements engine.Repairer.
func (r *repairer) Cost(dst, s int32) int {
	if d := r.m.dist[dst][s]; d != none {
		return int(d)
	}
	return engine.Far
}

// Repair implements engine.Repairer.
func (r *repairer) Repair(dst int32, touched []int32) ([]int32, bool) {
	g := r.ch.G
	if r.m.dist[dst] == nil { // new, or without LIDs before: all entries are chosen
		r.whole(dst)
		return touched, r.m.dist[dst] != nil
	}
	touched = append(touched, r.weak...)
	e := &edit{m: r.m, dst: dst, row: r.m.dist[dst], owned: !r.ch.SameSwitches}
	touched = r.lose(e, touched)
	lost := len(r.was)
	if !r.settle(e) {
		return touched, false
	}
	// Switches whose distance changed, and those with a next hop that is farther
	// now (noted above) or no longer one.
	for i, w := range r.was {
		touched = append(touched, w.s)
		if i < lost {
			continue
		}
		for c := g.Off[w.s]; c < g.Off[w.s+1]; c++ {
			if x := int32(r.to[c]); w.old != none && e.row[x] != none && int(e.row[x]) == int(w.old)+r.cost(g.Channels[c].Rev) {
				touched = append(touched, x)
			}
		}
	}
	return touched, true
}

// edit is the row of a destination in a memo, which is copied before it changes.
type edit struct {
	m     *memo
	dst   int32
	row   []uint8
	owned bool
}

func (e *edit) set(s int32, d uint8) {
	if !e.owned {
		e.owned = true
		e.row = slices.Clone(e.row)
		e.m.dist[e.dst] = e.row
	}
	e.row[s] = d
}

// lose takes the old distance from switches that nothing keeps at it, nearest
// first, and notes them in r.was. Their adjacent switches are touched.
func (r *repairer) lose(e *edit, touched []int32) []int32 {
	g := r.ch.G
	r.was, r.most = r.was[:0], 0
	for _, s := range r.weak {
		if s != e.dst && e.row[s] != none {
			r.push(s, int(e.row[s]))
		}
	}
	for at := 0; at <= r.most; at++ {
		for i := 0; i < len(r.queue[at]); i++ {
			s := r.queue[at][i]
			if int(e.row[s]) != at || r.held(e.row, s) {
				continue
			}
			r.was = append(r.was, change{s, e.row[s]})
			for c := g.Off[s]; c < g.Off[s+1]; c++ {
				x := int32(r.to[c])
				if e.row[x] != none && x != e.dst && int(e.row[x]) == at+r.cost(g.Channels[c].Rev) {
					r.push(x, int(e.row[x]))
					touched = append(touched, x)
				}
			}
			e.set(s, none)
		}
		r.queue[at] = r.queue[at][:0]
	}
	return touched
}

// settle finds new distances, again nearest first: from the adjacent switches that
// kept theirs, and over new channels. It is false if one is too far.
func (r *repairer) settle(e *edit) bool {
	g := r.ch.G
	r.most = 0
	for _, w := range r.was {
		for c := g.Off[w.s]; c < g.Off[w.s+1]; c++ {
			if d := e.row[r.to[c]]; d != none {
				if !r.push(w.s, int(d)+r.cost(c)) {
					return false
				}
			}
		}
	}
	for _, c := range r.ch.New {
		s := g.Channels[c].From
		if d := e.row[r.to[c]]; d != none && int(d)+r.cost(c) < reach(e.row[s]) {
			if !r.push(s, int(d)+r.cost(c)) {
				return false
			}
		}
	}
	for at := 0; at <= r.most; at++ {
		for i := 0; i < len(r.queue[at]); i++ {
			s := r.queue[at][i]
			if int(e.row[s]) <= at {
				continue
			}
			r.was = append(r.was, change{s, e.row[s]})
			e.set(s, uint8(at))
			for c := g.Off[s]; c < g.Off[s+1]; c++ {
				x := int32(r.to[c])
				d := at + r.cost(g.Channels[c].Rev)
				if d < reach(e.row[x]) && !r.push(x, d) {
					return false
				}
			}
		}
		r.queue[at] = r.queue[at][:0]
	}
	return true
}

// reach is the cost that an entry of a row encodes.
func reach(d uint8) int {
	if d == none {
		return engine.Far
	}
	return int(d)
}

// push queues a switch; false if the cost is too high.
func (r *repairer) push(s int32, d int) bool {
	if d >= none {
		for i := range r.queue {
			r.queue[i] = r.queue[i][:0]
		}
		return false
	}
	r.queue[d] = append(r.queue[d], s)
	r.most = max(r.most, d)
	return true
}

// held reports whether some channel of s leads nearer by its cost.
func (r *repairer) held(row []uint8, s int32) bool {
	g := r.ch.G
	d := int(row[s])
	if r.weights == nil {
		for _, v := range r.to[g.Off[s]:g.Off[s+1]] {
			if int(row[v])+1 == d {
				return true
			}
		}
		return false
	}
	for c := g.Off[s]; c < g.Off[s+1]; c++ {
		if int(row[r.to[c]])+int(r.weights[c]) == d {
			return true
		}
	}
	return false
}

// whole makes a row from scratch.
func (r *repairer) whole(dst int32) {
	g := r.ch.G
	n := len(g.Switches)
	if r.fan.Cand == nil {
		r.fan = engine.Fan{Order: make([]int32, 0, n), Cand: make([]int32, len(g.Channels)), Cnt: make([]int32, n)}
	}
	if r.weights != nil {
		newWeighted(g, r.weights, r.m).Plan(dst, nil, &r.fan)
		return
	}
	if r.plan == nil {
		r.plan = &planner{g: g, m: r.m, to: r.to, dist: make([]uint16, n), queue: make([]uint16, 0, n)}
	}
	r.plan.Plan(dst, nil, &r.fan)
}
