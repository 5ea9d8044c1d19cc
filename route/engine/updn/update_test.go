package updn_test

import (
	"fmt"
	"testing"

	"heddle/fabric"
	"heddle/internal/need"
	"heddle/internal/routetest"
	"heddle/route"
	"heddle/route/check"
	"heddle/route/engine/updn"
)

// TestUpdate: after every step the tables are proved right, costs and order
// are those of computing from scratch with the same roots, no entry moved
// without need, rows that did not change are shared.
func TestUpdate(t *testing.T) {
	for _, seed := range need.Seeds(40, 1000) {
		draw := routetest.Draws(seed, 2)
		for i, k := range routetest.Kinds(draw) {
			name, draw := k.Name, routetest.Draws(seed, uint64(i), 7)
			mirrored := draw(4) == 0
			e := route.Updater(updn.Engine{})
			if mirrored {
				e = updn.Mirrored{}
			}
			w := routetest.NewWear(k.Graph)
			o := route.Options{Workers: 1 + draw(3)}
			g := w.Graph()
			for range draw(3) {
				o.Roots = append(o.Roots, g.Switches[draw(len(g.Switches))].GUID)
			}
			tb, err := e.Compute(g, o)
			if err != nil {
				t.Fatal(err)
			}
			for step := range 12 {
				what := w.Step(draw)
				h := w.Graph()
				if len(h.Switches) == 0 {
					continue
				}
				ctx := fmt.Sprintf("%s, seed %d, step %d (%s)", name, seed, step, what)
				from := route.Solution{Graph: g, Tables: tb}
				d := fabric.Diff(g, h)
				now, err := e.Update(from, h, d, o)
				if err != nil {
					t.Fatalf("%s: %v", ctx, err)
				}
				if r := check.Verify(h, now, check.Options{}); !r.OK() || r.CreditCyclesSwitch > 0 {
					t.Fatalf("%s: %v", ctx, r.Err())
				}
				if err := routetest.CheckUpdate(from, h, d, now, updn.Judge(h, now, o)); err != nil {
					t.Fatalf("%s: %v", ctx, err)
				}
				if err := updn.CheckMemo(h, now, o, mirrored); err != nil {
					t.Fatalf("%s: %v", ctx, err)
				}
				p := o
				p.Roots = updn.Roots(now)
				p.Previous = tb.Remap(g, h)
				full, err := e.Compute(h, p)
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
