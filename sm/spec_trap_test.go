package sm_test

import (
	"testing"
	"time"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/sm/notice"
	"heddle/subnet"
)

// Traps (IBA Vol. 1 §13.4.9, §14.3) and the order of a sweep's steps; see
// spec_test.go for the subnet.

// trap sends a trap of the script and returns what the manager sent in the
// next 200 ms.
func (d *duel) trap(m ib.MAD) []ib.MAD {
	d.t.Helper()
	d.sent = nil
	d.send(&m, mad.Addr{LID: d.m.Status().LID})
	d.run(200 * time.Millisecond)
	return d.sent
}

// §13.4.9: the answer to a trap is TrapRepress, before anything else is done:
// LID routed, status 0, same transaction, the notice as it came. The issuer
// need not be known.
func TestTrapRepress(t *testing.T) {
	for _, issuer := range []ib.LID{0, 2, 0x1234} {
		d := newDuel(t, "H1", specConfig())
		d.up()
		m := trapMAD(smp.TrapPortStateChange, issuer, 0)
		sent := d.trap(m)
		if len(sent) == 0 || sent[0].Method() != ib.MethodTrapRepress {
			t.Fatalf("issuer %v: the first of %d packets is no TrapRepress", issuer, len(sent))
		}
		r := &sent[0]
		if r.Class() != ib.ClassSubnLID || r.Status() != 0 || r.AttrID() != smp.AttrNotice || r.AttrMod() != 0 ||
			uint32(r.TID()) != uint32(d.tid) || string(smp.Data(r)) != string(smp.Data(&m)) {
			t.Errorf("issuer %v: TrapRepress %x\nfor %x", issuer, r[:128], m[:128])
		}
	}
}

// §13.4.9, §14.2.4: TrapRepress carries the M_Key of the port it goes to.
func TestTrapRepressKey(t *testing.T) {
	const key = 0x0102030405060708
	cfg := specConfig()
	cfg.MKey, cfg.MKeyProtect = key, 1
	d := newDuel(t, "H1", cfg)
	d.up()
	if sent := d.trap(trapMAD(smp.TrapPortStateChange, 2, 0)); len(sent) == 0 || smp.MKey(&sent[0]) != key {
		t.Error("TrapRepress without the port's key")
	}
}

// §13.4.9: only the master represses; to the others' silence the agent keeps
// repeating until the master hears it.
func TestTrapWhenNotMaster(t *testing.T) {
	for _, st := range []subnet.SMState{subnet.NotActive, subnet.Discovering, subnet.Standby} {
		d := inState(t, st)
		m := trapMAD(smp.TrapPortStateChange, 2, 0)
		smp.NewDR(&m, ib.MethodTrap, smp.AttrNotice, 0, 0, []byte{1, 1})
		d.send(&m, mad.Addr{LID: ib.LIDPermissive})
		d.run(100 * time.Millisecond)
		if n := d.count(ib.MethodTrapRepress, smp.AttrNotice); n != 0 {
			t.Errorf("%v: %d TrapRepress", st, n)
		}
	}
}

// A manager that announces itself while the subnet is handed over to it is
// answered by the standby that it took for the master; nobody else is.
func TestTrapOfManagerWhenStandby(t *testing.T) {
	for _, st := range []subnet.SMState{subnet.NotActive, subnet.Discovering, subnet.Standby} {
		for _, isSM := range []bool{false, true} {
			d := inState(t, st)
			det := smp.DetailChange{LID: 2, OtherLocalChanges: true, ChangeFlags: smp.ChangeSMPriority}
			if isSM {
				det.CapabilityMask = ib.CapIsSM
			}
			n := smp.NewTrap(smp.TrapLocalChange, smp.ProducerCA, 2, det)
			var m ib.MAD
			smp.NewDR(&m, ib.MethodTrap, smp.AttrNotice, 0, 0, []byte{1, 1})
			n.Put(smp.Data(&m))
			d.send(&m, mad.Addr{LID: ib.LIDPermissive})
			d.run(100 * time.Millisecond)
			want := 0
			if isSM && st == subnet.Standby {
				want = 1
			}
			if n := d.count(ib.MethodTrapRepress, smp.AttrNotice); n != want {
				t.Errorf("%v, of a manager %v: %d TrapRepress, want %d", st, isSM, n, want)
			}
		}
	}
}

// §14.3: what each trap leads to: a sweep of the region (which reads no
// description again), a light one, or neither.
func TestTrapReactions(t *testing.T) {
	vendor := trapMAD(smp.TrapPortStateChange, 2, 0)
	smp.Data(&vendor)[0] &^= 0x80 // not generic
	change := func(flags smp.ChangeFlags) ib.MAD {
		n := smp.NewTrap(smp.TrapLocalChange, smp.ProducerCA, 2, smp.DetailChange{LID: 2, OtherLocalChanges: flags != 0, ChangeFlags: flags})
		var m ib.MAD
		smp.NewLID(&m, ib.MethodTrap, smp.AttrNotice, 0, 0)
		n.Put(smp.Data(&m))
		return m
	}
	for _, c := range []struct {
		name         string
		m            ib.MAD
		sweep, light uint64
		desc         int // Get(NodeDescription)
	}{
		{"128", trapMAD(smp.TrapPortStateChange, 2, 0), 1, 0, 0},
		{"144 capabilities", change(0), 0, 0, 0}, // its PortInfo is read, which is as it was
		{"144 link width", change(smp.ChangeLinkWidthEnabled), 1, 0, 0},
		{"144 priority", change(smp.ChangeSMPriority), 1, 0, 0},
		{"144 description", change(smp.ChangeNodeDescription), 0, 0, 1},
		{"144 description and width", change(smp.ChangeNodeDescription | smp.ChangeLinkWidthEnabled), 1, 0, 0},
		{"145", trapMAD(smp.TrapSystemImageGUID, 2, 0), 0, 0, 0},
		{"129", trapMAD(smp.TrapLocalPhyErrors, 2, 1), 0, 1, 0},
		{"130", trapMAD(smp.TrapBufferOverrun, 2, 1), 0, 1, 0},
		{"131", trapMAD(smp.TrapFlowCtlWatchdog, 2, 1), 0, 1, 0},
		{"256", trapMAD(smp.TrapBadMKey, 2, 0), 0, 1, 0},
		{"257", trapMAD(smp.TrapBadPKey, 2, 0), 0, 1, 0},
		{"258", trapMAD(smp.TrapBadQKey, 2, 0), 0, 1, 0},
		{"259", trapMAD(smp.TrapBadPKeySwitchPort, 2, 0), 0, 1, 0},
		{"unknown", trapMAD(999, 2, 0), 0, 1, 0},
		{"vendor", vendor, 0, 0, 0}, // told and nothing else: what it means is the vendor's secret
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newDuel(t, "H1", specConfig())
			d.up()
			was := d.m.Status()
			d.trap(c.m)
			st := d.m.Status()
			if st.Sweeps-was.Sweeps != c.sweep || st.Light-was.Light != c.light || d.count(ib.MethodGet, smp.AttrNodeDescription) != c.desc {
				t.Errorf("%d sweeps and %d light ones, %d descriptions read; want %d, %d, %d", st.Sweeps-was.Sweeps, st.Light-was.Light,
					d.count(ib.MethodGet, smp.AttrNodeDescription), c.sweep, c.light, c.desc)
			}
			if st.Traps-was.Traps != 1 || d.count(ib.MethodTrapRepress, smp.AttrNotice) != 1 {
				t.Errorf("%d traps counted, %d repressed", st.Traps-was.Traps, d.count(ib.MethodTrapRepress, smp.AttrNotice))
			}
		})
	}
}

// Trap 145 carries the new SystemImageGUID, which is read back from the node.
func TestTrap145Stored(t *testing.T) {
	d := newDuel(t, "H1", specConfig())
	d.up()
	if err := d.c.Sim.SetSystemImageGUID("H3", 0xABCDEF); err != nil {
		t.Fatal(err)
	}
	d.run(time.Second)
	n := d.m.Snap.NodeByGUID(0x100004)
	if got := d.m.Snap.Nodes[n].Info.SystemImageGUID; got != 0xABCDEF {
		t.Errorf("SystemImageGUID %v", got)
	}
}

// Traps 129-131 are about the port in their details.
func TestErrorTrapNamesItsPort(t *testing.T) {
	d := newDuel(t, "H1", specConfig())
	d.up()
	if err := d.c.Sim.InjectTrap("S1", 3, smp.TrapLocalPhyErrors); err != nil {
		t.Fatal(err)
	}
	d.run(time.Second)
	for i := range d.m.Notices {
		if n := &d.m.Notices[i]; n.Kind == notice.KindPortUnhealthy {
			if n.Where.Node != 0x200000 || n.Where.Port != 3 {
				t.Errorf("it is said of %v", n.Where)
			}
			return
		}
	}
	t.Error("nothing is said")
}

// §14.3: a trap that keeps coming is ignored from the tenth arrival on until
// it was quiet for 5 s; another port's traps still count.
func TestTrapThrottle(t *testing.T) {
	d := newDuel(t, "H1", specConfig())
	d.up()
	for range 40 {
		d.trap(trapMAD(smp.TrapPortStateChange, 2, 0))
	}
	if n := d.sweeps(); n > 10 {
		t.Errorf("40 traps in 8 s cost %d full sweeps", n)
	}
	if n := len(d.m.Events(notice.Warn)); n != 1 {
		t.Errorf("%d warnings: %v", n, d.m.Events(notice.Warn))
	}
	before := d.sweeps()
	d.trap(trapMAD(smp.TrapPortStateChange, 2, 0))
	d.trap(trapMAD(smp.TrapPortStateChange, 2, 0))
	if d.sweeps() != before {
		t.Error("an ignored trap led to a sweep")
	}
	if err := d.c.Sim.InjectTrap("S1", 0, smp.TrapPortStateChange); err != nil {
		t.Fatal(err)
	}
	d.run(time.Second)
	if d.sweeps() != before+1 {
		t.Error("another port's trap is ignored too")
	}
	d.run(6 * time.Second)
	before = d.sweeps()
	d.trap(trapMAD(smp.TrapPortStateChange, 2, 0))
	if d.sweeps() != before+1 {
		t.Error("after the quiet it is still ignored")
	}
}

// §14.4.4: PortStateChange is cleared after the ports were read, never by the
// Set that raises LinearFDBTop, so that no change goes unseen.
func TestPortStateChangeClearedOnce(t *testing.T) {
	d := newDuel(t, "H1", specConfig())
	d.start()
	if err := d.c.RunUntil(time.Minute, d.m.Up); err != nil {
		t.Fatal(err)
	}
	read, cleared := 0, 0
	for i := range d.sent {
		m := &d.sent[i]
		var si smp.SwitchInfo
		switch {
		case m.Method() == ib.MethodGet && m.AttrID() == smp.AttrPortInfo && cleared == 0:
			read++
		case m.Method() == ib.MethodSet && m.AttrID() == smp.AttrSwitchInfo:
			_ = si.Decode(smp.Data(m))
			if si.PortStateChange {
				cleared++
			}
		}
	}
	if read < 8 || cleared != 1 {
		t.Errorf("%d ports were read before PortStateChange was cleared %d times", read, cleared)
	}
}

// §14.2.5.6: links go to Armed everywhere before any goes to Active, and only
// once all tables are written.
func TestArmedBeforeActive(t *testing.T) {
	d := newDuel(t, "H1", specConfig())
	d.start()
	if err := d.c.RunUntil(time.Minute, d.m.Up); err != nil {
		t.Fatal(err)
	}
	last := map[string]int{}
	first := map[string]int{}
	note := func(what string, i int) {
		if _, ok := first[what]; !ok {
			first[what] = i
		}
		last[what] = i
	}
	for i := range d.sent {
		m := &d.sent[i]
		if m.Method() != ib.MethodSet {
			continue
		}
		switch m.AttrID() {
		case smp.AttrLFT:
			note("table", i)
		case smp.AttrPortInfo:
			var pi smp.PortInfo
			_ = pi.Decode(smp.Data(m))
			switch pi.PortState {
			case ib.StateArmed:
				note("armed", i)
			case ib.StateActive:
				note("active", i)
			default:
				note("parameters", i)
			}
		}
	}
	for _, order := range [][2]string{{"parameters", "table"}, {"table", "armed"}, {"armed", "active"}} {
		if last[order[0]] >= first[order[1]] {
			t.Errorf("%s is not over when %s begins (packets %d and %d)", order[0], order[1], last[order[0]], first[order[1]])
		}
	}
}

// A manager that is stopped gives IsSM back and leaves everything as it is.
func TestStop(t *testing.T) {
	d := newDuel(t, "H1", specConfig())
	d.up()
	writes := d.m.Writes
	d.m.Stop()
	d.run(time.Second)
	if d.m.Writes != writes || !d.m.Stopped {
		t.Error("stopping wrote to the subnet, or did not end")
	}
	n, _ := d.c.Sim.Node("H1")
	if pi := d.c.Sim.PortInfo(n, 1); pi.CapabilityMask.Has(ib.CapIsSM) || pi.PortState != ib.StateActive {
		t.Errorf("IsSM or the link: %v %v", pi.CapabilityMask, pi.PortState)
	}
}
