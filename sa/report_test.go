package sa_test

import (
	"bytes"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/sa"
)

// counted is a trap that says its number.
func counted(lid ib.LID, n int) smp.Notice {
	return smp.NewTrap(smp.TrapLocalChange, 1, lid, smp.DetailChange{LID: lid, CapabilityMask: ib.CapMask(n)})
}

func number(x report) int {
	var d smp.DetailChange
	d.Get(&x.n.DataDetails)
	return int(d.CapabilityMask)
}

// TestReportsWithLoss loses requests and answers: every subscriber gets every
// Report at least once and in order, or it is counted as failed.
func TestReportsWithLoss(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 11))
		r := newFixture(t, snapshot(5, 0), sa.Config{})
		for lid := ib.LID(2); lid <= 6; lid++ {
			r.want(lid, inform(nil), 0)
		}
		last, met := map[ib.LID]int{}, map[ib.LID]int{}
		deliver := func() {
			for len(r.sends) > 0 {
				p := r.sends[0]
				r.sends = r.sends[1:]
				if rng.IntN(5) == 0 {
					continue
				}
				x := decodeReport(t, p)
				switch n := number(x); {
				case n < last[x.to]:
					t.Fatalf("seed %d: LID %d gets Report %d after %d", seed, x.to, n, last[x.to])
				case n > last[x.to]:
					last[x.to] = n
					met[x.to]++
				}
				if rng.IntN(5) == 0 {
					continue
				}
				r.answer(p)
			}
		}
		const traps = 40
		for n := 1; n <= traps; n++ {
			r.trap(3, counted(3, n))
			deliver()
			for end := r.now.Add(time.Duration(rng.IntN(400)) * time.Millisecond); r.timer <= end; {
				r.until(r.timer)
				deliver()
			}
		}
		for i := 0; r.core.Reports().Waiting > 0 || r.timer != mad.Never; i++ {
			if i > 10000 {
				t.Fatalf("seed %d: Reports never end: %+v", seed, r.core.Reports())
			}
			r.until(r.timer)
			deliver()
		}
		s := r.core.Reports()
		all := 0
		for lid := ib.LID(2); lid <= 6; lid++ {
			all += met[lid]
		}
		if s.Sent != 5*traps || s.Answered+s.Failed != s.Sent || s.Dropped != 0 || all < int(s.Answered) || all+int(s.Failed) < 5*traps {
			t.Fatalf("seed %d: %d Reports arrived; %+v", seed, all, s)
		}
	}
}

// TestDeadSubscriber: an unresponsive subscriber does not delay others, holds a bounded
// number of Reports, gets them ever less often, and is finally dropped.
func TestDeadSubscriber(t *testing.T) {
	r := newFixture(t, snapshot(3, 0), sa.Config{DropAfter: 5 * time.Minute})
	r.want(2, inform(nil), 0)
	r.want(3, inform(nil), 0)
	alive, dead := 0, 0
	for n := range 3600 {
		r.trap(4, counted(4, n))
		for end := r.now.Add(100 * time.Millisecond); ; r.until(min(r.timer, end)) {
			for len(r.sends) > 0 {
				p := r.sends[0]
				r.sends = r.sends[1:]
				if p.Addr.LID == 3 {
					dead++
					continue
				}
				if x := number(decodeReport(t, p)); x != alive {
					t.Fatalf("Report %d comes as number %d", x, alive)
				}
				alive++
				r.answer(p)
			}
			if r.now >= end {
				break
			}
		}
		if s := r.core.Reports(); s.Waiting > 64 {
			t.Fatalf("%d Reports wait", s.Waiting)
		}
	}
	if alive != 3600 {
		t.Errorf("the live subscriber got %d of 3600 Reports", alive)
	}
	// 4 tries of the first, then 1 after 1, 2, 4, 8, 16, 16 … seconds.
	if dead < 10 || dead > 40 {
		t.Errorf("%d tries to reach the dead one in 6 minutes", dead)
	}
	s := r.core.Reports()
	if len(r.view.Subs) != 1 || s.Peers != 1 || s.Waiting != 0 || len(r.stored) != 1 {
		t.Errorf("the dead one is still there: %d subscriptions, %+v", len(r.view.Subs), s)
	}
	// It subscribes again, and hears.
	r.want(3, inform(nil), 0)
	r.trap(4, counted(4, 1))
	if got := r.reports(); len(got) != 2 {
		t.Errorf("%d Reports after it subscribed again, want 2", len(got))
	}
}

// TestReportStorm: the queue of one subscriber is bounded, and keeps the newest
// Reports.
func TestReportStorm(t *testing.T) {
	r := newFixture(t, snapshot(2, 0), sa.Config{})
	r.want(2, inform(nil), 0)
	const traps = 10000
	for n := range traps {
		r.trap(3, counted(3, n))
	}
	if s := r.core.Reports(); s.Waiting != 64 || s.Dropped != traps-65 {
		t.Errorf("%+v, want 64 waiting and the rest but one dropped", s)
	}
	got := r.reports()
	if len(got) != 65 || number(got[0]) != 0 || number(got[1]) != traps-64 || number(got[64]) != traps-1 {
		t.Errorf("%d Reports", len(got))
	}
}

// TestReportAfterStore: a Report about a change is not sent before the change is
// durable.
func TestReportAfterStore(t *testing.T) {
	r := newFixture(t, snapshot(2, 0), sa.Config{})
	r.want(2, inform(nil), 0)
	r.holdStore = true
	req := sa.Request{From: mad.Addr{LID: 3, QP: 1}, Data: inform(nil)}
	r.replies = nil
	r.step(sa.Requests{List: []sa.Request{req}})
	r.trap(3, counted(3, 1))
	if len(r.replies) != 0 || len(r.sends) != 0 || len(r.view.Subs) != 1 {
		t.Fatalf("%d replies, %d Reports, %d subscriptions shown before the store has it", len(r.replies), len(r.sends), len(r.view.Subs))
	}
	r.step(sa.Persisted{Gen: r.gen})
	if len(r.replies) != 1 || len(r.view.Subs) != 2 {
		t.Fatalf("%d replies, %d subscriptions shown after", len(r.replies), len(r.view.Subs))
	}
	if got := r.reports(); len(got) != 2 {
		t.Fatalf("%d Reports, want 2", len(got))
	}
}

// TestStrayAnswers: unsolicited responses, and those of other ports, change nothing.
func TestStrayAnswers(t *testing.T) {
	r := newFixture(t, snapshot(3, 0), sa.Config{})
	r.want(2, inform(nil), 0)
	r.trap(4, counted(4, 1))
	p := r.sends[0]
	r.sends = nil
	foreign := p
	foreign.Addr.LID = 3
	r.answer(foreign)
	for _, b := range [][]byte{nil, {1}, bytes.Repeat([]byte{0xFF}, ib.MADLen), make([]byte, ib.MADLen)} {
		r.step(sa.Received{P: &mad.Packet{Addr: p.Addr, Data: b}})
	}
	if s := r.core.Reports(); s.Answered != 0 {
		t.Fatalf("%+v", s)
	}
	r.answer(p)
	r.answer(p)
	if s := r.core.Reports(); s.Answered != 1 || r.timer != mad.Never {
		t.Errorf("%+v, timer %v", s, r.timer)
	}
}

// TestNoLeak: registrations, subscriptions and their removal leave no state behind; a
// million cycles in make test-long.
func TestNoLeak(t *testing.T) {
	cycles := 20_000
	if os.Getenv("HEDDLE_LONG") != "" {
		cycles = 1_000_000
	}
	r := newFixture(t, snapshot(4, 0), sa.Config{})
	r.notices = nil
	rng := rand.New(rand.NewPCG(1, 1))
	for i := range cycles {
		lid := ib.LID(2 + i%4)
		s := serviceOf(uint64(i), 1, "s")
		s.ServiceLease = uint32(1 + rng.IntN(1000))
		r.want(lid, set(wire.AttrServiceRecord, compRID|wire.ServiceCompServiceLease, s), 0)
		r.want(lid, inform(trapNumber(0x8000|uint16(i))), 0)
		r.want(lid, leave(trapNumber(0x8000|uint16(i))), 0)
		r.want(lid, del(wire.AttrServiceRecord, compRID, s), 0)
		r.notices, r.sends = nil, nil
		if i%1000 == 0 {
			if n := r.core.Kept(); n > 300 {
				t.Fatalf("after %d cycles %d things are kept", i, n)
			}
		}
	}
	if len(r.stored) != 0 || len(r.view.Subs) != 0 || len(r.view.Services) != 0 {
		t.Errorf("%d records stored, %d subscriptions, %d services", len(r.stored), len(r.view.Subs), len(r.view.Services))
	}
}
