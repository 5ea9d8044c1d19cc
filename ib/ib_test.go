package ib_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"heddle/ib"
	"heddle/internal/wiretest"
)

func TestClassPortInfoLaws(t *testing.T) {
	wiretest.Laws[ib.ClassPortInfo](t, wiretest.Attr{Name: "ClassPortInfo", Len: 72, Also: []int{192, 200}, Bits: 576 - 8})
}

// TestHeader: the fields of the common header are at their places, reading and
// writing (IBA §13.4.2).
func TestHeader(t *testing.T) {
	text := strings.ReplaceAll("01 81 01 81 801c 0203 0102030405060708 0015 0000 80000007", " ", "")
	want, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	var m ib.MAD
	copy(m[:], want)
	m[18], m[19] = 0xFF, 0xFF // reserved
	if m.BaseVersion() != 1 || m.Class() != ib.ClassSubnDR || m.ClassVersion() != 1 || m.Method() != ib.MethodGetResp ||
		m.Status() != 0x801C || m.ClassSpecific() != 0x0203 || m.TID() != 0x0102030405060708 || m.AttrID() != 0x15 ||
		m.AttrMod() != 0x80000007 {
		t.Errorf("%x", m[:24])
	}
	var n ib.MAD
	n.SetHeader(ib.ClassSubnDR, 1, ib.MethodGetResp, 0x15, 0x80000007)
	n.SetStatus(0x801C)
	n.SetClassSpecific(0x0203)
	n.SetTID(0x0102030405060708)
	if got := hex.EncodeToString(n[:24]); got != text {
		t.Errorf("%s, want %s", got, text)
	}
	if !bytes.Equal(n[24:], make([]byte, ib.MADLen-24)) {
		t.Errorf("the header reaches into the data: %x", n[24:])
	}
}

// TestRates checks the table of IBA §15.2.5.16 (with the later codes): width
// by width and speed by speed.
func TestRates(t *testing.T) {
	widths := []ib.LinkWidth{ib.Width1x, ib.Width2x, ib.Width4x, ib.Width8x, ib.Width12x}
	table := []struct {
		speed ib.LinkSpeed
		code  [5]ib.Rate
		gbps  [5]float64
	}{
		{ib.SpeedSDR, [5]ib.Rate{2, 5, 3, 6, 4}, [5]float64{2.5, 5, 10, 20, 30}},
		{ib.SpeedDDR, [5]ib.Rate{5, 3, 6, 7, 8}, [5]float64{5, 10, 20, 40, 60}},
		{ib.SpeedQDR, [5]ib.Rate{3, 6, 7, 9, 10}, [5]float64{10, 20, 40, 80, 120}},
		{ib.SpeedFDR10, [5]ib.Rate{3, 6, 7, 9, 10}, [5]float64{10, 20, 40, 80, 120}},
		{ib.SpeedFDR, [5]ib.Rate{11, 19, 12, 13, 14}, [5]float64{14, 28, 56, 112, 168}},
		{ib.SpeedEDR, [5]ib.Rate{15, 20, 16, 17, 18}, [5]float64{25, 50, 100, 200, 300}},
		{ib.SpeedHDR, [5]ib.Rate{20, 16, 17, 21, 22}, [5]float64{50, 100, 200, 400, 600}},
		{ib.SpeedNDR, [5]ib.Rate{16, 17, 21, 23, 24}, [5]float64{100, 200, 400, 800, 1200}},
		{ib.SpeedXDR, [5]ib.Rate{17, 21, 23, 25, 26}, [5]float64{200, 400, 800, 1600, 2400}},
	}
	seen := map[ib.Rate]bool{}
	for _, row := range table {
		for i, w := range widths {
			r := ib.RateOf(w, row.speed)
			seen[r] = true
			if r != row.code[i] || r.Gbps() != row.gbps[i] {
				t.Errorf("%v %v: code %d, %v Gb/s; want %d, %v", w, row.speed, r, r.Gbps(), row.code[i], row.gbps[i])
			}
			// The signaling rate is what the name promises, to 7 %.
			if raw := float64(w.Lanes()) * row.speed.LaneGbps(); math.Abs(raw/row.gbps[i]-1) > 0.07 {
				t.Errorf("%v %v: raw %v Gb/s, named %v", w, row.speed, raw, row.gbps[i])
			}
		}
	}
	for r := range ib.Rate(64) {
		if r.Valid() != seen[r] || (r.Gbps() != 0) != seen[r] || (r.Order() != 0) != seen[r] {
			t.Errorf("code %d: valid %v, %v Gb/s, order %d", r, r.Valid(), r.Gbps(), r.Order())
		}
	}
	if ib.RateOf(ib.Width1x|ib.Width4x, ib.SpeedEDR) != 0 || ib.RateOf(ib.Width4x, ib.SpeedNone) != 0 ||
		ib.RateOf(ib.Width4x, 200) != 0 || ib.RateOf(0, ib.SpeedEDR) != 0 {
		t.Error("a rate for no link")
	}
}

// TestRateOrder: codes are not ordered by speed; the SA compares them by net
// data rate.
func TestRateOrder(t *testing.T) {
	order := []ib.Rate{2, 5, 3, 11, 6, 4, 15, 19, 7, 8, 20, 12, 9, 10, 16, 13, 14, 17, 18, 21, 22, 23, 24, 25, 26}
	for i, r := range order {
		if r.Order() != i+1 {
			t.Errorf("%v has place %d, want %d", r, r.Order(), i+1)
		}
		var slower ib.Rate
		if i > 0 {
			slower = order[i-1]
		}
		if r.Slower() != slower {
			t.Errorf("%v: slower %v", r, r.Slower())
		}
	}
	if ib.Rate30.Cmp(ib.Rate5) <= 0 || ib.Rate(63).Cmp(ib.Rate2p5) >= 0 || ib.Rate100.Cmp(ib.Rate100) != 0 {
		t.Error("Cmp")
	}
	if ib.MinRate(ib.Rate30, ib.Rate5) != ib.Rate5 || ib.MinRate(ib.Rate2p5, ib.Rate1200) != ib.Rate2p5 {
		t.Error("MinRate")
	}
}

func TestStrings(t *testing.T) {
	for _, c := range []struct {
		got  fmt.Stringer
		want string
	}{
		{ib.StateDown, "Down"},
		{ib.StateInit, "Initialize"},
		{ib.StateArmed, "Armed"},
		{ib.StateActive, "Active"},
		{ib.StateActiveDefer, "ActiveDefer"},
		{ib.PortState(9), "state 9"},
		{ib.StateNoChange, "NoChange"},
		{ib.PhysSleep, "Sleep"},
		{ib.PhysPolling, "Polling"},
		{ib.PhysDisabled, "Disabled"},
		{ib.PhysTraining, "PortConfigurationTraining"},
		{ib.PhysLinkUp, "LinkUp"},
		{ib.PhysErrorRecovery, "LinkErrorRecovery"},
		{ib.PhysTest, "PhyTest"},
		{ib.PhysState(12), "phys state 12"},
		{ib.PhysNoChange, "NoChange"},
		{ib.NodeCA, "Channel Adapter"},
		{ib.NodeSwitch, "Switch"},
		{ib.NodeRouter, "Router"},
		{ib.NodeType(0), "node type 0"},
		{ib.LID(17), "17"},
		{ib.LID(0xC001), "0xc001"},
		{ib.GUID(0x2C9), "0x00000000000002c9"},
		{ib.PKey(0x7FFF), "0x7fff"},
		{ib.QKeyGSI, "0x80010000"},
		{ib.DefaultSubnetPrefix, "0xfe80000000000000"},
		{ib.MKey(5), "hidden"},
		{ib.MKey(0), "none"},
		{ib.MTU4096, "4096"},
		{ib.MTU(6), "MTU code 6"},
		{ib.Rate2p5, "2.5 Gb/s"},
		{ib.Rate100, "100 Gb/s"},
		{ib.Rate(1), "rate code 1"},
		{ib.Width4x, "4X"},
		{ib.Width1x | ib.Width4x | ib.Width2x, "1X or 2X or 4X"},
		{ib.LinkWidth(0), "none"},
		{ib.LinkWidth(0x40), "0x40"},
		{ib.SpeedEDR, "EDR"},
		{ib.SpeedFDR10, "FDR10"},
		{ib.LinkSpeed(77), "speed 77"},
		{ib.SpeedBits(7), "2.5 Gbps or 5.0 Gbps or 10.0 Gbps"},
		{ib.SpeedBits(0), "none"},
		{ib.SpeedExtBitHDR, "53.125 Gbps"},
		{ib.SpeedExt2BitXDR, "212.5 Gbps"},
		{ib.SpeedExtBits(17), "14.0625 Gbps or 0x10"},
		{ib.ClassSubnLID, "Subn"},
		{ib.ClassSubnDR, "SubnDR"},
		{ib.ClassSA, "SA"},
		{ib.ClassPerf, "Perf"},
		{ib.ClassCC, "CC"},
		{ib.ClassCM, "CM"},
		{ib.Class(0x0A), "Vendor0a"},
		{ib.Class(0x30), "Vendor30"},
		{ib.Class(0x77), "class 0x77"},
		{ib.ClassBM, "BM"},
		{ib.ClassDM, "DevMgt"},
		{ib.ClassSNMP, "SNMP"},
		{ib.ClassDevAdm, "DevAdm"},
		{ib.ClassBoot, "BootMgt"},
		{ib.ClassBIS, "BIS"},
		{ib.MethodGet, "Get"},
		{ib.MethodSet, "Set"},
		{ib.MethodGetResp, "GetResp"},
		{ib.MethodTrapRepress, "TrapRepress"},
		{ib.MethodGetTableResp, "GetTableResp"},
		{ib.Method(0x33), "method 0x33"},
		{ib.AttrID(0x15), "0x0015"},
		{ib.CapIsSM | ib.CapIsTrapSupported | 1, "bit0|IsSM|IsTrapSupported"},
		{ib.CapMask(0), "none"},
		{ib.VPortCapIsVendorClassSupported | ib.VPortCapIsSMDisabled | 1<<15, "IsVendorClassSupported|IsSMdisabled|bit15"},
		{ib.Cap2IsLinkSpeedNDRSupported | 1<<15, "IsLinkSpeedNDRSupported|bit15"},
		{ib.StatusOK, "ok"},
		{ib.StatusBusy, "busy (0x0001)"},
		{ib.Status(0x0300), "class-specific code 3 (0x0300)"},
		{ib.MakeGID(ib.DefaultSubnetPrefix, 0x100001), "fe80::10:1"},
	} {
		if got := c.got.String(); got != c.want {
			t.Errorf("%T: %q, want %q", c.got, got, c.want)
		}
	}
}

// TestStatus follows IBA §13.4.7 and §15.2.3.
func TestStatus(t *testing.T) {
	for _, c := range []struct {
		class ib.Class
		st    ib.Status
		want  string
	}{
		{ib.ClassSubnDR, 0x8000, "ok"},
		{ib.ClassSubnDR, 0x801C, "invalid attribute or modifier value (0x001c)"},
		{ib.ClassSubnLID, 0x000C, "method and attribute combination not supported (0x000c)"},
		{ib.ClassSubnLID, 0x0008, "method not supported (0x0008)"},
		{ib.ClassSubnLID, 0x0004, "class or base version not supported (0x0004)"},
		{ib.ClassPerf, 0x0003, "busy, redirect required (0x0003)"},
		{ib.ClassPerf, 0x0010, "reserved code 4 (0x0010)"},
		{ib.ClassPerf, 0x0020, "reserved bits 0x20 (0x0020)"},
		{ib.ClassSA, ib.StatusSANoRecords, "no records (0x0300)"},
		{ib.ClassSA, ib.StatusSAInsufficientComps, "insufficient components (0x0600)"},
		{ib.ClassSA, 0x0900, "class-specific code 9 (0x0900)"},
		// OpenSM's illegal Set(SMInfo) from a little-endian host.
		{ib.ClassSubnLID, 0x0700, "class-specific code 7 (0x0700)"},
	} {
		if got := c.st.Text(c.class); got != c.want {
			t.Errorf("%v %#x: %q, want %q", c.class, uint16(c.st), got, c.want)
		}
	}
}

func TestMethods(t *testing.T) {
	// IBA §13.4.5: the R bit, which TrapRepress does not have.
	for m, want := range map[ib.Method]bool{
		ib.MethodGet: false, ib.MethodSet: false, ib.MethodTrapRepress: false, ib.MethodGetResp: true, 0x92: true, 0x95: true,
	} {
		if m.IsResponse() != want {
			t.Errorf("%v is a response: %v", m, !want)
		}
	}
	if !ib.ClassSubnDR.IsSMP() || ib.ClassSA.IsSMP() {
		t.Error("IsSMP")
	}
}

func TestAttrName(t *testing.T) {
	for _, c := range []struct {
		class ib.Class
		attr  ib.AttrID
		want  string
	}{
		{ib.ClassSubnDR, 0x11, "NodeInfo"},
		{ib.ClassSubnLID, 0x19, "LinearForwardingTable"},
		{ib.ClassSA, 0x11, "NodeRecord"},
		{ib.ClassPerf, 0x12, "PortCounters"},
		{ib.ClassCC, 0x13, "CongestionLog"},
		{ib.ClassSA, 0x35, "PathRecord"},
		{ib.ClassSubnLID, 0x01, "attribute 0x0001"},
		{ib.ClassDM, 0x01, "ClassPortInfo"},
		{ib.ClassDM, 0x02, "Notice"},
		{ib.ClassSubnLID, 0xFF90, "ExtendedPortInfo"},
		{ib.ClassSA, 0x99, "attribute 0x0099"},
		{ib.ClassSubnDR, 0xFFB1, "VPortInfo"},
		{ib.ClassSA, 0xFFB2, "VNodeRecord"},
		{ib.ClassPerf, 0xFFB0, "VPortCountersExtended"},
	} {
		if got := ib.AttrName(c.class, c.attr); got != c.want {
			t.Errorf("%v %v: %q, want %q", c.class, c.attr, got, c.want)
		}
	}
}

func TestParse(t *testing.T) {
	for s, want := range map[string]ib.GUID{
		"0x0002c90300001234": 0x0002C90300001234, "0x1": 1, "2c9": 0x2C9, "0X10": 0x10,
		"0002:c903:0000:1234": 0x0002C90300001234, "00:02:c9:03:00:00:12:34": 0x0002C90300001234,
		"00-02-c9-03-00-00-12-34": 0x0002C90300001234, "ffffffffffffffff": 0xFFFFFFFFFFFFFFFF,
	} {
		if got, err := ib.ParseGUID(s); err != nil || got != want {
			t.Errorf("%q: %v, %v", s, got, err)
		}
	}
	for _, s := range []string{
		"", "0x", "0x10000000000000000", "+1", "1_0", "xyz", "0002:c903:0000", "00:02:c9:03:00:00:12", "0002:c903:0000:12345",
		"::", "00:02:c9:03:00:00:12:3g", "0002:c903:0000:1234:5678",
	} {
		if got, err := ib.ParseGUID(s); err == nil {
			t.Errorf("%q gave %v", s, got)
		}
	}
	for s, want := range map[string]ib.GID{
		"fe80::10:1":                            ib.MakeGID(ib.DefaultSubnetPrefix, 0x100001),
		"0xfe80000000000000:0x0000000000100001": ib.MakeGID(ib.DefaultSubnetPrefix, 0x100001),
		"::":                                    {},
	} {
		if got, err := ib.ParseGID(s); err != nil || got != want {
			t.Errorf("%q: %v, %v", s, got, err)
		}
	}
	for _, s := range []string{"", "1.2.3.4", "fe80::1%eth0", "0xfe80:0x", "0xg:0x1", "fe80"} {
		if got, err := ib.ParseGID(s); err == nil {
			t.Errorf("%q gave %v", s, got)
		}
	}
	if p, err := ib.ParsePKey("0x8001"); err != nil || p != 0x8001 {
		t.Error(p, err)
	}
	if _, err := ib.ParsePKey("0x10000"); err == nil {
		t.Error("a P_Key of 17 bits")
	}
	for s, want := range map[string]ib.LinkWidth{"4x": ib.Width4x, "12X": ib.Width12x, "1": ib.Width1x, "2x": ib.Width2x} {
		if w, err := ib.ParseLinkWidth(s); err != nil || w != want {
			t.Errorf("%q: %v %v", s, w, err)
		}
	}
	for s, want := range map[string]ib.LinkSpeed{"EDR": ib.SpeedEDR, "sdr": ib.SpeedSDR, "FDR10": ib.SpeedFDR10, "Xdr": ib.SpeedXDR} {
		if v, err := ib.ParseLinkSpeed(s); err != nil || v != want {
			t.Errorf("%q: %v %v", s, v, err)
		}
	}
	for _, s := range []string{"", "x", "3x", "none", "4xx", "-4x"} {
		if w, err := ib.ParseLinkWidth(s); err == nil {
			t.Errorf("width %q gave %v", s, w)
		}
		if v, err := ib.ParseLinkSpeed(s); err == nil {
			t.Errorf("speed %q gave %v", s, v)
		}
	}
	var pe *ib.ParseError
	if _, err := ib.ParseLinkSpeed("warp"); !errors.As(err, &pe) || pe.What != "link speed" || pe.Text != "warp" {
		t.Error(err)
	}
}

// TestText: everything with a text form survives JSON.
func TestText(t *testing.T) {
	type all struct {
		GUID   ib.GUID
		GID    ib.GID
		PKey   ib.PKey
		Prefix ib.SubnetPrefix
		Map    map[ib.GUID]int
	}
	a := all{0x2C903, ib.MakeGID(ib.DefaultSubnetPrefix, 7), 0xFFFF, ib.DefaultSubnetPrefix, map[ib.GUID]int{5: 6}}
	b, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"GUID":"0x000000000002c903","GID":"fe80::7","PKey":"0xffff","Prefix":"0xfe80000000000000","Map":{"0x0000000000000005":6}}`
	if string(b) != want {
		t.Errorf("%s\nwant %s", b, want)
	}
	var c all
	if err := json.Unmarshal(b, &c); err != nil || c.GUID != a.GUID || c.GID != a.GID || c.PKey != a.PKey || c.Prefix != a.Prefix || c.Map[5] != 6 {
		t.Errorf("%v %+v", err, c)
	}
	for _, s := range []string{`{"GUID":"x"}`, `{"GID":"x"}`, `{"PKey":"x"}`, `{"Prefix":"x"}`} {
		if json.Unmarshal([]byte(s), &c) == nil {
			t.Errorf("%s was taken", s)
		}
	}
}

func TestKeysAndLIDs(t *testing.T) {
	// IBA §10.9.3: bases equal and at least one full member.
	for _, c := range []struct {
		a, b ib.PKey
		want bool
	}{{0xFFFF, 0x7FFF, true}, {0x7FFF, 0x7FFF, false}, {0x8001, 0x8001, true}, {0x8001, 0x8002, false}, {0x8000, 0x8000, false}} {
		if c.a.Matches(c.b) != c.want || c.b.Matches(c.a) != c.want {
			t.Errorf("%v and %v", c.a, c.b)
		}
	}
	if !ib.PKey(0x8000).IsEmpty() || ib.PKey(1).IsEmpty() || !ib.PKeyDefaultFull.IsFull() || ib.PKeyDefaultFull.Base() != 0x7FFF {
		t.Error("P_Key")
	}
	for l, want := range map[ib.LID][2]bool{0: {}, 1: {true, false}, 0xBFFF: {true, false}, 0xC000: {false, true}, 0xFFFE: {false, true}, 0xFFFF: {}} {
		if l.IsUnicast() != want[0] || l.IsMulticast() != want[1] {
			t.Errorf("LID %v", l)
		}
	}
	g := ib.MakeGID(ib.DefaultSubnetPrefix, 9)
	if g.Prefix() != ib.DefaultSubnetPrefix || g.GUID() != 9 || g.IsMulticast() || g.IsZero() || !(ib.GID{}).IsZero() || !(ib.GID{0xFF}).IsMulticast() {
		t.Error("GID")
	}
	for m, want := range map[ib.MTU]int{0: 0, 1: 256, 2: 512, 3: 1024, 4: 2048, 5: 4096, 6: 0} {
		if m.Bytes() != want {
			t.Errorf("MTU %d: %d", m, m.Bytes())
		}
	}
	for c, want := range []int{0, 1, 2, 4, 8, 15, 0} {
		if ib.VLsOf(uint8(c)) != want {
			t.Errorf("VL code %d", c)
		}
	}
}

func TestSpeeds(t *testing.T) {
	for s := ib.SpeedSDR; s <= ib.SpeedXDR; s++ {
		b, x, y, f := s.Bits()
		n := 0
		for _, set := range []bool{b != 0, x != 0, y != 0, f} {
			if set {
				n++
			}
		}
		got := b.Fastest() + x.Fastest() + y.Fastest()
		if f {
			got = ib.SpeedFDR10
		}
		if n != 1 || got != s {
			t.Errorf("%v: %v %v %v %v", s, b, x, y, f)
		}
		if s > ib.SpeedSDR && s.LaneGbps() <= (s-1).LaneGbps() {
			t.Errorf("%v is not faster than %v", s, s-1)
		}
		// 8b/10b, 64b/66b, or a code with overhead like it.
		if code := s.DataGbps() / s.LaneGbps(); s > 0 && (code > 0.97 || code < 0.79 || s > ib.SpeedQDR && code < 0.94) {
			t.Errorf("%v: the line code leaves %v of the rate", s, code)
		}
		if p, err := ib.ParseLinkSpeed(s.String()); err != nil || p != s {
			t.Error(p, err)
		}
	}
	if (ib.SpeedBitSDR|ib.SpeedBitQDR).Fastest() != ib.SpeedQDR || (ib.SpeedExtBitFDR|ib.SpeedExtBitNDR).Fastest() != ib.SpeedNDR {
		t.Error("Fastest")
	}
	if (ib.Width1x|ib.Width2x|ib.Width4x).Widest() != ib.Width4x || ib.LinkWidth(0).Widest() != 0 {
		t.Error("Widest")
	}
}

func TestDecodeError(t *testing.T) {
	var c ib.ClassPortInfo
	err := c.Decode(make([]byte, 3))
	var de *ib.DecodeError
	if !errors.As(err, &de) || *de != (ib.DecodeError{Type: "ClassPortInfo", Want: 72, Got: 3, Err: ib.ErrShort}) {
		t.Errorf("%+v", err)
	}
	if got, want := err.Error(), "ib: ClassPortInfo: too short: 3 bytes, want 72"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := ib.BadValue("NodeInfo", "NodeType", 9).Error(), "ib: NodeInfo.NodeType: impossible value 9"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if err := ib.CheckLen("X", make([]byte, 64), 8, 64); err != nil {
		t.Error(err)
	}
}

func FuzzClassPortInfo(f *testing.F) { wiretest.Fuzz[ib.ClassPortInfo](f, 72, 192, 200) }

// FuzzParse: parsing never panics, and what it takes prints and parses to the
// same value.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"0x1", "fe80::1", "0002:c903:0000:1234", "12", "4xEDR", "0xfe80:0x1", "::ffff:1.2.3.4"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if g, err := ib.ParseGUID(s); err == nil {
			if h, err := ib.ParseGUID(g.String()); err != nil || h != g {
				t.Fatalf("%q: %v %v", s, h, err)
			}
		}
		if g, err := ib.ParseGID(s); err == nil {
			if h, err := ib.ParseGID(g.String()); err != nil || h != g {
				t.Fatalf("%q: %v %v", s, h, err)
			}
		}
		if p, err := ib.ParsePKey(s); err == nil {
			if q, err := ib.ParsePKey(p.String()); err != nil || q != p {
				t.Fatalf("%q: %v %v", s, q, err)
			}
		}
		if w, err := ib.ParseLinkWidth(s); err == nil {
			if x, err := ib.ParseLinkWidth(w.String()); err != nil || x != w {
				t.Fatalf("%q: %v %v", s, x, err)
			}
		}
		if v, err := ib.ParseLinkSpeed(s); err == nil {
			if x, err := ib.ParseLinkSpeed(v.String()); err != nil || x != v {
				t.Fatalf("%q: %v %v", s, x, err)
			}
		}
	})
}
