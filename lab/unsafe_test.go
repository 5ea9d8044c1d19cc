package lab

import (
	"testing"
	"time"

	"heddle/route"
	"heddle/route/engine/minhop"
	"heddle/sm"
)

// TestUnsafeTablesAreRepaired: tables that can deadlock by themselves, as an operator permitted,
// are repaired without a wait under the policy of availability: waiting would not make them safe.
func TestUnsafeTablesAreRepaired(t *testing.T) {
	f := gen(t, "torus", "4x4")
	for i, cut := range cables(f) {
		cfg := DefaultConfig()
		cfg.Engines, cfg.Explicit, cfg.AllowUnsafe = []route.Engine{minhop.Engine{}}, true, true
		c, err := NewCluster(f, timed(uint64(i)))
		if err != nil {
			t.Fatal(err)
		}
		m, err := c.Start(firstCA(f), cfg, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.RunUntil(time.Minute, func() bool { return m.Up() && m.Idle() }); err != nil {
			t.Fatal(err)
		}
		c.Run(time.Second)
		m.Notices = m.Notices[:0]
		if err := c.Sim.LinkDown(f.Nodes[cut.Node].ID, int(cut.Port)); err != nil {
			t.Fatal(err)
		}
		c.Run(20 * time.Second)
		var r *sm.Repair
		for k := range m.Notices {
			if m.Notices[k].Repair != nil {
				r = m.Notices[k].Repair
			}
		}
		if r == nil || r.Left > 0 || r.Took > 20*time.Millisecond {
			t.Errorf("%s: %v", f.PortName(cut), r)
			t.Log(tail(m))
		}
	}
}
