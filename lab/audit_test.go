package lab

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"heddle/fabric"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/sim"
	"heddle/sm"
	"heddle/store"
)

// timed are small latencies, so that things happen between a question and its
// answer.
func timed(seed uint64) sim.Config {
	return sim.Config{Seed: seed, HopLatency: time.Microsecond, SMALatency: 5 * time.Microsecond, Jitter: 2 * time.Microsecond}
}

// loseTraps makes every cable lose notices.
func loseTraps(t testing.TB, c *Cluster) {
	t.Helper()
	for i := range c.Fabric.Nodes {
		n := &c.Fabric.Nodes[i]
		for p := 1; p <= n.NumPorts; p++ {
			if n.Ports[p].Cabled() {
				if err := c.Sim.SetPortError(n.ID, p, 100, smp.AttrNotice); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// settled waits until the manager is idle with everything in order.
func settled(c *Cluster, m *Manager, limit time.Duration) error {
	end := c.Sim.Now().Add(limit)
	err := fmt.Errorf("lab: not up")
	for c.Sim.Now() < end {
		c.Run(250 * time.Millisecond)
		if !m.Up() || !m.Idle() {
			err = fmt.Errorf("lab: %v up %v idle %v", m.State(), m.Up(), m.Idle())
			continue
		}
		if err = c.Check(m); err == nil {
			return nil
		}
	}
	return err
}

func mustSettle(t testing.TB, c *Cluster, m *Manager, limit time.Duration) {
	t.Helper()
	if err := settled(c, m, limit); err != nil {
		t.Fatalf("%v\n%+v\n%s", err, m.Status(), tail(m))
	}
}

func tail(m *Manager) string {
	ev := m.Events(sm.Debug)
	if len(ev) > 60 {
		ev = ev[len(ev)-60:]
	}
	return strings.Join(ev, "\n")
}

func told(m *Manager, k sm.Kind) (lines []string) {
	for i := range m.Notices {
		if m.Notices[i].Kind == k {
			lines = append(lines, m.Notices[i].String())
		}
	}
	return lines
}

// cables lists each cable between switches once.
func cables(f *fabric.Fabric) (l []fabric.Ref) {
	for i := range f.Nodes {
		n := &f.Nodes[i]
		for p := 1; n.IsSwitch() && p <= n.NumPorts; p++ {
			if q := n.Ports[p].Peer; n.Ports[p].Cabled() && f.Nodes[q.Node].IsSwitch() && int(q.Node) > i {
				l = append(l, fabric.Ref{Node: int32(i), Port: uint8(p)})
			}
		}
	}
	return l
}

func switches(f *fabric.Fabric) (l []int) {
	for i := range f.Nodes {
		if f.Nodes[i].IsSwitch() {
			l = append(l, i)
		}
	}
	return l
}

func cas(f *fabric.Fabric) (l []string) {
	for i := range f.Nodes {
		if !f.Nodes[i].IsSwitch() {
			l = append(l, f.Nodes[i].ID)
		}
	}
	return l
}

// happensAt runs a bring-up (again: the one of a manager that comes back to a
// subnet that is up) in which do is called when the manager sends its n-th
// packet, and then judges what is held a few light sweeps later, with all
// traps lost.
func happensAt(t testing.TB, f *fabric.Fabric, n int, again bool, before, do func(c *Cluster)) (sent int, err error) {
	c, err := NewCluster(f, timed(uint64(n)))
	if err != nil {
		t.Fatal(err)
	}
	cfg := TrialConfig()
	var st *store.Memory
	if again {
		m, err := c.Start(firstCA(f), cfg, nil)
		if err != nil {
			t.Fatal(err)
		}
		mustSettle(t, c, m, 20*time.Second)
		m.Kill()
		st = m.Store.Reopen()
	}
	loseTraps(t, c)
	if before != nil {
		before(c)
	}
	m, err := c.Attach(firstCA(f), cfg, st)
	if err != nil {
		t.Fatal(err)
	}
	m.OnSend = func(*mad.Packet) {
		if m.Sent == n {
			c.Sim.After(0, func() { do(c) })
		}
	}
	if err := m.Start(); err != nil {
		t.Fatal(err)
	}
	c.Run(4 * time.Second)
	err = settled(c, m, 8*time.Second)
	if err != nil {
		err = fmt.Errorf("%w\n%+v\n%s", err, m.Status(), tail(m))
	}
	return m.Sent, err
}

// TestAuditDuringSweep: a change of a link or switch at any moment of a sweep is found by the
// next light sweep at the latest.
func TestAuditDuringSweep(t *testing.T) {
	f := gen(t, "torus", "3x3")
	cab := cables(f)
	sw := switches(f)
	pick := func(n int) (string, int) {
		r := cab[(n*7)%len(cab)]
		return f.Nodes[r.Node].ID, int(r.Port)
	}
	_, first := bringUp(t, f, timed(1), TrialConfig())
	total := first.Sent
	type kind struct {
		name       string
		before, do func(n int) func(*Cluster)
	}
	nop := func(int) func(*Cluster) { return nil }
	kinds := []kind{
		{"link down", nop, func(n int) func(*Cluster) {
			return func(c *Cluster) { id, p := pick(n); _ = c.Sim.LinkDown(id, p) }
		}},
		{"link up", func(n int) func(*Cluster) {
			return func(c *Cluster) { id, p := pick(n); _ = c.Sim.LinkDown(id, p) }
		}, func(n int) func(*Cluster) {
			return func(c *Cluster) { id, p := pick(n); _ = c.Sim.LinkUp(id, p) }
		}},
		{"link bounce", nop, func(n int) func(*Cluster) {
			return func(c *Cluster) { id, p := pick(n); _ = c.Sim.LinkDown(id, p); _ = c.Sim.LinkUp(id, p) }
		}},
		{"switch reboot", nop, func(n int) func(*Cluster) {
			return func(c *Cluster) { _ = c.Sim.NodeUp(f.Nodes[sw[n%len(sw)]].ID) }
		}},
	}
	step := 5
	if _, k := seeds(1, 2); k == 2 {
		step = 1
	}
	for _, k := range kinds {
		for _, again := range []bool{false, true} {
			fails := 0
			for n := 1; n < total; n += step {
				if _, err := happensAt(t, f, n, again, k.before(n), k.do(n)); err != nil {
					if fails++; fails == 1 {
						t.Errorf("%s at packet %d, again %v: %v", k.name, n, again, err)
					}
				}
			}
			if fails > 0 {
				t.Errorf("%s again %v: %d failures of %d", k.name, again, fails, total/step)
			}
		}
	}
}
