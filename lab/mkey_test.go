package lab

import (
	"strings"
	"testing"
	"time"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/sim"
	"heddle/sm"
	"heddle/store"
)

func keyConfig(key ib.MKey, protect uint8) sm.Config {
	cfg := TrialConfig()
	cfg.MKey, cfg.MKeyProtect, cfg.MKeyLease = key, protect, 0
	return cfg
}

// keysHeld counts the ports that guard themselves with each key.
func keysHeld(c *Cluster) map[ib.MKey]int {
	held := map[ib.MKey]int{}
	for i := range c.Fabric.Nodes {
		p := 0
		if !c.Fabric.Nodes[i].IsSwitch() {
			p = 1
		}
		held[c.Sim.PortInfo(i, p).MKey]++
	}
	return held
}

// TestMKeys: keys are stored before they are set. With any protection level, a restarted
// manager with the store has access, also with another key in its configuration.
func TestMKeys(t *testing.T) {
	for _, protect := range []uint8{0, 1, 2, 3} {
		f := gen(t, "irregular", "8")
		c, m := bringUp(t, f, sim.Config{}, keyConfig(0x1111, protect))
		if held := keysHeld(c); len(held) != 1 || held[0x1111] != len(f.Nodes) {
			t.Fatalf("protection %d: keys %v", protect, held)
		}
		for _, key := range []ib.MKey{0x1111, 0x2222, 0} {
			m.Kill()
			var err error
			if m, err = c.Start(m.Node, keyConfig(key, protect), m.Store.Reopen()); err != nil {
				t.Fatal(err)
			}
			mustUp(t, c, m)
			if held := keysHeld(c); len(held) != 1 || held[key] != len(f.Nodes) {
				t.Fatalf("protection %d, key %#x: keys %v", protect, key, held)
			}
		}
	}
}

// TestMKeyChangeKilled: a manager that dies at any SMP while it changes the key of the subnet,
// and is then configured with a third one, leaves no port locked.
func TestMKeyChangeKilled(t *testing.T) {
	f := gen(t, "irregular", "8")
	count := 0
	for n := 60; ; n += 3 {
		c, err := NewCluster(f, sim.Config{})
		if err != nil {
			t.Fatal(err)
		}
		first, err := c.Start(firstCA(f), keyConfig(0x1111, 2), nil)
		if err != nil {
			t.Fatal(err)
		}
		mustUp(t, c, first)
		first.Kill()
		second, err := c.Attach(first.Node, keyConfig(0x2222, 2), first.Store.Reopen())
		if err != nil {
			t.Fatal(err)
		}
		second.KillAfter = n
		if err := second.Start(); err != nil {
			t.Fatal(err)
		}
		c.Run(5 * time.Second)
		if !second.Dead {
			break
		}
		if len(keysHeld(c)) > 1 {
			count++
		}
		third, err := c.Start(first.Node, keyConfig(0x3333, 2), second.Store.Reopen())
		if err != nil {
			t.Fatal(err)
		}
		mustUp(t, c, third)
		if held := keysHeld(c); held[0x3333] != len(f.Nodes) {
			t.Fatalf("killed after %d: keys %v", n, held)
		}
	}
	if count == 0 {
		t.Error("no manager died while the subnet had two keys")
	}
}

// TestMKeyLocked: without the key the locked part is reported, excluded and not changed, and
// the sweep completes.
func TestMKeyLocked(t *testing.T) {
	f := gen(t, "irregular", "8")
	c, m := bringUp(t, f, sim.Config{}, keyConfig(0x1111, 2))
	m.Kill()
	cfg := keyConfig(0, 0)
	n, err := c.Start(m.Node, cfg, store.NewMemory())
	if err != nil {
		t.Fatal(err)
	}
	c.Run(10 * time.Second)
	if held := keysHeld(c); held[0x1111] != len(f.Nodes) {
		t.Fatalf("keys were changed without the right one: %v", held)
	}
	if ev := strings.Join(n.Events(sm.Warn), "\n"); !strings.Contains(ev, "does not answer") {
		t.Errorf("nothing says that our own port does not answer:\n%s", ev)
	}
	if n.Up() {
		t.Error("up on a subnet that is locked")
	}
}

// TestPlanWritesNothing: a plan sends no Set, does not claim the port, and lists exactly what a
// manager then sends.
func TestPlanWritesNothing(t *testing.T) {
	f := gen(t, "torus", "4x4")
	c, err := NewCluster(f, sim.Config{})
	if err != nil {
		t.Fatal(err)
	}
	cfg := DefaultConfig()
	cfg.PlanOnly = true
	plan := func() *sm.Plan {
		t.Helper()
		p, err := c.Attach(firstCA(f), cfg, nil)
		if err != nil {
			t.Fatal(err)
		}
		p.OnSend = func(pk *mad.Packet) {
			if m := (*ib.MAD)(pk.Data); m.Method() != ib.MethodGet {
				t.Fatalf("a plan sent %v(%v)", m.Method(), m.AttrID())
			}
		}
		if err := p.Start(); err != nil {
			t.Fatal(err)
		}
		if err := c.RunUntil(time.Minute, func() bool { return p.Plan != nil }); err != nil {
			t.Fatalf("%v\n%s", err, strings.Join(p.Events(sm.Debug), "\n"))
		}
		p.Kill()
		return p.Plan
	}
	first := plan()
	sent := map[ib.AttrID]int{}
	m, err := c.Attach(firstCA(f), DefaultConfig(), nil)
	if err != nil {
		t.Fatal(err)
	}
	m.OnSend = func(pk *mad.Packet) {
		if q := (*ib.MAD)(pk.Data); q.Method() == ib.MethodSet {
			sent[q.AttrID()]++
		}
	}
	if err := m.Start(); err != nil {
		t.Fatal(err)
	}
	mustUp(t, c, m)
	want := map[ib.AttrID]int{}
	for _, s := range first.Sets {
		want[s.Attr] += s.N
	}
	for _, a := range []ib.AttrID{smp.AttrLFT, smp.AttrSwitchInfo, smp.AttrPortInfo} {
		if sent[a] != want[a] {
			t.Errorf("%v: %d predicted, %d sent", a, want[a], sent[a])
		}
	}
	if len(first.LIDs) != m.Snap.Counts.EndPorts {
		t.Errorf("%d LIDs predicted, %d assigned", len(first.LIDs), m.Snap.Counts.EndPorts)
	}
	m.Stop()
	if again := plan(); len(again.LIDs) != 0 || len(again.Blocks) != 0 {
		t.Errorf("on a subnet that is up: %d LIDs and %d switches would change", len(again.LIDs), len(again.Blocks))
	}
}

// TestLanes: with QoS every link gets an SL2VL map over its lanes and equal
// arbitration, and a second manager finds nothing to write.
func TestLanes(t *testing.T) {
	for _, wild := range []bool{false, true} {
		f := gen(t, "irregular", "8")
		cfg := TrialConfig()
		cfg.QoS = true
		c, m := bringUp(t, f, sim.Config{OptimizedSL2VL: wild}, cfg)
		if w := m.Events(sm.Warn); len(w) > 0 {
			t.Errorf("warnings:\n%s", strings.Join(w, "\n"))
		}
		m.Kill()
		n, err := c.Attach(m.Node, cfg, m.Store.Reopen())
		if err != nil {
			t.Fatal(err)
		}
		n.OnSend = func(pk *mad.Packet) {
			q := (*ib.MAD)(pk.Data)
			if q.Method() == ib.MethodSet && (q.AttrID() == smp.AttrSLtoVL || q.AttrID() == smp.AttrVLArb) {
				t.Fatalf("Set(%v) although nothing differs", q.AttrID())
			}
		}
		if err := n.Start(); err != nil {
			t.Fatal(err)
		}
		mustUp(t, c, n)
	}
}
