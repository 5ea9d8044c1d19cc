package sa_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/partition"
	"heddle/sa"
	"heddle/store"
	"heddle/subnet"
)

// TestGroupShares: a host that creates groups endlessly leaves groups and MLIDs for
// others, is refused in time, and uses up nothing of the port in whose name it asks.
func TestGroupShares(t *testing.T) {
	s := up(5)
	for i := range s.Ports {
		s.Ports[i].PKeys = []ib.PKey{0xFFFF, 0x8005}
	}
	w := newTestbed(t, sa.Config{}, s) // 1,024 MLIDs
	n := 0
	more := func(from, lid ib.LID) ib.Status {
		n++
		w.notices = nil
		_, st := w.set(from, maskCreate, joining(gid(fmt.Sprintf("ff12:a01c::%x", n)), lid, wire.JoinFull))
		return st
	}
	for n < 4096 {
		if st := more(2, 3); st != 0 {
			t.Fatalf("group %d: status %v", n, st)
		}
	}
	if st := more(2, 2); st != 0x0100 {
		t.Errorf("one too many: status %v", st)
	}
	if _, st := w.set(2, maskJoin, joining(bcast, 2, wire.JoinFull)); st != 0x0100 {
		t.Errorf("one too many, of a group that is there: status %v", st)
	}
	mlids := map[ib.LID]bool{}
	for _, g := range w.view.Groups {
		mlids[g.MLID] = true
	}
	if len(mlids) > 600 {
		t.Errorf("it has %d of 1,024 MLIDs", len(mlids))
	}
	// The others, with groups that agree with none of those.
	for lid := ib.LID(3); lid <= 6; lid++ {
		for range 16 {
			n++
			r := joining(gid(fmt.Sprintf("ff12:a01c::%x", n)), lid, wire.JoinFull)
			r.PKey = 0x8005
			if out := w.must(lid, maskCreate, r); mlids[out.MLID] {
				t.Fatalf("LID %d is to share MLID %v", lid, out.MLID)
			}
		}
	}
	// Nothing is left behind.
	for i := 1; i <= 4096; i++ {
		w.notices = nil
		if _, st := w.leave(2, maskJoin, joining(gid(fmt.Sprintf("ff12:a01c::%x", i)), 3, wire.JoinFull)); st != 0 {
			t.Fatalf("leaving group %d: %v", i, st)
		}
	}
	if st := more(2, 2); st != 0 {
		t.Errorf("after leaving: %v", st)
	}
}

// TestParkedByPort: queries for many tables delay only their own port, and a long
// request does not keep its extra megabytes.
func TestParkedByPort(t *testing.T) {
	s := snapshot(2, 0)
	r := newFixture(t, s, sa.Config{})
	var tid byte
	ask := func(from ib.LID) (busy bool) {
		tid++ // one that is repeated waits once
		q := ask(ib.MethodGet, wire.AttrSLtoVLRecord, wire.SLtoVLCompLID, &wire.SLtoVLRecord{LID: 1})
		q[26], q[15] = wire.RMPPActive, tid
		r.replies = nil
		r.step(sa.Requests{List: []sa.Request{{From: mad.Addr{LID: from, QP: 1}, Data: append(q, make([]byte, 1<<20)...)}}})
		return len(r.replies) == 1 && status(r.replies[0].Data) == ib.StatusBusy
	}
	for i := range 16 {
		if ask(2) {
			t.Fatalf("BUSY after %d", i)
		}
	}
	if !ask(2) {
		t.Error("the 17th waits too")
	}
	if ask(3) {
		t.Error("another host is told BUSY")
	}
	if n := r.core.Parked(); n != 17*ib.MADLen {
		t.Errorf("%d bytes wait", n)
	}
}

// TestStandbySendsNothing: after losing the mastership nothing in progress is sent, and
// nothing is lost.
func TestStandbySendsNothing(t *testing.T) {
	s := snapshot(4, 0)
	r := newFixture(t, s, sa.Config{})
	for lid := ib.LID(2); lid <= 3; lid++ {
		r.want(lid, set(wire.AttrInformInfo, 0, &wire.InformInfo{
			LIDRangeBegin: wire.InformAllLIDs, IsGeneric: 1, Subscribe: 1, Type: wire.InformAllTypes, TrapNumber: wire.InformAllTraps,
			Producer: wire.InformAllProducers,
		}), 0)
	}
	r.publish(without(s, 3)) // a subscriber is away; the other one hears of it
	r.publish(s)
	r.publish(without(s, 3))
	if len(r.sends) == 0 {
		t.Fatal("no Report")
	}
	standby := clone(s)
	standby.State, standby.Up = subnet.Standby, false
	r.publish(standby)
	r.sends, r.replies = nil, nil
	r.until(mad.Time(time.Hour))
	if len(r.sends)+len(r.replies) != 0 {
		t.Errorf("%d Reports and %d replies of a manager that is not the master", len(r.sends), len(r.replies))
	}
	if len(r.view.Subs) != 2 {
		t.Errorf("%d subscriptions are left", len(r.view.Subs))
	}
	r.publish(clone(s))
	r.step(sa.Trap{Notice: smp.NewTrap(smp.TrapPortStateChange, smp.ProducerSwitch, 1, smp.DetailLID{LID: 1})})
	if len(r.sends) != 2 {
		t.Errorf("%d Reports as the master again", len(r.sends))
	}
}

// TestStoreFailsTemporarily: changes that the store rejected are stored when it works
// again, the last of each record, at the latest after a retry interval.
func TestStoreFailsTemporarily(t *testing.T) {
	w := newTestbed(t, sa.Config{}, up(3))
	broken := errors.New("no space left on device")
	fail := true
	step := func(ev sa.Event) {
		for ev != nil {
			w.out.Reset()
			w.core.Step(w.now, ev, &w.out)
			ev = nil
			if len(w.out.Persist) > 0 {
				p := sa.Persisted{Gen: w.out.PersistGen, Err: broken}
				if !fail {
					p.Err = w.store.Apply(w.out.Persist)
				}
				ev = p
			}
			if w.out.Publish != nil {
				w.view = w.out.Publish
			}
			w.timer = w.out.Timer
		}
	}
	ask := func(m ib.Method, mask wire.CompMask, r wire.MCMemberRecord) {
		step(sa.Requests{List: requests(m, mask, r)})
	}
	other := gid("ff12:a01c::2")
	fail = false
	ask(ib.MethodSet, maskCreate, joining(other, 2, wire.JoinFull))
	fail = true
	ask(ib.MethodSet, maskCreate, joining(ours, 2, wire.JoinFull))
	ask(ib.MethodDelete, maskJoin, joining(other, 2, wire.JoinFull))
	ask(ib.MethodSet, maskJoin, joining(ours, 3, wire.JoinFull))
	ask(ib.MethodDelete, maskJoin, joining(ours, 3, wire.JoinFull))
	fail = false
	for _, by := range []string{"the next change", "time"} {
		if by == "time" {
			fail = true
			ask(ib.MethodDelete, maskJoin, joining(ours, 2, wire.JoinFull))
			fail = false
			if w.timer == mad.Never {
				t.Fatal("no timer")
			}
			w.now = w.timer
			step(sa.Timer{})
		} else {
			ask(ib.MethodSet, maskJoin, joining(ours, 4, wire.JoinFull))
		}
		want := dump(w.view)
		x := newTestbed(t, sa.Config{}, nil)
		x.store = w.store
		x.start()
		if got := dump(x.view); got != want {
			t.Errorf("after %s the store has\n%swant\n%s", by, got, want)
		}
		if w.timer != mad.Never {
			t.Errorf("after %s something is still to be done at %v", by, w.timer)
		}
	}
	if n := len(w.records(store.TableMembers)); n != 1 {
		t.Errorf("%d members are stored", n)
	}
}

// TestLeaseOverClocks: a clock that was set back between two runs makes no
// lease longer than it is.
func TestLeaseOverClocks(t *testing.T) {
	r := newFixture(t, snapshot(2, 0), sa.Config{})
	rec := &wire.ServiceRecord{ServiceID: 7, ServiceGID: r.snap.GID(r.snap.PortByLID(2)), ServiceLease: 60}
	r.want(2, set(wire.AttrServiceRecord, wire.ServiceCompServiceID|wire.ServiceCompServiceGID|wire.ServiceCompServiceLease, rec), 0)
	r.wall -= int64(10 * 365 * 24 * time.Hour)
	r.restart()
	r.publish(r.snap)
	r.until(mad.Time(61 * time.Second))
	if n := len(r.view.Services); n != 0 {
		t.Errorf("%d services after their lease", n)
	}
}

// TestForeignPartitions: no requester can join, create or discover, by proxy, alias or
// guessing, anything of a partition that it does not belong to.
func TestForeignPartitions(t *testing.T) {
	s := up(4)
	s.Partitions = &partition.Policy{Partitions: []partition.Partition{
		{Name: "tenant", PKey: 5, Members: []partition.Member{{Kind: partition.Port, GUID: 0xA11A5, As: partition.Full}}},
		s.Partitions.Partitions[0],
	}}
	for i := range s.Ports {
		s.Ports[i].Info.GUIDCap = 8
	}
	port(s, 3).PKeys = []ib.PKey{0xFFFF, 0x8005}
	port(s, 5).PKeys = nil // not read
	w := newTestbed(t, sa.Config{SAKey: 7}, s)
	r := joining(ours, 3, wire.JoinFull)
	r.PKey = 0x8005
	if _, st := w.set(2, maskCreate, r); st != 0x0200 {
		t.Errorf("founding by proxy: %v", st)
	}
	w.must(3, maskCreate, r)
	for _, lid := range []ib.LID{2, 5} {
		if _, st := w.set(lid, maskJoin, joining(ours, 3, wire.JoinSendOnly)); st != 0x0200 {
			t.Errorf("LID %d joins by proxy: %v", lid, st)
		}
		if _, st := w.set(lid, maskJoin, joining(ours, lid, wire.JoinFull)); st != 0x0200 {
			t.Errorf("LID %d joins: %v", lid, st)
		}
		if b := w.get(lid, ib.MethodGetTable, wire.AttrMCMemberRecord, wire.MCMemberCompMGID, &r, 0); len(records(t, b)) != 0 {
			t.Errorf("LID %d sees the group", lid)
		}
	}
	bc := joining(gid("ff12:401b:8005::ffff:ffff"), 2, wire.JoinFull)
	if _, st := w.set(2, maskCreate, bc); st != 0x0200 {
		t.Errorf("founding another partition's broadcast group: %v", st)
	}
	// Who is a member is not to be found out port by port.
	in := joining(bcast, 3, wire.JoinFull)
	w.must(3, maskJoin, in)
	for lid, want := range map[ib.LID]int{2: 0, 3: 1} {
		if b := w.get(lid, ib.MethodGetTable, wire.AttrMCMemberRecord, wire.MCMemberCompPortGID, &in, 0); (len(records(t, b)) > 0) != (want > 0) {
			t.Errorf("LID %d asks for the groups of LID 3: %d records", lid, len(records(t, b)))
		}
		p := wire.PathRecord{SGID: in.PortGID, DGID: bcast}
		if st := status(w.get(lid, ib.MethodGet, wire.AttrPathRecord, wire.PathCompSGID|wire.PathCompDGID, &p, 0)); (st == 0) != (want > 0) {
			t.Errorf("LID %d asks for LID 3's path to a group: %v", lid, st)
		}
	}
	// An alias that a partition names is not for everybody.
	for _, c := range []struct {
		lid  ib.LID
		key  uint64
		want ib.Status
	}{{2, 0, 0x0200}, {5, 0, 0x0200}, {3, 0, ib.StatusOK}, {2, 7, ib.StatusOK}} {
		w := newTestbed(t, sa.Config{SAKey: 7}, s)
		a := wire.GUIDInfoRecord{LID: c.lid}
		a.GUIDInfo[1] = 0xA11A5
		q := trusted(set(wire.AttrGUIDInfoRecord, wire.GUIDInfoCompLID|wire.GUIDInfoCompBlock|wire.GUIDInfoCompGUID0<<1, &a), c.key)
		out := w.ask(c.lid, q)
		refused := len(out) == 1 && status(out[0]) == c.want && c.want != 0
		if refused != (c.want != 0) || len(w.out.Aliases) != 0 && c.want != 0 {
			t.Errorf("LID %d, key %d: %d answers, want status %v", c.lid, c.key, len(out), c.want)
		}
	}
}

// TestAliasInGroupOfTheSameBatch: a join counts for a Delete in the same batch.
func TestAliasInGroupOfTheSameBatch(t *testing.T) {
	r := newAliasFixture(t, 2)
	r.set(2, 2, 0, map[int]ib.GUID{1: 0xA1})
	join := joining(ours, 2, wire.JoinFull)
	join.PortGID = ib.MakeGID(ib.DefaultSubnetPrefix, 0xA1)
	a := wire.GUIDInfoRecord{LID: 2}
	var list []sa.Request
	for _, q := range [][]byte{
		set(wire.AttrMCMemberRecord, maskCreate, &join),
		del(wire.AttrGUIDInfoRecord, wire.GUIDInfoCompLID|wire.GUIDInfoCompBlock|wire.GUIDInfoCompGUID0<<1, &a),
	} {
		list = append(list, sa.Request{From: mad.Addr{LID: 2, QP: 1}, Data: q})
	}
	r.replies = nil
	r.step(sa.Requests{List: list})
	if len(r.replies) != 2 || status(r.replies[0].Data) != 0 || status(r.replies[1].Data) != 0x0700 {
		for _, x := range r.replies {
			t.Errorf("status %v", status(x.Data))
		}
	}
}

// TestHostileHost: whatever one host requests, the state kept for it stays bounded, and
// others are served as before; a million requests in make test-long.
func TestHostileHost(t *testing.T) {
	s := up(4)
	for i := range s.Ports {
		s.Ports[i].Info.GUIDCap = 255
	}
	s.Nodes[0].Switch.MulticastFDBCap = 16383
	w := newTestbed(t, sa.Config{}, s)
	rounds := 20_000 / 50
	if os.Getenv("HEDDLE_LONG") != "" {
		rounds = 1_000_000 / 50
	}
	rng := rand.New(rand.NewPCG(1, 1))
	var most, half int
	for i := range rounds {
		var list []sa.Request
		for k := range 50 {
			n := i*50 + k
			var q []byte
			switch rng.IntN(7) {
			case 0, 1:
				r := joining(gid(fmt.Sprintf("ff12:a01c::%x:%x", n>>16, n&0xFFFF)), ib.LID(2+rng.IntN(4)), uint8(1+rng.IntN(15)))
				q = ask(ib.MethodSet, wire.AttrMCMemberRecord, maskCreate, &r)
			case 2:
				r := joining(ib.GID{}, 2, wire.JoinFull)
				q = ask(ib.MethodSet, wire.AttrMCMemberRecord, maskCreate, &r)
			case 3:
				r := joining(gid(fmt.Sprintf("ff12:a01c::%x:%x", rng.IntN(n>>16+1), rng.IntN(1<<16))), 2, uint8(1+rng.IntN(15)))
				q = ask(ib.MethodDelete, wire.AttrMCMemberRecord, maskJoin, &r)
			case 4:
				q = set(wire.AttrServiceRecord, compRID|wire.ServiceCompServiceLease, serviceOf(uint64(n), 1, "s"))
			case 5:
				q = inform(trapNumber(0x8000 | uint16(n)))
			case 6:
				r := wire.GUIDInfoRecord{LID: 2, Block: uint8(rng.IntN(32))}
				r.GUIDInfo[3] = ib.GUID(n)
				q = set(wire.AttrGUIDInfoRecord, wire.GUIDInfoCompLID|wire.GUIDInfoCompBlock|wire.GUIDInfoCompGUID0<<3, &r)
			}
			list = append(list, sa.Request{From: mad.Addr{LID: 2, QP: 1 + uint32(rng.IntN(2))*uint32(n)}, Data: q})
		}
		w.replies, w.notices = nil, nil
		w.step(sa.Requests{List: list})
		if i == rounds/2 {
			half = w.core.Kept() + len(w.view.Groups)
		}
		most = max(most, w.core.Kept()+len(w.view.Groups))
	}
	t.Logf("%d things are kept, %d half way; %d groups, %d services, %d subscriptions, %d records", most, half, len(w.view.Groups),
		len(w.view.Services), len(w.view.Subs), len(w.records(store.TableGroups, store.TableMembers, store.TableServices, store.TableSubscriptions, store.TableAliases)))
	if most > 40_000 {
		t.Errorf("%d things are kept for one host", most)
	}
	for lid := ib.LID(3); lid <= 5; lid++ {
		r := joining(gid("ff12:a01c:1::"+fmt.Sprint(lid)), lid, wire.JoinFull)
		r.SL = 5 // agrees with no group of the other's
		w.must(lid, maskCreate, r)
		if st := status(w.ask(lid, set(wire.AttrServiceRecord, compRID, serviceOf(1<<40, int(lid)-1, "s")))[0]); st != 0 {
			t.Errorf("LID %d registers a service: %v", lid, st)
		}
		if st := status(w.ask(lid, inform(trapNumber(66)))[0]); st != 0 {
			t.Errorf("LID %d subscribes: %v", lid, st)
		}
	}
}
