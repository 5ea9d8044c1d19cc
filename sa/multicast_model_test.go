package sa_test

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/sa"
	"heddle/store"
	"heddle/subnet"
)

// model is what multicast groups are, said as plainly as possible: no
// order, no sharing, everything computed from scratch.
type model struct {
	groups map[ib.GID]*modelGroup
	gone   map[ib.LID]bool
	keys   map[ib.LID][]ib.PKey
	room   int
}

type modelGroup struct {
	mlid    ib.LID
	key     ib.PKey
	fixed   bool
	members map[ib.LID]modelMember
}

type modelMember struct {
	state uint8
	proxy bool
	by    ib.LID // the proxy
}

func (m *model) holds(lid ib.LID, key ib.PKey) bool {
	return slices.ContainsFunc(m.keys[lid], func(k ib.PKey) bool { return k&0x7FFF == key&0x7FFF })
}

func (m *model) share(a, b ib.LID) bool {
	if a == b {
		return true
	}
	for _, x := range m.keys[a] {
		for _, y := range m.keys[b] {
			if x&0x7FFF == y&0x7FFF && (x|y)&0x8000 != 0 {
				return true
			}
		}
	}
	return false
}

func (m *model) join(from, lid ib.LID, mgid ib.GID, key ib.PKey, state uint8) ib.Status {
	if m.gone[lid] || !m.share(from, lid) {
		return 0x0200
	}
	g := m.groups[mgid]
	if g == nil {
		if state&9 == 0 || !m.holds(lid, key) || !m.holds(from, key) {
			return 0x0200
		}
		used := map[ib.LID]bool{}
		for _, o := range m.groups {
			used[o.mlid] = true
		}
		g = &modelGroup{mlid: 0xC000, key: key, members: map[ib.LID]modelMember{}}
		for used[g.mlid] {
			g.mlid++
		}
		if int(g.mlid-0xC000) >= m.room {
			return 0x0100
		}
		m.groups[mgid] = g
	}
	old, is := g.members[lid]
	if state == 0 || g.key != key || !m.holds(lid, key) || !m.holds(from, key) || is && !m.owns(from, lid, old) {
		return 0x0200
	}
	g.members[lid] = modelMember{old.state | state, from != lid, from}
	return 0
}

func (m *model) owns(from, lid ib.LID, old modelMember) bool {
	return from == lid || old.proxy && from == old.by
}

func (m *model) leave(from, lid ib.LID, mgid ib.GID, state uint8) ib.Status {
	g := m.groups[mgid]
	if g == nil {
		return 0x0200
	}
	old, is := g.members[lid]
	if !is || state == 0 || old.state|state != old.state || !m.owns(from, lid, old) {
		return 0x0200
	}
	if old.state -= state; old.state != 0 {
		g.members[lid] = old
	} else {
		delete(g.members, lid)
	}
	m.tidy()
	return 0
}

// tidy takes out who may not be in, and groups that nobody keeps.
func (m *model) tidy() {
	for mgid, g := range m.groups {
		keep := g.fixed
		for lid, x := range g.members {
			if m.gone[lid] || !m.holds(lid, g.key) {
				delete(g.members, lid)
			} else if x.state&9 != 0 {
				keep = true
			}
		}
		if !keep {
			delete(m.groups, mgid)
		}
	}
}

// String is what dump prints of the same groups.
func (m *model) String() string {
	var b strings.Builder
	for _, mgid := range slices.SortedFunc(maps.Keys(m.groups), func(a, b ib.GID) int { return cmp.Compare(string(a[:]), string(b[:])) }) {
		g := m.groups[mgid]
		fmt.Fprintf(&b, "%v %v %v", mgid, g.mlid, g.key)
		if g.fixed {
			b.WriteString(" permanent")
		}
		for _, lid := range slices.Sorted(maps.Keys(g.members)) {
			fmt.Fprintf(&b, "\n  %v %v %02x", hostGID(lid), hostGID(lid).GUID(), g.members[lid].state)
			if g.members[lid].proxy {
				b.WriteString(" proxy")
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}

// routed is what the subnet manager is to be told.
func (m *model) routed() map[ib.LID]string {
	out := map[ib.LID]string{}
	for _, g := range m.groups {
		if len(g.members) == 0 {
			continue
		}
		var all, send []ib.GUID
		for _, lid := range slices.Sorted(maps.Keys(g.members)) {
			all = append(all, hostGID(lid).GUID())
			if g.members[lid].state&3 == 0 {
				send = append(send, hostGID(lid).GUID())
			}
		}
		out[g.mlid] = fmt.Sprint(all, send)
	}
	return out
}

func routedOf(groups []subnet.Group) map[ib.LID]string {
	out := map[ib.LID]string{}
	for i := range groups {
		out[groups[i].MLID] = fmt.Sprint(groups[i].Members, groups[i].Senders)
	}
	return out
}

// modelOp is a request, or a change of the subnet.
type modelOp struct {
	kind      int // opJoin …
	from, lid ib.LID
	mgid      ib.GID
	state     uint8
	keys      []ib.PKey
	room      uint16
}

const (
	opJoin = iota
	opLeave
	opPort
	opKeys
	opRoom
)

const modelHosts = 6

func modelOps(rng *rand.Rand, n int) []modelOp {
	mgids := []ib.GID{bcast}
	for i := range 6 {
		mgids = append(mgids, gid(fmt.Sprintf("ff12:a01c::%d", i)))
	}
	tables := [][]ib.PKey{{0xFFFF}, {0xFFFF}, {0xFFFF, 0x8005}, {0x7FFF, 0x8005}, {0x8005}, {0x7FFF}}
	ops := make([]modelOp, n)
	for i := range ops {
		o := modelOp{lid: ib.LID(2 + rng.IntN(modelHosts)), mgid: mgids[rng.IntN(len(mgids))], state: uint8(rng.IntN(16))}
		if o.from = o.lid; rng.IntN(6) == 0 {
			o.from = ib.LID(2 + rng.IntN(modelHosts))
		}
		switch k := rng.IntN(100); {
		case k < 55:
			o.kind = opJoin
		case k < 90:
			o.kind = opLeave
		case k < 94:
			o.kind = opPort
		case k < 98:
			o.kind, o.keys = opKeys, tables[rng.IntN(len(tables))]
		default:
			o.kind, o.room = opRoom, uint16(2+rng.IntN(7))
		}
		ops[i] = o
	}
	return ops
}

// keyOf is the P_Key of a group of the test.
func keyOf(mgid ib.GID) ib.PKey {
	if mgid[15]%2 == 1 && mgid != bcast {
		return 0x8005
	}
	return 0xFFFF
}

// run plays operations on a testbed, requests in batches of at most most, and on
// a model beside it if there is one. It returns every status.
func (w *testbed) run(ops []modelOp, most int, m *model, restart func() bool) (list []ib.Status) {
	w.t.Helper()
	gone := map[ib.LID]bool{}
	var batch []sa.Request
	flush := func() {
		w.replies = w.replies[:0]
		w.step(sa.Requests{List: batch})
		if len(w.replies) != len(batch) {
			w.t.Fatalf("%d answers to %d requests", len(w.replies), len(batch))
		}
		slices.SortFunc(w.replies, func(a, b sa.Reply) int { // a join that changes nothing is answered first
			return cmp.Compare((*ib.MAD)(a.Data).TID(), (*ib.MAD)(b.Data).TID())
		})
		for _, r := range w.replies {
			list = append(list, status(r.Data))
		}
		batch = batch[:0]
	}
	whole := w.snap
	change := func(f func()) {
		flush()
		f()
		var lids []ib.LID
		for lid := range gone {
			lids = append(lids, lid)
		}
		w.publish(without(whole, lids...))
	}
	for i, o := range ops {
		if gone[o.from] && o.kind <= opLeave {
			continue // nobody answers strangers
		}
		want := ib.Status(0)
		switch o.kind {
		case opJoin, opLeave:
			r := joining(o.mgid, o.lid, o.state)
			r.PKey = keyOf(o.mgid)
			method, mask := ib.MethodSet, maskCreate
			if o.kind == opLeave {
				method, mask = ib.MethodDelete, maskJoin
			}
			var q sa.Request
			q.Data = ask(method, wire.AttrMCMemberRecord, mask, &r)
			(*ib.MAD)(q.Data).SetTID(uint64(len(batch)))
			q.From.LID, q.From.QP = o.from, 1
			batch = append(batch, q)
			if m != nil && o.kind == opJoin {
				want = m.join(o.from, o.lid, o.mgid, keyOf(o.mgid), o.state)
			} else if m != nil {
				want = m.leave(o.from, o.lid, o.mgid, o.state)
			}
			if len(batch) >= most {
				flush()
			}
		case opPort:
			change(func() {
				if gone[o.lid] {
					delete(gone, o.lid)
				} else {
					gone[o.lid] = true
				}
			})
		case opKeys:
			change(func() {
				whole = clone(whole)
				port(whole, o.lid).PKeys = o.keys
			})
		case opRoom:
			change(func() {
				whole = clone(whole)
				whole.Nodes[0].Switch.MulticastFDBCap = o.room
			})
		}
		if restart != nil && restart() {
			flush()
			w.restart()
		}
		if m == nil {
			continue
		}
		switch o.kind {
		case opPort:
			m.gone[o.lid] = gone[o.lid]
		case opKeys:
			m.keys[o.lid] = o.keys
		case opRoom:
			m.room = int(o.room)
		default:
			if got := list[len(list)-1]; got != want {
				w.t.Fatalf("operation %d %+v: status %v, the model says %v\n%s", i, o, got, want, m)
			}
		}
		m.tidy()
		if got := dump(w.view); got != m.String() {
			w.t.Fatalf("operation %d %+v:\n%sthe model has\n%s", i, o, got, m)
		}
		if got, want := routedOf(w.groups), m.routed(); !maps.Equal(got, want) {
			w.t.Fatalf("operation %d %+v: routed %v, want %v", i, o, got, want)
		}
	}
	flush()
	return list
}

// TestMulticastModel: random requests, port and P_Key changes have the same result as a
// naive model, at each step.
func TestMulticastModel(t *testing.T) {
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 1))
		w := newTestbed(t, sa.Config{ExclusiveMLIDs: true}, up(modelHosts))
		m := &model{groups: map[ib.GID]*modelGroup{}, gone: map[ib.LID]bool{}, keys: map[ib.LID][]ib.PKey{}, room: 1024}
		m.groups[bcast] = &modelGroup{mlid: 0xC000, key: 0xFFFF, fixed: true, members: map[ib.LID]modelMember{}}
		for lid := ib.LID(2); lid < 2+modelHosts; lid++ {
			m.keys[lid] = []ib.PKey{0xFFFF}
		}
		w.run(modelOps(rng, 400), 1, m, nil)
	}
}

// TestMulticastEqual: statuses, groups, routed trees and stored records do not depend
// on batch sizes, restarts or map order.
func TestMulticastEqual(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 2))
		ops := modelOps(rng, 300)
		type result struct {
			status []ib.Status
			dump   string
			routed []subnet.Group
			stored []store.Record
		}
		play := func(most int, restart func() bool) (r result) {
			w := newTestbed(t, sa.Config{}, up(modelHosts))
			r.status = w.run(ops, most, nil, restart)
			r.dump, r.routed = dump(w.view), w.groups
			r.stored = w.records(store.TableGroups, store.TableMembers)
			return r
		}
		one := play(1, nil)
		for _, most := range []int{1, 7, 1000} {
			if other := play(most, nil); !reflect.DeepEqual(one, other) {
				t.Fatalf("seed %d, batches of %d:\n%v\n%v", seed, most, one, other)
			}
		}
		if other := play(5, func() bool { return rng.IntN(10) == 0 }); !reflect.DeepEqual(one, other) {
			t.Fatalf("seed %d, with restarts:\n%v\n%v", seed, one, other)
		}
	}
}

// TestViewIsImmutable: a published view never changes, and unchanged parts are shared.
func TestViewIsImmutable(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 3))
	w := newTestbed(t, sa.Config{}, up(modelHosts))
	type seen struct {
		view *sa.View
		dump string
	}
	var views []seen
	groups := map[ib.LID]*subnet.Group{}
	for _, o := range modelOps(rng, 300) {
		if o.kind > opLeave {
			continue
		}
		w.run([]modelOp{o}, 1, nil, nil)
		views = append(views, seen{w.view, dump(w.view)})
		for i := range w.groups {
			g := w.groups[i]
			if old := groups[g.MLID]; old != nil && len(old.Members) > 0 && &old.Members[0] == &g.Members[0] && !slices.Equal(old.Members, g.Members) {
				t.Fatalf("MLID %v: the members that were handed over changed", g.MLID)
			}
			groups[g.MLID] = &g
		}
	}
	for i, v := range views {
		if got := dump(v.view); got != v.dump {
			t.Fatalf("view %d changed from\n%s to\n%s", i, v.dump, got)
		}
	}
	w.must(2, maskJoin, joining(bcast, 2, 1))
	w.must(2, maskCreate, joining(ours, 2, 1))
	before := w.view
	w.must(3, maskJoin, joining(ours, 3, 1))
	if before.Groups[slices.Index(before.Groups, w.group(bcast))] != w.group(bcast) {
		t.Error("a group that did not change was copied")
	}
}
