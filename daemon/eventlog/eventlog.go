// Package eventlog keeps the events of a manager: it numbers them, finds their causes, writes them to a ring
// on disk, shows them to readers, and logs them.
package eventlog

import (
	"cmp"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"heddle/api"
	"heddle/incident"
	"heddle/logs"
	"heddle/store/ring"
)

// Sizes of the event log.
const (
	keptEvents   = api.EventsPage // in memory, for readers that follow
	keptUnsaved  = 10 * api.EventsPage
	batchEvents  = 256     // written at a time
	queuedEvents = 1 << 16 // not written yet; further ones are dropped and counted
	memoryBytes  = 4 << 20 // of an event log without a directory
	syncAfter    = time.Second
)

// Limits are those of an event log on disk: at least the newest 100,000 events of 7 days.
func Limits() ring.Limits {
	return ring.Limits{Bytes: 128 << 20, Records: 100_000, Age: 7 * 24 * time.Hour, Reserve: 1 << 16}
}

// Log keeps events in a ring, numbers them and wakes readers that wait for more. Add never waits
// for a disk: a goroutine writes, while there is something to write. Readers see an event when it is
// written. It is safe for concurrent use.
type Log struct {
	ring    *ring.Ring
	manager string // Event.Manager

	mu      sync.Mutex
	queue   []Entry // not written yet; guarded by mu
	lost    uint64  // that found no room in queue since the last batch; guarded by mu
	busy    bool    // the goroutine runs; guarded by mu
	spare   bool    // the manager is standby; guarded by mu
	idle    chan struct{}
	flush   bool              // what is held is to be released; guarded by mu
	wake    *time.Timer       // when something is due; guarded by mu
	holding bool              // something is due later; guarded by mu
	kept    []api.Event       // the newest that readers see, by number: elements do not change; guarded by mu
	last    uint64            // number of the newest event; guarded by mu
	count   uint64            // events since the start; guarded by mu
	opened  incident.Openings // guarded by mu
	more    chan struct{}

	// Owned by the goroutine that writes:
	causes  *incident.Core
	log     logs.Limit
	lastLog *slog.Logger // of the last event that has one
	audits  logs.Limit
	failed  string // why the ring takes nothing

	dirty   atomic.Bool   // a sync is due
	unsaved atomic.Bool   // failed is not empty
	dropped atomic.Uint64 // sum of lost
	runs    atomic.Uint64 // daemons that had these events
}

// New returns a Log in memory without events, for the daemons of one process.
func New() *Log {
	r, _ := ring.Open("", "events", memoryBytes) // without a directory it does not fail
	return Open(r, "")
}

// Open returns the events of a ring, which nobody else writes. manager names this manager's
// machine in them.
func Open(r *ring.Ring, manager string) *Log {
	idle := make(chan struct{})
	close(idle)
	return &Log{
		ring: r, manager: manager, idle: idle, last: r.Last(), more: make(chan struct{}), causes: incident.New(),
		log: logs.Limit{Most: logs.Most}, audits: logs.Limit{Most: auditMost},
	}
}

// Entry is an event with all that is known about it.
type Entry struct {
	Event api.Event
	At    incident.Fact // where it is, for its cause
	Log   *slog.Logger  // logs the event when it is written; nil: it is logged
}

// Add numbers e and keeps it. Readers see it soon.
func (r *Log) Add(e api.Event) { r.Record(&Entry{Event: e}) }

// Record is Add of an event with all that is known about it.
func (r *Log) Record(x *Entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.queue) >= queuedEvents {
		r.lost++
		r.dropped.Add(1)
		return
	}
	r.queue = append(r.queue, *x)
	r.queue[len(r.queue)-1].Event.Spare = r.spare
	r.begin()
}

// SetSpare says whether events from now on are those of a manager on standby.
func (r *Log) SetSpare(on bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.spare = on
}

// begin starts the goroutine that writes. The holder of mu calls it.
func (r *Log) begin() {
	if !r.busy {
		r.busy, r.idle = true, make(chan struct{})
		go r.write()
	}
}

// Flush returns when the events that were added are written, or cannot be.
func (r *Log) Flush() {
	r.mu.Lock()
	if r.busy || r.holding {
		r.flush = true
		r.begin()
	}
	idle := r.idle
	r.mu.Unlock()
	<-idle
}

// Close writes what waits, and releases the ring.
func (r *Log) Close() error {
	r.Flush()
	return r.ring.Close()
}

// write writes events until none waits.
func (r *Log) write() {
	for {
		r.mu.Lock()
		n := min(len(r.queue), batchEvents)
		batch, lost := r.queue[:n:n], r.lost
		r.queue, r.lost = r.queue[n:], 0
		release := n == 0 && r.flush
		r.mu.Unlock()
		if lost > 0 {
			batch = append(batch, Entry{Event: note("error", "events_lost", fmt.Sprintf("%d events came faster than they could be written, and are lost", lost), nil)})
		}
		r.save(r.compose(batch, time.Now(), release))
		r.mu.Lock()
		if release {
			r.flush = false
		}
		if len(r.queue) == 0 && !r.flush {
			r.rest()
			r.mu.Unlock()
			return
		}
		r.mu.Unlock()
	}
}

// rest ends the goroutine until there are more events, or something is due. The holder of mu calls it.
func (r *Log) rest() {
	r.busy, r.queue = false, nil
	close(r.idle)
	due := earlier(r.causes.Due(), earlier(r.log.Due(), r.audits.Due()))
	if r.holding = !due.IsZero(); !r.holding {
		return
	}
	if r.wake != nil {
		r.wake.Stop()
	}
	r.wake = time.AfterFunc(max(time.Until(due), 0), func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.begin()
	})
}

// earlier is the earlier of two times; zero: never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

func note(level, kind, text string, attrs map[string]string) api.Event {
	return api.Event{Time: time.Now(), Level: level, Kind: kind, Message: text, Attrs: attrs}
}

// save writes a batch, shows it to readers, and logs it.
func (r *Log) save(batch []Entry) {
	if len(batch) == 0 {
		return
	}
	was := r.failed
	events := make([]api.Event, len(batch))
	for i := range batch {
		events[i] = batch[i].Event
	}
	list, err := r.append(events)
	switch {
	case err != nil && was == "":
		r.failed = err.Error()
		r.unsaved.Store(true)
		more := []api.Event{note("error", "events_unsaved", "events cannot be written; the newest ones are kept in memory", map[string]string{"err": r.failed})}
		again, _ := r.append(more) // it has its number, and is kept in memory
		list = append(list, again...)
	case err == nil && was != "":
		r.failed = ""
		r.unsaved.Store(false)
		again, _ := r.append([]api.Event{note("info", "events_saved", "events are written again", nil)})
		list = append(list, again...)
	}
	r.show(list, batch)
	for i := range list {
		log := r.lastLog
		if i < len(batch) {
			log = batch[i].Log
		}
		r.tell(log, &list[i])
	}
}

// append writes events with their numbers to the ring.
func (r *Log) append(batch []api.Event) ([]api.Event, error) {
	next := r.ring.Next()
	records := make([]ring.Record, len(batch))
	for i := range batch {
		e := &batch[i]
		e.Seq = 0 // that of the record counts
		e.Cause = cmp.Or(e.Cause, next+uint64(i))
		e.Manager = ""
		b, err := json.Marshal(e)
		if err != nil || len(b) > ring.MaxData {
			e.Attrs, e.Links, e.Nodes = map[string]string{"err": "the event is too long"}, nil, nil
			b, _ = json.Marshal(e) // strings and numbers alone
		}
		records[i] = ring.Record{Time: e.Time, Data: b}
		e.Manager = r.manager
	}
	_, err := r.ring.AppendAll(records)
	if r.ring.OnDisk() && !r.dirty.Swap(true) {
		time.AfterFunc(syncAfter, func() {
			r.dirty.Store(false)
			_ = r.ring.Sync() // an error shows with the next record
		})
	}
	for i := range batch {
		batch[i].Seq = records[i].Number
	}
	return batch, err
}

// show lets readers see events. The first ones are those of a batch.
func (r *Log) show(list []api.Event, batch []Entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range batch {
		if x := &batch[i]; x.Event.Kind == KindFindingOpened && x.At.Subject != "" {
			r.opened.Note(x.At.Subject, incident.Opening{Event: list[i].Seq, Cause: list[i].Cause})
		}
	}
	r.kept = append(r.kept, list...)
	keep := keptEvents
	if r.failed != "" {
		keep = keptUnsaved
	}
	if n := len(r.kept) - keep; n > 0 {
		r.kept = r.kept[n:] // readers have the array; append makes another one when it is full
	}
	r.last = list[len(list)-1].Seq
	r.count += uint64(len(list))
	close(r.more)
	r.more = make(chan struct{})
}

// NextRun numbers the daemons that add events, one after the other.
func (r *Log) NextRun() uint64 { return r.runs.Add(1) }

// Openings passes to name a function which says with which event a finding opened.
func (r *Log) Openings(name func(of func(subject string) incident.Opening)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	name(r.opened.Of)
}

// Health reports whether events cannot be written, and how many were lost because too many waited.
func (r *Log) Health() (unsaved bool, lost uint64) { return r.unsaved.Load(), r.dropped.Load() }

// Count is the number of events since the start.
func (r *Log) Count() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.count
}
