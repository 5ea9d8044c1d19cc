package sa

import (
	"heddle/ib"
	wire "heddle/ib/sa"
)

// pathRecords answers PathRecord queries (IBA §15.2.5.16).
func pathRecords(q *query) {
	var r wire.PathRecord
	if r.Decode(q.data) != nil {
		q.status = statusInvalid
		return
	}
	if q.has(wire.PathCompServiceID8) != q.has(wire.PathCompServiceID56) {
		q.status = statusInsufficient
		return
	}
	src, sOne, ok := q.end(wire.PathCompSGID, wire.PathCompSLID, r.SGID, r.SLID)
	if !ok {
		return
	}
	if q.has(wire.PathCompDGID) && r.DGID.IsMulticast() {
		q.status = statusInvalidGID
		if q.table {
			q.status = 0
		}
		return // no groups are kept
	}
	dst, dOne, ok := q.end(wire.PathCompDGID, wire.PathCompDLID, r.DGID, r.DLID)
	if !ok {
		return
	}
	if !q.checkValues(&r) {
		return
	}
	paths := 127
	if q.has(wire.PathCompNumbPath) {
		paths = int(r.NumbPath)
	}
	if !q.table {
		if !sOne || !dOne {
			q.status = statusInsufficient
			return
		}
		paths, q.limit = 1, q.recLen
	}
	q.pairs(&r, src, sOne, dst, dOne, paths)
	if q.status == statusNoResources && !q.table {
		q.status = 0
	}
}

// end resolves one side of the path: an index in Ports and one=true, or every
// end port. ok is false if the query is answered already.
func (q *query) end(gidComp, lidComp wire.CompMask, gid ib.GID, lid ib.LID) (port int32, one, ok bool) {
	port = -1
	if q.has(gidComp) {
		if port = q.s.PortByGID(gid); port < 0 {
			return -1, true, false // nobody of this subnet: no records
		}
		one = true
	}
	if q.has(lidComp) {
		p := q.s.PortByLID(lid)
		if one && p != port {
			q.status = statusInvalid
			return -1, true, false
		}
		if port, one = p, true; p < 0 {
			return -1, true, false
		}
	}
	return port, one, true
}

// checkValues refuses values that mean nothing.
func (q *query) checkValues(r *wire.PathRecord) bool {
	bad := q.has(wire.PathCompMTU) && (r.MTU < 1 || r.MTU > 5) ||
		q.has(wire.PathCompRate) && !r.Rate.Valid() ||
		q.has(wire.PathCompPKey) && r.PKey&0x7FFF == 0
	if bad {
		q.status = statusInvalid
	}
	return !bad
}

// pairs goes through the pairs of ends.
func (q *query) pairs(r *wire.PathRecord, src int32, sOne bool, dst int32, dOne bool, paths int) {
	all := q.s.EndPortPort
	one := func(p int32, is bool) []int32 {
		if is {
			return []int32{p}
		}
		return all
	}
	for _, a := range one(src, sOne) {
		for _, b := range one(dst, dOne) {
			if q.full {
				return
			}
			q.pair(r, a, b, paths)
		}
	}
}

// pair adds up to paths records from port a to port b: first the LIDs of
// equal offset, then the others.
func (q *query) pair(r *wire.PathRecord, a, b int32, paths int) {
	s := q.s
	p, t := &s.Ports[a], &s.Ports[b]
	if !s.Share(a, b) || !q.visible(p) || !q.visible(t) {
		return
	}
	na, nb := 1<<p.LMC, 1<<t.LMC
	for pass := range 2 {
		for i := range na {
			for j := range nb {
				if (i == j) != (pass == 0) {
					continue
				}
				sl, dl := p.LID+ib.LID(i), t.LID+ib.LID(j)
				if q.has(wire.PathCompSLID) && sl != r.SLID || q.has(wire.PathCompDLID) && dl != r.DLID {
					continue
				}
				if paths <= 0 || q.full {
					return
				}
				if q.path(r, a, b, sl, dl, pass > 0) {
					paths--
				}
			}
		}
	}
}

// path adds the record of one pair of LIDs, if there is a path that fits.
func (q *query) path(r *wire.PathRecord, a, b int32, slid, dlid ib.LID, second bool) bool {
	s := q.s
	attr, ok := s.Path(a, dlid)
	if !ok {
		return false
	}
	if _, back := s.Path(b, slid); !back && q.has(wire.PathCompReversible) && r.Reversible {
		return false
	}
	out := wire.PathRecord{
		SGID: s.GID(a), DGID: s.GID(b), SLID: slid, DLID: dlid, Reversible: true, PKey: s.SharedPKey(a, b), SL: attr.SL,
		MTUSelector: wire.SelExactly, RateSelector: wire.SelExactly, PacketLifeTimeSelector: wire.SelExactly,
	}
	if second {
		out.Preference = 2
	}
	if q.has(wire.PathCompPKey) {
		if r.PKey|0x8000 != ib.PKeyDefaultFull {
			return false
		}
		out.PKey = r.PKey
	}
	if q.has(wire.PathCompSL) && r.SL != attr.SL {
		return false
	}
	life := s.PacketLife
	if a == b {
		life = 0
	}
	if out.MTU, ok = fitMTU(attr.MTU, r, q.has(wire.PathCompMTU|wire.PathCompMTUSelector)); !ok {
		return false
	}
	if out.Rate, ok = fitRate(attr.Rate, r, q.has(wire.PathCompRate|wire.PathCompRateSelector)); !ok {
		return false
	}
	if out.PacketLifeTime, ok = fitLife(life, r, q.has(wire.PathCompPacketLifeTime|wire.PathCompLifeSelector)); !ok {
		return false
	}
	rec := q.record()
	if rec == nil {
		return false
	}
	out.Put(rec)
	return true
}

// fitMTU applies selector and value of the request to what the path carries
// (sa.md §8.4).
func fitMTU(v ib.MTU, r *wire.PathRecord, asked bool) (ib.MTU, bool) {
	if !asked {
		return v, true
	}
	switch r.MTUSelector {
	case wire.SelGreater:
		return v, v > r.MTU
	case wire.SelLess:
		if v < r.MTU {
			return v, true
		}
		return r.MTU - 1, r.MTU > 1
	case wire.SelExactly:
		return r.MTU, v >= r.MTU
	}
	return v, true
}

func fitRate(v ib.Rate, r *wire.PathRecord, asked bool) (ib.Rate, bool) {
	if !asked {
		return v, true
	}
	switch r.RateSelector {
	case wire.SelGreater:
		return v, v.Cmp(r.Rate) > 0
	case wire.SelLess:
		if v.Cmp(r.Rate) < 0 {
			return v, true
		}
		slower := r.Rate.Slower()
		return slower, slower.Valid()
	case wire.SelExactly:
		return v, v.Cmp(r.Rate) == 0
	}
	return v, true
}

func fitLife(v uint8, r *wire.PathRecord, asked bool) (uint8, bool) {
	if !asked {
		return v, true
	}
	switch r.PacketLifeTimeSelector {
	case wire.SelGreater:
		return v, v > r.PacketLifeTime
	case wire.SelLess:
		if v < r.PacketLifeTime {
			return v, true
		}
		return r.PacketLifeTime - 1, r.PacketLifeTime > 0
	case wire.SelExactly:
		return r.PacketLifeTime, v >= r.PacketLifeTime
	}
	return v, true
}
