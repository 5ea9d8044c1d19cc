package replica

import (
	"fmt"
	"testing"
	"time"

	"heddle/mad"
	"heddle/store"
	"heddle/store/journal"
)

// pair returns two managers that are a pair since some seconds, with changes all the time, and
// the active one.
func pair(t *testing.T, seed uint64) (*world, *site) {
	t.Helper()
	w := newWorld(t, seed)
	w.quiet = true
	var load func()
	load = func() {
		for _, s := range w.site {
			s.ask()
		}
		w.check()
		w.at(20*time.Millisecond, load)
	}
	w.at(0, load)
	w.run(w.now.Add(15 * time.Second))
	for _, s := range w.site {
		if s.core.role == Active {
			if !s.core.active.paired || !s.other().core.standby.spare(stepped(s.other())) {
				w.fail("they are no pair")
			}
			w.turns = nil
			return w, s
		}
	}
	w.fail("nobody is active")
	return nil, nil
}

// firstAck is when the first change was acknowledged by a site after a time.
func (w *world) firstAck(after mad.Time, by int) (mad.Time, bool) {
	first, ok := mad.Never, false
	for _, a := range w.acked {
		if a.by == by && a.at > after && a.at < first {
			first, ok = a.at, true
		}
	}
	return first, ok
}

// TestFailures is what single failures do to a pair: who is active then, and how long changes
// wait at most.
func TestFailures(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		name  string
		do    func(w *world, a *site)
		other bool          // the standby takes over
		why   Why           // it does
		take  time.Duration // until then, at most
		ack   time.Duration // until a change is acknowledged again, at most
		alone bool          // entries count on one manager afterward
	}{
		{"the active process dies", func(w *world, a *site) { a.crash() }, true, WhySilence, 350 * ms, 500 * ms, true},
		{"the active host loses power", func(w *world, a *site) {
			a.life++
			a.core, a.drive = nil, false
			w.cut[Stream] = true
		}, true, WhySilence, 550 * ms, 2500 * ms, true},
		{"the standby dies", func(w *world, a *site) { a.other().crash() }, false, 0, 0, 500 * ms, true},
		{"Ethernet is cut", func(w *world, a *site) {
			w.cut[Stream] = true
			w.breakAll(false)
		}, false, 0, 0, 800 * ms, true},
		{"in band is cut", func(w *world, a *site) { w.cut[Fabric] = true }, false, 0, 0, 50 * ms, false},
		{"the active manager's port dies", func(w *world, a *site) {
			w.port[a.i] = false
			a.later(0, func() { a.step(Port{false}) })
		}, true, WhyHandover, 100 * ms, 500 * ms, false},
		{"the standby's port dies", func(w *world, a *site) {
			w.port[1-a.i] = false
			o := a.other()
			o.later(0, func() { o.step(Port{false}) })
		}, false, 0, 0, 50 * ms, false},
		{"the active manager is stopped", func(w *world, a *site) { a.stop = true }, true, WhySilence, 600 * ms, 1500 * ms, true},
		{"the standby is stopped", func(w *world, a *site) { a.other().stop = true }, false, 0, 0, 2300 * ms, true},
		{"the standby's disk stalls", func(w *world, a *site) { a.other().slow = 5 * time.Second }, false, 0, 0, 800 * ms, true},
		{"the standby's disk is full", func(w *world, a *site) { a.other().full = true }, false, 0, 0, 100 * ms, true},
		{"the active manager's disk is full", func(w *world, a *site) { a.full = true }, true, WhyHandover, 100 * ms, 500 * ms, true},
		{"the active manager's disk stalls", func(w *world, a *site) { a.slow = 5 * time.Second }, true, WhyHandover, 1200 * ms, 2500 * ms, true},
		{"handover", func(w *world, a *site) { a.step(Handover{}) }, true, WhyHandover, 50 * ms, 300 * ms, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var take, ack time.Duration
			for seed := range uint64(4) {
				w, a := pair(t, seed)
				at := w.now
				c.do(w, a)
				w.run(at.Add(8 * time.Second))
				by := a
				if c.other {
					by = a.other()
					if len(w.turns) != 1 || w.turns[0].by != by.i || w.turns[0].why != c.why {
						w.fail("it became active: %v", w.turns)
					}
					take = max(take, w.turns[0].at.Sub(at))
				} else if len(w.turns) > 0 {
					w.fail("it became active: %v", w.turns)
				}
				first, ok := w.firstAck(at.Add(30*ms), by.i)
				if !ok {
					w.fail("no change was acknowledged")
				}
				ack = max(ack, first.Sub(at))
				if by.core.active.alone != c.alone {
					w.fail("alone: %v", by.core.active.alone)
				}
				w.heal()
				w.run(w.now.Add(30 * time.Second))
				w.judge(w.now)
				if w.begun > 0 {
					w.fail("entries may be missing")
				}
			}
			t.Logf("taken over after at most %v, a change acknowledged after at most %v", take, ack)
			if take > c.take {
				t.Errorf("taken over after %v, at most %v is right", take, c.take)
			}
			if ack > c.ack {
				t.Errorf("a change was acknowledged after %v, at most %v is right", ack, c.ack)
			}
		})
	}
}

// TestBothLosePower: whoever comes back first waits for the other one, and nothing is lost. If
// the other one stays away, it says that it may lack entries.
func TestBothLosePower(t *testing.T) {
	for seed := range uint64(10) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			w, a := pair(t, seed)
			a.crash()
			a.other().crash()
			first := w.site[w.r.IntN(2)]
			first.start()
			w.run(w.now.Add(9 * time.Second))
			if len(w.turns) > 0 {
				w.fail("it did not wait: %v", w.turns)
			}
			if w.r.IntN(2) == 0 {
				w.run(w.now.Add(3 * time.Second))
				if len(w.turns) != 1 || w.turns[0].why != WhyStale {
					w.fail("it did not take over: %v", w.turns)
				}
				return
			}
			first.other().start()
			w.run(w.now.Add(20 * time.Second))
			if w.begun > 0 || len(w.turns) != 1 {
				w.fail("%v", w.turns)
			}
			w.judge(w.now)
		})
	}
}

// TestAloneNeedsItsPort: a manager that hears nothing of its peer does not go alone while its port
// names another SM, though its shell has not said so.
func TestAloneNeedsItsPort(t *testing.T) {
	for _, sm := range []int{-1, otherVendor} {
		w, a := pair(t, 1)
		a.other().crash()
		a.sm, a.drive = sm, false // the shell looks when it is asked
		w.run(w.now.Add(5 * time.Second))
		if a.core.role == Active && a.core.active.alone {
			w.fail("it is alone")
		}
		a.sm, a.drive = a.i, true
		w.run(w.now.Add(time.Second))
		if !a.core.active.alone {
			w.fail("it is not alone")
		}
	}
}

// TestAloneRestarts: a manager that was alone has all entries, and goes on by itself.
func TestAloneRestarts(t *testing.T) {
	w, a := pair(t, 1)
	a.other().crash()
	w.run(w.now.Add(5 * time.Second))
	a.crash()
	a.start()
	w.run(w.now.Add(3 * time.Second))
	if len(w.turns) != 1 || w.turns[0].why != WhyWasAlone || w.turns[0].by != a.i {
		w.fail("%v", w.turns)
	}
	if _, ok := w.firstAck(w.turns[0].at, a.i); !ok {
		w.fail("no change was acknowledged")
	}
	a.other().start()
	w.run(w.now.Add(20 * time.Second))
	w.judge(w.now)
}

// TestTakeoverAsked: an operator may make a standby active that is no spare.
func TestTakeoverAsked(t *testing.T) {
	w, a := pair(t, 2)
	a.crash()
	a.other().crash()
	o := a.other()
	o.start()
	w.run(w.now.Add(time.Second))
	o.step(Takeover{})
	w.run(w.now.Add(2 * time.Second))
	if len(w.turns) != 1 || w.turns[0].why != WhyAsked || len(w.loud) == 0 {
		w.fail("%v", w.turns)
	}
}

// TestTakeoverAskedInVain: a standby that hears its active peer forgets that an operator asked it.
func TestTakeoverAskedInVain(t *testing.T) {
	w, a := pair(t, 2)
	o := a.other()
	o.crash()
	w.until("alone", func() bool { return a.core.active.alone })
	o.start()
	o.step(Takeover{})
	w.run(w.now.Add(20 * time.Second))
	if len(w.turns) != 0 || a.core.Role() != Active {
		w.fail("%v", w.turns)
	}
}

// until runs the world until something holds.
func (w *world) until(what string, ok func() bool) {
	w.t.Helper()
	for end := w.now.Add(30 * time.Second); !ok(); {
		if w.now > end {
			w.fail("waited in vain: %s", what)
		}
		w.run(w.now.Add(time.Millisecond))
	}
}

// TestLateTakeoverStarts: entries of a manager that took over, but did not become the SM of
// the other one's port in time, are no newer than those that counted meanwhile, also after it
// starts again.
func TestLateTakeoverStarts(t *testing.T) {
	for seed := range uint64(4) {
		w, a := pair(t, seed)
		b := a.other()
		w.cut = [2]bool{true, true}
		w.breakAll(true)
		w.until("the takeover", func() bool { return len(w.turns) > 0 })
		w.port[b.i] = false
		w.until("the other manager is alone", func() bool { return a.core.active.alone })
		w.run(w.now.Add(time.Second))
		if seed%2 == 0 {
			b.crash()
			b.start()
		}
		w.heal()
		w.run(w.now.Add(30 * time.Second))
		if w.begun > 0 {
			w.fail("entries may be missing")
		}
		w.judge(w.now)
	}
}

// TestWayComesBack: a manager took over while no way led to the other one's port. When the port
// is active again, the other one does not go alone before it was told.
func TestWayComesBack(t *testing.T) {
	for seed := range uint64(30) {
		w, a := pair(t, seed)
		w.cut = [2]bool{true, true}
		w.port[a.i] = false
		w.breakAll(true)
		a.step(Port{false})
		w.run(w.now.Add(5*time.Second + time.Duration(w.r.IntN(100))*time.Millisecond))
		if len(w.turns) != 1 || w.turns[0].by == a.i {
			w.fail("%v", w.turns)
		}
		w.port[a.i] = true
		a.step(Port{true})
		w.run(w.now.Add(5 * time.Second))
		if a.core.role == Active && a.core.active.alone {
			w.fail("it is alone")
		}
		w.heal()
		w.run(w.now.Add(30 * time.Second))
		w.judge(w.now)
	}
}

// TestSlowStandbyJoins: a standby whose disk stalls before it accepted the pairing leaves, as
// one that is paired does.
func TestSlowStandbyJoins(t *testing.T) {
	w, a := pair(t, 1)
	b := a.other()
	b.crash()
	w.until("it is alone", func() bool { return a.core.active.alone })
	b.start()
	w.until("it joins", func() bool { return a.core.active.joined })
	b.slow = 20 * time.Second
	w.run(w.now.Add(2 * time.Second))
	if w.now.Sub(w.last) > 100*time.Millisecond {
		w.fail("nothing was acknowledged since %v", w.last)
	}
	w.heal()
	w.run(w.now.Add(60 * time.Second))
	w.judge(w.now)
}

// TestBothStall: both disks hang, that of the standby once it has acknowledged what the active manager's
// disk has not stored. The active manager goes on: the standby could not begin a term. When the
// disks are well they are a pair again.
func TestBothStall(t *testing.T) {
	w, a := roomy(t)
	b := a.other()
	a.slow = 60 * time.Second
	a.ask()
	w.until("the standby has it", func() bool {
		v := &a.core.active
		return len(v.waiting) > 0 && v.acked >= v.waiting[0].number
	})
	b.slow = 60 * time.Second
	for range 500 {
		w.run(w.now.Add(10 * time.Millisecond))
		if a.core.role != Active || !a.core.active.granted {
			w.fail("nobody is active")
		}
	}
	w.heal()
	w.run(w.now.Add(120 * time.Second))
	a.ask()
	w.run(w.now.Add(time.Second))
	w.judge(w.now)
}

// TestBothFull: two disks that refuse writes at the same moment leave nobody active, because a term begins
// on a disk. One manager is active soon after its disk is well.
func TestBothFull(t *testing.T) {
	w, a := pair(t, 1)
	a.full, a.other().full = true, true
	w.run(w.now.Add(5 * time.Second))
	if w.active() != nil {
		w.fail("somebody is active, and could not write that down")
	}
	w.heal()
	at := w.now
	w.until("one is active", func() bool { return w.active() != nil })
	t.Logf("active %v after the disks were well", w.now.Sub(at))
	if w.now.Sub(at) > 3*time.Second {
		t.Error("that is late")
	}
	w.run(w.now.Add(30 * time.Second))
	w.judge(w.now)
}

// roomy returns a pair whose journals keep much, and the active manager. Nobody asks for changes.
func roomy(t *testing.T) (*world, *site) {
	t.Helper()
	w := newWorld(t, 1)
	w.quiet = true
	for _, s := range w.site {
		s.disk = journal.NewMemory(1000)
	}
	w.until("one is active", func() bool { return w.active() != nil })
	a := w.active()
	w.until("they are a pair", func() bool { return a.other().core.standby.paired })
	return w, a
}

// active is the site that is, or nil.
func (w *world) active() *site {
	for _, s := range w.site {
		if s.core != nil && s.core.role == Active && s.core.active.granted {
			return s
		}
	}
	return nil
}

// TestPairingWaits: a standby is paired when it has every entry that counted before, however
// many messages that takes.
func TestPairingWaits(t *testing.T) {
	w, a := roomy(t)
	b := a.other()
	b.crash()
	w.until("it is alone", func() bool { return a.core.active.alone })
	w.size = readSize
	for range 20 {
		a.ask()
	}
	w.until("they count", func() bool { return len(w.acked) == 20 })
	a.crash() // and has none of them in memory
	a.start()
	w.until("it is active again", func() bool { return w.active() == a })
	b.start()
	w.until("they are a pair", func() bool { return b.core.standby.paired })
	for id := range w.acked {
		if !b.wrote[string(key(id))] {
			w.fail("the standby is paired, and lacks change %d", id)
		}
	}
}

// TestLostDisk: a standby that comes back with an empty disk is a spare again.
func TestLostDisk(t *testing.T) {
	w, a := pair(t, 3)
	b := a.other()
	for range 3 {
		b.crash()
		b.start()
		w.run(w.now.Add(5 * time.Second))
	}
	b.crash()
	w.run(w.now.Add(5 * time.Second))
	b.disk, b.boot = journal.NewMemory(100), 0
	b.start()
	w.run(w.now.Add(20 * time.Second))
	w.judge(w.now)
}

// TestSyncFails: a write whose sync failed may be there. The manager goes on behind it.
func TestSyncFails(t *testing.T) {
	for seed := range uint64(20) {
		w, a := pair(t, seed)
		if seed%2 == 0 {
			a.other().crash()
			w.until("it is alone", func() bool { return a.core.active.alone })
		}
		a.fails = 1 + w.r.IntN(3)
		w.run(w.now.Add(5 * time.Second))
		if w.now.Sub(w.last) > time.Second {
			w.fail("nothing was acknowledged since %v", w.last)
		}
		w.heal()
		w.run(w.now.Add(30 * time.Second))
		w.judge(w.now)
	}
}

// TestOldHandover: a handover that came too late says nothing about a later pairing.
func TestOldHandover(t *testing.T) {
	w, a := pair(t, 4)
	b := a.other()
	id := b.core.standby.pair
	w.loss[a.i] = [2]int{100, 100}
	b.core.standby.lease = 0 // it lapsed
	b.step(Received{Over{Term: b.core.term, ID: id}})
	w.breakAll(true)
	w.until("they are a pair anew", func() bool { return b.core.standby.pair > id })
	w.loss[a.i] = [2]int{}
	w.run(w.now.Add(20 * time.Second))
	if len(w.turns) > 0 {
		w.fail("%v", w.turns)
	}
	w.judge(w.now)
}

// TestOldSign: a sign from before a pairing that comes after it does not end the pairing.
func TestOldSign(t *testing.T) {
	w, a := pair(t, 6)
	b := a.other()
	old := b.core.peer
	old.Seq, old.Pair, old.Alone = old.Seq+1, old.Pair-1, true
	b.step(Heard{Fabric, old})
	w.run(w.now.Add(5 * time.Second))
	w.judge(w.now)
}

// TestWildMessages: what no correct manager sends changes nothing that lasts.
func TestWildMessages(t *testing.T) {
	for _, m := range []func(term journal.Term, next uint64) Message{
		func(journal.Term, uint64) Message {
			return Hello{Boot: 1 << 63, Conn: 1 << 63, Last: journal.Mark{Number: 1<<64 - 1}, Term: journal.Term{Number: 1<<64 - 1}}
		},
		func(t journal.Term, next uint64) Message { return Ack{t, 1<<64 - 1} },
		func(t journal.Term, next uint64) Message { return Entries{Term: t} },
		func(t journal.Term, next uint64) Message {
			return Entries{t, []journal.Entry{{Mark: journal.Mark{Term: t, Number: 1<<64 - 1}}}}
		},
		func(t journal.Term, next uint64) Message {
			return Entries{t, []journal.Entry{{Mark: journal.Mark{Term: t.Next(9), Number: next}}}}
		},
		func(t journal.Term, next uint64) Message { return Snapshot{Term: t} },
		func(t journal.Term, next uint64) Message {
			return Snapshot{t, journal.Mark{Term: t.Next(9), Number: 1}, &store.State{}}
		},
		func(t journal.Term, next uint64) Message { return Pair{t, 1 << 62, 1<<64 - 1} },
		func(t journal.Term, next uint64) Message { return Over{t, 1<<64 - 1} },
		func(journal.Term, uint64) Message { return Refused{journal.Term{Number: 1<<64 - 1}} },
	} {
		w, a := pair(t, 5)
		term := a.core.term
		w.logf("%#v", m(term, a.other().core.tail.Number+1))
		for _, s := range w.site {
			s.step(Received{m(term, a.other().core.tail.Number+1)})
		}
		w.run(w.now.Add(20 * time.Second))
		w.judge(w.now)
		if w.begun > 0 {
			w.fail("entries may be missing")
		}
	}
}

// FuzzNote: no bytes are taken for a note that encodes to others.
func FuzzNote(f *testing.F) {
	n := note{boot: 1, pair: 2, alone: true, common: 3}
	f.Add(n.encode())
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		n, err := decodeNote(b)
		if err == nil && len(b) > 0 && b[1] == noteAlone {
			b[1] |= noteSolo // it is of an older program
		}
		if err == nil && len(b) > 0 && string(n.encode()) != string(b) {
			t.Fatalf("%x became %x", b, n.encode())
		}
	})
}

// TestEndedAndHeard: a manager whose port was asked while no process had it, and whose signs come, is
// alive. Its partner went alone as often as it was paired.
func TestEndedAndHeard(t *testing.T) {
	w, a := pair(t, 1)
	b := a.other()
	a.step(Ended{Boot: b.core.note.boot})
	w.run(w.now.Add(2 * time.Second))
	if !a.core.active.paired || !b.core.standby.spare(stepped(b)) {
		w.fail("they are no pair")
	}
	if a.core.ended >= b.core.note.boot {
		w.fail("a manager whose signs come counts as ended")
	}
	w.judge(w.now)
}
