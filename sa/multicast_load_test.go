package sa_test

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/mad"
	"heddle/sa"
	"heddle/store"
	"heddle/subnet"
)

// requests makes Set or Delete requests, each from the port itself.
func requests(m ib.Method, mask wire.CompMask, rs ...wire.MCMemberRecord) []sa.Request {
	out := make([]sa.Request, len(rs))
	for i := range rs {
		out[i].Data = ask(m, wire.AttrMCMemberRecord, mask, &rs[i])
		out[i].From = mad.Addr{LID: ib.LID((rs[i].PortGID.GUID()-0x1001)/16 + 1), QP: 1}
	}
	return out
}

// TestMillionCycles: creating, joining and leaving groups a million times leaks neither
// MLIDs, groups, members, records nor memory.
func TestMillionCycles(t *testing.T) {
	w := newTestbed(t, sa.Config{ExclusiveMLIDs: true}, up(4))
	var list []sa.Request
	cycles := 0
	for i := range 16 {
		mgid := gid(fmt.Sprintf("ff12:a01c::%x", 0x1000+i))
		lid := ib.LID(2 + i%4)
		state := []uint8{wire.JoinFull, wire.JoinSendOnlyFull, wire.JoinFull | wire.JoinSendOnlyFull, wire.JoinFull | wire.JoinNon}[i/4]
		if i == 0 {
			mgid = bcast
		}
		list = append(list, requests(ib.MethodSet, maskCreate, joining(mgid, lid, state))...)
		rest := state
		if i%3 == 0 && state&(state-1) != 0 { // in two steps
			part := state & -state
			list = append(list, requests(ib.MethodDelete, maskJoin, joining(mgid, lid, part))...)
			rest &^= part
			if rest&9 == 0 {
				cycles++ // the group went with the first step
				continue
			}
		}
		list = append(list, requests(ib.MethodDelete, maskJoin, joining(mgid, lid, rest))...)
		cycles++
	}
	const total = 1_000_000
	measure := func() (heap uint64) {
		runtime.GC()
		var ms runtime.MemStats
		runtime.ReadMemStats(&ms)
		return ms.HeapInuse
	}
	step := sa.Requests{List: list}
	round := func() {
		w.replies, w.notices = w.replies[:0], w.notices[:0]
		w.step(step)
		for _, r := range w.replies {
			if st := status(r.Data); st != 0 {
				t.Fatalf("status %v", st)
			}
		}
	}
	round()
	before, stored, start := measure(), w.records(store.TableGroups, store.TableMembers), time.Now()
	for n := 0; n < total; n += cycles {
		round()
	}
	took := time.Since(start)
	t.Logf("%d joins and leaves in %v", total, took)
	if len(w.view.Groups) != 1 || len(w.groups) != 0 || len(w.group(bcast).Members) != 0 {
		t.Errorf("left behind:\n%s", dump(w.view))
	}
	if after := w.records(store.TableGroups, store.TableMembers); len(after) != len(stored) || len(after) != 1 {
		t.Errorf("%d records are stored, %d were", len(after), len(stored))
	}
	if after := measure(); after > before+1<<20 {
		t.Errorf("%d bytes in use, %d before", after, before)
	}
	if out := w.must(2, maskCreate, joining(ours, 2, 1)); out.MLID != 0xC001 {
		t.Errorf("the next group has MLID %v", out.MLID)
	}
}

// TestMLIDs: a new group gets the lowest free MLID, or the requested one.
func TestMLIDs(t *testing.T) {
	s := up(2)
	s.Nodes[0].Switch.MulticastFDBCap = 6
	w := newTestbed(t, sa.Config{}, s)
	mgid := func(i int) ib.GID { return gid(fmt.Sprintf("ff12:a01c::%x", i)) }
	create := func(i int, mlid ib.LID) ib.LID {
		r := joining(mgid(i), 2, 1)
		mask := maskCreate
		if mlid != 0 {
			r.MLID, mask = mlid, maskCreate|wire.MCMemberCompMLID
		}
		return w.must(2, mask, r).MLID
	}
	for i, c := range []struct{ ask, want ib.LID }{
		{0, 0xC001}, {0xC004, 0xC004}, {0xC004, 0xC002}, {0xC006, 0xC003}, {0x0005, 0xC005},
	} {
		if got := create(i, c.ask); got != c.want {
			t.Errorf("group %d asked for %v: has %v, want %v", i, c.ask, got, c.want)
		}
	}
	if _, st := w.leave(2, maskJoin, joining(mgid(2), 2, 1)); st != 0 {
		t.Fatal(st)
	}
	if got := create(9, 0); got != 0xC002 {
		t.Errorf("the MLID that became free is 0xc002, given is %v", got)
	}
}

// TestSharedMLIDs: when no MLID is free, compatible groups share one, and its tree
// serves the members of all of them.
func TestSharedMLIDs(t *testing.T) {
	s := up(4)
	s.Nodes[0].Switch.MulticastFDBCap = 3
	w := newTestbed(t, sa.Config{}, s)
	mgid := func(i int) ib.GID { return gid(fmt.Sprintf("ff12:a01c::%x", i)) }
	a, b, c := mgid(1), mgid(2), mgid(3)
	w.must(2, maskCreate, joining(a, 2, 1))
	w.must(3, maskCreate, joining(b, 3, 1))
	w.must(4, maskJoin, joining(b, 4, 1))
	// The broadcast group has another MTU and rate; of the others that with the
	// fewest members is taken.
	if out := w.must(3, maskCreate, joining(c, 3, wire.JoinSendOnlyFull)); out.MLID != 0xC001 {
		t.Fatalf("MLID %v", out.MLID)
	}
	g := w.routed(0xC001)
	if len(w.groups) != 2 || g.MGID != a || !slices.Equal(g.Members, []ib.GUID{hostGID(2).GUID(), hostGID(3).GUID()}) || !slices.Equal(g.Senders, g.Members[1:]) {
		t.Errorf("routed %+v", g)
	}
	// Who sends to one and receives from the other does both.
	w.must(3, maskJoin, joining(a, 3, wire.JoinNon))
	if g = w.routed(0xC001); len(g.Members) != 2 || len(g.Senders) != 0 {
		t.Errorf("routed %+v", g)
	}
	told := w.told
	if _, st := w.leave(3, maskJoin, joining(c, 3, wire.JoinSendOnlyFull)); st != 0 || w.told != told {
		t.Errorf("%v; the tree does not change, but was told", st)
	}
	w.must(3, maskCreate, joining(c, 3, 1))
	if _, st := w.leave(2, maskJoin, joining(a, 2, 1)); st != 0 {
		t.Fatal(st)
	}
	if g = w.routed(0xC001); g == nil || g.MGID != c || len(g.Members) != 1 {
		t.Errorf("after the other group went: %+v", g)
	}
	w.restart()
	if g := w.group(c); g == nil || g.MLID != 0xC001 {
		t.Errorf("after a restart: %+v", g)
	}
	// None agrees.
	r := joining(mgid(4), 2, 1)
	r.SL = 3
	if _, st := w.set(2, maskCreate, r); st != 0x0100 {
		t.Errorf("a group that agrees with none: status %v", st)
	}
}

// TestConsolidateSNM: if requested, solicited-node groups of one scope and P_Key share
// an MLID, and no others do.
func TestConsolidateSNM(t *testing.T) {
	for _, on := range []bool{false, true} {
		s := up(4)
		for lid := ib.LID(2); lid < 6; lid++ {
			port(s, lid).PKeys = []ib.PKey{0xFFFF, 0x8005}
		}
		w := newTestbed(t, sa.Config{ConsolidateSNM: on}, s)
		bc := joining(gid("ff12:401b:8005::ffff:ffff"), 2, 1)
		bc.PKey = 0x8005
		w.must(2, maskCreate, bc)
		bc.MGID[1] = 0x15
		w.must(2, maskCreate, bc)
		var got []ib.LID
		for _, c := range []struct {
			mgid string
			key  ib.PKey
		}{
			{"ff12:601b:ffff::1:ff00:1", 0xFFFF},
			{"ff12:601b:ffff::1:ff12:3456", 0xFFFF},
			{"ff12:601b:8005::1:ff00:1", 0x8005},
			{"ff15:601b:8005::1:ff00:1", 0x8005},
			{"ff15:601b:8005::1:ff00:2", 0x8005},
			{"ff12:601b:ffff::1", 0xFFFF},
			{"ff12:601b:ffff::1:fe00:1", 0xFFFF},
			{"ff12:601b:ffff::1:ffff:ffff", 0xFFFF},
		} {
			r := joining(gid(c.mgid), 3, 1)
			r.PKey = c.key
			got = append(got, w.must(3, maskCreate, r).MLID)
		}
		want := []ib.LID{0xC003, 0xC004, 0xC005, 0xC006, 0xC007, 0xC008, 0xC009, 0xC00A}
		if on {
			want = []ib.LID{0xC003, 0xC003, 0xC004, 0xC005, 0xC005, 0xC006, 0xC007, 0xC003}
		}
		if !slices.Equal(got, want) {
			t.Errorf("consolidated %v: MLIDs %v, want %v", on, got, want)
		}
	}
}

// stormSubnet has so many hosts that their joins are a load.
func stormSubnet(hosts int) *subnet.Snapshot {
	s := up(254)
	h := s.Nodes[1]
	for n := 255; n <= hosts; n++ {
		guid := ib.GUID(0x1000 + 16*n)
		h.First, h.Info.NodeGUID = int32(len(s.Ports)), guid
		s.Nodes = append(s.Nodes, h)
		p := *s.Ports[int(s.Nodes[1].First)+1]
		p.Node, p.GUID, p.LID, p.EndPort = int32(n), guid+1, ib.LID(n+1), int32(n)
		s.EndPortPort = append(s.EndPortPort, int32(len(s.Ports)+1))
		s.Ports = append(s.Ports, &subnet.Port{Node: int32(n), EndPort: -1, Peer: subnet.NoRef()}, &p)
	}
	s.Finish()
	return s
}

// BenchmarkJoinStorm: all hosts of a large subnet join the broadcast group, in
// batches of 64, as after a power cut.
func BenchmarkJoinStorm(b *testing.B) {
	const hosts = 11_664
	s := stormSubnet(hosts)
	var list []sa.Request
	for i := range hosts {
		list = append(list, requests(ib.MethodSet, maskJoin, joining(bcast, ib.LID(i+2), 1))...)
	}
	for b.Loop() {
		w := newTestbed(b, sa.Config{}, s)
		for at := 0; at < hosts; at += 64 {
			w.replies = w.replies[:0]
			w.step(sa.Requests{List: list[at:min(at+64, hosts)]})
		}
		if n := len(w.group(bcast).Members); n != hosts {
			b.Fatalf("%d members", n)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/hosts, "ns/join")
}

// BenchmarkOwnGroups: each host creates a group of its own, as for IPv6.
func BenchmarkOwnGroups(b *testing.B) {
	const hosts = 11_664
	s := stormSubnet(hosts)
	s.Nodes[0].Switch.MulticastFDBCap = 16_000
	var list []sa.Request
	for i := range hosts {
		list = append(list, requests(ib.MethodSet, maskCreate, joining(gid(fmt.Sprintf("ff12:601b:ffff::1:ff%02x:%x", i>>16, i&0xFFFF)), ib.LID(i+2), 1))...)
	}
	for b.Loop() {
		w := newTestbed(b, sa.Config{}, s)
		for at := 0; at < hosts; at += 64 {
			w.replies = w.replies[:0]
			w.step(sa.Requests{List: list[at:min(at+64, hosts)]})
		}
		if n := len(w.view.Groups); n != hosts+1 {
			b.Fatalf("%d groups", n)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/hosts, "ns/join")
}
