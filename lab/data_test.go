package lab

import (
	"testing"
	"time"

	"heddle/fabric"
	"heddle/ib"
	"heddle/ib/pm"
	"heddle/mad"
	"heddle/sim"
	"heddle/sim/dataplane"
)

// traffic starts a data plane in which host i sends to host i+shift at the full rate.
func traffic(t testing.TB, c *Cluster, shift int) *dataplane.Engine {
	t.Helper()
	dc := dataplane.Defaults()
	dc.Checks = true
	e, err := c.Sim.StartData(dc, dataplane.DefaultCable)
	if err != nil {
		t.Fatal(err)
	}
	for i := range e.NumHosts() {
		s := dataplane.Stream{Src: i, To: dataplane.To((i + shift) % e.NumHosts()), Bytes: 2048 + dataplane.OverheadRC}
		if _, err := e.AddStream(s); err != nil {
			t.Fatal(err)
		}
	}
	return e
}

// portCounters asks the agent of a host's port for its counters.
func portCounters(t testing.TB, c *Cluster, node string) (pc pm.PortCountersExtended) {
	t.Helper()
	e, err := c.Sim.Attach(node)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	got := false
	e.OnPacket = func(p *mad.Packet) {
		m := (*ib.MAD)(p.Data)
		got = m.Method() == ib.MethodGetResp && pc.Decode(pm.Data(m)) == nil
	}
	n, _ := c.Sim.Node(node)
	var m ib.MAD
	pm.New(&m, ib.MethodGet, pm.AttrPortCountersExtended, 0)
	pm.Data(&m)[1] = 1
	lid := c.Sim.PortInfo(n, 1).LID
	e.Send(&mad.Packet{Addr: mad.Addr{LID: lid, QP: 1}, LocalQP: 1, Data: m[:]})
	for limit := c.Sim.Now().Add(time.Second); !got && c.Sim.Now() < limit && c.Sim.Step(); {
	}
	if !got {
		t.Fatal("no answer of the performance agent")
	}
	return pc
}

// TestTrafficOnTables: packets follow the tables that the manager wrote. The counters of a port
// are those of the packets.
func TestTrafficOnTables(t *testing.T) {
	f, err := fabric.Generate(fabric.XGFT{Children: []int{4, 4}, Parents: []int{1, 4}}, fabric.GenerateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c, m := bringUp(t, f, sim.Config{Seed: 1}, DefaultConfig())
	mustUp(t, c, m)
	e := traffic(t, c, 5)
	first := portCounters(t, c, c.Fabric.Nodes[e.HostPort(0).Node].ID)
	for range 100 {
		_ = c.RunUntil(10*time.Microsecond, func() bool { return false })
	}
	if err := e.Check(); err != nil {
		t.Fatal(err)
	}
	st := e.Stats()
	// A shift permutation on a full tree is free of conflicts: every host receives at its full rate.
	full := float64(e.Now()-st.Since) / float64(518_500*dataplane.Picosecond)
	if d := float64(st.Delivered) / float64(e.NumHosts()) / full; d < 0.98 || st.Drops() > 0 {
		t.Errorf("delivered %.3f of the full rate, dropped %v", d, st.Dropped)
	}
	last := portCounters(t, c, c.Fabric.Nodes[e.HostPort(0).Node].ID)
	now := e.Port(e.HostPort(0))
	if d := last.PortXmitPkts - first.PortXmitPkts; d < now.XmitPackets || d > now.XmitPackets+8 {
		t.Errorf("the port counts %d packets more than before the traffic, %d were sent", d, now.XmitPackets)
	}
}

// TestCutUnderTraffic: a cable that carries traffic is cut. What is on it or waits for it is lost
// until the manager has written other routes; then nothing is lost any more, and every stream goes
// on.
func TestCutUnderTraffic(t *testing.T) {
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
	var cut fabric.Ref
	for a := range f.Links {
		if f.Nodes[a.Node].IsSwitch() && e.Port(a).XmitPackets > 0 && f.Nodes[f.Port(a).Peer.Node].IsSwitch() {
			cut = a
			break
		}
	}
	before := e.Stats()
	if before.Drops() > 0 || before.Delivered == 0 {
		t.Fatalf("before the cut: %d delivered, dropped %v", before.Delivered, before.Dropped)
	}
	if err := c.Sim.LinkDown(f.Nodes[cut.Node].ID, int(cut.Port)); err != nil {
		t.Fatal(err)
	}
	var last dataplane.Time // of a loss
	e.SetHooks(dataplane.Hooks{OnDrop: func(d *dataplane.Drop) { last = d.At }})
	at := e.Now()
	run(20 * time.Millisecond)
	st := e.Stats()
	t.Logf("lost %d packets in %v: %v", st.Drops(), last-at, st.Dropped)
	if st.Dropped[dataplane.Inactive] == 0 || st.Dropped[dataplane.LostOnWire] == 0 {
		t.Errorf("lost %v, some on the cable and some for an inactive port were expected", st.Dropped)
	}
	if last-at > 15*dataplane.Millisecond {
		t.Errorf("packets are lost until %v after the cut", last-at)
	}
	for i := range e.NumStreams() {
		if f := e.Flow(i); f.Latest < e.Now()-dataplane.Millisecond {
			t.Errorf("stream %d: nothing delivered after %v of %v", i, f.Latest, e.Now())
		}
	}
	if err := e.Check(); err != nil {
		t.Error(err)
	}
}

// TestLoaded: a cable is cut under a manager that nobody tells of it.
func TestLoaded(t *testing.T) {
	f, err := fabric.Generate(fabric.XGFT{Children: []int{4, 4}, Parents: []int{1, 4}}, fabric.GenerateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	slowLinks(f)
	dc := dataplane.Defaults()
	dc.Seed, dc.Checks = 1, true
	l, err := NewLoaded(f, DefaultConfig(), dc)
	if err != nil {
		t.Fatal(err)
	}
	for i := range l.Engine.NumHosts() {
		s := dataplane.Stream{Src: i, To: dataplane.To((i + 5) % l.Engine.NumHosts()), Bytes: 2048 + dataplane.OverheadRC}
		if _, err := l.Engine.AddStream(s); err != nil {
			t.Fatal(err)
		}
	}
	l.RunTo(dataplane.Millisecond)
	if l.Engine.Now() != dataplane.Millisecond || l.Engine.Stats().Delivered == 0 {
		t.Fatalf("at %v %d packets are delivered", l.Engine.Now(), l.Engine.Stats().Delivered)
	}
	for a := range f.Links {
		if f.Nodes[a.Node].IsSwitch() && f.Nodes[f.Port(a).Peer.Node].IsSwitch() && l.Engine.Port(a).XmitPackets > 0 {
			if err := l.Cut(a); err != nil {
				t.Fatal(err)
			}
			break
		}
	}
	l.RunTo(20 * dataplane.Millisecond)
	lost := l.Engine.Stats().Drops()
	l.RunTo(40 * dataplane.Millisecond)
	if now := l.Engine.Stats().Drops(); lost == 0 || now != lost {
		t.Errorf("%d packets lost in 19 ms after the cut, %d in 39 ms", lost, now)
	}
	if err := l.Engine.Check(); err != nil {
		t.Error(err)
	}
}

// TestTrafficPatterns: patterns start and stop while the simulation runs, at reduced rates.
func TestTrafficPatterns(t *testing.T) {
	f, err := fabric.Generate(fabric.XGFT{Children: []int{4, 4}, Parents: []int{1, 2}}, fabric.GenerateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c, m := bringUp(t, f, sim.Config{Seed: 1}, DefaultConfig())
	first, err := c.Sim.StartTraffic("shift:1,source=constant", 1, 100_000) // before there are LIDs
	if err != nil || first.Scale <= 0 || first.Scale >= 1 || first.Rate < 99_999 || first.Rate > 100_001 {
		t.Fatalf("%v, %v", first, err)
	}
	if err := c.RunUntil(time.Minute, m.Up); err != nil {
		t.Fatal(err)
	}
	before := c.Sim.ListTraffic()[0]
	c.Run(100 * time.Millisecond)
	after := c.Sim.ListTraffic()[0]
	if n := after.Delivered - before.Delivered; n < 9_900 || n > 10_100 || after.Dropped != 0 {
		t.Errorf("%d packets in 0.1 s of 100,000 packets a second, %d lost", n, after.Dropped)
	}
	if err := c.Sim.StopTraffic(1); err != nil {
		t.Fatal(err)
	}
	c.Run(10 * time.Millisecond)
	end := c.Sim.ListTraffic()[0]
	c.Run(100 * time.Millisecond)
	if last := c.Sim.ListTraffic()[0]; !last.Ended || last.Created != end.Created || last.Delivered != last.Created {
		t.Errorf("after its end: %v, then %v", end, last)
	}
	for _, line := range []string{
		"traffic start nothing", "traffic start shift:1 0", "traffic start shift:1,source=saturated", "traffic start ring-all-reduce:1MiB",
		"traffic stop 9", "traffic start random,hosts=nobody", "traffic start", "traffic frob",
	} {
		if out, err := c.Sim.Exec(line); err == nil {
			t.Errorf("%s: accepted: %s", line, out)
		}
	}
	if n := len(c.Sim.ListTraffic()); n != 1 {
		t.Errorf("%d patterns after refused ones, want 1", n)
	}
	if out, err := c.Sim.Exec("traffic"); err != nil || out == "" {
		t.Errorf("list: %q, %v", out, err)
	}
}
