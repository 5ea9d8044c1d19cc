package matrix

import (
	"fmt"
	"testing"
	"time"

	"heddle/fabric"
	"heddle/ib"
	"heddle/internal/need"
	"heddle/internal/routetest"
	"heddle/route"
	"heddle/route/check"
	"heddle/route/transition"
)

// withVMs are the whole ones of nets with LIDs scattered over their ports.
func withVMs(t testing.TB, list []net) []net {
	var nets []net
	for i, n := range list {
		n.graph = routetest.VMs(generate(t, n.name), 4, routetest.Draws(uint64(i), 31))
		n.name += " with VMs"
		nets = append(nets, n)
	}
	return nets
}

// TestVMs: every engine routes and proves LIDs outside a port's range like others.
func TestVMs(t *testing.T) {
	for _, n := range withVMs(t, small) {
		for _, p := range engines {
			for _, lanes := range []int{2, 8} {
				p.holds(t, n, lanes)
			}
		}
	}
}

// TestVMsDoNotAffectOthers: if the entries of an engine do not depend on loads, VMs do
// not change the entries of other LIDs.
func TestVMsDoNotAffectOthers(t *testing.T) {
	still := map[string]bool{"ftree": true, "vftree": true, "dor": true, "torus": true}
	seen := map[string]bool{}
	for i, n := range small {
		plain := generate(t, n.name)
		more := routetest.VMs(plain, 4, routetest.Draws(uint64(i), 31))
		for _, p := range engines {
			if !still[p.engine.Name()] {
				continue
			}
			o := route.Options{Workers: 2, MaxVLs: 8}
			a, err := p.engine.Compute(plain, o)
			b, err2 := p.engine.Compute(more, o)
			if (err == nil) != (err2 == nil) {
				t.Errorf("%s on %s: %v; with VMs %v", p.engine.Name(), n.name, err, err2)
			}
			if err != nil || err2 != nil {
				continue
			}
			seen[p.engine.Name()] = true
			moved := 0
			for s := range plain.Switches {
				for l, e := range plain.LIDOwner {
					if e != fabric.NoLID && a.Entry(int32(s), ib.LID(l)) != b.Entry(int32(s), ib.LID(l)) {
						moved++
					}
				}
			}
			if moved > 0 {
				t.Errorf("%s on %s: VMs move %d entries of other LIDs", p.engine.Name(), n.name, moved)
			}
		}
	}
	if len(seen) != len(still) {
		t.Errorf("only %v were compared", seen)
	}
}

// TestVMsMove: VMs move among hosts, or swap LIDs, while links, switches and hosts fail
// and return. Tables and the proof are updated incrementally, and the change has a
// plan.
func TestVMsMove(t *testing.T) {
	nets := []net{
		{name: "tree with VMs", graph: routetest.VMs(routetest.Tree(4, 4).Graph(), 3, routetest.Draws(1))},
		{name: "xgft with VMs", graph: routetest.VMs(generate(t, "xgft 3 3,3,3 1,3,3"), 2, routetest.Draws(2))},
		{name: "torus with VMs", graph: routetest.VMs(generate(t, "torus 4x4"), 3, routetest.Draws(3))},
	}
	for _, seed := range need.Seeds(3, 100) {
		draw := routetest.Draws(seed, 17)
		g := routetest.Random(4+draw(8), draw(12), 3, 1+draw(3), draw).Graph()
		nets = append(nets, net{name: fmt.Sprintf("irregular with VMs, HEDDLE_SEED=%d", seed), graph: routetest.VMs(g, 4, draw)})
	}
	for _, n := range nets {
		for k, p := range engines {
			if _, ok := p.engine.(route.Updater); ok {
				p.vmsMove(t, n, uint64(k))
			}
		}
	}
}

func (p promise) vmsMove(t *testing.T, n net, seed uint64) {
	t.Helper()
	const lanes = 8
	e := p.engine.(route.Updater)
	o := route.Options{Workers: 2, MaxVLs: lanes}
	draw := routetest.Draws(seed, 23)
	w := routetest.NewWear(n.graph)
	g := w.Graph()
	tb, err := e.Compute(g, o)
	if err != nil {
		return // TestVMs tells
	}
	proof := check.Prove(g, tb, check.Options{Workers: 2})
	for step := range 12 {
		said := w.Step(draw)
		h := w.Graph()
		if len(h.Switches) == 0 {
			continue
		}
		what := fmt.Sprintf("%s on %s, step %d (%s)", e.Name(), n.name, step, said)
		d := fabric.Diff(g, h)
		next, err := e.Update(route.Solution{Graph: g, Tables: tb}, h, d, o)
		if err != nil {
			p.refusal(t, what, err, false)
			return
		}
		p.verify(t, what, h, next, lanes, false)
		proof = proof.Update(h, d, next, check.Options{Workers: 2})
		want := check.Verify(h, next, check.Options{Workers: 2})
		got := proof.Report()
		if got.OK() != want.OK() || got.Paths != want.Paths || got.UnreachablePairs != want.UnreachablePairs || got.CreditCycles != want.CreditCycles {
			t.Fatalf("%s: the proof says %+v, the verifier %+v", what, got, want)
		}
		if !p.loops {
			installed := tb.Remap(g, h)
			o := transition.Options{Workers: 2, SwitchLifetime: time.Second, HOQLife: time.Second / 2, RepathTime: time.Second, Before: g}
			if plan := transition.New(h, installed, next, o); plan.Mode == transition.ModeRefused {
				t.Errorf("%s: no plan: %s", what, plan.Reason)
			}
		}
		g, tb = h, next
	}
}
