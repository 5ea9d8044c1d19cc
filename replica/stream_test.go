package replica

import "time"

func (s *site) dial() {
	s.later(s.w.lag(100*time.Millisecond)+20*time.Millisecond, func() {
		if s.mine == nil && s.core.Role() == Standby && s.other().core != nil && !s.w.cut[Stream] && s.w.oneWy[Stream] == 0 {
			m := &stream{from: s, to: s.other(), fromLife: s.life, toLife: s.other().life, open: true}
			s.mine = m
			m.to.later(s.w.lag(2*time.Millisecond), func() {
				if m.open {
					m.to.opened(m)
					s.later(s.w.lag(2*time.Millisecond), func() {
						if m.open {
							s.step(Opened{Mine: true})
						}
					})
				}
			})
		}
		s.dial()
	})
}

// opened tells the core of the other site's new stream. Like the shell, it tells of the end of the
// old one first, and the core's messages go on the old one until then, if it has not ended.
func (s *site) opened(m *stream) {
	s.ended(s.theirs)
	s.theirs = m
	s.step(Opened{Mine: false})
}

// ended tells the core that the other site's stream has ended, if it does not know.
func (s *site) ended(m *stream) {
	if m != nil && s.theirs == m {
		s.theirs = nil
		s.step(Closed{Mine: false})
		s.askPort()
	}
}

// breakStream ends a stream. Who is told: told, or after a time-out.
func (w *world) breakStream(m *stream, told bool) {
	if !m.open {
		return
	}
	m.open = false
	d := w.lag(5 * time.Millisecond)
	if !told {
		d = 300 * time.Millisecond
	}
	from, to := m.from, m.to
	if from.core != nil && from.life == m.fromLife {
		from.later(d, func() {
			if from.mine == m {
				from.mine = nil
				from.step(Closed{Mine: true})
				from.askPort()
			}
		})
	} else if from.mine == m {
		from.mine = nil
	}
	if to.core != nil && to.life == m.toLife {
		to.later(d, func() { to.ended(m) })
	}
}

func (w *world) breakAll(told bool) {
	for _, x := range w.site {
		if x.mine != nil {
			w.breakStream(x.mine, told)
		}
	}
}

func (s *site) send(msg Message) {
	w := s.w
	m, to := s.mine, s.other()
	mine := true
	switch msg.(type) {
	case Entries, Snapshot, Pair, Over:
		m, mine = s.theirs, false
	case Refused:
		if m == nil {
			m, mine = s.theirs, false
		}
	}
	if m == nil || !m.open {
		return
	}
	if !w.carries(s.i, Stream) {
		w.at(2*time.Second, func() { w.breakStream(m, true) }) // TCP_USER_TIMEOUT
		return
	}
	last := &m.last
	if !mine {
		last = &m.back
	}
	*last = max(*last+1, w.now.Add(w.lag(2*time.Millisecond)))
	at := *last
	to.later(at.Sub(w.now), func() {
		if mine && to.theirs == m || !mine && to.mine == m { // what was sent before the end arrives
			to.step(Received{msg})
		}
	})
}
