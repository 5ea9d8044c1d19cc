package study

import "testing"

// TestBucketed: a quantile has the digits that buckets of 1.6 % hold, and no exponent.
func TestBucketed(t *testing.T) {
	for x, want := range map[float64]string{0: "0", 0.01234: "0.012", 1.2345: "1.2", 9.96: "10", 12.345: "12", 99.6: "100", 123.4: "120", 5678: "5700", 99999: "100000"} {
		if got := bucketed(x); got != want {
			t.Errorf("%v: %s, want %s", x, got, want)
		}
	}
}
