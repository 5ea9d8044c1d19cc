package sa_test

import (
	"encoding/binary"
	"encoding/hex"
	"strings"
	"testing"

	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/mad"
	"heddle/sa"
	"heddle/store"
	"heddle/subnet"
)

const (
	maskJoin   = wire.MCMemberCompMGID | wire.MCMemberCompPortGID | wire.MCMemberCompJoinState
	maskCreate = maskJoin | wire.MCMemberCompQKey | wire.MCMemberCompTClass | wire.MCMemberCompPKey | wire.MCMemberCompSL | wire.MCMemberCompFlowLabel
	maskMTU    = wire.MCMemberCompMTUSelector | wire.MCMemberCompMTU
	maskRate   = wire.MCMemberCompRateSelector | wire.MCMemberCompRate
	maskLife   = wire.MCMemberCompLifeSelector | wire.MCMemberCompPacketLifeTime
)

func gid(s string) ib.GID {
	g, err := ib.ParseGID(s)
	if err != nil {
		panic(err)
	}
	return g
}

// hostGID is the GID of the host with that LID.
func hostGID(lid ib.LID) ib.GID {
	return ib.MakeGID(ib.DefaultSubnetPrefix, ib.GUID(0x1000+16*(int(lid)-1)+1))
}

var (
	bcast = gid("ff12:401b:ffff::ffff:ffff")
	ours  = gid("ff12:a01c::1000")
)

// joining is the record of a host's wish to join a group, as a client that
// gives all of createComps has it.
func joining(mgid ib.GID, lid ib.LID, state uint8) wire.MCMemberRecord {
	return wire.MCMemberRecord{MGID: mgid, PortGID: hostGID(lid), QKey: 0x0B1B, PKey: 0xFFFF, JoinState: state}
}

// set sends one Set and returns its answer.
func (w *testbed) set(from ib.LID, mask wire.CompMask, r wire.MCMemberRecord) (wire.MCMemberRecord, ib.Status) {
	w.t.Helper()
	return w.one(ib.MethodSet, from, mask, r)
}

// leave sends one Delete and returns its answer.
func (w *testbed) leave(from ib.LID, mask wire.CompMask, r wire.MCMemberRecord) (wire.MCMemberRecord, ib.Status) {
	w.t.Helper()
	return w.one(ib.MethodDelete, from, mask, r)
}

func (w *testbed) one(m ib.Method, from ib.LID, mask wire.CompMask, r wire.MCMemberRecord) (out wire.MCMemberRecord, st ib.Status) {
	w.t.Helper()
	b := w.ask(from, ask(m, wire.AttrMCMemberRecord, mask, &r))
	if len(b) != 1 {
		w.t.Fatalf("%d answers", len(b))
	}
	if st = status(b[0]); st != 0 {
		return out, st
	}
	if off := binary.BigEndian.Uint16(b[0][44:]); off != 7 {
		w.t.Errorf("AttributeOffset %d, want 7", off)
	}
	if err := out.Decode(b[0][wire.HeaderLen:]); err != nil {
		w.t.Fatal(err)
	}
	return out, 0
}

// must is a Set that succeeds.
func (w *testbed) must(from ib.LID, mask wire.CompMask, r wire.MCMemberRecord) wire.MCMemberRecord {
	w.t.Helper()
	out, st := w.set(from, mask, r)
	if st != 0 {
		w.t.Fatalf("join of %v to %v: status %v", r.PortGID, r.MGID, st)
	}
	return out
}

func (w *testbed) group(mgid ib.GID) *sa.Group {
	for _, g := range w.view.Groups {
		if g.MGID == mgid {
			return g
		}
	}
	return nil
}

// routed is what the subnet manager was told of an MLID.
func (w *testbed) routed(mlid ib.LID) *subnet.Group {
	for i := range w.groups {
		if w.groups[i].MLID == mlid {
			return &w.groups[i]
		}
	}
	return nil
}

// TestMulticastVectors replays requests recorded with OpenSM on one switch and two
// hosts with links of 10 Gb/s and MTU 2048.
func TestMulticastVectors(t *testing.T) {
	s := up(2)
	for i, guid := range []ib.GUID{0x100001, 0x100004} {
		p := port(s, ib.LID(2+i))
		p.GUID, p.MTU, p.Rate = guid, 4, ib.Rate10
	}
	s.Finish()
	w := newTestbed(t, sa.Config{}, s)
	raw := func(text string) []byte {
		b, err := hex.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		return append(b, make([]byte, 200-len(b))...)
	}
	for _, c := range []struct {
		name        string
		method      ib.Method
		mask        wire.CompMask
		ask, answer string
	}{
		{
			"broadcast group", ib.MethodGet, 0x1, "ff12401bffff000000000000ffffffff",
			"ff12401bffff000000000000ffffffff0000000000000000000000000000000000000b1bc0008400ffff83920000000020",
		},
		{
			"join", ib.MethodSet, 0x10083, "ff12401bffff000000000000fffffffffe8000000000000000000000001000010000000000000000ffff00000000000001",
			"ff12401bffff000000000000fffffffffe80000000000000000000000010000100000b1bc0008400ffff83920000000021",
		},
		{
			"leave", ib.MethodDelete, 0x10083, "ff12401bffff000000000000fffffffffe8000000000000000000000001000010000000000000000ffff00000000000001",
			"ff12401bffff000000000000fffffffffe8000000000000000000000001000010000000000008000ffff80800000000020",
		},
	} {
		q := ask(c.method, wire.AttrMCMemberRecord, c.mask, nil)
		copy(q[wire.HeaderLen:], raw(c.ask))
		var b []byte
		if c.method == ib.MethodGet {
			b, _ = sa.Answer(&sa.Source{Snap: s, View: w.view}, &sa.Request{From: mad.Addr{LID: 2, QP: 1}, Data: q}, nil)
		} else {
			b = w.ask(2, q)[0]
		}
		if status(b) != 0 || binary.BigEndian.Uint16(b[44:]) != 7 || len(b) != ib.MADLen {
			t.Errorf("%s: status %v, AttributeOffset %d, %d bytes", c.name, status(b), b[45], len(b))
		}
		if got, want := hex.EncodeToString(b[wire.HeaderLen:]), hex.EncodeToString(raw(c.answer)); got != want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, strings.TrimRight(got, "0"), strings.TrimRight(want, "0"))
		}
	}
}

// TestJoinStatus tests each rule of joining, creating and leaving separately, from a
// state in which the request violates only that rule.
func TestJoinStatus(t *testing.T) {
	foreign := func(r *wire.MCMemberRecord) { r.PortGID = ib.MakeGID(0xFEC0000000000001, r.PortGID.GUID()) }
	for _, c := range []struct {
		name  string
		setup func(w *testbed)
		from  ib.LID
		mask  wire.CompMask
		mgid  ib.GID
		state uint8
		edit  func(r *wire.MCMemberRecord)
		del   bool
		want  ib.Status
	}{
		// §10.2: what a join needs.
		{name: "join needs the MGID", mask: maskJoin &^ wire.MCMemberCompMGID, mgid: bcast, state: 1, want: 0x0600},
		{name: "join needs the PortGID", mask: maskJoin &^ wire.MCMemberCompPortGID, mgid: bcast, state: 1, want: 0x0600},
		{name: "join needs the JoinState", mask: maskJoin &^ wire.MCMemberCompJoinState, mgid: bcast, state: 1, want: 0x0600},
		{name: "the mask comes before everything", mask: 0, mgid: ib.GID{}, state: 0, edit: foreign, want: 0x0600},
		{name: "foreign prefix", mask: maskJoin, mgid: bcast, state: 1, edit: foreign, want: 0x0500},
		{name: "port of nobody", mask: maskJoin, mgid: bcast, state: 1, edit: func(r *wire.MCMemberRecord) { r.PortGID = ib.MakeGID(ib.DefaultSubnetPrefix, 5) }, want: 0x0200},
		{name: "MTU that is none", mask: maskJoin | maskMTU, mgid: bcast, state: 1, edit: mtu(3, 0), want: 0x0200},
		{name: "rate that is none", mask: maskJoin | maskRate, mgid: bcast, state: 1, edit: rate(3, 1), want: 0x0200},
		{name: "the MTU comes before the prefix", mask: maskJoin | maskMTU, mgid: bcast, state: 1, edit: func(r *wire.MCMemberRecord) { mtu(3, 6)(r); foreign(r) }, want: 0x0200},
		{name: "the MTU comes before the mask of a create", mask: maskJoin | maskMTU, mgid: ours, state: 1, edit: mtu(3, 6), want: 0x0200},
		{name: "join state 0", mask: maskJoin, mgid: bcast, want: 0x0200},
		{name: "P_Key 0", mask: maskJoin | wire.MCMemberCompPKey, mgid: bcast, state: 1, edit: func(r *wire.MCMemberRecord) { r.PKey = 0x8000 }, want: 0x0200},
		{name: "P_Key 0, not in the mask", mask: maskJoin, mgid: bcast, state: 1, edit: func(r *wire.MCMemberRecord) { r.PKey = 0 }},
		{name: "full member", mask: maskJoin, mgid: bcast, state: wire.JoinFull},
		{name: "non-member", mask: maskJoin, mgid: bcast, state: wire.JoinNon},
		{name: "send-only non-member", mask: maskJoin, mgid: bcast, state: wire.JoinSendOnly},
		{name: "send-only full member", mask: maskJoin, mgid: bcast, state: wire.JoinSendOnlyFull},
		{name: "all join states at once", mask: maskJoin, mgid: bcast, state: 15},
		{name: "Q_Key differs", mask: maskJoin | wire.MCMemberCompQKey, mgid: bcast, state: 1, edit: func(r *wire.MCMemberRecord) { r.QKey++ }, want: 0x0200},
		{name: "Q_Key differs, not in the mask", mask: maskJoin, mgid: bcast, state: 1, edit: func(r *wire.MCMemberRecord) { r.QKey++ }},
		{name: "P_Key differs", mask: maskJoin | wire.MCMemberCompPKey, mgid: bcast, state: 1, edit: func(r *wire.MCMemberRecord) { r.PKey = 0x8001 }, want: 0x0200},
		{name: "P_Key limited, the group's full", mask: maskJoin | wire.MCMemberCompPKey, mgid: bcast, state: 1, edit: func(r *wire.MCMemberRecord) { r.PKey = 0x7FFF }},
		{name: "both P_Keys limited", setup: limitedGroup, mask: maskJoin | wire.MCMemberCompPKey, mgid: ours, state: 1, edit: func(r *wire.MCMemberRecord) { r.PKey = 0x7FFF }, want: 0x0200},
		{name: "TClass differs", mask: maskJoin | wire.MCMemberCompTClass, mgid: bcast, state: 1, edit: func(r *wire.MCMemberRecord) { r.TClass = 1 }, want: 0x0200},
		{name: "SL differs", mask: maskJoin | wire.MCMemberCompSL, mgid: bcast, state: 1, edit: func(r *wire.MCMemberRecord) { r.SL = 1 }, want: 0x0200},
		{name: "FlowLabel differs", mask: maskJoin | wire.MCMemberCompFlowLabel, mgid: bcast, state: 1, edit: func(r *wire.MCMemberRecord) { r.FlowLabel = 1 }, want: 0x0200},
		{name: "HopLimit differs", mask: maskJoin | wire.MCMemberCompHopLimit, mgid: bcast, state: 1, edit: func(r *wire.MCMemberRecord) { r.HopLimit = 1 }, want: 0x0200},
		{name: "MLID is not compared", mask: maskJoin | wire.MCMemberCompMLID, mgid: bcast, state: 1, edit: func(r *wire.MCMemberRecord) { r.MLID = 0xC005 }},

		// MTU 4 (2048), rate 3 (10), life 18 are the broadcast group's.
		{name: "MTU exactly", mask: maskJoin | maskMTU, mgid: bcast, state: 1, edit: mtu(2, 4)},
		{name: "MTU exactly another", mask: maskJoin | maskMTU, mgid: bcast, state: 1, edit: mtu(2, 3), want: 0x0200},
		{name: "MTU exactly another without selector", mask: maskJoin | wire.MCMemberCompMTU, mgid: bcast, state: 1, edit: mtu(2, 3)},
		{name: "MTU exactly another without value", mask: maskJoin | wire.MCMemberCompMTUSelector, mgid: bcast, state: 1, edit: mtu(2, 3)},
		{name: "MTU greater", mask: maskJoin | maskMTU, mgid: bcast, state: 1, edit: mtu(0, 3)},
		{name: "MTU not greater", mask: maskJoin | maskMTU, mgid: bcast, state: 1, edit: mtu(0, 4), want: 0x0200},
		{name: "MTU less", mask: maskJoin | maskMTU, mgid: bcast, state: 1, edit: mtu(1, 5)},
		{name: "MTU not less", mask: maskJoin | maskMTU, mgid: bcast, state: 1, edit: mtu(1, 4), want: 0x0200},
		{name: "MTU largest", mask: maskJoin | maskMTU, mgid: bcast, state: 1, edit: mtu(3, 1)},
		{name: "rate exactly", mask: maskJoin | maskRate, mgid: bcast, state: 1, edit: rate(2, ib.Rate10)},
		{name: "rate exactly another", mask: maskJoin | maskRate, mgid: bcast, state: 1, edit: rate(2, ib.Rate20), want: 0x0200},
		{name: "rate greater than 5, whose code is higher", mask: maskJoin | maskRate, mgid: bcast, state: 1, edit: rate(0, ib.Rate5)},
		{name: "rate not greater", mask: maskJoin | maskRate, mgid: bcast, state: 1, edit: rate(0, ib.Rate10), want: 0x0200},
		{name: "rate less", mask: maskJoin | maskRate, mgid: bcast, state: 1, edit: rate(1, ib.Rate14)},
		{name: "rate not less than 5, whose code is higher", mask: maskJoin | maskRate, mgid: bcast, state: 1, edit: rate(1, ib.Rate5), want: 0x0200},
		{name: "rate largest", mask: maskJoin | maskRate, mgid: bcast, state: 1, edit: rate(3, ib.Rate5)},
		{name: "life exactly", mask: maskJoin | maskLife, mgid: bcast, state: 1, edit: life(2, 18)},
		{name: "life exactly another", mask: maskJoin | maskLife, mgid: bcast, state: 1, edit: life(2, 17), want: 0x0200},
		{name: "life greater", mask: maskJoin | maskLife, mgid: bcast, state: 1, edit: life(0, 17)},
		{name: "life not less", mask: maskJoin | maskLife, mgid: bcast, state: 1, edit: life(1, 18), want: 0x0200},
		{name: "life smallest", mask: maskJoin | maskLife, mgid: bcast, state: 1, edit: life(3, 1)},
		{name: "port too narrow in MTU", setup: func(w *testbed) { w.edit(func(s *subnet.Snapshot) { port(s, 2).MTU = 3 }) }, mask: maskJoin, mgid: bcast, state: 1, want: 0x0200},
		{name: "port too slow", setup: func(w *testbed) { w.edit(func(s *subnet.Snapshot) { port(s, 2).Rate = ib.Rate5 }) }, mask: maskJoin, mgid: bcast, state: 1, want: 0x0200},
		{name: "port faster by a lower code", setup: func(w *testbed) { w.edit(func(s *subnet.Snapshot) { port(s, 2).Rate = ib.Rate30 }) }, mask: maskJoin, mgid: bcast, state: 1},
		{name: "port without the group's P_Key", setup: func(w *testbed) { w.keys(2, 0x8005) }, mask: maskJoin, mgid: bcast, state: 1, want: 0x0200},
		{name: "port with the group's P_Key, limited", setup: func(w *testbed) { w.keys(2, 0x7FFF) }, mask: maskJoin, mgid: bcast, state: 1},

		// Proxy joins.
		{name: "proxy", from: 3, mask: maskJoin, mgid: bcast, state: 1},
		{name: "proxy without a common partition", setup: func(w *testbed) { w.keys(3, 0x8005) }, from: 3, mask: maskJoin, mgid: bcast, state: 1, want: 0x0200},
		{name: "proxy between limited members", setup: func(w *testbed) { w.keys(3, 0x7FFF); w.keys(2, 0x7FFF) }, from: 3, mask: maskJoin, mgid: bcast, state: 1, want: 0x0200},
		{name: "another port changes a port's own entry", setup: func(w *testbed) { w.must(2, maskJoin, joining(bcast, 2, 2)) }, from: 3, mask: maskJoin, mgid: bcast, state: 1, want: 0x0200},
		{name: "the port changes its own entry", setup: func(w *testbed) { w.must(2, maskJoin, joining(bcast, 2, 2)) }, mask: maskJoin, mgid: bcast, state: 1},
		{name: "another port changes a proxied entry", setup: func(w *testbed) { w.must(3, maskJoin, joining(bcast, 2, 2)) }, from: 4, mask: maskJoin, mgid: bcast, state: 1, want: 0x0200},
		{name: "the proxy changes a proxied entry", setup: func(w *testbed) { w.must(3, maskJoin, joining(bcast, 2, 2)) }, from: 3, mask: maskJoin, mgid: bcast, state: 1},
		{name: "the port takes over its proxied entry", setup: func(w *testbed) { w.must(3, maskJoin, joining(bcast, 2, 2)) }, mask: maskJoin, mgid: bcast, state: 1},
		{
			name: "nobody outside the partition changes a proxied entry", setup: func(w *testbed) {
				w.keys(2, 0xFFFF, 0x8005)
				w.must(3, maskJoin, joining(bcast, 2, 2))
				w.keys(4, 0x8005)
			},
			from: 4, mask: maskJoin, mgid: bcast, state: 1, want: 0x0200,
		},

		// §10.3: creating.
		{name: "create", mask: maskCreate, mgid: ours, state: 1},
		{name: "create as a send-only full member", mask: maskCreate, mgid: ours, state: 8},
		{name: "create as a non-member", mask: maskCreate, mgid: ours, state: 2, want: 0x0200},
		{name: "create as a send-only non-member", mask: maskCreate, mgid: ours, state: 4, want: 0x0200},
		{name: "create as nothing", mask: maskCreate, mgid: ours, want: 0x0200},
		{name: "the join state comes before the mask", mask: maskJoin, mgid: ours, state: 2, want: 0x0200},
		{name: "create with the mask of a join", mask: maskJoin, mgid: ours, state: 1, want: 0x0600},
		{name: "create without Q_Key", mask: maskCreate &^ wire.MCMemberCompQKey, mgid: ours, state: 1, want: 0x0600},
		{name: "create without TClass", mask: maskCreate &^ wire.MCMemberCompTClass, mgid: ours, state: 1, want: 0x0600},
		{name: "create without P_Key", mask: maskCreate &^ wire.MCMemberCompPKey, mgid: ours, state: 1, want: 0x0600},
		{name: "create without SL", mask: maskCreate &^ wire.MCMemberCompSL, mgid: ours, state: 1, want: 0x0600},
		{name: "create without FlowLabel", mask: maskCreate &^ wire.MCMemberCompFlowLabel, mgid: ours, state: 1, want: 0x0600},
		{name: "create without a P_Key of the port's", mask: maskCreate, mgid: ours, state: 1, edit: func(r *wire.MCMemberRecord) { r.PKey = 0x8005 }, want: 0x0200},
		{name: "create with P_Key 0", mask: maskCreate, mgid: ours, state: 1, edit: func(r *wire.MCMemberRecord) { r.PKey = 0 }, want: 0x0200},
		{name: "MGID is none", mask: maskCreate, mgid: gid("fe80::1"), state: 1, want: 0x0200},
		{name: "MGID with reserved flags", mask: maskCreate, mgid: gid("ff22:a01c::1"), state: 1, want: 0x0200},
		{name: "permanent MGID", mask: maskCreate, mgid: gid("ff02:a01c::1"), state: 1},
		{name: "signature of the SA, link-local", mask: maskCreate, mgid: gid("ff12:a01b::1"), state: 1, want: 0x0200},
		{name: "signature of the SA, site-local", mask: maskCreate, mgid: gid("ff15:a01b::1"), state: 1},
		{name: "MGID 0", mask: maskCreate, state: 1},
		{name: "MGID 0 as a send-only full member", mask: maskCreate, state: 8, want: 0x0200},
		{name: "IPv4 group", mask: maskCreate, mgid: gid("ff12:401b:ffff::e000:1"), state: 1},
		{name: "IPv4 group, reserved flags are not looked at", mask: maskCreate, mgid: gid("ff32:401b:ffff::e000:1"), state: 1},
		{name: "IPv4 group of a scope without broadcast group", mask: maskCreate, mgid: gid("ff15:401b:ffff::e000:1"), state: 1, want: 0x0200},
		{name: "IPv6 group", mask: maskCreate, mgid: gid("ff12:601b:ffff::1"), state: 1},
		{name: "IPv6 group of a partition without broadcast group", mask: maskCreate, mgid: gid("ff12:601b:8005::1"), state: 1, want: 0x0200},
		{name: "IP group with another Q_Key", mask: maskCreate, mgid: gid("ff12:401b:ffff::e000:1"), state: 1, edit: func(r *wire.MCMemberRecord) { r.QKey = 1 }, want: 0x0200},
		{name: "IP group with another SL", mask: maskCreate, mgid: gid("ff12:401b:ffff::e000:1"), state: 1, edit: func(r *wire.MCMemberRecord) { r.SL = 1 }, want: 0x0200},
		{name: "IP group with another TClass", mask: maskCreate, mgid: gid("ff12:401b:ffff::e000:1"), state: 1, edit: func(r *wire.MCMemberRecord) { r.TClass = 1 }, want: 0x0200},
		{name: "IP group with another FlowLabel", mask: maskCreate, mgid: gid("ff12:401b:ffff::e000:1"), state: 1, edit: func(r *wire.MCMemberRecord) { r.FlowLabel = 1 }, want: 0x0200},
		{name: "IP group with another HopLimit", mask: maskCreate | wire.MCMemberCompHopLimit, mgid: gid("ff12:401b:ffff::e000:1"), state: 1, edit: func(r *wire.MCMemberRecord) { r.HopLimit = 1 }, want: 0x0200},
		{name: "create with the largest MTU", mask: maskCreate | maskMTU, mgid: ours, state: 1, edit: mtu(2, 4)},
		{name: "create with too large an MTU", mask: maskCreate | maskMTU, mgid: ours, state: 1, edit: mtu(2, 5), want: 0x0200},
		{name: "create with an MTU that is none", mask: maskCreate | maskMTU, mgid: ours, state: 1, edit: mtu(2, 0), want: 0x0200},
		{name: "create with an MTU above all", mask: maskCreate | maskMTU, mgid: ours, state: 1, edit: mtu(2, 63), want: 0x0200},
		{name: "create with a greater MTU than the port's", mask: maskCreate | maskMTU, mgid: ours, state: 1, edit: mtu(0, 4), want: 0x0200},
		{name: "create with less than the least MTU", mask: maskCreate | maskMTU, mgid: ours, state: 1, edit: mtu(1, 1), want: 0x0200},
		{name: "create with too high a rate", mask: maskCreate | maskRate, mgid: ours, state: 1, edit: rate(2, ib.Rate300), want: 0x0200},
		{name: "create with a rate that is none", mask: maskCreate | maskRate, mgid: ours, state: 1, edit: rate(2, 1), want: 0x0200},
		{name: "create with a rate that is none, selector less", mask: maskCreate | maskRate, mgid: ours, state: 1, edit: rate(1, 63), want: 0x0200},
		{name: "create with a greater rate than the port's", mask: maskCreate | maskRate, mgid: ours, state: 1, edit: rate(0, ib.Rate200), want: 0x0200},
		{name: "create with less than the least rate", mask: maskCreate | maskRate, mgid: ours, state: 1, edit: rate(1, ib.Rate2p5), want: 0x0200},
		{name: "create with a life that cannot be", mask: maskCreate | maskLife, mgid: ours, state: 1, edit: life(0, 63), want: 0x0200},
		{name: "create with no life", mask: maskCreate | maskLife, mgid: ours, state: 1, edit: life(1, 0), want: 0x0200},
		{name: "no MLID is free", setup: func(w *testbed) { w.edit(func(s *subnet.Snapshot) { s.Nodes[0].Switch.MulticastFDBCap = 1 }) }, mask: maskCreate, mgid: ours, state: 1, want: 0x0100},

		// §10.4: leaving.
		{name: "leave needs the MGID", setup: joined(3), mask: maskJoin &^ wire.MCMemberCompMGID, mgid: bcast, state: 1, del: true, want: 0x0600},
		{name: "leave needs the PortGID", setup: joined(3), mask: maskJoin &^ wire.MCMemberCompPortGID, mgid: bcast, state: 1, del: true, want: 0x0600},
		{name: "leave needs the JoinState", setup: joined(3), mask: maskJoin &^ wire.MCMemberCompJoinState, mgid: bcast, state: 1, del: true, want: 0x0600},
		{name: "leave with a foreign prefix", setup: joined(3), mask: maskJoin, mgid: bcast, state: 1, edit: foreign, del: true, want: 0x0500},
		{name: "leave with a rate that is none", setup: joined(3), mask: maskJoin | maskRate, mgid: bcast, state: 1, edit: rate(2, 1), del: true, want: 0x0200},
		{name: "leave an unknown group", mask: maskJoin, mgid: ours, state: 1, del: true, want: 0x0200},
		{name: "leave a group one is not in", mask: maskJoin, mgid: bcast, state: 1, del: true, want: 0x0200},
		{name: "leave a state one does not have", setup: joined(3), mask: maskJoin, mgid: bcast, state: 4, del: true, want: 0x0200},
		{name: "leave more than one has", setup: joined(3), mask: maskJoin, mgid: bcast, state: 7, del: true, want: 0x0200},
		{name: "leave nothing", setup: joined(3), mask: maskJoin, mgid: bcast, del: true, want: 0x0200},
		{name: "leave in part", setup: joined(3), mask: maskJoin, mgid: bcast, state: 2, del: true},
		{name: "leave", setup: joined(3), mask: maskJoin, mgid: bcast, state: 3, del: true},
		{name: "another port leaves for a port", setup: joined(3), from: 3, mask: maskJoin, mgid: bcast, state: 3, del: true, want: 0x0200},
		{name: "another port ends a proxied entry", setup: func(w *testbed) { w.must(3, maskJoin, joining(bcast, 2, 1)) }, from: 4, mask: maskJoin, mgid: bcast, state: 1, del: true, want: 0x0200},
		{name: "the proxy ends a proxied entry", setup: func(w *testbed) { w.must(3, maskJoin, joining(bcast, 2, 1)) }, from: 3, mask: maskJoin, mgid: bcast, state: 1, del: true},
		{
			name: "nobody outside the partition ends a proxied entry", setup: func(w *testbed) { w.must(3, maskJoin, joining(bcast, 2, 1)); w.keys(4, 0x8005) },
			from: 4, mask: maskJoin, mgid: bcast, state: 1, del: true, want: 0x0200,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newTestbed(t, sa.Config{ExclusiveMLIDs: true}, up(3))
			if c.setup != nil {
				c.setup(w)
			}
			before, told, rec := dump(w.view), w.told, len(w.records(store.TableGroups, store.TableMembers))
			if c.from == 0 {
				c.from = 2
			}
			r := joining(c.mgid, 2, c.state)
			if c.edit != nil {
				c.edit(&r)
			}
			m := ib.MethodSet
			if c.del {
				m = ib.MethodDelete
			}
			q := ask(m, wire.AttrMCMemberRecord, c.mask, &r)
			b := w.ask(c.from, q)
			if len(b) != 1 || status(b[0]) != c.want {
				t.Fatalf("status %v, want %v", status(b[0]), c.want)
			}
			if c.want == 0 {
				if dump(w.view) == before {
					t.Error("the request was granted and changed nothing")
				}
				return
			}
			if string(b[0][wire.HeaderLen:]) != string(q[wire.HeaderLen:]) {
				t.Error("the refusal does not have the data of the request")
			}
			if after := dump(w.view); after != before {
				t.Errorf("the refused request left something behind:\n%s\nwas\n%s", after, before)
			}
			if w.told != told {
				t.Error("groups were told to the subnet manager again")
			}
			if n := len(w.records(store.TableGroups, store.TableMembers)); n != rec {
				t.Errorf("%d records are stored, %d were", n, rec)
			}
		})
	}
}

func mtu(sel uint8, v ib.MTU) func(*wire.MCMemberRecord) {
	return func(r *wire.MCMemberRecord) { r.MTUSelector, r.MTU = sel, v }
}

func rate(sel uint8, v ib.Rate) func(*wire.MCMemberRecord) {
	return func(r *wire.MCMemberRecord) { r.RateSelector, r.Rate = sel, v }
}

func life(sel, v uint8) func(*wire.MCMemberRecord) {
	return func(r *wire.MCMemberRecord) { r.PacketLifeTimeSelector, r.PacketLifeTime = sel, v }
}

// joined has host 2 in the broadcast group.
func joined(state uint8) func(*testbed) {
	return func(w *testbed) { w.must(2, maskJoin, joining(bcast, 2, state)) }
}

// limitedGroup makes a group whose P_Key is that of a limited member.
func limitedGroup(w *testbed) {
	r := joining(ours, 3, 1)
	r.PKey = 0x7FFF
	w.must(3, maskCreate, r)
}

// edit changes the subnet.
func (w *testbed) edit(f func(s *subnet.Snapshot)) {
	s := clone(w.snap)
	f(s)
	s.Finish()
	w.publish(s)
}

// keys gives a host a P_Key table.
func (w *testbed) keys(lid ib.LID, keys ...ib.PKey) {
	w.edit(func(s *subnet.Snapshot) { port(s, lid).PKeys = keys })
}

// dump prints groups and members.
func dump(v *sa.View) string {
	var b strings.Builder
	for _, g := range v.Groups {
		b.WriteString(g.MGID.String() + " " + g.MLID.String() + " " + g.PKey.String())
		if g.WellKnown {
			b.WriteString(" permanent")
		}
		for _, m := range g.Members {
			b.WriteString("\n  " + m.PortGID.String() + " " + m.PortGUID.String() + " " + hex.EncodeToString([]byte{m.JoinState}))
			if m.Proxy {
				b.WriteString(" proxy")
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}
