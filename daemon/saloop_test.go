package daemon

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/mad"
	"heddle/sa"
	"heddle/shell"
	"heddle/sm"
	"heddle/store"
	"heddle/subnet"
)

// joinRequest makes the port with that LID a full member of group number n,
// which is made if it is not there.
func joinRequest(s *subnet.Snapshot, lid ib.LID, n int) *mad.Packet {
	var m ib.MAD
	wire.New(&m, ib.MethodSet, wire.AttrMCMemberRecord, 0, wire.MCMemberCompMGID|wire.MCMemberCompPortGID|wire.MCMemberCompJoinState|
		wire.MCMemberCompQKey|wire.MCMemberCompTClass|wire.MCMemberCompPKey|wire.MCMemberCompSL|wire.MCMemberCompFlowLabel)
	mgid := ib.MakeGID(0xFF12_A01C_0000_0000, ib.GUID(n))
	r := wire.MCMemberRecord{
		MGID: mgid, PortGID: ib.MakeGID(s.Prefix, s.Ports[s.PortByLID(lid)].GUID), QKey: 0x0B1B, PKey: ib.PKeyDefaultFull, JoinState: 1,
	}
	r.Put(wire.Data(&m))
	m.SetTID(uint64(n))
	return &mad.Packet{Addr: mad.Addr{LID: lid, QP: 1}, LocalQP: 1, Data: m[:]}
}

// watchedStore reports each Apply, and fails those that fail selects.
type watchedStore struct {
	store.Store
	applied func(ops []store.Op)
	fail    error
}

func (w *watchedStore) Apply(ops []store.Op) error {
	w.applied(ops)
	if w.fail != nil {
		return w.fail
	}
	return w.Store.Apply(ops)
}

// receiveSA distributes a packet of the SA class, as the receiver does.
func receiveSA(d *Daemon, p *mad.Packet) {
	if kind := shell.KindOf(p); kind != shell.Other && kind != shell.SMP {
		d.receiveSA(p, kind)
	}
}

// smCore replaces the subnet manager's core: it records its events, and answers each with the
// same output.
type smCore struct {
	events []sm.Event
	says   sm.Output
}

func (c *smCore) Step(_ mad.Time, ev sm.Event, out *sm.Output) {
	c.events = append(c.events, ev)
	*out = c.says
}

// smSays carries out an output of the subnet manager's core.
func smSays(d *Daemon, out sm.Output) {
	out.Timer = mad.Never
	shell.NewSM(&smCore{says: out}, newLoop(context.Background(), d), &d.shared).Step(sm.Timer{})
}

// forSM takes the events that wait for the subnet manager's core.
func forSM(d *Daemon) []sm.Event {
	c := &smCore{says: sm.Output{Timer: mad.Never}}
	shell.NewSM(c, newLoop(context.Background(), d), &d.shared).Start(nil, nil)
	return c.events
}

// routed takes the groups that the subnet manager is to route.
func routed(d *Daemon) []sm.Group {
	for _, ev := range forSM(d) {
		if g, ok := ev.(sm.SetGroups); ok {
			return g.Groups
		}
	}
	return nil
}

// TestChangesAreStoredTogether: requests that wait together share one write to the store, and
// are answered after it. Later queries see the change. A full disk does not prevent joins.
func TestChangesAreStoredTogether(t *testing.T) {
	for _, fail := range []error{nil, errors.New("no space")} {
		t.Run(fmt.Sprint(fail), func(t *testing.T) {
			const groups = 100
			snap := bringUp(t, "xgft", "2", "4,4", "1,2")
			from := lids(snap)
			var log []string
			var d *Daemon
			d, _ = newPiped(func(p *mad.Packet) error {
				if statusOf(p.Data) != 0 {
					t.Errorf("group %d: status %v", tidOf(p.Data), statusOf(p.Data))
				}
				if n := len(d.View().Groups); n != groups+1 { // and the broadcast group
					t.Errorf("an answer says that a group is there, queries see %d", n)
				}
				if log[len(log)-1] != "answer" {
					log = append(log, "answer")
				}
				return nil
			}, Config{})
			d.cfg.Store = &watchedStore{Store: d.cfg.Store, fail: fail, applied: func(ops []store.Op) { log = append(log, "apply") }}
			d.shared.Snap.Store(snap)
			l := newSALoop(d)
			l.shell.Start(nil, 0)
			l.shell.Mail()
			l.settle()
			for n := range groups {
				receiveSA(d, joinRequest(snap, from[n%len(from)], n+1))
			}
			forSM(d)
			log = nil
			l.change()
			l.settle()
			if !slices.Equal(log, []string{"apply", "answer"}) {
				t.Errorf("what happened: %v", log)
			}
			if g := routed(d); len(g) != groups {
				t.Errorf("the manager is to route %d groups, want %d", len(g), groups)
			}
			if n := sum(d.sa.changing.took[attrSlotOf[wire.AttrMCMemberRecord]].buckets[:]); n != groups {
				t.Errorf("%d answers counted, want %d", n, groups)
			}
		})
	}
}

// TestRestoredBeforeTheFirstAnswer: the first query sees the stored state, and the manager gets
// it before its first sweep.
func TestRestoredBeforeTheFirstAnswer(t *testing.T) {
	snap := bringUp(t, "xgft", "1", "4", "1")
	from := lids(snap)
	answers := 0
	d, _ := newPiped(func(*mad.Packet) error { answers++; return nil }, Config{})
	d.shared.Snap.Store(snap)
	l := newSALoop(d)
	l.shell.Start(nil, 0)
	l.shell.Mail()
	l.settle()
	receiveSA(d, joinRequest(snap, from[1], 5))
	l.change()
	l.settle()
	if answers != 1 {
		t.Fatalf("%d answers", answers)
	}
	before := d.View().Groups[1] // after the broadcast group

	st := d.cfg.Store
	d, _ = newPiped(func(*mad.Packet) error { return nil }, Config{})
	d.cfg.Store = st
	kept, err := st.Load()
	if err != nil {
		t.Fatal(err)
	}
	d.administer(kept.Records)()
	if v := d.View(); len(v.Groups) != 2 || v.Groups[1].MGID != before.MGID || v.Groups[1].MLID != before.MLID || len(v.Groups[1].Members) != 1 {
		t.Errorf("restored %+v, want %+v", v.Groups, before)
	}
	if g := routed(d); len(g) != 1 || g[0].MLID != before.MLID {
		t.Errorf("the manager gets %+v", g)
	}
}

// TestTrapsNeverHoldTheManager: traps that find the SA's queue full are dropped and counted.
func TestTrapsNeverHoldTheManager(t *testing.T) {
	d, _ := newPiped(nil, Config{})
	for range shell.MaxTraps + 10 {
		smSays(d, sm.Output{Traps: make([]sm.Trap, 1)})
	}
	if n := d.sa.lostTraps.Load(); n != 10 {
		t.Errorf("%d traps lost, want 10", n)
	}
}

// TestSetOptions: the next answer uses the new options, with the old key.
func TestSetOptions(t *testing.T) {
	snap := bringUp(t, "xgft", "1", "4", "1")
	from := lids(snap)
	var caching uint8
	d, _ := newPiped(func(p *mad.Packet) error {
		var r wire.PathRecord
		if err := r.Decode(p.Data[wire.DataOffset:]); err != nil {
			t.Error(err)
		}
		caching = r.Reserved3
		return nil
	}, Config{SA: &sa.Options{SAKey: 7}})
	d.shared.Snap.Store(snap)
	w := worker{d: d, stats: &d.sa.workers[0]}
	for _, want := range []uint8{0, 1} {
		d.SetOptions(sa.Options{PathCaching: want, SAKey: 9})
		w.serve(&query{p: pathQuery(from[0], from[1], 1)}, 0)
		if caching != want {
			t.Errorf("PathCaching %d, want %d", caching, want)
		}
	}
	if k := d.options.Load().SAKey; k != 7 {
		t.Errorf("SAKey became %d", k)
	}
}

func sum(b []atomic.Uint64) (n uint64) {
	for i := range b {
		n += b[i].Load()
	}
	return n
}
