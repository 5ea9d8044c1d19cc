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
	"heddle/sa"
	"heddle/sim"
	"heddle/sm"
)

// honest are hosts that join a group, register a service and subscribe, each.
type honest struct {
	c     *Cluster
	m     *Manager
	names []string
	guids []ib.GUID
	hosts []*Client
}

// trustKey is an SA key that no stranger knows.
const trustKey = 0x7275_5374

func trustGroup(i int) ib.GID {
	g := ib.GID{0xFF, 0x12, 0xA0, 0x1C}
	binary.BigEndian.PutUint32(g[12:], uint32(0x2000+i))
	return g
}

// send is a request of a host, not waited for.
func (h *honest) send(i int, method ib.Method, attr ib.AttrID, mask wire.CompMask, r interface{ Put([]byte) }) uint32 {
	var q ib.MAD
	wire.New(&q, method, attr, 0, mask)
	r.Put(wire.Data(&q))
	return h.hosts[i].Send(&q)
}

func (h *honest) join(i, group int) uint32 {
	return h.send(i, ib.MethodSet, wire.AttrMCMemberRecord,
		wire.MCMemberCompMGID|wire.MCMemberCompPortGID|wire.MCMemberCompJoinState|wire.MCMemberCompQKey|wire.MCMemberCompPKey|
			wire.MCMemberCompTClass|wire.MCMemberCompSL|wire.MCMemberCompFlowLabel,
		&wire.MCMemberRecord{
			MGID: trustGroup(group), PortGID: ib.MakeGID(ib.DefaultSubnetPrefix, h.guids[i]),
			QKey: 0x0B1B, PKey: ib.PKeyDefaultFull, JoinState: wire.JoinFull,
		})
}

// newHonest brings a subnet up in which each host but the manager's registers one of each
// kind; groups have every third host.
func newHonest(t testing.TB, f *fabric.Fabric, sc sim.Config, cfg sm.Config, before func(*Cluster)) *honest {
	t.Helper()
	c, err := NewCluster(f, sc)
	if err != nil {
		t.Fatal(err)
	}
	if before != nil {
		before(c)
	}
	m, err := c.Attach(firstCA(f), cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	m.ServeSA(SAConfig(trustKey), sa.Options{SAKey: trustKey})
	if err := m.Start(); err != nil {
		t.Fatal(err)
	}
	mustUp(t, c, m)
	h := &honest{c: c, m: m}
	for i := range f.Nodes {
		if n := &f.Nodes[i]; !n.IsSwitch() {
			k, err := c.Client(n.ID)
			if err != nil {
				t.Fatal(err)
			}
			h.names, h.guids, h.hosts = append(h.names, n.ID), append(h.guids, n.Ports[1].GUID), append(h.hosts, k)
		}
	}
	for i := range h.hosts {
		gid := ib.MakeGID(ib.DefaultSubnetPrefix, h.guids[i])
		tids := []uint32{
			h.join(i, i%3),
			h.send(i, ib.MethodSet, wire.AttrServiceRecord, wire.ServiceCompServiceID|wire.ServiceCompServiceGID|wire.ServiceCompServiceLease|wire.ServiceCompServiceKey,
				&wire.ServiceRecord{ServiceID: 0x7000 + uint64(i), ServiceGID: gid, ServiceLease: 0xFFFFFFFF, ServiceKey: [16]byte{1, byte(i)}}),
			h.send(i, ib.MethodSet, wire.AttrInformInfo, 0, &wire.InformInfo{
				LIDRangeBegin: wire.InformAllLIDs, IsGeneric: 1, Subscribe: 1, Type: wire.InformAllTypes, TrapNumber: 64, Producer: wire.InformAllProducers,
			}),
		}
		c.Run(50 * time.Millisecond)
		for k, tid := range tids {
			if b, ok := h.hosts[i].Got(tid); !ok || binary.BigEndian.Uint16(b[4:]) != 0 {
				t.Fatalf("request %d of %s: answered %v: %x", k, h.names[i], ok, b)
			}
		}
	}
	c.Run(time.Second)
	return h
}

// lost says what the SA does not keep of what a host registered, "" if nothing.
func (h *honest) lost(i int) string {
	gid := ib.MakeGID(ib.DefaultSubnetPrefix, h.guids[i])
	v := h.m.View()
	member := false
	for _, g := range v.Groups {
		if g.MGID == trustGroup(i%3) {
			for k := range g.Members {
				member = member || g.Members[k].PortGID == gid && g.Members[k].JoinState&wire.JoinFull != 0
			}
		}
	}
	service, sub := false, false
	for _, s := range v.Services {
		service = service || s.Record.ServiceID == 0x7000+uint64(i) && s.Record.ServiceGID == gid
	}
	for _, s := range v.Subs {
		sub = sub || s.GID == gid
	}
	if !member || !service || !sub {
		return fmt.Sprintf("%s: member %v, service %v, subscription %v", h.names[i], member, service, sub)
	}
	return ""
}

func (h *honest) mustKeep(t testing.TB, but ...string) {
	t.Helper()
next:
	for i := range h.hosts {
		for _, b := range but {
			if h.names[i] == b {
				continue next
			}
		}
		if l := h.lost(i); l != "" {
			t.Fatalf("at %v: %s\n%s", time.Duration(h.c.Sim.Now()), l, tail(h.m))
		}
	}
}

// served fails unless the SA answers a host about the path to another.
func (h *honest) served(t testing.TB, from, to int) {
	t.Helper()
	gid := func(i int) ib.GID { return ib.MakeGID(ib.DefaultSubnetPrefix, h.guids[i]) }
	tid := h.send(from, ib.MethodGet, wire.AttrPathRecord, wire.PathCompSGID|wire.PathCompDGID|wire.PathCompReversible|wire.PathCompNumbPath,
		&wire.PathRecord{SGID: gid(from), DGID: gid(to), Reversible: true, NumbPath: 1})
	h.c.Run(100 * time.Millisecond)
	if b, ok := h.hosts[from].Got(tid); !ok || binary.BigEndian.Uint16(b[4:]) != 0 {
		t.Fatalf("at %v: %s asks for the path to %s: answered %v %.40x\n%s", time.Duration(h.c.Sim.Now()), h.names[from], h.names[to], ok, b, tail(h.m))
	}
}

// lock puts an M_Key on a node's agent, as any host may while there is none.
func lock(t testing.TB, c *Cluster, from, node string, protect uint8, lease uint16) {
	t.Helper()
	ep, err := c.Sim.Attach(from)
	if err != nil {
		t.Fatal(err)
	}
	defer ep.Close()
	i, err := c.Sim.Node(node)
	if err != nil {
		t.Fatal(err)
	}
	port := 1
	if c.Fabric.Nodes[i].IsSwitch() {
		port = 0
	}
	pi := c.Sim.PortInfo(i, port)
	lid := pi.LID
	pi.ClearForSet()
	pi.MKey, pi.MKeyProtectBits, pi.MKeyLeasePeriod = 0x5417, protect, lease
	if pi.NeighborMTU < 1 || pi.NeighborMTU > 5 {
		pi.NeighborMTU = 4
	}
	var q ib.MAD
	smp.NewLID(&q, ib.MethodSet, smp.AttrPortInfo, smp.PortInfoMod(uint8(port), false), 0)
	pi.Put(smp.Data(&q))
	q.SetTID(0x10C)
	ep.Send(&mad.Packet{Addr: mad.Addr{LID: lid}, LocalQP: 0, Data: q[:]})
	c.Run(time.Millisecond)
	if got := c.Sim.PortInfo(i, port).MKey; got != 0x5417 {
		t.Fatalf("%s was not locked: M_Key %v", node, got)
	}
}

// TestOwnAgentSilent: while the manager's own agent does not answer, for one sweep or
// permanently, the SA answers, no host loses a registration, and faults elsewhere are repaired.
func TestOwnAgentSilent(t *testing.T) {
	for _, locked := range []bool{false, true} {
		h := newHonest(t, gen(t, "torus", "3x3"), sim.Config{HopLatency: time.Microsecond}, DefaultConfig(), nil)
		c, m := h.c, h.m
		heal := func() { _ = c.Sim.MuteSMA(m.Node, false) }
		if locked {
			lock(t, c, h.names[5], m.Node, 2, 30)
			heal = func() {} // the lease ends
		} else if err := c.Sim.MuteSMA(m.Node, true); err != nil {
			t.Fatal(err)
		}
		for range 4 {
			m.Sweep(false)
			c.Run(10 * time.Second)
			h.mustKeep(t)
			h.served(t, 3, 7)
			if !m.Up() || m.Snap.Counts.Switches != 9 {
				t.Fatalf("up %v, %d switches\n%s", m.Up(), m.Snap.Counts.Switches, tail(m))
			}
		}
		cab := cables(c.Fabric)[4]
		if err := c.Sim.LinkDown(c.Fabric.Nodes[cab.Node].ID, int(cab.Port)); err != nil {
			t.Fatal(err)
		}
		c.Run(5 * time.Second)
		if err := c.Check(m); err != nil {
			t.Fatalf("a fault meanwhile: %v\n%s", err, tail(m))
		}
		heal()
		c.Run(2 * time.Minute)
		h.mustKeep(t)
		mustSettle(t, c, m, time.Minute)
		if len(m.Snap.Problems) > 0 {
			t.Errorf("left: %+v\n%s", m.Snap.Problems, tail(m))
		}
	}
}
