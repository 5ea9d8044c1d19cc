package vport

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"

	"heddle/fabric"
	"heddle/ib"
	"heddle/ib/smp"
	"heddle/sm/env"
	"heddle/subnet"
)

// TestShowRouted moves LIDs between hosts whose VPorts have LIDs of their own, and compares the entries
// that are updated with those of a look at all of them, which another list of end ports causes. Some
// entries say otherwise than their LIDs lead from the beginning.
func TestShowRouted(t *testing.T) {
	const hosts, functions = 40, 16
	const lids = hosts * functions
	rnd := rand.New(rand.NewPCG(1, 1))
	found := 0
	for range 100 {
		m := New(&env.Env{}, Needs{})
		old := &subnet.Snapshot{EndPortPort: make([]int32, hosts)}
		g := &fabric.Graph{EndPorts: make([]fabric.EndPort, hosts), LIDOwner: make([]int32, 1+lids)}
		g.LIDOwner[0] = fabric.NoLID
		for h := range hosts {
			n := subnet.Node{Info: smp.NodeInfo{NodeType: ib.NodeCA, NumPorts: 1}, First: int32(len(old.Ports))}
			old.Nodes = append(old.Nodes, n)
			p := subnet.Port{GUID: ib.GUID(h + 1), Node: int32(h), Num: 1, EndPort: int32(h), Peer: subnet.NoRef()}
			old.Ports = append(old.Ports, &subnet.Port{Node: int32(h), EndPort: -1, Peer: subnet.NoRef()}, &p)
			old.EndPortPort[h] = n.First + 1
			a := &Adapter{port: p.GUID, at: subnet.Ref{Node: int32(h), Port: 1}, kind: vportKind, vports: make([]*Port, functions+1)}
			m.byPort[p.GUID] = a
			m.SnapshotIndex = append(m.SnapshotIndex, int32(h))
			for i := 1; i <= functions; i++ {
				a.vports[i] = &Port{index: uint16(i), entered: true}
			}
		}
		m.first = int32(len(old.Ports))
		for h := range hosts {
			for i := range functions {
				l := 1 + h*functions + i
				v := &subnet.Port{
					GUID: ib.GUID(1000 + l), LID: ib.LID(l), EndPort: int32(h),
					Virtual: &subnet.Virtual{Port: old.EndPortPort[h], Index: uint16(i + 1), OwnLID: rnd.IntN(10) > 0},
				}
				v.Info.PortState = ib.StateActive
				if rnd.IntN(20) == 0 {
					v.Info.PortState = ib.StateInit
				}
				if rnd.IntN(100) == 0 {
					v.EndPort = -1 // another VPort shows its GUID
				}
				g.LIDOwner[l] = int32(h)
				old.Ports = append(old.Ports, v)
			}
		}
		old.Graph = g
		old.Finish()
		for i := m.first; int(i) < len(old.Ports); i++ {
			v := old.Ports[i].Virtual
			m.noteOdd(old, Ref{m.byPort[old.Ports[v.Port].GUID], v.Index}, i)
		}
		s := *old
		now := *g
		now.LIDOwner = slices.Clone(g.LIDOwner)
		for range rnd.IntN(3) {
			a, b := 1+rnd.IntN(lids), 1+rnd.IntN(lids)
			now.LIDOwner[a], now.LIDOwner[b] = now.LIDOwner[b], now.LIDOwner[a]
		}
		if rnd.IntN(3) == 0 {
			now.LIDOwner[1+rnd.IntN(lids)] = -1
		}
		s.Graph = &now
		shown := func() []Ref {
			m.shown = nil
			m.showRouted(&s, old)
			slices.SortFunc(m.shown, func(a, b Ref) int {
				return cmp.Or(cmp.Compare(a.Adapter.port, b.Adapter.port), cmp.Compare(a.Index, b.Index))
			})
			return slices.Compact(m.shown)
		}
		some := shown()
		now.EndPorts = slices.Clone(now.EndPorts)
		if all := shown(); !slices.Equal(some, all) {
			t.Fatalf("%d entries are updated, want %d", len(some), len(all))
		}
		found += len(some)
	}
	if found < 100 {
		t.Errorf("%d entries in all", found)
	}
}
