package access

import (
	"slices"
	"sync"
	"time"
)

// mostKeys bounds what a limit remembers.
const mostKeys = 4096

// Failures limits how often a client may show a wrong credential: Most times in Span, counted from
// the first one.
type Failures struct {
	Most int
	Span time.Duration

	mu sync.Mutex
	by map[string]failed // guarded by mu
}

type failed struct {
	since time.Time
	n     int
}

// Add counts a failure of a client.
func (f *Failures) Add(client string, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	x, ok := f.by[client]
	if !ok || now.Sub(x.since) >= f.Span {
		x = failed{since: now}
	}
	x.n++
	if f.by == nil {
		f.by = map[string]failed{}
	}
	if !ok && len(f.by) >= mostKeys {
		makeSpace(f.by, func(x failed) time.Time { return x.since }, now.Add(-f.Span))
	}
	f.by[client] = x
}

// Wait is the time for which a client must wait after too many failures; 0: none.
func (f *Failures) Wait(client string, now time.Time) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	x := f.by[client]
	if x.n < f.Most {
		return 0
	}
	return max(f.Span-now.Sub(x.since), 0)
}

// Rate limits the requests of a caller: PerSecond of them in the long run, Burst at a time.
type Rate struct {
	PerSecond, Burst float64

	mu sync.Mutex
	by map[string]bucket // guarded by mu
}

type bucket struct {
	at   time.Time
	left float64
}

// Take counts a request of a caller, and returns how long the caller must wait if it exceeds the
// limit; 0: the request is permitted.
func (r *Rate) Take(caller string, now time.Time) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	b, ok := r.by[caller]
	if !ok {
		b = bucket{now, r.Burst}
	}
	b.left = min(r.Burst, b.left+r.PerSecond*max(now.Sub(b.at), 0).Seconds())
	b.at = now
	wait := time.Duration(0)
	if b.left < 1 {
		wait = time.Duration((1 - b.left) / r.PerSecond * float64(time.Second))
	} else {
		b.left--
	}
	if r.by == nil {
		r.by = map[string]bucket{}
	}
	if !ok && len(r.by) >= mostKeys {
		full := time.Duration(r.Burst / r.PerSecond * float64(time.Second))
		makeSpace(r.by, func(b bucket) time.Time { return b.at }, now.Add(-full))
	}
	r.by[caller] = b
	return wait
}

// makeSpace drops what is older than a time, and at least the oldest quarter, so that a flood of new
// keys does not pay for it each time.
func makeSpace[T any](m map[string]T, at func(T) time.Time, before time.Time) {
	times := make([]time.Time, 0, len(m))
	for _, v := range m {
		times = append(times, at(v))
	}
	slices.SortFunc(times, time.Time.Compare)
	if oldest := times[len(times)/4]; oldest.After(before) {
		before = oldest
	}
	for k, v := range m {
		if !at(v).After(before) {
			delete(m, k)
		}
	}
}
