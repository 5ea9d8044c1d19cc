package sim

import (
	"errors"
	"testing"
	"time"

	"heddle/fabric"
	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
)

// cloud is a tree of two leaves and a spine with two hosts at each leaf, all
// LIDs given, all tables written, all links Active; the endpoint of the testbed is
// the manager on h0.0. h0.1, h1.0 and h1.1 can be made hypervisors.
func cloud(t testing.TB, c Config) *testbed {
	t.Helper()
	f := tree(2, 1, 2)
	fabric.AssignLIDs(f, 1)
	b := newTestbed(t, f, c, "h0.0")
	s := b.s
	for i := range s.ports {
		p := &s.ports[i]
		if p.peer >= 0 {
			p.state = ib.StateActive
		}
		if s.endPort(int32(i)) == int32(i) {
			s.infos[i].MasterSMLID = b.e.LID()
		}
	}
	for _, l := range s.LIDs() {
		b.routeTo(l.LID, l.Node)
	}
	return b
}

// routeTo points the tables of all switches for a LID at a host, or at a
// switch itself: down if it is below, else up.
func (b *testbed) routeTo(lid ib.LID, node int) {
	s := b.s
	for i := range s.devs {
		d := &s.devs[i]
		if d.sw == nil || i == node {
			continue
		}
		if b.behind(i, node, -1) == 0 {
			b.Fatalf("no way from node %d to node %d", i, node)
		}
		s.SetLFT(i, lid, b.behind(i, node, -1))
		d.sw.info.LinearFDBTop = max(d.sw.info.LinearFDBTop, lid)
	}
}

// behind is the port of node i that leads to node without going back to from.
func (b *testbed) behind(i, node, from int) uint8 {
	d := &b.s.devs[i]
	for p := 1; p <= int(d.nports); p++ {
		q := b.s.ports[d.first+int32(p)].peer
		if q < 0 {
			continue
		}
		if n := int(b.s.ports[q].dev); n == node || n != from && b.s.devs[n].sw != nil && b.behind(n, node, i) != 0 {
			return uint8(p)
		}
	}
	return 0
}

func (b *testbed) hypervisor(node string, h Hypervisor) {
	b.Helper()
	if err := b.s.AddHypervisor(node, 1, h); err != nil {
		b.Fatal(err)
	}
}

func (b *testbed) vf(node string, i int) VF {
	b.Helper()
	f, err := b.s.VF(node, 1, i)
	if err != nil {
		b.Fatal(err)
	}
	return f
}

// to is the directed route from h0.0 to a node of cloud.
func (b *testbed) to(node string) []byte {
	b.Helper()
	p, ok := map[string][]byte{"h0.0": {}, "h0.1": {1, 2}, "h1.0": {1, 3, 2, 1}, "h1.1": {1, 3, 2, 2}}[node]
	if !ok {
		b.Fatalf("no route to %s", node)
	}
	return p
}

// setVPort reads the VPortInfo of function i of a host, changes it and writes
// it back.
func (b *testbed) setVPort(node string, i int, fn func(*smp.VPortInfo)) (p smp.VPortInfo, st ib.Status) {
	b.Helper()
	r, st := b.get(b.to(node), smp.AttrVPortInfo, smp.VPortMod(uint16(i)))
	if st != ib.StatusOK {
		return p, st
	}
	if err := p.Decode(smp.Data(r)); err != nil {
		b.Fatal(err)
	}
	if fn == nil {
		return p, st
	}
	p.ClearForSet()
	fn(&p)
	r, st = b.set(b.to(node), smp.AttrVPortInfo, smp.VPortMod(uint16(i)), &p)
	if err := p.Decode(smp.Data(r)); err != nil {
		b.Fatal(err)
	}
	return p, st
}

func (b *testbed) mustVPort(node string, i int, fn func(*smp.VPortInfo)) smp.VPortInfo {
	b.Helper()
	p, st := b.setVPort(node, i, fn)
	if st != ib.StatusOK {
		b.Fatalf("VPortInfo %d of %s: %v", i, node, st)
	}
	return p
}

// virtual writes VirtualizationInfo: on or off, and whether VPortStateChange is
// cleared.
func (b *testbed) virtual(node string, on, clear bool) smp.VirtualizationInfo {
	b.Helper()
	i := smp.VirtualizationInfo{VirtualizationEnable: on, VPortStateChange: clear}
	r, st := b.set(b.to(node), smp.AttrVirtualizationInfo, 0, &i)
	if st != ib.StatusOK {
		b.Fatalf("Set(VirtualizationInfo) of %s: %v", node, st)
	}
	if err := i.Decode(smp.Data(r)); err != nil {
		b.Fatal(err)
	}
	return i
}

// activate makes a VPort Active, with a LID of its own if lid is not 0, to
// which the tables lead then.
func (b *testbed) activate(node string, i int, lid ib.LID) {
	b.Helper()
	if lid != 0 {
		b.routeTo(lid, b.vf(node, i).Node)
	}
	b.mustVPort(node, i, func(p *smp.VPortInfo) { p.VPortLID, p.VPortState = lid, ib.StateActive })
}

// lid is the LID of a host.
func (b *testbed) lid(node string) ib.LID {
	n, err := b.s.Node(node)
	if err != nil {
		b.Fatal(err)
	}
	return b.s.PortInfo(n, 1).LID
}

// gid is the GID of a function.
func (b *testbed) gid(f VF) ib.GID {
	v, err := b.s.function(f)
	if err != nil {
		b.Fatal(err)
	}
	return b.s.vgid(v, 0)
}

// probe sends a probe to a function's LID, with a GRH.
func (b *testbed) probe(from, to VF, key ib.PKey) *Probe {
	b.Helper()
	v, err := b.s.VPort(to)
	if err != nil {
		b.Fatal(err)
	}
	return b.probeAddr(from, mad.Addr{LID: v.LID, HasGRH: true, GRH: mad.GRH{GID: b.gid(to)}}, key)
}

func (b *testbed) probeAddr(from VF, to mad.Addr, key ib.PKey) *Probe {
	b.Helper()
	p, err := b.s.Probe(from, to, key)
	if err != nil {
		b.Fatal(err)
	}
	return p
}

const full = ib.PKeyDefaultFull

// TestHypervisorErrors: impossible configurations are refused, and the error names the
// port.
func TestHypervisorErrors(t *testing.T) {
	b := cloud(t, Config{})
	for _, c := range []struct {
		node string
		port int
		h    Hypervisor
	}{
		{"leaf0", 0, Hypervisor{Model: VPorts, VFs: 1}},
		{"h0.1", 2, Hypervisor{Model: VPorts, VFs: 1}},
		{"h0.1", 1, Hypervisor{Model: VPorts}},
		{"h0.1", 1, Hypervisor{Model: VPorts, VFs: 1025}},
		{"h0.1", 1, Hypervisor{Model: SharedPort, VFs: 128}},
		{"h0.1", 1, Hypervisor{VFs: 1}},
		{"nobody", 1, Hypervisor{Model: VPorts, VFs: 1}},
	} {
		if err := b.s.AddHypervisor(c.node, c.port, c.h); err == nil {
			t.Errorf("%+v was taken", c)
		}
	}
	b.hypervisor("h0.1", Hypervisor{Model: VPorts, VFs: 2})
	if err := b.s.AddHypervisor("h0.1", 1, Hypervisor{Model: VPorts, VFs: 2}); err == nil {
		t.Error("virtual functions twice")
	}
	for _, i := range []int{-1, 3, 70000} {
		if _, err := b.s.VF("h0.1", 1, i); !errors.Is(err, ErrNoVF) {
			t.Errorf("index %d: %v", i, err)
		}
	}
	if _, err := b.s.VF("h1.0", 1, 1); !errors.Is(err, ErrNoVF) {
		t.Error(err)
	}
	if err := b.s.EnableVPort(VF{Node: 99, Port: 1, Index: 1}); !errors.Is(err, ErrNoVF) {
		t.Error(err)
	}
	if e, err := b.s.AttachVPort(b.vf("h0.1", 1)); err != nil || e.SetIsSM(true) == nil {
		t.Errorf("a manager in a VM: %v", err)
	}
}

// TestVPortStateMachine is the table of docs/virtualization.md.
func TestVPortStateMachine(t *testing.T) {
	b := cloud(t, Config{})
	b.e.Accepts = func(*mad.Packet) bool { return true }
	traps := 0
	old := b.e.OnPacket
	b.e.OnPacket = func(p *mad.Packet) {
		if m := ib.MAD(p.Data); m.Method() == ib.MethodTrap {
			traps++
			m.SetMethod(ib.MethodTrapRepress)
			b.e.Send(&mad.Packet{Addr: p.Addr, Data: m[:]})
		}
		old(p)
	}
	b.hypervisor("h1.0", Hypervisor{Model: VPorts, VFs: 2})
	f := b.vf("h1.0", 1)
	set := func(st ib.PortState) func() ib.Status {
		return func() ib.Status {
			_, r := b.setVPort("h1.0", 1, func(p *smp.VPortInfo) { p.VPortState = st })
			return r
		}
	}
	ok := func(fn func()) func() ib.Status { return func() ib.Status { fn(); return ib.StatusOK } }
	up := ok(func() { must(t, b.s.EnableVPort(f)) })
	down := ok(func() { must(t, b.s.DisableVPort(f)) })
	on := ok(func() { b.virtual("h1.0", true, false) })
	off := ok(func() { b.virtual("h1.0", false, false) })
	const bad = ib.StatusInvalidField
	for i, c := range []struct {
		what    string
		do      func() ib.Status
		status  ib.Status
		state   ib.PortState
		changed bool // VPortStateChange
		traps   int
	}{
		{"up while off", up, 0, ib.StateDown, false, 0},
		{"Active while off", set(ib.StateActive), bad, ib.StateDown, false, 0},
		{"on", on, 0, ib.StateInit, true, 0},
		{"up again", up, 0, ib.StateInit, false, 0},
		{"no change", set(0), 0, ib.StateInit, false, 0},
		{"Init", set(ib.StateInit), bad, ib.StateInit, false, 0},
		{"Armed", set(ib.StateArmed), 0, ib.StateArmed, false, 0},
		{"Armed again", set(ib.StateArmed), bad, ib.StateArmed, false, 0},
		{"Active", set(ib.StateActive), 0, ib.StateActive, false, 0},
		{"Active again", set(ib.StateActive), bad, ib.StateActive, false, 0},
		{"Armed from Active", set(ib.StateArmed), bad, ib.StateActive, false, 0},
		{"a state that is none", set(7), bad, ib.StateActive, false, 0},
		{"Down by the manager", set(ib.StateDown), 0, ib.StateInit, true, 0},
		{"Active at once", set(ib.StateActive), 0, ib.StateActive, false, 0},
		{"down by the host", down, 0, ib.StateDown, true, 1},
		{"Down while down", set(ib.StateDown), 0, ib.StateDown, false, 0},
		{"Armed while down", set(ib.StateArmed), bad, ib.StateDown, false, 0},
		{"up by the host", up, 0, ib.StateInit, true, 1},
		{"off", off, 0, ib.StateDown, true, 0},
		{"on once more", on, 0, ib.StateInit, true, 0},
	} {
		b.virtual("h1.0", i > 2 && i < 19, true)
		traps = 0
		if st := c.do(); st != c.status {
			t.Errorf("%s: status %v, want %v", c.what, st, c.status)
		}
		b.s.RunUntil(b.s.Now().Add(2 * time.Second)) // past the gap between traps
		st, err := b.s.VPort(f)
		if err != nil || st.State != c.state {
			t.Errorf("%s: %v %v, want %v", c.what, st.State, err, c.state)
		}
		r, _ := b.get(b.to("h1.0"), smp.AttrVirtualizationInfo, 0)
		var vi smp.VirtualizationInfo
		if err := vi.Decode(smp.Data(r)); err != nil || vi.VPortStateChange != c.changed {
			t.Errorf("%s: VPortStateChange %v, want %v", c.what, vi.VPortStateChange, c.changed)
		}
		if traps != c.traps {
			t.Errorf("%s: %d traps, want %d", c.what, traps, c.traps)
		}
	}
	// The physical link has no say.
	b.activate("h1.0", 1, 0)
	must(t, b.s.LinkDown("h1.0", 1))
	if st, _ := b.s.VPort(f); st.State != ib.StateActive {
		t.Errorf("%v after the link went down", st.State)
	}
}

// TestVPortNeedsLID: a VPort that requires a LID does not become Active without one.
func TestVPortNeedsLID(t *testing.T) {
	b := cloud(t, Config{})
	b.hypervisor("h1.0", Hypervisor{Model: VPorts, VFs: 3, OwnLIDs: true})
	b.virtual("h1.0", true, true)
	if err := b.s.SetLIDRequired(b.vf("h1.0", 2), false, 1); err != nil {
		t.Fatal(err)
	}
	for i := 1; i <= 3; i++ {
		if err := b.s.EnableVPort(b.vf("h1.0", i)); err != nil {
			t.Fatal(err)
		}
	}
	active := func(p *smp.VPortInfo) { p.VPortState = ib.StateActive }
	for i := 1; i <= 2; i++ {
		if p, st := b.setVPort("h1.0", i, active); st != ib.StatusInvalidField || p.VPortState != ib.StateInit {
			t.Errorf("VPort %d without a LID: %v, %v", i, st, p.VPortState)
		}
	}
	p := b.mustVPort("h1.0", 1, func(p *smp.VPortInfo) { p.VPortLID, p.VPortState = 77, ib.StateActive })
	if !p.LIDRequired || p.VPortLID != 77 || p.VPortState != ib.StateActive {
		t.Errorf("%+v", p)
	}
	if p := b.mustVPort("h1.0", 2, active); p.LIDRequired || p.VPortLID != 0 || p.LIDByVPortIndex != 1 {
		t.Errorf("%+v", p)
	}
	if _, st := b.setVPort("h1.0", 1, func(p *smp.VPortInfo) { p.VPortLID = 0xC000 }); st != ib.StatusInvalidField {
		t.Errorf("a multicast LID: %v", st)
	}
	if err := b.s.SetLIDRequired(b.vf("h1.0", 2), true, 0); err == nil {
		t.Error("the LID was changed under an Active VPort")
	}
	if err := b.s.SetLIDRequired(b.vf("h1.0", 3), false, 4); err == nil {
		t.Error("the LID of a VPort that does not exist")
	}
	if r, ok := b.s.FindLID(77); !ok || r.Node != int32(b.vf("h1.0", 1).Node) {
		t.Errorf("LID 77 is at %v %v", r, ok)
	}
	found := 0
	for _, l := range b.s.LIDs() {
		if l.LID == 77 && l.VPort == 1 && l.Num == 1 {
			found++
		}
	}
	if g, _ := b.s.Graph(); found != 1 || g.LIDOwner[77] != g.LIDOwner[b.lid("h1.0")] {
		t.Errorf("LID 77 is listed %d times, owner %d", found, g.LIDOwner[77])
	}
}

// TestHypervisorReboot: a rebooted hypervisor has its VMs, but no manager's
// configuration.
func TestHypervisorReboot(t *testing.T) {
	b := cloud(t, Config{})
	b.hypervisor("h1.0", Hypervisor{Model: VPorts, VFs: 2})
	must(t, b.s.PlaceVM("vm", b.vf("h1.0", 1), VMOptions{GUID: 0xABC, OwnLID: true}))
	must(t, b.s.SetLIDRequired(b.vf("h1.0", 2), true, 0))
	b.virtual("h1.0", true, true)
	b.activate("h1.0", 1, 77)
	b.set(b.to("h1.0"), smp.AttrVPortPartitionTable, smp.VPortTableMod(1, 0), &smp.VPortPartitionTable{0x8001})
	must(t, b.s.NodeDown("h1.0"))
	if st, _ := b.s.VM("vm"); st.State != ib.StateDown {
		t.Errorf("on a node that is off: %+v", st)
	}
	must(t, b.s.NodeUp("h1.0"))
	vi := b.virtual("h1.0", false, false)
	if vi.VirtualizationEnable || vi.VPortStateChange {
		t.Errorf("%+v", vi)
	}
	st, _ := b.s.VM("vm")
	if st.State != ib.StateDown || st.LID != 0 || st.GID.GUID() != 0xABC || len(st.PKeys) != 1 || st.PKeys[0] != full {
		t.Errorf("%+v", st)
	}
	b.virtual("h1.0", true, false)
	if st, _ := b.s.VM("vm"); st.State != ib.StateInit {
		t.Errorf("%+v", st)
	}
	if p := b.mustVPort("h1.0", 2, nil); !p.LIDRequired {
		t.Errorf("what the host chose is forgotten: %+v", p)
	}
	if pi := b.portInfo(b.to("h1.0"), 1); !pi.IsVirtualizationSupported() {
		t.Error("the port has lost its capability")
	}
}

// TestHotPlug: functions are added and removed; VPortIndexTop shows it.
func TestHotPlug(t *testing.T) {
	b := cloud(t, Config{})
	b.hypervisor("h1.0", Hypervisor{Model: VPorts, VFs: 4})
	vi := b.virtual("h1.0", true, true)
	if vi.VPortCap != 4 || vi.VPortIndexTop != 4 {
		t.Errorf("%+v", vi)
	}
	gone := b.vf("h1.0", 4)
	if err := b.s.PlaceVM("vm", gone, VMOptions{}); err != nil {
		t.Fatal(err)
	}
	b.virtual("h1.0", true, true)
	if err := b.s.SetVFs("h1.0", 1, 2); err != nil {
		t.Fatal(err)
	}
	if vi = b.virtual("h1.0", true, false); vi.VPortIndexTop != 2 || !vi.VPortStateChange {
		t.Errorf("%+v", vi)
	}
	if _, st := b.get(b.to("h1.0"), smp.AttrVPortInfo, 4); st != ib.StatusInvalidField {
		t.Error(st)
	}
	if st, _ := b.s.VM("vm"); st.At.Node != -1 {
		t.Errorf("%+v", st)
	}
	if b.s.EnableVPort(gone) == nil || b.s.SetVFs("h1.0", 1, 5) == nil || b.s.SetVFs("h0.1", 1, 1) == nil {
		t.Error("functions out of nothing")
	}
	if err := b.s.SetVFs("h1.0", 1, 4); err != nil {
		t.Fatal(err)
	}
	if p := b.mustVPort("h1.0", 4, nil); p.VPortState != ib.StateDown {
		t.Errorf("%+v", p)
	}
}
