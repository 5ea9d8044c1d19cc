package random

import (
	"math"
	"testing"
)

// TestExp compares the first moments and the distribution of exp with those of
// the exponential distribution.
func TestExp(t *testing.T) {
	const n, mean = 2_000_000, 518_500
	r := New(1, 2)
	sum, sq, over := 0.0, 0.0, 0
	for range n {
		x := float64(r.Exp(mean)) / mean
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
	const second = 1_000_000_000_000 // in picoseconds
	// Large means do not overflow.
	if x := r.Exp(1000 * second); x < 0 || x > 60_000*second {
		t.Errorf("mean 1000 s: %v", x)
	}
}

// TestBelow: below is uniform and in range.
func TestBelow(t *testing.T) {
	r, count := New(1, 3), [7]int{}
	for range 700_000 {
		count[r.Below(7)]++
	}
	for i, c := range count {
		if c < 98_500 || c > 101_500 {
			t.Errorf("%d comes %d times of 700,000", i, c)
		}
	}
}
