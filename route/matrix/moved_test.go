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
	"heddle/route/move"
	"heddle/route/transition"
)

// TestMovedThenUpdated: a link fails, or the manager reroutes for another reason, after
// VMs have moved. The moves bypassed the engine, whose last solution is the one before
// them. It is updated to the current fabric, owners included, and a plan leads from the
// tables that the moves left to the result.
func TestMovedThenUpdated(t *testing.T) {
	done := map[string]int{}
	for _, seed := range need.Seeds(4, 200) {
		draw := routetest.Draws(seed, 41)
		switches, more := 4+draw(8), 4+draw(12)
		for name, base := range map[string]func() *routetest.Net{
			"tree": func() *routetest.Net { return routetest.Tree(4, 4) }, "torus": func() *routetest.Net { return routetest.Torus(4, 4, 1) },
			"irregular": func() *routetest.Net { return routetest.Random(switches, more, 3, 1, routetest.Draws(seed)) },
		} {
			g := routetest.VMs(base().Graph(), 3, routetest.Draws(seed, 42))
			for _, p := range engines {
				if e, ok := p.engine.(route.Updater); ok {
					what := fmt.Sprintf("HEDDLE_SEED=%d, %s on %s with VMs", seed, e.Name(), name)
					if p.movedThenUpdated(t, what, base(), g, routetest.Draws(seed, 43)) {
						done[e.Name()]++
					}
				}
			}
		}
	}
	for _, p := range engines {
		if _, ok := p.engine.(route.Updater); ok && done[p.engine.Name()] == 0 {
			t.Errorf("%s was never updated after moves", p.engine.Name())
		}
	}
}

// movedThenUpdated reports whether it came to an update.
func (p promise) movedThenUpdated(t *testing.T, what string, base *routetest.Net, g *fabric.Graph, draw func(int) int) bool {
	t.Helper()
	const lanes = 8
	e := p.engine.(route.Updater)
	o := route.Options{Workers: 2, MaxVLs: lanes}
	tb, err := e.Compute(g, o)
	if err != nil {
		return false // TestVMs tells
	}
	proof := check.Prove(g, tb, check.Options{Workers: 2})
	if !proof.OK() {
		return false // a manager would not have installed them
	}
	vms, ports := movable(g)
	if len(vms) == 0 {
		return false
	}
	mo := move.Options{Workers: 2, SwitchLifetime: time.Second, HOQLife: time.Second, Repath: true, RepathTime: time.Second}
	for range 1 + draw(8) {
		q := move.Request{Kind: move.Kind(draw(2)), Mode: move.Mode(draw(2)), LID: vms[draw(len(vms))], With: ports[draw(len(ports))]}
		if q.Kind == move.Swap {
			q.With, q.Idle = vms[draw(len(vms))], draw(2) == 0
		}
		if q.LID == q.With {
			continue
		}
		r, err := move.New(proof, []move.Request{q}, mo)
		if err != nil {
			continue // tables with several lanes may have no order; TestRefusals of route/move tells
		}
		proof = r.Proof
	}
	at := proof.Graph()
	var owners []fabric.LIDGrant
	for _, l := range vms {
		owners = append(owners, fabric.LIDGrant{LID: l, EndPort: at.LIDOwner[l]})
	}
	h, err := routetest.Damaged(base, draw(3), draw).Graph().WithLIDs(owners)
	if err != nil {
		return false // a port of theirs has no LID any more
	}
	next, err := e.Update(route.Solution{Graph: g, Tables: tb}, h, fabric.Diff(g, h), o)
	if err != nil {
		return false // TestUpdate tells
	}
	p.verify(t, what, h, next, lanes, false)
	if rep := check.Verify(h, next, check.Options{Workers: 2}); !rep.OK() {
		return true // such as min-hop's on a damaged tree: refused by the manager
	}
	to := transition.Options{Workers: 2, SwitchLifetime: time.Second, HOQLife: time.Second / 2, RepathTime: time.Second, Before: at}
	if plan := transition.New(h, proof.Tables().Remap(at, h), next, to); plan.Mode == transition.ModeRefused {
		t.Errorf("%s: no plan: %s", what, plan.Reason)
	}
	return true
}

// movable are the LIDs that ports have beside their own, and the ports' own.
func movable(g *fabric.Graph) (vms, ports []ib.LID) {
	for l, e := range g.LIDOwner {
		switch {
		case e < 0 || g.EndPorts[e].Type != ib.NodeCA:
		case g.EndPorts[e].LID == ib.LID(l):
			ports = append(ports, ib.LID(l))
		default:
			vms = append(vms, ib.LID(l))
		}
	}
	return vms, ports
}
