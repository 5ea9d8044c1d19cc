package lab

import (
	"encoding/binary"
	"testing"
	"time"

	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/sim"
)

// saBed is a subnet with an SA whose hosts but the first are hypervisors of a model.
func saBed(t testing.TB, h sim.Hypervisor) (*Cluster, *Manager, []string) {
	t.Helper()
	c, m := serveUp(t, gen(t, "xgft", "2", "4,4", "1,2"), sim.Config{HopLatency: time.Microsecond})
	names := hostNames(c)
	for _, n := range names {
		if err := c.Sim.AddHypervisor(n, 1, h); err != nil {
			t.Fatal(err)
		}
	}
	m.Sweep(true)
	return c, m, names
}

// startVM starts a virtual machine and waits for its GUID to be in the subnet.
func startVM(t testing.TB, c *Cluster, m *Manager, name, node string, i int, o sim.VMOptions) {
	t.Helper()
	if err := c.Sim.PlaceVM(name, vf(t, c, node, i), o); err != nil {
		t.Fatal(err)
	}
	mustBeAt(t, c, m, node, o.GUID)
}

// mustBeAt waits until a GUID is found at a host.
func mustBeAt(t testing.TB, c *Cluster, m *Manager, node string, g ib.GUID) {
	t.Helper()
	at := c.Fabric.Nodes[c.Fabric.Find(node)].Ports[1].GUID
	if err := c.RunUntil(30*time.Second, func() bool {
		i := m.Snap.PortByGUID(g)
		return m.Idle() && i >= 0 && m.Snap.Ports[m.Snap.Physical(i)].GUID == at
	}); err != nil {
		t.Fatalf("%v at %s: %v\n%s", g, node, err, tail(m))
	}
}

func openVM(t testing.TB, c *Cluster, name string) *Client {
	t.Helper()
	k, err := c.VMClient(name)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// request sends a request with a record and returns the data and the status of the answer.
func (k *Client) request(t testing.TB, method ib.Method, attr ib.AttrID, mask wire.CompMask, r interface{ Put([]byte) }) ([]byte, ib.Status) {
	t.Helper()
	var q ib.MAD
	wire.New(&q, method, attr, 0, mask)
	if r != nil {
		r.Put(wire.Data(&q))
	}
	b, err := k.Ask(time.Second, &q)
	if err != nil {
		t.Fatalf("%v of %v: %v", method, attr, err)
	}
	return b[wire.HeaderLen:], ib.Status(binary.BigEndian.Uint16(b[4:]))
}

// path asks for the path between two GUIDs.
func (k *Client) path(t testing.TB, m *Manager, src, dst ib.GUID) (r wire.PathRecord) {
	t.Helper()
	gid := func(g ib.GUID) ib.GID { return ib.MakeGID(m.Snap.Prefix, g) }
	b, st := k.request(t, ib.MethodGet, wire.AttrPathRecord, wire.PathCompSGID|wire.PathCompDGID|wire.PathCompReversible|wire.PathCompNumbPath,
		&wire.PathRecord{SGID: gid(src), DGID: gid(dst), Reversible: true, NumbPath: 1})
	if st != 0 || r.Decode(b[:wire.PathRecordLen]) != nil {
		t.Fatalf("path from %v to %v: status %v", src, dst, st)
	}
	return r
}

// TestVMAsksSA: programs in virtual machines that share a LID reach the SA with a GRH
// and get their answers, tables of many segments too; their paths ask for a GRH,
// they join groups, subscribe and hear Reports. Without a GRH nobody asks: the adapter
// lets nothing out.
func TestVMAsksSA(t *testing.T) {
	c, m, names := saBed(t, sim.Hypervisor{Model: sim.VPorts, VFs: 4})
	const web, db, mail = 0xAA01, 0xAA02, 0xAA03
	startVM(t, c, m, "web", names[3], 1, sim.VMOptions{GUID: web})
	startVM(t, c, m, "db", names[3], 2, sim.VMOptions{GUID: db})
	startVM(t, c, m, "mail", names[9], 1, sim.VMOptions{GUID: mail})
	w, d := openVM(t, c, "web"), openVM(t, c, "db")
	w.OnReport = func(*mad.Packet) {}
	host := c.Fabric.Nodes[c.Fabric.Find(names[9])].Ports[1].GUID
	for _, x := range []struct {
		dst ib.GUID
		hop uint8
	}{{db, 2}, {mail, 2}, {host, 2}} {
		r := w.path(t, m, web, x.dst)
		i := m.Snap.PortByGUID(x.dst)
		if r.HopLimit != x.hop || r.DLID != m.Snap.Ports[i].LID || r.SLID != m.Snap.Ports[m.Snap.PortByGUID(web)].LID || !r.Reversible || r.PKey != ib.PKeyDefaultFull {
			t.Errorf("path to %v: %+v", x.dst, r)
		}
	}
	b, st := w.request(t, ib.MethodGetTable, wire.AttrPathRecord, wire.PathCompSGID, &wire.PathRecord{SGID: ib.MakeGID(m.Snap.Prefix, web)})
	if n := m.Snap.Counts.EndPorts + 3; st != 0 || len(b) != n*wire.PathRecordLen {
		t.Errorf("a table of %d bytes, status %v; want %d paths", len(b), st, n)
	}
	// What is joined is the VPort, and the tree has its physical port.
	mgid := ib.GID{0xFF, 0x12, 0x40, 0x1B, 0xFF, 0xFF, 12: 0xFF, 13: 0xFF, 14: 0xFF, 15: 0xFF}
	join := wire.MCMemberRecord{MGID: mgid, PortGID: ib.MakeGID(m.Snap.Prefix, web), JoinState: wire.JoinFull}
	const joins = wire.MCMemberCompMGID | wire.MCMemberCompPortGID | wire.MCMemberCompJoinState
	if _, st := d.request(t, ib.MethodSet, wire.AttrMCMemberRecord, joins, &join); st != 0 {
		t.Errorf("proxy join: %v", st)
	}
	if _, st := d.request(t, ib.MethodDelete, wire.AttrMCMemberRecord, joins, &join); st != 0 {
		t.Errorf("leave: %v", st)
	}
	if _, st := w.request(t, ib.MethodSet, wire.AttrMCMemberRecord, joins, &join); st != 0 {
		t.Errorf("join: %v", st)
	}
	if _, st := d.request(t, ib.MethodDelete, wire.AttrMCMemberRecord, joins, &join); st == 0 {
		t.Error("a neighbour on the same port ended the membership of another")
	}
	// It hears of what comes, by Reports with a GRH.
	var heard []ib.GUID
	w.OnReport = func(p *mad.Packet) {
		var n wire.Notice
		if n.Decode(p.Data[wire.HeaderLen:wire.HeaderLen+wire.NoticeLen]) == nil && n.TrapNumber == smp.TrapGIDInService {
			if x, ok := n.Detail().(smp.DetailGID); ok {
				heard = append(heard, x.GID.GUID())
			}
		}
	}
	if _, st := w.request(t, ib.MethodSet, wire.AttrInformInfo, 0, &wire.InformInfo{
		LIDRangeBegin: wire.InformAllLIDs, IsGeneric: 1, Subscribe: 1, Type: wire.InformAllTypes, TrapNumber: smp.TrapGIDInService, Producer: wire.InformAllProducers,
	}); st != 0 {
		t.Errorf("subscription: %v", st)
	}
	startVM(t, c, m, "new", names[5], 4, sim.VMOptions{GUID: 0xAA04})
	if err := c.RunUntil(time.Second, func() bool { return len(heard) > 0 }); err != nil || heard[0] != 0xAA04 {
		t.Errorf("%v, heard of %v", err, heard)
	}
	// Records of virtualization, from a VM.
	b, st = d.request(t, ib.MethodGetTable, wire.AttrVPortInfoRecord, 0, nil)
	if st != 0 || len(b) != 4*wire.VPortInfoRecordLen {
		t.Errorf("VPortInfoRecords: %d bytes, status %v", len(b), st)
	}
	// Without a GRH nothing leaves the adapter.
	w.grh = false
	var q ib.MAD
	wire.New(&q, ib.MethodGet, wire.AttrClassPortInfo, 0, 0)
	if b, err := w.Ask(time.Second, &q); err == nil {
		t.Errorf("an answer without a GRH: %x", b)
	}
}

// TestVMMovesWithMemberships: a virtual machine that shares a LID and moves with its
// GUID has another LID then: asked again, the SA tells that one, and all else of the
// path is as it was.
func TestVMMovesWithMemberships(t *testing.T) {
	c, m, names := saBed(t, sim.Hypervisor{Model: sim.VPorts, VFs: 4})
	const web = 0xAA01
	startVM(t, c, m, "web", names[3], 1, sim.VMOptions{GUID: web})
	k, err := c.Client(names[12])
	if err != nil {
		t.Fatal(err)
	}
	me := c.Fabric.Nodes[c.Fabric.Find(names[12])].Ports[1].GUID
	before := k.path(t, m, me, web)
	var told []wire.PathRecord
	k.OnReport = func(p *mad.Packet) {
		var r wire.PathRecord
		if r.Decode(p.Data[wire.HeaderLen+wire.NoticeLen:wire.HeaderLen+wire.NoticeLen+wire.PathRecordLen]) == nil {
			told = append(told, r)
		}
	}
	if _, st := k.request(t, ib.MethodSet, wire.AttrInformInfo, 0, &wire.InformInfo{
		LIDRangeBegin: wire.InformAllLIDs, IsGeneric: 1, Subscribe: 1, Type: wire.InformAllTypes, TrapNumber: smp.TrapRePath, Producer: wire.InformAllProducers,
	}); st != 0 {
		t.Fatalf("subscription: %v", st)
	}
	if err := c.Sim.MoveVM("web", vf(t, c, names[9], 2)); err != nil {
		t.Fatal(err)
	}
	mustBeAt(t, c, m, names[9], web)
	after := k.path(t, m, me, web)
	want := before
	want.DLID = m.Snap.Ports[m.Snap.PortByGUID(web)].LID
	if after != want || after.DLID == before.DLID {
		t.Errorf("path %+v, before %+v", after, before)
	}
	if err := m.Snap.Check(); err != nil {
		t.Error(err)
	}
}
