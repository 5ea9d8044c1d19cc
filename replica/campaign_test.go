package replica

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"heddle/internal/need"
	"heddle/store"
	"heddle/store/journal"
)

// fault makes one thing go wrong, or right again.
func (w *world) fault() {
	s := w.site[w.r.IntN(2)]
	switch w.r.IntN(14) {
	case 0, 1:
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
		w.split = !w.split
		w.logf("split: %v", w.split)
	case 6:
		i := w.r.IntN(2)
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
	}
	w.twice = w.twice || w.split && (w.cut[Stream] || w.oneWy[Stream] != 0)
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
	w.cut, w.oneWy, w.split, w.port = [2]bool{}, [2]int{}, false, [2]bool{true, true}
	for _, s := range w.site {
		s.slow, s.fails = 0, 0
		if s.core == nil {
			s.start()
		}
		s.cont()
		s.later(time.Millisecond, func() { s.step(Port{true}) })
	}
}

// campaign runs one schedule.
func campaign(t testing.TB, seed uint64) *world {
	w := newWorld(t, seed)
	end := w.now.Add(time.Duration(10+w.r.IntN(60)) * time.Second)
	var load func()
	load = func() {
		for _, s := range w.site {
			for range w.r.IntN(3) {
				s.ask()
			}
		}
		w.check()
		if w.now < end.Add(60*time.Second) {
			w.at(w.lag(50*time.Millisecond), load)
		}
	}
	w.at(0, load)
	var faults func()
	every := []time.Duration{300 * time.Millisecond, time.Second, 3 * time.Second, 8 * time.Second}[w.r.IntN(4)]
	faults = func() {
		if w.now < end {
			w.fault()
			w.at(time.Duration(w.r.Int64N(int64(every))), faults)
		}
	}
	w.at(12*time.Second, faults)
	w.run(end)
	w.heal()
	w.run(end.Add(61 * time.Second))
	w.show()
	w.judge()
	return w
}

// check holds at any moment.
func (w *world) check() {
	if w.site[0].core == nil || w.site[1].core == nil {
		return
	}
	a, b := w.site[0].core, w.site[1].core
	if a.role == Active && b.role == Active && a.term == b.term {
		w.fail("both are active in %v", a.term)
	}
	if a.role == Active && b.role == Active && a.active.alone && b.active.alone && !w.twice && len(w.loud) == 0 {
		w.fail("entries count on each of them alone")
	}
	// A paired standby and an active manager that is alone exclude each other.
	for i, s := range w.site {
		o := s.other()
		if o.core.role == Active && o.core.active.alone && s.core.role == Standby && s.core.standby.spare(stepped(s)) {
			w.fail("%d is alone, and %d believes to be paired", 1-i, i)
		}
	}
}

// stepped is the site's core with its time.
func stepped(s *site) *Core {
	s.core.now = s.clock()
	return s.core
}

func (w *world) show() {
	for _, s := range w.site {
		c := s.core
		w.logf("%d: %v ready %v tail %v last %v disk %d(%d,%v) standby %+v mine %v active %+v peer %+v", s.i, c.role, c.ready, c.tail, c.last, len(c.disk), len(s.sync), s.busy, c.standby, s.mine, struct {
			open, joined, noted, paired bool
			sent, acked                 uint64
			met                         *Hello
		}{c.active.open, c.active.joined, c.active.noted, c.active.paired, c.active.sent, c.active.acked, c.active.met}, c.peer)
	}
}

// judge looks at the end, when nothing has failed for a minute.
func (w *world) judge() {
	var act *site
	for _, s := range w.site {
		if s.core.role == Active {
			if act != nil {
				w.fail("both are active at the end")
			}
			act = s
		}
	}
	if act == nil {
		w.fail("nobody is active at the end")
	}
	if o := act.other(); !act.core.active.paired || !o.core.standby.spare(stepped(o)) {
		w.fail("not paired at the end")
	}
	if m, n := must(act.disk.Last()), must(act.other().disk.Last()); n.Number+50 < m.Number {
		w.fail("the standby has %v, the active manager %v", n, m)
	}
	if w.now.Sub(w.last) > 3*time.Second {
		w.fail("nothing was acknowledged since %v", w.last)
	}
	w.same()
	st := must(act.disk.Load())
	have := map[string]bool{}
	for _, r := range st.Records {
		have[string(r.Key)] = true
	}
	for id, a := range w.acked {
		if have[string(key(id))] {
			continue
		}
		// Only what was acknowledged by a manager that was alone can be missing, and only
		// after a takeover that said so, or if the fabric and the stream were both in two.
		if a.alone && (len(w.loud) > 0 || w.twice) {
			continue
		}
		w.fail("change %d was acknowledged by %d at %v (alone: %v), and is gone", id, a.by, a.at, a.alone)
	}
	if len(w.acked) == 0 {
		w.fail("nothing was acknowledged")
	}
}

// same fails if the disks have different entries of the same mark, or different states of the
// same last entry.
func (w *world) same() {
	var at [2]journal.Mark
	var state [2]*store.State
	seen := map[journal.Mark]journal.Entry{}
	for i, s := range w.site {
		state[i], at[i], _ = s.disk.Contents()
		list, _ := s.disk.Entries(at[i].Number, 1<<30)
		for n := uint64(1); n < at[i].Number; n++ {
			if l, err := s.disk.Entries(n, 1<<30); err == nil {
				list = l
				break
			}
		}
		for _, e := range list {
			if o, ok := seen[e.Mark]; ok && !reflect.DeepEqual(o, e) {
				w.fail("%v is %+v on one disk and %+v on the other", e.Mark, o, e)
			}
			seen[e.Mark] = e
		}
	}
	if at[0] == at[1] && !reflect.DeepEqual(state[0], state[1]) {
		w.fail("at %v the states differ: %v and %v", at[0], state[0], state[1])
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// TestPair runs schedules of faults. No change that was acknowledged is lost, but where the
// rules say so; both managers are a pair again at the end.
func TestPair(t *testing.T) {
	for _, seed := range need.Seeds(300, 20_000) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { campaign(t, seed) })
	}
}
