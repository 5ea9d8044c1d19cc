package sa_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/mad"
	"heddle/partition"
	"heddle/sa"
	"heddle/subnet"
)

// TestUntrustedAndServices: a requester that neither registered nor offers a service,
// and does not know its key, can neither replace nor delete it, nor discover the key.
func TestUntrustedAndServices(t *testing.T) {
	r := newFixture(t, snapshot(4, 0), sa.Config{SAKey: saKey})
	plain, keyed := serviceOf(1, 1, "plain"), serviceOf(2, 1, "keyed")
	keyed.ServiceKey = [16]byte{9}
	for _, x := range []*wire.ServiceRecord{plain, keyed} {
		r.want(2, set(wire.AttrServiceRecord, compRID|wire.ServiceCompServiceKey, x), 0)
		short := *x
		short.ServiceKey, short.ServiceLease = [16]byte{}, 1
		r.want(4, del(wire.AttrServiceRecord, compRID, &short), 0x0200)
		r.want(4, set(wire.AttrServiceRecord, compRID|wire.ServiceCompServiceLease, &short), 0x0200)
	}
	byKey := func(from ib.LID, k byte) int {
		q := &wire.ServiceRecord{ServiceKey: [16]byte{k}}
		return len(records(t, r.ask(from, ask(ib.MethodGetTable, wire.AttrServiceRecord, wire.ServiceCompServiceKey, q))))
	}
	if own, guess, trustedGuess := byKey(2, 9), byKey(4, 9), len(records(t, r.ask(4, trusted(ask(ib.MethodGetTable, wire.AttrServiceRecord, wire.ServiceCompServiceKey, keyed), saKey)))); own != 1 || guess != 0 || trustedGuess != 1 {
		t.Errorf("a query by ServiceKey finds %d services of the requester's own, %d by a guess, %d trusted; want 1, 0, 1", own, guess, trustedGuess)
	}
	r.want(4, del(wire.AttrServiceRecord, compRID, keyed), 0) // it knows the key
	r.want(2, del(wire.AttrServiceRecord, compRID, plain), 0)
	// What another port registered in its name a port may end.
	r.want(4, set(wire.AttrServiceRecord, compRID, plain), 0)
	r.want(3, del(wire.AttrServiceRecord, compRID, plain), 0x0200)
	r.want(2, del(wire.AttrServiceRecord, compRID, plain), 0)
}

// TestProxyAfterRestart: the requester of a proxy membership is known after a restart
// too; others cannot end the membership.
func TestProxyAfterRestart(t *testing.T) {
	s := snapshot(4, 0)
	s.Nodes[0].Switch.MulticastFDBCap, s.Partitions = 64, partition.Default()
	r := newFixture(t, s, sa.Config{SAKey: saKey})
	mgid := partition.Broadcast(partition.DefaultKey).MGID
	member := func(n int) *wire.MCMemberRecord {
		return &wire.MCMemberRecord{MGID: mgid, PortGID: gidOf(n), JoinState: wire.JoinFull}
	}
	for _, restart := range []bool{false, true} {
		r.want(2, set(wire.AttrMCMemberRecord, maskJoin, member(3)), 0)
		r.want(2, set(wire.AttrMCMemberRecord, maskJoin, member(2)), 0)
		r.want(2, set(wire.AttrMCMemberRecord, maskJoin, member(4)), 0)
		if restart {
			r.restart()
			r.publish(s)
		}
		for n := 2; n <= 4; n++ {
			stranger := ib.LID(n%3 + 3) // another of LIDs 3 to 5
			r.want(stranger, del(wire.AttrMCMemberRecord, maskJoin, member(n)), 0x0200)
		}
		r.want(2, del(wire.AttrMCMemberRecord, maskJoin, member(3)), 0)                 // the proxy
		r.want(3, del(wire.AttrMCMemberRecord, maskJoin, member(2)), 0)                 // the port
		r.want(3, trusted(del(wire.AttrMCMemberRecord, maskJoin, member(4)), saKey), 0) // the administrator
		r.want(2, del(wire.AttrMCMemberRecord, maskJoin, member(2)), 0x0200)            // nobody is left
	}
	// A trusted requester that adds to a port's own membership does not become its proxy.
	r.want(3, set(wire.AttrMCMemberRecord, maskJoin, member(2)), 0)
	more := member(2)
	more.JoinState = wire.JoinNon
	r.want(4, trusted(set(wire.AttrMCMemberRecord, maskJoin, more), saKey), 0)
	r.want(4, del(wire.AttrMCMemberRecord, maskJoin, member(2)), 0x0200)
}

// TestPublicKey: the SM_Key of OpenSM's defaults makes a request trusted only from QP1 of
// the manager's own port, if at all; other wrong keys are not answered.
func TestPublicKey(t *testing.T) {
	for _, c := range []struct {
		name    string
		opt     sa.Options
		self    ib.LID
		from    mad.Addr
		adapter bool
		key     uint64
		want    ib.Status // 0: trusted, 0x0200: not; dropped: no answer
	}{
		{"the default", sa.Options{}, 2, mad.Addr{LID: 3, QP: 1}, false, 1, 0x0200},
		{"a random key", sa.Options{SAKey: 77, TrustLocal: true}, 2, mad.Addr{LID: 3, QP: 1}, false, 1, 0x0200},
		{"the right key", sa.Options{SAKey: 77}, 2, mad.Addr{LID: 3, QP: 1}, false, 77, 0},
		{"the public key as key", sa.Options{SAKey: 1}, 2, mad.Addr{LID: 3, QP: 1}, false, 1, 0},
		{"the own port", sa.Options{SAKey: 77, TrustLocal: true}, 2, mad.Addr{LID: 2, QP: 1}, false, 1, 0},
		{"the own port without a LID", sa.Options{TrustLocal: true}, 2, mad.Addr{QP: 1}, false, 1, 0},
		{"the own port without a key", sa.Options{SAKey: 77, TrustLocal: true}, 2, mad.Addr{LID: 2, QP: 1}, false, 0, 0x0200},
		{"the own port, which is not trusted", sa.Options{SAKey: 77}, 2, mad.Addr{LID: 2, QP: 1}, false, 1, 0x0200},
		{"the own port, not QP1", sa.Options{TrustLocal: true}, 2, mad.Addr{LID: 2, QP: 5}, false, 1, 0x0200},
		{"the own port, shared by functions", sa.Options{TrustLocal: true}, 2, mad.Addr{LID: 2, QP: 1}, true, 1, 0x0200},
		{"a wrong key", sa.Options{SAKey: 77, TrustLocal: true}, 2, mad.Addr{LID: 2, QP: 1}, false, 78, dropped},
		{"any other key", sa.Options{}, 2, mad.Addr{LID: 3, QP: 1}, false, 2, dropped},
	} {
		s := snapshot(3, 0)
		p := s.Ports[s.PortByLID(c.self)]
		s.Self = subnet.Ref{Node: p.Node, Port: p.Num}
		p.Adapter = &subnet.Adapter{Model: subnet.SharedPort, Functions: 7} // none of them in use
		if c.adapter {
			p.Adapter, p.Aliases = &subnet.Adapter{Model: subnet.SharedPort}, []ib.GUID{0, 0xA1}
		}
		q := trusted(ask(ib.MethodGetTable, wire.AttrPKeyTableRecord, 0, nil), c.key)
		b, v := sa.Answer(&sa.Source{Snap: s, Opt: &c.opt}, &sa.Request{From: c.from, Data: q}, nil)
		st := dropped
		if v == sa.Answered {
			st = status(b)
		}
		if st != c.want {
			t.Errorf("%s: status %#x, want %#x", c.name, uint16(st), uint16(c.want))
		}
	}
}

const dropped ib.Status = 0xFFFF

// TestServiceEndsWithItsPartition: the next partition with a P_Key sees no services of
// the previous one. A port that is merely missing keeps its services.
func TestServiceEndsWithItsPartition(t *testing.T) {
	const key = ib.PKey(0x8033)
	policy := func(name string, hosts ...int) *partition.Policy {
		p := &partition.Policy{Partitions: []partition.Partition{{Name: name, PKey: key.Base()}, partition.Default().Partitions[0]}}
		for _, h := range hosts {
			p.Partitions[0].Members = append(p.Partitions[0].Members, partition.Member{Kind: partition.Port, GUID: gidOf(h).GUID(), As: partition.Full})
		}
		return p
	}
	state := func(p *partition.Policy, without int, hosts ...int) *subnet.Snapshot {
		s := snapshot(4, 0)
		s.Partitions = p
		for h := 1; h <= 4; h++ {
			q := s.Ports[s.PortByLID(ib.LID(h+1))]
			if slices.Contains(hosts, h) {
				q.PKeys = []ib.PKey{ib.PKeyDefaultFull, key}
			}
			if h == without {
				q.GUID, q.LID = 0xDEAD, 99
			}
		}
		s.Finish()
		return s
	}
	red := policy("red", 1, 2)
	for _, c := range []struct {
		name string
		then []*subnet.Snapshot
		want int // services of host 1 that are left
	}{
		{"nothing changes", []*subnet.Snapshot{state(red, 0, 1, 2)}, 1},
		{"the port is away", []*subnet.Snapshot{state(red, 1, 2)}, 1},
		{"the port is back and its table is not written yet", []*subnet.Snapshot{state(red, 1, 2), state(red, 0, 2)}, 1},
		{"the port leaves the partition", []*subnet.Snapshot{state(policy("red", 2), 0, 1, 2), state(policy("red", 2), 0, 2)}, 0},
		{"the port is away and leaves the partition", []*subnet.Snapshot{state(red, 1, 2), state(policy("red", 2), 1, 2)}, 0},
		{"the key passes to others", []*subnet.Snapshot{state(policy("blue", 3), 0, 3)}, 0},
		{"the key passes to others, the port is away", []*subnet.Snapshot{state(policy("blue", 3), 1, 3)}, 0},
		{"the key passes to a partition with the same port", []*subnet.Snapshot{state(policy("blue", 1, 3), 0, 1, 3)}, 0},
		{"another takes over", []*subnet.Snapshot{{State: subnet.Standby}}, 1},
	} {
		r := newFixture(t, state(red, 0, 1, 2), sa.Config{})
		x := serviceOf(1, 1, "x")
		x.ServicePKey = key
		r.want(2, set(wire.AttrServiceRecord, compRID, x), 0)
		plain := serviceOf(2, 1, "default partition")
		r.want(2, set(wire.AttrServiceRecord, compRID, plain), 0)
		for _, s := range c.then {
			r.publish(s)
		}
		if n := len(r.view.Services); n != c.want+1 || len(r.stored) != c.want+1 {
			t.Errorf("%s: %d services are left, %d stored; want %d of the partition and 1", c.name, n, len(r.stored), c.want)
		}
	}
}

// TestUntrustedChangeNothing: requests of five hostile hosts, with no key, the public
// one or others, do not change the registrations of honest hosts.
func TestUntrustedChangeNothing(t *testing.T) {
	seeds := uint64(20)
	if testing.Short() {
		seeds = 3
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { strangersChangeNothing(t, seed) })
	}
}

func strangersChangeNothing(t *testing.T, seed uint64) {
	const honest, hostile = 3, 5
	rng := rand.New(rand.NewPCG(seed, 18))
	s := snapshot(honest+hostile, 0)
	s.Nodes[0].Switch.MulticastFDBCap, s.Partitions = 64, partition.Default()
	for i := range s.Ports {
		s.Ports[i].Info.GUIDCap = 16
	}
	s.Finish()
	r := newFixture(t, s, sa.Config{SAKey: 0x1234_5678_9ABC, TrustLocal: true})
	bcast := partition.Broadcast(partition.DefaultKey).MGID
	own := ib.GID{0: 0xFF, 1: 0x12, 2: 0xA0, 3: 0x1C, 15: 7}
	proxied := ib.GID{0: 0xFF, 1: 0x12, 2: 0xA0, 3: 0x1C, 15: 8}
	full := func(mgid ib.GID, host int) *wire.MCMemberRecord {
		return &wire.MCMemberRecord{MGID: mgid, PortGID: gidOf(host), JoinState: wire.JoinFull, PKey: ib.PKeyDefaultFull, QKey: 5}
	}
	for h := 1; h <= honest; h++ {
		from := ib.LID(h + 1)
		r.want(from, set(wire.AttrMCMemberRecord, maskJoin, full(bcast, h)), 0)
		r.want(from, set(wire.AttrMCMemberRecord, maskCreate, full(own, h)), 0)
		r.want(from, set(wire.AttrMCMemberRecord, maskCreate, full(proxied, h%honest+1)), 0)
		r.want(from, set(wire.AttrServiceRecord, compRID, serviceOf(uint64(h), h, "plain")), 0)
		keyed := serviceOf(uint64(16+h), h, "keyed")
		keyed.ServiceKey = [16]byte{1, 2, byte(h)}
		r.want(from, set(wire.AttrServiceRecord, compRID|wire.ServiceCompServiceKey, keyed), 0)
		r.want(from, set(wire.AttrInformInfo, 0, &wire.InformInfo{LIDRangeBegin: wire.InformAllLIDs, IsGeneric: 1, Subscribe: 1, Type: wire.InformAllTypes, TrapNumber: 64, QPN: 1, Producer: 4}), 0)
		x, mask := guidInfo(from, 0, map[int]ib.GUID{1: ib.GUID(0xA0 + h)})
		r.step(sa.Requests{List: []sa.Request{{From: mad.Addr{LID: from, QP: 1}, Data: set(wire.AttrGUIDInfoRecord, mask, x)}}})
	}
	// All that honest hosts have, as the store has it.
	before := map[string]string{}
	for k, v := range r.stored {
		before[k] = string(v.Value)
	}
	attrs := []ib.AttrID{wire.AttrMCMemberRecord, wire.AttrServiceRecord, wire.AttrInformInfo, wire.AttrGUIDInfoRecord}
	methods := []ib.Method{ib.MethodSet, ib.MethodSet, ib.MethodDelete, ib.MethodDelete, ib.MethodGet, ib.MethodGetTable}
	for range 3000 {
		from := mad.Addr{LID: ib.LID(honest + 2 + rng.IntN(hostile)), QP: uint32(rng.IntN(3))}
		if rng.IntN(8) == 0 { // in the name of somebody at that LID who is not there
			from.HasGRH, from.GRH.GID = true, gidOf(1+rng.IntN(honest))
		}
		host := 1 + rng.IntN(honest)
		var q []byte
		method := methods[rng.IntN(len(methods))]
		masks := []wire.CompMask{maskJoin, maskCreate, compRID, compRID | wire.ServiceCompServiceLease, compBlock | wire.GUIDInfoCompGUID0<<1, wire.CompMask(rng.Uint64())}
		switch attr := attrs[rng.IntN(len(attrs))]; attr {
		case wire.AttrMCMemberRecord:
			m := full([]ib.GID{bcast, own, proxied}[rng.IntN(3)], host)
			m.JoinState = uint8(rng.IntN(16))
			q = ask(method, attr, masks[rng.IntN(2)], m)
		case wire.AttrServiceRecord:
			x := serviceOf(uint64(rng.IntN(2)*16+host), host, "stolen")
			x.ServiceLease, x.ServiceKey[2] = uint32(rng.IntN(3)), byte(rng.IntN(4))
			q = ask(method, attr, masks[2+rng.IntN(2)], x)
		case wire.AttrInformInfo:
			q = ask(method, attr, 0, &wire.InformInfo{LIDRangeBegin: wire.InformAllLIDs, IsGeneric: 1, Subscribe: uint8(rng.IntN(2)), Type: wire.InformAllTypes, TrapNumber: 64, QPN: uint32(rng.IntN(2)), Producer: 4})
		default:
			x, mask := guidInfo(ib.LID(host+1), 0, map[int]ib.GUID{1: ib.GUID(0xA0 + rng.IntN(5))})
			if rng.IntN(2) == 0 {
				x.LID = from.LID
			}
			q = ask(method, wire.AttrGUIDInfoRecord, mask, x)
		}
		if rng.IntN(4) == 0 {
			for range 1 + rng.IntN(6) {
				q[wire.HeaderLen+rng.IntN(len(q)-wire.HeaderLen)] ^= 1 << rng.IntN(8)
			}
		}
		q = trusted(q, []uint64{0, 1, 1, rng.Uint64()}[rng.IntN(4)])
		req := sa.Request{From: from, Data: q}
		opt := &sa.Options{SAKey: r.cfg.SAKey, TrustLocal: true}
		if _, v := sa.Answer(&sa.Source{Snap: s, View: r.view, Opt: opt}, &req, nil); v == sa.ForCore {
			r.step(sa.Requests{List: []sa.Request{req}})
		}
		if rng.IntN(50) == 0 {
			r.until(r.now.Add(1e9))
		}
	}
	for k, v := range before {
		if now, ok := r.stored[k]; !ok || string(now.Value) != v {
			t.Errorf("the record %q of an honest host was %x and is %x", k, v, now.Value)
		}
	}
	r.restart()
	r.publish(s)
	for k, v := range before {
		if now, ok := r.stored[k]; !ok || string(now.Value) != v {
			t.Errorf("the record %q of an honest host is %x after a restart, and was %x", k, now.Value, v)
		}
	}
}
