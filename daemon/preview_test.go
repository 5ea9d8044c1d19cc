package daemon

import (
	"testing"

	"heddle/ib"
	"heddle/mad"
	"heddle/route"
	"heddle/route/engine/auto"
	"heddle/route/engine/sssp"
	"heddle/subnet"
)

// TestPlanReroute: the master of a subnet that is up plans, one plan at a time.
func TestPlanReroute(t *testing.T) {
	snap := bringUp(t, "xgft", "2", "4,4", "1,2")
	d, _ := newPiped(func(*mad.Packet) error { return nil }, Config{})
	d.cfg.Core.Engines = auto.Engines()
	if _, err := d.PlanReroute(t.Context(), false); err == nil {
		t.Error("a plan without a subnet")
	}
	snap.State, snap.Up = subnet.Master, true
	d.shared.Snap.Store(snap)
	if p, err := d.PlanReroute(t.Context(), true); err != nil || p.Engine != "ftree" || p.LoadAfter < 1 || p.Applied {
		t.Errorf("%+v, %v", p, err)
	}
	d.planner.one.Lock()
	if _, err := d.PlanReroute(t.Context(), false); err == nil {
		t.Error("two plans at a time")
	}
}

// TestPlanAvoidsThrottled: a plan has paths around a link that is narrower than it could be, as the
// manager's tables do.
func TestPlanAvoidsThrottled(t *testing.T) {
	snap := bringUp(t, "torus", "3x3")
	snap.State, snap.Up = subnet.Master, true
	ch := snap.Graph.Channels[0]
	for _, at := range [2]subnet.Ref{{Node: snap.SwitchNode[ch.From], Port: ch.OutPort}, {Node: snap.SwitchNode[ch.To], Port: ch.InPort}} {
		if snap.Throttled(at) {
			t.Fatal("a link as wide as it can be is throttled")
		}
		p := snap.Port(at)
		p.Info.LinkWidthSupported |= ib.Width4x
		p.Info.LinkWidthActive = ib.Width1x
	}
	for _, avoid := range []bool{false, true} {
		d, _ := newPiped(func(*mad.Packet) error { return nil }, Config{})
		d.cfg.Core.Engines, d.cfg.Core.AvoidThrottled = []route.Engine{sssp.DFEngine{}}, avoid
		d.shared.Snap.Store(snap)
		r := d.routing(snap)
		tables, err := sssp.DFEngine{}.Compute(snap.Graph, r.Options)
		if err != nil {
			t.Fatal(err)
		}
		over := 0
		for l := range snap.Graph.LIDOwner {
			if tables.Entry(ch.From, ib.LID(l)) == ch.OutPort {
				over++
			}
		}
		if (over == 0) != avoid {
			t.Errorf("avoid %v: %d entries lead over the narrow link", avoid, over)
		}
		snap.Tables = tables // the manager's
		if p, err := d.PlanReroute(t.Context(), false); err != nil || p.Changed != 0 {
			t.Errorf("avoid %v: a plan of what is installed changes %d entries, %v", avoid, p.Changed, err)
		}
	}
}
