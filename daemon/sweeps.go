package daemon

import (
	"slices"
	"sync"
	"time"

	"heddle/api"
	"heddle/api/show"
	"heddle/sm"
)

// keptSweeps is the number of sweeps that the API lists whole. Their events last longer.
const keptSweeps = 32

// sweeps keeps the reports of the last sweeps, and those that the metrics do not show yet. Any goroutine
// may use it.
type sweeps struct {
	mu     sync.Mutex
	kept   []api.Sweep      // oldest first; guarded by mu
	counts []sm.SweepReport // not yet in the metrics; guarded by mu
}

func (k *sweeps) add(r *sm.SweepReport, now time.Time) {
	out := show.Sweep(r, now)
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.kept) == keptSweeps {
		k.kept = slices.Delete(k.kept, 0, 1)
	}
	k.kept = append(k.kept, out)
	if len(k.counts) < 4096 { // without a scraper the newest reports are lost; the counters in Status are complete
		k.counts = append(k.counts, *r)
	}
}

// take returns the reports for the metrics, once.
func (k *sweeps) take() []sm.SweepReport {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := k.counts
	k.counts = nil
	return s
}

// list returns the kept sweeps, the newest first.
func (k *sweeps) list() []api.Sweep {
	k.mu.Lock()
	defer k.mu.Unlock()
	out := slices.Clone(k.kept)
	slices.Reverse(out)
	return out
}
