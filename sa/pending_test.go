package sa_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/mad"
	"heddle/sa"
	"heddle/store"
	"heddle/subnet"
)

// storeBed is a core whose writes end when the test says so.
type storeBed struct {
	t       *testing.T
	cfg     sa.Config
	core    *sa.Core
	store   *store.Memory
	snap    *subnet.Snapshot
	now     mad.Time
	timer   mad.Time
	ops     []store.Op // that are being written
	gen     uint64     // of the write under way; 0: none
	writes  int
	view    *sa.View
	groups  []subnet.Group
	told    int // how often groups were passed on
	reply   func(r *sa.Reply)
	replies []sa.Reply
}

func newStoreBed(t *testing.T, cfg sa.Config, s *subnet.Snapshot) *storeBed {
	w := &storeBed{t: t, cfg: usual(cfg), store: store.NewMemory(), snap: s}
	w.reply = func(r *sa.Reply) { w.replies = append(w.replies, *r) }
	w.start()
	return w
}

// start starts a core on what is stored, as after a failure.
func (w *storeBed) start() {
	st, err := w.store.Load()
	if err != nil {
		w.t.Fatal(err)
	}
	w.core, w.gen, w.ops = sa.NewCore(w.cfg), 0, nil
	w.step(sa.Start{Records: st.Records})
	w.step(sa.Published{Snap: w.snap})
}

func (w *storeBed) step(ev sa.Event) {
	var out sa.Output
	out.Reset()
	w.core.Step(w.now, ev, &out)
	if len(out.Persist) > 0 {
		if w.gen != 0 {
			w.t.Fatal("a second write began before the first one had ended")
		}
		w.gen, w.ops = out.PersistGen, out.Persist
		w.writes++
	}
	if out.Publish != nil {
		w.view = out.Publish
	}
	if out.GroupsChanged {
		w.groups = out.Groups
		w.told++
	}
	w.timer = out.Timer
	for i := range out.Replies {
		w.reply(&out.Replies[i])
	}
}

// written ends the write under way.
func (w *storeBed) written(err error) {
	gen := w.gen
	if err == nil {
		err = w.store.Apply(w.ops)
	}
	w.gen, w.ops = 0, nil
	w.step(sa.Persisted{Gen: gen, Err: err})
}

// idle ends writes until there is none.
func (w *storeBed) idle() {
	for w.gen != 0 {
		w.written(nil)
	}
}

func (w *storeBed) ask(from ib.LID, list ...[]byte) []ib.Status {
	w.replies = nil
	var reqs []sa.Request
	for _, q := range list {
		reqs = append(reqs, sa.Request{From: mad.Addr{LID: from, QP: 1}, Data: q})
	}
	w.step(sa.Requests{List: reqs})
	return w.statuses()
}

func (w *storeBed) statuses() (list []ib.Status) {
	for _, r := range w.replies {
		list = append(list, status(r.Data))
	}
	w.replies = nil
	return list
}

// TestUnchangedIsAnsweredNow: while a write is under way, requests that change nothing are answered
// immediately: joins, subscriptions, services. One whose record is being written waits.
func TestUnchangedIsAnsweredNow(t *testing.T) {
	for _, must := range []bool{false, true} {
		w := newStoreBed(t, sa.Config{SAKey: saKey, MustSave: must}, up(5))
		w.idle()
		join := func(mgid ib.GID, lid ib.LID, state uint8) []byte {
			m := joining(mgid, lid, state)
			return ask(ib.MethodSet, wire.AttrMCMemberRecord, maskCreate, &m)
		}
		service := func(lid ib.LID) []byte {
			return set(wire.AttrServiceRecord, wire.ServiceCompServiceID|wire.ServiceCompServiceGID, &wire.ServiceRecord{ServiceID: uint64(lid), ServiceGID: hostGID(lid)})
		}
		want := func(what string, got []ib.Status, want ...ib.Status) {
			t.Helper()
			if !slices.Equal(got, want) {
				t.Errorf("MustSave %v, %s: answers %v, want %v", must, what, got, want)
			}
		}
		one := mgidOf("1")
		w.ask(2, join(one, 2, wire.JoinFull), service(2), inform(nil))
		w.ask(3, join(one, 3, wire.JoinFull))
		w.idle()
		want("at first", w.statuses(), 0, 0, 0, 0)

		want("a join of a new member", w.ask(4, join(one, 4, wire.JoinFull)))
		if w.gen == 0 {
			t.Fatal("the new member is not being stored")
		}
		before := w.writes
		want("a member, its service and its subscription", w.ask(2, join(one, 2, wire.JoinFull), service(2), inform(nil)), 0, 0, 0)
		want("a lesser state", w.ask(3, join(one, 3, wire.JoinFull)), 0)
		want("the new member once more", w.ask(4, join(one, 4, wire.JoinFull)))
		want("a further state", w.ask(3, join(one, 3, wire.JoinFull|wire.JoinNon)))
		want("the first state, while the further one waits", w.ask(3, join(one, 3, wire.JoinFull)))
		m := joining(one, 2, wire.JoinFull)
		want("a member leaves and joins", w.ask(2, ask(ib.MethodDelete, wire.AttrMCMemberRecord, maskJoin, &m), join(one, 2, wire.JoinFull)))
		want("and once more", w.ask(2, join(one, 2, wire.JoinFull)))
		if w.writes != before {
			t.Errorf("MustSave %v: %d further writes before the first one ended", must, w.writes-before)
		}
		told := w.told
		w.written(nil)
		want("the first write ended", w.statuses(), 0, 0) // both joins of the new member
		if must != (w.told > told) {
			t.Errorf("MustSave %v: groups were passed on %d times when a write ended", must, w.told-told)
		}
		w.written(nil)
		want("the second write ended", w.statuses(), 0, 0, 0, 0, 0)
		if w.gen != 0 || w.writes != before+1 {
			t.Errorf("MustSave %v: %d writes for all that came meanwhile", must, w.writes-before)
		}
		if g := w.groups[len(w.groups)-1]; len(g.Members) != 3 {
			t.Errorf("MustSave %v: %d members are routed", must, len(g.Members))
		}

		w.ask(2, join(mgidOf("2"), 2, wire.JoinFull))
		want("a member, while the store fails", w.ask(3, join(one, 3, wire.JoinFull)), 0)
		w.written(store.ErrClosed)
		w.replies = nil
		want("a member, when the store has failed", w.ask(3, join(one, 3, wire.JoinFull)), 0)
		if must {
			want("a member whose join is not stored", w.ask(2, join(mgidOf("2"), 2, wire.JoinFull)))
		}
	}
}

// TestWaitPerRequester: answers to one requester that wait for the store are limited in number.
func TestWaitPerRequester(t *testing.T) {
	w := newStoreBed(t, sa.Config{MustSave: true, WaitPerRequester: 3}, up(5))
	w.idle()
	register := func(lid ib.LID, id uint64) []byte {
		return set(wire.AttrServiceRecord, wire.ServiceCompServiceID|wire.ServiceCompServiceGID, &wire.ServiceRecord{ServiceID: id, ServiceGID: hostGID(lid)})
	}
	for round := range uint64(3) {
		var list [][]byte
		for id := range uint64(5) {
			list = append(list, register(2, round*10+id))
		}
		if got := w.ask(2, list...); !slices.Equal(got, []ib.Status{ib.StatusBusy, ib.StatusBusy}) || w.core.Waiting() != 3 {
			t.Fatalf("round %d: %v at once, %d wait", round, got, w.core.Waiting())
		}
		if got := w.ask(3, register(3, 100+round)); len(got) != 0 || w.core.Waiting() != 4 {
			t.Fatalf("round %d, another requester: %v, %d wait", round, got, w.core.Waiting())
		}
		w.idle()
		if got := w.statuses(); len(got) != 4 || w.core.Waiting() != 0 {
			t.Fatalf("round %d: %v, %d wait", round, got, w.core.Waiting())
		}
	}
}

// memberOp is a request about one membership, or a look at it: join states that are added, removed, or
// that the port has afterward.
type memberOp struct {
	key      int
	add, sub uint8
	has      uint8 // as the answer says, if known
	known    bool  // the answer says success
	at, done int64
}

// memberModel is the join states of memberships, each on its own.
var memberModel = porcupine.Model{
	Partition: func(all []porcupine.Operation) [][]porcupine.Operation {
		parts := map[int][]porcupine.Operation{}
		for _, o := range all {
			k := o.Input.(*memberOp).key
			parts[k] = append(parts[k], o)
		}
		var list [][]porcupine.Operation
		for _, p := range parts {
			list = append(list, p)
		}
		return list
	},
	Init: func() any { return uint8(0) },
	Step: func(state, in, _ any) (bool, any) {
		o, s := in.(*memberOp), state.(uint8)
		if o.known && o.sub&^s != 0 {
			return false, s // it may leave only what it has
		}
		s = s&^o.sub | o.add
		return !o.known || s == o.has, s
	},
}

// TestPendingCampaign: joins and leaves in random order, while writes take long, fail, or are lost
// with the manager that made them. Each membership is linearizable, also across the failures: what was
// acknowledged is stored, and a join that was answered without a write rests on nothing that is lost.
func TestPendingCampaign(t *testing.T) {
	now, later := 0, 0
	seeds := uint64(100)
	if testing.Short() {
		seeds = 30
	}
	for seed := range seeds {
		rng := rand.New(rand.NewPCG(seed, 21))
		const groups, hosts = 2, 3
		w := newStoreBed(t, sa.Config{MustSave: true}, up(hosts+1))
		mgids := []ib.GID{gid("ff12:a01c::1"), gid("ff12:a01c::2")}
		for _, mgid := range mgids { // one member stays, so the group does
			m := joining(mgid, 2+hosts, wire.JoinFull)
			w.ask(2+hosts, ask(ib.MethodSet, wire.AttrMCMemberRecord, maskCreate, &m))
		}
		w.idle()
		var ops []*memberOp
		var clock int64
		var round bool // a request is being processed
		w.reply = func(r *sa.Reply) {
			i := (*ib.MAD)(r.Data).TID()
			if i >= uint64(len(ops)) {
				return
			}
			o := ops[i]
			if st := status(r.Data); st != 0 {
				if st != ib.StatusBusy { // refused: it had no effect
					o.add, o.sub = 0, 0
				}
				return
			}
			var m wire.MCMemberRecord
			if err := m.Decode(r.Data[wire.DataOffset:]); err != nil {
				t.Fatal(err)
			}
			o.has, o.known, o.done = m.JoinState, true, 2*clock+1
			if round && o.add != 0 && w.gen != 0 {
				now++
			} else if o.add != 0 {
				later++
			}
		}
		request := func() sa.Request {
			g, lid := rng.IntN(groups), ib.LID(2+rng.IntN(hosts))
			o := &memberOp{key: g*hosts + int(lid), at: 2 * clock, done: math.MaxInt64}
			state := []uint8{wire.JoinFull, wire.JoinFull, wire.JoinNon}[rng.IntN(3)]
			m := joining(mgids[g], lid, state)
			method, mask := ib.MethodSet, maskCreate
			if o.add = state; rng.IntN(5) == 0 {
				method, mask, o.add, o.sub = ib.MethodDelete, maskJoin, 0, state
			}
			q := ask(method, wire.AttrMCMemberRecord, mask, &m)
			(*ib.MAD)(q).SetTID(uint64(len(ops)))
			ops = append(ops, o)
			return sa.Request{From: mad.Addr{LID: lid, QP: 1}, Data: q}
		}
		for range 60 {
			clock++
			switch k := rng.IntN(20); {
			case k < 12:
				var list []sa.Request
				for range 1 + rng.IntN(3) {
					list = append(list, request())
				}
				round = true
				w.step(sa.Requests{List: list})
				round = false
			case k < 17 && w.gen != 0:
				if rng.IntN(6) == 0 {
					w.written(store.ErrClosed)
				} else {
					w.written(nil)
				}
			case k == 17:
				w.now = w.now.Add(11 * time.Second)
				w.step(sa.Timer{})
			case k == 18: // the manager dies; what it was writing may be stored, or not
				if w.gen != 0 && rng.IntN(2) == 0 {
					if err := w.store.Apply(w.ops); err != nil {
						t.Fatal(err)
					}
				}
				w.start()
			}
		}
		w.start()
		w.idle()
		for g := range groups {
			for lid := ib.LID(2); lid < 2+hosts; lid++ {
				o := &memberOp{key: g*hosts + int(lid), known: true, at: 2*clock + 2, done: 2*clock + 3}
				for _, x := range w.view.Groups {
					if x.MGID == mgids[g] {
						for _, m := range x.Members {
							if m.PortGID == hostGID(lid) {
								o.has = m.JoinState
							}
						}
					}
				}
				ops = append(ops, o)
			}
		}
		var list []porcupine.Operation
		for _, o := range ops {
			list = append(list, porcupine.Operation{Input: o, Call: o.at, Output: o, Return: o.done})
		}
		if !porcupine.CheckOperations(memberModel, list) {
			t.Fatalf("seed %d: not linearizable", seed)
		}
	}
	if uint64(now) < seeds/2 || uint64(later) < 3*seeds {
		t.Errorf("%d joins were answered during a write, %d others", now, later)
	}
}
