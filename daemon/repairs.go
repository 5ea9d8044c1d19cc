package daemon

import (
	"slices"
	"sync"
	"time"

	"heddle/api"
	"heddle/api/metrics"
	"heddle/api/show"
	"heddle/sm"
)

// keptRepairs is the number of repairs that the API lists; older ones are in the log.
const keptRepairs = 32

// repairs keeps the last repairs of faults and counts all of them. Any goroutine may use it.
type repairs struct {
	mu     sync.Mutex
	kept   []api.Repair    // oldest first; guarded by mu
	counts metrics.Repairs // guarded by mu
}

func (k *repairs) add(r *sm.Repair, now time.Time) {
	out := show.Repair(r, now)
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.kept) == keptRepairs {
		k.kept = append(k.kept[:0], k.kept[1:]...)
	}
	k.kept = append(k.kept, out)
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

// list returns the kept repairs, the newest first.
func (k *repairs) list() []api.Repair {
	k.mu.Lock()
	defer k.mu.Unlock()
	out := append([]api.Repair{}, k.kept...) // not nil: a list in JSON
	slices.Reverse(out)
	return out
}

// values are the counts.
func (k *repairs) values(policy string) metrics.Repairs {
	k.mu.Lock()
	defer k.mu.Unlock()
	out := k.counts
	out.Policy = policy
	return out
}
