package hypervisor

import (
	"errors"
	"testing"
	"time"

	"heddle/sim/host/adapter"
	"heddle/sim/host/rc"
)

// TestDeadConnection: a connection that has ended by itself holds up neither the
// migration nor the others.
func TestDeadConnection(t *testing.T) {
	for _, mine := range []bool{false, true} {
		s := newStar(t, 4)
		m := s.machine(ThreeStages, 0)
		m.connect(2, true, options, sender, steady)
		m.connect(3, false, options, sender, steady)
		s.run(2 * time.Millisecond)
		c := m.ends[0].theirs
		if mine {
			c = m.ends[0].mine
		}
		must(t, c.Do(func(q *rc.QP, _ adapter.Time) error { q.Fail(); return nil }))
		g := m.migrate(1, quick(ThreeStages, true, 1), options, sender)
		ended(t, s, g)
		if g.Err() != nil || m.at != 1 || m.session.Err() == nil {
			t.Errorf("%v, at %d, session: %v", g.Err(), m.at, m.session.Err())
		}
		m.ends[1].Stop()
		s.run(500 * time.Millisecond)
		m.ends = m.ends[1:]
		m.check()
	}
}

// TestCannotSuspend: the peer's cable fails, so a connection cannot finish within the
// limit: the machine stays, and with the cable back everything goes on, whichever way
// the messages go and wherever the other peer is.
func TestCannotSuspend(t *testing.T) {
	for _, out := range []bool{false, true} {
		for _, before := range []time.Duration{0, 1600 * time.Microsecond, 1900 * time.Microsecond} {
			s := newStar(t, 4)
			m := s.machine(ThreeStages, 0)
			r := rc.Sender{Timeout: 16, Retries: 7, RNRRetries: 7}
			m.connect(2, out, options, r, steady)
			m.connect(3, true, options, r, steady)
			m.connect(3, false, options, r, steady)
			s.run(2 * time.Millisecond)
			c := quick(ThreeStages, true, 1)
			c.Limit = 50 * time.Millisecond
			g := m.migrate(1, c, options, sender)
			s.after(before, func() { s.e.CutLink(s.cable[2]) })
			ended(t, s, g)
			if before < time.Millisecond && (!errors.Is(g.Err(), ErrSuspend) || m.at != 0) {
				t.Errorf("%v, at %d: %+v", g.Err(), m.at, g.Marks())
			}
			s.e.RestoreLink(s.cable[2])
			s.run(100 * time.Millisecond)
			for _, x := range m.ends {
				x.Stop()
			}
			s.run(3 * time.Second)
			m.check()
		}
	}
}
