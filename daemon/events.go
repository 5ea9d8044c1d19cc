package daemon

import (
	"sync"

	"heddle/api"
)

// keptEvents is how many events the ring keeps; older ones are in the log.
const keptEvents = 1000

// ring keeps the newest events and wakes readers that wait for more. It is safe for concurrent
// use.
type ring struct {
	mu    sync.Mutex
	last  uint64      // number of the newest event; guarded by mu
	kept  []api.Event // oldest first; guarded by mu
	more  chan struct{}
	limit int
}

func newRing(limit int) *ring {
	return &ring{more: make(chan struct{}), limit: limit}
}

// add numbers e and keeps it; a full ring drops its oldest event.
func (r *ring) add(e api.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last++
	e.Seq = r.last
	if len(r.kept) == r.limit {
		copy(r.kept, r.kept[1:])
		r.kept = r.kept[:r.limit-1]
	}
	r.kept = append(r.kept, e)
	close(r.more)
	r.more = make(chan struct{})
}

// since returns the kept events after number n, and a channel that is closed at the next event.
func (r *ring) since(n uint64) ([]api.Event, <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n > r.last {
		n = 0 // a number of an earlier run
	}
	first := r.last - uint64(len(r.kept)) // the number before the oldest kept event
	skip := 0
	if n > first {
		skip = int(min(n-first, uint64(len(r.kept))))
	}
	return append([]api.Event(nil), r.kept[skip:]...), r.more
}

// newest is the number of the newest event.
func (r *ring) newest() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last
}
