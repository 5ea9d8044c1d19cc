package sa_test

import (
	"encoding/binary"
	"strings"
	"testing"

	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/partition"
	"heddle/qos"
	"heddle/route/engine/sssp"
	"heddle/route/engine/updn"
	"heddle/sa"
	"heddle/subnet"
)

// asker asks path queries of a source, from the port with a LID.
type asker struct {
	t    *testing.T
	src  *sa.Source
	from ib.LID
}

func (a asker) raw(method ib.Method, attr ib.AttrID, mask wire.CompMask, r record) []byte {
	a.t.Helper()
	q := ask(method, attr, mask, r)
	if method == ib.MethodGetMulti {
		q[26] = wire.RMPPActive
	}
	b, v := sa.Answer(a.src, &sa.Request{From: mad.Addr{LID: a.from, QP: 1}, Data: q}, nil)
	if v != sa.Answered {
		a.t.Fatalf("verdict %d", v)
	}
	wellFormed(a.t, q, b, false)
	return b
}

// get is a Get, table a GetTable.
func (a asker) get(mask wire.CompMask, r wire.PathRecord) (out wire.PathRecord, st ib.Status) {
	a.t.Helper()
	b := a.raw(ib.MethodGet, wire.AttrPathRecord, mask, &r)
	if status(b) == 0 {
		_ = out.Decode(b[wire.HeaderLen : wire.HeaderLen+wire.PathRecordLen])
	}
	return out, status(b)
}

func (a asker) table(mask wire.CompMask, r wire.PathRecord) (out []wire.PathRecord) {
	a.t.Helper()
	return paths(a.t, a.raw(ib.MethodGetTable, wire.AttrPathRecord, mask, &r))
}

func paths(t *testing.T, b []byte) (out []wire.PathRecord) {
	t.Helper()
	for _, rec := range records(t, b) {
		var p wire.PathRecord
		if err := p.Decode(rec); err != nil {
			t.Fatal(err)
		}
		out = append(out, p)
	}
	return out
}

const pathEnds = wire.PathCompSGID | wire.PathCompDGID

func between(s *subnet.Snapshot, a, b ib.GUID) wire.PathRecord {
	return wire.PathRecord{SGID: ib.MakeGID(s.Prefix, a), DGID: ib.MakeGID(s.Prefix, b)}
}

// TestSelectors holds every selector against every value of MTU, rate and
// lifetime to the rules in words: a path of 2048 bytes, 100 Gb/s, lifetime 18.
func TestSelectors(t *testing.T) {
	s := snapshot(2, 0)
	a := asker{t, source(s), 2}
	for sel := range uint8(4) {
		for v := range uint8(64) {
			r := between(s, 0x1011, 0x1021)
			r.MTUSelector, r.MTU = sel, ib.MTU(v)
			got, st := a.get(pathEnds|wire.PathCompMTUSelector|wire.PathCompMTU, r)
			want, ok := oracle(sel, int(v), 4, 1)
			switch {
			case v < 1 || v > 5:
				if st != ib.StatusSAReqInvalid {
					t.Errorf("MTU code %d: status %v", v, st)
				}
			case ok != (st == 0) || ok && int(got.MTU) != want:
				t.Errorf("selector %d, MTU %d: %v, status %v; want %d, %v", sel, v, got.MTU, st, want, ok)
			}
			r = between(s, 0x1011, 0x1021)
			r.PacketLifeTimeSelector, r.PacketLifeTime = sel, v
			got, st = a.get(pathEnds|wire.PathCompLifeSelector|wire.PathCompPacketLifeTime, r)
			if want, ok := oracle(sel, int(v), 18, 0); ok != (st == 0) || ok && int(got.PacketLifeTime) != want {
				t.Errorf("selector %d, lifetime %d: %v, status %v; want %d, %v", sel, v, got.PacketLifeTime, st, want, ok)
			}
			r = between(s, 0x1011, 0x1021)
			r.RateSelector, r.Rate = sel, ib.Rate(v)
			got, st = a.get(pathEnds|wire.PathCompRateSelector|wire.PathCompRate, r)
			want, ok = oracle(sel, r.Rate.Order(), ib.Rate100.Order(), 1)
			ok = ok && (sel != wire.SelExactly || r.Rate == ib.Rate100) // not reduced
			switch {
			case !r.Rate.Valid():
				if st != ib.StatusSAReqInvalid {
					t.Errorf("rate code %d: status %v", v, st)
				}
			case ok != (st == 0) || ok && got.Rate.Order() > want:
				t.Errorf("selector %d, rate %v: %v, status %v; want %d, %v", sel, r.Rate, got.Rate, st, want, ok)
			}
			// A selector without its value, or a value without its selector, asks nothing.
			for _, half := range []wire.CompMask{wire.PathCompRateSelector, wire.PathCompMTUSelector, wire.PathCompPacketLifeTime} {
				if got, st := a.get(pathEnds|half, r); st != 0 || got.MTU != 4 || got.Rate != ib.Rate100 || got.PacketLifeTime != 18 {
					t.Fatalf("half a component: %+v, status %v", got, st)
				}
			}
		}
	}
}

// oracle is what a selector makes of the value have, in words.
func oracle(sel uint8, asked, have, least int) (int, bool) {
	switch {
	case sel == 0:
		return have, have > asked
	case sel == 1 && have < asked:
		return have, true
	case sel == 1:
		return asked - 1, asked > least
	case sel == 2:
		return asked, have >= asked
	}
	return have, true
}

// TestPathPKeys: the keys that OpenSM 3.3.23 was seen to answer, and those that
// it takes for lowest because it compares them byte-swapped.
func TestPathPKeys(t *testing.T) {
	s := snapshot(4, 0)
	set := func(host int, keys ...ib.PKey) { s.Ports[s.PortByGUID(ib.GUID(0x1001+16*host))].PKeys = keys }
	set(1, 0xFFFF, 0x8002)
	set(2, 0x7FFF, 0x0002)
	set(3, 0x7FFF, 0x8101, 0x8002, 0x8005)
	set(4, 0x7FFF, 0x8101, 0x0002, 0x8005, 0x8002)
	a := asker{t, source(s), 2}
	for _, c := range []struct {
		from, to int
		asked    ib.PKey
		want     ib.PKey
	}{
		{1, 2, 0, 0x8002},
		{2, 1, 0, 0x0002}, // the membership of the source
		{1, 3, 0, 0x8002},
		{3, 4, 0, 0x8002}, // OpenSM: 0x8101
		{4, 3, 0, 0x8002}, // full and limited: full
		{2, 2, 0, 0},      // limited members do not even reach themselves
		{1, 1, 0, 0x8002},
		{2, 1, 0x8002, 0x8002}, // as asked, whatever the source is
		{2, 1, 0x0002, 0x0002},
		{1, 2, 0x7FFF, 0x7FFF},
		{1, 2, 0x8005, 0},
		{2, 4, 0x7FFF, 0}, // both limited
		{3, 4, 0x8005, 0x8005},
	} {
		r := between(s, ib.GUID(0x1001+16*c.from), ib.GUID(0x1001+16*c.to))
		mask := pathEnds
		if r.PKey = c.asked; c.asked != 0 {
			mask |= wire.PathCompPKey
		}
		if got, st := a.get(mask, r); got.PKey != c.want || (st == 0) != (c.want != 0) {
			t.Errorf("host %d to %d, asked %v: %v, status %v; want %v", c.from, c.to, c.asked, got.PKey, st, c.want)
		}
	}
	// Raw packets have no P_Key.
	r := between(s, 0x1011, 0x1021)
	r.RawTraffic = true
	if got, st := a.get(pathEnds|wire.PathCompRawTraffic, r); st != 0 || got.PKey != 0 || !got.RawTraffic {
		t.Errorf("a raw path: %+v, status %v", got, st)
	}
	r.PKey = 0x8000
	if _, st := a.get(pathEnds|wire.PathCompPKey, r); st != ib.StatusSAReqInvalid {
		t.Errorf("P_Key 0x8000: status %v", st)
	}
}

// TestVisibility: a requester sees paths, and records, only of ports that it
// shares a partition with, and a switch if it does with its port 0.
func TestVisibility(t *testing.T) {
	s := snapshot(4, 0)
	for h, keys := range [][]ib.PKey{{0x8001}, {0x8001}, {0x8002}, {0x8002, 0x0001}} {
		s.Ports[s.PortByGUID(ib.GUID(0x1011+16*h))].PKeys = keys
	}
	s.Ports[0].PKeys = []ib.PKey{0x8002}
	for from, want := range map[ib.LID]struct{ nodes, links int }{
		2: {3, 0}, // hosts 1, 2 and 4, but not the switch that they hang on
		4: {3, 4}, // hosts 3 and 4 and the switch, and two cables, both ways
		5: {5, 8}, // all, and the cables of hosts that share nothing with the switch
	} {
		count := func(attr ib.AttrID) int {
			return len(records(t, answer(t, s, from, ask(ib.MethodGetTable, attr, 0, nil), false)))
		}
		if n := count(wire.AttrNodeRecord); n != want.nodes {
			t.Errorf("LID %d sees %d nodes, want %d", from, n, want.nodes)
		}
		if n := count(wire.AttrLinkRecord); n != want.links {
			t.Errorf("LID %d sees %d links, want %d", from, n, want.links)
		}
		// A port reaches itself and whom it shares a partition with.
		n, me := 0, s.PortByLID(from)
		for _, a := range s.EndPortPort {
			for _, b := range s.EndPortPort {
				if s.Share(me, a) && s.Share(me, b) && s.Share(a, b) {
					n++
				}
			}
		}
		if got := count(wire.AttrPathRecord); got != n {
			t.Errorf("LID %d sees %d paths, want %d", from, got, n)
		}
	}
}

// TestLinksOfLimitedMembers: among limited members a full member sees every link, as
// with OpenSM: it shares a partition with both ends, though they share none with each
// other.
func TestLinksOfLimitedMembers(t *testing.T) {
	s := snapshot(4, 0)
	for _, i := range s.EndPortPort {
		s.Ports[i].PKeys = []ib.PKey{ib.PKeyDefaultLimited}
	}
	s.Ports[s.PortByLID(2)].PKeys = []ib.PKey{ib.PKeyDefaultFull}
	for from, want := range map[ib.LID]int{2: 8, 3: 0} {
		if n := len(records(t, answer(t, s, from, ask(ib.MethodGetTable, wire.AttrLinkRecord, 0, nil), false))); n != want {
			t.Errorf("LID %d sees %d links, want %d", from, n, want)
		}
	}
}

// TestPathSL: lanes prescribe the level, then the QoS policy, then the
// partition.
func TestPathSL(t *testing.T) {
	s := snapshot(2, 0)
	src := source(s)
	a := asker{t, src, 2}
	r := between(s, 0x1011, 0x1021)
	check := func(what string, mask wire.CompMask, asked, want ib.SL, st ib.Status) {
		t.Helper()
		r.SL = asked
		if got, s := a.get(pathEnds|mask, r); s != st || got.SL != want {
			t.Errorf("%s: SL %d, status %v; want %d, %v", what, got.SL, s, want, st)
		}
	}
	check("nothing prescribed", 0, 0, 0, 0)
	check("5 asked for", wire.PathCompSL, 5, 5, 0)
	s.Partitions = &partition.Policy{Partitions: []partition.Partition{{PKey: 1, SL: 9, HasSL: true}, {PKey: partition.DefaultKey, SL: 2, HasSL: true}}}
	check("the partition's", 0, 0, 2, 0)
	check("another than the partition's", wire.PathCompSL, 5, 0, ib.StatusSANoRecords)
	policy, _, err := qos.Parse(strings.NewReader(`
qos-levels
    qos-level
        name: DEFAULT
        sl: 4
        mtu-limit: 3
        rate-limit: 3
        packet-life: 12
    end-qos-level
end-qos-levels
`), "test", s.Partitions)
	if err != nil {
		t.Fatal(err)
	}
	src.Opt.QoS = policy
	check("the QoS level's", 0, 0, 4, 0)
	check("the partition's, with a policy", wire.PathCompSL, 2, 0, ib.StatusSANoRecords)
	if got, _ := a.get(pathEnds, r); got.MTU != ib.MTU1024 || got.Rate != ib.Rate10 || got.PacketLifeTime != 12 {
		t.Errorf("limits of the level: %+v", got)
	}
	b := a.raw(ib.MethodGet, wire.AttrClassPortInfo, 0, nil)
	var cpi wire.ClassPortInfo
	if err := cpi.Decode(b[wire.HeaderLen:]); err != nil || cpi.CapabilityMask2&wire.Cap2QoS == 0 {
		t.Errorf("ClassPortInfo does not say that there is QoS: %+v %v", cpi, err)
	}
}

// TestLanesPrescribeSL: with an engine that uses lanes, every path has the tables'
// service level, and requests for another are refused.
func TestLanesPrescribeSL(t *testing.T) {
	s := fabricSnapshot(t, sssp.DFEngine{}, 0, 8, "torus", "4x4")
	if s.Tables.SL == nil {
		t.Fatal("dfsssp needs no lanes on a torus")
	}
	a, several := asker{t, source(s), s.Ports[s.EndPortPort[0]].LID}, map[ib.SL]bool{}
	for _, p := range a.table(0, wire.PathRecord{}) {
		attr, _ := s.Path(s.PortByLID(p.SLID), p.DLID)
		if several[p.SL] = true; p.SL != attr.SL {
			t.Fatalf("%v to %v: SL %d, want %d", p.SLID, p.DLID, p.SL, attr.SL)
		}
		q := wire.PathRecord{SLID: p.SLID, DLID: p.DLID, SL: p.SL ^ 1}
		if _, st := a.get(wire.PathCompSLID|wire.PathCompDLID|wire.PathCompSL, q); st != ib.StatusSANoRecords && p.SLID != p.DLID {
			t.Fatalf("%v to %v with SL %d: status %v", p.SLID, p.DLID, q.SL, st)
		}
	}
	if len(several) < 2 {
		t.Error("one level only")
	}
}

// TestRatesThatClientsKnow: newer rate codes are shown only to software with the
// capability bit.
func TestRatesThatClientsKnow(t *testing.T) {
	const ext, mask2 = ib.CapIsExtendedSpeedsSupported, ib.CapIsCapabilityMask2Supported
	for _, c := range []struct {
		link, want ib.Rate
		mask       ib.CapMask
		mask2      ib.CapMask2
	}{
		{ib.Rate28, ib.Rate20, 0, 0},
		{ib.Rate28, ib.Rate25, ext, 0},
		{ib.Rate28, ib.Rate28, mask2, ib.Cap2IsLinkWidth2xSupported},
		{ib.Rate28, ib.Rate20, 0, ib.Cap2IsLinkWidth2xSupported}, // CapabilityMask2 is not valid
		{ib.Rate50, ib.Rate40, ext, 0},
		{ib.Rate50, ib.Rate50, ext | mask2, ib.Cap2IsLinkSpeedHDRSupported},
		{ib.Rate400, ib.Rate120, 0, 0},
		{ib.Rate400, ib.Rate300, ext, 0},
		{ib.Rate600, ib.Rate600, mask2, ib.Cap2IsLinkSpeedHDRSupported},
		{ib.Rate800, ib.Rate300, ext, 0},
		{ib.Rate800, ib.Rate600, ext | mask2, ib.Cap2IsLinkSpeedHDRSupported},
		{ib.Rate1200, ib.Rate1200, ext | mask2, ib.Cap2IsLinkSpeedNDRSupported},
		{ib.Rate200, ib.Rate200, 0, 0},
	} {
		s := snapshot(2, 0)
		for i := range s.Ports {
			s.Ports[i].Rate = c.link
		}
		p := &s.Ports[s.PortByGUID(0x1021)].Info // the far end, of a path that is reversible
		p.CapabilityMask, p.CapabilityMask2 = c.mask, c.mask2
		q := &s.Ports[s.PortByGUID(0x1011)].Info
		q.CapabilityMask, q.CapabilityMask2 = ext|mask2, ib.Cap2IsLinkWidth2xSupported|ib.Cap2IsLinkSpeedHDRSupported|ib.Cap2IsLinkSpeedNDRSupported
		s.Finish()
		if got, st := (asker{t, source(s), 2}).get(pathEnds, between(s, 0x1011, 0x1021)); st != 0 || got.Rate != c.want {
			t.Errorf("%v, masks %v %v: %v, status %v; want %v", c.link, c.mask, c.mask2, got.Rate, st, c.want)
		}
	}
}

// TestNumbPath: the first of the pairs of LIDs that fit, the diagonal first.
func TestNumbPath(t *testing.T) {
	s := snapshot(3, 2)
	a := asker{t, source(s), 8}
	r := between(s, 0x1011, 0x1021)
	for n, want := range map[uint8]int{0: 0, 1: 1, 5: 5, 16: 16, 127: 16} {
		r.NumbPath = n
		got := a.table(pathEnds|wire.PathCompNumbPath, r)
		if len(got) != want {
			t.Errorf("NumbPath %d: %d paths, want %d", n, len(got), want)
		}
		for i, p := range got {
			if diag := p.SLID&3 == p.DLID&3; diag != (i < 4) || diag != (p.Preference == 0) || p.NumbPath != 0 {
				t.Errorf("path %d of %d: %v to %v, preference %d, NumbPath %d", i, n, p.SLID, p.DLID, p.Preference, p.NumbPath)
			}
		}
	}
	// Get is NumbPath 1, whatever it says.
	r.NumbPath = 0
	if got, st := a.get(pathEnds|wire.PathCompNumbPath, r); st != 0 || got.SLID != 8 || got.DLID != 12 {
		t.Errorf("Get: %v to %v, status %v", got.SLID, got.DLID, st)
	}
	if got := a.table(wire.PathCompSLID|wire.PathCompDGID, wire.PathRecord{SLID: 9, DGID: r.DGID}); len(got) != 4 || got[0].DLID != 12 || got[0].Preference != 0 {
		t.Errorf("from one LID: %+v", got)
	}
}

// TestIrreversiblePath: a path is not reversible if the reverse path is missing or has
// lower values.
func TestIrreversiblePath(t *testing.T) {
	s := snapshot(2, 0)
	s.Tables.LFT[0][2] = 0xFF // nobody reaches LID 2
	a := asker{t, source(s), 3}
	r := between(s, 0x1011, 0x1021)
	if got, st := a.get(pathEnds, r); st != 0 || got.Reversible {
		t.Errorf("there only: %+v, status %v", got, st)
	}
	r.Reversible = true
	if _, st := a.get(pathEnds|wire.PathCompReversible, r); st != ib.StatusSANoRecords {
		t.Errorf("a reversible path: status %v", st)
	}
	if _, st := a.get(pathEnds, between(s, 0x1021, 0x1011)); st != ib.StatusSANoRecords {
		t.Errorf("a path without entries: status %v", st)
	}
	s = snapshot(2, 0)
	s.Ports[2].Info.PortState = ib.StateArmed
	s.Finish()
	if _, st := (asker{t, source(s), 2}).get(pathEnds, between(s, 0x1011, 0x1021)); st != ib.StatusSANoRecords {
		t.Errorf("over a link that is not Active: status %v", st)
	}
}

// TestPathTableIsBounded: a table above the limit is refused, and its memory released.
func TestPathTableIsBounded(t *testing.T) {
	s := fabricSnapshot(t, updn.Engine{}, 2, 1, "xgft", "2", "18,9", "1,18") // 162 hosts × 4 LIDs
	var lids int
	for _, p := range s.EndPortPort {
		lids += 1 << s.Ports[p].LMC
	}
	a := asker{t, source(s), s.Ports[s.EndPortPort[0]].LID}
	if got := len(a.table(0, wire.PathRecord{})); got != lids*lids {
		t.Errorf("%d paths, want %d", got, lids*lids)
	}
	s = fabricSnapshot(t, updn.Engine{}, 3, 1, "xgft", "2", "18,15", "1,18") // 2,160 LIDs of hosts: 299 MB
	b := asker{t, source(s), s.Ports[s.EndPortPort[0]].LID}.raw(ib.MethodGetTable, wire.AttrPathRecord, 0, nil)
	if status(b) != ib.StatusSANoResources || cap(b) > 4096 {
		t.Errorf("status %v in %d of %d bytes: nothing should have been looked at", status(b), len(b), cap(b))
	}
	// What finds nothing is bounded as well.
	a = asker{t, source(s), s.Ports[s.EndPortPort[0]].LID}
	none := wire.PathRecord{MTUSelector: wire.SelLess, MTU: ib.MTU256}
	mask := wire.PathCompMTUSelector | wire.PathCompMTU
	if _, st := a.get(mask, none); st != ib.StatusSANoResources {
		t.Errorf("one path of any two ports: status %v", st)
	}
	none.SLID = a.from
	if _, st := a.get(mask|wire.PathCompSLID, none); st != ib.StatusSANoRecords {
		t.Errorf("one path from one port: status %v", st)
	}
	// Who is in a small partition may ask for all of its paths.
	const small = ib.PKey(0x8123)
	for i, p := range s.EndPortPort {
		s.Ports[p].PKeys = []ib.PKey{ib.PKeyDefaultFull}
		if i < 5 {
			s.Ports[p].PKeys = []ib.PKey{ib.PKeyDefaultFull, small}
		}
	}
	s.Finish()
	if n := len(a.table(wire.PathCompPKey, wire.PathRecord{PKey: small})); n != 5*5*64 {
		t.Errorf("%d paths in a partition of 5 ports with 8 LIDs, want %d", n, 5*5*64)
	}
}

// TestCapabilityMatch: the attribute modifier's bit 31 makes capability masks
// match as subsets.
func TestCapabilityMatch(t *testing.T) {
	s := snapshot(2, 0)
	s.Ports[s.PortByGUID(0x1011)].Info.CapabilityMask = ib.CapIsSM | ib.CapIsTrapSupported
	r := wire.PortInfoRecord{PortInfo: smp.PortInfo{CapabilityMask: ib.CapIsSM}}
	for mod, want := range map[uint32]int{0: 0, wire.PortInfoCapMatch: 1} {
		q := ask(ib.MethodGetTable, wire.AttrPortInfoRecord, wire.PortInfoCompCapabilityMask, &r)
		binary.BigEndian.PutUint32(q[20:], mod)
		if n := len(records(t, answer(t, s, 2, q, false))); n != want {
			t.Errorf("attribute modifier %#x: %d records, want %d", mod, n, want)
		}
	}
}
