package eventlog

import (
	"encoding/json"
	"slices"

	"heddle/api"
	"heddle/store/ring"
)

// Since returns the kept events after number n, oldest first, at most api.EventsPage, and a channel
// that is closed when there are more.
func (r *Log) Since(n uint64) ([]api.Event, <-chan struct{}) {
	r.mu.Lock()
	kept, more, last := r.kept, r.more, r.last
	if n > last {
		n = 0 // a number of another manager, or of an earlier run without a directory
	}
	if n == last {
		r.mu.Unlock()
		return nil, more
	}
	if i := after(kept, n); i > 0 || len(kept) > 0 && kept[0].Seq == n+1 {
		r.mu.Unlock()
		list := slices.Clone(kept[i:min(len(kept), i+api.EventsPage)])
		return list, open(list, last, more)
	}
	r.mu.Unlock()
	// An error is that of the disk; the events in memory are there all the same.
	list, _ := r.find(api.EventsQuery{After: n, Limit: api.EventsPage}, true)
	return list, open(list, last, more)
}

// after is the index of the first event after number n.
func after(list []api.Event, n uint64) int {
	i, _ := slices.BinarySearchFunc(list, n+1, func(e api.Event, n uint64) int {
		if e.Seq < n {
			return -1
		}
		return 1
	})
	return i
}

// open is more, or a closed channel if the list does not reach the last event.
func open(list []api.Event, last uint64, more <-chan struct{}) <-chan struct{} {
	if len(list) == 0 || list[len(list)-1].Seq >= last {
		return more
	}
	ready := make(chan struct{})
	close(ready)
	return ready
}

// Find returns events that match, oldest first. An error is that of the disk, and comes with those in
// memory.
func (r *Log) Find(q api.EventsQuery) (list []api.Event, err error) {
	return r.find(q, q.Oldest() || q.Limit == 0)
}

// find is Find of the oldest events that match, or of the newest.
func (r *Log) find(q api.EventsQuery, oldest bool) (list []api.Event, err error) {
	r.mu.Lock()
	kept, last := r.kept, r.last
	r.mu.Unlock()
	memory := last + 1 // from here on events are in kept
	if len(kept) > 0 {
		memory = kept[0].Seq
	}
	add := func(e *api.Event) bool {
		if q.Match(e) {
			list = append(list, *e)
		}
		return q.Limit == 0 || len(list) < q.Limit
	}
	record := func(rec *ring.Record) bool {
		var e api.Event
		if json.Unmarshal(rec.Data, &e) != nil {
			return true // of a later version
		}
		e.Seq, e.Time, e.Manager = rec.Number, rec.Time, r.manager
		return add(&e)
	}
	if oldest {
		going := true
		if q.After+1 < memory {
			err = r.ring.Read(q.After, func(rec ring.Record) bool {
				going = rec.Number < memory && record(&rec)
				return going
			})
			going = q.Limit == 0 || len(list) < q.Limit
		}
		for i := after(kept, q.After); going && i < len(kept); i++ {
			going = add(&kept[i])
		}
		return list, err
	}
	going := true
	for i := len(kept) - 1; going && i >= 0; i-- {
		going = add(&kept[i])
	}
	if going {
		before := memory
		if q.Before > 0 {
			before = min(before, q.Before)
		}
		err = r.ring.ReadBack(before, func(rec ring.Record) bool {
			// Records come from the newest to the oldest, so nothing before these matches.
			return rec.Number > q.After && record(&rec)
		})
	}
	slices.Reverse(list)
	return list, err
}

// Last is the number of the newest event. With ID, After and More it implements webhook.Source.
func (r *Log) Last() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last
}

// ID tells the numbers of these events from those of others.
func (r *Log) ID() string { return r.ring.ID() }

// After returns at most limit events with a greater number, oldest first.
func (r *Log) After(n uint64, limit int) []api.Event {
	// An error is that of the disk; the events in memory are there all the same.
	list, _ := r.find(api.EventsQuery{After: n, Limit: limit}, true)
	return list
}

// More returns a channel that is closed at the next event.
func (r *Log) More() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.more
}
