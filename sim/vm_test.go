package sim

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
)

// must fails the test unless a call went well.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestVSwitchMigration is the vSwitch paper's migration: one SMP to each of the two
// hypervisors, the destination's entry copied for the VM's LID, and the VM has its LID
// and GUID at the destination; in between it is at neither, and never at both.
func TestVSwitchMigration(t *testing.T) {
	b := cloud(t, Config{})
	for _, h := range []string{"h0.1", "h1.0", "h1.1"} {
		b.hypervisor(h, Hypervisor{Model: VSwitch, VFs: 2})
		if i := b.virtual(h, true, true); i.CapabilityMask&smp.VirtCapIsVSwitch == 0 || i.VPortCap != 2 {
			t.Errorf("%+v", i)
		}
	}
	src, dst, other := b.vf("h0.1", 1), b.vf("h1.0", 2), b.vf("h1.1", 1)
	must(t, b.s.PlaceVM("vm", src, VMOptions{}))
	must(t, b.s.PlaceVM("peer", other, VMOptions{}))
	give := func(node string, i int, lid ib.LID, g ib.GUID, st ib.PortState) smp.VPortInfo {
		t.Helper()
		return b.mustVPort(node, i, func(p *smp.VPortInfo) { p.VPortLID, p.PortGUID, p.VPortState = lid, g, st })
	}
	b.routeTo(100, src.Node)
	b.routeTo(101, other.Node)
	p := give("h0.1", 1, 100, 0xA1, ib.StateActive)
	if p.VPortState != ib.StateActive || p.VPortLID != 100 || p.PortGUID != 0xA1 || !p.LIDRequired {
		t.Errorf("%+v", p)
	}
	give("h1.1", 1, 101, 0xB1, ib.StateActive)
	peer, e := other, b.attachVM("peer")
	reach := func(what string, at VF, arrives bool) {
		t.Helper()
		a := mad.Addr{LID: 100, HasGRH: true, GRH: mad.GRH{GID: ib.MakeGID(ib.DefaultSubnetPrefix, 0xA1)}}
		for _, grh := range []bool{true, false} { // the LID is the VM's own
			a.HasGRH = grh
			if p := b.probeAddr(peer, a, full); p.Answered != arrives || arrives && p.At != at {
				t.Errorf("%s, GRH %v: %v", what, grh, p)
			}
		}
	}
	reach("at first", src, true)
	vm := b.attachVM("vm")
	sets := b.s.Stats().VPortSets
	must(t, b.s.MoveVM("vm", dst))
	reach("moved by the host alone", dst, false)
	first := b.s.devs[src.Node].guid + 1 + vfGUIDStep
	if p := give("h0.1", 1, 0, 0, 0); p.VPortLID != 0 || p.PortGUID != first {
		t.Errorf("unset: %+v, want GUID %v", p, first)
	}
	give("h1.0", 2, 100, 0xA1, ib.StateActive)
	if n := b.s.Stats().VPortSets - sets; n != 2 {
		t.Errorf("%d SMPs to hypervisors", n)
	}
	reach("tables not written", dst, false)
	// Copy the entry of the destination's own LID.
	writes := 0
	for i := range b.s.devs {
		if w := b.s.devs[i].sw; w != nil && w.route(100) != w.route(b.lid("h1.0")) {
			b.s.SetLFT(i, 100, w.route(b.lid("h1.0")))
			writes++
		}
	}
	reach("migrated", dst, true)
	if writes != 3 {
		t.Errorf("%d switches written", writes)
	}
	st, _ := b.s.VM("vm")
	if st.At != dst || st.LID != 100 || st.GID.GUID() != 0xA1 || st.State != ib.StateActive {
		t.Errorf("%+v", st)
	}
	// The programs in the VM came along.
	got := 0
	e.Accepts = func(*mad.Packet) bool { return true }
	e.OnPacket = func(p *mad.Packet) {
		got++
		if p.Addr.LID != 100 {
			t.Errorf("from %v", p.Addr.LID)
		}
	}
	var m ib.MAD
	m.SetHeader(ib.ClassCM, 2, ib.MethodSend, 0, 0)
	vm.Send(&mad.Packet{Addr: mad.Addr{LID: 101, QP: 1}, LocalQP: 1, Data: m[:]})
	if got != 1 || vm.LID() != 100 || vm.NodeIndex() != dst.Node {
		t.Errorf("%d packets from LID %v", got, vm.LID())
	}
	pi, ni, desc := vm.PortInfo(), vm.NodeInfo(), vm.NodeDescription()
	if pi.LID != 100 || pi.LMC != 0 || pi.PortState != ib.StateActive || ni.PortGUID != 0xA1 || ni.NodeGUID == b.s.devs[dst.Node].guid || desc.String() != "h1.0 VF 2" {
		t.Errorf("the VM sees %+v %+v %q", pi, ni, desc.String())
	}
	// A leaf with one cable and many LIDs.
	g, _ := b.s.Graph()
	if len(g.Switches) != 3 || g.LIDOwner[100] != g.LIDOwner[b.lid("h1.0")] {
		t.Errorf("%d switches, LID 100 of %d", len(g.Switches), g.LIDOwner[100])
	}
	must(t, b.s.RemoveVM("vm"))
	reach("removed", dst, false)
	if _, ok := b.s.VM("vm"); ok || vm.LID() == 0 {
		t.Error("still there")
	}
}

// TestVSwitchSwap: two functions exchange their LIDs, as with prepopulated LIDs.
func TestVSwitchSwap(t *testing.T) {
	b := cloud(t, Config{})
	lid := ib.LID(64)
	for _, h := range []string{"h0.1", "h1.0"} {
		b.hypervisor(h, Hypervisor{Model: VSwitch, VFs: 2})
		b.virtual(h, true, true)
		for i := 1; i <= 2; i++ { // while they are down
			b.routeTo(lid, b.vf(h, i).Node)
			if p := b.mustVPort(h, i, func(p *smp.VPortInfo) { p.VPortLID = lid }); p.VPortLID != lid || p.VPortState != ib.StateDown {
				t.Errorf("%+v", p)
			}
			lid++
		}
	}
	from := VF{Node: b.e.NodeIndex(), Port: 1}
	if p := b.probeAddr(from, mad.Addr{LID: 64}, full); p.Lost != DropState || p.LostAt.Node != int32(b.vf("h0.1", 1).Node) {
		t.Errorf("a function without a VM: %v", p)
	}
	must(t, b.s.PlaceVM("vm", b.vf("h0.1", 1), VMOptions{}))
	b.mustVPort("h0.1", 1, func(p *smp.VPortInfo) { p.VPortState = ib.StateActive })
	must(t, b.s.MoveVM("vm", b.vf("h1.0", 2)))
	b.mustVPort("h0.1", 1, func(p *smp.VPortInfo) { p.VPortLID = 67 })
	b.mustVPort("h1.0", 2, func(p *smp.VPortInfo) { p.VPortLID, p.VPortState = 64, ib.StateActive })
	for i := range b.s.devs {
		if w := b.s.devs[i].sw; w != nil {
			x, y := w.route(64), w.route(67)
			b.s.SetLFT(i, 64, y)
			b.s.SetLFT(i, 67, x)
		}
	}
	if p := b.probeAddr(from, mad.Addr{LID: 64}, full); !p.Answered || p.At != b.vf("h1.0", 2) {
		t.Error(p)
	}
	if p := b.probeAddr(from, mad.Addr{LID: 67}, full); p.Lost != DropState || p.LostAt.Node != int32(b.vf("h0.1", 1).Node) {
		t.Error(p)
	}
}

func (b *testbed) attachVM(name string) *Endpoint {
	b.Helper()
	e, err := b.s.AttachVM(name)
	must(b, err)
	return e
}

// TestSharedPort: alias GUIDs identify functions, transactions their responses, and
// each sees the part of the P_Key table that its host permits.
func TestSharedPort(t *testing.T) {
	b := cloud(t, Config{})
	b.set(b.to("h0.1"), smp.AttrGUIDInfo, 3, &smp.GUIDInfo{7: 0xAAAA}) // the table grows with the functions
	b.hypervisor("h0.1", Hypervisor{Model: SharedPort, VFs: 127})
	if _, st := b.set(b.to("h0.1"), smp.AttrGUIDInfo, 15, &smp.GUIDInfo{7: 0xBBBB}); st != ib.StatusOK || b.gid(b.vf("h0.1", 127)).GUID() != 0xBBBB || b.gid(b.vf("h0.1", 31)).GUID() != 0xAAAA {
		t.Errorf("GUIDs of functions 31 and 127: %v", st)
	}
	b.hypervisor("h1.0", Hypervisor{Model: SharedPort, VFs: 3})
	if pi := b.portInfo(b.to("h0.1"), 1); pi.IsVirtualizationSupported() {
		t.Error("a shared port claims to have VPorts")
	}
	if _, st := b.get(b.to("h0.1"), smp.AttrVirtualizationInfo, 0); st != ib.StatusBadMethodAttr {
		t.Error(st)
	}
	must(t, b.s.PlaceVM("a", b.vf("h0.1", 1), VMOptions{PKeys: []ib.PKey{1}}))
	must(t, b.s.PlaceVM("b", b.vf("h1.0", 2), VMOptions{PKeys: []ib.PKey{1, 2}}))
	must(t, b.s.PlaceVM("c", b.vf("h1.0", 1), VMOptions{PKeys: []ib.PKey{2}}))
	a, bb, c := b.vf("h0.1", 1), b.vf("h1.0", 2), b.vf("h1.0", 1)
	if p := b.probe(a, bb, 1); p.Arrived {
		t.Errorf("a function without a GUID sent: %v", p)
	}
	guids := func(node string, g ...ib.GUID) {
		var gi smp.GUIDInfo
		copy(gi[1:], g)
		if _, st := b.set(b.to(node), smp.AttrGUIDInfo, 0, &gi); st != ib.StatusOK {
			t.Fatal(st)
		}
	}
	guids("h0.1", 0xA1)
	guids("h1.0", 0xC1, 0xB2)
	for _, h := range []string{"h0.1", "h1.0"} {
		b.set(b.to(h), smp.AttrPKeyTable, 0, &smp.PKeyTable{full, 0x8001, 0x8002})
	}
	if p := b.probe(a, bb, 1); !p.Answered || p.At != bb {
		t.Error(p)
	}
	for _, x := range []struct {
		to  VF
		key ib.PKey
	}{{c, 1}, {c, 2}, {bb, 2}, {bb, full}} {
		if p := b.probe(a, x.to, x.key); p.Arrived || p.Lost != DropKey {
			t.Errorf("to VF %d by %v: %v", x.to.Index, x.key, p)
		}
	}
	if p := b.probe(bb, c, 2); !p.Answered || p.At != c || p.Hops != 0 {
		t.Errorf("inside a port: %v", p)
	}
	// An answer without a GRH finds the function by its transaction.
	e := b.attachVM("a")
	answers := 0
	e.OnPacket = func(*mad.Packet) { answers++ }
	take := b.e.OnPacket
	b.e.Accepts = func(*mad.Packet) bool { return true }
	b.set(b.to("h0.0"), smp.AttrPKeyTable, 0, &smp.PKeyTable{full, 0x8001})
	b.e.OnPacket = func(p *mad.Packet) {
		m := ib.MAD(p.Data)
		m.SetMethod(m.Method() | ib.MethodResponseBit)
		b.e.Send(&mad.Packet{Addr: mad.Addr{LID: p.Addr.LID, QP: 1, PKeyIndex: p.Addr.PKeyIndex}, LocalQP: 1, Data: m[:]})
	}
	var m ib.MAD
	m.SetHeader(ib.ClassSA, 2, ib.MethodGet, 0x35, 0)
	e.Send(&mad.Packet{Addr: mad.Addr{LID: b.e.LID(), QP: 1, PKeyIndex: 1}, LocalQP: 1, Data: m[:]})
	if answers != 1 {
		t.Errorf("%d answers", answers)
	}
	b.e.OnPacket = take
	// Without one of its own, the echo of a probe goes to the port.
	if p := b.probeAddr(a, mad.Addr{LID: b.lid("h1.0")}, 1); !p.Arrived || p.At.Index != 0 || p.Answered || p.Lost != DropUnmatched {
		t.Errorf("without a GRH: %v", p)
	}
	// The GUID moves, and the VM is reached at its GID by its new LID.
	must(t, b.s.MoveVM("a", b.vf("h1.0", 3)))
	guids("h0.1", 0)
	guids("h1.0", 0xC1, 0xB2, 0xA1)
	must(t, b.s.EnableVPort(a))
	left, err := b.s.AttachVPort(a)
	if must(t, err); !slices.Equal(left.PKeys(nil)[:3], []ib.PKey{full, 0x8001, 0x8002}) {
		t.Errorf("the keys of who left still bound the function: %v", left.PKeys(nil))
	}
	st, _ := b.s.VM("a")
	if st.GID.GUID() != 0xA1 || st.LID != b.lid("h1.0") || st.State != ib.StateActive || !slices.Equal(st.PKeys, []ib.PKey{0x8001}) {
		t.Errorf("%+v", st)
	}
	if lid, ok := b.s.FindGID(st.GID); !ok || lid != b.lid("h1.0") || e.LID() != lid {
		t.Errorf("found at %v, %v", lid, e.LID())
	}
	if p := b.probe(bb, st.At, 1); !p.Answered || p.At != st.At {
		t.Error(p)
	}
}

// TestVPortMigration: the hypervisor moves the GUID, the manager the LID, and all path
// attributes stay.
func TestVPortMigration(t *testing.T) {
	b := relayBed(t, Config{})
	b.hypervisor("h1.1", Hypervisor{Model: VPorts, VFs: 1})
	b.virtual("h1.1", true, true)
	must(t, b.s.DisableVPort(b.vf("h0.1", 1)))
	must(t, b.s.PlaceVM("vm", b.vf("h0.1", 1), VMOptions{GUID: 0xABCD, OwnLID: true}))
	b.activate("h0.1", 1, 99)
	before, _ := b.s.VM("vm")
	must(t, b.s.DetachVM("vm"))
	if st, _ := b.s.VM("vm"); st.At.Node != -1 {
		t.Errorf("%+v", st)
	}
	if _, err := b.s.AttachVM("vm"); err == nil {
		t.Error("attached to a VM that is nowhere")
	}
	must(t, b.s.PlaceVM("vm", b.vf("h1.1", 1), VMOptions{GUID: 0xABCD, OwnLID: true}))
	if p := b.mustVPort("h1.1", 1, nil); p.PortGUID != 0xABCD || !p.LIDRequired || p.VPortLID != 0 || p.VPortState != ib.StateInit {
		t.Errorf("%+v", p)
	}
	if p := b.mustVPort("h0.1", 1, nil); p.PortGUID == 0xABCD || p.LIDRequired || p.VPortState != ib.StateDown {
		t.Errorf("left behind: %+v", p)
	}
	b.activate("h1.1", 1, 99)
	after, _ := b.s.VM("vm")
	if after.LID != before.LID || after.GID != before.GID || !slices.Equal(after.PKeys, before.PKeys) || after.State != ib.StateActive {
		t.Errorf("before %+v, after %+v", before, after)
	}
	if p := b.probe(b.vf("h1.0", 1), after.At, full); !p.Answered || p.At != after.At {
		t.Error(p)
	}
}

// TestMovedPrograms: endpoints of the VM move with it, those of both ports stay.
func TestMovedPrograms(t *testing.T) {
	b := relayBed(t, Config{})
	src, dst := b.vf("h1.0", 3), b.vf("h0.1", 1)
	if err := b.s.DisableVPort(dst); err != nil {
		t.Fatal(err)
	}
	// A function that was up is plugged in anew for the VM.
	must(t, b.s.PlaceVM("vm", src, VMOptions{OwnLID: true}))
	if st, _ := b.s.VM("vm"); st.State != ib.StateInit {
		t.Errorf("%+v", st)
	}
	got := map[string]int{}
	count := func(name string, e *Endpoint) {
		e.Accepts = func(*mad.Packet) bool { return true }
		e.OnPacket = func(*mad.Packet) { got[name]++ }
	}
	count("vm", b.attachVM("vm"))
	count("vm too", b.attachVM("vm"))
	count("source", b.attach("h1.0"))
	count("destination", b.attach("h0.1"))
	must(t, b.s.MoveVM("vm", dst))
	b.activate("h0.1", 1, 99)
	var m ib.MAD
	m.SetHeader(ib.ClassCM, 2, ib.MethodSend, 0, 0)
	for _, l := range []ib.LID{b.lid("h1.0"), b.lid("h0.1"), 99} {
		b.e.Send(&mad.Packet{Addr: mad.Addr{LID: l, QP: 1}, LocalQP: 1, Data: m[:]})
	}
	if got["vm"] != 1 || got["vm too"] != 0 || got["source"] != 1 || got["destination"] != 1 {
		t.Errorf("%v", got)
	}
	must(t, b.s.RemoveVM("vm"))
	b.e.Send(&mad.Packet{Addr: mad.Addr{LID: b.lid("h0.1"), QP: 1}, LocalQP: 1, Data: m[:]})
	if got["destination"] != 2 {
		t.Errorf("%v", got)
	}
}

// TestVMErrors: impossible operations are refused with the reason and change nothing.
func TestVMErrors(t *testing.T) {
	b := cloud(t, Config{})
	b.hypervisor("h0.1", Hypervisor{Model: VPorts, VFs: 2})
	f, g := b.vf("h0.1", 1), b.vf("h0.1", 2)
	must(t, b.s.PlaceVM("a", f, VMOptions{}))
	must(t, b.s.PlaceVM("b", g, VMOptions{}))
	for what, err := range map[string]error{
		"a name twice":        b.s.PlaceVM("a", g, VMOptions{}),
		"a function twice":    b.s.PlaceVM("c", f, VMOptions{}),
		"no name":             b.s.PlaceVM("", f, VMOptions{}),
		"no function":         b.s.PlaceVM("c", VF{Node: f.Node, Port: 1, Index: 3}, VMOptions{}),
		"the port itself":     b.s.PlaceVM("c", VF{Node: f.Node, Port: 1}, VMOptions{}),
		"to a taken function": b.s.MoveVM("a", g),
		"to no function":      b.s.MoveVM("a", VF{Node: 99}),
		"nobody moves":        b.s.MoveVM("x", g),
		"nobody detaches":     b.s.DetachVM("x"),
		"nobody ends":         b.s.RemoveVM("x"),
	} {
		if err == nil {
			t.Errorf("%s: no error", what)
		}
	}
	gone, e := b.attachVM("a"), b.attachVM("a")
	gone.Close()
	must(t, b.s.DetachVM("a"))
	e.Close() // while it is nowhere
	must(t, b.s.PlaceVM("a", f, VMOptions{}))
	must(t, b.s.MoveVM("a", f))
	if st, _ := b.s.VM("a"); st.At != f || !slices.Equal(b.s.VMs(), []string{"a", "b"}) {
		t.Errorf("%+v %v", st, b.s.VMs())
	}
	for _, from := range []VF{{Node: -1}, {Node: 99}, {Node: f.Node, Port: 9}, {Node: f.Node, Port: 1, Index: 9}} {
		if _, err := b.s.Probe(from, mad.Addr{LID: 1}, full); err == nil {
			t.Errorf("a probe from %+v", from)
		}
	}
	if n, _ := b.s.Node("leaf0"); n > 0 {
		if _, err := b.s.Probe(VF{Node: n, Port: 1}, mad.Addr{LID: 1}, full); err == nil {
			t.Error("a probe from an external port")
		}
	}
}

// TestProbeInTime: with latency a probe takes its time, and is lost if its link fails.
func TestProbeInTime(t *testing.T) {
	b := relayBed(t, Config{})
	b.s.cfg.HopLatency = 100
	p := b.probe(b.vf("h0.1", 1), b.vf("h1.0", 3), full)
	b.s.RunUntil(b.s.Now() + 350)
	if p.Done || p.Arrived || p.String() != "under way" {
		t.Error(p)
	}
	b.s.RunUntil(b.s.Now() + 100)
	if p.Done || !p.Arrived || p.At.Index != 3 {
		t.Error(p)
	}
	b.s.RunUntil(b.s.Now() + 400)
	if !p.Answered {
		t.Error(p)
	}
	p = b.probe(b.vf("h0.1", 1), b.vf("h1.0", 3), full)
	b.s.RunUntil(b.s.Now() + 50)
	must(t, b.s.LinkDown("h0.1", 1))
	b.s.RunUntil(b.s.Now() + 1000)
	if !p.Done || p.Arrived || p.Lost != DropLink {
		t.Error(p)
	}
}

// TestVMsDeterministic: two runs with hypervisors, VMs and losses are identical.
func TestVMsDeterministic(t *testing.T) {
	run := func(seed uint64) (hash uint64, log string) {
		b := relayBed(t, Config{})
		c := &b.s.cfg
		c.Seed, c.TraceHash, c.HopLatency, c.SMALatency, c.Drop, c.Reorder, c.ReorderMax = seed, true, 100, 1000, 0.1, 0.2, time.Microsecond
		for i := range b.s.devs {
			b.s.devs[i].rng = newStream(seed, b.s.devs[i].guid)
		}
		b.s.OnChange = func(c Change) { log += fmt.Sprint(c) }
		must(t, b.s.SetVFs("h1.0", 1, 4))
		places := []VF{b.vf("h1.0", 1), b.vf("h1.0", 2), b.vf("h1.0", 3), b.vf("h1.0", 4), b.vf("h0.1", 1)}
		r := newStream(seed, 1)
		for i := range 200 {
			name := fmt.Sprint("vm", r.below(3))
			to := places[r.below(5)]
			if b.s.MoveVM(name, to) != nil {
				_ = b.s.PlaceVM(name, to, VMOptions{GUID: ib.GUID(0xF0 + i)})
			}
			p := b.probe(places[r.below(5)], places[r.below(5)], full)
			b.s.RunUntil(b.s.Now() + mad.Time(r.below(3000)))
			log += p.String()
		}
		return b.s.TraceHash(), log
	}
	h1, l1 := run(1)
	h2, l2 := run(1)
	h3, _ := run(2)
	if h1 != h2 || l1 != l2 || h1 == 0 {
		t.Error("the same seed went two ways")
	}
	if h1 == h3 {
		t.Error("another seed went the same way")
	}
}
