package sa

import (
	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/sa/pathlog"
	"heddle/subnet"
)

// maxPathChanges is how many changed paths one answer lists. If there are more, any path may have
// changed: it costs the requester less to ask for the paths that it uses.
const maxPathChanges = 4096

// pathChanges answers the query for the paths of a port that changed since a generation
// (docs/signalling.md).
func pathChanges(q *query) {
	r, port, ok := q.changesOf()
	if !ok {
		q.status = statusInvalid
		return
	}
	v := q.v.Paths
	if v == nil {
		v = new(pathlog.View)
	}
	f := v.Since(r.Generation, source(q.s, port))
	head := wire.PathChangeRecord{Generation: v.Gen, Head: true, All: f.All || len(f.LIDs)+len(f.Moved)+len(f.Gone) > maxPathChanges}
	head.Path.SGID = q.s.GID(port)
	if !q.table || q.req.SingleMAD {
		head.All = !f.Empty() || len(f.Gone) > 0 // the records would not fit
	}
	if b := q.record(); b != nil {
		head.Put(b)
	}
	if q.table && !head.All {
		if q.held != nil {
			q.held.Keep(q.s.Ports[port].LID)
		}
		q.changed(port, &f, v.Gen)
	}
}

// changesOf checks a query for changes, and returns it with the port that it is about.
func (q *query) changesOf() (r wire.PathChangeRecord, port int32, ok bool) {
	const known = wire.PathChangeCompGeneration | wire.PathChangeCompSGID
	if q.mask&^known != 0 || r.Decode(q.data) != nil {
		return r, -1, false
	}
	port = q.me
	if q.has(wire.PathChangeCompSGID) {
		port = q.s.PortByGID(r.Path.SGID)
	}
	if !q.has(wire.PathChangeCompGeneration) {
		r.Generation = 0
	}
	return r, port, port >= 0 && (q.trusted || q.me >= 0 && q.s.Physical(port) == q.s.Physical(q.me))
}

// changed adds the records of changed paths.
func (q *query) changed(port int32, f *pathlog.Found, gen uint64) {
	visible := func(at int32) bool { return at >= 0 && at != port && q.s.Share(port, at) }
	put := func(x *wire.PathChangeRecord) {
		if x.Generation = gen; !q.full {
			if b := q.record(); b != nil {
				x.Put(b)
			}
		}
	}
	for _, l := range f.LIDs {
		at := q.s.PortByLID(l)
		if !visible(at) {
			continue
		}
		p, ok := pathOf(&Source{Snap: q.s, View: q.v, Opt: q.opt}, port, at, l)
		if manyGIDs(q.s, at) {
			p.DGID = ib.GID{}
		}
		put(&wire.PathChangeRecord{Path: p, Lost: !ok})
	}
	for _, x := range f.Gone {
		p := wire.PathRecord{SGID: q.s.GID(port), DGID: ib.MakeGID(q.s.Prefix, x.GUID), DLID: x.Was}
		switch at := q.s.PortByGUID(x.GUID); {
		case at >= 0 && visible(at): // it is back: its paths may be others
			p.DLID = q.s.Ports[at].LID
			put(&wire.PathChangeRecord{Path: p})
		case at < 0 && subnet.ShareKeys(q.s.Ports[port].Keys(), x.Keys):
			put(&wire.PathChangeRecord{Path: p, Lost: true})
		}
	}
	last := ib.GUID(0)
	for _, m := range f.Moved {
		if visible(q.s.PortByGUID(m.GUID)) && m.GUID != last {
			last = m.GUID
			put(&wire.PathChangeRecord{Path: wire.PathRecord{SGID: q.s.GID(port), DGID: ib.MakeGID(q.s.Prefix, m.GUID)}})
		}
	}
}
