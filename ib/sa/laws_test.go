package sa

import (
	"bytes"
	"encoding/binary"
	"testing"

	"heddle/ib"
	"heddle/internal/wiretest"
)

func also(bare ...int) []int { return append(bare, DataLen) }

// TestLaws flips every bit of every record. The numbers of bits are the sums
// of the field widths in the tables of IBA §15.2.5.
func TestLaws(t *testing.T) {
	const portInfo = 502
	wiretest.Laws[NodeRecord](t, wiretest.Attr{Name: "NodeRecord", Len: 112, Also: also(108), Bits: 16 + 320 + 512})
	wiretest.Laws[PortInfoRecord](t, wiretest.Attr{Name: "PortInfoRecord", Len: 72, Also: also(68), Bits: 32 + portInfo})
	wiretest.Laws[SwitchInfoRecord](t, wiretest.Attr{Name: "SwitchInfoRecord", Len: 24, Also: also(), Bits: 16 + 149})
	wiretest.Laws[SMInfoRecord](t, wiretest.Attr{Name: "SMInfoRecord", Len: 32, Also: also(25), Bits: 16 + 168})
	wiretest.Laws[LinkRecord](t, wiretest.Attr{Name: "LinkRecord", Len: 8, Also: also(6), Bits: 48})
	wiretest.Laws[PathRecord](t, wiretest.Attr{Name: "PathRecord", Len: 64, Also: also(), Bits: 512 - 48})
	wiretest.Laws[MCMemberRecord](t, wiretest.Attr{Name: "MCMemberRecord", Len: 56, Also: also(52), Bits: 394, Loose: true})
	wiretest.Laws[ServiceRecord](t, wiretest.Attr{Name: "ServiceRecord", Len: 176, Also: also(), Bits: 176*8 - 16})
	wiretest.Laws[InformInfo](t, wiretest.Attr{Name: "InformInfo", Len: 36, Also: also(), Bits: 288 - 16 - 3 - 8})
	wiretest.Laws[InformInfoRecord](t, wiretest.Attr{Name: "InformInfoRecord", Len: 64, Also: also(60), Bits: 128 + 16 + 261})
	wiretest.Laws[Notice](t, wiretest.Attr{Name: "Notice", Len: 80, Also: also(), Bits: 640})
	wiretest.Laws[SLtoVLRecord](t, wiretest.Attr{Name: "SLtoVLRecord", Len: 16, Also: also(), Bits: 32 + 64})
	wiretest.Laws[VLArbRecord](t, wiretest.Attr{Name: "VLArbRecord", Len: 72, Also: also(), Bits: 32 + 384})
	wiretest.Laws[PKeyTableRecord](t, wiretest.Attr{Name: "PKeyTableRecord", Len: 72, Also: also(), Bits: 40 + 512})
	wiretest.Laws[LFTRecord](t, wiretest.Attr{Name: "LFTRecord", Len: 72, Also: also(), Bits: 32 + 512})
	wiretest.Laws[MFTRecord](t, wiretest.Attr{Name: "MFTRecord", Len: 72, Also: also(), Bits: 29 + 512})
	wiretest.Laws[GUIDInfoRecord](t, wiretest.Attr{Name: "GUIDInfoRecord", Len: 72, Also: also(), Bits: 24 + 512})
	wiretest.Laws[VirtualizationInfoRecord](t, wiretest.Attr{Name: "VirtualizationInfoRecord", Len: 72, Also: also(), Bits: 48 + 51})
	wiretest.Laws[VPortInfoRecord](t, wiretest.Attr{Name: "VPortInfoRecord", Len: 72, Also: also(), Bits: 48 + 246})
	wiretest.Laws[VNodeRecord](t, wiretest.Attr{Name: "VNodeRecord", Len: 136, Also: also(), Bits: 48 + 224 + 512})
	wiretest.Laws[VPortGUIDInfoRecord](t, wiretest.Attr{Name: "VPortGUIDInfoRecord", Len: 72, Also: also(), Bits: 48 + 512})
	wiretest.Laws[VPortPartitionTableRecord](t, wiretest.Attr{Name: "VPortPartitionTableRecord", Len: 72, Also: also(), Bits: 48 + 512})
	wiretest.Laws[PathChangeRecord](t, wiretest.Attr{Name: "PathChangeRecord", Len: 80, Also: also(), Bits: 64 + 3 + 512 - 48})
	wiretest.Laws[TraceRecord](t, wiretest.Attr{Name: "TraceRecord", Len: 48, Also: also(46), Bits: 46*8 - 8})
}

// TestHeader: the fields of bytes 24–55, and nothing else, both ways; no
// allocation.
func TestHeader(t *testing.T) {
	h := Header{
		RMPPVersion: 1, RMPPType: RMPPData, RRespTime: NoRRespTime, RMPPFlags: RMPPActive | RMPPFirst | RMPPLast,
		RMPPStatus: 7, SegmentNumber: 1, PayloadLength: 132, SMKey: 0x0102030405060708, AttrOffset: 14,
		ComponentMask: PathCompDGID | PathCompSGID,
	}
	b := bytes.Repeat([]byte{0xEE}, 100)
	h.Put(b)
	want, _ := bytesOf("01 01 ff 07 00000001 00000084 0102030405060708 000e 0000 000000000000000c")
	if !bytes.Equal(b[24:56], want) {
		t.Errorf("%x, want %x", b[24:56], want)
	}
	if !bytes.Equal(b[:24], bytes.Repeat([]byte{0xEE}, 24)) || b[56] != 0xEE {
		t.Error("Put wrote outside of its bytes")
	}
	var g Header
	for n := range HeaderLen {
		if err := g.Decode(b[:n]); err == nil {
			t.Fatalf("%d bytes taken", n)
		}
	}
	if err := g.Decode(b); err != nil || g != h {
		t.Errorf("%v, %+v, want %+v", err, g, h)
	}
	if n := testing.AllocsPerRun(100, func() { _ = g.Decode(b); g.Put(b) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if RMPPTypeOf(b) != RMPPData {
		t.Error("RMPPTypeOf looks elsewhere")
	}
	// Bytes 46 and 47 are reserved.
	b[46], b[47] = 0xFF, 0xFF
	if err := g.Decode(b); err != nil || g != h {
		t.Error("reserved bytes were read")
	}
}

// TestMultiPathRecord: as long as its counts say, both ways.
func TestMultiPathRecord(t *testing.T) {
	r := MultiPathRecord{
		RawTraffic: true, FlowLabel: 0xABCDE, HopLimit: 9, TClass: 8, Reversible: true, NumbPath: 5,
		PKey: 0x8001, QoSClass: 0xABC, SL: 7, MTUSelector: 2, MTU: 4, RateSelector: 1, Rate: ib.Rate100,
		PacketLifeTimeSelector: 3, PacketLifeTime: 18, ServiceID: 0x1122334455667788, IndependenceSelector: 2,
		SGIDCount: 1, DGIDCount: 2,
	}
	for i := range 3 {
		r.GIDs[i] = ib.MakeGID(ib.DefaultSubnetPrefix, ib.GUID(i+1))
	}
	b := wiretest.Bytes(&r, r.Len())
	if len(b) != 24+48 || len(b) != r.Len() {
		t.Fatalf("%d bytes", len(b))
	}
	want, _ := bytesOf("8abcde09 08 85 8001 abc7 84 50 d2 11 80 01 02 22334455667788")
	if !bytes.Equal(b[:24], want) {
		t.Errorf("%x, want %x", b[:24], want)
	}
	var s MultiPathRecord
	if err := s.Decode(b); err != nil || s != r {
		t.Errorf("%v, %+v, want %+v", err, s, r)
	}
	if len(s.SGIDs()) != 1 || len(s.DGIDs()) != 2 || s.DGIDs()[1] != r.GIDs[2] {
		t.Error("GIDs are split in the wrong place")
	}
	before := s
	for n := range 300 {
		if n == len(b) || n == DataLen {
			continue
		}
		c := make([]byte, n)
		copy(c, b)
		if err := s.Decode(c); err == nil || s != before {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	area := make([]byte, DataLen)
	copy(area, b)
	area[DataLen-1] = 0xFF
	if err := s.Decode(area); err != nil || s != r {
		t.Errorf("whole data area: %v, %+v", err, s)
	}
	area[15], area[16] = 6, 6 // one GID more than fits
	if err := s.Decode(area); err == nil {
		t.Error("12 GIDs were taken")
	}
	area[15], area[16] = 255, 255
	if err := s.Decode(area); err == nil {
		t.Error("510 GIDs were taken")
	}
}

// TestPathRecordReserved: the field at bit 353 is the 3-bit reserved one,
// byte 44 mask 0x70.
func TestPathRecordReserved(t *testing.T) {
	r := PathRecord{Reserved3: 1}
	b := wiretest.Bytes(&r, PathRecordLen)
	if b[44] != 0x10 || binary.BigEndian.Uint32(b[44:]) != 0x10000000 {
		t.Errorf("byte 44 is %02x", b[44])
	}
	b[44] = 0x40
	if err := r.Decode(b); err != nil || r.Reserved3 != 4 || r.RawTraffic || r.FlowLabel != 0 {
		t.Errorf("%v, %+v", err, r)
	}
}

// TestProxyJoin: bit 7 goes out, bit 7 and bit 0 come in.
func TestProxyJoin(t *testing.T) {
	r := MCMemberRecord{ProxyJoin: true}
	b := wiretest.Bytes(&r, MCMemberRecordLen)
	if b[49] != 0x80 {
		t.Errorf("byte 49 is %02x", b[49])
	}
	for v, want := range map[byte]bool{0x80: true, 0x01: true, 0x7E: false, 0: false} {
		b[49] = v
		if err := r.Decode(b); err != nil || r.ProxyJoin != want {
			t.Errorf("%02x: %v, %v", v, r.ProxyJoin, err)
		}
	}
}

func FuzzNodeRecord(f *testing.F)               { wiretest.Fuzz[NodeRecord](f, 108, 112, 200) }
func FuzzPortInfoRecord(f *testing.F)           { wiretest.Fuzz[PortInfoRecord](f, 68, 72, 200) }
func FuzzSwitchInfoRecord(f *testing.F)         { wiretest.Fuzz[SwitchInfoRecord](f, 24, 200) }
func FuzzSMInfoRecord(f *testing.F)             { wiretest.Fuzz[SMInfoRecord](f, 25, 32, 200) }
func FuzzLinkRecord(f *testing.F)               { wiretest.Fuzz[LinkRecord](f, 6, 8, 200) }
func FuzzPathRecord(f *testing.F)               { wiretest.Fuzz[PathRecord](f, 64, 200) }
func FuzzMultiPathRecord(f *testing.F)          { wiretest.Fuzz[MultiPathRecord](f, 24, 40, 200) }
func FuzzPathChangeRecord(f *testing.F)         { wiretest.Fuzz[PathChangeRecord](f, 80, 200) }
func FuzzPathNotice(f *testing.F)               { wiretest.Fuzz[PathNotice](f, 88, 120) }
func FuzzMCMemberRecord(f *testing.F)           { wiretest.Fuzz[MCMemberRecord](f, 52, 56, 200) }
func FuzzServiceRecord(f *testing.F)            { wiretest.Fuzz[ServiceRecord](f, 176, 200) }
func FuzzInformInfo(f *testing.F)               { wiretest.Fuzz[InformInfo](f, 36, 200) }
func FuzzInformInfoRecord(f *testing.F)         { wiretest.Fuzz[InformInfoRecord](f, 60, 64, 200) }
func FuzzNotice(f *testing.F)                   { wiretest.Fuzz[Notice](f, 80, 200) }
func FuzzSLtoVLRecord(f *testing.F)             { wiretest.Fuzz[SLtoVLRecord](f, 16, 200) }
func FuzzVLArbRecord(f *testing.F)              { wiretest.Fuzz[VLArbRecord](f, 72, 200) }
func FuzzPKeyTableRecord(f *testing.F)          { wiretest.Fuzz[PKeyTableRecord](f, 72, 200) }
func FuzzLFTRecord(f *testing.F)                { wiretest.Fuzz[LFTRecord](f, 72, 200) }
func FuzzMFTRecord(f *testing.F)                { wiretest.Fuzz[MFTRecord](f, 72, 200) }
func FuzzGUIDInfoRecord(f *testing.F)           { wiretest.Fuzz[GUIDInfoRecord](f, 72, 200) }
func FuzzTraceRecord(f *testing.F)              { wiretest.Fuzz[TraceRecord](f, 46, 48, 200) }
func FuzzVirtualizationInfoRecord(f *testing.F) { wiretest.Fuzz[VirtualizationInfoRecord](f, 72, 200) }
func FuzzVPortInfoRecord(f *testing.F)          { wiretest.Fuzz[VPortInfoRecord](f, 72, 200) }
func FuzzVNodeRecord(f *testing.F)              { wiretest.Fuzz[VNodeRecord](f, 136, 200) }
func FuzzVPortGUIDInfoRecord(f *testing.F)      { wiretest.Fuzz[VPortGUIDInfoRecord](f, 72, 200) }
func FuzzVPortPartitionTableRecord(f *testing.F) {
	wiretest.Fuzz[VPortPartitionTableRecord](f, 72, 200)
}

func FuzzHeader(f *testing.F) {
	f.Add(make([]byte, HeaderLen))
	f.Add(bytes.Repeat([]byte{0xFF}, 256))
	f.Fuzz(func(t *testing.T, b []byte) {
		var h, g Header
		if h.Decode(b) != nil {
			return
		}
		w := make([]byte, HeaderLen)
		h.Put(w)
		if err := g.Decode(w); err != nil || g != h {
			t.Fatalf("%+v != %+v: %v", g, h, err)
		}
	})
}
