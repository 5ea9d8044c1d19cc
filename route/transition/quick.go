package transition

import (
	"heddle/ib"
	"heddle/route"
	"heddle/route/cdg"
)

// quickly tries to show that what changes can mix, or be written in rooted
// order, by adding what the change allows to the dependencies of the wanted
// tables, which are given. It returns the entries of destinations that need
// rooted order. ok is false if it has no opinion: for destinations that are
// switches it takes packets from anywhere, which may be too many.
//
// A dependency that only the mix allows has an old channel at one end. For
// single-lane tables it is found from the changed entry and its neighbours, so
// the cost is that of changed entries × ports of a switch, and of the
// dependencies that disagree with the order given. For others it is changed
// LIDs × switches.
func (x *mixer) quickly(ch *change, o *Options) (ok bool, rooted []stagedCell) {
	if o.Proved == nil || ch.large || ch.unknown > 0 || len(ch.lanes) > 0 || len(ch.trees) > 0 || ch.levels != nil || len(o.Frozen) > 0 {
		return false, nil
	}
	order := o.ProvedOrder
	if order == nil {
		order = o.Proved.Order()
	}
	if order == nil {
		return false, nil
	}
	q := &quick{x: x, deps: o.Proved.Clone(), order: order.Clone()}
	ch.sortCells()
	if x.single() {
		return q.single(ch.cells)
	}
	x.build()
	if int(x.lanes) > q.deps.Lanes() {
		return false, nil
	}
	w := x.newWalker()
	for _, l := range ch.lids {
		w.edges = w.edges[:0]
		if x.depsOf(w, l, mixed) && q.addAll(x.cdgDeps(q.list[:0], w.edges)) {
			continue
		}
		w.edges = w.edges[:0]
		if !x.rootedDeps(w, l, mixed) || !q.addAll(x.cdgDeps(q.list[:0], w.edges)) {
			return false, nil
		}
		x.load(w, l, mixed)
		rooted = x.rank(w, l, rooted)
	}
	return true, rooted
}

func (x *mixer) cdgDeps(list []cdg.Dep, edges []edge) []cdg.Dep {
	for _, e := range edges {
		c1, c2 := e.u/x.lanes, e.v/x.lanes
		list = append(list, cdg.Dep{Switch: x.to[c1], In: x.inPort[c1], InLane: uint8(e.u % x.lanes), Out: x.outPort[c2], OutLane: uint8(e.v % x.lanes)})
	}
	return list
}

// quick is the state of quickly.
type quick struct {
	x     *mixer
	deps  *cdg.Graph
	order *cdg.Order
	// By switch: the search that visited it last, in three ways.
	seen, seenFresh, seenNew []int32
	round                    int32
	stack                    []int32
	list                     []cdg.Dep
}

// addAll makes room for dependencies, or for none if one closes a cycle.
func (q *quick) addAll(list []cdg.Dep) bool {
	q.list = list
	for i, d := range list {
		fresh := q.deps.Count(d) == 0
		q.deps.Add(d, 1)
		if fresh && !q.order.Agrees(q.deps, d) && !q.order.Insert(q.deps, d) {
			for _, d := range list[:i+1] {
				q.deps.Add(d, -1)
			}
			return false
		}
	}
	return true
}

// channel is where a switch sends l by a table, or -1.
func (q *quick) channel(t *route.Tables, s int32, l ib.LID) int32 {
	e := effective(t, s, int(l))
	if ports := q.x.g.PortChannel[s]; int(e) < len(ports) {
		return ports[e]
	}
	return -1
}

// single adds what the changed entries of single-lane tables allow, destination
// by destination.
func (q *quick) single(cells []cell) (ok bool, rooted []stagedCell) {
	q.seen, q.seenFresh, q.seenNew = make([]int32, q.x.managed), make([]int32, q.x.managed), make([]int32, q.x.managed)
	for len(cells) > 0 {
		n := 1
		for n < len(cells) && cells[n].lid == cells[0].lid {
			n++
		}
		if !q.loops(cells[:n]) && q.addAll(q.mix(q.list[:0], cells[:n], false)) {
			cells = cells[n:]
			continue
		}
		for _, c := range cells[:n] {
			r := q.rank(c)
			if r > maxRooted {
				return false, nil
			}
			rooted = append(rooted, stagedCell{c, r})
		}
		if q.installedLoops(cells[:n]) || !q.addAll(q.mix(q.list[:0], cells[:n], true)) {
			return false, nil
		}
		cells = cells[n:]
	}
	return true, rooted
}

// mix lists the dependencies of one destination that only its changed entries
// allow; in rooted order none leads from a new entry to an old one.
func (q *quick) mix(list []cdg.Dep, cells []cell, rooted bool) []cdg.Dep {
	x, g := q.x, q.x.g
	for _, c := range cells {
		old := q.channel(x.old, c.s, c.lid)
		if old < 0 {
			continue
		}
		k := &g.Channels[old]
		for _, out := range g.Channels[g.Off[c.s]:g.Off[c.s+1]] {
			in := out.Rev
			if q.channel(x.old, out.To, c.lid) == in || !rooted && q.channel(x.new, out.To, c.lid) == in {
				list = append(list, cdg.Dep{Switch: c.s, In: out.OutPort, Out: k.OutPort})
			}
		}
		if !x.fromAnywhere(c.lid) {
			// Packets that the wanted entries alone would not bring here go on.
			q.round++
			list = q.follow(list, old, c.lid, false, rooted)
			continue
		}
		for _, t := range [2]*route.Tables{x.new, x.old} {
			if next := q.channel(t, k.To, c.lid); next >= 0 {
				list = append(list, cdg.Dep{Switch: k.To, In: k.InPort, Out: g.Channels[next].OutPort})
			}
		}
	}
	return list
}

// follow lists the dependencies of packets to l from channel c on; fresh says
// that they came by a new entry and in rooted order meet new ones only.
func (q *quick) follow(list []cdg.Dep, c int32, l ib.LID, fresh, rooted bool) []cdg.Dep {
	x, k := q.x, &q.x.g.Channels[c]
	old, now := q.channel(x.old, k.To, l), q.channel(x.new, k.To, l)
	changed := effective(x.old, k.To, int(l)) != effective(x.new, k.To, int(l))
	step := func(next int32, fresh bool) {
		if next < 0 {
			return
		}
		list = append(list, cdg.Dep{Switch: k.To, In: k.InPort, Out: x.g.Channels[next].OutPort})
		mark := &q.seen[k.To]
		if fresh {
			mark = &q.seenFresh[k.To]
		}
		if next != old {
			mark = &q.seenNew[k.To]
		}
		if *mark != q.round {
			*mark = q.round
			list = q.follow(list, next, l, fresh, rooted)
		}
	}
	step(now, fresh || rooted && changed)
	if changed && !(fresh && rooted) {
		step(old, fresh)
	}
	return list
}

// rank is the stage of an entry in rooted order.
func (q *quick) rank(c cell) (r uint8) {
	x := q.x
	u := c.s
	for hop := 0; ; hop++ {
		next := q.channel(x.new, u, c.lid)
		if next < 0 {
			return r
		}
		u = x.g.Channels[next].To
		if effective(x.old, u, int(c.lid)) != effective(x.new, u, int(c.lid)) && r < pending {
			r++
		}
		if hop > x.managed {
			return pending
		}
	}
}

// loops reports whether the mix of entries to a destination goes round: then
// it does so over an old channel of an entry that changes.
func (q *quick) loops(cells []cell) bool {
	for _, c := range cells {
		if old := q.channel(q.x.old, c.s, c.lid); old >= 0 && q.returns(q.x.g.Channels[old].To, c.s, c.lid) {
			return true
		}
	}
	return false
}

// installedLoops reports whether the installed entries alone go round.
func (q *quick) installedLoops(cells []cell) bool {
	for _, c := range cells {
		u := c.s
		for range q.x.managed + 1 {
			next := q.channel(q.x.old, u, c.lid)
			if next < 0 {
				u = -1
				break
			}
			u = q.x.g.Channels[next].To
		}
		if u >= 0 {
			return true
		}
	}
	return false
}

// returns reports whether packets to l at switch s may come to switch goal.
func (q *quick) returns(s, goal int32, l ib.LID) bool {
	x := q.x
	q.round++
	q.stack = append(q.stack[:0], s)
	for len(q.stack) > 0 {
		u := q.stack[len(q.stack)-1]
		q.stack = q.stack[:len(q.stack)-1]
		if u == goal {
			return true
		}
		if q.seen[u] == q.round {
			continue
		}
		q.seen[u] = q.round
		for _, t := range [2]*route.Tables{x.new, x.old} {
			if c := q.channel(t, u, l); c >= 0 {
				q.stack = append(q.stack, x.g.Channels[c].To)
			}
		}
	}
	return false
}
