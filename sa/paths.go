package sa

import (
	"heddle/ib"
	"heddle/ib/sa"
)

// maxLifetime is the longest packet lifetime that a record can carry.
const maxLifetime = 0x3F

// paths finds PathRecords between the end ports that the query names (IBA
// §15.2.5.16). An end that is not named is every end port.
func (q *query) paths() ib.Status {
	q.begin(sa.PathRecordLen)
	var buf [sa.PathRecordLen]byte
	var want sa.PathRecord
	if want.Decode(q.want(buf[:])) != nil {
		return ib.StatusInvalidField // the length is right; nothing else can fail
	}
	comp := q.head.ComponentMask
	if id := comp & (sa.PathCompServiceID8 | sa.PathCompServiceID56); id != 0 && id != sa.PathCompServiceID8|sa.PathCompServiceID56 {
		return ib.StatusSAInsufficientComps
	}
	if comp.Has(sa.PathCompDGID) && want.DGID.IsMulticast() {
		return ib.StatusOK // no groups: no record
	}
	src, srcLID, status := q.end(comp.Has(sa.PathCompSGID), want.SGID, comp.Has(sa.PathCompSLID), want.SLID)
	if status != ib.StatusOK {
		return status
	}
	dst, dstLID, status := q.end(comp.Has(sa.PathCompDGID), want.DGID, comp.Has(sa.PathCompDLID), want.DLID)
	if status != ib.StatusOK {
		return status
	}
	if src == nobody || dst == nobody {
		return ib.StatusOK
	}
	most := int(^uint(0) >> 1)
	if comp.Has(sa.PathCompNumbPath) {
		most = int(want.NumbPath)
	}
	if q.method == ib.MethodGet {
		most = 1
	}
	w := pathQuery{query: q, comp: comp, want: want, most: most}
	w.each(src, func(s int32) {
		w.each(dst, func(d int32) { w.pair(s, d, srcLID, dstLID) })
	})
	return ib.StatusOK
}

// everyone and nobody are what an end of a path can be beside a port.
const (
	everyone int32 = -1
	nobody   int32 = -2
)

// end resolves one end of the query. lid is the LID that was asked for, 0 if
// none was.
func (q *query) end(byGID bool, gid ib.GID, byLID bool, lid ib.LID) (port int32, only ib.LID, status ib.Status) {
	port = everyone
	if byGID {
		if port = q.s.PortByGID(gid); port < 0 {
			return nobody, 0, ib.StatusOK
		}
	}
	if !byLID {
		return port, 0, ib.StatusOK
	}
	l := q.s.PortByLID(lid)
	switch {
	case l < 0:
		return nobody, 0, ib.StatusOK
	case byGID && l != port:
		return nobody, 0, ib.StatusSAReqInvalid
	}
	return l, lid, ib.StatusOK
}

// pathQuery is what does not change from pair to pair.
type pathQuery struct {
	*query
	comp sa.CompMask
	want sa.PathRecord
	most int // records for each pair of ports
}

func (q *pathQuery) each(port int32, do func(int32)) {
	if port != everyone {
		do(port)
		return
	}
	for i := range q.s.Ports {
		if !q.wantsMore() {
			return
		}
		if q.s.Ports[i].EndPort >= 0 && q.s.Ports[i].LID != 0 {
			do(int32(i))
		}
	}
}

// pair adds the paths between two ports: first between LIDs of equal offset
// in the two ranges, which spread over the fabric best, then the others.
func (q *pathQuery) pair(src, dst int32, srcLID, dstLID ib.LID) {
	if !q.wantsMore() || !q.shares(src, dst) || !q.shares(q.self, src) || !q.shares(q.self, dst) {
		return
	}
	s, d := &q.s.Ports[src], &q.s.Ports[dst]
	ns, nd := 1<<s.LMC, 1<<d.LMC
	found := 0
	try := func(i, j int, preference uint8) {
		sl, dl := s.LID+ib.LID(i), d.LID+ib.LID(j)
		if found >= q.most || !q.wantsMore() || srcLID != 0 && sl != srcLID || dstLID != 0 && dl != dstLID {
			return
		}
		if q.add(src, dst, sl, dl, preference) {
			found++
		}
	}
	for i := range min(ns, nd) {
		try(i, i, 0)
	}
	if ns == 1 && nd == 1 {
		return
	}
	for i := range ns {
		for j := range nd {
			if i != j {
				try(i, j, 2)
			}
		}
	}
}

// add adds the path from slid to dlid if there is one that the query allows.
func (q *pathQuery) add(src, dst int32, slid, dlid ib.LID, preference uint8) bool {
	a, ok := q.s.Path(src, dlid)
	if !ok {
		return false
	}
	back, reversible := q.s.Path(dst, slid)
	if !reversible && q.comp.Has(sa.PathCompReversible) && q.want.Reversible {
		return false
	}
	if reversible && back.SL != a.SL {
		reversible = false // a reply on the same SL would leave its lane
	}
	life := q.s.PacketLife
	if src == dst {
		life = 0
	}
	mtu, okM := selectMTU(q.comp, &q.want, a.MTU)
	rate, okR := selectRate(q.comp, &q.want, a.Rate)
	life, okL := selectLife(q.comp, &q.want, life)
	if !okM || !okR || !okL {
		return false
	}
	if q.comp.Has(sa.PathCompSL) && q.want.SL != a.SL {
		return false
	}
	pkey := ib.PKeyDefaultFull
	if s, d := q.s.Ports[src].DefaultPKey, q.s.Ports[dst].DefaultPKey; s == ib.PKeyDefaultLimited || d == ib.PKeyDefaultLimited {
		pkey = ib.PKeyDefaultLimited
	}
	if q.comp.Has(sa.PathCompPKey) {
		if q.want.PKey&0x7FFF != ib.PKeyDefaultLimited {
			return false
		}
		pkey = q.want.PKey
	}
	if q.comp.Has(sa.PathCompRawTraffic) && q.want.RawTraffic {
		pkey = 0
	}
	b := q.next()
	if b == nil {
		return false
	}
	r := sa.PathRecord{
		DGID: ib.MakeGID(q.s.Prefix, q.s.Ports[dst].GUID), SGID: ib.MakeGID(q.s.Prefix, q.s.Ports[src].GUID),
		DLID: dlid, SLID: slid, Reversible: reversible, PKey: pkey, SL: a.SL,
		MTUSelector: sa.SelExactly, MTU: mtu, RateSelector: sa.SelExactly, Rate: rate,
		PacketLifeTimeSelector: sa.SelExactly, PacketLifeTime: life, Preference: preference,
	}
	r.Put(b)
	return true
}

// The selectors say how a requested value bounds what the path has; a path
// may be used below what it can carry, so "less" and "exactly" lower the
// value where they can.

func selectMTU(c sa.CompMask, w *sa.PathRecord, have ib.MTU) (ib.MTU, bool) {
	if !c.Has(sa.PathCompMTU | sa.PathCompMTUSelector) {
		return have, true
	}
	switch w.MTUSelector {
	case sa.SelGreater:
		return have, have > w.MTU
	case sa.SelLess:
		if have >= w.MTU {
			have = w.MTU - 1
		}
		return have, w.MTU > 1
	case sa.SelExactly:
		return w.MTU, have >= w.MTU && w.MTU > 0
	}
	return have, true
}

func selectRate(c sa.CompMask, w *sa.PathRecord, have ib.Rate) (ib.Rate, bool) {
	if !c.Has(sa.PathCompRate | sa.PathCompRateSelector) {
		return have, true
	}
	switch w.RateSelector {
	case sa.SelGreater:
		return have, have.Order() > w.Rate.Order()
	case sa.SelLess:
		if have.Order() >= w.Rate.Order() {
			have = w.Rate.Slower()
		}
		return have, have != 0
	case sa.SelExactly:
		return w.Rate, have == w.Rate
	}
	return have, true
}

func selectLife(c sa.CompMask, w *sa.PathRecord, have uint8) (uint8, bool) {
	if !c.Has(sa.PathCompPacketLifeTime | sa.PathCompLifeSelector) {
		return have, true
	}
	switch w.PacketLifeTimeSelector {
	case sa.SelGreater:
		return have, have > w.PacketLifeTime
	case sa.SelLess:
		if have >= w.PacketLifeTime {
			if w.PacketLifeTime == 0 {
				return 0, false
			}
			have = w.PacketLifeTime - 1
		}
		return have, true
	case sa.SelExactly:
		return w.PacketLifeTime, have >= w.PacketLifeTime
	}
	return have & maxLifetime, true
}
