package lab

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/internal/fabrictest"
	"heddle/mad"
	"heddle/sa"
	"heddle/sim"
	"heddle/sm"
	"heddle/store"
	"heddle/subnet"
)

// cloud is a fat tree of two levels whose hosts but the first are hypervisors,
// with a manager on the first. Hosts are H-0, H-1, … in the order of their leaves.
type cloud struct {
	t testing.TB
	*Cluster
	m         *Manager
	cfg       sm.Config
	hosts     []string
	vms       []string
	placement map[string]subnet.Placement
	lfts      int // Set(LinearForwardingTable) that the manager sent
	hyper     int // Set(VPortInfo)

	serves bool // the manager has an SA
}

const cloudKey = ib.PKey(0xFFFF)

func newCloud(t testing.TB, leaves, hosts int, h sim.Hypervisor, sc sim.Config, change func(*sm.Config)) *cloud {
	t.Helper()
	k := layCloud(t, leaves, hosts, h, sc, change)
	k.start(nil)
	return k
}

// layCloud is newCloud before the manager starts.
func layCloud(t testing.TB, leaves, hosts int, h sim.Hypervisor, sc sim.Config, change func(*sm.Config)) *cloud {
	t.Helper()
	f, err := fabrictest.Generate("xgft", []string{"2", fmt.Sprintf("%d,%d", hosts, leaves), fmt.Sprintf("1,%d", hosts)}, 1)
	if err != nil {
		t.Fatal(err)
	}
	c, err := NewCluster(f, sc)
	if err != nil {
		t.Fatal(err)
	}
	k := &cloud{t: t, Cluster: c, cfg: DefaultConfig(), placement: map[string]subnet.Placement{}}
	if change != nil {
		change(&k.cfg)
	}
	for i := range f.Nodes {
		if !f.Nodes[i].IsSwitch() {
			k.hosts = append(k.hosts, f.Nodes[i].ID)
		}
	}
	for _, n := range k.hosts[1:] {
		if err := c.Sim.AddHypervisor(n, 1, h); err != nil {
			t.Fatal(err)
		}
	}
	return k
}

// start attaches a manager with a store to the first host.
func (k *cloud) start(st *store.Memory) {
	k.t.Helper()
	m, err := k.Attach(k.hosts[0], k.cfg, st)
	if err != nil {
		k.t.Fatal(err)
	}
	k.m = m
	if k.serves {
		m.ServeSA(SAConfig(1), sa.Options{SAKey: 1})
	}
	k.lfts, k.hyper = 0, 0
	m.OnSend = func(p *mad.Packet) {
		if x := (*ib.MAD)(p.Data); x.Class().IsSMP() && x.Method() == ib.MethodSet {
			switch x.AttrID() {
			case smp.AttrLFT:
				k.lfts++
			case smp.AttrVPortInfo:
				k.hyper++
			}
		}
	}
	if err := m.Start(); err != nil {
		k.t.Fatal(err)
	}
}

func (k *cloud) place(host, function int) subnet.Place {
	n := k.Fabric.Find(k.hosts[host])
	return subnet.Place{Port: k.Fabric.Nodes[n].Ports[1].GUID, Function: uint16(function)}
}

// put starts a VM on a function, and says what placement is to be set for it.
func (k *cloud) put(name string, host, function int, kind subnet.LIDKind) subnet.Placement {
	k.t.Helper()
	g := ib.GUID(0x0200_0000_0000_1000) + ib.GUID(len(k.vms))
	if err := k.Sim.PlaceVM(name, vf(k.t, k.Cluster, k.hosts[host], function), sim.VMOptions{GUID: g, OwnLID: kind == subnet.OwnLID}); err != nil {
		k.t.Fatal(err)
	}
	k.vms = append(k.vms, name)
	l := subnet.Placement{GUID: g, Place: k.place(host, function), LIDKind: kind}
	k.placement[name] = l
	return l
}

// move is the host's part of a migration, and the placement that follows it.
func (k *cloud) move(name string, host, function int) subnet.Placement {
	k.t.Helper()
	if err := k.Sim.MoveVM(name, vf(k.t, k.Cluster, k.hosts[host], function)); err != nil {
		k.t.Fatal(err)
	}
	l := k.placement[name]
	l.Place = k.place(host, function)
	k.placement[name] = l
	return l
}

// set gives placements to the manager and runs until each is as far as said.
func (k *cloud) set(want subnet.PlacementState, ls ...subnet.Placement) {
	k.t.Helper()
	k.m.SetPlacements(sm.SetPlacements{Put: ls})
	k.wait(want, ls...)
}

func (k *cloud) wait(want subnet.PlacementState, ls ...subnet.Placement) {
	k.t.Helper()
	err := k.RunUntil(10*time.Minute, func() bool {
		for _, l := range ls {
			if r, ok := k.last(l.GUID); !ok || r.State != want || r.Place != l.Place {
				return false
			}
		}
		return k.m.Idle()
	})
	if err != nil {
		for _, l := range ls {
			if r, ok := k.last(l.GUID); !ok || r.State != want || r.Place != l.Place {
				k.t.Errorf("%v is to be %v at %v, and is %v at %v: %s", l.GUID, want, l.Place, r.State, r.Place, r.Reason)
			}
		}
		k.t.Fatalf("%v; idle %v\n%s\n%s", err, k.m.Idle(), k.reports(), tail(k.m))
	}
}

// last is the last report on a GUID.
func (k *cloud) last(g ib.GUID) (subnet.PlacementReport, bool) {
	for _, r := range slices.Backward(k.m.Placements) {
		if r.GUID == g {
			return r, true
		}
	}
	return subnet.PlacementReport{}, false
}

func (k *cloud) reports() (s string) {
	for _, r := range k.m.Placements {
		s += fmt.Sprintf("%v at %v: %v LID %v SMPs %d %s\n", r.GUID, r.Place, r.State, r.LID, r.SMPs, r.Reason)
	}
	return s
}

func (k *cloud) up() {
	k.t.Helper()
	if err := k.RunUntil(10*time.Minute, func() bool { return k.m.Up() && k.m.Idle() }); err != nil {
		k.t.Fatalf("%v\n%s", err, tail(k.m))
	}
}

// check has the switches' tables judged, and every VM reach every other.
func (k *cloud) check() {
	k.t.Helper()
	k.checkTables()
	lids := map[ib.LID]string{}
	for _, a := range k.vms {
		s, ok := k.Sim.VM(a)
		if !ok {
			k.t.Fatalf("no VM %s", a)
		}
		if s.At.Node < 0 {
			continue
		}
		p := k.m.Snap.PortByGUID(k.placement[a].GUID)
		if p < 0 || k.m.Snap.Ports[p].LID != s.LID || s.State != ib.StateActive {
			k.t.Fatalf("%s is %v at LID %v; the snapshot has entry %d\n%s\n%s", a, s.State, s.LID, p, k.reports(), tail(k.m))
		}
		if o, ok := lids[s.LID]; ok && k.placement[a].LIDKind != subnet.SharedLID {
			k.t.Fatalf("%s and %s have LID %v", a, o, s.LID)
		}
		lids[s.LID] = a
		for _, b := range k.vms {
			if a != b {
				k.probe(a, b)
			}
		}
	}
}

func (k *cloud) checkTables() {
	k.t.Helper()
	if err := k.Check(k.m); err != nil {
		k.t.Fatalf("%v\n%s\n%s", err, k.reports(), tail(k.m))
	}
	if err := k.m.Snap.Check(); err != nil {
		k.t.Fatal(err)
	}
}

func (k *cloud) probe(a, b string) {
	k.t.Helper()
	from, _ := k.Sim.VM(a)
	to, _ := k.Sim.VM(b)
	if from.At.Node < 0 || to.At.Node < 0 {
		return
	}
	p, err := k.Sim.Probe(from.At, mad.Addr{LID: to.LID, HasGRH: true, GRH: mad.GRH{GID: to.GID}}, cloudKey)
	if err != nil {
		k.t.Fatal(err)
	}
	if err := k.RunUntil(time.Second, func() bool { return p.Done }); err != nil || !p.Answered || p.At != to.At {
		k.t.Fatalf("%s to %s: %v\n%s", a, b, p, k.reports())
	}
}

// TestPlacementMigration: a VM keeps its LID, GUID and P_Keys when it moves inside a leaf, to
// another leaf and back, with the fewest LFT SMPs and one SMP to each hypervisor.
func TestPlacementMigration(t *testing.T) {
	for _, x := range placementModels {
		t.Run(x.name, func(t *testing.T) {
			k := newCloud(t, 3, 3, x.h, sim.Config{Seed: 1}, x.cfg)
			k.up()
			a, b := k.put("a", 1, 1, subnet.OwnLID), k.put("b", 4, 2, subnet.OwnLID)
			k.set(subnet.PlacementPlaced, a, b)
			k.check()
			was, _ := k.last(a.GUID)
			for _, host := range []int{2, 5, 4} {
				l := k.move("a", host, 3)
				l.Mode = subnet.MoveMinimal
				k.Run(time.Second)
				k.lfts, k.hyper = 0, 0
				k.set(subnet.PlacementPlaced, l)
				k.check()
				r, _ := k.last(a.GUID)
				if r.LID != was.LID {
					t.Errorf("LID %v became %v", was.LID, r.LID)
				}
				if most := 3; k.hyper > 2 || x.name != "prepopulated" && (k.lfts > most || r.SMPs != k.lfts) {
					t.Errorf("to %s: %d LFT SMPs, %d reported, %d to hypervisors", k.hosts[host], k.lfts, r.SMPs, k.hyper)
				}
			}
		})
	}
}

// TestPlacementSharedLID: VPorts that share their port's LID need no route at all.
func TestPlacementSharedLID(t *testing.T) {
	k := newCloud(t, 3, 3, sim.Hypervisor{Model: sim.VPorts, VFs: 4}, sim.Config{Seed: 1}, nil)
	k.up()
	k.put("a", 1, 1, subnet.SharedLID)
	k.put("b", 4, 2, subnet.SharedLID)
	k.set(subnet.PlacementPlaced, k.all()...)
	k.check()
	for _, host := range []int{2, 5, 4} {
		k.lfts = 0
		k.set(subnet.PlacementPlaced, k.move("a", host, 3))
		k.check()
		if k.lfts > 0 {
			t.Errorf("%d LFT SMPs", k.lfts)
		}
	}
}

// TestVPortsTakeTheirLIDs: without placements the LID of a VPort follows its GUID.
func TestVPortsTakeTheirLIDs(t *testing.T) {
	k := newCloud(t, 3, 3, sim.Hypervisor{Model: sim.VPorts, VFs: 4, OwnLIDs: true}, sim.Config{Seed: 1}, nil)
	k.up()
	k.put("a", 1, 1, subnet.OwnLID)
	k.put("b", 4, 2, subnet.OwnLID)
	k.Run(time.Second)
	k.up()
	k.check()
	was, _ := k.Sim.VM("a")
	for _, host := range []int{2, 5, 4} {
		k.lfts, k.hyper = 0, 0
		k.move("a", host, 3)
		k.Run(time.Second)
		k.up()
		k.check()
		if now, _ := k.Sim.VM("a"); now.LID != was.LID {
			t.Errorf("LID %v became %v", was.LID, now.LID)
		}
	}
}

func TestPlacementShared(t *testing.T) {
	k := newCloud(t, 3, 3, sim.Hypervisor{Model: sim.SharedPort, VFs: 4}, sim.Config{Seed: 1}, nil)
	k.up()
	a, b := k.put("a", 1, 1, subnet.SharedLID), k.put("b", 4, 2, subnet.SharedLID)
	k.set(subnet.PlacementPlaced, a, b)
	k.checkTables()
	for _, host := range []int{2, 5, 4} {
		k.set(subnet.PlacementPlaced, k.move("a", host, 3))
		k.checkTables()
		k.probe("a", "b")
	}
}

// TestPlacementLife: a placement without a place keeps its LID, which is not assigned to
// others. When the placement ends, the LID is free.
func TestPlacementLife(t *testing.T) {
	for _, x := range placementModels {
		t.Run(x.name, func(t *testing.T) {
			k := newCloud(t, 3, 3, x.h, sim.Config{Seed: 1}, x.cfg)
			k.up()
			a := k.put("a", 1, 1, subnet.OwnLID)
			k.put("b", 4, 2, subnet.OwnLID)
			k.set(subnet.PlacementPlaced, k.all()...)
			k.check()
			free := k.m.Status().Moves.LIDsUsed
			was, _ := k.last(a.GUID)
			if err := k.Sim.DetachVM("a"); err != nil {
				t.Fatal(err)
			}
			a.Place = subnet.Place{}
			k.placement["a"] = a
			k.set(subnet.PlacementPlaced, a)
			k.check()
			if r, _ := k.last(a.GUID); r.LID != was.LID || k.m.Snap.PortByGUID(a.GUID) >= 0 {
				t.Errorf("detached: %+v, was %+v", r, was)
			}
			// Another VM comes to the function that it left.
			k.put("c", 1, 1, subnet.OwnLID)
			k.set(subnet.PlacementPlaced, k.placement["c"])
			k.check()
			if r, _ := k.last(k.placement["c"].GUID); r.LID == was.LID {
				t.Errorf("c has a's LID %v", r.LID)
			}
			if err := k.Sim.PlaceVM("a", vf(t, k.Cluster, k.hosts[7], 2), sim.VMOptions{GUID: a.GUID, OwnLID: true}); err != nil {
				t.Fatal(err)
			}
			a.Place = k.place(7, 2)
			k.placement["a"] = a
			k.set(subnet.PlacementPlaced, a)
			k.check()
			if r, _ := k.last(a.GUID); r.LID != was.LID {
				t.Errorf("attached again: %+v, was %+v", r, was)
			}
			// They end; the host takes the VM away first, or later.
			for i, n := range []string{"a", "c"} {
				if i == 0 {
					if err := k.Sim.RemoveVM(n); err != nil {
						t.Fatal(err)
					}
				}
				k.m.SetPlacements(sm.SetPlacements{Drop: []ib.GUID{k.placement[n].GUID}})
				k.Run(time.Second)
				k.up()
				if i == 1 {
					if err := k.Sim.RemoveVM(n); err != nil {
						t.Fatal(err)
					}
				}
				k.Run(time.Second)
				k.vms = slices.DeleteFunc(k.vms, func(v string) bool { return v == n })
				k.check()
			}
			if st := k.m.Status().Moves; st.LIDsUsed > free && x.name != "vport" || st.Placements != 1 {
				t.Errorf("%+v, %d LIDs before\n%s", st, free, k.reports())
			}
		})
	}
}

// TestPlacementNoLID: when no LID is left, the report says how many there are and what has
// them. A LID that becomes free is assigned again.
func TestPlacementNoLID(t *testing.T) {
	k := newCloud(t, 3, 3, sim.Hypervisor{Model: sim.VSwitch, VFs: 8}, sim.Config{Seed: 1, LinearFDBCap: 20}, nil)
	k.up() // 6 switches and 9 hosts
	for i := range 5 {
		k.put(fmt.Sprint("v", i), 1+i, 1, subnet.OwnLID)
	}
	k.m.SetPlacements(sm.SetPlacements{Put: k.all()})
	k.wait(subnet.PlacementPlaced, k.all()[:4]...)
	last := k.placement["v4"]
	k.wait(subnet.PlacementRefused, last)
	r, _ := k.last(last.GUID)
	if r.Cause != subnet.CauseNoLID {
		t.Errorf("cause %v", r.Cause)
	}
	if want := "no LID left: all 19 that the smallest forwarding table holds are in use: 15 by ports, 0 by functions that always have one, 4 by interfaces, 0 of them without a place; delete"; !strings.HasPrefix(r.Reason, want) {
		t.Errorf("%q, want %q", r.Reason, want)
	}
	k.m.SetPlacements(sm.SetPlacements{Drop: []ib.GUID{k.placement["v0"].GUID}, Put: []subnet.Placement{last}})
	k.wait(subnet.PlacementPlaced, last) // it is tried again, though nobody sets it again
	k.vms = k.vms[1:]
	if err := k.Sim.RemoveVM("v0"); err != nil {
		t.Fatal(err)
	}
	k.Run(time.Second)
	k.check()
	// Asked-for LIDs: of somebody else, beyond the tables.
	for lid, want := range map[ib.LID]subnet.Cause{1: subnet.CauseLIDTaken, 20: subnet.CauseTableFull} {
		p := k.placement["v1"]
		p.GUID, p.Place, p.LID = 0x99, k.place(8, 3), lid
		if err := k.Sim.EnableVPort(vf(t, k.Cluster, k.hosts[8], 3)); err != nil {
			t.Fatal(err)
		}
		k.set(subnet.PlacementRefused, p)
		if r, _ := k.last(p.GUID); r.Cause != want {
			t.Errorf("LID %d: %v (%s), want %v", lid, r.Cause, r.Reason, want)
		}
	}
}

// TestPlacementGroups: multicast packets follow a member VM to its new place.
func TestPlacementGroups(t *testing.T) {
	for _, h := range []sim.Hypervisor{{Model: sim.VSwitch, VFs: 4}, {Model: sim.VPorts, VFs: 4}, {Model: sim.SharedPort, VFs: 4}} {
		k := newCloud(t, 3, 3, h, sim.Config{Seed: 1}, nil)
		k.up()
		kind := subnet.SharedLID
		if h.Model == sim.VSwitch {
			kind = subnet.OwnLID
		}
		a, b := k.put("a", 1, 1, kind), k.put("b", 4, 2, kind)
		k.set(subnet.PlacementPlaced, a, b)
		k.m.SetGroups([]sm.Group{groupOf(0xC000, a.GUID, b.GUID)})
		for _, host := range []int{1, 2, 5, 8} {
			if host > 1 {
				k.set(subnet.PlacementPlaced, k.move("a", host, 3))
			}
			k.Run(time.Second)
			k.up()
			if err := delivered(k.Cluster, groupOf(0xC000, k.placement["a"].Place.Port, b.Place.Port)); err != nil {
				t.Errorf("%v, a at %s: %v\n%s", h.Model, k.hosts[host], err, tail(k.m))
			}
			k.checkTables()
		}
	}
}

// TestPlacementBatch: placements that are set together move together, with fewer LFT blocks
// than one at a time, and in one snapshot. Balanced placements take the entries of the
// destination's PF, minimal ones change the fewest entries.
func TestPlacementBatch(t *testing.T) {
	for _, x := range placementModels {
		for _, mode := range []subnet.MoveMode{subnet.MoveMinimal, subnet.MoveBalanced} {
			t.Run(fmt.Sprint(x.name, mode), func(t *testing.T) {
				k := newCloud(t, 4, 4, x.h, sim.Config{Seed: 1}, x.cfg)
				k.up()
				for i := range 12 {
					n := fmt.Sprint("v", i)
					k.put(n, 1+i%6, 1+i/6, subnet.OwnLID)
					l := k.placement[n]
					l.Mode = mode
					k.placement[n] = l
				}
				k.set(subnet.PlacementPlaced, k.all()...)
				k.check()
				for i := range 12 {
					k.move(fmt.Sprint("v", i), 8+i%6, 1+i/6)
				}
				k.Run(time.Second)
				k.lfts, k.hyper = 0, 0
				before := k.m.Status().Moves
				mixed := 0
				k.m.OnPublish = func() {
					old, now := 0, 0
					for i := range 12 {
						s := k.m.Snap
						p := s.PortByGUID(k.placement[fmt.Sprint("v", i)].GUID)
						if p < 0 {
							continue
						}
						if s.Ports[s.Physical(p)].GUID == k.place(8+i%6, 0).Port {
							now++
						} else {
							old++
						}
					}
					if old > 0 && now > 0 {
						mixed++
					}
				}
				k.set(subnet.PlacementPlaced, k.all()...)
				k.m.OnPublish = nil
				k.check()
				after := k.m.Status().Moves
				sum := 0
				for _, l := range k.all() {
					r, _ := k.last(l.GUID)
					sum += r.SMPs
				}
				blocks, unmerged := int(after.Blocks-before.Blocks), int(after.Unmerged-before.Unmerged)
				if k.lfts != blocks || blocks >= unmerged || sum != unmerged || after.Batches != before.Batches+1 {
					t.Errorf("%d LFT SMPs, %d blocks in %d batches, %d unmerged, %d reported", k.lfts, blocks, after.Batches-before.Batches, unmerged, sum)
				}
				if mixed > 0 {
					t.Errorf("%d snapshots with some VMs moved and others not", mixed)
				}
				t.Logf("%d LFT SMPs, %d one at a time, %d to hypervisors", k.lfts, unmerged, k.hyper)
				if mode == subnet.MoveMinimal || x.name == "prepopulated" {
					return
				}
				// The paths are those of the PF.
				_, rows := k.Sim.Graph()
				for _, l := range k.all() {
					vm, pf := k.lidOf(l.GUID), k.lidOf(l.Place.Port)
					for s := range rows {
						if rows[s][vm] != rows[s][pf] {
							t.Errorf("LID %v goes by %d at switch %d, that of the PF by %d", vm, rows[s][vm], s, rows[s][pf])
						}
					}
				}
			})
		}
	}
}

func (k *cloud) lidOf(g ib.GUID) ib.LID {
	return k.m.Snap.Ports[k.m.Snap.PortByGUID(g)].LID
}

// TestPlacementInsideLeaf: the counts of the paper: inside a leaf 1 LFT SMP for a copy, 1 or 2
// for a swap (1 if the LIDs share a block), and one SMP to each hypervisor.
func TestPlacementInsideLeaf(t *testing.T) {
	for _, x := range placementModels {
		k := newCloud(t, 4, 4, x.h, sim.Config{Seed: 1}, x.cfg)
		k.up()
		a := k.put("a", 4, 1, subnet.OwnLID)
		k.set(subnet.PlacementPlaced, a)
		for i, host := range []int{5, 6, 7, 4} {
			k.move("a", host, 2)
			k.Run(time.Second)
			k.lfts, k.hyper = 0, 0
			l := k.placement["a"]
			l.Mode = subnet.MoveMode(i % 3)
			k.set(subnet.PlacementPlaced, l)
			k.check()
			r, _ := k.last(a.GUID)
			most := 1
			if x.name == "prepopulated" {
				most = 2
			}
			if k.hyper > 2 || k.lfts > most && l.Mode != subnet.MoveBalanced || r.SMPs != k.lfts && l.Mode != subnet.MoveBalanced || k.lfts < 1 {
				t.Errorf("%s: %d LFT SMPs, %d to hypervisors: %+v", x.name, k.lfts, k.hyper, r)
			}
		}
	}
}

// TestPlacementExchange: VMs change places, two or three at once.
func TestPlacementExchange(t *testing.T) {
	for _, x := range placementModels {
		k := newCloud(t, 3, 3, x.h, sim.Config{Seed: 1}, x.cfg)
		k.up()
		at := []int{1, 4, 7}
		names := []string{"a", "b", "c"}
		for i, n := range names {
			k.put(n, at[i], 1, subnet.OwnLID)
		}
		k.set(subnet.PlacementPlaced, k.all()...)
		lid := map[string]ib.LID{}
		for _, n := range names {
			lid[n] = k.lidOf(k.placement[n].GUID)
		}
		for _, n := range names {
			if err := k.Sim.DetachVM(n); err != nil {
				t.Fatal(err)
			}
		}
		for i, n := range names {
			host := at[(i+1)%3]
			l := k.placement[n]
			if err := k.Sim.PlaceVM(n, vf(t, k.Cluster, k.hosts[host], 1), sim.VMOptions{GUID: l.GUID, OwnLID: true}); err != nil {
				t.Fatal(err)
			}
			l.Place = k.place(host, 1)
			k.placement[n] = l
		}
		k.set(subnet.PlacementPlaced, k.all()...)
		k.check()
		for _, n := range names {
			if now := k.lidOf(k.placement[n].GUID); now != lid[n] {
				t.Errorf("%s: LID %v of %s became %v", x.name, lid[n], n, now)
			}
		}
	}
}

// TestPlacementNotices: notices name functions by the GUIDs that they have while they are up,
// not by earlier or later ones.
func TestPlacementNotices(t *testing.T) {
	k := newCloud(t, 2, 3, sim.Hypervisor{Model: sim.VSwitch, VFs: 2}, sim.Config{}, nil)
	k.up()
	k.set(subnet.PlacementPlaced, k.put("web", 1, 1, subnet.OwnLID))
	k.set(subnet.PlacementPlaced, k.move("web", 4, 2))
	if l := told(k.m, sm.KindMoved); len(l) != 2 || !strings.Contains(l[1], "LIDs moved: 1, LFT blocks: ") {
		t.Errorf("told of moves: %q", l)
	}
	g := k.placement["web"].GUID.String()
	for kind, want := range map[sm.Kind]int{sm.KindVPortUp: 2, sm.KindVPortDown: 1} {
		lines := told(k.m, kind)
		n := 0
		for _, l := range lines {
			if strings.Contains(l, g) && strings.Contains(l, " LID ") {
				n++
			}
		}
		if n != want || len(lines) != want {
			t.Errorf("%v: %d lines name %s and its LID, want %d:\n%s", kind, n, g, want, strings.Join(lines, "\n"))
		}
	}
}
