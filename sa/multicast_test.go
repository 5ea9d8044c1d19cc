package sa_test

import (
	"encoding/binary"
	"encoding/hex"
	"slices"
	"strings"
	"testing"
	"time"

	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/mad"
	"heddle/partition"
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
func (w *world) set(from ib.LID, mask wire.CompMask, r wire.MCMemberRecord) (wire.MCMemberRecord, ib.Status) {
	w.t.Helper()
	return w.one(ib.MethodSet, from, mask, r)
}

// leave sends one Delete and returns its answer.
func (w *world) leave(from ib.LID, mask wire.CompMask, r wire.MCMemberRecord) (wire.MCMemberRecord, ib.Status) {
	w.t.Helper()
	return w.one(ib.MethodDelete, from, mask, r)
}

func (w *world) one(m ib.Method, from ib.LID, mask wire.CompMask, r wire.MCMemberRecord) (out wire.MCMemberRecord, st ib.Status) {
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
func (w *world) must(from ib.LID, mask wire.CompMask, r wire.MCMemberRecord) wire.MCMemberRecord {
	w.t.Helper()
	out, st := w.set(from, mask, r)
	if st != 0 {
		w.t.Fatalf("join of %v to %v: status %v", r.PortGID, r.MGID, st)
	}
	return out
}

func (w *world) group(mgid ib.GID) *sa.Group {
	for _, g := range w.view.Groups {
		if g.MGID == mgid {
			return g
		}
	}
	return nil
}

// routed is what the subnet manager was told of an MLID.
func (w *world) routed(mlid ib.LID) *subnet.Group {
	for i := range w.groups {
		if w.groups[i].MLID == mlid {
			return &w.groups[i]
		}
	}
	return nil
}

// TestMulticastVectors replays what was recorded with OpenSM on one switch and two
// hosts whose links do 10 Gb/s and 2048 bytes.
func TestMulticastVectors(t *testing.T) {
	s := up(2)
	for i, guid := range []ib.GUID{0x100001, 0x100004} {
		p := port(s, ib.LID(2+i))
		p.GUID, p.MTU, p.Rate = guid, 4, ib.Rate10
	}
	s.Finish()
	w := newWorld(t, sa.Config{}, s)
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

// TestJoinStatus: each rule of joining, creating and leaving, one at a time,
// from a state in which the request passes but for that rule.
func TestJoinStatus(t *testing.T) {
	foreign := func(r *wire.MCMemberRecord) { r.PortGID = ib.MakeGID(0xFEC0000000000001, r.PortGID.GUID()) }
	for _, c := range []struct {
		name  string
		setup func(w *world)
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
		{name: "port too narrow in MTU", setup: func(w *world) { w.edit(func(s *subnet.Snapshot) { port(s, 2).MTU = 3 }) }, mask: maskJoin, mgid: bcast, state: 1, want: 0x0200},
		{name: "port too slow", setup: func(w *world) { w.edit(func(s *subnet.Snapshot) { port(s, 2).Rate = ib.Rate5 }) }, mask: maskJoin, mgid: bcast, state: 1, want: 0x0200},
		{name: "port faster by a lower code", setup: func(w *world) { w.edit(func(s *subnet.Snapshot) { port(s, 2).Rate = ib.Rate30 }) }, mask: maskJoin, mgid: bcast, state: 1},
		{name: "port without the group's P_Key", setup: func(w *world) { w.keys(2, 0x8005) }, mask: maskJoin, mgid: bcast, state: 1, want: 0x0200},
		{name: "port with the group's P_Key, limited", setup: func(w *world) { w.keys(2, 0x7FFF) }, mask: maskJoin, mgid: bcast, state: 1},

		// Proxy joins.
		{name: "proxy", from: 3, mask: maskJoin, mgid: bcast, state: 1},
		{name: "proxy without a common partition", setup: func(w *world) { w.keys(3, 0x8005) }, from: 3, mask: maskJoin, mgid: bcast, state: 1, want: 0x0200},
		{name: "proxy between limited members", setup: func(w *world) { w.keys(3, 0x7FFF); w.keys(2, 0x7FFF) }, from: 3, mask: maskJoin, mgid: bcast, state: 1, want: 0x0200},
		{name: "another port changes a port's own entry", setup: func(w *world) { w.must(2, maskJoin, joining(bcast, 2, 2)) }, from: 3, mask: maskJoin, mgid: bcast, state: 1, want: 0x0200},
		{name: "the port changes its own entry", setup: func(w *world) { w.must(2, maskJoin, joining(bcast, 2, 2)) }, mask: maskJoin, mgid: bcast, state: 1},
		{name: "anybody of the partition changes a proxied entry", setup: func(w *world) { w.must(3, maskJoin, joining(bcast, 2, 2)) }, from: 4, mask: maskJoin, mgid: bcast, state: 1},
		{name: "the port takes over its proxied entry", setup: func(w *world) { w.must(3, maskJoin, joining(bcast, 2, 2)) }, mask: maskJoin, mgid: bcast, state: 1},
		{
			name: "nobody outside the partition changes a proxied entry", setup: func(w *world) {
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
		{name: "IPv4 group, reserved flags are not looked at", setup: func(w *world) { w.must(2, maskCreate, joining(gid("ff32:401b:ffff::ffff:ffff"), 2, 1)) }, mask: maskCreate, mgid: gid("ff32:401b:ffff::e000:1"), state: 1},
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
		{name: "no MLID is free", setup: func(w *world) { w.edit(func(s *subnet.Snapshot) { s.Nodes[0].Switch.MulticastFDBCap = 1 }) }, mask: maskCreate, mgid: ours, state: 1, want: 0x0100},

		// §10.4: leaving.
		{name: "leave needs the MGID", setup: joined(3), mask: maskJoin &^ wire.MCMemberCompMGID, mgid: bcast, state: 1, del: true, want: 0x0600},
		{name: "leave needs the PortGID", setup: joined(3), mask: maskJoin &^ wire.MCMemberCompPortGID, mgid: bcast, state: 1, del: true, want: 0x0600},
		{name: "leave needs the JoinState", setup: joined(3), mask: maskJoin &^ wire.MCMemberCompJoinState, mgid: bcast, state: 1, del: true, want: 0x0600},
		{name: "leave an unknown group", mask: maskJoin, mgid: ours, state: 1, del: true, want: 0x0200},
		{name: "leave a group one is not in", mask: maskJoin, mgid: bcast, state: 1, del: true, want: 0x0200},
		{name: "leave a state one does not have", setup: joined(3), mask: maskJoin, mgid: bcast, state: 4, del: true, want: 0x0200},
		{name: "leave more than one has", setup: joined(3), mask: maskJoin, mgid: bcast, state: 7, del: true, want: 0x0200},
		{name: "leave nothing", setup: joined(3), mask: maskJoin, mgid: bcast, del: true, want: 0x0200},
		{name: "leave in part", setup: joined(3), mask: maskJoin, mgid: bcast, state: 2, del: true},
		{name: "leave", setup: joined(3), mask: maskJoin, mgid: bcast, state: 3, del: true},
		{name: "another port leaves for a port", setup: joined(3), from: 3, mask: maskJoin, mgid: bcast, state: 3, del: true, want: 0x0200},
		{name: "anybody of the partition ends a proxied entry", setup: func(w *world) { w.must(3, maskJoin, joining(bcast, 2, 1)) }, from: 4, mask: maskJoin, mgid: bcast, state: 1, del: true},
		{
			name: "nobody outside the partition ends a proxied entry", setup: func(w *world) { w.must(3, maskJoin, joining(bcast, 2, 1)); w.keys(4, 0x8005) },
			from: 4, mask: maskJoin, mgid: bcast, state: 1, del: true, want: 0x0200,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, sa.Config{ExclusiveMLIDs: true}, up(3))
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
func joined(state uint8) func(*world) {
	return func(w *world) { w.must(2, maskJoin, joining(bcast, 2, state)) }
}

// limitedGroup makes a group whose P_Key is that of a limited member.
func limitedGroup(w *world) {
	r := joining(ours, 3, 1)
	r.PKey = 0x7FFF
	w.must(3, maskCreate, r)
}

// edit changes the subnet.
func (w *world) edit(f func(s *subnet.Snapshot)) {
	s := clone(w.snap)
	f(s)
	s.Finish()
	w.publish(s)
}

// keys gives a host a P_Key table.
func (w *world) keys(lid ib.LID, keys ...ib.PKey) {
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

// TestJoinAnswer: what the answers to joins and leaves say, and what is told.
func TestJoinAnswer(t *testing.T) {
	w := newWorld(t, sa.Config{SAKey: 7}, up(4))
	if w.routed(0xC000) != nil {
		t.Error("a group without members is to be routed")
	}
	r := joining(bcast, 2, wire.JoinSendOnly)
	r.ProxyJoin = true // as a client may have it: it is the SA that knows
	out := w.must(2, maskJoin, r)
	if out.JoinState != wire.JoinSendOnly || out.Scope != 2 || out.MLID != 0xC000 || !out.ProxyJoin || w.group(bcast).Members[0].Proxy {
		t.Errorf("answer %+v", out)
	}
	if g := w.routed(0xC000); g == nil || !slices.Equal(g.Members, []ib.GUID{hostGID(2).GUID()}) || !slices.Equal(g.Senders, g.Members) {
		t.Errorf("routed %+v", g)
	}
	told := w.told
	if out = w.must(2, maskJoin, joining(bcast, 2, wire.JoinNon)); out.JoinState != wire.JoinSendOnly|wire.JoinNon {
		t.Errorf("join state %#x", out.JoinState)
	}
	if g := w.routed(0xC000); w.told != told+1 || len(g.Senders) != 0 {
		t.Errorf("who also receives is routed as %+v, told %d times", g, w.told-told)
	}
	told = w.told
	w.must(2, maskJoin, joining(bcast, 2, wire.JoinFull))
	if w.told != told {
		t.Error("another join state of a receiver changes no tree, but was told")
	}
	if out = w.must(3, maskJoin, joining(bcast, 4, wire.JoinFull)); out.PortGID != hostGID(4) {
		t.Errorf("proxy join is answered with %v", out.PortGID)
	}
	if m := w.group(bcast).Members; len(m) != 2 || m[0].Proxy || !m[1].Proxy || m[1].PortGUID != hostGID(4).GUID() {
		t.Errorf("members %+v", m)
	}
	w.must(4, maskJoin, joining(bcast, 4, wire.JoinFull))
	if m := w.group(bcast).Members; m[1].Proxy {
		t.Error("a port that joins for itself does not take its entry over")
	}
	if out, st := w.leave(2, maskJoin, joining(bcast, 2, wire.JoinFull)); st != 0 || out.JoinState != wire.JoinSendOnly|wire.JoinNon || out.Scope != 2 || out.QKey != 0x0B1B {
		t.Errorf("leave: %v %+v", st, out)
	}
}

// TestCreateValues: what a group gets that its creator did not say, or said by
// selectors.
func TestCreateValues(t *testing.T) {
	for _, c := range []struct {
		name string
		mask wire.CompMask
		edit func(*wire.MCMemberRecord)
		mtu  ib.MTU
		rate ib.Rate
		life uint8
	}{
		{"nothing said", 0, nil, 4, ib.Rate200, 18},
		{"values not in the mask", 0, func(r *wire.MCMemberRecord) { mtu(2, 1)(r); rate(2, ib.Rate10)(r); life(2, 3)(r) }, 4, ib.Rate200, 18},
		{"exactly", maskMTU | maskRate | maskLife, func(r *wire.MCMemberRecord) { mtu(2, 1)(r); rate(2, ib.Rate10)(r); life(2, 3)(r) }, 1, ib.Rate10, 3},
		{"greater", maskMTU | maskRate | maskLife, func(r *wire.MCMemberRecord) { mtu(0, 1)(r); rate(0, ib.Rate10)(r); life(0, 20)(r) }, 4, ib.Rate200, 21},
		{"greater than little", maskLife, life(0, 3), 4, ib.Rate200, 18},
		{"less", maskMTU | maskRate | maskLife, func(r *wire.MCMemberRecord) { mtu(1, 3)(r); rate(1, ib.Rate10)(r); life(1, 9)(r) }, 2, ib.Rate5, 8},
		{"less than the port's", maskMTU | maskRate, func(r *wire.MCMemberRecord) { mtu(1, 4)(r); rate(1, ib.Rate200)(r) }, 3, ib.Rate168, 18},
		{"less than more than the port's", maskMTU | maskRate, func(r *wire.MCMemberRecord) { mtu(1, 5)(r); rate(1, ib.Rate400)(r) }, 4, ib.Rate200, 18},
		{"largest", maskMTU | maskRate | maskLife, func(r *wire.MCMemberRecord) { mtu(3, 1)(r); rate(3, 0)(r); life(3, 63)(r) }, 4, ib.Rate200, 18},
	} {
		w := newWorld(t, sa.Config{}, up(2))
		r := joining(ours, 2, 1)
		r.HopLimit = 9
		if c.edit != nil {
			c.edit(&r)
		}
		out := w.must(2, maskCreate|c.mask, r)
		if out.MTU != c.mtu || out.Rate != c.rate || out.PacketLifeTime != c.life || out.MTUSelector != 2 || out.RateSelector != 2 || out.PacketLifeTimeSelector != 2 {
			t.Errorf("%s: MTU %d/%d, rate %d/%d, life %d/%d; want %d, %d, %d", c.name, out.MTUSelector, out.MTU, out.RateSelector, out.Rate,
				out.PacketLifeTimeSelector, out.PacketLifeTime, c.mtu, c.rate, c.life)
		}
		if out.MLID != 0xC001 || out.HopLimit != 0 || out.JoinState != 1 {
			t.Errorf("%s: %+v", c.name, out)
		}
		// Who asks for the same joins.
		r.PortGID = hostGID(3)
		if _, st := w.set(3, maskCreate|c.mask, r); st != 0 {
			t.Errorf("%s: the same request from another port: %v", c.name, st)
		}
	}
}

// TestOwnMGID: MGIDs that the SA makes are new, and stay so after a restart.
func TestOwnMGID(t *testing.T) {
	w := newWorld(t, sa.Config{}, up(2))
	seen := map[ib.GID]bool{}
	for i := range 6 {
		if i == 3 {
			w.restart()
		}
		out := w.must(2, maskCreate, joining(ib.GID{}, 2, 1))
		if s := out.MGID.String(); !strings.HasPrefix(s, "ff12:a01b:fe80::") || seen[out.MGID] || out.Scope != 2 {
			t.Fatalf("MGID %v, scope %d", s, out.Scope)
		}
		seen[out.MGID] = true
		// A second member joins by that MGID, which nobody could have chosen.
		w.must(3, maskJoin, joining(out.MGID, 3, 1))
		if i%2 == 0 {
			for _, lid := range []ib.LID{2, 3} {
				if _, st := w.leave(lid, maskJoin, joining(out.MGID, lid, 1)); st != 0 {
					t.Fatal(st)
				}
			}
		}
	}
	r := joining(ib.GID{}, 2, 1)
	r.Scope = 0xE
	if out := w.must(2, maskCreate|wire.MCMemberCompScope, r); out.MGID[1] != 0x1E || out.Scope != 0xE {
		t.Errorf("MGID %v, scope %d", out.MGID, out.Scope)
	}
}

// TestGroupEnds: a group is there as long as somebody keeps it.
func TestGroupEnds(t *testing.T) {
	for _, c := range []struct {
		name          string
		first, second uint8 // who is in it
		leaves        uint8 // what the first gives up
		stays         bool
	}{
		{"the last full member leaves", 1, 0, 1, false},
		{"another full member stays", 1, 1, 1, true},
		{"a send-only full member stays", 1, 8, 1, true},
		{"a non-member does not keep it", 1, 2, 1, false},
		{"a sender does not keep it", 1, 4, 1, false},
		{"both do not", 1, 6, 1, false},
		{"the last send-only full member leaves", 8, 0, 8, false},
		{"a full member gives up only sending", 9, 0, 8, true},
		{"a full member stays send-only", 9, 0, 1, true},
		{"what stays of it does not keep it", 3, 0, 1, false},
	} {
		w := newWorld(t, sa.Config{}, up(3))
		w.must(2, maskCreate, joining(ours, 2, c.first))
		if c.second != 0 {
			w.must(3, maskJoin, joining(ours, 3, c.second))
		}
		if out, st := w.leave(2, maskJoin, joining(ours, 2, c.leaves)); st != 0 || out.JoinState != c.first&^c.leaves {
			t.Errorf("%s: %v, state %#x", c.name, st, out.JoinState)
		}
		if is := w.group(ours) != nil; is != c.stays {
			t.Errorf("%s: group stays %v", c.name, is)
		}
		if !c.stays {
			// Nothing is left: neither records nor a tree, and the MLID is free.
			if n := len(w.records(store.TableGroups, store.TableMembers)); n != 1 {
				t.Errorf("%s: %d records are stored", c.name, n)
			}
			if w.routed(0xC001) != nil {
				t.Errorf("%s: it still has a tree", c.name)
			}
			if out := w.must(3, maskCreate, joining(gid("ff12:a01c::2"), 3, 1)); out.MLID != 0xC001 {
				t.Errorf("%s: the next group has MLID %v", c.name, out.MLID)
			}
		}
	}
	// Permanent groups stay.
	w := newWorld(t, sa.Config{}, up(3))
	w.must(2, maskJoin, joining(bcast, 2, 1))
	if _, st := w.leave(2, maskJoin, joining(bcast, 2, 1)); st != 0 || w.group(bcast) == nil {
		t.Errorf("broadcast group: %v", st)
	}
}

// TestPermanentGroups: groups come from the partitions, change and go with
// them, and keep their MLIDs.
func TestPermanentGroups(t *testing.T) {
	policy := func(groups map[ib.PKey][]partition.Group) *partition.Policy {
		p := &partition.Policy{}
		for _, key := range []ib.PKey{5, 0x7FFF} {
			p.Partitions = append(p.Partitions, partition.Partition{PKey: key, Groups: groups[key]})
		}
		return p
	}
	b5, bf := partition.Broadcast(5), partition.Broadcast(0x7FFF)
	s := up(3)
	s.Partitions = policy(map[ib.PKey][]partition.Group{5: {b5}, 0x7FFF: {bf}})
	for lid := ib.LID(2); lid < 5; lid++ {
		port(s, lid).PKeys = []ib.PKey{0xFFFF, 0x8005}
	}
	w := newWorld(t, sa.Config{}, s)
	if g := w.group(bf.MGID); g == nil || g.MLID != 0xC000 || !g.WellKnown || g.PKey != 0xFFFF || g.PacketLife != 18 || g.Scope != 2 {
		t.Fatalf("broadcast group of the default partition: %+v", g)
	}
	if g := w.group(b5.MGID); g == nil || g.MLID != 0xC001 || g.PKey != 0x8005 {
		t.Fatalf("broadcast group of partition 5: %+v", g)
	}
	w.must(2, maskJoin, joining(b5.MGID, 2, 1))
	// The policy changes: partition 5 has its broadcast group no more, the
	// default one another MTU.
	wide := bf
	wide.MTU, wide.SL = 3, 2
	w.edit(func(s *subnet.Snapshot) {
		s.Partitions = policy(map[ib.PKey][]partition.Group{0x7FFF: {wide}})
	})
	if g := w.group(b5.MGID); g == nil || g.WellKnown || len(g.Members) != 1 || g.MLID != 0xC001 {
		t.Errorf("a group that is used went with its partition: %+v", g)
	}
	if g := w.group(bf.MGID); g.MTU != 3 || g.SL != 2 || g.MLID != 0xC000 {
		t.Errorf("broadcast group %+v", g)
	}
	w.restart()
	if g := w.group(b5.MGID); g == nil || g.WellKnown || g.MLID != 0xC001 {
		t.Errorf("after a restart: %+v", g)
	}
	if _, st := w.leave(2, maskJoin, joining(b5.MGID, 2, 1)); st != 0 || w.group(b5.MGID) != nil {
		t.Errorf("it does not go with its last member: %v", st)
	}
	// What is unused goes at once.
	w.edit(func(s *subnet.Snapshot) { s.Partitions = policy(nil) })
	if len(w.view.Groups) != 0 || len(w.records(store.TableGroups)) != 0 {
		t.Errorf("groups %v", dump(w.view))
	}
	// A group that ports made becomes permanent.
	w.must(2, maskCreate, joining(bcast, 2, 1))
	w.edit(func(s *subnet.Snapshot) { s.Partitions = policy(map[ib.PKey][]partition.Group{0x7FFF: {bf}}) })
	if g := w.group(bcast); !g.WellKnown || len(g.Members) != 1 {
		t.Errorf("group %+v", g)
	}
}

// TestPortGone: a port that disappears leaves its groups; one that loses the
// P_Key of a group leaves that one.
func TestPortGone(t *testing.T) {
	w := newWorld(t, sa.Config{}, up(4))
	for lid := ib.LID(2); lid < 5; lid++ {
		w.must(lid, maskJoin, joining(bcast, lid, 1))
	}
	w.must(2, maskCreate, joining(ours, 2, 1))
	w.must(3, maskJoin, joining(ours, 3, 2))
	other := gid("ff12:a01c::2")
	w.must(3, maskCreate, joining(other, 3, 1))
	w.kinds()

	// A subnet that is not up says nothing about who is gone.
	down := without(w.snap, 2, 3, 4)
	down.Up = false
	whole := w.snap
	before := dump(w.view)
	w.publish(down)
	if dump(w.view) != before {
		t.Error("members left while the subnet was not up")
	}
	w.publish(whole)
	if dump(w.view) != before {
		t.Error("members left when the subnet came up")
	}

	w.publish(without(whole, 2))
	if g := w.group(ours); g != nil {
		t.Errorf("group %v stays without full member", g.MGID)
	}
	if m := w.group(bcast).Members; len(m) != 2 || m[0].PortGID != hostGID(3) {
		t.Errorf("members %v", m)
	}
	if k := w.kinds(); !slices.Contains(k, "group_deleted") || !slices.Contains(k, "members_left") {
		t.Errorf("notices %v", k)
	}
	w.publish(clone(whole)) // it is back, and has to join again
	if len(w.group(bcast).Members) != 2 {
		t.Error("a port that came back is a member")
	}
	w.keys(3, 0x8005)
	if w.group(other) != nil || len(w.group(bcast).Members) != 1 {
		t.Errorf("members of a partition that the port is not in:\n%s", dump(w.view))
	}
	w.keys(4, 0x7FFF, 0x8005)
	if len(w.group(bcast).Members) != 1 {
		t.Error("a port that became a limited member left")
	}
	if n := len(w.records(store.TableMembers)); n != 1 {
		t.Errorf("%d members are stored", n)
	}
}

// TestAliasMembers: a port may join by an alias GUID; the tree leads to the
// port that has it, wherever that goes.
func TestAliasMembers(t *testing.T) {
	s := up(3)
	port(s, 2).Aliases = []ib.GUID{0, 0xA11A5}
	s.Finish()
	w := newWorld(t, sa.Config{}, s)
	r := joining(ours, 2, 1)
	r.PortGID = ib.MakeGID(ib.DefaultSubnetPrefix, 0xA11A5)
	w.must(2, maskCreate, r)
	if m := w.group(ours).Members[0]; m.PortGID != r.PortGID || m.PortGUID != hostGID(2).GUID() || m.Proxy {
		t.Fatalf("member %+v", m)
	}
	if g := w.routed(0xC001); !slices.Equal(g.Members, []ib.GUID{hostGID(2).GUID()}) {
		t.Errorf("routed %+v", g)
	}
	w.edit(func(s *subnet.Snapshot) { port(s, 2).Aliases = nil; port(s, 3).Aliases = []ib.GUID{0, 0xA11A5} })
	if g := w.routed(0xC001); !slices.Equal(g.Members, []ib.GUID{hostGID(3).GUID()}) {
		t.Errorf("after the alias moved: routed %+v", g)
	}
	w.edit(func(s *subnet.Snapshot) { port(s, 3).Aliases = nil })
	if g := w.group(ours); g == nil || g.Members[0].PortGUID != hostGID(3).GUID() {
		t.Errorf("an alias that is not programmed yet: %+v", g)
	}
	if _, st := w.leave(3, maskJoin, r); st != 0 || w.group(ours) != nil {
		t.Errorf("leave by the alias: %v", st)
	}
}

// TestMulticastQueries: what trusted and untrusted requesters see.
func TestMulticastQueries(t *testing.T) {
	w := newWorld(t, sa.Config{SAKey: 7}, up(4))
	w.must(2, maskJoin, joining(bcast, 2, 1))
	w.must(4, maskJoin, joining(bcast, 3, 3))
	w.must(2, maskCreate, joining(ours, 2, 1))
	empty := gid("ff12:a01c::2")
	w.must(3, maskCreate, joining(empty, 3, 8))
	w.keys(5, 0x8005)
	count := func(from ib.LID, key uint64, mask wire.CompMask, r wire.MCMemberRecord) int {
		t.Helper()
		return len(records(t, w.get(from, ib.MethodGetTable, wire.AttrMCMemberRecord, mask, &r, key)))
	}
	all := w.group(bcast)
	for _, c := range []struct {
		name               string
		mask               wire.CompMask
		r                  wire.MCMemberRecord
		untrusted, trusted int
	}{
		{"all", 0, wire.MCMemberRecord{}, 3, 4},
		{"MGID", wire.MCMemberCompMGID, wire.MCMemberRecord{MGID: bcast}, 1, 2},
		{"MGID of none", wire.MCMemberCompMGID, wire.MCMemberRecord{}, 0, 0},
		{"MLID", wire.MCMemberCompMLID, wire.MCMemberRecord{MLID: 0xC001}, 1, 1},
		{"Q_Key", wire.MCMemberCompQKey, wire.MCMemberRecord{QKey: 1}, 0, 0},
		{"P_Key", wire.MCMemberCompPKey, wire.MCMemberRecord{PKey: 0xFFFF}, 3, 4},
		{"TClass", wire.MCMemberCompTClass, wire.MCMemberRecord{TClass: 1}, 0, 0},
		{"SL", wire.MCMemberCompSL, wire.MCMemberRecord{SL: 1}, 0, 0},
		{"FlowLabel", wire.MCMemberCompFlowLabel, wire.MCMemberRecord{FlowLabel: 1}, 0, 0},
		{"HopLimit", wire.MCMemberCompHopLimit, wire.MCMemberRecord{HopLimit: 1}, 0, 0},
		{"Scope", wire.MCMemberCompScope, wire.MCMemberRecord{Scope: 2}, 3, 4},
		{"another Scope", wire.MCMemberCompScope, wire.MCMemberRecord{Scope: 5}, 0, 0},
		{"MTU", maskMTU, wire.MCMemberRecord{MTUSelector: 2, MTU: all.MTU}, 3, 4},
		{"greater MTU", maskMTU, wire.MCMemberRecord{MTUSelector: 0, MTU: all.MTU}, 0, 0},
		{"rate", maskRate, wire.MCMemberRecord{RateSelector: 2, Rate: ib.Rate10}, 1, 2},
		{"greater rate", maskRate, wire.MCMemberRecord{RateSelector: 0, Rate: ib.Rate10}, 2, 2},
		{"life", maskLife, wire.MCMemberRecord{PacketLifeTimeSelector: 1, PacketLifeTime: 18}, 0, 0},
		{"PortGID", wire.MCMemberCompPortGID, wire.MCMemberRecord{PortGID: hostGID(2)}, 2, 2},
		{"PortGID of a stranger", wire.MCMemberCompPortGID, wire.MCMemberRecord{PortGID: hostGID(5)}, 0, 0},
		{"JoinState", wire.MCMemberCompJoinState, wire.MCMemberRecord{JoinState: 1}, 2, 2},
		{"JoinState is compared whole", wire.MCMemberCompJoinState, wire.MCMemberRecord{JoinState: 2}, 0, 0},
		{"ProxyJoin", wire.MCMemberCompProxyJoin, wire.MCMemberRecord{ProxyJoin: true}, 1, 1},
	} {
		if n := count(2, 0, c.mask, c.r); n != c.untrusted {
			t.Errorf("%s: %d records, want %d", c.name, n, c.untrusted)
		}
		if n := count(2, 7, c.mask, c.r); n != c.trusted {
			t.Errorf("%s, trusted: %d records, want %d", c.name, n, c.trusted)
		}
		if n := count(5, 7, c.mask, c.r); n != 0 {
			t.Errorf("%s: a port of another partition sees %d records", c.name, n)
		}
	}
	var r wire.MCMemberRecord
	for _, b := range records(t, w.get(2, ib.MethodGetTable, wire.AttrMCMemberRecord, 0, nil, 0)) {
		if err := r.Decode(b); err != nil || !r.PortGID.IsZero() || r.JoinState != 0 || r.ProxyJoin || r.MTUSelector != 2 || r.MLID == 0 {
			t.Errorf("untrusted record %+v", r)
		}
	}
	b := records(t, w.get(2, ib.MethodGetTable, wire.AttrMCMemberRecord, wire.MCMemberCompMGID, &wire.MCMemberRecord{MGID: bcast}, 7))
	if err := r.Decode(b[1]); err != nil || r.PortGID != hostGID(3) || r.JoinState != 3 || !r.ProxyJoin || r.QKey != 0x0B1B {
		t.Errorf("trusted record %+v", r)
	}
	// Get of one, of none, and of several.
	for _, c := range []struct {
		mgid ib.GID
		mask wire.CompMask
		key  uint64
		want ib.Status
	}{
		{bcast, wire.MCMemberCompMGID, 0, 0},
		{bcast, wire.MCMemberCompMGID, 7, 0x0400},
		{gid("ff12::1"), wire.MCMemberCompMGID, 0, 0x0300},
		{bcast, 0, 0, 0x0400},
	} {
		if st := status(w.get(2, ib.MethodGet, wire.AttrMCMemberRecord, c.mask, &wire.MCMemberRecord{MGID: c.mgid}, c.key)); st != c.want {
			t.Errorf("Get %v, mask %#x, key %d: %v, want %v", c.mgid, c.mask, c.key, st, c.want)
		}
	}
	// A permanent group without members: one record for others, none for the
	// trusted.
	for _, lid := range []ib.LID{2, 3} {
		m := w.group(bcast)
		i := slices.IndexFunc(m.Members, func(m sa.Member) bool { return m.PortGID == hostGID(lid) })
		if _, st := w.leave(lid, maskJoin, joining(bcast, lid, m.Members[i].JoinState)); st != 0 {
			t.Fatal(st)
		}
	}
	if a, b := count(2, 0, wire.MCMemberCompMGID, wire.MCMemberRecord{MGID: bcast}), count(2, 7, wire.MCMemberCompMGID, wire.MCMemberRecord{MGID: bcast}); a != 1 || b != 0 {
		t.Errorf("a group without members: %d and %d records", a, b)
	}
}

// TestTakeover: after another manager was the master, members stay until it is
// known that they did not join again.
func TestTakeover(t *testing.T) {
	s := up(5)
	for lid := ib.LID(2); lid < 6; lid++ {
		port(s, lid).Info.CapabilityMask |= ib.CapIsClientReregistrationSupported
	}
	w := newWorld(t, sa.Config{RejoinTime: time.Minute}, s)
	for lid := ib.LID(2); lid < 7; lid++ {
		w.must(lid, maskJoin, joining(bcast, lid, 1)) // 6 cannot be asked to join again
	}
	w.must(3, maskCreate, joining(ours, 3, 1))
	away := clone(w.snap)
	away.State, away.Up, away.Master = subnet.Standby, false, subnet.SM{GUID: 99}
	w.publish(away)
	w.now = w.now.Add(time.Hour)
	w.restart() // it is known that another one was the master
	if w.timer != mad.Never {
		t.Errorf("the wait began before the subnet is up")
	}
	w.publish(clone(s))
	if n := len(w.group(bcast).Members); n != 5 || w.timer != w.now.Add(time.Minute) {
		t.Fatalf("%d members, timer %v", n, w.timer)
	}
	w.now = w.now.Add(time.Second)
	w.must(2, maskJoin, joining(bcast, 2, 1)) // what it was: nothing changes
	if _, st := w.leave(4, maskJoin, joining(bcast, 4, 1)); st != 0 {
		t.Fatal(st)
	}
	w.must(4, maskJoin, joining(bcast, 4, 2))
	w.now = w.now.Add(time.Minute)
	w.step(sa.Timer{})
	var lids []ib.GID
	for _, m := range w.group(bcast).Members {
		lids = append(lids, m.PortGID)
	}
	if !slices.Equal(lids, []ib.GID{hostGID(2), hostGID(4), hostGID(6)}) || w.group(ours) != nil {
		t.Errorf("after the wait:\n%s", dump(w.view))
	}
	if w.timer != mad.Never {
		t.Errorf("timer %v", w.timer)
	}
	w.restart() // it is settled
	if w.timer != mad.Never || len(w.group(bcast).Members) != 3 {
		t.Errorf("after a restart: timer %v\n%s", w.timer, dump(w.view))
	}
}
