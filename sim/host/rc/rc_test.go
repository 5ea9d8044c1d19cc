package rc

import (
	"errors"
	"slices"
	"testing"

	"heddle/sim/dataplane"
)

func plain() (Config, Sender) {
	return Config{MTU: 2048, Window: 16, AckEvery: 4}, Sender{Timeout: 4, Retries: 7, RNRRetries: 7}
}

// TestBothWays: messages of many packets cross in both directions, over the end of
// the 24-bit numbers, and none is repeated.
func TestBothWays(t *testing.T) {
	c, s := plain()
	x := newChannel(t, 1, c, s)
	for _, e := range x.ends {
		e.post(40)
	}
	must(t, x.settle(20*dataplane.Millisecond))
	for _, e := range x.ends {
		if k := e.q.Count; k.Repeats != 0 || k.NAKs != 0 || k.Timeouts != 0 || k.MessagesSent != 40 {
			t.Errorf("end %d: %+v", e.num, k)
		}
	}
}

// TestWindow (V49): with w packets a round trip the rate is w·L/T of the wire.
func TestWindow(t *testing.T) {
	for _, w := range []int{1, 2, 4, 8, 64} {
		c, s := plain()
		c.Window, c.AckEvery = w, 1
		x := newChannel(t, 1, c, s)
		e := x.ends[0]
		e.post(1)
		x.run(Microsecond)
		for e.posted < 2000 {
			e.post(1)
		}
		x.run(4 * dataplane.Millisecond)
		trip := 2 * (packetTime + laneDelay) // an ACK takes the time of a packet here
		want := min(1, float64(w)*float64(packetTime)/float64(trip))
		if got := float64(e.q.Count.Packets) / 4000; got < 0.97*want || got > 1.03*want {
			t.Errorf("window %d: %.3f of the wire, want %.3f", w, got, want)
		}
	}
}

// TestTimeoutsEnd (V40): a path that is cut takes 1 + retries sends of the first
// packet, one transport timer apart, and then the queue pair is in Error.
func TestTimeoutsEnd(t *testing.T) {
	c, s := plain()
	s.Timeout = 14
	c.Window = 1
	x := newChannel(t, 1, c, s)
	x.cut[0] = dataplane.Never
	e := x.ends[0]
	e.post(2)
	x.run(dataplane.Second)
	want := 8 * AckTimeout(14)
	if e.failed != RetryExceeded || e.failedAt < want || e.failedAt > want+20*Microsecond || e.q.State() != Error {
		t.Errorf("%v after %v, want retries exceeded after %v", e.failed, e.failedAt, want)
	}
	if e.q.Count.Packets != 8 || e.done != 2 || e.ok != 0 {
		t.Errorf("%d packets, %d sends complete", e.q.Count.Packets, e.done)
	}
	if want < 536*dataplane.Millisecond || want > 538*dataplane.Millisecond {
		t.Errorf("8 time-outs of code 14 are %v", want)
	}
}

// TestGap: one lost packet is asked for by one NAK, and nothing waits for a timer.
func TestGap(t *testing.T) {
	c, s := plain()
	s.Timeout = 14
	x := newChannel(t, 1, c, s)
	e := x.ends[0]
	e.post(30)
	x.run(10 * Microsecond)
	x.cut[0] = x.now + 2*Microsecond
	must(t, x.settle(20*dataplane.Millisecond))
	k := e.q.Count
	if k.NAKs != 1 || k.Timeouts != 0 || k.Repeats == 0 {
		t.Errorf("%+v", k)
	}
}

// TestNoReceives: a peer without receives answers RNR; its timer is waited for; a
// limit of retries ends the connection, 7 does not.
func TestNoReceives(t *testing.T) {
	for _, credits := range []bool{false, true} {
		for _, retries := range []uint8{2, 7} {
			c, s := plain()
			c.Credits, s.RNRRetries = credits, retries
			x := newChannel(t, 1, c, s)
			e, peer := x.ends[0], x.ends[1]
			peer.q.resp.receives = 3
			e.post(10)
			x.run(300 * Microsecond)
			if peer.got != 3 || e.q.Count.RNRs == 0 {
				t.Errorf("%d messages, %d RNRs", peer.got, e.q.Count.RNRs)
			}
			if retries == 2 {
				if e.failed != RNRExceeded || e.q.Count.RNRs != 3 {
					t.Errorf("%v after %d RNRs", e.failed, e.q.Count.RNRs)
				}
				continue
			}
			peer.q.PostReceives(100)
			must(t, x.settle(dataplane.Millisecond))
			if peer.got != 10 {
				t.Errorf("%d messages", peer.got)
			}
		}
	}
}

// TestCreditsSpareRepeats: a requester that knows the receives of its peer sends
// one packet and no more when there are none.
func TestCreditsSpareRepeats(t *testing.T) {
	repeats := func(credits bool) uint64 {
		c, s := plain()
		c.Credits = credits
		x := newChannel(t, 1, c, s)
		x.ends[1].q.resp.receives = 4
		x.ends[0].post(40)
		for x.ends[1].got < 40 {
			x.run(x.now + 50*Microsecond)
			x.ends[1].q.PostReceives(1)
		}
		must(t, x.settle(10*dataplane.Millisecond))
		return x.ends[0].q.Count.Repeats
	}
	with, without := repeats(true), repeats(false)
	if with*2 > without {
		t.Errorf("%d packets are repeated with credits, %d without", with, without)
	}
}

// TestDrain: in SQD messages that were begun end, others wait; the path is changed
// when all is acknowledged, and not before.
func TestDrain(t *testing.T) {
	c, s := plain()
	x := newChannel(t, 1, c, s)
	e := x.ends[0]
	e.post(20)
	x.run(12 * Microsecond)
	must(t, e.q.Drain())
	if err := e.q.SetPath(Path{DLID: 11, SL: 2}); !errors.Is(err, ErrState) {
		t.Errorf("the path of a queue pair that drains is changed: %v", err)
	}
	x.run(dataplane.Millisecond)
	done := e.done
	if !e.q.IsDrained() || !slices.Contains(e.events, Drained) || done == 0 || done == 20 || x.ends[1].got != done {
		t.Fatalf("drained %v, %d complete, %d received", e.q.IsDrained(), done, x.ends[1].got)
	}
	must(t, e.q.SetPath(Path{DLID: 11, SL: 2}))
	must(t, e.q.Resume())
	must(t, x.settle(10*dataplane.Millisecond))
	if k := e.q.Count; k.Repeats != 0 || k.NAKs != 0 {
		t.Errorf("a drained change of path repeats: %+v", k)
	}
}

// TestLaneChangeReorders: the same change without draining lets new packets
// overtake old ones; the peer asks again and nothing is lost.
func TestLaneChangeReorders(t *testing.T) {
	c, s := plain()
	s.Timeout = 14
	x := newChannel(t, 1, c, s)
	e := x.ends[0]
	e.q.path.SL = 4
	e.post(20)
	x.run(12 * Microsecond)
	e.q.path.SL = 0
	must(t, x.settle(10*dataplane.Millisecond))
	if k := e.q.Count; k.NAKs == 0 || k.Repeats == 0 || k.Timeouts != 0 {
		t.Errorf("%+v", k)
	}
}

// TestMigration: REARM becomes ARMED when both ends have rearmed; one migrates and
// the other follows, each to its own alternate path.
func TestMigration(t *testing.T) {
	c, s := plain()
	x := newChannel(t, 1, c, s)
	a, b := x.ends[0], x.ends[1]
	a.post(10)
	x.run(50 * Microsecond)
	must(t, a.q.Rearm(Path{DLID: b.lid, SL: 3}))
	a.post(10)
	x.run(x.now + 200*Microsecond)
	if a.q.Migration() != StateRearm || !errors.Is(a.q.Migrate(x.now), ErrNotArmed) {
		t.Fatalf("%v while the peer has not rearmed", a.q.Migration())
	}
	must(t, b.q.Rearm(Path{DLID: a.lid, SL: 5}))
	a.post(10)
	x.run(x.now + 200*Microsecond)
	if a.q.Migration() != StateArmed || b.q.Migration() != StateArmed {
		t.Fatalf("%v and %v", a.q.Migration(), b.q.Migration())
	}
	a.post(10)
	x.run(x.now + 5*Microsecond)
	must(t, a.q.Migrate(x.now))
	must(t, x.settle(10*dataplane.Millisecond))
	if a.q.Path().SL != 3 || b.q.Path().SL != 5 || b.q.Migration() != StateMigrated || !slices.Contains(b.events, Migrated) {
		t.Errorf("paths %+v and %+v, %v", a.q.Path(), b.q.Path(), b.q.Migration())
	}
	if a.done != 40 || a.ok != 40 {
		t.Errorf("%d of 40 sends succeed", a.ok)
	}
}

// TestDrainedWhileArmed: an end that gets its path by draining has no alternate path to
// its earlier one any more, and the peer, which was armed, uses its own.
func TestDrainedWhileArmed(t *testing.T) {
	c, s := plain()
	x := newChannel(t, 1, c, s)
	a, b := x.ends[0], x.ends[1]
	must(t, a.q.Rearm(Path{DLID: b.lid, SL: 1}))
	must(t, b.q.Rearm(Path{DLID: a.lid, SL: 5}))
	a.post(4)
	x.run(100 * Microsecond)
	must(t, a.q.Drain())
	x.run(x.now + 100*Microsecond)
	must(t, a.q.SetPath(Path{DLID: b.lid, SL: 2}))
	must(t, a.q.Resume())
	a.post(4)
	must(t, x.settle(10*dataplane.Millisecond))
	if a.q.Path().SL != 2 || a.q.Migration() != StateMigrated || b.q.Path().SL != 5 || b.q.Migration() != StateMigrated || a.ok != 8 {
		t.Errorf("%+v, %v, and %+v, %v; %d sends succeed", a.q.Path(), a.q.Migration(), b.q.Path(), b.q.Migration(), a.ok)
	}
}

// TestMigrateAtOnce: an end that migrates as soon as it is ARMED leaves a peer in
// REARM that has not seen a packet without MigReq since it rearmed. A packet in
// between takes the peer along; repath.Config.Hold is for that.
func TestMigrateAtOnce(t *testing.T) {
	for _, between := range []bool{false, true} {
		c, s := plain()
		x := newChannel(t, 1, c, s)
		a, b := x.ends[0], x.ends[1]
		must(t, a.q.Rearm(Path{DLID: b.lid, SL: 1}))
		must(t, b.q.Rearm(Path{DLID: a.lid, SL: 1}))
		b.post(1) // its packets arm a; a has sent nothing but an acknowledgment that is lost
		x.cut[0] = x.now + 30*Microsecond
		x.run(30 * Microsecond)
		if a.q.Migration() != StateArmed || b.q.Migration() != StateRearm {
			t.Fatalf("%v and %v", a.q.Migration(), b.q.Migration())
		}
		if between {
			a.post(1)
			x.run(x.now + 100*Microsecond)
		}
		must(t, a.q.Migrate(x.now))
		a.post(1)
		must(t, x.settle(10*dataplane.Millisecond))
		if want := map[bool]MigrationState{false: StateRearm, true: StateMigrated}[between]; b.q.Migration() != want {
			t.Errorf("between %v: the peer is %v", between, b.q.Migration())
		}
	}
}

// TestAutomaticMigration: an armed connection whose path is lost migrates when its
// retries are used up, and ends only when the new path is lost too.
func TestAutomaticMigration(t *testing.T) {
	c, s := plain()
	x := newChannel(t, 1, c, s)
	a, b := x.ends[0], x.ends[1]
	must(t, a.q.Rearm(Path{DLID: b.lid, SL: 1}))
	must(t, b.q.Rearm(Path{DLID: a.lid, SL: 1}))
	a.post(2)
	x.run(100 * Microsecond)
	x.cut[0] = x.now + 8*AckTimeout(s.Timeout) + 40*Microsecond // each try takes the time of its packets too
	a.post(2)
	must(t, x.settle(10*dataplane.Millisecond))
	if a.q.Count.Migrations != 1 || a.q.Path().SL != 1 || b.q.Path().SL != 1 || a.q.State() != ReadyToSend {
		t.Errorf("%d migrations, path %+v, %v", a.q.Count.Migrations, a.q.Path(), a.q.State())
	}
	x.cut[0] = dataplane.Never
	a.post(1)
	x.run(x.now + 100*dataplane.Millisecond)
	if a.failed != RetryExceeded {
		t.Errorf("%v, %v", a.q.State(), a.failed)
	}
}

// TestStates: what a state does not permit is refused, and the queue pair stays.
func TestStates(t *testing.T) {
	c, s := plain()
	q := New(c, &end{})
	if q.Receivable(Connect{}) == nil || q.Sendable(s) == nil || q.Post(1, 1) == nil || q.Drain() == nil || q.Rearm(Path{}) == nil {
		t.Error("RESET permits too much")
	}
	must(t, q.Init())
	must(t, q.Receivable(Connect{}))
	if q.Post(1, 1) == nil || q.Init() == nil {
		t.Error("RTR permits too much")
	}
	must(t, q.Sendable(s))
	must(t, q.Drain())
	if !q.IsDrained() {
		t.Error("an idle queue pair is not drained at once")
	}
	q.Fail()
	if q.State() != Error || q.Resume() == nil {
		t.Errorf("%v", q.State())
	}
	q.Reset()
	must(t, q.Init())
}

// TestCodes: the codes of table 46 and of the RNR timers.
func TestCodes(t *testing.T) {
	for code, want := range map[Syndrome]int32{0: 0, 1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8, 7: 12, 8: 16, 30: 32768, 31: -1} {
		if got := creditsOf(code); got != want {
			t.Errorf("credit code %d is %d, want %d", code, got, want)
		}
	}
	for n := range int32(40000) {
		if c := creditsOf(creditCode(n)); c > n || n <= 4 && c != n {
			t.Errorf("%d receives are told as %d", n, c)
		}
	}
	if RNRTime(0) != 655360*Microsecond || RNRTime(1) != 10*Microsecond || RNRTime(31) != 491520*Microsecond {
		t.Error("RNR timers")
	}
}
