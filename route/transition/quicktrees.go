package transition

import (
	"maps"
	"math/bits"
	"slices"

	"heddle/ib"
	"heddle/route"
)

// trees adds the dependencies of the mix of old and new multicast trees, and of
// recent ones; false if some mix is no forest or closes a cycle.
func (q *quick) trees(list []treeChange, recent []Recent) bool {
	x := q.x
	more := slices.ContainsFunc(recent, func(r Recent) bool {
		return r.Tables.Multicast != nil && r.Tables.Multicast != x.old.Multicast
	})
	if len(list) == 0 && !more {
		return true
	}
	x.build()
	if int(x.lanes) > q.deps.Lanes() {
		return false
	}
	w := x.newWalker()
	add := func(k treeChange, levels uint16) (forest, ok bool) {
		w.edges = w.edges[:0]
		forest = x.treeDepsOn(w, k, levels, mixed)
		q.list = x.cdgDeps(q.list[:0], w.edges)
		return forest, q.addAll(q.list)
	}
	for _, k := range list {
		if forest, ok := add(k, x.treeLevels(k, mixed)); !forest || !ok {
			return false
		}
	}
	if !more {
		return true
	}
	p := pastTrees{x: x, groups: map[ib.LID]*pastTree{}}
	for _, k := range list {
		p.groups[k.mlid()] = &pastTree{treeChange: k, levels: x.treeLevels(k, mixed), added: true}
	}
	before := x.old.Multicast
	for _, r := range slices.Backward(recent) {
		if m := r.Tables.Multicast; m != nil && m != before {
			p.take(m, before)
			before = m
		}
	}
	for _, l := range slices.Sorted(maps.Keys(p.groups)) {
		// Loops do not matter: a recent tree is no longer installed anywhere.
		if g := p.groups[l]; !g.added {
			if _, ok := add(g.treeChange, g.levels); !ok {
				return false
			}
		}
	}
	return true
}

// pastTrees finds which groups had links or levels in recent states that they do not have now.
//
// A host that joins or leaves often changes only the port of its own switch, or adds links to the tree.
// A packet of the recent tree then meets nothing that the trees of now do not permit. Hundreds of recent
// states are alive while many hosts join, so this decides how long the plan of a join takes.
type pastTrees struct {
	x      *mixer
	groups map[ib.LID]*pastTree
}

// pastTree is a group whose tree recent states had too. A packet in flight has met the ports of any of
// these states, of the installed one and of the wanted one: old has those of all but the last.
type pastTree struct {
	treeChange
	levels uint16
	own    bool // old is a copy
	added  bool // the dependencies have been added
}

// take adds the trees of a recent state; those that are in next, which has been taken, are in already.
func (p *pastTrees) take(m, next *route.Multicast) {
	var known []route.Tree
	if next != nil {
		known = next.Trees
	}
	for i := range m.Trees {
		r := &m.Trees[i]
		for len(known) > 0 && known[0].MLID < r.MLID {
			known = known[1:]
		}
		if len(known) > 0 && known[0].MLID == r.MLID && sameTree(&known[0], r) {
			continue
		}
		g := p.groups[r.MLID]
		if g == nil {
			g = &pastTree{treeChange: treeChange{treeOf(p.x.old, r.MLID), treeOf(p.x.new, r.MLID)}}
			if g.old == nil && g.now == nil {
				g.old = &route.Tree{MLID: r.MLID, SL: r.SL}
			}
			g.levels = p.x.treeLevels(g.treeChange, mixed)
			g.added = p.proved(g)
			p.groups[r.MLID] = g
		}
		if !p.covers(g, r) {
			g.widen(r)
		}
	}
}

// proved reports whether the dependencies of a group that does not change are those that were proved: the
// lane of a channel depends on nothing but the service level, and hosts use one.
func (p *pastTrees) proved(g *pastTree) bool {
	return !p.x.tables && g.old != nil && g.now != nil && sameTree(g.old, g.now) && g.levels == 1<<(g.now.SL&15)
}

// covers reports whether a group has all links of a recent tree, and its level.
func (p *pastTrees) covers(g *pastTree, r *route.Tree) bool {
	if g.levels>>(r.SL&15)&1 == 0 {
		return false
	}
	for i, s := range r.Switches {
		old, now := treePorts(g.old, s), treePorts(g.now, s)
		for j, m := range r.Ports[i] {
			for m &^= old[j] | now[j]; m != 0; m &= m - 1 {
				if p.x.port[int(s)<<8|j<<6|bits.TrailingZeros64(m)] >= 0 {
					return false
				}
			}
		}
	}
	return true
}

// widen adds the ports and the level of a recent tree.
func (g *pastTree) widen(r *route.Tree) {
	if !g.own {
		t := route.Tree{MLID: r.MLID, SL: r.SL}
		if g.old != nil {
			t = *g.old
			t.Switches, t.Ports = slices.Clone(t.Switches), slices.Clone(t.Ports)
		}
		g.old, g.own = &t, true
	}
	for i, s := range r.Switches {
		at, ok := slices.BinarySearch(g.old.Switches, s)
		if !ok {
			g.old.Switches, g.old.Ports = slices.Insert(g.old.Switches, at, s), slices.Insert(g.old.Ports, at, [4]uint64{})
		}
		for j, m := range r.Ports[i] {
			g.old.Ports[at][j] |= m
		}
	}
	g.levels |= 1 << (r.SL & 15)
	g.added = false
}
