package lab

import (
	"testing"
	"time"

	"heddle/mad"
	"heddle/sim"
	"heddle/sm"
)

// TestBusyLoop: the core of a master is in one step for a second, and for ten. Its allies poll it every
// 80 ms and take a master for dead that misses three polls. After a second nobody has taken over; of a
// loop that hangs the SMInfo ends after three seconds, and an ally takes over then.
func TestBusyLoop(t *testing.T) {
	for _, c := range []struct {
		name string
		busy time.Duration
		// When an ally takes over, from to; 0: never.
		from, to time.Duration
	}{
		{"a second", time.Second, 0, 0},
		{"ten seconds", 10 * time.Second, 3 * time.Second, 3*time.Second + 500*time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := newAllies(t, sim.Config{Seed: 1, HopLatency: time.Microsecond, SMALatency: 30 * time.Microsecond}, false)
			for i := 1; i < 3; i++ { // who hear of it in the subnet alone
				x.ms[i].SetAllies(sm.Ally{GUID: x.ms[0].Status().PortGUID}, sm.Ally{GUID: x.ms[3-i].Status().PortGUID})
			}
			x.Run(time.Second)
			m := x.ms[0]
			began := x.Sim.Now()
			m.OnStep = func() {
				m.OnStep = nil
				x.Run(c.busy) // all that comes meanwhile waits for the end of this step
			}
			m.SetAliases(nil)
			if took := x.Sim.Now().Sub(began); took < c.busy || m.stand.Answered() == 0 {
				t.Fatalf("a step of %v, %d answers during it", took, m.stand.Answered())
			}
			t.Logf("%d answers during the step", m.stand.Answered())
			x.Run(time.Second)
			first := min(x.served[1], x.served[2])
			switch took := first.Sub(began); {
			case c.to == 0 && first != mad.Never:
				t.Errorf("a standby took over after %v", took)
			case c.to != 0 && (first == mad.Never || took < c.from || took > c.to):
				t.Errorf("an ally took over after %v", took)
			case first != mad.Never:
				t.Logf("an ally took over after %v", took)
			}
			before := m.stand.Answered()
			x.Run(time.Second)
			if m.stand.Answered() != before {
				t.Errorf("%d answers for a loop that turns", m.stand.Answered()-before)
			}
		})
	}
}
