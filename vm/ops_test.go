package vm

import (
	"slices"
	"strings"
	"testing"

	"heddle/ib"
	"heddle/ib/sa"
	"heddle/subnet"
)

// TestCreate: names and addresses of new interfaces.
func TestCreate(t *testing.T) {
	for _, c := range []struct {
		what  string
		i     Interface
		want  error // nil: it is created
		words string
	}{
		{"plain", Interface{Name: "b"}, nil, ""},
		{"all characters", Interface{Name: "ns-1/pod_2.eth0:A"}, nil, ""},
		{"longest name", Interface{Name: strings.Repeat("n", 128)}, nil, ""},
		{"no name", Interface{}, ErrInvalid, "1 to 128"},
		{"long name", Interface{Name: strings.Repeat("n", 129)}, ErrInvalid, "129"},
		{"space", Interface{Name: "a b"}, ErrInvalid, "at 1"},
		{"letters of others", Interface{Name: "ä"}, ErrInvalid, "ä"},
		{"its GUID", Interface{Name: "b", GUID: 0x77}, ErrConflict, `interface "web"`},
		{"its alias as GUID", Interface{Name: "b", GUID: 0x78}, ErrConflict, `interface "web"`},
		{"its GUID as alias", Interface{Name: "b", Aliases: []ib.GUID{0x77}}, ErrConflict, `interface "web"`},
		{"a port's", Interface{Name: "b", GUID: hyperA}, ErrConflict, "port 1 of"},
		{"a port's as alias", Interface{Name: "b", Aliases: []ib.GUID{hyperB}}, ErrConflict, "port 1 of"},
		{"a vSwitch function's", Interface{Name: "b", GUID: 0x901}, ErrConflict, "virtual function 3"},
		{"a VPort's, which comes with its VM", Interface{Name: "b", GUID: 0x902}, nil, ""},
		{"the SA's", Interface{Name: "b", GUID: sa.WellKnownGUID}, ErrInvalid, "subnet administrator"},
		{"alias 0", Interface{Name: "b", Aliases: []ib.GUID{0}}, ErrInvalid, "GUID 0"},
		{"alias twice", Interface{Name: "b", Aliases: []ib.GUID{5, 5}}, ErrInvalid, "twice"},
		{"itself as alias", Interface{Name: "b", GUID: 5, Aliases: []ib.GUID{5}}, ErrInvalid, "twice"},
		{"many aliases", Interface{Name: "b", Aliases: make([]ib.GUID, 255)}, ErrInvalid, "255"},
		{"LID kind 3", Interface{Name: "b", LIDKind: 3}, ErrInvalid, "kind 3"},
		{"a LID", Interface{Name: "b", LIDKind: subnet.OwnLID, LID: 500}, nil, ""},
		{"a LID of its port", Interface{Name: "b", LID: 500}, ErrInvalid, "shares"},
		{"multicast LID", Interface{Name: "b", LIDKind: subnet.OwnLID, LID: 0xC000}, ErrInvalid, "49152"},
		{"a LID beyond the tables", Interface{Name: "b", LIDKind: subnet.OwnLID, LID: 1024}, ErrConflict, "1023"},
		{"web's LID", Interface{Name: "b", LIDKind: subnet.OwnLID, LID: 300}, ErrConflict, `interface "web"`},
		{"a port's LID", Interface{Name: "b", LIDKind: subnet.OwnLID, LID: 1}, ErrConflict, "belongs to port"},
		{"a function's", Interface{Name: "b", GUIDKind: FunctionGUID}, nil, ""},
		{"a function's, and one", Interface{Name: "b", GUIDKind: FunctionGUID, GUID: 5}, ErrInvalid, "kind is function"},
		{"of the pool, and one", Interface{Name: "b", GUIDKind: PoolGUID, GUID: 5}, ErrInvalid, "kind is pool"},
		{"a function's, own LID", Interface{Name: "b", GUIDKind: FunctionGUID, LIDKind: subnet.OwnLID}, ErrInvalid, "shared LID"},
		{"a function's, aliases", Interface{Name: "b", GUIDKind: FunctionGUID, Aliases: []ib.GUID{5}}, ErrInvalid, "alias"},
		{"GUID kind 3", Interface{Name: "b", GUIDKind: 3}, ErrInvalid, "kind 3"},
		{"P_Keys", Interface{Name: "b", Keys: []Membership{{0x7FFF, true}, {1, false}, {1, false}}}, nil, ""},
		{"P_Key 0", Interface{Name: "b", Keys: []Membership{{0, false}}}, ErrInvalid, "0x0000"},
		{"P_Key with its membership", Interface{Name: "b", Keys: []Membership{{0x8001, false}}}, ErrInvalid, "membership bit"},
		{"full and limited", Interface{Name: "b", Keys: []Membership{{1, false}, {1, true}}}, ErrInvalid, "both as full and as limited"},
		{"many P_Keys", Interface{Name: "b", Keys: make([]Membership, 1025)}, ErrInvalid, "1025"},
	} {
		t.Run(c.what, func(t *testing.T) {
			r := newRig(t)
			r.step(Published{snapshot(nil, seenVPort{hyperA, 3, 0x901, ib.StateActive}, seenVPort{vportA, 1, 0x902, ib.StateActive})})
			r.ok(Create{Interface{Name: "web", GUID: 0x77, Aliases: []ib.GUID{0x78}, LIDKind: subnet.OwnLID, LID: 300}})
			if c.want != nil {
				r.fails(Create{c.i}, c.want, c.words)
				if r.view.Len() != 1 {
					t.Error("it exists although it was refused")
				}
				return
			}
			first := r.ok(Create{c.i})
			again := r.ok(Create{c.i})
			if (first.GUID == 0) != (c.i.GUIDKind == FunctionGUID) || first.GUID != again.GUID || r.view.Len() != 2 {
				t.Errorf("%+v, again %+v", first, again)
			}
		})
	}
}

// TestCreateAgain: a repeated Create succeeds; one that differs is refused.
func TestCreateAgain(t *testing.T) {
	r := newRig(t)
	r.up()
	i := Interface{Name: "web", GUID: 5, Aliases: []ib.GUID{6}, LIDKind: subnet.OwnLID, LID: 9 + 300, Mode: subnet.MoveBalanced, Keys: []Membership{{1, true}, {2, false}}}
	r.ok(Create{i})
	r.ok(Attach{"web", at(hyperA, 1)})
	swapped := i
	swapped.Keys = []Membership{{2, false}, {1, true}}
	r.ok(Create{swapped})
	for _, f := range []func(*Interface){
		func(i *Interface) { i.GUID = 7 }, func(i *Interface) { i.GUID = 0 }, func(i *Interface) { i.Aliases = nil },
		func(i *Interface) { i.LID = 0 }, func(i *Interface) { i.LID = 10 }, func(i *Interface) { i.Mode = subnet.MoveAuto },
		func(i *Interface) { i.LIDKind, i.LID = subnet.SharedLID, 0 }, func(i *Interface) { i.Keys = i.Keys[:1] },
	} {
		other := i
		f(&other)
		r.fails(Create{other}, ErrConflict, "delete it first")
	}
	r.is("web", Attached, at(hyperA, 1))
}

// TestPlaces: which interfaces are accepted at which places.
func TestPlaces(t *testing.T) {
	for _, c := range []struct {
		what  string
		kind  subnet.LIDKind
		at    subnet.Place
		want  error
		words string
		fn    uint16 // that it gets
	}{
		{"own LID on a vSwitch", subnet.OwnLID, at(hyperB, 4), nil, "", 4},
		{"shared LID on a vSwitch", subnet.SharedLID, at(hyperB, 0), nil, "", 1},
		{"own LID on VPorts", subnet.OwnLID, at(vportA, 2), nil, "", 2},
		{"shared LID on a shared port", subnet.SharedLID, at(sharedB, 0), nil, "", 1},
		{"floating LID on a shared port", subnet.FloatingLID, at(sharedB, 0), nil, "", 1},
		{"no port", subnet.OwnLID, at(0, 1), ErrInvalid, "GUID 0", 0},
		{"function beyond", subnet.OwnLID, at(hyperB, 5), ErrInvalid, "1 to 4", 0},
		{"a switch", subnet.OwnLID, at(0x51, 1), ErrInvalid, "channel adapter", 0},
		{"a VPort", subnet.OwnLID, at(0x902, 1), ErrInvalid, "name its physical port", 0},
		{"no functions", subnet.OwnLID, at(plain, 1), ErrConflict, "cannot hold", 0},
		{"own LID on a shared port", subnet.OwnLID, at(sharedA, 2), ErrConflict, "floating", 0},
		{"floating LID on a vSwitch", subnet.FloatingLID, at(hyperB, 1), ErrConflict, "own LID", 0},
		{"floating LID on VPorts", subnet.FloatingLID, at(vportA, 1), ErrConflict, "own LID", 0},
		{"floating LID beside another VM", subnet.FloatingLID, at(sharedA, 0), ErrConflict, "1 other", 0},
		{"floating LID at the subnet manager's port", subnet.FloatingLID, at(sharedSM, 1), ErrConflict, "subnet manager", 0},
		{"shared LID at the subnet manager's port", subnet.SharedLID, at(sharedSM, 1), nil, "", 1},
		{"a place that is taken", subnet.OwnLID, at(hyperA, 1), ErrConflict, `taken by interface "sits", which is there`, 0},
		{"a place that is kept", subnet.OwnLID, at(hyperC, 1), ErrConflict, "migrating there", 0},
		{"the rest of its port", subnet.OwnLID, at(hyperC, 0), nil, "", 2},
	} {
		from := at(hyperA, 2)
		if c.kind == subnet.FloatingLID {
			from = at(sharedB, 9)
		}
		for _, how := range []string{"attach", "migrate"} {
			if how == "migrate" && from.Port == c.at.Port {
				continue // it is there: nothing to migrate
			}
			t.Run(c.what+"/"+how, func(t *testing.T) {
				r := newRig(t)
				r.step(Published{snapshot(nil, seenVPort{vportA, 1, 0x902, ib.StateActive})})
				r.ok(Create{Interface{Name: "sits", LIDKind: subnet.OwnLID}})
				r.ok(Create{Interface{Name: "shares"}})
				r.ok(Attach{"sits", at(hyperA, 1)})
				r.ok(Migrate{"sits", at(hyperC, 1)})
				r.ok(Attach{"shares", at(sharedA, 7)})
				r.ok(Create{Interface{Name: "web", LIDKind: c.kind}})
				var op Op = Attach{"web", c.at}
				if how == "migrate" {
					r.ok(Attach{"web", from})
					op = Migrate{"web", c.at}
				}
				if c.want != nil {
					before := r.view.Interface("web").State
					r.fails(op, c.want, c.words)
					if i := r.view.Interface("web"); i.State != before || i.Dest != (subnet.Place{}) {
						t.Errorf("%+v", i)
					}
					return
				}
				i := r.ok(op)
				want := subnet.Place{Port: c.at.Port, Function: c.fn}
				if how == "migrate" && i.Dest != want || how == "attach" && i.Place != want {
					t.Errorf("%+v, want %v", i, want)
				}
			})
		}
	}
}

// TestWrongState: operations that the state does not permit, and repeated operations.
func TestWrongState(t *testing.T) {
	states := []string{"none", "created", "attached", "migrating", "detached"}
	ops := []Op{Attach{"web", at(hyperA, 1)}, Attach{"web", at(hyperC, 1)}, Migrate{"web", at(hyperB, 1)}, Finish{"web"}, RollBack{"web"}, Detach{"web"}, Delete{"web", false}, Delete{"web", true}, SetKeys{"web", nil}}
	// Rows by state, columns by operation: s succeeds, c conflicts, n is not found;
	// small letters leave all as it was.
	want := []string{
		"nnnnnnssn",
		"SScccsSSs",
		"scScsScSs",
		"scsSSScSs",
		"SScccsSSs",
	}
	for si, state := range states {
		for oi, op := range ops {
			r := newRig(t)
			r.up()
			for i, step := range []Op{Create{Interface{Name: "web", LIDKind: subnet.OwnLID}}, Attach{"web", at(hyperA, 1)}, Migrate{"web", at(hyperB, 1)}, nil} {
				if i < si && step != nil {
					r.ok(step)
				}
			}
			if state == "detached" {
				r.ok(Detach{"web"})
			}
			before := durable(r.view)
			a := r.do(op)
			got := "s"
			switch {
			case a.Err == nil:
			case strings.Contains(a.Err.Error(), ErrConflict.Error()):
				got = "c"
			case strings.Contains(a.Err.Error(), ErrNotFound.Error()):
				got = "n"
			default:
				got = "?"
			}
			if durable(r.view) != before {
				got = strings.ToUpper(got)
			}
			if got != want[si][oi:oi+1] {
				t.Errorf("%s, %T %+v: %s, want %s (%v)", state, op, op, got, want[si][oi:oi+1], a.Err)
			}
		}
	}
}

// TestFunctionOfVPort: where the core chooses, it takes the function whose VPort shows the
// GUID, follows that VPort until the interface is placed, and does not take functions with
// foreign GUIDs.
func TestFunctionOfVPort(t *testing.T) {
	r := newRig(t)
	r.ok(Create{Interface{Name: "web", GUID: 0x902}})
	r.ok(Create{Interface{Name: "db", GUID: 0x903}})
	r.step(Published{snapshot(nil, seenVPort{vportA, 1, 0x999, ib.StateActive}, seenVPort{vportA, 3, 0x902, ib.StateInit})})
	if i := r.ok(Attach{"web", at(vportA, 0)}); i.Place != at(vportA, 3) {
		t.Fatalf("%+v", i)
	}
	r.obey = false
	r.ask(Attach{"db", at(vportA, 0)})
	if i := r.view.Interface("db"); i.Place != at(vportA, 2) {
		t.Fatalf("%+v: function 1 has a foreign GUID", i)
	}
	r.obey = true
	r.step(Published{snapshot(nil, seenVPort{vportA, 3, 0x902, ib.StateActive}, seenVPort{vportA, 4, 0x903, ib.StateInit})})
	r.is("db", Attached, at(vportA, 4))
	// A migration's too, at its end.
	if i := r.ok(Migrate{"db", at(vportB, 0)}); i.Dest != at(vportB, 1) {
		t.Fatalf("%+v", i)
	}
	r.step(Published{snapshot(nil, seenVPort{vportB, 3, 0x903, ib.StateInit})})
	r.ok(Finish{"db"})
	r.is("db", Attached, at(vportB, 3))
	// One that was asked for is not left.
	r.ok(Migrate{"db", at(vportA, 2)})
	r.step(Published{snapshot(nil, seenVPort{vportA, 4, 0x903, ib.StateInit})})
	r.ok(Finish{"db"})
	r.is("db", Attached, at(vportA, 2))
}

// TestGUIDPool: the pool assigns the lowest GUID that nothing else has.
func TestGUIDPool(t *testing.T) {
	r := newRig(t)
	r.c = New(Config{GUIDFirst: hyperA - 2, GUIDLast: hyperA + 4})
	r.step(Start{})
	r.up()
	r.ok(AddMembers{PKey: 5, GUIDs: []ib.GUID{hyperA + 2}})
	r.ok(Create{Interface{Name: "static", GUID: hyperA - 1}})
	var got []ib.GUID
	for _, n := range []string{"a", "b", "c", "d"} {
		if a := r.do(Create{Interface{Name: n, Aliases: map[bool][]ib.GUID{true: {hyperA + 3}}[n == "b"]}}); a.Err == nil {
			got = append(got, a.Interface.GUID)
		}
	}
	if want := []ib.GUID{hyperA - 2, hyperA + 1, hyperA + 4}; !slices.Equal(got, want) {
		t.Fatalf("%v, want %v", got, want)
	}
	r.fails(Create{Interface{Name: "e"}}, ErrNoRoom, "5 of the 7")
	if p := r.view.Pools; p.GUIDs != 7 || p.GUIDsUsed != 5 {
		t.Errorf("%+v", p)
	}
	// What others give back is found again.
	r.ok(RemoveMembers{PKey: 5, All: true})
	if i := r.ok(Create{Interface{Name: "e"}}); i.GUID != hyperA+2 {
		t.Errorf("%v", i.GUID)
	}
	r.ok(Delete{"a", false})
	if i := r.ok(Create{Interface{Name: "f"}}); i.GUID != hyperA-2 {
		t.Errorf("%v", i.GUID)
	}
	// The default range leaves out the SA's GUID.
	r = newRig(t)
	for _, want := range []ib.GUID{sa.WellKnownGUID - 1, sa.WellKnownGUID + 1} {
		if i := r.ok(Create{Interface{Name: want.String()}}); i.GUID != want {
			t.Errorf("%v, want %v", i.GUID, want)
		}
	}
	if p := r.view.Pools; p.GUIDs != 0xFFFFFFFF-1 || p.GUIDsUsed != 2 {
		t.Errorf("%+v", p)
	}
}

// TestLIDPool: LIDs of ports, and of interfaces without a place.
func TestLIDPool(t *testing.T) {
	r := newRig(t)
	if p := r.view.Pools; p.LIDs != 0 || p.LIDsUsed != 0 {
		t.Errorf("without a subnet: %+v", p)
	}
	s := snapshot(nil)
	for i := 1; i <= 10; i++ {
		s.Graph.LIDOwner[i] = 0
	}
	for i := 11; i < len(s.Graph.LIDOwner); i++ {
		s.Graph.LIDOwner[i] = -1
	}
	s.Graph.LIDOwner[0] = -1
	r.step(Published{s})
	r.ok(Create{Interface{Name: "routed", LIDKind: subnet.OwnLID, LID: 200}})
	r.ok(Create{Interface{Name: "shared"}})
	r.ok(Create{Interface{Name: "floats", LIDKind: subnet.FloatingLID}})
	if p := r.view.Pools; p.LIDs != 1023 || p.LIDsUsed != 12 {
		t.Errorf("%+v", p) // the pinned one and, as the rig places what is nowhere, the floating one
	}
	r.ok(Attach{"floats", at(sharedA, 1)})
	if p := r.view.Pools; p.LIDsUsed != 13 {
		t.Errorf("%+v: sharedA keeps its base LID", p)
	}
	r.ok(Delete{"floats", true})
	if p := r.view.Pools; p.LIDsUsed != 11 {
		t.Errorf("%+v", p)
	}
}
