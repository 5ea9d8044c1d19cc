package lab

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"heddle/ib"
	"heddle/sm"
	"heddle/subnet"
)

func pollConfig(priority uint8) sm.Config {
	cfg := TrialConfig()
	cfg.PollInterval, cfg.PollRetries = 200*time.Millisecond, 2
	cfg.Priority = priority
	return cfg
}

// oneMaster waits until exactly one of ms is master of a subnet in order, and
// all others are on standby.
func oneMaster(c *Cluster, limit time.Duration, ms ...*Manager) (*Manager, error) {
	end := c.Sim.Now().Add(limit)
	var last error
	good := 0
	for c.Sim.Now() < end {
		c.Run(250 * time.Millisecond)
		var master *Manager
		last = nil
		for _, m := range ms {
			switch {
			case m.Dead:
			case m.Up() && m.Idle():
				if master != nil {
					last = fmt.Errorf("two masters: %s and %s", master.Node, m.Node)
				}
				master = m
			case m.State() != subnet.Standby:
				last = fmt.Errorf("%s is %v", m.Node, m.State())
			}
		}
		if last == nil && master == nil {
			last = fmt.Errorf("no master")
		}
		if good == 0 {
			clear(c.lids) // each manager has a store of its own
		}
		if last == nil {
			last = c.Check(master)
		}
		if last != nil {
			good = 0
			continue
		}
		if good++; good == 8 {
			return master, nil
		}
	}
	var s strings.Builder
	for _, m := range ms {
		s.WriteString("\n--- " + m.Node + fmt.Sprintf(" %+v\n", m.Status()) + tail(m))
	}
	return nil, fmt.Errorf("%w%s", last, s.String())
}

// TestManagers: managers of all ranks start at all moments, die, come back, under loss; in the
// end there is one master, the one of the highest priority unless another took over from a dead
// one.
func TestManagers(t *testing.T) {
	f := gen(t, "torus", "3x3")
	hosts := cas(f)
	first, n := seeds(40, 600)
	for seed := first; seed < first+n; seed++ {
		sc := timed(seed)
		loss := pick(seed, "loss", 0, 0, 0.02, 0.1)
		sc.Drop, sc.Duplicate, sc.Reorder, sc.ReorderMax = loss, loss, loss, 10*time.Millisecond
		c, err := NewCluster(f, sc)
		if err != nil {
			t.Fatal(err)
		}
		late := pick(seed, "late", true, false, false, false, false)
		prio := func(i int) uint8 { return pick[uint8](seed, fmt.Sprint("priority ", i), 0, 1, 2) }
		var ms []*Manager
		for i := range 3 {
			at := time.Duration(stream(seed, fmt.Sprint("start ", i)).IntN(97)) * 100 * time.Microsecond
			if late {
				at *= 100
			}
			c.Sim.After(at, func() {
				m, err := c.Start(hosts[2+3*i], pollConfig(prio(i)), nil)
				if err != nil {
					t.Error(err)
					return
				}
				ms = append(ms, m)
			})
		}
		c.Run(3 * time.Second)
		c.Sim.SetDrop(0)
		c.Sim.SetDuplicate(0)
		c.Sim.SetReorder(0)
		clear(c.lids) // two that start at once may both be master for a moment and give out LIDs
		m, err := oneMaster(c, 30*time.Second, ms...)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		for _, o := range ms {
			a, b := o.Status(), m.Status()
			if a.Priority > b.Priority || a.Priority == b.Priority && a.PortGUID < b.PortGUID {
				t.Fatalf("seed %d: %s is master but %s ranks above it\n%s\n\n%s", seed, m.Node, o.Node, tail(m), tail(o))
			}
		}
		m.Kill()
		if m, err = oneMaster(c, 30*time.Second, ms...); err != nil {
			t.Fatalf("seed %d, after the death of the master: %v", seed, err)
		}
		changes := len(told(m, sm.KindState))
		back, err := c.Start(ms[0].Node, pollConfig(m.Status().Priority), nil)
		for i := 0; err != nil; i++ {
			back, err = c.Start(ms[i].Node, pollConfig(m.Status().Priority), nil)
		}
		if back.Node != m.Node {
			ms = append(ms, back)
		} else {
			back.Kill()
		}
		m2, err := oneMaster(c, 30*time.Second, ms...)
		if err != nil {
			t.Fatalf("seed %d, when one is back: %v", seed, err)
		}
		if m2 != m || len(told(m, sm.KindState)) != changes {
			t.Fatalf("seed %d: a second change of master without need, to %s\n%s", seed, m2.Node, tail(m))
		}
	}
}

// TestSplit: a subnet falls into two with a manager in each, which both become masters and
// renumber; when the parts are joined again, one master is left and no LID is used twice.
func TestSplit(t *testing.T) {
	f := chain(t, 6, nil)
	for _, x := range []struct {
		pa, pb uint8
		apart  bool // from the start: both give LID 1
		loss   float64
	}{{0, 0, false, 0}, {1, 0, false, 0}, {0, 1, false, 0}, {0, 0, true, 0}, {1, 0, true, 0}, {0, 1, true, 0}, {0, 1, true, 0.1}, {1, 0, true, 0.1}, {0, 1, false, 0.1}} {
		t.Run(fmt.Sprint(x), func(t *testing.T) {
			sc := timed(4)
			sc.Drop = x.loss
			c, err := NewCluster(f, sc)
			if err != nil {
				t.Fatal(err)
			}
			if x.apart {
				_ = c.Sim.LinkDown("S2", 2)
			}
			a, err := c.Start("H0", pollConfig(x.pa), nil)
			if err != nil {
				t.Fatal(err)
			}
			b, err := c.Start("H5", pollConfig(x.pb), nil)
			if err != nil {
				t.Fatal(err)
			}
			c.Run(4 * time.Second)
			if !x.apart {
				_ = c.Sim.LinkDown("S2", 2)
			}
			c.Run(10 * time.Second)
			if !a.Up() || !b.Up() {
				t.Fatalf("apart: %v up %v, %v up %v\n%s\n\n%s", a.State(), a.Up(), b.State(), b.Up(), tail(a), tail(b))
			}
			_ = c.Sim.LinkUp("S2", 2)
			c.Run(2 * time.Second)
			c.Sim.SetDrop(0)
			clear(c.lids)
			if _, err := oneMaster(c, 30*time.Second, a, b); err != nil {
				t.Fatal(err)
			}
			if err := healthyDelivered(c); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestOwnPort: the manager's own port loses its link and gets it back.
func TestOwnPort(t *testing.T) {
	f := gen(t, "torus", "3x3")
	c, m := bringUp(t, f, timed(1), TrialConfig())
	before := fmt.Sprint(c.Sim.LIDs())
	for _, d := range []time.Duration{10 * time.Millisecond, 3 * time.Second, 30 * time.Second} {
		_ = c.Sim.LinkDown(m.Node, 1)
		c.Run(d)
		if d > 2*time.Second && (m.Up() || len(told(m, sm.KindPortDown)) == 0) {
			t.Fatalf("after %v: %v up %v\n%s", d, m.State(), m.Up(), tail(m))
		}
		active := len(activePorts(c))
		_ = c.Sim.LinkUp(m.Node, 1)
		mustSettle(t, c, m, 20*time.Second)
		if now := fmt.Sprint(c.Sim.LIDs()); now != before {
			t.Errorf("after %v LIDs are\n%s not\n%s", d, now, before)
		}
		if n := len(activePorts(c)); n < active {
			t.Errorf("%d ports Active, were %d", n, active)
		}
	}
	// Another one has taken over meanwhile.
	_ = c.Sim.LinkDown(m.Node, 1)
	b, err := c.Start(cas(f)[4], pollConfig(0), nil)
	if err != nil {
		t.Fatal(err)
	}
	c.Run(5 * time.Second)
	_ = c.Sim.LinkUp(m.Node, 1)
	if _, err := oneMaster(c, 40*time.Second, m, b); err != nil {
		t.Fatal(err)
	}
}

// TestStop: Stop leaves all ports Active and clears IsSM.
func TestStop(t *testing.T) {
	f := gen(t, "torus", "3x3")
	c, m := bringUp(t, f, timed(1), TrialConfig())
	n := len(activePorts(c))
	i, _ := c.Sim.Node(m.Node)
	if !c.Sim.PortInfo(i, 1).CapabilityMask.Has(ib.CapIsSM) {
		t.Error("IsSM is not set")
	}
	sent := m.Sent
	m.Stop()
	c.Run(time.Minute)
	if !m.Stopped || m.Sent != sent {
		t.Errorf("stopped %v, %d packets after", m.Stopped, m.Sent-sent)
	}
	if got := len(activePorts(c)); got != n {
		t.Errorf("%d ports Active, were %d", got, n)
	}
	if c.Sim.PortInfo(i, 1).CapabilityMask.Has(ib.CapIsSM) {
		t.Error("IsSM is still set")
	}
}
