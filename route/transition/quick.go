package transition

import (
	"maps"
	"slices"
	"time"

	"heddle/ib"
	"heddle/route"
	"heddle/route/cdg"
)

// quickly tries to show that the changes can mix, or be written in rooted
// order, by adding the dependencies that they permit to those of the wanted
// tables, which are given. It returns the entries of destinations that need
// rooted order. settled says that packets of recent states may still be in
// flight. ok is false if it cannot decide: for destinations that are switches
// it assumes packets from anywhere, which may be too many.
//
// A dependency that only the mix permits has an old channel at one end. For
// single-lane tables it is found from the changed entry and its adjacent
// entries, so the cost is that of changed entries × ports of a switch, and of
// the dependencies that disagree with the given order. For others it is changed
// LIDs × switches.
func (x *mixer) quickly(ch *change, o *Options, recent []Recent, stay time.Duration) (ok, settled bool, rooted []stagedCell) {
	if o.Proved == nil || ch.large || ch.unknown > 0 || len(ch.lanes) > 0 || ch.levels != nil || len(o.Frozen)+len(o.Left) > 0 {
		return false, false, nil
	}
	order := o.ProvedOrder
	if order == nil {
		order = o.Proved.Order()
	}
	if order == nil {
		return false, false, nil
	}
	q := &quick{x: x, deps: o.Proved.Clone(), order: order.Clone()}
	ch.sortCells()
	stray, ok := q.strays()
	if !ok || !q.trees(ch.trees, recent) {
		return false, false, nil
	}
	if x.single() {
		ok, rooted = q.single(ch.cells, stray, o.Workers)
		return ok, ok && q.withRecent(recent, rooted, stay), rooted
	}
	x.build()
	if int(x.lanes) > q.deps.Lanes() {
		return false, false, nil
	}
	w := x.newWalker()
	for _, l := range ch.lids {
		w.edges = w.edges[:0]
		if !stray[l] && x.depsOf(w, l, mixed) {
			if q.list = x.cdgDeps(q.list[:0], w.edges); q.addAll(q.list) {
				continue
			}
		}
		w.edges = w.edges[:0]
		if !x.rootedDeps(w, l, mixed) {
			return false, false, nil
		}
		if q.list = x.cdgDeps(q.list[:0], w.edges); !q.addAll(q.list) {
			return false, false, nil
		}
		x.load(w, l, mixed)
		rooted = x.rank(w, l, rooted)
	}
	return true, len(recent) == 0, rooted
}

// strays adds the dependencies of packets that crossed lost links, and returns the
// destinations that need rooted order because of them.
func (q *quick) strays() (rooted map[ib.LID]bool, ok bool) {
	x := q.x
	if !x.mayStray() {
		return nil, true
	}
	x.build()
	if int(x.lanes) > q.deps.Lanes() {
		return nil, false
	}
	rooted = map[ib.LID]bool{}
	w := x.newWalker()
	for _, l := range slices.Sorted(maps.Keys(x.strays)) {
		w.edges = w.edges[:0]
		if x.depsOf(w, l, mixed) {
			if q.list = x.cdgDeps(q.list[:0], w.edges); q.addAll(q.list) {
				continue
			}
		}
		w.edges = w.edges[:0]
		if !x.rootedDeps(w, l, mixed) {
			return nil, false
		}
		if q.list = x.cdgDeps(q.list[:0], w.edges); !q.addAll(q.list) {
			return nil, false
		}
		rooted[l] = true
	}
	return rooted, true
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
	list  []cdg.Dep
	added []cdg.Dep // by the last addAll
}

// addAll adds dependencies to the order, or none if one closes a cycle.
func (q *quick) addAll(list []cdg.Dep) bool {
	q.added = q.added[:0]
	for _, d := range list {
		if q.deps.Count(d) > 0 {
			continue
		}
		q.deps.Add(d, 1)
		q.added = append(q.added, d)
		if !q.order.Agrees(q.deps, d) && !q.order.Insert(q.deps, d) {
			for _, d := range q.added {
				q.deps.Add(d, -1)
			}
			return false
		}
	}
	return true
}

// channel is where a switch sends l by a table, or -1.
func (q *local) channel(t *route.Tables, s int32, l ib.LID) int32 {
	e := effective(t, s, int(l))
	if ports := q.x.g.PortChannel[s]; int(e) < len(ports) {
		return ports[e]
	}
	return -1
}

// hasCA reports, by switch, whether a CA or router port is attached to it.
func (q *quick) hasCA() []bool {
	x := q.x
	hasCA := make([]bool, x.managed)
	for i := range x.g.EndPorts {
		if e := &x.g.EndPorts[i]; e.Type != ib.NodeSwitch && e.Switch >= 0 {
			hasCA[e.Switch] = true
		}
	}
	return hasCA
}

// single adds the dependencies that the changed entries of single-lane tables
// permit, destination by destination. Lists are made in parallel and added in
// order.
//
// Destinations with stray packets are written in rooted order in any case.
func (q *quick) single(cells []cell, stray map[ib.LID]bool, workers int) (ok bool, rooted []stagedCell) {
	var groups [][]cell
	for len(cells) > 0 {
		n := 1
		for n < len(cells) && cells[n].lid == cells[0].lid {
			n++
		}
		groups = append(groups, cells[:n])
		cells = cells[n:]
	}
	x, hasCA := q.x, q.hasCA()
	const step = 64
	type found struct {
		deps  []cdg.Dep
		loops bool
	}
	lists := make([]found, len(groups))
	ws := make([]*local, max(workers, 1))
	route.ForEach(len(ws), (len(groups)+step-1)/step, func(worker, b int) {
		if ws[worker] == nil {
			ws[worker] = newLocal(x, hasCA)
		}
		w := ws[worker]
		for i := b * step; i < min((b+1)*step, len(groups)); i++ {
			f, from := &lists[i], len(w.slab)
			if f.loops = stray[groups[i][0].lid] || w.loops(groups[i]); !f.loops {
				w.slab = w.mix(w.slab, groups[i], false)
				f.deps = w.slab[from:len(w.slab):len(w.slab)]
			}
		}
	})
	w := newLocal(x, hasCA)
	for i, cells := range groups {
		if !lists[i].loops && q.addAll(lists[i].deps) {
			continue
		}
		for _, c := range cells {
			r := w.rank(c)
			if r > maxRooted {
				return false, nil
			}
			rooted = append(rooted, stagedCell{c, r})
		}
		if w.slab = w.mix(w.slab[:0], cells, true); w.installedLoops(cells) || !q.addAll(w.slab) {
			return false, nil
		}
	}
	return true, rooted
}

// local is one worker's scratch for the changed entries of one destination of
// single-lane tables.
type local struct {
	x     *mixer
	hasCA []bool
	slab  []cdg.Dep
	seen  []int32 // by switch: the search that visited it last
	round int32
	stack []int32
	// For destinations processed as a whole: channels by switch, and the reached
	// places.
	old, now []int32
	reached  []bool
	plain    []bool
	lost     map[int]lostCable // links by which packets of recent states may have arrived
}

func newLocal(x *mixer, hasCA []bool) *local {
	n := x.managed
	return &local{x: x, hasCA: hasCA, seen: make([]int32, n), old: make([]int32, n), now: make([]int32, n), reached: make([]bool, 2*n), plain: make([]bool, n)}
}

// mix lists the dependencies of one destination that only its changed entries
// permit; in rooted order none leads from a new entry to an old one.
func (q *local) mix(list []cdg.Dep, cells []cell, rooted bool) []cdg.Dep {
	x, g := q.x, q.x.g
	if !x.fromAnywhere(cells[0].lid) {
		return q.toSwitch(list, cells[0].lid, rooted)
	}
	if len(cells)*16 > x.managed {
		return q.toCA(list, cells[0].lid, rooted)
	}
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
		for _, t := range [2]*route.Tables{x.new, x.old} {
			if next := q.channel(t, k.To, c.lid); next >= 0 {
				list = append(list, cdg.Dep{Switch: k.To, In: k.InPort, Out: g.Channels[next].OutPort})
			}
		}
	}
	return list
}

// fill sets q.old and q.now for a destination.
func (q *local) fill(l ib.LID) {
	for s := range q.old {
		q.old[s], q.now[s] = q.channel(q.x.old, int32(s), l), q.channel(q.x.new, int32(s), l)
	}
}

// toCA is mix for a destination many of whose entries change.
func (q *local) toCA(list []cdg.Dep, l ib.LID, rooted bool) []cdg.Dep {
	g := q.x.g
	q.fill(l)
	for u, old := range q.old {
		now := q.now[u]
		if old >= 0 {
			k := &g.Channels[old]
			if c := q.old[k.To]; c >= 0 && (old != now || c != q.now[k.To]) {
				list = append(list, cdg.Dep{Switch: k.To, In: k.InPort, Out: g.Channels[c].OutPort})
			}
			if c := q.now[k.To]; c >= 0 && old != now && c != q.old[k.To] {
				list = append(list, cdg.Dep{Switch: k.To, In: k.InPort, Out: g.Channels[c].OutPort})
			}
		}
		if now >= 0 && now != old && !rooted {
			k := &g.Channels[now]
			if c := q.old[k.To]; c >= 0 && c != q.now[k.To] {
				list = append(list, cdg.Dep{Switch: k.To, In: k.InPort, Out: g.Channels[c].OutPort})
			}
		}
	}
	return list
}

// toSwitch is mix for a destination to which only CAs send data: it processes
// all that they can reach.
func (q *local) toSwitch(list []cdg.Dep, l ib.LID, rooted bool) []cdg.Dep {
	g := q.x.g
	q.fill(l)
	// The dependencies of the wanted entries alone are in already.
	clear(q.plain)
	for s, ca := range q.hasCA {
		for u := int32(s); ca && !q.plain[u]; {
			q.plain[u] = true
			if q.now[u] < 0 {
				break
			}
			u = g.Channels[q.now[u]].To
		}
	}
	// A place is 2·switch, +1 if packets arrived by a new entry in rooted order.
	clear(q.reached)
	q.stack = q.stack[:0]
	visit := func(u int32) {
		if !q.reached[u] {
			q.reached[u] = true
			q.stack = append(q.stack, u)
		}
	}
	for s, ca := range q.hasCA {
		if ca {
			visit(int32(2 * s))
		}
	}
	for len(q.stack) > 0 {
		u := q.stack[len(q.stack)-1]
		q.stack = q.stack[:len(q.stack)-1]
		old, now := q.old[u/2], q.now[u/2]
		if u&1 != 0 {
			old = now
		}
		for i, c1 := range [2]int32{old, now} {
			if c1 < 0 || i == 1 && now == old {
				continue
			}
			k, fresh := &g.Channels[c1], int32(0)
			if rooted && (i == 1 || u&1 != 0) {
				fresh = 1
			}
			visit(2*k.To + fresh)
			c2, d2 := q.now[k.To], q.old[k.To]
			if c2 >= 0 && !(c1 == now && q.plain[u/2]) {
				list = append(list, cdg.Dep{Switch: k.To, In: k.InPort, Out: g.Channels[c2].OutPort})
			}
			if d2 >= 0 && d2 != c2 && fresh == 0 {
				list = append(list, cdg.Dep{Switch: k.To, In: k.InPort, Out: g.Channels[d2].OutPort})
			}
		}
	}
	return list
}

// rank is the stage of an entry in rooted order.
func (q *local) rank(c cell) (r uint8) {
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

// loops reports whether the mix of entries to a destination has a loop; it then
// includes an old channel of a changed entry.
func (q *local) loops(cells []cell) bool {
	for _, c := range cells {
		if old := q.channel(q.x.old, c.s, c.lid); old >= 0 && q.returns(q.x.g.Channels[old].To, c.s, c.lid) {
			return true
		}
	}
	return false
}

// installedLoops reports whether the installed entries alone loop.
func (q *local) installedLoops(cells []cell) bool {
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

// returns reports whether packets to l at switch s may reach switch goal.
func (q *local) returns(s, goal int32, l ib.LID) bool {
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
