// Package recent keeps what the manager did last, for the API and for metrics: sweeps and repairs.
//
// All types may be used concurrently. Their zero values are ready for use.
package recent

import (
	"slices"
	"sync"
	"time"

	"heddle/api"
	"heddle/api/metrics"
	"heddle/api/show"
	"heddle/sm"
)

// Kept is how many sweeps, and how many repairs, the API lists whole. Their events last longer.
const Kept = 32

// list is the newest Kept values.
type list[T any] struct{ kept []T }

func (l *list[T]) add(v T) {
	if len(l.kept) == Kept {
		l.kept = slices.Delete(l.kept, 0, 1)
	}
	l.kept = append(l.kept, v)
}

// newest returns a copy, the newest first. It is not nil, so that it is a list in JSON.
func (l *list[T]) newest() []T {
	out := append([]T{}, l.kept...)
	slices.Reverse(out)
	return out
}

// maxCounts bounds the reports that wait for a scraper.
const maxCounts = 4096

// Sweeps keeps the reports of the last sweeps, and those that the metrics do not show yet.
type Sweeps struct {
	mu     sync.Mutex
	kept   list[api.Sweep]  // guarded by mu
	counts []sm.SweepReport // not yet in the metrics; guarded by mu
}

// Add adds a report of a sweep that ended at a time.
func (k *Sweeps) Add(r *sm.SweepReport, now time.Time) {
	out := show.Sweep(r, now)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.kept.add(out)
	if len(k.counts) < maxCounts { // without a scraper the newest reports are lost; the counters in Status are complete
		k.counts = append(k.counts, *r)
	}
}

// Take returns the reports for the metrics, once.
func (k *Sweeps) Take() []sm.SweepReport {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := k.counts
	k.counts = nil
	return s
}

// List returns the kept sweeps, the newest first.
func (k *Sweeps) List() []api.Sweep {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.kept.newest()
}

// Repairs keeps the last repairs of faults and counts all of them.
type Repairs struct {
	mu     sync.Mutex
	kept   list[api.Repair] // guarded by mu
	counts metrics.Repairs  // guarded by mu
}

// Add adds a repair that ended at a time.
func (k *Repairs) Add(r *sm.Repair, now time.Time) {
	out := show.Repair(r, now)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.kept.add(out)
	c := &k.counts
	c.Count++
	c.Pairs += uint64(r.Broken - r.Left)
	c.Drains += uint64(r.Drains)
	if r.Risk != nil {
		c.AtRisk++
	}
	if r.Left < r.Broken {
		c.Took.Observe(r.Took)
	}
}

// List returns the kept repairs, the newest first.
func (k *Repairs) List() []api.Repair {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.kept.newest()
}

// Values are the counts of all repairs, with the name of the policy that they follow.
func (k *Repairs) Values(policy string) metrics.Repairs {
	k.mu.Lock()
	defer k.mu.Unlock()
	out := k.counts
	out.Policy = policy
	return out
}
