package daemon

import (
	"sync"
	"time"
)

// dates says when the last states were published. What is written of a state, with its date, is then the
// same bytes for everybody who asks, as its ETag promises.
type dates struct {
	mu sync.Mutex
	// last are the newest two, the newest first: a request may still hold the one before. Guarded by mu.
	last [2]struct {
		gen uint64
		at  time.Time
	}
}

// of returns when the state with a number was published: now if it is not known yet.
func (d *dates) of(gen uint64, now time.Time) time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, x := range d.last {
		if x.gen == gen && !x.at.IsZero() {
			return x.at
		}
	}
	if gen >= d.last[0].gen {
		d.last[1], d.last[0].gen, d.last[0].at = d.last[0], gen, now
	}
	return now
}
