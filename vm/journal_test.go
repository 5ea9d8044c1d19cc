package vm

import (
	"errors"
	"strings"
	"testing"
	"time"

	"heddle/ib"
	"heddle/mad"
	"heddle/store"
	"heddle/subnet"
)

// attached is a rig with interface "web" at hyperA/1.
func attached(t *testing.T, kind subnet.LIDKind) *rig {
	r := newRig(t)
	r.up()
	r.ok(Create{Interface{Name: "web", LIDKind: kind}})
	r.ok(Attach{"web", at(hyperA, 1)})
	return r
}

// told reports whether a notice of that kind contains all the words.
func (r *rig) told(kind string, words ...string) bool {
next:
	for _, n := range r.notices {
		if n.Kind != kind {
			continue
		}
		for _, w := range words {
			if !strings.Contains(n.Text, w) {
				continue next
			}
		}
		return true
	}
	return false
}

// restart replaces the core by a new one with the same store.
func (r *rig) restart() { r.start() }

// TestAttachRefused: after a refused attach the interface has its old state.
func TestAttachRefused(t *testing.T) {
	r := newRig(t)
	r.up()
	r.ok(Create{Interface{Name: "web", LIDKind: subnet.OwnLID}})
	// The cause decides what the error is, whatever the words say.
	r.refuse[at(hyperA, 1)], r.cause = "1,023 of 1,023 LIDs are assigned", subnet.CauseNoLID
	r.fails(Attach{"web", at(hyperA, 0)}, ErrNoRoom, "1,023 of 1,023 LIDs")
	r.refuse[at(hyperA, 1)], r.cause = "no LID left is what it says", subnet.CauseNotTaken
	r.fails(Attach{"web", at(hyperA, 0)}, ErrConflict, "no LID left")
	r.is("web", Created, subnet.Place{})
	r.ok(Attach{"web", at(hyperB, 1)})
	r.ok(Detach{"web"})
	r.refuse[at(hyperA, 1)] = "function does not take it"
	r.fails(Attach{"web", at(hyperA, 1)}, ErrConflict, "does not take it")
	r.is("web", Detached, subnet.Place{})
	if i := r.view.Interface("web"); !strings.Contains(i.Reason, "does not take it") || !r.told("vm_refused", "web", "does not take it") {
		t.Errorf("%+v, notices %v", i, r.notices)
	}
	r.restart()
	if i := r.view.Interface("web"); !strings.Contains(i.Reason, "does not take it") {
		t.Errorf("after a restart: %+v", i)
	}
}

// TestFinishRefused: an interface whose new place refuses it is at the old place, with the
// reason.
func TestFinishRefused(t *testing.T) {
	r := attached(t, subnet.OwnLID)
	r.refuse[at(hyperB, 2)] = "switch S1 does not take block 0"
	r.ok(Migrate{"web", at(hyperB, 2)})
	r.fails(Finish{"web"}, ErrConflict, "switch S1 does not take block 0")
	r.is("web", Attached, at(hyperA, 1))
	if i := r.view.Interface("web"); !strings.Contains(i.Reason, "switch S1") || !r.told("vm_rolled_back", "web", "switch S1") {
		t.Errorf("%+v, notices %v", i, r.notices)
	}
	// A Finish that is repeated is not told that all went well.
	r.fails(Finish{"web"}, ErrConflict, "rolled back")
	r.restart()
	r.up()
	r.fails(Finish{"web"}, ErrConflict, "switch S1")
	r.ok(RollBack{"web"})
	// And the place is free again.
	r.ok(Create{Interface{Name: "db"}})
	delete(r.refuse, at(hyperB, 2))
	r.ok(Attach{"db", at(hyperB, 2)})
	r.ok(Migrate{"web", at(hyperB, 3)})
	r.ok(Finish{"web"})
	r.ok(Finish{"web"})
	if i := r.ok(Migrate{"web", at(hyperB, 0)}); i.State != Attached {
		t.Errorf("a Migrate that was done already: %+v", i)
	}
	r.fails(RollBack{"web"}, ErrConflict, "finished")
}

// TestSourceGone: the old place refuses a rollback too; the address stays assigned to it.
func TestSourceGone(t *testing.T) {
	r := attached(t, subnet.OwnLID)
	r.refuse[at(hyperB, 2)], r.refuse[at(hyperA, 1)] = "no", "it died"
	r.ok(Migrate{"web", at(hyperB, 2)})
	r.fails(Finish{"web"}, ErrConflict, "it died")
	r.is("web", Attached, at(hyperA, 1))
	if i := r.view.Interface("web"); i.Placement != subnet.PlacementRefused || !strings.Contains(i.Reason, "it died") {
		t.Errorf("%+v", i)
	}
	// The subnet manager tries again until it works; nothing is to be done here.
	r.now = r.now.Add(time.Hour)
	if r.step(Timer{}); r.out.PlacementsChanged || r.out.Timer != mad.Never {
		t.Errorf("placements set again: %v, timer %v", r.out.Put, r.out.Timer)
	}
	web := subnet.PlacementReport{GUID: r.view.Interface("web").GUID, Place: at(hyperA, 1), LID: 101}
	for range 3 {
		web.State, web.Cause, web.Reason = subnet.PlacementMoving, subnet.CauseNone, ""
		r.step(Reports{[]subnet.PlacementReport{web}})
		web.State, web.Cause, web.Reason = subnet.PlacementRefused, subnet.CauseNotTaken, "it died"
		r.step(Reports{[]subnet.PlacementReport{web}})
		if i := r.view.Interface("web"); i.Placement != subnet.PlacementRefused {
			t.Fatalf("%+v", i)
		}
	}
	web.State, web.Cause, web.Reason = subnet.PlacementPlaced, subnet.CauseNone, ""
	r.step(Reports{[]subnet.PlacementReport{web}})
	if i := r.view.Interface("web"); i.Placement != subnet.PlacementPlaced || r.out.PlacementsChanged {
		t.Errorf("%+v", i)
	}
}

// TestDestinationVanishes: if the destination vanishes before Finish, Finish is refused; during
// Finish the interface is rolled back.
func TestDestinationVanishes(t *testing.T) {
	r := attached(t, subnet.OwnLID)
	r.fails(Migrate{"web", at(absent, 1)}, ErrConflict, "not in the subnet")
	r.ok(Migrate{"web", at(hyperB, 0)})
	r.up(hyperB)
	r.fails(Finish{"web"}, ErrConflict, "roll the migration back")
	r.is2("web", Migrating, "")
	r.up()
	r.obey = false
	tag := r.ask(Finish{"web"})[0]
	if _, early := r.replies[tag]; early {
		t.Fatal("replied before the subnet manager was done")
	}
	r.obey = true
	r.up(hyperB)
	a, ok := r.replies[tag]
	if !ok || !errors.Is(a.Err, ErrConflict) || !strings.Contains(a.Err.Error(), "not in the subnet any more") {
		t.Fatalf("%+v %v", a, ok)
	}
	r.is("web", Attached, at(hyperA, 1))
}

// is2 checks the state and the operation in progress.
func (r *rig) is2(name string, st State, doing string) {
	r.t.Helper()
	if i := r.view.Interface(name); i.State != st || i.Doing != doing {
		r.t.Fatalf("%+v, want %v, doing %q", i, st, doing)
	}
}

// TestRestartInTheMiddle: operations in progress continue after a restart.
func TestRestartInTheMiddle(t *testing.T) {
	r := attached(t, subnet.OwnLID)
	r.ok(Migrate{"web", at(hyperB, 2)})
	r.obey = false
	r.ask(Finish{"web"})
	g := r.view.Interface("web").GUID
	r.restart()
	r.is2("web", Migrating, DoingFinish)
	if r.view.Journal != 1 || r.placements[g].Place != at(hyperB, 2) {
		t.Fatalf("journal %d, placement %+v", r.view.Journal, r.placements[g])
	}
	r.up()
	r.step(Reports{[]subnet.PlacementReport{{GUID: g, Place: at(hyperB, 2), State: subnet.PlacementMoving}}})
	r.step(Reports{[]subnet.PlacementReport{{GUID: g, Place: at(hyperB, 2), State: subnet.PlacementPlaced, LID: 77}}})
	r.is("web", Attached, at(hyperB, 2))
	r.ask(Detach{"web"})
	r.restart()
	r.is2("web", Attached, DoingDetach)
	r.step(Reports{[]subnet.PlacementReport{{GUID: g, State: subnet.PlacementPlaced, LID: 77}}})
	r.is("web", Detached, subnet.Place{})
	if i := r.view.Interface("web"); i.LID != 77 || r.view.Journal != 0 {
		t.Fatalf("%+v, journal %d", i, r.view.Journal)
	}
}

// TestRollBackOnTheWay: a migration is rolled back during Finish.
func TestRollBackOnTheWay(t *testing.T) {
	r := attached(t, subnet.OwnLID)
	g := r.view.Interface("web").GUID
	r.ok(Migrate{"web", at(hyperB, 2)})
	r.obey = false
	finish := r.ask(Finish{"web"})[0]
	back := r.ask(RollBack{"web"})[0]
	r.is2("web", Attached, DoingRollBack)
	if r.placements[g].Place != at(hyperA, 1) {
		t.Fatalf("%+v", r.placements[g])
	}
	// What is said of the other place is past.
	r.step(Reports{[]subnet.PlacementReport{{GUID: g, Place: at(hyperB, 2), State: subnet.PlacementPlaced, LID: 5}}})
	r.is2("web", Attached, DoingRollBack)
	r.step(Reports{[]subnet.PlacementReport{{GUID: g, Place: at(hyperA, 1), State: subnet.PlacementPlaced, LID: 5}}})
	r.is("web", Attached, at(hyperA, 1))
	if r.replies[finish].Err == nil || r.replies[back].Err != nil {
		t.Fatalf("finish %+v, roll back %+v", r.replies[finish], r.replies[back])
	}
}

// TestStoreFails: nothing is published or passed on, and the state is as before.
func TestStoreFails(t *testing.T) {
	r := attached(t, subnet.OwnLID)
	r.ok(Migrate{"web", at(hyperB, 2)})
	before, puts := durable(r.view), len(r.placements)
	for _, op := range []Op{
		Create{Interface{Name: "db", GUID: 5}},
		Finish{"web"},
		RollBack{"web"},
		Detach{"web"},
		Delete{"web", true},
		SetKeys{"web", []Membership{{5, true}}},
		AddMembers{PKey: 5, GUIDs: []ib.GUID{1, 2}, IPoIB: true},
	} {
		r.store.FailNext = 1
		parts := r.parts
		r.fails(op, ErrStore, "injected")
		if after := durable(r.view); after != before || len(r.placements) != puts || r.parts != parts {
			t.Fatalf("%T: became\n%s", op, after)
		}
	}
	// The store works again: nothing of it is left.
	r.ok(Create{Interface{Name: "db", GUID: 5}})
	r.ok(Attach{"db", at(hyperB, 1)})
	r.ok(Finish{"web"})
	r.is("web", Attached, at(hyperB, 2))
	if r.view.Journal != 0 || len(r.view.Partitions) != 0 {
		t.Fatalf("journal %d, partitions %v", r.view.Journal, r.view.Partitions)
	}
}

// TestReportNotStored: a report that cannot be stored is stored and published later.
func TestReportNotStored(t *testing.T) {
	r := attached(t, subnet.OwnLID)
	r.ok(Migrate{"web", at(hyperB, 2)})
	r.obey = false
	tag := r.ask(Finish{"web"})[0]
	g := r.view.Interface("web").GUID
	r.store.FailNext = 2
	r.step(Reports{[]subnet.PlacementReport{{GUID: g, Place: at(hyperB, 2), State: subnet.PlacementPlaced, LID: 101}}})
	if _, told := r.replies[tag]; told || !r.told("vm_store") {
		t.Fatal("published state that is not stored")
	}
	r.is2("web", Migrating, DoingFinish)
	r.step(Timer{}) // too early
	if r.store.FailNext != 1 {
		t.Fatal("tried again immediately")
	}
	for range 2 {
		r.now = r.out.Timer
		r.step(Timer{})
	}
	if a := r.replies[tag]; a.Waiting { // five seconds are over
		r.now = r.now.Add(retryStore)
		r.step(Timer{})
	}
	r.is("web", Attached, at(hyperB, 2))
}

// TestWaits: an operation waits for an absent port. When its functions have been read, one is
// chosen, or the operation is refused.
func TestWaits(t *testing.T) {
	r := newRig(t)
	r.ok(Create{Interface{Name: "early", LIDKind: subnet.OwnLID}})
	a := r.do(Attach{"early", at(hyperB, 0)})
	if !a.Waiting || !strings.Contains(a.Interface.Reason, "until the subnet is up") {
		t.Fatalf("%+v", a)
	}
	gone := []ib.GUID{hyperA, sharedA, plain}
	r.up(gone...)
	r.is("early", Attached, at(hyperB, 1))
	for _, n := range []string{"any", "one", "wrong", "none"} {
		r.ok(Create{Interface{Name: n, LIDKind: subnet.OwnLID}})
	}
	for n, p := range map[string]subnet.Place{"any": at(hyperA, 0), "one": at(hyperA, 1), "wrong": at(sharedA, 1), "none": at(plain, 0)} {
		r.obey = false
		a := r.do(Attach{n, p})
		if !a.Waiting || a.Err != nil || !strings.Contains(a.Interface.Reason, "not in the subnet") {
			t.Fatalf("%s: %+v", n, a)
		}
		r.is2(n, Attached, DoingAttach)
		if again := r.do(Attach{n, p}); !again.Waiting {
			t.Fatalf("%s again: %+v", n, again)
		}
	}
	r.fails(Create{Interface{Name: "any"}}, ErrConflict, "delete it first")
	r.fails(Attach{"any", at(hyperB, 2)}, ErrConflict, "detach it first, or migrate it")
	r.fails(Migrate{"any", at(hyperB, 2)}, ErrConflict, "not finished")
	if r.view.Journal != 4 {
		t.Fatal(r.view.Journal)
	}
	r.restart()
	r.up(gone...)
	r.obey = true
	r.up()
	for g, l := range r.placements { // told before, when nobody obeyed
		r.step(Reports{[]subnet.PlacementReport{{GUID: g, Place: l.Place, State: subnet.PlacementPlaced, LID: ib.LID(g & 0xFFF)}}})
	}
	r.is("any", Attached, at(hyperA, 2))
	r.is("one", Attached, at(hyperA, 1))
	r.is("wrong", Created, subnet.Place{})
	r.is("none", Created, subnet.Place{})
	if !r.told("vm_refused", "wrong", "shared port") || !r.told("vm_refused", "none", "cannot hold virtual functions") {
		t.Fatal(r.notices)
	}
}

// TestPatience: a request that waits is answered after patience at most.
func TestPatience(t *testing.T) {
	r := newRig(t)
	r.up()
	r.ok(Create{Interface{Name: "web"}})
	r.obey = false
	first := r.ask(Attach{"web", at(hyperA, 1)})[0]
	due := r.out.Timer
	if due != r.now.Add(patience) {
		t.Fatalf("due at %v", due)
	}
	r.now = r.now.Add(time.Second)
	second := r.ask(Attach{"web", at(hyperA, 0)})[0]
	r.now = due
	r.step(Timer{})
	if a, ok := r.replies[first]; !ok || !a.Waiting || a.Interface.Doing != DoingAttach {
		t.Fatalf("%+v %v", a, ok)
	}
	if _, early := r.replies[second]; early {
		t.Fatal("too early")
	}
	g := r.view.Interface("web").GUID
	r.step(Reports{[]subnet.PlacementReport{{GUID: g, Place: at(hyperA, 1), State: subnet.PlacementPlaced, LID: 9}}})
	if a, ok := r.replies[second]; !ok || a.Waiting || a.Err != nil || a.Interface.LID != 9 {
		t.Fatalf("%+v %v", a, ok)
	}
}

// TestOvertaken: a request that waits for an operation is answered when another one undoes it.
func TestOvertaken(t *testing.T) {
	r := newRig(t)
	r.up()
	for _, n := range []string{"a", "b"} {
		r.ok(Create{Interface{Name: n}})
	}
	r.obey = false
	tags := r.ask(Attach{"a", at(hyperA, 1)}, Attach{"b", at(hyperA, 2)})
	r.ask(Detach{"a"}, Delete{"b", true})
	if a := r.replies[tags[0]]; !errors.Is(a.Err, ErrConflict) {
		t.Errorf("%+v", a)
	}
	if a := r.replies[tags[1]]; !errors.Is(a.Err, ErrNotFound) || a.Interface.Name != "" {
		t.Errorf("%+v", a)
	}
}

// TestOneBatch: operations of one event are stored in one write and move together. An operation
// that a later one undoes is not carried out.
func TestOneBatch(t *testing.T) {
	r := newRig(t)
	r.up()
	for _, n := range []string{"a", "b", "c"} {
		r.ok(Create{Interface{Name: n, LIDKind: subnet.OwnLID}})
	}
	r.ok(Attach{"a", at(hyperA, 1)})
	r.ok(Attach{"b", at(hyperB, 1)})
	var out Output
	out.Reset()
	r.c.Step(r.now, Requests{[]Request{
		{100, Migrate{"a", at(hyperB, 0)}},
		{101, Migrate{"b", at(hyperA, 0)}},
		{102, Finish{"a"}},
		{103, Finish{"b"}},
		{104, Attach{"c", at(hyperC, 1)}},
		{105, Detach{"c"}},
	}}, &out)
	if len(out.Persist) != 3 || len(out.Put) != 0 || len(out.Replies) != 0 || out.Publish != nil {
		t.Fatalf("before it is stored: %+v", out)
	}
	gen := out.PersistGen
	// What comes meanwhile waits.
	out.Reset()
	r.c.Step(r.now, Requests{[]Request{{106, Delete{"c", false}}}}, &out)
	if out.PersistGen != 0 || len(out.Replies) != 0 {
		t.Fatalf("%+v", out)
	}
	out.Reset()
	r.c.Step(r.now, Persisted{Gen: gen}, &out)
	if len(out.Put) != 2 || out.Put[0].Place != at(hyperB, 2) || out.Put[1].Place != at(hyperA, 2) || out.Publish == nil || out.Publish.Len() != 3 {
		t.Fatalf("%+v", out)
	}
	if out.PersistGen == 0 || len(out.Persist) != 1 || out.Persist[0].Kind != store.DeleteRecord {
		t.Fatalf("the next transaction: %+v", out.Persist)
	}
}
