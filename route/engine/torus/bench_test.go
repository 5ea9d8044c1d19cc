package torus_test

import (
	"testing"

	"heddle/internal/routetest"
	"heddle/route"
	"heddle/route/engine/torus"
)

func BenchmarkTorus(b *testing.B) {
	for _, net := range []string{"torus 8x8x8 hosts=4", "torus 16x16x16 hosts=1", "torus 32x32 hosts=4"} {
		g := graph(b, 8, net)
		n := int32(len(g.Switches))
		for name, g := range map[string]struct {
			switches, cables []int32
		}{"whole": {}, "damaged": {[]int32{n / 3}, []int32{5, 1001}}} {
			d := routetest.Without(graph(b, 8, net), g.switches, g.cables)
			b.Run(net+"/"+name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if _, err := (torus.Engine{}).Compute(d, route.Options{Workers: 2}); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
