package shell

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"heddle/ib"
	"heddle/mad"
	"heddle/partition"
	"heddle/sa"
	"heddle/sm"
	"heddle/store"
	"heddle/subnet"
	"heddle/vm"
)

// world records in one list the events of three scripted cores, and the effects of their
// outputs.
type world struct {
	log    []string
	shared Shared
	full   error // of the store
	busy   error // of SetIsSM
	sm     *SM
	sa     *SA
	vm     *VM
	smDoes func(ev sm.Event, out *sm.Output)
	saDoes func(ev sa.Event, out *sa.Output)
	vmDoes func(ev vm.Event, out *vm.Output)
	onSend func()
	// onPublish is called before a snapshot is seen.
	onPublish func()
}

// newWorld makes drivers whose mail is delivered immediately, as in lab, or waits until Mail is
// called.
func newWorld(atOnce bool) *world {
	w := &world{
		smDoes: func(sm.Event, *sm.Output) {}, saDoes: func(sa.Event, *sa.Output) {}, vmDoes: func(vm.Event, *vm.Output) {}, onSend: func() {}, onPublish: func() {},
	}
	w.sm, w.sa, w.vm = NewSM(smScript{w}, smNotes{w}, &w.shared), NewSA(saScript{w}, saNotes{w}, &w.shared), NewVM(vmScript{w}, vmNotes{w}, &w.shared)
	w.shared.WakeSM, w.shared.WakeSA, w.shared.WakeVM = func() {}, func() {}, func() {}
	if atOnce {
		w.shared.WakeSM, w.shared.WakeSA, w.shared.WakeVM = w.sm.Mail, w.sa.Mail, w.vm.Mail
	}
	return w
}

func (w *world) note(format string, args ...any) { w.log = append(w.log, fmt.Sprintf(format, args...)) }

// took returns the record and clears it.
func (w *world) took() string {
	s := strings.Join(w.log, "\n")
	w.log = nil
	return s
}

type smScript struct{ w *world }

func (c smScript) Step(_ mad.Time, ev sm.Event, out *sm.Output) {
	c.w.note("sm %T", ev)
	if p, ok := ev.(sm.Persisted); ok {
		c.w.note("  gen %d, %v", p.Gen, p.Err)
	}
	c.w.smDoes(ev, out)
}

type saScript struct{ w *world }

func (c saScript) Unsaved() int { return 3 }

func (c saScript) Step(_ mad.Time, ev sa.Event, out *sa.Output) {
	c.w.note("sa %T", ev)
	if p, ok := ev.(sa.Persisted); ok {
		c.w.note("  gen %d, %v", p.Gen, p.Err)
	}
	c.w.saDoes(ev, out)
}

type vmScript struct{ w *world }

func (c vmScript) Step(_ mad.Time, ev vm.Event, out *vm.Output) {
	c.w.note("vm %T", ev)
	if p, ok := ev.(vm.Persisted); ok {
		c.w.note("  gen %d, %v", p.Gen, p.Err)
	}
	c.w.vmDoes(ev, out)
}

func (w *world) apply(who string, ops []store.Op) error {
	w.note("%s store %d", who, len(ops))
	return w.full
}

func (w *world) wake(who string, at mad.Time) {
	if at != mad.Never {
		w.note("%s wake %d", who, at)
	}
}

type smNotes struct{ w *world }

func (e smNotes) Now() mad.Time              { return 1 }
func (e smNotes) Apply(ops []store.Op) error { return e.w.apply("sm", ops) }
func (e smNotes) Wake(at mad.Time)           { e.w.wake("sm", at) }
func (e smNotes) SetIsSM(on bool) error      { e.w.note("sm IsSM %v", on); return e.w.busy }
func (e smNotes) Send(l []mad.Packet)        { e.w.note("sm send %d", len(l)); e.w.onSend() }
func (e smNotes) Compute(*sm.Job)            { e.w.note("sm job") }
func (e smNotes) Publishing()                { e.w.onPublish() }
func (e smNotes) Published(*subnet.Snapshot) {
	e.w.note("sm published %v", e.w.shared.Snap.Load() != nil)
}
func (e smNotes) TrapLost()                    { e.w.note("sm trap lost") }
func (e smNotes) Tell(l []sm.Notice)           { e.w.tell("sm", len(l)) }
func (e smNotes) Planned(*sm.Plan)             { e.w.note("sm plan") }
func (e smNotes) Stepped(sm.Event, *sm.Output) {}

func (w *world) tell(who string, n int) {
	if n > 0 {
		w.note("%s tell %d", who, n)
	}
}

type saNotes struct{ w *world }

func (e saNotes) Now() mad.Time { return 1 }
func (e saNotes) Save(gen uint64, ops []store.Op) {
	e.w.sa.Step(sa.Persisted{Gen: gen, Err: e.w.apply("sa", ops)})
}
func (e saNotes) Wake(at mad.Time)          { e.w.wake("sa", at) }
func (e saNotes) Published(*sa.View)        { e.w.note("sa published %v", e.w.shared.View.Load() != nil) }
func (e saNotes) Unsaved(n int)             { e.w.note("sa unsaved %d", n) }
func (e saNotes) Promised(l []store.Record) { e.w.note("sa promised %d", len(l)) }
func (e saNotes) Replies(l []sa.Reply) {
	for i := range l {
		e.w.note("sa reply to LID %v", l[i].To.LID)
	}
}
func (e saNotes) Report(*mad.Packet) { e.w.note("sa report") }
func (e saNotes) Tell(l []sa.Notice) { e.w.tell("sa", len(l)) }

type vmNotes struct{ w *world }

func (e vmNotes) Now() mad.Time                       { return 1 }
func (e vmNotes) Apply(ops []store.Op) error          { return e.w.apply("vm", ops) }
func (e vmNotes) Wake(at mad.Time)                    { e.w.wake("vm", at) }
func (e vmNotes) Published(*vm.View)                  { e.w.note("vm published %v", e.w.shared.VMs.Load() != nil) }
func (e vmNotes) Reported(l []subnet.PlacementReport) { e.w.note("vm reported %d", len(l)) }
func (e vmNotes) Tell(l []vm.Notice)                  { e.w.tell("vm", len(l)) }
func (e vmNotes) Answered(op vm.Op, r *vm.Reply, _ time.Duration) {
	e.w.note("vm answered %T, tag %d", op, r.Tag)
}

// wants are outputs with every effect, for the first event.
func (w *world) wantEverything() {
	w.smDoes = func(ev sm.Event, out *sm.Output) {
		if _, ok := ev.(sm.Timer); ok {
			*out = sm.Output{
				Persist: make([]store.Op, 2), PersistGen: 7, IsSM: sm.IsSMClaim, Sends: make([]mad.Packet, 2), Jobs: make([]*sm.Job, 1),
				Publish: &subnet.Snapshot{}, Notices: make([]sm.Notice, 1), Plan: &sm.Plan{}, Traps: make([]sm.Trap, 2),
				Placements: make([]subnet.PlacementReport, 1), Timer: 9,
			}
		}
	}
	w.saDoes = func(ev sa.Event, out *sa.Output) {
		if _, ok := ev.(sa.Timer); ok {
			*out = sa.Output{
				Persist: make([]store.Op, 2), PersistGen: 7, Publish: &sa.View{}, Replies: []sa.Reply{{To: mad.Addr{LID: 5}}}, Sends: make([]mad.Packet, 1),
				GroupsChanged: true, AliasesChanged: true, Read: make([]ib.GUID, 1), Notices: make([]sa.Notice, 1), Timer: 9,
			}
		}
	}
	w.vmDoes = func(ev vm.Event, out *vm.Output) {
		if r, ok := ev.(vm.Requests); ok {
			*out = vm.Output{
				Persist: make([]store.Op, 2), PersistGen: 7, Publish: &vm.View{}, PartitionsChanged: true, PlacementsChanged: true,
				Replies: []vm.Reply{{Tag: r.List[0].Tag}, {Tag: 99}}, Notices: make([]vm.Notice, 1), Timer: 9,
			}
		}
	}
}

func (w *world) want(t *testing.T, what string, lines ...string) {
	t.Helper()
	if got, want := w.took(), strings.Join(lines, "\n"); got != want {
		t.Errorf("%s:\n%s\nwant:\n%s", what, got, want)
	}
}

// TestOrder: the effects of an output take place in the documented order, also when events
// arrive during them, and their results return as events.
func TestOrder(t *testing.T) {
	for _, full := range []error{nil, errors.New("no space")} {
		w := newWorld(true)
		w.full = full
		w.sm.Start(nil, nil)
		w.wantEverything()
		w.want(t, "start", "sm sm.Start")
		w.onSend = func() { // an answer that comes while something is sent
			w.onSend = func() {}
			w.sm.Step(sm.Received{})
		}
		persisted := fmt.Sprintf("  gen 7, %v", full)
		w.sm.Step(sm.Timer{})
		w.want(t, "sm", "sm sm.Timer",
			"sm store 2", "sm IsSM true", "sm send 2", "sm job",
			"sm published true", "sa sa.Published", "sa unsaved 3", "vm vm.Published",
			"vm reported 1", "vm vm.Reports",
			"sa sa.Trap", "sa unsaved 3", "sa sa.Trap", "sa unsaved 3",
			"sm tell 1", "sm plan", "sm wake 9",
			"sm sm.Persisted", persisted, "sm sm.Received")
		w.sa.Step(sa.Timer{})
		w.want(t, "sa", "sa sa.Timer",
			"sa store 2", "sa published true", "sa unsaved 3", "sa reply to LID 5", "sa report",
			"sm sm.SetGroups", "sm sm.SetAliases", "sm sm.ReadTables",
			"sa tell 1", "sa wake 9",
			"sa sa.Persisted", persisted, "sa unsaved 3")
		w.shared.Ask(&Ask{
			Ops: []vm.Op{vm.Finish{}, vm.Detach{}}, Taken: func() { w.note("taken") },
			Answer: func(i int, r *vm.Reply) { w.note("answer %d", i) },
		})
		w.want(t, "vm", "vm vm.Requests",
			"vm store 2", "vm published true", "sm sm.SetMembers", "sm sm.SetPlacements",
			"vm answered vm.Finish, tag 1", "answer 0", "vm tell 1", "vm wake 9",
			"vm vm.Persisted", persisted, "taken")
	}
}

// TestSteps: packets of several steps leave together, in their order, and effects of other kinds do
// not wait.
func TestSteps(t *testing.T) {
	w := newWorld(true)
	w.sm.Start(nil, nil)
	w.took()
	steps := func(each ...int) func() sm.Event { // packets that each step sends; -1: one, and a notice
		w.smDoes = func(_ sm.Event, out *sm.Output) {
			n := each[0]
			if each = each[1:]; n < 0 {
				n, out.Notices = 1, make([]sm.Notice, 1)
			}
			out.Sends, out.Timer = append(out.Sends, make([]mad.Packet, n)...), 9
		}
		return func() sm.Event {
			if len(each) == 0 {
				return nil
			}
			return sm.Received{}
		}
	}
	const got = "sm sm.Received"
	w.sm.Steps(steps(1, 0, 2))
	w.want(t, "together at the end", got, got, got, "sm send 3", "sm wake 9")
	w.sm.Steps(steps(1, -1, 1))
	w.want(t, "with other effects", got, got, "sm send 2", "sm tell 1", "sm wake 9", got, "sm send 1", "sm wake 9")
	w.sm.Steps(steps(gatherMost-1, 1, 1))
	w.want(t, "many", got, got, fmt.Sprintf("sm send %d", gatherMost), "sm wake 9", got, "sm send 1", "sm wake 9")
	w.sm.Steps(steps())
	w.want(t, "no event")

	w.sm.Steps(steps(1))
	w.took()
	next := steps(1)
	w.sm.Step(next())
	w.want(t, "a step of its own after them", got, "sm send 1", "sm wake 9")

	next = steps(1, 1)
	w.sm.Steps(func() sm.Event {
		ev := next()
		if ev == nil {
			w.sm.Halt()
		}
		return ev
	})
	w.want(t, "killed before it sent", got, got)
}

// TestHalt: a manager that is halted in the middle of an output carries out no further effects
// and takes no events.
func TestHalt(t *testing.T) {
	w := newWorld(true)
	w.sm.Start(nil, nil)
	w.wantEverything()
	w.busy = errors.New("somebody else has the port")
	w.took()
	w.sm.Step(sm.Timer{})
	w.sm.Step(sm.Timer{})
	w.sm.Mail()
	w.want(t, "a port that cannot be claimed", "sm sm.Timer", "sm store 2", "sm IsSM true")

	w = newWorld(true)
	w.sm.Start(nil, nil)
	w.wantEverything()
	w.onSend = func() { w.sm.Halt() }
	w.took()
	w.sm.Step(sm.Timer{})
	w.want(t, "killed after a send", "sm sm.Timer", "sm store 2", "sm IsSM true", "sm send 2")

	w = newWorld(true)
	w.sm.Start(nil, nil)
	w.smDoes = func(_ sm.Event, out *sm.Output) { out.Stopped, out.PersistGen, out.Timer = true, 1, 5 }
	w.took()
	w.sm.Step(sm.Stop{})
	w.want(t, "stopped", "sm sm.Stop", "sm store 0")
	if !w.sm.Halted() {
		t.Error("it has stopped and not halted")
	}
}

// TestStart: the subnet manager gets the restored state of the other cores before it starts.
func TestStart(t *testing.T) {
	w := newWorld(true)
	w.saDoes = func(_ sa.Event, out *sa.Output) { out.GroupsChanged, out.AliasesChanged = true, true }
	w.vmDoes = func(_ vm.Event, out *vm.Output) { out.PartitionsChanged, out.PlacementsChanged = true, true }
	w.sa.Start(nil, 0)
	w.vm.Start(nil)
	w.sm.Start(nil, &partition.Policy{})
	w.want(t, "start", "sa sa.Start", "sa unsaved 3", "vm vm.Start",
		"sm sm.SetMembers", "sm sm.SetPlacements", "sm sm.SetGroups", "sm sm.SetAliases", "sm sm.Start", "sm sm.SetPartitions")
}

// TestMail: waiting mail is one event of each kind, the newest snapshot comes first, and each
// value is passed once.
func TestMail(t *testing.T) {
	w := newWorld(false)
	w.sm.Start(nil, nil)
	w.wantEverything()
	w.took()
	for range 2 {
		w.sm.Step(sm.Timer{})
		w.sa.Step(sa.Timer{})
		w.vm.Step(vm.Requests{List: make([]vm.Request, 1)})
		w.shared.Ask(&Ask{Ops: make([]vm.Op, 1)})
	}
	w.took()
	w.smDoes, w.saDoes, w.vmDoes = func(sm.Event, *sm.Output) {}, func(sa.Event, *sa.Output) {}, func(ev vm.Event, _ *vm.Output) {
		if r, ok := ev.(vm.Requests); ok {
			w.note("  %d operations", len(r.List))
		}
	}
	w.sm.Mail()
	w.want(t, "sm", "sm sm.SetMembers", "sm sm.SetPlacements", "sm sm.SetGroups", "sm sm.SetAliases", "sm sm.ReadTables")
	w.sa.Mail()
	w.want(t, "sa", "sa sa.Published", "sa unsaved 3", "sa sa.Trap", "sa unsaved 3", "sa sa.Trap", "sa unsaved 3", "sa sa.Trap", "sa unsaved 3", "sa sa.Trap", "sa unsaved 3")
	w.vm.Mail()
	w.want(t, "vm", "vm vm.Published", "vm reported 2", "vm vm.Reports", "vm vm.Requests", "  2 operations")
	w.sm.Mail()
	w.sa.Mail()
	w.vm.Mail()
	w.want(t, "nothing waits")
}

// TestNoReader: mail for a core that does not exist is dropped.
func TestNoReader(t *testing.T) {
	w := newWorld(true)
	w.shared.WakeSA, w.shared.WakeVM = nil, nil
	w.sm.Start(nil, nil)
	w.wantEverything()
	w.sm.Step(sm.Timer{})
	if traps, ok := w.shared.traps.take(); ok {
		t.Errorf("%d traps wait", len(traps))
	}
	if reports, ok := w.shared.reports.take(); ok {
		t.Errorf("%d reports wait", len(reports))
	}
}

// TestBounds: writers that are faster than their reader learn that there is no room.
func TestBounds(t *testing.T) {
	w := newWorld(false)
	for i := range MaxTraps + 1 {
		if ok := w.shared.trap(&sm.Trap{}); ok != (i < MaxTraps) {
			t.Fatalf("trap %d: room %v", i, ok)
		}
	}
	for i := range MaxAsks + 1 {
		if ok := w.shared.Ask(&Ask{}); ok != (i < MaxAsks) {
			t.Fatalf("ask %d: room %v", i, ok)
		}
	}
}

// TestTrapsInTurns: a storm of traps is passed on in order and in parts, and other events are
// processed between the parts.
func TestTrapsInTurns(t *testing.T) {
	w := newWorld(false)
	rung := 0
	w.shared.WakeSA = func() { rung++ }
	const storm = 2*trapsAtOnce + 3
	for i := range storm {
		w.shared.trap(&sm.Trap{From: mad.Addr{LID: ib.LID(i)}})
	}
	var seen []ib.LID
	w.saDoes = func(ev sa.Event, _ *sa.Output) {
		if x, ok := ev.(sa.Trap); ok {
			seen = append(seen, x.From.LID)
		}
	}
	for part, want := range []int{trapsAtOnce, 2 * trapsAtOnce, storm} {
		rung = 0
		if w.sa.Mail(); len(seen) != want || (rung > 0) != (want < storm) {
			t.Errorf("part %d: %d traps, rung %d times", part, len(seen), rung)
		}
	}
	for i, lid := range seen {
		if int(lid) != i {
			t.Fatalf("trap %d comes as number %d", lid, i)
		}
	}
}

func TestPlacementChangesAddUp(t *testing.T) {
	at := func(g ib.GUID, fn uint16) subnet.Placement {
		return subnet.Placement{GUID: g, Place: subnet.Place{Port: 1, Function: fn}}
	}
	for _, c := range []struct {
		name string
		in   []placementChange
		want placementChange
	}{
		{"the later counts", []placementChange{{put: []subnet.Placement{at(1, 1), at(2, 1)}}, {put: []subnet.Placement{at(1, 2)}}}, placementChange{put: []subnet.Placement{at(2, 1), at(1, 2)}}},
		{"put, then dropped", []placementChange{{put: []subnet.Placement{at(1, 1)}}, {drop: []ib.GUID{1}}}, placementChange{drop: []ib.GUID{1}}},
		{"dropped, then put", []placementChange{{drop: []ib.GUID{1, 3}}, {put: []subnet.Placement{at(1, 1)}}}, placementChange{drop: []ib.GUID{3}, put: []subnet.Placement{at(1, 1)}}},
		{"all, then more", []placementChange{{put: []subnet.Placement{at(1, 1), at(2, 1)}, all: true}, {put: []subnet.Placement{at(3, 1)}, drop: []ib.GUID{1}}}, placementChange{put: []subnet.Placement{at(2, 1), at(3, 1)}, all: true}},
		{"all forgets", []placementChange{{put: []subnet.Placement{at(1, 1)}, drop: []ib.GUID{2}}, {put: []subnet.Placement{at(3, 1)}, all: true}}, placementChange{put: []subnet.Placement{at(3, 1)}, all: true}},
	} {
		var got placementChange
		for _, n := range c.in {
			got = got.then(n)
		}
		if fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// TestStandingGroups: groups of the configuration are routed in addition to the SA's, unless
// the SA has their MGID or MLID.
func TestStandingGroups(t *testing.T) {
	group := func(mgid ib.GUID, mlid ib.LID) sm.Group {
		return sm.Group{MGID: ib.MakeGID(0xFF12_0000_0000_0000, mgid), MLID: mlid}
	}
	standing := []sm.Group{group(1, 0xC001), group(2, 0xC002), group(3, 0xC003)}
	got := withStanding([]sm.Group{group(9, 0xC002), group(3, 0xC009)}, standing)
	var mlids []ib.LID
	for _, g := range got {
		mlids = append(mlids, g.MLID)
	}
	if !slices.Equal(mlids, []ib.LID{0xC002, 0xC009, 0xC001}) {
		t.Errorf("routed: %v", mlids)
	}
	if got := withStanding(nil, standing); len(got) != 3 {
		t.Errorf("alone: %v", got)
	}
}

// TestSlowPathsByManager: paths on the slow lane go to the subnet manager, and what it leaves of them
// to the SA.
func TestSlowPathsByManager(t *testing.T) {
	w := newWorld(true)
	asked := subnet.NewSlowPaths(7, []subnet.PortPair{{From: 1, To: 2}, {From: 3, To: 2}})
	left := subnet.NewSlowPaths(7, []subnet.PortPair{{From: 1, To: 2}})
	snap := &subnet.Snapshot{Gen: 3}
	w.smDoes = func(ev sm.Event, out *sm.Output) {
		if x, ok := ev.(sm.SetSlowPaths); ok {
			if x.Paths != asked || x.Snap != snap || x.Until != 7 {
				t.Errorf("%+v", x)
			}
			x.Paths = left
			out.Slow = &x
		}
	}
	n := 0
	w.saDoes = func(ev sa.Event, _ *sa.Output) {
		if x, ok := ev.(sa.SetSlowPaths); ok {
			if n++; x.Paths != left || x.Snap != snap || x.Until != 7 {
				t.Errorf("%+v", x)
			}
		}
	}
	w.sm.Start(nil, nil)
	w.shared.setSlowPaths(asked, snap, 7)
	if n != 1 {
		t.Errorf("%d events", n)
	}
}

// TestSlowPathsAfterTheirSnapshot: paths on the slow lane that were planned with a snapshot reach the
// SA after it, even if both come while the SA takes an earlier one.
func TestSlowPathsAfterTheirSnapshot(t *testing.T) {
	w := newWorld(false)
	older, newer := &subnet.Snapshot{Gen: 1}, &subnet.Snapshot{Gen: 2}
	var has *subnet.Snapshot
	slow := 0
	w.saDoes = func(ev sa.Event, _ *sa.Output) {
		switch ev := ev.(type) {
		case sa.Published:
			if has = ev.Snap; has == older {
				w.shared.Snap.Store(newer)
				w.shared.grantSlowPaths(&sm.SetSlowPaths{Snap: newer, Until: 7})
			}
		case sa.SetSlowPaths:
			if slow++; ev.Snap != has || ev.Until != 7 {
				t.Errorf("the SA has snapshot %d, and gets %+v", has.Gen, ev)
			}
		}
	}
	w.shared.Snap.Store(older)
	w.sa.Mail()
	w.sa.Mail()
	if slow != 1 || has != newer {
		t.Errorf("%d events, snapshot %d", slow, has.Gen)
	}
}

// TestHaltBeforePublishing: what a manager would publish that may not lead is not seen.
func TestHaltBeforePublishing(t *testing.T) {
	w := newWorld(true)
	w.smDoes = func(_ sm.Event, out *sm.Output) { out.Publish = &subnet.Snapshot{} }
	w.onPublish = func() {
		if w.shared.Snap.Load() != nil {
			t.Error("the snapshot can be seen already")
		}
		w.sm.Halt()
	}
	w.sm.Step(sm.Timer{})
	if w.shared.Snap.Load() != nil || strings.Contains(w.took(), "published") {
		t.Error("the snapshot was published")
	}
}
