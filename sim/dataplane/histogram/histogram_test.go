package histogram

import "testing"

// TestHistogram compares quantiles with the exact ones.
func TestHistogram(t *testing.T) {
	var h Histogram[int64]
	for i := 1; i <= 100_000; i++ {
		h.Add(int64(i) * 37)
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
