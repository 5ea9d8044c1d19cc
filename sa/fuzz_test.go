package sa_test

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"

	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/mad"
	"heddle/partition"
	"heddle/route/engine/sssp"
	"heddle/sa"
	"heddle/subnet"
)

const (
	secretMKey    = 0xDEAD_BEEF_0BAD_F00D
	secretService = "service-key-1234"
)

// richSource has something of everything: lanes, LMC, partitions with full and
// limited members, alias GUIDs, groups, services and subscriptions, and keys
// that only those may see who know the SA's, 7.
func richSource(tb testing.TB) *sa.Source {
	s := fabricSnapshot(tb, sssp.DFEngine{}, 1, 8, "torus", "4x4")
	s.Partitions = partition.Default()
	s.Partitions.Partitions = append([]partition.Partition{{Name: "A", PKey: 2, SL: 3, HasSL: true}}, s.Partitions.Partitions...)
	tables := [][]ib.PKey{nil, {0xFFFF}, {0x7FFF}, {0x7FFF, 0x8002}, {0xFFFF, 0x0002, 0x8003}, {}}
	for i := range s.Ports {
		s.Ports[i].PKeys = tables[i%len(tables)]
		s.Ports[i].Info.MKey = secretMKey
		if s.Ports[i].EndPort >= 0 && i%3 == 0 {
			s.Ports[i].Aliases = []ib.GUID{0, ib.GUID(0x9000 + i)}
		}
	}
	hosts := slices.DeleteFunc(slices.Sorted(slices.Values(s.EndPortPort)), func(i int32) bool { return s.Ports[i].Num == 0 })
	for i, p := range hosts[:6] {
		s.Ports[p].Adapter = &subnet.Adapter{Model: subnet.Model(1 + i%3), Functions: 4}
		for k := range uint16(3) {
			q := addVM(s, s.Ports[p].LID, k+1, ib.GUID(0xA000+10*i+int(k)), ib.LID(min(k, 1))*ib.LID(200+10*i+int(k)), tables[(i+int(k))%len(tables)]...)
			q.Virtual.Info.SLMask = uint16(i * 0x111)
		}
	}
	s.Finish()
	if err := s.Check(); err != nil {
		tb.Fatal(err)
	}
	v := &sa.View{}
	for i := range 3 {
		g := &sa.Group{MLID: ib.LID(0xC000 + i), PKey: 0x8002, MTU: ib.MTU2048, Rate: ib.Rate10, PacketLife: 18, QKey: 0xB1B}
		g.MGID = ib.GID{0xFF, 0x12, 15: byte(i)}
		for _, p := range s.EndPortPort[i : i+3] {
			g.Members = append(g.Members, sa.Member{PortGID: s.GID(p), PortGUID: s.Ports[p].GUID, JoinState: 1})
		}
		v.Groups = append(v.Groups, g)
		x := &sa.Service{Until: mad.Never}
		x.Record.ServiceID, x.Record.ServiceGID, x.Record.ServicePKey = uint64(i+1), s.GID(s.EndPortPort[i]), 0xFFFF
		copy(x.Record.ServiceKey[:], secretService)
		v.Services = append(v.Services, x)
		v.Subs = append(v.Subs, &sa.Subscription{GID: s.GID(s.EndPortPort[i]), Addr: mad.Addr{LID: s.Ports[s.EndPortPort[i]].LID, QP: 0x123456}})
	}
	return &sa.Source{Snap: s, View: v, Opt: &sa.Options{SAKey: 7, PathCaching: 1, VirtRecords: true, PrefixRoutes: []sa.PrefixRoute{{Prefix: 5}}}}
}

// FuzzAnswer: no request causes a panic, each answer is well-formed, and no key is
// visible without the SA_Key.
func FuzzAnswer(f *testing.F) {
	src := richSource(f)
	for _, a := range []ib.AttrID{
		wire.AttrClassPortInfo, wire.AttrNodeRecord, wire.AttrPortInfoRecord, wire.AttrSLtoVLRecord, wire.AttrSwitchInfoRecord,
		wire.AttrLFTRecord, wire.AttrRFTRecord, wire.AttrMFTRecord, wire.AttrSMInfoRecord, wire.AttrLinkRecord, wire.AttrGUIDInfoRecord,
		wire.AttrServiceRecord, wire.AttrPKeyTableRecord, wire.AttrPathRecord, wire.AttrVLArbRecord, wire.AttrMCMemberRecord,
		wire.AttrTraceRecord, wire.AttrMultiPathRecord, wire.AttrInformInfoRecord, wire.AttrPortInfoExtendedRecord,
		wire.AttrVirtualizationInfoRecord, wire.AttrVPortInfoRecord, wire.AttrVNodeRecord, wire.AttrVPortGUIDInfoRecord, wire.AttrVPortPartitionTableRecord,
	} {
		for _, m := range []ib.Method{ib.MethodGet, ib.MethodGetTable, ib.MethodGetTraceTable, ib.MethodGetMulti} {
			f.Add(ask(m, a, 0, nil), uint16(3), uint64(0), false)
			f.Add(ask(m, a, 1, nil), uint16(4), uint64(0xA000), true)
		}
	}
	gid := func(i int) ib.GID { return src.Snap.GID(src.Snap.EndPortPort[i]) }
	multi := wire.MultiPathRecord{SGIDCount: 2, DGIDCount: 2, NumbPath: 2}
	multi.GIDs = [wire.MaxMultiPathGIDs]ib.GID{gid(1), gid(7), gid(13), gid(19)}
	q := ask(ib.MethodGetMulti, wire.AttrMultiPathRecord, wire.MultiPathCompSGIDCount|wire.MultiPathCompDGIDCount|wire.MultiPathCompNumbPath, &multi)
	q[26] = wire.RMPPActive
	f.Add(q, uint16(3), uint64(0), false)
	f.Add(ask(ib.MethodGetTraceTable, wire.AttrTraceRecord, 0xC, &wire.PathRecord{SGID: gid(1), DGID: gid(13)}), uint16(3), uint64(0), false)
	f.Add(ask(ib.MethodGet, wire.AttrPathRecord, 0xC, &wire.PathRecord{SGID: gid(1), DGID: src.View.Groups[1].MGID}), uint16(3), uint64(0), false)
	f.Add(ask(ib.MethodGet, wire.AttrPathRecord, 0xC, &wire.PathRecord{SGID: gid(1), DGID: ib.MakeGID(5, 9)}), uint16(3), uint64(0), false)
	f.Fuzz(func(t *testing.T, q []byte, from uint16, guid uint64, single bool) {
		req := sa.Request{From: mad.Addr{LID: ib.LID(from)}, Data: q, SingleMAD: single}
		if guid != 0 {
			req.From.HasGRH, req.From.GRH.GID = true, ib.MakeGID(ib.DefaultSubnetPrefix, ib.GUID(guid))
		}
		keep := bytes.Clone(q)
		b, v := sa.Answer(src, &req, nil)
		if !bytes.Equal(q, keep) {
			t.Fatal("the request was written to")
		}
		if v != sa.Answered {
			if len(b) != 0 {
				t.Fatal("an answer that is none")
			}
			return
		}
		wellFormed(t, q, b, single)
		if binary.BigEndian.Uint64(q[36:]) == 0 && status(b) == 0 {
			noSecrets(t, b)
		}
	})
}

func wellFormed(t *testing.T, q, b []byte, single bool) {
	t.Helper()
	m := ib.Method(q[3])
	want := byte(m) | 0x80
	if m == ib.MethodSet {
		want = byte(ib.MethodGetResp)
	}
	if len(b) < wire.HeaderLen || b[3] != want || !bytes.Equal(b[8:16], q[8:16]) || binary.BigEndian.Uint64(b[36:]) != 0 {
		t.Fatalf("header %x of the answer to %x", b[:min(len(b), wire.HeaderLen)], q[:wire.HeaderLen])
	}
	size := int(binary.BigEndian.Uint16(b[44:])) * 8
	switch {
	case status(b) != 0:
		var whole ib.MAD // one that came by RMPP may be short
		copy(whole[:], q)
		if len(b) != ib.MADLen || !bytes.Equal(b[wire.HeaderLen:], whole[wire.HeaderLen:]) {
			t.Fatalf("status %v in %d bytes that are no copy", status(b), len(b))
		}
	case m == ib.MethodGet:
		if len(b) != ib.MADLen || b[26] != 0 {
			t.Fatalf("a Get answered with %d bytes, RMPP flags %#x", len(b), b[26])
		}
	case b[26]&wire.RMPPActive == 0 || size == 0 && len(b) > wire.HeaderLen || size > 0 && (len(b)-wire.HeaderLen)%size != 0:
		t.Fatalf("a table of %d bytes in records of %d, RMPP flags %#x", len(b)-wire.HeaderLen, size, b[26])
	case single && len(b) > ib.MADLen:
		t.Fatalf("%d bytes for a client that takes one MAD", len(b))
	}
}

func noSecrets(t *testing.T, b []byte) {
	t.Helper()
	data := b[wire.HeaderLen:]
	if bytes.Contains(data, binary.BigEndian.AppendUint64(nil, secretMKey)) {
		t.Error("an M_Key is told")
	}
	if bytes.Contains(data, []byte(secretService)) {
		t.Error("a service key is told")
	}
	switch ib.AttrID(binary.BigEndian.Uint16(b[16:])) {
	case wire.AttrPKeyTableRecord, wire.AttrVPortPartitionTableRecord:
		t.Error("a P_Key table is told")
	case wire.AttrInformInfoRecord:
		if bytes.Contains(data, []byte{0x12, 0x34, 0x56}) {
			t.Error("the QPN of a subscriber is told")
		}
	case wire.AttrMCMemberRecord:
		for size := wire.MCMemberRecordLen; len(data) >= size; data = data[size:] {
			if !bytes.Equal(data[16:32], make([]byte, 16)) {
				t.Error("a member of a group is told")
			}
		}
	}
}

// TestEmptySnapshot: a snapshot without tables, ports or a view answers too.
func TestEmptySnapshot(t *testing.T) {
	empty := &subnet.Snapshot{State: subnet.Master, Up: true, Self: subnet.NoRef()}
	empty.Finish()
	for a := range 256 {
		for _, m := range []ib.Method{ib.MethodGet, ib.MethodGetTable, ib.MethodGetTraceTable, ib.MethodGetMulti} {
			if _, v := sa.Answer(&sa.Source{Snap: empty}, &sa.Request{Data: ask(m, ib.AttrID(a), 0, nil)}, nil); v != sa.Answered {
				t.Errorf("%v of attribute %#x: verdict %d", m, a, v)
			}
		}
	}
}
