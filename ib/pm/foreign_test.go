package pm

import (
	"fmt"
	"maps"
	"testing"

	"heddle/ib"
	"heddle/internal/wiretest"
)

// TestLibibmad compares every field with what another decoder read from the
// same bytes.
func TestLibibmad(t *testing.T) {
	names := map[string]string{
		"RespTimeVal":          "RespTimeValue",
		"PortInactiveDiscards": "InactiveDiscards", "PortNeighborMTUDiscards": "NeighborMTUDiscards",
		"PortSwLifetimeLimitDiscards":    "SwLifetimeLimitDiscards",
		"PortSwHOQLifetimeLimitDiscards": "SwHOQLifetimeLimitDiscards",
		"PortLocalPhysicalErrors":        "LocalPhysicalErrors", "PortMalformedPktErrors": "MalformedPktErrors",
		"PortBufferOverrunErrors": "BufferOverrunErrors", "PortDLIDMappingErrors": "DLIDMappingErrors",
		"PortVLMappingErrors": "VLMappingErrors", "PortLoopingErrors": "LoopingErrors",
		"PortOpRcvPkts": "Pkts", "PortOpRcvData": "Data", "PortXmitFlowPkts": "XmitFlowPkts",
		"PortRcvFlowPkts": "RcvFlowPkts", "PortPktRcvFECN": "PktRcvFECN", "PortPktRcvBECN": "PktRcvBECN",
		"PortXmitTimeCong": "XmitTimeCong",
		"CounterMask0":     "CounterMask[0]",
		// Packed by the other decoder: compared in TestCounterMasks.
		"CounterMasks1to9": "", "CounterMasks10to14": "",
	}
	for i := range 16 {
		for _, p := range []string{"PortVLOpPackets", "PortVLOpData", "PortVLXmitFlowCtlUpdateErrors", "PortVLXmitTimeCong"} {
			names[fmt.Sprint(p, i)] = fmt.Sprintf("Counters[%d]", i)
		}
		names[fmt.Sprint("Counter", i)] = fmt.Sprintf("Counter[%d]", i)
		names[fmt.Sprint("ErrorDetectionCounterLane", i)] = fmt.Sprintf("ErrorDetectionCounterLane[%d]", i)
		names[fmt.Sprint("FECCorrectableBlockCtrLane", i)] = fmt.Sprintf("FECCorrectedLane[%d]", i)
		names[fmt.Sprint("FECUncorrectableBlockCtrLane", i)] = fmt.Sprintf("FECUncorrectableLane[%d]", i)
	}
	samples := map[string]string{}
	maps.Copy(samples, names)
	for i := range 15 {
		samples[fmt.Sprint("CounterSelect", i)] = fmt.Sprintf("CounterSelect[%d]", i)
	}
	entries := wiretest.Read(t, "testdata/libibmad.txt")
	if len(entries) == 0 {
		t.Fatal("nothing to compare")
	}
	for i := range entries {
		e := &entries[i]
		m := names
		var v wiretest.Codec
		switch e.Name {
		case "ClassPortInfo":
			v = new(ClassPortInfo)
		case "PortCounters":
			v = new(PortCounters)
		case "PortCountersExtended":
			v = new(PortCountersExtended)
		case "PortSamplesControl":
			v, m = new(PortSamplesControl), samples
		case "PortSamplesResult":
			v = new(PortSamplesResult)
		case "PortXmitDiscardDetails":
			v = new(PortXmitDiscardDetails)
		case "PortRcvErrorDetails":
			v = new(PortRcvErrorDetails)
		case "PortExtendedSpeedsCounters":
			v = new(PortExtendedSpeedsCounters)
		case "PortOpRcvCounters":
			v = new(PortOpRcvCounters)
		case "PortFlowCtlCounters":
			v = new(PortFlowCtlCounters)
		case "PortVLOpPackets":
			v = new(PortVLCounters16)
		case "PortVLOpData":
			v = new(PortVLCounters32)
		case "PortVLXmitFlowCtlUpdateErrors":
			v = new(PortVLXmitFlowCtlUpdateErrors)
		case "PortRcvConCtrl":
			v = new(PortRcvConCtrl)
		case "PortXmitConCtrl":
			v = new(PortXmitConCtrl)
		case "PortVLXmitTimeCong":
			v = new(PortVLXmitTimeCong)
		default:
			t.Fatalf("line %d: what is %q?", e.Line, e.Name)
		}
		if err := v.Decode(e.Bytes); err != nil {
			t.Fatalf("line %d: %v", e.Line, err)
		}
		wiretest.Foreign(t, e, v, m)
	}
}

// TestCounterMasks: 3 bits for each counter, in order, from bit 34 on
// (IBA §16.1.3.2).
func TestCounterMasks(t *testing.T) {
	var p PortSamplesControl
	for i := range p.CounterMask {
		p.CounterMask[i] = uint8(i) & 7
	}
	var b [PortSamplesControlLen]byte
	p.Put(b[:])
	// 00 000 001 010 011 100 101 110 111 000 001 | 0 010 011 100 101 110
	if be.Uint32(b[4:]) != 0b00_000_001_010_011_100_101_110_111_000_001 || be.Uint16(b[8:]) != 0b0_010_011_100_101_110 {
		t.Fatalf("masks are %032b %016b", be.Uint32(b[4:]), be.Uint16(b[8:]))
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
	Respond(&ours, ib.StatusOK)
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
