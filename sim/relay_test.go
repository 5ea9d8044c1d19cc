package sim

import (
	"testing"
	"time"

	"heddle/ib"
	"heddle/ib/pm"
	"heddle/ib/smp"
	"heddle/mad"
)

// relayBed is cloud with a VPort adapter at h1.0: VPort 1 and 2 on the port's
// LID, 3 with LID 70, 4 on the LID of 3, 5 on that of 2 (which has none, so the
// port's); and one at h0.1 with VPort 1. All are Active.
func relayBed(t testing.TB, c Config) *testbed {
	t.Helper()
	b := cloud(t, c)
	b.hypervisor("h1.0", Hypervisor{Model: VPorts, VFs: 5})
	b.hypervisor("h0.1", Hypervisor{Model: VPorts, VFs: 1})
	b.virtual("h1.0", true, true)
	b.virtual("h0.1", true, true)
	for i, by := range []uint16{1: 0, 2: 0, 3: 0, 4: 3, 5: 2} {
		if i == 0 {
			continue
		}
		if err := b.s.SetLIDRequired(b.vf("h1.0", i), i == 3, by); err != nil {
			t.Fatal(err)
		}
	}
	for i := 1; i <= 5; i++ {
		if err := b.s.EnableVPort(b.vf("h1.0", i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.s.EnableVPort(b.vf("h0.1", 1)); err != nil {
		t.Fatal(err)
	}
	b.activate("h1.0", 3, 70)
	for _, i := range []int{1, 2, 4, 5} {
		b.activate("h1.0", i, 0)
	}
	b.activate("h0.1", 1, 0)
	return b
}

// TestUnicastRelay: a packet goes to the VPort with its DLID and DGID, otherwise to the
// default VPort of the DLID, otherwise it is dropped.
func TestUnicastRelay(t *testing.T) {
	b := relayBed(t, Config{})
	pf := b.lid("h1.0")
	n := b.vf("h1.0", 1).Node
	at := func(i int) VF { return VF{Node: n, Port: 1, Index: uint16(i)} }
	gid := func(i int) ib.GID {
		if i == 0 {
			return ib.MakeGID(ib.DefaultSubnetPrefix, b.s.GUIDs(n, 1)[0])
		}
		return b.gid(at(i))
	}
	foreign := ib.MakeGID(ib.DefaultSubnetPrefix, 0xDEAD)
	for _, c := range []struct {
		what string
		lid  ib.LID
		gid  *ib.GID
		want int // VPort; -1: lost
		why  DropReason
	}{
		{"GID of 1", pf, new(gid(1)), 1, 0},
		{"GID of 2", pf, new(gid(2)), 2, 0},
		{"GID of the port", pf, new(gid(0)), 0, 0},
		{"no GRH", pf, nil, 0, 0},
		{"GID of nobody", pf, new(foreign), 0, 0},
		{"GID of 3 at the port's LID", pf, new(gid(3)), 0, 0},
		{"GID of 4 at the port's LID", pf, new(gid(4)), 0, 0},
		{"GID of 5, whose owner has no LID", pf, new(gid(5)), 5, 0},
		{"own LID, no GRH", 70, nil, 3, 0},
		{"own LID and GID", 70, new(gid(3)), 3, 0},
		{"own LID, GID of nobody", 70, new(foreign), 3, 0},
		{"own LID, GID of its sharer", 70, new(gid(4)), 4, 0},
		{"own LID, GID of another", 70, new(gid(1)), 3, 0},
		{"another prefix", pf, new(ib.MakeGID(0xFEC0<<48, gid(1).GUID())), 0, 0},
		{"nobody's LID that leads there", 71, new(gid(1)), -1, DropNoLID},
	} {
		to := mad.Addr{LID: c.lid}
		if c.gid != nil {
			to.HasGRH, to.GRH.GID = true, *c.gid
		}
		if c.lid == 71 {
			b.routeTo(71, n)
		}
		from := VF{Node: b.e.NodeIndex(), Port: 1}
		p := b.probeAddr(from, to, full)
		if c.want < 0 {
			if p.Arrived || p.Lost != c.why {
				t.Errorf("%s: %v", c.what, p)
			}
			continue
		}
		if !p.Answered || p.At != at(c.want) || p.Hops != 4 {
			t.Errorf("%s: %v, want VPort %d", c.what, p, c.want)
		}
	}
	// From one VPort to another, and back, through the fabric.
	if p := b.probe(b.vf("h0.1", 1), at(4), full); !p.Answered || p.At != at(4) {
		t.Error(p)
	}
	// With virtualization off everything is the port's, and the rest is down.
	b.virtual("h1.0", false, false)
	if p := b.probe(b.vf("h0.1", 1), at(1), full); !p.Answered || p.At != at(0) {
		t.Errorf("off: %v", p)
	}
	if p := b.probeAddr(b.vf("h0.1", 1), mad.Addr{LID: 70, HasGRH: true}, full); p.Lost != DropNoLID {
		t.Errorf("off, its own LID: %v", p)
	}
	if p := b.probe(at(1), b.vf("h0.1", 1), full); p.Arrived || p.Lost != DropState {
		t.Errorf("off, sending: %v", p)
	}
}

// TestLoopbackRelay: packets between VPorts of a port need no link, and do not reach
// the port itself.
func TestLoopbackRelay(t *testing.T) {
	b := relayBed(t, Config{})
	at := func(i int) VF { return b.vf("h1.0", i) }
	pf := VF{Node: at(1).Node, Port: 1}
	before := b.s.Stats().Hops
	all := func(link bool) {
		t.Helper()
		for i := 1; i <= 5; i++ {
			for j := 1; j <= 5; j++ {
				if p := b.probe(at(i), at(j), full); !p.Answered || p.At != at(j) || p.Hops != 0 {
					t.Errorf("link %v, %d to %d: %v", link, i, j, p)
				}
			}
		}
		p := b.probeAddr(at(1), mad.Addr{LID: b.lid("h1.0"), HasGRH: true}, full)
		if p.Answered != link || link && p.At != pf {
			t.Errorf("link %v, to the port: %v", link, p)
		}
	}
	all(true)
	if b.s.Stats().Hops != before {
		t.Error("loopback crossed a cable")
	}
	if err := b.s.LinkDown("h1.0", 1); err != nil {
		t.Fatal(err)
	}
	all(false)
	if p := b.probe(at(1), b.vf("h0.1", 1), full); p.Arrived || p.Lost != DropLink {
		t.Errorf("out over a link that is down: %v", p)
	}
}

// TestVPortMayNotSend: packets from a VPort must match its SL mask, and need a GRH if
// responses do; SMPs are dropped.
func TestVPortMayNotSend(t *testing.T) {
	b := relayBed(t, Config{})
	to := b.lid("h0.0")
	relayErrors := func(i int) uint64 {
		v, _ := b.s.function(b.vf("h1.0", i))
		return v.relay
	}
	for _, c := range []struct {
		what string
		i    int
		a    mad.Addr
		lost bool
		errs uint64
	}{
		{"shared LID, GRH", 1, mad.Addr{LID: to, HasGRH: true}, false, 0},
		{"shared LID, no GRH", 1, mad.Addr{LID: to}, true, 1},
		{"LID of another VPort, no GRH", 4, mad.Addr{LID: to}, true, 1},
		{"own LID, no GRH", 3, mad.Addr{LID: to}, false, 0},
		{"SL in the mask", 2, mad.Addr{LID: to, HasGRH: true, SL: 3}, false, 0},
		{"SL outside the mask", 2, mad.Addr{LID: to, HasGRH: true, SL: 4}, true, 1},
	} {
		if c.i == 2 {
			b.mustVPort("h1.0", 2, func(p *smp.VPortInfo) { p.SLMask = 0x0008 })
		}
		n := relayErrors(c.i)
		p := b.probeAddr(b.vf("h1.0", c.i), c.a, full)
		if p.Answered == c.lost || c.lost && p.Lost != DropVPort || relayErrors(c.i)-n != c.errs {
			t.Errorf("%s: %v, %d relay errors", c.what, p, relayErrors(c.i)-n)
		}
	}
	b.mustVPort("h1.0", 2, func(p *smp.VPortInfo) { p.SLMask = 0 }) // as old devices: no restriction
	if p := b.probeAddr(b.vf("h1.0", 2), mad.Addr{LID: to, HasGRH: true, SL: 9}, full); !p.Answered {
		t.Error(p)
	}
	e, err := b.s.AttachVPort(b.vf("h1.0", 3))
	if err != nil {
		t.Fatal(err)
	}
	var m ib.MAD
	lost := 0
	e.OnUndeliverable = func(*mad.Packet) { lost++ }
	smp.NewLID(&m, ib.MethodGet, smp.AttrNodeInfo, 0, 0)
	e.Send(&mad.Packet{Addr: mad.Addr{LID: to}, Data: m[:]})
	smp.NewDR(&m, ib.MethodGet, smp.AttrNodeInfo, 0, 0, nil)
	e.Send(&mad.Packet{Addr: dr, Data: m[:]})
	if lost != 2 || b.s.Stats().Drops[DropVPort] == 0 {
		t.Errorf("%d SMPs of a VPort were lost", lost)
	}
	// Nor do SMPs reach one.
	if _, st := b.byLID(ib.MethodGet, smp.AttrNodeInfo, 0, 70); st != noAnswer {
		t.Errorf("an SMP to the LID of a VPort: %v", st)
	}
}

// TestVPortPKeys: the VPort's table decides, not that of its port or of its neighbors;
// a refusal is counted there and causes trap 1257.
func TestVPortPKeys(t *testing.T) {
	b := relayBed(t, Config{})
	b.e.Accepts = func(*mad.Packet) bool { return true }
	var notices []smp.Notice
	b.e.OnPacket = func(p *mad.Packet) {
		m := ib.MAD(p.Data)
		var n smp.Notice
		if m.Method() == ib.MethodTrap && n.Decode(smp.Data(&m)) == nil {
			notices = append(notices, n)
			m.SetMethod(ib.MethodTrapRepress)
			b.e.Send(&mad.Packet{Addr: p.Addr, Data: m[:]})
		}
		b.got = append(b.got, keep(p))
	}
	give := func(node string, i int, k ...ib.PKey) {
		var tab smp.VPortPartitionTable
		copy(tab[:], k)
		if _, st := b.set(b.to(node), smp.AttrVPortPartitionTable, smp.VPortTableMod(uint16(i), 0), &tab); st != ib.StatusOK {
			t.Fatal(st)
		}
	}
	a, c := b.vf("h0.1", 1), b.vf("h1.0", 1)
	b.s.RunUntil(b.s.Now().Add(5 * time.Second)) // the traps of the set-up
	notices = nil
	for _, x := range []struct {
		what   string
		ka, kc ib.PKey
		key    ib.PKey
		lost   bool
		sender bool // refused before it was sent
	}{
		{"full and full", 0x8001, 0x8001, 1, false, false},
		{"full and limited", 0x8001, 0x0001, 1, false, false},
		{"limited and full", 0x0001, 0x8001, 1, false, false},
		{"limited and limited", 0x0001, 0x0001, 1, true, false},
		{"another partition", 0x8001, 0x8002, 1, true, false},
		{"not a member", 0x8002, 0x8001, 1, true, true},
		{"the port's partition, not the VPort's", 0xFFFF, 0x8001, full, true, false},
	} {
		give("h0.1", 1, x.ka)
		give("h1.0", 1, x.kc)
		before := b.mustVPort("h1.0", 1, nil).PKeyViolations
		notices = nil
		p := b.probe(a, c, x.key)
		if p.Answered == x.lost || x.lost && p.Lost != DropKey {
			t.Errorf("%s: %v", x.what, p)
		}
		b.s.RunUntil(b.s.Now().Add(5 * time.Second))
		n := uint16(0)
		if x.lost && !x.sender {
			n = 1
		}
		info := b.mustVPort("h1.0", 1, nil)
		if info.PKeyViolations-before != n || len(notices) != int(n) {
			t.Errorf("%s: %d violations, %d traps", x.what, info.PKeyViolations-before, len(notices))
		}
		for _, nt := range notices {
			d, ok := nt.Detail().(smp.DetailVPortKey)
			want := smp.DetailVPortKey{VPortIndex: 1, DetailKey: smp.DetailKey{
				LID1: b.lid("h0.1"), LID2: b.lid("h1.0"), Key: uint32(x.ka), QP1: probeQP, QP2: probeQP, GID1: b.gid(a), GID2: b.gid(c),
			}}
			if !ok || nt.TrapNumber != 1257 || nt.Type != smp.NoticeSecurity || nt.IssuerLID != b.lid("h1.0") || d != want {
				t.Errorf("%s: %+v %+v", x.what, nt, nt.Detail())
			}
		}
	}
	if pi := b.portInfo(b.to("h1.0"), 1); pi.PKeyViolations != 0 {
		t.Errorf("%d violations counted at the port", pi.PKeyViolations)
	}
	if p := b.mustVPort("h1.0", 1, func(p *smp.VPortInfo) { p.PKeyViolations = 0 }); p.PKeyViolations != 0 {
		t.Errorf("%d violations after clearing", p.PKeyViolations)
	}
	// Between VPorts of one port too, and between them and the port.
	give("h1.0", 2, 0x8002)
	if p := b.probe(b.vf("h1.0", 1), b.vf("h1.0", 2), 1); p.Lost != DropKey {
		t.Error(p)
	}
	if p := b.probeAddr(b.vf("h1.0", 1), mad.Addr{LID: b.lid("h1.0"), HasGRH: true}, 1); p.Arrived || p.Lost != DropKey {
		t.Error(p)
	}
}

// TestRequestsOfVPorts: a request reaches an endpoint on its VPort, and no other on the
// port.
func TestRequestsOfVPorts(t *testing.T) {
	b := relayBed(t, Config{})
	n := b.vf("h1.0", 1).Node
	got := -1
	for i := range 6 {
		var e *Endpoint
		var err error
		if i == 0 {
			e, err = b.s.AttachPort("h1.0", 1)
		} else {
			e, err = b.s.AttachVPort(b.vf("h1.0", i))
		}
		must(t, err)
		e.Accepts = func(*mad.Packet) bool { return true }
		e.OnPacket = func(p *mad.Packet) { got = i }
	}
	var m ib.MAD
	m.SetHeader(ib.ClassCM, 2, ib.MethodSend, 0, 0)
	for i := range 6 {
		a := mad.Addr{LID: b.lid("h1.0"), QP: 1, HasGRH: true, GRH: mad.GRH{GID: ib.MakeGID(ib.DefaultSubnetPrefix, b.s.GUIDs(n, 1)[0])}}
		if i > 0 {
			a.LID, a.GRH.GID = b.s.lidOf(&b.s.ports[b.s.devs[n].first+1].hv.vps[i]), b.gid(b.vf("h1.0", i))
		}
		got = -1
		b.e.Send(&mad.Packet{Addr: a, LocalQP: 1, Data: m[:]})
		if got != i {
			t.Errorf("a request for VPort %d was taken by a program on %d", i, got)
		}
	}
}

// TestMulticastRelay: every endpoint in the group gets a copy, on any VPort, also of
// packets from neighbors, but not of its own.
func TestMulticastRelay(t *testing.T) {
	b := relayBed(t, Config{})
	mgid := ib.GID{0xFF, 0x12, 15: 9}
	other := ib.GID{0xFF, 0x12, 15: 8}
	got := map[string]int{}
	var e1 *Endpoint
	for _, x := range []struct {
		name string
		i    int
		g    []ib.GID
	}{{"1", 1, []ib.GID{mgid}}, {"1b", 1, []ib.GID{other, mgid}}, {"2", 2, nil}, {"3", 3, []ib.GID{mgid}}, {"4", 4, []ib.GID{other}}, {"5", 5, []ib.GID{mgid}}} {
		e, err := b.s.AttachVPort(b.vf("h1.0", x.i))
		if err != nil {
			t.Fatal(err)
		}
		e.Accepts = func(*mad.Packet) bool { return true }
		e.OnPacket = func(p *mad.Packet) { got[x.name]++ }
		for _, g := range x.g {
			e.Listen(g)
		}
		if x.name == "1" {
			e1 = e
		}
	}
	pf := b.attach("h1.0")
	pf.Accepts = func(*mad.Packet) bool { return true }
	pf.OnPacket = func(p *mad.Packet) { got["port"]++ }
	// The tree: every port of every switch that leads to h0.0 or h1.0.
	for _, x := range []struct {
		node string
		mask uint16
	}{{"leaf0", 1<<1 | 1<<3}, {"spine0", 1<<1 | 1<<2}, {"leaf1", 1<<1 | 1<<3}} {
		n, _ := b.s.Node(x.node)
		path := map[string][]byte{"leaf0": {1}, "spine0": {1, 3}, "leaf1": {1, 3, 2}}[x.node]
		if _, st := b.set(path, smp.AttrMFT, 0, &smp.MFT{x.mask}); st != ib.StatusOK || len(b.s.MFT(n, 0xC000)) != 2 {
			t.Fatal(st, b.s.MFT(n, 0xC000))
		}
	}
	// 5 is in another partition: it gets nothing.
	b.set(b.to("h1.0"), smp.AttrVPortPartitionTable, smp.VPortTableMod(5, 0), &smp.VPortPartitionTable{0x8001})
	b.e.Accepts = func(*mad.Packet) bool { return true }
	b.e.OnPacket = func(p *mad.Packet) {
		if m := ib.MAD(p.Data); m.Method() != ib.MethodTrap {
			got["h0.0"]++
		}
	}
	var m ib.MAD
	m.SetHeader(ib.ClassCM, 2, ib.MethodSend, 0, 0)
	to := mad.Addr{LID: 0xC000, QP: 1, HasGRH: true, GRH: mad.GRH{GID: mgid}}
	want := func(what string, w map[string]int) {
		t.Helper()
		for _, n := range []string{"1", "1b", "2", "3", "4", "5", "port", "h0.0"} {
			if got[n] != w[n] {
				t.Errorf("%s: %s got %d, want %d", what, n, got[n], w[n])
			}
		}
		clear(got)
	}
	b.e.Send(&mad.Packet{Addr: to, LocalQP: 1, Data: m[:]})
	want("from the fabric", map[string]int{"1": 1, "1b": 1, "3": 1, "port": 1})
	e1.Send(&mad.Packet{Addr: to, LocalQP: 1, Data: m[:]})
	want("from VPort 1", map[string]int{"1b": 1, "3": 1, "port": 1, "h0.0": 1})
	pf.Send(&mad.Packet{Addr: to, LocalQP: 1, Data: m[:]})
	want("from the port", map[string]int{"1": 1, "1b": 1, "3": 1, "h0.0": 1})
	e1.Ignore(mgid)
	b.e.Send(&mad.Packet{Addr: to, LocalQP: 1, Data: m[:]})
	want("ignored", map[string]int{"1b": 1, "3": 1, "port": 1})
	if v, _ := b.s.function(b.vf("h1.0", 1)); v.cnt.mrcv != 2 || v.cnt.mxmit != 1 || v.pviol != 0 {
		t.Errorf("VPort 1 counts %+v, %d violations", v.cnt, v.pviol)
	}
	if v, _ := b.s.function(b.vf("h1.0", 5)); v.pviol == 0 {
		t.Error("no violation at VPort 5")
	}
}

// TestVPortAsksSA: an endpoint in a VM queries a manager with a GRH to the well-known
// GID, and gets the response by the GRH; without one the response goes to the default
// VPort, where no request matches.
func TestVPortAsksSA(t *testing.T) {
	b := relayBed(t, Config{})
	sa := ib.MakeGID(ib.DefaultSubnetPrefix, 0x0200000000000002)
	withGRH := true
	var asked mad.Packet
	b.e.Accepts = func(*mad.Packet) bool { return true }
	b.e.OnPacket = func(p *mad.Packet) {
		asked = keep(p)
		m := ib.MAD(p.Data)
		m.SetMethod(m.Method() | ib.MethodResponseBit)
		a := p.Addr
		a.HasGRH = withGRH
		b.e.Send(&mad.Packet{Addr: a, LocalQP: 1, Data: m[:]})
	}
	e, err := b.s.AttachVPort(b.vf("h1.0", 2))
	if err != nil {
		t.Fatal(err)
	}
	answers, neighbors := 0, 0
	e.OnPacket = func(p *mad.Packet) {
		answers++
		if !p.Addr.HasGRH || p.Addr.LID != b.e.LID() || p.Addr.GRH.GIDIndex != 0 {
			t.Errorf("%+v", p.Addr)
		}
	}
	for _, i := range []int{1, 3} {
		n, err := b.s.AttachVPort(b.vf("h1.0", i))
		if err != nil {
			t.Fatal(err)
		}
		n.Accepts = func(*mad.Packet) bool { return true }
		n.OnPacket = func(*mad.Packet) { neighbors++ }
	}
	var m ib.MAD
	m.SetHeader(ib.ClassSA, 2, ib.MethodGet, 0x35, 0)
	send := func() {
		e.Send(&mad.Packet{Addr: mad.Addr{LID: b.e.LID(), QP: 1, HasGRH: true, GRH: mad.GRH{GID: sa, HopLimit: 1}}, LocalQP: 1, Data: m[:]})
	}
	send()
	if answers != 1 || asked.Addr.LID != b.lid("h1.0") || asked.Addr.GRH.GID != b.gid(b.vf("h1.0", 2)) || !asked.Addr.HasGRH {
		t.Errorf("%d answers to %+v", answers, asked.Addr)
	}
	withGRH = false
	unmatched := b.s.Stats().Drops[DropUnmatched]
	send()
	if answers != 1 || b.s.Stats().Drops[DropUnmatched] != unmatched+1 {
		t.Errorf("%d answers, the second without a GRH", answers)
	}
	if neighbors != 0 {
		t.Errorf("neighbors got %d", neighbors)
	}
	if e.LID() != b.lid("h1.0") || e.PortGUID() != b.gid(b.vf("h1.0", 2)).GUID() || len(e.GIDs(nil)) != 1 || e.PKeys(nil)[0] != full {
		t.Errorf("LID %v GUID %v GIDs %v", e.LID(), e.PortGUID(), e.GIDs(nil))
	}
}

// TestAliasOfVPort: a VPort has the manager's GIDs in addition to its own, which no
// VPortGUIDInfo changes.
func TestAliasOfVPort(t *testing.T) {
	b := relayBed(t, Config{})
	own := b.gid(b.vf("h1.0", 1)).GUID()
	r, st := b.set(b.to("h1.0"), smp.AttrVPortGUIDInfo, smp.VPortTableMod(1, 0), &smp.VPortGUIDInfo{5, 0xAA, 7: 0xBB})
	var g smp.VPortGUIDInfo
	if err := g.Decode(smp.Data(r)); st != ib.StatusOK || err != nil || g != (smp.VPortGUIDInfo{own, 0xAA, 7: 0xBB}) {
		t.Errorf("%v %v", st, g)
	}
	for _, guid := range []ib.GUID{own, 0xAA, 0xBB} {
		a := mad.Addr{LID: b.lid("h1.0"), HasGRH: true, GRH: mad.GRH{GID: ib.MakeGID(ib.DefaultSubnetPrefix, guid)}}
		if p := b.probeAddr(b.vf("h0.1", 1), a, full); !p.Answered || p.At != b.vf("h1.0", 1) {
			t.Errorf("%v: %v", guid, p)
		}
	}
	// An agent answers from the GID that it was asked by.
	var m ib.MAD
	pm.New(&m, ib.MethodGet, pm.AttrClassPortInfo, 0)
	alias := ib.MakeGID(ib.DefaultSubnetPrefix, 0xBB)
	b.do(&m, mad.Addr{LID: b.lid("h1.0"), HasGRH: true, GRH: mad.GRH{GID: alias}})
	if len(b.got) != 1 || b.got[0].Addr.GRH.GID != alias {
		t.Errorf("asked %v, answered by %+v", alias, b.got)
	}
	if lid, ok := b.s.FindGID(ib.MakeGID(ib.DefaultSubnetPrefix, 0xBB)); !ok || lid != b.lid("h1.0") {
		t.Error(lid, ok)
	}
}

// TestVPortCounters: the counters of VPorts add up to those of the port.
func TestVPortCounters(t *testing.T) {
	b := relayBed(t, Config{})
	n := b.vf("h1.0", 1).Node
	ask64 := func(i int, reset bool) (c pm.VPortCountersExtended, st ib.Status) {
		var m ib.MAD
		method := ib.MethodGet
		if reset {
			method = ib.MethodSet
		}
		pm.New(&m, method, pm.AttrVPortCountersExtended, 0)
		q := pm.VPortCountersExtended{PortSelect: 1, VPortIndex: uint16(i), CounterSelect: pm.SelVPortAll}
		q.Put(pm.Data(&m))
		r := b.do(&m, mad.Addr{LID: b.lid("h1.0")})
		if err := c.Decode(pm.Data(r)[:pm.VPortCountersExtendedLen]); err != nil {
			t.Fatal(err)
		}
		return c, r.Status()
	}
	pt := &b.s.ports[b.s.devs[n].first+1]
	pt.cnt = counters{}
	for i := range pt.hv.vps {
		pt.hv.vps[i].cnt = counters{}
	}
	for i := 1; i <= 5; i++ {
		for range i {
			b.probe(b.vf("h0.1", 1), b.vf("h1.0", i), full)
		}
	}
	b.probe(b.vf("h1.0", 1), b.vf("h1.0", 2), full) // stays inside
	b.get(b.to("h1.0"), smp.AttrNodeInfo, 0)
	var xmit, rcv uint64
	phys := pt.cnt
	for i := range pt.hv.vps {
		xmit, rcv = xmit+pt.hv.vps[i].cnt.uxmit, rcv+pt.hv.vps[i].cnt.urcv
	}
	if xmit != phys.uxmit || rcv != phys.urcv || rcv != 16 {
		t.Errorf("VPorts %d out, %d in; port %d, %d", xmit, rcv, phys.uxmit, phys.urcv)
	}
	c, st := ask64(3, false)
	if st != ib.StatusOK || c.PortUnicastRcvPkts != 3 || c.PortXmitPkts != 3 || c.PortRcvData != 3*madWords || c.VPortIndex != 3 {
		t.Errorf("%v %+v", st, c)
	}
	if c, st = ask64(3, true); st != ib.StatusOK || c.PortUnicastRcvPkts != 0 || c.PortXmitData != 0 {
		t.Errorf("%v %+v", st, c)
	}
	if _, st = ask64(6, false); st != ib.StatusInvalidField {
		t.Error(st)
	}
	// Its own PMA has its own counters and no others.
	ask := func(attr ib.AttrID, i int) ib.Status {
		var m ib.MAD
		pm.New(&m, ib.MethodGet, attr, 0)
		q := pm.VPortCountersExtended{PortSelect: 1, VPortIndex: uint16(i)}
		q.Put(pm.Data(&m))
		r := b.do(&m, mad.Addr{LID: b.lid("h1.0"), HasGRH: true, GRH: mad.GRH{GID: b.gid(b.vf("h1.0", 2))}})
		if b.got[0].Addr.GRH.GID != b.gid(b.vf("h1.0", 2)) {
			t.Errorf("answered from %v", b.got[0].Addr.GRH.GID)
		}
		if cpi := (ib.ClassPortInfo{}); attr == pm.AttrClassPortInfo {
			if err := cpi.Decode(pm.Data(r)[:ib.ClassPortInfoLen]); err != nil || cpi.CapabilityMask2&pm.Cap2Virtualization == 0 {
				t.Errorf("%v %+v", err, cpi)
			}
		}
		return r.Status()
	}
	for _, x := range []struct {
		attr ib.AttrID
		i    int
		want ib.Status
	}{
		{pm.AttrVPortCountersExtended, 2, ib.StatusOK},
		{pm.AttrVPortCountersExtended, 1, ib.StatusInvalidField},
		{pm.AttrPortCounters, 2, ib.StatusBadMethodAttr},
		{pm.AttrPortSamplesControl, 2, ib.StatusBadMethodAttr},
		{pm.AttrClassPortInfo, 2, ib.StatusOK},
	} {
		if st := ask(x.attr, x.i); st != x.want {
			t.Errorf("%v %d: %v, want %v", x.attr, x.i, st, x.want)
		}
	}
}
