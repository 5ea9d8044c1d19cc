package lab

import (
	"testing"
	"time"

	"heddle/ib"
	"heddle/sim"
	"heddle/sm"
	"heddle/sm/notice"
	"heddle/subnet"
)

// joinEverySweep has a host join another group in each sweep of a manager until it has swept again after it has brought
// the subnet up. It returns after how many sweeps that was, and the report of the one after it.
func joinEverySweep(t *testing.T, c *Cluster, m *Manager, member ib.GUID) (sweeps int, next *sm.SweepReport) {
	t.Helper()
	var groups []sm.Group
	in := uint64(0) // sweeps in which the host has joined
	err := c.RunUntil(20*time.Second, func() bool {
		if s := m.Status(); s.State == subnet.Master && (s.Phase == notice.PhaseDiscover || s.Phase == notice.PhaseDistribute) && s.Sweeps == in && !s.Up {
			in++
			groups = append(groups, groupOf(0xC000+ib.LID(len(groups)), member))
			m.SetGroups(groups)
		}
		return m.Up() && m.Idle()
	})
	if err != nil {
		t.Fatalf("%v\n%s", err, tail(m))
	}
	up := false
	for i := range m.Notices {
		switch n := &m.Notices[i]; {
		case n.Kind == sm.KindSubnetUp:
			up = true
		case n.Kind == sm.KindSweepEnd && !up:
			sweeps++
		case n.Kind == sm.KindSweepEnd && next == nil:
			next = n.Report
		}
	}
	if next == nil {
		t.Fatalf("no sweep follows for the group\n%s", tail(m))
	}
	return sweeps, next
}

// TestUpWhileHostsJoin: a subnet is up after the first sweep, also if hosts join meanwhile, and the sweep after it reads
// nothing. So a new master answers from what it has read itself as soon as it has read all: before, a switch was silent for
// a second, and its hosts get no paths.
func TestUpWhileHostsJoin(t *testing.T) {
	f := gen(t, "fattree", "324")
	c, err := NewCluster(f, sim.Config{HopLatency: time.Microsecond})
	if err != nil {
		t.Fatal(err)
	}
	cfg := DefaultConfig()
	m, err := c.Start(firstCA(f), cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	guids, _ := hosts(f)
	if n, next := joinEverySweep(t, c, m, guids[5]); n != 1 || !next.Region {
		t.Errorf("the subnet is up after %d sweeps, and the one for the group reads a region only: %v", n, next.Region)
	}
	quiet(t, c, m, 0)

	list := cas(f)
	far := f.Nodes[f.Find(list[len(list)-1])]
	leaf := f.Nodes[far.Ports[1].Peer.Node].ID
	s := succeed(t, c, m, list[1], cfg, mirrorOf(t, m.Snap), func() {
		if err := c.Sim.MuteSMA(leaf, true); err != nil {
			t.Fatal(err)
		}
	})
	if err := c.RunUntil(time.Minute, func() bool { return len(told(s.m, sm.KindTakeover)) > 0 }); err != nil {
		t.Fatalf("%v\n%s", err, tail(s.m))
	}
	if err := c.Sim.MuteSMA(leaf, false); err != nil {
		t.Fatal(err)
	}
	if n, next := joinEverySweep(t, c, s.m, guids[5]); n != 1 || !next.Region || s.m.Snap.Warm {
		t.Errorf("the subnet is up after %d sweeps, the one for the group reads a region only: %v, and what the last master published stands: %v\n%s",
			n, next.Region, s.m.Snap.Warm, tail(s.m))
	}
}
