package mcast

import (
	"maps"
	"slices"

	"heddle/fabric"
	"heddle/ib"
	"heddle/route"
	"heddle/route/cdg"
)

// memo is what Build needs to change some trees and keep the others. It is
// immutable.
type memo struct {
	g           *fabric.Graph
	t           *route.Tables
	groups      []route.Group // ascending MLID
	graph       *cdg.Graph    // unicast and all trees
	order       *cdg.Order
	load, trees []int32
	comp        []int32
	tops        map[top]int32
}

// Maker implements route.Memory.
func (*memo) Maker() string { return "mcast" }

// memo stores the builder's state with all groups.
func (b *builder) memo(list []route.Group) route.Memory {
	if b.deps.order == nil {
		return nil
	}
	m := &memo{
		g: b.g, t: b.t, groups: slices.Clone(list), graph: b.deps.graph, order: b.deps.order,
		load: b.load, trees: b.trees, comp: b.comp, tops: b.tops,
	}
	unicast := *b.t
	unicast.Multicast, unicast.Memo = nil, nil // the previous trees are no longer needed
	m.t = &unicast
	return m
}

// resume continues from the last Build, if fabric and unicast tables are
// unchanged; otherwise the builder is nil. It fills in the trees of unchanged
// groups, or the reasons for having none, and returns the previous trees of the
// changed ones.
func resume(g *fabric.Graph, t *route.Tables, list []route.Group, trees []*route.Tree, refused []string, o Options) (*builder, map[ib.LID]*route.Tree) {
	if !Resumes(g, t, o) {
		return nil, nil
	}
	m := o.Previous.Memo.(*memo)
	n := len(g.Switches)
	b := &builder{
		g: g, t: t, dist: map[int32][]uint16{},
		load: slices.Clone(m.load), trees: slices.Clone(m.trees), need: make([]int32, n), pos: make([]int32, n),
		plan: newPlan(n), comp: m.comp, at: make([]int32, n), tops: maps.Clone(m.tops), work: maxWork,
	}
	b.deps.graph, b.deps.order = m.graph.Clone(), m.order.Clone()
	old := map[ib.LID]*route.Tree{}
	for i := range o.Previous.Trees {
		old[o.Previous.Trees[i].MLID] = &o.Previous.Trees[i]
	}
	var same []int // groups that were refused and would be again
	prev := map[ib.LID]*route.Tree{}
	i, left := 0, false
	for k := range m.groups {
		was := &m.groups[k]
		for i < len(list) && list[i].MLID < was.MLID {
			i++
		}
		tree := old[was.MLID]
		there := i < len(list) && list[i].MLID == was.MLID
		if there && alike(&list[i], was) {
			if trees[i] = tree; tree == nil {
				same = append(same, i)
			}
			continue
		}
		if tree != nil {
			b.show(tree)
			b.deps.remove(b.dependencies(tree))
			b.count(tree, -1)
			left = true
			if there {
				prev[was.MLID] = bare(g, tree)
			}
		}
	}
	if left { // there may be space now
		return b, prev
	}
	for _, i := range same {
		for _, r := range o.Previous.Refused {
			if r.MLID == list[i].MLID {
				refused[i] = r.Reason
			}
		}
	}
	return b, prev
}

// bare is a tree without its ports to end ports, which come from the demand.
func bare(g *fabric.Graph, t *route.Tree) *route.Tree {
	c := &route.Tree{MLID: t.MLID, SL: t.SL, Switches: t.Switches, Ports: make([]mask, len(t.Ports))}
	for i, s := range t.Switches {
		ports(&t.Ports[i], func(p uint8) {
			if int(p) < len(g.PortChannel[s]) && g.PortChannel[s][p] >= 0 {
				set(&c.Ports[i], p)
			}
		})
	}
	return c
}

func alike(a, b *route.Group) bool {
	return a.SL == b.SL && sameList(a.Members, b.Members) && sameList(a.Senders, b.Senders)
}

// sameList is slices.Equal with no cost for slices that share memory.
func sameList(a, b []int32) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0] || slices.Equal(a, b))
}

// Resumes reports whether Build would continue from the Build of o.Previous, so
// that only changed groups cost time and o.Unicast is not used.
func Resumes(g *fabric.Graph, t *route.Tables, o Options) bool {
	if o.Previous == nil || o.PreviousGraph == nil {
		return false
	}
	m, ok := o.Previous.Memo.(*memo)
	return ok && m.holds(o.PreviousGraph) && m.holds(g) && m.forwards(t)
}

// holds reports whether the memo is of a graph like g.
func (m *memo) holds(g *fabric.Graph) bool {
	return m.g == g || slices.Equal(m.g.Switches, g.Switches) && slices.Equal(m.g.Channels, g.Channels) &&
		slices.Equal(m.g.EndPorts, g.EndPorts) && slices.Equal(m.g.LIDOwner, g.LIDOwner)
}

// forwards reports whether the memo is of the very tables t, row by row.
func (m *memo) forwards(t *route.Tables) bool {
	return m.t.TopLID == t.TopLID && m.t.NumVLs == t.NumVLs && m.t.Lanes == t.Lanes && m.t.NumClasses == t.NumClasses &&
		m.t.SameEntries(t, false) && slices.Equal(m.t.SL, t.SL) && slices.Equal(m.t.Class, t.Class)
}
