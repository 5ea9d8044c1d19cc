package lab

import (
	"strings"
	"testing"
	"time"

	"heddle/fabric"
	"heddle/ib"
	"heddle/ib/smp"
	"heddle/internal/fabrictest"
	"heddle/mad"
	"heddle/sim"
	"heddle/sm"
)

func gen(t testing.TB, kind string, params ...string) *fabric.Fabric {
	t.Helper()
	f, err := fabrictest.Generate(kind, params, 1)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func firstCA(f *fabric.Fabric) string {
	for i := range f.Nodes {
		if !f.Nodes[i].IsSwitch() {
			return f.Nodes[i].ID
		}
	}
	return ""
}

func bringUp(t testing.TB, f *fabric.Fabric, sc sim.Config, cfg sm.Config) (*Cluster, *Manager) {
	t.Helper()
	c, err := NewCluster(f, sc)
	if err != nil {
		t.Fatal(err)
	}
	m, err := c.Start(firstCA(f), cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	mustUp(t, c, m)
	return c, m
}

func mustUp(t testing.TB, c *Cluster, m *Manager) {
	t.Helper()
	if err := c.RunUntil(time.Minute, m.Up); err != nil {
		t.Fatalf("%v\n%+v\n%s", err, m.Status(), strings.Join(m.Events(sm.Debug), "\n"))
	}
	if err := c.Check(m); err != nil {
		t.Fatalf("%v\n%s", err, strings.Join(m.Events(sm.Debug), "\n"))
	}
}

var nets = [][]string{
	{"fattree", "324"},
	{"torus", "4x4"},
	{"mesh", "3x3"},
	{"irregular", "16"},
	{"hypercube", "3"},
	{"kary", "2", "3"},
	{"dragonfly", "4", "2", "2"},
}

// TestBringUp: every kind of fabric comes up, and the switches hold the verified tables.
func TestBringUp(t *testing.T) {
	for _, n := range nets {
		t.Run(strings.Join(n, " "), func(t *testing.T) {
			f := gen(t, n[0], n[1:]...)
			_, m := bringUp(t, f, sim.Config{}, DefaultConfig())
			if got, want := m.Snap.Counts.Switches, f.Count(ib.NodeSwitch); got != want {
				t.Errorf("%d switches up, want %d", got, want)
			}
			if m.Snap.Counts.Links != m.Snap.Counts.LinksActive {
				t.Errorf("%d of %d links Active", m.Snap.Counts.LinksActive, m.Snap.Counts.Links)
			}
			if w := m.Events(sm.Warn); len(w) > 0 {
				t.Errorf("warnings:\n%s", strings.Join(w, "\n"))
			}
		})
	}
}

// counter sorts a manager's Sets.
type counter struct {
	lft, top, state, port int
}

func (k *counter) see(p *mad.Packet) {
	m := (*ib.MAD)(p.Data)
	if m.Method() != ib.MethodSet {
		return
	}
	switch m.AttrID() {
	case smp.AttrLFT:
		k.lft++
	case smp.AttrSwitchInfo:
		k.top++
	case smp.AttrPortInfo:
		var pi smp.PortInfo
		_ = pi.Decode(smp.Data(m))
		if pi.PortState != 0 || pi.PortPhysicalState != 0 {
			k.state++
		} else {
			k.port++
		}
	}
}

// restart kills m and starts another on the same node; the store may be kept.
func restart(t testing.TB, c *Cluster, m *Manager, keepStore bool) (*Manager, *counter) {
	t.Helper()
	m.Kill()
	st := m.Store.Reopen()
	if !keepStore {
		st = nil
	}
	n, err := c.Attach(m.Node, DefaultConfig(), st)
	if err != nil {
		t.Fatal(err)
	}
	k := &counter{}
	n.OnSend = k.see
	if err := n.Start(); err != nil {
		t.Fatal(err)
	}
	return n, k
}

// TestRestart: a manager that restarts on an unchanged fabric writes no LFT block, changes no
// port state and keeps all LIDs, with or without a store.
func TestRestart(t *testing.T) {
	for _, keep := range []bool{true, false} {
		f := gen(t, "torus", "4x4")
		c, m := bringUp(t, f, sim.Config{}, DefaultConfig())
		n, k := restart(t, c, m, keep)
		mustUp(t, c, n)
		if k.lft != 0 || k.state != 0 || k.top != 0 {
			t.Errorf("store kept %v: %d LFT blocks, %d SwitchInfo, %d port states set", keep, k.lft, k.top, k.state)
		}
	}
}

// TestForeignEntry: one entry changed by someone else while the manager was
// dead costs exactly that block.
func TestForeignEntry(t *testing.T) {
	f := gen(t, "torus", "4x4")
	c, m := bringUp(t, f, sim.Config{}, DefaultConfig())
	m.Kill()
	for i := range f.Nodes {
		if f.Nodes[i].IsSwitch() {
			c.Sim.SetLFT(i, 5, 3)
			c.Sim.SetLFT(i, 5, 255)
			break
		}
	}
	n, k := restart(t, c, m, true)
	mustUp(t, c, n)
	if k.lft != 1 || k.state != 0 {
		t.Errorf("%d LFT blocks and %d port states set, want 1 and 0", k.lft, k.state)
	}
}
