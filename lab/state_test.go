package lab

import (
	"fmt"
	"testing"
	"time"

	"heddle/fabric"
	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/sm"
)

// TestStoreFails: while the store cannot be written no port is assigned anything that the store
// does not have.
func TestStoreFails(t *testing.T) {
	f := gen(t, "torus", "3x3")
	c, err := NewCluster(f, timed(1))
	if err != nil {
		t.Fatal(err)
	}
	cfg := TrialConfig()
	cfg.MKey = 0x77
	m, err := c.Attach(firstCA(f), cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	m.Store.FailNext = 6
	m.OnSend = func(p *mad.Packet) {
		a := (*ib.MAD)(p.Data)
		if a.Method() != ib.MethodSet || a.AttrID() != smp.AttrPortInfo {
			return
		}
		st, _ := m.Store.Load()
		if len(st.LIDs) == 0 || len(st.MKeys) == 0 {
			t.Fatalf("a port is set while the store holds nothing\n%s", tail(m))
		}
	}
	if err := m.Start(); err != nil {
		t.Fatal(err)
	}
	mustSettle(t, c, m, time.Minute)
	st, _ := m.Store.Load()
	if len(st.LIDs) != 18 || len(st.MKeys) != 18 {
		t.Errorf("the store has %d LIDs, %d keys", len(st.LIDs), len(st.MKeys))
	}
}

// TestSlowJobs: routing that takes longer than sweeps does not keep the
// manager from ending.
func TestSlowJobs(t *testing.T) {
	f := gen(t, "torus", "3x3")
	c, err := NewCluster(f, timed(1))
	if err != nil {
		t.Fatal(err)
	}
	cfg := TrialConfig()
	m, err := c.Attach(firstCA(f), cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	m.JobTime = 3 * time.Second
	drop := true // the first Set(PortInfo) on our own port, with all its retries
	m.OnSend = func(p *mad.Packet) {
		a := (*ib.MAD)(p.Data)
		if drop && a.Method() == ib.MethodSet && a.AttrID() == smp.AttrPortInfo && smp.HopCount(a) == 0 {
			a[0] = 9 // no such version: nobody answers
			c.Sim.After(200*time.Millisecond, func() { drop = false })
		}
	}
	if err := m.Start(); err != nil {
		t.Fatal(err)
	}
	if err := settled(c, m, 30*time.Second); err != nil {
		t.Fatalf("%v %+v\n%s", err, m.Status(), tail(m))
	}
}

// TestSparseLIDs: tables have blocks without any LID; a fresh switch gets
// its table and top all the same.
func TestSparseLIDs(t *testing.T) {
	var b fabric.Builder
	for i := range 3 {
		b.AddSwitch(fmt.Sprintf("S%d", i), 6)
	}
	for i := range 3 {
		b.Connect(i, 3, b.AddCA(fmt.Sprintf("H%d", i), 1), 1)
		if i > 0 {
			b.Connect(i-1, 2, i, 1)
		}
	}
	b.SetLID(3, 1, 5, 0)
	b.SetLID(4, 1, 1000, 0)
	b.SetLID(5, 1, 40000, 0)
	f, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	c, m := bringUp(t, f, timed(1), TrialConfig())
	for i, want := range map[int]ib.LID{3: 5, 4: 1000, 5: 40000} {
		if got := c.Sim.PortInfo(i, 1).LID; got != want {
			t.Errorf("LID %v became %v", want, got)
		}
	}
	_ = c.Sim.NodeUp("S1")
	c.Run(time.Second)
	mustSettle(t, c, m, 20*time.Second)
	m.Kill()
	n, err := c.Attach(m.Node, TrialConfig(), m.Store.Reopen())
	if err != nil {
		t.Fatal(err)
	}
	k := &counter{}
	n.OnSend = k.see
	if err := n.Start(); err != nil {
		t.Fatal(err)
	}
	c.Run(20 * time.Second)
	if k.lft != 0 || k.state != 0 || k.top != 0 {
		t.Errorf("restart: %d LFT blocks, %d SwitchInfo, %d port states set", k.lft, k.top, k.state)
	}
}

// TestLMC: existing LIDs that are not aligned move, all others stay;
// raising and lowering the LMC keeps what fits.
func TestLMC(t *testing.T) {
	f := gen(t, "torus", "3x3")
	for _, port0 := range []uint8{0, 2} {
		for lmc := range uint8(4) {
			for _, keep := range []bool{true, false} {
				t.Run(fmt.Sprint(port0, lmc, keep), func(t *testing.T) {
					sc := timed(1)
					sc.EnhancedPort0 = port0 != 0
					c, m := bringUp(t, f, sc, TrialConfig())
					before := map[ib.GUID]ib.LID{}
					for _, l := range c.Sim.LIDs() {
						before[l.GUID] = l.LID
					}
					m.Kill()
					st := m.Store.Reopen()
					if !keep {
						st = nil
					}
					clear(c.lids)
					cfg := TrialConfig()
					cfg.LMC, cfg.LMCPort0 = lmc, port0
					n, err := c.Start(m.Node, cfg, st)
					if err != nil {
						t.Fatal(err)
					}
					mustSettle(t, c, n, 20*time.Second)
					for _, l := range c.Sim.LIDs() {
						want := lmc
						if c.Fabric.Nodes[l.Node].IsSwitch() {
							want = port0
						}
						if l.LMC != want {
							t.Errorf("LMC %d", l.LMC)
						}
						old := before[l.GUID]
						if old != l.LID && old&(1<<want-1) == 0 && len(told(n, sm.KindLIDConflict)) == 0 {
							t.Errorf("LID %v became %v without a word", old, l.LID)
						}
					}
					if err := healthyDelivered(c); err != nil {
						t.Error(err)
					}
					n.Kill()
					clear(c.lids)
					k, err := c.Start(m.Node, TrialConfig(), n.Store.Reopen())
					if err != nil {
						t.Fatal(err)
					}
					mustSettle(t, c, k, 20*time.Second)
				})
			}
		}
	}
}

// TestLIDConflict: two ports with one LID, and a store with other LIDs for both.
func TestLIDConflict(t *testing.T) {
	f := gen(t, "torus", "3x3")
	for _, stored := range []int{0, 1, 2, 3} {
		t.Run(fmt.Sprint(stored), func(t *testing.T) {
			c, m := bringUp(t, f, timed(1), TrialConfig())
			m.Kill()
			st := m.Store.Reopen()
			if stored == 0 {
				st = nil
			}
			hosts := cas(f)
			a, _ := c.Sim.Node(hosts[3])
			b, _ := c.Sim.Node(hosts[6])
			la, lb := c.Sim.PortInfo(a, 1).LID, c.Sim.PortInfo(b, 1).LID
			// Somebody else moved b to a's LID (or a to b's; or swapped them).
			ep, err := c.Sim.Attach(hosts[8])
			if err != nil {
				t.Fatal(err)
			}
			set := func(node int, lid ib.LID) {
				var q ib.MAD
				smp.NewLID(&q, ib.MethodSet, smp.AttrPortInfo, 0, 0)
				pi := c.Sim.PortInfo(node, 1)
				to := pi.LID
				pi.ClearForSet()
				pi.LID = lid
				pi.Put(smp.Data(&q))
				ep.Send(&mad.Packet{Addr: mad.Addr{LID: to}, Data: q[:]})
				c.Run(time.Millisecond)
				if got := c.Sim.PortInfo(node, 1).LID; got != lid {
					t.Fatalf("LID is %v not %v", got, lid)
				}
			}
			if stored < 3 {
				if stored == 2 {
					a, b, la, lb = b, a, lb, la
				}
				set(b, la)
			} else {
				set(a, lb)
				set(b, la) // by its old LID, which its switch still sends to it
			}
			ep.Close()
			clear(c.lids)
			n, err := c.Start(hosts[0], TrialConfig(), st)
			if err != nil {
				t.Fatal(err)
			}
			mustSettle(t, c, n, 20*time.Second)
			ga, gb := c.Sim.PortInfo(a, 1).LID, c.Sim.PortInfo(b, 1).LID
			said := len(told(n, sm.KindLIDConflict))
			switch {
			case stored == 3 && (ga != lb || gb != la):
				t.Errorf("swapped LIDs %v, %v on Active ports became %v, %v", lb, la, ga, gb)
			case stored == 3:
			case stored > 0 && (ga != la || gb != lb):
				t.Errorf("the store says %v, %v but they have %v, %v", la, lb, ga, gb)
			case said == 0:
				t.Errorf("nothing was said\n%s", tail(n))
			case ga == gb:
				t.Error("still equal")
			}
		})
	}
}
