package flood_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"heddle/flood"
)

// TestStats compares the histogram with sorted lists.
func TestStats(t *testing.T) {
	r := rng(1)
	for name, draw := range map[string]func() time.Duration{
		"uniform":     func() time.Duration { return time.Duration(r.Int64N(1e6)) },
		"exponential": func() time.Duration { return time.Duration(r.ExpFloat64() * 2e5) },
		"small":       func() time.Duration { return time.Duration(r.Int64N(300)) },
		"long":        func() time.Duration { return time.Duration(r.Int64N(math.MaxInt64)) },
		"constant":    func() time.Duration { return 12345 },
	} {
		var s, a, b flood.Stats
		var all []time.Duration
		sum := 0.0
		for i := range 10000 {
			d := draw()
			all = append(all, d)
			sum += float64(d)
			s.Add(d)
			if i%3 == 0 {
				a.Add(d)
			} else {
				b.Add(d)
			}
		}
		slices.Sort(all)
		mean, squares := sum/float64(len(all)), 0.0
		for _, d := range all {
			squares += (float64(d) - mean) * (float64(d) - mean)
		}
		a.Merge(&b)
		a.Merge(&flood.Stats{})
		for which, s := range map[string]*flood.Stats{"added": &s, "merged": &a} {
			what := name + ", " + which + ": "
			near(t, what+"mean", float64(s.Mean()), mean, 1e-6+1/mean)
			dev := math.Sqrt(squares / float64(len(all)))
			near(t, what+"standard deviation", float64(s.StdDev())+1, dev+1, 1e-6+1/(dev+1))
			if s.N() != 10000 || s.Max() != all[len(all)-1] {
				t.Errorf("%s%d, longest %v", what, s.N(), s.Max())
			}
			for _, q := range []float64{0, 0.01, 0.5, 0.9, 0.99, 0.999, 1} {
				want := all[max(0, int(math.Ceil(q*float64(len(all))))-1)]
				near(t, what+"quantile", float64(s.Quantile(q)), float64(want), 1.0/256)
			}
		}
	}
	var none flood.Stats
	if none.Mean() != 0 || none.StdDev() != 0 || none.Quantile(0.5) != 0 || none.Max() != 0 {
		t.Error("nothing has figures")
	}
	none.Add(-5)
	if none.Max() != 0 || none.N() != 1 {
		t.Error("a clock that went back")
	}
}
