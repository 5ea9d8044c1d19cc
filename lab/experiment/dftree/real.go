package dftree

import (
	"time"

	"heddle/lab"
	"heddle/perf"
	core "heddle/perf/dftree"
	"heddle/perf/hotspot"
	"heddle/sm"
)

// real is the manager's own loop: it reads counters, finds hot spots, answers path queries
// with the level of the slow lane, and notifies the hosts, whose handlers change queue
// pairs.
type real struct {
	none
	every          time.Duration // period of the counters
	opened, closed []string
}

func (*real) String() string { return "real" }

// Configure implements Loop.
func (*real) Configure(cfg *sm.Config) { cfg.SlowLane = true }

// Attach implements Loop.
func (r *real) Attach(m *lab.Manager) {
	c := perf.Defaults()
	c.Period, c.Rate, c.Timeout, c.History = r.every, 1_000_000, 2*r.every, 0
	m.ServeCounters(c)
	m.ServeHotSpots(hotspot.Defaults(), core.Config{Mode: core.Act})
	m.OnHotSpots(func(out *hotspot.Output, _ *core.Plan) {
		for i := range out.Opened {
			r.opened = append(r.opened, out.Opened[i].Host.Desc)
		}
		for i := range out.Closed {
			r.closed = append(r.closed, out.Closed[i].Host.Desc)
		}
	})
}

// Marked implements Loop.
func (r *real) Marked() (opened, closed []string) { return r.opened, r.closed }
