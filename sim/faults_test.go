package sim

import (
	"errors"
	"testing"
	"time"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
)

// TestRebootClearsState: a rebooted node has empty tables, no LIDs, and its links in
// Init (IBA §14.2.5: power-on).
func TestRebootClearsState(t *testing.T) {
	b := newTestbed(t, chain(), Config{}, "H1")
	b.configure()
	var resets int
	b.s.OnChange = func(c Change) {
		if c.Kind == ChangeReset {
			resets++
		}
	}
	if err := b.s.NodeDown("S2"); err != nil {
		t.Fatal(err)
	}
	if _, st := b.get(toS2, smp.AttrNodeInfo, 0); st != noAnswer {
		t.Errorf("a node that is off answers %v", st)
	}
	if pi := b.portInfo(toS1, 2); pi.PortState != ib.StateDown || pi.PortPhysicalState != ib.PhysPolling {
		t.Errorf("its neighbor is %v/%v", pi.PortState, pi.PortPhysicalState)
	}
	if err := b.s.NodeUp("S2"); err != nil {
		t.Fatal(err)
	}
	if resets != 1 {
		t.Errorf("%d resets", resets)
	}
	si := b.switchInfo(toS2, nil)
	if si.LinearFDBTop != 0 || !si.PortStateChange {
		t.Errorf("%+v", si)
	}
	r, _ := b.get(toS2, smp.AttrLFT, 0)
	if smp.Data(r)[4] != smp.PortDrop {
		t.Error("the table is still there")
	}
	if pi := b.portInfo(toS2, 0); pi.LID != 0 || pi.MasterSMLID != 0 {
		t.Errorf("LID %v SM LID %v after a reboot", pi.LID, pi.MasterSMLID)
	}
	for _, p := range []uint32{1, 2} {
		if pi := b.portInfo(toS2, p); pi.PortState != ib.StateInit {
			t.Errorf("port %d is %v", p, pi.PortState)
		}
	}
	if pi := b.portInfo(toH2, 1); pi.LID != 4 || pi.PortState != ib.StateInit {
		t.Errorf("H2: LID %v, %v", pi.LID, pi.PortState)
	}
}

// TestTrainDelay: a new link comes up after the delay, and not if its cable is removed
// earlier.
func TestTrainDelay(t *testing.T) {
	b := newTestbed(t, chain(), Config{TrainDelay: time.Second}, "H1")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	up := func() bool { return b.s.PortInfo(nS1, 2).PortPhysicalState == ib.PhysLinkUp }
	must(b.s.LinkDown("S1", 2))
	must(b.s.LinkUp("S2", 1))
	if up() {
		t.Error("up at once")
	}
	b.s.RunUntil(mad.Time(500 * time.Millisecond))
	must(b.s.LinkDown("S1", 2))
	must(b.s.LinkUp("S1", 2))
	b.s.RunUntil(mad.Time(1200 * time.Millisecond))
	if up() {
		t.Error("up by the training that was interrupted")
	}
	b.s.RunUntil(mad.Time(1500 * time.Millisecond))
	if !up() {
		t.Error("not up after the delay")
	}
	if pi := b.s.PortInfo(nS2, 1); pi.PortState != ib.StateInit {
		t.Errorf("peer %v", pi.PortState)
	}
}

// TestLinkFailsInFlight: a packet on a failing link is lost even if the link returns
// before the packet would have arrived.
func TestLinkFailsInFlight(t *testing.T) {
	b := newTestbed(t, chain(), Config{HopLatency: time.Microsecond}, "H1")
	var m ib.MAD
	smp.NewDR(&m, ib.MethodGet, smp.AttrNodeInfo, 0, 0, toH2)
	b.e.Send(&mad.Packet{Addr: dr, Data: m[:]})
	b.s.RunUntil(1500)
	if err := b.s.LinkDown("S1", 2); err != nil {
		t.Fatal(err)
	}
	if err := b.s.LinkUp("S1", 2); err != nil {
		t.Fatal(err)
	}
	b.s.RunUntil(1e9)
	if len(b.got) != 0 || len(b.lost) != 1 {
		t.Errorf("%d answers, %d lost", len(b.got), len(b.lost))
	}
}

// TestLatency: hops and agents take their time; requests to one agent are served one
// after the other, and those beyond its queue are lost.
func TestLatency(t *testing.T) {
	b := newTestbed(t, chain(), Config{HopLatency: 100, SMALatency: 1000, SMAQueue: 3}, "H1")
	var at []mad.Time
	b.e.OnPacket = func(*mad.Packet) { at = append(at, b.s.Now()) }
	var m ib.MAD
	smp.NewDR(&m, ib.MethodGet, smp.AttrNodeInfo, 0, 0, toH2)
	for range 5 {
		b.e.Send(&mad.Packet{Addr: dr, Data: m[:]})
	}
	b.s.RunUntil(1e6)
	want := []mad.Time{1600, 2600, 3600}
	if len(at) != 3 || at[0] != want[0] || at[1] != want[1] || at[2] != want[2] {
		t.Errorf("answers at %v, want %v", at, want)
	}
	if n := b.s.Stats().Drops[DropQueue]; n != 2 {
		t.Errorf("%d lost in the queue", n)
	}
	if b.s.Now() != 1e6 || b.s.NextEvent() != mad.Never {
		t.Errorf("now %d, next %d", b.s.Now(), b.s.NextEvent())
	}
}

// TestLossDuplicationReordering: the observed shares match the configured ones.
func TestLossDuplicationReordering(t *testing.T) {
	b := newTestbed(t, chain(), Config{Seed: 3, Drop: 0.2}, "H1")
	const n = 5000
	send := func() {
		for i := range n {
			var m ib.MAD
			smp.NewDR(&m, ib.MethodGet, smp.AttrNodeInfo, 0, 0, toS1)
			m.SetTID(uint64(i))
			b.e.Send(&mad.Packet{Addr: dr, Data: m[:]})
		}
		b.s.RunUntil(b.s.Now().Add(time.Hour))
	}
	send()
	if share := float64(len(b.got)) / n; share < 0.61 || share > 0.67 {
		t.Errorf("%.3f answered, want about 0.64", share)
	}
	if len(b.got)+len(b.lost) != n {
		t.Errorf("%d answered + %d lost of %d", len(b.got), len(b.lost), n)
	}
	b.s.SetDrop(0)
	b.s.SetDuplicate(0.1)
	b.got, b.lost = nil, nil
	send()
	if share := float64(len(b.got)) / n; share < 1.18 || share > 1.24 {
		t.Errorf("%.3f answered with duplicates, want about 1.21", share)
	}
	b.s.SetDuplicate(0)
	b.s.SetReorder(0.5)
	b.s.cfg.ReorderMax = time.Second
	b.got, b.lost = nil, nil
	send()
	swaps := 0
	for i := 1; i < len(b.got); i++ {
		x, y := ib.MAD(b.got[i-1].Data), ib.MAD(b.got[i].Data)
		if x.TID() > y.TID() {
			swaps++
		}
	}
	if len(b.got) != n || swaps < n/10 {
		t.Errorf("%d answered, %d out of order", len(b.got), swaps)
	}
}

// TestPortError loses MADs of one attribute at one port.
func TestPortError(t *testing.T) {
	b := newTestbed(t, chain(), Config{}, "H1")
	if err := b.s.SetPortError("S1", 2, 100, smp.AttrPortInfo); err != nil {
		t.Fatal(err)
	}
	if _, st := b.get(toS2, smp.AttrPortInfo, 1); st != noAnswer {
		t.Error("not lost")
	}
	if _, st := b.get(toS2, smp.AttrNodeInfo, 0); st != ib.StatusOK {
		t.Error("another attribute was lost")
	}
	if _, st := b.get(toS1, smp.AttrPortInfo, 1); st != ib.StatusOK {
		t.Error("lost at another port")
	}
}

// TestQuirks: ways to misbehave.
func TestQuirks(t *testing.T) {
	b := newTestbed(t, chain(), Config{}, "H1")
	quirk := func(node string, q *Quirks) {
		t.Helper()
		if err := b.s.SetQuirks(node, q); err != nil {
			t.Fatal(err)
		}
	}
	quirk("S1", &Quirks{Mute: true})
	if _, st := b.get(toS1, smp.AttrNodeInfo, 0); st != noAnswer {
		t.Error("a mute agent answers")
	}
	if _, st := b.get(toS2, smp.AttrNodeInfo, 0); st != ib.StatusOK {
		t.Error("a mute switch does not forward")
	}
	quirk("S1", &Quirks{WrongTID: true})
	if r := b.raw(nil, toS1, dr); r != nil || len(b.got) != 1 {
		t.Errorf("answer with the right TID, or %d answers", len(b.got))
	}
	quirk("S1", &Quirks{BusyTimes: 1})
	if _, st := b.get(toS1, smp.AttrNodeInfo, 0); st != ib.StatusBusy {
		t.Error(st)
	}
	if _, st := b.get(toS1, smp.AttrNodeInfo, 0); st != ib.StatusOK {
		t.Error(st)
	}
	quirk("S1", &Quirks{Garbage: true})
	r, _ := b.get(toS1, smp.AttrNodeInfo, 0)
	r2, _ := b.get(toS1, smp.AttrNodeInfo, 0)
	if string(smp.Data(r)) == string(smp.Data(r2)) {
		t.Error("the same data twice")
	}
	quirk("S1", &Quirks{NodeGUID: 0x201, LinearFDBCap: 64, LocalPort: func(p uint8) uint8 { return p + 1 }})
	r, _ = b.get(toS1, smp.AttrNodeInfo, 0)
	var ni smp.NodeInfo
	if err := ni.Decode(smp.Data(r)); err != nil || ni.NodeGUID != 0x201 || ni.LocalPortNum != 2 || ni.PortGUID != 0x201 {
		t.Errorf("%+v %v", ni, err)
	}
	if si := b.switchInfo(toS1, nil); si.LinearFDBCap != 64 {
		t.Errorf("capacity %d", si.LinearFDBCap)
	}
	quirk("S1", nil)
	if err := b.s.SetQuirks("nobody", nil); !errors.Is(err, ErrNoNode) {
		t.Error(err)
	}
}

// TestLocalChanges: width and speed limits set by a node's own administrator cause a
// trap, and the link trains again.
func TestLocalChanges(t *testing.T) {
	b, traps := trapBed(t, Config{})
	if err := b.s.SetLocalSpeed("H2", 1, ib.SpeedQDR); err != nil {
		t.Fatal(err)
	}
	pi := b.s.PortInfo(nS2, 2)
	if pi.ActiveSpeedOf(ib.CapIsExtendedSpeedsSupported, false) != ib.SpeedQDR || pi.PortState != ib.StateInit {
		t.Errorf("%+v", pi)
	}
	if err := b.s.SetLocalWidth("H2", 1, ib.Width12x); err == nil {
		t.Error("a width that is not supported was taken")
	}
	if err := b.s.SetLocalWidth("S1", 2, ib.Width1x); err != nil {
		t.Fatal(err)
	}
	if w := b.s.PortInfo(nS2, 1).LinkWidthActive; w != ib.Width1x {
		t.Errorf("width %v", w)
	}
	if len(*traps) == 0 || (*traps)[0].number != 144 || (*traps)[0].pkt.Data[64+10+11] != byte(ChangeLinkSpeedEnabled) {
		t.Errorf("%+v", *traps)
	}
}

// TestRecable: a cable can be moved, and each port has at most one.
func TestRecable(t *testing.T) {
	b := newTestbed(t, chain(), Config{}, "H1")
	if err := b.s.Link("S1", 3, "S2", 2); err == nil {
		t.Error("two cables in one port")
	}
	if err := b.s.Link("S1", 0, "S2", 3); err == nil {
		t.Error("a cable in port 0")
	}
	if err := b.s.LinkDown("H2", 1); err != nil {
		t.Fatal(err)
	}
	if err := b.s.Link("H2", 1, "S1", 3); err != nil {
		t.Fatal(err)
	}
	if r, st := b.get([]byte{1, 3}, smp.AttrNodeInfo, 0); st != ib.StatusOK || smp.Data(r)[36] != 1 {
		t.Error(st)
	}
	if r, ok := b.s.Peer(nS1, 3); !ok || r.Node != nH2 {
		t.Errorf("peer %+v", r)
	}
	if _, ok := b.s.Peer(nS2, 2); ok {
		t.Error("the old end still has a cable")
	}
	if err := b.s.LinkDown("H1", 2); err == nil {
		t.Error("a cable that never was got pulled")
	}
}

// TestSlowAgent holds up the requests to one node only.
func TestSlowAgent(t *testing.T) {
	b := newTestbed(t, chain(), Config{}, "H1")
	if err := b.s.SetQuirks("S1", &Quirks{Slow: time.Millisecond}); err != nil {
		t.Fatal(err)
	}
	for _, p := range [][]byte{toS1, toS1, toS2} {
		b.raw(nil, p, dr)
	}
	if len(b.got) != 1 {
		t.Fatalf("%d answers at once", len(b.got))
	}
	b.s.RunUntil(mad.Time(time.Millisecond))
	if len(b.got) != 2 {
		t.Errorf("%d answers after 1 ms", len(b.got))
	}
	b.s.RunUntil(mad.Time(2 * time.Millisecond))
	if len(b.got) != 3 {
		t.Errorf("%d answers after 2 ms", len(b.got))
	}
}
