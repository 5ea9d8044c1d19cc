package vm

import (
	"errors"
	"slices"
	"testing"

	"heddle/ib"
	"heddle/partition"
	"heddle/store"
	"heddle/subnet"
)

// TestFunctionGUID: an interface has the GUID of its function. The function keeps it when the
// interface leaves, also over a restart, and the next interface has it.
func TestFunctionGUID(t *testing.T) {
	r := newRig(t)
	r.up()
	keys := []Membership{{5, true}}
	if i := r.ok(Create{Interface{Name: "web", GUIDKind: FunctionGUID, Keys: keys}}); i.GUID != 0 {
		t.Fatalf("%+v", i)
	}
	one, two := defaultFirst, defaultFirst+2
	if i := r.ok(Attach{"web", at(sharedA, 0)}); i.GUID != one || i.Place != at(sharedA, 1) {
		t.Fatalf("%+v", i)
	}
	r.has(5, one)
	r.fails(Create{Interface{Name: "db", GUID: one}}, ErrConflict, `interface "web"`)
	if i := r.ok(Migrate{"web", at(sharedB, 3)}); i.GUID != one || i.DestGUID != two {
		t.Fatalf("%+v", i)
	}
	r.fails(Create{Interface{Name: "db", GUID: two}}, ErrConflict, "function "+at(sharedB, 3).String())
	if i := r.ok(Create{Interface{Name: "db"}}); i.GUID != two+1 {
		t.Fatalf("%+v: the pool assigned the GUID of a function", i)
	}
	r.restart()
	r.up()
	// The placement of the old GUID ends, that of the new one and its P_Keys begin, in one.
	if i := r.ok(Finish{"web"}); i.GUID != two || i.DestGUID != 0 || i.Place != at(sharedB, 3) {
		t.Fatalf("%+v", i)
	}
	if _, left := r.placements[one]; left || r.placements[two].Place != at(sharedB, 3) || !r.told("vm_migrated", one.String(), two.String()) {
		t.Fatalf("%v %v", r.placements, r.notices)
	}
	r.has(5, two)
	want := []FunctionAddress{{at(sharedA, 1), one}, {at(sharedB, 3), two}}
	if !slices.Equal(r.view.Functions, want) || !slices.Equal(r.view.GUIDsAt(sharedB), want[1:]) || len(r.view.GUIDsAt(hyperA)) != 0 || r.view.Pools.GUIDsUsed != 3 {
		t.Fatalf("%v, %+v", r.view.Functions, r.view.Pools)
	}
	if i := r.ok(Detach{"web"}); i.GUID != 0 || i.LID != 0 {
		t.Fatalf("%+v", i)
	}
	if len(r.placements) != 0 {
		t.Fatalf("%v", r.placements)
	}
	r.has(5)
	r.restart()
	r.up()
	r.ok(Create{Interface{Name: "other", GUIDKind: FunctionGUID}})
	if i := r.ok(Attach{"other", at(sharedB, 3)}); i.GUID != two {
		t.Fatalf("%+v", i)
	}
	if i := r.ok(Attach{"web", at(sharedA, 1)}); i.GUID != one {
		t.Fatalf("%+v", i)
	}
	r.ok(Delete{"other", true})
	r.ok(Delete{"web", true})
	if p := r.view.Pools; p.GUIDsUsed != 3 || len(r.placements) != 0 {
		t.Fatalf("%+v %v: want the GUIDs kept by the functions", p, r.placements)
	}
	// A static one at a function with a GUID has its own.
	if i := r.ok(Attach{"db", at(sharedB, 3)}); i.GUID != two+1 {
		t.Fatalf("%+v", i)
	}
}

// has checks the members of a partition as the subnet manager received them.
func (r *rig) has(k ib.PKey, want ...ib.GUID) {
	r.t.Helper()
	var got []ib.GUID
	for _, p := range r.c.members.list {
		for _, m := range p.Members {
			if p.PKey == k && m.As == partition.Full {
				got = append(got, m.GUID)
			}
		}
	}
	if !slices.Equal(got, want) {
		r.t.Fatalf("%v has the members %v, want %v", k, got, want)
	}
}

// TestFunctionGUIDGoesBack: a migration that is refused or rolled back ends with the old GUID.
func TestFunctionGUIDGoesBack(t *testing.T) {
	r := newRig(t)
	r.up()
	r.ok(Create{Interface{Name: "web", GUIDKind: FunctionGUID, Keys: []Membership{{5, true}}}})
	r.ok(Attach{"web", at(hyperA, 1)})
	one, two := defaultFirst, defaultFirst+2
	r.refuse[at(sharedB, 1)] = "it does not take it"
	r.ok(Migrate{"web", at(sharedB, 1)})
	r.fails(Finish{"web"}, ErrConflict, "does not take it")
	r.is("web", Attached, at(hyperA, 1))
	if i := r.view.Interface("web"); i.GUID != one || i.DestGUID != 0 || len(r.placements) != 1 || r.placements[one].Place != at(hyperA, 1) {
		t.Fatalf("%+v %v", i, r.placements)
	}
	r.has(5, one)
	delete(r.refuse, at(sharedB, 1))
	r.ok(Migrate{"web", at(sharedB, 1)})
	r.obey = false
	finish := r.ask(Finish{"web"})[0]
	if _, left := r.placements[one]; left || r.placements[two].Place != at(sharedB, 1) {
		t.Fatalf("%v", r.placements)
	}
	r.has(5, two)
	r.restart() // and it goes on
	r.up()
	if r.placements[two].Place != at(sharedB, 1) || len(r.placements) != 1 {
		t.Fatalf("%v", r.placements)
	}
	r.obey = true
	r.fails(RollBack{"web"}, ErrConflict, "repeat the request when the subnet is up")
	r.step(Reports{[]subnet.PlacementReport{{GUID: two, Place: at(sharedB, 1), State: subnet.PlacementWaiting, Cause: subnet.CauseFunctionDown, Reason: "it is down"}}})
	r.ok(RollBack{"web"})
	if i := r.view.Interface("web"); i.GUID != one || r.placements[one].Place != at(hyperA, 1) || len(r.placements) != 1 {
		t.Fatalf("%+v %v", i, r.placements)
	}
	r.has(5, one)
	if a, ok := r.replies[finish]; ok && a.Err == nil {
		t.Fatalf("%+v", a)
	}
}

// TestFunctionGUIDPlaces: models where the manager writes GUIDs, and ports that are not
// there yet.
func TestFunctionGUIDPlaces(t *testing.T) {
	r := newRig(t)
	r.up(hyperA, vportA)
	r.ok(Create{Interface{Name: "web", GUIDKind: FunctionGUID}})
	r.fails(Attach{"web", at(vportB, 1)}, ErrConflict, "GUIDs from the hypervisor")
	r.fails(Attach{"web", at(plain, 1)}, ErrConflict, "cannot hold")
	for _, p := range []subnet.Place{at(vportA, 2), at(hyperA, 2)} {
		if a := r.do(Attach{"web", p}); !a.Waiting || a.Interface.GUID != 0 || len(r.placements) != 0 {
			t.Fatalf("%+v %v", a, r.placements)
		}
		if i := r.ok(Detach{"web"}); i.State != Created {
			t.Fatalf("%+v", i)
		}
	}
	r.do(Attach{"web", at(vportA, 2)})
	r.up(hyperA)
	r.is("web", Created, subnet.Place{})
	if !r.told("vm_refused", "web", "GUIDs from the hypervisor") || len(r.view.Functions) != 0 {
		t.Fatalf("%v", r.notices)
	}
	r.do(Attach{"web", at(hyperA, 0)})
	r.restart()
	r.up()
	r.is("web", Attached, at(hyperA, 1))
	if i := r.view.Interface("web"); i.GUID != defaultFirst {
		t.Fatalf("%+v", i)
	}
	r.fails(Migrate{"web", at(vportA, 1)}, ErrConflict, "GUIDs from the hypervisor")
	// A GUID that could not be stored is nobody's.
	r.store.FailNext = 1
	r.fails(Migrate{"web", at(sharedA, 1)}, ErrStore, "injected")
	if len(r.view.Functions) != 1 || r.view.Pools.GUIDsUsed != 1 {
		t.Fatalf("%+v", r.view.Functions)
	}
	if i := r.ok(Create{Interface{Name: "db"}}); i.GUID != defaultFirst+2 {
		t.Fatalf("%+v", i)
	}
}

// TestFunctionGUIDHandedOn: when one interface leaves a function and another comes in the same
// transaction, the second has the GUID, and its placement is not dropped.
func TestFunctionGUIDHandedOn(t *testing.T) {
	r := newRig(t)
	r.up()
	for _, n := range []string{"a", "b"} {
		r.ok(Create{Interface{Name: n, GUIDKind: FunctionGUID}})
	}
	r.ok(Attach{"a", at(sharedA, 1)})
	tags := r.ask(Delete{"a", true}, Attach{"b", at(sharedA, 1)})
	if a := r.replies[tags[1]]; a.Err != nil || a.Interface.GUID != defaultFirst || r.placements[defaultFirst].Place != at(sharedA, 1) {
		t.Fatalf("%+v %v", a, r.placements)
	}
}

// TestNoFunctionGUIDLeft: the pool is the same for all.
func TestNoFunctionGUIDLeft(t *testing.T) {
	r := newRig(t)
	r.c = New(Config{GUIDFirst: 0x8001, GUIDLast: 0x8001})
	r.step(Start{})
	r.up()
	for _, n := range []string{"a", "b"} {
		r.ok(Create{Interface{Name: n, GUIDKind: FunctionGUID}})
	}
	r.ok(Attach{"a", at(sharedA, 1)})
	if a := r.do(Attach{"b", at(sharedA, 2)}); !errors.Is(a.Err, ErrNoRoom) {
		t.Fatalf("%+v", a)
	}
	r.is("b", Created, subnet.Place{})
	r.fails(Migrate{"a", at(sharedB, 1)}, ErrNoRoom, "no GUID left")
	st, _ := r.store.Load()
	if n := slices.IndexFunc(st.Records, func(x store.Record) bool { return x.Table == store.TableFunctionGUIDs }); n < 0 || len(st.Records) != 3 {
		t.Fatalf("%+v", st.Records)
	}
}
