package lab

import (
	"testing"
	"time"

	"heddle/ib"
	"heddle/sim"
	"heddle/sm"
)

// TestJoinsDoNotStarve: hosts that join and leave continuously delay neither light sweeps,
// which find changes without traps, nor the retry of nodes that a sweep excluded.
func TestJoinsDoNotStarve(t *testing.T) {
	f := gen(t, "torus", "4x4")
	cfg := quietConfig()
	cfg.SweepInterval = 5 * time.Second
	c, m := bringUp(t, f, sim.Config{HopLatency: time.Microsecond, NoTraps: true}, cfg)
	guids, at := hosts(f)
	k := 0
	churn := func(limit time.Duration, done func() bool) time.Duration {
		t.Helper()
		begin := c.Sim.Now()
		for !done() {
			if c.Sim.Now().Sub(begin) > limit {
				t.Fatalf("not done within %v of joins\n%s", limit, tail(m))
			}
			m.SetGroups([]sm.Group{groupOf(0xC000, guids[:2+k%3]...)})
			k++
			c.Run(500 * time.Millisecond)
		}
		return c.Sim.Now().Sub(begin)
	}
	churn(10*time.Second, func() bool { return k > 4 })

	// A link fails without a trap.
	link := cables(f)[0]
	for _, r := range cables(f) {
		if p, _ := c.Sim.Peer(int(r.Node), int(r.Port)); f.Nodes[r.Node].IsSwitch() && f.Nodes[p.Node].IsSwitch() {
			link = r
		}
	}
	if err := c.Sim.LinkDown(f.Nodes[link.Node].ID, int(link.Port)); err != nil {
		t.Fatal(err)
	}
	churn(6*time.Second, func() bool { return lastNotice(m, sm.KindLinkDown) != nil })

	// A host does not answer when its link returns.
	n := at[5]
	mute := f.Nodes[n].ID
	if err := c.Sim.LinkDown(mute, 1); err != nil {
		t.Fatal(err)
	}
	churn(6*time.Second, func() bool { return c.Sim.PortInfo(n, 1).PortState == ib.StateDown && m.Snap.Counts.CAs < len(at) })
	_ = c.Sim.MuteSMA(mute, true)
	_ = c.Sim.LinkUp(mute, 1)
	churn(20*time.Second, func() bool { return len(m.Snap.Problems) > 0 })
	_ = c.Sim.MuteSMA(mute, false)
	churn(20*time.Second, func() bool { return linkActive(c, n, 1) })
}
