package daemon

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"heddle/api"
	"heddle/sm"
)

// keptRepairs is how many repairs the API lists; older ones are in the log.
const keptRepairs = 32

// repairs keeps the last repairs of faults and counts all of them. Any goroutine may use it.
type repairs struct {
	mu      sync.Mutex
	kept    []api.Repair // oldest first; guarded by mu
	count   uint64       // guarded by mu
	pairs   uint64       // connected; guarded by mu
	drains  uint64       // guarded by mu
	atRisk  uint64       // guarded by mu
	seconds prometheus.Histogram
}

func newRepairs() repairs {
	return repairs{seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "heddle_repair_seconds", Help: "Seconds from the first sign of a fault to the answer that acknowledges the last block that connects a broken pair.",
		Buckets: prometheus.ExponentialBuckets(1e-3, 2, 18), // to two minutes
	})}
}

func (k *repairs) add(r *sm.Repair, now time.Time) {
	out := api.Repair{
		Time: now, Reason: r.Reason, Faults: make([]string, len(r.Faults)), MoreFaults: r.More,
		Broken: r.Broken, First: r.First, Late: r.Late, Left: r.Left, Seconds: r.Took.Seconds(),
		Mode: r.Mode.String(), Policy: r.Policy.String(), Stages: r.Stages, Drains: r.Drains, DrainSeconds: r.Drain.Seconds(),
		Risk: apiRisk(r.Risk),
	}
	for i, f := range r.Faults {
		out.Faults[i] = f.String()
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.kept) == keptRepairs {
		k.kept = append(k.kept[:0], k.kept[1:]...)
	}
	k.kept = append(k.kept, out)
	k.count++
	k.pairs += uint64(r.Broken - r.Left)
	k.drains += uint64(r.Drains)
	if r.Risk != nil {
		k.atRisk++
	}
	if r.Left < r.Broken {
		k.seconds.Observe(r.Took.Seconds())
	}
}

func apiRisk(r *sm.Risk) *api.Risk {
	if r == nil {
		return nil
	}
	out := &api.Risk{Channels: make([]string, len(r.Channels)), Worst: r.Worst.Seconds(), Why: r.Why}
	for i, h := range r.Channels {
		out.Channels[i] = h.String()
	}
	return out
}

// Repairs implements api.Backend.
func (d *Daemon) Repairs() []api.Repair {
	d.repairs.mu.Lock()
	defer d.repairs.mu.Unlock()
	out := make([]api.Repair, 0, len(d.repairs.kept))
	for i := len(d.repairs.kept) - 1; i >= 0; i-- {
		out = append(out, d.repairs.kept[i])
	}
	return out
}

// repairCollector shows what repairs count.
type repairCollector struct {
	d                            *Daemon
	count, pairs, drains, atRisk *prometheus.Desc
}

func newRepairCollector(d *Daemon, desc func(name, help string, labels ...string) *prometheus.Desc) *repairCollector {
	return &repairCollector{
		d:      d,
		count:  desc("repairs_total", "Sweeps that found broken pairs.", "policy"),
		pairs:  desc("repair_pairs_total", "Broken pairs that were connected."),
		drains: desc("repair_drains_total", "Waits of repairs for packets under way to leave."),
		atRisk: desc("repair_at_risk_total", "Repairs in which a transient cycle was possible."),
	}
}

func (c *repairCollector) collect(ch chan<- prometheus.Metric, count func(d *prometheus.Desc, v uint64, labels ...string)) {
	k := &c.d.repairs
	k.mu.Lock()
	defer k.mu.Unlock()
	count(c.count, k.count, c.d.cfg.Core.Transition.String())
	count(c.pairs, k.pairs)
	count(c.drains, k.drains)
	count(c.atRisk, k.atRisk)
	k.seconds.Collect(ch)
}
