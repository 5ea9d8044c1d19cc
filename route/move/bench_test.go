package move_test

import (
	"fmt"
	"syscall"
	"testing"

	"heddle/ib"
	"heddle/internal/routetest"
	"heddle/route"
	"heddle/route/check"
	"heddle/route/engine/ftree"
	"heddle/route/engine/minhop"
	"heddle/route/move"
)

// BenchmarkMoves migrates VMs in the full subnet, 49,149 LIDs and 648 switches, alone
// and in batches; the processor time of one move is cpu-ns/move. Computing,
// ordering and both proofs are included.
func BenchmarkMoves(b *testing.B) {
	g := routetest.FullSubnet().Graph()
	lids := hosts(g)
	for _, e := range []route.Engine{minhop.Engine{}, ftree.Engine{}} {
		tb, err := e.Compute(g, route.Options{Workers: 2})
		if err != nil {
			b.Fatal(err)
		}
		first := check.Prove(g, tb, check.Options{Workers: 2})
		if !first.OK() {
			b.Fatal(first.Err())
		}
		for _, kind := range []move.Kind{move.Copy, move.Swap} {
			for _, mode := range []move.Mode{move.Balanced, move.Minimal} {
				for _, batch := range []int{1, 10, 100, 1000} {
					b.Run(fmt.Sprintf("%s/%v/%v/%d", e.Name(), kind, mode, batch), func(b *testing.B) {
						rnd := routetest.Draws(1)
						p, moves, smps, alone, stages, writes, held := first, 0, 0, 0, 0, 0, 0
						b.ReportAllocs()
						spent := processor(b)
						for b.Loop() {
							list := make([]move.Request, 0, batch)
							for len(list) < batch {
								// The first of 17 LIDs is the PF's.
								l, with := lids[rnd(2853)*17+1+rnd(16)], lids[rnd(2853)*17]
								if kind == move.Swap {
									with += 1 + ib.LID(rnd(16))
								}
								if l != with {
									list = append(list, move.Request{Kind: kind, Mode: mode, LID: l, With: with})
								}
							}
							r, err := move.New(p, list, options)
							if err != nil {
								b.Fatal(err)
							}
							p = r.Proof
							moves += batch
							smps += len(r.Blocks)
							alone += r.Unmerged
							stages += len(r.Stages)
							writes += r.Writes
							held += r.Held
						}
						n := float64(moves)
						b.ReportMetric(float64(processor(b)-spent)/n, "cpu-ns/move")
						b.ReportMetric(float64(smps)/n, "SMPs/move")
						b.ReportMetric(float64(alone)/n, "alone/move")
						b.ReportMetric(float64(writes)/n, "writes/move")
						b.ReportMetric(float64(stages)/float64(b.N), "stages")
						b.ReportMetric(float64(held)/n, "held/move")
					})
				}
			}
		}
	}
}

// processor is the time that this process has spent, in nanoseconds.
func processor(b *testing.B) int64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return u.Utime.Nano() + u.Stime.Nano()
}
