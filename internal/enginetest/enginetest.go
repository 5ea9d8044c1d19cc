// Package enginetest has the tests that engines with lanes share: what damage may do to their tables.
package enginetest

import (
	"fmt"
	"testing"

	"heddle/fabric"
	"heddle/internal/need"
	"heddle/internal/routetest"
	"heddle/route"
	"heddle/route/check"
)

// Right checks tables of an engine that came from o, and ends the test if they are wrong. what says which.
type Right func(t testing.TB, what string, g *fabric.Graph, tb *route.Tables, o route.Options)

// FewLanes checks that sequences of damage with few lanes stay within them, or are refused
// as a computation from scratch is.
func FewLanes(t *testing.T, e route.Updater, right Right) {
	for _, seed := range need.Seeds(20, 500) {
		draw := routetest.Draws(seed, 4)
		g := routetest.Random(12+draw(12), 14+draw(10), 2, 1, draw).Graph()
		full, err := e.Compute(g, route.Options{})
		if err != nil {
			continue
		}
		o := route.Options{MaxVLs: full.NumVLs}
		from := wear(t, fmt.Sprintf("seed %d", seed), e, route.Solution{Graph: g, Tables: full}, o, 20, draw, right)
		// Links have fewer lanes than the tables use.
		o.MaxVLs = max(from.Tables.NumVLs-1, 1)
		if now, err := e.Update(from, from.Graph, fabric.Diff(from.Graph, from.Graph), o); err == nil && now.NumVLs > o.MaxVLs {
			t.Fatalf("seed %d: %d lanes, %d are allowed", seed, now.NumVLs, o.MaxVLs)
		}
	}
}

// Large checks that a tree of 5,832 hosts with 40 links removed, which needs several lanes, is routed
// and proved, and updated after failures.
func Large(t *testing.T, e route.Updater) {
	g := routetest.Damaged(routetest.Tree(36, 18), 40, routetest.Draws(1)).Graph()
	o := route.Options{Workers: 2}
	tb, err := e.Compute(g, o)
	if err != nil {
		t.Fatal(err)
	}
	if r := check.Verify(g, tb, check.Options{Workers: 2}); !r.OK() || r.VLsUsed < 2 {
		t.Fatalf("%d lanes, %v", r.VLsUsed, r.Err())
	}
	wear(t, "large", e, route.Solution{Graph: g, Tables: tb}, o, 8, routetest.Draws(2),
		func(t testing.TB, what string, g *fabric.Graph, tb *route.Tables, _ route.Options) {
			if err := check.Verify(g, tb, check.Options{Workers: 2}).Err(); err != nil {
				t.Fatalf("%s: %v", what, err)
			}
		})
}

// wear updates tables over steps of damage and returns the last ones. An update may be refused only if a
// computation from scratch is refused too; the next one then starts from the same tables.
func wear(t *testing.T, what string, e route.Updater, from route.Solution, o route.Options, steps int, draw func(int) int, right Right) route.Solution {
	w := routetest.NewWear(from.Graph)
	for step := range steps {
		at := fmt.Sprintf("%s, step %d (%s)", what, step, w.Step(draw))
		g := w.Graph()
		tb, err := e.Update(from, g, fabric.Diff(from.Graph, g), o)
		if err != nil {
			if _, again := e.Compute(g, o); again == nil {
				t.Fatalf("%s: %v, but from scratch it can be done", at, err)
			}
			continue
		}
		right(t, at, g, tb, o)
		from = route.Solution{Graph: g, Tables: tb}
	}
	return from
}
