package sa

import (
	"slices"

	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/sa/pathlog"
	"heddle/subnet"
)

// pathReport is one thing that a peer is to be notified of: with lid the paths to it, else with
// gid those to a GID, else that any path may have changed.
type pathReport struct {
	lid ib.LID
	gid ib.GID
}

// evaluate finds out what a peer is to be notified of.
func (x *signals) evaluate(c *Core, p *peer) {
	s := c.snap
	p.path.goal = x.log.Gen()
	f := x.log.Since(p.path.told, source(s, p.port))
	if f.Empty() {
		return
	}
	list, all := x.changes(s, p.port, &f)
	switch most := x.cfg.Signal.most(); {
	case all || len(list) > most:
		p.path.todo = []pathReport{{}}
	case len(list) > 0:
		p.path.todo = list
	default:
		x.stats.Spared++
	}
}

// changes lists the changed paths that a port may hold; all: any path that it holds.
func (x *signals) changes(s *subnet.Snapshot, port int32, f *pathlog.Found) (list []pathReport, all bool) {
	targeted := x.cfg.Signal == SignalTargeted
	me := s.Ports[port].LID
	if f.All {
		return nil, !targeted || x.held.Any(me)
	}
	for _, l := range f.LIDs {
		at := s.PortByLID(l)
		if at < 0 || at == port || targeted && !x.held.May(me, s.Ports[at].LID) || !s.Share(port, at) {
			continue
		}
		if list = append(list, pathReport{lid: l}); len(list) > x.cfg.Signal.most() {
			return list, true
		}
	}
	for i, m := range f.Moved {
		at := s.PortByGUID(m.GUID)
		// An alias GUID that came to this port is new to its other functions.
		if at < 0 || at == port && s.Ports[at].GUID == m.GUID || i > 0 && f.Moved[i-1].GUID == m.GUID || targeted && !x.mayHold(me, f.Moved, m.GUID) || !s.Share(port, at) {
			continue
		}
		if list = append(list, pathReport{gid: ib.MakeGID(s.Prefix, m.GUID)}); len(list) > x.cfg.Signal.most() {
			return list, true
		}
	}
	return list, false
}

// mayHold reports whether a source may hold a path to one of the LIDs that a GUID had.
func (x *signals) mayHold(me ib.LID, moved []pathlog.Moved, g ib.GUID) bool {
	return slices.ContainsFunc(moved, func(m pathlog.Moved) bool { return m.GUID == g && x.held.May(me, m.Was) })
}

// report builds the next Report for a peer; all: it names any path.
func (x *signals) report(c *Core, p *peer) (r *report, all bool) {
	s, t := c.snap, p.path.todo[0]
	trap, mask := smp.TrapRePath, wire.PathCompSGID
	n := wire.PathNotice{Generation: p.path.goal, Before: p.path.told, More: len(p.path.todo) > 1}
	n.Path = wire.PathRecord{SGID: s.GID(p.port)}
	switch at := s.PortByLID(t.lid); {
	case t.lid != 0 && at >= 0:
		var ok bool
		if n.Path, ok = pathOf(c.source(), p.port, at, t.lid); !ok {
			trap = smp.TrapUnPath
		}
		if c.cfg.QoS {
			n.Path = wire.PathRecord{SGID: n.Path.SGID, DGID: n.Path.DGID, DLID: t.lid}
		}
		if mask |= wire.PathCompDLID; !manyGIDs(s, at) {
			mask |= wire.PathCompDGID
		}
	case t.lid != 0: // its owner has left since: trap 65
		mask |= wire.PathCompDLID
		n.Path.DLID = t.lid
		trap = smp.TrapUnPath
	case !t.gid.IsZero():
		mask |= wire.PathCompDGID
		n.Path.DGID = t.gid
	default:
		all = true
	}
	notice := own(s, trap, smp.DetailPath{ComponentMask: uint64(mask)})
	r = &report{n: wire.NoticeLen + wire.PathNoticeLen}
	notice.Put(r.data[:])
	n.Put(r.data[wire.NoticeLen:])
	return r, all
}

// manyGIDs reports whether a LID leads to several GIDs.
func manyGIDs(s *subnet.Snapshot, port int32) bool {
	p := s.Ports[port]
	if slices.ContainsFunc(p.Aliases, func(g ib.GUID) bool { return g != 0 }) {
		return true
	}
	if p.Virtual != nil {
		return false
	}
	for i := range s.VPortsOf(port) {
		if s.NeedsGRH(i) {
			return true
		}
	}
	return false
}

// pathOf returns the record of the path between two ports to a LID, as a query that names
// nothing else is answered. ok is false if there is none; the record then has its ends only. So
// does one whose values depend on what else a query names: its MTU is 0.
func pathOf(src *Source, from, to int32, lid ib.LID) (r wire.PathRecord, ok bool) {
	s := src.Snap
	r = wire.PathRecord{SGID: s.GID(from), DGID: s.GID(to), DLID: lid}
	if _, ok = s.Path(from, lid); !ok {
		return r, false
	}
	if src.Opt != nil && src.Opt.QoS != nil {
		return r, true
	}
	opt := src.Opt
	if opt == nil {
		opt = &noOptions
	}
	v := src.View
	if v == nil {
		v = &noView
	}
	q := query{s: s, v: v, opt: opt, req: &Request{From: mad.Addr{}}, me: from}
	w := q.way(&wire.PathRecord{}, end{port: from}, end{port: to, lid: lid})
	if w.impossible {
		return r, true
	}
	var full wire.PathRecord
	if w.next() && w.record(&q, &wire.PathRecord{}, &full) {
		return full, true
	}
	return r, true
}
