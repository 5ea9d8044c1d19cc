package sa_test

import (
	"encoding/binary"
	"fmt"
	"testing"

	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/route"
	"heddle/sa"
	"heddle/subnet"
)

// snapshot is a switch (LID 1) with hosts hosts on ports 1… (LIDs 2…, or
// aligned ranges with lmc).
func snapshot(hosts int, lmc uint8) *subnet.Snapshot {
	s := &subnet.Snapshot{
		Gen: 1, State: subnet.Master, Up: true, Prefix: ib.DefaultSubnetPrefix, SMKey: 7, PacketLife: 18,
		Self: subnet.NoRef(),
	}
	sw := subnet.Node{
		Desc: "Switch", SwitchIndex: 0, OK: true,
		Info: smp.NodeInfo{NodeType: ib.NodeSwitch, NumPorts: uint8(hosts), NodeGUID: 0x100, PortGUID: 0x100},
	}
	s.Nodes = append(s.Nodes, sw)
	for p := range hosts + 1 {
		port := subnet.Port{Node: 0, Num: uint8(p), EndPort: -1, LID: 1, Peer: subnet.NoRef(), Known: true, GUID: 0x100, MTU: ib.MTU4096, Rate: ib.RateOf(2, ib.SpeedEDR)}
		port.Info.PortState, port.Info.MKey, port.Info.LID = ib.StateActive, 99, 1
		if p > 0 {
			port.Peer = subnet.Ref{Node: int32(p), Port: 1}
		} else {
			port.EndPort = 0
		}
		s.Ports = append(s.Ports, &port)
	}
	lft := make([]byte, (1+hosts+1)<<lmc+64)
	for i := range lft {
		lft[i] = route.Drop
	}
	lft[1] = 0
	for h := 1; h <= hosts; h++ {
		guid := ib.GUID(0x1000 + 16*h)
		s.Nodes = append(s.Nodes, subnet.Node{
			Desc: fmt.Sprintf("Host%d", h), SwitchIndex: -1, OK: true, First: int32(len(s.Ports)),
			Info: smp.NodeInfo{NodeType: ib.NodeCA, NumPorts: 1, NodeGUID: guid, PortGUID: guid + 1, LocalPortNum: 1},
		})
		lid := ib.LID((h + 1) << lmc)
		s.Ports = append(s.Ports, &subnet.Port{Node: int32(h), EndPort: -1, Peer: subnet.NoRef()},
			&subnet.Port{
				Node: int32(h), Num: 1, EndPort: int32(h), LID: lid, LMC: lmc, GUID: guid + 1, Known: true,
				Peer: subnet.Ref{Node: 0, Port: uint8(h)}, MTU: ib.MTU2048, Rate: ib.RateOf(2, ib.SpeedHDR), PKeys: []ib.PKey{ib.PKeyDefaultFull},
			})
		s.Ports[len(s.Ports)-1].Info.PortState = ib.StateActive
		for l := range 1 << lmc {
			lft[int(lid)+l] = byte(h)
		}
	}
	s.Tables = &route.Tables{LFT: [][]byte{lft}, TopLID: ib.LID((1+hosts+1)<<lmc - 1)}
	for i := range s.Ports {
		if s.Ports[i].EndPort >= 0 {
			s.EndPortPort = append(s.EndPortPort, int32(i))
		}
	}
	s.Finish()
	return s
}

type record interface{ Put([]byte) }

func ask(method ib.Method, attr ib.AttrID, mask wire.CompMask, r record) []byte {
	var m ib.MAD
	wire.New(&m, method, attr, 0, mask)
	m.SetTID(0x1122334455667788)
	if r != nil {
		r.Put(wire.Data(&m))
	}
	return m[:]
}

// source answers from a snapshot, and trusts who knows its key.
func source(s *subnet.Snapshot) *sa.Source {
	if s == nil {
		return &sa.Source{}
	}
	return &sa.Source{Snap: s, Opt: &sa.Options{SAKey: s.SMKey}}
}

// answer sends a query from the port with that LID.
func answer(t *testing.T, s *subnet.Snapshot, from ib.LID, q []byte, single bool) []byte {
	t.Helper()
	b, v := sa.Answer(source(s), &sa.Request{From: mad.Addr{LID: from, QP: 1}, Data: q, SingleMAD: single}, nil)
	if v != sa.Answered {
		t.Fatalf("verdict %d", v)
	}
	if binary.BigEndian.Uint64(b[8:]) != 0x1122334455667788 || b[3] != q[3]|0x80 && !(q[3] == byte(ib.MethodSet) && b[3] == byte(ib.MethodGetResp)) {
		t.Fatalf("method %#x, TID %x", b[3], b[8:16])
	}
	return b
}

func status(b []byte) ib.Status { return ib.Status(binary.BigEndian.Uint16(b[4:])) }

// records splits a table.
func records(t *testing.T, b []byte) [][]byte {
	t.Helper()
	if status(b) != 0 {
		t.Fatalf("status %v", status(b))
	}
	size := int(binary.BigEndian.Uint16(b[44:])) * 8
	data := b[wire.HeaderLen:]
	if size == 0 {
		if len(data) != 0 {
			t.Fatalf("%d bytes without a record size", len(data))
		}
		return nil
	}
	if len(data)%size != 0 {
		t.Fatalf("%d bytes are no whole number of records of %d", len(data), size)
	}
	var out [][]byte
	for ; len(data) > 0; data = data[size:] {
		out = append(out, data[:size])
	}
	return out
}

func TestNodeRecords(t *testing.T) {
	s := snapshot(3, 0)
	all := records(t, answer(t, s, 2, ask(ib.MethodGetTable, wire.AttrNodeRecord, 0, nil), false))
	if len(all) != 4 {
		t.Fatalf("%d records, want 4", len(all))
	}
	var r wire.NodeRecord
	if err := r.Decode(all[2]); err != nil || r.LID != 3 || r.NodeInfo.PortGUID != 0x1021 || r.NodeInfo.LocalPortNum != 1 || r.NodeDescription.String() != "Host2" {
		t.Errorf("record %+v %v", r, err)
	}
	for _, c := range []struct {
		mask wire.CompMask
		want wire.NodeRecord
		n    int
	}{
		{1, wire.NodeRecord{LID: 4}, 1},
		{1, wire.NodeRecord{LID: 9}, 0},
		{1 << 4, wire.NodeRecord{NodeInfo: smp.NodeInfo{NodeType: ib.NodeCA}}, 3},
		{1 << 7, wire.NodeRecord{NodeInfo: smp.NodeInfo{NodeGUID: 0x1010}}, 1},
		{1<<7 | 1<<4, wire.NodeRecord{NodeInfo: smp.NodeInfo{NodeGUID: 0x1010, NodeType: ib.NodeSwitch}}, 0},
		{1 << 14, wire.NodeRecord{NodeDescription: smp.NodeDescription{'H', 'o', 's', 't', '3'}}, 1},
		{1 << 14, wire.NodeRecord{NodeDescription: smp.NodeDescription{'H', 'o', 's', 't', '3', 0, 'x'}}, 1},
	} {
		if got := records(t, answer(t, s, 2, ask(ib.MethodGetTable, wire.AttrNodeRecord, c.mask, &c.want), false)); len(got) != c.n {
			t.Errorf("mask %#x %+v: %d records, want %d", c.mask, c.want, len(got), c.n)
		}
	}
}

// TestStatusCodes: each invalid request gets the right status.
func TestStatusCodes(t *testing.T) {
	s := snapshot(2, 0)
	old := ask(ib.MethodGet, wire.AttrNodeRecord, 1, &wire.NodeRecord{LID: 2})
	old[2] = 1
	path := func(m wire.CompMask, r wire.PathRecord) []byte {
		return ask(ib.MethodGet, wire.AttrPathRecord, m, &r)
	}
	for _, c := range []struct {
		name string
		q    []byte
		want ib.Status
	}{
		{"one", ask(ib.MethodGet, wire.AttrNodeRecord, 1, &wire.NodeRecord{LID: 2}), 0},
		{"none", ask(ib.MethodGet, wire.AttrNodeRecord, 1, &wire.NodeRecord{LID: 77}), ib.StatusSANoRecords},
		{"several", ask(ib.MethodGet, wire.AttrNodeRecord, 0, nil), ib.StatusSATooManyRecords},
		{"unknown attribute", ask(ib.MethodGet, 0x99, 0, nil), ib.StatusBadMethodAttr},
		{"Set of a record that is read only", ask(ib.MethodSet, wire.AttrNodeRecord, 0, nil), ib.StatusBadMethodAttr},
		{"table of ClassPortInfo", ask(ib.MethodGetTable, wire.AttrClassPortInfo, 0, nil), ib.StatusSAReqInvalid},
		{"class version 1", old, ib.StatusBadVersion},
		{"half a service id", path(wire.PathCompServiceID8, wire.PathRecord{}), ib.StatusSAInsufficientComps},
		{"LID and GID disagree", path(wire.PathCompDGID|wire.PathCompDLID|wire.PathCompSLID, wire.PathRecord{
			DGID: ib.MakeGID(ib.DefaultSubnetPrefix, 0x1011), DLID: 3, SLID: 2,
		}), ib.StatusSAReqInvalid},
		{"foreign GID", path(wire.PathCompDGID|wire.PathCompSLID, wire.PathRecord{DGID: ib.MakeGID(5, 0x1011), SLID: 2}), ib.StatusSANoRecords},
	} {
		b := answer(t, s, 2, c.q, false)
		if status(b) != c.want || len(b) != ib.MADLen {
			t.Errorf("%s: status %v in %d bytes, want %v", c.name, status(b), len(b), c.want)
		}
	}
}

// TestDroppedRequests: requests that must not be answered get no answer.
func TestDroppedRequests(t *testing.T) {
	s := snapshot(2, 0)
	q := ask(ib.MethodGet, wire.AttrClassPortInfo, 0, nil)
	key := append([]byte(nil), q...)
	key[43] = 8
	ack := ask(ib.MethodGetTable, wire.AttrNodeRecord, 0, nil)
	ack[24], ack[25], ack[26] = 1, wire.RMPPAck, 1
	resp := append([]byte(nil), q...)
	resp[3] |= 0x80
	standby := snapshot(2, 0)
	standby.State = subnet.Standby
	for _, c := range []struct {
		name string
		s    *subnet.Snapshot
		from ib.LID
		q    []byte
	}{
		{"no snapshot", nil, 2, q},
		{"standby", standby, 2, q},
		{"stranger", s, 99, q},
		{"wrong key", s, 2, key},
		{"ACK", s, 2, ack},
		{"response", s, 2, resp},
		{"short", s, 2, q[:50]},
		{"empty", s, 2, nil},
	} {
		if b, v := sa.Answer(source(c.s), &sa.Request{From: mad.Addr{LID: c.from}, Data: c.q}, nil); v != sa.Drop {
			t.Errorf("%s: answered with %v", c.name, status(b))
		}
	}
}

func TestPortRecordsHideKeys(t *testing.T) {
	s := snapshot(2, 0)
	mkey := func(smKey byte) ib.MKey {
		q := ask(ib.MethodGetTable, wire.AttrPortInfoRecord, 3, &wire.PortInfoRecord{LID: 1, PortNum: 1})
		q[43] = smKey
		all := records(t, answer(t, s, 2, q, false))
		if len(all) != 1 {
			t.Fatalf("%d records, want 1", len(all))
		}
		var r wire.PortInfoRecord
		if err := r.Decode(all[0]); err != nil || r.PortNum != 1 {
			t.Fatalf("%+v %v", r, err)
		}
		return r.PortInfo.MKey
	}
	if k := mkey(0); k != 0 {
		t.Errorf("an untrusted requester sees M_Key %d", uint64(k))
	}
	if k := mkey(7); k != 99 {
		t.Errorf("a trusted requester sees M_Key %d, want 99", uint64(k))
	}
	// Guessing the key by asking for it tells nothing either.
	guess := func(k ib.MKey) int {
		q := ask(ib.MethodGetTable, wire.AttrPortInfoRecord, 1|1<<3, &wire.PortInfoRecord{LID: 1, PortInfo: smp.PortInfo{MKey: k}})
		return len(records(t, answer(t, s, 2, q, false)))
	}
	if right, wrong := guess(99), guess(98); right != wrong {
		t.Errorf("asking for the right M_Key gives %d records, for a wrong one %d", right, wrong)
	}
	if n := len(records(t, answer(t, s, 2, ask(ib.MethodGetTable, wire.AttrPortInfoRecord, 0, nil), false))); n != 3+2 {
		t.Errorf("%d records, want 5", n)
	}
}

func TestPaths(t *testing.T) {
	s := snapshot(3, 1)
	get := func(m wire.CompMask, w wire.PathRecord) (wire.PathRecord, ib.Status) {
		b := answer(t, s, s.Ports[s.PortByGUID(0x1011)].LID, ask(ib.MethodGet, wire.AttrPathRecord, m, &w), false)
		var r wire.PathRecord
		if err := r.Decode(b[wire.HeaderLen : wire.HeaderLen+wire.PathRecordLen]); err != nil {
			t.Fatal(err)
		}
		return r, status(b)
	}
	gid := func(g ib.GUID) ib.GID { return ib.MakeGID(ib.DefaultSubnetPrefix, g) }
	const ends = wire.PathCompSGID | wire.PathCompDGID
	r, st := get(ends, wire.PathRecord{SGID: gid(0x1011), DGID: gid(0x1021)})
	if st != 0 || r.SLID != 4 || r.DLID != 6 || r.MTU != ib.MTU2048 || r.Rate != ib.RateOf(2, ib.SpeedEDR) || !r.Reversible || r.PKey != 0xFFFF ||
		r.PacketLifeTime != 18 || r.HopLimit != 0 {
		t.Errorf("path %+v status %v", r, st)
	}
	if r, st := get(wire.PathCompSLID|wire.PathCompDLID, wire.PathRecord{SLID: 5, DLID: 6}); st != 0 || r.SLID != 5 || r.DLID != 6 {
		t.Errorf("by LIDs: %v to %v, status %v", r.SLID, r.DLID, st)
	}
	for _, c := range []struct {
		m  wire.CompMask
		w  wire.PathRecord
		st ib.Status
	}{
		{wire.PathCompMTU | wire.PathCompMTUSelector, wire.PathRecord{MTU: ib.MTU2048, MTUSelector: wire.SelGreater}, ib.StatusSANoRecords},
		{wire.PathCompMTU | wire.PathCompMTUSelector, wire.PathRecord{MTU: ib.MTU1024, MTUSelector: wire.SelGreater}, 0},
		{wire.PathCompPKey, wire.PathRecord{PKey: 0x8001}, ib.StatusSANoRecords},
		{wire.PathCompSL, wire.PathRecord{SL: 3}, 0}, // nobody prescribes another
	} {
		c.w.SGID, c.w.DGID = gid(0x1011), gid(0x1021)
		if _, st := get(ends|c.m, c.w); st != c.st {
			t.Errorf("%#x %+v: status %v, want %v", c.m, c.w, st, c.st)
		}
	}
	// All pairs of LIDs of two ports, the diagonal first.
	table := records(t, answer(t, s, 4, ask(ib.MethodGetTable, wire.AttrPathRecord, ends, &wire.PathRecord{SGID: gid(0x1011), DGID: gid(0x1021)}), false))
	if len(table) != 4 {
		t.Fatalf("%d paths between two ports with two LIDs each, want 4", len(table))
	}
	if err := r.Decode(table[1]); err != nil || r.SLID != 5 || r.DLID != 7 {
		t.Errorf("second path %v to %v, want 5 to 7", r.SLID, r.DLID)
	}
	// Two limited members of the default partition do not see each other.
	s.Ports[s.PortByGUID(0x1011)].PKeys = []ib.PKey{ib.PKeyDefaultLimited}
	s.Ports[s.PortByGUID(0x1021)].PKeys = []ib.PKey{ib.PKeyDefaultLimited}
	if _, st := get(ends, wire.PathRecord{SGID: gid(0x1011), DGID: gid(0x1021)}); st != ib.StatusSANoRecords {
		t.Errorf("two limited members: status %v", st)
	}
	if r, st := get(ends, wire.PathRecord{SGID: gid(0x1011), DGID: gid(0x1031)}); st != 0 || r.PKey != ib.PKeyDefaultLimited {
		t.Errorf("limited and full: status %v, P_Key %v", st, r.PKey)
	}
}

// TestWholePathTable: with no component every pair of end ports is there.
func TestWholePathTable(t *testing.T) {
	s := snapshot(5, 0)
	if n := len(records(t, answer(t, s, 2, ask(ib.MethodGetTable, wire.AttrPathRecord, 0, nil), false))); n != 36 {
		t.Errorf("%d paths, want 36", n)
	}
}

// TestSingleMAD: clients that cannot reassemble get a whole table of at most 168 bytes
// with its exact length, or an error that says that it does not fit. A silently
// truncated table would look complete.
func TestSingleMAD(t *testing.T) {
	s := snapshot(5, 0)
	lid := func(l ib.LID) []byte { return binary.BigEndian.AppendUint16(nil, uint16(l)) }
	for _, c := range []struct {
		attr ib.AttrID
		mask wire.CompMask
		rec  []byte
		n    int // 0: too many
	}{
		{wire.AttrNodeRecord, 0, nil, 0},
		{wire.AttrPathRecord, 0, nil, 0},
		{wire.AttrPortInfoRecord, 0, nil, 0},
		{wire.AttrNodeRecord, wire.NodeCompLID, lid(2), 1},
		{wire.AttrPortInfoRecord, wire.PortInfoCompLID, lid(2), 1},
		{wire.AttrSMInfoRecord, 0, nil, 1},
	} {
		var q [ib.MADLen]byte
		copy(q[:], ask(ib.MethodGetTable, c.attr, c.mask, nil))
		copy(q[wire.DataOffset:], c.rec)
		b := answer(t, s, 2, q[:], true)
		if c.n == 0 {
			if status(b) != ib.StatusSATooManyRecords || len(b) != ib.MADLen {
				t.Errorf("attribute %v: %v, %d bytes", c.attr, status(b), len(b))
			}
			continue
		}
		if got := records(t, b); len(got) != c.n {
			t.Errorf("attribute %v: %d records, want %d", c.attr, len(got), c.n)
		}
		var h wire.Header
		if err := h.Decode(b); err != nil || h.RMPPFlags != 7 || h.SegmentNumber != 1 || int(h.PayloadLength) != len(b)-36 {
			t.Errorf("attribute %v: header %+v of %d bytes", c.attr, h, len(b))
		}
	}
	// A Get is not cut short: two matches are still too many.
	if b := answer(t, s, 2, ask(ib.MethodGet, wire.AttrNodeRecord, 0, nil), true); status(b) != ib.StatusSATooManyRecords {
		t.Errorf("Get of several: %v", status(b))
	}
}

func TestBusy(t *testing.T) {
	b, ok := sa.Busy(&sa.Request{Data: ask(ib.MethodGetTable, wire.AttrNodeRecord, 0, nil)}, nil)
	if !ok || status(b) != ib.StatusBusy || ib.Method(b[3]) != ib.MethodGetTableResp {
		t.Errorf("%v %x", ok, b)
	}
}
