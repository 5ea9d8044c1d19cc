package sim

import (
	"strings"
	"testing"

	"heddle/ib"
	"heddle/mad"
)

// TestLiveMigrationSteps: a stopped VM neither sends nor receives; until the switch its
// address is that of the source, where it can go on; afterward the destination's.
func TestLiveMigrationSteps(t *testing.T) {
	b := cloud(t, Config{})
	for _, h := range []string{"h0.1", "h1.0", "h1.1"} {
		b.hypervisor(h, Hypervisor{Model: VSwitch, VFs: 2})
		b.virtual(h, true, true)
	}
	src, dst, from := b.vf("h0.1", 1), b.vf("h1.0", 2), b.vf("h1.1", 1)
	must(t, b.s.PlaceVM("vm", src, VMOptions{}))
	must(t, b.s.PlaceVM("peer", from, VMOptions{}))
	for lid, at := range map[ib.LID]string{100: "h0.1", 101: "h1.1"} {
		b.routeTo(lid, b.vf(at, 1).Node)
		b.activate(at, 1, lid)
	}
	e := b.attachVM("vm")
	sent := func() bool {
		n := b.s.Stats().Delivered
		var m ib.MAD
		m.SetHeader(ib.ClassCM, 2, ib.MethodSend, 0, 0)
		listener := b.attachVM("peer")
		defer listener.Close()
		listener.Accepts = func(*mad.Packet) bool { return true }
		e.Send(&mad.Packet{Addr: mad.Addr{LID: 101, QP: 1}, LocalQP: 1, Data: m[:]})
		return b.s.Stats().Delivered > n
	}
	is := func(what string, at VF, answers bool) {
		t.Helper()
		p := b.probeAddr(from, mad.Addr{LID: 100}, full)
		if p.Answered != answers || answers && p.At != at || !answers && p.Lost != DropStopped && p.Lost != DropState {
			t.Errorf("%s: %v", what, p)
		}
		if sent() != answers {
			t.Errorf("%s: it sends: %v", what, !answers)
		}
		if st, _ := b.s.VM("vm"); st.At != at {
			t.Errorf("%s: %+v", what, st)
		}
	}
	is("at first", src, true)
	must(t, b.s.StopVM("vm"))
	is("stopped", src, false)
	if p, err := b.s.Probe(src, mad.Addr{LID: 101}, full); err != nil || p.Lost != DropStopped {
		t.Errorf("a stopped VM sends: %v %v", p, err)
	}
	must(t, b.s.ReadyVM("vm", dst))
	is("ready", src, false)
	if st, _ := b.s.VPort(dst); !st.Up || st.VM != "vm" {
		t.Errorf("%+v", st)
	}
	if b.s.PlaceVM("other", dst, VMOptions{}) == nil || b.s.ReadyVM("peer", dst) == nil || b.s.ReadyVM("vm", src) == nil {
		t.Error("a function that is taken was given again")
	}
	must(t, b.s.ResumeVM("vm"))
	is("goes on at the source", src, true)
	must(t, b.s.UnreadyVM("vm"))
	if st, _ := b.s.VPort(dst); st.Up || st.VM != "" || b.s.SwitchVM("vm") == nil {
		t.Errorf("%+v", st)
	}

	must(t, b.s.StopVM("vm"))
	must(t, b.s.ReadyVM("vm", dst))
	b.activate("h1.0", 2, 100)
	b.routeTo(100, dst.Node)
	is("the address is there first", src, false)
	must(t, b.s.SwitchVM("vm"))
	is("switched", dst, false)
	if st, _ := b.s.VPort(src); st.Up || st.VM != "" {
		t.Errorf("the old function: %+v", st)
	}
	must(t, b.s.ResumeVM("vm"))
	is("resumed", dst, true)

	// A destination that goes away takes nothing with it.
	must(t, b.s.ReadyVM("vm", src))
	must(t, b.s.SetVFs("h0.1", 1, 0))
	if st, _ := b.s.VM("vm"); st.Next.Node != -1 || st.At != dst {
		t.Errorf("%+v", st)
	}
	is("its destination is gone", dst, true)
}

// TestLiveMigrationVPort: the destination shows the VM's GUID while the source does, too.
func TestLiveMigrationVPort(t *testing.T) {
	b := cloud(t, Config{})
	for _, h := range []string{"h0.1", "h1.0"} {
		b.hypervisor(h, Hypervisor{Model: VPorts, VFs: 2})
		b.virtual(h, true, true)
	}
	must(t, b.s.PlaceVM("vm", b.vf("h0.1", 1), VMOptions{GUID: 0xA1}))
	for _, line := range []string{`vm stop vm`, `vm ready vm "h1.0" 2`} {
		if _, err := b.s.Exec(line); err != nil {
			t.Fatal(err)
		}
	}
	guid := func(f VF) ib.GUID {
		st, err := b.s.VPort(f)
		must(t, err)
		return st.GUID
	}
	if a, z := guid(b.vf("h0.1", 1)), guid(b.vf("h1.0", 2)); a != 0xA1 || z != 0xA1 {
		t.Errorf("%v and %v", a, z)
	}
	out, err := b.s.Exec("vm vm")
	if err != nil || !strings.Contains(out, `stopped ready "h1.0"[1] VF 2`) {
		t.Errorf("%s %v", out, err)
	}
	for _, line := range []string{`vm switch vm`, `vm resume vm`} {
		if _, err := b.s.Exec(line); err != nil {
			t.Fatal(err)
		}
	}
	if a, z := guid(b.vf("h0.1", 1)), guid(b.vf("h1.0", 2)); a == 0xA1 || z != 0xA1 {
		t.Errorf("after the switch %v and %v", a, z)
	}
	for _, line := range []string{`vm ready vm "h0.1" 1`, `vm unready vm`, `vm remove vm`} {
		if _, err := b.s.Exec(line); err != nil {
			t.Fatal(err)
		}
	}
	if b.s.StopVM("vm") == nil || b.s.ResumeVM("vm") == nil || b.s.ReadyVM("vm", b.vf("h1.0", 2)) == nil || b.s.UnreadyVM("vm") == nil || b.s.SwitchVM("vm") == nil {
		t.Error("a VM that is gone migrates")
	}
}
