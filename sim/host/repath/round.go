package repath

import (
	"errors"
	"slices"
	"time"

	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/mad"
	"heddle/sim/host/adapter"
	"heddle/sim/host/rc"
	"heddle/sim/host/saclient"
)

// wanted is what notices have named and no round has looked at yet.
type wanted struct {
	all   bool
	since mad.Time // arrival of the first notice
	gids  []ib.GID
	known map[ib.GID]wire.PathRecord // those that notices have
}

func (w *wanted) empty() bool { return !w.all && len(w.gids) == 0 }

func (w *wanted) from(at mad.Time) {
	if w.empty() {
		w.since = at
	}
}

func (w *wanted) addAll(at mad.Time) {
	w.from(at)
	w.all = true
}

func (w *wanted) add(at mad.Time, g ib.GID, r *wire.PathRecord) {
	w.from(at)
	if w.known == nil {
		w.known = map[ib.GID]wire.PathRecord{}
	}
	had := false
	for _, x := range w.gids {
		had = had || x == g
	}
	if !had {
		w.gids = append(w.gids, g)
	}
	if r != nil {
		w.known[g] = *r
	} else {
		delete(w.known, g) // the newest notice says that it must be asked for
	}
}

// Round is what a handler did for one or more notices that came together, and how
// long it took.
type Round struct {
	Notice, End mad.Time
	Query       time.Duration // t1: making queries
	Wait        time.Duration // t2: for their answers
	Look        time.Duration // t3: asking queue pairs
	Change      time.Duration // t4: changing them
	Looked      int           // queue pairs
	Changed     int
	Failed      int // queries
}

// round is one under way.
type round struct {
	Round
	want   wanted
	paths  map[ib.GID]wire.PathRecord // answers
	ask    []ib.GID                   // still to be asked for
	asking bool
	asked  bool               // the question about all paths
	told   bool               // that about changes
	send   func(now mad.Time) // of the query that was made
	sent   mad.Time
	conns  []*adapter.Connection // to be looked at
	next   int
	listed bool
	whole  bool // all paths were asked for, and the SA has answered
}

// begin begins a round.
func (h *Handler) begin(now mad.Time) {
	r := &round{want: h.want, paths: map[ib.GID]wire.PathRecord{}}
	r.Notice = h.want.since
	h.want = wanted{}
	if !r.want.all || h.gen.usable() {
		for _, g := range r.want.gids {
			if p, ok := r.want.known[g]; ok {
				r.paths[g] = p
			} else if h.knows(g) {
				r.ask = append(r.ask, g)
			}
		}
	}
	h.round = r
	h.proceed(now)
}

// proceed does the next thing of a round.
func (h *Handler) proceed(now mad.Time) {
	r := h.round
	switch {
	case r.send != nil:
		send := r.send
		r.send, r.asking, r.sent = nil, true, now
		send(now)
	case r.want.all && !r.asked && !r.told && h.gen.usable():
		r.told, r.want.all = true, false
		if h.a.Live() > 0 {
			h.askChanges(now)
		}
	case r.want.all && !r.asked:
		r.asked = true
		if h.a.Live() > 0 {
			h.query(now, &wire.PathRecord{SGID: h.self(), NumbPath: 1, Reversible: true}, 0, false)
		}
	case len(r.ask) > 0:
		g := r.ask[0]
		r.ask = r.ask[1:]
		h.query(now, &wire.PathRecord{SGID: h.self(), DGID: g, NumbPath: 1, Reversible: true}, wire.PathCompDGID, true)
	case !r.listed:
		r.listed = true
		r.conns = append(r.conns, h.a.Connections()...)
	case r.next < len(r.conns):
		c := r.conns[r.next]
		r.next++
		h.look(now, r, c)
	default:
		r.End = now
		h.round = nil
		if h.Done != nil {
			h.Done(&r.Round)
		}
	}
}

// query sends a path query once it is made.
//
// The answer may come during the call.
func (h *Handler) query(now mad.Time, q *wire.PathRecord, more wire.CompMask, one bool) {
	r := h.round
	h.Count.Queries++
	h.spend(now, h.cfg.Costs.Query)
	r.Query += h.cfg.Costs.Query
	mask := wire.PathCompSGID | wire.PathCompNumbPath | wire.PathCompReversible | more
	r.send = func(now mad.Time) {
		h.sa.Paths(now, q, mask, one, func(now mad.Time, list []wire.PathRecord, err error) {
			h.answered(now, r, q, list, err)
		})
	}
}

// answered takes the answer to a query.
func (h *Handler) answered(now mad.Time, r *round, q *wire.PathRecord, list []wire.PathRecord, err error) {
	r.asking = false
	r.Wait += max(0, now.Sub(r.sent))
	var refused *saclient.StatusError
	switch {
	case err == nil || errors.As(err, &refused) && refused.Status == noRecords:
		if q.DGID == (ib.GID{}) {
			r.whole = true
		} else if len(list) == 0 {
			r.paths[q.DGID] = wire.PathRecord{} // there is no path
		}
	default:
		h.Count.FailedQueries++
		r.Failed++
		h.failed(now, q, err)
		if q.DGID == (ib.GID{}) {
			h.gen.Forget()
		}
	}
	h.spend(now, time.Duration(len(list))*h.cfg.Costs.Record)
	for i := range list {
		p := &list[i]
		if _, ok := r.paths[p.DGID]; !ok { // the first is the SA's choice
			r.paths[p.DGID] = *p
		}
	}
	h.run(now)
}

// noRecords is the status of a query without an answer (IBA table 190).
const noRecords ib.Status = 0x0300

// failed has a query that was not answered made again after Config.Retry.
func (h *Handler) failed(now mad.Time, q *wire.PathRecord, err error) {
	if !mad.Unanswered(err) {
		return
	}
	if h.later.empty() {
		h.laterAt = now.Add(h.cfg.Retry)
	}
	if q.DGID == (ib.GID{}) {
		h.later.addAll(now)
	} else {
		h.later.add(now, q.DGID, nil)
	}
}

// again takes up what could not be asked.
func (h *Handler) again() {
	w := h.later
	h.later = wanted{}
	if w.all {
		h.want.addAll(w.since)
	}
	for _, g := range w.gids {
		if _, newer := h.want.known[g]; !newer {
			h.want.add(w.since, g, nil)
		}
	}
}

// look compares one queue pair with its path.
func (h *Handler) look(now mad.Time, r *round, c *adapter.Connection) {
	p, ok := r.paths[c.Peer()]
	if st := c.QP().State(); st < rc.ReadyToReceive || st > rc.SendQueueDrain {
		return // it is not connected
	}
	if !h.here(c) || !ok && !r.whole && !h.cfg.Walk {
		return
	}
	h.Count.Looked++
	r.Looked++
	h.spend(now, h.cfg.Costs.Look)
	r.Look += h.cfg.Costs.Look
	if !ok && !r.whole {
		return
	}
	if h.gen.seen != nil {
		h.gen.seen[c] = true
	}
	if p.DLID == 0 {
		h.suspend(now, c)
		return
	}
	is := c.QP().Path()
	if m := h.byConn[c]; m != nil {
		is = m.to
	}
	if is == pathOf(&p) && !slices.Contains(h.away, c) {
		return
	}
	h.Count.Changed++
	r.Changed++
	h.spend(now, h.cfg.Costs.Change)
	r.Change += h.cfg.Costs.Change
	h.start(now, c, pathOf(&p))
}
