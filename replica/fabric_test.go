package replica

import (
	"time"

	"heddle/ib"
	"heddle/mad"
)

// third is a manager of another vendor. While it is there it is the master by its priority: it
// makes itself the SM of each port that it reaches, and the two of the pair write nothing. What
// it wrote stays when it leaves.
type third struct {
	here bool
	side int // if the fabric is split: the half that it is in
	last int // grows each time
	came bool
}

// otherVendor is who is the SM of a port that the third manager wrote.
const otherVendor = 2

// thirdReaches reports whether the third manager is the master of site i's part of the fabric.
func (w *world) thirdReaches(i int) bool {
	return w.third.here && w.port[i] && (!w.split || w.third.side == i)
}

func (w *world) comeThird() {
	w.third.here, w.third.came, w.third.side = true, true, w.r.IntN(2)
	w.third.last++
	n := w.third.last
	var act func()
	act = func() {
		if !w.third.here || w.third.last != n {
			return
		}
		for i, s := range w.site {
			if w.thirdReaches(i) {
				s.sm = otherVendor
			}
		}
		w.at(100*time.Millisecond, act)
	}
	w.at(w.lag(200*time.Millisecond), act)
}

// master is the other manager that the port names, if it answers as master.
func (s *site) master() ib.GUID {
	w, o := s.w, s.other()
	switch {
	case !w.port[s.i] || w.deaf:
	case s.sm == otherVendor && w.thirdReaches(s.i):
		return otherVendor
	case s.sm == otherHeddle && w.single.reaches(w, s.i):
		return otherHeddle
	case s.sm == o.i && w.port[o.i] && !w.split && o.core != nil && !o.stop && o.drive:
		return o.core.cfg.Me
	}
	return 0
}

// fence is what the shell does for a grant: it becomes the SM of the other manager's port.
func (s *site) fence(until mad.Time) {
	w := s.w
	switch {
	case !s.drive || s.clock() >= until:
		return
	case !w.port[s.i] || w.mastered(s.i):
		s.later(50*time.Millisecond, func() { s.fence(until) })
		return
	}
	s.sm = s.i
	if w.split || !w.port[1-s.i] {
		s.step(Fenced{Unreachable: true})
		s.reach()
	} else {
		s.other().sm = s.i
		s.hearEnded(s.core.peer.Boot, s.other().core == nil)
		s.step(Fenced{})
	}
	// It goes on driving: ports that come back are told.
	s.later(300*time.Millisecond, s.sweep)
}

// askPort asks the peer's port whether a manager has it, if the answer may be that none has.
func (s *site) askPort() {
	w, boot := s.w, s.core.peer.Boot
	if s.other().core != nil {
		return
	}
	const late = 2 * time.Millisecond
	s.later(late, func() {
		none := w.port[0] && w.port[1] && !w.split && s.other().core == nil
		s.later(late, func() { s.hearEnded(boot, none) })
	})
}

// hearEnded tells the core what the peer's port said, if it said so.
func (s *site) hearEnded(boot uint64, none bool) {
	if none && boot > 0 {
		s.step(Ended{boot})
	}
}

// reach makes the manager the SM of the other one's port as soon as there is a way.
func (s *site) reach() {
	w := s.w
	switch {
	case !s.drive || s.sm == 1-s.i:
	case w.port[s.i] && !w.split && w.port[1-s.i] && !w.mastered(s.i):
		s.other().sm = s.i
	default:
		s.later(100*time.Millisecond, s.reach)
	}
}

// sweep is what a manager that drives the fabric does from time to time: it tells ports who
// their SM is, but stops if its own names the peer.
func (s *site) sweep() {
	w := s.w
	if !s.drive {
		return
	}
	if w.port[s.i] {
		switch s.sm {
		case 1 - s.i:
			w.logf("%d is challenged", s.i)
			s.step(Challenged{})
			return
		case otherVendor, otherHeddle:
			s.step(Challenged{Third: true})
			if !s.drive {
				return
			}
		}
		if !w.mastered(s.i) {
			if s.sm == s.i {
				s.looked = s.clock()
			}
			s.sm = s.i
			if o := s.other(); !w.split && w.port[1-s.i] && !(o.core != nil && o.drive) {
				o.sm = s.i
			}
		}
	}
	s.later(100*time.Millisecond, s.sweep)
}
