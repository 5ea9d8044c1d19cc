package rc

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

// TestCampaign: random schedules of cuts, losses, changes of lane by migration and
// by draining, and receives that come late. No message may be lost, doubled or
// reordered; a queue pair may end in error only when as many time-outs have passed
// without an acknowledgment as it has retries.
func TestCampaign(t *testing.T) {
	seeds := 2000
	if testing.Short() {
		seeds = 200
	}
	if v, err := strconv.Atoi(os.Getenv("HEDDLE_SEEDS")); err == nil {
		seeds = v
	}
	first := 0
	if v, err := strconv.Atoi(os.Getenv("HEDDLE_SEED")); err == nil {
		first, seeds = v, 1
	}
	var sum tally
	for i := range seeds {
		campaign(t, uint64(first+i), &sum)
		if t.Failed() {
			t.Fatalf("HEDDLE_SEED=%d", first+i)
		}
	}
	t.Logf("%d schedules: %+v", seeds, sum)
	if first == 0 && (sum.errors == 0 || sum.migrations == 0 || sum.drains == 0 || sum.repeats == 0 || sum.rnrs == 0 || sum.complete == 0) {
		t.Errorf("the schedules miss something: %+v", sum)
	}
}

type tally struct {
	complete, errors                 int
	migrations, drains               int
	repeats, timeouts, rnrs, reorder uint64
}

func campaign(t *testing.T, seed uint64, sum *tally) {
	r := rand.New(rand.NewPCG(seed, 1))
	c := Config{MTU: 2048, Window: 1 + r.IntN(40), AckEvery: r.IntN(8), Credits: r.IntN(2) == 0}
	s := Sender{Timeout: uint8(4 + r.IntN(3)), Retries: uint8(r.IntN(8)), RNRRetries: 7}
	x := newChannel(t, seed, c, s)
	lossy := r.IntN(3) == 0
	if lossy {
		x.loss = r.Float64() * 0.2
	}
	scarce := r.IntN(3) == 0
	if scarce {
		for _, e := range x.ends {
			e.q.resp.receives = 2
		}
	}
	timer := AckTimeout(s.Timeout)
	for range 10 + r.IntN(40) {
		e := x.ends[r.IntN(2)]
		peer := x.ends[1-e.num]
		switch r.IntN(8) {
		case 0, 1:
			e.post(1 + r.IntN(12))
		case 2:
			x.cut[e.num] = x.now + Time(r.Int64N(int64(timer)*int64(s.Retries+3)))
		case 3: // a reroute that both ends hear of: alternate paths of random lanes
			if e.q.Rearm(Path{DLID: peer.lid, SL: e.q.path.SL ^ 1}) == nil {
				_ = peer.q.Rearm(Path{DLID: e.lid, SL: peer.q.path.SL ^ 2})
			}
		case 4: // one end alone hears of it
			_ = e.q.Rearm(Path{DLID: peer.lid, SL: e.q.path.SL ^ 1})
		case 5:
			if e.q.Migration() == StateArmed && e.q.Migrate(x.now) == nil {
				sum.migrations++
			}
		case 6:
			if e.q.Drain() == nil {
				sum.drains++
			}
		case 7:
			x.ends[0].q.PostReceives(3)
			x.ends[1].q.PostReceives(3)
		}
		for _, e := range x.ends {
			if e.q.IsDrained() && r.IntN(2) == 0 {
				must(t, e.q.SetPath(Path{DLID: x.ends[1-e.num].lid, SL: e.q.path.SL ^ 3}))
				must(t, e.q.Resume())
			}
		}
		x.run(x.now + Time(r.Int64N(int64(timer))))
	}
	x.loss = 0
	x.cut = [2]Time{x.now, x.now}
	for _, e := range x.ends {
		e.q.PostReceives(1 << 20)
	}
	x.run(x.now + timer*20)
	for _, e := range x.ends {
		if e.q.State() == SendQueueDrain {
			must(t, e.q.Resume())
		}
	}
	if err := x.settle(timer * 1000); err != nil {
		t.Error(err)
	}
	for _, e := range x.ends {
		judge(t, x, e, s, timer, sum)
	}
}

// judge checks how one end came out.
func judge(t *testing.T, x *channel, e *end, s Sender, timer Time, sum *tally) {
	k := e.q.Count
	sum.repeats += k.Repeats
	sum.timeouts += k.Timeouts
	sum.rnrs += k.RNRs
	sum.reorder += k.OutOfOrder
	if e.failed == Success {
		sum.complete++
		return
	}
	sum.errors++
	if e.failed != RetryExceeded {
		t.Errorf("end %d ends with %v", e.num, e.failed)
	}
	// One NAK that acknowledges nothing new may take the place of a time-out.
	if quiet := e.failedAt - e.lastNews(); quiet < timer*Time(s.Retries) {
		t.Errorf("end %d fails %v after the last acknowledgment: %d retries of %v", e.num, quiet, s.Retries, timer)
	}
	if e.done != e.posted {
		t.Errorf("end %d: %d of %d sends complete", e.num, e.done, e.posted)
	}
}

// lastNews is when something new was acknowledged last, or a send was posted to an
// idle queue pair.
func (e *end) lastNews() Time { return max(e.progress, e.q.req.news) }
