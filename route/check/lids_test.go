package check

import (
	"reflect"
	"slices"
	"testing"

	"heddle/fabric"
	"heddle/ib"
	"heddle/internal/need"
	"heddle/internal/routetest"
	"heddle/route"
)

// TestMoveLIDs: counts that follow LIDs to other owners, or to none, are those of a graph that is
// counted anew.
func TestMoveLIDs(t *testing.T) {
	for _, seed := range need.Seeds(40, 1000) {
		rnd := routetest.Draws(seed)
		g := routetest.Random(3+rnd(6), rnd(4), 5, 3, rnd).Graph()
		tb := route.New("none", len(g.Switches), g.TopLID+8)
		j := newVerifier(g, tb, Options{})
		for range 10 {
			h := *g
			h.LIDOwner = slices.Clone(g.LIDOwner)
			for range 1 + rnd(3) {
				if l := 1 + rnd(int(g.TopLID)+8); l < len(h.LIDOwner) {
					h.LIDOwner[l] = int32(rnd(len(g.EndPorts)+1)) - 1
				} else {
					h.LIDOwner = append(h.LIDOwner, int32(rnd(len(g.EndPorts))))
				}
			}
			h.TopLID = ib.LID(len(h.LIDOwner) - 1)
			k, all := *j, *j
			k.g, all.g = &h, &h
			k.moveLIDs(j, fabric.Diff(g, &h).LIDs)
			all.settleLIDs()
			for _, x := range [][2]any{
				{k.lidsAt, all.lidsAt}, {k.casAt, all.casAt}, {k.lidsOf, all.lidsOf}, {k.inComp, all.inComp}, {k.total, all.total},
			} {
				if !reflect.DeepEqual(x[0], x[1]) {
					t.Fatalf("HEDDLE_SEED=%d: %v, want %v", seed, x[0], x[1])
				}
			}
			n := int64(0)
			for _, e := range h.LIDOwner {
				if e != fabric.NoLID {
					n += k.total - k.inComp[k.comp[h.EndPorts[e].Switch]]
				}
			}
			if k.disconnected() != n {
				t.Fatalf("HEDDLE_SEED=%d: %d pairs disconnected, want %d", seed, k.disconnected(), n)
			}
			g, j = &h, &k
		}
	}
}
