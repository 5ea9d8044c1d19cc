package routing

import (
	"cmp"
	"maps"
	"slices"

	"heddle/fabric"
	"heddle/ib"
	"heddle/mad"
	"heddle/route/transition"
	"heddle/sm/notice"
	"heddle/subnet"
)

// slowPaths are the paths that hosts may use on a slow lane (docs/hotspots.md). Where lanes are
// layers they are no part of what the verifier has proved, so that transitions must respect them:
// they are service levels that hosts hold besides those of the tables.
type slowPaths struct {
	now *subnet.SlowPaths // those that the SA may answer with
	// until is, by path, how long hosts may be told to use it. After that they need RepathTime to
	// leave it, as for any level.
	until map[slowPath]mad.Time
}

// slowPath is a path on the level of a slow lane.
type slowPath struct {
	subnet.PortPair
	sl ib.SL
}

// GrantSlow takes the paths that are to be on a slow lane until a time, and returns those that may
// be: all of them if no tables are computed or written. Otherwise a plan that does not know of new
// ones may be under way, and only those stay that were there.
func (r *Router) GrantSlow(p *subnet.SlowPaths, until mad.Time) *subnet.SlowPaths {
	x := &r.slow
	x.forget(r)
	if !r.settled() {
		p = p.Among(x.now)
	}
	if x.until == nil {
		x.until = map[slowPath]mad.Time{}
	}
	if x.now.Len() > 0 && !x.now.Equal(p) {
		for pair := range x.now.All() {
			k := slowPath{pair, x.now.SL}
			x.until[k] = min(x.until[k], r.Now)
		}
	}
	x.now = p
	for pair := range p.All() {
		x.until[slowPath{pair, p.SL}] = until
	}
	return p
}

// settled reports whether switches hold the tables that were published, and no others are on the
// way.
func (r *Router) settled() bool {
	switch r.Phase {
	case notice.PhaseIdle, notice.PhaseLight, notice.PhaseUpkeep:
		return r.State == subnet.Master && r.install.Sure() && r.install.Result() == nil
	}
	return false
}

// forget drops the paths that no host uses any more, and no packet.
func (x *slowPaths) forget(r *Router) {
	if r.Config.RepathTime <= 0 {
		return
	}
	maps.DeleteFunc(x.until, func(_ slowPath, until mad.Time) bool {
		return r.Now.Sub(until) > r.Config.RepathTime+r.install.Flight()
	})
	// Those of now ended if no event came for so long. They are new if they come again.
	for pair := range x.now.All() {
		if _, ok := x.until[slowPath{pair, x.now.SL}]; !ok {
			x.now = nil
		}
		break // all have the same time
	}
}

// Slow reports whether hosts may use paths on a slow lane, or packets may be in flight there.
func (r *Router) Slow() bool {
	r.slow.forget(r)
	return len(r.slow.until) > 0
}

// slowLevels are the service levels of the paths that hosts may use on slow lanes, and of their
// reverse paths, in a graph.
func (r *Router) slowLevels(g *fabric.Graph) (list []transition.HeldLevel) {
	x := &r.slow
	if x.forget(r); len(x.until) == 0 {
		return nil
	}
	lids := make([][]ib.LID, len(g.EndPorts))
	for l, e := range g.LIDOwner {
		if e != fabric.NoLID {
			lids[e] = append(lids[e], ib.LID(l))
		}
	}
	at := func(guid ib.GUID) int {
		e, ok := slices.BinarySearchFunc(g.EndPorts, guid, func(x fabric.EndPort, guid ib.GUID) int { return cmp.Compare(x.GUID, guid) })
		if !ok || g.EndPorts[e].Switch < 0 {
			return -1
		}
		return e
	}
	for k := range x.until {
		from, to := at(k.From), at(k.To)
		if from < 0 || to < 0 {
			continue // it left
		}
		for _, way := range [][2]int{{from, to}, {to, from}} {
			for _, l := range lids[way[1]] {
				list = append(list, transition.HeldLevel{LID: l, Switch: g.EndPorts[way[0]].Switch, SL: k.sl})
			}
		}
	}
	return list
}
