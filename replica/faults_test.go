package replica

import (
	"errors"
	"time"
)

var (
	errFull = errors.New("no space left on device")
	errIO   = errors.New("input/output error")
)

// fault makes one thing go wrong, or right again.
func (w *world) fault() { w.faultOf(-1) }

// faultOf makes one of a kind; -1: any.
func (w *world) faultOf(kind int) {
	s := w.site[w.r.IntN(2)]
	i := w.r.IntN(2)
	if kind < 0 {
		kind = w.r.IntN(22)
	}
	switch kind {
	case 0, 1:
		if s == w.spared {
			s = s.other()
		}
		if s.core != nil {
			s.crash()
		} else {
			s.start()
		}
	case 2:
		if s.core != nil && !s.stop {
			w.logf("%d is stopped", s.i)
			s.stop = true
		} else {
			s.cont()
		}
	case 3:
		w.cut[Stream] = !w.cut[Stream]
		w.logf("stream cut: %v", w.cut[Stream])
		if w.cut[Stream] {
			w.breakAll(w.r.IntN(2) == 0)
		}
	case 4:
		w.cut[Fabric] = !w.cut[Fabric]
		w.logf("in band cut: %v", w.cut[Fabric])
	case 5:
		w.split = !w.split && !w.whole
		w.logf("split: %v", w.split)
	case 6:
		w.port[i] = !w.port[i]
		w.logf("port of %d: %v", i, w.port[i])
		s := w.site[i]
		if s.core != nil {
			up := w.port[i]
			s.later(w.lag(10*time.Millisecond), func() { s.step(Port{up}) })
		}
	case 7:
		if s.slow == 0 {
			s.slow = time.Duration(w.r.IntN(2000)) * time.Millisecond
		} else {
			s.slow = 0
		}
		w.logf("disk of %d: + %v", s.i, s.slow)
	case 8:
		s.fails = w.r.IntN(4)
		w.logf("disk of %d fails %d times", s.i, s.fails)
	case 9:
		w.oneWy[Stream] = w.r.IntN(3)
		w.logf("stream one way: %d", w.oneWy[Stream])
	case 10:
		w.oneWy[Fabric] = w.r.IntN(3)
		w.logf("in band one way: %d", w.oneWy[Fabric])
	case 11:
		if s.core != nil && !s.stop {
			w.logf("%d: handover", s.i)
			s.step(Handover{})
		}
	case 12:
		w.logf("streams break")
		w.breakAll(w.r.IntN(2) == 0)
	case 13:
		w.heal()
	case 14:
		s.full = !s.full
		w.logf("disk of %d full: %v", s.i, s.full)
	case 15:
		s.wall += time.Duration(w.r.IntN(7201)-3600) * time.Second
		w.logf("wall clock of %d: %v", s.i, s.wall)
	case 16, 17:
		if w.third.here {
			w.third.here = false
		} else {
			w.comeThird()
		}
		w.logf("third manager: %v", w.third.here)
	case 18:
		w.loss[s.i][i] = w.r.IntN(101)
		w.logf("%d %% of the signs of %d on channel %d are lost", w.loss[s.i][i], s.i, i)
	case 19:
		if w.r.IntN(2) == 0 {
			w.logf("no power")
			for _, s := range w.site {
				if s.core != nil && s != w.spared {
					s.crash()
				}
			}
		} else if s.core != nil && !s.stop && !w.whole && w.r.IntN(4) == 0 {
			w.logf("%d: takeover", s.i)
			s.step(Takeover{})
		}
	case 21:
		if w.single.here {
			w.single.here = false
		} else {
			w.comeSingle()
		}
		w.logf("single manager: %v", w.single.here)
	case 20:
		w.deaf = !w.deaf
		w.logf("SMInfo is lost: %v", w.deaf)
	}
	w.fork()
}

func (s *site) cont() {
	if s.core == nil || !s.stop {
		return
	}
	s.w.logf("%d goes on", s.i)
	s.stop = false
	held := s.held
	s.held = nil
	for _, f := range held {
		s.later(0, f)
	}
}

func (w *world) heal() {
	w.logf("healed")
	w.deaf = false
	w.cut, w.oneWy, w.split, w.port, w.loss = [2]bool{}, [2]int{}, false, [2]bool{true, true}, [2][2]int{}
	w.third.here, w.single.here = false, false
	for _, s := range w.site {
		s.slow, s.fails, s.full = 0, 0, false
		if s.core == nil {
			s.start()
		}
		s.cont()
		s.later(time.Millisecond, func() { s.step(Port{true}) })
	}
}
