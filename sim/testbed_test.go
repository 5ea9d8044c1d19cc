package sim

import (
	"fmt"
	"testing"
	"time"

	"heddle/fabric"
	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
)

// chain is H1[1] - [1]S1[2] - [1]S2[2] - [1]H2; H1 has a second port without a
// cable, the switches a third.
func chain() *fabric.Fabric {
	free := fabric.Port{Peer: fabric.Ref{Node: -1}}
	p := func(n int32, q uint8) fabric.Port {
		return fabric.Port{Peer: fabric.Ref{Node: n, Port: q}, Width: ib.Width4x, Speed: ib.SpeedEDR}
	}
	return &fabric.Fabric{Nodes: []fabric.Node{
		{ID: "H1", Desc: "host one", Type: ib.NodeCA, GUID: 0x100, NumPorts: 2, VendorID: 0x2C9, Ports: []fabric.Port{free, p(1, 1), free}},
		{ID: "S1", Desc: "switch one", Type: ib.NodeSwitch, GUID: 0x200, NumPorts: 3, Ports: []fabric.Port{free, p(0, 1), p(2, 1), free}},
		{ID: "S2", Desc: "switch two", Type: ib.NodeSwitch, GUID: 0x201, NumPorts: 3, Ports: []fabric.Port{free, p(1, 2), p(3, 1), free}},
		{ID: "H2", Desc: "host two", Type: ib.NodeCA, GUID: 0x110, NumPorts: 1, VendorID: 0x1175, Ports: []fabric.Port{free, p(2, 2)}},
	}}
}

// Node indices of chain.
const (
	nH1 = iota
	nS1
	nS2
	nH2
)

// Directed routes of chain from H1.
var (
	toH1 = []byte{}
	toS1 = []byte{1}
	toS2 = []byte{1, 2}
	toH2 = []byte{1, 2, 2}
)

// testbed is a subnet with one endpoint whose requests are answered at once or
// never.
type testbed struct {
	testing.TB
	s    *Subnet
	e    *Endpoint
	got  []mad.Packet
	lost []mad.Packet
	tid  uint64
	key  ib.MKey
}

func newTestbed(t testing.TB, f *fabric.Fabric, c Config, node string) *testbed {
	t.Helper()
	s, err := New(f, c)
	if err != nil {
		t.Fatal(err)
	}
	b := &testbed{TB: t, s: s}
	b.e = b.attach(node)
	return b
}

func (b *testbed) attach(node string) *Endpoint {
	b.Helper()
	e, err := b.s.Attach(node)
	if err != nil {
		b.Fatal(err)
	}
	e.OnPacket = func(p *mad.Packet) { b.got = append(b.got, keep(p)) }
	e.OnUndeliverable = func(p *mad.Packet) { b.lost = append(b.lost, keep(p)) }
	return e
}

func keep(p *mad.Packet) mad.Packet {
	q := *p
	q.Data = append([]byte(nil), p.Data...)
	return q
}

// do sends m and returns the answer, nil if there is none.
func (b *testbed) do(m *ib.MAD, to mad.Addr) *ib.MAD {
	b.Helper()
	b.tid++
	m.SetTID(b.tid)
	b.got, b.lost = nil, nil
	qp := uint32(0)
	if !m.Class().IsSMP() {
		qp, to.QP = 1, 1
	}
	b.e.Send(&mad.Packet{Addr: to, LocalQP: qp, Data: m[:]})
	if b.s.data != nil && b.s.cfg.Carriage != Apart { // takes time
		b.s.RunUntil(b.s.Now().Add(time.Millisecond))
	}
	for i := range b.got {
		r := ib.MAD(b.got[i].Data)
		if r.Method().IsResponse() && r.TID()&(1<<48-1) == b.tid {
			if r.Class() != m.Class() || r.AttrID() != m.AttrID() || r.AttrMod() != m.AttrMod() {
				b.Errorf("answer changes class, attribute or modifier: % x", r[:24])
			}
			return &r
		}
	}
	return nil
}

var dr = mad.Addr{LID: ib.LIDPermissive}

// get reads an attribute by directed route.
func (b *testbed) get(path []byte, attr ib.AttrID, am uint32) (*ib.MAD, ib.Status) {
	b.Helper()
	var m ib.MAD
	smp.NewDR(&m, ib.MethodGet, attr, am, b.key, path)
	return b.answer(&m, dr)
}

// set writes an attribute by directed route.
func (b *testbed) set(path []byte, attr ib.AttrID, am uint32, v interface{ Put([]byte) }) (*ib.MAD, ib.Status) {
	b.Helper()
	var m ib.MAD
	smp.NewDR(&m, ib.MethodSet, attr, am, b.key, path)
	if v != nil {
		v.Put(smp.Data(&m))
	}
	return b.answer(&m, dr)
}

// noAnswer is the status of a request that was not answered.
const noAnswer ib.Status = 0x7FFF

func (b *testbed) answer(m *ib.MAD, to mad.Addr) (*ib.MAD, ib.Status) {
	r := b.do(m, to)
	if r == nil {
		return nil, noAnswer
	}
	return r, smp.StatusOf(r)
}

func (b *testbed) portInfo(path []byte, port uint32) (pi smp.PortInfo) {
	b.Helper()
	r, st := b.get(path, smp.AttrPortInfo, port|smp.PortInfoExtSpeeds)
	if st != ib.StatusOK {
		b.Fatalf("Get(PortInfo %d): %v", port, st)
	}
	if err := pi.Decode(smp.Data(r)); err != nil {
		b.Fatal(err)
	}
	return pi
}

// change reads PortInfo, changes it and writes it back.
func (b *testbed) change(path []byte, port uint32, fn func(*smp.PortInfo)) (smp.PortInfo, ib.Status) {
	b.Helper()
	pi := b.portInfo(path, port)
	pi.ClearForSet()
	fn(&pi)
	r, st := b.set(path, smp.AttrPortInfo, port|smp.PortInfoExtSpeeds, &pi)
	if r == nil {
		return smp.PortInfo{}, st
	}
	if err := pi.Decode(smp.Data(r)); err != nil {
		b.Fatal(err)
	}
	return pi, st
}

func (b *testbed) mustChange(path []byte, port uint32, fn func(*smp.PortInfo)) smp.PortInfo {
	b.Helper()
	pi, st := b.change(path, port, fn)
	if st != ib.StatusOK {
		b.Fatalf("Set(PortInfo %d) at %v: %v", port, path, st)
	}
	return pi
}

// configure does what a manager does: LIDs H1 1, S1 2, S2 3, H2 4, tables,
// all links Active.
func (b *testbed) configure() {
	b.Helper()
	lid := func(l, sm ib.LID) func(*smp.PortInfo) {
		return func(p *smp.PortInfo) { p.LID, p.MasterSMLID, p.NeighborMTU = l, sm, 4 }
	}
	b.mustChange(toH1, 1, lid(1, 1))
	b.mustChange(toS1, 0, lid(2, 1))
	b.mustChange(toS2, 0, lid(3, 1))
	b.mustChange(toH2, 1, lid(4, 1))
	b.table(toS1, 255, 1, 0, 2, 2)
	b.table(toS2, 255, 1, 1, 0, 2)
	for _, st := range []ib.PortState{ib.StateArmed, ib.StateActive} {
		for _, p := range []struct {
			path []byte
			port uint32
		}{{toH1, 1}, {toS1, 1}, {toS1, 2}, {toS2, 1}, {toS2, 2}, {toH2, 1}} {
			b.mustChange(p.path, p.port, func(pi *smp.PortInfo) {
				pi.PortState, pi.LID, pi.MasterSMLID = st, max(pi.LID, 1), max(pi.MasterSMLID, 1)
			})
		}
	}
}

// table writes block 0 of a linear table and LinearFDBTop.
func (b *testbed) table(path []byte, ports ...uint8) {
	b.Helper()
	var t smp.LFT
	for i := range t {
		t[i] = smp.PortDrop
	}
	copy(t[:], ports)
	if _, st := b.set(path, smp.AttrLFT, 0, &t); st != ib.StatusOK {
		b.Fatalf("Set(LFT): %v", st)
	}
	b.switchInfo(path, func(si *smp.SwitchInfo) { si.LinearFDBTop = ib.LID(len(ports) - 1) })
}

func (b *testbed) switchInfo(path []byte, fn func(*smp.SwitchInfo)) (si smp.SwitchInfo) {
	b.Helper()
	r, st := b.get(path, smp.AttrSwitchInfo, 0)
	if st == ib.StatusOK && fn != nil {
		if err := si.Decode(smp.Data(r)); err != nil {
			b.Fatal(err)
		}
		si.PortStateChange = false
		fn(&si)
		r, st = b.set(path, smp.AttrSwitchInfo, 0, &si)
	}
	if st != ib.StatusOK {
		b.Fatalf("SwitchInfo at %v: %v", path, st)
	}
	if err := si.Decode(smp.Data(r)); err != nil {
		b.Fatal(err)
	}
	return si
}

// byLID makes a LID-routed SMP.
func (b *testbed) byLID(method ib.Method, attr ib.AttrID, am uint32, lid ib.LID) (*ib.MAD, ib.Status) {
	b.Helper()
	var m ib.MAD
	smp.NewLID(&m, method, attr, am, b.key)
	return b.answer(&m, mad.Addr{LID: lid})
}

// tree is a two-level tree: leaves × spines, with hosts at each leaf.
func tree(leaves, spines, hosts int) *fabric.Fabric {
	f := &fabric.Fabric{}
	add := func(id string, t ib.NodeType, g ib.GUID, n int) int32 {
		ps := make([]fabric.Port, n+1)
		for i := range ps {
			ps[i].Peer.Node = -1
		}
		f.Nodes = append(f.Nodes, fabric.Node{ID: id, Desc: id, Type: t, GUID: g, NumPorts: n, Ports: ps})
		return int32(len(f.Nodes) - 1)
	}
	link := func(a int32, ap int, c int32, cp int) {
		f.Nodes[a].Ports[ap] = fabric.Port{Peer: fabric.Ref{Node: c, Port: uint8(cp)}, Width: ib.Width4x, Speed: ib.SpeedHDR}
		f.Nodes[c].Ports[cp] = fabric.Port{Peer: fabric.Ref{Node: a, Port: uint8(ap)}, Width: ib.Width4x, Speed: ib.SpeedHDR}
	}
	var sp []int32
	for i := range spines {
		sp = append(sp, add(fmt.Sprintf("spine%d", i), ib.NodeSwitch, ib.GUID(0x300000+i), leaves))
	}
	for l := range leaves {
		leaf := add(fmt.Sprintf("leaf%d", l), ib.NodeSwitch, ib.GUID(0x200000+l), hosts+spines)
		for h := range hosts {
			link(leaf, h+1, add(fmt.Sprintf("h%d.%d", l, h), ib.NodeCA, ib.GUID(0x100000+(l*hosts+h)*16), 1), 1)
		}
		for i, s := range sp {
			link(leaf, hosts+i+1, s, l+1)
		}
	}
	return f
}
