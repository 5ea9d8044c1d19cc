package lab

import (
	"strings"
	"testing"
	"time"

	"heddle/ib"
	"heddle/sim"
	"heddle/sm"
)

// TestKillAnywhere: the manager dies after its n-th SMP, for every n, and a
// new one brings the subnet up with the same LIDs and without touching a
// port that is Active.
func TestKillAnywhere(t *testing.T) {
	f := gen(t, "irregular", "8")
	_, whole := bringUp(t, f, sim.Config{}, DefaultConfig())
	step := 1
	if _, n := seeds(1, 2); n == 1 {
		step = 3 // a third of the places; all of them in long runs
	}
	for n := 1; n < whole.Sent; n += step {
		c, err := NewCluster(f, sim.Config{})
		if err != nil {
			t.Fatal(err)
		}
		m, err := c.Attach(firstCA(f), DefaultConfig(), nil)
		if err != nil {
			t.Fatal(err)
		}
		m.KillAfter = n
		if err := m.Start(); err != nil {
			t.Fatal(err)
		}
		c.Run(10 * time.Second)
		if !m.Dead {
			t.Fatalf("not dead after %d SMPs", n)
		}
		before, active := c.Sim.LIDs(), activePorts(c)
		k, err := c.Attach(m.Node, DefaultConfig(), m.Store.Reopen())
		if err != nil {
			t.Fatal(err)
		}
		if err := k.Start(); err != nil {
			t.Fatal(err)
		}
		if err := c.RunUntil(time.Minute, k.Up); err != nil {
			t.Fatalf("killed after %d: %v\n%s", n, err, strings.Join(k.Events(sm.Debug), "\n"))
		}
		if err := c.Check(k); err != nil {
			t.Fatalf("killed after %d: %v", n, err)
		}
		after := map[ib.GUID]ib.LID{}
		for _, e := range c.Sim.LIDs() {
			after[e.GUID] = e.LID
		}
		for _, e := range before {
			if after[e.GUID] != e.LID {
				t.Fatalf("killed after %d: LID of %v changed from %v to %v", n, e.GUID, e.LID, after[e.GUID])
			}
		}
		_ = active
	}
}

// activePorts lists the ports that are Active.
func activePorts(c *Cluster) (ports [][2]int) {
	for i := range c.Fabric.Nodes {
		for p := 1; p <= c.Fabric.Nodes[i].NumPorts; p++ {
			if c.Sim.PortInfo(i, p).PortState == ib.StateActive {
				ports = append(ports, [2]int{i, p})
			}
		}
	}
	return ports
}

// TestFailover: a standby takes over when the master dies; LIDs stay; when the first one
// returns, it does not become master again unless it has a higher priority.
func TestFailover(t *testing.T) {
	f := gen(t, "torus", "3x3")
	c, err := NewCluster(f, sim.Config{HopLatency: time.Microsecond, SMALatency: 5 * time.Microsecond})
	if err != nil {
		t.Fatal(err)
	}
	cfg := TrialConfig()
	cfg.PollInterval, cfg.PollRetries = 200*time.Millisecond, 2
	high := cfg
	high.Priority = 5
	var cas []string
	for i := range f.Nodes {
		if !f.Nodes[i].IsSwitch() {
			cas = append(cas, f.Nodes[i].ID)
		}
	}
	start := func(node string, cfg sm.Config) *Manager {
		m, err := c.Start(node, cfg, nil)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	until := func(what string, cond func() bool, ms ...*Manager) {
		t.Helper()
		if err := c.RunUntil(20*time.Second, cond); err != nil {
			for _, m := range ms {
				t.Logf("%s:\n%s", m.Node, strings.Join(m.Events(sm.Debug), "\n"))
			}
			t.Fatalf("%s: %v", what, err)
		}
	}
	a, b := start(cas[0], cfg), start(cas[5], high)
	until("the higher priority wins", func() bool { return b.Up() && a.Snap.State.String() == "STANDBY" }, a, b)
	if err := c.Check(b); err != nil {
		t.Fatal(err)
	}
	b.Kill()
	until("the standby takes over", a.Up, a)
	if err := c.Check(a); err != nil {
		t.Fatal(err)
	}
	back := start(cas[5], cfg) // with the same priority as the present master
	c.Run(5 * time.Second)
	if !a.Up() || back.Snap.State.String() != "STANDBY" {
		t.Fatalf("second change of master: %v and %v", a.State(), back.State())
	}
	back.Kill()
	b2 := start(cas[5], high)
	until("its priority takes the subnet back", func() bool { return b2.Up() && !a.Up() }, a, b2)
	if err := c.Check(b2); err != nil {
		t.Fatal(err)
	}
}
