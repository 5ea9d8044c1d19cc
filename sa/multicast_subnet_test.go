package sa_test

import (
	"slices"
	"testing"
	"time"

	"heddle/ib"
	"heddle/mad"
	"heddle/partition"
	"heddle/sa"
	"heddle/store"
	"heddle/subnet"
)

// TestPermanentGroups: the partitions create, change and remove groups, whose MLIDs
// stay.
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
	w := newTestbed(t, sa.Config{}, s)
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

// TestMissingPort: a missing port leaves its groups; one that loses the P_Key of a
// group leaves that group.
func TestMissingPort(t *testing.T) {
	w := newTestbed(t, sa.Config{}, up(4))
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

// TestAliasMembers: a port may join by an alias GUID; the tree follows the alias to its
// current port.
func TestAliasMembers(t *testing.T) {
	s := up(3)
	port(s, 2).Aliases = []ib.GUID{0, 0xA11A5}
	s.Finish()
	w := newTestbed(t, sa.Config{}, s)
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

// TestTakeover: after a change of master, members stay until the time to rejoin has
// passed.
func TestTakeover(t *testing.T) {
	s := up(5)
	for lid := ib.LID(2); lid < 6; lid++ {
		port(s, lid).Info.CapabilityMask |= ib.CapIsClientReregistrationSupported
	}
	w := newTestbed(t, sa.Config{RejoinTime: time.Minute}, s)
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
