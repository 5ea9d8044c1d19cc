package rds

import (
	"math/rand/v2"
	"testing"
	"time"

	"heddle/mad"
)

// side is an end with a wire to another in virtual time.
type side struct {
	*Conn
	peer  *side
	w     *pair
	tries []mad.Time
	ups   int
	mute  bool // requests to it are lost
}

// pair is two ends: a path takes query, a message hop.
type pair struct {
	t          *testing.T
	now        mad.Time
	events     []event
	query, hop time.Duration
	a, b       *side
}

type event struct {
	at mad.Time
	do func()
}

func newPair(t *testing.T, cfg Config, seed uint64) *pair {
	w := &pair{t: t, query: 2 * time.Millisecond, hop: 20 * time.Microsecond}
	w.a, w.b = &side{w: w}, &side{w: w}
	w.a.peer, w.b.peer = w.b, w.a
	w.a.Conn = New(cfg, rand.New(rand.NewPCG(seed, 1)), w.a)
	w.b.Conn = New(cfg, rand.New(rand.NewPCG(seed, 2)), w.b)
	return w
}

func (w *pair) after(d time.Duration, do func()) {
	w.events = append(w.events, event{w.now.Add(d), do})
}

// run runs until a time.
func (w *pair) run(until mad.Time) {
	for {
		next, k := min(w.a.NextTimer(), w.b.NextTimer()), -1
		for i := range w.events {
			if w.events[i].at < next {
				next, k = w.events[i].at, i
			}
		}
		if next > until {
			w.now = until
			return
		}
		w.now = next
		if k >= 0 {
			do := w.events[k].do
			w.events = append(w.events[:k], w.events[k+1:]...)
			do()
			continue
		}
		w.a.Expire(w.now)
		w.b.Expire(w.now)
	}
}

func (s *side) Resolve(now mad.Time, try uint64) {
	s.tries = append(s.tries, now)
	s.w.after(s.w.query, func() { s.Resolved(s.w.now, try, true) })
}

func (s *side) Request(_ mad.Time, try uint64) {
	if s.peer.mute {
		return
	}
	s.w.after(s.w.hop, func() {
		ok := s.peer.Incoming(s.w.now)
		s.w.after(s.w.hop, func() {
			s.Ended(s.w.now, try, ok)
			if ok {
				s.w.after(s.w.hop, func() { s.peer.Established(s.w.now) })
			}
		})
	})
}

func (s *side) Drop(mad.Time) {}

func (s *side) Changed(_ mad.Time, st State) {
	if st == Up {
		s.ups++
	}
}

// TestDelays: the first try is made at once, later ones after delays whose limit doubles
// from a millisecond to a second: ten tries take a quarter of a second, then two are made a
// second.
func TestDelays(t *testing.T) {
	const runs = 200
	ten, rate := 0.0, 0.0
	for seed := range uint64(runs) {
		var gaps []time.Duration
		c := New(Defaults(), rand.New(rand.NewPCG(seed, 0)), &never{})
		now := mad.Time(0)
		c.Start(now)
		if c.NextTimer() != 0 {
			t.Fatalf("the first try is due at %v", c.NextTimer())
		}
		last := now
		for range 100 {
			for c.State() != Resolving {
				now = c.NextTimer()
				c.Expire(now)
			}
			gaps = append(gaps, now.Sub(last))
			last = now
			c.Expire(now)
			c.Resolved(now, c.try, false)
		}
		limit := time.Millisecond
		for i, g := range gaps[1:] {
			if g < 0 || g >= limit {
				t.Fatalf("seed %d: delay %d is %v, limit %v", seed, i+1, g, limit)
			}
			limit = min(2*limit, time.Second)
		}
		sum := time.Duration(0)
		for _, g := range gaps[:10] {
			sum += g
		}
		ten += sum.Seconds() / runs
		for _, g := range gaps[20:] {
			rate += g.Seconds() / 80 / runs
		}
	}
	if ten < 0.2 || ten > 0.35 {
		t.Errorf("ten tries take %.3g s in the mean, want a quarter of a second", ten)
	}
	if rate < 0.48 || rate > 0.52 {
		t.Errorf("a try each %.3g s, want half a second", rate)
	}
}

// never is for a Conn that is driven by hand.
type never struct{}

func (*never) Resolve(mad.Time, uint64) {}
func (*never) Request(mad.Time, uint64) {}
func (*never) Drop(mad.Time)            {}
func (*never) Changed(mad.Time, State)  {}

// TestCrossing: two ends that begin at the same time refuse each other until one draws a
// delay that is longer than a try of the other, and then both are up.
func TestCrossing(t *testing.T) {
	cfg := Defaults()
	cfg.Setup, cfg.Teardown = 2*time.Millisecond, 10*time.Millisecond
	refused := 0
	for seed := range uint64(300) {
		w := newPair(t, cfg, seed)
		w.a.Start(0)
		w.b.Start(0)
		w.run(mad.Time(10 * time.Second))
		if w.a.State() != Up || w.b.State() != Up || w.a.ups != 1 || w.b.ups != 1 {
			t.Fatalf("seed %d: %v and %v", seed, w.a.State(), w.b.State())
		}
		refused += w.a.Refused + w.b.Refused
		if w.a.Refused == 0 && w.b.Refused == 0 {
			t.Errorf("seed %d: nothing crossed", seed)
		}
		n := len(w.a.tries)
		w.a.Broken(w.now)
		w.b.Broken(w.now)
		w.run(w.now.Add(10 * time.Second))
		if w.a.State() != Up || w.b.State() != Up {
			t.Fatalf("seed %d: %v and %v after a break", seed, w.a.State(), w.b.State())
		}
		if len(w.a.tries) > n && w.a.tries[n].Sub(mad.Time(10*time.Second)) > cfg.Setup+cfg.Teardown+time.Nanosecond {
			t.Errorf("seed %d: the first try after a break comes %v later", seed, w.a.tries[n].Sub(mad.Time(10*time.Second)))
		}
	}
	if refused < 600 {
		t.Errorf("%d requests refused in 300 runs", refused)
	}
}

// TestOutstanding: an end whose request is not answered refuses its peer until the request
// ends, as in Figure 5 of the paper.
func TestOutstanding(t *testing.T) {
	w := newPair(t, Defaults(), 1)
	w.b.mute = true
	w.a.Start(0)
	w.run(mad.Time(time.Second))
	if w.a.State() != Connecting {
		t.Fatalf("%v", w.a.State())
	}
	w.b.Start(w.now)
	w.run(mad.Time(60 * time.Second))
	if n := len(w.b.tries); n < 90 || n > 150 || w.b.State() == Up || w.a.Refused != n {
		t.Errorf("%d tries, %d refused, %v", n, w.a.Refused, w.b.State())
	}
	w.a.Ended(w.now, w.a.try, false) // its time-out
	w.b.mute = false
	w.run(w.now.Add(3 * time.Second))
	if w.a.State() != Up || w.b.State() != Up {
		t.Errorf("%v and %v", w.a.State(), w.b.State())
	}
}

// TestLate: what comes of an old try changes nothing; a request to an end that is up means
// that its peer began anew.
func TestLate(t *testing.T) {
	c := New(Defaults(), rand.New(rand.NewPCG(1, 1)), &never{})
	c.Start(0)
	c.Expire(0)
	c.Expire(0)
	old := c.try
	c.Broken(1)
	c.Resolved(2, old, true)
	c.Ended(2, old, true)
	if c.State() != Closing {
		t.Fatalf("%v", c.State())
	}
	c.Expire(c.NextTimer())
	if !c.Incoming(3) || c.State() != Connecting || c.Incoming(3) {
		t.Fatalf("%v", c.State())
	}
	c.Ended(4, old, false)
	c.Established(5)
	if c.State() != Up || c.NextTimer() != mad.Never {
		t.Fatalf("%v", c.State())
	}
	if c.Incoming(6) || c.State() != Closing {
		t.Errorf("%v after a request of a peer that began anew", c.State())
	}
}
