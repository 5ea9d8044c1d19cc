package lab

import (
	"math/rand/v2"
	"testing"
	"time"

	"heddle/perf"
	"heddle/sim"
)

// TestRoundsStay: rounds share what did not change, and none changes once it is published.
func TestRoundsStay(t *testing.T) {
	f := gen(t, "fattree", "324")
	cfg := perf.Defaults()
	cfg.Period = time.Second
	b := newPerfBed(t, f, sim.Config{Seed: 1, HopLatency: time.Microsecond, SMALatency: 5 * time.Microsecond}, cfg)
	type port struct {
		total   [perf.NumCounters]uint64
		delta   [perf.NumCounters]uint64
		at      time.Duration
		elapsed time.Duration
		flags   perf.Flags
		mayErr  bool
	}
	look := func(r *perf.Round, i int32) (p port) {
		for c := range perf.NumCounters {
			p.total[c], p.delta[c] = r.Total(i, c), r.Delta(i, c)
			if c.IsError() && p.delta[c] > 0 && !r.MayErr(i) {
				t.Errorf("round %d, port %d: %v counted %d, and MayErr is false", r.Number, i, c, p.delta[c])
			}
		}
		p.at, p.elapsed, p.flags, p.mayErr = time.Duration(r.At(i)), r.Elapsed(i), r.Flags(i), r.MayErr(i)
		return p
	}
	var rounds []*perf.Round
	var seen [][]port
	b.m.OnRound(func(r *perf.Round) {
		list := make([]port, r.Len())
		for i := range list {
			list[i] = look(r, int32(i))
		}
		rounds, seen = append(rounds, r), append(seen, list)
	})
	b.start()
	r := rand.New(rand.NewPCG(1, 3))
	for range 80 {
		b.c.Run(cfg.Period / 10)
		for range 20 {
			node := r.IntN(len(f.Nodes))
			x := tally(r, cfg.Period/10)
			x.Errors[r.IntN(len(x.Errors))] = r.Uint64N(3)
			b.c.Sim.Count(node, 1+r.IntN(len(f.Nodes[node].Ports)-1), x)
		}
	}
	if len(rounds) < 6 {
		t.Fatalf("%d rounds", len(rounds))
	}
	errors := 0
	for n, r := range rounds {
		for i, was := range seen[n] {
			if now := look(r, int32(i)); now != was {
				t.Fatalf("round %d, port %d: %+v was published, now it is %+v", r.Number, i, was, now)
			}
			if was.mayErr {
				errors++
			}
		}
	}
	if errors == 0 {
		t.Error("no port had errors")
	}
	// 2,600 requests in a second leave in steps of 8, and of 12 in the first round.
	if b.m.perf.most > 12 {
		t.Errorf("%d requests left in one step", b.m.perf.most)
	}
}
