package check_test

import (
	"testing"

	"heddle/internal/routetest"
	"heddle/route"
	"heddle/route/check"
	"heddle/route/engine/minhop"
	"heddle/route/engine/updn"
)

func benchmark(b *testing.B, e route.Engine, net *routetest.Net) {
	g := net.Graph()
	b.Run("compute", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := e.Compute(g, route.Options{Workers: 2}); err != nil {
				b.Fatal(err)
			}
		}
	})
	t, err := e.Compute(g, route.Options{Workers: 2})
	if err != nil {
		b.Fatal(err)
	}
	b.Run("verify", func(b *testing.B) {
		b.ReportAllocs()
		var r *check.Report
		for b.Loop() {
			r = check.Verify(g, t, check.Options{Workers: 2})
		}
		if !r.OK() {
			b.Fatal(r.Err())
		}
		b.ReportMetric(float64(r.MaxChannelLoad), "maxload")
		b.ReportMetric(r.AvgChannelLoad, "avgload")
		b.ReportMetric(float64(r.CreditCyclesSwitch), "swcycles")
	})
}

func BenchmarkMinHop(b *testing.B) {
	b.Run("648", func(b *testing.B) { benchmark(b, minhop.Engine{}, routetest.Tree2(36, 18, 18)) })
	b.Run("5832", func(b *testing.B) { benchmark(b, minhop.Engine{}, routetest.Tree(36, 18)) })
	b.Run("11664", func(b *testing.B) { benchmark(b, minhop.Engine{}, routetest.Tree(36, 36)) })
	b.Run("full", func(b *testing.B) { benchmark(b, minhop.Engine{}, routetest.FullSubnet()) })
}

func BenchmarkUpDn(b *testing.B) {
	b.Run("648", func(b *testing.B) { benchmark(b, updn.Engine{}, routetest.Tree2(36, 18, 18)) })
	b.Run("5832", func(b *testing.B) { benchmark(b, updn.Engine{}, routetest.Tree(36, 18)) })
	b.Run("11664", func(b *testing.B) { benchmark(b, updn.Engine{}, routetest.Tree(36, 36)) })
	b.Run("full", func(b *testing.B) { benchmark(b, updn.Engine{}, routetest.FullSubnet()) })
	b.Run("torus", func(b *testing.B) { benchmark(b, updn.Engine{}, routetest.Torus(8, 8, 1)) })
}
