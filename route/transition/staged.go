package transition

import (
	"cmp"
	"slices"

	"heddle/ib"
	"heddle/route"
)

// maxStages bounds the stages of an order of updates; each costs a drain.
const maxStages = 6

// stageBudget bounds the visits that the search for an order may make, and
// changed LIDs × switches: of a large change some destination fits in no
// order nearly always, and finding that out costs more than the rest of a plan.
const stageBudget = 6_000_000

// staged is an order of updates: when each changed entry is written.
type staged struct {
	stages int
	lids   [][]ib.LID // by stage: those with entries that are written in it
	at     []uint8    // by index in change.lids: the stage; split if entries differ
	cells  []stagedCell
	hops   []int32 // by stage: switches on the longest path to one of lids during its writes
	trees  []uint8 // by index in change.trees
	lanes  int     // stage in which SL-to-VL tables are written; 0 with nothing to write
}

// stagedCell is an entry of a destination whose switches are written in
// different stages.
type stagedCell struct {
	cell
	stage uint8
}

const (
	pending = 255
	split   = 254
)

// inOrder searches an order of updates that discards nothing. Stage by stage it
// greedily takes all updates that can mix while earlier ones are new and the rest
// is old; broken destinations come first. Between two stages packets that met an
// older mix must drain. nil if there is none within the bounds.
//
// A destination is taken whole if possible; otherwise switch by switch, in the
// order of their distance to it by the wanted entries, which prevents transient
// loops (an update follows all updates nearer to the destination).
//
// It takes time proportional to stages × switches × changed LIDs, and switches ×
// LIDs once.
func (x *mixer) inOrder(ch *change, v *verdict, workers int) *staged {
	if x.frozen != nil {
		return nil // their destinations are rather discarded where managed switches send into them
	}
	if len(ch.lanes) > 0 {
		return x.lanesInOrder(ch, workers)
	}
	if len(ch.lids)*x.n > stageBudget {
		return nil
	}
	index := ch.index()
	st := &staged{at: make([]uint8, len(ch.lids)), trees: make([]uint8, len(ch.trees))}
	for i := range st.at {
		st.at[i] = pending
	}
	for i := range st.trees {
		st.trees[i] = pending
	}
	s := &sorter{x: x, ch: ch, st: st, index: index, budget: stageBudget, picks: stageBudget / 2, w: x.newWalker(), dist: make([]int32, x.n)}
	for _, first := range [2]bool{true, false} {
		for i := range ch.lids {
			if v.broken[i] == first {
				s.todo = append(s.todo, int32(i))
			}
		}
	}
	for st.stages = 0; st.stages < maxStages; st.stages++ {
		took, left := s.stage(v, workers)
		if s.budget < 0 || took == 0 {
			return nil
		}
		if left == 0 {
			st.stages++
			return st
		}
	}
	return nil
}

// sorter is the state of inOrder.
type sorter struct {
	x      *mixer
	ch     *change
	st     *staged
	index  []int32 // by LID: its place in ch.lids, or -1
	w      *walker
	todo   []int32 // indices in ch.lids, in the order to try
	budget int
	picks  int // the same for trying switch by switch
	dist   []int32
	flips  map[int32]uint8 // of the destination at hand, by switch: its stage
	// settled is how many of st.cells are of earlier stages, and sorted.
	settled int
}

// now loads the state of a destination before stage k: written entries are
// new, the others old; in stage k those that it takes are both.
func (s *sorter) now(i int32, k uint8) {
	x, w, l := s.x, s.w, s.ch.lids[i]
	switch at := s.st.at[i]; {
	case at == pending:
		x.load(w, l, oldEntries)
	case at < k:
		x.load(w, l, newEntries)
	case at == k:
		x.load(w, l, mixed)
	default: // split
		x.load(w, l, mixed)
		for u := range w.a {
			if w.b[u] < 0 && w.a[u] < 0 {
				continue
			}
			s.pick(int32(u), l, k)
		}
	}
}

// pick narrows the entries that load left for a switch of a split destination.
func (s *sorter) pick(u int32, l ib.LID, k uint8) {
	x, w := s.x, s.w
	was := x.port[int(u)<<8|int(effective(x.old, u, int(l)))]
	if was == w.a[u] {
		return
	}
	at, ok := s.flips[u]
	switch {
	case !ok:
		w.a[u], w.b[u] = was, -1
	case at < k:
		w.b[u] = -1
	default:
		w.b[u] = was
	}
}

// recall fills flips with the decisions on a split destination.
func (s *sorter) recall(l ib.LID) {
	s.flips = map[int32]uint8{}
	cells := s.st.cells[:s.settled]
	i, _ := slices.BinarySearchFunc(cells, l, func(c stagedCell, l ib.LID) int { return cmp.Compare(c.lid, l) })
	for ; i < len(cells) && cells[i].lid == l; i++ {
		s.flips[cells[i].s] = cells[i].stage
	}
}

const anyLevel = oldSLs | newSLs | oldLanes | newLanes

// stage assigns as many entries as possible to the next stage; it returns how many it assigned
// and how many are left.
func (s *sorter) stage(v *verdict, workers int) (took, left int) {
	x, w, st := s.x, s.w, s.st
	k := uint8(st.stages)
	base, ok := s.base(k, v, workers)
	if !ok {
		return 0, 1 // the installed entries loop
	}
	w.into = base
	for _, t := range s.ch.free {
		x.treeDeps(w, t, mixed)
	}
	for i, t := range s.ch.trees {
		sp := spec(anyLevel | newEntries)
		if st.trees[i] == pending {
			sp = anyLevel | oldEntries
		}
		x.treeDeps(w, t, sp)
	}
	w.into = nil
	ord, ok := x.topoOrder(base)
	if !ok {
		return 0, 1 // so is this: cycles before anything is written
	}
	ins := newInserter(x.layout, base, ord, s.budget)
	w.skip = base
	st.lids = append(st.lids, nil)
	rest := s.todo[:0:0]
	for _, i := range s.todo {
		ins.budget -= x.n
		all, some := s.take(ins, i, k, v.loop[i])
		if some {
			took++
			st.lids[k] = append(st.lids[k], s.ch.lids[i])
		}
		if !all {
			rest = append(rest, i)
		}
		if ins.budget < 0 {
			break
		}
	}
	s.todo, left = rest, len(rest)
	for i, t := range s.ch.trees {
		if st.trees[i] != pending {
			continue
		}
		w.edges = w.edges[:0]
		if x.treeDeps(w, t, mixed) && ins.all(w.edges) {
			st.trees[i] = k
			took++
		} else {
			left++
		}
	}
	s.budget = ins.budget
	slices.Sort(st.lids[k])
	st.hops = append(st.hops, 1)
	slices.SortFunc(st.cells, func(a, b stagedCell) int { return compareCells(a.cell, b.cell) })
	s.settled = len(st.cells)
	for _, l := range st.lids[k] {
		i := s.index[l]
		if st.at[i] == split {
			s.recall(l)
		}
		if s.now(i, k); x.order(w) {
			st.hops[k] = max(st.hops[k], x.depth(w, s.dist))
		}
	}
	return took, left
}

// base is the union of the dependencies of all destinations before stage k;
// false if one loops.
func (s *sorter) base(k uint8, v *verdict, workers int) (depSet, bool) {
	x, st := s.x, s.st
	s.budget -= len(s.ch.lids) * x.n / 4
	bad := make([]bool, len(s.ch.lids))
	base := x.merged(x.scan(workers, func(w *walker, l ib.LID) {
		x.target(w, 0)
		i := int32(-1)
		if int(l) < len(s.index) {
			i = s.index[l]
		}
		switch {
		case i < 0:
			x.one(w, l, wantedOnly)
		case st.at[i] == split: // below
		case st.at[i] != pending:
			bad[i] = !x.one(w, l, newEntries|anyLevel)
		case v.loop[i] && x.lanes == 1:
			bad[i] = !x.depsOf(w, l, oldEntries|anyLevel)
		default:
			bad[i] = !x.one(w, l, oldEntries|anyLevel)
		}
	}), 0)
	s.w.into = base
	for i, l := range s.ch.lids {
		if st.at[i] == split {
			s.recall(l)
			s.now(int32(i), k)
			if !x.order(s.w) {
				return nil, false
			}
			x.deps(s.w, l, anyLevel)
		}
	}
	return base, !slices.Contains(bad, true)
}

// take tries to write a destination in stage k: all of its rest, or as much as
// possible switch by switch.
func (s *sorter) take(ins *inserter, i int32, k uint8, loops bool) (all, some bool) {
	x, w, st, l := s.x, s.w, s.st, s.ch.lids[i]
	was := st.at[i]
	if was == pending && !loops {
		w.edges = w.edges[:0]
		if x.depsOf(w, l, mixed) && ins.all(w.edges) {
			st.at[i] = k
			return true, true
		}
	}
	s.flips = map[int32]uint8{}
	if was == split {
		s.recall(l)
	}
	order := s.rooted(l)
	st.at[i] = split
	if was == split {
		for _, u := range order {
			s.flips[u] = k
		}
		if s.fits(ins, i, k) {
			for _, u := range order {
				st.cells = append(st.cells, stagedCell{cell{l, u}, k})
			}
			return true, true
		}
		for _, u := range order {
			delete(s.flips, u)
		}
	}
	before := len(st.cells)
	for _, u := range order {
		if s.picks -= x.n; s.picks < 0 {
			break // switch by switch is for small changes
		}
		s.flips[u] = k
		if s.fits(ins, i, k) {
			st.cells = append(st.cells, stagedCell{cell{l, u}, k})
		} else {
			delete(s.flips, u)
		}
	}
	w.edges = w.edges[:0]
	if len(st.cells) == before {
		st.at[i] = was
		return false, false
	}
	return false, true
}

// fits inserts the dependencies of a destination with the current flips; false
// if that closes a loop or a cycle.
func (s *sorter) fits(ins *inserter, i int32, k uint8) bool {
	s.w.edges = s.w.edges[:0]
	s.now(i, k)
	if !s.x.order(s.w) {
		return false
	}
	s.x.deps(s.w, s.ch.lids[i], anyLevel)
	return ins.all(s.w.edges)
}

// rooted lists the switches whose entry for l is not written yet, nearest to
// the destination by the wanted entries first.
func (s *sorter) rooted(l ib.LID) (list []int32) {
	x := s.x
	const far = 1 << 30
	for u := range s.dist {
		s.dist[u] = -1
	}
	for u := range int32(x.n) {
		if _, done := s.flips[u]; !done && effective(x.old, u, int(l)) != effective(x.new, u, int(l)) {
			list = append(list, u)
		}
	}
	var depth func(u int32, left int) int32
	depth = func(u int32, left int) int32 {
		if s.dist[u] < 0 {
			c := x.port[int(u)<<8|int(effective(x.new, u, int(l)))]
			switch {
			case c < 0:
				s.dist[u] = 0
			case left == 0:
				s.dist[u] = far
			default:
				s.dist[u] = min(depth(x.to[c], left-1)+1, far)
			}
		}
		return s.dist[u]
	}
	for _, u := range list {
		depth(u, x.n)
	}
	slices.SortStableFunc(list, func(a, b int32) int { return int(s.dist[a] - s.dist[b]) })
	return list
}

// lanesInOrder tries SL-to-VL tables first, then entries; then the opposite
// order.
func (x *mixer) lanesInOrder(ch *change, workers int) *staged {
	const levels = oldSLs | newSLs
	st := &staged{stages: 2, at: make([]uint8, len(ch.lids)), trees: make([]uint8, len(ch.trees)), lids: [][]ib.LID{nil, ch.lids}}
	for i := range st.at {
		st.at[i] = 1
	}
	for i := range st.trees {
		st.trees[i] = 1
	}
	if x.passes(ch, workers, oldEntries|levels|oldLanes|newLanes) && x.passes(ch, workers, oldEntries|newEntries|levels|newLanes) {
		return st
	}
	if x.passes(ch, workers, oldEntries|newEntries|levels|oldLanes) && x.passes(ch, workers, newEntries|levels|oldLanes|newLanes) {
		clear(st.at)
		clear(st.trees)
		st.lids = [][]ib.LID{ch.lids, nil}
		st.lanes = 1
		return st
	}
	return nil
}

// passes reports whether all that sp allows is free of loops and cycles.
func (x *mixer) passes(ch *change, workers int, sp spec) bool {
	bad := make([]bool, (int(max(x.new.TopLID, x.old.TopLID))+1+route.BlockLen)/route.BlockLen)
	d := x.merged(x.scan(workers, func(w *walker, l ib.LID) {
		x.target(w, 0)
		if !x.depsOf(w, l, sp) {
			bad[int(l)/route.BlockLen] = true // one worker per block
		}
	}), 0)
	if slices.Contains(bad, true) {
		return false
	}
	w := x.newWalker()
	w.into = d
	for _, k := range ch.free {
		x.treeDeps(w, k, sp)
	}
	for _, k := range ch.trees {
		if !x.treeDeps(w, k, sp) {
			return false
		}
	}
	_, ok := x.topoOrder(d)
	return ok
}
