package replica

import (
	"reflect"
	"strconv"
	"time"

	"heddle/mad"
	"heddle/store"
	"heddle/store/journal"
)

// soon is the bound within which, after the last fault, one manager is active and the two are
// a pair: Config.Stale, two clocks that differ by 10 %, and what a copy takes.
const soon = 14 * time.Second

// fork notes whether two histories are possible: the fabric is in two halves, and the stream
// does not work both ways. This is the price of two managers without a third vote.
func (w *world) fork() {
	now := w.split && (w.cut[Stream] || w.oneWy[Stream] != 0)
	if now || w.forked {
		w.forkEnd = w.now
	}
	w.forked = now
}

// maybeFork reports whether two histories are possible now, or were a moment ago, so that one of
// the managers may not know yet. A sign takes longer than Config.Every if some are late.
func (w *world) maybeFork() bool {
	return w.forked || w.forkEnd > 0 && w.now.Sub(w.forkEnd) < time.Second
}

// check holds at any moment.
func (w *world) check() {
	a, b := w.site[0], w.site[1]
	if both := a.isAlone() && b.isAlone(); !both {
		w.both = false
	} else if !w.both {
		// Entries count on each of them alone, or will when it starts. A takeover that said that
		// entries may be missing does this too: the other one may not know of it.
		// A slow disk may write this when the fork has ended and the manager is alone no more (seeds
		// 12801 and 13688). It went alone while two histories were possible, which is their price.
		if !w.maybeFork() && w.begun == 0 && !a.forked && !b.forked {
			w.fail("entries count on each of them alone")
		}
		w.both = true
	}
	if a.core == nil || b.core == nil {
		w.healthy = mad.Never
		return
	}
	if a.core.role == Active && b.core.role == Active && a.core.term == b.core.term {
		w.fail("both are active in %v", a.core.term)
	}
	healthy := false
	for _, s := range w.site {
		o := s.other()
		if o.core.role != Active {
			continue
		}
		spare := s.core.role == Standby && s.core.standby.spare(stepped(s))
		// A paired standby and an active manager that is alone exclude each other.
		if o.core.active.alone && spare {
			w.fail("%d is alone, and %d believes to be paired", 1-s.i, s.i)
		}
		healthy = healthy || o.core.active.paired && spare
	}
	if !healthy {
		w.healthy = mad.Never
	} else if w.healthy == mad.Never {
		w.healthy = w.now
	}
}

// unheard reports whether entries count, or counted, in a newer term of the other manager, of which
// a site has not heard: no rule lets it hear of that without a sign (seed 6238: the other one said
// that entries may be missing, in its half of the fabric, and its signs are still lost when the
// halves meet). Of two histories that of the newer term stays. A term in which nothing counts is no
// excuse: its manager gives way.
func (w *world) unheard(s *site) bool { return s.other().began.Compare(s.core.term) > 0 }

// isAlone reports whether entries count on this manager alone, or may when it starts.
func (s *site) isAlone() bool {
	return s.alone || s.core != nil && s.core.role == Active && s.core.active.alone
}

// stepped is the site's core with its time.
func stepped(s *site) *Core {
	s.core.now = s.clock()
	return s.core
}

// granted looks at a manager that became active, when it may begin to append.
func (s *site) granted(g *Grant) {
	w := s.w
	s.looked, s.unproved = 0, false
	if w.history != nil {
		w.history.load(s, must(s.disk.Load()))
	}
	if g.Stale {
		w.loud = append(w.loud, w.now)
		return
	}
	// It does not say that it may lack entries, so it has all that count. Nothing counts on one
	// that waits until the other manager, as standby, knows its term. If that one has a newer
	// term it never does, and this one is standby again when it hears of that.
	s.unproved = s.core.active.waits
	if !s.unproved {
		w.complete(s)
	}
}

// proved looks at a manager that waited, when it acknowledges something.
func (s *site) proved() {
	if s.unproved {
		s.unproved = false
		s.w.complete(s)
	}
}

// replaced looks at a copy of the other manager's state that comes in the place of this one's:
// what was acknowledged goes into a fork file, and none is made for entries of which nobody was
// told. It may have only what both managers have: if this one was alone and crashed, it does not
// know what the other one copied before.
func (s *site) replaced(c *Replace) {
	w := s.w
	now := map[string]bool{}
	for _, r := range c.State.Records {
		now[string(r.Key)] = true
	}
	for _, r := range must(s.disk.Load()).Records {
		id, err := strconv.ParseUint(string(r.Key), 10, 64)
		if err != nil || r.Table != store.TableServices || now[string(r.Key)] {
			continue // a register of a world with a history
		}
		if _, ok := w.acked[id]; ok && (!c.Counted || w.number[string(r.Key)] <= c.Fork) {
			w.fail("change %d was acknowledged, and goes from the disk of %d without a fork file", id, s.i)
		}
	}
	if !c.Counted || must(s.disk.Last()).Number <= c.Fork {
		return
	}
	w.forks++
	if w.soak != nil {
		return // it knows changes by their keys
	}
	for id, a := range w.acked {
		if a.by == s.i && a.alone && w.number[string(key(id))] > c.Fork {
			return
		}
	}
	if s.solo > 0 && s.life > s.solo {
		return // it started anew, and does not know
	}
	w.fail("%d makes a fork file, and told nobody of an entry after %d", s.i, c.Fork)
}

// complete fails if a site lacks a change that counts.
func (w *world) complete(s *site) {
	if w.soak != nil {
		w.soak.complete(s)
		return
	}
	st := must(s.disk.Load())
	have := map[string]bool{}
	for _, r := range st.Records {
		have[string(r.Key)] = true
	}
	for id, a := range w.acked {
		if have[string(key(id))] {
			continue
		}
		// Only what was acknowledged by a manager that was alone can be missing: one of two
		// histories, or before a takeover that said so.
		if a.alone && (a.fork || len(w.loud) > 0 && w.loud[len(w.loud)-1] >= a.at) {
			continue
		}
		w.fail("change %d was acknowledged by %d at %v (alone: %v), and is gone", id, a.by, a.at, a.alone)
	}
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

// judge looks at the end, when nothing has failed since a time.
func (w *world) judge(since mad.Time) {
	w.t.Helper()
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
	if w.healthy > since.Add(soon) {
		w.fail("they are a pair since %v, and the last fault ended at %v", w.healthy, since)
	}
	if m, n := must(act.disk.Last()), must(act.other().disk.Last()); n.Number+50 < m.Number {
		w.fail("the standby has %v, the active manager %v", n, m)
	}
	if w.now.Sub(w.last) > 3*time.Second {
		w.fail("nothing was acknowledged since %v", w.last)
	}
	if len(w.acked) == 0 {
		w.fail("nothing was acknowledged")
	}
	w.same()
	w.complete(act)
	w.single.own(w)
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
