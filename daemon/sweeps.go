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

// sweeps keeps the reports of the last sweeps. Any goroutine may use it.
type sweeps struct {
	mu   sync.Mutex
	kept []api.Sweep // oldest first; guarded by mu
}

func (k *sweeps) add(r *sm.SweepReport, now time.Time) {
	out := show.Sweep(r, now)
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.kept) == keptSweeps {
		k.kept = slices.Delete(k.kept, 0, 1)
	}
	k.kept = append(k.kept, out)
}

// list returns the kept sweeps, the newest first.
func (k *sweeps) list() []api.Sweep {
	k.mu.Lock()
	defer k.mu.Unlock()
	out := slices.Clone(k.kept)
	slices.Reverse(out)
	return out
}
