package updn

import (
	"fmt"
	"slices"

	"heddle/fabric"
	"heddle/ib"
	"heddle/route"
	"heddle/route/routetest"
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
	if len(o.Unbalanced) == 0 && !slices.Equal(m.loads, routetest.Loads(g, t)) {
		return fmt.Errorf("loads %v, counted %v", m.loads, routetest.Loads(g, t))
	}
	return nil
}

// Judge tells, by t's memory, whether a switch may send a LID by a channel.
func Judge(g *fabric.Graph, t *route.Tables, o route.Options) func(s int32, l ib.LID, c int32) bool {
	m := t.Memo.(*memo)
	r := &repairer{repair: &repair{shape: newShape(g, m.order, nil), m: m}}
	return func(_ int32, l ib.LID, c int32) bool { return r.May(g.EndPorts[g.LIDOwner[l]].Switch, c) }
}
