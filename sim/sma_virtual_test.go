package sim

import (
	"slices"
	"testing"
	"time"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
)

// TestVirtualStatus: the requests that an agent executes, and the status codes of the
// others.
func TestVirtualStatus(t *testing.T) {
	b := cloud(t, Config{})
	b.hypervisor("h1.0", Hypervisor{Model: VPorts, VFs: 200})
	const (
		ok    = ib.StatusOK
		field = ib.StatusInvalidField
		attr  = ib.StatusBadMethodAttr
	)
	for _, c := range []struct {
		attr            ib.AttrID
		am              uint32
		getOff, setOff  ib.Status
		getOn, setOn    ib.Status
		otherwise, what string
	}{
		{attr: smp.AttrVirtualizationInfo, am: 0},
		{attr: smp.AttrVirtualizationInfo, am: 1, getOff: field, setOff: field, getOn: field, setOn: field},
		{attr: smp.AttrVPortInfo, am: 0, setOff: attr, setOn: attr},
		{attr: smp.AttrVPortInfo, am: 1, getOff: field, setOff: field},
		{attr: smp.AttrVPortInfo, am: 200, getOff: field, setOff: field},
		{attr: smp.AttrVPortInfo, am: 201, getOff: field, setOff: field, getOn: field, setOn: field},
		{attr: smp.AttrVPortInfo, am: 1 << 16, getOff: field, setOff: field, getOn: field, setOn: field},
		{attr: smp.AttrVNodeInfo, am: 0, setOff: attr, setOn: attr},
		{attr: smp.AttrVNodeInfo, am: 1, getOff: field, setOff: attr, setOn: attr},
		{attr: smp.AttrVNodeInfo, am: 201, getOff: field, setOff: attr, getOn: field, setOn: attr},
		{attr: smp.AttrVPortState, am: 0, setOff: attr, setOn: attr},
		{attr: smp.AttrVPortState, am: 1, setOff: attr, setOn: attr},
		{attr: smp.AttrVPortState, am: 2, getOff: field, setOff: attr, getOn: field, setOn: attr},
		{attr: smp.AttrVPortState, am: 1 << 25, getOff: field, setOff: attr, getOn: field, setOn: attr},
		{attr: smp.AttrVNodeDescription, am: 0, setOff: attr, setOn: attr},
		{attr: smp.AttrVNodeDescription, am: 7, getOff: field, setOff: attr, setOn: attr},
		{attr: smp.AttrVPortGUIDInfo, am: smp.VPortTableMod(0, 0), setOff: attr, setOn: attr},
		{attr: smp.AttrVPortGUIDInfo, am: smp.VPortTableMod(0, 4), getOff: field, setOff: attr, getOn: field, setOn: attr},
		{attr: smp.AttrVPortGUIDInfo, am: smp.VPortTableMod(3, 0), getOff: field, setOff: field},
		{attr: smp.AttrVPortGUIDInfo, am: smp.VPortTableMod(3, 1), getOff: field, setOff: field, getOn: field, setOn: field},
		{attr: smp.AttrVPortPartitionTable, am: smp.VPortTableMod(0, 1), setOff: attr, setOn: attr},
		{attr: smp.AttrVPortPartitionTable, am: smp.VPortTableMod(3, 1), getOff: field, setOff: field},
		{attr: smp.AttrVPortPartitionTable, am: smp.VPortTableMod(3, 2), getOff: field, setOff: field, getOn: field, setOn: field},
		{attr: smp.AttrVPortPartitionTable, am: smp.VPortTableMod(201, 0), getOff: field, setOff: field, getOn: field, setOn: field},
		{attr: 0xFFB7, am: 0, getOff: attr, setOff: attr, getOn: attr, setOn: attr},
	} {
		for _, on := range []bool{false, true} {
			b.virtual("h1.0", on, true)
			get, set := c.getOff, c.setOff
			if on {
				get, set = c.getOn, c.setOn
			}
			if _, st := b.get(b.to("h1.0"), c.attr, c.am); st != get {
				t.Errorf("Get %v %#x, on %v: %v, want %v", c.attr, c.am, on, st, get)
			}
			before := b.s.Stats().VPortSets
			_, st := b.set(b.to("h1.0"), c.attr, c.am, nil)
			if st != set {
				t.Errorf("Set %v %#x, on %v: %v, want %v", c.attr, c.am, on, st, set)
			}
			if n := b.s.Stats().VPortSets - before; (n == 1) != (st == ok) {
				t.Errorf("Set %v %#x: %d Sets counted", c.attr, c.am, n)
			}
		}
		// Nobody but a port with VPorts has them.
		for _, n := range []string{"h0.0", "h0.1"} {
			if _, st := b.get(b.to(n), c.attr, c.am); st != attr {
				t.Errorf("%v of %s: %v", c.attr, n, st)
			}
		}
		if _, st := b.get([]byte{1}, c.attr, c.am); st != attr {
			t.Errorf("%v of a switch: %v", c.attr, st)
		}
	}
	// They are protected by the M_Key of the port.
	b.mustChange(b.to("h1.0"), 1, func(p *smp.PortInfo) { p.MKey, p.MKeyProtectBits = 5, 2 })
	if _, st := b.get(b.to("h1.0"), smp.AttrVirtualizationInfo, 0); st != noAnswer {
		t.Errorf("without the M_Key: %v", st)
	}
}

// TestVPortZeroMirrors: VPort 0 is the port, configured as such.
func TestVPortZeroMirrors(t *testing.T) {
	b := cloud(t, Config{})
	b.hypervisor("h1.0", Hypervisor{Model: VPorts, VFs: 2})
	to := b.to("h1.0")
	b.set(to, smp.AttrPKeyTable, 0, &smp.PKeyTable{full, 0x8005})
	b.set(to, smp.AttrGUIDInfo, 0, &smp.GUIDInfo{0, 0xAA})
	pi := b.portInfo(to, 1)
	same := func(attr, vattr ib.AttrID) {
		x, st := b.get(to, attr, 0)
		y, st2 := b.get(to, vattr, 0)
		if st != ib.StatusOK || st2 != ib.StatusOK || !slices.Equal(smp.Data(x), smp.Data(y)) {
			t.Errorf("%v % x, %v % x", attr, smp.Data(x), vattr, smp.Data(y))
		}
	}
	same(smp.AttrPKeyTable, smp.AttrVPortPartitionTable)
	same(smp.AttrGUIDInfo, smp.AttrVPortGUIDInfo)
	same(smp.AttrNodeDescription, smp.AttrVNodeDescription)
	p := b.mustVPort("h1.0", 0, nil)
	if p.VPortState != ib.StateActive || p.LIDRequired || p.LIDByVPortIndex != 0 || p.GUIDCap != pi.GUIDCap || p.PortGUID != b.s.GUIDs(b.vf("h1.0", 1).Node, 1)[0] {
		t.Errorf("%+v", p)
	}
	if !p.CapabilityMask.Has(ib.VPortCapIsCommunicationManagementSupported) || p.CapabilityMask.Has(ib.VPortCapIsSM) {
		t.Errorf("%v", p.CapabilityMask)
	}
	r, _ := b.get(to, smp.AttrNodeInfo, 0)
	var ni smp.NodeInfo
	if err := ni.Decode(smp.Data(r)); err != nil {
		t.Fatal(err)
	}
	r, _ = b.get(to, smp.AttrVNodeInfo, 0)
	var vn smp.VNodeInfo
	if err := vn.Decode(smp.Data(r)); err != nil || vn.VNodeGUID != ni.NodeGUID || vn.PortGUID != ni.PortGUID || vn.NumPorts != 1 || vn.PartitionCap != ni.PartitionCap {
		t.Errorf("%+v %+v", vn, ni)
	}
}

// TestVPortStateBlocks: 128 states per block, VPort 0 first, 0 for VPorts that do not
// exist.
func TestVPortStateBlocks(t *testing.T) {
	b := cloud(t, Config{})
	b.hypervisor("h1.0", Hypervisor{Model: VPorts, VFs: 130})
	b.virtual("h1.0", true, true)
	for _, i := range []int{1, 127, 128, 129} {
		must(t, b.s.EnableVPort(b.vf("h1.0", i)))
	}
	b.activate("h1.0", 128, 0)
	for block := range uint32(2) {
		r, st := b.get(b.to("h1.0"), smp.AttrVPortState, block)
		var s smp.VPortState
		if err := s.Decode(smp.Data(r)); st != ib.StatusOK || err != nil {
			t.Fatal(st, err)
		}
		for i, got := range s {
			want := ib.StateDown
			switch k := int(block)*128 + i; {
			case k > 130:
				want = 0
			case k == 0 || k == 128:
				want = ib.StateActive
			case k == 1 || k == 127 || k == 129:
				want = ib.StateInit
			}
			if got != want {
				t.Errorf("VPort %d is %v, want %v", int(block)*128+i, got, want)
			}
		}
	}
}

// TestVNodes: the functions of an adapter with two ports are the two ports of
// one virtual adapter.
func TestVNodes(t *testing.T) {
	b := newTestbed(t, chain(), Config{}, "H1")
	if err := b.s.LinkDown("S1", 2); err != nil {
		t.Fatal(err)
	}
	must(t, b.s.Link("H1", 2, "S1", 2))
	for p := 1; p <= 2; p++ {
		must(t, b.s.AddHypervisor("H1", p, Hypervisor{Model: VPorts, VFs: 3 - p}))
	}
	for _, x := range []struct {
		path     []byte
		i        uint32
		local, n uint8
	}{{nil, 1, 1, 2}, {nil, 2, 1, 1}, {[]byte{1, 2}, 1, 2, 2}} {
		if _, st := b.set(x.path, smp.AttrVirtualizationInfo, 0, &smp.VirtualizationInfo{VirtualizationEnable: true}); st != ib.StatusOK {
			t.Fatal(st)
		}
		r, st := b.get(x.path, smp.AttrVNodeInfo, x.i)
		var vn smp.VNodeInfo
		if st != ib.StatusOK || vn.Decode(smp.Data(r)) != nil {
			t.Fatal(st)
		}
		if vn.LocalPortNum != x.local || vn.NumPorts != x.n || vn.VNodeGUID != 0x100+ib.GUID(x.i)<<40 || vn.PortGUID != 0x100+ib.GUID(x.i)<<40+ib.GUID(x.local) {
			t.Errorf("%v %d: %+v", x.path, x.i, vn)
		}
	}
}

// TestVPortTraps: 1146 and 1144 are aggregated, repeated until repressed, and not sent
// by a port that cannot send traps; then only the bit is set.
func TestVPortTraps(t *testing.T) {
	b := cloud(t, Config{})
	b.e.Accepts = func(*mad.Packet) bool { return true }
	var seen []mad.Packet
	var notices []smp.Notice
	take := b.e.OnPacket
	b.e.OnPacket = func(p *mad.Packet) {
		m := ib.MAD(p.Data)
		var n smp.Notice
		if m.Method() == ib.MethodTrap && n.Decode(smp.Data(&m)) == nil {
			notices, seen = append(notices, n), append(seen, keep(p))
		}
		take(p)
	}
	numbers := func() (l []uint16) {
		for _, n := range notices {
			l = append(l, n.TrapNumber)
		}
		notices = nil
		return l
	}
	repress := func() {
		for _, p := range seen {
			m := ib.MAD(p.Data)
			m.SetMethod(ib.MethodTrapRepress)
			b.e.Send(&mad.Packet{Addr: p.Addr, Data: m[:]})
		}
		seen = nil
	}
	wait := func(d time.Duration) { b.s.RunUntil(b.s.Now().Add(d)) }
	b.hypervisor("h1.0", Hypervisor{Model: VPorts, VFs: 3})
	must(t, b.s.SetVPortDescription(b.vf("h1.0", 2), "while off")) // nobody's business yet
	b.virtual("h1.0", true, true)
	if l := numbers(); l != nil {
		t.Errorf("enabling sent %v", l)
	}
	for i := 1; i <= 3; i++ {
		must(t, b.s.EnableVPort(b.vf("h1.0", i)))
	}
	wait(2500 * time.Millisecond)
	if l := numbers(); len(l) < 2 || slices.Max(l) != 1146 || slices.Min(l) != 1146 || b.s.Stats().Traps != 1 {
		t.Errorf("three VPorts up: %v, %d different traps", l, b.s.Stats().Traps)
	}
	repress()
	wait(5 * time.Second)
	if l := numbers(); l != nil {
		t.Errorf("after TrapRepress: %v", l)
	}
	must(t, b.s.SetVPortDescription(b.vf("h1.0", 2), "renamed"))
	if len(notices) != 1 {
		t.Fatalf("%d notices", len(notices))
	}
	d, ok := notices[0].Detail().(smp.DetailVPortChange)
	if !ok || notices[0].Type != smp.NoticeInformational || !notices[0].IsGeneric || notices[0].Producer != smp.ProducerCA ||
		d != (smp.DetailVPortChange{
			LID: b.lid("h1.0"), OtherLocalChanges: true, CapabilityMask: ib.VPortCapIsCommunicationManagementSupported,
			ChangeFlags: smp.ChangeNodeDescription, VPortIndex: 2,
		}) {
		t.Errorf("%+v %+v", notices[0], notices[0].Detail())
	}
	repress()
	wait(5 * time.Second)
	notices = nil
	r, _ := b.get(b.to("h1.0"), smp.AttrVNodeDescription, 2)
	var desc smp.NodeDescription
	if desc.Decode(smp.Data(r)) != nil || desc.String() != "renamed" {
		t.Errorf("%q", desc.String())
	}
	must(t, b.s.SetVPortCapabilities(b.vf("h1.0", 2), ib.VPortCapIsDeviceManagementSupported))
	must(t, b.s.SetVPortCapabilities(b.vf("h1.0", 2), ib.VPortCapIsDeviceManagementSupported)) // no news
	wait(10 * time.Millisecond)
	if l := numbers(); !slices.Equal(l, []uint16{1144}) {
		t.Errorf("capabilities: %v", l)
	}
	repress()
	wait(5 * time.Second)
	notices = nil
	for _, n := range []uint16{1144, 1146, 1257, 1258} {
		must(t, b.s.InjectVPortTrap(b.vf("h1.0", 1), n))
		wait(1200 * time.Millisecond)
		repress()
	}
	if l := numbers(); !slices.Equal(slices.Compact(l), []uint16{1144, 1146, 1257, 1258}) {
		t.Errorf("injected: %v", l)
	}
	if b.mustVPort("h1.0", 1, nil).QKeyViolations != 1 || b.s.InjectVPortTrap(b.vf("h1.0", 1), 128) == nil {
		t.Error("Q_Key violation not counted, or trap 128 from a VPort")
	}
	wait(5 * time.Second)
	// A port that is not Active sends nothing, but does not forget.
	b.virtual("h1.0", true, true)
	b.s.setState(b.s.devs[b.vf("h1.0", 1).Node].first+1, ib.StateInit)
	notices = nil
	must(t, b.s.DisableVPort(b.vf("h1.0", 1)))
	wait(5 * time.Second)
	if l := numbers(); l != nil {
		t.Errorf("a port in Init sent %v", l)
	}
	if vi := b.virtual("h1.0", true, false); !vi.VPortStateChange {
		t.Error("the change is forgotten")
	}
}

// TestVendorTraps: the same traps in NVIDIA's form.
func TestVendorTraps(t *testing.T) {
	b := cloud(t, Config{TrapMax: 1})
	b.e.Accepts = func(*mad.Packet) bool { return true }
	var got []smp.Notice
	take := b.e.OnPacket
	b.e.OnPacket = func(p *mad.Packet) {
		m := ib.MAD(p.Data)
		var n smp.Notice
		if m.Method() == ib.MethodTrap && n.Decode(smp.Data(&m)) == nil {
			got = append(got, n)
		}
		take(p)
	}
	b.hypervisor("h1.0", Hypervisor{Model: VPorts, VFs: 1, VendorTraps: true})
	b.virtual("h1.0", true, true)
	for _, number := range []uint16{1144, 1146, 1257, 1258} {
		got = nil
		must(t, b.s.InjectVPortTrap(b.vf("h1.0", 1), number))
		b.s.RunUntil(b.s.Now().Add(20 * time.Second))
		if len(got) == 0 {
			t.Fatalf("no trap %d", number)
		}
		n := got[0]
		trap, ok := n.Trap()
		if n.IsGeneric || !ok || trap != number || n.Type != smp.TrapType(number) || n.IssuerLID != b.lid("h1.0") {
			t.Errorf("%+v", n)
		}
		if d, ok := n.Detail().(smp.DetailVPortChange); number == 1144 && (!ok || d.VPortIndex != 1 || d.VendorTrap != 1144) {
			t.Errorf("%+v", n.Detail())
		}
	}
}

// TestVPortReregister is one-shot: only the response to the Set shows it.
func TestVPortReregister(t *testing.T) {
	b := cloud(t, Config{})
	b.hypervisor("h1.0", Hypervisor{Model: VPorts, VFs: 1})
	b.virtual("h1.0", true, true)
	if p := b.mustVPort("h1.0", 1, func(p *smp.VPortInfo) { p.ClientReregister = true }); !p.ClientReregister {
		t.Error("the answer does not show it")
	}
	if p := b.mustVPort("h1.0", 1, nil); p.ClientReregister {
		t.Error("it stays")
	}
}

// FuzzVirtualSMA: no Set or Get of virtualization attributes makes an agent panic,
// break the state machine, or return wrong contents.
func FuzzVirtualSMA(f *testing.F) {
	for attr := smp.AttrVirtualizationInfo; attr <= smp.AttrVPortPartitionTable; attr++ {
		f.Add(uint16(attr), uint32(0), []byte{0x80, 1, 2})
		f.Add(uint16(attr), uint32(1), []byte{0x40, 0, 0, 0, 0xA0})
		f.Add(uint16(attr), uint32(1<<16), []byte{0x20, 0, 0, 0, 0, 0, 0, 0, 0, 9})
	}
	f.Fuzz(func(t *testing.T, attr uint16, am uint32, data []byte) {
		for _, m := range []Model{SharedPort, VSwitch, VPorts} {
			b := cloud(t, Config{TrapMax: 2})
			b.hypervisor("h1.0", Hypervisor{Model: m, VFs: 4})
			if m != SharedPort {
				b.virtual("h1.0", true, true)
			}
			must(t, b.s.PlaceVM("a", b.vf("h1.0", 1), VMOptions{GUID: 7}))
			must(t, b.s.EnableVPort(b.vf("h1.0", 2)))
			for _, method := range []ib.Method{ib.MethodSet, ib.MethodGet} {
				var q ib.MAD
				smp.NewDR(&q, method, ib.AttrID(attr), am, 0, b.to("h1.0"))
				copy(smp.Data(&q), data)
				b.answer(&q, dr)
			}
			for i := 1; i <= 4; i++ {
				st, err := b.s.VPort(b.vf("h1.0", i))
				if err != nil || st.State > ib.StateActive || st.State == 0 || !st.Up && st.State != ib.StateDown || st.LID.IsMulticast() {
					t.Fatalf("%v function %d: %+v %v", m, i, st, err)
				}
				b.probe(b.vf("h1.0", i), b.vf("h1.0", 1), full)
			}
			for range 100 {
				if !b.s.Step() {
					break
				}
			}
		}
	})
}
