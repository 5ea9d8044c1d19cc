package lab

import (
	"math/rand/v2"
	"slices"
	"testing"

	"heddle/perf/dftree"
	"heddle/route"
	"heddle/route/engine/ftree"
	"heddle/route/engine/minhop"
	"heddle/route/engine/updn"
	"heddle/route/engine/vftree"
)

// TestHotSpotsShareALane: several hosts are hot at the same time, fed by the same others. On the slow
// lane their flows wait for each other, so each host takes less than its link carries; none of the hot
// spots ends before the load does.
func TestHotSpotsShareALane(t *testing.T) {
	for _, take := range []float64{0.82, 1} {
		b := newHotBed(t, hotOptions{seed: 2, mode: dftree.Act, leaves: 4, hosts: 4, ups: 4, take: take})
		var all []*Stream
		for _, hot := range []int{1, 6, 11} {
			for from := 2; from <= 16; from++ {
				if from != 6 && from != 11 {
					all = append(all, b.stream(from, hot))
				}
			}
		}
		b.periods(12)
		r, _ := b.Loaded.Manager.HotSpots()
		for i := range r.Open {
			x := &r.Open[i]
			t.Logf("take %v: %s %v waits %.2f, uses %.2f, %d contributors", take, x.Host.Desc, x.Sign, x.Wait, x.Use, len(x.Contributors))
		}
		if len(b.opened) != 3 || len(b.closed) != 0 {
			t.Errorf("take %v: %d opened, %d closed", take, len(b.opened), len(b.closed))
		}
		slow := 0
		for _, s := range all {
			if s.Conn.QP().Path().SL == b.slow {
				slow++
			}
		}
		if slow != len(all) {
			t.Errorf("take %v: %d of %d flows are on the slow lane", take, slow, len(all))
		}
		for _, s := range all {
			s.Stop()
		}
		b.periods(3)
		for _, s := range all {
			if s.Conn.QP().Path().SL != 0 {
				t.Fatalf("take %v: a flow is on the slow lane", take)
			}
		}
	}
}

// TestHotSpotsTogether: hot spots of several hosts, fed by some of the same, last together, and each
// begins and ends when it does. What TestHotSpotCampaign says of one at a time holds of each of
// them. Its flows are back within two and a half periods of its end, though others last: in the first
// sample after the end its port has sent, and flows that wait behind others look the same, so the end
// of the round with the second one shows it.
func TestHotSpotsTogether(t *testing.T) {
	first, n := seeds(8, 200)
	var sum hotTally
	for seed := first; seed < first+n; seed++ {
		hotSchedule(t, newHotTogether(t, seed, &sum))
		if t.Failed() {
			t.Fatalf("HEDDLE_SEED=%d", seed)
		}
	}
	t.Logf("%d schedules: %+v", n, sum)
	if sum.wrong > 0 {
		t.Errorf("%d hosts were taken for hot spots", sum.wrong)
	}
	if n >= 8 && (2*sum.found < sum.spans || 2*sum.moved < sum.spans || 10*sum.early > sum.found) {
		t.Errorf("not enough was found, or moved, or too much ended early: %+v", sum)
	}
}

func newHotTogether(t *testing.T, seed uint64, sum *hotTally) *hotCampaign {
	r := rand.New(rand.NewPCG(seed, 101))
	o := hotOptions{
		seed: seed, mode: dftree.Act, leaves: 3 + r.IntN(2), hosts: 4, ups: 1 + r.IntN(4),
		engine: []route.Engine{ftree.Engine{}, minhop.Engine{}, updn.Engine{}, vftree.Engine{}, vftree.Engine{Lanes: 2}}[r.IntN(5)],
		take:   []float64{0.82, 0.7, 1, 1}[r.IntN(4)],
	}
	c := &hotCampaign{take: o.take, within: 2.5, hotBed: newHotBed(t, o), rng: r, sum: sum, victims: map[*Host]bool{}}
	order := r.Perm(o.leaves * o.hosts)
	hot, others := order[:2+r.IntN(2)], order[3:]
	n := 5 + r.IntN(len(others)-5)
	feeders := others[:n]
	c.keep(others[n:], seed)
	for _, h := range hot {
		x := &hotSpan{host: h + 1, start: 2 + 4*r.Float64()}
		x.end = x.start + 4 + 16*r.Float64()
		f := slices.Clone(feeders)
		r.Shuffle(len(f), func(i, k int) { f[i], f[k] = f[k], f[i] })
		for _, i := range f[:4+r.IntN(len(f)-3)] {
			x.from = append(x.from, i+1)
		}
		c.spans = append(c.spans, x)
	}
	return c
}
