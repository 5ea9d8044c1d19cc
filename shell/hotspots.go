package shell

import (
	"time"

	"heddle/ib"
	"heddle/mad"
	"heddle/perf"
	"heddle/perf/dftree"
	"heddle/perf/hotspot"
	"heddle/sa"
	"heddle/sm"
	"heddle/subnet"
)

// slowFor is for how many periods slow paths stay in force without a new round. Then counters are
// not read any more, and nobody would notice the end of a hot spot.
const slowFor = 4

// HotSpots drives the cores that find hot spots, and that have flows to them take a slow lane. It
// works as one of Shared.OnRound.
type HotSpots struct {
	find    *hotspot.Core
	tree    *dftree.Core
	shared  *Shared
	told    func(out *hotspot.Output, p *dftree.Plan)
	watched []ib.GUID
}

// NewHotSpots returns a driver whose OnRound goes to Shared.OnRound. told is called with what each
// round led to.
func NewHotSpots(find hotspot.Config, tree dftree.Config, holds hotspot.Holds, shared *Shared, told func(*hotspot.Output, *dftree.Plan)) *HotSpots {
	return &HotSpots{find: hotspot.New(find, holds), tree: dftree.New(tree), shared: shared, told: told}
}

// OnRound takes a round.
func (h *HotSpots) OnRound(r *perf.Round) {
	out := h.find.Step(r)
	p := h.tree.Step(r.Snap, out.Report)
	h.find.Moved(p.Moved())
	if len(out.Watch) > 0 || len(h.watched) > 0 {
		h.watched = out.Watch
		h.shared.WatchAgents(perf.Watch{Agents: out.Watch})
	}
	if p.Mode == dftree.Act {
		h.shared.setSlowPaths(p.Paths, r.Snap, r.Ended.Add(slowFor*max(r.Period, time.Millisecond)))
	}
	h.told(&out, p)
}

// setSlowPaths passes the paths that are to be on the slow lane to the subnet manager, with the
// snapshot that they are for. It passes those that may be to the SA.
func (s *Shared) setSlowPaths(p *subnet.SlowPaths, snap *subnet.Snapshot, until mad.Time) {
	s.wanted.put(sm.SetSlowPaths{Paths: p, Snap: snap, Until: until})
	wake(s.WakeSM)
}

// grantSlowPaths passes the paths that may be on the slow lane to the SA.
func (s *Shared) grantSlowPaths(x *sm.SetSlowPaths) {
	if s.WakeSA == nil {
		return
	}
	s.slow.put(sa.SetSlowPaths{Paths: x.Paths, Snap: x.Snap, Until: x.Until})
	s.WakeSA()
}
