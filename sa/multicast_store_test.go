package sa_test

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/mad"
	"heddle/sa"
	"heddle/store"
)

// storedGroup is a group as another manager may have stored it.
func storedGroup() *sa.Group {
	return &sa.Group{
		MGID: ours, MLID: 0xC007, QKey: 5, PKey: 0xFFFF, MTU: 3, Rate: ib.Rate20, PacketLife: 17, SL: 2, TClass: 3, FlowLabel: 0x12345,
		HopLimit: 6, Scope: 2, Members: []sa.Member{
			{PortGID: hostGID(2), PortGUID: hostGID(2).GUID(), JoinState: 1},
			{PortGID: hostGID(3), PortGUID: hostGID(3).GUID(), JoinState: 4, Proxy: true},
			{PortGID: ib.MakeGID(ib.DefaultSubnetPrefix, 0xA11A5), PortGUID: hostGID(3).GUID(), JoinState: 2},
		},
	}
}

// TestGroupRecords: groups imported as records exist before the first answer, with all
// their parameters.
func TestGroupRecords(t *testing.T) {
	w := &testbed{t: t, store: store.NewMemory()}
	var ops []store.Op
	for _, r := range sa.GroupRecords(storedGroup()) {
		ops = append(ops, store.Op{Kind: store.PutRecord, Record: r})
	}
	if err := w.store.Apply(ops); err != nil {
		t.Fatal(err)
	}
	w.start()
	if len(w.view.Groups) != 1 || len(w.groups) != 1 || !slices.Equal(w.groups[0].Members, []ib.GUID{hostGID(2).GUID(), hostGID(3).GUID()}) {
		t.Fatalf("before the subnet is up: groups\n%s routed %+v", dump(w.view), w.groups)
	}
	w.publish(up(3))
	got, want := w.group(ours), storedGroup()
	if dump(&sa.View{Groups: []*sa.Group{got}}) != dump(&sa.View{Groups: []*sa.Group{want}}) || got.PacketLife != 17 || got.FlowLabel != 0x12345 ||
		got.QKey != 5 || got.SL != 2 || got.TClass != 3 || got.HopLimit != 6 || got.MTU != 3 || got.Rate != ib.Rate20 || got.Scope != 2 {
		t.Errorf("group %+v, want %+v", got, want)
	}
	if m := got.Members; !m[1].Proxy || m[0].Proxy {
		t.Errorf("members %+v", m)
	}
	if w.group(bcast).MLID != 0xC000 {
		t.Error("the broadcast group has another MLID")
	}
	if k := w.kinds(); slices.Contains(k, "record_damaged") {
		t.Errorf("notices %v", k)
	}
}

// TestDamagedRecords: unreadable records are logged, and the others are used.
func TestDamagedRecords(t *testing.T) {
	good := sa.GroupRecords(storedGroup())
	state := store.Record{Table: store.TableGroups, Key: []byte{0}, Value: []byte{1, 0, 0, 0, 0, 9}}
	for _, c := range []struct {
		name   string
		at     int // in good, or state at len(good)
		edit   func(r *store.Record)
		groups int
		text   string
	}{
		{"fine", 0, func(*store.Record) {}, 1, ""},
		{"group of another version", 0, func(r *store.Record) { r.Value[0] = 2 }, 0, "layout"},
		{"group too short", 0, func(r *store.Record) { r.Value = r.Value[:57] }, 0, "57 bytes"},
		{"group without value", 0, func(r *store.Record) { r.Value = nil }, 0, "layout"},
		{"group with another MGID", 0, func(r *store.Record) { r.Key[15]++ }, 0, "MGID"},
		{"group with a short key", 0, func(r *store.Record) { r.Key = r.Key[:15] }, 0, "key of 15"},
		{"group with a unicast LID", 0, func(r *store.Record) { r.Value[2+36] = 0 }, 0, "MLID"},
		{"group with MTU 0", 0, func(r *store.Record) { r.Value[2+38] = 0x80 }, 0, "MTU"},
		{"group with rate 0", 0, func(r *store.Record) { r.Value[2+42] = 0x80 }, 0, "rate"},
		{"group without P_Key", 0, func(r *store.Record) { r.Value[2+40], r.Value[2+41] = 0x80, 0 }, 0, "P_Key"},
		{"member of another version", 1, func(r *store.Record) { r.Value[0] = 0 }, 0, "layout"},
		{"member too short", 2, func(r *store.Record) { r.Value = r.Value[:5] }, 1, "5 bytes"},
		{"member without join state", 2, func(r *store.Record) { r.Value[2] = 0 }, 1, "join state"},
		{"member of no group", 2, func(r *store.Record) { r.Key[15]++ }, 1, "not stored"},
		{"state too short", len(good), func(r *store.Record) { r.Value = r.Value[:5] }, 1, "layout"},
	} {
		var recs []store.Record
		for _, r := range append(slices.Clone(good), state) {
			r.Key, r.Value = bytes.Clone(r.Key), bytes.Clone(r.Value)
			recs = append(recs, r)
		}
		c.edit(&recs[c.at])
		w := &testbed{t: t, store: store.NewMemory()}
		w.core = sa.NewCore(sa.Config{})
		w.step(sa.Start{Records: recs})
		var told []string
		for _, n := range w.notices {
			if n.Kind == "record_damaged" && n.Warn {
				told = append(told, n.Text)
			}
		}
		if c.text == "" && len(told) > 0 || c.text != "" && (len(told) == 0 || !strings.Contains(told[0], c.text)) {
			t.Errorf("%s: told %q, want %q", c.name, told, c.text)
		}
		w.publish(up(3))
		if n := len(w.view.Groups) - 1; n != c.groups {
			t.Errorf("%s: %d groups, want %d", c.name, n, c.groups)
		}
	}
}

// FuzzStoredGroups: no damaged record stops a core or creates invalid state.
func FuzzStoredGroups(f *testing.F) {
	for _, r := range sa.GroupRecords(storedGroup()) {
		f.Add(uint8(r.Table), r.Key, r.Value)
	}
	f.Add(uint8(store.TableGroups), []byte{0}, []byte{1, 1, 0, 0, 0, 9})
	f.Fuzz(func(t *testing.T, table uint8, key, value []byte) {
		if store.Table(table) != store.TableGroups {
			table = uint8(store.TableMembers)
		}
		w := &testbed{t: t, store: store.NewMemory(), core: sa.NewCore(sa.Config{})}
		recs := append(sa.GroupRecords(storedGroup()), store.Record{Table: store.Table(table), Key: key, Value: value})
		slices.SortStableFunc(recs, func(a, b store.Record) int { return int(a.Table) - int(b.Table) })
		w.step(sa.Start{Records: recs})
		check(t, w)
		w.publish(up(3))
		check(t, w)
	})
}

// check looks for what must always hold of groups.
func check(t *testing.T, w *testbed) {
	t.Helper()
	var last ib.GID
	for _, g := range w.view.Groups {
		if bytes.Compare(last[:], g.MGID[:]) >= 0 || !g.MLID.IsMulticast() {
			t.Errorf("group %v after %v, MLID %v", g.MGID, last, g.MLID)
		}
		last = g.MGID
		keeps := g.WellKnown || w.snap == nil // nobody is dropped before the subnet is up
		for i, m := range g.Members {
			if i > 0 && g.Members[i-1].PortGID.GUID() >= m.PortGID.GUID() || m.JoinState == 0 || m.JoinState > 15 {
				t.Errorf("group %v: member %d is %+v", g.MGID, i, m)
			}
			keeps = keeps || m.JoinState&9 != 0
		}
		if !keeps {
			t.Errorf("nobody keeps group %v", g.MGID)
		}
	}
	for i := range w.groups {
		g := &w.groups[i]
		if i > 0 && w.groups[i-1].MLID >= g.MLID || len(g.Members) == 0 {
			t.Errorf("routed group %d: %+v", i, g)
		}
	}
}

// FuzzMember: no request violates the invariants of groups, and each gets at most one
// answer.
func FuzzMember(f *testing.F) {
	seed := func(mgid ib.GID, mask wire.CompMask, state uint8) {
		r := joining(mgid, 2, state)
		b := make([]byte, wire.MCMemberRecordLen)
		r.Put(b)
		f.Add(true, uint8(2), uint64(mask), b)
	}
	seed(bcast, maskJoin, 1)
	seed(ours, maskCreate|maskMTU|maskRate|maskLife|wire.MCMemberCompMLID|wire.MCMemberCompScope|wire.MCMemberCompHopLimit, 15)
	seed(ib.GID{}, maskCreate, 1)
	seed(gid("ff12:601b:ffff::1:ff00:1"), maskCreate, 8)
	subnetOf := up(3)
	f.Fuzz(func(t *testing.T, set bool, from uint8, mask uint64, data []byte) {
		w := newTestbed(t, sa.Config{ConsolidateSNM: mask>>63 != 0}, subnetOf)
		w.must(3, maskJoin, joining(bcast, 3, 3))
		w.must(3, maskCreate, joining(ours, 3, 1))
		before := dump(w.view)
		q := ask(ib.MethodDelete, wire.AttrMCMemberRecord, wire.CompMask(mask), nil)
		if set {
			q[3] = byte(ib.MethodSet)
		}
		copy(q[wire.HeaderLen:], data)
		for range 2 {
			w.replies = nil
			w.step(sa.Requests{List: []sa.Request{{From: mad.Addr{LID: ib.LID(from), QP: 1}, Data: q}}})
			if len(w.replies) > 1 || len(w.replies) == 0 && w.snap.PortByLID(ib.LID(from)) >= 0 {
				t.Fatalf("%d answers", len(w.replies))
			}
			check(t, w)
			if len(w.replies) == 0 || status(w.replies[0].Data) != 0 {
				continue
			}
			if len(w.replies[0].Data) != ib.MADLen || binary.BigEndian.Uint64(w.replies[0].Data[36:]) != 0 {
				t.Error("no answer as it should be")
			}
			// What was granted can be asked for, and lasts.
			var r wire.MCMemberRecord
			if err := r.Decode(w.replies[0].Data[wire.HeaderLen:]); err != nil {
				t.Fatal(err)
			}
			if g := w.group(r.MGID); set && (g == nil || g.MLID != r.MLID) {
				t.Errorf("answer %+v, group %+v", r, g)
			}
			now := dump(w.view)
			if set && now == before {
				continue // it was there
			}
			w.restart()
			if again := dump(w.view); again != now {
				t.Errorf("after a restart\n%s was\n%s", again, now)
			}
		}
	})
}
