package repath

import (
	"errors"

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

// generations is how far a handler has come.
type generations struct {
	sa Changer // nil: the SA is never asked for changes
	// Have is the generation after the Reports so far, sure that of the last answer; 0: none.
	// The handler asks for changes since the latter: of several Reports for one generation
	// the host may have lost one that it acknowledged.
	have, sure uint64
	absent     bool // the present manager has no generations
	// seen are the queue pairs whose paths have been compared since they were made: that
	// of another may be older than have.
	seen map[*adapter.Connection]bool
}

func (g *generations) usable() bool { return g.sa != nil && !g.absent }

// same reports whether two generations are of one history.
func same(a, b uint64) bool { return a != 0 && b != 0 && a>>32 == b>>32 }

// covers reports whether a Report says nothing that an answer since has not said: it was
// under way, or was repeated as it was.
func (g *generations) covers(r *saclient.Report) bool {
	return g.usable() && same(r.Generation, g.sure) && r.Generation <= g.sure
}

// reported takes the generations of a Report; named: it names the paths. It reports
// whether what the handler does not know is to be asked for.
func (g *generations) reported(r *saclient.Report, named bool) (ask bool) {
	switch {
	case r.Generation == 0 || !g.usable() || g.have == 0:
		return !named
	case !named || !same(r.Generation, g.have) || !same(r.Before, g.have) || g.have < r.Before:
		return true // it missed a Report, or there is too much to name
	case !r.More:
		g.have = max(g.have, r.Generation)
	}
	return false
}

// Restart is for another manager, which may have generations though the last had none.
func (h *Handler) Restart() { h.gen.absent = false }

// askChanges asks for what changed since the generation that the handler has.
func (h *Handler) askChanges(now mad.Time) {
	r := h.round
	h.Count.Queries++
	h.Count.ChangeQueries++
	h.spend(now, h.cfg.Costs.Query)
	r.Query += h.cfg.Costs.Query
	r.send = func(now mad.Time) {
		h.gen.sa.Changes(now, h.self(), h.gen.sure, func(now mad.Time, list []wire.PathChangeRecord, err error) {
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
		h.gen.absent = refused.Status&ib.StatusBusy == 0
		h.askAll(r)
	case err != nil:
		h.Count.FailedQueries++
		r.Failed++
		h.failed(now, &wire.PathRecord{}, err)
	case list[0].All || !same(list[0].Generation, h.gen.sure):
		h.gen.have, h.gen.sure = list[0].Generation, list[0].Generation
		h.askAll(r)
	default:
		h.gen.have, h.gen.sure = max(h.gen.have, list[0].Generation), list[0].Generation
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
