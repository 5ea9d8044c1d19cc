package lab

import (
	"fmt"
	"testing"
	"time"

	"heddle/fabric"
	"heddle/ib"
	"heddle/mad"
	"heddle/sim"
	"heddle/sm"
)

// TestDescription: a node's new description is seen whatever the manager
// is doing when the trap comes.
func TestDescription(t *testing.T) {
	f := gen(t, "torus", "3x3")
	for _, light := range []bool{false, true} {
		for n := 1; n < 160; n += 3 {
			c, m := bringUp(t, f, timed(uint64(n)), TrialConfig())
			host := cas(f)[3+n%5]
			from := m.Sent
			m.OnSend = func(*mad.Packet) {
				if m.Sent == from+n {
					c.Sim.After(0, func() { _ = c.Sim.SetNodeDescription(host, "renamed") })
				}
			}
			if !light {
				m.Sweep(false)
			}
			c.Run(25 * time.Second)
			i := m.Snap.NodeByGUID(f.Nodes[mustNode(c, host)].GUID)
			if got := m.Snap.Nodes[i].Desc; got != "renamed" {
				t.Fatalf("light %v, renamed at packet %d: the snapshot says %q\n%s", light, n, got, tail(m))
			}
		}
	}
}

// TestMoved: cables are swapped and nodes replaced while it runs, with
// and without traps, and while the manager is dead.
func TestMoved(t *testing.T) {
	f := chain(t, 4, func(b *fabric.Builder, sw, _ []int) { b.Connect(sw[0], 5, sw[3], 5) })
	moves := []struct {
		name string
		do   func(c *Cluster)
	}{
		{"two hosts swap ports", func(c *Cluster) {
			_ = c.Sim.LinkDown("H1", 1)
			_ = c.Sim.LinkDown("H2", 1)
			_ = c.Sim.Link("H1", 1, "S2", 3)
			_ = c.Sim.Link("H2", 1, "S1", 3)
		}},
		{"a host moves", func(c *Cluster) {
			_ = c.Sim.LinkDown("H1", 1)
			_ = c.Sim.Link("H1", 1, "S3", 4)
		}},
		{"we move", func(c *Cluster) {
			_ = c.Sim.LinkDown("H0", 1)
			_ = c.Sim.Link("H0", 1, "S3", 4)
		}},
		{"a host takes its other port", func(c *Cluster) {
			_ = c.Sim.LinkDown("H1", 1)
			_ = c.Sim.Link("H1", 2, "S1", 3)
		}},
		{"a link moves", func(c *Cluster) {
			_ = c.Sim.LinkDown("S1", 2)
			_ = c.Sim.Link("S1", 4, "S2", 6)
		}},
		{"two links cross", func(c *Cluster) {
			_ = c.Sim.LinkDown("S0", 2)
			_ = c.Sim.LinkDown("S2", 2)
			_ = c.Sim.Link("S0", 2, "S2", 2)
			_ = c.Sim.Link("S1", 1, "S3", 1)
		}},
	}
	for _, x := range moves {
		for _, how := range []string{"traps", "no traps", "dead"} {
			t.Run(x.name+" "+how, func(t *testing.T) {
				c, m := bringUp(t, f, timed(1), TrialConfig())
				before := map[ib.GUID]ib.LID{}
				for _, l := range c.Sim.LIDs() {
					before[l.GUID] = l.LID
				}
				switch how {
				case "no traps":
					loseTraps(t, c)
				case "dead":
					m.Kill()
				}
				x.do(c)
				if how == "dead" {
					k, err := c.Start(m.Node, TrialConfig(), m.Store.Reopen())
					if err != nil {
						t.Fatal(err)
					}
					m = k
				}
				c.Run(4 * time.Second)
				mustSettle(t, c, m, 10*time.Second)
				for _, l := range c.Sim.LIDs() {
					if old, ok := before[l.GUID]; ok && old != l.LID {
						t.Errorf("LID of %v was %v, is %v", l.GUID, old, l.LID)
					}
				}
				if w := told(m, sm.KindDuplicateGUID); len(w) > 0 {
					t.Errorf("taken for a duplicate: %v", w)
				}
			})
		}
	}
}

// TestOnSwitch: a manager on a switch's port 0 survives what one on a
// host does.
func TestOnSwitch(t *testing.T) {
	f := gen(t, "torus", "3x3")
	for _, enhanced := range []bool{false, true} {
		sc := timed(1)
		sc.EnhancedPort0 = enhanced
		c, err := NewCluster(f, sc)
		if err != nil {
			t.Fatal(err)
		}
		id := f.Nodes[switches(f)[0]].ID
		m, err := c.Start(id, TrialConfig(), nil)
		if err != nil {
			t.Fatal(err)
		}
		mustSettle(t, c, m, 10*time.Second)
		for i, r := range cables(f) {
			_ = c.Sim.LinkDown(f.Nodes[r.Node].ID, int(r.Port))
			c.Run(time.Duration(i%7) * 100 * time.Millisecond)
		}
		c.Run(5 * time.Second)
		for _, r := range cables(f) {
			_ = c.Sim.LinkUp(f.Nodes[r.Node].ID, int(r.Port))
		}
		mustSettle(t, c, m, 20*time.Second)
		m.Kill()
		k := &counter{}
		n, err := c.Attach(id, TrialConfig(), m.Store.Reopen())
		if err != nil {
			t.Fatal(err)
		}
		n.OnSend = k.see
		if err := n.Start(); err != nil {
			t.Fatal(err)
		}
		mustSettle(t, c, n, 10*time.Second)
		if k.lft+k.state+k.top > 0 {
			t.Errorf("restart: %+v", *k)
		}
		// A second manager on a host, of higher rank.
		b, err := c.Start(cas(f)[5], pollConfig(3), nil)
		if err != nil {
			t.Fatal(err)
		}
		got, err := oneMaster(c, 20*time.Second, n, b)
		if err != nil {
			t.Fatal(err)
		}
		if got != b {
			t.Error("the lower rank won")
		}
	}
}

// TestBusy: a node that answers busy for a while, a slow one, one without
// extended speeds.
func TestBusy(t *testing.T) {
	f := gen(t, "torus", "3x3")
	for _, q := range []sim.Quirks{
		{BusyTimes: 3}, {Slow: 3 * time.Millisecond}, {NoExtendedSpeeds: true}, {HideExtendedSpeeds: true},
	} {
		for _, id := range []string{cas(f)[4], f.Nodes[switches(f)[4]].ID, firstCA(f)} {
			t.Run(fmt.Sprintf("%+v %s", q.BusyTimes, id), func(t *testing.T) {
				c, err := NewCluster(f, timed(1))
				if err != nil {
					t.Fatal(err)
				}
				_ = c.Sim.SetQuirks(id, &q)
				m, err := c.Start(firstCA(f), TrialConfig(), nil)
				if err != nil {
					t.Fatal(err)
				}
				mustSettle(t, c, m, 30*time.Second)
			})
		}
	}
}
