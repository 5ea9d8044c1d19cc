// Package engine is the common part of routing engines: it spreads LIDs over
// equally good channels.
//
// An engine that routes by destination decides, for each destination switch,
// which channels every other switch may use (a Planner); Spread then gives each
// LID of that switch one of them, so that the load is even. The result depends
// on graph and options only, never on the number of workers.
package engine

import (
	"cmp"
	"slices"

	"heddle/fabric"
	"heddle/ib"
	"heddle/route"
)

// Fan is a Planner's result for one destination switch: the channels that each
// switch may use toward it.
type Fan struct {
	// Order holds the switches with a route, each before every switch that
	// it may send to; the destination itself is not in it.
	Order []int32
	// Cand[g.Off[s]:][:Cnt[s]] are the channels that s may use, by ascending
	// output port, for every s in Order.
	Cand []int32
	Cnt  []int32
}

// Planner finds next hops. Each goroutine has its own.
type Planner interface {
	// Plan fills f for destination switch dst. Switches with barred[s] set
	// can neither forward nor deliver (their table is too short); barred is
	// nil if there are none. dst itself is not barred.
	Plan(dst int32, barred []bool, f *Fan)
}

const (
	// batch is how many LIDs of a destination switch are spread in one pass.
	batch = 64
	// shards is into how many independent parts the destinations are cut in
	// a large fabric; it bounds the parallelism and is fixed, because
	// each part balances for itself.
	shards = 8
	// oneShard is the number of table entries up to which one worker suffices.
	oneShard = 1 << 20
)

// Spread computes tables: for each LID at each switch one channel of the fan,
// the one with the least load so far. Load counts paths from all CA and router
// ports to all their LIDs, accumulated along the tree of each LID from its
// leaves to its root, so that a switch balances the traffic that it really gets
// (OpenSM's min-hop counts table entries instead, which concentrates a fat
// tree's up-traffic on few second-level links). LIDs of one port use different
// adjacent switches first, then different links, as far as there are any.
//
// With o.Previous, an entry that is still in the fan is kept. The LIDs of
// o.RoutingOrder are spread before all others, in that order; ports of
// o.Unbalanced count as load neither as source nor as destination; o.PortOrder
// decides among equally loaded choices. The tables' Note names GUIDs that the
// graph does not have.
//
// Spread also returns the load of every channel: the paths over it from loading
// ports to all their LIDs.
func Spread(g *fabric.Graph, name string, o route.Options, planner func() Planner) (*route.Tables, []uint64, error) {
	n := len(g.Switches)
	if o.Previous != nil && len(o.Previous.LFT) != n {
		return nil, nil, route.Refuse(name, route.ErrInput, "previous tables are for %d switches, the graph has %d", len(o.Previous.LFT), n)
	}
	t := route.New(name, n, g.TopLID)
	sp := newSpread(g, o)
	sp.t, sp.prev = t, o.Previous
	t.Note = sp.note

	base := make([]uint64, len(g.Channels))
	if len(sp.first) > 0 {
		w := sp.newWorker(planner(), 0)
		for i, e := range sp.first {
			if s := g.EndPorts[e].Switch; s >= 0 {
				w.spread1(s, sp.ahead[i])
			}
		}
		base = w.load
	}

	parts := 1
	if n*int(g.TopLID) > oneShard {
		parts = shards
	}
	cut := sp.cut(parts)
	loads := make([][]uint64, parts)
	route.ForEach(o.Workers, parts, func(_, k int) {
		w := sp.newWorker(planner(), sp.leaves[cut[k]])
		copy(w.load, base)
		for d := cut[k]; d < cut[k+1]; d++ {
			w.spread1(int32(d), sp.lids[sp.off[d]:sp.off[d+1]])
		}
		loads[k] = w.load
	})
	sum := loads[0]
	for _, l := range loads[1:] {
		for c, x := range l {
			sum[c] += x - base[c]
		}
	}
	return t, sum, nil
}

// spread is shared by all workers; only t is written, each LID's column by one
// worker.
type spread struct {
	*wishes
	g        *fabric.Graph
	t        *route.Tables
	prev     *route.Tables
	hosts    []uint32 // by switch: loading ports with LIDs
	parallel []bool   // by switch: two of its channels lead to one switch
	off      []int32  // LIDs of switch s, except those of first, are lids[off[s]:off[s+1]], ascending
	lids     []ib.LID
	ahead    [][]ib.LID // the LIDs of each of first
	limits   []ib.LID   // distinct table sizes that bind, ascending
	leaves   []int      // by switch: switches before it that have hosts
	width    int        // most LIDs in one batch
}

func newSpread(g *fabric.Graph, o route.Options) *spread {
	n := len(g.Switches)
	sp := &spread{wishes: readWishes(g, o), g: g, parallel: make([]bool, n), off: make([]int32, n+1)}
	sp.hosts = sp.wishes.hosts(g)
	apart := make([]int32, len(g.EndPorts)) // by end port: 1 + its place in first
	for i, e := range sp.first {
		apart[e] = int32(i) + 1
	}
	sp.ahead = make([][]ib.LID, len(sp.first))
	at := func(e int32) int32 {
		if e == fabric.NoLID || apart[e] > 0 {
			return -1
		}
		return g.EndPorts[e].Switch
	}
	for l, e := range g.LIDOwner {
		if s := at(e); s >= 0 {
			sp.off[s+1]++
		} else if e != fabric.NoLID && apart[e] > 0 {
			i := apart[e] - 1
			sp.ahead[i] = append(sp.ahead[i], ib.LID(l))
			sp.width = max(sp.width, len(sp.ahead[i]))
		}
	}
	for s := range n {
		sp.width = max(sp.width, int(sp.off[s+1]))
		sp.off[s+1] += sp.off[s]
	}
	sp.width = min(sp.width, batch)
	sp.lids = make([]ib.LID, sp.off[n])
	next := slices.Clone(sp.off)
	for l, e := range g.LIDOwner {
		if s := at(e); s >= 0 {
			sp.lids[next[s]] = ib.LID(l)
			next[s]++
		}
	}
	sp.leaves = make([]int, n+1)
	for s := range n {
		sp.leaves[s+1] = sp.leaves[s]
		if sp.hosts[s] > 0 {
			sp.leaves[s+1]++
		}
		if c := ib.LID(g.Switches[s].LinearFDBCap); c != 0 && c <= g.TopLID {
			sp.limits = append(sp.limits, c)
		}
	}
	slices.Sort(sp.limits)
	sp.limits = slices.Compact(sp.limits)

	last := make([]int32, n)
	for s := range last {
		last[s] = -1
	}
	for s := range n {
		for _, c := range g.Channels[g.Off[s]:g.Off[s+1]] {
			if last[c.To] == int32(s) {
				sp.parallel[s] = true
			}
			last[c.To] = int32(s)
		}
	}
	return sp
}

// cut splits the destination switches into runs of about equal work.
func (sp *spread) cut(parts int) []int {
	n := len(sp.g.Switches)
	const fixed = 12 // cost of planning one destination, in LIDs
	total := len(sp.lids) + fixed*n
	at := make([]int, parts+1)
	at[parts] = n
	done, k := 0, 1
	for s := 0; s < n && k < parts; s++ {
		if done >= total*k/parts {
			at[k] = s
			k++
		}
		done += int(sp.off[s+1]-sp.off[s]) + fixed
	}
	for ; k < parts; k++ {
		at[k] = n
	}
	return at
}

// worker spreads the destinations of one part.
type worker struct {
	*spread
	plan   Planner
	fan    Fan
	load   []uint64 // by channel: paths so far
	flow   []uint32 // by switch·width + index in the batch: paths that arrive
	barred []bool
	turn   int  // where ties are resolved first
	rank   bool // the candidates at hand are in the order to try
	key    [256]uint64
	round  [256]uint64
	slot   [256]uint8 // by port: 1 + its index among the candidates
}

func (sp *spread) newWorker(p Planner, turn int) *worker {
	n := len(sp.g.Switches)
	return &worker{
		spread: sp, plan: p, turn: turn,
		fan:  Fan{Order: make([]int32, 0, n), Cand: make([]int32, len(sp.g.Channels)), Cnt: make([]int32, n)},
		load: make([]uint64, len(sp.g.Channels)), flow: make([]uint32, n*sp.width),
	}
}

// spread1 fills the columns of lids, which belong to switch d.
func (w *worker) spread1(d int32, lids []ib.LID) {
	if len(lids) == 0 {
		return
	}
	planned := -1 // the class of LIDs the fan is for
	for len(lids) > 0 {
		class, _ := slices.BinarySearchFunc(w.limits, lids[0], func(a, b ib.LID) int {
			if a <= b { // a table of a entries does not hold LID a
				return -1
			}
			return 1
		})
		if class != planned {
			planned = class
			w.bar(class)
			if w.barred == nil || !w.barred[d] {
				w.plan.Plan(d, w.barred, &w.fan)
			}
		}
		k := w.take(lids, class)
		if w.barred == nil || !w.barred[d] {
			w.pass(d, lids[:k])
		}
		lids = lids[k:]
	}
}

// bar marks the switches whose tables do not hold LIDs of a class.
func (w *worker) bar(class int) {
	if class == 0 {
		w.barred = nil
		return
	}
	if w.barred == nil {
		w.barred = make([]bool, len(w.g.Switches))
	}
	for s := range w.barred {
		c := ib.LID(w.g.Switches[s].LinearFDBCap)
		w.barred[s] = c != 0 && c <= w.limits[class-1]
	}
}

// take is the number of LIDs in the next batch: of one kind (loading or not),
// of one class, whole ports if possible.
func (w *worker) take(lids []ib.LID, class int) int {
	owner := func(i int) int32 { return w.g.LIDOwner[lids[i]] }
	idle := w.unloaded[owner(0)]
	k := 0
	for k < len(lids) && k < w.width &&
		w.unloaded[owner(k)] == idle &&
		(class == len(w.limits) || lids[k] < w.limits[class]) {
		k++
	}
	if k < len(lids) && owner(k) == owner(k-1) {
		for whole := k - 1; whole > 0; whole-- {
			if owner(whole) != owner(whole-1) {
				return whole
			}
		}
	}
	return k
}

// pass spreads one batch of LIDs of switch d.
func (w *worker) pass(d int32, lids []ib.LID) {
	g := w.g
	for _, l := range lids {
		w.t.LFT[d][l] = g.EndPorts[g.LIDOwner[l]].Port
	}
	hosts := !w.unloaded[g.LIDOwner[lids[0]]]
	multi := false // some port has several of the LIDs
	for i := 1; i < len(lids); i++ {
		multi = multi || g.LIDOwner[lids[i]] == g.LIDOwner[lids[i-1]]
	}
	width := w.width
	for _, s := range w.fan.Order {
		cand := w.fan.Cand[g.Off[s]:][:w.fan.Cnt[s]]
		row := w.t.LFT[s]
		in := w.flow[int(s)*width:][:len(lids)]
		w.rank = w.ordered != nil && w.ordered[s]
		if w.rank {
			slices.SortFunc(cand, func(a, b int32) int { return cmp.Or(cmp.Compare(w.place[a], w.place[b]), cmp.Compare(a, b)) })
		}
		if hosts {
			h := w.hosts[s]
			for i := range in {
				in[i] += h
			}
		}
		switch {
		case len(cand) == 1:
			c := &g.Channels[cand[0]]
			out := w.flow[int(c.To)*width:][:len(lids)]
			var sum uint64
			for i, l := range lids {
				row[l] = c.OutPort
				out[i] += in[i]
				sum += uint64(in[i])
			}
			w.load[cand[0]] += sum
		case w.prev != nil && w.prev.LFT[s] != nil:
			w.keep(s, lids, cand, row, in)
		case multi:
			w.several(s, lids, cand, row, in)
		default:
			w.single(lids, cand, row, in)
		}
		clear(in)
	}
	clear(w.flow[int(d)*width:][:width])
}

// rotate copies the loads of cand into w.key, beginning at the part's turn so
// that the parts do not all resolve ties alike, and returns that first index.
func (w *worker) rotate(cand []int32) int {
	at := w.turn % len(cand)
	if w.rank {
		at = 0
	}
	k := 0
	for _, c := range cand[at:] {
		w.key[k&255] = w.load[c]
		k++
	}
	for _, c := range cand[:at] {
		w.key[k&255] = w.load[c]
		k++
	}
	return at
}

// send gives lid the channel and carries its flow on.
func (w *worker) send(c int32, row []byte, l ib.LID, i int, f uint32) {
	ch := &w.g.Channels[c]
	row[l] = ch.OutPort
	w.load[c] += uint64(f)
	w.flow[int(ch.To)*w.width+i] += f
}

// idle is the candidate for a LID that no path brings here: any will do, so
// they are taken in turn.
func (w *worker) idle(l ib.LID, k int) int { return int(l) % k }

// single spreads LIDs of different ports.
func (w *worker) single(lids []ib.LID, cand []int32, row []byte, in []uint32) {
	at := -1
	k := len(cand)
	for i, l := range lids {
		f := in[i]
		if f == 0 {
			row[l] = w.g.Channels[cand[w.idle(l, k)]].OutPort
			continue
		}
		if at < 0 {
			at = w.rotate(cand)
		}
		key := w.key[:k]
		best, least := 0, key[0]
		for j, v := range key {
			if v < least {
				best, least = j, v
			}
		}
		key[best] += uint64(f)
		if best += at; best >= k {
			best -= k
		}
		w.send(cand[best], row, l, i, f)
	}
}

// several spreads LIDs of which some belong to one port.
func (w *worker) several(s int32, lids []ib.LID, cand []int32, row []byte, in []uint32) {
	k := len(cand)
	at := w.rotate(cand)
	key, round := w.key[:k], w.round[:k]
	owner := int32(-1)
	for i, l := range lids {
		f := in[i]
		if f == 0 {
			row[l] = w.g.Channels[cand[w.idle(l, k)]].OutPort
			continue
		}
		if o := w.g.LIDOwner[l]; o != owner {
			owner = o
			clear(round)
		}
		best, least := 0, round[0]|key[0]
		for j, v := range key {
			if v |= round[j]; v < least {
				best, least = j, v
			}
		}
		key[best] += uint64(f)
		w.used(s, cand, at, best)
		if best += at; best >= k {
			best -= k
		}
		w.send(cand[best], row, l, i, f)
	}
}

// used records that a LID of the current port uses candidate best, counted from
// at: the next one uses another adjacent switch if it can, then another link.
// The marks outweigh any load.
func (w *worker) used(s int32, cand []int32, at, best int) {
	const link, peer = 1 << 48, 1 << 56
	w.round[best] += link
	if !w.parallel[s] {
		return
	}
	k := len(cand)
	to := w.g.Channels[cand[(best+at)%k]].To
	for j := range k {
		if w.g.Channels[cand[(j+at)%k]].To == to {
			w.round[j] += peer
		}
	}
}

// keep spreads LIDs where the previous entry stays if it is still in the fan.
func (w *worker) keep(s int32, lids []ib.LID, cand []int32, row []byte, in []uint32) {
	k := len(cand)
	prev := w.prev.LFT[s]
	at := w.rotate(cand)
	for j, c := range cand {
		w.slot[w.g.Channels[c].OutPort] = uint8(j) + 1
	}
	key, round := w.key[:k], w.round[:k]
	owner := int32(-1)
	for i, l := range lids {
		f := in[i]
		if o := w.g.LIDOwner[l]; o != owner {
			owner = o
			clear(round)
		}
		best := 0
		if int(l) < len(prev) && l <= w.prev.TopLID && prev[l] < route.Drop && w.slot[prev[l]] > 0 {
			best = int(w.slot[prev[l]]) - 1 - at
			if best < 0 {
				best += k
			}
		} else if f == 0 {
			row[l] = w.g.Channels[cand[w.idle(l, k)]].OutPort
			continue
		} else {
			least := round[0] | key[0]
			for j, v := range key {
				if v |= round[j]; v < least {
					best, least = j, v
				}
			}
		}
		key[best] += uint64(f)
		w.used(s, cand, at, best)
		if best += at; best >= k {
			best -= k
		}
		w.send(cand[best], row, l, i, f)
	}
	for _, c := range cand {
		w.slot[w.g.Channels[c].OutPort] = 0
	}
}
