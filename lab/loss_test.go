package lab

import (
	"fmt"
	"testing"
	"time"

	"heddle/ib"
	"heddle/sim"
	"heddle/store"
)

// TestKill: the manager dies after any SMP of a bring-up or of a change,
// and the next one, with its store or with none, keeps every LID that a port
// shows and leaves every Active port Active.
func TestKill(t *testing.T) {
	f := gen(t, "torus", "3x3")
	_, whole := bringUp(t, f, timed(1), TrialConfig())
	step := 7
	if _, k := seeds(1, 2); k == 2 {
		step = 1
	}
	for _, change := range []bool{false, true} {
		for _, keep := range []bool{true, false} {
			for n := 1; n < whole.Sent; n += step {
				c, err := NewCluster(f, timed(uint64(n)))
				if err != nil {
					t.Fatal(err)
				}
				var st *store.Memory
				if change {
					m, err := c.Start(firstCA(f), TrialConfig(), nil)
					if err != nil {
						t.Fatal(err)
					}
					mustSettle(t, c, m, 20*time.Second)
					m.Kill()
					st = m.Store.Reopen()
					r := cables(f)[n%18]
					_ = c.Sim.LinkDown(f.Nodes[r.Node].ID, int(r.Port))
					r = cables(f)[(n+5)%18]
					_ = c.Sim.LinkDown(f.Nodes[r.Node].ID, int(r.Port))
					_ = c.Sim.NodeUp(f.Nodes[switches(f)[n%9]].ID)
				}
				m, err := c.Attach(firstCA(f), TrialConfig(), st)
				if err != nil {
					t.Fatal(err)
				}
				m.KillAfter = n
				if err := m.Start(); err != nil {
					t.Fatal(err)
				}
				c.Run(2 * time.Second)
				m.Kill()
				st = m.Store.Reopen()
				if !keep {
					st = nil
				}
				shown := map[ib.GUID]ib.LID{}
				for _, l := range c.Sim.LIDs() {
					shown[l.GUID] = l.LID
				}
				var fell []string
				c.Sim.OnChange = func(ch sim.Change) {
					if ch.Kind == sim.ChangeState && ch.Old == ib.StateActive {
						fell = append(fell, fmt.Sprint(ch))
					}
				}
				k, err := c.Start(m.Node, TrialConfig(), st)
				if err != nil {
					t.Fatal(err)
				}
				if err := settled(c, k, 20*time.Second); err != nil {
					t.Fatalf("change %v, store %v, killed after %d: %v\n%s", change, keep, n, err, tail(k))
				}
				if len(fell) > 0 {
					t.Fatalf("change %v, store %v, killed after %d: %v left Active", change, keep, n, fell)
				}
				for _, l := range c.Sim.LIDs() {
					if old, ok := shown[l.GUID]; ok && old != l.LID {
						t.Fatalf("change %v, store %v, killed after %d: LID of %v was %v, is %v", change, keep, n, l.GUID, old, l.LID)
					}
				}
			}
		}
	}
}

// TestManyMute: silent nodes are awaited in parallel.
func TestManyMute(t *testing.T) {
	f := gen(t, "fattree", "324")
	c, err := NewCluster(f, timed(1))
	if err != nil {
		t.Fatal(err)
	}
	hosts := cas(f)
	for i := 1; i < len(hosts); i += 3 {
		_ = c.Sim.MuteSMA(hosts[i], true)
	}
	m, err := c.Start(hosts[0], DefaultConfig(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.RunUntil(10*time.Minute, m.Up); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d of %d hosts silent: up after %v", len(hosts)/3, len(hosts), time.Duration(c.Sim.Now()))
	if took := time.Duration(c.Sim.Now()); took > time.Minute {
		t.Errorf("up after %v", took)
	}
}

// TestLoss: heavy loss for a whole bring-up.
func TestLoss(t *testing.T) {
	f := gen(t, "torus", "3x3")
	for seed := range uint64(8) {
		sc := timed(seed)
		sc.Drop, sc.Duplicate, sc.Reorder, sc.ReorderMax = 0.2, 0.1, 0.2, 100*time.Millisecond
		c, err := NewCluster(f, sc)
		if err != nil {
			t.Fatal(err)
		}
		m, err := c.Start(firstCA(f), TrialConfig(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.RunUntil(40*time.Second, func() bool { return m.Up() && c.Check(m) == nil }); err != nil {
			t.Fatalf("seed %d: %v %v\n%s", seed, err, c.Check(m), tail(m))
		}
	}
}

// TestLostTraps: with every trap lost, a light sweep finds each change.
func TestLostTraps(t *testing.T) {
	f := gen(t, "torus", "3x3")
	sw := f.Nodes[switches(f)[4]].ID
	r := cables(f)[6]
	id, p := f.Nodes[r.Node].ID, int(r.Port)
	host := cas(f)[4]
	for _, x := range []struct {
		name string
		do   func(c *Cluster)
	}{
		{"link down", func(c *Cluster) { _ = c.Sim.LinkDown(id, p) }},
		{"link bounce", func(c *Cluster) { _ = c.Sim.LinkDown(id, p); _ = c.Sim.LinkUp(id, p) }},
		{"switch reboot", func(c *Cluster) { _ = c.Sim.NodeUp(sw) }},
		{"switch off and on", func(c *Cluster) { _ = c.Sim.NodeDown(sw); c.Run(3 * time.Second); _ = c.Sim.NodeUp(sw) }},
		{"host reboot", func(c *Cluster) { _ = c.Sim.NodeUp(host) }},
		{"host off and on", func(c *Cluster) { _ = c.Sim.NodeDown(host); c.Run(3 * time.Second); _ = c.Sim.NodeUp(host) }},
		{"own host's link", func(c *Cluster) { h := firstCA(f); _ = c.Sim.LinkDown(h, 1); _ = c.Sim.LinkUp(h, 1) }},
		{"own host reboot", func(c *Cluster) { _ = c.Sim.NodeUp(firstCA(f)) }},
		{"own switch reboot", func(c *Cluster) { _ = c.Sim.NodeUp(f.Nodes[f.Nodes[mustNode(c, firstCA(f))].Ports[1].Peer.Node].ID) }},
	} {
		t.Run(x.name, func(t *testing.T) {
			c, m := bringUp(t, f, timed(2), TrialConfig())
			loseTraps(t, c)
			x.do(c)
			c.Run(3 * time.Second)
			mustSettle(t, c, m, 2*time.Second)
			if err := healthyDelivered(c); err != nil {
				t.Error(err)
			}
		})
	}
}

func mustNode(c *Cluster, id string) int {
	i, err := c.Sim.Node(id)
	if err != nil {
		panic(err)
	}
	return i
}
