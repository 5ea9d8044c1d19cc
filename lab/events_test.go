package lab

import (
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"heddle/fabric"
	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/route"
	"heddle/sim"
	"heddle/subnet"
)

// listener is a program on a host that has subscribed.
type listener struct {
	*Client
	got    []wire.Notice
	behind []wire.PathRecord // what follows the notices of traps 68 and 69
}

// listen subscribes a host to traps.
func listen(t *testing.T, c *Cluster, node string, traps ...uint16) *listener {
	t.Helper()
	k, err := c.Client(node)
	if err != nil {
		t.Fatal(err)
	}
	l := &listener{Client: k}
	k.OnReport = func(p *mad.Packet) {
		var n wire.Notice
		var r wire.PathRecord
		data := p.Data[wire.DataOffset:]
		if err := n.Decode(data[:wire.NoticeLen]); err != nil {
			t.Error(err)
		}
		if err := r.Decode(data[wire.NoticeLen : wire.NoticeLen+wire.PathRecordLen]); err != nil {
			t.Error(err)
		}
		l.got, l.behind = append(l.got, n), append(l.behind, r)
	}
	for _, n := range traps {
		info := wire.InformInfo{
			LIDRangeBegin: wire.InformAllLIDs, IsGeneric: 1, Subscribe: 1, Type: wire.InformAllTypes, TrapNumber: n, Producer: wire.InformAllProducers,
		}
		var m ib.MAD
		wire.New(&m, ib.MethodSet, wire.AttrInformInfo, 0, 0)
		info.Put(wire.Data(&m))
		b, err := k.Ask(time.Second, &m)
		if err != nil || binary.BigEndian.Uint16(b[4:]) != 0 {
			t.Fatalf("subscription to trap %d: %v %x", n, err, b)
		}
	}
	return l
}

// take waits for n Reports and returns them.
func (l *listener) take(t *testing.T, n int) ([]wire.Notice, []wire.PathRecord) {
	t.Helper()
	_ = l.c.RunUntil(20*time.Second, func() bool { return len(l.got) >= n })
	l.c.Run(5 * time.Second)
	got, paths := l.got, l.behind
	l.got, l.behind = nil, nil
	if len(got) != n {
		t.Fatalf("%d Reports, want %d: %+v", len(got), n, got)
	}
	return got, paths
}

// caNames are the names of the hosts in the order of the fabric.
func caNames(f *fabric.Fabric) (list []string) {
	for i := range f.Nodes {
		if f.Nodes[i].Type == ib.NodeCA {
			list = append(list, f.Nodes[i].ID)
		}
	}
	return list
}

// TestReportsOfASubnet: events of hosts and links are reported to their subscribers, and to no
// others.
func TestReportsOfASubnet(t *testing.T) {
	f := gen(t, "xgft", "2", "4,4", "1,2")
	c, m := serveUp(t, f, sim.Config{HopLatency: time.Microsecond})
	cas := caNames(f)
	ports := listen(t, c, cas[3], smp.TrapGIDInService, smp.TrapGIDOutOfService)
	states := listen(t, c, cas[4], smp.TrapPortStateChange)
	paths := listen(t, c, cas[5], smp.TrapUnPath, smp.TrapRePath)
	paths.take(t, 1) // this manager does not know what the host missed before

	port := m.Snap.Ports[m.Snap.PortByGUID(f.Nodes[f.Find(cas[9])].Ports[1].GUID)]
	gid := ib.MakeGID(m.Snap.Prefix, port.GUID)
	leaf := m.Snap.Nodes[port.Peer.Node].Info.NodeGUID
	leafLID := m.Snap.Ports[m.Snap.Nodes[port.Peer.Node].First].LID
	for _, step := range []struct {
		trap uint16
		do   func(string, int) error
	}{{smp.TrapGIDOutOfService, c.Sim.LinkDown}, {smp.TrapGIDInService, c.Sim.LinkUp}} {
		if err := step.do(cas[9], 1); err != nil {
			t.Fatal(err)
		}
		got, _ := ports.take(t, 1)
		var d smp.DetailGID
		d.Get(&got[0].DataDetails)
		if got[0].TrapNumber != step.trap || d.GID != gid || got[0].IssuerLID != m.Snap.LID {
			t.Errorf("Report %+v of %v, want trap %d of %v", got[0].Notice, d.GID, step.trap, gid)
		}
		got, _ = states.take(t, 1)
		if got[0].TrapNumber != smp.TrapPortStateChange || got[0].IssuerLID != leafLID || got[0].IssuerGID != ib.MakeGID(m.Snap.Prefix, leaf) {
			t.Errorf("Report %+v, want trap 128 of LID %d", got[0], leafLID)
		}
	}
	if len(paths.got) != 0 {
		t.Errorf("a host that left and returned changed paths: %+v", paths.got)
	}

	// A cable between two switches: paths take other ports with the same values, of which no host
	// needs to hear.
	me := m.Snap.PortByGUID(f.Nodes[f.Find(cas[5])].Ports[1].GUID)
	up := c.uplink(t, m, m.Snap.Ports[me].Peer.Node)
	for _, do := range []func(string, int) error{c.Sim.LinkDown, c.Sim.LinkUp} {
		before := m.Snap
		if err := do(f.Nodes[up.Node].ID, int(up.Port)); err != nil {
			t.Fatal(err)
		}
		c.Run(40 * time.Second) // an improvement may follow
		if len(paths.got) != 0 {
			t.Errorf("Reports %+v about %+v", paths.got, paths.behind)
		}
		want := 0
		for lid := ib.LID(1); lid <= m.Snap.TopLID(); lid++ {
			if walk(before, me, lid) != walk(m.Snap, me, lid) {
				want++
			}
		}
		if want == 0 {
			t.Error("no path has changed: the test proves nothing")
		}
	}
}

// uplink is a port of a leaf that leads to another switch.
func (c *Cluster) uplink(t *testing.T, m *Manager, leaf int32) fabric.Ref {
	t.Helper()
	for _, p := range m.Snap.NodePorts(leaf) {
		if p.Peer.Node >= 0 && m.Snap.Nodes[p.Peer.Node].SwitchIndex >= 0 {
			return fabric.Ref{Node: int32(c.Fabric.FindGUID(m.Snap.Nodes[leaf].Info.NodeGUID)), Port: p.Num}
		}
	}
	t.Fatal("the leaf has no uplink")
	return fabric.Ref{}
}

// walk is the way from a port to a LID as text.
func walk(s *subnet.Snapshot, from int32, lid ib.LID) string {
	at := s.Ports[from].Peer.Node
	way := ""
	for range 20 {
		if at < 0 || s.Nodes[at].SwitchIndex < 0 {
			return way
		}
		row := s.LFT(at)
		if int(lid) >= len(row) || row[lid] == route.Drop {
			return "none"
		}
		way += fmt.Sprintf("%v/%d ", s.Nodes[at].Info.NodeGUID, row[lid])
		if row[lid] == 0 {
			return way
		}
		at = s.NodePorts(at)[row[lid]].Peer.Node
	}
	return "loop"
}

// TestAliasesOfAHost: a host asks for alias GUIDs, is answered once its port has them,
// and is found by them; they come into service and go out of it again.
func TestAliasesOfAHost(t *testing.T) {
	f := gen(t, "xgft", "2", "4,4", "1,2")
	c, m := serveUp(t, f, sim.Config{HopLatency: time.Microsecond})
	cas := caNames(f)
	heard := listen(t, c, cas[3], smp.TrapGIDInService, smp.TrapGIDOutOfService)
	k, err := c.Client(cas[5])
	if err != nil {
		t.Fatal(err)
	}
	lid := k.Endpoint().PortInfo().LID
	do := func(method ib.Method) wire.GUIDInfoRecord {
		t.Helper()
		var q ib.MAD
		wire.New(&q, method, wire.AttrGUIDInfoRecord, 0, wire.GUIDInfoCompLID|wire.GUIDInfoCompBlock|wire.GUIDInfoCompGUID0<<1|wire.GUIDInfoCompGUID0<<3)
		r := wire.GUIDInfoRecord{LID: lid}
		r.GUIDInfo[3] = 0xA1
		r.Put(wire.Data(&q))
		b, err := k.Ask(3*time.Second, &q)
		if err != nil || binary.BigEndian.Uint16(b[4:]) != 0 {
			t.Fatalf("%v %x", err, b)
		}
		if err := r.Decode(b[wire.DataOffset:]); err != nil {
			t.Fatal(err)
		}
		return r
	}
	r := do(ib.MethodSet)
	assigned := r.GUIDInfo[1]
	if assigned != 0x0014_0500_0000_0001 || r.GUIDInfo[3] != 0xA1 {
		t.Fatalf("aliases %v", r.GUIDInfo)
	}
	events := func(want uint16) {
		t.Helper()
		got, _ := heard.take(t, 2)
		for i, g := range []ib.GUID{assigned, 0xA1} {
			var d smp.DetailGID
			d.Get(&got[i].DataDetails)
			if got[i].TrapNumber != want || d.GID != ib.MakeGID(m.Snap.Prefix, g) {
				t.Errorf("trap %d of %v, want %d of %v", got[i].TrapNumber, d.GID, want, g)
			}
		}
	}
	events(smp.TrapGIDInService)
	var q ib.MAD
	wire.New(&q, ib.MethodGet, wire.AttrPathRecord, 0, wire.PathCompSGID|wire.PathCompDGID)
	path := wire.PathRecord{SGID: m.Snap.GID(m.Snap.PortByLID(lid)), DGID: ib.MakeGID(m.Snap.Prefix, assigned)}
	path.Put(wire.Data(&q))
	b, err := k.Ask(time.Second, &q)
	if err != nil || path.Decode(b[wire.DataOffset:]) != nil || path.DLID != lid || binary.BigEndian.Uint16(b[4:]) != 0 {
		t.Errorf("path to the alias: %v, LID %d of %d", err, path.DLID, lid)
	}
	if r = do(ib.MethodDelete); r.GUIDInfo[1] != 0 || r.GUIDInfo[3] != 0 {
		t.Errorf("after the deletion %v", r.GUIDInfo)
	}
	events(smp.TrapGIDOutOfService)
}
