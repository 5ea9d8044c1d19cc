package sa

import (
	"bytes"
	"encoding/hex"
	"strings"
	"testing"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/internal/wiretest"
)

func bytesOf(s string) ([]byte, error) { return hex.DecodeString(strings.ReplaceAll(s, " ", "")) }

// TestWire decodes what OpenSM answered to saquery, and makes saquery's
// requests. The wanted values are what saquery printed.
func TestWire(t *testing.T) {
	es := wiretest.Read(t, "testdata/wire.txt")
	// record returns the i-th record of a table answer after checking its
	// header.
	record := func(name string, attr ib.AttrID, size, i int) []byte {
		t.Helper()
		e := wiretest.Find(t, es, name)
		m := e.MAD()
		var h Header
		if err := h.Decode(m[:]); err != nil {
			t.Fatal(err)
		}
		if m.Class() != ib.ClassSA || m.ClassVersion() != ClassVersion || m.Method() != ib.MethodGetTableResp ||
			m.AttrID() != attr || h.AttrOffset != OffsetWords(size) || h.RMPPFlags != RMPPActive {
			t.Errorf("%s: header %+v", name, h)
		}
		return Data(m)[i*size : (i+1)*size]
	}
	same := func(name string, b []byte, r wiretest.Codec) {
		t.Helper()
		w := wiretest.Bytes(r, len(b))
		if !bytes.Equal(w, b) {
			t.Errorf("%s: we write\n%x\nthey wrote\n%x", name, w, b)
		}
	}

	b := record("noderecord", AttrNodeRecord, NodeRecordLen, 0)
	nr := NodeRecord{LID: 1, NodeInfo: smp.NodeInfo{
		BaseVersion: 1, ClassVersion: 1, NodeType: ib.NodeCA, NumPorts: 1,
		SystemImageGUID: 0x100000, NodeGUID: 0x100000, PortGUID: 0x100001, PartitionCap: 0x40, Revision: 0xA1, LocalPortNum: 1,
	}}
	nr.NodeDescription.Set("H1")
	var nr2 NodeRecord
	if err := nr2.Decode(b); err != nil || nr2 != nr {
		t.Errorf("%v, %+v, want %+v", err, nr2, nr)
	}
	same("NodeRecord", b, &nr)

	for i, want := range []struct {
		lid  ib.LID
		port uint8
		cap  ib.CapMask
	}{{1, 1, 0x50C04A}, {2, 0, 0xC048}} {
		b = record("portinforecord", AttrPortInfoRecord, PortInfoRecordLen, i)
		var r PortInfoRecord
		if err := r.Decode(b); err != nil {
			t.Fatal(err)
		}
		if r.LID != want.lid || r.PortNum != want.port || r.PortInfo.CapabilityMask != want.cap || r.PortInfo.MasterSMLID != 1 {
			t.Errorf("%+v", r)
		}
		same("PortInfoRecord", b, &r)
	}

	for i, want := range []PathRecord{
		{DLID: 2, SLID: 2, SGID: gid(0x200000), PacketLifeTime: 0},
		{DLID: 2, SLID: 1, SGID: gid(0x100001), PacketLifeTime: 18},
	} {
		want.DGID, want.Reversible, want.PKey = gid(0x200000), true, ib.PKeyDefaultFull
		want.MTUSelector, want.MTU = SelExactly, ib.MTU1024
		want.RateSelector, want.Rate = SelExactly, ib.Rate10
		want.PacketLifeTimeSelector = SelExactly
		b = record("pathrecord", AttrPathRecord, PathRecordLen, i)
		var r PathRecord
		if err := r.Decode(b); err != nil || r != want {
			t.Errorf("%v\n%+v, want\n%+v", err, r, want)
		}
		same("PathRecord", b, &r)
	}

	links := []LinkRecord{{1, 1, 1, 2}, {2, 1, 1, 1}, {2, 2, 1, 4}, {2, 3, 3, 3}, {3, 1, 1, 5}, {3, 3, 3, 2}, {4, 1, 2, 2}, {5, 1, 1, 3}}
	for i, want := range links {
		b = record("linkrecord", AttrLinkRecord, LinkRecordLen, i)
		var r LinkRecord
		if err := r.Decode(b); err != nil || r != want {
			t.Errorf("%v, %+v, want %+v", err, r, want)
		}
		same("LinkRecord", b, &r)
	}

	b = record("sminforecord", AttrSMInfoRecord, SMInfoRecordLen, 0)
	sr := SMInfoRecord{LID: 1, SMInfo: smp.SMInfo{GUID: 0x100001, ActCount: 82, SMState: smp.SMMaster}}
	var sr2 SMInfoRecord
	if err := sr2.Decode(b); err != nil || sr2 != sr {
		t.Errorf("%v, %+v, want %+v", err, sr2, sr)
	}
	same("SMInfoRecord", b, &sr)

	b = record("sltovlrecord", AttrSLtoVLRecord, SLtoVLRecordLen, 1)
	sl := SLtoVLRecord{LID: 2, InputPort: 1, OutputPort: 0}
	var sl2 SLtoVLRecord
	if err := sl2.Decode(b); err != nil || sl2.LID != sl.LID {
		t.Errorf("%v, %+v", err, sl2)
	}
	same("SLtoVLRecord", b, &sl2)

	b = record("vlarbrecord", AttrVLArbRecord, VLArbRecordLen, 1)
	var va VLArbRecord
	if err := va.Decode(b); err != nil || va.LID != 2 || va.OutputPort != 0 || va.Block != 2 {
		t.Errorf("%v, %+v", err, va)
	}
	same("VLArbRecord", b, &va)

	b = record("lftrecord", AttrLFTRecord, LFTRecordLen, 1)
	lf := LFTRecord{LID: 3}
	for i := range lf.LFT {
		lf.LFT[i] = smp.PortDrop
	}
	copy(lf.LFT[1:], []byte{3, 3, 0, 3, 1})
	var lf2 LFTRecord
	if err := lf2.Decode(b); err != nil || lf2 != lf {
		t.Errorf("%v, %+v, want %+v", err, lf2, lf)
	}
	same("LFTRecord", b, &lf)

	b = record("guidinforecord", AttrGUIDInfoRecord, GUIDInfoRecordLen, 1)
	gr := GUIDInfoRecord{LID: 1, Block: 1}
	var gr2 GUIDInfoRecord
	if err := gr2.Decode(b); err != nil || gr2 != gr {
		t.Errorf("%v, %+v, want %+v", err, gr2, gr)
	}
	same("GUIDInfoRecord", b, &gr)

	b = record("mcmemberrecord", AttrMCMemberRecord, MCMemberRecordLen, 0)
	mgid, err := ib.ParseGID("ff12:401b:ffff::ffff:ffff")
	if err != nil {
		t.Fatal(err)
	}
	mc := MCMemberRecord{
		MGID: mgid, QKey: 0xB1B, MLID: 0xC000, MTUSelector: SelExactly, MTU: ib.MTU2048, PKey: 0xFFFF,
		RateSelector: SelExactly, Rate: ib.Rate10, PacketLifeTimeSelector: SelExactly, PacketLifeTime: 18, Scope: 2,
	}
	var mc2 MCMemberRecord
	if err := mc2.Decode(b); err != nil || mc2 != mc {
		t.Errorf("%v\n%+v, want\n%+v", err, mc2, mc)
	}
	same("MCMemberRecord", b, &mc)

	var c ClassPortInfo
	m := wiretest.Find(t, es, "classportinfo").MAD()
	if err := c.Decode(Data(m)); err != nil {
		t.Fatal(err)
	}
	if want := (ClassPortInfo{
		BaseVersion: 1, ClassVersion: 2, CapabilityMask: ib.ClassCapNotice | CapUDMulticast | CapMultiPath | CapPortInfoCapMatch,
		CapabilityMask2: Cap2MulticastTop | Cap2AliasGUIDs | Cap2FullPortInfo | Cap2ExtSpeeds | Cap2MulticastService |
			Cap2PortInfoCap2Match | Cap2SendOnlyFull | Cap2Width2x | Cap2HDR,
		RespTimeValue: 0x10, RedirectQP: 1, RedirectQKey: ib.QKeyGSI, TrapQKey: ib.QKeyGSI,
	}); c != want {
		t.Errorf("%+v, want %+v", c, want)
	}

	// Requests: ours are theirs.
	e := wiretest.Find(t, es, "noderecord-req").MAD()
	var ours ib.MAD
	New(&ours, ib.MethodGetTable, AttrNodeRecord, 0, 0)
	ours.SetTID(e.TID())
	if ours != *e {
		t.Errorf("our request\n%x\ntheirs\n%x", ours[:], e[:])
	}
	e = wiretest.Find(t, es, "portinforecord-issm").MAD()
	New(&ours, ib.MethodGetTable, AttrPortInfoRecord, PortInfoCapMatch, PortInfoCompCapabilityMask)
	ours.SetTID(e.TID())
	q := PortInfoRecord{PortInfo: smp.PortInfo{CapabilityMask: ib.CapIsSM}}
	q.Put(Data(&ours))
	if ours != *e {
		t.Errorf("our request\n%x\ntheirs\n%x", ours[:], e[:])
	}
}

func gid(g ib.GUID) ib.GID { return ib.MakeGID(ib.DefaultSubnetPrefix, g) }

// TestMoreWire: requests and answers of OpenSM 3.3.23 on ibsim's net.1, data
// part only, trailing zeroes cut.
func TestMoreWire(t *testing.T) {
	svcName := [64]byte{}
	copy(svcName[:], "example.service")
	for _, c := range []struct {
		name string
		hex  string
		size int
		got  wiretest.Codec
		want wiretest.Codec
	}{
		{
			"SwitchInfoRecord LID 1", "000100007800000004000003000000900000004030", SwitchInfoRecordLen, new(SwitchInfoRecord),
			&SwitchInfoRecord{LID: 1, SwitchInfo: smp.SwitchInfo{
				LinearFDBCap: 30720, MulticastFDBCap: 1024, LinearFDBTop: 3,
				LifeTimeValue: 18, PartitionEnforcementCap: 64, FilterRawInboundCap: true, FilterRawOutboundCap: true,
			}},
		},
		{
			"P_KeyTableRecord LID 2, port 1", "0002000001000000ffff", PKeyTableRecordLen, new(PKeyTableRecord),
			&PKeyTableRecord{LID: 2, PortNum: 1, PKeyTable: smp.PKeyTable{ib.PKeyDefaultFull}},
		},
		{
			"SLtoVL LID 1, 1 to 4", "00010104", SLtoVLRecordLen, new(SLtoVLRecord),
			&SLtoVLRecord{LID: 1, InputPort: 1, OutputPort: 4},
		},
		{
			"VLArb LID 2 port 1 block 1", "00020101", VLArbRecordLen, new(VLArbRecord),
			&VLArbRecord{LID: 2, OutputPort: 1, Block: 1},
		},
		{
			"PathRecord", "0000000000000000fe800000000000000000000000100004fe80000000000000000000000010000100030002000000000080ffff0000848392",
			PathRecordLen, new(PathRecord),
			&PathRecord{
				DGID: gid(0x100004), SGID: gid(0x100001), DLID: 3, SLID: 2, Reversible: true, PKey: 0xFFFF,
				MTUSelector: 2, MTU: ib.MTU2048, RateSelector: 2, Rate: ib.Rate10, PacketLifeTimeSelector: 2, PacketLifeTime: 18,
			},
		},
		{
			"MCMember join", "ff12401bffff000000000000fffffffffe8000000000000000000000001000010000000000000000ffff00000000000001",
			MCMemberRecordLen, new(MCMemberRecord),
			&MCMemberRecord{
				MGID: ib.GID{0xFF, 0x12, 0x40, 0x1B, 0xFF, 0xFF, 12: 0xFF, 0xFF, 0xFF, 0xFF}, PortGID: gid(0x100001),
				PKey: 0xFFFF, JoinState: JoinFull,
			},
		},
		{
			"ServiceRecord Set", "0000000000001234fe800000000000000000000000100001ffff00000000003c00000000000000000000000000000000" +
				"6578616d706c652e73657276696365" + strings.Repeat("00", 49) + "0102030405060708090a0b0c0d0e0f10",
			ServiceRecordLen, new(ServiceRecord),
			&ServiceRecord{
				ServiceID: 0x1234, ServiceGID: gid(0x100001), ServicePKey: 0xFFFF, ServiceLease: 60, ServiceName: svcName,
				Data8: [16]uint8{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16},
			},
		},
		{
			"InformInfo subscribe to trap 64", "00000000000000000000000000000000ffff000000000101000300400000001200000004",
			InformInfoLen, new(InformInfo),
			&InformInfo{
				LIDRangeBegin: InformAllLIDs, IsGeneric: 1, Subscribe: 1, Type: uint16(smp.NoticeSubnetManagement),
				TrapNumber: smp.TrapGIDInService, RespTimeValue: 18, Producer: smp.ProducerClassManager,
			},
		},
		{
			"InformInfo unsubscribe, QPN 1", "00000000000000000000000000000000ffff000000000100000300400000011200000004",
			InformInfoLen, new(InformInfo),
			&InformInfo{
				LIDRangeBegin: InformAllLIDs, IsGeneric: 1, Type: uint16(smp.NoticeSubnetManagement),
				TrapNumber: smp.TrapGIDInService, QPN: 1, RespTimeValue: 18, Producer: smp.ProducerClassManager,
			},
		},
		{
			"InformInfoRecord", "fe800000000000000000000000100001000000000000000000000000000000000000000000000000" +
				"ffff000000000101000300400000001200000004", InformInfoRecordLen, new(InformInfoRecord),
			&InformInfoRecord{SubscriberGID: gid(0x100001), InformInfo: InformInfo{
				LIDRangeBegin: InformAllLIDs, IsGeneric: 1,
				Subscribe: 1, Type: 3, TrapNumber: 64, RespTimeValue: 18, Producer: 4,
			}},
		},
	} {
		b, err := bytesOf(c.hex)
		if err != nil {
			t.Fatal(err)
		}
		b = append(b, make([]byte, c.size-len(b))...)
		if err := c.got.Decode(b); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if w := wiretest.Bytes(c.got, len(b)); !bytes.Equal(w, b) {
			t.Errorf("%s: wrote %x, want %x", c.name, w, b)
		}
		if w := wiretest.Bytes(c.want, len(b)); !bytes.Equal(w, b) {
			t.Errorf("%s: %+v is not %+v", c.name, c.got, c.want)
		}
	}
	if (&ServiceRecord{ServiceName: svcName}).Name() != "example.service" {
		t.Error("Name")
	}
}

// TestLibibmad compares every field with what another decoder read from the
// same bytes.
func TestLibibmad(t *testing.T) {
	names := map[string]string{
		"MadMethod": "", "MadIsResponse": "", "MadClassVersion": "", "MadMgmtClass": "", "MadBaseVersion": "", // TestLibibmadHeader
		"MadTRID": "", "MadAttr": "", "MadModifier": "",
		"SaSMkey": "SMKey", "SaAttrOffs": "AttrOffset", "SaCompMask": "ComponentMask",
		"RmppVers": "RMPPVersion", "RmppType": "RMPPType", "RmppResp": "RRespTime", "RmppFlags": "RMPPFlags",
		"RmppStatus": "RMPPStatus", "RmppData1": "SegmentNumber", "RmppSegNum": "SegmentNumber",
		"RmppData2": "PayloadLength", "RmppPayload": "PayloadLength", "RmppNewWin": "PayloadLength",

		"PathRecDGid": "DGID", "PathRecSGid": "SGID", "PathRecDLid": "DLID", "PathRecSLid": "SLID",
		"PathRecNumPath": "NumbPath", "PathRecSL": "SL",

		"McastMemMGid": "MGID", "McastMemPortGid": "PortGID", "McastMemQkey": "QKey", "McastMemMLid": "MLID",
		"McastMemSL": "SL", "McastMemMTU": "MTU", "McastMemRate": "Rate", "McastMemTClass": "TClass",
		"McastMemPkey": "PKey", "McastMemFlowLbl": "FlowLabel", "McastMemJoinState": "JoinState",
		"McastMemProxyJoin": "", // we also take bit 0, see TestProxyJoin

		"ServRecID": "ServiceID", "ServRecGid": "ServiceGID", "ServRecPkey": "ServicePKey", "ServRecLease": "ServiceLease",
		"ServRecKey": "ServiceKey",

		"Lid": "LID", "BlockNum": "Block",
		"BaseVers": "NodeInfo.BaseVersion", "ClassVers": "NodeInfo.ClassVersion", "NodeType": "NodeInfo.NodeType",
		"NumPorts": "NodeInfo.NumPorts", "SystemGuid": "NodeInfo.SystemImageGUID", "Guid": "NodeInfo.NodeGUID",
		"PortGuid": "NodeInfo.PortGUID", "PartCap": "NodeInfo.PartitionCap", "DevId": "NodeInfo.DeviceID",
		"Revision": "NodeInfo.Revision", "LocalPort": "NodeInfo.LocalPortNum", "VendorId": "NodeInfo.VendorID",

		"MultiPathNumPath": "NumbPath", "MultiPathNumSrc": "SGIDCount", "MultiPathNumDest": "DGIDCount",
	}
	for i := range 8 {
		names["Guid"+string(rune('0'+i))] = "GUIDInfo[" + string(rune('0'+i)) + "]"
	}
	entries := wiretest.Read(t, "testdata/libibmad.txt")
	if len(entries) == 0 {
		t.Fatal("nothing to compare")
	}
	for i := range entries {
		e := &entries[i]
		var v interface{ Decode([]byte) error }
		switch e.Name {
		case "Header":
			v = new(Header)
			m := e.MAD()
			resp := m.Method().IsResponse()
			h := struct {
				BaseVersion, ClassVersion uint8
				Class                     ib.Class
				Method                    ib.Method
				TID                       uint64
				AttrID                    ib.AttrID
				AttrMod                   uint32
			}{m.BaseVersion(), m.ClassVersion(), m.Class(), m.Method() &^ ib.MethodResponseBit, m.TID(), m.AttrID(), m.AttrMod()}
			common := wiretest.Entry{Name: e.Name, Line: e.Line}
			for _, f := range e.Fields {
				if strings.HasPrefix(f[0], "Mad") && f[0] != "MadIsResponse" {
					common.Fields = append(common.Fields, f)
				}
				if f[0] == "MadIsResponse" && (f[1] == "1") != resp {
					t.Errorf("line %d: R bit %v", e.Line, resp)
				}
			}
			wiretest.Foreign(t, &common, &h, map[string]string{
				"MadMethod": "Method", "MadClassVersion": "ClassVersion",
				"MadMgmtClass": "Class", "MadBaseVersion": "BaseVersion", "MadTRID": "TID", "MadAttr": "AttrID", "MadModifier": "AttrMod",
			})
		case "PathRecord":
			v = new(PathRecord)
		case "MCMemberRecord":
			v = new(MCMemberRecord)
		case "ServiceRecord":
			v = new(ServiceRecord)
		case "NodeRecord":
			v = new(NodeRecord)
		case "GUIDInfoRecord":
			v = new(GUIDInfoRecord)
		case "MultiPathRecord":
			v = new(MultiPathRecord)
		default:
			t.Fatalf("line %d: what is %q?", e.Line, e.Name)
		}
		if err := v.Decode(e.Bytes); err != nil {
			t.Fatalf("line %d: %v", e.Line, err)
		}
		wiretest.Foreign(t, e, v, names)
	}
}

// TestPathNotice: the bytes after a Notice, both ways; a longer buffer is not written beyond.
func TestPathNotice(t *testing.T) {
	want := PathNotice{
		Path:       PathRecord{SGID: ib.MakeGID(1, 2), DGID: ib.MakeGID(1, 3), DLID: 7, SL: 3, MTU: ib.MTU2048},
		Generation: 0x0102030405060708, Before: 0x1112131415161718, More: true,
	}
	b := bytes.Repeat([]byte{0xEE}, DataLen-NoticeLen)
	want.Put(b)
	var got PathNotice
	if err := got.Decode(b); err != nil || got != want {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
	if !bytes.Equal(b[64:88], []byte{1, 2, 3, 4, 5, 6, 7, 8, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0x80, 0, 0, 0, 0, 0, 0, 0}) {
		t.Errorf("% x", b[64:88])
	}
	if b[PathNoticeLen] != 0xEE {
		t.Error("Put wrote beyond its bytes")
	}
	kept := got
	if err := got.Decode(b[:PathNoticeLen-1]); err == nil || got != kept {
		t.Errorf("short: %v, %+v", err, got)
	}
}
