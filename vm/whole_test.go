package vm

import (
	"errors"
	"fmt"
	"testing"

	"heddle/subnet"
)

// TestOneRecord: a Create with a place and a Move are one write of one record, before anything
// is passed to the subnet manager.
func TestOneRecord(t *testing.T) {
	r := attached(t, subnet.OwnLID)
	for _, op := range []Op{
		Create{Interface{Name: "db", LIDKind: subnet.OwnLID, Place: at(hyperA, 2)}},
		Move{"web", at(hyperB, 0)},
	} {
		var out Output
		out.Reset()
		r.c.Step(r.now, Requests{[]Request{{900, op}}}, &out)
		if len(out.Persist) != 1 || len(out.Put) != 0 || len(out.Replies) != 0 || out.Publish != nil {
			t.Fatalf("%T: before it is stored: %+v", op, out)
		}
		gen, rec := out.PersistGen, out.Persist[0].Record
		if e, err := decodeInterface(rec.Key, rec.Value); err != nil || e.Doing == "" {
			t.Errorf("%T: the record is %+v, %v: a restart would not continue it", op, e, err)
		}
		out.Reset()
		r.c.Step(r.now, Persisted{Gen: gen}, &out)
		if len(out.Put) != 1 || out.Put[0].Place.Function == 0 {
			t.Errorf("%T: stored: %+v", op, out)
		}
	}
}

// crashAt requests op from a manager that dies at point p: before write p/2 if p is even,
// otherwise just after it. It reports whether the point was reached.
func (r *rig) crashAt(op Op, p int) (died bool) {
	r.tag++
	writes := 0
	for events := []Event{Requests{[]Request{{r.tag, op}}}}; len(events) > 0; events = events[1:] {
		r.out.Reset()
		r.c.Step(r.now, events[0], &r.out)
		if r.out.PersistGen != 0 {
			if p == 2*writes {
				return true
			}
			events = append(events, Persisted{r.out.PersistGen, r.store.Apply(r.out.Persist)})
			if p == 2*writes+1 {
				return true
			}
			writes++
		}
		if list := r.effects(&r.out); len(list) > 0 {
			events = append(events, Reports{list})
		}
	}
	return false
}

// TestCrashAtEachWrite: wherever the manager dies, an operation of several parts either has no
// effect or is completed. After a refusal the state is as before.
func TestCrashAtEachWrite(t *testing.T) {
	home, away := at(hyperA, 1), at(hyperB, 2)
	for _, c := range []struct {
		op       Op
		refused  bool
		none     string // what becomes of "web" if the operation was not stored
		whole    string // … and if it was
		wantAway bool   // "web" is at home before
	}{
		{Create{Interface{Name: "web", LIDKind: subnet.OwnLID, Place: away}}, false, "gone", fmt.Sprint(Attached, away), false},
		{Create{Interface{Name: "web", LIDKind: subnet.OwnLID, Place: away}}, true, "gone", fmt.Sprint(Created, subnet.Place{}), false},
		{Move{"web", away}, false, fmt.Sprint(Attached, home), fmt.Sprint(Attached, away), true},
		{Move{"web", away}, true, fmt.Sprint(Attached, home), fmt.Sprint(Attached, home), true},
	} {
		points := 0
		for p := 0; ; p++ {
			r := newRig(t)
			r.up()
			if c.wantAway {
				r.ok(Create{Interface{Name: "web", LIDKind: subnet.OwnLID, Place: home}})
			}
			if c.refused {
				r.refuse[away] = "it does not take it"
			}
			died := r.crashAt(c.op, p)
			if died {
				points++
				r.restart()
				r.up()
			}
			got, want := "gone", c.whole
			if p == 0 {
				want = c.none
			}
			if i := r.view.Interface("web"); i != nil {
				got = fmt.Sprint(i.State, i.Place)
				if i.Doing != "" || i.Dest != (subnet.Place{}) || r.placements[i.GUID].Place != i.Place {
					t.Errorf("%T, died at %d: %+v, placement %+v", c.op, p, i, r.placements[i.GUID])
				}
			}
			if got != want || r.view.Journal != 0 {
				t.Errorf("%T, refused %v, died at %d: it is %s, want %s; journal %d", c.op, c.refused, p, got, want, r.view.Journal)
			}
			if !died {
				break
			}
		}
		if points < 4 {
			t.Errorf("%T: %d points to die at", c.op, points)
		}
	}
}

// TestCreateNotAttached: an interface that cannot be at its place is created without one, and
// the reply says so. If the store fails, the reply says that instead.
func TestCreateNotAttached(t *testing.T) {
	r := attached(t, subnet.OwnLID)
	op := Create{Interface{Name: "db", GUID: 5, LIDKind: subnet.OwnLID, Place: at(hyperA, 1)}}
	r.store.FailNext = 1
	r.fails(op, ErrStore, "nothing is changed")
	if r.view.Interface("db") != nil {
		t.Error("it is there")
	}
	r.fails(op, ErrConflict, "it is created, but not attached: ")
	r.is("db", Created, subnet.Place{})
	// It is asked for again, for a place that is free and refuses.
	op.I.Place = at(hyperA, 2)
	r.refuse[at(hyperA, 2)] = "function does not take it"
	r.fails(op, ErrConflict, "it is created, but not attached: ")
	r.is("db", Created, subnet.Place{})
	delete(r.refuse, at(hyperA, 2))
	r.ok(op)
	r.ok(op)
	r.is("db", Attached, at(hyperA, 2))
	// An attach of it is told nothing of creation.
	r.refuse[at(hyperA, 3)] = "no"
	r.ok(Detach{"db"})
	if a := r.do(Attach{"db", at(hyperA, 3)}); a.Err == nil || errors.Is(a.Err, ErrStore) || a.Err.Error() != "conflict: interface \"db\": no" {
		t.Errorf("%v", a.Err)
	}
	// Not the same interface.
	op.I.GUID = 6
	r.fails(op, ErrConflict, "delete it first")
}

// TestMoveRefused: a Move whose place cannot be reserved changes nothing, and a repeated Move
// gets the same answer.
func TestMoveRefused(t *testing.T) {
	r := attached(t, subnet.OwnLID)
	r.fails(Move{"web", at(absent, 1)}, ErrConflict, "not in the subnet")
	r.fails(Move{"nobody", at(hyperB, 1)}, ErrNotFound, "nobody")
	r.is("web", Attached, at(hyperA, 1))
	r.refuse[at(hyperB, 2)] = "switch S1 does not take block 0"
	r.fails(Move{"web", at(hyperB, 2)}, ErrConflict, "switch S1 does not take block 0")
	r.is("web", Attached, at(hyperA, 1))
	delete(r.refuse, at(hyperB, 2))
	r.ok(Move{"web", at(hyperB, 2)})
	r.ok(Move{"web", at(hyperB, 2)})
	r.ok(Move{"web", at(hyperB, 0)})
	r.is("web", Attached, at(hyperB, 2))
	// One that was reserved before is finished.
	r.ok(Migrate{"web", at(hyperA, 3)})
	r.fails(Move{"web", at(hyperC, 1)}, ErrConflict, "migrating to")
	r.ok(Move{"web", at(hyperA, 0)})
	r.is("web", Attached, at(hyperA, 3))
	before := durable(r.view)
	r.store.FailNext = 1
	r.fails(Move{"web", at(hyperB, 1)}, ErrStore, "injected")
	if after := durable(r.view); after != before {
		t.Errorf("became\n%s", after)
	}
}

// TestReplyNow: the end of an operation that was answered as Waiting.
func TestReplyNow(t *testing.T) {
	moving := Interface{Name: "web", State: Migrating, Place: at(hyperA, 1), Dest: at(hyperB, 1), Doing: DoingFinish}
	attaching := Interface{Name: "web", State: Attached, Place: at(hyperA, 1), Doing: DoingAttach}
	follows := moving
	follows.Dest = at(hyperB, 2)
	for _, c := range []struct {
		what  string
		was   Interface
		views []Interface
		want  string
	}{
		{"it goes on", moving, []Interface{moving}, "waiting"},
		{"it moved", moving, []Interface{{Name: "web", State: Attached, Place: at(hyperB, 1)}}, "done"},
		{"it moved to where its VPort turned up", moving, []Interface{follows, {Name: "web", State: Attached, Place: at(hyperB, 2)}}, "done"},
		{"it went back", moving, []Interface{{Name: "web", State: Attached, Place: at(hyperA, 1), Reason: "rolled back: S1"}}, "conflict: interface \"web\" is attached: rolled back: S1"},
		{"it is attached", attaching, []Interface{{Name: "web", State: Attached, Place: at(hyperA, 1), Placement: subnet.PlacementPlaced}}, "done"},
		{"nothing goes on, and it is refused", Interface{Name: "web", State: Attached, Place: at(hyperA, 1)}, []Interface{{Name: "web", State: Attached, Place: at(hyperA, 1), Placement: subnet.PlacementRefused, Reason: "no"}}, "conflict: interface \"web\" is attached: no"},
		{"it was refused", attaching, []Interface{{Name: "web", Placement: subnet.PlacementRefused, Reason: "no"}}, "conflict: interface \"web\" is created: no"},
	} {
		r := Reply{Interface: c.was, Waiting: true}
		for _, i := range c.views {
			r = r.Now(i)
		}
		got := "done"
		switch {
		case r.Waiting:
			got = "waiting"
		case r.Err != nil:
			got = r.Err.Error()
		}
		if got != c.want || r.Interface.Place != c.views[len(c.views)-1].Place {
			t.Errorf("%s: %s, want %s; %+v", c.what, got, c.want, r.Interface)
		}
	}
	if r := (Reply{Err: ErrStore}).Now(moving); r.Err != ErrStore || r.Waiting {
		t.Errorf("an answer that was final became %+v", r)
	}
}
