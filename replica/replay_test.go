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
		w.judge()
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
		w.judge()
	}
}
