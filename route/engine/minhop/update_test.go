package minhop_test

import (
	"fmt"
	"testing"

	"heddle/fabric"
	"heddle/ib"
	"heddle/internal/need"
	"heddle/internal/routetest"
	"heddle/route"
	"heddle/route/check"
	"heddle/route/engine/minhop"
)

// TestUpdate: after every step the tables are right, as short as those
// computed from scratch, no entry moved without need, rows that did not
// change are shared, and the number of workers does not matter.
func TestUpdate(t *testing.T) {
	for _, seed := range need.Seeds(40, 1000) {
		draw := routetest.Draws(seed, 1)
		for i, k := range routetest.Kinds(draw) {
			name, draw := k.Name, routetest.Draws(seed, uint64(i), 7)
			w := routetest.NewWear(k.Graph)
			o := route.Options{Workers: 1 + draw(3)}
			g := w.Graph()
			tb := compute(t, g, o)
			for step := range 12 {
				what := w.Step(draw)
				h := w.Graph()
				if len(h.Switches) == 0 {
					continue
				}
				ctx := fmt.Sprintf("%s, seed %d, step %d (%s)", name, seed, step, what)
				from := route.Solution{Graph: g, Tables: tb}
				d := fabric.Diff(g, h)
				now, err := minhop.Engine{}.Update(from, h, d, o)
				if err != nil {
					t.Fatalf("%s: %v", ctx, err)
				}
				shortest(t, h, now)
				allowed := func(_ int32, l ib.LID, c int32) bool { return minhop.Allowed(h, now, l, c, 1) }
				if err := routetest.CheckUpdate(from, h, d, now, allowed); err != nil {
					t.Fatalf("%s: %v", ctx, err)
				}
				if err := minhop.CheckMemo(h, now, o); err != nil {
					t.Fatalf("%s: %v", ctx, err)
				}
				if r := check.Verify(h, now, check.Options{}); r.UnreachablePairs != 0 || r.Loops != 0 {
					t.Fatalf("%s: %v", ctx, r.Err())
				}
				p := o
				p.Previous = tb.Remap(g, h)
				full, err := minhop.Engine{}.Compute(h, p)
				if err != nil {
					t.Fatal(err)
				}
				if a, b := routetest.EntriesChanged(p.Previous, now), routetest.EntriesChanged(p.Previous, full); a > b {
					t.Fatalf("%s: %d entries changed, %d from scratch", ctx, a, b)
				}
				g, tb = h, now
			}
		}
	}
}
