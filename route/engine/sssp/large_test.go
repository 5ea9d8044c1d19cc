package sssp_test

import (
	"testing"

	"heddle/fabric"
	"heddle/internal/need"
	"heddle/internal/routetest"
	"heddle/route"
	"heddle/route/check"
	"heddle/route/engine/sssp"
)

// TestLarge: a tree of 5,832 hosts with 40 links removed needs several lanes; it is
// routed and proved, and updated after a failure.
func TestLarge(t *testing.T) {
	need.Long(t)
	g := routetest.Damaged(routetest.Tree(36, 18), 40, routetest.Draws(1)).Graph()
	o := route.Options{Workers: 2}
	tb, err := sssp.DFEngine{}.Compute(g, o)
	if err != nil {
		t.Fatal(err)
	}
	if r := check.Verify(g, tb, check.Options{Workers: 2}); !r.OK() || r.VLsUsed < 2 {
		t.Fatalf("%d lanes, %v", r.VLsUsed, r.Err())
	}
	w := routetest.NewWear(g)
	from := route.Solution{Graph: g, Tables: tb}
	draw := routetest.Draws(2)
	for step := range 8 {
		what := w.Step(draw)
		h := w.Graph()
		now, err := sssp.DFEngine{}.Update(from, h, fabric.Diff(from.Graph, h), o)
		if err != nil {
			t.Fatal(err)
		}
		if err := check.Verify(h, now, check.Options{Workers: 2}).Err(); err != nil {
			t.Fatalf("step %d (%s): %v", step, what, err)
		}
		from = route.Solution{Graph: h, Tables: now}
	}
}
