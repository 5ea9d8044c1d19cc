package sa_test

import (
	"slices"
	"strings"
	"testing"

	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/sa"
	"heddle/store"
)

// TestJoinAnswer: the answers to joins and leaves, and the groups reported for routing.
func TestJoinAnswer(t *testing.T) {
	w := newTestbed(t, sa.Config{SAKey: 7}, up(4))
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

// TestCreateValues: the parameters of a group that its creator omits or gives by
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
		{"largest", maskMTU | maskRate | maskLife, func(r *wire.MCMemberRecord) { mtu(3, 1)(r); rate(3, 2)(r); life(3, 63)(r) }, 4, ib.Rate200, 18},
	} {
		w := newTestbed(t, sa.Config{}, up(2))
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

// TestAssignedMGID: MGIDs that the SA makes are new, and stay so after a restart.
func TestAssignedMGID(t *testing.T) {
	w := newTestbed(t, sa.Config{}, up(2))
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

// TestGroupEnds: a group exists while a member keeps it.
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
		w := newTestbed(t, sa.Config{}, up(3))
		w.must(2, maskCreate, joining(ours, 2, c.first))
		if c.second != 0 {
			w.must(3, maskJoin, joining(ours, 3, c.second))
		}
		if out, st := w.leave(2, maskJoin, joining(ours, 2, c.leaves)); st != 0 || c.stays && out.JoinState != c.first&^c.leaves || !c.stays && out.JoinState != 0 {
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
	w := newTestbed(t, sa.Config{}, up(3))
	w.must(2, maskJoin, joining(bcast, 2, 1))
	if _, st := w.leave(2, maskJoin, joining(bcast, 2, 1)); st != 0 || w.group(bcast) == nil {
		t.Errorf("broadcast group: %v", st)
	}
}
