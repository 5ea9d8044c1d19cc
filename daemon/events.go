package daemon

import (
	"sync"

	"heddle/api"
)

// keptEvents is how many events are kept; older ones are in the log.
const keptEvents = 1000

// Events keeps the newest events and wakes readers that wait for more. It is safe for concurrent
// use.
type Events struct {
	mu    sync.Mutex
	last  uint64      // number of the newest event; guarded by mu
	kept  []api.Event // oldest first; guarded by mu
	more  chan struct{}
	limit int
}

// NewEvents returns Events without any, for the daemons of one process (Config.Events).
func NewEvents() *Events { return newEvents(keptEvents) }

func newEvents(limit int) *Events {
	return &Events{more: make(chan struct{}), limit: limit}
}

// Add numbers e and keeps it; the oldest event is dropped if there are too many.
func (r *Events) Add(e api.Event) {
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

// Since returns the kept events after number n, and a channel that is closed at the next event.
func (r *Events) Since(n uint64) ([]api.Event, <-chan struct{}) {
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
func (r *Events) newest() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last
}
