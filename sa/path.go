package sa

import (
	"bytes"
	"cmp"
	"slices"

	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/qos"
	"heddle/subnet"
)

// end is one side of a path query.
type end struct {
	port int32 // index in Ports, -1: every end port
	// gid is the GID in the answer, with named. It repeats the request, so it may
	// be an alias.
	gid   ib.GID
	lid   ib.LID // 0: every LID of the port
	named bool
	hop   uint8 // HopLimit: 0xFF behind a router
}

// pathRecords answers PathRecord queries (IBA §15.2.5.16).
func pathRecords(q *query) {
	var r wire.PathRecord
	if r.Decode(q.data) != nil {
		q.status = statusInvalid
		return
	}
	if q.has(wire.PathCompDGID) && r.DGID.IsMulticast() {
		if q.checkPath(&r) {
			q.groupPath(&r)
		}
		return
	}
	src, dst, ok := q.pathEnds(&r)
	if !ok {
		return
	}
	paths := maxPaths
	q.budget = maxPairs
	switch {
	case !q.table: // Get returns one path, regardless of NumbPath
		paths, q.limit = 1, q.recLen
	case q.has(wire.PathCompNumbPath):
		paths = int(r.NumbPath)
	}
	q.pairs(&r, src, dst, paths)
}

// maxPaths is more than two ports can have: 128 LIDs each.
const maxPaths = 128 * 128

// pathEnds checks a query and resolves its ends; ok is false if it already has
// its answer.
func (q *query) pathEnds(r *wire.PathRecord) (src, dst end, ok bool) {
	if !q.checkPath(r) {
		return src, dst, false
	}
	if src, ok = q.end(wire.PathCompSGID, wire.PathCompSLID, r.SGID, r.SLID); !ok {
		return src, dst, false
	}
	if q.has(wire.PathCompDGID) && q.foreign(r.DGID) {
		dst, ok = q.router(r)
		return src, dst, ok
	}
	dst, ok = q.end(wire.PathCompDGID, wire.PathCompDLID, r.DGID, r.DLID)
	return src, dst, ok
}

// checkPath refuses invalid values.
func (q *query) checkPath(r *wire.PathRecord) bool {
	switch {
	case q.has(wire.PathCompServiceID8) != q.has(wire.PathCompServiceID56):
		q.status = statusInsufficient
	case q.has(wire.PathCompMTU) && (r.MTU < ib.MTU256 || r.MTU > ib.MTU4096),
		q.has(wire.PathCompRate) && !r.Rate.Valid(),
		q.has(wire.PathCompPKey) && r.PKey.IsEmpty():
		q.status = statusInvalid
	}
	return q.status == 0
}

// end resolves one side of a path. ok is false if the query already has its
// answer: the GID or LID is not of this subnet, so no records match, or GID and
// LID name different ports.
func (q *query) end(gidComp, lidComp wire.CompMask, gid ib.GID, lid ib.LID) (e end, ok bool) {
	e.port = -1
	if q.has(gidComp) {
		if e.port = q.s.PortByGID(gid); e.port < 0 {
			return e, q.none()
		}
		e.gid, e.named = ib.MakeGID(q.s.Prefix, gid.GUID()), true
	}
	if q.has(lidComp) {
		e.lid = lid
		switch {
		case !e.named: // the LID of several ports: it names the physical one
			if e.port = q.s.PortByLID(lid); e.port < 0 {
				return e, q.none()
			}
		case !ownsLID(q.s.Ports[e.port], lid):
			q.status = statusInvalid
			return e, false
		}
	}
	return e, true
}

// none answers a query that matches no records.
func (q *query) none() bool {
	q.full = true
	return false
}

// foreign reports whether a GID belongs to another subnet.
func (q *query) foreign(g ib.GID) bool {
	p := g.Prefix()
	return p != q.s.Prefix && p != ib.DefaultSubnetPrefix
}

// router is the router port toward a GID of another subnet.
func (q *query) router(r *wire.PathRecord) (e end, ok bool) {
	e = end{port: -1, gid: r.DGID, named: true, hop: 0xFF}
	i := slices.IndexFunc(q.opt.PrefixRoutes, func(x PrefixRoute) bool { return x.Prefix == 0 || x.Prefix == r.DGID.Prefix() })
	if i < 0 {
		return e, q.none()
	}
	want := q.opt.PrefixRoutes[i].GUID
	for _, i := range q.s.EndPortPort {
		p := q.s.Ports[i]
		if q.s.Nodes[p.Node].Info.NodeType == ib.NodeRouter && (want == 0 || p.GUID == want) {
			e.port = i
			break
		}
	}
	if e.port < 0 {
		return e, q.none()
	}
	if q.has(wire.PathCompDLID) {
		if e.lid = r.DLID; !ownsLID(q.s.Ports[e.port], r.DLID) {
			q.status = statusInvalid
		}
	}
	return e, q.status == 0
}

// pairs adds the records of all pairs of ends, up to paths for each pair. A
// query for more pairs than allowed is refused before any work is done.
func (q *query) pairs(r *wire.PathRecord, src, dst end, paths int) {
	if src.port >= 0 && dst.port >= 0 {
		q.pair(r, src, dst, paths)
		return
	}
	srcs, dsts := q.candidates(r, src), q.candidates(r, dst)
	whole := q.table && !q.req.SingleMAD
	if !whole {
		q.budget = maxPairs / 16 // a first path is found soon, if one exists
	} else if q.mostPairs(srcs, paths)*q.mostPairs(dsts, paths) > q.budget {
		q.status = statusNoResources
		return
	}
	for _, a := range srcs {
		x, y := src, dst
		x.port = a
		for _, b := range dsts {
			if q.full {
				return
			}
			y.port = b
			q.pair(r, x, y, paths)
		}
	}
}

// candidates are the ports that one side of a path may be: the named one, or
// all that the requester can see and that have the requested P_Key.
func (q *query) candidates(r *wire.PathRecord, e end) []int32 {
	if e.port >= 0 {
		return []int32{e.port}
	}
	list := make([]int32, 0, q.s.Counts.EndPorts+q.s.Counts.VPorts)
	keyed := q.has(wire.PathCompPKey) && !q.raw(r)
	take := func(i int32) {
		if q.sees(i) && (!keyed || q.s.HasPKey(i, r.PKey)) {
			list = append(list, i)
		}
	}
	for _, i := range q.s.EndPortPort {
		take(i)
	}
	for i := q.s.FirstVPort(); int(i) < len(q.s.Ports); i++ {
		if q.s.Ports[i].EndPort >= 0 {
			take(i)
		}
	}
	return list
}

// mostPairs is how many LIDs of these ports a query visits that asks for paths
// records for each pair of ports.
func (q *query) mostPairs(ports []int32, paths int) (n int) {
	if paths < maxPaths {
		return len(ports) // a lower bound; spend enforces the limit
	}
	for _, i := range ports {
		n += 1 << q.s.Ports[i].LMC
	}
	return n
}

// spend takes one pair from the query's budget. When the budget is spent the
// query ends, and is refused if records may be missing.
func (q *query) spend() {
	if q.budget--; q.budget >= 0 {
		return
	}
	q.full = true
	if q.n == 0 || q.table {
		q.status = statusNoResources
	}
}

// pair adds up to paths records between two ports.
func (q *query) pair(r *wire.PathRecord, src, dst end, paths int) (found int) {
	w := q.way(r, src, dst)
	if w.impossible {
		q.spend()
		return 0
	}
	q.hold(src.port, dst.port)
	var out wire.PathRecord
	for w.next() {
		if found == paths || q.full {
			return found
		}
		q.spend()
		if !w.record(q, r, &out) {
			continue
		}
		rec := q.record()
		if rec == nil {
			return found
		}
		out.Put(rec)
		found++
	}
	return found
}

// hold notes that a path is asked for; if there is none now, its return is of interest. An
// administrator's query for paths of others makes nobody use them.
func (q *query) hold(src, dst int32) {
	if q.held != nil && (!q.trusted || q.me == src || q.me == dst) {
		q.held.Note(q.s.Ports[src].LID, q.s.Ports[dst].LID)
	}
}

// way is what all paths between two ports share, and an iterator over their
// pairs of LIDs: first the pairs of equal offset, then the others.
type way struct {
	src, dst   end
	level      *qos.Level
	key        ib.PKey
	impossible bool

	sLID, dLID   ib.LID // the first LID of each port
	sLIDs, dLIDs int
	i, j         int
	second       bool // iterating over the pairs of unequal offset
	started      bool
}

// way checks whether the requester may see two ports, and determines the P_Key
// and QoS level of their paths.
func (q *query) way(r *wire.PathRecord, src, dst end) (w way) {
	s := q.s
	w.src, w.dst = src, dst
	p, t := s.Ports[src.port], s.Ports[dst.port]
	if !q.sees(src.port) || !q.sees(dst.port) || !s.Share(src.port, dst.port) {
		w.impossible = true
		return w
	}
	if q.opt.QoS != nil {
		w.level = q.level(r, src.port, dst.port)
	}
	if w.key, w.impossible = q.pathKey(r, &w); w.impossible {
		return w
	}
	if !src.named {
		w.src.gid = s.GID(src.port)
	}
	if !dst.named {
		w.dst.gid = s.GID(dst.port)
	}
	w.sLID, w.sLIDs = p.LID, 1<<p.LMC
	if src.lid != 0 {
		w.sLID, w.sLIDs = src.lid, 1
	}
	w.dLID, w.dLIDs = t.LID, 1<<t.LMC
	if dst.lid != 0 {
		w.dLID, w.dLIDs = dst.lid, 1
	}
	return w
}

// next advances to the next pair of LIDs.
func (w *way) next() bool {
	if !w.started {
		w.started = true
		return true
	}
	if !w.second {
		if w.i, w.j = w.i+1, w.j+1; w.i < w.sLIDs && w.j < w.dLIDs {
			return true
		}
		w.second, w.i, w.j = true, 0, 0
	}
	for {
		if w.j++; w.j >= w.dLIDs {
			w.i, w.j = w.i+1, 0
		}
		if w.i >= w.sLIDs {
			return false
		}
		if w.i != w.j {
			return true
		}
	}
}

// lids returns the current pair of LIDs.
func (w *way) lids() (src, dst ib.LID) { return w.sLID + ib.LID(w.i), w.dLID + ib.LID(w.j) }

// record builds the record of the current pair of LIDs, if a matching path
// exists.
func (w *way) record(q *query, r *wire.PathRecord, out *wire.PathRecord) bool {
	s := q.s
	slid, dlid := w.lids()
	a, back, ok, reversible := s.RoundTrip(w.src.port, slid, w.dst.port, dlid)
	if !ok {
		return false
	}
	v := pathValues{mtu: a.MTU, rate: a.Rate, life: s.PacketLife}
	src, dst := s.Physical(w.src.port), s.Physical(w.dst.port)
	if src == dst {
		v.life = 0 // IBA §15.2.5.16: loopback
	}
	if q.has(wire.PathCompReversible) && r.Reversible && !reversible {
		return false
	}
	v.limit(w.level, src == dst)
	ends := [2]*subnet.Port{s.Ports[src], s.Ports[src]}
	if reversible {
		ends[1] = s.Ports[dst]
	}
	v.rate = understood(understood(v.rate, ends[0]), ends[1])
	if !v.fit(q.mask, r) {
		return false
	}
	// A selector may have chosen a rate that an end does not know.
	v.rate = understood(understood(v.rate, ends[0]), ends[1])
	sl, ok := q.pathSL(r, w, a.SL, dlid)
	if !ok {
		return false
	}
	// A path is reversible only if the reverse path carries the same values.
	if reversible && (back.MTU < v.mtu || back.Rate.Order() < v.rate.Order()) {
		if reversible = false; q.has(wire.PathCompReversible) && r.Reversible {
			return false
		}
	}
	*out = wire.PathRecord{
		SGID: w.src.gid, DGID: w.dst.gid, SLID: slid, DLID: dlid, HopLimit: w.dst.hop, Reversible: reversible, PKey: w.key, SL: sl,
		MTUSelector: wire.SelExactly, MTU: v.mtu, RateSelector: wire.SelExactly, Rate: v.rate,
		PacketLifeTimeSelector: wire.SelExactly, PacketLifeTime: v.life, RawTraffic: q.raw(r),
	}
	if q.opt.PathCaching != 0 && w.dst.hop == 0 && q.s.KeepsAddress(w.dst.port, w.dst.gid.GUID()) {
		out.Reserved3 = q.opt.PathCaching
	}
	if out.HopLimit == 0 {
		out.HopLimit = q.hopLimit(w.src.port, w.dst.port)
	}
	if w.second {
		out.Preference = 2
	}
	return true
}

// groupPath answers with the path to a multicast group. The record has the
// group's values. A named source must be a member, and an untrusted requester
// may name only itself.
func (q *query) groupPath(r *wire.PathRecord) {
	if !q.table {
		q.limit = q.recLen
	}
	i, ok := slices.BinarySearchFunc(q.v.Groups, r.DGID, func(g *Group, id ib.GID) int { return bytes.Compare(g.MGID[:], id[:]) })
	if !ok || q.me >= 0 && !q.s.HasPKey(q.me, q.v.Groups[i].PKey) {
		return
	}
	g := q.v.Groups[i]
	src, ok := q.end(wire.PathCompSGID, wire.PathCompSLID, r.SGID, r.SLID)
	switch {
	case !ok:
		return
	case src.port < 0:
		src.port = q.me
	case !q.trusted && src.port != q.me:
		return // the answer would reveal the members
	case !slices.ContainsFunc(g.Members, func(m Member) bool { return m.PortGUID == q.s.Ports[src.port].GUID }):
		return
	}
	if src.port < 0 || !q.s.HasPKey(src.port, g.PKey) || !q.sees(src.port) {
		return
	}
	if !q.isGroupPath(r, g) {
		return
	}
	if !src.named {
		src.gid = q.s.GID(src.port)
	}
	if src.lid == 0 {
		src.lid = q.s.Ports[src.port].LID
	}
	out := wire.PathRecord{
		SGID: src.gid, DGID: g.MGID, SLID: src.lid, DLID: g.MLID, HopLimit: g.HopLimit, FlowLabel: g.FlowLabel, TClass: g.TClass,
		NumbPath: 1, PKey: g.PKey, SL: g.SL, MTUSelector: wire.SelExactly, MTU: g.MTU, RateSelector: wire.SelExactly, Rate: g.Rate,
		PacketLifeTimeSelector: wire.SelExactly, PacketLifeTime: g.PacketLife,
	}
	if q.has(wire.PathCompPKey) {
		out.PKey = r.PKey
	}
	if b := q.record(); b != nil {
		out.Put(b)
	}
}

// isGroupPath reports whether the path to a group matches the request. A group's
// values are fixed: selectors do not adjust them.
func (q *query) isGroupPath(r *wire.PathRecord, g *Group) bool {
	if q.has(wire.PathCompDLID) && r.DLID != g.MLID || q.has(wire.PathCompPKey) && r.PKey.Base() != g.PKey.Base() ||
		q.has(wire.PathCompSL) && r.SL != g.SL || q.has(wire.PathCompTClass) && r.TClass != g.TClass ||
		q.has(wire.PathCompFlowLabel) && r.FlowLabel != g.FlowLabel || q.has(wire.PathCompHopLimit) && r.HopLimit != g.HopLimit ||
		q.has(wire.PathCompNumbPath) && q.table && r.NumbPath == 0 || q.raw(r) {
		return false
	}
	v := pathValues{g.MTU, g.Rate, g.PacketLife}
	w := v
	return w.fit(q.mask, r) && w == v
}

// partitionSL is the service level that a partition prescribes for its paths,
// if any.
func (q *query) partitionSL(k ib.PKey) (ib.SL, bool) {
	if q.s.Partitions == nil {
		return 0, false
	}
	list := q.s.Partitions.Partitions
	for lo, hi := 0, len(list); lo < hi; {
		m := int(uint(lo+hi) / 2)
		switch c := cmp.Compare(list[m].PKey.Base(), k.Base()); {
		case c == 0:
			return list[m].SL, list[m].HasSL
		case c < 0:
			lo = m + 1
		default:
			hi = m
		}
	}
	return 0, false
}
