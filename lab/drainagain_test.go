package lab

import (
	"strings"
	"testing"
	"time"

	"heddle/drain"
	"heddle/fabric"
	"heddle/ib"
	"heddle/sim"
	"heddle/sm"
	"heddle/store"
	"heddle/subnet"
)

// TestDrainAfterRestart: a manager that dies with a drain stored, and tables over the link installed, is
// followed by one that drains the link in its first sweep, and loses no packet: the link still carries data,
// although its graph does not have it.
func TestDrainAfterRestart(t *testing.T) {
	f, err := fabric.Generate(fabric.XGFT{Children: []int{4, 4}, Parents: []int{1, 4}}, fabric.GenerateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c, m := bringUp(t, f, timed(1), DefaultConfig())
	mustUp(t, c, m)
	e := traffic(t, c, 5)
	run := func(d time.Duration) {
		for range d / (10 * time.Microsecond) {
			_ = c.RunUntil(10*time.Microsecond, func() bool { return false })
		}
	}
	run(200 * time.Microsecond)
	var at fabric.Ref
	for _, a := range trunks(f) {
		if e.Port(a).XmitPackets > 0 && routesOver(c, a) > 0 {
			at = a
			break
		}
	}
	if at.Port == 0 {
		t.Fatal("no link carries packets")
	}
	a := action(f, subnet.Drain, at)
	if err := m.Store.Apply([]store.Op{{Kind: store.PutRecord, Record: store.Record{Table: store.TablePortActions, Key: a.Key(), Value: a.Value()}}}); err != nil {
		t.Fatal(err)
	}
	st := m.Store
	m.Kill()
	next, err := c.Start(firstCA(f), DefaultConfig(), st)
	if err != nil {
		t.Fatal(err)
	}
	for limit := 200; limit > 0 && (routesOver(c, at) > 0 || !next.Up()); limit-- {
		run(500 * time.Microsecond)
	}
	if n := routesOver(c, at); n > 0 {
		t.Fatalf("%d entries lead over the drained link\n%s", n, strings.Join(next.Events(sm.Info), "\n"))
	}
	run(time.Millisecond)
	if said := strings.Join(next.Events(sm.Info), "\n"); strings.Contains(said, "broken") {
		t.Errorf("a drained link breaks nothing:\n%s", said)
	}
	if st := e.Stats(); st.Drops() != 0 {
		t.Errorf("lost %v\n%s", st.Dropped, strings.Join(next.Events(sm.Info), "\n"))
	}
	if err := e.Check(); err != nil {
		t.Error(err)
	}
}

// TestIsolateHost: the switch's port of a host is disabled when an operator insists, stays so over a restart
// of the switch, and the host is back after the restore, with its LID.
func TestIsolateHost(t *testing.T) {
	f := gen(t, "xgft", "2", "4,4", "1,4")
	c, m := bringUp(t, f, sim.Config{Seed: 5}, TrialConfig())
	mustUp(t, c, m)
	var at fabric.Ref // the switch's end
	for a, z := range f.Links {
		if !f.Nodes[z.Node].IsSwitch() {
			a, z = z, a
		}
		if !f.Nodes[a.Node].IsSwitch() && f.Nodes[a.Node].ID != m.Node {
			at = z
		}
	}
	host := f.Port(at).Peer
	guid := f.Nodes[host.Node].Ports[host.Port].GUID
	disabled := func() bool {
		node, _ := c.Sim.Node(f.Nodes[at.Node].ID)
		return c.Sim.PortInfo(node, int(at.Port)).PortPhysicalState == ib.PhysDisabled
	}
	link, err := drain.HostAt(m.Snap, f.Nodes[at.Node].GUID, int(at.Port))
	if err != nil {
		t.Fatal(err)
	}
	self := f.Port(fabric.Ref{Node: int32(f.Find(m.Node)), Port: 1}).Peer
	if _, err := drain.HostAt(m.Snap, f.Nodes[self.Node].GUID, int(self.Port)); err == nil {
		t.Error("the manager's own link can be isolated")
	}
	lid := m.Snap.Ports[m.Snap.PortByPortGUID(guid)].LID
	link.Kind = subnet.Isolate
	m.SetPortActions(link)
	settle(t, c, m)
	if !disabled() || m.Snap.PortByPortGUID(guid) >= 0 {
		t.Fatalf("disabled %v\n%s", disabled(), strings.Join(m.Events(sm.Info), "\n"))
	}
	if err := powerCycle(c, f.Nodes[at.Node].ID); err != nil {
		t.Fatal(err)
	}
	settle(t, c, m)
	if !disabled() {
		t.Fatalf("a restart of the switch brings the host back\n%s", strings.Join(m.Events(sm.Info), "\n"))
	}
	link.Kind = subnet.Restore
	m.SetPortActions(link)
	settle(t, c, m)
	if i := m.Snap.PortByPortGUID(guid); disabled() || i < 0 || m.Snap.Ports[i].LID != lid {
		t.Fatalf("after the restore disabled is %v, port %d\n%s", disabled(), i, strings.Join(m.Events(sm.Info), "\n"))
	}
}

// TestIsolateUnplugged: a cable that is pulled out while an isolated link still waits for packets costs no
// sweeps, and the link is disabled once it is plugged in again.
func TestIsolateUnplugged(t *testing.T) {
	f := gen(t, "xgft", "2", "4,4", "1,4")
	c, m := bringUp(t, f, sim.Config{Seed: 5}, TrialConfig())
	mustUp(t, c, m)
	at := trunks(f)[0]
	leaf := f.Nodes[at.Node].ID
	count := func(text string) int { return strings.Count(strings.Join(m.Events(sm.Info), "\n"), text) }
	const drained, disabled = "links are drained, isolated or restored", "the port was disabled"
	m.SetPortActions(action(f, subnet.Isolate, at))
	if err := c.RunUntil(time.Minute, func() bool { return m.Up() && count(drained) > 1 && routesOver(c, at) == 0 }); err != nil {
		t.Fatal(err)
	}
	if n := count(disabled); n > 0 {
		t.Fatal("the link was disabled before its packets had time to leave it")
	}
	if err := c.Sim.LinkDown(leaf, int(at.Port)); err != nil {
		t.Fatal(err)
	}
	before := m.Status().Sweeps
	_ = c.RunUntil(10*time.Second, func() bool { return m.Status().Sweeps > before+50 })
	if n := m.Status().Sweeps - before; n > 50 {
		t.Fatalf("%d sweeps in at most 10 s\n%s", n, tailOf(m.Events(sm.Info), 12))
	}
	if err := c.Sim.LinkUp(leaf, int(at.Port)); err != nil {
		t.Fatal(err)
	}
	if err := c.RunUntil(time.Minute, func() bool { return count(disabled) > 0 }); err != nil {
		t.Fatalf("%v\n%s", err, tailOf(m.Events(sm.Info), 12))
	}
}

func tailOf(l []string, n int) string { return strings.Join(l[max(0, len(l)-n):], "\n") }

// TestIsolateWait: a link between switches is disabled when packets of earlier tables have left it, and the
// manager says when; the only link of a host at once.
func TestIsolateWait(t *testing.T) {
	f := gen(t, "xgft", "2", "4,4", "1,4")
	cfg := DefaultConfig()
	flight := cfg.Flight()
	c, m := bringUp(t, f, sim.Config{Seed: 5}, cfg)
	mustUp(t, c, m)
	disabled := func(at fabric.Ref) bool {
		node, _ := c.Sim.Node(f.Nodes[at.Node].ID)
		return c.Sim.PortInfo(node, int(at.Port)).PortPhysicalState == ib.PhysDisabled
	}
	trunk := trunks(f)[0]
	a := action(f, subnet.Isolate, trunk)
	var host subnet.PortAction
	var at fabric.Ref // the switch's end
	for x, z := range f.Links {
		if !f.Nodes[x.Node].IsSwitch() && f.Nodes[x.Node].ID != m.Node {
			at = z
		} else if !f.Nodes[z.Node].IsSwitch() && f.Nodes[z.Node].ID != m.Node {
			at = x
		}
	}
	host, err := drain.HostAt(m.Snap, f.Nodes[at.Node].GUID, int(at.Port))
	if err != nil {
		t.Fatal(err)
	}
	host.Kind = subnet.Isolate
	began := c.Sim.Now()
	m.SetPortActions(a, host)
	if err := c.RunUntil(flight/2, func() bool { return disabled(at) && len(m.Status().Disabling) > 0 }); err != nil {
		t.Fatalf("the host's link after %v: %v, disabling %+v\n%s", c.Sim.Now().Sub(began), disabled(at), m.Status().Disabling, strings.Join(m.Events(sm.Info), "\n"))
	}
	d := m.Status().Disabling
	if len(d) != 1 || !a.Is(d[0].Node, d[0].Port) || d[0].At.Sub(began) < flight || d[0].At.Sub(began) > flight+time.Minute {
		t.Errorf("%v after the request: %+v", flight, d)
	}
	peer := f.Port(trunk).Peer
	if err := c.RunUntil(flight+time.Minute, func() bool { return disabled(trunk) || disabled(peer) }); err != nil {
		t.Fatal(err)
	}
	if now := c.Sim.Now(); now < d[0].At || now.Sub(d[0].At) > 10*time.Second {
		t.Errorf("disabled at %v, announced for %v", now, d[0].At)
	}
	settle(t, c, m)
	if d := m.Status().Disabling; len(d) > 0 {
		t.Errorf("still %+v", d)
	}
}
