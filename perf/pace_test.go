package perf

import (
	"testing"
	"time"
)

// TestSpace: a step sends what is due since the one before, and half as much again.
func TestSpace(t *testing.T) {
	for _, x := range []struct {
		period   time.Duration
		requests int
		gap      time.Duration
		batch    int
	}{
		{10 * time.Second, 0, maxGap, fewest},
		{10 * time.Second, 3_000, maxGap, fewest},
		{10 * time.Second, 80_000, time.Millisecond, 12},
		{10 * time.Second, 140_000, 571428 * time.Nanosecond, 12},
		{10 * time.Second, 400_000, minGap, 30},
		{64 * time.Millisecond, 100, time.Millisecond, fewest},
	} {
		c := Core{period: x.period}
		c.space(x.requests)
		if c.gap != x.gap || c.batch != x.batch {
			t.Errorf("%d requests in %v: %d every %v, want %d every %v", x.requests, x.period, c.batch, c.gap, x.batch, x.gap)
		}
		if sent := float64(c.batch) * float64(x.period) / float64(c.gap); sent < 1.4*float64(x.requests) {
			t.Errorf("%d requests in %v: at most %.0f can be sent", x.requests, x.period, sent)
		}
	}
}
