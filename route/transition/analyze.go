package transition

import (
	"fmt"
	"slices"

	"heddle/ib"
	"heddle/route"
)

// insertBudget bounds the visits (nodes and loaded entries) of a search for
// stages or for a small discard set; beyond it all changed destinations are
// discarded.
const insertBudget = 40_000_000

// scan calls each for every LID up to the top with its worker's walker.
// Results must go to sets of the walker or to places that the LID decides.
func (x *mixer) scan(workers int, each func(w *walker, l ib.LID)) []*walker {
	top := int(max(x.new.TopLID, x.old.TopLID))
	for i := range x.frozen {
		top = max(top, len(x.frozen[i].Row)-1)
	}
	blocks := top/route.BlockLen + 1
	ws := make([]*walker, max(min(workers, blocks), 1))
	route.ForEach(len(ws), blocks, func(worker, b int) {
		if ws[worker] == nil {
			ws[worker] = x.newWalker()
		}
		for l := max(b*route.BlockLen, 1); l < (b+1)*route.BlockLen && l <= top; l++ {
			each(ws[worker], ib.LID(l))
		}
	})
	return ws
}

// merged is the union of a set of all walkers.
func (x *mixer) merged(ws []*walker, k int) depSet {
	var all depSet
	for _, w := range ws {
		switch {
		case w == nil || w.sets[k] == nil:
		case all == nil:
			all = w.sets[k]
		default:
			for i, v := range w.sets[k] {
				all[i] |= v
			}
		}
	}
	if all == nil {
		all = x.newSet()
	}
	return all
}

// target makes set k of the walker the place where dependencies go.
func (x *mixer) target(w *walker, k int) {
	if w.sets[k] == nil {
		w.sets[k] = x.newSet()
	}
	w.into = w.sets[k]
}

// depsOf adds the dependencies of l under sp to w; false, and nothing added,
// if some choice of entries loops.
func (x *mixer) depsOf(w *walker, l ib.LID, sp spec) bool {
	x.load(w, l, sp)
	if (x.lanes > 1 || sp&oldEntries != 0) && !x.order(w) {
		return false
	}
	x.deps(w, l, sp)
	return true
}

// oneSingle is depsOf for one lane, the wanted or the installed entries alone,
// and packets from anywhere: the hot loop.
func (x *mixer) oneSingle(w *walker, l ib.LID, sp spec) {
	x.tiles(w, int(l)/route.BlockLen, sp&oldEntries != 0 || w.oldToo && w.block == int(l)/route.BlockLen)
	tile := w.tileNew
	if sp&oldEntries != 0 {
		tile = w.tileOld
	}
	entries := tile[int(l)%route.BlockLen*x.n:][:x.n]
	ch, d := w.a, w.into
	for s, e := range entries {
		ch[s] = x.port[s<<8|int(e)]
	}
	for _, c1 := range ch {
		if c1 < 0 {
			continue
		}
		if c2 := ch[x.to[c1]]; c2 >= 0 {
			b := x.row[c1] + int64(x.col[c2])
			if m := uint64(1) << (b & 63); d[b>>6]&m == 0 {
				d[b>>6] |= m
			}
		}
	}
}

// one adds the dependencies of l by its wanted or its installed entries alone
// to w.into. With one lane it does not search for loops.
func (x *mixer) one(w *walker, l ib.LID, sp spec) bool {
	if x.lanes > 1 {
		return x.depsOf(w, l, sp)
	}
	if x.fromAnywhere(l) {
		x.oneSingle(w, l, sp)
		return true
	}
	x.load(w, l, sp)
	x.deps(w, l, sp)
	return true
}

// verdict is the outcome of analyze.
type verdict struct {
	clean bool
	want  depSet // dependencies of the wanted state, multicast included
	loop  []bool // by index in change.lids: some mix of entries loops
	loops int
	// By index in change.lids: some switch drops it that will not.
	broken []bool
	rings  []bool // by index in change.trees: the union of the trees is none
}

// analyze determines whether all changes can mix.
//
// It takes time proportional to switches × LIDs, on all workers.
func (x *mixer) analyze(ch *change, workers int) *verdict {
	v := &verdict{loop: make([]bool, len(ch.lids)), broken: make([]bool, len(ch.lids)), rings: make([]bool, len(ch.trees))}
	index := ch.index()
	ws := x.scan(workers, func(w *walker, l ib.LID) {
		i := int32(-1)
		if int(l) < len(index) {
			i = index[l]
		}
		if i >= 0 {
			x.tiles(w, int(l)/route.BlockLen, true)
		}
		x.target(w, 0)
		x.one(w, l, wantedOnly)
		if i < 0 && x.strays[l] == nil {
			return
		}
		x.target(w, 1)
		if i < 0 {
			x.depsOf(w, l, mixed)
			return
		}
		if !x.depsOf(w, l, mixed) {
			v.loop[i] = true
		}
		v.broken[i] = x.broken(w, l)
	})
	for _, lp := range v.loop {
		if lp {
			v.loops++
		}
	}
	v.want = x.merged(ws, 0)
	mix := x.merged(ws, 1)
	w := x.newWalker()
	w.into = v.want
	for _, k := range ch.free {
		x.treeDeps(w, k, mixed)
	}
	for _, k := range ch.trees {
		x.treeDeps(w, k, wantedOnly)
	}
	w.into = mix
	ring := false
	for i, k := range ch.trees {
		v.rings[i] = !x.treeDeps(w, k, mixed)
		ring = ring || v.rings[i]
	}
	if v.loops > 0 || ring {
		return v
	}
	for j := range mix {
		mix[j] |= v.want[j]
	}
	_, v.clean = x.topoOrder(mix)
	return v
}

// broken reports whether some switch drops l by its installed entry but
// forwards it by the wanted one; load must have been called for both.
func (x *mixer) broken(w *walker, l ib.LID) bool {
	at := int(l) % route.BlockLen * x.n
	for s, c := range w.a {
		if c >= 0 && w.b[s] < 0 && w.tileOld[at+s] != w.tileNew[at+s] {
			return true
		}
	}
	return false
}

// index gives the place of each LID in lids, or -1.
func (ch *change) index() []int32 {
	index := make([]int32, len(ch.touched))
	for l := range index {
		index[l] = -1
	}
	for i, l := range ch.lids {
		index[l] = int32(i)
	}
	return index
}

// discards is the result of the search for entries that must be dropped for a
// while.
type discards struct {
	gaveUp string       // why only discarding everything is offered
	lids   []ib.LID     // ascending
	loops  int          // how many of them are there for a loop
	rooted []stagedCell // entries of destinations that are written in rooted order; stages from 0
	levels bool         // too many would have to be held, so all destinations whose levels change are
	hold   []cell       // entries to keep dropped until hosts use their new levels, by LID, switch
	// Groups whose hosts must use the new level before they have a tree again.
	heldTrees []int
	trees     []int // indices in change.trees of groups whose trees must not mix
}

// search decides, greedily in ascending order, which destinations are written in
// rooted order (if allowed) because their entries cannot all mix, and which lose
// their old entries before anything is written.
func (x *mixer) search(ch *change, v *verdict, rooted bool) *discards {
	d := &discards{}
	ord, ok := x.topoOrder(v.want)
	if !ok {
		d.gaveUp = "the wanted tables have credit cycles of their own, so all changed destinations are discarded"
		d.levels = ch.levels != nil
		return d
	}
	ins := newInserter(x.layout, v.want, ord, insertBudget)
	w := x.newWalker()
	w.skip = v.want
	// Old service levels stay in use after the last write, so they come first.
	for _, l := range ch.lids {
		if ch.levels == nil || int(l) >= len(ch.levels) || !ch.levels[l] {
			continue
		}
		if hold, ok := x.holds(ins, w, l); ok {
			d.hold = append(d.hold, hold...)
		} else {
			d.gaveUp = "too many service levels change to choose the hosts that must be notified first: all changed destinations are discarded until they use new ones"
			d.hold, d.levels = nil, true
			return d
		}
	}
	held := 0
	for i, l := range ch.lids {
		first := held
		for held < len(d.hold) && d.hold[held].lid == l {
			held++
		}
		ins.budget -= x.n
		w.edges = w.edges[:0]
		if v.loop[i] {
			if !rooted || first < held || !x.tryRooted(ins, w, d, l) {
				d.lids, d.loops = append(d.lids, l), d.loops+1
			}
			continue
		}
		x.load(w, l, mixed)
		// A held entry is dropped before and written last of all, so it does
		// not mix.
		for _, c := range d.hold[first:held] {
			w.a[c.s], w.b[c.s] = -1, -1
		}
		if x.lanes > 1 {
			x.order(w)
		}
		x.deps(w, l, mixed)
		if !ins.all(w.edges) && (!rooted || first < held || !x.tryRooted(ins, w, d, l)) {
			d.lids = append(d.lids, l)
		}
		if ins.budget < 0 {
			d.rooted = nil
			d.gaveUp = fmt.Sprintf("mixing old and new entries would close cycles, and too many to choose among %d changed destinations: all are discarded", len(ch.lids))
			return d
		}
	}
	x.searchTrees(ch, v, d, ins, w)
	return d
}

// searchTrees decides which multicast trees are dropped before they are written,
// and which are held until all else is written.
func (x *mixer) searchTrees(ch *change, v *verdict, d *discards, ins *inserter, w *walker) {
	for i, k := range ch.trees {
		w.edges = w.edges[:0]
		x.treeDeps(w, k, newEntries|newLanes|oldSLs|newSLs)
		if !ins.all(w.edges) {
			d.heldTrees = append(d.heldTrees, i)
		}
	}
	for i, k := range ch.trees {
		if slices.Contains(d.heldTrees, i) {
			continue
		}
		w.edges = w.edges[:0]
		x.treeDeps(w, k, mixed)
		if v.rings[i] || !ins.all(w.edges) {
			d.trees = append(d.trees, i)
		}
	}
}

// tryRooted inserts the dependencies of rooted order.
func (x *mixer) tryRooted(ins *inserter, w *walker, d *discards, l ib.LID) bool {
	w.edges = w.edges[:0]
	ins.budget -= x.n
	if !x.rootedDeps(w, l, mixed) || !ins.all(w.edges) {
		return false
	}
	x.load(w, l, mixed)
	n := len(d.rooted)
	if d.rooted = x.rank(w, l, d.rooted); slices.ContainsFunc(d.rooted[n:], func(c stagedCell) bool { return c.stage > maxRooted }) {
		d.rooted = d.rooted[:n]
		return false
	}
	return true
}

// maxRooted is the last stage of a rooted order.
const maxRooted = 200

// holds finds the source switches whose hosts must not use their old levels to
// l on the wanted entries, because that would close a cycle.
func (x *mixer) holds(ins *inserter, w *walker, l ib.LID) (hold []cell, ok bool) {
	const after = newEntries | newLanes | oldSLs | newSLs
	w.edges = w.edges[:0]
	ins.budget -= x.n
	if !x.depsOf(w, l, after) {
		return nil, true // the wanted entries loop: nothing is proved then
	}
	if ins.all(w.edges) {
		return nil, true
	}
	// One source at a time.
	for s := range int32(x.managed) {
		now, all := x.levelsOf(s, l, newSLs), x.levelsOf(s, l, oldSLs|newSLs)
		if now == all || w.a[s] < 0 {
			continue
		}
		w.edges = w.edges[:0]
		clear(w.arrive)
		w.arrive[s] = all
		x.spread(w, l, after)
		if !ins.all(w.edges) {
			hold = append(hold, cell{l, s})
		}
	}
	return hold, ins.budget >= 0
}

// spread is deps with w.arrive as it stands.
func (x *mixer) spread(w *walker, l ib.LID, sp spec) {
	if x.tables {
		x.depsTables(w, x.fromAnywhere(l), sp)
	} else if x.lanes > 1 {
		x.depsModulo(w)
	}
}
