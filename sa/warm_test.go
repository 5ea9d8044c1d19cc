package sa_test

import (
	"testing"

	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/mad"
	"heddle/sa"
	"heddle/subnet"
)

// TestWarmSnapshot: from what a predecessor published queries are answered. Registrations that are
// repeated unchanged are confirmed without a write, new ones are taken, and none ends because the
// snapshot does not show its port. A snapshot that is neither up nor warm answers nothing.
func TestWarmSnapshot(t *testing.T) {
	room := func(hosts int) *subnet.Snapshot {
		s := snapshot(hosts, 0)
		s.Nodes[0].Switch.MulticastFDBCap = 64
		return s
	}
	r := newFixture(t, room(4), sa.Config{SAKey: saKey})
	const joins = wire.MCMemberCompMGID | wire.MCMemberCompPortGID | wire.MCMemberCompJoinState
	const create = joins | wire.MCMemberCompQKey | wire.MCMemberCompTClass | wire.MCMemberCompPKey | wire.MCMemberCompSL | wire.MCMemberCompFlowLabel
	join := func(mgid ib.GID, lid ib.LID) []byte {
		m := joining(mgid, lid, wire.JoinFull)
		return set(wire.AttrMCMemberRecord, create, &m)
	}
	other := ours
	register := []struct {
		from ib.LID
		q    []byte
	}{
		{2, join(other, 2)},
		{5, join(other, 5)},
		{3, inform(nil)},
		{2, set(wire.AttrServiceRecord, compRID, serviceOf(5, 1, "forever"))},
	}
	for _, x := range register {
		r.want(x.from, x.q, 0)
	}
	had := len(r.stored)
	r.restart()
	r.gen = 0

	cold := &subnet.Snapshot{}
	*cold = *room(3) // the last host is not in it
	cold.Up = false
	r.publish(cold)
	req := sa.Request{From: mad.Addr{LID: 2, QP: 1}, Data: register[0].q}
	if _, v := sa.Answer(&sa.Source{Snap: cold, View: r.view}, &req, nil); v != sa.Drop {
		t.Errorf("a subnet that was not read yet answers: %v", v)
	}

	warm := &subnet.Snapshot{}
	*warm = *cold
	warm.Gen, warm.Warm, warm.Veiled = 2, true, true
	r.publish(warm)
	for _, x := range register {
		if x.from != 5 {
			r.want(x.from, x.q, 0)
		}
	}
	if r.gen != 0 || len(r.stored) != had {
		t.Errorf("repeated registrations wrote to the store: %d records, before %d", len(r.stored), had)
	}
	r.want(2, ask(ib.MethodGet, wire.AttrPathRecord, wire.PathCompSLID|wire.PathCompDLID, &wire.PathRecord{SLID: 2, DLID: 3}), 0)
	r.want(3, join(gid("ff12:a01c::1001"), 3), 0)
	if len(r.stored) != had+2 {
		t.Errorf("a new group and its member make %d records, before %d", len(r.stored), had)
	}

	up := &subnet.Snapshot{}
	*up = *warm
	up.Gen, up.Warm, up.Up = 3, false, true
	r.publish(up) // all of the subnet was not seen yet, so the last host may still be there
	whole := &subnet.Snapshot{}
	*whole = *room(4)
	whole.Gen = 4
	r.publish(whole)
	if len(r.stored) != had+2 {
		t.Errorf("%d records are stored, want %d", len(r.stored), had+2)
	}
}
