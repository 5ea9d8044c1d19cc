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
