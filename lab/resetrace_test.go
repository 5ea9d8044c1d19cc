package lab

import (
	"errors"
	"testing"
	"time"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/sim"
)

// TestResetBeforeClear: a switch is reset after a manager read its LID and before the manager
// clears its PortStateChange, in a subnet whose LIDs are set and no link of which is Armed yet:
// only the LID shows it.
func TestResetBeforeClear(t *testing.T) {
	f := gen(t, "torus", "3x3")
	c, err := NewCluster(f, sim.Config{Seed: 1, HopLatency: time.Microsecond, SMALatency: time.Microsecond})
	if err != nil {
		t.Fatal(err)
	}
	sets := func(p *mad.Packet, attr ib.AttrID) bool {
		m := (*ib.MAD)(p.Data)
		return m.Class().IsSMP() && m.Method() == ib.MethodSet && m.AttrID() == attr
	}
	first, err := c.Attach(firstCA(f), TrialConfig(), nil)
	if err != nil {
		t.Fatal(err)
	}
	first.OnSend = func(p *mad.Packet) {
		if first.KillAfter == 0 && sets(p, smp.AttrLFT) {
			first.KillAfter = 1
		}
	}
	if err := first.Start(); err != nil {
		t.Fatal(err)
	}
	if err := c.RunUntil(time.Minute, func() bool { return first.Dead }); err != nil {
		t.Fatal(err)
	}
	// Links that failed for a moment leave PortStateChange to be cleared, there
	// and at all neighbors.
	for port := 1; port <= 5; port++ {
		if err := errors.Join(c.Sim.LinkDown("sw-2-2", port), c.Sim.LinkUp("sw-2-2", port)); err != nil {
			t.Fatal(err)
		}
	}
	m, err := c.Attach(firstCA(f), TrialConfig(), first.Store.Reopen())
	if err != nil {
		t.Fatal(err)
	}
	reset := false
	m.OnSend = func(p *mad.Packet) {
		if !reset && sets(p, smp.AttrSwitchInfo) {
			reset = true
			if err := c.Sim.NodeUp("sw-2-2"); err != nil {
				t.Error(err)
			}
		}
	}
	if err := m.Start(); err != nil {
		t.Fatal(err)
	}
	c.Run(20 * time.Second)
	if !reset {
		t.Fatal("the switch was not reset")
	}
	if err := c.Check(m); err != nil {
		t.Error(err)
	}
}
