package repath

import (
	"errors"

	"heddle/agent/generation"
	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/mad"
	"heddle/sim/host/adapter"
	"heddle/sim/host/saclient"
)

// Generations of the manager's path state (docs/signalling.md): a host that knows how far
// it has come asks what changed since, and not for all its paths, when it may have missed
// something.

// Changer is an SA that can be asked for changes since a generation; a saclient.Client
// can.
type Changer interface {
	Changes(now mad.Time, port ib.GID, gen uint64, done func(now mad.Time, list []wire.PathChangeRecord, err error))
}

// generations is how far a handler has come. It may lose a notice that it has acknowledged, so it
// asks with the generation of the last answer (generation.Tracker.Sure).
type generations struct {
	generation.Tracker
	sa Changer // nil: the SA is never asked for changes
	// seen are the queue pairs whose paths have been compared since they were made: that
	// of another may be older than the generation.
	seen map[*adapter.Connection]bool
}

func (g *generations) usable() bool { return g.sa != nil && g.Known() }

// reported takes the generations of a Report; named: it names the paths. It reports
// whether what the handler does not know is to be asked for.
func (g *generations) reported(r *saclient.Report, named bool) (ask bool) {
	if g.sa == nil {
		return !named
	}
	switch g.Reported(&r.PathNotice, named) {
	case generation.Missed:
		return true
	case generation.Follows:
		return false
	}
	return !named
}

// Restart is for another manager, which may have generations though the last had none.
func (h *Handler) Restart() { h.gen.Restart() }

// askChanges asks for what changed since the generation that the handler has.
func (h *Handler) askChanges(now mad.Time) {
	r := h.round
	h.Count.Queries++
	h.Count.ChangeQueries++
	h.spend(now, h.cfg.Costs.Query)
	r.Query += h.cfg.Costs.Query
	r.send = func(now mad.Time) {
		h.gen.sa.Changes(now, h.self(), h.gen.Sure(), func(now mad.Time, list []wire.PathChangeRecord, err error) {
			h.changesAnswered(now, r, list, err)
		})
	}
}

// changesAnswered takes the answer to askChanges.
func (h *Handler) changesAnswered(now mad.Time, r *round, list []wire.PathChangeRecord, err error) {
	r.asking = false
	r.Wait += max(0, now.Sub(r.sent))
	var refused *saclient.StatusError
	switch {
	case errors.As(err, &refused):
		h.gen.Refused(refused.Status)
		h.askAll(r)
	case err != nil:
		h.Count.FailedQueries++
		r.Failed++
		h.failed(now, &wire.PathRecord{}, err)
	default:
		if whole, _ := h.gen.Answered(&list[0]); whole {
			h.askAll(r)
			break
		}
		h.spend(now, h.cfg.Costs.Record)
		for i := range list[1:] {
			h.spend(now, h.cfg.Costs.Record)
			h.changedPath(r, &list[1+i])
		}
		h.strangers(r)
	}
	h.run(now)
}

// askAll has all paths asked for in place of those that notices named.
func (h *Handler) askAll(r *round) {
	r.want.all, r.ask = true, nil
	clear(r.paths)
}

// changedPath takes a record of a changed path.
func (h *Handler) changedPath(r *round, x *wire.PathChangeRecord) {
	p := x.Path
	if p.DGID != (ib.GID{}) {
		h.newPath(r, p.DGID, &p, x.Lost)
		return
	}
	for _, c := range h.a.Connections() {
		if c.QP().Path().DLID == p.DLID {
			h.newPath(r, c.Peer(), &p, x.Lost)
		}
	}
}

// newPath has a path of the round, or has it asked for.
func (h *Handler) newPath(r *round, to ib.GID, p *wire.PathRecord, lost bool) {
	switch {
	case lost:
		r.paths[to] = wire.PathRecord{}
	case p.MTU != 0 && p.DLID != 0:
		r.paths[to] = *p
	case h.knows(to):
		delete(r.paths, to)
		r.ask = append(r.ask, to)
	}
}

// strangers has the paths asked for of queue pairs that no round has looked at.
func (h *Handler) strangers(r *round) {
	asked := map[ib.GID]bool{}
	for _, g := range r.ask {
		asked[g] = true
	}
	seen := map[*adapter.Connection]bool{}
	for _, c := range h.a.Connections() {
		_, known := r.paths[c.Peer()]
		if h.gen.seen[c] {
			seen[c] = true
		} else if !known && !asked[c.Peer()] {
			asked[c.Peer()] = true
			r.ask = append(r.ask, c.Peer())
		}
	}
	h.gen.seen = seen // without those that are gone
}
