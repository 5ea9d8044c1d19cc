package replica

import (
	"testing"
	"time"
)

// These are schedules that the campaign found, cut down to what matters.

// TestLapsedLease (seed 4593): the active manager is stopped, the standby's lease ends, and its
// port is down, so that it cannot take over. The stream breaks, the active manager goes on, and
// hears that the standby has left. Its own signs must not renew the lease then.
func TestLapsedLease(t *testing.T) {
	for seed := range uint64(60) {
		w, a := pair(t, seed)
		b := a.other()
		w.port[b.i] = false
		b.step(Port{false})
		a.stop = true
		w.run(w.now.Add(3 * time.Second))
		w.breakAll(true)
		w.run(w.now.Add(time.Second))
		a.cont()
		w.port[b.i] = true
		for range 20 {
			w.run(w.now.Add(300 * time.Microsecond)) // check looks at every step
			a.step(Port{true})                       // makes a sign
			b.step(Port{true})
		}
		w.run(w.now.Add(2 * time.Second))
		if !a.core.active.paired || !b.core.standby.spare(stepped(b)) {
			w.fail("they are no pair again")
		}
		w.heal()
		w.run(w.now.Add(30 * time.Second))
		w.judge(w.now)
	}
}

// TestNumbersAfterFailure (seed 9786): a manager that is alone has several entries at its disk,
// the sync of the first one fails although it was written, and the others succeed. While the
// disk has other work, the next change gets the number after all of them.
func TestNumbersAfterFailure(t *testing.T) {
	for seed := range uint64(20) {
		w, a := pair(t, seed)
		a.other().crash()
		w.until("it is alone", func() bool { return a.core.active.alone })
		a.slow = 100 * time.Millisecond
		w.until("entries are at the disk", func() bool { return len(a.core.disk) > 4 })
		a.fails, a.written = 1, true
		a.slow = 0
		for a.core.active.failing == 0 {
			w.run(w.now.Add(time.Millisecond))
		}
		// A read for the standby comes behind the entries.
		a.core.active.open = true
		a.step(Received{Hello{Boot: 1 << 40, Conn: 1, Last: a.core.last, Term: a.core.term}})
		for a.core.active.failing > 0 {
			w.run(w.now.Add(100 * time.Microsecond))
		}
		a.ask() // done looks whether what counts is on the disk
		w.run(w.now.Add(2 * time.Second))
		w.heal()
		w.run(w.now.Add(30 * time.Second))
		w.judge(w.now)
	}
}

// TestOtherWasAlone: the other manager's disk says that it was alone, though this one has newer
// entries. Until that one has heard of the new term nothing counts, because it would go on
// without those entries if it started alone.
func TestOtherWasAlone(t *testing.T) {
	for seed := range uint64(10) {
		w, a := pair(t, seed)
		b := a.other()
		b.crash()
		w.until("it is alone", func() bool { return a.core.active.alone })
		w.run(w.now.Add(2 * time.Second)) // the other one is to lack entries
		b.start()
		w.until("it is sent entries", func() bool { return a.core.active.sent > 0 })
		a.slow = 600 * time.Millisecond
		w.until("the pairing begins", func() bool { return a.core.active.joined })
		w.run(w.now.Add(400 * time.Millisecond))
		a.fails = 1
		a.crash() // before the note that it is alone no more is on its disk
		a.fails = 0
		if !a.alone || must(b.disk.Last()).Compare(must(a.disk.Last())) <= 0 {
			w.fail("the standby has no newer entries")
		}
		a.slow = 0
		w.run(w.now.Add(time.Second))
		a.start()
		n := len(w.turns)
		w.until("the standby takes over", func() bool { return len(w.turns) > n })
		if seed%2 == 0 {
			a.crash()
			w.run(w.now.Add(5 * time.Second))
			b.crash()
			a.start()
			w.run(w.now.Add(5 * time.Second))
			b.start()
		}
		w.run(w.now.Add(30 * time.Second))
		if w.begun > 0 {
			w.fail("entries may be missing")
		}
		w.judge(w.now)
	}
}

// TestUnknownMark: a write fails that was carried out, and the disk cannot say so. The next
// active manager's entries do not follow the hidden one.
func TestUnknownMark(t *testing.T) {
	for seed := range uint64(20) {
		w, a := pair(t, seed)
		a.unread, a.written, a.fails = true, true, 1
		w.run(w.now.Add(5 * time.Second))
		w.heal()
		w.run(w.now.Add(20 * time.Second))
		w.judge(w.now)
	}
}

// TestBlindTerms: two managers on one fabric that do not hear each other take over from each
// other, and say that entries may be missing. What the last one acknowledged stays, though the
// number of its term may be that of the other one's.
func TestBlindTerms(t *testing.T) {
	for seed := range uint64(20) {
		w, a := pair(t, seed)
		b := a.other()
		if seed%2 == 0 { // either one may have the higher GUID
			a.step(Handover{})
			w.until("the other one is active", func() bool { return b.core.active.paired })
			w.run(w.now.Add(3 * time.Second))
			a, b = b, a
			w.turns = nil
		}
		b.crash()
		w.until("it is alone", func() bool { return a.core.active.alone })
		w.cut, w.deaf = [2]bool{true, true}, true
		b.start()
		w.until("the standby takes over", func() bool { return len(w.turns) == 1 && a.core.role == Standby })
		w.until("the first one takes over", func() bool { return len(w.turns) == 2 && b.core.role == Standby })
		w.run(w.now.Add(2 * time.Second))
		w.heal()
		w.run(w.now.Add(30 * time.Second))
		w.excuseNothing(a) // the last one that took over
		w.judge(w.now)
	}
}

// TestThirdManager: a manager of another vendor overwrites what the new active manager wrote to
// the port of the old one, before that one saw it, and leaves.
func TestThirdManager(t *testing.T) {
	for seed := range uint64(20) {
		w, a := pair(t, seed)
		b := a.other()
		w.cut = [2]bool{true, true}
		w.breakAll(true)
		w.until("the takeover", func() bool { return a.sm == b.i })
		a.sm = otherVendor
		w.run(w.now.Add(9 * time.Second)) // check looks whether both are alone
		if !b.core.active.alone {
			w.fail("the new one is not alone")
		}
		w.heal()
		w.run(w.now.Add(30 * time.Second))
		if w.begun > 0 {
			w.fail("entries may be missing")
		}
		w.judge(w.now)
	}
}

// TestBytesOnTheWay: entries that the standby has not acknowledged have a bound in bytes, from
// memory and from the disk.
func TestBytesOnTheWay(t *testing.T) {
	for _, restart := range []bool{false, true} {
		w, a := roomy(t)
		b := a.other()
		b.crash()
		w.until("it is alone", func() bool { return a.core.active.alone })
		w.size = 1 << 20
		for range 30 {
			a.ask()
			w.run(w.now.Add(20 * time.Millisecond))
		}
		if restart {
			a.crash() // it has none of them in memory
			a.start()
			w.until("it is active", func() bool { return a.core.role == Active && a.core.active.granted })
		}
		b.start()
		b.slow = 10 * time.Millisecond
		most := 0
		w.until("they are a pair", func() bool {
			f := &a.core.active
			most = max(most, f.flying)
			sum := 0
			for _, x := range f.ahead {
				sum += x.size
			}
			if sum != f.flying || f.flying > sendBytes {
				w.fail("%d bytes are on the way, %d are counted", sum, f.flying)
			}
			return b.core.standby.paired
		})
		if most < sendBytes/2 {
			w.fail("only %d bytes were on the way", most)
		}
	}
}

// TestBothLead (seed 788): each of two standby managers heard of fewer entries than the other one
// has by now, and takes over.
func TestBothLead(t *testing.T) {
	for seed := range uint64(10) {
		w, _ := pair(t, seed)
		for _, s := range w.site {
			s.crash()
		}
		for _, s := range w.site {
			s.start()
		}
		w.run(w.now.Add(500 * time.Millisecond))
		for _, s := range w.site {
			old := s.core.peer
			old.Seq, old.Last.Number = old.Seq+1, old.Last.Number-5
			s.core.standby.rest = 0
			s.step(Heard{Fabric, old})
		}
		w.run(w.now.Add(5 * time.Second)) // check looks whether both are alone
		w.judge(w.now)
		if len(w.turns) == 0 || w.begun > 0 {
			w.fail("%v", w.turns)
		}
	}
}

// TestLateGrant (seed 5751): a takeover is written down when its lease has ended. The shell is not
// told to drive the fabric.
func TestLateGrant(t *testing.T) {
	for seed := range uint64(4) {
		w, a := pair(t, seed)
		b := a.other()
		w.cut = [2]bool{true, true}
		w.breakAll(true)
		w.until("the takeover begins", func() bool { return b.core.role == Active })
		b.slow = 2 * time.Second
		w.until("it is given up", func() bool { return b.core.role == Standby })
		if len(w.turns) > 0 || b.drive {
			w.fail("it drives the fabric: %v", w.turns)
		}
		w.heal()
		w.run(w.now.Add(30 * time.Second))
		w.judge(w.now)
	}
}

// TestLapsedLeaseStays is TestLapsedLease without the luck of the order: the sign that echoes a
// fresh one comes after the one that said that lease and stream have ended.
func TestLapsedLeaseStays(t *testing.T) {
	w, a := pair(t, 1)
	b := a.other()
	b.core.standby.lease, b.core.standby.left = 0, b.core.standby.pairConn
	b.step(Port{true})
	p := b.core.peer
	p.Seq, p.EchoBoot, p.Echo = p.Seq+1, b.core.note.boot, b.core.seq
	b.step(Heard{Fabric, p})
	if b.core.standby.spare(stepped(b)) {
		w.fail("it is paired again")
	}
}

// TestOfferOnOldStream (seed 22932): the active manager is stopped while it writes a pairing down,
// and the standby makes another stream. When the active manager goes on, its offer goes on the
// stream that it knows, which has ended; its standby has left that one, so it goes alone. The
// standby must not get that offer on the new stream, or it counts itself as paired.
func TestOfferOnOldStream(t *testing.T) {
	for seed := range uint64(20) {
		w, a := pair(t, seed)
		b := a.other()
		b.crash()
		w.until("it is alone", func() bool { return a.core.active.alone })
		a.slow = 40 * time.Millisecond // so that the pairing is not written down at once
		b.start()
		f := &a.core.active
		w.until("all was copied", func() bool { return f.joined && f.acked >= f.from })
		if f.noted {
			w.fail("the pairing is written down")
		}
		a.stop, a.slow = true, 0
		old := a.theirs
		w.run(w.now.Add(100 * time.Millisecond))
		w.breakAll(true)
		w.until("there is another stream", func() bool { return b.mine != nil && b.mine != old })
		w.run(w.now.Add(150 * time.Millisecond)) // a sign says that the old one was left
		a.cont()
		w.run(w.now.Add(10 * time.Second)) // check looks at every step
		if !a.core.active.paired || !b.core.standby.spare(stepped(b)) {
			w.fail("they are no pair again")
		}
		w.judge(w.now)
	}
}

// TestLoudAgain (seed 418): a manager that may lack entries takes over, and crashes when its term
// is written down, before it says so. It says so when it takes over after its next start.
func TestLoudAgain(t *testing.T) {
	w, a := pair(t, 1)
	b := a.other()
	b.crash()
	w.until("it is alone", func() bool { return a.core.active.alone })
	w.run(w.now.Add(time.Second))
	a.crash()
	b.start()
	w.until("the takeover begins", func() bool { return b.core.role == Active })
	for !b.alone && !b.core.active.granted {
		w.run(w.now.Add(10 * time.Microsecond)) // it says so less than 1 ms after this
	}
	if b.core.active.granted {
		w.fail("it has said so")
	}
	b.crash()
	b.start()
	w.until("it takes over", func() bool { return len(w.turns) > 0 }) // granted looks for what is gone
	if len(w.loud) != 1 || w.turns[0].by != b.i {
		w.fail("it does not say that entries may be missing: %v", w.turns)
	}
}
