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
		p := &s.Ports[e]
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

// TestDynamicPortStateChanges follows the example of that name in "InfiniBand
// Virtualization" (Liss, IBTA, 2017): virtualization is off until a manager turns
// it on; the host enables a VPort, which the port tells by VPortStateChange and a
// trap; the manager reads which one it is and makes it Active; the host disables
// it, and that is told in the same way. Nothing of this is a sweep. A VPort whose
// host is quiet is not touched.
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
