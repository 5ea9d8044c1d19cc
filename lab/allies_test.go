package lab

import (
	"testing"
	"time"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/sim"
	"heddle/sm"
	"heddle/subnet"
)

// allies are three managers with one stored state: the first is master, the others know what it publishes.
type allies struct {
	*Cluster
	ms     [3]*Manager
	served [3]mad.Time // when the SA of each could answer first, of those that were standby
	blind  bool        // the master does not know the others
	t      testing.TB
}

func newAllies(t testing.TB, sc sim.Config, blind bool) *allies {
	t.Helper()
	f := gen(t, "xgft", "2", "6,6", "1,3")
	c, first := serveUp(t, f, sc)
	x := &allies{Cluster: c, t: t, blind: blind, ms: [3]*Manager{first}}
	hosts := cas(f)
	for i := 1; i < 3; i++ {
		m, err := c.Attach(hosts[7*i], TrialConfig(), nil)
		if err != nil {
			t.Fatal(err)
		}
		m.ServeSA(SAConfig(1), first.sa.opt)
		x.ms[i] = m
		x.served[i] = mad.Never
		m.OnPublish = func() {
			if x.served[i] == mad.Never && m.Snap.Serves() {
				x.served[i] = c.Sim.Now()
			}
		}
		if err := m.Start(); err != nil {
			t.Fatal(err)
		}
		if err := c.RunUntil(20*time.Second, func() bool { return m.State() == subnet.Standby }); err != nil {
			t.Fatal(err)
		}
	}
	// The master finds the last of them in a sweep.
	if err := c.RunUntil(20*time.Second, func() bool { return len(first.Snap.SMs) == 2 && first.Up() && first.Idle() }); err != nil {
		t.Fatal(err)
	}
	x.know(true)
	return x
}

// know tells each standby who its allies are, and what the master publishes.
func (x *allies) know(heard bool) {
	for i, m := range x.ms {
		if m.Dead {
			continue
		}
		var list []sm.Ally
		for k, o := range x.ms {
			if k != i {
				list = append(list, sm.Ally{GUID: o.Status().PortGUID, Lives: k > 0 || heard, Heard: heard && k == 0, Silent: k == 0 && !heard})
			}
		}
		if i > 0 && x.ms[0].Snap.Up {
			w := mirrorOf(x.t, x.ms[0].Snap)
			if x.blind { // the other standby is there since a moment ago
				w.SMs = nil
			}
			m.SetWarm(w)
		}
		m.SetAllies(list...)
	}
}

// TestAllies: a master that shares its state with two others dies. With a connection that ends, or only
// by its silence, one of them answers soon, at any moment of their polls; the other one follows it.
func TestAllies(t *testing.T) {
	for _, how := range []struct {
		name  string
		heard bool // the end of a connection shows the death
		most  time.Duration
	}{{"process", true, 300 * time.Millisecond}, {"host", false, 400 * time.Millisecond}} {
		t.Run(how.name, func(t *testing.T) {
			first, n := seeds(8, 200)
			var worst time.Duration
			for seed := first; seed < first+n; seed++ {
				x := newAllies(t, sim.Config{Seed: seed, HopLatency: time.Microsecond, SMALatency: 30 * time.Microsecond}, seed%2 == 0)
				if !how.heard {
					x.know(false)
				}
				x.Run(time.Second + time.Duration(stream(seed, "death").IntN(1000))*time.Millisecond)
				x.ms[0].Kill()
				died := x.Sim.Now()
				if how.heard {
					x.know(false)
				}
				x.Run(time.Second)
				took := min(x.served[1], x.served[2]).Sub(died)
				worst = max(worst, took)
				if took > how.most {
					t.Errorf("seed %d: the SA answered after %v\n%s", seed, took, tail(x.ms[1]))
				}
				if x.served[1] != mad.Never && x.served[2] != mad.Never {
					t.Errorf("seed %d: both took over", seed)
				}
				if _, err := oneMaster(x.Cluster, 30*time.Second, x.ms[:]...); err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
			}
			t.Logf("the SA answered after %v at most", worst)
		})
	}
}

// TestAllyBusy: a master that answers no SMInfo, but says otherwise that it is master, is not succeeded
// before three seconds; one of whom some packets are lost is not succeeded at all.
func TestAllyBusy(t *testing.T) {
	x := newAllies(t, sim.Config{Seed: 1, HopLatency: time.Microsecond, SMALatency: 30 * time.Microsecond}, false)
	x.Sim.SetDrop(0.05)
	x.Run(time.Minute)
	if x.served[1] != mad.Never || x.served[2] != mad.Never {
		t.Fatalf("a standby took over from a living master\n%s\n%s", tail(x.ms[1]), tail(x.ms[2]))
	}
	x.Sim.SetDrop(0)
	x.Run(time.Second)
	x.ms[0].Kill()
	died := x.Sim.Now()
	x.Run(10 * time.Second)
	if took := min(x.served[1], x.served[2]).Sub(died); took < 3*time.Second || took > 4*time.Second {
		t.Errorf("a master that was heard otherwise was succeeded after %v", took)
	}
}

// TestAllyOfAnother: a master that is no ally is polled as the settings say.
func TestAllyOfAnother(t *testing.T) {
	x := newAllies(t, sim.Config{Seed: 1, HopLatency: time.Microsecond, SMALatency: 30 * time.Microsecond}, false)
	polls := 0
	for _, m := range x.ms[1:] {
		m.SetAllies(sm.Ally{GUID: ib.GUID(1)})
		m.OnSend = func(p *mad.Packet) {
			if d := (*ib.MAD)(p.Data); d.AttrID() == smp.AttrSMInfo && !d.Method().IsResponse() {
				polls++
			}
		}
	}
	x.Run(100 * time.Second)
	if polls < 10 || polls > 30 { // one of each in 10 s
		t.Errorf("%d polls of two standbys in 100 s", polls)
	}
}
