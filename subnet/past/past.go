// Package past keeps what a subnet looked like: the wiring of its published states as differences in a
// ring of records (docs/format/history.md), so that one can look back some days, and a manager that
// starts again still knows what has gone.
//
// A Past belongs to one ring. Its methods may be called concurrently.
package past

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"heddle/store/ring"
	"heddle/subnet/wiring"
)

// Bounds.
const (
	// Bytes is the size of the ring of a manager: some 400,000 changes of single cables, or 400 of
	// everything at 11,664 hosts.
	Bytes = 32 << 20
	// MaxMoments is how many moments are known; older ones may be in the ring, and are not shown.
	MaxMoments = 20_000
	// maxDiffs is how many differences follow each other before a whole state is written, so that no
	// moment needs more to be read.
	maxDiffs = 256
)

// Moment is a time at which the wiring became another one.
type Moment struct {
	Number uint64 // of its record: it ascends, in this and all later processes
	Time   time.Time
	Gen    uint64 // of the published state
	Whole  bool   // the first of a process, or a copy: it may have no change
	// What became otherwise.
	Gone, New, Other int
	Text             string // the first of that, in words
}

// Past is what is stored.
type Past struct {
	log *ring.Ring

	mu      sync.Mutex
	moments []Moment       // oldest first; guarded by mu
	last    *wiring.Wiring // of the last moment; guarded by mu
	diffs   int            // since the last whole state; guarded by mu
	bytes   int            // of them; guarded by mu
	size    int            // of the last whole state; 0: the next one must be; guarded by mu
}

// Open reads what a ring has. Records that are damaged, and those that need them, are left out.
func Open(log *ring.Ring) (*Past, error) {
	p := &Past{log: log, last: &wiring.Wiring{}}
	var list []ring.Record
	err := log.Read(0, func(r ring.Record) bool {
		list = append(list, r)
		if len(list) >= 2*MaxMoments {
			list = append(list[:0], list[len(list)-MaxMoments:]...)
		}
		return true
	})
	if err != nil {
		return nil, err
	}
	list = list[max(0, len(list)-MaxMoments):]
	replay(list, func(r *ring.Record, c *wiring.Change, gen uint64, name func(wiring.End) string) {
		p.moments = append(p.moments, moment(r, c, gen, name))
	}, func(state *wiring.Wiring) { p.last = state })
	return p, nil
}

// replay reads records in sequence, and calls f with each that has all that it needs. Then it calls last
// with the state that the last one of them leads to. It does not make the states in between, because that
// takes a millisecond for each in a large subnet.
func replay(list []ring.Record, f func(r *ring.Record, c *wiring.Change, gen uint64, name func(wiring.End) string), last func(*wiring.Wiring)) {
	var state *wiring.Wiring // of the last whole record; nil: what follows means nothing
	var since []*wiring.Change
	number := uint64(0)
	now := func() *wiring.Wiring { return wiring.Apply(state, wiring.Compose(since)) }
	name := func(e wiring.End) string {
		for i := len(since) - 1; i >= 0; i-- {
			for k := range since[i].Nodes {
				if since[i].Nodes[k].GUID == e.GUID {
					return endName(since[i].Nodes[k].Name, e)
				}
			}
		}
		return nameOf(state, e)
	}
	end := &wiring.Wiring{}
	for i := range list {
		r := &list[i]
		c, gen, err := wiring.Decode(r.Data)
		follows := err == nil && state != nil && r.Number == number+1
		switch {
		case err == nil && wiring.Whole(r.Data):
			whole := wiring.Apply(&wiring.Wiring{}, c)
			c = &wiring.Change{} // nobody knows
			if follows {
				c = wiring.Diff(now(), whole)
			}
			state, since = whole, nil
		case follows:
			since = append(since, c)
		default:
			if state != nil {
				end = now()
			}
			state, since = nil, nil
			continue
		}
		number = r.Number
		f(r, c, gen, name)
	}
	if state != nil {
		end = now()
	}
	last(end)
}

// moment describes the change that led to a state.
func moment(r *ring.Record, c *wiring.Change, gen uint64, nameOf func(wiring.End) string) Moment {
	m := Moment{Number: r.Number, Time: r.Time, Gen: gen, Whole: wiring.Whole(r.Data)}
	text := ""
	note := func(n *int, name, what string) {
		if *n++; text == "" {
			text = name + " " + what
		}
	}
	for i := range c.Nodes {
		n := &c.Nodes[i]
		switch {
		case n.State == wiring.Gone:
			note(&m.Gone, n.Name, "gone")
		case n.State == wiring.OK:
			note(&m.New, n.Name, "is there")
		default:
			note(&m.Other, n.Name, n.State.String())
		}
	}
	for i := range c.Cables {
		k := &c.Cables[i]
		name := ""
		if text == "" {
			name = nameOf(k.A) + " to " + nameOf(k.B)
		}
		switch {
		case k.State == wiring.Gone:
			note(&m.Gone, name, "gone")
		case k.State == wiring.OK:
			note(&m.New, name, "is active")
		default:
			note(&m.Other, name, k.State.String())
		}
	}
	m.Text = text
	return m
}

func nameOf(w *wiring.Wiring, e wiring.End) string {
	if i := w.Find(e.GUID); i >= 0 {
		return endName(w.Nodes[i].Name, e)
	}
	return endName("", e)
}

func endName(name string, e wiring.End) string {
	if name == "" {
		name = e.GUID.String()
	}
	return fmt.Sprintf("%s:%d", name, e.Port)
}

// Last is the state of the last moment, which is not to be changed, and its number; 0: there is none.
func (p *Past) Last() (*wiring.Wiring, uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.moments) == 0 {
		return p.last, 0
	}
	return p.last, p.moments[len(p.moments)-1].Number
}

// Add stores a state that was published at a time, with what it remembers of the last one, if it differs
// from that. The first of a process is always stored. An error says that it is not in the ring; the next
// state makes up for it.
func (p *Past) Add(now *wiring.Wiring, gen uint64, at time.Time) (added bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	next := wiring.Carry(p.last, now, at.Unix())
	c := wiring.Diff(p.last, next)
	if c.Empty() && p.size > 0 {
		return false, nil
	}
	whole := p.size == 0 || p.diffs >= maxDiffs || p.bytes > p.size
	data := wiring.Encode(c, gen, false)
	if whole {
		data = wiring.Encode(wiring.Diff(&wiring.Wiring{}, next), gen, true)
	}
	number, err := p.log.Append(at, data)
	if err != nil {
		p.size = 0
		return false, err
	}
	p.last = next
	p.diffs, p.bytes = p.diffs+1, p.bytes+len(data)
	if whole {
		p.diffs, p.bytes, p.size = 0, 0, max(1, len(data))
	}
	if len(p.moments) >= 2*MaxMoments {
		p.moments = append([]Moment(nil), p.moments[len(p.moments)-MaxMoments:]...)
	}
	p.moments = append(p.moments, moment(&ring.Record{Number: number, Time: at, Data: data}, c, gen, func(e wiring.End) string { return nameOf(next, e) }))
	return true, nil
}

// List is the newest moments before a number (0: all), newest first, at most limit, and whether there are
// older ones.
func (p *Past) List(before uint64, limit int) (list []Moment, more bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	end := len(p.moments)
	if before > 0 {
		end, _ = slices.BinarySearchFunc(p.moments, before, func(m Moment, n uint64) int {
			switch {
			case m.Number < n:
				return -1
			case m.Number > n:
				return 1
			}
			return 0
		})
	}
	from := max(0, end-max(limit, 0))
	list = slices.Clone(p.moments[from:end])
	slices.Reverse(list)
	return list, from > 0
}

// At is the state of the moment with a number. The error says that it is not stored, or not any more.
func (p *Past) At(number uint64) (*wiring.Wiring, Moment, error) {
	p.mu.Lock()
	i := slices.IndexFunc(p.moments, func(m Moment) bool { return m.Number == number })
	from := uint64(0)
	var m Moment
	if i >= 0 {
		m = p.moments[i]
		for ; i > 0 && !p.moments[i].Whole; i-- {
		}
		from = p.moments[i].Number
	}
	p.mu.Unlock()
	if from == 0 {
		return nil, m, fmt.Errorf("no state with number %d is stored; /v1/history lists them", number)
	}
	var list []ring.Record
	if err := p.log.Read(from-1, func(r ring.Record) bool {
		if r.Number <= number {
			list = append(list, r)
		}
		return r.Number < number
	}); err != nil {
		return nil, m, err
	}
	var state *wiring.Wiring
	reached := uint64(0)
	replay(list, func(r *ring.Record, _ *wiring.Change, _ uint64, _ func(wiring.End) string) { reached = r.Number },
		func(s *wiring.Wiring) { state = s })
	if reached != number {
		return nil, m, fmt.Errorf("the state with number %d is not stored any more", number)
	}
	return state, m, nil
}
