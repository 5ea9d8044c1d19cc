package replica

import (
	"testing"
	"time"
)

// TestEndedAfterThird: the standby takes over unheard, makes itself the SM of the old manager's port and
// is alone. A third manager overwrites that and leaves, so the old manager writes itself there again, and
// then hears that the other process has ended. That it had taken over cannot be seen any more.
func TestEndedAfterThird(t *testing.T) {
	for seed := range uint64(10) {
		w, a := pair(t, seed)
		b := a.other()
		w.cut = [2]bool{true, true} // and the streams say nothing
		w.until("the takeover", func() bool { return a.sm == b.i })
		a.sm = otherVendor
		a.step(Challenged{Third: true})
		a.sm = a.i
		w.until("it is alone", func() bool { return b.core.active.alone })
		b.ask()
		w.until("something counts there", func() bool { return b.core.active.told })
		boot := b.core.note.boot
		b.crash()
		a.step(Ended{Boot: boot})
		w.run(w.now.Add(5 * time.Second)) // check looks whether both are alone
		if a.core.role == Active {
			w.fail("the old one is still active")
		}
		w.heal()
		w.run(w.now.Add(30 * time.Second))
		if w.begun > 0 {
			w.fail("entries may be missing")
		}
		w.judge(w.now)
	}
}

// TestLateFenceOfHandover: the active manager hands over to a standby whose lease ends soon, and its
// process ends. The new one becomes the SM of its port after that lease. The old one has stopped, so
// changes count after Config.Alone.
func TestLateFenceOfHandover(t *testing.T) {
	for seed := range uint64(10) {
		w, a := pair(t, seed)
		b := a.other()
		w.loss[b.i] = [2]int{100, 100} // so the lease is not renewed
		lease := b.core.standby.lease
		w.until("the lease ends soon", func() bool { return b.core.standby.lease.Sub(b.clock()) < 300*time.Millisecond })
		if b.core.standby.lease > lease.Add(500*time.Millisecond) {
			w.fail("the lease is renewed")
		}
		a.step(Handover{})
		w.until("the takeover", func() bool { return b.core.role == Active })
		a.crash()
		w.comeThird() // who keeps it from writing
		w.third.side = b.i
		late := b.clock().Add(600 * time.Millisecond)
		w.until("the lease has ended", func() bool { return b.clock() > late })
		if f := &b.core.active; f.fenced || !f.granted {
			w.fail("it is the SM of the port already, or not active")
		}
		w.third.here = false
		at := w.now
		w.run(at.Add(5 * time.Second))
		if first, ok := w.firstAck(at, b.i); !ok || first > at.Add(2500*time.Millisecond) {
			w.fail("a change counts at %v, %v", first, ok)
		}
		w.heal()
		w.run(w.now.Add(30 * time.Second))
		w.judge(w.now)
	}
}

// TestLoudWordKeepsLease: a manager that says once more that entries may be missing took over from a
// silent one all the same: it must be the SM of that one's port before its lease ends.
func TestLoudWordKeepsLease(t *testing.T) {
	w, a := pair(t, 1)
	b := a.other()
	b.core.unsaid = b.core.has()
	lease := b.core.standby.lease
	b.core.takeOverAt(b, WhySilence)
	if got := b.core.active.lapse; got != lease {
		w.fail("it has until %v, its lease ends at %v", got, lease)
	}
}

// takeOverAt takes over as if a step did, without its effects.
func (c *Core) takeOverAt(s *site, why Why) {
	var out Output
	out.Reset()
	c.now, c.out = s.clock(), &out
	c.takeOver(why)
}

// TestNoteOfOldProgram: a program before noteSolo wrote that it was alone. What it acknowledged goes to a
// fork file if a copy of the other manager's journal replaces it.
func TestNoteOfOldProgram(t *testing.T) {
	w, a := pair(t, 1)
	b := a.other()
	b.crash()
	w.until("it is alone", func() bool { return a.core.active.alone })
	w.run(w.now.Add(3 * time.Second))
	a.crash()
	note := must(a.disk.Note())
	if note[1] != noteAlone|noteSolo {
		w.fail("the note is %x", note)
	}
	old := append([]byte(nil), note...)
	old[1] = noteAlone
	if err := a.disk.SetNote(old); err != nil {
		t.Fatal(err)
	}
	b.start()
	w.until("the standby takes over", func() bool { return len(w.loud) > 0 })
	w.run(w.now.Add(3 * time.Second))
	a.start()
	w.run(w.now.Add(20 * time.Second)) // replaced looks at the copy
	w.judge(w.now)
	if w.forks != 1 {
		w.fail("%d fork files", w.forks)
	}
}

// TestIllDisk: a standby whose disk fails tries again after growing pauses, and people hear of it once.
func TestIllDisk(t *testing.T) {
	for _, c := range []struct {
		name string
		ill  func(b *site, on bool)
		said int // notices that follow, at most
	}{
		{"full", func(b *site, on bool) { b.full = on }, 0},
		{"notes alone are written", func(b *site, on bool) { b.fullFor = on }, 12}, // each pairing is one
		{"slow", func(b *site, on bool) {
			if b.slow = 0; on {
				b.slow = 2 * time.Second
			}
		}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, a := roomy(t)
			b := a.other()
			c.ill(b, true)
			a.ask()
			w.until("it is alone", func() bool { return a.core.active.alone })
			w.run(w.now.Add(2 * time.Second))
			began, said, acked := w.now, w.said(), len(w.acked)
			joins, joined := 0, false
			const seconds = 50 // fewer changes than keep a pairing from beginning
			for i := range seconds * 1000 {
				if i%1000 == 0 {
					a.ask()
				}
				w.run(w.now.Add(time.Millisecond))
				if j := a.core.active.joined; j != joined {
					joined = j
					if j {
						joins++
					}
				}
			}
			w.run(began.Add((seconds + 1) * time.Second))
			if got := len(w.acked) - acked; got != seconds {
				w.fail("%d of %d changes count", got, seconds)
			}
			if got := w.said() - said; got > c.said {
				w.fail("%d more notices: %v", got, w.notices)
			}
			if joins > 15 {
				w.fail("a pairing began %d times in %d s", joins, seconds)
			}
			c.ill(b, false)
			well := w.now
			w.until("they are a pair", func() bool { return a.core.active.accepted(stepped(a)) })
			if took := w.now.Sub(well); took > 8*time.Second {
				w.fail("they are a pair after %v", took)
			}
			a.ask()
			w.run(w.now.Add(time.Second))
			w.judge(w.now)
		})
	}
}

// said counts notices, without those of a copy that was made.
func (w *world) said() (n int) {
	for _, list := range w.notices {
		for i := range list {
			if list[i].Kind != NoticeCopied {
				n++
			}
		}
	}
	return n
}

// TestIllAtStart: a manager whose disk fails when it starts says so once.
func TestIllAtStart(t *testing.T) {
	w, a := pair(t, 1)
	b := a.other()
	b.crash()
	b.full = true
	b.start()
	w.run(w.now.Add(time.Minute))
	said := 0
	for _, n := range w.notices[b.i] {
		if n.Kind == NoticeDisk {
			said++
		}
	}
	if said != 1 || b.core.ready {
		w.fail("it says %d times that its disk failed: %v", said, w.notices[b.i])
	}
	b.full = false
	w.until("they are a pair", func() bool { return a.core.active.accepted(stepped(a)) })
	w.run(w.now.Add(20 * time.Second))
	w.judge(w.now)
}
