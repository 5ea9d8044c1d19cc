package lab

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/sim"
	"heddle/sm"
	"heddle/subnet"
)

// hypervisor gives port 1 of a host virtual functions and brings the first up ones
// up, before a manager is there.
func hypervisor(t testing.TB, c *Cluster, node string, h sim.Hypervisor, up int) {
	t.Helper()
	if err := c.Sim.AddHypervisor(node, 1, h); err != nil {
		t.Fatal(err)
	}
	for i := 1; i <= up; i++ {
		enableVPort(t, c, node, i)
	}
}

func vf(t testing.TB, c *Cluster, node string, i int) sim.VF {
	t.Helper()
	f, err := c.Sim.VF(node, 1, i)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func enableVPort(t testing.TB, c *Cluster, node string, i int) {
	t.Helper()
	if err := c.Sim.EnableVPort(vf(t, c, node, i)); err != nil {
		t.Fatal(err)
	}
}

func disableVPort(t testing.TB, c *Cluster, node string, i int) {
	t.Helper()
	if err := c.Sim.DisableVPort(vf(t, c, node, i)); err != nil {
		t.Fatal(err)
	}
}

// vportsShown compares the entries of a host's VPorts in the snapshot with what
// the adapter holds: those that are up are Active and found by their GUID, others
// cannot be reached.
func vportsShown(t testing.TB, c *Cluster, m *Manager, node string, vfs int) error {
	t.Helper()
	s := m.Snap
	if err := s.Check(); err != nil {
		return err
	}
	n := c.Fabric.Find(node)
	if n < 0 {
		t.Fatalf("no node %s", node)
	}
	port := s.PortByPortGUID(c.Fabric.Nodes[n].Ports[1].GUID)
	if port < 0 {
		return fmt.Errorf("%s is not in the snapshot", node)
	}
	for i := 1; i <= vfs; i++ {
		f, err := c.Sim.VF(node, 1, i)
		if err != nil {
			continue // it does not exist now
		}
		st, err := c.Sim.VPort(f)
		if err != nil {
			t.Fatal(err)
		}
		e := s.VPort(port, uint16(i))
		if !st.Up {
			if e >= 0 && s.Ports[e].EndPort >= 0 {
				return fmt.Errorf("%s VPort %d is down and shown as %v", node, i, s.Ports[e].State())
			}
			continue
		}
		switch {
		case st.State != ib.StateActive:
			return fmt.Errorf("%s VPort %d is %v", node, i, st.State)
		case e < 0:
			return fmt.Errorf("%s VPort %d has no entry", node, i)
		}
		p := s.Ports[e]
		v := p.Virtual
		switch {
		case p.State() != ib.StateActive || p.EndPort < 0:
			return fmt.Errorf("%s VPort %d is shown %v, end port %d", node, i, p.State(), p.EndPort)
		case p.GUID != st.GUID || p.LID != st.LID || v.OwnLID != st.Own:
			return fmt.Errorf("%s VPort %d is shown with GUID %v LID %v, has %v %v", node, i, p.GUID, p.LID, st.GUID, st.LID)
		case s.PortByGUID(st.GUID) != e:
			return fmt.Errorf("%s VPort %d is not found by its GUID", node, i)
		case v.Desc != fmt.Sprintf("%s VF %d", c.Fabric.Nodes[n].Desc, i):
			return fmt.Errorf("%s VPort %d is described as %q", node, i, v.Desc)
		case v.Node.PortGUID != st.GUID || v.Node.PartitionCap == 0 || v.Info.GUIDCap != 8:
			return fmt.Errorf("%s VPort %d: %+v %+v", node, i, v.Node, v.Info)
		}
	}
	return nil
}

// mustShow runs until a host's VPorts are up and shown as they are.
func mustShow(t testing.TB, c *Cluster, m *Manager, node string, vfs int, limit time.Duration) {
	t.Helper()
	if err := c.RunUntil(limit, func() bool { return m.Up() && m.Idle() && vportsShown(t, c, m, node, vfs) == nil }); err != nil {
		t.Fatalf("%v: %v\n%s", err, vportsShown(t, c, m, node, vfs), tail(m))
	}
}

// virtualSMPs counts a manager's requests of the attributes of virtual ports while
// fn runs, by attribute, Gets and Sets.
func virtualSMPs(m *Manager, fn func()) (gets, sets map[ib.AttrID]int) {
	gets, sets = map[ib.AttrID]int{}, map[ib.AttrID]int{}
	old := m.OnSend
	m.OnSend = func(p *mad.Packet) {
		if k := (*ib.MAD)(p.Data); k.Class().IsSMP() && k.AttrID() >= smp.AttrVirtualizationInfo && k.AttrID() <= smp.AttrVPortPartitionTable {
			if k.Method() == ib.MethodSet {
				sets[k.AttrID()]++
			} else {
				gets[k.AttrID()]++
			}
		}
	}
	fn()
	m.OnSend = old
	return gets, sets
}

// hostNames are the IDs of the hosts but the first, where the manager is.
func hostNames(c *Cluster) (names []string) {
	_, at := hosts(c.Fabric)
	for _, n := range at[1:] {
		names = append(names, c.Fabric.Nodes[n].ID)
	}
	return names
}

// TestDynamicPortStateChanges follows the example of that name in "InfiniBand Virtualization"
// (Liss, IBTA, 2017): virtualization is off until a manager turns it on; the host enables a
// VPort, which the port reports by VPortStateChange and a trap; the manager reads which one it
// is and makes it Active; the host disables it, and the port reports that in the same way. No
// sweep is needed. A VPort without changes is not written.
func TestDynamicPortStateChanges(t *testing.T) {
	for _, vendor := range []bool{false, true} {
		c, err := NewCluster(gen(t, "fattree", "324"), sim.Config{Seed: 1})
		if err != nil {
			t.Fatal(err)
		}
		h := hostNames(c)[20]
		hypervisor(t, c, h, sim.Hypervisor{Model: sim.VPorts, VFs: 4, VendorTraps: vendor}, 1)
		var seen []string
		c.Sim.OnChange = func(ch sim.Change) {
			if ch.Kind == sim.ChangeVPort {
				seen = append(seen, fmt.Sprintf("%d %v>%v", ch.VPort, ch.Old, ch.New))
			}
		}
		expect := func(what string, want ...string) {
			t.Helper()
			if !slices.Equal(seen, want) {
				t.Errorf("%s: %v, want %v\n%s", what, seen, want, tail(m0(c)))
			}
			seen = nil
		}
		c.Run(time.Second)
		if st, _ := c.Sim.VPort(vf(t, c, h, 1)); st.State != ib.StateDown || !st.Up {
			t.Fatalf("before there is a manager: %+v", st)
		}
		m, err := c.Start(firstCA(c.Fabric), DefaultConfig(), nil)
		if err != nil {
			t.Fatal(err)
		}
		mustUp(t, c, m)
		mustShow(t, c, m, h, 4, time.Second)
		expect("virtualization is turned on", "1 Down>Initialize", "1 Initialize>Active")
		sweeps := m.Status().Sweeps

		enableVPort(t, c, h, 3)
		mustShow(t, c, m, h, 4, 3*time.Second)
		expect("the host enables a VPort", "3 Down>Initialize", "3 Initialize>Active")
		if n := len(m.Traps); n == 0 {
			t.Error("no trap 1146 was handed on")
		} else if trap, _ := m.Traps[n-1].Notice.Trap(); trap != smp.TrapVPortState || m.Traps[n-1].Notice.IsGeneric == vendor {
			t.Errorf("handed on: %+v", m.Traps[n-1].Notice)
		}
		disableVPort(t, c, h, 3)
		mustShow(t, c, m, h, 4, 3*time.Second)
		expect("the host disables it", "3 Active>Down")
		enableVPort(t, c, h, 3)
		enableVPort(t, c, h, 4)
		disableVPort(t, c, h, 1)
		mustShow(t, c, m, h, 4, 3*time.Second)
		slices.Sort(seen)
		expect("several at once", "1 Active>Down", "3 Down>Initialize", "3 Initialize>Active", "4 Down>Initialize", "4 Initialize>Active")
		// Down and up again between two looks: it is met as if it were new.
		disableVPort(t, c, h, 4)
		enableVPort(t, c, h, 4)
		mustShow(t, c, m, h, 4, 3*time.Second)
		expect("down and up", "4 Active>Down", "4 Down>Initialize", "4 Initialize>Active")
		if err := c.Sim.SetVFs(h, 1, 3); err != nil {
			t.Fatal(err)
		}
		mustShow(t, c, m, h, 4, 3*time.Second)
		expect("a VHCA is unplugged", "4 Active>Down")
		if err := c.Sim.SetVFs(h, 1, 4); err != nil {
			t.Fatal(err)
		}
		enableVPort(t, c, h, 4)
		mustShow(t, c, m, h, 4, 3*time.Second)
		expect("and comes back", "4 Down>Initialize", "4 Initialize>Active")
		if n := m.Status().Sweeps; n != sweeps {
			t.Errorf("%d sweeps because of VPorts", n-sweeps)
		}
		gets, sets := virtualSMPs(m, func() { c.Run(time.Minute) })
		if len(sets) != 0 || len(gets) != 1 || gets[smp.AttrVirtualizationInfo] != 6 {
			t.Errorf("in a quiet minute: %v %v, want one look in each of 6 light sweeps", gets, sets)
		}
		if s := m.Status().Virtual; s.Adapters != 1 || s.Active != 2 || s.Functions != 4 {
			t.Errorf("status: %+v", s)
		}
		// The physical port goes: so do its VPorts. It returns as it was.
		if err := c.Sim.LinkDown(h, 1); err != nil {
			t.Fatal(err)
		}
		if err := c.RunUntil(10*time.Second, func() bool { return m.Idle() && m.Snap.Counts.VPorts == 0 && len(m.Snap.VPorts()) == 0 }); err != nil {
			t.Fatalf("%v: %d VPorts of a host that is gone\n%s", err, len(m.Snap.VPorts()), tail(m))
		}
		expect("the cable is pulled")
		if err := c.Sim.LinkUp(h, 1); err != nil {
			t.Fatal(err)
		}
		mustShow(t, c, m, h, 4, 10*time.Second)
		expect("and put back")
	}
}

func m0(c *Cluster) *Manager { return c.Managers[0] }

// TestVPortsOffAndIgnored: a manager may turn virtualization off, or leave it as it
// is.
func TestVPortsOffAndIgnored(t *testing.T) {
	f := gen(t, "torus", "3x3")
	c, m := bringUp(t, f, sim.Config{}, DefaultConfig())
	names := hostNames(c)
	m.Kill()
	for i, n := range names[:3] {
		hypervisor(t, c, n, sim.Hypervisor{Model: []sim.Model{sim.VPorts, sim.VSwitch, sim.SharedPort}[i], VFs: 3}, 2)
	}
	next := func(mode sm.VirtualMode) *Manager {
		cfg := DefaultConfig()
		cfg.Virtualization = mode
		m, err := c.Start(firstCA(f), cfg, nil)
		if err != nil {
			t.Fatal(err)
		}
		mustUp(t, c, m)
		c.Run(15 * time.Second)
		return m
	}
	state := func(n string) ib.PortState {
		st, err := c.Sim.VPort(vf(t, c, n, 1))
		if err != nil {
			t.Fatal(err)
		}
		return st.State
	}
	m = next(sm.VirtualOn)
	mustShow(t, c, m, names[0], 3, time.Second)
	if s := m.Status().Virtual; s.Adapters != 2 || s.SharedPorts != len(names)+1-2 || s.Active != 2 {
		t.Errorf("on: %+v", s)
	}
	guids, _ := hosts(f)
	for i, want := range []subnet.Adapter{{Model: subnet.VPorts, Functions: 3}, {Model: subnet.VSwitch, Functions: 3}, {Model: subnet.SharedPort, Functions: 127}} {
		a := m.Snap.Ports[m.Snap.PortByGUID(guids[1+i])].Adapter
		if a == nil || a.Model != want.Model || a.Functions != want.Functions {
			t.Errorf("%s is shown as %+v, want %+v", names[i], a, want)
		}
	}
	m.Kill()
	m = next(sm.VirtualIgnore)
	if st := state(names[0]); st != ib.StateActive || m.Snap.Counts.VPorts != 0 {
		t.Errorf("ignored: %v, %d VPorts", st, m.Snap.Counts.VPorts)
	}
	m.Kill()
	m = next(sm.VirtualOff)
	if st := state(names[0]); st != ib.StateDown || m.Snap.Counts.VPorts != 0 {
		t.Errorf("off: %v, %d VPorts", st, m.Snap.Counts.VPorts)
	}
	if s := m.Status().Virtual; s.Adapters != 0 || s.Refused != 2 {
		t.Errorf("off: %+v", s)
	}
	_, sets := virtualSMPs(m, func() { m.Sweep(false); c.Run(time.Minute) })
	if len(sets) != 0 {
		t.Errorf("turned off again and again: %v", sets)
	}
}

// TestVPortsOfARebootedHost: a node that reboots has virtualization off, whether or not the
// manager saw its link down. Its VPorts come up again.
func TestVPortsOfARebootedHost(t *testing.T) {
	for _, drop := range []bool{false, true} {
		c, m := bringUp(t, gen(t, "torus", "3x3"), sim.Config{NoTraps: drop}, DefaultConfig())
		h := hostNames(c)[3]
		hypervisor(t, c, h, sim.Hypervisor{Model: sim.VPorts, VFs: 8}, 5)
		m.Sweep(false) // virtual functions were plugged into a port that was up
		mustShow(t, c, m, h, 8, time.Minute)
		if err := c.Sim.NodeUp(h); err != nil {
			t.Fatal(err)
		}
		c.Run(100 * time.Millisecond)
		mustShow(t, c, m, h, 8, time.Minute)
		if n := len(told(m, sm.KindVPortUp)); n != 10 {
			t.Errorf("told of %d VPorts that came up, want 10", n)
		}
	}
}

// TestVPortDuplicates: of two VPorts with one GUID the first that was Active keeps
// it; the other is brought up when that one goes, as it does when a VM migrates. One
// with the GUID of a port waits as well.
func TestVPortDuplicates(t *testing.T) {
	c, m := bringUp(t, gen(t, "torus", "3x3"), sim.Config{}, DefaultConfig())
	names := hostNames(c)[3:6]
	for _, h := range names {
		hypervisor(t, c, h, sim.Hypervisor{Model: sim.VPorts, VFs: 2}, 0)
	}
	place := func(name, h string, g ib.GUID) {
		if err := c.Sim.PlaceVM(name, vf(t, c, h, 1), sim.VMOptions{GUID: g}); err != nil {
			t.Fatal(err)
		}
	}
	place("a", names[0], vGUID(1))
	m.Sweep(false)
	mustShow(t, c, m, names[0], 2, time.Minute)
	place("b", names[1], vGUID(1))
	place("c", names[2], c.Fabric.Nodes[c.Fabric.Find(names[0])].Ports[1].GUID)
	c.Run(time.Minute)
	for i, want := range []ib.PortState{ib.StateActive, ib.StateInit, ib.StateInit} {
		if st, _ := c.Sim.VPort(vf(t, c, names[i], 1)); st.State != want {
			t.Errorf("%s: %v, want %v\n%s", names[i], st.State, want, tail(m))
		}
	}
	if err := m.Snap.Check(); err != nil {
		t.Error(err)
	}
	if l := told(m, sm.KindVPortDuplicate); len(l) != 2 {
		t.Errorf("told %q", l)
	}
	if err := c.Sim.RemoveVM("a"); err != nil {
		t.Fatal(err)
	}
	mustShow(t, c, m, names[1], 2, 3*time.Second)
	// One that waits in Init may be another when it is looked at again.
	if err := c.Sim.RemoveVM("c"); err != nil {
		t.Fatal(err)
	}
	place("d", names[2], vGUID(4))
	mustShow(t, c, m, names[2], 2, 3*time.Second)
}

// TestVPortTakeover: another manager takes the subnet over. VPorts stay Active, and the only
// Set asks their clients to register again, once per adapter.
func TestVPortTakeover(t *testing.T) {
	c, m := bringUp(t, gen(t, "torus", "3x3"), sim.Config{}, DefaultConfig())
	names := hostNames(c)
	for _, h := range names[3:6] {
		hypervisor(t, c, h, sim.Hypervisor{Model: sim.VPorts, VFs: 4}, 3)
	}
	m.Sweep(false)
	for _, h := range names[3:6] {
		mustShow(t, c, m, h, 4, time.Minute)
	}
	c.Run(time.Minute)
	before := c.Sim.Stats().VPortTransitions
	m.Kill()
	m2, err := c.Attach(names[0], DefaultConfig(), nil)
	if err != nil {
		t.Fatal(err)
	}
	gets, sets := virtualSMPs(m2, func() {
		if err := m2.Start(); err != nil {
			t.Fatal(err)
		}
		mustUp(t, c, m2)
		for _, h := range names[3:6] {
			mustShow(t, c, m2, h, 4, time.Minute)
		}
		c.Run(time.Second)
	})
	if n := c.Sim.Stats().VPortTransitions; n != before {
		t.Errorf("%d VPorts changed their state", n-before)
	}
	if len(sets) != 1 || sets[smp.AttrVirtualizationInfo] != 3 || gets[smp.AttrVPortInfo] != 12 { // those that are down too: they may have LIDs
		t.Errorf("%v %v, want 12 Gets of VPortInfo and 3 Sets of VirtualizationInfo", gets, sets)
	}
}

// TestVPortBringUpCost: 1,000 VPorts at 20 adapters. It reports the requests and the manager's
// CPU time.
func TestVPortBringUpCost(t *testing.T) {
	c, err := NewCluster(gen(t, "fattree", "324"), sim.Config{HopLatency: time.Microsecond, SMALatency: 5 * time.Microsecond})
	if err != nil {
		t.Fatal(err)
	}
	names := hostNames(c)[:20]
	for _, h := range names {
		hypervisor(t, c, h, sim.Hypervisor{Model: sim.VPorts, VFs: 50}, 50)
	}
	m, err := c.Attach(firstCA(c.Fabric), DefaultConfig(), nil)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	m.Clock = func() time.Duration { return time.Since(began) }
	gets, sets := virtualSMPs(m, func() {
		if err := m.Start(); err != nil {
			t.Fatal(err)
		}
		mustUp(t, c, m)
		cpu, at, sent, gen := m.StepCPU, c.Sim.Now(), m.Sent, m.Snap.Gen
		for _, h := range names {
			mustShow(t, c, m, h, 50, time.Minute)
		}
		t.Logf("1,000 VPorts: %d SMPs, %v of the manager's time, %v virtual, %d snapshots",
			m.Sent-sent, m.StepCPU-cpu, c.Sim.Now().Sub(at), m.Snap.Gen-gen)
	})
	all := 0
	for _, l := range []map[ib.AttrID]int{gets, sets} {
		for _, n := range l {
			all += n
		}
	}
	if sets[smp.AttrVPortInfo] != 1000 || gets[smp.AttrVPortInfo] != 1000 || sets[smp.AttrVirtualizationInfo] != 40 || gets[smp.AttrVPortState] != 20 {
		t.Errorf("%v %v", gets, sets)
	}
	if all > 7*1000+5*20 {
		t.Errorf("%d SMPs: %v %v", all, gets, sets)
	}
}

// TestVPortChangesHands: a VPort is given to another VM while the Set that makes it Active is
// in flight. So the new VM is Active with the settings of the old one. The manager takes the
// VPort down and treats it as new.
func TestVPortChangesHands(t *testing.T) {
	c, m := bringUp(t, gen(t, "torus", "3x3"), sim.Config{HopLatency: time.Microsecond}, DefaultConfig())
	h := hostNames(c)[3]
	hypervisor(t, c, h, sim.Hypervisor{Model: sim.VPorts, VFs: 2}, 0)
	m.Sweep(false)
	c.Run(time.Second)
	var seen []string
	c.Sim.OnChange = func(ch sim.Change) {
		if ch.Kind == sim.ChangeVPort {
			st, _ := c.Sim.VPort(vf(t, c, h, 1))
			seen = append(seen, fmt.Sprintf("%s %v", st.VM, ch.New))
		}
	}
	swapped := false
	m.OnSend = func(p *mad.Packet) {
		k := (*ib.MAD)(p.Data)
		if swapped || k.AttrID() != smp.AttrVPortInfo || k.Method() != ib.MethodSet {
			return
		}
		swapped = true
		if err := c.Sim.RemoveVM("a"); err != nil {
			t.Fatal(err)
		}
		if err := c.Sim.PlaceVM("b", vf(t, c, h, 1), sim.VMOptions{GUID: vGUID(2)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Sim.PlaceVM("a", vf(t, c, h, 1), sim.VMOptions{GUID: vGUID(1)}); err != nil {
		t.Fatal(err)
	}
	mustShow(t, c, m, h, 2, 3*time.Second)
	want := []string{"a Initialize", "a Down", "b Initialize", "b Active", "b Down", "b Initialize", "b Active"}
	if !slices.Equal(seen, want) {
		t.Errorf("%q, want %q", seen, want)
	}
}
