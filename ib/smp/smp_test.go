package smp

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"heddle/ib"
	"heddle/internal/wiretest"
)

// TestNewDR makes the request that OpenSM sent for a node two hops away
// (IBA §14.2.1.2).
func TestNewDR(t *testing.T) {
	want := wiretest.Find(t, wiretest.Read(t, "testdata/wire.txt"), "nodeinfo-get").MAD()
	m := ib.MAD{}
	for i := range m {
		m[i] = 0xEE
	}
	NewDR(&m, ib.MethodGet, AttrNodeInfo, 0, 0, []byte{1, 2})
	m.SetTID(want.TID())
	if m != *want {
		t.Errorf("\n%x, want\n%x", m[:], want[:])
	}
	NewDR(&m, ib.MethodSet, AttrPortInfo, 7, 0x0102030405060708, make([]byte, MaxHops))
	if HopCount(&m) != 63 || MKey(&m) != 0x0102030405060708 || m.AttrMod() != 7 || len(Path(&m)) != 63 || HopPointer(&m) != 0 {
		t.Errorf("%x", m[:])
	}
	NewDR(&m, ib.MethodGet, AttrNodeInfo, 0, 0, nil)
	if HopCount(&m) != 0 || len(Path(&m)) != 0 {
		t.Error("hop count 0 addresses the local node")
	}
	defer func() {
		if recover() == nil {
			t.Error("64 hops were taken")
		}
	}()
	NewDR(&m, ib.MethodGet, AttrNodeInfo, 0, 0, make([]byte, 64))
}

// TestNewLID: class 0x01, no directed-route fields (IBA §14.2.1.1).
func TestNewLID(t *testing.T) {
	var m ib.MAD
	for i := range m {
		m[i] = 0xEE
	}
	NewLID(&m, ib.MethodGet, AttrPortInfo, 0x80000003, 9)
	want := ib.MAD{0: 1, 1: 1, 2: 1, 3: 1, 17: 0x15, 20: 0x80, 23: 3, 31: 9}
	if m != want {
		t.Errorf("%x, want %x", m[:], want[:])
	}
}

// TestDirection: the D bit shares a word with the status, and both survive
// each other (IBA §14.2.1.2, §13.4.7).
func TestDirection(t *testing.T) {
	var m ib.MAD
	NewDR(&m, ib.MethodGet, AttrNodeInfo, 0, 0, []byte{1})
	if Direction(&m) {
		t.Error("a request goes out")
	}
	Respond(&m, ib.StatusInvalidField)
	if !Direction(&m) || StatusOf(&m) != ib.StatusInvalidField || m.Status() != 0x801C || m.Method() != ib.MethodGetResp {
		t.Errorf("%x", m[:8])
	}
	SetDirection(&m, false)
	if m.Status() != ib.StatusInvalidField || Direction(&m) {
		t.Errorf("%x", m[:8])
	}
	SetDirection(&m, true)
	if m.Status() != 0x801C {
		t.Errorf("%x", m[:8])
	}
	NewLID(&m, ib.MethodGet, AttrNodeInfo, 0, 0)
	Respond(&m, 0x800C) // bit 15 is status here
	if StatusOf(&m) != 0x800C {
		t.Errorf("%x", m[:8])
	}
}

func TestAccessors(t *testing.T) {
	var m ib.MAD
	SetMKey(&m, 0x1122334455667788)
	SetHopPointer(&m, 3)
	SetHopCount(&m, 5)
	SetDrSLID(&m, 0x0102)
	SetDrDLID(&m, 0x0304)
	InitialPath(&m)[5] = 7
	ReturnPath(&m)[5] = 8
	Data(&m)[0] = 9
	want := ib.MAD{
		6: 3, 7: 5, 24: 0x11, 25: 0x22, 26: 0x33, 27: 0x44, 28: 0x55, 29: 0x66, 30: 0x77, 31: 0x88, 32: 1, 33: 2, 34: 3, 35: 4,
		64: 9, 133: 7, 197: 8,
	}
	if m != want {
		t.Errorf("%x, want\n%x", m[:], want[:])
	}
	if MKey(&m) != 0x1122334455667788 || HopPointer(&m) != 3 || HopCount(&m) != 5 || DrSLID(&m) != 0x0102 || DrDLID(&m) != 0x0304 {
		t.Error("reads something else")
	}
	if p := Path(&m); len(p) != 5 || p[4] != 7 || cap(p) != 5 {
		t.Errorf("%v", p)
	}
	SetHopCount(&m, 64)
	if len(Path(&m)) != 0 {
		t.Error("an illegal hop count gave a path")
	}
	if len(Data(&m)) != 64 || cap(Data(&m)) != 64 || cap(InitialPath(&m)) != 64 {
		t.Error("views reach too far")
	}
}

// TestAttrMods: the modifiers of IBA §14.2.5, both ways.
func TestAttrMods(t *testing.T) {
	for _, c := range []struct{ got, want uint32 }{
		{PortInfoMod(7, false), 7},
		{PortInfoMod(7, true), 0x80000007},
		{PKeyMod(3, 2), 0x00030002},
		{SLtoVLMod(1, 4), 0x0104},
		{SLtoVLAllIn | SLtoVLAllOut, 0x00030000},
		{VLArbMod(VLArbHigh1, 36), 0x00040024},
		{MFTMod(5, 2), 0x20000005},
		{MFTMod(511, 15), 0xF00001FF},
	} {
		if c.got != c.want {
			t.Errorf("%#x, want %#x", c.got, c.want)
		}
	}
	if PortInfoPort(PortInfoMod(200, true)|PortInfoActiveDefer) != 200 {
		t.Error("PortInfo")
	}
	if p, b := SplitPKeyMod(PKeyMod(3, 2)); p != 3 || b != 2 {
		t.Error("P_Key")
	}
	if in, out, ai, ao := SplitSLtoVLMod(SLtoVLMod(1, 4) | SLtoVLAllIn); in != 1 || out != 4 || !ai || ao {
		t.Error("SLtoVL")
	}
	if part, port := SplitVLArbMod(VLArbMod(3, 9)); part != 3 || port != 9 {
		t.Error("VLArb")
	}
	if b, p := SplitMFTMod(MFTMod(511, 15)); b != 511 || p != 15 {
		t.Error("MFT")
	}
	if b, i := LFTBlockOf(0xBFFF); b != LFTBlocks-1 || i != 63 {
		t.Error("LFT block", b, i)
	}
	if b, i := MFTBlockOf(0xC021); b != 1 || i != 1 {
		t.Error("MFT block", b, i)
	}
}

// TestNodeInfoNonsense: what nobody could work with is an error, and leaves
// the value alone.
func TestNodeInfoNonsense(t *testing.T) {
	good := NodeInfo{BaseVersion: 1, ClassVersion: 1, NodeType: ib.NodeSwitch, NumPorts: 36, LocalPortNum: 36}
	for _, c := range []struct {
		field string
		edit  func(b []byte)
	}{
		{"NodeType", func(b []byte) { b[2] = 0 }},
		{"NodeType", func(b []byte) { b[2] = 4 }},
		{"NumPorts", func(b []byte) { b[3], b[36] = 0, 0 }},
		{"NumPorts", func(b []byte) { b[3] = 255 }},
		{"LocalPortNum", func(b []byte) { b[36] = 37 }},
	} {
		b := wiretest.Bytes(&good, NodeInfoLen)
		c.edit(b)
		n := NodeInfo{NodeGUID: 77}
		err := n.Decode(b)
		var de *ib.DecodeError
		if !errors.As(err, &de) || de.Field != c.field || !errors.Is(err, ib.ErrValue) || n != (NodeInfo{NodeGUID: 77}) {
			t.Errorf("%s: %v, %+v", c.field, err, n)
		}
		if err := n.DecodeTemplate(b); err != nil {
			t.Errorf("as a template: %v", err)
		}
	}
	var n NodeInfo
	if err := n.DecodeTemplate(make([]byte, 39)); !errors.Is(err, ib.ErrShort) {
		t.Error(err)
	}
	if err := n.DecodeTemplate(make([]byte, 40)); err != nil {
		t.Error(err)
	}
}

// TestNodeDescription: zero padded, not terminated when full; strangers may
// put anything in (IBA §14.2.5.2).
func TestNodeDescription(t *testing.T) {
	var d NodeDescription
	d.Set(strings.Repeat("x", 64))
	if d.String() != strings.Repeat("x", 64) {
		t.Error("64 characters")
	}
	d.Set("short")
	if d.String() != "short" || d[5] != 0 || d[63] != 0 {
		t.Errorf("%q", d[:])
	}
	d.Set(strings.Repeat("x", 63) + "é") // the é does not fit
	if d.String() != strings.Repeat("x", 63) {
		t.Errorf("%q", d.String())
	}
	d.Set(strings.Repeat("\xff", 70)) // not UTF-8 at all
	if !utf8.ValidString(d.String()) || d[60] != 0xFF {
		t.Errorf("%q", d.String())
	}
	d = NodeDescription{'a', 0x1B, '[', '2', 'J', '\n', 0x7F, 0xC3, 'z', 0, 'q'}
	if got, want := d.String(), "a\uFFFD[2J\uFFFD\uFFFD\uFFFDz"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestActiveSpeed follows IBA §14.2.5.6: which of the three families
// describes the link.
func TestActiveSpeed(t *testing.T) {
	ext := ib.CapIsExtendedSpeedsSupported
	for _, c := range []struct {
		p     PortInfo
		cap   ib.CapMask
		fdr10 bool
		want  ib.LinkSpeed
	}{
		{PortInfo{LinkSpeedActive: 4}, 0, false, ib.SpeedQDR},
		{PortInfo{LinkSpeedActive: 4}, 0, true, ib.SpeedFDR10},
		{PortInfo{LinkSpeedActive: 4, LinkSpeedExtActive: 2}, 0, false, ib.SpeedQDR}, // without the capability the field means nothing
		{PortInfo{LinkSpeedActive: 4, LinkSpeedExtActive: 2}, ext, false, ib.SpeedEDR},
		{PortInfo{LinkSpeedExtActive: 8}, ext, true, ib.SpeedNDR},
		{PortInfo{LinkSpeedExtActive: 8, LinkSpeedExtActive2: 1}, ext, false, ib.SpeedXDR},
		{PortInfo{LinkSpeedActive: 1}, ext, false, ib.SpeedSDR},
		{PortInfo{}, ext, false, ib.SpeedNone},
	} {
		if got := c.p.ActiveSpeedOf(c.cap, c.fdr10); got != c.want {
			t.Errorf("%+v: %v, want %v", c, got, c.want)
		}
	}
}

// TestClearForSet: a read-modify-write must not carry states or the one-shot
// bit along, and must keep what 0 would change.
func TestClearForSet(t *testing.T) {
	b := bytes.Repeat([]byte{0xFF}, 64)
	var p PortInfo
	if err := p.Decode(b); err != nil {
		t.Fatal(err)
	}
	p.ClearForSet()
	p.Put(b)
	if b[33] != 0 || b[32] != 0xF0 || b[29] != 0 || b[35] != 0xF0 || b[43] != 0x0F || b[51] != 0x7F || b[63] != 0 || b[56] != 0x78 {
		t.Errorf("%x", b)
	}
	if p.LMC != 7 || p.MKeyViolations != 0xFFFF || p.NeighborMTU != 15 {
		t.Errorf("%+v", p)
	}
}

// TestPutCutsToWidth: an overflowing field does not touch its neighbours.
func TestPutCutsToWidth(t *testing.T) {
	p := PortInfo{
		LMC: 0xFF, HOQLife: 0xFF, SubnetTimeOut: 0xFF, MasterSMSL: 0xFF, PortState: 0xFF, LinkRoundTripLatency: 0xFFFFFFFF,
		LinkSpeedExtEnabled: 0xFF, MulticastPKeyTrapSuppressionEnabled: 0,
	}
	b := make([]byte, 64)
	p.Put(b)
	for i, want := range map[int]byte{34: 0x07, 42: 0x1F, 51: 0x1F, 36: 0x0F, 32: 0x0F, 56: 0, 57: 0xFF, 63: 0x1F} {
		if b[i] != want {
			t.Errorf("byte %d is %02x, want %02x", i, b[i], want)
		}
	}
	s := SwitchInfo{OptimizedSLtoVLMappingProgramming: 0xFF, LifeTimeValue: 0xFF}
	c := make([]byte, SwitchInfoLen)
	s.Put(c)
	if c[11] != 0xFB {
		t.Errorf("%02x", c[11])
	}
	n := NodeInfo{VendorID: 0xFF000001, LocalPortNum: 2}
	n.Put(b)
	if !bytes.Equal(b[36:40], []byte{2, 0, 0, 1}) {
		t.Errorf("%x", b[36:40])
	}
}

// TestBeats: higher priority, then lower GUID (IBA §14.4.1).
func TestBeats(t *testing.T) {
	a, b := SMInfo{GUID: 1, Priority: 5}, SMInfo{GUID: 2, Priority: 5}
	if !a.Beats(&b) || b.Beats(&a) || a.Beats(&a) {
		t.Error("equal priority: the lower GUID")
	}
	b.Priority = 6
	if a.Beats(&b) || !b.Beats(&a) {
		t.Error("the higher priority")
	}
	for s, want := range map[SMState]string{0: "NotActive", 1: "Discovering", 2: "Standby", 3: "Master", 9: "SM state 9"} {
		if s.String() != want {
			t.Error(s)
		}
	}
}

// TestAttrNames: the ids here and the names in package ib belong together.
func TestAttrNames(t *testing.T) {
	for a, want := range map[ib.AttrID]string{
		AttrNotice: "Notice", AttrNodeDescription: "NodeDescription", AttrNodeInfo: "NodeInfo", AttrSwitchInfo: "SwitchInfo",
		AttrGUIDInfo: "GUIDInfo", AttrPortInfo: "PortInfo", AttrPKeyTable: "P_KeyTable", AttrSLtoVL: "SLtoVLMappingTable",
		AttrVLArb: "VLArbitrationTable", AttrLFT: "LinearForwardingTable", AttrRFT: "RandomForwardingTable",
		AttrMFT: "MulticastForwardingTable", AttrLinkSpeedWidthPairs: "LinkSpeedWidthPairsTable",
		AttrVendorSpecificMads: "VendorSpecificMadsTable", AttrHierarchyInfo: "HierarchyInfo", AttrSMInfo: "SMInfo",
		AttrVendorDiag: "VendorDiag", AttrLedInfo: "LedInfo", AttrCableInfo: "CableInfo", AttrPortInfoExtended: "PortInfoExtended",
		AttrSwitchPortStateTable: "SwitchPortStateTable", AttrGeneralInfo: "GeneralInfo", AttrExtendedPortInfo: "ExtendedPortInfo",
		AttrVirtualizationInfo: "VirtualizationInfo", AttrVPortInfo: "VPortInfo", AttrVNodeInfo: "VNodeInfo", AttrVPortState: "VPortState",
		AttrVNodeDescription: "VNodeDescription", AttrVPortGUIDInfo: "VPortGUIDInfo", AttrVPortPartitionTable: "VPortPartitionTable",
	} {
		if got := ib.AttrName(ib.ClassSubnDR, a); got != want {
			t.Errorf("%v is %q, want %q", a, got, want)
		}
	}
}

func BenchmarkPortInfo(b *testing.B) {
	var p PortInfo
	buf := make([]byte, 64)
	b.Run("decode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := p.Decode(buf); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("put", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			p.Put(buf)
		}
	})
	b.Run("NewDR", func(b *testing.B) {
		var m ib.MAD
		path := []byte{1, 2, 3, 4}
		b.ReportAllocs()
		for b.Loop() {
			NewDR(&m, ib.MethodGet, AttrPortInfo, 1, 0, path)
		}
	})
}
