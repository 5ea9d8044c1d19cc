package daemon

import (
	"testing"
	"time"
)

// TestDates: a state keeps its date, also when the next one is there.
func TestDates(t *testing.T) {
	at := func(s int64) time.Time { return time.Unix(s, 0) }
	var d dates
	for _, c := range []struct {
		gen       uint64
		now, want int64
	}{{0, 1, 1}, {0, 2, 1}, {7, 3, 3}, {7, 4, 3}, {0, 5, 1}, {8, 6, 6}, {7, 7, 3}, {8, 8, 6}, {3, 9, 9}, {8, 10, 6}} {
		if got := d.of(c.gen, at(c.now)); got != at(c.want) {
			t.Errorf("state %d at %d is of %d, want %d", c.gen, c.now, got.Unix(), c.want)
		}
	}
}
