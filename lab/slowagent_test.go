package lab

import (
	"testing"
	"time"

	"heddle/sim"
)

// TestSlowIsNotSilent: joins hurry a sweep that waits for a switch whose agent takes 60 ms for
// each request. The manager may take it for silent once. After it has answered everything, the
// manager waits for it.
func TestSlowIsNotSilent(t *testing.T) {
	f := gen(t, "torus", "3x3")
	h := newHonest(t, f, sim.Config{Seed: 1, HopLatency: time.Microsecond, SMALatency: 5 * time.Microsecond}, DefaultConfig(), nil)
	c, m := h.c, h.m
	own := int(f.Nodes[m.ep.NodeIndex()].Ports[1].Peer.Node)
	slow := -1
	for i := range f.Nodes {
		if f.Nodes[i].IsSwitch() && i != own {
			slow = i
			break
		}
	}
	if err := c.Sim.SetQuirks(f.Nodes[slow].ID, &sim.Quirks{Slow: 60 * time.Millisecond}); err != nil {
		t.Fatal(err)
	}
	unseen := 0
	for k := range 60 {
		m.Sweep(false)
		c.Run(20 * time.Millisecond)
		h.join(k%len(h.hosts), 20+k)
		c.Run(980 * time.Millisecond)
		if m.Snap.Counts.Unseen > 0 {
			unseen++
		}
		if m.Snap.NodeByGUID(f.Nodes[slow].GUID) < 0 || len(m.Snap.Unsure) > 0 {
			t.Fatalf("after %d s the slow switch is not in the subnet\n%s", k, tail(m))
		}
	}
	t.Logf("taken for silent in %d of 60 s", unseen)
	if unseen > 15 {
		t.Errorf("taken for silent in %d of 60 s\n%s", unseen, tail(m))
	}
	if err := c.Sim.SetQuirks(f.Nodes[slow].ID, nil); err != nil {
		t.Fatal(err)
	}
	c.Run(10 * time.Second)
	mustSettle(t, c, m, time.Minute)
	h.mustKeep(t)
	if n := m.Snap.Counts.Unseen; n != 0 {
		t.Errorf("%d nodes do not answer", n)
	}
}
