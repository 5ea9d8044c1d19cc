package lab

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"heddle/ib"
	"heddle/mad"
	"heddle/partition"
	"heddle/sim"
)

// vmGUID is the port GUID of the VM with a number.
func vmGUID(i int) ib.GUID { return 0x0200_0000_0000_1000 + ib.GUID(i) }

// vmKeys are full members of a partition, by the numbers of VMs.
func vmKeys(name string, key ib.PKey, vms ...int) partition.Partition {
	p := partition.Partition{Name: name, PKey: key}
	for _, i := range vms {
		p.Members = append(p.Members, partition.Member{GUID: vmGUID(i), As: partition.Full})
	}
	return p
}

func placeVM(t testing.TB, c *Cluster, i int, node string, index int) {
	t.Helper()
	if err := c.Sim.PlaceVM(fmt.Sprintf("vm%d", i), vf(t, c, node, index), sim.VMOptions{GUID: vmGUID(i)}); err != nil {
		t.Fatal(err)
	}
}

func moveVM(t testing.TB, c *Cluster, i int, node string, index int) {
	t.Helper()
	if err := c.Sim.MoveVM(fmt.Sprintf("vm%d", i), vf(t, c, node, index)); err != nil {
		t.Fatal(err)
	}
}

// vportTable is the P_Key table of a function without the empty entries at its
// end.
func vportTable(t testing.TB, c *Cluster, node string, i int) []ib.PKey {
	t.Helper()
	l, err := c.Sim.VPortPKeys(vf(t, c, node, i), nil)
	if err != nil {
		t.Fatal(err)
	}
	return partition.Trim(l)
}

// edgeTable is that of the switch port before a host, and what it enforces.
func edgeTable(t testing.TB, c *Cluster, node string) ([]ib.PKey, bool) {
	t.Helper()
	r, ok := c.Sim.Peer(c.Fabric.Find(node), 1)
	if !ok {
		t.Fatalf("%s has no cable", node)
	}
	pi := c.Sim.PortInfo(int(r.Node), int(r.Port))
	list := slices.DeleteFunc(keysAt(c, int(r.Node), int(r.Port)), ib.PKey.IsEmpty)
	slices.Sort(list)
	return list, pi.PartitionEnforcementInbound && pi.PartitionEnforcementOutbound
}

// mustKeys runs until a function holds just the keys, and is Active.
func mustKeys(t testing.TB, c *Cluster, m *Manager, node string, i int, want ...ib.PKey) {
	t.Helper()
	ok := func() bool {
		st, err := c.Sim.VPort(vf(t, c, node, i))
		return err == nil && st.State == ib.StateActive && slices.Equal(vportTable(t, c, node, i), want) && m.Idle()
	}
	if err := c.RunUntil(30*time.Second, ok); err != nil {
		t.Fatalf("%s VPort %d holds %v, want %v: %v\n%s", node, i, vportTable(t, c, node, i), want, err, tail(m))
	}
}

// reaches sends a probe from a VM to another by its GID, and says whether it was
// answered.
func reaches(t testing.TB, c *Cluster, m *Manager, from, to int, key ib.PKey) bool {
	t.Helper()
	a, ok := c.Sim.VM(fmt.Sprintf("vm%d", from))
	b, ok2 := c.Sim.VM(fmt.Sprintf("vm%d", to))
	if !ok || !ok2 {
		t.Fatal("no such VM")
	}
	p, err := c.Sim.Probe(a.At, mad.Addr{LID: b.LID, HasGRH: true, GRH: mad.GRH{GID: b.GID, HopLimit: 1}}, key)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.RunUntil(time.Second, func() bool { return p.Done }); err != nil {
		t.Fatal(err)
	}
	return p.Answered
}

// vmBed is a fabric with VPort adapters of 4 functions at the first three hosts
// besides the manager's, and no traffic but what the test makes.
func vmBed(t testing.TB, cfg sim.Config) (*Cluster, *Manager, []string) {
	t.Helper()
	c, err := NewCluster(gen(t, "irregular", "16"), cfg)
	if err != nil {
		t.Fatal(err)
	}
	names := hostNames(c)
	for _, n := range names[:3] {
		hypervisor(t, c, n, sim.Hypervisor{Model: sim.VPorts, VFs: 4}, 0)
	}
	m, err := c.Start(firstCA(c.Fabric), quietConfig(), nil)
	if err != nil {
		t.Fatal(err)
	}
	mustUp(t, c, m)
	return c, m, names
}
