package minhop

import (
	"fmt"
	"slices"

	"heddle/fabric"
	"heddle/ib"
	"heddle/internal/routetest"
	"heddle/route"
)

// CheckMemo compares what tables remember with what computing from scratch
// would remember, and the loads with a recount.
func CheckMemo(g *fabric.Graph, t *route.Tables, o route.Options) error {
	m, ok := t.Memo.(*memo)
	if !ok {
		return fmt.Errorf("no memory")
	}
	o.Previous = nil
	t2, err := Engine{}.Compute(g, o)
	if err != nil {
		return err
	}
	want := t2.Memo.(*memo)
	for d, row := range want.dist {
		if !slices.Equal(m.dist[d], row) {
			return fmt.Errorf("destination %d: costs %v, want %v", d, m.dist[d], row)
		}
	}
	if count := routetest.Loads(g, t, o.Unbalanced); !slices.Equal(m.loads, count) {
		return fmt.Errorf("loads %v, counted %v", m.loads, count)
	}
	return nil
}

// Allowed reports whether channel c leads nearer to LID l, by t's memory.
func Allowed(g *fabric.Graph, t *route.Tables, l ib.LID, c int32, cost int) bool {
	row := t.Memo.(*memo).dist[g.EndPorts[g.LIDOwner[l]].Switch]
	h := &g.Channels[c]
	return row[h.From] != none && int(row[h.To])+cost == int(row[h.From])
}
