package daemon

import (
	"testing"

	"heddle/mad"
	"heddle/route/engine/auto"
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
