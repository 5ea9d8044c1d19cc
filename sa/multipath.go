package sa

import (
	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/subnet"
)

// multiPathComps pairs each component of a MultiPathRecord with the equivalent
// one of a PathRecord.
var multiPathComps = [...]struct{ multi, path wire.CompMask }{
	{wire.MultiPathCompRawTraffic, wire.PathCompRawTraffic},
	{wire.MultiPathCompFlowLabel, wire.PathCompFlowLabel},
	{wire.MultiPathCompHopLimit, wire.PathCompHopLimit},
	{wire.MultiPathCompTClass, wire.PathCompTClass},
	{wire.MultiPathCompReversible, wire.PathCompReversible},
	{wire.MultiPathCompPKey, wire.PathCompPKey},
	{wire.MultiPathCompQoSClass, wire.PathCompQoSClass},
	{wire.MultiPathCompSL, wire.PathCompSL},
	{wire.MultiPathCompMTUSelector, wire.PathCompMTUSelector},
	{wire.MultiPathCompMTU, wire.PathCompMTU},
	{wire.MultiPathCompRateSelector, wire.PathCompRateSelector},
	{wire.MultiPathCompRate, wire.PathCompRate},
	{wire.MultiPathCompLifeSelector, wire.PathCompLifeSelector},
	{wire.MultiPathCompPacketLifeTime, wire.PathCompPacketLifeTime},
	{wire.MultiPathCompServiceID8, wire.PathCompServiceID8},
	{wire.MultiPathCompServiceID56, wire.PathCompServiceID56},
}

// defaultPaths is the number of paths if the query gives none.
const defaultPaths = 127

// multiPaths answers MultiPathRecord queries (IBA §15.2.5.20): paths between
// sets of ports, NumbPath in all.
func multiPaths(q *query) {
	var m wire.MultiPathRecord
	if q.req.Data[26]&wire.RMPPActive == 0 || m.Decode(q.data) != nil {
		q.status = statusInvalid
		return
	}
	if !q.has(wire.MultiPathCompSGIDCount|wire.MultiPathCompDGIDCount) || m.SGIDCount == 0 || m.DGIDCount == 0 {
		q.status = statusInsufficient
		return
	}
	paths := defaultPaths
	if q.has(wire.MultiPathCompNumbPath) {
		paths = int(m.NumbPath)
	}
	r := wire.PathRecord{
		RawTraffic: m.RawTraffic, FlowLabel: m.FlowLabel, HopLimit: m.HopLimit, TClass: m.TClass, Reversible: m.Reversible,
		PKey: m.PKey, QoSClass: m.QoSClass, SL: m.SL, MTUSelector: m.MTUSelector, MTU: m.MTU, RateSelector: m.RateSelector, Rate: m.Rate,
		PacketLifeTimeSelector: m.PacketLifeTimeSelector, PacketLifeTime: m.PacketLifeTime, ServiceID: m.ServiceID,
	}
	mask := wire.CompMask(0)
	for _, c := range multiPathComps {
		if q.has(c.multi) {
			mask |= c.path
		}
	}
	q.mask, q.budget = mask, maxPairs
	if !q.checkPath(&r) {
		return
	}
	var ends [wire.MaxMultiPathGIDs]end
	n := int(m.SGIDCount) + int(m.DGIDCount)
	for i, g := range m.GIDs[:n] {
		port := q.s.PortByGID(g)
		if g.IsMulticast() || port < 0 {
			q.status = statusInvalidGID
			return
		}
		ends[i] = end{port: port, gid: ib.MakeGID(q.s.Prefix, g.GUID()), named: true}
	}
	srcs, dsts := ends[:m.SGIDCount], ends[m.SGIDCount:n]
	if len(srcs) == 2 && len(dsts) == 2 && paths == 2 && q.disjoint(&r, srcs, dsts) {
		return
	}
	for _, a := range srcs {
		for _, b := range dsts {
			paths -= q.pair(&r, a, b, paths)
		}
	}
}

// option is a candidate for one of two disjoint paths.
type option struct {
	rec      wire.PathRecord
	src, dst int32
	hops     []subnet.Hop
}

// disjoint answers the query of automatic path migration between two ports of
// each of two nodes: two paths, one from each source and one to each
// destination. It minimizes the shared links, then the shared switches, then
// the hops. It reports whether two paths exist.
func (q *query) disjoint(r *wire.PathRecord, srcs, dsts []end) bool {
	var of [2][2][]option
	for i, a := range srcs {
		for j, b := range dsts {
			of[i][j] = q.options(r, a, b)
		}
	}
	var best [2]*option
	var least int
	for cross := range 2 {
		first, second := of[0][cross], of[1][1-cross]
		for i := range first {
			for j := range second {
				c := q.overlap(first[i].hops, second[j].hops)
				if best[0] == nil || c < least {
					least, best = c, [2]*option{&first[i], &second[j]}
				}
			}
		}
	}
	if best[0] == nil {
		return false
	}
	for _, o := range best {
		if b := q.record(); b != nil {
			o.rec.Put(b)
			q.hold(o.src, o.dst)
		}
	}
	return true
}

// maxOptions bounds the search for disjoint paths: the LIDs of two ports with
// LMC 3, in pairs of equal offset.
const maxOptions = 8

// options lists the paths of equal offset between two ports.
func (q *query) options(r *wire.PathRecord, a, b end) (list []option) {
	w := q.way(r, a, b)
	if w.impossible {
		return nil
	}
	for w.next() && !w.second && len(list) < maxOptions {
		o := option{src: a.port, dst: b.port}
		if w.record(q, r, &o.rec) {
			o.hops, _ = q.s.Trace(a.port, o.rec.DLID, nil)
			list = append(list, o)
		}
	}
	return list
}

// overlap returns the cost of a pair of paths: shared links, then shared
// switches, then hops.
func (q *query) overlap(a, b []subnet.Hop) int {
	const cable, node = 1 << 16, 1 << 8
	sum := len(a) + len(b)
	for _, x := range a {
		for _, y := range b {
			if x.Node != y.Node {
				continue
			}
			sum += node
			// A link between two switches occurs at both of its ends.
			for _, p := range [2]uint8{x.In, x.Out} {
				if p != 0 && (p == y.In || p == y.Out) {
					sum += cable
				}
			}
		}
	}
	return sum
}
