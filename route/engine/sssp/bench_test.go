package sssp_test

import (
	"testing"

	"heddle/internal/routetest"
	"heddle/route"
	"heddle/route/engine/sssp"
)

func BenchmarkCompute(b *testing.B) { routetest.BenchCompute(b, sssp.DFEngine{}) }

func BenchmarkUnlayered(b *testing.B) { routetest.BenchCompute(b, sssp.Engine{}) }

func BenchmarkUpdate(b *testing.B) { routetest.BenchUpdate(b, sssp.DFEngine{}) }

func BenchmarkUpdateLink(b *testing.B) { routetest.BenchUpdateLink(b, sssp.DFEngine{}) }

// BenchmarkDamaged routes a tree of 5,832 hosts with 40 links removed, in which not all
// paths go up and then down.
func BenchmarkDamaged(b *testing.B) {
	g := routetest.Damaged(routetest.Tree(36, 18), 40, routetest.Draws(1)).Graph()
	for b.Loop() {
		t, err := sssp.DFEngine{}.Compute(g, route.Options{Workers: 2})
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(t.NumVLs), "lanes")
	}
}
