package move_test

import (
	"fmt"
	"slices"
	"testing"

	"heddle/fabric"
	"heddle/ib"
	"heddle/internal/need"
	"heddle/internal/routetest"
	"heddle/route"
	"heddle/route/check"
	"heddle/route/engine/ftree"
	"heddle/route/engine/minhop"
	"heddle/route/move"
)

// TestIdleSwap: a balanced swap with an idle LID does not wait, even if packets live
// without limit; packets to the other LID close no cycle and no loop, during the move
// and after it.
func TestIdleSwap(t *testing.T) {
	for _, seed := range need.Seeds(3, 100) {
		for _, e := range []route.Engine{minhop.Engine{}, ftree.Engine{}} {
			g := routetest.Tree(4, 4).Graph()
			tb, err := e.Compute(g, route.Options{})
			if err != nil {
				t.Fatal(err)
			}
			rnd := routetest.Draws(seed)
			lids := hosts(g)
			p := check.Prove(g, tb, check.Options{})
			waited := 0
			for step := range 20 {
				a, b := lids[rnd(len(lids))], lids[rnd(len(lids))]
				if a == b {
					continue
				}
				q := move.Request{Kind: move.Swap, LID: a, With: b}
				from := route.Solution{Graph: p.Graph(), Tables: p.Tables()}
				what := fmt.Sprintf("HEDDLE_SEED=%d, %s, step %d, LIDs %d and %d", seed, e.Name(), step, a, b)
				if r, err := move.New(p, []move.Request{q}, options); err != nil {
					t.Fatalf("%s: %v", what, err)
				} else if drains(r) {
					waited++
				}
				q.Idle = true
				r, err := move.New(p, []move.Request{q}, move.Options{Workers: 1}) // no lifetimes: no drain is possible
				if err != nil {
					t.Fatalf("%s: %v", what, err)
				}
				if drains(r) {
					t.Fatalf("%s: waits: %s", what, r.Reason)
				}
				verify(t, what, from, r, false)
				// Nobody sends to the idle LID; all else may be under way.
				h := *from.Graph
				h.LIDOwner = slices.Clone(h.LIDOwner)
				h.LIDOwner[b] = fabric.NoLID
				if err := mixes(route.Solution{Graph: &h, Tables: from.Tables}, r, after(r, from.Tables)); err != nil {
					t.Fatalf("%s: %v", what, err)
				}
				p = r.Proof
			}
			if waited == 0 {
				t.Errorf("seed %d, %s: no swap of two LIDs in use waits: the test shows nothing", seed, e.Name())
			}
		}
	}
}

// TestIdleInBatch: a LID is idle only if no request of the batch says otherwise.
func TestIdleInBatch(t *testing.T) {
	g := routetest.Tree(4, 4).Graph()
	tb, err := minhop.Engine{}.Compute(g, route.Options{})
	if err != nil {
		t.Fatal(err)
	}
	p := check.Prove(g, tb, check.Options{})
	lids := hosts(g)
	a, b, c := lids[0], lids[len(lids)-1], lids[len(lids)/2]
	swap := func(l, with ib.LID, idle bool) move.Request {
		return move.Request{Kind: move.Swap, LID: l, With: with, Idle: idle}
	}
	for _, x := range []struct {
		what  string
		list  []move.Request
		waits bool
	}{
		{"both used", []move.Request{swap(a, b, false)}, true},
		{"one idle", []move.Request{swap(a, b, true)}, false},
		{"idle, then itself moved", []move.Request{swap(a, b, true), swap(b, c, true)}, true},
		{"moved, then idle", []move.Request{swap(b, c, true), swap(a, b, true)}, true},
	} {
		r, err := move.New(p, x.list, options)
		if err != nil {
			t.Fatalf("%s: %v", x.what, err)
		}
		if drains(r) != x.waits {
			t.Errorf("%s: %s", x.what, r.Reason)
		}
	}
}

func drains(r *move.Result) bool {
	for _, st := range r.Stages {
		if st.Drain != 0 {
			return true
		}
	}
	return false
}
