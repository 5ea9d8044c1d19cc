package sim

import (
	"errors"
	"slices"
	"testing"

	"heddle/fabric"
	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
)

// TestEndpointView: a program's view of its port, without requests to the fabric.
func TestEndpointView(t *testing.T) {
	b := newTestbed(t, chain(), Config{}, "host two") // by description
	if b.e.NodeID() != "H2" || b.e.NodeIndex() != nH2 || b.e.PortNum() != 1 || b.e.PortGUID() != 0x111 || b.e.LID() != 0 {
		t.Errorf("%s %d %d %v", b.e.NodeID(), b.e.NodeIndex(), b.e.PortNum(), b.e.PortGUID())
	}
	b.e = b.attach("H1")
	b.configure()
	pi, ni, desc := b.e.PortInfo(), b.e.NodeInfo(), b.e.NodeDescription()
	if pi.LID != 1 || b.e.LID() != 1 || b.e.LMC() != 0 || ni.NodeGUID != 0x100 || ni.LocalPortNum != 1 || desc.String() != "host one" {
		t.Errorf("%+v %+v %q", pi, ni, desc.String())
	}
	if p2 := b.e.PortInfoOf(2); p2.PortState != ib.StateDown || p2.LocalPortNum != 1 {
		t.Errorf("port 2: %+v", p2)
	}
	if p9 := b.e.PortInfoOf(9); p9.LID != 1 {
		t.Errorf("port 9: %+v", p9)
	}
	b.set(toH1, smp.AttrGUIDInfo, 0, &smp.GUIDInfo{2: 0xAB})
	if g := b.e.GIDs(nil); len(g) != 2 || g[0] != ib.MakeGID(ib.DefaultSubnetPrefix, 0x101) || g[1].GUID() != 0xAB {
		t.Errorf("GIDs %v", g)
	}
	if k := b.e.PKeys(nil); len(k) != 64 || k[0] != 0xFFFF || k[1] != 0 {
		t.Errorf("P_Keys %v", k)
	}
	if k := b.s.PKeys(nS1, 2, nil); len(k) != 64 || k[0] != 0xFFFF {
		t.Errorf("P_Keys of an external port %v", k)
	}
	if si, ok := b.s.SwitchInfo(nS1); !ok || si.LinearFDBTop != 4 {
		t.Errorf("%+v", si)
	}
	if _, ok := b.s.SwitchInfo(nH1); ok || b.s.Tables(nH1) != nil || len(b.s.LFT(nH1, nil)) != 0 {
		t.Error("a CA has switch tables")
	}
	if b.s.Fabric().Nodes[0].ID != "H1" || b.s.Config().HopLimit == 0 || !b.s.Up(nS1) {
		t.Error("the subnet does not know what it is made of")
	}
}

// TestAttachErrors names what is wrong.
func TestAttachErrors(t *testing.T) {
	b := newTestbed(t, chain(), Config{}, "")
	if b.e.NodeID() != "H1" {
		t.Errorf("the first node is %s", b.e.NodeID())
	}
	if _, err := b.s.Attach("H7"); !errors.Is(err, ErrNoNode) {
		t.Error(err)
	}
	for _, c := range []struct {
		node string
		port int
		ok   bool
	}{{"H1", 2, true}, {"H1", 0, false}, {"H1", 3, false}, {"S1", 0, true}, {"S1", 1, false}, {"S1", -1, false}} {
		if _, err := b.s.AttachPort(c.node, c.port); (err == nil) != c.ok {
			t.Errorf("%s[%d]: %v", c.node, c.port, err)
		}
	}
	if _, err := New(&fabric.Fabric{}, Config{}); err != nil {
		t.Error(err)
	}
	bad := chain()
	bad.Nodes[nS1].Ports[2].Peer = fabric.Ref{Node: 3, Port: 1}
	if _, err := New(bad, Config{}); err == nil {
		t.Error("a cable whose ends disagree was taken")
	}
	bad = chain()
	bad.Nodes[nS1].ID = "H1"
	if _, err := New(bad, Config{}); err == nil {
		t.Error("two nodes of one id were taken")
	}
}

// TestGlobalRoute: a GRH arrives with the sender's GID, and the answer of an
// agent with the agent's.
func TestGlobalRoute(t *testing.T) {
	b := newTestbed(t, chain(), Config{}, "H1")
	b.configure()
	b.set(toH1, smp.AttrGUIDInfo, 0, &smp.GUIDInfo{2: 0xAB})
	sa := b.attach("H2")
	sa.Accepts = func(*mad.Packet) bool { return true }
	var from mad.Addr
	sa.OnPacket = func(p *mad.Packet) { from = p.Addr }
	var m ib.MAD
	m.SetHeader(ib.ClassSA, 2, ib.MethodGet, 0x11, 0)
	to := mad.Addr{LID: 4, QP: 1, SL: 3, HasGRH: true}
	to.GRH.GID, to.GRH.GIDIndex = ib.MakeGID(ib.DefaultSubnetPrefix, 0x111), 2
	b.e.Send(&mad.Packet{Addr: to, LocalQP: 1, Data: m[:]})
	if !from.HasGRH || from.GRH.GID.GUID() != 0xAB || from.SL != 3 || from.QP != 1 || from.LID != 1 {
		t.Errorf("%+v", from)
	}
	if b.pingAddr(to); len(b.got) != 1 || b.got[0].Addr.GRH.GID.GUID() != 0x111 {
		t.Errorf("%+v", b.got)
	}
}

// TestOfflinePeers: undeliverable packets are reported to their sender.
func TestOfflinePeers(t *testing.T) {
	b := newTestbed(t, chain(), Config{}, "H1")
	b.configure()
	var m ib.MAD
	m.SetHeader(ib.ClassSA, 2, ib.MethodGet, 0x11, 0)
	if b.do(&m, mad.Addr{LID: 4}); len(b.lost) != 1 {
		t.Errorf("%d came back from a port without programs", len(b.lost))
	}
	smp.NewLID(&m, ib.MethodGet, smp.AttrNodeInfo, 0, 0)
	m.SetMethod(ib.MethodGetResp)
	if b.do(&m, mad.Addr{LID: 4}); len(b.lost) != 1 {
		t.Errorf("%d answers to nobody came back", len(b.lost))
	}
	if b.do(&m, mad.Addr{LID: 0}); len(b.lost) != 1 {
		t.Errorf("%d packets to LID 0 came back", len(b.lost))
	}
	if err := b.s.NodeDown("H1"); err != nil {
		t.Fatal(err)
	}
	if r := b.raw(nil, toH1, dr); r != nil || len(b.lost) != 1 {
		t.Error("a node that is off answers itself")
	}
	for r := range numDropReasons {
		if r.String() == "?" || r.String() == "" {
			t.Errorf("reason %d has no name", r)
		}
	}
}

// TestFDR10 shows in the vendor's attribute, and as QDR in PortInfo.
func TestFDR10(t *testing.T) {
	f := chain()
	for _, r := range []fabric.Ref{{Node: nH1, Port: 1}, {Node: nS1, Port: 1}} {
		f.Nodes[r.Node].Ports[r.Port].Speed = ib.SpeedFDR10
	}
	b := newTestbed(t, f, Config{}, "H1")
	r, st := b.get(toS1, smp.AttrExtendedPortInfo, 1)
	if d := smp.Data(r); st != ib.StatusOK || d[7] != 1 || d[11] != 1 || d[15] != 1 {
		t.Errorf("%v % x", st, d[:16])
	}
	if pi := b.portInfo(toS1, 1); pi.LinkSpeedActive != ib.SpeedBitQDR || pi.LinkSpeedExtActive != 0 {
		t.Errorf("%v %v", pi.LinkSpeedActive, pi.LinkSpeedExtActive)
	}
	b.set(toS1, smp.AttrExtendedPortInfo, 1, raw64{3: 1}) // off
	b.mustChange(toS1, 1, func(p *smp.PortInfo) { p.PortState = ib.StateDown })
	r, _ = b.get(toS1, smp.AttrExtendedPortInfo, 1)
	if d := smp.Data(r); d[11] != 0 || d[15] != 0 {
		t.Errorf("after it was turned off: % x", d[:16])
	}
	if _, st := b.set(toS1, smp.AttrExtendedPortInfo, 2, raw64{3: 1, 11: 1}); st != ib.StatusInvalidField {
		t.Errorf("FDR10 on an EDR port: %v", st)
	}
}

// TestSpeeds: every family of speed fields, and the capability bits that
// announce them.
func TestSpeeds(t *testing.T) {
	for v := ib.SpeedSDR; v <= ib.SpeedXDR; v++ {
		f := chain()
		for i := range f.Nodes {
			for p := range f.Nodes[i].Ports {
				if f.Nodes[i].Ports[p].Peer.Node >= 0 {
					f.Nodes[i].Ports[p].Speed, f.Nodes[i].Ports[p].Width = v, ib.Width2x
				}
			}
		}
		b := newTestbed(t, f, Config{}, "H1")
		p0, pi := b.portInfo(toS1, 0), b.portInfo(toS1, 2)
		if got := pi.ActiveSpeedOf(p0.CapabilityMask, v == ib.SpeedFDR10); got != v || pi.LinkWidthActive != ib.Width2x {
			t.Errorf("%v: active %v %v", v, pi.LinkWidthActive, got)
		}
		c := p0.CapabilityMask2
		if c.Has(ib.Cap2IsLinkSpeedHDRSupported) != (v >= ib.SpeedHDR) || c.Has(ib.Cap2IsLinkSpeedNDRSupported) != (v >= ib.SpeedNDR) ||
			c.Has(ib.Cap2IsLinkSpeedXDRSupported) != (v >= ib.SpeedXDR) || !c.Has(ib.Cap2IsLinkWidth2xSupported) {
			t.Errorf("%v: capabilities %v", v, c)
		}
		r, st := b.set(toS1, smp.AttrPortInfoExtended, 2, raw64{13: 4})
		if st != ib.StatusOK || smp.Data(r)[13] != 4 || slices.Max(smp.Data(r)[4:6]) != map[bool]byte{true: 2}[v >= ib.SpeedHDR] {
			t.Errorf("%v: PortInfoExtended %v % x", v, st, smp.Data(r)[:24])
		}
		if _, st = b.set(toS1, smp.AttrPortInfoExtended, 2, raw64{12: 4}); st != ib.StatusInvalidField {
			t.Errorf("FEC mode that does not exist: %v", st)
		}
	}
}

// TestTrap259: a switch that filters a partition at an external port sends the trap.
func TestTrap259(t *testing.T) {
	b, traps := trapBed(t, Config{})
	b.set(toH1, smp.AttrPKeyTable, 0, &smp.PKeyTable{0xFFFF, 0x8001})
	b.mustChange(toS2, 1, func(p *smp.PortInfo) { p.PartitionEnforcementInbound = true })
	b.pingAddr(mad.Addr{LID: 4, QP: 1, PKeyIndex: 1})
	if len(*traps) != 1 || (*traps)[0].number != 259 || (*traps)[0].issuer != 3 {
		t.Fatalf("%+v", *traps)
	}
	if d := (*traps)[0].pkt.Data[74:]; d[3] != 1 || d[5] != 4 || d[6] != 0x80 || d[7] != 1 || d[49] != 3 || d[50] != 1 {
		t.Errorf("details % x", d[:54])
	}
	if err := b.s.SetSystemImageGUID("H2", 0x55); err != nil {
		t.Fatal(err)
	}
	if l := (*traps)[len(*traps)-1]; l.number != 145 || l.pkt.Data[74+13] != 0x55 {
		t.Errorf("%+v", l)
	}
}
