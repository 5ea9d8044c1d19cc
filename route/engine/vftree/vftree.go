// Package vftree routes fat trees and spreads pairs of leaves over virtual
// lanes, so that a flow to a hot spot does not delay flows that share its path
// up.
//
// Source: W. L. Guay, B. Bogdański, S.-A. Reinemo, O. Lysne and T. Skeie,
// "vFtree – a fat-tree routing algorithm using virtual lanes to alleviate
// congestion" (2011), Algorithm 1. The forwarding tables are those of package
// ftree. Leaves are the switches with CA ports. A pair of leaves has one lane
// both ways, because connections are symmetric; the lanes of a leaf to the
// following leaves are consecutive, so that destinations that share a link up,
// and are on different leaves, use different lanes. Paths within a leaf, and to
// and from switch port 0 of other switches, are on lane 0. No lane is needed
// for freedom from deadlock, as fat-tree routing has it with one.
//
// Cost: that of ftree, and one byte for each switch and leaf.
package vftree

import (
	"cmp"
	"fmt"
	"slices"

	"heddle/fabric"
	"heddle/ib"
	"heddle/route"
	"heddle/route/engine/ftree"
)

// Engine computes fat-tree tables with lanes by pair of leaves. The zero value
// is ready to use.
type Engine struct {
	// Lanes is how many data lanes to use, 1–15; 0: as many as Options.MaxVLs
	// and the links permit, but at most one less than there are leaves, which
	// suffices to separate all flows that share a link up.
	Lanes int
}

// Name is "vftree".
func (Engine) Name() string { return "vftree" }

var _ route.Updater = Engine{}

// Compute returns the tables; the options are those of ftree, and MaxVLs. The
// lane of a pair is its service level: on a link with fewer lanes (to a host)
// service levels share them.
func (e Engine) Compute(g *fabric.Graph, o route.Options) (*route.Tables, error) {
	t, err := ftree.Engine{}.Compute(g, o)
	if err != nil {
		return nil, route.RefusedBy("vftree", route.ErrTopology, err)
	}
	return e.lanes(g, t, nil, nil, o)
}

// Update updates tables incrementally as ftree does. Leaves keep their
// numbers, also while they are away, and the number of lanes stays unless
// fewer are allowed now, so pairs keep their service levels. New leaves get
// the numbers after the last.
func (e Engine) Update(from route.Solution, g *fabric.Graph, d *fabric.Delta, o route.Options) (*route.Tables, error) {
	if from.Tables == nil {
		return e.Compute(g, o)
	}
	old, ok := from.Tables.Memo.(*memo)
	if !ok || o.Rebalance {
		return e.Compute(g, o)
	}
	inner := *from.Tables
	inner.Memo = old.tree
	t, err := ftree.Engine{}.Update(route.Solution{Graph: from.Graph, Tables: &inner}, g, d, o)
	if err != nil {
		return nil, route.RefusedBy("vftree", route.ErrTopology, err)
	}
	return e.lanes(g, t, old, from.Tables, o)
}

// memo is what Update needs.
type memo struct {
	tree  route.Memory // of ftree
	leaf  []leaf       // by ascending GUID: every leaf that ever existed
	lanes int
}

// Maker implements route.Memory.
func (*memo) Maker() string { return "vftree" }

// leaf is the number that a switch has among those with CA ports.
type leaf struct {
	guid   ib.GUID
	number int32
}

func find(leaves []leaf, guid ib.GUID) (int, bool) {
	return slices.BinarySearchFunc(leaves, guid, func(a leaf, b ib.GUID) int { return cmp.Compare(a.guid, b) })
}

// Lane is Algorithm 1 of the paper in closed form: the lane between the leaves
// numbered a and b with the given number of lanes. For each leaf the paper
// walks through the following ones, counting the lane up; a leaf begins two
// lanes after the previous one, and one more after each round of all lanes.
func Lane(a, b int32, lanes int) ib.VL {
	if a == b {
		return 0
	}
	a, b = min(a, b), max(a, b)
	k := int32(lanes)
	begin := 2 * a % k
	if 2*a/k%2 == 1 {
		begin++
	}
	return ib.VL((begin + b - a - 1) % k)
}

// lanes adds service levels to tables of ftree.
func (e Engine) lanes(g *fabric.Graph, t *route.Tables, old *memo, was *route.Tables, o route.Options) (*route.Tables, error) {
	budget := route.Budget(g, o.MaxVLs)
	m := &memo{tree: t.Memo}
	if old != nil {
		m.leaf = old.leaf
	}
	number, here := m.number(g)
	m.lanes = max(min(budget, here-1), 1)
	switch {
	case e.Lanes > 15 || e.Lanes < 0:
		return nil, route.Refuse("vftree", route.ErrInput, "%d lanes requested; use 1 to 15", e.Lanes)
	case e.Lanes > budget:
		return nil, route.Refuse("vftree", route.ErrLanes, "needs %d lanes, %d are allowed%s", e.Lanes, budget, scarce(g, budget))
	case e.Lanes > 0:
		m.lanes = e.Lanes
	case old != nil:
		m.lanes = min(old.lanes, budget)
	}

	tb := *t
	tb.Engine, tb.Memo, tb.NumVLs = "vftree", m, m.lanes
	classes := int32(0)
	for _, x := range m.leaf {
		classes = max(classes, x.number+1)
	}
	// Class classes is that of switch port 0s without CAs on the switch.
	tb.NumClasses = int(classes) + 1
	tb.Class = make([]int32, int(tb.TopLID)+1)
	for l := range tb.Class {
		tb.Class[l] = -1
		if l >= len(g.LIDOwner) || g.LIDOwner[l] == fabric.NoLID {
			continue
		}
		if s := g.EndPorts[g.LIDOwner[l]].Switch; s >= 0 {
			tb.Class[l] = classes
			if number[s] >= 0 {
				tb.Class[l] = number[s]
			}
		}
	}
	tb.SL = make([]ib.SL, len(g.Switches)*tb.NumClasses)
	for s, a := range number {
		if a < 0 {
			continue
		}
		row := tb.SL[s*tb.NumClasses:][:classes]
		for b := range row {
			row[b] = ib.SL(Lane(a, int32(b), m.lanes))
		}
	}
	if was != nil {
		if slices.Equal(was.Class, tb.Class) {
			tb.Class = was.Class
		}
		if slices.Equal(was.SL, tb.SL) {
			tb.SL = was.SL
		}
	}
	return &tb, nil
}

// number assigns numbers to new leaves, by ascending lowest LID, after those
// that have one. It returns the numbers by switch, -1 for others, and the
// number of leaves.
func (m *memo) number(g *fabric.Graph) ([]int32, int) {
	number := make([]int32, len(g.Switches))
	for s := range number {
		number[s] = -1
	}
	next := int32(0)
	for _, x := range m.leaf {
		next = max(next, x.number+1)
	}
	var fresh []leaf
	here := 0
	for _, e := range g.LIDOwner {
		if e == fabric.NoLID {
			continue
		}
		p := &g.EndPorts[e]
		if p.Switch < 0 || p.Type == ib.NodeSwitch || number[p.Switch] >= 0 {
			continue
		}
		here++
		guid := g.Switches[p.Switch].GUID
		if i, ok := find(m.leaf, guid); ok {
			number[p.Switch] = m.leaf[i].number
			continue
		}
		number[p.Switch] = next
		fresh = append(fresh, leaf{guid, next})
		next++
	}
	if len(fresh) > 0 {
		m.leaf = append(slices.Clone(m.leaf), fresh...)
		slices.SortFunc(m.leaf, func(a, b leaf) int { return cmp.Compare(a.guid, b.guid) })
	}
	return number, here
}

// scarce names a link that sets the budget; "" if an option does.
func scarce(g *fabric.Graph, budget int) string {
	for i := range g.Channels {
		if c := &g.Channels[i]; int(max(c.VLs, 1)) == budget {
			return fmt.Sprintf(" (link %v port %d has %d)", g.Switches[c.From].GUID, c.OutPort, budget)
		}
	}
	return ""
}
