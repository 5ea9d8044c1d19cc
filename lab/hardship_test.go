package lab

import (
	"encoding/binary"
	"slices"
	"testing"
	"time"

	"heddle/ib/smp"
	"heddle/mad"
	"heddle/sim"
)

// TestLightSweepAmongMute: while one node in ten does not answer, light sweeps keep all that
// hosts registered, write no tables of the others, and find changes without traps.
func TestLightSweepAmongMute(t *testing.T) {
	cfg := DefaultConfig()
	cfg.SweepInterval = 5 * time.Second
	h := newHonest(t, gen(t, "torus", "5x6"), sim.Config{HopLatency: time.Microsecond, NoTraps: true}, cfg, nil)
	c, m := h.c, h.m
	var mute []int
	for i := range c.Fabric.Nodes {
		if i%10 == 7 && i != m.ep.NodeIndex() {
			mute = append(mute, i)
			if err := c.Sim.MuteSMA(c.Fabric.Nodes[i].ID, true); err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(mute) < 5 {
		t.Fatalf("only %d nodes are mute", len(mute))
	}
	lights := m.Status().Light
	writes := 0
	m.OnSend = func(p *mad.Packet) {
		if p.Data[3] == 2 && binary.BigEndian.Uint16(p.Data[16:]) == uint16(smp.AttrLFT) {
			writes++
		}
	}
	c.Run(2 * time.Minute)
	if n := m.Status().Light - lights; n < 12 { // each waits 3 s for mute nodes
		t.Errorf("%d light sweeps in two minutes", n)
	}
	if writes > 0 {
		t.Errorf("%d blocks written because nodes are silent", writes)
	}
	h.mustKeep(t)
	h.served(t, 3, 7)
	if n := m.Snap.Counts.Switches; n != 30 {
		t.Errorf("%d switches, want 30\n%s", n, tail(m))
	}
	for _, r := range cables(c.Fabric) {
		p, _ := c.Sim.Peer(int(r.Node), int(r.Port))
		if c.Fabric.Nodes[r.Node].IsSwitch() && c.Fabric.Nodes[p.Node].IsSwitch() && !slices.Contains(mute, int(r.Node)) && !slices.Contains(mute, int(p.Node)) {
			if err := c.Sim.LinkDown(c.Fabric.Nodes[r.Node].ID, int(r.Port)); err != nil {
				t.Fatal(err)
			}
			break
		}
	}
	links := m.Snap.Counts.Links
	if err := c.RunUntil(15*time.Second, func() bool { return m.Snap.Counts.Links < links }); err != nil {
		// 5 s until a light sweep, and 3 s for mute nodes in each of the sweeps after it.
		t.Fatalf("a link that failed is not noticed: %v\n%s", err, tail(m))
	}
	for _, i := range mute {
		_ = c.Sim.MuteSMA(c.Fabric.Nodes[i].ID, false)
	}
	c.Run(time.Minute)
	mustSettle(t, c, m, time.Minute)
	h.mustKeep(t)
}

// TestManySwitchesLost: 64 switches die at once; the rest is repaired, its hosts keep their
// registrations, and all switches return.
func TestManySwitchesLost(t *testing.T) {
	f := gen(t, "torus", "12x12")
	cfg := ProductionConfig(RepairChains()[0])
	h := newHonest(t, f, repairSim(1), cfg, nil)
	c, m := h.c, h.m
	// A block of 8x8 switches, with the hosts on them.
	var lost []string
	gone := map[int]bool{}
	for i := range f.Nodes {
		if f.Nodes[i].IsSwitch() {
			gone[i] = true
		}
	}
	own := int(f.Nodes[m.ep.NodeIndex()].Ports[1].Peer.Node)
	reach := map[int]bool{own: true}
	for queue := []int{own}; len(queue) > 0 && len(gone)-len(reach) > 64; queue = queue[1:] {
		for p := 1; p <= f.Nodes[queue[0]].NumPorts && len(gone)-len(reach) > 64; p++ {
			r := f.Nodes[queue[0]].Ports[p].Peer
			if f.Nodes[queue[0]].Ports[p].Cabled() && f.Nodes[r.Node].IsSwitch() && !reach[int(r.Node)] {
				reach[int(r.Node)] = true
				queue = append(queue, int(r.Node))
			}
		}
	}
	for i := range f.Nodes {
		if f.Nodes[i].IsSwitch() && !reach[i] {
			lost = append(lost, f.Nodes[i].ID)
		}
	}
	if len(lost) != 64 {
		t.Fatalf("%d switches are to be lost", len(lost))
	}
	var behind []string
	for i, name := range h.names {
		n := f.Find(name)
		if sw := f.Nodes[n].Ports[1].Peer.Node; !reach[int(sw)] {
			behind = append(behind, h.names[i])
		}
	}
	pairs := c.Sim.WatchPairs(m.ep.NodeIndex())
	at := c.Sim.Now()
	for _, id := range lost {
		if err := c.Sim.NodeDown(id); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.RunUntil(15*time.Second, func() bool { return c.Sim.Now() > at.Add(time.Millisecond) && pairs.Stats().Broken == 0 }); err != nil {
		t.Fatalf("%d pairs are broken after 10 s\n%s", pairs.Stats().Broken, tail(m))
	}
	t.Logf("%d hosts away; all pairs of the rest connected after %v", len(behind), c.Sim.Now().Sub(at))
	h.mustKeep(t, behind...)
	c.Sim.OnChange = nil
	for _, id := range lost {
		if err := c.Sim.NodeUp(id); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.RunUntil(time.Minute, func() bool { return m.Snap.Counts.Switches == 144 && m.Idle() }); err != nil {
		t.Fatalf("%d switches are back: %v\n%s", m.Snap.Counts.Switches, err, tail(m))
	}
	mustSettle(t, c, m, 5*time.Minute)
	h.mustKeep(t, behind...)
}

// TestFullDiskUnderJoins: while the disk is full joins are acknowledged, kept in memory and
// routed. When the disk has room again they are stored, so that they survive a crash.
func TestFullDiskUnderJoins(t *testing.T) {
	h := newHonest(t, gen(t, "torus", "3x3"), sim.Config{HopLatency: time.Microsecond}, DefaultConfig(), nil)
	c, m := h.c, h.m
	m.Store.FailNext = 1 << 30
	for i := range h.hosts {
		tid := h.join(i, (i+1)%3)
		c.Run(20 * time.Millisecond)
		if b, ok := h.hosts[i].Got(tid); !ok || binary.BigEndian.Uint16(b[4:]) != 0 {
			t.Fatalf("%s: answered %v: %x", h.names[i], ok, b)
		}
	}
	c.Run(time.Minute)
	h.mustKeep(t)
	members := func(m *Manager) (n int) {
		for _, g := range m.View().Groups {
			n += len(g.Members)
		}
		return n
	}
	want := 2 * len(h.hosts)
	if n := members(m); n != want {
		t.Errorf("%d memberships, want %d", n, want)
	}
	m.Store.FailNext = 0
	c.Run(time.Minute)
	st, err := m.Store.Load()
	if err != nil {
		t.Fatal(err)
	}
	if len(st.Records) < want {
		t.Errorf("%d records are stored, want %d memberships among them", len(st.Records), want)
	}
}
