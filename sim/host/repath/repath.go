// Package repath is the part of a host's software that keeps established
// connections on valid paths: it takes notices of the manager, finds the queue
// pairs that they are about, asks for the new paths where the notice does not have
// them, and changes the queue pairs that differ (W. L. Guay's thesis, Paper I).
//
//	notice 69 ─► which queue pairs? ─► path query ─► compare ─► REARM … ARMED ─► migrate
//	                                                       └──► SQD … drained ─► new path ─► RTS
//
// A queue pair is changed by path migration, as the paper does, or by draining its
// send queue. Migration needs both ends to rearm, and packets in both directions
// after that; where that does not happen in time the handler drains instead.
//
// The handler is one thread of the host: what it does costs time (Costs), one thing
// after the other. It is pure: notices, times and answers go in.
package repath

import (
	"time"

	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/sim/host/adapter"
	"heddle/sim/host/rc"
	"heddle/sim/host/saclient"
)

// Method is how a queue pair gets another path.
type Method uint8

// The methods.
const (
	ByMigration Method = iota // automatic path migration, commanded by the host
	ByDraining                // SQD, then the new path
)

// String prints "path migration".
func (m Method) String() string { return [...]string{"path migration", "draining"}[m] }

// Costs are the times that the host's software takes, named as in Paper II of the
// thesis. They are inputs: on hardware they are mostly firmware.
type Costs struct {
	Notice time.Duration // to take a notice
	Query  time.Duration // t1: to make a path query
	Record time.Duration // to take a record of the answer
	Look   time.Duration // t3: to ask a queue pair for its path
	Change time.Duration // t4: to change a queue pair
}

// Thesis are the costs that reproduce the figures of Paper II: t1 and t2 together
// are 18 ms there; t2 is simulated here.
func Thesis() Costs {
	return Costs{
		Notice: 20 * time.Microsecond, Query: 100 * time.Microsecond, Record: time.Microsecond,
		Look: 112 * time.Microsecond, Change: 440 * time.Microsecond,
	}
}

// Config configures a Handler. Start from Defaults.
type Config struct {
	Costs  Costs
	Method Method
	// Hold is how long a connection stays ARMED before it migrates, so that the
	// peer, which may still be in REARM, sees a packet without MigReq.
	Hold time.Duration
	// ArmLimit is how long a connection may take to be ARMED; then it is drained.
	ArmLimit time.Duration
	// Tick is how often the handler looks at queue pairs that change.
	Tick time.Duration
	// Retry is after how long a query is made again that the SA did not answer in all
	// its repetitions.
	Retry time.Duration
	// Walk has every notice ask all queue pairs for their paths, as the paper's list
	// does. Otherwise those of other peers are passed over without cost.
	Walk bool
	// Single has a round for each notice, as the papers' handler does. Otherwise notices
	// that come during a round are taken together in the next one.
	Single bool
	// Generations has the SA asked for what changed since the last answer, where it can
	// be, and not for all paths.
	Generations bool
}

// Defaults returns the default configuration.
func Defaults() Config {
	return Config{Costs: Thesis(), Hold: 100 * time.Microsecond, ArmLimit: 5 * time.Millisecond, Tick: 20 * time.Microsecond, Retry: time.Second, Generations: true}
}

// SA answers path queries; a saclient.Client does.
type SA interface {
	Paths(now mad.Time, q *wire.PathRecord, mask wire.CompMask, one bool, done func(now mad.Time, list []wire.PathRecord, err error))
}

// Handler is the repath handler of a host.
type Handler struct {
	cfg  Config
	sa   SA
	a    *adapter.Adapter
	self func() ib.GID

	busy    mad.Time // until when the thread works
	notices []saclient.Report

	round *round
	want  wanted // of the next round
	// later is what the SA did not answer, to be asked again at laterAt.
	later   wanted
	laterAt mad.Time
	moving  []*change
	byConn  map[*adapter.Connection]*change
	looked  mad.Time // at the queue pairs that change
	events  []adapter.Event
	gen     generations
	away    []*adapter.Connection // suspended queue pairs
	awayAt  mad.Time              // their paths are asked for

	// LoadAlternate, if set, has the peer of a connection load an alternate path, and
	// then this end (LAP, a comm.Conn does), so that both are ARMED though the path of
	// one end alone has changed. It is false if it cannot; nil: each end rearms by itself.
	LoadAlternate func(now mad.Time, c *adapter.Connection, p rc.Path, done func(now mad.Time, err error)) bool
	// Taken, if set, is called for each notice with the time at which the thread is
	// done with it; what it leads to is a Round.
	Taken func(r *saclient.Report, until mad.Time)
	// Done, if set, is called at the end of each round.
	Done func(r *Round)
	// Count counts what the handler did.
	Count Counters
}

// Counters count what a Handler did.
type Counters struct {
	Notices, InService, OutOfService, UnPaths, RePaths uint64
	Queries, FailedQueries                             uint64
	ChangeQueries                                      uint64 // of Queries: for changes since a generation
	Looked, Changed                                    uint64 // queue pairs
	Migrated, Drained                                  uint64 // queue pairs that have their new path by that
	LateArmed                                          uint64 // not ARMED in time, so drained
	Suspended, Resumed                                 uint64 // queue pairs whose path was gone, and was back
}

// New makes a handler for the queue pairs of an adapter. self is the port's GID.
func New(c Config, sa SA, a *adapter.Adapter, self func() ib.GID) *Handler {
	h := &Handler{cfg: c, sa: sa, a: a, self: self, byConn: map[*adapter.Connection]*change{}}
	if c.Generations {
		h.gen.sa, _ = sa.(Changer)
		h.gen.seen = map[*adapter.Connection]bool{}
	}
	return h
}

// Notice takes a notice that came in a Report.
func (h *Handler) Notice(now mad.Time, r *saclient.Report) {
	h.notices = append(h.notices, *r)
	h.run(now)
}

// Refresh has the handler look at all queue pairs as if a notice had said that any path
// may have changed: the remedy for notices that were lost.
func (h *Handler) Refresh(now mad.Time) {
	h.want.addAll(now)
	h.run(now)
}

// Idle reports whether nothing is under way. Suspended queue pairs may wait for their paths.
func (h *Handler) Idle() bool {
	return len(h.notices) == 0 && h.round == nil && h.want.empty() && h.later.empty() && len(h.moving) == 0
}

// NextTimer is when Expire is due.
func (h *Handler) NextTimer() mad.Time {
	t := mad.Never
	if h.round != nil && !h.round.asking || h.round == nil && (len(h.notices) > 0 || !h.want.empty()) {
		t = h.busy
	}
	if !h.later.empty() {
		t = min(t, h.laterAt)
	}
	if len(h.moving) > 0 {
		t = min(t, h.looked.Add(h.cfg.Tick))
	}
	if len(h.away) > 0 {
		t = min(t, h.awayAt)
	}
	return t
}

// Expire goes on with what is due.
func (h *Handler) Expire(now mad.Time) {
	if len(h.moving) > 0 && h.looked.Add(h.cfg.Tick) <= now {
		h.looked = now
		h.follow(now)
	}
	if !h.later.empty() && h.laterAt <= now {
		h.again()
	}
	if len(h.away) > 0 && h.awayAt <= now {
		h.lookForAway(now)
	}
	h.run(now)
}

// spend has the thread work for d.
func (h *Handler) spend(now mad.Time, d time.Duration) { h.busy = max(h.busy, now).Add(d) }

// run does one thing after the other, until the thread is busy or waits.
func (h *Handler) run(now mad.Time) {
	for h.busy <= now {
		switch {
		case len(h.notices) > 0 && (!h.cfg.Single || h.round == nil && h.want.empty()):
			r := h.notices[0]
			h.notices = append(h.notices[:0], h.notices[1:]...)
			h.take(now, &r)
		case h.round == nil && !h.want.empty():
			h.begin(now)
		case h.round != nil && !h.round.asking:
			h.proceed(now)
		default:
			return
		}
	}
}

// take handles one notice: it adds to what the next round is about.
func (h *Handler) take(now mad.Time, r *saclient.Report) {
	h.spend(now, h.cfg.Costs.Notice)
	h.Count.Notices++
	trap, _ := r.Notice.Trap()
	switch trap {
	case smp.TrapRePath:
		h.Count.RePaths++
		h.changed(r, false)
	case smp.TrapUnPath:
		h.Count.UnPaths++
		h.changed(r, true)
	case smp.TrapGIDInService, smp.TrapGIDOutOfService:
		var d smp.DetailGID
		d.Get(&r.Notice.DataDetails)
		var gone *wire.PathRecord
		if trap == smp.TrapGIDOutOfService {
			h.Count.OutOfService++
			gone = &wire.PathRecord{}
		} else {
			h.Count.InService++
		}
		if h.knows(d.GID) {
			h.want.add(r.At, d.GID, gone)
		}
	}
	if h.Taken != nil {
		h.Taken(r, h.busy)
	}
}

// changed handles RePath and UnPath: which paths the mask names, and whether the values
// of their records are those of the new paths. A lost path has a record without values.
func (h *Handler) changed(r *saclient.Report, lost bool) {
	var d smp.DetailPath
	d.Get(&r.Notice.DataDetails)
	mask := wire.CompMask(d.ComponentMask)
	if mask.Has(wire.PathCompSGID) && r.Path.SGID != h.self() || h.gen.sa != nil && h.gen.Covers(&r.PathNotice) {
		return
	}
	byGID, byLID := mask.Has(wire.PathCompDGID), mask.Has(wire.PathCompDLID) && r.Path.DLID != 0
	if h.gen.reported(r, byGID || byLID) {
		h.want.addAll(r.At)
	}
	var values *wire.PathRecord
	switch {
	case lost:
		values = &wire.PathRecord{}
	case byLID && r.Path.MTU != 0:
		values = &r.Path
	}
	switch {
	case byGID:
		h.want.add(r.At, r.Path.DGID, values)
	case byLID: // of all GIDs there
		for _, g := range h.peersAt(r.Path.DLID) {
			h.want.add(r.At, g, values)
		}
	}
}

// knows reports whether a queue pair is connected to a GID.
func (h *Handler) knows(g ib.GID) bool {
	for _, c := range h.a.Connections() {
		if c.Peer() == g {
			return true
		}
	}
	return false
}

// pathOf is the part of a record that a queue pair has.
func pathOf(r *wire.PathRecord) rc.Path { return rc.Path{DLID: r.DLID, SL: r.SL} }
