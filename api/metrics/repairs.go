package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Repairs are the counters of repairs.
type Repairs struct {
	Policy string
	Count  uint64 // sweeps that found broken pairs
	Pairs  uint64 // connected
	Drains uint64
	AtRisk uint64
	Took   RepairTimes
}

// RepairTimes count how long repairs took, from 1 ms to two minutes.
type RepairTimes struct {
	buckets [18]uint64 // bucket i: at most 2^i ms, and more than those before
	n       uint64
	seconds float64
}

// Observe counts one repair.
func (t *RepairTimes) Observe(took time.Duration) {
	t.n++
	t.seconds += took.Seconds()
	for i := range t.buckets {
		if took <= time.Millisecond<<i {
			t.buckets[i]++
			return
		}
	}
}

func (t *RepairTimes) histogram(d *prometheus.Desc) prometheus.Metric {
	upTo := make(map[float64]uint64, len(t.buckets))
	var n uint64
	for i, b := range t.buckets {
		n += b
		upTo[1e-3*float64(uint64(1)<<i)] = n
	}
	return prometheus.MustNewConstHistogram(d, t.n, t.seconds, upTo)
}

type repairCollector struct {
	count, pairs, drains, atRisk, took *prometheus.Desc
}

func newRepairCollector() *repairCollector {
	return &repairCollector{
		count:  describe("repairs_total", "Sweeps that found broken pairs.", "policy"),
		pairs:  describe("repair_pairs_total", "Broken pairs that were connected."),
		drains: describe("repair_drains_total", "Waits of repairs for packets in flight to leave."),
		atRisk: describe("repair_at_risk_total", "Repairs in which a transient cycle was possible."),
		took:   describe("repair_seconds", "Seconds from the first sign of a fault to the answer that acknowledges the last block that connects a broken pair."),
	}
}

func (c *repairCollector) collect(to sink, r *Repairs) {
	to.count(c.count, r.Count, r.Policy)
	to.count(c.pairs, r.Pairs)
	to.count(c.drains, r.Drains)
	to.count(c.atRisk, r.AtRisk)
	to <- r.Took.histogram(c.took)
}
