package sim

import (
	"bytes"
	"testing"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
)

// raw sends an SMP exactly as given and returns the answer.
func (b *testbed) raw(edit func(m *ib.MAD), path []byte, to mad.Addr) *ib.MAD {
	b.Helper()
	var m ib.MAD
	smp.NewDR(&m, ib.MethodGet, smp.AttrNodeInfo, 0, 0, path)
	if edit != nil {
		edit(&m)
	}
	return b.do(&m, to)
}

// TestDirectedRoute walks the worked example of IBA §14.2.2: what the hop
// pointer and the return path are when the answer is back.
func TestDirectedRoute(t *testing.T) {
	b := newTestbed(t, chain(), Config{}, "H1")
	for _, c := range []struct {
		path []byte
		guid ib.GUID
		in   uint8
		back []byte // ReturnPath[1..]
	}{
		{toH1, 0x100, 1, nil},
		{toS1, 0x200, 1, []byte{1}},
		{toS2, 0x201, 1, []byte{1, 1}},
		{toH2, 0x110, 1, []byte{1, 1, 1}},
		{[]byte{1, 2, 1}, 0x200, 2, []byte{1, 1, 2}},                          // S1 again: a path may visit a node twice
		{[]byte{1, 2, 1, 1}, 0x100, 1, []byte{1, 1, 2, 1}},                    // and come home
		{append([]byte{1}, bytes.Repeat([]byte{2, 1}, 31)...), 0x200, 2, nil}, // 63 hops, legal
	} {
		r := b.raw(nil, c.path, dr)
		if r == nil {
			t.Errorf("path %v: no answer", c.path)
			continue
		}
		var ni smp.NodeInfo
		if err := ni.Decode(smp.Data(r)); err != nil {
			t.Fatal(err)
		}
		if ni.NodeGUID != c.guid || ni.LocalPortNum != c.in {
			t.Errorf("path %v: node %v by port %d, want %v by %d", c.path, ni.NodeGUID, ni.LocalPortNum, c.guid, c.in)
		}
		if smp.HopPointer(r) != 0 || int(smp.HopCount(r)) != len(c.path) || !smp.Direction(r) {
			t.Errorf("path %v: HP %d HC %d D %v in the answer", c.path, smp.HopPointer(r), smp.HopCount(r), smp.Direction(r))
		}
		if c.back != nil && !bytes.Equal(smp.ReturnPath(r)[1:len(c.back)+1], c.back) {
			t.Errorf("path %v: return path % x, want % x", c.path, smp.ReturnPath(r)[:len(c.back)+1], c.back)
		}
		if !bytes.Equal(smp.Path(r), c.path) {
			t.Errorf("path %v: initial path changed to %v", c.path, smp.Path(r))
		}
	}
}

// TestHopPointerInFlight looks at the hop pointer that a request has at an SM
// on the target, and at the requester after its answer.
func TestHopPointerInFlight(t *testing.T) {
	b := newTestbed(t, chain(), Config{}, "H1")
	sm := b.attach("H2")
	if err := sm.SetIsSM(true); err != nil {
		t.Fatal(err)
	}
	var req ib.MAD
	sm.OnPacket = func(p *mad.Packet) {
		req = ib.MAD(p.Data)
		a := req
		smp.Respond(&a, 0)
		a[64] = 0xAB
		sm.Send(&mad.Packet{Addr: p.Addr, Data: a[:]})
	}
	r, st := b.get(toH2, smp.AttrSMInfo, 0)
	if st != ib.StatusOK || r[64] != 0xAB {
		t.Fatalf("Get(SMInfo): %v", st)
	}
	if smp.HopPointer(&req) != 4 || smp.HopCount(&req) != 3 {
		t.Errorf("HP %d HC %d at the target, want HC+1", smp.HopPointer(&req), smp.HopCount(&req))
	}
	if smp.HopPointer(r) != 0 {
		t.Errorf("HP %d at the requester, want 0", smp.HopPointer(r))
	}
}

// TestDirectedRouteDiscards lists what an SMI discards silently (IBA §14.2.2).
func TestDirectedRouteDiscards(t *testing.T) {
	b := newTestbed(t, chain(), Config{}, "H1")
	for _, c := range []struct {
		name string
		path []byte
		edit func(m *ib.MAD)
		why  DropReason
	}{
		{"64 hops", toS1, func(m *ib.MAD) { m[7] = 64 }, DropRoute},
		{"hop pointer not 0 at the originator", toS1, func(m *ib.MAD) { m[6] = 1 }, DropRoute},
		{"hop pointer beyond the count", toS1, func(m *ib.MAD) { m[6] = 3 }, DropRoute},
		{"first hop through another port of the CA", []byte{2}, nil, DropRoute},
		{"first hop through a port that does not exist", []byte{3}, nil, DropRoute},
		{"port 0 in the path", []byte{1, 0}, nil, DropRoute},
		{"port above NumPorts", []byte{1, 4}, nil, DropRoute},
		{"port without a cable", []byte{1, 3}, nil, DropLink},
		{"through a CA", []byte{1, 2, 2, 1}, nil, DropRoute},
		{"DrDLID at a CA", toH2, func(m *ib.MAD) { smp.SetDrDLID(m, 9) }, DropRoute},
		{"direction bit in a request", toS1, func(m *ib.MAD) { smp.SetDirection(m, true) }, DropRoute},
		{"base version 2", toS1, func(m *ib.MAD) { m[0] = 2 }, DropVersion},
	} {
		var why []DropReason
		b.s.OnDrop = func(r DropReason, _ int, _ uint8, _ *mad.Packet) { why = append(why, r) }
		if r := b.raw(c.edit, c.path, dr); r != nil {
			t.Errorf("%s: answered", c.name)
		}
		if len(why) != 1 || why[0] != c.why {
			t.Errorf("%s: dropped for %v, want %v", c.name, why, c.why)
		}
		if len(b.lost) != 1 || b.lost[0].Status != mad.Failed {
			t.Errorf("%s: %d packets came back as undeliverable", c.name, len(b.lost))
		}
	}
	s1 := b.attach("S1")
	b.e = s1
	if r := b.raw(nil, []byte{3}, dr); r != nil {
		t.Error("a switch answered through a port without a cable")
	}
	if r := b.raw(nil, []byte{2}, dr); r == nil {
		t.Error("a switch's own endpoint gets no answer from its neighbor")
	}
}

// TestMixedRoute: the LID-routed part may be first, last, or on both sides of the
// directed part (IBA §14.2.2).
func TestMixedRoute(t *testing.T) {
	b := newTestbed(t, chain(), Config{}, "H1")
	b.configure()
	guid := func(m *ib.MAD) ib.GUID {
		if m == nil {
			return 0
		}
		var ni smp.NodeInfo
		if err := ni.Decode(smp.Data(m)); err != nil {
			t.Fatal(err)
		}
		return ni.NodeGUID
	}
	// LID to S2 (3), then out of its port 2 to H2.
	r := b.raw(func(m *ib.MAD) { smp.SetDrSLID(m, 1) }, []byte{2}, mad.Addr{LID: 3})
	if guid(r) != 0x110 {
		t.Errorf("LID part first: %v", guid(r))
	}
	// LID to S2 itself, no hops.
	r = b.raw(func(m *ib.MAD) { smp.SetDrSLID(m, 1) }, nil, mad.Addr{LID: 3})
	if guid(r) != 0x201 {
		t.Errorf("LID part only: %v", guid(r))
	}
	// From a switch to itself by LID, then out of its port.
	e := b.e
	b.e = b.attach("S2")
	if r = b.raw(func(m *ib.MAD) { smp.SetDrSLID(m, 3) }, []byte{2}, mad.Addr{LID: 3}); guid(r) != 0x110 {
		t.Errorf("LID part to itself: %v", guid(r))
	}
	b.e = e
	// One hop to S1, then by LID to H2.
	r = b.raw(func(m *ib.MAD) { smp.SetDrDLID(m, 4) }, toS1, dr)
	if guid(r) != 0x110 {
		t.Errorf("LID part last: %v", guid(r))
	}
	// To S1 by LID, out of port 2 to S2, then by LID to H2.
	r = b.raw(func(m *ib.MAD) { smp.SetDrSLID(m, 1); smp.SetDrDLID(m, 4) }, []byte{2}, mad.Addr{LID: 2})
	if guid(r) != 0x110 {
		t.Errorf("LID parts on both sides: %v", guid(r))
	}
	if r != nil && (smp.HopPointer(r) != 0 || smp.DrSLID(r) != 1 || smp.DrDLID(r) != 4) {
		t.Errorf("HP %d DrSLID %v DrDLID %v after the way back", smp.HopPointer(r), smp.DrSLID(r), smp.DrDLID(r))
	}
	// The directed part cannot begin at a CA.
	if r = b.raw(func(m *ib.MAD) { smp.SetDrSLID(m, 1) }, []byte{1}, mad.Addr{LID: 4}); r != nil {
		t.Error("a directed part began at a CA")
	}
}

// TestLIDRoutedStates: SMPs pass ports in Init, Armed and Active, data packets only
// Active ones (Armed receives) (IBA §7.2.7).
func TestLIDRoutedStates(t *testing.T) {
	b := newTestbed(t, chain(), Config{}, "H1")
	lid := func(l ib.LID) func(*smp.PortInfo) {
		return func(p *smp.PortInfo) { p.LID, p.MasterSMLID, p.NeighborMTU = l, 1, 4 }
	}
	if _, st := b.byLID(ib.MethodGet, smp.AttrNodeInfo, 0, 4); st != noAnswer {
		t.Errorf("unrouted LID answered %v", st)
	}
	b.mustChange(toH1, 1, lid(1))
	b.mustChange(toH2, 1, lid(4))
	b.table(toS1, 255, 1, 255, 255, 2)
	b.table(toS2, 255, 1, 255, 255, 2)
	if _, st := b.byLID(ib.MethodGet, smp.AttrNodeInfo, 0, 4); st != ib.StatusOK {
		t.Errorf("SMP by LID over ports in Init: %v", st)
	}
	ping := func() bool { _, ok := b.ping(4); return ok }
	if ping() {
		t.Error("a data packet passed ports in Init")
	}
	all := []struct {
		path []byte
		port uint32
	}{{toH1, 1}, {toS1, 1}, {toS1, 2}, {toS2, 1}, {toS2, 2}, {toH2, 1}}
	step := func(st ib.PortState) {
		for _, p := range all {
			b.mustChange(p.path, p.port, func(pi *smp.PortInfo) { pi.PortState, pi.NeighborMTU = st, 4 })
		}
	}
	step(ib.StateArmed)
	if ping() {
		t.Error("a data packet left an Armed port")
	}
	step(ib.StateActive)
	if !ping() {
		t.Error("no data packet passes Active ports")
	}
	b.switchInfo(toS2, func(si *smp.SwitchInfo) { si.LinearFDBTop = 3 })
	if _, st := b.byLID(ib.MethodGet, smp.AttrNodeInfo, 0, 4); st != noAnswer {
		t.Error("a LID above LinearFDBTop was forwarded")
	}
}

// TestForwardingLoopEnds: a packet in a forwarding loop is lost.
func TestForwardingLoopEnds(t *testing.T) {
	b := newTestbed(t, chain(), Config{}, "H1")
	b.configure()
	b.table(toS1, 255, 1, 0, 2, 2)
	b.table(toS2, 255, 1, 1, 0, 1) // LID 4 back to S1
	var why []DropReason
	b.s.OnDrop = func(r DropReason, _ int, _ uint8, _ *mad.Packet) { why = append(why, r) }
	if _, st := b.byLID(ib.MethodGet, smp.AttrNodeInfo, 0, 4); st != noAnswer {
		t.Fatalf("answered %v", st)
	}
	if len(why) != 1 || why[0] != DropLoop {
		t.Errorf("dropped for %v", why)
	}
}

// TestLMC: a port responds to all its LIDs, and from the LID that was addressed.
func TestLMC(t *testing.T) {
	b := newTestbed(t, chain(), Config{}, "H1")
	b.configure()
	b.mustChange(toH2, 1, func(p *smp.PortInfo) { p.LID, p.LMC = 8, 2 })
	row := []uint8{255, 1, 0, 2, 255, 255, 255, 255, 2, 2, 2, 2}
	b.table(toS1, row...)
	row[2], row[3] = 1, 0
	b.table(toS2, row...)
	sm := b.attach("H2")
	sm.Accepts = func(*mad.Packet) bool { return true }
	var at mad.Addr
	sm.OnPacket = func(p *mad.Packet) { at = p.Addr }
	for l := ib.LID(8); l < 12; l++ {
		if r, st := b.byLID(ib.MethodGet, smp.AttrNodeInfo, 0, l); st != ib.StatusOK {
			t.Errorf("LID %v: %v", l, st)
		} else if src := b.got[0].Addr.LID; src != l || r == nil {
			t.Errorf("answer of LID %v comes from %v", l, src)
		}
		var m ib.MAD
		m.SetHeader(ib.ClassSA, 2, ib.MethodGet, 0x11, 0)
		b.e.Send(&mad.Packet{Addr: mad.Addr{LID: l, QP: 1}, LocalQP: 1, Data: m[:]})
		if at.PathBits != uint8(l-8) || at.LID != 1 {
			t.Errorf("LID %v arrives with path bits %d from %v", l, at.PathBits, at.LID)
		}
	}
	if _, st := b.byLID(ib.MethodGet, smp.AttrNodeInfo, 0, 12); st != noAnswer {
		t.Error("LID 12 is answered")
	}
}
