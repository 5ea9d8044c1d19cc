package lab

import (
	"fmt"
	"testing"
	"time"

	"heddle/ib"
	"heddle/sim"
	"heddle/sm"
	"heddle/subnet"
)

// TestPlacementFloating: as LIDtracker does it: the port has the LID of its only VM, the
// highest free LID, and its own again when the VM leaves.
func TestPlacementFloating(t *testing.T) {
	for _, serves := range []bool{false, true} {
		t.Run(fmt.Sprint("SA ", serves), func(t *testing.T) { testFloating(t, serves) })
	}
}

// testFloating is for a manager that serves the SA, as the daemon's does, or does not. The
// one that does has tables of GUIDs read before anybody says what placements there are.
func testFloating(t *testing.T, serves bool) {
	k := layCloud(t, 3, 3, sim.Hypervisor{Model: sim.SharedPort, VFs: 4}, sim.Config{Seed: 1, LinearFDBCap: 1024}, nil)
	k.serves = serves
	k.start(nil)
	k.up()
	base := map[int]ib.LID{}
	for i := range k.hosts {
		base[i] = k.lidOf(k.place(i, 0).Port)
	}
	check := func(at map[string]int) {
		t.Helper()
		clear(k.lids) // ports change theirs here
		k.check()
		for i := range k.hosts {
			want := base[i]
			for n, h := range at {
				if h == i {
					r, _ := k.last(k.placement[n].GUID)
					want = r.LID
				}
			}
			if got := k.lidOf(k.place(i, 0).Port); got != want {
				t.Fatalf("%s has LID %v, want %v\n%s", k.hosts[i], got, want, k.reports())
			}
			port := k.place(i, 0).Port
			if s := k.m.Snap; s.KeepsAddress(s.PortByGUID(port), port) != (want == base[i]) {
				q := s.Ports[s.PortByGUID(port)]
				t.Fatalf("%s: LID %d, placement %v: does its GUID keep its LID? want %v\n%s", k.hosts[i], q.LID, q.Placed, want == base[i], k.reports())
			}
			if pi := k.Sim.PortInfo(k.Fabric.Find(k.hosts[i]), 1); pi.LID != want {
				t.Fatalf("%s shows LID %v, want %v", k.hosts[i], pi.LID, want)
			}
		}
	}
	keeps := func(n string) {
		t.Helper()
		g := k.placement[n].GUID
		if s := k.m.Snap; !s.KeepsAddress(s.PortByGUID(g), g) {
			t.Fatalf("the snapshot says that %q does not keep its LID\n%s", n, k.reports())
		}
	}
	k.put("a", 1, 1, subnet.FloatingLID)
	k.put("b", 4, 2, subnet.FloatingLID)
	k.set(subnet.PlacementPlaced, k.all()...)
	check(map[string]int{"a": 1, "b": 4})
	a, _ := k.last(k.placement["a"].GUID)
	b, _ := k.last(k.placement["b"].GUID)
	if a.LID != 1023 || b.LID != 1022 {
		t.Errorf("LIDs %v and %v, want the highest, 1023 and 1022", a.LID, b.LID)
	}
	for _, host := range []int{2, 5, 8, 1} {
		k.set(subnet.PlacementPlaced, k.move("a", host, 3))
		check(map[string]int{"a": host, "b": 4})
		keeps("a")
		keeps("b")
		if r, _ := k.last(a.GUID); r.LID != a.LID {
			t.Errorf("LID %v became %v", a.LID, r.LID)
		}
	}
	// One more has no room there.
	c := k.put("c", 4, 3, subnet.SharedLID)
	c.LIDKind = subnet.FloatingLID
	k.set(subnet.PlacementRefused, c)
	k.m.SetPlacements(sm.SetPlacements{Drop: []ib.GUID{c.GUID}})
	k.vms = k.vms[:2]
	if err := k.Sim.RemoveVM("c"); err != nil {
		t.Fatal(err)
	}
	// Another manager finds them as they are; placements may come late.
	for _, late := range []bool{false, true} {
		k.m.Kill()
		k.start(k.m.Store)
		if late {
			k.up()
			k.Run(time.Second)
		}
		k.m.SetPlacements(sm.SetPlacements{Put: k.all(), All: true})
		k.wait(subnet.PlacementPlaced, k.all()...)
		check(map[string]int{"a": 1, "b": 4})
	}
	k.m.Sweep(true) // shows whose LIDs they are, if the snapshot before could not
	k.Run(time.Second)
	check(map[string]int{"a": 1, "b": 4})
	keeps("a")
	keeps("b")
	if err := k.Sim.DetachVM("a"); err != nil {
		t.Fatal(err)
	}
	l := k.placement["a"]
	l.Place = subnet.Place{}
	k.placement["a"] = l
	k.set(subnet.PlacementPlaced, l)
	k.vms = []string{"b"}
	check(map[string]int{"b": 4})
}

// TestPlacementFloatsNoMore: a placement whose LID floated and that shares a LID now leaves its port
// with the LID that it had before, there or at another place, and gives its own LID up. It may
// float again.
func TestPlacementFloatsNoMore(t *testing.T) {
	k := layCloud(t, 3, 3, sim.Hypervisor{Model: sim.SharedPort, VFs: 4}, sim.Config{Seed: 1, LinearFDBCap: 1024}, nil)
	k.start(nil)
	k.up()
	base := map[int]ib.LID{}
	for i := range k.hosts {
		base[i] = k.lidOf(k.place(i, 0).Port)
	}
	k.put("a", 1, 1, subnet.FloatingLID)
	k.set(subnet.PlacementPlaced, k.all()...)
	// shares sees that no port has another LID than its own, and nobody the one that floated.
	shares := func(host int, floated ib.LID) {
		t.Helper()
		k.Run(time.Second)
		clear(k.lids)
		k.check()
		for i := range k.hosts {
			pi := k.Sim.PortInfo(k.Fabric.Find(k.hosts[i]), 1)
			if shown := k.lidOf(k.place(i, 0).Port); shown != base[i] || pi.LID != base[i] {
				t.Errorf("%s has LID %v and shows %v, want %v\n%s", k.hosts[i], pi.LID, shown, base[i], k.reports())
			}
		}
		r, _ := k.last(k.placement["a"].GUID)
		if r.State != subnet.PlacementPlaced || r.LID != base[host] {
			t.Errorf("reported %+v, want LID %v", r, base[host])
		}
		if k.m.Snap.PortByLID(floated) >= 0 || k.m.Status().Moves.LIDsUsed != len(base)+len(k.m.Snap.Graph.Switches) {
			t.Errorf("LID %v is kept; %+v", floated, k.m.Status().Moves)
		}
	}
	for _, host := range []int{1, 4, 4, 7} { // there, elsewhere, and back to the start
		l, _ := k.last(k.placement["a"].GUID)
		if l.LID < 1000 {
			t.Fatalf("it floats with LID %v", l.LID)
		}
		p := k.placement["a"]
		if p.Place != k.place(host, 1) {
			p = k.move("a", host, 1)
		}
		p.LIDKind, p.LID = subnet.SharedLID, 0
		k.placement["a"] = p
		k.set(subnet.PlacementPlaced, p)
		shares(host, l.LID)
		p.LIDKind = subnet.FloatingLID
		k.placement["a"] = p
		k.set(subnet.PlacementPlaced, p)
		clear(k.lids)
		k.check()
	}
}
