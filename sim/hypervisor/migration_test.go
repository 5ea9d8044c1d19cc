package hypervisor

import (
	"errors"
	"testing"
	"time"

	"heddle/sim/dataplane"
	"heddle/sim/host/adapter"
	"heddle/sim/host/program"
	"heddle/sim/host/rc"
	"heddle/sim/hypervisor/suspend"
)

var (
	options = adapter.Options{MTU: 2048, Window: 64, AckEvery: 16}
	sender  = rc.Sender{Timeout: 12, Retries: 7, RNRRetries: 7}
	steady  = program.Stream{Bytes: 2048, Depth: 8, Gap: 50 * dataplane.Microsecond}
)

// ended runs until a migration is done.
func ended(t testing.TB, s *star, g *Migration) {
	t.Helper()
	for range 2000 {
		if g.Done() {
			return
		}
		s.run(time.Millisecond / 2)
	}
	t.Fatalf("no end: %+v", g.Marks())
}

// TestThreeStages: while a machine with two connections is away the kernel's table is
// empty and both peers are in RESET; then each program's number stands for another, at
// the other LID, with other keys. Each connection takes five messages.
func TestThreeStages(t *testing.T) {
	s := newStar(t, 4)
	m := s.machine(ThreeStages, 0)
	m.connect(2, true, options, sender, steady)
	m.connect(3, false, options, sender, steady)
	s.run(2 * time.Millisecond)
	var was []suspend.Pair
	was = append(was, m.session.Table().Live()...)
	before := map[uint32]suspend.Attributes{}
	for _, p := range was {
		before[p.QPN], _ = m.session.Maps(p.QPN)
	}
	g := m.migrate(1, quick(ThreeStages, true, 1), options, sender)
	seen := false
	for !g.Done() {
		s.run(time.Millisecond / 4)
		if g.phase >= detaching && g.phase <= attaching && g.phase != copying && !seen {
			seen = true
			if n := len(m.session.Table().Live()); n != 0 {
				t.Errorf("%d pairs in the table of a machine without a function", n)
			}
			for _, x := range m.ends {
				if x.theirs.QP().State() != rc.Reset || !x.mine.Away() {
					t.Errorf("the peer is in %v, our end away: %v", x.theirs.QP().State(), x.mine.Away())
				}
			}
		}
	}
	if !seen || g.Err() != nil || len(was) != 2 {
		t.Fatalf("%v, %+v", g.Err(), g.Marks())
	}
	if n := m.session.Messages(); n != 10 {
		t.Errorf("%d messages", n)
	}
	for i, p := range was {
		a, ok := m.session.Maps(p.QPN)
		b := before[p.QPN]
		if !ok || a.LID != s.hosts[1].LID() || a.LID == b.LID || a.RKey == b.RKey || a.LKey == b.LKey || a.QPN != m.ends[i].mine.QPN() {
			t.Errorf("%d stands for %+v, before %+v", p.QPN, a, b)
		}
	}
	for _, x := range m.ends {
		x.Stop()
	}
	s.run(100 * time.Millisecond)
	m.check()
}

// TestLateDetach: the function is away for detach, stop-and-copy and attach with late
// detach, and for pre-copy too without.
func TestLateDetach(t *testing.T) {
	for _, way := range []Way{ThreeStages, VSwitch} {
		var away [2]time.Duration
		for i, late := range []bool{false, true} {
			s := newStar(t, 3)
			m := s.machine(way, 0)
			m.connect(2, true, options, rc.Sender{Timeout: 14, Retries: 7}, steady)
			c := quick(way, late, 1)
			c.Cost.Rate = Published().Rate
			g := m.migrate(1, c, options, sender)
			ended(t, s, g)
			if g.Err() != nil {
				t.Fatal(g.Err())
			}
			away[i] = g.Away()
			r := g.Copy().Rounds()
			stop := r[len(r)-1].End - r[len(r)-1].Begin
			want := c.Cost.Detach + stop + c.Cost.Attach
			if !late {
				want += r[len(r)-2].End - r[0].Begin
			}
			// Each step begins when the hypervisor looks, and the manager takes a moment.
			if d := away[i] - want; d < 0 || d > 5*time.Millisecond/2 {
				t.Errorf("%v, late %v: away for %v, its parts are %v", way, late, away[i], want)
			}
		}
		if away[1] > away[0]*6/10 {
			t.Errorf("%v: away for %v, late %v", way, away[0], away[1])
		}
	}
}

// TestFirmwareSaves: without hot plug a machine is away for what it stands still.
func TestFirmwareSaves(t *testing.T) {
	s := newStar(t, 3)
	m := s.machine(Firmware, 0)
	m.connect(2, true, options, sender, steady)
	c := quick(Firmware, false, 1)
	g := m.migrate(1, c, options, sender)
	ended(t, s, g)
	if least := c.Cost.Save + c.Cost.Load; g.Err() != nil || g.Away() < least || g.Away() > least+6*time.Millisecond {
		t.Errorf("%v, away for %v", g.Err(), g.Away())
	}
}

// TestOutlasts: a connection whose peers do nothing ends if its path is away for longer
// than time-out × retries, and survives if it is shorter: a sender that sends all the
// time, for each of some time-outs and retries.
func TestOutlasts(t *testing.T) {
	if got := Outlasts(18, 7); got != 7*4096*time.Nanosecond<<18 || got < 7500*time.Millisecond {
		t.Errorf("%v", got)
	}
	for _, c := range []struct{ timeout, retries uint8 }{{10, 1}, {10, 7}, {12, 3}, {14, 7}} {
		for _, part := range []float64{0.5, 0.97, 1.03, 2} {
			s := newStar(t, 3)
			m := s.machine(VSwitch, 0)
			m.connect(2, true, options, rc.Sender{Timeout: c.timeout, Retries: c.retries}, program.Stream{Bytes: 2048, Depth: 2})
			s.run(time.Millisecond)
			limit := Outlasts(c.timeout, c.retries)
			delete(m.owns, m.lid)
			s.run(time.Duration(part * float64(limit)))
			m.owns[m.lid] = 0
			m.ends[0].Stop()
			s.run(2*limit + 10*time.Millisecond)
			st, _ := m.ends[0].Failed()
			if survived := st == rc.Success; survived != (part < 1) {
				t.Errorf("time-out %d, %d retries: away for %v of %v, %v", c.timeout, c.retries, part, limit, st)
			}
			if err := m.ends[0].sink.Check(m.ends[0].Stream); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestRefused: a migration that the manager refuses changes nothing; one that it rolls
// back, or whose memory does not get through, has the machine go on where it was.
func TestRefused(t *testing.T) {
	for _, way := range Ways() {
		for _, what := range []string{"refuse", "settle", "carrier"} {
			s := newStar(t, 4)
			m := s.machine(way, 0)
			m.connect(3, true, options, rc.Sender{Timeout: 14, Retries: 7}, steady)
			m.faults = &faults{refuse: what == "refuse", settle: what == "settle"}
			c := quick(way, false, 1)
			c.Cost.Rate = 250e6
			g := m.migrate(1, c, options, sender)
			if what == "carrier" {
				s.after(8*time.Millisecond, func() { m.out.Destroy() })
			}
			ended(t, s, g)
			want := errTest
			if what == "carrier" {
				want = ErrCarrier
			}
			if !errors.Is(g.Err(), want) || m.at != 0 {
				t.Errorf("%v, %s: %v, at %d", way, what, g.Err(), m.at)
			}
			s.run(50 * time.Millisecond)
			m.ends[0].Stop()
			s.run(time.Second)
			m.check()
		}
	}
}

// TestBadConfig: what cannot be.
func TestBadConfig(t *testing.T) {
	s := newStar(t, 2)
	m := s.machine(VPort, 0)
	for i, change := range []func(*Config){
		func(c *Config) { c.Way = 0 },
		func(c *Config) { c.Way = Firmware + 1 },
		func(c *Config) { c.Cost.Tick = 0 },
		func(c *Config) { c.Copy.Page = 0 },
	} {
		c := quick(VPort, true, 1)
		change(&c)
		if _, err := New(c, m); err == nil {
			t.Errorf("%d is accepted", i)
		}
	}
}
