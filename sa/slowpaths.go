package sa

import (
	"cmp"
	"slices"

	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/mad"
	"heddle/sa/pathlog"
	"heddle/subnet"
)

// SetSlowPaths replaces the paths that are answered with the level of a slow lane (docs/hotspots.md).
// They end at Until, unless the event comes again.
type SetSlowPaths struct {
	Paths *subnet.SlowPaths // nil: none
	// Snap is the snapshot by whose tables they were found free of cycles. They are not used with
	// tables for which that may be wrong. Required with Paths.
	Snap  *subnet.Snapshot
	Until mad.Time
}

func (SetSlowPaths) event() {}

// slowPaths are those in force. They are not stored: a manager that starts again, or another one,
// has none, and notifies the hosts (history).
type slowPaths struct {
	paths *subnet.SlowPaths
	until mad.Time
	// snap has the tables by which they are known to be free of cycles.
	snap *subnet.Snapshot
}

// set is for the event. It is later than the tables of its paths: others may have been published
// since.
func (x *slowPaths) set(c *Core, ev *SetSlowPaths) {
	if !serves(c.snap) {
		return
	}
	now := ev.Paths
	if now.Len() > 0 && !stillProved(ev.Snap, c.snap) {
		now = nil
	}
	if x.until = ev.Until; now.Len() > 0 {
		x.snap = c.snap
	}
	x.replace(c, now)
}

// stillProved reports whether paths on the slow lane that have no cycle by the tables of a snapshot
// have none by those of another one: where all paths share a lane any subset of them may be on
// another one.
func stillProved(was, s *subnet.Snapshot) bool {
	if was == nil || was.Tables == nil || s.Tables == nil {
		return false
	}
	return s.Tables == was.Tables || was.Tables.OneLane() && s.Tables.OneLane()
}

// replace puts paths into force, and has the hosts notified whose paths change.
func (x *slowPaths) replace(c *Core, now *subnet.SlowPaths) {
	was := x.paths
	if was.Equal(now) {
		return
	}
	x.paths, c.changed = now, true
	if now.Len() == 0 {
		x.paths, x.snap, x.until = nil, nil, mad.Never
	}
	if serves(c.snap) {
		c.signals.slowed(c, changedPaths(c.snap, was, now))
	}
}

// published has paths come back that may not be slow by other tables.
func (x *slowPaths) published(c *Core, s *subnet.Snapshot) {
	switch {
	case x.paths == nil || serves(s) && s.Tables == nil:
	case serves(s) && stillProved(x.snap, s):
		x.snap = s
	default:
		x.replace(c, nil)
	}
}

func (x *slowPaths) expire(c *Core) {
	if x.paths != nil && x.until <= c.now {
		x.replace(c, nil)
	}
}

func (x *slowPaths) nextTimer() mad.Time {
	if x.paths == nil {
		return mad.Never
	}
	return x.until
}

// changedPaths are the paths whose level differs, in ascending order of ports.
func changedPaths(s *subnet.Snapshot, a, b *subnet.SlowPaths) (list []pathlog.PortPaths) {
	pairs := subnet.ChangedSlowPaths(a, b)
	slices.SortStableFunc(pairs, func(a, b subnet.PortPair) int { return cmp.Compare(a.From, b.From) })
	for _, x := range pairs {
		to := s.PortByGUID(x.To)
		if to < 0 {
			continue
		}
		if n := len(list); n == 0 || list[n-1].Port != x.From {
			list = append(list, pathlog.PortPaths{Port: x.From})
		}
		l := &list[len(list)-1].LIDs
		*l = append(*l, s.LIDsAt(s.Physical(to))...)
	}
	return list
}

// slowSL is the level of a slow lane, if the path has it and the query does not name another one.
func (q *query) slowSL(r *wire.PathRecord, w *way) (sl ib.SL, ok bool) {
	p := q.v.Slow
	if p == nil {
		return 0, false
	}
	from, to := w.src.port, w.dst.port
	if !p.Has(q.s.Ports[q.s.Physical(from)].GUID, q.s.Ports[q.s.Physical(to)].GUID) || q.has(wire.PathCompSL) && r.SL != p.SL {
		return 0, false
	}
	return p.SL, mayUse(q.s.Ports[from], p.SL) && mayUse(q.s.Ports[to], p.SL)
}

// slowed takes paths whose level changed with those on a slow lane.
func (x *signals) slowed(c *Core, list []pathlog.PortPaths) {
	if x.base == nil || len(list) == 0 {
		return
	}
	x.history.settleSoon(c.now)
	if x.peers == 0 {
		x.forget(c)
		return
	}
	ch := pathlog.Paths(list)
	if x.cfg.Signal == SignalWildcard {
		ch = &pathlog.Change{All: true}
	}
	x.record(c, ch, c.snap)
}
