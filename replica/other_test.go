package replica

import (
	"testing"
	"time"
)

// excuseNothing takes back what excused the changes of a site, but for takeovers that said so.
func (w *world) excuseNothing(s *site) {
	for id, x := range w.acked {
		x.fork = x.fork && x.by != s.i
		w.acked[id] = x
	}
}

// TestSplitKeeps (seed 3232): the standby takes over in its half of the fabric, and loses its port
// before anything counts there. The other one is alone meanwhile. When they meet, what that one
// acknowledged stays, although the standby's term is newer.
func TestSplitKeeps(t *testing.T) {
	for seed := range uint64(12) {
		w, a := pair(t, seed)
		b := a.other()
		w.split, w.cut[Stream] = true, true
		w.breakAll(true)
		w.until("the takeover, and no way to the other one", func() bool { return b.core.active.fenced })
		w.port[b.i] = false
		b.step(Port{false})
		w.split = false
		w.fork() // ends
		w.until("the old one is alone", func() bool { return a.core.active.alone })
		w.run(w.now.Add(2 * time.Second))
		if seed%2 == 0 {
			a.crash()
			a.start()
			w.run(w.now.Add(time.Duration(w.r.IntN(3000)) * time.Millisecond))
		} else if seed%4 == 1 {
			// It finds the other one at its port first, and has written down that it is not alone when
			// the other one hears it.
			w.cut[Fabric] = true
			w.port[b.i] = true
			b.step(Port{true})
			w.until("it is standby", func() bool { return a.core.role == Standby })
			w.run(w.now.Add(200 * time.Millisecond))
			if a.alone {
				w.fail("its disk says that it is alone")
			}
		}
		w.heal()
		w.run(w.now.Add(30 * time.Second))
		w.excuseNothing(a)
		if w.begun > 0 || w.forks > 0 {
			w.fail("%d takeovers say that entries may be missing, %d fork files", w.begun, w.forks)
		}
		w.judge(w.now)
	}
}

// TestNoForkFile: the active manager dies while it writes. It comes back with entries that the
// other one lacks, and nobody was told of them. They make no fork file.
func TestNoForkFile(t *testing.T) {
	dropped := 0
	for seed := range uint64(40) {
		w, a := pair(t, seed)
		w.loss[a.i][Stream] = 0
		w.cut[Stream] = seed%2 == 0 // entries do not get out any more
		for range 20 {
			a.ask()
			w.run(w.now.Add(200 * time.Microsecond))
		}
		a.crash()
		w.until("the takeover", func() bool { return len(w.turns) > 0 })
		w.run(w.now.Add(3 * time.Second))
		last := must(a.disk.Last())
		list, err := a.other().disk.Entries(last.Number, 1)
		if err != nil || len(list) == 0 || list[0].Mark != last {
			dropped++
		}
		a.start()
		w.heal()
		w.run(w.now.Add(20 * time.Second)) // replaced looks at the copy
		w.judge(w.now)
		if w.forks > 0 {
			w.fail("a fork file")
		}
	}
	if dropped < 10 {
		t.Errorf("only %d of 40 managers came back with entries that the other one lacked", dropped)
	}
}

// TestForkFile: entries that counted on one manager alone make a fork file if a takeover that said
// that they may be missing replaces them.
func TestForkFile(t *testing.T) {
	for seed := range uint64(10) {
		w, a := pair(t, seed)
		b := a.other()
		b.crash()
		w.until("it is alone", func() bool { return a.core.active.alone })
		w.run(w.now.Add(3 * time.Second))
		a.crash()
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
}

// TestNoTurns: two managers on one fabric that never hear each other, as with a wrong GUID of the
// peer, do not take over by turns: the second one holds as long as the first one answers as master.
func TestNoTurns(t *testing.T) {
	for seed := range uint64(4) {
		w, a := pair(t, seed)
		b := a.other()
		b.crash()
		w.until("it is alone", func() bool { return a.core.active.alone })
		w.cut = [2]bool{true, true}
		b.start()
		w.run(w.now.Add(60 * time.Second))
		if len(w.turns) > 0 || b.core.View(b.clock()).Held != a.core.cfg.Me {
			w.fail("it does not hold: %v, %+v", w.turns, b.core.View(b.clock()))
		}
		if seed%2 == 0 {
			a.stop = true // it answers nothing
			w.until("the standby takes over", func() bool { return len(w.turns) == 1 })
			a.cont()
			w.run(w.now.Add(60 * time.Second))
			if len(w.turns) != 1 {
				w.fail("by turns: %v", w.turns)
			}
		}
		w.heal()
		w.run(w.now.Add(30 * time.Second))
		w.judge(w.now)
	}
}

// TestOtherMasterHolds: a manager that may lack entries leaves the subnet to a third manager that is
// master, and takes over when that one is gone.
func TestOtherMasterHolds(t *testing.T) {
	for _, alone := range []bool{false, true} {
		w, a := pair(t, 1)
		b := a.other()
		if alone {
			b.crash()
			w.until("it is alone", func() bool { return a.core.active.alone })
		}
		a.crash()
		w.comeThird()
		w.third.side = a.i
		s := b
		if alone {
			s = a // it has all entries, but may be the one with a wrong GUID of its peer
		} else {
			b.crash()
		}
		w.run(w.now.Add(time.Second))
		s.start()
		w.run(w.now.Add(30 * time.Second))
		if len(w.turns) > 0 || s.core.View(s.clock()).Held != otherVendor {
			w.fail("it does not hold: %v, %+v", w.turns, s.core.View(s.clock()))
		}
		w.third.here = false
		w.until("it takes over", func() bool { return len(w.turns) > 0 })
	}
}

// TestHandoverAlone: a manager that nobody can follow goes on without a pause when it is asked to
// hand over, or when its port is down.
func TestHandoverAlone(t *testing.T) {
	for seed := range uint64(4) {
		w, a := pair(t, seed)
		a.other().crash()
		w.until("it is alone", func() bool { return a.core.active.alone })
		for i := range 200 {
			switch i {
			case 50:
				a.step(Handover{})
			case 100:
				w.port[a.i] = false
				a.step(Port{false})
			}
			w.run(w.now.Add(20 * time.Millisecond))
			if w.now.Sub(w.last) > 150*time.Millisecond {
				w.fail("nothing was acknowledged since %v", w.last)
			}
		}
	}
}

// TestEchoOfOtherStart: a standby starts twice in short order, and the signs of its second start are
// lost, but the stream is not. It is paired, and the active manager echoes a number of the first
// start. That number says nothing of the second one: the pairing has no lease.
func TestEchoOfOtherStart(t *testing.T) {
	for seed := range uint64(4) {
		w, a := pair(t, seed)
		b := a.other()
		b.crash()
		w.run(w.now.Add(3 * time.Second))
		b.start()
		w.until("they are a pair", func() bool { return b.core.standby.spare(stepped(b)) })
		b.crash()
		w.loss[b.i] = [2]int{100, 100}
		boot := a.core.peer.Boot
		b.start()
		paired := false
		for end := w.now.Add(6 * time.Second); w.now < end; {
			w.run(w.now.Add(time.Millisecond)) // check looks whether one is alone, and the other one paired
			paired = paired || b.core.standby.paired
		}
		if a.core.peer.Boot != boot || !paired {
			w.fail("a sign of the second start was heard, or it was not paired")
		}
		w.heal()
		w.run(w.now.Add(30 * time.Second))
		w.judge(w.now)
	}
}
