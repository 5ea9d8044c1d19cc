package pm

import (
	"fmt"
	"maps"
	"strconv"
	"testing"

	"heddle/ib"
	"heddle/internal/wiretest"
)

// TestLibibmad compares every field with what another decoder read from the
// same bytes.
func TestLibibmad(t *testing.T) {
	names := map[string]string{
		"RespTimeVal": "RespTimeValue", "CounterMasks1to9": "CounterMask1to9", "CounterMasks10to14": "CounterMask10to14",
	}
	for i := range 16 {
		for _, name := range []string{
			"XmtDataSL", "RcvDataSL", "PortVLOpPackets", "PortVLOpData", "PortVLXmitFlowCtlUpdateErrors", "PortVLXmitWait", "SWPortVLCongestion",
		} {
			names[name+strconv.Itoa(i)] = fmt.Sprintf("Counter[%d]", i)
		}
	}
	samples := maps.Clone(names) // CounterSelect2 is another field of PortCounters
	for i := range NumSamples {
		samples["CounterSelect"+strconv.Itoa(i)] = fmt.Sprintf("CounterSelect[%d]", i)
	}
	entries := wiretest.Read(t, "testdata/libibmad.txt")
	if len(entries) == 0 {
		t.Fatal("nothing to compare")
	}
	for i := range entries {
		e := &entries[i]
		var v wiretest.Codec
		names := names
		switch e.Name {
		case "ClassPortInfo":
			v = new(ClassPortInfo)
		case "PortCounters":
			v = new(PortCounters)
		case "PortCountersExtended":
			v = new(PortCountersExtended)
		case "PortXmitDataSL", "PortRcvDataSL", "PortVLOpData":
			v = new(Counters32)
		case "PortVLOpPackets", "PortVLXmitWaitCounters", "SwPortVLCongestion":
			v = new(Counters16)
		case "PortVLXmitFlowCtlUpdateErrors":
			v = new(Counters2)
		case "PortSamplesControl":
			v, names = new(PortSamplesControl), samples
		default:
			t.Fatalf("line %d: what is %q?", e.Line, e.Name)
		}
		if err := v.Decode(e.Bytes); err != nil {
			t.Fatalf("line %d: %v", e.Line, err)
		}
		wiretest.Foreign(t, e, v, names)
	}
}

// TestWire decodes what real tools and their peers sent.
func TestWire(t *testing.T) {
	es := wiretest.Read(t, "testdata/wire.txt")
	m := wiretest.Find(t, es, "classportinfo").MAD()
	var c ClassPortInfo
	if err := c.Decode(Data(m)); err != nil {
		t.Fatal(err)
	}
	// perfquery prints CapMask: 0x1200 CapMask2: 0x0000000.
	if want := (ClassPortInfo{BaseVersion: 1, ClassVersion: 1, CapabilityMask: CapExtendedWidth | CapXmitWait, RespTimeValue: 0x12}); c != want {
		t.Errorf("%+v, want %+v", c, want)
	}

	m = wiretest.Find(t, es, "portcountersext").MAD()
	var x PortCountersExtended
	if err := x.Decode(Data(m)); err != nil {
		t.Fatal(err)
	}
	// perfquery prints PortXmitData 6120, PortRcvData 6120, 85 packets each.
	if want := (PortCountersExtended{PortSelect: 1, PortXmitData: 6120, PortRcvData: 6120, PortXmitPkts: 85, PortRcvPkts: 85}); x != want {
		t.Errorf("%+v, want %+v", x, want)
	}
	if PortSelect(m) != 1 {
		t.Errorf("PortSelect %d", PortSelect(m))
	}

	// perfquery's own request for a reset is the one that we would make.
	e := wiretest.Find(t, es, "portcounters")
	var p PortCounters
	if err := p.Decode(Data(e.MAD())); err != nil {
		t.Fatal(err)
	}
	if want := (PortCounters{PortSelect: 1, CounterSelect: SelAll, CounterSelect2: Sel2XmitWait}); p != want {
		t.Errorf("%+v, want %+v", p, want)
	}
	var ours ib.MAD
	New(&ours, ib.MethodSet, AttrPortCounters, 0)
	ours.SetTID(e.MAD().TID())
	p.Put(Data(&ours))
	if ours != *e.MAD() {
		t.Errorf("our request\n%x\ntheirs\n%x", ours[:], e.MAD()[:])
	}
	ours.SetMethod(ib.MethodGetResp)
	ours.SetStatus(ib.StatusOK)
	resp := wiretest.Find(t, es, "portcounters-resp").MAD()
	ours.SetTID(resp.TID())
	if ours != *resp {
		t.Errorf("our response\n%x\ntheirs\n%x", ours[:], resp[:])
	}
}

// TestPutCutsToWidth: an overflowing field does not touch its neighbour.
func TestPutCutsToWidth(t *testing.T) {
	p := PortCounters{LocalLinkIntegrityErrors: 0xF3, ExcessiveBufferOverrunErrors: 0xA5}
	var b [PortCountersLen]byte
	p.Put(b[:])
	if b[19] != 0x35 || b[18] != 0 || b[20] != 0 {
		t.Errorf("%x", b[18:21])
	}
}
