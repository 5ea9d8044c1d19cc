package lash_test

import (
	"testing"

	"heddle/internal/routetest"
	"heddle/route"
	"heddle/route/engine/lash"
)

func BenchmarkCompute(b *testing.B) { routetest.BenchCompute(b, lash.Engine{}) }

func BenchmarkUpdate(b *testing.B) { routetest.BenchUpdate(b, lash.Engine{}) }

func BenchmarkUpdateLink(b *testing.B) { routetest.BenchUpdateLink(b, lash.Engine{}) }

// BenchmarkDamaged routes a tree of 5,832 hosts with 40 links removed, in which not all
// paths go up and then down.
func BenchmarkDamaged(b *testing.B) {
	g := routetest.Damaged(routetest.Tree(36, 18), 40, routetest.Draws(1)).Graph()
	for b.Loop() {
		t, err := lash.Engine{}.Compute(g, route.Options{Workers: 2})
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(t.NumVLs), "lanes")
	}
}
