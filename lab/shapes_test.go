package lab

import (
	"fmt"
	"testing"
	"time"

	"heddle/fabric"
	"heddle/ib"
	"heddle/sim"
	"heddle/sm"
)

// chain is n switches S0… in a row by ports 1 (up) and 2 (down), with host Hi
// on port 3 of switch Si; more may be added.
func chain(t testing.TB, n int, more func(b *fabric.Builder, sw, ca []int)) *fabric.Fabric {
	t.Helper()
	var b fabric.Builder
	var sw, ca []int
	for i := range n {
		sw = append(sw, b.AddSwitch(fmt.Sprintf("S%d", i), 6))
		ca = append(ca, b.AddCA(fmt.Sprintf("H%d", i), 2))
		b.Connect(sw[i], 3, ca[i], 1)
		if i > 0 {
			b.Connect(sw[i-1], 2, sw[i], 1)
		}
	}
	if more != nil {
		more(&b, sw, ca)
	}
	f, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestShapes: fabrics of unusual shape come up whole.
func TestShapes(t *testing.T) {
	pair := func(n int) *fabric.Fabric {
		var b fabric.Builder
		x, y := b.AddCA("H0", n), b.AddCA("H1", n)
		b.Connect(x, 1, y, 1)
		if n > 1 {
			b.Connect(x, 2, y, 2)
		}
		f, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	for _, x := range []struct {
		name, at string
		f        *fabric.Fabric
		cfg      sim.Config
	}{
		{"one switch alone", "S0", func() *fabric.Fabric {
			var b fabric.Builder
			b.AddSwitch("S0", 4)
			f, err := b.Build()
			if err != nil {
				t.Fatal(err)
			}
			return f
		}(), sim.Config{}},
		{"back to back", "H0", pair(1), sim.Config{}},
		{"two cables back to back", "H0", pair(2), sim.Config{}},
		{"loopback cable", "H0", chain(t, 3, func(b *fabric.Builder, sw, _ []int) { b.Connect(sw[1], 4, sw[1], 5) }), sim.Config{}},
		{"loopback cable at our switch", "H0", chain(t, 3, func(b *fabric.Builder, sw, _ []int) { b.Connect(sw[0], 4, sw[0], 5) }), sim.Config{}},
		{"both ports to one switch", "H0", chain(t, 3, func(b *fabric.Builder, sw, ca []int) { b.Connect(sw[1], 4, ca[1], 2) }), sim.Config{}},
		{"both ports to two switches", "H0", chain(t, 3, func(b *fabric.Builder, sw, ca []int) { b.Connect(sw[2], 4, ca[1], 2) }), sim.Config{}},
		{"our own second port", "H0", chain(t, 3, func(b *fabric.Builder, sw, ca []int) { b.Connect(sw[2], 4, ca[0], 2) }), sim.Config{}},
		{"parallel cables", "H0", chain(t, 3, func(b *fabric.Builder, sw, ca []int) { b.Connect(sw[0], 4, sw[1], 4); b.Connect(sw[0], 5, sw[1], 5) }), sim.Config{}},
		{"base switch port 0", "S1", chain(t, 3, nil), sim.Config{}},
		{"enhanced switch port 0", "S1", chain(t, 3, nil), sim.Config{EnhancedPort0: true}},
		{"from the middle of 100", "H50", chain(t, 100, nil), sim.Config{}},
	} {
		t.Run(x.name, func(t *testing.T) {
			c, err := NewCluster(x.f, x.cfg)
			if err != nil {
				t.Fatal(err)
			}
			m, err := c.Start(x.at, DefaultConfig(), nil)
			if err != nil {
				t.Fatal(err)
			}
			mustSettle(t, c, m, 10*time.Second)
			if w := m.Events(sm.Warn); len(w) > 0 {
				t.Errorf("warned: %v", w)
			}
			if len(c.Sim.LIDs()) == 0 {
				t.Error("no LIDs")
			}
			sweeps := m.Status().Sweeps
			c.Run(2 * time.Minute)
			if got := m.Status().Sweeps; got != sweeps || sweeps > 2 {
				t.Errorf("%d full sweeps, then %d, of a subnet where nothing happens\n%s", sweeps, got, tail(m))
			}
			_, k := restart(t, c, m, true)
			c.Run(20 * time.Second)
			if k.lft != 0 || k.state != 0 || k.top != 0 {
				t.Errorf("restart: %d LFT blocks, %d SwitchInfo, %d port states set", k.lft, k.top, k.state)
			}
		})
	}
}

// TestTooFar: what is more than 63 hops away is reported; the rest comes
// up.
func TestTooFar(t *testing.T) {
	f := chain(t, 80, nil)
	c, err := NewCluster(f, sim.Config{})
	if err != nil {
		t.Fatal(err)
	}
	m, err := c.Start("H0", DefaultConfig(), nil)
	if err != nil {
		t.Fatal(err)
	}
	upWithout(t, c, m, time.Minute)
	k := told(m, sm.KindTooFar)
	if len(k) == 0 {
		t.Fatalf("not told\n%s", tail(m))
	}
	var without []string
	for i := 62; i < 80; i++ {
		without = append(without, fmt.Sprintf("H%d", i), fmt.Sprintf("S%d", i))
	}
	if err := healthyDelivered(c, without...); err != nil {
		t.Error(err)
	}
}

// TestSmallTables: LIDs stay within the smallest table. A table of exactly the right size holds
// all; where the tables of all switches are one too small, one host has no LID, which is
// reported, and the rest is up.
func TestSmallTables(t *testing.T) {
	f := gen(t, "torus", "3x3") // 9 switches, 9 hosts
	for _, x := range []struct {
		size   uint16
		lmc    uint8
		left   int // hosts without LIDs
		preset bool
	}{{19, 0, 0, false}, {18, 0, 1, false}, {28, 1, 0, false}, {27, 1, 1, false}, {26, 1, 1, false}, {18, 0, 1, true}} {
		t.Run(fmt.Sprint(x), func(t *testing.T) {
			c, err := NewCluster(f, sim.Config{LinearFDBCap: x.size})
			if err != nil {
				t.Fatal(err)
			}
			cfg := TrialConfig()
			cfg.LMC = x.lmc
			hosts := cas(f)
			last := hosts[8]
			if x.preset {
				_ = c.Sim.LinkDown(last, 1)
			}
			m, err := c.Start(hosts[0], cfg, nil)
			if err != nil {
				t.Fatal(err)
			}
			c.Run(20 * time.Second)
			if x.preset {
				mustSettle(t, c, m, time.Second)
				_ = c.Sim.LinkUp(last, 1)
				c.Run(20 * time.Second)
			}
			upWithout(t, c, m, 20*time.Second)
			var without []string
			for _, h := range hosts {
				if i, _ := c.Sim.Node(h); c.Sim.PortInfo(i, 1).LID == 0 {
					without = append(without, h)
				}
			}
			if err := healthyDelivered(c, without...); err != nil || len(without) != x.left {
				t.Errorf("%d without LIDs, want %d; %v\n%s", len(without), x.left, err, tail(m))
			}
			if said := len(told(m, sm.KindNoLID)); said < x.left {
				t.Errorf("said of %d\n%s", said, tail(m))
			}
			for _, l := range c.Sim.LIDs() {
				if l.LID+ib.LID(1<<l.LMC)-1 >= ib.LID(x.size) {
					t.Errorf("LID %v beyond %d", l.LID, x.size)
				}
			}
		})
	}
}

// TestSmallTableSplits: a switch whose table is too small is excluded. Nodes behind it do not
// keep the rest from coming up.
func TestSmallTableSplits(t *testing.T) {
	f := chain(t, 3, nil)
	c, err := NewCluster(f, timed(1))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Sim.SetQuirks("S1", &sim.Quirks{LinearFDBCap: 3}); err != nil {
		t.Fatal(err)
	}
	m, err := c.Start("H0", TrialConfig(), nil)
	if err != nil {
		t.Fatal(err)
	}
	upWithout(t, c, m, 20*time.Second)
	if err := healthyDelivered(c, "S1", "H1", "S2", "H2"); err != nil {
		t.Errorf("%v\n%s", err, tail(m))
	}
}
