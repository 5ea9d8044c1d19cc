package lab

import (
	"heddle/ib"
	"heddle/perf/dftree"
	"heddle/perf/hotspot"
	"heddle/shell"
)

// hotSpots are the cores of a Manager that find hot spots and move flows to them.
type hotSpots struct {
	report *hotspot.Report
	plan   *dftree.Plan
	seen   []func(out *hotspot.Output, p *dftree.Plan)
}

// ServeHotSpots gives a manager the cores that find hot spots, and that move flows to them; call it
// after ServeSA and ServeCounters, and before Start. Its configuration must have sm.Config.SlowLane
// if it is to act.
func (m *Manager) ServeHotSpots(find hotspot.Config, tree dftree.Config) {
	x := &hotSpots{}
	var holds hotspot.Holds
	if m.sa != nil {
		if held := m.sa.core.Held(); held != nil {
			holds = func(src, dst ib.LID) (may, known bool) { return held.May(src, dst), held.Known(src) }
		}
	}
	told := func(out *hotspot.Output, p *dftree.Plan) {
		x.report, x.plan = out.Report, p
		for _, fn := range x.seen {
			fn(out, p)
		}
	}
	h := shell.NewHotSpots(find, tree, holds, &m.shared, told)
	m.OnRound(h.OnRound)
	m.hot = x
}

// OnHotSpots has fn called with what each round says about hot spots.
func (m *Manager) OnHotSpots(fn func(out *hotspot.Output, p *dftree.Plan)) {
	m.hot.seen = append(m.hot.seen, fn)
}

// HotSpots are those of the last round, and what is done about them; nil before the first.
func (m *Manager) HotSpots() (*hotspot.Report, *dftree.Plan) { return m.hot.report, m.hot.plan }
