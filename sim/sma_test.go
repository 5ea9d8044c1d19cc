package sim

import (
	"testing"
	"time"

	"heddle/ib"
	"heddle/ib/pm"
	"heddle/ib/smp"
	"heddle/mad"
)

// ping asks the PMA at lid: a data packet there and back.
func (b *testbed) ping(lid ib.LID) (*ib.MAD, bool) {
	b.Helper()
	r := b.pingAddr(mad.Addr{LID: lid})
	return r, r != nil && r.Status() == ib.StatusOK
}

func (b *testbed) pingAddr(to mad.Addr) *ib.MAD {
	b.Helper()
	var m ib.MAD
	pm.New(&m, ib.MethodGet, pm.AttrClassPortInfo, 0)
	return b.do(&m, to)
}

type raw64 [64]byte

func (r raw64) Put(b []byte) { copy(b, r[:]) }

// TestStatusCodes: the status codes of agents, in the order of the checks (IBA §13.4.7,
// §14.2.4): version, method, attribute, modifier.
func TestStatusCodes(t *testing.T) {
	b := newTestbed(t, chain(), Config{}, "H1")
	for _, c := range []struct {
		name   string
		path   []byte
		method ib.Method
		attr   ib.AttrID
		am     uint32
		edit   func(*ib.MAD)
		want   ib.Status
	}{
		{"class version 2", toS1, ib.MethodGet, smp.AttrNodeInfo, 0, func(m *ib.MAD) { m[2] = 2 }, ib.StatusBadVersion},
		{"class version before method", toS1, 0x12, 0x7777, 99, func(m *ib.MAD) { m[2] = 2 }, ib.StatusBadVersion},
		{"method GetTable", toS1, ib.MethodGetTable, smp.AttrNodeInfo, 0, nil, ib.StatusBadMethod},
		{"method before attribute", toS1, ib.MethodGetTable, 0x7777, 0, nil, ib.StatusBadMethod},
		{"attribute unknown", toS1, ib.MethodGet, 0x7777, 0, nil, ib.StatusBadMethodAttr},
		{"reserved attribute 0x13", toS1, ib.MethodGet, 0x13, 0, nil, ib.StatusBadMethodAttr},
		{"ClassPortInfo does not exist here", toS1, ib.MethodGet, 1, 0, nil, ib.StatusBadMethodAttr},
		{"random table", toS1, ib.MethodGet, smp.AttrRFT, 0, nil, ib.StatusBadMethodAttr},
		{"SMInfo without SM", toH2, ib.MethodGet, smp.AttrSMInfo, 0, nil, ib.StatusBadMethodAttr},
		{"Set(NodeInfo)", toS1, ib.MethodSet, smp.AttrNodeInfo, 0, nil, ib.StatusBadMethodAttr},
		{"attribute before modifier", toS1, ib.MethodSet, smp.AttrNodeInfo, 7, nil, ib.StatusBadMethodAttr},
		{"NodeInfo 1", toS1, ib.MethodGet, smp.AttrNodeInfo, 1, nil, ib.StatusInvalidField},
		{"NodeDescription 1", toS1, ib.MethodGet, smp.AttrNodeDescription, 1, nil, ib.StatusInvalidField},
		{"SwitchInfo of a CA", toH2, ib.MethodGet, smp.AttrSwitchInfo, 0, nil, ib.StatusBadMethodAttr},
		{"LFT of a CA", toH2, ib.MethodGet, smp.AttrLFT, 0, nil, ib.StatusBadMethodAttr},
		{"MFT of a CA", toH2, ib.MethodGet, smp.AttrMFT, 0, nil, ib.StatusBadMethodAttr},
		{"LFT block 768", toS1, ib.MethodGet, smp.AttrLFT, 768, nil, ib.StatusInvalidField},
		{"LFT block 767", toS1, ib.MethodGet, smp.AttrLFT, 767, nil, ib.StatusOK},
		{"LFT block that wraps", toS1, ib.MethodGet, smp.AttrLFT, 1 << 26, nil, ib.StatusInvalidField},
		{"MFT block 32", toS1, ib.MethodGet, smp.AttrMFT, 32, nil, ib.StatusInvalidField},
		{"MFT position 1 of a 3-port switch", toS1, ib.MethodGet, smp.AttrMFT, smp.MFTMod(0, 1), nil, ib.StatusInvalidField},
		{"MFT bits between", toS1, ib.MethodGet, smp.AttrMFT, 1 << 12, nil, ib.StatusInvalidField},
		{"PortInfo of port 4 of 3", toS1, ib.MethodGet, smp.AttrPortInfo, 4, nil, ib.StatusInvalidField},
		{"PortInfo with a stray bit", toS1, ib.MethodGet, smp.AttrPortInfo, 1 << 8, nil, ib.StatusInvalidField},
		{"PortInfo of the CA's other port", toH1, ib.MethodGet, smp.AttrPortInfo, 2, nil, ib.StatusOK},
		{"PKey block past the end", toH2, ib.MethodGet, smp.AttrPKeyTable, 2, nil, ib.StatusInvalidField},
		{"PKey port of a CA, which does not look", toH2, ib.MethodGet, smp.AttrPKeyTable, 9 << 16, nil, ib.StatusOK},
		{"PKey port that a switch does not have", toS1, ib.MethodGet, smp.AttrPKeyTable, 9 << 16, nil, ib.StatusInvalidField},
		{"PKey of an external port", toS1, ib.MethodGet, smp.AttrPKeyTable, 3<<16 | 1, nil, ib.StatusOK},
		{"GUIDInfo block 4 of 32 entries", toH2, ib.MethodGet, smp.AttrGUIDInfo, 4, nil, ib.StatusInvalidField},
		{"GUIDInfo block 1 of base port 0", toS1, ib.MethodGet, smp.AttrGUIDInfo, 1, nil, ib.StatusInvalidField},
		{"SLtoVL of a CA with a port", toH2, ib.MethodGet, smp.AttrSLtoVL, 1, nil, ib.StatusInvalidField},
		{"SLtoVL input 4", toS1, ib.MethodGet, smp.AttrSLtoVL, smp.SLtoVLMod(4, 1), nil, ib.StatusInvalidField},
		{"SLtoVL wildcard without support", toS1, ib.MethodSet, smp.AttrSLtoVL, 0x30000, nil, ib.StatusInvalidField},
		{"VLArb part 0", toS1, ib.MethodGet, smp.AttrVLArb, 1, nil, ib.StatusInvalidField},
		{"VLArb part 5", toS1, ib.MethodGet, smp.AttrVLArb, 5<<16 | 1, nil, ib.StatusInvalidField},
		{"VLArb port 4", toS1, ib.MethodGet, smp.AttrVLArb, 1<<16 | 4, nil, ib.StatusInvalidField},
		{"LedInfo", toH2, ib.MethodGet, smp.AttrLedInfo, 0, nil, ib.StatusOK},
		{"VendorDiag", toH2, ib.MethodGet, smp.AttrVendorDiag, 0, nil, ib.StatusOK},
		{"VendorDiag 1", toH2, ib.MethodGet, smp.AttrVendorDiag, 1, nil, ib.StatusInvalidField},
		{"SwitchPortStateTable of a CA", toH2, ib.MethodGet, smp.AttrSwitchPortStateTable, 0, nil, ib.StatusBadMethodAttr},
		{"ExtendedPortInfo of another vendor", toH2, ib.MethodGet, smp.AttrExtendedPortInfo, 1, nil, ib.StatusBadMethodAttr},
		{"ExtendedPortInfo of the vendor", toH1, ib.MethodGet, smp.AttrExtendedPortInfo, 1, nil, ib.StatusOK},
		{"PortInfoExtended", toS1, ib.MethodGet, smp.AttrPortInfoExtended, 1, nil, ib.StatusOK},
	} {
		var m ib.MAD
		smp.NewDR(&m, c.method, c.attr, c.am, 0, c.path)
		if c.edit != nil {
			c.edit(&m)
		}
		if _, st := b.answer(&m, dr); st != c.want {
			t.Errorf("%s: status %v, want %v", c.name, st, c.want)
		}
	}
}

// TestPortStates is the table of permitted changes of PortState by a Set (IBA §7.2.7).
func TestPortStates(t *testing.T) {
	const bad, ok = ib.StatusInvalidField, ib.StatusOK
	for _, c := range []struct {
		from, set, want ib.PortState
		st              ib.Status
	}{
		{ib.StateInit, ib.StateNoChange, ib.StateInit, ok},
		{ib.StateInit, ib.StateDown, ib.StateInit, ok}, // retrains at once
		{ib.StateInit, ib.StateInit, ib.StateInit, bad},
		{ib.StateInit, ib.StateArmed, ib.StateArmed, ok},
		{ib.StateInit, ib.StateActive, ib.StateInit, bad},
		{ib.StateInit, 5, ib.StateInit, bad},
		{ib.StateInit, 15, ib.StateInit, bad},
		{ib.StateArmed, ib.StateNoChange, ib.StateArmed, ok},
		{ib.StateArmed, ib.StateArmed, ib.StateArmed, bad},
		{ib.StateArmed, ib.StateActive, ib.StateActive, ok},
		{ib.StateArmed, ib.StateInit, ib.StateArmed, bad},
		{ib.StateArmed, ib.StateDown, ib.StateInit, ok},
		{ib.StateActive, ib.StateActive, ib.StateActive, bad},
		{ib.StateActive, ib.StateArmed, ib.StateActive, bad},
		{ib.StateActive, ib.StateDown, ib.StateInit, ok},
		{ib.StateDown, ib.StateDown, ib.StateDown, ok},
		{ib.StateDown, ib.StateArmed, ib.StateDown, bad},
		{ib.StateDown, ib.StateActive, ib.StateDown, bad},
		{ib.StateDown, ib.StateInit, ib.StateDown, bad},
	} {
		b := newTestbed(t, chain(), Config{}, "H1")
		port := uint32(2)
		if c.from == ib.StateDown {
			port = 3
		}
		set := func(st ib.PortState) (smp.PortInfo, ib.Status) {
			return b.change(toS1, port, func(p *smp.PortInfo) { p.PortState = st })
		}
		for st := ib.StateArmed; st <= c.from; st++ {
			set(st)
		}
		if got := b.portInfo(toS1, port).PortState; got != c.from {
			t.Fatalf("could not reach %v: %v", c.from, got)
		}
		pi, st := set(c.set)
		if pi.PortState != c.want || st != c.st {
			t.Errorf("%v, Set %d: %v, status %v; want %v, %v", c.from, c.set, pi.PortState, st, c.want, c.st)
		}
	}
}

// TestPhysicalStates: Disabled stays until Polling is written, and so does Sleep;
// values above 3 and combinations with Armed or Active are refused.
func TestPhysicalStates(t *testing.T) {
	b := newTestbed(t, chain(), Config{}, "H1")
	phys := func(st ib.PortState, ph ib.PhysState) (smp.PortInfo, ib.Status) {
		return b.change(toS1, 2, func(p *smp.PortInfo) { p.PortState, p.PortPhysicalState = st, ph })
	}
	for ph := ib.PhysTraining; ph < 16; ph++ {
		if _, st := phys(0, ph); st != ib.StatusInvalidField {
			t.Errorf("physical state %d: %v", ph, st)
		}
	}
	if pi, st := phys(ib.StateArmed, ib.PhysPolling); st != ib.StatusInvalidField || pi.PortState != ib.StateInit {
		t.Errorf("Polling with Armed: %v %v", st, pi.PortState)
	}
	if pi, st := phys(ib.StateDown, ib.PhysDisabled); st != ib.StatusOK || pi.PortState != ib.StateDown || pi.PortPhysicalState != ib.PhysDisabled {
		t.Errorf("Disable: %v %v/%v", st, pi.PortState, pi.PortPhysicalState)
	}
	peer := b.s.PortInfo(nS2, 1)
	if peer.PortState != ib.StateDown || peer.PortPhysicalState != ib.PhysPolling {
		t.Errorf("peer of a disabled port: %v/%v", peer.PortState, peer.PortPhysicalState)
	}
	if pi, _ := phys(ib.StateDown, 0); pi.PortPhysicalState != ib.PhysDisabled {
		t.Errorf("Down on a disabled port enabled it: %v", pi.PortPhysicalState)
	}
	if pi, st := phys(0, ib.PhysPolling); st != ib.StatusOK || pi.PortState != ib.StateInit || pi.PortPhysicalState != ib.PhysLinkUp {
		t.Errorf("Enable: %v %v/%v", st, pi.PortState, pi.PortPhysicalState)
	}
	if pi, st := phys(ib.StateDown, ib.PhysSleep); st != ib.StatusOK || pi.PortPhysicalState != ib.PhysSleep {
		t.Errorf("Sleep: %v %v", st, pi.PortPhysicalState)
	}
	// A CA that is told to disable the port the SMP came by cannot answer.
	phys(0, ib.PhysPolling)
	if _, st := b.change(toH2, 1, func(p *smp.PortInfo) { p.PortPhysicalState, p.LID, p.MasterSMLID = ib.PhysDisabled, 4, 1 }); st != noAnswer {
		t.Errorf("disabled CA answered %v", st)
	}
}

// TestPortInfoFields: the values that a Set accepts and refuses, field by field; a
// refused field does not affect the others.
func TestPortInfoFields(t *testing.T) {
	const bad, ok = ib.StatusInvalidField, ib.StatusOK
	type fn = func(*smp.PortInfo)
	for _, c := range []struct {
		name string
		path []byte
		port uint32
		set  fn
		want ib.Status
		then func(p *smp.PortInfo) bool
	}{
		{"LID 0", toH2, 1, func(p *smp.PortInfo) { p.LID = 0 }, bad, func(p *smp.PortInfo) bool { return p.LID == 4 }},
		{"multicast LID", toH2, 1, func(p *smp.PortInfo) { p.LID = 0xC000 }, bad, func(p *smp.PortInfo) bool { return p.LID == 4 }},
		{"highest LID", toH2, 1, func(p *smp.PortInfo) { p.LID = 0xBFFF }, ok, func(p *smp.PortInfo) bool { return p.LID == 0xBFFF }},
		{"LID not aligned", toH2, 1, func(p *smp.PortInfo) { p.LID, p.LMC = 6, 2 }, bad, func(p *smp.PortInfo) bool { return p.LID == 4 && p.LMC == 0 }},
		{"LMC", toH2, 1, func(p *smp.PortInfo) { p.LID, p.LMC = 128, 7 }, ok, func(p *smp.PortInfo) bool { return p.LMC == 7 }},
		{"LMC of base port 0", toS2, 0, func(p *smp.PortInfo) { p.LID, p.LMC = 4, 1 }, bad, func(p *smp.PortInfo) bool { return p.LMC == 0 }},
		{
			"SM LID 0, other fields kept", toH2, 1, func(p *smp.PortInfo) { p.MasterSMLID, p.MasterSMSL = 0, 5 }, bad,
			func(p *smp.PortInfo) bool { return p.MasterSMLID == 1 && p.MasterSMSL == 5 },
		},
		{"NeighborMTU 0", toH2, 1, func(p *smp.PortInfo) { p.NeighborMTU = 0 }, bad, func(p *smp.PortInfo) bool { return p.NeighborMTU == 4 }},
		{"NeighborMTU above MTUCap", toH2, 1, func(p *smp.PortInfo) { p.NeighborMTU = 6 }, bad, nil},
		{"OperationalVLs 0", toH2, 1, func(p *smp.PortInfo) { p.OperationalVLs = 0 }, ok, func(p *smp.PortInfo) bool { return p.OperationalVLs == 4 }},
		{"OperationalVLs", toH2, 1, func(p *smp.PortInfo) { p.OperationalVLs = 3 }, ok, func(p *smp.PortInfo) bool { return p.OperationalVLs == 3 }},
		{"OperationalVLs above VLCap", toH2, 1, func(p *smp.PortInfo) { p.OperationalVLs = 5 }, bad, func(p *smp.PortInfo) bool { return p.OperationalVLs == 4 }},
		{"width 255", toH2, 1, func(p *smp.PortInfo) { p.LinkWidthEnabled = 255 }, ok, func(p *smp.PortInfo) bool { return p.LinkWidthEnabled == 3 }},
		{"width 1x", toH2, 1, func(p *smp.PortInfo) { p.LinkWidthEnabled = 1 }, ok, func(p *smp.PortInfo) bool { return p.LinkWidthEnabled == 1 && p.LinkWidthActive == 2 }},
		{"width not supported", toH2, 1, func(p *smp.PortInfo) { p.LinkWidthEnabled = 8 }, bad, func(p *smp.PortInfo) bool { return p.LinkWidthEnabled == 3 }},
		{"speed 15", toH2, 1, func(p *smp.PortInfo) { p.LinkSpeedEnabled = 15 }, ok, func(p *smp.PortInfo) bool { return p.LinkSpeedEnabled == 7 }},
		{"speed 8", toH2, 1, func(p *smp.PortInfo) { p.LinkSpeedEnabled = 8 }, bad, nil},
		{"extended speed HDR on EDR", toH2, 1, func(p *smp.PortInfo) { p.LinkSpeedExtEnabled = 4 }, bad, nil},
		{"extended speed 31", toH2, 1, func(p *smp.PortInfo) { p.LinkSpeedExtEnabled = 31 }, ok, func(p *smp.PortInfo) bool { return p.LinkSpeedExtEnabled == 3 }},
		{"extended speed off", toH2, 1, func(p *smp.PortInfo) { p.LinkSpeedExtEnabled = 30 }, ok, func(p *smp.PortInfo) bool { return p.LinkSpeedExtEnabled == 30 }},
		{"LinkDownDefault 3", toH2, 1, func(p *smp.PortInfo) { p.LinkDownDefaultState = 3 }, bad, nil},
		{"LinkDownDefault Sleep", toH2, 1, func(p *smp.PortInfo) { p.LinkDownDefaultState = 1 }, ok, func(p *smp.PortInfo) bool { return p.LinkDownDefaultState == 1 }},
		{"HOQLife of a CA", toH2, 1, func(p *smp.PortInfo) { p.HOQLife = 9 }, ok, func(p *smp.PortInfo) bool { return p.HOQLife == 0 }},
		{"HOQLife of a switch", toS2, 1, func(p *smp.PortInfo) { p.HOQLife, p.VLStallCount = 9, 7 }, ok, func(p *smp.PortInfo) bool { return p.HOQLife == 9 && p.VLStallCount == 7 }},
		{"LID of an external port", toS2, 1, func(p *smp.PortInfo) { p.LID = 99 }, ok, func(p *smp.PortInfo) bool { return p.LID == 0 }},
		{"M_Key of an external port", toS2, 1, func(p *smp.PortInfo) { p.MKey = 99 }, ok, func(p *smp.PortInfo) bool { return p.MKey == 0 }},
		{"enforcement", toS2, 1, func(p *smp.PortInfo) { p.PartitionEnforcementInbound = true }, ok, func(p *smp.PortInfo) bool { return p.PartitionEnforcementInbound }},
		{"enforcement of a CA", toH2, 1, func(p *smp.PortInfo) { p.PartitionEnforcementInbound = true }, ok, func(p *smp.PortInfo) bool { return !p.PartitionEnforcementInbound }},
		{"capability mask is read only", toH2, 1, func(p *smp.PortInfo) { p.CapabilityMask = 0 }, ok, func(p *smp.PortInfo) bool { return p.CapabilityMask != 0 }},
		{"reregister is echoed", toH2, 1, func(p *smp.PortInfo) { p.ClientReregister = true }, ok, nil},
		{"arming base port 0", toS2, 0, func(p *smp.PortInfo) { p.PortState = ib.StateArmed }, ok, func(p *smp.PortInfo) bool { return p.PortState == ib.StateActive }},
		{"subnet timeout", toH2, 1, func(p *smp.PortInfo) { p.SubnetTimeOut = 20 }, ok, func(p *smp.PortInfo) bool { return p.SubnetTimeOut == 20 }},
	} {
		b := newTestbed(t, chain(), Config{}, "H1")
		b.configure()
		pi, st := b.change(c.path, c.port, c.set)
		if st != c.want {
			t.Errorf("%s: status %v, want %v", c.name, st, c.want)
		}
		if c.name == "reregister is echoed" && !pi.ClientReregister {
			t.Error("ClientReregister is not echoed")
		}
		after := b.portInfo(c.path, c.port)
		if after.ClientReregister {
			t.Errorf("%s: ClientReregister reads 1", c.name)
		}
		if c.then != nil && !c.then(&after) {
			t.Errorf("%s: afterward %+v", c.name, after)
		}
	}
}

// TestExtendedSpeedsModifier: a Set without modifier bit 31 must not touch
// LinkSpeedExtEnabled; a Get without it may be shown none (IBA §14.2.5.6).
func TestExtendedSpeedsModifier(t *testing.T) {
	b := newTestbed(t, chain(), Config{HideExtendedSpeeds: true}, "H1")
	b.configure()
	pi := b.portInfo(toH2, 1)
	pi.ClearForSet()
	pi.LinkSpeedExtEnabled = 1
	if _, st := b.set(toH2, smp.AttrPortInfo, 1, &pi); st != ib.StatusOK {
		t.Fatal(st)
	}
	if v := b.portInfo(toH2, 1).LinkSpeedExtEnabled; v != 3 {
		t.Errorf("Set without bit 31 changed LinkSpeedExtEnabled to %d", v)
	}
	r, _ := b.get(toH2, smp.AttrPortInfo, 1)
	if err := pi.Decode(smp.Data(r)); err != nil {
		t.Fatal(err)
	}
	if pi.LinkSpeedExtActive != 0 || !pi.CapabilityMask.Has(ib.CapIsExtendedSpeedsSupported) || pi.LinkSpeedActive != ib.SpeedBitQDR {
		t.Errorf("without bit 31: ext active %v, legacy %v", pi.LinkSpeedExtActive, pi.LinkSpeedActive)
	}
	if sp := b.e.PortInfo(); sp.ActiveSpeed() != ib.SpeedEDR {
		t.Errorf("speed %v", sp.ActiveSpeed())
	}
	if err := b.s.SetQuirks("H2", &Quirks{NoExtendedSpeeds: true}); err != nil {
		t.Fatal(err)
	}
	if _, st := b.get(toH2, smp.AttrPortInfo, 1|1<<31); st != ib.StatusInvalidField {
		t.Errorf("bit 31 at a device that does not know it: %v", st)
	}
}

// TestWidthAndSpeedTrain: enabled values take effect when the link trains.
func TestWidthAndSpeedTrain(t *testing.T) {
	b := newTestbed(t, chain(), Config{}, "H1")
	b.mustChange(toS1, 2, func(p *smp.PortInfo) { p.LinkWidthEnabled, p.LinkSpeedExtEnabled = ib.Width1x, ib.SpeedExtBitFDR })
	if pi := b.portInfo(toS1, 2); pi.LinkWidthActive != ib.Width4x {
		t.Errorf("width %v before training", pi.LinkWidthActive)
	}
	b.mustChange(toS1, 2, func(p *smp.PortInfo) { p.PortState = ib.StateDown })
	for _, pi := range []smp.PortInfo{b.s.PortInfo(nS1, 2), b.s.PortInfo(nS2, 1)} {
		if pi.LinkWidthActive != ib.Width1x || pi.LinkSpeedExtActive != ib.SpeedExtBitFDR {
			t.Errorf("after training: %v %v", pi.LinkWidthActive, pi.LinkSpeedExtActive)
		}
	}
	// No common speed: no link.
	if _, st := b.change(toS2, 1, func(p *smp.PortInfo) { p.LinkSpeedExtEnabled, p.LinkSpeedEnabled = ib.SpeedExtBitEDR, ib.SpeedBitDDR }); st != ib.StatusOK {
		t.Fatal(st)
	}
	b.mustChange(toS1, 2, func(p *smp.PortInfo) { p.LinkSpeedEnabled = ib.SpeedBitSDR })
	b.mustChange(toS1, 2, func(p *smp.PortInfo) { p.PortState = ib.StateDown })
	if pi := b.portInfo(toS1, 2); pi.PortPhysicalState != ib.PhysPolling {
		t.Errorf("link without a common speed is %v", pi.PortPhysicalState)
	}
}

// TestTables: written tables are read back, and unwritten ones have the values of the
// specification or of common devices.
func TestTables(t *testing.T) {
	b := newTestbed(t, chain(), Config{OptimizedSL2VL: true}, "H1")
	r, _ := b.get(toS1, smp.AttrLFT, 5)
	for i, v := range smp.Data(r) {
		if v != smp.PortDrop {
			t.Fatalf("entry %d of an unwritten LFT block is %d", i, v)
		}
	}
	var l smp.LFT
	for i := range l {
		l[i] = uint8(i)
	}
	b.set(toS1, smp.AttrLFT, 767, &l)
	if r, _ = b.get(toS1, smp.AttrLFT, 767); smp.LFT(smp.Data(r)) != l {
		t.Error("LFT block 767 reads back differently")
	}
	mft := smp.MFT{1: 0x0E}
	b.set(toS1, smp.AttrMFT, smp.MFTMod(31, 0), &mft)
	var mback smp.MFT
	if r, _ = b.get(toS1, smp.AttrMFT, smp.MFTMod(31, 0)); mback.Decode(smp.Data(r)) != nil || mback != mft {
		t.Error("MFT reads back differently")
	}
	sl := smp.SLtoVL{0: 1, 15: 15}
	b.set(toS1, smp.AttrSLtoVL, smp.SLtoVLMod(1, 2), &sl)
	if got := b.sl2vl(toS1, smp.SLtoVLMod(1, 2)); got != sl {
		t.Errorf("SLtoVL reads back %v", got)
	}
	if got := b.sl2vl(toS1, smp.SLtoVLMod(2, 1)); got == sl || got[9] != 1 {
		t.Errorf("SLtoVL never written reads %v", got)
	}
	sl[3] = 7
	if _, st := b.set(toS1, smp.AttrSLtoVL, smp.SLtoVLAllIn|3, &sl); st != ib.StatusOK {
		t.Errorf("wildcard: %v", st)
	}
	if b.sl2vl(toS1, smp.SLtoVLMod(0, 3)) != sl || b.sl2vl(toS1, smp.SLtoVLMod(1, 2)) == sl {
		t.Error("wildcard over the inputs of port 3 went wrong")
	}
	b.set(toS1, smp.AttrSLtoVL, smp.SLtoVLAllIn|smp.SLtoVLAllOut, &sl)
	if b.sl2vl(toS1, smp.SLtoVLMod(3, 1)) != sl {
		t.Error("wildcard over all pairs went wrong")
	}
	var arb smp.VLArb
	arb[31] = smp.VLArbEntry{VL: 3, Weight: 200}
	b.set(toS1, smp.AttrVLArb, smp.VLArbMod(smp.VLArbHigh1, 2), &arb)
	var aback smp.VLArb
	if r, _ = b.get(toS1, smp.AttrVLArb, smp.VLArbMod(smp.VLArbHigh1, 2)); aback.Decode(smp.Data(r)) != nil || aback != arb {
		t.Error("VLArb reads back differently")
	}
	pk := smp.PKeyTable{0: 0xFFFF, 1: 0x8001}
	b.set(toS1, smp.AttrPKeyTable, smp.PKeyMod(2, 1), &pk)
	var pback smp.PKeyTable
	if r, _ = b.get(toS1, smp.AttrPKeyTable, smp.PKeyMod(2, 1)); pback.Decode(smp.Data(r)) != nil || pback != pk {
		t.Error("P_KeyTable reads back differently")
	}
	if r, _ = b.get(toS1, smp.AttrPKeyTable, smp.PKeyMod(2, 0)); pback.Decode(smp.Data(r)) != nil || pback != (smp.PKeyTable{0xFFFF}) {
		t.Error("block 0 does not hold the default partition alone")
	}
	g := smp.GUIDInfo{0: 5, 1: 6, 7: 7}
	b.set(toH2, smp.AttrGUIDInfo, 0, &g)
	var gback smp.GUIDInfo
	if r, _ = b.get(toH2, smp.AttrGUIDInfo, 0); gback.Decode(smp.Data(r)) != nil || gback != (smp.GUIDInfo{0: 0x111, 1: 6, 7: 7}) {
		t.Errorf("GUIDInfo reads back %v: entry 0 is read only", gback)
	}
	b.set(toS1, smp.AttrLedInfo, 2, raw64{0x80})
	if r, _ = b.get(toS1, smp.AttrLedInfo, 2); smp.Data(r)[0] != 0x80 {
		t.Error("LED is off")
	}
	if r, _ = b.get(toS1, smp.AttrSwitchPortStateTable, 0); smp.Data(r)[0] != 0x42 || smp.Data(r)[1] != 0x21 {
		t.Errorf("port states % x, want port 0 Active, 1 and 2 Init, 3 Down", smp.Data(r)[:2])
	}
	var desc smp.NodeDescription
	desc.Set("renamed")
	if r, st := b.set(toH2, smp.AttrNodeDescription, 0, &desc); st != ib.StatusOK || smp.NodeDescription(smp.Data(r)) != desc {
		t.Errorf("Set(NodeDescription): %v", st)
	}
}

func (b *testbed) sl2vl(path []byte, am uint32) (t smp.SLtoVL) {
	b.Helper()
	r, st := b.get(path, smp.AttrSLtoVL, am)
	if st != ib.StatusOK || t.Decode(smp.Data(r)) != nil {
		b.Fatalf("Get(SLtoVL %#x): %v", am, st)
	}
	return t
}

// TestSwitchInfo: PortStateChange is write 1 to clear, and the top of the linear table
// must be within it.
func TestSwitchInfo(t *testing.T) {
	b := newTestbed(t, chain(), Config{LinearFDBCap: 128}, "H1")
	if !b.switchInfo(toS1, nil).PortStateChange {
		t.Error("no PortStateChange after power-on")
	}
	if si := b.switchInfo(toS1, func(si *smp.SwitchInfo) { si.LifeTimeValue = 18 }); !si.PortStateChange || si.LifeTimeValue != 18 {
		t.Errorf("writing 0 cleared PortStateChange: %+v", si)
	}
	if si := b.switchInfo(toS1, func(si *smp.SwitchInfo) { si.PortStateChange = true }); si.PortStateChange {
		t.Error("writing 1 did not clear PortStateChange")
	}
	si := b.switchInfo(toS1, func(si *smp.SwitchInfo) { si.LinearFDBTop = 127 })
	si.LinearFDBTop = 128
	if r, st := b.set(toS1, smp.AttrSwitchInfo, 0, &si); st != ib.StatusInvalidField || smp.Data(r)[7] != 127 {
		t.Errorf("LinearFDBTop at the capacity: %v", st)
	}
	if _, st := b.get(toS1, smp.AttrLFT, 2); st != ib.StatusInvalidField {
		t.Errorf("block beyond the capacity: %v", st)
	}
}

// TestEnhancedPort0: LMC, many GUIDs, reregistration; still always Active.
func TestEnhancedPort0(t *testing.T) {
	b := newTestbed(t, chain(), Config{EnhancedPort0: true}, "H1")
	if !b.switchInfo(toS1, nil).EnhancedPort0 {
		t.Error("SwitchInfo does not say so")
	}
	pi := b.mustChange(toS1, 0, func(p *smp.PortInfo) { p.LID, p.LMC, p.MasterSMLID, p.ClientReregister = 4, 2, 1, true })
	if pi.LMC != 2 || pi.PortState != ib.StateActive || !pi.ClientReregister || pi.GUIDCap < 8 {
		t.Errorf("%+v", pi)
	}
	if _, st := b.change(toS1, 0, func(p *smp.PortInfo) { p.PortState = ib.StateActive }); st != ib.StatusInvalidField {
		t.Errorf("Active on Active: %v", st)
	}
}

// TestEnforcement: packets that an enforcing switch port drops, by the entry of its
// table. An arriving packet must not claim more membership than the entry: a limited
// member sends through a limited entry (IBA o18-14). A leaving packet is checked like
// at its receiver (§10.9.3).
func TestEnforcement(t *testing.T) {
	const none, limited, full = 0, ib.PKey(5), ib.PKey(0x8005)
	for _, c := range []struct {
		entry, packet ib.PKey
		in, out       bool // it passes
	}{
		{none, limited, false, false},
		{none, full, false, false},
		{limited, limited, true, false},
		{limited, full, false, true},
		{full, limited, true, true},
		{full, full, true, true},
	} {
		for _, out := range []bool{false, true} {
			b := newTestbed(t, chain(), Config{}, "H1")
			b.configure()
			// H1 sends to H2, which takes anything with the key.
			b.set(toH1, smp.AttrPKeyTable, 0, &smp.PKeyTable{0xFFFF, c.packet})
			b.set(toH2, smp.AttrPKeyTable, 0, &smp.PKeyTable{0xFFFF, 0x8005})
			path, port := toS1, uint32(1)
			if out {
				path, port = toS2, 2
			}
			b.set(path, smp.AttrPKeyTable, smp.PKeyMod(uint8(port), 0), &smp.PKeyTable{0xFFFF, c.entry})
			b.mustChange(path, port, func(p *smp.PortInfo) {
				p.PartitionEnforcementInbound, p.PartitionEnforcementOutbound = !out, out
			})
			p, err := b.s.Probe(VF{Node: nH1, Port: 1}, mad.Addr{LID: b.lid("H2")}, c.packet)
			if err != nil {
				t.Fatal(err)
			}
			b.s.RunUntil(b.s.Now().Add(time.Second))
			want := c.in
			if out {
				want = c.out
			}
			if p.Arrived != want {
				t.Errorf("a packet with %v at an entry %v, going out %v: %v", c.packet, c.entry, out, p)
			}
		}
	}
}
