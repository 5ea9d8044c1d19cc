package sssp_test

import (
	"testing"

	"heddle/fabric"
	"heddle/ib"
	"heddle/internal/need"
	"heddle/internal/routetest"
	"heddle/route"
	"heddle/route/check"
	"heddle/route/engine/sssp"
)

func shift(g *fabric.Graph, tb *route.Tables, rounds int) check.PatternResult {
	return check.PatternLoad(g, tb, check.Shift, check.PatternOptions{Workers: 2, Rounds: rounds})
}

// TestShift: on complete trees and on hypercubes no two flows of a shift share a link,
// and one lane suffices.
func TestShift(t *testing.T) {
	for _, kind := range []string{"fattree 324", "fattree 648", "kary 3 3", "mport 8 2", "hypercube 6"} {
		g := graph(t, kind, 1, 8, 1)
		for _, e := range []route.Engine{sssp.Engine{}, sssp.DFEngine{}} {
			tb, err := e.Compute(g, route.Options{Workers: 2})
			if err != nil {
				t.Fatal(err)
			}
			if r := shift(g, tb, 0); r.MaxLoad != 1 || r.Lost != 0 || tb.NumVLs != 1 {
				t.Errorf("%s on %s: %d flows over a cable, %.2f in the mean, %d lanes", e.Name(), kind, r.MaxLoad, r.MeanMaxLoad, tb.NumVLs)
			}
		}
	}
}

// TestShiftShuffled: the same with links on arbitrary ports.
func TestShiftShuffled(t *testing.T) {
	for _, seed := range need.Seeds(3, 200) {
		draw := routetest.Draws(seed, 5)
		const k = 12
		b := &routetest.Net{}
		b.Switches(2 * k)
		links := make([]int, k*k)
		for i := range links {
			b.Host(i%k, 1)
			links[i] = i
			j := draw(i + 1)
			links[i], links[j] = links[j], links[i]
		}
		for _, l := range links {
			b.Link(l%k, k+l/k)
		}
		g := b.Graph()
		tb, err := sssp.Engine{}.Compute(g, route.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if r := shift(g, tb, 0); r.MaxLoad != 1 || r.Lost != 0 {
			t.Errorf("seed %d: %d flows over a cable, %.2f in the mean", seed, r.MaxLoad, r.MeanMaxLoad)
		}
	}
}

// TestShiftLarge: the same with three levels of 36-port switches.
func TestShiftLarge(t *testing.T) {
	need.Long(t)
	g := graph(t, "fattree 5832", 1, 8, 1)
	tb, err := sssp.DFEngine{}.Compute(g, route.Options{Workers: 2})
	if err != nil {
		t.Fatal(err)
	}
	if r := shift(g, tb, 100); r.MaxLoad != 1 {
		t.Errorf("%d flows over a cable, %.2f in the mean", r.MaxLoad, r.MeanMaxLoad)
	}
	if load := check.Verify(g, tb, check.Options{Workers: 2}).MaxChannelLoad; load != 5814 {
		t.Errorf("%d paths over a cable", load)
	}
}

// TestShiftUpdate: paths over a lost link are spread over the remaining ones; a leaf
// that returns gets routes without contention in shifts if nothing else was lost.
func TestShiftUpdate(t *testing.T) {
	g := graph(t, "fattree 324", 1, 8, 1)
	for _, e := range []route.Updater{sssp.Engine{}, sssp.DFEngine{}} {
		whole, err := e.Compute(g, route.Options{})
		if err != nil {
			t.Fatal(err)
		}
		wear := routetest.NewWear(g)
		from := route.Solution{Graph: g, Tables: whole}
		step := func() check.PatternResult {
			t.Helper()
			h := wear.Graph()
			tb, err := e.Update(from, h, fabric.Diff(from.Graph, h), route.Options{})
			if err != nil {
				t.Fatal(err)
			}
			from = route.Solution{Graph: h, Tables: tb}
			return shift(h, tb, 0)
		}
		leaf := 0
		for i := range g.EndPorts {
			if p := &g.EndPorts[i]; p.Type == ib.NodeCA {
				leaf = int(p.Switch)
			}
		}
		wear.Switch(leaf, false)
		if r := step(); r.MaxLoad > 1 || r.Lost != 0 {
			t.Errorf("%s: %d flows over a cable without a leaf", e.Name(), r.MaxLoad)
		}
		wear.Switch(leaf, true)
		if r := step(); r.MaxLoad > 1 || r.Lost != 0 {
			t.Errorf("%s: %d flows over a cable after a leaf returned", e.Name(), r.MaxLoad)
		}
		wear.Cable(0, false)
		step()
		if load := check.Verify(from.Graph, from.Tables, check.Options{}).MaxChannelLoad; load > 306+2*18 {
			t.Errorf("%s: %d paths over a cable after one was lost", e.Name(), load)
		}
	}
}
