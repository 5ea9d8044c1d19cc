package sa_test

import (
	"testing"

	"heddle/ib"
	"heddle/sa"
)

// BenchmarkReport forwards one trap to 200 subscribers among 800 subscriptions,
// acknowledgments included.
func BenchmarkReport(b *testing.B) {
	r := newFixture(b, snapshot(200, 0), sa.Config{})
	for lid := ib.LID(2); lid <= 201; lid++ {
		for _, n := range []uint16{64, 65, 66, 144} {
			r.want(lid, inform(trapNumber(n)), 0)
		}
	}
	b.ReportAllocs()
	for n := range b.N {
		r.trap(3, counted(3, n))
		for len(r.sends) > 0 {
			p := r.sends[0]
			r.sends = r.sends[1:]
			r.answer(p)
		}
		r.sends = nil
	}
	if s := r.core.Reports(); s.Answered != uint64(200*b.N) {
		b.Fatalf("%+v", s)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/200, "ns/report")
}
