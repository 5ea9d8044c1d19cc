package rc

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

// TestSuspendCampaign: queue pairs are suspended at random moments, for less than their
// peer's retries last, while packets are lost, drained and posted: no message is lost,
// doubled or reordered, and no queue pair ends. A packet that was in the adapter leaves
// it or not.
func TestSuspendCampaign(t *testing.T) {
	seeds := 500
	if v, err := strconv.Atoi(os.Getenv("HEDDLE_SEEDS")); err == nil {
		seeds = v
	}
	first := 0
	if v, err := strconv.Atoi(os.Getenv("HEDDLE_SEED")); err == nil {
		first, seeds = v, 1
	}
	suspended, busy := 0, 0
	for i := range seeds {
		a, b := suspendCampaign(t, uint64(first+i))
		suspended, busy = suspended+a, busy+b
		if t.Failed() {
			t.Fatalf("HEDDLE_SEED=%d", first+i)
		}
	}
	if seeds > 1 && busy < suspended/10 {
		t.Errorf("%d suspended, %d of them with packets under way", suspended, busy)
	}
}

func suspendCampaign(t *testing.T, seed uint64) (suspended, busy int) {
	r := rand.New(rand.NewPCG(seed, 3))
	c := Config{MTU: 2048, Window: 1 + r.IntN(40), AckEvery: r.IntN(8), Credits: r.IntN(2) == 0}
	s := Sender{Timeout: uint8(4 + r.IntN(3)), Retries: 7, RNRRetries: 7}
	x := newChannel(t, seed, c, s)
	timer := AckTimeout(s.Timeout)
	for range 10 + r.IntN(20) {
		e := x.ends[r.IntN(2)]
		switch r.IntN(4) {
		case 0, 1:
			e.post(1 + r.IntN(12))
		case 2:
			if e.q.Drain() == nil {
				x.run(x.now + Time(r.Int64N(int64(timer))))
			}
		default:
			e.post(r.IntN(12))
			x.run(x.now + Time(r.Int64N(int64(20*Microsecond))))
			e.away = true
			if suspended++; e.q.req.next != e.q.req.oldest {
				busy++
			}
			if e.full && r.IntN(2) == 0 {
				e.full = false
			}
			e.q.Suspend()
			e.post(r.IntN(3))
			x.run(x.now + Time(r.Int64N(5*int64(timer))))
			e.away = false
			e.q.Continue()
			x.ends[1-e.num].post(1)
			x.run(x.now + 4*timer) // so that retries are whole again
		}
		for _, e := range x.ends {
			if e.q.State() == SendQueueDrain && r.IntN(2) == 0 {
				must(t, e.q.Resume())
			}
		}
		x.run(x.now + Time(r.Int64N(int64(timer))))
	}
	for _, e := range x.ends {
		if e.q.State() == SendQueueDrain {
			must(t, e.q.Resume())
		}
	}
	if err := x.settle(timer * 1000); err != nil {
		t.Error(err)
	}
	for _, e := range x.ends {
		if e.failed != Success {
			t.Errorf("end %d ends with %v", e.num, e.failed)
		}
	}
	return suspended, busy
}
