package dataplane

import (
	"math"
	"testing"
)

// TestExp compares the first moments and the distribution of exp with those of
// the exponential distribution.
func TestExp(t *testing.T) {
	const n, mean = 2_000_000, 518_500
	r := newRNG(1, 2)
	sum, sq, over := 0.0, 0.0, 0
	for range n {
		x := float64(r.exp(mean)) / mean
		sum += x
		sq += x * x
		if x > 3 {
			over++
		}
	}
	if m := sum / n; math.Abs(m-1) > 0.003 {
		t.Errorf("mean %v", m)
	}
	if m := sq / n; math.Abs(m-2) > 0.02 {
		t.Errorf("mean square %v", m)
	}
	if p := float64(over) / n; math.Abs(p-math.Exp(-3)) > 0.001 {
		t.Errorf("above 3 means: %v", p)
	}
	// Large means do not overflow.
	if x := r.exp(1000 * Second); x < 0 || x > 60_000*Second {
		t.Errorf("mean 1000 s: %v", x)
	}
}

// TestBelow: below is uniform and in range.
func TestBelow(t *testing.T) {
	r, count := newRNG(1, 3), [7]int{}
	for range 700_000 {
		count[r.below(7)]++
	}
	for i, c := range count {
		if c < 98_500 || c > 101_500 {
			t.Errorf("%d comes %d times of 700,000", i, c)
		}
	}
}

// TestHistogram compares quantiles with the exact ones.
func TestHistogram(t *testing.T) {
	var h Histogram
	for i := 1; i <= 100_000; i++ {
		h.add(Time(i) * 37)
	}
	for _, q := range []float64{0.01, 0.5, 0.9, 0.99, 0.999, 1} {
		want := q * 3_700_000
		if got := float64(h.Quantile(q)); got < want*0.9999 || got > want*1.017 {
			t.Errorf("quantile %v: %v, want %v", q, got, want)
		}
	}
	if h.Mean() != 37*100_001/2 || h.Max != 3_700_000 || h.Min != 37 {
		t.Errorf("mean %v, max %v, min %v", h.Mean(), h.Max, h.Min)
	}
}
