package lab

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/partition"
	"heddle/sim"
	"heddle/sm"
	"heddle/subnet"
)

// TestVPortKeys: a virtual port has the keys of its own GUID before it is Active, the switch
// port before it has them by then, and no other port there gains a key. The keys follow its
// GUID from one hypervisor to another, whatever the new function held before.
func TestVPortKeys(t *testing.T) {
	c, m, h := vmBed(t, sim.Config{})
	m.apply(t, policyOf(t, c, "Default:ALL=full; a=5:H0=full;"), 1)
	m.addMembers(t, 2, vmKeys("vm", 6, 1, 2), vmKeys("other", 7, 3))
	c.Sim.OnChange = func(x sim.Change) {
		if x.Kind != sim.ChangeVPort || x.New != ib.StateActive {
			return
		}
		node := c.Fabric.Nodes[x.Node].ID
		edge, enforced := edgeTable(t, c, node)
		for _, k := range vportTable(t, c, node, int(x.VPort)) {
			if !enforced || !slices.Contains(edge, k|0x8000) {
				t.Errorf("%s VPort %d is made Active with %v before the switch lets that pass: %v", node, x.VPort, k, edge)
			}
		}
	}
	placeVM(t, c, 1, h[0], 1)
	placeVM(t, c, 2, h[1], 1)
	placeVM(t, c, 3, h[0], 2)
	placeVM(t, c, 4, h[2], 1)
	mustKeys(t, c, m, h[0], 1, 0xFFFF, 0x8006)
	mustKeys(t, c, m, h[1], 1, 0xFFFF, 0x8006)
	mustKeys(t, c, m, h[0], 2, 0xFFFF, 0x8007)
	mustKeys(t, c, m, h[2], 1, 0xFFFF)
	if got := keysAt(c, c.Fabric.Find(h[0]), 1); !slices.Equal(got, []ib.PKey{0xFFFF}) {
		t.Errorf("the port itself holds %v", got)
	}
	if got, on := edgeTable(t, c, h[0]); !on || !slices.Equal(got, []ib.PKey{0x8006, 0x8007, 0xFFFF}) {
		t.Errorf("the switch port holds %v, enforces: %v", got, on)
	}
	if !reaches(t, c, m, 1, 2, 0x8006) || reaches(t, c, m, 1, 3, 0x8006) || reaches(t, c, m, 3, 1, 0x8007) || !reaches(t, c, m, 1, 4, 0xFFFF) {
		t.Error("the wrong VMs reach each other")
	}
	s := m.Snap
	if r := s.Ready(0x8006, []ib.GUID{vmGUID(1), vmGUID(2), vmGUID(9)}); r.Ready != 2 || r.Absent != 1 || r.Pending != 0 {
		t.Errorf("%+v", r)
	}
	if r := s.Ready(0x8006, []ib.GUID{vmGUID(3)}); r.Pending != 1 {
		t.Errorf("%+v", r)
	}

	// VM 1 goes where VM 3 is a neighbour's; VM 4 takes its function.
	moveVM(t, c, 1, h[2], 2)
	moveVM(t, c, 4, h[0], 1)
	mustKeys(t, c, m, h[2], 2, 0xFFFF, 0x8006)
	mustKeys(t, c, m, h[0], 1, 0xFFFF)
	if !reaches(t, c, m, 1, 2, 0x8006) || !reaches(t, c, m, 2, 1, 0x8006) {
		t.Error("a VM that moved is not reached")
	}
	c.Run(10 * time.Second)
	for node, want := range map[string][]ib.PKey{h[0]: {0x8007, 0xFFFF}, h[1]: {0x8006, 0xFFFF}, h[2]: {0x8006, 0xFFFF}} {
		if got, on := edgeTable(t, c, node); !on || !slices.Equal(got, want) {
			t.Errorf("the switch port before %s holds %v, want %v; enforces: %v", node, got, want, on)
		}
	}
	// A change of the policy, and one of the members, reach them.
	m.apply(t, policyOf(t, c, "Default:ALL=limited,SELF=full; a=5:"+vmGUID(2).String()+"=full;"), 3)
	if got := vportTable(t, c, h[1], 1); !slices.Equal(got, []ib.PKey{0x7FFF, 0x8006, 0x8005}) {
		t.Errorf("VM 2 holds %v", got)
	}
	m.addMembers(t, 4, vmKeys("vm", 6, 2))
	if got := vportTable(t, c, h[2], 2); !slices.Equal(got, []ib.PKey{0x7FFF}) {
		t.Errorf("VM 1 holds %v", got)
	}
	if reaches(t, c, m, 1, 2, 0x8006) {
		t.Error("VM 1 is still in partition 6")
	}
}

// TestVPortKeyCost: a virtual port that comes up costs its own table and one block
// of the switch port before it, and no walk over others.
func TestVPortKeyCost(t *testing.T) {
	c, m, h := vmBed(t, sim.Config{})
	m.apply(t, policyOf(t, c, "Default:ALL=full; a=5:H0=full;"), 1)
	m.addMembers(t, 2, vmKeys("vm", 6, 1, 2))
	c.Run(10 * time.Second)
	asked := map[string]int{}
	m.OnSend = func(p *mad.Packet) {
		k := (*ib.MAD)(p.Data)
		if a := k.AttrID(); a == smp.AttrPKeyTable || a == smp.AttrVPortPartitionTable {
			asked[fmt.Sprintf("%v %s", k.Method(), ib.AttrName(k.Class(), k.AttrID()))]++
		}
	}
	placeVM(t, c, 1, h[0], 1)
	mustKeys(t, c, m, h[0], 1, 0xFFFF, 0x8006)
	if want := "map[Get VPortPartitionTable:2 Set P_KeyTable:1 Set VPortPartitionTable:1]"; fmt.Sprint(asked) != want {
		t.Errorf("asked %v, want %v", asked, want)
	}
	clear(asked)
	moveVM(t, c, 1, h[1], 1)
	mustKeys(t, c, m, h[1], 1, 0xFFFF, 0x8006)
	c.Run(time.Second)
	if want := "map[Get VPortPartitionTable:2 Set P_KeyTable:2 Set VPortPartitionTable:1]"; fmt.Sprint(asked) != want {
		t.Errorf("a migration asked %v, want %v", asked, want)
	}
	clear(asked)
	m.addMembers(t, 3, vmKeys("vm", 6, 1, 2), vmKeys("more", 7, 1, 9))
	if want := "map[Set P_KeyTable:1 Set VPortPartitionTable:1]"; fmt.Sprint(asked) != want {
		t.Errorf("another membership asked %v, want %v", asked, want)
	}
	clear(asked)
	m.addMembers(t, 4, vmKeys("vm", 6, 1, 2), vmKeys("more", 7, 1)) // VM 9 is nowhere
	if len(asked) > 0 {
		t.Errorf("a membership of nobody asked %v", asked)
	}
}

// TestVSwitchKeys: a function of a vSwitch gets the keys of an address before a placement
// brings the address, and loses them with it.
func TestVSwitchKeys(t *testing.T) {
	c, err := NewCluster(gen(t, "irregular", "16"), sim.Config{})
	if err != nil {
		t.Fatal(err)
	}
	h := hostNames(c)
	for _, n := range h[:2] {
		hypervisor(t, c, n, sim.Hypervisor{Model: sim.VSwitch, VFs: 4}, 0)
	}
	m, err := c.Attach(firstCA(c.Fabric), quietConfig(), nil)
	if err != nil {
		t.Fatal(err)
	}
	m.SetMembers([]partition.Partition{vmKeys("vm", 6, 1), vmKeys("other", 7, 2)}, 1)
	m.SetPlacements(sm.SetPlacements{All: true})
	if err := m.Start(); err != nil {
		t.Fatal(err)
	}
	mustUp(t, c, m)
	m.apply(t, policyOf(t, c, "Default:ALL=full; a=5:H0=full;"), 2)
	place := func(node string, f uint16) subnet.Place {
		return subnet.Place{Port: c.Fabric.Nodes[c.Fabric.Find(node)].Ports[1].GUID, Function: f}
	}
	keys := map[ib.GUID]ib.PKey{vmGUID(1): 0x8006, vmGUID(2): 0x8007}
	ups := 0
	c.Sim.OnChange = func(x sim.Change) {
		if x.Kind != sim.ChangeVPort || x.New != ib.StateActive {
			return
		}
		node := c.Fabric.Nodes[x.Node].ID
		st, err := c.Sim.VPort(sim.VF{Node: x.Node, Port: x.Port, Index: x.VPort})
		if err != nil {
			t.Fatal(err)
		}
		ups++
		edge, on := edgeTable(t, c, node)
		got := vportTable(t, c, node, int(x.VPort))
		if want := keys[st.GUID]; !on || !slices.Equal(got, []ib.PKey{0xFFFF, want}) || !slices.Contains(edge, want) {
			t.Errorf("%s VF %d with GUID %v is made Active with %v, the switch port has %v", node, x.VPort, st.GUID, got, edge)
		}
	}
	for i := 1; i <= 2; i++ {
		if err := c.Sim.PlaceVM(fmt.Sprintf("vm%d", i), vf(t, c, h[0], i), sim.VMOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	placement := func(i int, at subnet.Place) subnet.Placement {
		return subnet.Placement{GUID: vmGUID(i), Place: at, LIDKind: subnet.OwnLID}
	}
	m.SetPlacements(sm.SetPlacements{Put: []subnet.Placement{placement(1, place(h[0], 1)), placement(2, place(h[0], 2))}})
	mustKeys(t, c, m, h[0], 1, 0xFFFF, 0x8006)
	mustKeys(t, c, m, h[0], 2, 0xFFFF, 0x8007)

	moveVM(t, c, 1, h[1], 3)
	m.SetPlacements(sm.SetPlacements{Put: []subnet.Placement{placement(1, place(h[1], 3))}})
	mustKeys(t, c, m, h[1], 3, 0xFFFF, 0x8006)
	moveVM(t, c, 2, h[0], 1) // into what the other one left
	m.SetPlacements(sm.SetPlacements{Put: []subnet.Placement{placement(2, place(h[0], 1))}})
	mustKeys(t, c, m, h[0], 1, 0xFFFF, 0x8007)
	if ups < 4 {
		t.Errorf("%d functions were made Active", ups)
	}
	c.Run(10 * time.Second)
	for node, want := range map[string][]ib.PKey{h[0]: {0x8007, 0xFFFF}, h[1]: {0x8006, 0xFFFF}} {
		if got, on := edgeTable(t, c, node); !on || !slices.Equal(got, want) {
			t.Errorf("the switch port before %s holds %v, want %v; enforces: %v", node, got, want, on)
		}
	}
	if st := m.Status().Partitions; !st.Settled {
		t.Errorf("%+v", st)
	}
}

// TestVPortKeysAtTakeover: a new manager removes no key from an Active virtual port that it has
// not read yet, nor from the switch port before it.
func TestVPortKeysAtTakeover(t *testing.T) {
	for _, how := range []string{"a standby takes over", "started anew", "started anew, with a key in quarantine"} {
		kill := how != "a standby takes over"
		c, m, h := vmBed(t, sim.Config{HopLatency: time.Microsecond, SMALatency: 5 * time.Microsecond})
		m.apply(t, policyOf(t, c, "Default:ALL=full; a=5:H0=full;"), 1)
		list := []partition.Partition{vmKeys("vm", 6, 1, 2)}
		m.addMembers(t, 2, vmKeys("vm", 6, 1, 2, 3))
		placeVM(t, c, 3, h[2], 1)
		mustKeys(t, c, m, h[2], 1, 0xFFFF, 0x8006)
		placeVM(t, c, 1, h[0], 1)
		placeVM(t, c, 2, h[1], 1)
		mustKeys(t, c, m, h[0], 1, 0xFFFF, 0x8006)
		mustKeys(t, c, m, h[1], 1, 0xFFFF, 0x8006)
		if strings.HasSuffix(how, "quarantine") {
			list[0].Name = "another tenant with two of the three"
			if err := c.Sim.MuteSMA(h[2], true); err != nil {
				t.Fatal(err)
			}
			m.SetMembers(list, 3)
			c.Run(10 * time.Second)
			if st := m.Status().Partitions; !slices.Equal(st.Quarantined, []ib.PKey{6}) {
				t.Fatalf("%+v", st)
			}
		} else {
			m.addMembers(t, 3, list...)
		}
		next, err := c.Attach(h[5], quietConfig(), nil)
		if kill {
			m.Kill()
			next, err = c.Attach(m.Node, quietConfig(), m.Store.Reopen())
		}
		if err != nil {
			t.Fatal(err)
		}
		if !kill {
			next.SetPartitions(policyOf(t, c, "Default:ALL=full; a=5:H0=full;"), 3)
		}
		next.SetMembers(list, 4)
		writes := 0
		c.Sim.OnChange = func(x sim.Change) {
			if x.Kind == sim.ChangeSet && (x.Attr == smp.AttrVPortPartitionTable || x.Attr == smp.AttrPKeyTable) {
				writes++
			}
			if x.Kind == sim.ChangeReset {
				return
			}
			for _, n := range h[:2] {
				if edge, on := edgeTable(t, c, n); on && !slices.Contains(edge, 0x8006) || !slices.Contains(vportTable(t, c, n, 1), 0x8006) {
					t.Fatalf("%s: a running VM loses its key: the switch port holds %v", how, edge)
				}
			}
		}
		if err := next.Start(); err != nil {
			t.Fatal(err)
		}
		if !kill {
			c.Run(time.Second)
			m.Kill()
		}
		if err := c.RunUntil(time.Minute, next.Up); err != nil {
			t.Fatal(tail(next))
		}
		c.Run(30 * time.Second)
		if writes > 2 && kill || writes > 8 {
			t.Errorf("%s: %d writes", how, writes)
		}
		if q := next.Status().Partitions.Quarantined; strings.HasSuffix(how, "quarantine") != slices.Equal(q, []ib.PKey{6}) {
			t.Errorf("%s: %v in quarantine", how, q)
		}
		_ = c.Sim.MuteSMA(h[2], false)
		c.Run(time.Minute)
		if st := next.Status().Partitions; !st.Settled {
			t.Errorf("%s: %+v", how, st)
		}
		if got := vportTable(t, c, h[2], 1); !slices.Equal(got, []ib.PKey{0xFFFF}) {
			t.Errorf("%s: VM 3 has %v", how, got)
		}
		if err := vportsShown(t, c, next, h[0], 4); err != nil {
			t.Error(err)
		}
	}
}

// TestVPortKeysInQuarantine: a key that a VM had is not given to another tenant before the VM
// has lost it, whether it answers or not; one that is down, or whose hypervisor has left, is
// not awaited, and its table is cleared before it is Active again.
func TestVPortKeysInQuarantine(t *testing.T) {
	c, m, h := vmBed(t, sim.Config{})
	m.addMembers(t, 1, vmKeys("tenant1", 5, 1, 2))
	placeVM(t, c, 1, h[0], 1)
	placeVM(t, c, 2, h[1], 1)
	placeVM(t, c, 3, h[2], 1)
	mustKeys(t, c, m, h[0], 1, 0xFFFF, 0x8005)
	mustKeys(t, c, m, h[1], 1, 0xFFFF, 0x8005)
	mustKeys(t, c, m, h[2], 1, 0xFFFF)
	if err := c.Sim.MuteSMA(h[0], true); err != nil {
		t.Fatal(err)
	}
	m.SetMembers([]partition.Partition{vmKeys("tenant2", 5, 3)}, 2)
	c.Run(20 * time.Second)
	if got := vportTable(t, c, h[2], 1); !slices.Equal(got, []ib.PKey{0xFFFF}) {
		t.Errorf("the new tenant has %v while the old one does not answer", got)
	}
	if got := vportTable(t, c, h[1], 1); !slices.Equal(got, []ib.PKey{0xFFFF}) {
		t.Errorf("the old tenant that answers has %v", got)
	}
	if st := m.Status().Partitions; st.Settled || st.Pending == 0 || !slices.Equal(st.Quarantined, []ib.PKey{5}) {
		t.Errorf("%+v", st)
	}
	if reaches(t, c, m, 1, 3, 0x8005) {
		t.Error("the tenants meet")
	}
	// Its hypervisor leaves with it: the key is free.
	if err := c.Sim.LinkDown(h[0], 1); err != nil {
		t.Fatal(err)
	}
	mustKeys(t, c, m, h[2], 1, 0xFFFF, 0x8005)
	if st := m.Status().Partitions; !st.Settled || len(st.Quarantined) > 0 {
		t.Errorf("%+v", st)
	}
	c.Sim.OnChange = func(x sim.Change) {
		if x.Kind == sim.ChangeState && x.Node == c.Fabric.Find(h[0]) && x.New >= ib.StateArmed && slices.Contains(vportTable(t, c, h[0], 1), 0x8005) {
			t.Error("the old tenant's link is up again, and its VM has its old keys")
		}
	}
	_ = c.Sim.MuteSMA(h[0], false)
	if err := c.Sim.LinkUp(h[0], 1); err != nil {
		t.Fatal(err)
	}
	mustKeys(t, c, m, h[0], 1, 0xFFFF)
	// A function that is down is cleaned when it comes up, not before it is used.
	m.addMembers(t, 3, vmKeys("tenant3", 6, 1))
	mustKeys(t, c, m, h[0], 1, 0xFFFF, 0x8006)
	if err := c.Sim.DetachVM("vm1"); err != nil {
		t.Fatal(err)
	}
	c.Run(time.Second)
	m.addMembers(t, 4, vmKeys("tenant4", 6, 3))
	mustKeys(t, c, m, h[2], 1, 0xFFFF, 0x8006)
	c.Sim.OnChange = func(x sim.Change) {
		if x.Kind == sim.ChangeVPort && x.New == ib.StateActive && slices.Contains(vportTable(t, c, h[0], 1), 0x8006) {
			t.Error("a function is Active with what another VM left in its table")
		}
	}
	placeVM(t, c, 4, h[0], 1)
	mustKeys(t, c, m, h[0], 1, 0xFFFF)
}

// TestVPortKeyLimits: where a switch port has no room for the keys of all virtual ports behind
// it, it enforces nothing, and they are brought up; a table that is too small is reported.
func TestVPortKeyLimits(t *testing.T) {
	c, m, h := vmBed(t, sim.Config{PartitionCap: 3, ExternalPartitionCap: 3})
	m.apply(t, policyOf(t, c, "Default:ALL=full; a=5:H0=full;"), 1)
	m.addMembers(t, 2, vmKeys("k6", 6, 1, 3), vmKeys("k7", 7, 2, 3), vmKeys("k8", 8, 3), vmKeys("k9", 9, 3))
	placeVM(t, c, 1, h[0], 1)
	mustKeys(t, c, m, h[0], 1, 0xFFFF, 0x8006)
	if _, on := edgeTable(t, c, h[0]); !on {
		t.Error("two keys fit, and the switch does not enforce them")
	}
	placeVM(t, c, 2, h[0], 2)
	mustKeys(t, c, m, h[0], 2, 0xFFFF, 0x8007)
	if _, on := edgeTable(t, c, h[0]); !on {
		t.Error("three keys fit, and the switch does not enforce them")
	}
	placeVM(t, c, 3, h[0], 3)
	if err := c.RunUntil(30*time.Second, func() bool {
		st, _ := c.Sim.VPort(vf(t, c, h[0], 3))
		return st.State == ib.StateActive
	}); err != nil {
		t.Fatal(tail(m))
	}
	if got := vportTable(t, c, h[0], 3); len(got) != 3 || got[0] != 0xFFFF {
		t.Errorf("VM 3 holds %v", got)
	}
	if _, on := edgeTable(t, c, h[0]); on {
		t.Error("the switch enforces what does not fit into its table")
	}
	if !reaches(t, c, m, 1, 3, 0x8006) {
		t.Error("VM 1 does not reach VM 3")
	}
	for k, text := range map[sm.Kind]string{sm.KindPKeyRefused: "virtual port 3", sm.KindEnforceOff: "room for 3"} {
		if n := lastNotice(m, k); n == nil || !strings.Contains(n.Text, text) {
			t.Errorf("told %v", n)
		}
	}
	if err := c.Sim.DetachVM("vm3"); err != nil {
		t.Fatal(err)
	}
	if err := c.RunUntil(30*time.Second, func() bool { l, on := edgeTable(t, c, h[0]); return on && len(l) == 3 }); err != nil {
		t.Error("the switch does not enforce again when there is room")
	}
}

// TestSharedPortKeys: functions of a shared port are members by their alias GUIDs,
// in the port's own table.
func TestSharedPortKeys(t *testing.T) {
	c, err := NewCluster(gen(t, "irregular", "16"), sim.Config{})
	if err != nil {
		t.Fatal(err)
	}
	h := hostNames(c)
	hypervisor(t, c, h[0], sim.Hypervisor{Model: sim.SharedPort, VFs: 4}, 0)
	m, err := c.Start(firstCA(c.Fabric), quietConfig(), nil)
	if err != nil {
		t.Fatal(err)
	}
	mustUp(t, c, m)
	m.addMembers(t, 1, vmKeys("vm", 6, 1), vmKeys("other", 7, 2))
	n := c.Fabric.Find(h[0])
	m.SetAliases([]subnet.Alias{{Port: c.Fabric.Nodes[n].Ports[1].GUID, Index: 1, GUID: vmGUID(1), Carries: true}, {Port: c.Fabric.Nodes[n].Ports[1].GUID, Index: 2, GUID: vmGUID(2), Carries: true}})
	c.Run(10 * time.Second)
	if got := keysAt(c, n, 1); !slices.Equal(got, []ib.PKey{0xFFFF, 0x8006, 0x8007}) {
		t.Errorf("the port holds %v", got)
	}
	if r := m.Snap.Ready(0x8006, []ib.GUID{vmGUID(1)}); r.Ready != 1 {
		t.Errorf("%+v", r)
	}
}
