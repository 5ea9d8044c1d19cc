package lab

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"heddle/fabric"
	"heddle/ib"
	"heddle/internal/routetest"
	"heddle/route"
	"heddle/route/engine/all"
	"heddle/route/engine/file"
	"heddle/route/engine/updn"
	"heddle/route/osmdump"
	"heddle/sim"
	"heddle/sm"
	"heddle/store"
	"heddle/subnet"
)

// action is that of the link at a port.
func action(f *fabric.Fabric, kind subnet.PortActionKind, at fabric.Ref) subnet.PortAction {
	peer := f.Port(at).Peer
	return subnet.PortAction{
		Kind: kind, Node: f.Nodes[at.Node].GUID, Port: at.Port, Peer: f.Nodes[peer.Node].GUID, PeerPort: peer.Port, Since: time.Unix(1, 0).UTC(),
	}
}

// trunks are the links between switches, by one end.
func trunks(f *fabric.Fabric) (list []fabric.Ref) {
	for a, b := range f.Links {
		if f.Nodes[a.Node].IsSwitch() && f.Nodes[b.Node].IsSwitch() {
			list = append(list, a)
		}
	}
	return list
}

// entries counts the entries of installed tables that lead out of a port, as the devices hold them.
func entries(c *Cluster, at fabric.Ref) (n int) {
	node, _ := c.Sim.Node(c.Fabric.Nodes[at.Node].ID)
	for _, out := range c.Sim.LFT(node, nil) {
		if out == at.Port {
			n++
		}
	}
	return n
}

func routesOver(c *Cluster, at fabric.Ref) int {
	return entries(c, at) + entries(c, c.Fabric.Port(at).Peer)
}

func settle(t *testing.T, c *Cluster, m *Manager) {
	t.Helper()
	c.Run(time.Second)
	if err := c.RunUntil(30*time.Second, m.Idle); err != nil {
		t.Fatalf("%v\n%s", err, strings.Join(m.Events(sm.Info), "\n"))
	}
	if err := c.Check(m); err != nil {
		t.Fatalf("%v\n%s", err, strings.Join(m.Events(sm.Info), "\n"))
	}
}

// TestDrainUnderTraffic: a drained link stays up and carries 0 of more than 10^5 packets. None is lost
// from the request on. When the link is restored, it carries packets again.
func TestDrainUnderTraffic(t *testing.T) {
	f, err := fabric.Generate(fabric.XGFT{Children: []int{4, 4}, Parents: []int{1, 4}}, fabric.GenerateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c, m := bringUp(t, f, timed(1), DefaultConfig())
	mustUp(t, c, m)
	e := traffic(t, c, 5)
	run := func(d time.Duration) { // in steps, as a manager's clock goes on
		for range d / (10 * time.Microsecond) {
			_ = c.RunUntil(10*time.Microsecond, func() bool { return false })
		}
	}
	run(200 * time.Microsecond)
	var at fabric.Ref
	for _, a := range trunks(f) {
		if e.Port(a).XmitPackets > 0 {
			at = a
			break
		}
	}
	peer := f.Port(at).Peer
	over := func() uint64 { return e.Port(at).XmitPackets + e.Port(peer).XmitPackets }
	if over() == 0 {
		t.Fatal("no link carries packets")
	}
	m.SetPortActions(action(f, subnet.Drain, at))
	for limit := 100; routesOver(c, at) > 0 && limit > 0; limit-- {
		run(500 * time.Microsecond)
	}
	if n := routesOver(c, at); n > 0 {
		t.Fatalf("%d entries lead over the drained link\n%s", n, strings.Join(m.Events(sm.Info), "\n"))
	}
	run(200 * time.Microsecond) // packets that were on their way
	before, sent := over(), e.Stats().Delivered
	for e.Stats().Delivered-sent < 100_000 {
		run(time.Millisecond)
	}
	if n := over() - before; n != 0 {
		t.Errorf("the drained link carried %d of %d packets", n, e.Stats().Delivered-sent)
	}
	st := e.Stats()
	t.Logf("%d packets in all, %d after the drain; dropped %v", st.Delivered, st.Delivered-sent, st.Dropped)
	if st.Drops() != 0 {
		t.Errorf("lost %v", st.Dropped)
	}
	node, _ := c.Sim.Node(f.Nodes[at.Node].ID)
	if s := c.Sim.PortInfo(node, int(at.Port)).PortState; s != ib.StateActive {
		t.Errorf("the drained link is %v", s)
	}
	m.SetPortActions()
	for limit := 100; routesOver(c, at) == 0 && limit > 0; limit-- {
		run(500 * time.Microsecond)
	}
	run(time.Millisecond)
	if over() == before {
		t.Error("the restored link carries nothing")
	}
	if st := e.Stats(); st.Drops() != 0 {
		t.Errorf("lost %v when the link was restored", st.Dropped)
	}
	if err := e.Check(); err != nil {
		t.Error(err)
	}
}

// TestDrainEngines: whichever engine routes, a drained link has no entry, also after sweeps of everything, of a
// region with a fault, and after tables from scratch; the manager has proved each of these tables. With
// the link back there are routes over it again. next is the engine of the chain that follows where the
// first one refuses a subnet without the link: dor needs a whole mesh, tables of sssp from scratch may have
// cycles, and tables of a file that lead over the link cannot be proved; and
// between torus's tables of two subnets it stays with the proved ones that are installed.
func TestDrainEngines(t *testing.T) {
	for _, x := range []struct{ engine, kind, params, next string }{
		{"minhop", "xgft", "2 4,4 1,4", ""},
		{"updn", "xgft", "2 4,4 1,4", ""},
		{"dnup", "xgft", "2 4,4 1,4", ""},
		{"ftree", "xgft", "2 4,4 1,4", ""},
		{"sssp", "xgft", "2 4,4 1,4", "ftree"},
		{"dfsssp", "torus", "3x3", ""},
		{"lash", "torus", "3x3", ""},
		{"nue", "torus", "3x3", ""},
		{"dor", "mesh", "3x3", "updn"},
		{"torus", "torus", "4x4", "installed"},
		{"vftree", "xgft", "2 4,4 1,4", ""},
		{"file", "xgft", "2 4,4 1,4", "ftree"},
	} {
		t.Run(x.engine, func(t *testing.T) {
			f := gen(t, x.kind, strings.Fields(x.params)...)
			cfg := TrialConfig()
			var engine route.Engine
			if x.engine == "file" {
				engine = dumped(t, f)
			}
			for _, e := range all.Engines() {
				if e.Name() == x.engine {
					engine = e
				}
			}
			if engine == nil {
				t.Fatal("no such engine")
			}
			cfg.Engines = append([]route.Engine{engine}, cfg.Engines...)
			c, m := bringUp(t, f, sim.Config{Seed: 3}, cfg)
			mustUp(t, c, m)
			if got := m.Snap.Tables.Engine; got != x.engine {
				t.Fatalf("tables of %q", got)
			}
			list := trunks(f)
			at := list[len(list)/2]
			if routesOver(c, at) == 0 {
				t.Fatal("the link has no routes")
			}
			m.SetPortActions(action(f, subnet.Drain, at))
			check := func(what string) {
				t.Helper()
				settle(t, c, m)
				if got := m.Snap.Tables.Engine; got != x.engine && got != x.next {
					t.Fatalf("%s: tables of %q", what, got)
				}
				if n := routesOver(c, at); n != 0 {
					t.Fatalf("%s: %d entries lead over the drained link\n%s", what, n, strings.Join(m.Events(sm.Info), "\n"))
				}
			}
			check("drained")
			m.Sweep(false)
			check("full sweep")
			m.Reroute(true)
			check("new tables")
			other := list[0]
			if err := c.Sim.LinkDown(f.Nodes[other.Node].ID, int(other.Port)); err != nil {
				t.Fatal(err)
			}
			check("another link down")
			if err := c.Sim.LinkUp(f.Nodes[other.Node].ID, int(other.Port)); err != nil {
				t.Fatal(err)
			}
			check("another link up")
			m.SetPortActions()
			settle(t, c, m)
			m.Reroute(true)
			settle(t, c, m)
			if routesOver(c, at) == 0 {
				t.Error("the restored link has no routes")
			}
		})
	}
}

// dumped is the engine that has the tables of updn from a file.
func dumped(t *testing.T, f *fabric.Fabric) route.Engine {
	t.Helper()
	cfg := TrialConfig()
	cfg.Engines = []route.Engine{updn.Engine{}}
	c, m := bringUp(t, f, sim.Config{Seed: 3}, cfg)
	mustUp(t, c, m)
	var b bytes.Buffer
	if err := routetest.WriteLFTs(&b, m.Snap.Graph, m.Snap.Tables.Flat()); err != nil {
		t.Fatal(err)
	}
	d, err := osmdump.ReadRoutes(&b)
	if err != nil {
		t.Fatal(err)
	}
	return file.Engine{Dump: d}
}

// TestIsolate: an isolated link first loses its routes, then one end is disabled. It stays so over sweeps,
// and a restart of the switch, and Restore brings it and the tables back.
func TestIsolate(t *testing.T) {
	f := gen(t, "xgft", "2", "4,4", "1,4")
	c, m := bringUp(t, f, sim.Config{Seed: 5}, TrialConfig())
	mustUp(t, c, m)
	for k, at := range trunks(f) {
		if k%5 != 0 {
			continue
		}
		peer := f.Port(at).Peer
		node := func(r fabric.Ref) int { n, _ := c.Sim.Node(f.Nodes[r.Node].ID); return n }
		disabled := func() (n int) {
			for _, r := range [2]fabric.Ref{at, peer} {
				if c.Sim.PortInfo(node(r), int(r.Port)).PortPhysicalState == ib.PhysDisabled {
					n++
				}
			}
			return n
		}
		before := routesOver(c, at)
		a := action(f, subnet.Isolate, at)
		m.SetPortActions(a)
		settle(t, c, m)
		if disabled() != 1 || routesOver(c, at) != 0 {
			t.Fatalf("%d ends are disabled, %d entries lead over the link\n%s", disabled(), routesOver(c, at), strings.Join(m.Events(sm.Info), "\n"))
		}
		m.Sweep(false)
		settle(t, c, m)
		if disabled() != 1 {
			t.Fatal("a sweep enabled the port")
		}
		if k == 0 {
			if err := powerCycle(c, f.Nodes[at.Node].ID); err != nil {
				t.Fatal(err)
			}
			settle(t, c, m)
			if disabled() != 1 {
				t.Fatalf("%d ends are disabled after a reset of the switch\n%s", disabled(), strings.Join(m.Events(sm.Info), "\n"))
			}
		}
		a.Kind = subnet.Restore
		m.SetPortActions(a)
		settle(t, c, m)
		if disabled() != 0 {
			t.Fatalf("%d ends are disabled after the restore\n%s", disabled(), strings.Join(m.Events(sm.Info), "\n"))
		}
		m.SetPortActions()
		m.Reroute(true)
		settle(t, c, m)
		if n := routesOver(c, at); n != before {
			t.Errorf("%d entries lead over the link, before there were %d", n, before)
		}
	}
}

// TestDrainStored: the actions of the store are in force from the first tables on.
func TestDrainStored(t *testing.T) {
	f := gen(t, "torus", "3x3")
	c, err := NewCluster(f, sim.Config{Seed: 2})
	if err != nil {
		t.Fatal(err)
	}
	at := trunks(f)[3]
	a := action(f, subnet.Drain, at)
	st := store.NewMemory()
	if err := st.Apply([]store.Op{{Kind: store.PutRecord, Record: store.Record{Table: store.TablePortActions, Key: a.Key(), Value: a.Value()}}}); err != nil {
		t.Fatal(err)
	}
	m, err := c.Start(firstCA(f), TrialConfig(), st)
	if err != nil {
		t.Fatal(err)
	}
	mustUp(t, c, m)
	if n := routesOver(c, at); n != 0 {
		t.Errorf("%d entries lead over the drained link", n)
	}
}

// TestDrainLast: when other links fail, a drained link that is then the last one has routes again, and
// loses them when another one is back.
func TestDrainLast(t *testing.T) {
	b := fabric.Builder{}
	var s [2]int
	for i := range s {
		s[i] = b.AddSwitch(fmt.Sprint("s", i), 4)
		h := b.AddCA(fmt.Sprint("h", i), 1)
		b.Connect(s[i], 4, h, 1)
	}
	b.Connect(s[0], 1, s[1], 1)
	b.Connect(s[0], 2, s[1], 2)
	f, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	c, m := bringUp(t, f, sim.Config{Seed: 2}, TrialConfig())
	mustUp(t, c, m)
	at := fabric.Ref{Node: int32(s[0]), Port: 1}
	m.SetPortActions(action(f, subnet.Drain, at))
	settle(t, c, m)
	if routesOver(c, at) != 0 {
		t.Fatal("not drained")
	}
	if err := c.Sim.LinkDown("s0", 2); err != nil {
		t.Fatal(err)
	}
	settle(t, c, m)
	if routesOver(c, at) == 0 {
		t.Fatal("the last link has no routes")
	}
	if err := c.Sim.LinkUp("s0", 2); err != nil {
		t.Fatal(err)
	}
	settle(t, c, m)
	if routesOver(c, at) != 0 {
		t.Fatal("not drained again")
	}
}

// powerCycle turns a switch off and on again: it forgets which of its ports are disabled.
func powerCycle(c *Cluster, node string) error {
	if err := c.Sim.NodeDown(node); err != nil {
		return err
	}
	c.Run(time.Second)
	return c.Sim.NodeUp(node)
}
