package sa_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/sa"
	"heddle/subnet"
)

// everything subscribes to whatever happens.
func everything() *wire.InformInfo {
	return &wire.InformInfo{
		LIDRangeBegin: wire.InformAllLIDs, IsGeneric: 1, Subscribe: 1, Type: wire.InformAllTypes,
		TrapNumber: wire.InformAllTraps, Producer: wire.InformAllProducers, RespTimeValue: 16,
	}
}

func inform(change func(r *wire.InformInfo)) []byte {
	r := everything()
	if change != nil {
		change(r)
	}
	return set(wire.AttrInformInfo, 0, r)
}

func leave(change func(r *wire.InformInfo)) []byte {
	return inform(func(r *wire.InformInfo) {
		r.Subscribe, r.QPN = 0, 1
		if change != nil {
			change(r)
		}
	})
}

func trapNumber(n uint16) func(r *wire.InformInfo) {
	return func(r *wire.InformInfo) { r.TrapNumber = n }
}

// trap lets the manager take a trap of the port with that LID.
func (r *fixture) trap(from ib.LID, n smp.Notice) {
	r.step(sa.Trap{Notice: n, From: mad.Addr{LID: from}})
}

func TestInformStatus(t *testing.T) {
	s := snapshot(3, 0)
	s.Ports[s.PortByLID(2)].PKeys = []ib.PKey{0x7FFF} // limited: does not share with host 3
	s.Ports[s.PortByLID(4)].PKeys = []ib.PKey{0x7FFF}
	r := newFixture(t, s, sa.Config{SAKey: saKey})
	for _, c := range []struct {
		name string
		q    []byte
		want ib.Status
	}{
		{"Get", ask(ib.MethodGet, wire.AttrInformInfo, 0, everything()), 0x000C},
		{"GetTable", ask(ib.MethodGetTable, wire.AttrInformInfo, 0, everything()), 0x000C},
		{"Delete", del(wire.AttrInformInfo, 0, everything()), 0x000C},
		{"Subscribe 2", inform(func(r *wire.InformInfo) { r.Subscribe = 2 }), 0x0200},
		{"an unknown GID", inform(func(r *wire.InformInfo) { r.GID = gidOf(9) }), 0x0200},
		{"a GID of another partition", inform(func(r *wire.InformInfo) { r.GID = gidOf(3) }), 0x0200},
		{"a GID of the partition", inform(func(r *wire.InformInfo) { r.GID = gidOf(2) }), 0},
		{"LIDs of the partition", inform(func(r *wire.InformInfo) { r.LIDRangeBegin, r.LIDRangeEnd = 1, 3 }), 0},
		{"LIDs, one of another partition", inform(func(r *wire.InformInfo) { r.LIDRangeBegin, r.LIDRangeEnd = 1, 4 }), 0x0200},
		{"LIDs above the highest", inform(func(r *wire.InformInfo) { r.LIDRangeBegin, r.LIDRangeEnd = 3, 5 }), 0x0200},
		{"no LIDs, as osmtest asks", inform(func(r *wire.InformInfo) { *r = wire.InformInfo{Subscribe: 1} }), 0},
		{"a security trap", inform(trapNumber(smp.TrapBadPKey)), 0x0200},
		{"a security trap, trusted", trusted(inform(trapNumber(smp.TrapBadPKey)), saKey), 0},
		{"not subscribed", leave(trapNumber(99)), 0x0200},
		{"another's QPN", leave(func(r *wire.InformInfo) { r.GID, r.QPN = gidOf(2), 0 }), 0x0200},
		{"unsubscribe", leave(func(r *wire.InformInfo) { r.GID = gidOf(2) }), 0},
		{"unsubscribe again", leave(func(r *wire.InformInfo) { r.GID = gidOf(2) }), 0x0200},
	} {
		b := r.ask(2, c.q)
		if got := status(b); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
		if c.want == 0x0200 && b[wire.DataOffset+23] != 0 {
			t.Errorf("%s: refused with Subscribe %d", c.name, b[wire.DataOffset+23])
		}
	}
}

// TestInformRecords: each subscription of a port has its own Enum, a repeated one
// replaces it, and only trusted requesters see the QPN.
func TestInformRecords(t *testing.T) {
	s := snapshot(3, 0)
	r := newFixture(t, s, sa.Config{SAKey: saKey})
	for i := range 3 {
		r.want(2, inform(trapNumber(uint16(64+i))), 0)
	}
	r.want(3, inform(trapNumber(64)), 0)
	r.want(2, leave(trapNumber(65)), 0)
	r.want(2, inform(trapNumber(67)), 0) // takes the free Enum
	r.want(2, inform(func(r *wire.InformInfo) { r.TrapNumber, r.RespTimeValue = 64, 3 }), 0)
	list := func(q []byte) (out []string) {
		for _, b := range records(t, r.ask(3, q)) {
			var x wire.InformInfoRecord
			if err := x.Decode(b); err != nil {
				t.Fatal(err)
			}
			out = append(out, fmt.Sprintf("%d/%d: %d %d %d", x.SubscriberGID[15]>>4, x.Enum, x.InformInfo.TrapNumber, x.InformInfo.RespTimeValue, x.InformInfo.QPN))
		}
		return out
	}
	all := func() []byte { return ask(ib.MethodGetTable, wire.AttrInformInfoRecord, 0, nil) }
	want := []string{"1/0: 64 3 0", "1/1: 67 16 0", "1/2: 66 16 0", "2/0: 64 16 0"}
	if got := list(all()); !slices.Equal(got, want) {
		t.Errorf("subscriptions %q, want %q", got, want)
	}
	if got := list(trusted(all(), saKey)); len(got) != 4 || got[0] != "1/0: 64 3 1" {
		t.Errorf("to the trusted: %q", got)
	}
	one := &wire.InformInfoRecord{SubscriberGID: gidOf(1), Enum: 1, InformInfo: wire.InformInfo{QPN: 1}}
	const rid = wire.InformCompSubscriberGID | wire.InformCompEnum
	if got := list(ask(ib.MethodGetTable, wire.AttrInformInfoRecord, rid, one)); !slices.Equal(got, want[1:2]) {
		t.Errorf("by RID: %q", got)
	}
	if got := list(ask(ib.MethodGetTable, wire.AttrInformInfoRecord, wire.InformCompQPN, one)); len(got) != 0 {
		t.Errorf("the untrusted may ask by QPN: %q", got)
	}
	// They are there after a restart, with the same Enums.
	r.restart()
	r.publish(s)
	if got := list(all()); !slices.Equal(got, want) {
		t.Errorf("after a restart %q, want %q", got, want)
	}
}

// TestReportMatching compares the receivers of Reports with a naive reading of the
// rules.
func TestReportMatching(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 9))
		s := snapshot(6, 0)
		for h := 1; h <= 6; h++ {
			k := [][]ib.PKey{{0xFFFF}, {0x7FFF}, {0x8001}, {0xFFFF, 0x8001}}[rng.IntN(4)]
			s.Ports[s.PortByLID(ib.LID(h+1))].PKeys = k
		}
		r := newFixture(t, s, sa.Config{SAKey: saKey})
		type sub struct {
			lid   ib.LID
			info  wire.InformInfo
			trust bool
		}
		var subs []sub
		for range 40 {
			x := sub{lid: ib.LID(2 + rng.IntN(6)), info: *everything(), trust: rng.IntN(2) == 0}
			if rng.IntN(3) == 0 {
				x.info.GID = gidOf(1 + rng.IntN(6))
			} else if rng.IntN(2) == 0 {
				x.info.LIDRangeBegin, x.info.LIDRangeEnd = ib.LID(1+rng.IntN(4)), ib.LID(3+rng.IntN(5))
			}
			if rng.IntN(2) == 0 {
				x.info.TrapNumber = []uint16{128, 129, 144, 256, 7}[rng.IntN(5)]
			}
			if rng.IntN(3) == 0 {
				x.info.Type = uint16(rng.IntN(5))
			}
			if rng.IntN(3) == 0 {
				x.info.Producer = uint32(rng.IntN(3))
			}
			x.info.IsGeneric = uint8(min(rng.IntN(6), 1))
			q := set(wire.AttrInformInfo, 0, &x.info)
			if x.trust {
				q = trusted(q, saKey)
			}
			if status(r.ask(x.lid, q)) == 0 {
				subs = slices.DeleteFunc(subs, func(o sub) bool { return o.lid == x.lid && o.info == x.info })
				subs = append(subs, x)
			}
		}
		for range 30 {
			from := ib.LID(1 + rng.IntN(7))
			n := smp.NewTrap([]uint16{128, 129, 144, 256}[rng.IntN(4)], uint32(1+rng.IntN(2)), from, nil)
			if rng.IntN(4) == 0 {
				n.IsGeneric, n.TrapNumber = false, 7
			}
			at := s.PortByLID(from)
			want := map[ib.LID]bool{}
			for _, x := range subs {
				i := &x.info
				me := s.PortByLID(x.lid)
				src := i.GID.IsZero() && (i.LIDRangeBegin == 0xFFFF || i.LIDRangeBegin <= from && from <= i.LIDRangeEnd) || i.GID == s.GID(at)
				if src && (i.IsGeneric == 1) == n.IsGeneric && (i.Type == 0xFFFF || i.Type == uint16(n.Type)) &&
					(i.TrapNumber == 0xFFFF || i.TrapNumber == n.TrapNumber) && (i.Producer == 0xFFFFFF || i.Producer == n.Producer) &&
					(x.trust || !n.IsGeneric || n.TrapNumber < 256) && s.Share(me, at) {
					want[x.lid] = true
				}
			}
			r.trap(from, n)
			got := map[ib.LID]bool{}
			for _, rep := range r.reports() {
				if rep.n.IssuerGID != s.GID(at) || rep.n.Notice != n {
					t.Fatalf("seed %d: Report %+v of %+v", seed, rep.n, n)
				}
				if got[rep.to] {
					t.Fatalf("seed %d: LID %d is told twice", seed, rep.to)
				}
				got[rep.to] = true
			}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Fatalf("seed %d: trap %d of LID %d went to %v, want %v", seed, n.TrapNumber, from, got, want)
			}
		}
	}
}

// TestTrapWithoutIssuer: an agent that leaves IssuerLID 0 is identified by the trap's
// source LID; a trap without any source is dropped.
func TestTrapWithoutIssuer(t *testing.T) {
	r := newFixture(t, snapshot(2, 0), sa.Config{})
	r.want(2, inform(nil), 0)
	r.trap(3, smp.NewTrap(144, 1, 0, nil))
	if got := r.reports(); len(got) != 1 || got[0].n.IssuerLID != 3 || got[0].n.IssuerGID != gidOf(2) {
		t.Errorf("Reports %+v", got)
	}
	r.trap(99, smp.NewTrap(144, 1, 0, nil))
	if got := r.reports(); len(got) != 0 {
		t.Errorf("a trap of nobody: %+v", got)
	}
}

// gone is a snapshot without some hosts: their cables are out.
func gone(hosts int, lids ...ib.LID) *subnet.Snapshot {
	s := snapshot(hosts, 0)
	for _, l := range lids {
		p := s.Ports[s.PortByLID(l)]
		p.EndPort, p.LID = -1, 0
	}
	s.EndPortPort = slices.DeleteFunc(s.EndPortPort, func(i int32) bool { return s.Ports[i].EndPort < 0 })
	s.Finish()
	return s
}

// TestPortEvents: traps 64 and 65 report new and lost GIDs, aliases included, to ports
// that share a partition, or did.
func TestPortEvents(t *testing.T) {
	r := newFixture(t, snapshot(4, 0), sa.Config{})
	r.want(2, inform(trapNumber(64)), 0)
	r.want(2, inform(trapNumber(65)), 0)
	r.want(3, inform(trapNumber(65)), 0)
	events := func() (out []string) {
		for _, x := range r.reports() {
			var d smp.DetailGID
			d.Get(&x.n.DataDetails)
			out = append(out, fmt.Sprintf("%d: %d %v", x.to, x.n.TrapNumber, d.GID))
			if x.n.Producer != smp.ProducerClassManager || x.n.Type != smp.NoticeSubnetManagement || !x.n.IsGeneric {
				t.Errorf("notice %+v", x.n)
			}
		}
		return out
	}
	check := func(want ...string) {
		t.Helper()
		if got := events(); !slices.Equal(got, want) {
			t.Errorf("events %q, want %q", got, want)
		}
	}
	check()
	r.publish(gone(4, 4))
	check("2: 65 "+gidOf(3).String(), "3: 65 "+gidOf(3).String())
	s := gone(4, 5)
	s.Ports[s.PortByLID(3)].Aliases = []ib.GUID{0, 0xA1}
	s.Finish()
	r.publish(s)
	check("2: 65 "+gidOf(4).String(), "3: 65 "+gidOf(4).String(),
		"2: 64 "+gidOf(3).String(), "2: 64 "+ib.MakeGID(ib.DefaultSubnetPrefix, 0xA1).String())
	r.publish(snapshot(4, 0))
	check("2: 65 "+ib.MakeGID(ib.DefaultSubnetPrefix, 0xA1).String(), "3: 65 "+ib.MakeGID(ib.DefaultSubnetPrefix, 0xA1).String(),
		"2: 64 "+gidOf(4).String())
	// In a partition of its own host 4 comes and goes unheard.
	alone := func(s *subnet.Snapshot) *subnet.Snapshot {
		if p := s.PortByLID(5); p >= 0 {
			s.Ports[p].PKeys = []ib.PKey{0x8009}
		}
		return s
	}
	r.publish(alone(snapshot(4, 0)))
	r.publish(gone(4, 5))
	r.publish(alone(snapshot(4, 0)))
	check()
	// A manager that is not the master, or just became it, tells nothing.
	s = gone(4, 4)
	s.State = subnet.Standby
	r.publish(s)
	r.publish(snapshot(4, 0))
	check()
}

// TestSubscriberMoves: Reports follow a port that has another LID, also after a
// restart.
func TestSubscriberMoves(t *testing.T) {
	r := newFixture(t, snapshot(3, 0), sa.Config{})
	r.want(2, inform(nil), 0)
	moved := snapshot(3, 0)
	p := moved.Ports[moved.PortByLID(2)]
	p.LID = 40
	moved.Finish()
	r.publish(moved)
	r.reports()
	for range 2 {
		r.trap(3, smp.NewTrap(144, 1, 3, nil))
		if got := r.reports(); len(got) != 1 || got[0].to != 40 {
			t.Fatalf("Reports %+v, want one to LID 40", got)
		}
		r.restart()
		r.publish(moved)
	}
}

// TestDropAccess: a subscription to a source ends when the partitions no longer
// allow it (o13-17.1.2).
func TestDropAccess(t *testing.T) {
	r := newFixture(t, snapshot(3, 0), sa.Config{})
	r.want(2, inform(func(r *wire.InformInfo) { r.GID = gidOf(2) }), 0)
	r.want(2, inform(func(r *wire.InformInfo) { r.LIDRangeBegin, r.LIDRangeEnd = 3, 3 }), 0)
	r.want(2, inform(nil), 0)
	s := snapshot(3, 0)
	s.Ports[s.PortByLID(3)].PKeys = []ib.PKey{0x8001}
	r.publish(s)
	r.trap(3, smp.NewTrap(144, 1, 3, nil))
	if got := r.reports(); len(got) != 0 {
		t.Errorf("Reports from a foreign partition: %+v", got)
	}
	if n := len(r.view.Subs); n != 1 || len(r.stored) != 1 {
		t.Errorf("%d subscriptions, %d stored; want the one to everything", n, len(r.stored))
	}
}

// TestDropAway: subscriptions of a missing port last for DropAfter, and indefinitely if
// it returns in time.
func TestDropAway(t *testing.T) {
	r := newFixture(t, snapshot(3, 0), sa.Config{DropAfter: time.Minute})
	r.want(2, inform(nil), 0)
	r.want(3, inform(nil), 0)
	r.publish(gone(3, 2))
	r.reports()
	r.until(mad.Time(50 * time.Second))
	r.publish(snapshot(3, 0))
	r.reports()
	r.until(mad.Time(200 * time.Second))
	if len(r.view.Subs) != 2 {
		t.Fatalf("%d subscriptions, want 2: the port came back", len(r.view.Subs))
	}
	r.publish(gone(3, 2))
	r.reports()
	r.until(mad.Time(260*time.Second) - 1)
	if len(r.view.Subs) != 2 {
		t.Fatal("dropped too early")
	}
	r.until(mad.Time(260 * time.Second))
	if len(r.view.Subs) != 1 || len(r.stored) != 1 || r.core.Reports().Peers != 1 {
		t.Errorf("%d subscriptions, %d stored, %d peers; want 1", len(r.view.Subs), len(r.stored), r.core.Reports().Peers)
	}
}

// TestForgedTraps: no host can send traps for another port or for the manager.
func TestForgedTraps(t *testing.T) {
	r := newFixture(t, snapshot(3, 0), sa.Config{})
	r.want(2, inform(nil), 0)
	for _, n := range []smp.Notice{
		smp.NewTrap(smp.TrapPortStateChange, smp.ProducerSwitch, 1, smp.DetailLID{LID: 1}),
		smp.NewTrap(144, smp.ProducerCA, 4, nil),
		smp.NewTrap(smp.TrapGIDOutOfService, smp.ProducerClassManager, 3, smp.DetailGID{GID: gidOf(1)}),
		smp.NewTrap(67, smp.ProducerCA, 3, smp.DetailGID{GID: gidOf(1)}),
		smp.NewTrap(144, smp.ProducerClassManager, 3, nil),
	} {
		r.trap(3, n)
		if got := r.reports(); len(got) != 0 {
			t.Errorf("a trap %d of LID %d in the name of LID %d was forwarded", n.TrapNumber, 3, n.IssuerLID)
		}
	}
	r.trap(3, smp.NewTrap(144, smp.ProducerCA, 3, nil))
	if got := r.reports(); len(got) != 1 {
		t.Errorf("%d Reports of a trap of its own", len(got))
	}
}
