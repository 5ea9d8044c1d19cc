package webhook

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"heddle/api"
)

// Bounds of what is kept of a partner's events.
const (
	tellBytes    = 48 << 10 // of events in a message, unless one event is longer
	backlogBytes = 16 << 20
	tellTime     = time.Second // at least as often, marks that changed are told
)

// Partner keeps the events of the other manager of a pair that targets may lack, and sends them
// while this manager is active. It also sends this manager's events to the other one. It is safe
// for concurrent use.
type Partner struct {
	joined chan struct{} // closed by Join
	group  *Group        // this manager's own; set when joined is closed
	wake   chan struct{}

	mu     sync.Mutex
	active bool     // guarded by mu
	theirs *backlog // nil: nothing is known; guarded by mu

	dropped atomic.Uint64 // events of all backlogs
}

// NewPartner returns a Partner without events. It sends nothing before Run.
func NewPartner() *Partner {
	return &Partner{joined: make(chan struct{}), wake: make(chan struct{}, 1)}
}

// SetActive sets whether this manager is the active one. It does not wait.
func (p *Partner) SetActive(on bool) {
	p.mu.Lock()
	p.active = on
	p.mu.Unlock()
	p.changed()
}

func (p *Partner) changed() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// Run passes the events of g on to the partner, and sends the partner's events to the targets of g
// while this manager is active. It returns when ctx has ended. It is called once.
func (p *Partner) Run(ctx context.Context, g *Group) {
	p.group = g
	close(p.joined)
	var heirs *Group
	var of *backlog
	end := func() {}
	defer func() { end() }()
	for {
		p.mu.Lock()
		want := p.theirs
		if !p.active {
			want = nil
		}
		p.mu.Unlock()
		if want != of {
			end()
			if heirs, of, end = nil, want, func() {}; of != nil {
				sending, stop := context.WithCancel(ctx)
				h := NewGroup(sending, of, of, g.transport)
				heirs, end = h, func() { stop(); h.Wait() }
			}
		}
		targets, changed := g.targetsNow()
		if heirs != nil {
			heirs.Set(targets)
		}
		select {
		case <-p.wake:
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// told is what a manager tells of its events.
type told struct {
	ID     string            `json:"id"` // Source.ID
	Marks  map[string]uint64 `json:"marks"`
	Events []api.Event       `json:"events,omitempty"`
}

// Tell passes messages with this manager's events for the partner to put, until ctx has ended or
// put returns false. It begins with the oldest event that a target lacks.
func (p *Partner) Tell(ctx context.Context, put func([]byte) bool) {
	select {
	case <-p.joined:
	case <-ctx.Done():
		return
	}
	s := p.group.source
	var at uint64
	var last map[string]uint64
	for {
		more := s.More()
		m := told{ID: s.ID(), Marks: p.group.acknowledged()}
		full := false
		if len(m.Marks) > 0 {
			newest := s.Last()
			at = max(at, slices.Min(slices.Collect(maps.Values(m.Marks))), newest-min(newest, Queue))
			at, full = m.add(s.After(at, pageEvents), at)
		}
		if len(m.Events) > 0 || !maps.Equal(m.Marks, last) {
			b, err := json.Marshal(&m)
			if err != nil || !put(b) { // strings, numbers and times are always JSON
				return
			}
			last = m.Marks
		}
		if full {
			continue
		}
		timer := time.NewTimer(tellTime)
		select {
		case <-more:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil {
			return
		}
	}
}

// add adds events up to tellBytes, and returns the number up to which it has them, and whether there may be more.
func (m *told) add(list []api.Event, at uint64) (uint64, bool) {
	bytes := 0
	for i := range list {
		if e := &list[i]; !e.Spare {
			b, err := json.Marshal(e)
			if bytes += len(b); err != nil || bytes > tellBytes && len(m.Events) > 0 {
				return at, true
			}
			m.Events = append(m.Events, *e)
		}
		at = list[i].Seq
	}
	return at, len(list) > 0
}

// Take takes a message of the partner's Tell. It returns an error if b is no such message.
func (p *Partner) Take(b []byte) error {
	var m told
	if err := json.Unmarshal(b, &m); err != nil {
		return err
	}
	if m.ID == "" || len(m.ID) > 64 || len(m.Marks) > mostTargets {
		return errors.New("webhook: the partner's events have no name, or too many targets")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.theirs == nil || p.theirs.id != m.ID {
		p.theirs = &backlog{id: m.ID, marks: map[string]uint64{}, more: make(chan struct{}), dropped: &p.dropped}
		p.changed()
	}
	return p.theirs.take(&m)
}

// PartnerStatus has counts of the partner's events that a manager keeps.
type PartnerStatus struct {
	Events  int    // that a target may lack
	Dropped uint64 // since the start of this manager, because there were too many
}

// Status returns counts of the kept events.
func (p *Partner) Status() (s PartnerStatus) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if x := p.theirs; x != nil {
		x.mu.Lock()
		defer x.mu.Unlock()
		s.Events = len(x.list)
	}
	s.Dropped = p.dropped.Load()
	return s
}

// backlog has events of a partner. It is a Source and the Marks of it.
type backlog struct {
	id      string
	dropped *atomic.Uint64

	mu    sync.Mutex
	list  []kept            // in the order of their numbers; guarded by mu
	bytes int               // of list; guarded by mu
	last  uint64            // guarded by mu
	marks map[string]uint64 // guarded by mu
	more  chan struct{}     // guarded by mu
}

type kept struct {
	event api.Event
	bytes int
}

func (x *backlog) take(m *told) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	for i := range m.Events {
		e := &m.Events[i]
		if e.Seq <= x.last {
			continue // a stream that was made anew repeats some
		}
		b, err := json.Marshal(e)
		if err != nil {
			return err
		}
		x.list = append(x.list, kept{*e, len(b)})
		x.bytes += len(b)
		x.last = e.Seq
	}
	for name := range x.marks {
		if _, ok := m.Marks[name]; !ok {
			delete(x.marks, name) // the partner has that target no more
		}
	}
	for name, n := range m.Marks {
		x.marks[name] = max(x.marks[name], n)
	}
	x.forget()
	close(x.more)
	x.more = make(chan struct{})
	return nil
}

// forget drops what all targets have, and what is too much. The holder of mu calls it.
func (x *backlog) forget() {
	low := x.last
	for _, n := range x.marks {
		low = min(low, n)
	}
	n := 0
	for ; n < len(x.list) && (x.list[n].event.Seq <= low || len(x.list)-n > Queue || x.bytes > backlogBytes); n++ {
		x.bytes -= x.list[n].bytes
		if x.list[n].event.Seq > low {
			x.dropped.Add(1)
		}
	}
	clear(x.list[:n])
	x.list = x.list[n:] // append makes another array when this one is full
}

// Last implements Source.
func (x *backlog) Last() uint64 {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.last
}

// After implements Source.
func (x *backlog) After(n uint64, limit int) (list []api.Event) {
	x.mu.Lock()
	defer x.mu.Unlock()
	i, found := slices.BinarySearchFunc(x.list, n, func(k kept, n uint64) int { return cmp.Compare(k.event.Seq, n) })
	if found {
		i++
	}
	for ; i < len(x.list) && len(list) < limit; i++ {
		list = append(list, x.list[i].event)
	}
	return list
}

// More implements Source.
func (x *backlog) More() <-chan struct{} {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.more
}

// ID implements Source.
func (x *backlog) ID() string { return x.id }

// Mark implements Marks.
func (x *backlog) Mark(target string) (uint64, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	n, ok := x.marks[target]
	return n, ok
}

// SetMark implements Marks.
func (x *backlog) SetMark(target string, n uint64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.marks[target] = n
	x.forget()
}

// Save implements Marks: the events are in memory, and so are their marks.
func (x *backlog) Save() error { return nil }
