package vm

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"heddle/ib"
	"heddle/mad"
	"heddle/store"
	"heddle/subnet"
)

// world is a core with a store, hardware, and a subnet manager that is slow and refuses at
// random. Core and subnet manager die and start together; store and hardware survive.
type world struct {
	t      testing.TB
	choose func(n int) int // 0 … n-1
	store  *store.Memory
	where  map[ib.GUID]subnet.Place // hardware: who holds what
	gone   map[ib.GUID]bool         // hypervisors that are away
	bound  map[subnet.Place]ib.GUID // of functions, that were published once

	c          *Core
	now        mad.Time
	view       *View
	placements map[ib.GUID]subnet.Placement
	todo       []ib.GUID // placements that were put and not reported on
	waiting    map[ib.GUID]bool
	reports    []subnet.PlacementReport // made and not taken
	due        mad.Time
	unsaved    *Persisted // the store's answer, not told yet

	tag  uint64
	open map[uint64]Op // requests without a reply
	// promised is where interfaces are that were answered as moved, until somebody asks for more.
	promised map[string]subnet.Place
	stops    int // of managers, in order
	kept     int // of promised: that were late when the manager died

	crashes, refusals, full int
	calm                    bool // nothing goes wrong any more
	brisk                   bool // moves follow each other, sooner than the store has all of them
}

var hypers = []ib.GUID{hyperA, hyperB, hyperC, sharedA, sharedB, vportA}

func newWorld(t testing.TB, choose func(int) int) *world {
	w := &world{t: t, choose: choose, store: store.NewMemory(), where: map[ib.GUID]subnet.Place{}, gone: map[ib.GUID]bool{}, bound: map[subnet.Place]ib.GUID{}, promised: map[string]subnet.Place{}}
	w.boot()
	return w
}

// boot starts core and subnet manager with what the store has.
func (w *world) boot() {
	st, err := w.store.Load()
	if err != nil {
		w.t.Fatal(err)
	}
	w.c, w.placements, w.todo, w.waiting, w.reports = New(Config{}), map[ib.GUID]subnet.Placement{}, nil, map[ib.GUID]bool{}, nil
	w.open, w.unsaved, w.view = map[uint64]Op{}, nil, nil
	w.step(Start{Records: st.Records})
	w.publish()
}

func (w *world) crash() {
	w.crashes++
	for name := range w.c.late.names {
		if _, ok := w.promised[name]; ok {
			w.kept++
		}
	}
	w.boot()
}

// dies reports whether both die at this point. They do so more often while the store lacks something.
func (w *world) dies() bool {
	if len(w.c.late.names) > 0 {
		return !w.calm && w.choose(6) == 0
	}
	return !w.calm && w.choose(40) == 0
}

// publish shows the core the subnet.
func (w *world) publish() {
	w.step(Published{snapshot(slices.Sorted(maps.Keys(w.gone)))})
}

// step passes one event to the core. The store answers later.
func (w *world) step(ev Event) {
	var out Output
	out.Reset()
	w.c.Step(w.now, ev, &out)
	if out.PersistGen != 0 {
		if w.unsaved != nil {
			w.t.Fatal("a second transaction before the first is stored")
		}
		if w.dies() {
			w.crash()
			return
		}
		if !w.calm && w.choose(12) == 0 {
			w.store.FailNext = 1
			w.full++
		}
		w.unsaved = &Persisted{out.PersistGen, w.store.Apply(out.Persist)}
		if w.dies() {
			w.crash()
			return
		}
	}
	w.due = out.Timer
	if out.Publish != nil {
		w.view = out.Publish
	}
	for _, a := range out.Replies {
		if _, ok := w.open[a.Tag]; !ok {
			w.t.Fatalf("a reply to %d, which nobody waits for: %+v", a.Tag, a)
		}
		w.promise(w.open[a.Tag], &a)
		delete(w.open, a.Tag)
	}
	if w.dies() {
		w.crash()
		return
	}
	w.take(&out)
	w.check()
}

// promise notes what a reply says.
func (w *world) promise(op Op, a *Reply) {
	switch op.(type) {
	case Finish, Move:
		for tag, next := range w.open { // more was asked for before this reply
			if tag > a.Tag && nameOf(next) == a.Interface.Name {
				return
			}
		}
		if a.Err == nil && !a.Waiting && a.Interface.Doing == "" {
			w.promised[a.Interface.Name] = a.Interface.Place
		}
	}
}

// stop ends the manager in order; the next one finds nothing late.
func (w *world) stop() {
	w.saved()
	w.step(Stop{})
	w.saved()
	if len(w.c.late.names) > 0 && w.full == 0 {
		w.t.Fatalf("not stored at the end: %v", w.c.late.names)
	}
	w.stops++
	w.boot()
}

// take is the subnet manager's SetPlacements.
func (w *world) take(out *Output) {
	if !out.PlacementsChanged {
		return
	}
	for _, l := range out.Put {
		if slices.Contains(out.Drop, l.GUID) {
			w.t.Fatalf("GUID %v is put and dropped", l.GUID)
		}
	}
	if out.All {
		clear(w.placements)
		w.todo = nil
	}
	for _, g := range out.Drop {
		if _, ok := w.placements[g]; !ok {
			w.t.Fatalf("GUID %v is dropped and has no placement", g)
		}
		delete(w.placements, g)
	}
	for _, l := range out.Put {
		w.placements[l.GUID] = l
		w.todo = append(w.todo, l.GUID)
	}
	// Hardware that no placement asks for is cleaned.
	for g := range w.where {
		if _, ok := w.placements[g]; !ok {
			delete(w.where, g)
		}
	}
}

// manage lets the subnet manager process one placement.
func (w *world) manage() {
	if len(w.todo) == 0 {
		return
	}
	i := w.choose(len(w.todo))
	g := w.todo[i]
	w.todo = slices.Delete(w.todo, i, i+1)
	l, ok := w.placements[g]
	if !ok {
		return
	}
	r := subnet.PlacementReport{GUID: g, Place: l.Place, State: subnet.PlacementPlaced, LID: ib.LID(1000 + g%1000)}
	holder := ib.GUID(0)
	for o, p := range w.where {
		if p == l.Place && o != g {
			holder = o
		}
	}
	switch {
	case l.Place == (subnet.Place{}):
		delete(w.where, g)
		r.LID = 0
	case w.gone[l.Place.Port]:
		r.State, r.Reason = subnet.PlacementWaiting, "its port is not there"
		w.waiting[g] = true
	case holder != 0:
		r.State, r.Reason = subnet.PlacementWaiting, "somebody else's still"
		w.waiting[g] = true
	case !w.calm && w.where[g] != l.Place && w.choose(3) == 0:
		w.refusals++
		r.State, r.Cause, r.Reason, r.LID = subnet.PlacementRefused, subnet.CauseNoLID, "test", 0
	default:
		w.where[g] = l.Place
	}
	r.Held = w.where[g]
	w.reports = append(w.reports, r)
}

// pause bounds the time between events, in milliseconds.
func (w *world) pause() int {
	if w.brisk {
		return 80
	}
	return 4000
}

// act makes one random event.
func (w *world) act() {
	switch w.choose(10) {
	case 0, 1:
		w.ask()
	case 2, 3:
		w.manage()
	case 4, 5:
		if len(w.reports) > 0 {
			n := 1 + w.choose(len(w.reports))
			list := w.reports[:n]
			w.reports = w.reports[n:]
			if w.dies() {
				w.crash()
				return
			}
			w.step(Reports{list})
		}
	case 6, 7:
		w.saved()
	case 8:
		if w.choose(30) == 0 {
			w.stop()
			return
		}
		w.now = w.now.Add(time.Duration(w.choose(w.pause())) * time.Millisecond)
		if w.due <= w.now {
			w.step(Timer{})
		}
	case 9:
		if h := hypers[w.choose(len(hypers))]; w.choose(3) > 0 {
			delete(w.gone, h)
		} else {
			w.gone[h] = true
			maps.DeleteFunc(w.where, func(_ ib.GUID, p subnet.Place) bool { return p.Port == h })
		}
		w.publish()
		w.wake()
	}
}

// wake lets the subnet manager retry placements that wait, and those that a returning
// hypervisor lost.
func (w *world) wake() {
	for _, g := range slices.Sorted(maps.Keys(w.placements)) {
		if w.waiting[g] || w.where[g] != w.placements[g].Place && !w.gone[w.placements[g].Place.Port] {
			w.todo = append(w.todo, g)
		}
	}
	clear(w.waiting)
}

func (w *world) saved() {
	if p := w.unsaved; p != nil {
		w.unsaved = nil
		w.step(*p)
	}
}

// ask requests up to four operations at a time.
func (w *world) ask() {
	var ev Requests
	for range 1 + w.choose(4) {
		w.tag++
		op := w.op()
		w.open[w.tag] = op
		delete(w.promised, nameOf(op))
		if d, ok := op.(Delete); ok {
			delete(w.promised, d.Name)
		}
		ev.List = append(ev.List, Request{w.tag, op})
	}
	w.step(ev)
}

func (w *world) op() Op {
	name := string(rune('a' + w.choose(12)))
	at := subnet.Place{Port: hypers[w.choose(len(hypers))], Function: uint16(w.choose(4))}
	if w.brisk && w.choose(2) == 0 {
		return Move{name, at}
	}
	switch w.choose(14) {
	case 0, 1:
		i := Interface{Name: name, LIDKind: subnet.LIDKind(w.choose(3)), Mode: subnet.MoveMode(w.choose(3))}
		if w.choose(3) == 0 {
			i.GUID = ib.GUID(0x7000 + w.choose(6))
		}
		if w.choose(4) == 0 {
			i.Aliases = []ib.GUID{ib.GUID(0x7000 + w.choose(8))}
		}
		if w.choose(2) == 0 {
			i.Keys = []Membership{{ib.PKey(1 + w.choose(3)), w.choose(2) == 0}}
		}
		if w.choose(4) == 0 {
			i.GUIDKind = FunctionGUID
			if w.choose(4) > 0 { // else it may be refused
				i.GUID, i.Aliases, i.LIDKind = 0, nil, subnet.SharedLID
			}
		}
		if w.choose(2) == 0 {
			i.Place = at
		}
		return Create{i}
	case 2, 3, 4:
		return Attach{name, at}
	case 5, 6, 7:
		return Migrate{name, at}
	case 8:
		return Finish{name}
	case 9:
		return Move{name, at}
	case 10:
		return RollBack{name}
	case 11:
		return Detach{name}
	case 12:
		switch w.choose(4) {
		case 0:
			return SetKeys{name, []Membership{{ib.PKey(1 + w.choose(3)), w.choose(2) == 0}}}
		case 1:
			return RemoveMembers{PKey: ib.PKey(1 + w.choose(3)), GUIDs: []ib.GUID{ib.GUID(0x7000 + w.choose(6))}, All: w.choose(4) == 0}
		default:
			return AddMembers{PKey: ib.PKey(1 + w.choose(3)), GUIDs: []ib.GUID{ib.GUID(0x7000 + w.choose(6))}, Full: w.choose(2) == 0, IPoIB: w.choose(2) == 0, Replace: w.choose(5) == 0}
		}
	default:
		return Delete{name, w.choose(2) == 0}
	}
}

// check checks the invariants of published and stored state.
func (w *world) check() {
	w.t.Helper()
	if w.view == nil {
		return
	}
	places, guids, journal := map[subnet.Place]string{}, map[ib.GUID]string{}, 0
	functions := map[subnet.Place]ib.GUID{}
	for _, f := range w.view.Functions {
		if was, ok := w.bound[f.Place]; ok && was != f.GUID {
			w.t.Fatalf("%v has GUID %v, and had %v", f.Place, f.GUID, was)
		}
		functions[f.Place] = f.GUID
		w.bound[f.Place] = f.GUID
	}
	if len(functions) != len(w.bound) {
		w.t.Fatalf("functions had GUIDs %v, and have %v", w.bound, functions)
	}
	last := ""
	for i := range w.view.All() {
		if i.Name <= last {
			w.t.Fatalf("%q comes after %q", i.Name, last)
		}
		last = i.Name
		for _, p := range []subnet.Place{i.Place, i.Dest} {
			if p.Function == 0 {
				continue
			}
			if o, twice := places[p]; twice {
				w.t.Fatalf("%v is %q's and %q's", p, o, i.Name)
			}
			places[p] = i.Name
		}
		for _, g := range append([]ib.GUID{i.GUID}, i.Aliases...) {
			if g == 0 && i.GUIDKind == FunctionGUID && (i.Place == subnet.Place{} || i.Doing == DoingAttach) {
				continue
			}
			if o, twice := guids[g]; twice || g == 0 {
				w.t.Fatalf("GUID %v is %q's and %q's", g, o, i.Name)
			}
			guids[g] = i.Name
		}
		if at := i.Place; i.GUIDKind == FunctionGUID {
			if i.Doing == DoingFinish {
				at = i.Dest
			}
			if g := functions[at]; i.GUID != g || i.DestGUID != functions[i.Dest] {
				w.t.Fatalf("%q is at %v, whose GUID is %v, and has %v", i.Name, at, g, i.GUID)
			}
		}
		if i.Doing != "" {
			journal++
		}
	}
	if journal != w.view.Journal {
		w.t.Fatalf("%d operations, and a journal of %d", journal, w.view.Journal)
	}
	for name, p := range w.promised {
		i := w.view.Interface(name)
		if i == nil || i.Place != p && (i.Doing != DoingFinish || i.Dest != p) || w.c.started && w.unsaved == nil && w.placements[i.GUID].Place != p {
			w.t.Fatalf("%q was answered as moved to %v, and is %+v", name, p, i)
		}
	}
	if w.unsaved == nil {
		w.stored()
	}
}

// stored compares what is published with what a core that starts now would have.
func (w *world) stored() {
	w.t.Helper()
	st, err := w.store.Load()
	if err != nil {
		w.t.Fatal(err)
	}
	var out Output
	fresh := New(Config{})
	fresh.Step(0, Start{Records: st.Records}, &out)
	for _, name := range slices.Sorted(maps.Keys(w.c.late.names)) {
		if is, e := w.view.Interface(name), fresh.named[name]; is != nil && e != nil && e.Doing == DoingFinish && e.Dest == is.Place {
			fresh.Step(0, Reports{[]subnet.PlacementReport{{GUID: e.GUID, Place: e.Dest, State: subnet.PlacementPlaced, LID: is.LID}}}, &out)
		} else {
			w.t.Fatalf("%q moved, and in the store it is %+v", name, e)
		}
	}
	if len(out.Notices) > 0 && out.Notices[0].Warn {
		w.t.Fatalf("the store: %v", out.Notices)
	}
	if a, b := durable(w.view), durable(out.Publish); a != b {
		w.t.Fatalf("published:\n%sstored:\n%s", a, b)
	}
	put := map[ib.GUID]subnet.Placement{}
	for _, l := range out.Put {
		put[l.GUID] = l
	}
	if !maps.EqualFunc(put, w.placements, func(a, b subnet.Placement) bool { return equalPlacement(&a, &b) }) {
		w.t.Fatalf("a restart would put %v, and these are put: %v", put, w.placements)
	}
	if a, b := fmt.Sprint(out.Partitions), fmt.Sprint(w.c.members.list); a != b {
		w.t.Fatalf("a restart would tell the partitions %v, and these were: %v", a, b)
	}
	if a, b := out.Publish.Pools.GUIDsUsed, w.view.Pools.GUIDsUsed; a != b {
		w.t.Fatalf("%d GUIDs used, and after a restart %d", b, a)
	}
}

// durable is the part of a View that survives a restart.
func durable(v *View) string {
	var b strings.Builder
	for i := range v.All() {
		x := *i
		x.Placement, x.Reason = 0, ""
		fmt.Fprintf(&b, "%+v\n", x)
	}
	fmt.Fprintf(&b, "%v\n%v\n", v.Partitions, v.Functions)
	return b.String()
}

// settle runs until nothing is in progress, without faults, and checks the final state.
func (w *world) settle() {
	w.calm = true
	clear(w.gone)
	w.store.FailNext = 0
	for range 50 {
		w.saved()
		w.publish()
		w.wake()
		for len(w.todo) > 0 {
			w.manage()
		}
		w.saved()
		list := w.reports
		w.reports = nil
		w.step(Reports{list})
		w.saved()
		w.now = w.now.Add(time.Second)
		w.step(Timer{})
	}
	w.saved()
	if len(w.open) > 0 || w.view.Journal != 0 || len(w.todo)+len(w.waiting) > 0 {
		w.t.Fatalf("not settled: requests %v, journal %d, placements to do %v, waiting %v\n%s", w.open, w.view.Journal, w.todo, w.waiting, durable(w.view))
	}
	for i := range w.view.All() {
		at := w.where[i.GUID]
		if at != i.Place || (i.State == Created || i.State == Detached) != (at == subnet.Place{}) {
			w.t.Fatalf("%q is %v at %v, and the hardware has it at %v", i.Name, i.State, i.Place, at)
		}
	}
	if len(w.where) > w.view.Len() {
		w.t.Fatalf("hardware holds %v, which belongs to no interface", w.where)
	}
}

// TestCrashes: under random operations, refusals, unplugged hosts, store failures and crashes,
// no address is used twice, everything published is stored, and at the end each interface is at
// one place and the journal is empty.
func TestCrashes(t *testing.T) {
	worlds, steps := 150, 400
	switch {
	case testing.Short():
		worlds = 20
	case os.Getenv("HEDDLE_LONG") != "":
		worlds = 3000
	}
	crashes, refusals, full, stops, promised := 0, 0, 0, 0, 0
	for seed := range worlds {
		t.Run("", func(t *testing.T) {
			rng := rand.New(rand.NewPCG(uint64(seed), 5))
			w := newWorld(t, rng.IntN)
			w.brisk = seed%2 == 1
			defer func() {
				if t.Failed() {
					t.Logf("seed %d", seed)
				}
			}()
			for range steps {
				w.act()
			}
			w.settle()
			crashes, refusals, full, stops, promised = crashes+w.crashes, refusals+w.refusals, full+w.full, stops+w.stops, promised+w.kept
		})
	}
	t.Logf("%d crashes, %d refusals, %d writes that failed, %d ends in order; %d moves that were answered and stored later when a manager died", crashes, refusals, full, stops, promised)
	if crashes < worlds || refusals < worlds || full < worlds || stops < worlds/2 || promised < worlds/5 {
		t.Error("too few faults occurred for a meaningful test")
	}
}

// FuzzOps: any sequence of operations and faults.
func FuzzOps(f *testing.F) {
	for seed := range 8 {
		rng := rand.New(rand.NewPCG(uint64(seed), 6))
		b := make([]byte, 600)
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		i := 0
		w := newWorld(t, func(n int) int {
			if i++; i > len(data) {
				return n / 2
			}
			return int(data[i-1]) % n
		})
		for i < min(len(data), 2000) {
			w.act()
		}
		w.settle()
	})
}
