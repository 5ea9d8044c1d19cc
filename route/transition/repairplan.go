package transition

import (
	"fmt"
	"slices"
	"time"

	"heddle/fabric"
	"heddle/ib"
	"heddle/route"
)

// Risk describes an unproved step of a plan: packets may temporarily wait for each other in a
// cycle.
type Risk struct {
	// Cycle is an example of channels that may: each for the next, the last for the first.
	Cycle []Hop
	// Worst is how long such packets stay at most: then the head-of-queue limit and
	// the packet lifetime of switches have discarded them.
	Worst time.Duration
	Why   string
}

// NewRepair plans a repair: the entries of r.First, which need no wait, then those of
// final, then lane tables and multicast trees. final are r.Tables with trees, or the
// engine's tables if r.Tables is nil.
//
// Before the second step packets need time to leave. strict waits for them, while
// pairs of the second step stay broken. Otherwise the plan does not wait, and Risk
// says what may happen. nil is returned if there is no such plan: lifetimes are
// unlimited, or r.Tables is nil and strict is set.
func NewRepair(g *fabric.Graph, installed, final *route.Tables, r *Fitted, o Options, strict bool) *Plan {
	x := newMixer(g, installed, final, &o)
	ch := x.compare(o.Quiet)
	p := &Plan{
		Mode: ModeRepair, EntriesChanged: ch.entries, LIDsChanged: len(ch.lids), RepathPairs: ch.pairs, NeedsRepath: ch.pairs > 0,
		g: g, installed: installed, wanted: final,
	}
	b := &builder{p: p, x: x, ch: ch, o: &o}
	if o.LanesUnknown {
		ch.lanes = x.everyLane()
	}
	whole := r.Tables != nil // entries of working pairs stay
	late := !whole || r.Tables != r.First
	if r.needsEnd(late) && b.drain(1) < 0 || strict && !r.canWait() {
		return nil
	}
	first := r.First
	if late && !strict {
		first = writtenOnce(g, installed, first, final)
	}
	at := b.repairSteps(first, final, late)
	if at == nil {
		return nil
	}
	p.steps[len(p.steps)-1] = final
	b.steps()
	last := len(p.Stages) - 1
	if !b.repairLanes(r, at, late) {
		return nil
	}
	trees := b.repairTrees(r, last)
	if trees && !b.finishTrees(r, last, strict) {
		return nil
	}
	for k := range p.Stages {
		p.content.groups(&p.Stages[k], k)
	}
	if !strict {
		p.Risk = b.repairRisk(r, late && !r.proved(), trees)
	} else if late && !r.proved() {
		b.lateDrain(&p.Stages[at[1]-1], r)
	}
	b.compactRepair()
	if late && r.Guarded && len(ch.lanes) > 0 {
		b.before(Stage{SL2VL: ch.lanes}) // from here on switches discard what could close a cycle
	}
	p.Reason = b.repairReason(r, strict)
	if r.Past && strict && !b.outlast() {
		return nil
	}
	b.total()
	done := *r
	done.fitter, p.Fitted = nil, &done
	return p
}

// repairLanes puts the SL-to-VL tables into a stage, but for guards, which have a stage of their
// own. It is false if they may not change.
func (b *builder) repairLanes(r *Fitted, at []int, late bool) bool {
	lanes := b.ch.lanes
	switch {
	case late && r.Guarded:
	case late:
		b.p.Stages[at[1]].SL2VL = lanes
	case len(lanes) > 0 && !r.Lanes:
		return false
	case len(lanes) > 0:
		b.p.Stages[0].SL2VL = lanes
	}
	return true
}

// canWait reports whether the second step can wait until no packet follows old
// entries or service levels.
func (r *Fitted) canWait() bool {
	return r.Tables != nil && !r.Stale && (r.NewLevels == 0 || r.Guarded)
}

// needsEnd reports whether something must leave before the plan is proved.
func (r *Fitted) needsEnd(late bool) bool { return r.Stale || late && !r.proved() }

// proved reports whether the second step needs no wait.
func (r *Fitted) proved() bool { return r.Guarded && !r.waits }

// lateDrain waits after a stage until no packet follows entries before it, or with guards until
// none waits for an output that it found before it.
func (b *builder) lateDrain(st *Stage, r *Fitted) {
	if st.DrainHops = max(r.hops, 2); r.Guarded {
		st.DrainHops = 1
	} else if !b.x.single() {
		b.x.build()
		st.DrainHops = max(st.DrainHops, b.x.longest(b.ch.lids, mixed, b.o.Workers))
	}
	st.Drain = b.drain(st.DrainHops)
}

// total sums the stages up.
func (b *builder) total() {
	p, o := b.p, b.o
	for i := range p.Stages {
		st := &p.Stages[i]
		b.rooted(st.LFT)
		p.SMPs += len(st.LFT) + len(st.SL2VL) + len(st.MFT)
		p.Drain += st.Drain
		p.Repath += st.Repath
	}
	p.Distribution = time.Duration(p.SMPs) * (o.SMPTime + o.DirectedTime) / time.Duration(max(o.Window, 1))
	p.Predicted = o.ComputeTime + p.Distribution + p.Drain + p.Repath
}

// repairSteps divides the writes into steps without a loop or a cycle between them,
// and returns the first stage of first, if it is written by itself (late), and of
// final. It is nil if first has no such order.
func (b *builder) repairSteps(first, final *route.Tables, late bool) (at []int) {
	p := b.p
	steps := []*route.Tables{first, final}
	if !late {
		steps = steps[1:]
	}
	for _, t := range steps {
		from := p.installed
		if n := len(p.steps); n > 0 {
			from = p.steps[n-1]
		}
		at = append(at, len(p.steps))
		list := inRootedOrder(b.x.g, from, t)
		if list == nil {
			if t == first && late {
				return nil
			}
			list, p.unordered = []*route.Tables{t}, true
		}
		p.steps = append(p.steps, list...)
	}
	return at
}

// treesAlone adds a stage for multicast trees, before which the packets of the old
// ones leave; false if nothing bounds when they have left.
func (b *builder) treesAlone(r *Fitted, last int) bool {
	p, ch, x, final, o := b.p, b.ch, b.x, b.p.wanted, b.o
	// Packets of the old trees leave before there are others.
	st := &p.Stages[last]
	for i := range ch.trees {
		st.DrainHops = max(st.DrainHops, x.treeHops(ch.trees[i], oldEntries))
	}
	if st.Drain = b.drain(st.DrainHops); st.Drain < 0 {
		return false
	}
	for i, k := range ch.trees {
		if p.content.treeCut[i] == 0 {
			continue // before those with which it is not known to mix
		}
		p.content.treeAt[i] = uint8(last + 1)
		if k.old == nil || k.now == nil || r.takes(x, k, newEntries|newLanes|oldSLs|newSLs) {
			continue
		}
		if st.Repath = o.RepathTime; st.Repath <= 0 {
			return false // members may send on the old level without limit
		}
	}
	if st.Repath > 0 { // and their last packets leave
		st.DrainHops++
		st.Drain = b.drain(st.DrainHops)
	}
	p.Stages = append(p.Stages, Stage{})
	p.steps = append(p.steps, final)
	return true
}

// writtenOnce returns first without the entries that final changes again: those that first
// drops only until packets have drained, and those that it would write temporarily. Without a
// wait between the two they gain nothing, and write blocks twice.
func writtenOnce(g *fabric.Graph, installed, first, final *route.Tables) *route.Tables {
	twice := make([]bool, int(first.TopLID)+1) // destinations that must stay unchanged
	var again []cell
	for s, row := range first.LFT {
		if s < len(installed.LFT) && len(row) > 0 && len(installed.LFT[s]) > 0 && &row[0] == &installed.LFT[s][0] {
			continue
		}
		for l := range min(len(row), len(twice)) {
			if row[l] != effective(installed, int32(s), l) && row[l] != effective(final, int32(s), l) {
				twice[l] = twice[l] || row[l] != route.Drop
				again = append(again, cell{ib.LID(l), int32(s)})
			}
		}
	}
	if len(again) == 0 {
		return first
	}
	u := *first
	u.LFT = slices.Clone(first.LFT)
	own := make([]bool, len(u.LFT))
	keep := func(s int32, l ib.LID) {
		e := effective(installed, s, int(l))
		if u.LFT[s][l] == e {
			return
		}
		if !own[s] {
			u.LFT[s], own[s] = slices.Clone(u.LFT[s]), true
		}
		u.LFT[s][l] = e
	}
	for _, c := range again {
		keep(c.s, c.lid)
	}
	for l, all := range twice {
		if all {
			for s := range u.LFT {
				keep(int32(s), ib.LID(l))
			}
		}
	}
	if inRootedOrder(g, &u, final) == nil {
		return first
	}
	return &u
}

// outlast puts a wait before a repair until packets of recent states have left; false if
// that may be never.
func (b *builder) outlast() bool {
	p := b.p
	wait, hops := b.untilClear()
	if wait < 0 {
		return false
	}
	if wait > 0 {
		b.before(Stage{Drain: wait, DrainHops: hops})
		p.Reason += "; packets that met the tables before must leave first"
	}
	return true
}

// before puts a stage that writes no entries before all others.
func (b *builder) before(st Stage) {
	p := b.p
	p.Stages = slices.Insert(p.Stages, 0, st)
	p.steps = slices.Insert(p.steps, 0, p.installed)
	p.content.later()
}

// steps makes a stage of each step.
func (b *builder) steps() {
	p, x := b.p, b.x
	p.Stages = make([]Stage, len(p.steps))
	from := p.installed
	for k, t := range p.steps {
		y := &mixer{g: x.g, managed: x.managed, old: from, new: t}
		part := &change{touched: make([]bool, int(max(from.TopLID, t.TopLID))+1)}
		y.compareRows(part)
		p.Stages[k].LFT = part.diff
		from = t
	}
}

// inTurn writes all destinations of a plan without waits in rooted order, if a
// working switch could otherwise send to one that has no entry yet.
func (b *builder) inTurn() {
	p, ch := b.p, b.ch
	if p.Mode != ModeDynamic && p.Mode != ModeStaged || p.Forced || b.o.Quiet || ch.large || !b.drops() {
		return
	}
	for i := range p.Stages {
		if st := &p.Stages[i]; st.Discards || st.Drain != 0 || st.Repath != 0 || len(st.SL2VL) > 0 && i > 0 {
			return // its stages have an order that matters
		}
	}
	list := inRootedOrder(b.x.g, p.installed, p.wanted)
	if len(list) < 2 {
		return
	}
	p.steps = list
	b.steps()
	p.content = content{p: p, trees: ch.trees, treeAt: make([]uint8, len(ch.trees)), treeCut: make([]uint8, len(ch.trees))}
	last := len(p.Stages) - 1
	p.Stages[0].SL2VL = ch.lanes
	for i := range p.content.treeAt {
		p.content.treeAt[i] = uint8(last)
	}
	p.content.groups(&p.Stages[last], last)
	p.Mode = ModeStaged
	p.Reason += fmt.Sprintf("; written in %d stages so that no switch sends to one that has no entry yet", len(list))
}

// drops reports whether the entry of some destination changes both at a switch
// that forwards it and at one that drops it.
func (b *builder) drops() bool {
	x, ch := b.x, b.ch
	sends, drop := make([]bool, len(ch.touched)), make([]bool, len(ch.touched))
	for _, c := range ch.cells {
		e := effective(x.old, c.s, int(c.lid))
		ports := x.g.PortChannel[c.s]
		if d, port := x.owner(c.lid); int(e) < len(ports) && ports[e] >= 0 || c.s == d && e == port {
			sends[c.lid] = true
		} else {
			drop[c.lid] = true
		}
		if sends[c.lid] && drop[c.lid] {
			return true
		}
	}
	return false
}

// repairTrees writes changed multicast trees in the last stage. Of those that
// do not mix with the installed state, the first stage leaves the part that
// both trees share; it reports whether there are any.
func (b *builder) repairTrees(r *Fitted, last int) (cut bool) {
	p, ch := b.p, b.ch
	c := &p.content
	*c = content{p: p, trees: ch.trees, treeAt: make([]uint8, len(ch.trees)), treeCut: make([]uint8, len(ch.trees))}
	if len(ch.trees) == 0 {
		return false
	}
	b.x.build()
	for i, k := range ch.trees {
		c.treeAt[i] = uint8(min(last, pending))
		if !r.takes(b.x, k, mixed) {
			c.treeCut[i] = cutShared
			p.Groups = append(p.Groups, k.mlid())
			cut = true
		}
	}
	return cut
}

// finishTrees adds the stage that completes the trees that stage last cut, where they need one of
// their own. It reports false if that is impossible.
func (b *builder) finishTrees(r *Fitted, last int, strict bool) bool {
	if strict {
		return b.treesAlone(r, last)
	}
	if b.ringsLast(last + 1) {
		b.p.Stages = append(b.p.Stages, Stage{})
		b.p.steps = append(b.p.steps, b.p.wanted)
	}
	return true
}

// ringsLast has the trees whose old and new masks close a ring completed at stage at, when all
// switches have cut them: otherwise a packet could loop for as long as a switch does not take its
// block. It reports whether there are any.
func (b *builder) ringsLast(at int) (any bool) {
	c := &b.p.content
	w := b.x.newWalker()
	for i, k := range c.trees {
		if c.treeCut[i] != 0 {
			if w.edges = w.edges[:0]; !b.x.treeDeps(w, k, mixed) {
				c.treeAt[i] = uint8(min(at, pending))
				any = true
			}
		}
	}
	return any
}

// takes reports whether the dependencies that sp permits for the trees of a
// group are compatible with those of the repair, and adds them if so.
func (r *Fitted) takes(x *mixer, k treeChange, sp spec) bool {
	f := r.fitter
	if f == nil || f.x.lanes != x.lanes || f.x.cross != x.cross {
		return false
	}
	f.w.edges = f.w.edges[:0]
	forest := f.x.treeDeps(f.w, k, sp)
	for _, t := range f.trees[k.mlid()] {
		if t != k.old && sp&oldEntries != 0 {
			f.x.treeDeps(f.w, treeChange{t, k.now}, sp) // packets of a recent tree
		}
	}
	return forest && f.ins.all(f.w.edges)
}

// inRootedOrder lists the tables after each stage of rooted order, the last being to; at
// least one. nil if too much changes, or in too many stages.
func inRootedOrder(g *fabric.Graph, from, to *route.Tables) (list []*route.Tables) {
	y := &mixer{g: g, managed: len(g.Switches), old: from, new: to}
	ch := &change{touched: make([]bool, int(max(from.TopLID, to.TopLID))+1)}
	y.compareRows(ch)
	if ch.large {
		return nil
	}
	q := &local{x: y}
	var ranks [maxRooted + 1][]cell
	for _, c := range ch.cells {
		k := q.rank(c)
		if k > maxRooted {
			return nil
		}
		ranks[k] = append(ranks[k], c)
	}
	t := from
	for k := range ranks {
		if len(ranks[k]) == 0 {
			break
		}
		u := *to
		u.LFT = slices.Clone(t.LFT)
		own := make([]bool, len(u.LFT))
		n := route.RowLen(to.TopLID)
		for _, c := range ranks[k] {
			if !own[c.s] {
				own[c.s] = true
				row := make([]byte, n)
				for l := range row {
					row[l] = effective(t, c.s, l)
				}
				u.LFT[c.s] = row
			}
			if int(c.lid) < n {
				u.LFT[c.s][c.lid] = effective(to, c.s, int(c.lid))
			}
		}
		list = append(list, &u)
		t = &u
	}
	if len(list) == 0 {
		return []*route.Tables{to}
	}
	list[len(list)-1] = to
	return list
}

// compactRepair removes stages that write nothing.
func (b *builder) compactRepair() {
	p := b.p
	for k := len(p.Stages) - 1; k >= 0 && len(p.Stages) > 1; k-- {
		st := &p.Stages[k]
		if len(st.LFT)+len(st.SL2VL)+len(st.MFT) > 0 {
			continue
		}
		if k > 0 {
			p.Stages[k-1].Drain = max(p.Stages[k-1].Drain, st.Drain)
			p.Stages[k-1].Repath = max(p.Stages[k-1].Repath, st.Repath)
		}
		p.Stages = slices.Delete(p.Stages, k, k+1)
		p.steps = slices.Delete(p.steps, k, k+1)
		for i := range p.content.treeAt {
			if int(p.content.treeAt[i]) > k {
				p.content.treeAt[i]--
			}
		}
	}
}
