package sa_test

import (
	"slices"
	"testing"

	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/sa"
)

// TestMulticastQueries: what trusted and untrusted requesters see.
func TestMulticastQueries(t *testing.T) {
	w := newTestbed(t, sa.Config{SAKey: 7}, up(4))
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
		{"P_Key of a limited member", wire.MCMemberCompPKey, wire.MCMemberRecord{PKey: 0x7FFF}, 3, 4},
		{"another P_Key", wire.MCMemberCompPKey, wire.MCMemberRecord{PKey: 0x8005}, 0, 0},
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
	if st := status(w.get(2, ib.MethodGetTable, wire.AttrMCMemberRecord, maskMTU, &wire.MCMemberRecord{MTU: 6}, 0)); st != 0x0200 {
		t.Errorf("an MTU that is none: %v", st)
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
