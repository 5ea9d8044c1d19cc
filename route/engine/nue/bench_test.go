package nue_test

import (
	"strconv"
	"testing"

	"heddle/route"
)

func BenchmarkCompute(b *testing.B) {
	for _, what := range []string{"fattree 648", "fattree 5832", "torus 8x8 hosts=2", "dragonfly 8 4 4"} {
		for _, lanes := range []int{1, 8} {
			b.Run(what+"/"+strconv.Itoa(lanes), func(b *testing.B) {
				g := generate(b, 1, what)
				b.ReportAllocs()
				for b.Loop() {
					compute(b, g, route.Options{MaxVLs: lanes, Workers: 2})
				}
			})
		}
	}
}

// BenchmarkUpdate updates tables after a link failure and after its repair.
func BenchmarkUpdate(b *testing.B) {
	for _, what := range []string{"fattree 648", "fattree 5832", "torus 8x8 hosts=2"} {
		for _, lanes := range []int{1, 8} {
			b.Run(what+"/"+strconv.Itoa(lanes), func(b *testing.B) {
				g := generate(b, 1, what)
				o := route.Options{MaxVLs: lanes, Workers: 2}
				whole := route.Solution{Graph: g, Tables: compute(b, g, o)}
				c := len(g.Channels) / 3
				h := without(g, map[int]bool{min(c, int(g.Channels[c].Rev)): true})
				b.ReportAllocs()
				for b.Loop() {
					update(b, route.Solution{Graph: h, Tables: update(b, whole, h, o)}, g, o)
				}
			})
		}
	}
}
