package sim

import (
	"testing"
	"time"

	"heddle/ib"
	"heddle/ib/pm"
	"heddle/ib/smp"
	"heddle/mad"
)

// perf makes a PerfMgt request to lid; fill writes the data.
func (b *testbed) perf(method ib.Method, attr ib.AttrID, lid ib.LID, port uint8, fill func(d []byte)) (*ib.MAD, ib.Status) {
	b.Helper()
	var m ib.MAD
	pm.New(&m, method, attr, 0)
	if fill != nil {
		fill(pm.Data(&m))
	}
	pm.SetPortSelect(&m, port)
	r := b.do(&m, mad.Addr{LID: lid})
	if r == nil {
		return nil, noAnswer
	}
	return r, r.Status()
}

func (b *testbed) counters(lid ib.LID, port uint8) (c pm.PortCounters) {
	b.Helper()
	r, st := b.perf(ib.MethodGet, pm.AttrPortCounters, lid, port, nil)
	if st != ib.StatusOK || c.Decode(pm.Data(r)) != nil {
		b.Fatalf("PortCounters of LID %v port %d: %v", lid, port, st)
	}
	return c
}

func (b *testbed) extended(lid ib.LID, port uint8) (c pm.PortCountersExtended) {
	b.Helper()
	r, st := b.perf(ib.MethodGet, pm.AttrPortCountersExtended, lid, port, nil)
	if st != ib.StatusOK || c.Decode(pm.Data(r)) != nil {
		b.Fatalf("PortCountersExtended of LID %v port %d: %v", lid, port, st)
	}
	return c
}

// TestCountersCount: every MAD that crosses a link is one packet of 72 words at both
// ends.
func TestCountersCount(t *testing.T) {
	b := newTestbed(t, chain(), Config{}, "H1")
	b.configure()
	before := b.extended(3, 2)
	first := b.counters(3, 2)
	for range 10 {
		b.ping(4) // through S2's port 2, both ways
	}
	after := b.extended(3, 2)
	if d := after.PortXmitPkts - before.PortXmitPkts; d != 10 {
		t.Errorf("%d packets sent", d)
	}
	if d := after.PortRcvPkts - before.PortRcvPkts; d != 10 {
		t.Errorf("%d packets received", d)
	}
	if d := after.PortXmitData - before.PortXmitData; d != 720 {
		t.Errorf("%d words sent", d)
	}
	if after.PortUnicastXmitPkts != after.PortXmitPkts || after.PortMulticastXmitPkts != 0 {
		t.Errorf("unicast %d of %d", after.PortUnicastXmitPkts, after.PortXmitPkts)
	}
	if c := b.counters(3, 2); c.PortXmitPkts-first.PortXmitPkts != 10 || c.PortRcvData-first.PortRcvData != 720 {
		t.Errorf("32-bit: %+v", c)
	}
}

// TestCountersSelect: a Set writes what CounterSelect names and nothing else;
// counters stop at all ones (IBA §16.1.3.5).
func TestCountersSelect(t *testing.T) {
	b := newTestbed(t, chain(), Config{}, "H1")
	b.configure()
	for _, l := range []string{
		"SymbolErrorCounter=70000", "LinkErrorRecoveryCounter=3", "LinkDownedCounter=4", "PortRcvErrors=5",
		"PortRcvRemotePhysicalErrors=6", "PortRcvSwitchRelayErrors=7", "PortXmitDiscards=8", "PortXmitConstraintErrors=9",
		"PortRcvConstraintErrors=10", "LocalLinkIntegrityErrors=11", "ExcessiveBufferOverrunErrors=99", "QP1Dropped=13",
		"VL15Dropped=14", "PortXmitWait=15", "PortXmitData=4294967290",
	} {
		if _, err := b.s.Exec(`performanceset S2[2] PortCounters.` + l); err != nil {
			t.Fatal(err)
		}
	}
	b.ping(4)
	c := b.counters(3, 2)
	want := c
	want.SymbolErrorCounter, want.LinkErrorRecoveryCounter, want.LinkDownedCounter, want.PortRcvErrors = 0xFFFF, 3, 4, 5
	want.PortRcvRemotePhysicalErrors, want.PortRcvSwitchRelayErrors, want.PortXmitDiscards = 6, 7, 8
	want.PortXmitConstraintErrors, want.PortRcvConstraintErrors, want.LocalLinkIntegrityErrors = 9, 10, 11
	want.ExcessiveBufferOverrunErrors, want.QP1Dropped, want.VL15Dropped, want.PortXmitWait = 15, 13, 14, 15
	want.PortXmitData = 0xFFFFFFFF
	if c != want {
		t.Errorf("got  %+v\nwant %+v", c, want)
	}
	r, st := b.perf(ib.MethodSet, pm.AttrPortCounters, 3, 2, func(d []byte) {
		(&pm.PortCounters{CounterSelect: pm.SelSymbolError | pm.SelXmitData, CounterSelect2: pm.Sel2XmitWait, LinkDownedCounter: 77}).Put(d)
	})
	if st != ib.StatusOK || c.Decode(pm.Data(r)) != nil {
		t.Fatal(st)
	}
	if c.SymbolErrorCounter != 0 || c.PortXmitData != 0 || c.PortXmitWait != 0 || c.LinkDownedCounter != 4 || c.PortRcvErrors != 5 {
		t.Errorf("after a selective clear: %+v", c)
	}
	e := b.extended(3, 2)
	if e.LinkDownedCounter != 4 || e.PortXmitData == 0 || e.SymbolErrorCounter != 0 {
		t.Errorf("64-bit: %+v", e)
	}
	r, st = b.perf(ib.MethodSet, pm.AttrPortCountersExtended, 3, 2, func(d []byte) {
		(&pm.PortCountersExtended{CounterSelect: 1, CounterSelect2: 1 << 2}).Put(d)
	})
	if st != ib.StatusOK || e.Decode(pm.Data(r)) != nil {
		t.Fatal(st)
	}
	if e.PortXmitData > 72 || e.PortRcvPkts == 0 || e.LinkDownedCounter != 0 || e.PortRcvErrors != 5 {
		t.Errorf("after a selective clear: %+v", e)
	}
}

// TestAllPortSelect: a switch sums, a CA refuses.
func TestAllPortSelect(t *testing.T) {
	b := newTestbed(t, chain(), Config{}, "H1")
	b.configure()
	r, _ := b.perf(ib.MethodGet, pm.AttrClassPortInfo, 3, 0, nil)
	var ci ib.ClassPortInfo
	if err := ci.Decode(pm.Data(r)[:72]); err != nil {
		t.Fatal(err)
	}
	if ci.CapabilityMask&pm.CapAllPortSelect == 0 || ci.CapabilityMask&pm.CapExtendedWidth == 0 || ci.CapabilityMask&pm.CapXmitWait == 0 {
		t.Errorf("capabilities %#x", ci.CapabilityMask)
	}
	one, two, all := b.extended(3, 1), b.extended(3, 2), b.extended(3, pm.AllPorts)
	// Asking costs a packet each way at port 1.
	if all.PortRcvPkts != one.PortRcvPkts+two.PortRcvPkts+2 {
		t.Errorf("sum %d of %d and %d", all.PortRcvPkts, one.PortRcvPkts, two.PortRcvPkts)
	}
	for _, port := range []uint8{0, 2, pm.AllPorts} {
		if _, st := b.perf(ib.MethodGet, pm.AttrPortCounters, 4, port, nil); st != ib.StatusInvalidField {
			t.Errorf("port %d of a CA: %v", port, st)
		}
	}
	if _, st := b.perf(ib.MethodGet, pm.AttrPortCounters, 3, 4, nil); st != ib.StatusInvalidField {
		t.Errorf("port 4 of a 3-port switch: %v", st)
	}
	if _, st := b.perf(ib.MethodGet, 0x7777, 3, 1, nil); st != ib.StatusBadMethodAttr {
		t.Errorf("unknown attribute: %v", st)
	}
}

// TestErrorsAreCounted: each loss increments the counter of the place where it
// happened.
func TestErrorsAreCounted(t *testing.T) {
	b := newTestbed(t, chain(), Config{}, "H1")
	b.configure()
	b.ping(40) // no such LID: lost in S1, from port 1
	b.table(toS1, 255, 1, 0, 2, 2, 3)
	b.ping(5) // leads to a port without a cable
	if c := b.counters(2, 1); c.PortRcvSwitchRelayErrors != 1 {
		t.Errorf("relay errors: %+v", c)
	}
	if c := b.counters(2, 3); c.PortXmitDiscards != 1 {
		t.Errorf("discards: %+v", c)
	}
	r, _ := b.perf(ib.MethodGet, pm.AttrPortRcvErrorDetails, 2, 1, nil)
	if d := pm.Data(r); d[4+2*3+1] != 1 {
		t.Errorf("DLID mapping errors % x", d[:16])
	}
	r, _ = b.perf(ib.MethodGet, pm.AttrPortXmitDiscardDetails, 2, 3, nil)
	if d := pm.Data(r); d[5] != 1 {
		t.Errorf("inactive discards % x", d[:16])
	}
	if err := b.s.LinkDown("S2", 2); err != nil {
		t.Fatal(err)
	}
	if c := b.counters(3, 2); c.LinkDownedCounter != 1 {
		t.Errorf("link downed %d times", c.LinkDownedCounter)
	}
}

// TestDetailRows: reading, writing, saturation of rows of 2, 16 and 32 bits.
func TestDetailRows(t *testing.T) {
	b := newTestbed(t, chain(), Config{}, "H1")
	b.configure()
	for _, l := range []string{
		"PortVLXmitFlowCtlUpdateErrors.PortVLXmitFlowCtlUpdateErrors5=2", "PortVLXmitFlowCtlUpdateErrors.PortVLXmitFlowCtlUpdateErrors6=9",
		"PortVLOpData.PortVLOpData15=4294967297", "PortVLXmitWaitCounters.PortVLXmitWait3=65537",
	} {
		if _, err := b.s.Exec("performanceset S2[2] " + l); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := b.s.Exec("performanceset S2[2] PortVLOpData.Nonsense=1"); err == nil {
		t.Error("a counter that does not exist was set")
	}
	r, _ := b.perf(ib.MethodGet, pm.AttrPortVLXmitFlowCtlUpdateErrors, 3, 2, nil)
	if d := pm.Data(r)[4:]; d[0] != 0 || d[1] != 0x2C {
		t.Errorf("2-bit row % x", d[:4])
	}
	r, _ = b.perf(ib.MethodGet, pm.AttrPortVLOpData, 3, 2, nil)
	if d := pm.Data(r)[4:]; d[60] != 0xFF || d[63] != 0xFF {
		t.Errorf("32-bit row % x", d[:64])
	}
	r, _ = b.perf(ib.MethodSet, pm.AttrPortVLXmitWait, 3, 2, func(d []byte) { d[3] = 1 << 3 })
	if d := pm.Data(r)[4:]; d[6] != 0 || d[7] != 0 {
		t.Errorf("16-bit row after clearing % x", d[:8])
	}
	b.ping(4)
	r, _ = b.perf(ib.MethodGet, pm.AttrPortVLOpPackets, 3, 2, nil)
	if d := pm.Data(r)[4:]; d[1] == 0 {
		t.Errorf("packets by VL % x", d[:32])
	}
}

// ticks is how many ticks of EDR a time has: 57 times 10 bits each.
func ticks(d time.Duration) uint32 { return uint32(float64(d) * 2.578125 / 57) }

// TestSampler counts packets within its interval only, and a switch answers for the sampler that
// was started last.
func TestSampler(t *testing.T) {
	b := newTestbed(t, chain(), Config{}, "H1")
	b.configure()
	control := func(port uint8, tag uint16) (c pm.PortSamplesControl) {
		t.Helper()
		c = pm.PortSamplesControl{SampleStart: ticks(time.Millisecond), SampleInterval: ticks(time.Millisecond), Tag: tag}
		c.CounterSelect[1] = pm.SampleXmitPkts
		r, st := b.perf(ib.MethodSet, pm.AttrPortSamplesControl, 3, port, func(d []byte) { c.Put(d) })
		if st != ib.StatusOK || c.Decode(pm.Data(r)) != nil {
			t.Fatal(st)
		}
		return c
	}
	if c := control(2, 0x5A); c.SampleStatus != pm.SampleWaiting || c.Tick != 56 || c.CounterWidth != 4 || c.CounterSelect[1] != pm.SampleXmitPkts {
		t.Fatalf("%+v", c)
	}
	result := func(tag uint16) (r pm.PortSamplesResult) {
		t.Helper()
		m, st := b.perf(ib.MethodGet, pm.AttrPortSamplesResult, 3, 0, nil)
		if st != ib.StatusOK || r.Decode(pm.Data(m)) != nil || r.Tag != tag {
			t.Fatalf("%v, %+v, want tag %d", st, r, tag)
		}
		return r
	}
	b.ping(4)
	b.s.RunUntil(b.s.Now().Add(1500 * time.Microsecond))
	if r := result(0x5A); r.SampleStatus != pm.SampleRunning {
		t.Errorf("status %d in the interval", r.SampleStatus)
	}
	if c := control(2, 0x77); c.Tag != 0x5A {
		t.Error("a running sampler takes a Set")
	}
	b.ping(4)
	b.ping(4)
	b.s.RunUntil(b.s.Now().Add(time.Millisecond))
	b.ping(4)
	if r := result(0x5A); r.SampleStatus != pm.SampleDone || r.Counter[1] != 2 {
		t.Errorf("status %d, packets %v", r.SampleStatus, r.Counter)
	}
	for i := range uint16(3) {
		control(2, 0x60+i)
		b.s.RunUntil(b.s.Now().Add(3 * time.Millisecond))
	}
	control(1, 0x70)
	result(0x70)
}

// TestPartitions: a packet with a P_Key that the receiver lacks is dropped, counted and
// reported; two limited members cannot communicate.
func TestPartitions(t *testing.T) {
	b := newTestbed(t, chain(), Config{}, "H1")
	b.configure()
	put := func(path []byte, am uint32, keys ...ib.PKey) {
		b.Helper()
		var d raw64
		for i, k := range keys {
			d[2*i], d[2*i+1] = byte(k>>8), byte(k)
		}
		if _, st := b.set(path, smp.AttrPKeyTable, am, d); st != ib.StatusOK {
			t.Fatal(st)
		}
	}
	try := func(index uint16) bool {
		var m ib.MAD
		pm.New(&m, ib.MethodGet, pm.AttrClassPortInfo, 0)
		return b.do(&m, mad.Addr{LID: 4, PKeyIndex: index}) != nil
	}
	put(toH1, 0, 0xFFFF, 0x8001, 0x0002, 0x8003)
	put(toH2, 0, 0xFFFF, 0x0001, 0x0002)
	for i, want := range []bool{true, true, false, false, false} {
		if try(uint16(i)) != want {
			t.Errorf("P_Key index %d: answered %v", i, !want)
		}
	}
	if v := b.s.PortInfo(nH2, 1).PKeyViolations; v != 3 {
		t.Errorf("%d violations", v)
	}
	// Enforcement in the switch.
	b.mustChange(toS2, 2, func(p *smp.PortInfo) { p.PartitionEnforcementOutbound = true })
	put(toS2, 2<<16, 0xFFFF)
	if !try(0) || try(1) {
		t.Error("outbound enforcement does not filter")
	}
	if c := b.counters(3, 2); c.PortXmitConstraintErrors != 1 {
		t.Errorf("constraint errors %+v", c)
	}
}
