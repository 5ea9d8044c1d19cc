package daemon

import (
	"log/slog"
	"sync/atomic"

	"heddle/api"
	"heddle/api/metrics"
	"heddle/api/show"
	"heddle/ib"
	"heddle/perf/dftree"
	"heddle/perf/hotspot"
	"heddle/shell"
	"heddle/subnet"
)

// Kinds of events about hot spots.
const (
	kindHotSpotOpened = "hotspot_opened"
	kindHotSpotClosed = "hotspot_closed"
)

// hotSpotState is what the last round said about hot spots.
type hotSpotState struct {
	report         *hotspot.Report
	plan           *dftree.Plan
	opened, closed uint64
}

// hotSpots has the rounds of the performance manager looked at for hot spots.
type hotSpots struct {
	last atomic.Pointer[hotSpotState]
	told noticeLimit
}

// lookForHotSpots adds the cores that find hot spots and move flows to them. The performance
// manager's driver is made later.
func (d *Daemon) lookForHotSpots(tree dftree.Config) {
	holds := func(src, dst ib.LID) (may, known bool) {
		if d.held == nil {
			return true, false
		}
		return d.held.May(src, dst), d.held.Known(src)
	}
	d.perf.hot = shell.NewHotSpots(hotspot.Defaults(), tree, holds, &d.shared, d.onHotSpots)
	d.shared.OnRound = append(d.shared.OnRound, d.perf.hot.OnRound)
}

func (d *Daemon) onHotSpots(out *hotspot.Output, p *dftree.Plan) {
	x := hotSpotState{report: out.Report, plan: p}
	if was := d.perf.spots.last.Load(); was != nil {
		x.opened, x.closed = was.opened, was.closed
	}
	x.opened += uint64(len(out.Opened))
	x.closed += uint64(len(out.Closed))
	d.perf.spots.last.Store(&x)
	for i := range out.Opened {
		d.tellHotSpot(slog.LevelWarn, kindHotSpotOpened, &out.Opened[i], p)
	}
	for i := range out.Closed {
		d.tellHotSpot(slog.LevelInfo, kindHotSpotClosed, &out.Closed[i], p)
	}
}

func (d *Daemon) tellHotSpot(level slog.Level, kind string, h *hotspot.HotSpot, p *dftree.Plan) {
	if ok, _ := d.perf.spots.told.allow(d.now()); !ok {
		d.noticesCut.Add(1)
		return
	}
	d.note(level, kind, show.HotSpotText(h, p), map[string]string{"host": h.Host.Desc, "port_guid": h.Host.GUID.String(), "dftree": p.Mode.String()})
}

// HotSpots implements api.Backend.
func (d *Daemon) HotSpots(limit int) api.HotSpots {
	x := d.perf.spots.last.Load()
	if why := d.outdated(); why != "" {
		mode := dftree.Off
		if x != nil {
			mode = x.plan.Mode
		}
		return show.NoHotSpots(why, mode)
	}
	if x == nil { // the first round is being evaluated
		return show.HotSpots(nil, nil, nil, d.clock.started, limit)
	}
	return show.HotSpots(x.report, x.plan, d.slowPaths(), d.clock.started, limit)
}

// slowPaths are those that the SA answers with the level of the slow lane.
func (d *Daemon) slowPaths() *subnet.SlowPaths {
	if v := d.View(); v != nil {
		return v.Slow
	}
	return nil
}

// hotSpotValues are the values of the metrics; nil: counters are not read.
func (d *Daemon) hotSpotValues() *metrics.HotSpots {
	x := d.perf.spots.last.Load()
	switch {
	case d.perf.packets == nil:
		return nil
	case x == nil: // no round has ended
		return &metrics.HotSpots{}
	}
	v := &metrics.HotSpots{Opened: x.opened, Closed: x.closed}
	if d.outdated() != "" {
		return v
	}
	v.Open, v.Slow, v.Missed = len(x.report.Open), d.slowPaths().Len(), x.report.Missed
	for i := range x.report.Open {
		v.Contributors += len(x.report.Open[i].Contributors) + x.report.Open[i].MoreContributors
		v.Victims += len(x.report.Open[i].Victims) + x.report.Open[i].MoreVictims
	}
	for i := range x.plan.Spots {
		if x.plan.Spots[i].Refused != "" {
			v.Refused++
		}
	}
	return v
}
