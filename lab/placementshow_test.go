package lab

import (
	"fmt"
	"testing"
	"time"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/sim"
	"heddle/sm"
	"heddle/subnet"
)

// TestPlacementIsAlwaysSomewhere: while VMs migrate, one at a time and several, with sweeps in
// between, every snapshot has each of their GUIDs, at its LID, at the old place or the new one.
// Other VMs that come up during this time are shown.
func TestPlacementIsAlwaysSomewhere(t *testing.T) {
	for _, x := range []struct {
		h    sim.Hypervisor
		kind subnet.LIDKind
	}{
		{sim.Hypervisor{Model: sim.VPorts, VFs: 4, OwnLIDs: true}, subnet.OwnLID},
		{sim.Hypervisor{Model: sim.VSwitch, VFs: 4}, subnet.OwnLID},
		{sim.Hypervisor{Model: sim.VPorts, VFs: 4}, subnet.SharedLID},
		{sim.Hypervisor{Model: sim.SharedPort, VFs: 4}, subnet.SharedLID},
	} {
		t.Run(fmt.Sprint(x.h.Model, x.kind), func(t *testing.T) {
			k := layCloud(t, 3, 3, x.h, sim.Config{Seed: 1}, nil)
			k.serves = true
			k.start(nil)
			k.up()
			names := []string{"a", "b", "c", "d"}
			for i, n := range names {
				k.put(n, 1+i, 1, x.kind)
			}
			k.set(subnet.PlacementPlaced, k.all()...)
			was := map[string]subnet.Place{}
			snapshots := 0
			k.m.OnPublish = func() {
				snapshots++
				s := k.m.Snap
				for _, n := range names {
					l := k.placement[n]
					p := s.PortByGUID(l.GUID)
					if p < 0 {
						t.Errorf("snapshot %d: %s is nowhere", s.Gen, n)
						continue
					}
					at := s.Ports[s.Physical(p)]
					if at.GUID != l.Place.Port && at.GUID != was[n].Port {
						t.Errorf("snapshot %d: %s is at %v", s.Gen, n, at.GUID)
					}
					if lid := s.Ports[p].LID; x.kind == subnet.OwnLID && (s.PortByLID(lid) != p || s.Graph.LIDOwner[lid] != at.EndPort) ||
						x.kind == subnet.SharedLID && lid != at.LID {
						t.Errorf("snapshot %d: %s has LID %v at %v", s.Gen, n, lid, at.GUID)
					}
				}
				if err := s.Check(); err != nil {
					t.Error(err)
				}
			}
			for round := range 6 {
				for i, n := range names {
					was[n] = k.placement[n].Place
					l := k.placement[n]
					l.Place = k.place(1+(i+2*round+2)%8, 1+(round+1)%2)
					k.placement[n] = l
				}
				// The manager is told first, as by who starts a migration.
				for i := range names {
					if round%2 == 0 {
						k.m.SetPlacements(sm.SetPlacements{Put: []subnet.Placement{k.placement[names[i]]}})
						k.Run(time.Duration(round*i) * 10 * time.Microsecond)
					}
				}
				if round%2 == 1 {
					k.m.SetPlacements(sm.SetPlacements{Put: k.all()})
				}
				k.m.Sweep(round%3 == 0)
				k.Run(time.Duration(round) * 30 * time.Microsecond)
				for i, n := range names {
					k.move(n, 1+(i+2*round+2)%8, 1+(round+1)%2)
				}
				k.wait(subnet.PlacementPlaced, k.all()...)
				for _, n := range names {
					p := k.m.Snap.PortByGUID(k.placement[n].GUID)
					if p < 0 || k.m.Snap.Ports[k.m.Snap.Physical(p)].GUID != k.placement[n].Place.Port {
						t.Errorf("%s is placed, and shown at entry %d", n, p)
					}
				}
				k.checkTables()
			}
			if snapshots < 12 {
				t.Errorf("%d snapshots", snapshots)
			}
		})
	}
}

// TestPlacementHoldEnds: while the new function of a placement stays down, snapshots show the old
// location, but only for as long as a hypervisor may need. Other VMs that come up are shown.
func TestPlacementHoldEnds(t *testing.T) {
	k := newCloud(t, 3, 3, sim.Hypervisor{Model: sim.VPorts, VFs: 4}, sim.Config{Seed: 1}, nil)
	k.up()
	a := k.put("a", 1, 1, subnet.SharedLID)
	k.set(subnet.PlacementPlaced, a)
	shown := func(g ib.GUID) bool { return k.m.Snap.PortByGUID(g) >= 0 }
	a.Place = k.place(5, 1)
	k.m.SetPlacements(sm.SetPlacements{Put: []subnet.Placement{a}})
	if err := k.Sim.DetachVM("a"); err != nil {
		t.Fatal(err)
	}
	b := k.put("b", 2, 2, subnet.SharedLID)
	k.Run(9 * time.Second)
	if !shown(a.GUID) || !shown(b.GUID) {
		t.Errorf("after 9 s a is shown: %v, b: %v", shown(a.GUID), shown(b.GUID))
	}
	k.Run(2 * time.Second)
	if shown(a.GUID) {
		t.Error("a is shown for longer than 10 s")
	}
	// One whose host takes it down before anybody says that it moves is gone.
	k.set(subnet.PlacementPlaced, b)
	if err := k.Sim.DetachVM("b"); err != nil {
		t.Fatal(err)
	}
	k.Run(time.Second)
	b.Place = k.place(6, 1)
	k.m.SetPlacements(sm.SetPlacements{Put: []subnet.Placement{b}})
	k.Run(time.Second)
	if shown(b.GUID) {
		t.Error("b is down, and shown")
	}
}

// TestPlacementSomewhereAfterRestart: a manager begins with a placement that its predecessor was to
// bring elsewhere, and is to leave it where it is at some moment after the function has given the
// address up. From the first snapshot that has the GUID on, each has it.
func TestPlacementSomewhereAfterRestart(t *testing.T) {
	for i := range 20 {
		delay := time.Duration(i) * 2 * time.Microsecond
		for _, to := range []subnet.Place{{Port: 5, Function: 2}, {Port: 1, Function: 2}} {
			t.Run(fmt.Sprint(to.Port, "/", delay), func(t *testing.T) { testBackAfterRestart(t, int(to.Port), int(to.Function), delay) })
		}
	}
}

func testBackAfterRestart(t *testing.T, host, function int, delay time.Duration) {
	k := newCloud(t, 3, 3, sim.Hypervisor{Model: sim.SharedPort, VFs: 4}, sim.Config{Seed: 1}, nil)
	k.up()
	a := k.put("a", 1, 1, subnet.SharedLID)
	k.set(subnet.PlacementPlaced, a)
	k.m.Kill()
	k.start(k.m.Store)
	seen, left := 0, false
	k.m.OnPublish = func() {
		switch shown := k.m.Snap.PortByGUID(a.GUID) >= 0; {
		case shown:
			seen++
		case seen > 0:
			t.Errorf("snapshot %d does not have the GUID", k.m.Snap.Gen)
		}
	}
	node := k.Fabric.Find(k.hosts[1])
	k.Sim.OnChange = func(ch sim.Change) {
		if ch.Kind == sim.ChangeSet && ch.Attr == smp.AttrGUIDInfo && !left && k.Sim.GUIDs(node, 1)[1] != a.GUID {
			left = true
			back := func() { k.m.SetPlacements(sm.SetPlacements{Put: []subnet.Placement{a}}) }
			if delay == 0 {
				back()
			} else {
				k.Sim.After(delay, back)
			}
		}
	}
	away := a
	away.Place = k.place(host, function)
	k.m.SetPlacements(sm.SetPlacements{Put: []subnet.Placement{away}})
	k.up()
	k.wait(subnet.PlacementPlaced, a)
	if !left || seen < 2 {
		t.Errorf("the function gave the address up: %v; %d snapshots have it", left, seen)
	}
}
