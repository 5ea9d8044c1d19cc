package sa_test

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"time"

	"heddle/fabric"
	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/ib/smp"
	"heddle/route"
	"heddle/route/engine/minhop"
	"heddle/sa"
	"heddle/subnet"
)

// moved is a snapshot with a VPort at another place.
func moved(s *subnet.Snapshot, guid ib.GUID, host ib.LID, index uint16) *subnet.Snapshot {
	c := clone(s)
	i := c.PortByPortGUID(guid)
	p := c.Ports[i]
	c.Ports = slices.Delete(c.Ports, int(i), int(i)+1)
	own := ib.LID(0)
	if p.Virtual.OwnLID {
		own = p.LID
	}
	q := addVM(c, host, index, guid, own, p.PKeys...)
	q.Aliases = p.Aliases
	if own != 0 {
		t := *c.Tables
		t.LFT = [][]byte{slices.Clone(t.LFT[0])}
		t.LFT[0][own] = byte(host - 1)
		c.Tables = &t
	}
	slices.SortStableFunc(c.Ports[c.FirstVPort():], func(a, b *subnet.Port) int {
		if a.Virtual == nil || b.Virtual == nil {
			return 0
		}
		return int(a.Virtual.Port-b.Virtual.Port)*100 + int(a.Virtual.Index) - int(b.Virtual.Index)
	})
	c.Finish()
	if err := c.Check(); err != nil {
		panic(err)
	}
	return c
}

// TestVPortMigrates: a virtual machine that moves keeps its memberships, services and
// subscriptions, and causes no traps 64 and 65. One that is gone leaves.
func TestVPortMigrates(t *testing.T) {
	s := vms()
	r := newFixture(t, s, sa.Config{})
	r.want(4, inform(nil), 0)
	vm := from(2, 0xA1)
	for _, q := range [][]byte{
		set(wire.AttrMCMemberRecord, maskJoin, &wire.MCMemberRecord{MGID: bcast, PortGID: vmGID(0xA1), JoinState: 1}),
		set(wire.AttrServiceRecord, wire.ServiceCompServiceID|wire.ServiceCompServiceGID|wire.ServiceCompServicePKey, &wire.ServiceRecord{ServiceID: 9, ServiceGID: vmGID(0xA1), ServicePKey: 0x8005}),
		inform(trapNumber(smp.TrapGIDInService)),
	} {
		r.replies = nil
		r.step(sa.Requests{List: []sa.Request{{From: vm, Data: q}}})
		if len(r.replies) != 1 || status(r.replies[0].Data) != 0 || r.replies[0].To != vm {
			t.Fatalf("%v", r.replies)
		}
	}
	r.reports()
	r.publish(moved(s, 0xA1, 3, 2))
	if got := r.reports(); len(got) != 0 {
		t.Errorf("told of %+v", got)
	}
	if m := r.view.Groups[0].Members; len(m) != 1 || m[0].PortGUID != 0xA1 || len(r.view.Services) != 1 {
		t.Errorf("members %v, %d services", m, len(r.view.Services))
	}
	// Reports go where it is now, with its GID.
	found := false
	for _, x := range r.view.Subs {
		if x.GID == vmGID(0xA1) {
			found = x.Addr.LID == 3 && x.Addr.HasGRH && x.Addr.GRH.GID == vmGID(0xA1)
		}
	}
	if !found {
		t.Errorf("subscriptions %+v", r.view.Subs)
	}
	// Another one comes and goes: traps 64 and 65 are for VPorts and their aliases too.
	here := r.snap
	gone := clone(here)
	gone.Ports[gone.PortByPortGUID(0xA2)].EndPort = -1
	gone.Finish()
	r.publish(gone)
	traps := func() (out string) {
		list := []string{}
		for _, x := range r.reports() {
			d, _ := x.n.Detail().(smp.DetailGID)
			list = append(list, fmt.Sprintf("%d:%d:%x", x.to, x.n.TrapNumber, uint64(d.GID.GUID())))
		}
		slices.Sort(list)
		return fmt.Sprint(list)
	}
	if got := traps(); got != "[4:65:a2 4:65:a2a]" {
		t.Error(got)
	}
	r.publish(here)
	if got := traps(); got != "[3:64:a2 3:64:a2a 4:64:a2 4:64:a2a]" {
		t.Error(got)
	}
	away := clone(here)
	away.Ports[away.PortByPortGUID(0xA1)].EndPort = -1
	away.Finish()
	// One that is gone for a moment is a member when it is back, if it has the P_Key then;
	// one that is gone for longer has left, and so has what is no virtual machine at once.
	for _, x := range []struct {
		back func(s *subnet.Snapshot)
		stay bool
	}{
		{func(*subnet.Snapshot) {}, true},
		{func(s *subnet.Snapshot) { s.Ports[s.PortByPortGUID(0xA1)].PKeys = []ib.PKey{0x8005} }, false},
		{nil, false},
	} {
		r.publish(away)
		if m := r.view.Groups[0].Members; len(m) != 1 {
			t.Fatalf("members %v", m)
		}
		if x.back == nil {
			r.until(r.now.Add(11 * time.Second))
		} else {
			r.until(r.now.Add(9 * time.Second))
			s := clone(here)
			x.back(s)
			s.Finish()
			r.publish(s)
			r.until(r.now.Add(20 * time.Second))
		}
		if m := r.view.Groups[0].Members; (len(m) == 1) != x.stay {
			t.Errorf("members %v", m)
		}
		if !x.stay && x.back != nil {
			r.publish(here)
			r.replies = nil
			r.step(sa.Requests{List: []sa.Request{{From: from(3, 0xA1), Data: set(wire.AttrMCMemberRecord, maskJoin, &wire.MCMemberRecord{MGID: bcast, PortGID: vmGID(0xA1), JoinState: 1})}}})
			if status(r.replies[0].Data) != 0 {
				t.Fatal(status(r.replies[0].Data))
			}
		}
	}
}

// TestVPortTraps: traps of virtualization are forwarded, security traps only to trusted
// subscribers, and those in the vendor's form also in the generic one.
func TestVPortTraps(t *testing.T) {
	s := vms()
	r := newFixture(t, s, sa.Config{SAKey: saKey})
	r.want(4, inform(nil), 0)
	r.want(5, trusted(inform(nil), saKey), 0)
	r.want(3, inform(func(x *wire.InformInfo) { x.IsGeneric = 0 }), 0)
	for _, n := range []uint16{smp.TrapVPortBadPKey, smp.TrapVPortBadQKey} {
		r.want(4, inform(trapNumber(n)), 0x200)
	}
	r.reports()
	for trap, d := range map[uint16]smp.Detail{
		smp.TrapVPortChange:  smp.DetailVPortChange{LID: 2, VPortIndex: 1},
		smp.TrapVPortState:   smp.DetailVPortState{LID: 2},
		smp.TrapVPortBadPKey: smp.DetailVPortKey{DetailKey: smp.DetailKey{LID1: 2, LID2: 3}, VPortIndex: 1},
		smp.TrapVPortBadQKey: smp.DetailVPortKey{DetailKey: smp.DetailKey{LID1: 2, LID2: 3}, VPortIndex: 1},
	} {
		for _, vendor := range []bool{false, true} {
			n := smp.NewTrap(trap, smp.ProducerCA, 2, d)
			if vendor {
				n.IsGeneric, n.Producer, n.TrapNumber = false, 0x0002C9, 0x1017
				n.DataDetails[52], n.DataDetails[53] = byte(trap>>8), byte(trap)
			}
			r.trap(2, n)
			var generic, own []ib.LID
			for _, x := range r.reports() {
				if x.n.IssuerGID != hostGID(2) || x.n.IsGeneric && (x.n.TrapNumber != trap || x.n.DataDetails[52]|x.n.DataDetails[53] != 0) {
					t.Errorf("trap %d: %+v", trap, x.n)
				}
				if x.n.IsGeneric {
					generic = append(generic, x.to)
				} else {
					own = append(own, x.to)
				}
			}
			slices.Sort(generic)
			wantGeneric, wantOwn := []ib.LID{4, 5}, []ib.LID(nil)
			if vendor {
				wantOwn = []ib.LID{3}
			}
			if trap > 1200 {
				wantGeneric, wantOwn = []ib.LID{5}, nil
			}
			if !slices.Equal(generic, wantGeneric) || !slices.Equal(own, wantOwn) {
				t.Errorf("trap %d, vendor's form %v: generic to %v, own to %v", trap, vendor, generic, own)
			}
		}
	}
}

// TestMovedPaths: subscribers are notified of paths to a virtual machine that moved if
// they changed: none with its own LID; with a shared LID its GID has another one.
func TestMovedPaths(t *testing.T) {
	s := fabricSnapshot(t, minhop.Engine{}, 0, 1, "xgft", "2", "4,4", "1,2")
	var hosts []int32
	for _, i := range s.EndPortPort {
		if s.Ports[i].Num != 0 {
			hosts = append(hosts, i)
		}
	}
	lid := func(h int) ib.LID { return s.Ports[hosts[h]].LID }
	const own = 40
	// at is the subnet with LID own at a host: routed as the host's LID is.
	at := func(h int) (*fabric.Graph, *route.Tables) {
		g, err := s.Graph.WithLIDs([]fabric.LIDGrant{{LID: own, EndPort: s.Ports[hosts[h]].EndPort}})
		if err != nil {
			t.Fatal(err)
		}
		tables := *s.Tables
		tables.TopLID, tables.LFT = own, nil
		for _, row := range s.Tables.LFT {
			row = append(slices.Clone(row), bytes.Repeat([]byte{route.Drop}, own)...)[:own+1]
			row[own] = row[lid(h)]
			tables.LFT = append(tables.LFT, row)
		}
		return g, &tables
	}
	key := ib.PKeyDefaultFull
	before := clone(s)
	before.Graph, before.Tables = at(0)
	addVM(before, lid(0), 1, 0xA1, 0, key)
	addVM(before, lid(0), 2, 0xA2, own, key)
	before.Ports[hosts[1]].Aliases = []ib.GUID{0, 0xC1}
	before.Finish()
	after := clone(s)
	after.Graph, after.Tables = at(9)
	addVM(after, lid(8), 1, 0xA1, 0, key)
	addVM(after, lid(9), 2, 0xA2, own, key)
	after.Ports[hosts[10]].Aliases = []ib.GUID{0, 0xC1}
	after.Finish()
	slow := clone(after)
	for _, i := range []int32{hosts[9], slow.PortByPortGUID(0xA2)} {
		slow.Ports[i].Rate = ib.Rate10
	}
	slow.Graph = &fabric.Graph{}
	*slow.Graph = *after.Graph
	slow.Graph.EndPorts = slices.Clone(after.Graph.EndPorts)
	slow.Graph.EndPorts[s.Ports[hosts[9]].EndPort].Gbps = 10
	slow.Finish()
	for _, x := range []*subnet.Snapshot{before, after, slow} {
		if err := x.Check(); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		now  *subnet.Snapshot
		want string
	}{
		{after, "[69 a1 0 69 c1 0]"},
		{slow, fmt.Sprintf("[69 %x %d 69 a1 0 69 a2 %d 69 c1 0]", uint64(s.Ports[hosts[9]].GUID), lid(9), own)},
	} {
		r := newFixture(t, before, sa.Config{Signal: sa.SignalRepath})
		r.want(lid(5), inform(trapNumber(smp.TrapRePath)), 0)
		r.want(lid(5), inform(trapNumber(smp.TrapUnPath)), 0)
		r.reports()
		r.publish(c.now)
		var got []string
		for _, x := range r.reports() {
			if x.path.SGID != s.GID(hosts[5]) {
				t.Errorf("told of a path from %v", x.path.SGID)
			}
			got = append(got, fmt.Sprintf("%d %x %d", x.n.TrapNumber, uint64(x.path.DGID.GUID()), x.path.DLID))
		}
		slices.Sort(got)
		if fmt.Sprint(got) != c.want {
			t.Errorf("told of %v, want %s", got, c.want)
		}
	}
}
