package repath

import (
	"heddle/mad"
	"heddle/sim/host/adapter"
	"heddle/sim/host/rc"
)

// change is a queue pair that gets another path.
type change struct {
	c       *adapter.Connection
	to      rc.Path
	began   mad.Time
	armed   mad.Time // since when both ends are armed, 0: they are not
	drains  bool
	loading bool // the peer is asked to load its alternate path
	stopped bool
}

// start begins to change a queue pair, or changes what is under way.
func (h *Handler) start(now mad.Time, c *adapter.Connection, to rc.Path) {
	m := h.byConn[c]
	if m == nil {
		m = &change{c: c}
		h.byConn[c] = m
		if len(h.moving) == 0 {
			h.looked = now
		}
		h.moving = append(h.moving, m)
	}
	m.to, m.began, m.armed = to, now, 0
	m.drains = h.back(c) || m.drains
	if m.drains {
		return // it takes the newest path when it is drained
	}
	if h.cfg.Method == ByDraining {
		h.drain(m)
		return
	}
	if m.loading || h.load(now, m) {
		return
	}
	if c.Do(func(q *rc.QP, _ rc.Time) error { return q.Rearm(to) }) != nil {
		m.stopped = true
	}
}

// load asks the peer to load an alternate path; false: that is not possible.
func (h *Handler) load(now mad.Time, m *change) bool {
	if h.LoadAlternate == nil {
		return false
	}
	to := m.to
	m.loading = true
	m.loading = h.LoadAlternate(now, m.c, to, func(now mad.Time, err error) {
		m.loading = false
		switch {
		case m.drains || m.stopped:
		case err != nil:
			h.drain(m)
		case m.to != to: // a newer notice
			h.load(now, m)
		}
	}) && m.loading
	return m.loading
}

func (h *Handler) drain(m *change) {
	m.drains = true
	if m.c.QP().State() == rc.SendQueueDrain {
		return
	}
	if m.c.Do(func(q *rc.QP, _ rc.Time) error { return q.Drain() }) != nil {
		m.stopped = true
	}
}

// follow looks at all queue pairs that change.
func (h *Handler) follow(now mad.Time) {
	h.events = h.a.TakeEvents(h.events[:0]) // what they say is seen in the states
	kept := h.moving[:0]
	for _, m := range h.moving {
		if h.advance(now, m) {
			delete(h.byConn, m.c)
			continue
		}
		kept = append(kept, m)
	}
	clear(h.moving[len(kept):])
	h.moving = kept
}

// advance takes a queue pair a step further; true: it is done.
func (h *Handler) advance(now mad.Time, m *change) bool {
	q := m.c.QP()
	if !h.here(m.c) || m.stopped || q.State() == rc.Error || q.State() == rc.Reset {
		return true
	}
	if m.drains {
		if q.Path() == m.to { // a path that was gone is back
			m.stopped = m.c.Do(func(q *rc.QP, _ rc.Time) error { return q.Resume() }) != nil
			return true
		}
		if !q.IsDrained() {
			return false
		}
		err := m.c.Do(func(q *rc.QP, _ rc.Time) error {
			if err := q.SetPath(m.to); err != nil {
				return err
			}
			return q.Resume()
		})
		if err == nil {
			h.Count.Drained++
		}
		return true
	}
	if m.loading {
		if now.Sub(m.began) >= h.cfg.ArmLimit {
			h.Count.LateArmed++
			h.drain(m)
		}
		return false
	}
	if q.Migration() != rc.StateMigrated && q.Alternate() != m.to {
		// The peer has had another one loaded meanwhile.
		m.stopped = m.c.Do(func(q *rc.QP, _ rc.Time) error { return q.Rearm(m.to) }) != nil
		m.armed = 0
		return m.stopped
	}
	switch q.Migration() {
	case rc.StateMigrated: // by us, by the peer, or by retries
		if q.Path() == m.to {
			h.Count.Migrated++
			return true
		}
		h.drain(m)
	case rc.StateArmed:
		if m.armed == 0 {
			m.armed = now
		}
		if now.Sub(m.armed) < h.cfg.Hold {
			return false
		}
		if m.c.Do(func(q *rc.QP, t rc.Time) error { return q.Migrate(t) }) == nil {
			h.Count.Migrated++
			return true
		}
		h.drain(m)
	case rc.StateRearm:
		if now.Sub(m.began) >= h.cfg.ArmLimit {
			h.Count.LateArmed++
			h.drain(m)
		}
	}
	return false
}
