package move_test

import (
	"testing"
	"time"

	"heddle/internal/routetest"
	"heddle/route"
	"heddle/route/check"
	"heddle/route/engine/sssp"
	"heddle/route/engine/torus"
	"heddle/route/engine/vftree"
	"heddle/route/move"
)

// TestLanes: with several lanes a move inside a leaf keeps every path; a move to
// another switch changes service levels, and is refused unless the ends resolve their
// paths again.
func TestLanes(t *testing.T) {
	net := routetest.Torus(5, 5, 2)
	for s := range 25 {
		net.Host(s, 2)
	}
	g := net.Graph()
	for _, e := range []route.Engine{torus.Engine{}, sssp.DFEngine{}, vftree.Engine{}} {
		h := g
		if e.Name() == "vftree" {
			n := routetest.Tree2(4, 4, 3)
			for s := range 4 {
				n.Host(s, 2)
			}
			h = n.Graph()
		}
		tb, err := e.Compute(h, route.Options{Workers: 2})
		if err != nil {
			t.Fatal(err)
		}
		p := check.Prove(h, tb, check.Options{})
		if tb.NumVLs == 1 || !p.OK() {
			t.Fatalf("%s: %d lanes, %v", e.Name(), tb.NumVLs, p.Err())
		}
		lids := hosts(h)
		vm := lids[len(lids)-1] // the second LID of the last host
		near, far := lids[0], lids[0]
		for _, l := range lids {
			a, b := h.EndPorts[h.LIDOwner[l]], h.EndPorts[h.LIDOwner[vm]]
			if a.Switch == b.Switch && a.GUID != b.GUID {
				near = l
			}
		}
		r, err := move.New(p, []move.Request{{Kind: move.Copy, Mode: move.Minimal, LID: vm, With: near}}, options)
		if err != nil {
			t.Fatalf("%s: %v", e.Name(), err)
		}
		if r.NeedsRepath || len(r.Blocks) != 1 || len(r.Stages) != 1 || !r.Proof.OK() {
			t.Errorf("%s inside a leaf: %d SMPs, repath %v", e.Name(), len(r.Blocks), r.NeedsRepath)
		}
		for s := range int32(len(h.Switches)) {
			if tb.PathSL(s, vm) != r.Tables.PathSL(s, vm) {
				t.Errorf("%s: another service level inside a leaf", e.Name())
			}
		}
		if _, err := move.New(p, []move.Request{{Kind: move.Copy, LID: vm, With: far}}, options); err == nil {
			t.Errorf("%s: service levels change and nobody is told", e.Name())
		}
		o := options
		o.Repath, o.RepathTime = true, time.Minute
		for _, mode := range []move.Mode{move.Balanced, move.Minimal} {
			r, err := move.New(p, []move.Request{{Kind: move.Copy, Mode: mode, LID: vm, With: far}}, o)
			if err != nil {
				t.Errorf("%s: %v", e.Name(), err)
				continue
			}
			if !r.NeedsRepath || !r.Proof.OK() || r.Reason == "" {
				t.Errorf("%s: repath %v: %s", e.Name(), r.NeedsRepath, r.Reason)
			}
			verify(t, e.Name(), route.Solution{Graph: h, Tables: tb}, r, false)
			t.Logf("%s, %v: %d SMPs, %d stages: %s %+v", e.Name(), mode, len(r.Blocks), len(r.Stages), r.Reason, r.Moved)
		}
	}
}
