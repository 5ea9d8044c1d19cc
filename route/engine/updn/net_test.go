package updn_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"heddle/fabric"
	"heddle/internal/fabrictest"
	"heddle/internal/need"
	"heddle/internal/routetest"
	"heddle/route"
	"heddle/route/check"
	"heddle/route/engine/dnup"
	"heddle/route/engine/updn"
)

func generate(t testing.TB, seed uint64, lids int, kind string, params ...string) *fabric.Graph {
	t.Helper()
	f, err := fabrictest.Generate(kind, params, seed)
	if err != nil {
		t.Fatal(err)
	}
	if err := fabric.AssignLIDs(f, lids); err != nil {
		t.Fatal(err)
	}
	g, err := f.Graph(fabric.GraphOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// TestIrregularWithoutRoots: without given roots they are detected, and no table has a
// loop or a credit cycle, not even for traffic between switches. (OpenSM installs
// min-hop tables on such nets.)
func TestIrregularWithoutRoots(t *testing.T) {
	for _, seed := range need.Seeds(100, 1000) {
		g := generate(t, seed, 1, "irregular", strconv.Itoa(8+int(seed%5)*8))
		for _, e := range []route.Engine{updn.Engine{}, dnup.Engine{}} {
			tb, err := e.Compute(g, route.Options{})
			if err != nil {
				t.Fatalf("%s, seed %d: %v", e.Name(), seed, err)
			}
			if r := check.Verify(g, tb, check.Options{}); !r.OK() || r.CreditCyclesSwitch > 0 || tb.Engine != e.Name() {
				t.Fatalf("%s, seed %d: %v", e.Name(), seed, r.Err())
			}
		}
	}
}

// TestAllKinds: both engines route every kind of fabric, also with several LIDs a port,
// and update their tables after a failed link.
func TestAllKinds(t *testing.T) {
	for _, f := range [][]string{
		{"fattree", "324"},
		{"xgft", "3", "4,4,4", "1,2,2"},
		{"torus", "4x4x3"},
		{"mesh", "5x4"},
		{"hypercube", "5"},
		{"dragonfly", "4", "2", "2"},
		{"dragonfly+", "3", "3", "2", "2"},
		{"hyperx", "4x4"},
		{"irregular", "24"},
	} {
		for lids := 1; lids <= 2; lids++ {
			g := generate(t, 1, lids, f[0], f[1:]...)
			for _, e := range []route.Updater{updn.Engine{}, dnup.Engine{}} {
				tb, err := e.Compute(g, route.Options{Workers: 2})
				if err != nil {
					t.Fatalf("%s on %v: %v", e.Name(), f, err)
				}
				if r := check.Verify(g, tb, check.Options{Workers: 2}); !r.OK() || r.CreditCyclesSwitch > 0 {
					t.Fatalf("%s on %v: %v", e.Name(), f, r.Err())
				}
				h := routetest.Without(g, nil, []int32{int32(len(g.Channels) / 3)})
				tb, err = e.Update(route.Solution{Graph: g, Tables: tb}, h, fabric.Diff(g, h), route.Options{Workers: 2})
				if err != nil {
					t.Fatalf("%s on %v: %v", e.Name(), f, err)
				}
				if r := check.Verify(h, tb, check.Options{Workers: 2}); !r.OK() || r.CreditCyclesSwitch > 0 {
					t.Fatalf("%s on %v without a link: %v", e.Name(), f, r.Err())
				}
			}
		}
	}
}

// TestUpdateCostsEqualCompute: in a tree with little damage, Update gives the costs of
// a Compute without memory. With so much damage that other roots would be detected,
// paths between CAs are on average no longer than with those.
func TestUpdateCostsEqualCompute(t *testing.T) {
	others := 0
	for _, seed := range need.Seeds(60, 2000) {
		draw := routetest.Draws(seed, 5)
		b := []*routetest.Net{routetest.Tree(6, 6), routetest.Tree2(8, 4, 4), routetest.Tree(8, 5)}[draw(3)]
		g := b.Graph()
		o := route.Options{Workers: 1 + draw(2)}
		tb := compute(t, g, o)
		w := routetest.NewWear(g)
		for step := range 3 {
			if draw(4) == 0 {
				w.Switch(draw(len(b.Graph().Switches)), false)
			} else {
				w.Cable(draw(w.Cables()), draw(4) == 0)
			}
			h := w.Graph()
			now, err := updn.Engine{}.Update(route.Solution{Graph: g, Tables: tb}, h, fabric.Diff(g, h), o)
			if err != nil {
				t.Fatal(err)
			}
			scratch := compute(t, h, o)
			if err := updn.SameCosts(h, now, scratch); err != nil {
				a, b := check.Verify(h, now, check.Options{}), check.Verify(h, scratch, check.Options{})
				if present(h, now) == present(h, scratch) || a.AvgHops > b.AvgHops {
					t.Fatalf("seed %d, step %d: %v; %.3f hops, from scratch %.3f", seed, step, err, a.AvgHops, b.AvgHops)
				}
				others++
			}
			g, tb = h, now
		}
	}
	t.Logf("%d times other roots would have been found", others)
}

// present names the roots of tables that g has.
func present(g *fabric.Graph, t *route.Tables) string {
	var s strings.Builder
	for _, guid := range updn.Roots(t) {
		if slices.ContainsFunc(g.Switches, func(w fabric.SwitchNode) bool { return w.GUID == guid }) {
			s.WriteString(guid.String() + " ")
		}
	}
	return s.String()
}

// TestManyMoves: a change that is decided in parts gives the same result for
// any number of workers, with exact loads.
func TestManyMoves(t *testing.T) {
	g := routetest.XGFT(6, 6, 6, 6, 6, 200, 20).Graph()
	tb := compute(t, g, route.Options{Workers: 2})
	w := routetest.NewWear(g)
	for i, down := range []func(){func() { w.Switch(40, false) }, func() { w.Switch(80, false) }, func() { w.Switch(40, true) }, func() { w.Switch(3, false) }} {
		down()
		h := w.Graph()
		from, d := route.Solution{Graph: g, Tables: tb}, fabric.Diff(g, h)
		var now *route.Tables
		for _, workers := range []int{1, 2, 3, 8} {
			u, err := updn.Engine{}.Update(from, h, d, route.Options{Workers: workers})
			if err != nil {
				t.Fatal(err)
			}
			if now != nil && !u.Equal(now) {
				t.Fatalf("step %d: %d workers give other tables", i, workers)
			}
			now = u
		}
		if err := updn.CheckMemo(h, now, route.Options{Workers: 2}, false); err != nil {
			t.Fatal(err)
		}
		if r := check.Verify(h, now, check.Options{Workers: 2}); !r.OK() {
			t.Fatal(r.Err())
		}
		g, tb = h, now
	}
}
