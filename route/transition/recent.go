package transition

import (
	"bytes"
	"slices"
	"time"

	"heddle/fabric"
	"heddle/ib"
	"heddle/route"
	"heddle/route/cdg"
)

// Recent is a state that was installed before the current one. Packets that met
// it may still be in flight when the next transition begins.
type Recent struct {
	// Tables have their rows in the order of the graph's switches; nil rows
	// are those of switches that are new.
	Tables *route.Tables
	// Ago is the time since the last switch applied it.
	Ago time.Duration
	// Plan is the plan that replaced it, nil if unknown. Packets to destinations
	// that the plan ordered cannot have followed a later entry and then one of
	// this state.
	Plan *Plan
}

// ordered reports whether the entries for l were written in an order in which
// no packet follows a new one and then an old one.
func (p *Plan) ordered(l ib.LID) bool {
	if p != nil && p.steps != nil {
		return !p.unordered
	}
	if p == nil || int(l) >= len(p.content.kind) {
		return false
	}
	switch p.content.kind[l] {
	case dropped, droppedAll:
		return true
	case inStages:
		return p.content.rooted
	}
	return false
}

// maxHops is the most links on a path of a subnet (IBA §14.2.2).
const maxHops = 63

// alive are the recent states that packets can still remember.
func (b *builder) alive() (list []Recent) {
	worst := b.drain(maxHops + 1)
	for _, r := range b.o.Recent {
		if worst < 0 || r.Ago < worst {
			list = append(list, r)
		}
	}
	return list
}

// unicast reduces the recent states to those that unicast packets can tell apart, oldest
// first. Consecutive states with the same entries and levels become one, replaced when
// the later of them was, and states equal to the installed tables are dropped. Each join
// of a group leaves a state, so without this the work of a plan would grow with the
// square of the number of joins before it.
func (x *mixer) unicast(list []Recent) (out []Recent) {
	for i := range list {
		if n := len(out); n > 0 && sameUnicast(out[n-1].Tables, list[i].Tables) {
			out[n-1] = list[i]
			continue
		}
		out = append(out, list[i])
	}
	for len(out) > 0 && sameUnicast(out[len(out)-1].Tables, x.old) {
		out = out[:len(out)-1]
	}
	return out
}

// sameUnicast reports whether two tables have the same entries, levels and lanes; it may
// miss that where they were made apart.
func sameUnicast(a, b *route.Tables) bool {
	if a == b {
		return true
	}
	return a.TopLID == b.TopLID && a.NumVLs == b.NumVLs && a.NumClasses == b.NumClasses &&
		a.Lanes == b.Lanes && sameSlice(a.SL, b.SL) && sameSlice(a.Class, b.Class) && slices.EqualFunc(a.LFT, b.LFT, bytes.Equal)
}

// sameSlice is slices.Equal with a short cut for slices that share memory.
func sameSlice[T comparable](a, b []T) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0] || slices.Equal(a, b))
}

// cellsBetween adds the entries in which two states differ to a list by LID, switch; ok is
// false if they are too many.
func (x *mixer) cellsBetween(a, b *route.Tables, list []cell) (cells []cell, ok bool) {
	y := &mixer{g: x.g, managed: x.managed, old: a, new: b}
	ch := &change{touched: make([]bool, int(max(a.TopLID, b.TopLID))+1)}
	y.compareRows(ch)
	if ch.large || len(list)+len(ch.cells) > maxCells {
		return nil, false
	}
	list = append(list, ch.cells...)
	slices.SortFunc(list, compareCells)
	return slices.Compact(list), true
}

// withRecent reports whether packets that met recent states (oldest first) may
// be in flight during the change, given that q already has the mix of the
// installed and the wanted state. For single-lane tables.
//
// A packet meets states in chronological order, except where two of them were
// mixed. A switch decides on arrival, and the packet leaves within stay. So
// packets to a CA, which may come from anywhere, are ignored after twice that
// time; packets to a switch may be where none can arrive any more, until the
// last of them has left.
//
// rooted are the entries that are written in rooted order.
func (q *quick) withRecent(list []Recent, rooted []stagedCell, stay time.Duration) bool {
	x := q.x
	inTurn := map[ib.LID]bool{}
	for _, c := range rooted {
		inTurn[c.lid] = true
	}
	hasCA := q.hasCA()
	lost := x.lostCables(func(s int32, port uint8) int32 {
		if ports := x.g.PortChannel[s]; int(port) < len(ports) {
			return ports[port]
		}
		return -1
	})
	states := []*route.Tables{x.old, x.new}
	list = x.unicast(list)
	// Entries that changed since a state: also those that changed back, between which
	// packets met others.
	changed, ok := x.cellsBetween(x.old, x.new, nil)
	for i := len(list) - 1; i >= 0 && ok; i-- {
		r := &list[i]
		changed, ok = x.cellsBetween(r.Tables, states[0], changed)
		if t := r.Tables; !ok || t.SL != nil || t.Lanes != nil || t.NumVLs > 1 {
			return false
		}
		cells := changed
		var pairs []*local
		for _, t := range states {
			y := *x
			y.old, y.new = r.Tables, t
			pairs = append(pairs, newLocal(&y, hasCA))
		}
		states = append([]*route.Tables{r.Tables}, states...)
		w := newLocal(x, hasCA)
		w.lost = lost
		for len(cells) > 0 {
			n := 1
			for n < len(cells) && cells[n].lid == cells[0].lid {
				n++
			}
			l := cells[0].lid
			w.slab = w.slab[:0]
			switch {
			case !x.fromAnywhere(l):
				w.slab = w.among(w.slab, l, states, r.Plan.ordered(l), inTurn[l])
			case stay > 0 && r.Ago >= 2*stay:
			default:
				for j, p := range pairs {
					wanted := j == len(pairs)-1
					w.slab = p.mix(w.slab, cells[:n], wanted || r.Plan.ordered(l))
				}
			}
			if !q.addAll(w.slab) {
				return false
			}
			cells = cells[n:]
		}
	}
	return ok
}

// among lists the dependencies of packets from CAs to a switch that may meet any of
// several states, oldest first, the last being the wanted one, and that may have crossed
// links lost since. ordered says that no packet meets an older state after a newer one,
// except the installed one after the wanted one; inTurn excludes that too. A state before
// the installed one is no longer installed anywhere when the wanted one begins.
func (q *local) among(list []cdg.Dep, l ib.LID, states []*route.Tables, ordered, inTurn bool) []cdg.Dep {
	g := q.x.g
	k := len(states)
	reached := make([]bool, len(g.Switches)*k)
	q.stack = q.stack[:0]
	visit := func(u int32, i int) {
		if at := int(u)*k + i; !reached[at] {
			reached[at] = true
			q.stack = append(q.stack, int32(at))
		}
	}
	for s, ca := range q.hasCA {
		if ca {
			visit(int32(s), 0)
		}
	}
	oldest := func(i int) int {
		switch {
		case i == k-1 && inTurn || i < k-1 && ordered:
			return i
		case i == k-1:
			return k - 2
		}
		return 0
	}
	for len(q.stack) > 0 {
		at := int(q.stack[len(q.stack)-1])
		q.stack = q.stack[:len(q.stack)-1]
		u := int32(at / k)
		for i := oldest(at % k); i < k; i++ {
			c1 := q.channel(states[i], u, l)
			if over, ok := q.lost[int(u)<<8|int(effective(states[i], u, int(l)))]; ok && i < k-1 {
				visit(over.to, i)
			}
			if c1 < 0 || i > oldest(at%k) && q.channel(states[i-1], u, l) == c1 {
				continue // nowhere, or seen with the state before
			}
			h := &g.Channels[c1]
			// An entry that is equal in an earlier state counts as the older one.
			last := i
			for last > at%k && q.channel(states[last-1], u, l) == c1 {
				last--
			}
			visit(h.To, last)
			for j := oldest(last); j < k; j++ {
				if c2 := q.channel(states[j], h.To, l); c2 >= 0 && (j == oldest(last) || q.channel(states[j-1], h.To, l) != c2) {
					list = append(list, cdg.Dep{Switch: h.To, In: h.InPort, Out: g.Channels[c2].OutPort})
				}
			}
		}
	}
	return list
}

// waitForRecent makes a plan begin with the time that packets of recent states
// need to leave: added to the first stage if that only discards, otherwise in a
// stage of its own that writes nothing.
func (b *builder) waitForRecent(list []Recent) {
	p := b.p
	wait, hops := b.untilGone(list)
	if wait <= 0 {
		return // the time is unknown or unlimited
	}
	if p.Stages[0].Discards && p.Stages[0].Drain > 0 {
		p.Stages[0].Drain = max(p.Stages[0].Drain, wait)
		p.Stages[0].DrainHops = max(p.Stages[0].DrainHops, hops)
		return
	}
	p.Reason += "; packets that met the tables before must leave first"
	p.Stages = slices.Insert(p.Stages, 0, Stage{Drain: wait, DrainHops: hops})
	p.content.later()
}

// untilFree is how long it takes until packets of recent states can no longer form a
// cycle with others over restored links, and the switches that they leave; 0 if they
// cannot now, or there is no such link.
func (b *builder) untilFree() (wait time.Duration, hops int) {
	if b.o.Quiet || len(b.alive()) == 0 || !b.back() {
		return 0, 0
	}
	if f := newFitter(b.x.g, b.p.installed, b.p.installed, b.o); f == nil || !f.partly {
		return 0, 0
	}
	return b.untilClear()
}

// untilClear is how long it takes until packets of recent states are in no circle with others;
// negative: without limit.
func (b *builder) untilClear() (wait time.Duration, hops int) {
	for hops = 1; hops <= maxHops; hops *= 2 {
		if wait = b.drain(hops); wait < 0 {
			return wait, hops
		}
		o := *b.o
		o.Recent = slices.Clone(o.Recent)
		for i := range o.Recent {
			o.Recent[i].Ago += wait
		}
		if f := newFitter(b.x.g, b.p.installed, b.p.installed, &o); f != nil && !f.partly {
			return wait, hops
		}
	}
	return b.drain(hops), hops
}

// back reports whether the graph has a channel that it did not have when the installed
// tables were made.
func (b *builder) back() bool {
	h, g := b.o.Before, b.x.g
	if h == nil || h == g {
		return false
	}
	for _, c := range fabric.Diff(h, g).Channel {
		if c < 0 {
			return true
		}
	}
	return false
}

// untilGone is how long it takes until packets of recent states have left, and the
// switches on the longest path of one; negative: without limit.
func (b *builder) untilGone(list []Recent) (wait time.Duration, hops int) {
	hops = 1
	ago := list[0].Ago
	for _, r := range list {
		ago = min(ago, r.Ago)
	}
	for _, r := range list {
		for _, t := range trees(r.Tables) {
			hops = max(hops, len(t.Switches))
		}
	}
	for _, r := range b.x.unicast(list) {
		y := newMixer(b.x.g, r.Tables, b.x.old, b.o)
		y.build()
		ch := &change{touched: make([]bool, int(max(r.Tables.TopLID, b.x.old.TopLID))+1)}
		y.compareRows(ch)
		var lids []ib.LID
		for l, t := range ch.touched {
			switch {
			case !t || l == 0:
			case b.x.single() && b.x.fromAnywhere(ib.LID(l)):
				hops = max(hops, 2) // see withRecent
			default:
				lids = append(lids, ib.LID(l))
			}
		}
		hops = max(hops, y.longest(lids, oldEntries|newEntries, b.o.Workers))
	}
	if wait = b.drain(hops); wait > 0 {
		wait = max(wait-ago, 0)
	}
	return wait, hops
}

// later moves everything later by one stage.
func (c *content) later() {
	c.main++
	c.late++
	if c.last > 0 {
		c.last++
	}
	for i := range c.stage {
		c.stage[i]++
	}
	for i := range c.cells {
		c.cells[i].stage++
	}
	for i := range c.treeAt {
		c.treeAt[i]++
	}
	c.treeFrom++
}
