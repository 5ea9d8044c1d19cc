package transition

import (
	"slices"
	"time"

	"heddle/ib"
	"heddle/route"
	"heddle/route/cdg"
)

// Recent is a state that the switches held before the installed one. Packets
// that met it may still be under way when the next transition begins.
type Recent struct {
	// Tables have their rows in the order of the graph's switches; nil rows
	// are those of switches that are new.
	Tables *route.Tables
	// Ago is how long no switch has acted on it any more.
	Ago time.Duration
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

// recentCells lists the entries in which a recent state differs from the
// installed or the wanted one, by LID, switch; ok is false if they are too many.
func (x *mixer) recentCells(r *route.Tables) (cells []cell, ok bool) {
	ch := &change{}
	for _, t := range [2]*route.Tables{x.old, x.new} {
		y := &mixer{g: x.g, managed: x.managed, old: r, new: t}
		part := &change{touched: make([]bool, int(max(r.TopLID, t.TopLID))+1)}
		y.compareRows(part)
		if part.large {
			return nil, false
		}
		ch.cells = append(ch.cells, part.cells...)
	}
	slices.SortFunc(ch.cells, compareCells)
	return slices.Compact(ch.cells), true
}

// withRecent reports whether packets that met recent states can be under way
// while the change is made, given that the mix of the installed and the wanted
// state is in q already. For single-lane tables.
func (q *quick) withRecent(list []Recent) bool {
	x := q.x
	hasCA := q.hasCA()
	states := []*route.Tables{x.new, x.old}
	for _, r := range list {
		cells, ok := x.recentCells(r.Tables)
		if t := r.Tables; !ok || t.SL != nil || t.Lanes != nil || t.NumVLs > 1 {
			return false
		}
		states = append(states, r.Tables)
		var pairs []*local
		for _, t := range states[:len(states)-1] {
			y := *x
			y.old, y.new = r.Tables, t
			pairs = append(pairs, newLocal(&y, hasCA))
		}
		w := newLocal(x, hasCA)
		for len(cells) > 0 {
			n := 1
			for n < len(cells) && cells[n].lid == cells[0].lid {
				n++
			}
			w.slab = w.slab[:0]
			if x.fromAnywhere(cells[0].lid) {
				for _, p := range pairs {
					w.slab = p.mix(w.slab, cells[:n], false)
				}
			} else {
				w.slab = w.among(w.slab, cells[0].lid, states)
			}
			if !q.addAll(w.slab) {
				return false
			}
			cells = cells[n:]
		}
	}
	return true
}

// among lists the dependencies of packets that CAs send to a switch while any
// of several states may be met.
func (q *local) among(list []cdg.Dep, l ib.LID, states []*route.Tables) []cdg.Dep {
	g := q.x.g
	clear(q.plain)
	q.stack = q.stack[:0]
	visit := func(u int32) {
		if !q.plain[u] {
			q.plain[u] = true
			q.stack = append(q.stack, u)
		}
	}
	for s, ca := range q.hasCA {
		if ca {
			visit(int32(s))
		}
	}
	for len(q.stack) > 0 {
		u := q.stack[len(q.stack)-1]
		q.stack = q.stack[:len(q.stack)-1]
		for i, t := range states {
			c1 := q.channel(t, u, l)
			if c1 < 0 || i > 0 && c1 == q.channel(states[0], u, l) {
				continue
			}
			k := &g.Channels[c1]
			visit(k.To)
			for j, t := range states {
				if c2 := q.channel(t, k.To, l); c2 >= 0 && (j == 0 || c2 != q.channel(states[0], k.To, l)) {
					list = append(list, cdg.Dep{Switch: k.To, In: k.InPort, Out: g.Channels[c2].OutPort})
				}
			}
		}
	}
	return list
}

// waitForRecent makes a plan begin with the time that packets of recent
// states need to leave: added to the first stage if that only discards, else
// in a stage of its own that writes nothing.
func (b *builder) waitForRecent(list []Recent) {
	p := b.p
	hops, ago := 1, list[0].Ago
	for _, r := range list {
		ago = min(ago, r.Ago)
		y := newMixer(b.x.g, r.Tables, b.x.old, b.o)
		y.build()
		ch := &change{touched: make([]bool, int(max(r.Tables.TopLID, b.x.old.TopLID))+1)}
		y.compareRows(ch)
		var lids []ib.LID
		for l, t := range ch.touched {
			if t && l > 0 {
				lids = append(lids, ib.LID(l))
			}
		}
		hops = max(hops, y.longest(lids, oldEntries|newEntries, b.o.Workers))
	}
	wait := b.drain(hops)
	if wait < 0 || wait <= ago {
		return // nobody can say for how long, or long enough
	}
	wait -= ago
	if p.Stages[0].Discards && p.Stages[0].Drain > 0 {
		p.Stages[0].Drain = max(p.Stages[0].Drain, wait)
		p.Stages[0].DrainHops = max(p.Stages[0].DrainHops, hops)
		return
	}
	p.Reason += "; packets that met the tables before must leave first"
	p.Stages = slices.Insert(p.Stages, 0, Stage{Drain: wait, DrainHops: hops})
	p.content.later()
}

// later moves everything back by one stage.
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
