package updn

import (
	"fmt"
	"slices"

	"heddle/fabric"
	"heddle/ib"
	"heddle/internal/routetest"
	"heddle/route"
)

// CheckMemo compares what tables remember with what computing from scratch,
// with the same roots, would remember, and the loads with a recount.
func CheckMemo(g *fabric.Graph, t *route.Tables, o route.Options, mirrored bool) error {
	m, ok := t.Memo.(*memo)
	if !ok {
		return fmt.Errorf("no memory")
	}
	o.Previous, o.Roots = nil, m.roots
	t2, err := compute(g, o, "updn", mirrored)
	if err != nil {
		return err
	}
	want := t2.Memo.(*memo)
	if !slices.Equal(m.order, want.order) {
		return fmt.Errorf("order %v, want %v", m.order, want.order)
	}
	for d := range want.dist {
		if !slices.Equal(m.dist[d], want.dist[d]) || !slices.Equal(m.down[d], want.down[d]) {
			return fmt.Errorf("destination %d: costs %v (down %v), want %v (%v)", d, m.dist[d], m.down[d], want.dist[d], want.down[d])
		}
	}
	if count := routetest.Loads(g, t, o.Unbalanced); !slices.Equal(m.loads, count) {
		return fmt.Errorf("loads %v, counted %v", m.loads, count)
	}
	return nil
}

// Judge tells, by t's memory, whether a switch may send a LID by a channel.
func Judge(g *fabric.Graph, t *route.Tables, o route.Options) func(s int32, l ib.LID, c int32) bool {
	m := t.Memo.(*memo)
	r := &repairer{repair: &repair{shape: newShape(g, m.order, nil), m: m}}
	return func(_ int32, l ib.LID, c int32) bool { return r.May(g.EndPorts[g.LIDOwner[l]].Switch, c) }
}

// SameCosts compares what two tables remember of the costs.
func SameCosts(g *fabric.Graph, t, u *route.Tables) error {
	a, b := t.Memo.(*memo), u.Memo.(*memo)
	for d := range g.Switches {
		for s := range g.Switches {
			if x, y := a.dist[d][s]&cost, b.dist[d][s]&cost; x != y {
				return fmt.Errorf("from switch %d to %d: cost %d, from scratch %d", s, d, x, y)
			}
		}
	}
	return nil
}

// Rank orders the switches below o.Roots.
func Rank(g *fabric.Graph, o route.Options) *ranking { return rank(g, o, o.Roots, false) }

// Roots are the GUIDs of the roots that tables were made with, the first of
// each part of the fabric before the others; nil if the tables do not say.
// Roots that are gone but would be used again are among them.
func Roots(t *route.Tables) []ib.GUID {
	if m, ok := t.Memo.(*memo); ok {
		return slices.Clone(m.roots)
	}
	return nil
}
