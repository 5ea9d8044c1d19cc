package lab

import (
	"encoding/binary"
	"fmt"
	"slices"
	"testing"
	"time"

	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/sim"
	"heddle/sm"
	"heddle/subnet"
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

// TestVMAsksSA: programs in virtual machines that share a LID reach the SA with a GRH and get
// their answers, tables of many segments too; their paths ask for a GRH, they join groups,
// subscribe and hear Reports. Without a GRH requests do not leave the adapter.
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

// TestVMKeepsItsPaths: a virtual machine is moved by its placement, on every kind of
// hypervisor. With a LID of its own every path to and from it stays the same, and no Reports
// are sent. With a shared LID the LID changes, and subscribers get a Report. The VM stays in
// its groups, keeps its services, and queries the SA from its new place.
func TestVMKeepsItsPaths(t *testing.T) {
	for _, x := range []struct {
		h    sim.Hypervisor
		kind subnet.LIDKind
	}{
		{sim.Hypervisor{Model: sim.VPorts, VFs: 4, OwnLIDs: true}, subnet.OwnLID},
		{sim.Hypervisor{Model: sim.VSwitch, VFs: 4}, subnet.OwnLID},
		{sim.Hypervisor{Model: sim.VPorts, VFs: 4}, subnet.SharedLID},
		{sim.Hypervisor{Model: sim.SharedPort, VFs: 4}, subnet.SharedLID},
	} {
		name := fmt.Sprintf("%v, %v LID", x.h.Model, x.kind)
		k := layCloud(t, 3, 3, x.h, sim.Config{Seed: 1}, func(c *sm.Config) { c.ImproveDelay = time.Hour })
		k.serves = true
		k.start(nil)
		k.up()
		a, b := k.put("a", 1, 1, x.kind), k.put("b", 4, 2, x.kind)
		k.set(subnet.PlacementPlaced, a, b)
		vmA, vmB := openVM(t, k.Cluster, "a"), openVM(t, k.Cluster, "b")
		host, err := k.Client(k.hosts[6])
		if err != nil {
			t.Fatal(err)
		}
		hostGUID := k.place(6, 0).Port
		var told []string
		host.OnReport = func(p *mad.Packet) {
			var n wire.Notice
			var r wire.PathRecord
			data := p.Data[wire.HeaderLen:]
			if n.Decode(data[:wire.NoticeLen]) != nil || r.Decode(data[wire.NoticeLen:wire.NoticeLen+wire.PathRecordLen]) != nil {
				t.Error("a Report that is none")
			}
			s := fmt.Sprint(n.TrapNumber)
			if n.TrapNumber == smp.TrapRePath || n.TrapNumber == smp.TrapUnPath {
				s += " " + r.DGID.GUID().String()
			}
			told = append(told, s)
		}
		// Who asks for all traps hears of GIDs; who asks for 69 by number of paths.
		for _, n := range []uint16{wire.InformAllTraps, smp.TrapRePath, smp.TrapUnPath} {
			if _, st := host.request(t, ib.MethodSet, wire.AttrInformInfo, 0, &wire.InformInfo{
				LIDRangeBegin: wire.InformAllLIDs, IsGeneric: 1, Subscribe: 1, Type: 3, TrapNumber: n, Producer: smp.ProducerClassManager,
			}); st != 0 {
				t.Fatalf("%s: subscription: %v", name, st)
			}
		}
		mgid := ib.GID{0xFF, 0x12, 0x40, 0x1B, 0xFF, 0xFF, 12: 0xFF, 13: 0xFF, 14: 0xFF, 15: 0xFF}
		gid := ib.MakeGID(k.m.Snap.Prefix, a.GUID)
		if _, st := vmA.request(t, ib.MethodSet, wire.AttrMCMemberRecord, wire.MCMemberCompMGID|wire.MCMemberCompPortGID|wire.MCMemberCompJoinState,
			&wire.MCMemberRecord{MGID: mgid, PortGID: gid, JoinState: wire.JoinFull}); st != 0 {
			t.Errorf("%s: join: %v", name, st)
		}
		if _, st := vmA.request(t, ib.MethodSet, wire.AttrServiceRecord, wire.ServiceCompServiceID|wire.ServiceCompServiceGID,
			&wire.ServiceRecord{ServiceID: 7, ServiceGID: gid}); st != 0 {
			t.Errorf("%s: service: %v", name, st)
		}
		paths := func() (p [4]wire.PathRecord) {
			return [4]wire.PathRecord{
				host.path(t, k.m, hostGUID, a.GUID), vmB.path(t, k.m, b.GUID, a.GUID), vmA.path(t, k.m, a.GUID, b.GUID), vmA.path(t, k.m, a.GUID, hostGUID),
			}
		}
		for _, place := range [][2]int{{2, 3}, {5, 3}, {7, 1}} {
			before := paths()
			told, k.lfts = nil, 0
			l := k.placement["a"] // the manager is told first, as by who starts a migration
			l.Place = k.place(place[0], place[1])
			k.m.SetPlacements(sm.SetPlacements{Put: []subnet.Placement{l}})
			k.move("a", place[0], place[1])
			k.wait(subnet.PlacementPlaced, l)
			k.Run(100 * time.Millisecond)
			after := paths()
			want, lid := before, k.m.Snap.Ports[k.m.Snap.PortByGUID(a.GUID)].LID
			var news []string
			if x.kind == subnet.SharedLID {
				want[0].DLID, want[1].DLID, want[2].SLID, want[3].SLID = lid, lid, lid, lid
				news = []string{fmt.Sprintf("%d %v", smp.TrapRePath, a.GUID)}
				if lid == before[0].DLID {
					t.Errorf("%s: it has LID %v here too", name, lid)
				}
			}
			if after != want {
				t.Errorf("%s: paths\n%+v, want\n%+v", name, after, want)
			}
			if r, _ := k.last(a.GUID); k.lfts != r.SMPs { // not even where its groups are routed anew
				t.Errorf("%s: %d LFT SMPs, %d of them for the move", name, k.lfts, r.SMPs)
			}
			if !slices.Equal(told, news) {
				t.Errorf("%s: to %v told of %v, want %v", name, place, told, news)
			}
			v := k.m.View()
			if len(v.Groups) != 1 || len(v.Groups[0].Members) != 1 || v.Groups[0].Members[0].PortGID != gid || len(v.Services) != 1 {
				t.Errorf("%s: groups %+v, services %+v", name, v.Groups, v.Services)
			}
			if err := k.m.Snap.Check(); err != nil {
				t.Error(err)
			}
		}
	}
}
