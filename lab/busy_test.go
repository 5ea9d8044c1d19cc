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
		// signs: the allies hear on its stream that it is master, until it says after hung that its loop
		// hangs; 0: it does not say that.
		signs bool
		hung  time.Duration
		// When an ally takes over, from to; 0: never.
		from, to time.Duration
	}{
		{"a second", time.Second, false, 0, 0, 0},
		{"ten seconds", 10 * time.Second, false, 0, 3 * time.Second, 3*time.Second + 500*time.Millisecond},
		{"a second, with signs", time.Second, true, 3250 * time.Millisecond, 0, 0},
		{"ten seconds, with signs", 10 * time.Second, true, 3250 * time.Millisecond, 3 * time.Second, 3*time.Second + 500*time.Millisecond},
		{"ten seconds, with signs of a version before", 10 * time.Second, true, 0, 6 * time.Second, 6*time.Second + 500*time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := newAllies(t, sim.Config{Seed: 1, HopLatency: time.Microsecond, SMALatency: 30 * time.Microsecond}, false)
			hear := func(signs bool) {
				for i := 1; i < 3; i++ {
					x.ms[i].SetAllies(sm.Ally{GUID: x.ms[0].Status().PortGUID, Lives: c.signs, Heard: signs}, sm.Ally{GUID: x.ms[3-i].Status().PortGUID})
				}
			}
			hear(c.signs)
			x.Run(time.Second)
			m := x.ms[0]
			began := x.Sim.Now()
			m.OnStep = func() {
				m.OnStep = nil
				// All that comes meanwhile waits for the end of this step.
				if c.hung == 0 || c.busy < c.hung {
					x.Run(c.busy)
					return
				}
				x.Run(c.hung)
				hear(false)
				x.Run(c.busy - c.hung)
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
