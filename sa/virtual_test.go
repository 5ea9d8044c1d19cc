package sa_test

import (
	"fmt"
	"slices"
	"testing"

	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/sa"
	"heddle/subnet"
)

// vms is up(4) with virtual machines, all in the default partition but as it says:
//
//	host LID 2: VPort 1, GUID A1, LID 2, partition 5 too
//	            VPort 2, GUID A2, LID 20 of its own, alias A2A
//	            VPort 3, GUID A3, LID 20
//	            VPort 4, which is down
//	host LID 3: VPort 1, GUID B1, LID 3, partition 5 only
//	host LID 5: a shared port with alias C1 at function 1
func vms() *subnet.Snapshot {
	s := up(4)
	for _, lid := range []ib.LID{2, 3} {
		port(s, lid).Adapter = &subnet.Adapter{Model: subnet.VPorts, Functions: 8, Info: smp.VirtualizationInfo{VPortCap: 8, VPortIndexTop: 4, VirtualizationEnable: true}}
	}
	c := port(s, 5)
	c.Adapter, c.Info.GUIDCap, c.Aliases = &subnet.Adapter{Model: subnet.SharedPort, Functions: 15}, 16, []ib.GUID{0, 0xC1}
	all := []ib.PKey{ib.PKeyDefaultFull}
	addVM(s, 2, 1, 0xA1, 0, ib.PKeyDefaultFull, 0x8005)
	addVM(s, 2, 2, 0xA2, 20, all...).Aliases = []ib.GUID{0, 0xA2A}
	addVM(s, 2, 3, 0xA3, 0, all...).LID = 20
	down := addVM(s, 2, 4, 0xA4, 0)
	down.EndPort, down.PKeys = -1, nil
	addVM(s, 3, 1, 0xB1, 0, 0x8005)
	s.Tables.LFT[0][20], s.Tables.TopLID = 1, 20
	s.Finish()
	if err := s.Check(); err != nil {
		panic(err)
	}
	return s
}

// addVM adds a VPort of the host with a LID, in the order of hosts.
func addVM(s *subnet.Snapshot, host ib.LID, index uint16, guid ib.GUID, lid ib.LID, keys ...ib.PKey) *subnet.Port {
	at := slices.IndexFunc(s.Ports, func(p *subnet.Port) bool { return p.LID == host && p.EndPort >= 0 && p.Virtual == nil })
	q := s.Ports[at]
	v := &subnet.Virtual{
		Port: int32(at), Index: index, OwnLID: lid != 0, Desc: fmt.Sprintf("vm%x", uint64(guid)),
		Info: smp.VPortInfo{VPortState: ib.StateActive, GUIDCap: 12, PortGUID: guid, LIDRequired: lid != 0, VPortLID: lid, LocalPortNum: 1},
		Node: smp.VNodeInfo{PartitionCap: 40, LocalPortNum: 1, NumPorts: 1, VNodeGUID: guid + 0xF00, PortGUID: guid},
	}
	p := subnet.Port{
		GUID: guid, Peer: q.Peer, Node: q.Node, Num: q.Num, EndPort: q.EndPort, LID: q.LID, MTU: q.MTU, Rate: q.Rate, Known: true,
		PKeys: keys, Virtual: v,
	}
	if p.Info.PortState = ib.StateActive; lid != 0 {
		p.LID = lid
	}
	s.Ports = append(s.Ports, &p)
	return &p
}

func vmGID(g ib.GUID) ib.GID { return ib.MakeGID(ib.DefaultSubnetPrefix, g) }

// from is where a request of a virtual machine comes from.
func from(lid ib.LID, guid ib.GUID) mad.Addr {
	return mad.Addr{LID: lid, QP: 1, HasGRH: guid != 0, GRH: mad.GRH{GID: vmGID(guid), HopLimit: 1}}
}

func askAs(t *testing.T, src *sa.Source, a mad.Addr, q []byte) ([]byte, sa.Verdict) {
	t.Helper()
	b, v := sa.Answer(src, &sa.Request{From: a, Data: q}, nil)
	return b, v
}

// TestVPortRequester: on a shared LID the SGID identifies the requester, and no
// requester can use another's partitions.
func TestVPortRequester(t *testing.T) {
	s := vms()
	src := source(s)
	for _, c := range []struct {
		what string
		a    mad.Addr
		who  ib.GUID // 0: nobody
	}{
		{"a host", from(4, 0), 0x1031},
		{"a host with a GRH", from(4, 0x1031), 0x1031},
		{"the port of a shared LID", from(2, 0), 0x1011},
		{"the port of a shared LID, with a GRH", from(2, 0x1011), 0x1011},
		{"a VPort that shares it", from(2, 0xA1), 0xA1},
		{"the VPort that owns a LID", from(20, 0), 0xA2},
		{"the same with a GRH", from(20, 0xA2), 0xA2},
		{"the same by its alias", from(20, 0xA2A), 0xA2},
		{"a VPort that shares that LID", from(20, 0xA3), 0xA3},
		{"a function of a shared port", from(5, 0xC1), 0x1041},
		{"an alias that the manager does not know", from(5, 0xC2), 0x1041},
		{"the GID of another VPort", from(2, 0xB1), 0},
		{"the GID of another host", from(4, 0x1011), 0},
		{"the port's GID at a VPort's LID", from(20, 0x1011), 0},
		{"a VPort's GID at its port's LID", from(2, 0xA2), 0},
		{"a VPort that is down", from(2, 0xA4), 0},
		{"a GID that nobody has, where there are VPorts", from(2, 0x77), 0},
		{"a GID that nobody has, at a VPort's LID", from(20, 0x77), 0},
		{"a LID that nobody has", from(60, 0xA1), 0},
	} {
		b, v := askAs(t, src, c.a, ask(ib.MethodGet, wire.AttrClassPortInfo, 0, nil))
		if (v == sa.Answered) != (c.who != 0) || v == sa.Answered && status(b) != 0 {
			t.Errorf("%s: verdict %d", c.what, v)
		}
		if c.who == 0 {
			continue
		}
		// Only the port itself may ask for its groups: that tells who it is.
		r := newFixture(t, s, sa.Config{})
		q := set(wire.AttrMCMemberRecord, maskCreate, &wire.MCMemberRecord{MGID: ours, PortGID: vmGID(c.who), QKey: 1, PKey: 0xFFFF, JoinState: 1})
		r.step(sa.Requests{List: []sa.Request{{From: c.a, Data: q}}})
		if len(r.replies) != 1 || status(r.replies[0].Data) != 0 || r.replies[0].To != c.a || r.view.Groups[1].Members[0] != (sa.Member{PortGID: vmGID(c.who), PortGUID: c.who, JoinState: 1}) {
			t.Errorf("%s: not taken for %v: %v", c.what, c.who, r.replies)
		}
	}
	// What it may see is what its own table says.
	for _, c := range []struct {
		a    mad.Addr
		want ib.Status
	}{{from(3, 0), 0}, {from(3, 0xB1), 0x300}, {from(2, 0xA1), 0}} {
		if b, _ := askAs(t, src, c.a, ask(ib.MethodGet, wire.AttrNodeRecord, 1, &wire.NodeRecord{LID: 4})); status(b) != c.want {
			t.Errorf("from %v: status %v, want %v", c.a, status(b), c.want)
		}
	}
}

// TestVPortPaths: a VPort has paths like any port; a GRH is required if packets without
// one would reach another VPort.
func TestVPortPaths(t *testing.T) {
	s := vms()
	for _, c := range []struct {
		src, dst   ib.GUID
		slid, dlid ib.LID
		pkey       ib.PKey
		hop        uint8
	}{
		{0x1031, 0x1011, 4, 2, 0xFFFF, 0},
		{0x1031, 0xA1, 4, 2, 0xFFFF, 2},
		{0xA1, 0x1031, 2, 4, 0xFFFF, 2},
		{0x1031, 0xA2, 4, 20, 0xFFFF, 0},
		{0xA2A, 0x1031, 20, 4, 0xFFFF, 0},
		{0x1031, 0xA3, 4, 20, 0xFFFF, 2},
		{0xA1, 0xB1, 2, 3, 0x8005, 2},
		{0xA1, 0xA3, 2, 20, 0xFFFF, 2},
		{0x1011, 0xA2, 2, 20, 0xFFFF, 0},
		{0x1031, 0xC1, 4, 5, 0xFFFF, 0},
		{0x1031, 0xB1, 0, 0, 0, 0}, // in no partition with it
		{0x1031, 0xA4, 0, 0, 0, 0}, // down
	} {
		const mask = wire.PathCompSGID | wire.PathCompDGID | wire.PathCompReversible | wire.PathCompNumbPath
		who := c.src
		if who == 0xA2A {
			who = 0xA2
		}
		a := from(s.Ports[s.PortByGUID(who)].LID, who)
		b, v := askAs(t, source(s), a, ask(ib.MethodGet, wire.AttrPathRecord, mask, &wire.PathRecord{SGID: vmGID(c.src), DGID: vmGID(c.dst), Reversible: true, NumbPath: 1}))
		if v != sa.Answered {
			t.Fatalf("%v to %v: verdict %d", c.src, c.dst, v)
		}
		if c.slid == 0 {
			if status(b) != 0x300 {
				t.Errorf("%v to %v: status %v", c.src, c.dst, status(b))
			}
			continue
		}
		var r wire.PathRecord
		if err := r.Decode(b[wire.HeaderLen : wire.HeaderLen+wire.PathRecordLen]); err != nil || status(b) != 0 {
			t.Errorf("%v to %v: status %v, %v", c.src, c.dst, status(b), err)
			continue
		}
		life := uint8(18)
		if s.Physical(s.PortByGUID(c.src)) == s.Physical(s.PortByGUID(c.dst)) {
			life = 0
		}
		if r.SGID != vmGID(c.src) || r.DGID != vmGID(c.dst) || r.SLID != c.slid || r.DLID != c.dlid || r.PKey != c.pkey || r.HopLimit != c.hop ||
			!r.Reversible || r.MTU != ib.MTU2048 || r.PacketLifeTime != life {
			t.Errorf("%v to %v: %+v", c.src, c.dst, r)
		}
		// By LIDs besides, a path is the same; by LIDs alone it is the default port's.
		b, _ = askAs(t, source(s), a, ask(ib.MethodGet, wire.AttrPathRecord, mask|wire.PathCompSLID|wire.PathCompDLID, &r))
		var same wire.PathRecord
		if _ = same.Decode(b[wire.HeaderLen : wire.HeaderLen+wire.PathRecordLen]); status(b) != 0 || same != r {
			t.Errorf("%v to %v by LID too: status %v, %+v", c.src, c.dst, status(b), same)
		}
	}
	b := answer(t, s, 4, ask(ib.MethodGet, wire.AttrPathRecord, wire.PathCompSLID|wire.PathCompDLID, &wire.PathRecord{SLID: 4, DLID: 2}), false)
	if r := (wire.PathRecord{}); status(b) != 0 || r.Decode(b[wire.HeaderLen:wire.HeaderLen+wire.PathRecordLen]) != nil || r.DGID != hostGID(2) || r.HopLimit != 0 {
		t.Errorf("by LID: %v, %+v", status(b), r)
	}
	b = answer(t, s, 4, ask(ib.MethodGet, wire.AttrPathRecord, wire.PathCompDGID|wire.PathCompDLID, &wire.PathRecord{DGID: vmGID(0xA1), DLID: 3}), false)
	if status(b) != 0x200 {
		t.Errorf("GID and LID of two: status %v", status(b))
	}
	// A table without a destination has VPorts too: from host 4 to the switch, hosts 2
	// to 5, A1, A2 and A3.
	if n := len(records(t, answer(t, s, 4, ask(ib.MethodGetTable, wire.AttrPathRecord, wire.PathCompSLID, &wire.PathRecord{SLID: 4}), false))); n != 8 {
		t.Errorf("%d paths from a host, want 8", n)
	}
	src := source(s)
	src.Opt.VirtHopLimit = 64
	b, _ = askAs(t, src, from(4, 0), ask(ib.MethodGet, wire.AttrPathRecord, wire.PathCompSLID|wire.PathCompDGID, &wire.PathRecord{SLID: 4, DGID: vmGID(0xA1)}))
	if r := (wire.PathRecord{}); r.Decode(b[wire.HeaderLen:wire.HeaderLen+wire.PathRecordLen]) != nil || r.HopLimit != 64 {
		t.Errorf("HopLimit %d, want 64", r.HopLimit)
	}
}

// TestVPortSL: a path has a service level that both ends may use.
func TestVPortSL(t *testing.T) {
	for _, c := range []struct {
		a, b     uint16 // SL masks
		prescr   bool   // the partition has SL 3
		asked    int    // -1: none
		want     ib.SL
		wantNone bool
	}{
		{0, 0, false, -1, 0, false},
		{0, 0xFFFF, true, -1, 3, false},
		{0xFFFC, 0, false, -1, 2, false},
		{0x000C, 0x0038, false, -1, 3, false},
		{0x000C, 0x0030, false, -1, 0, true},
		{0xFFF0, 0, true, -1, 0, true},
		{0xFFF0, 0, false, 5, 5, false},
		{0xFFF0, 0, false, 2, 0, true},
	} {
		s := vms()
		s.Ports[s.PortByGUID(0xA2)].Virtual.Info.SLMask = c.a
		s.Ports[s.PortByGUID(0xA3)].Virtual.Info.SLMask = c.b
		if c.prescr {
			s.Partitions.Partitions[0].SL, s.Partitions.Partitions[0].HasSL = 3, true
		}
		mask, r := wire.PathCompSGID|wire.PathCompDGID, wire.PathRecord{SGID: vmGID(0xA2), DGID: vmGID(0xA3)}
		if c.asked >= 0 {
			mask, r.SL = mask|wire.PathCompSL, ib.SL(c.asked)
		}
		b := answer(t, s, 20, ask(ib.MethodGet, wire.AttrPathRecord, mask, &r), false)
		if c.wantNone {
			if status(b) != 0x300 {
				t.Errorf("%+v: status %v", c, status(b))
			}
			continue
		}
		if status(b) != 0 || r.Decode(b[wire.HeaderLen:wire.HeaderLen+wire.PathRecordLen]) != nil || r.SL != c.want {
			t.Errorf("%+v: status %v, SL %d", c, status(b), r.SL)
		}
	}
	// A group whose service level a VPort may not use is none that it can join.
	s := vms()
	s.Ports[s.PortByGUID(0xA2)].Virtual.Info.SLMask = 2
	w := newTestbed(t, sa.Config{}, s)
	if _, st := w.set(20, maskJoin, wire.MCMemberRecord{MGID: bcast, PortGID: vmGID(0xA2), JoinState: 1}); st != 0x200 {
		t.Errorf("joined a group of SL 0: %v", st)
	}
}

// TestVPortMultiPathAndTrace: VPorts are ends of these too.
func TestVPortMultiPathAndTrace(t *testing.T) {
	s := vms()
	m := wire.MultiPathRecord{SGIDCount: 1, DGIDCount: 2, NumbPath: 5}
	m.GIDs = [wire.MaxMultiPathGIDs]ib.GID{vmGID(0xA1), vmGID(0xB1), vmGID(0xA3)}
	q := ask(ib.MethodGetMulti, wire.AttrMultiPathRecord, wire.MultiPathCompSGIDCount|wire.MultiPathCompDGIDCount|wire.MultiPathCompNumbPath, &m)
	q[26] = wire.RMPPActive
	b, _ := askAs(t, source(s), from(2, 0xA1), q)
	recs := records(t, b)
	if len(recs) != 2 {
		t.Fatalf("%d paths", len(recs))
	}
	for i, want := range []ib.LID{3, 20} {
		var r wire.PathRecord
		if _ = r.Decode(recs[i]); r.DLID != want || r.SLID != 2 || r.HopLimit != 2 {
			t.Errorf("%+v", r)
		}
	}
	trace := func(dst ib.GUID) (out string) {
		q := ask(ib.MethodGetTraceTable, wire.AttrTraceRecord, wire.PathCompSGID|wire.PathCompDGID, &wire.PathRecord{SGID: vmGID(0xA2), DGID: vmGID(dst)})
		for _, b := range records(t, answer(t, s, 20, q, false)) {
			var r wire.TraceRecord
			_ = r.Decode(b)
			out += fmt.Sprintf(" %x:%d-%d", r.NodeID, r.EntryPort, r.ExitPort)
		}
		return out
	}
	if got := trace(0x1031) + trace(0xA3); got != " 1010:0-1 100:1-3 1030:1-0 1010:1-1" {
		t.Errorf("traces%s", got)
	}
}

// TestLeasedAliases: the SA neither sets nor deletes aliases of virtual machines on a
// shared port, and virtual machines cannot request more.
func TestLeasedAliases(t *testing.T) {
	s := vms()
	for _, c := range []struct {
		what string
		a    mad.Addr
		key  uint64
		del  bool
		lid  ib.LID
		at   map[int]ib.GUID
		want ib.Status
	}{
		{"another one in its place", from(5, 0), 0, false, 5, map[int]ib.GUID{1: 0xD1}, 0x700},
		{"any in its place", from(5, 0), 0, false, 5, map[int]ib.GUID{1: 0}, 0x700},
		{"its end", from(5, 0), 0, true, 5, map[int]ib.GUID{1: 0}, 0x700},
		{"its end, trusted", from(4, 0), saKey, true, 5, map[int]ib.GUID{1: 0xC1}, 0x700},
		{"the virtual machine itself", from(5, 0xC1), 0, false, 5, map[int]ib.GUID{2: 0xD1}, 0x200},
		{"a VPort's machine for its host", from(2, 0xA1), 0, false, 2, map[int]ib.GUID{2: 0xD1}, 0x200},
		{"of a VPort", from(2, 0), 0, false, 20, map[int]ib.GUID{1: 0xD1}, 0x300},
	} {
		s := clone(s)
		port(s, 2).Info.GUIDCap = 16
		s.Finish()
		r := newFixture(t, s, sa.Config{SAKey: saKey})
		rec, mask := guidInfo(c.lid, 0, c.at)
		q := set(wire.AttrGUIDInfoRecord, mask, rec)
		if c.del {
			q = del(wire.AttrGUIDInfoRecord, mask, rec)
		}
		r.replies, r.aliases = nil, nil
		r.step(sa.Requests{List: []sa.Request{{From: c.a, Data: trusted(q, c.key)}}})
		if len(r.replies) != 1 || status(r.replies[0].Data) != c.want || len(r.aliases)+len(r.stored) != 0 && len(r.aliases) != 0 {
			t.Errorf("%s: %d replies, %v; wanted %v", c.what, len(r.replies), r.replies, r.aliases)
		}
	}
	// It is refused to others: with status 0, and 0 in its place, as any that is taken.
	r := newFixture(t, s, sa.Config{SAKey: saKey})
	rec, mask := guidInfo(5, 0, map[int]ib.GUID{2: 0xC1, 3: 0xA2})
	r.step(sa.Requests{List: []sa.Request{{From: from(5, 0), Data: set(wire.AttrGUIDInfoRecord, mask, rec)}}})
	var got wire.GUIDInfoRecord
	if len(r.replies) != 1 || status(r.replies[0].Data) != 0 || got.Decode(r.replies[0].Data[wire.HeaderLen:wire.HeaderLen+wire.GUIDInfoRecordLen]) != nil || got.GUIDInfo[2]|got.GUIDInfo[3] != 0 {
		t.Errorf("%+v", got)
	}
	// To ask for what is there changes nothing, and is answered at once.
	rec, mask = guidInfo(5, 0, map[int]ib.GUID{1: 0xC1})
	r.replies = nil
	r.step(sa.Requests{List: []sa.Request{{From: from(5, 0), Data: set(wire.AttrGUIDInfoRecord, mask, rec)}}})
	if len(r.replies) != 1 || status(r.replies[0].Data) != 0 || slices.ContainsFunc(r.aliases, func(a subnet.Alias) bool { return a.Index == 1 }) {
		t.Errorf("%d replies, aliases %v", len(r.replies), r.aliases)
	}
}
