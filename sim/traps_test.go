package sim

import (
	"slices"
	"testing"
	"time"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
)

// trapBed is a configured chain whose endpoint on H1 is the SM; traps lists
// what came in: number, issuer, TID, time.
type arrived struct {
	number uint16
	issuer ib.LID
	tid    uint64
	at     mad.Time
	pkt    mad.Packet
}

func trapBed(t *testing.T, c Config) (*testbed, *[]arrived) {
	b := newTestbed(t, chain(), c, "H1")
	b.configure()
	b.e.Accepts = func(*mad.Packet) bool { return true }
	var l []arrived
	old := b.e.OnPacket
	b.e.OnPacket = func(p *mad.Packet) {
		m := ib.MAD(p.Data)
		if m.Method() == ib.MethodTrap {
			var n smp.Notice
			if err := n.Decode(smp.Data(&m)); err != nil {
				t.Fatal(err)
			}
			if smp.MKey(&m) != 0 || m.Status() != 0 || m.AttrMod() != 0 || m.Class() != ib.ClassSubnLID || p.Addr.LID != n.IssuerLID {
				t.Errorf("trap is malformed: % x", m[:32])
			}
			l = append(l, arrived{n.TrapNumber, n.IssuerLID, m.TID(), b.s.Now(), keep(p)})
		}
		old(p)
	}
	return b, &l
}

// repress answers a trap.
func (b *testbed) repress(a arrived, k ib.MKey) {
	m := ib.MAD(a.pkt.Data)
	m.SetMethod(ib.MethodTrapRepress)
	smp.SetMKey(&m, k)
	b.e.Send(&mad.Packet{Addr: a.pkt.Addr, Data: m[:]})
}

// TestTrap128: the switch at each end of a link that fails or trains by itself reports
// it, with PortStateChange; CAs do not.
func TestTrap128(t *testing.T) {
	b, traps := trapBed(t, Config{})
	clear := func() {
		for _, p := range [][]byte{toS1, toS2} {
			b.switchInfo(p, func(si *smp.SwitchInfo) { si.PortStateChange = true })
		}
	}
	clear()
	if err := b.s.LinkDown("H2", 1); err != nil {
		t.Fatal(err)
	}
	if len(*traps) != 1 || (*traps)[0].number != 128 || (*traps)[0].issuer != 3 {
		t.Fatalf("link to H2 lost: %+v", *traps)
	}
	if !b.switchInfo(toS2, nil).PortStateChange || b.switchInfo(toS1, nil).PortStateChange {
		t.Error("PortStateChange is not set at S2 alone")
	}
	b.repress((*traps)[0], 0)
	clear()
	*traps = nil
	b.s.RunUntil(b.s.Now().Add(3 * time.Second))
	if err := b.s.LinkUp("S2", 2); err != nil {
		t.Fatal(err)
	}
	if len(*traps) != 1 || !b.switchInfo(toS2, nil).PortStateChange {
		t.Errorf("link trained again: %+v", *traps)
	}
	if pi := b.portInfo(toH2, 1); pi.PortState != ib.StateInit {
		t.Errorf("H2 is %v", pi.PortState)
	}
}

// TestTrap128BySet: when a manager takes a port down, the peer's switch sends the trap,
// not the port's own; arming and activating cause none.
func TestTrap128BySet(t *testing.T) {
	b, traps := trapBed(t, Config{})
	for _, p := range [][]byte{toS1, toS2} {
		b.switchInfo(p, func(si *smp.SwitchInfo) { si.PortStateChange = true })
	}
	b.mustChange(toS2, 1, func(p *smp.PortInfo) { p.PortState = ib.StateDown })
	if len(*traps) != 1 || (*traps)[0].issuer != 2 {
		t.Fatalf("%+v", *traps)
	}
	if b.switchInfo(toS2, nil).PortStateChange || !b.switchInfo(toS1, nil).PortStateChange {
		t.Error("PortStateChange is not set at the peer alone")
	}
	n := len(*traps)
	b.repress((*traps)[0], 0)
	b.switchInfo(toS1, func(si *smp.SwitchInfo) { si.PortStateChange = true })
	for _, st := range []ib.PortState{ib.StateArmed, ib.StateActive} {
		b.mustChange(toS1, 2, func(p *smp.PortInfo) { p.PortState = st })
		b.mustChange(toS2, 1, func(p *smp.PortInfo) { p.PortState = st })
	}
	if len(*traps) != n || b.switchInfo(toS1, nil).PortStateChange {
		t.Error("a transition that the manager made was reported")
	}
}

// TestTrapRepeats: a trap is repeated with the same TID, no faster than 4.096
// µs·2^SubnetTimeOut, until it is repressed with the right key (IBA §13.4.9).
func TestTrapRepeats(t *testing.T) {
	b, traps := trapBed(t, Config{})
	b.protect(toH2, 1, 0, 0)
	b.key = key
	if err := b.s.SetNodeDescription("H2", "other"); err != nil {
		t.Fatal(err)
	}
	b.s.RunUntil(b.s.Now().Add(5 * time.Second))
	if len(*traps) != 5 {
		t.Fatalf("%d traps in 5 s, want 5 (one each 1.07 s)", len(*traps))
	}
	for i, a := range *traps {
		if a.tid != (*traps)[0].tid || a.tid>>48 != 0 || a.number != 144 {
			t.Errorf("%+v", a)
		}
		if i > 0 && a.at-(*traps)[i-1].at < 4096<<18 {
			t.Errorf("gap of %v", a.at.Sub((*traps)[i-1].at))
		}
	}
	b.repress((*traps)[0], 1) // wrong key
	n := len(*traps)
	b.s.RunUntil(b.s.Now().Add(5 * time.Second))
	seen144 := slices.ContainsFunc((*traps)[n:], func(a arrived) bool { return a.number == 144 })
	if !seen144 {
		t.Error("a wrong key repressed the trap")
	}
	if !slices.ContainsFunc((*traps)[n:], func(a arrived) bool { return a.number == 256 }) {
		t.Error("no trap 256 for the wrong key")
	}
	for _, a := range *traps {
		b.repress(a, key)
	}
	n = len(*traps)
	b.s.RunUntil(b.s.Now().Add(10 * time.Second))
	if len(*traps) != n {
		t.Errorf("%d traps after they were repressed", len(*traps)-n)
	}
	if st := b.s.Stats(); st.TrapsRepressed != 2 {
		t.Errorf("%d traps repressed", st.TrapsRepressed)
	}
}

// TestTrapNeedsAddresses: no LID, no SM LID or a port that is not Active: no
// trap.
func TestTrapNeedsAddresses(t *testing.T) {
	for name, spoil := range map[string]func(*testbed){
		"no LID":     func(b *testbed) { b.s.ports[b.s.devs[nH2].first+1].lid = 0 },
		"no SM LID":  func(b *testbed) { b.s.infos[b.s.devs[nH2].first+1].MasterSMLID = 0 },
		"not Active": func(b *testbed) { b.s.ports[b.s.devs[nH2].first+1].state = ib.StateArmed },
		"no support": func(b *testbed) { b.s.infos[b.s.devs[nH2].first+1].CapabilityMask &^= ib.CapIsTrapSupported },
	} {
		b, traps := trapBed(t, Config{})
		spoil(b)
		if err := b.s.SetNodeDescription("H2", "other"); err != nil {
			t.Fatal(err)
		}
		b.s.RunUntil(b.s.Now().Add(10 * time.Second))
		if len(*traps) != 0 {
			t.Errorf("%s: %+v", name, *traps)
		}
	}
}

// TestTrap144IsSM: a port that gains or loses an SM sends the trap.
func TestTrap144IsSM(t *testing.T) {
	b, traps := trapBed(t, Config{})
	sm := b.attach("H2")
	if err := sm.SetIsSM(true); err != nil {
		t.Fatal(err)
	}
	if len(*traps) != 1 || (*traps)[0].number != 144 || (*traps)[0].issuer != 4 {
		t.Fatalf("%+v", *traps)
	}
	if !b.portInfo(toH2, 1).CapabilityMask.Has(ib.CapIsSM) {
		t.Error("IsSM is not set")
	}
	if err := b.attach("H2").SetIsSM(true); err == nil {
		t.Error("two SMs on one port")
	}
	sm.Close()
	if b.portInfo(toH2, 1).CapabilityMask.Has(ib.CapIsSM) {
		t.Error("IsSM stays after Close")
	}
}

// TestInjectTraps sends each trap number of real devices.
func TestInjectTraps(t *testing.T) {
	for _, c := range []struct {
		node string
		port int
		n    uint16
		ok   bool
	}{
		{"S2", 2, 128, true},
		{"H2", 1, 128, false},
		{"S2", 2, 129, true},
		{"S2", 2, 130, true},
		{"H2", 1, 131, true},
		{"H2", 1, 144, true},
		{"H2", 1, 145, true},
		{"H2", 1, 256, true},
		{"H2", 1, 257, true},
		{"H2", 1, 258, true},
		{"S2", 2, 259, true},
		{"H2", 1, 64, false},
		{"H9", 1, 144, false},
		{"S2", 9, 129, false},
	} {
		b, traps := trapBed(t, Config{})
		err := b.s.InjectTrap(c.node, c.port, c.n)
		if (err == nil) != c.ok || c.ok && (len(*traps) != 1 || (*traps)[0].number != c.n) {
			t.Errorf("trap %d at %s[%d]: %v, %+v", c.n, c.node, c.port, err, *traps)
		}
		if c.n >= 129 && c.n <= 131 && c.ok {
			if d := b.notice().DataDetails; int(d[4]) != c.port {
				t.Errorf("trap %d is about port %d", c.n, d[4])
			}
		}
	}
}

// TestTrapOfEndpoint: an endpoint's trap reaches the SM, and its repress reaches the
// endpoint.
func TestTrapOfEndpoint(t *testing.T) {
	b, traps := trapBed(t, Config{})
	sm := b.attach("H2")
	var back []ib.MAD
	sm.OnPacket = func(p *mad.Packet) { back = append(back, ib.MAD(p.Data)) }
	var m ib.MAD
	smp.NewLID(&m, ib.MethodTrap, smp.AttrNotice, 0, 0)
	m.SetTID(0x77)
	(&smp.Notice{IsGeneric: true, TrapNumber: 144, IssuerLID: 4}).Put(smp.Data(&m))
	sm.Send(&mad.Packet{Addr: mad.Addr{LID: 1}, Data: m[:]})
	if len(*traps) != 1 {
		t.Fatalf("%+v", *traps)
	}
	b.repress((*traps)[0], 0)
	if len(back) != 1 || back[0].Method() != ib.MethodTrapRepress || back[0].TID() != uint64(sm.Tag())<<48|0x77 {
		t.Fatalf("%d packets came back", len(back))
	}
}

// TestNoticeQueue: Get(Notice) returns the oldest pending trap, Set removes it.
func TestNoticeQueue(t *testing.T) {
	b, _ := trapBed(t, Config{})
	read := func() (n smp.Notice) {
		r, st := b.get(toH2, smp.AttrNotice, 0)
		if st != ib.StatusOK || n.Decode(smp.Data(r)) != nil {
			t.Fatal(st)
		}
		return n
	}
	if n := read(); n.Type != smp.NoticeEmpty {
		t.Errorf("%+v", n)
	}
	if err := b.s.InjectTrap("H2", 1, 258); err != nil {
		t.Fatal(err)
	}
	n := read()
	if n.TrapNumber != 258 || n.NoticeCount != 1 {
		t.Errorf("%+v", n)
	}
	if _, st := b.set(toH2, smp.AttrNotice, 0, &n); st != ib.StatusOK {
		t.Error(st)
	}
	if n := read(); n.Type != smp.NoticeEmpty {
		t.Errorf("after Set: %+v", n)
	}
}
