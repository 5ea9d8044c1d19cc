package sa_test

import (
	"testing"
	"time"

	wire "heddle/ib/sa"
	"heddle/mad"
	"heddle/sa"
)

// TestLostReportIsRepeated: the wait for a response follows the measured round trip, is never less
// than the subscriber asked for, and a subscriber that does not answer gets a bounded number of tries
// over about the same time.
func TestLostReportIsRepeated(t *testing.T) {
	for _, x := range []struct {
		name     string
		measured int           // Reports that are answered before one is lost
		trip     time.Duration // of each
		resp     uint8         // RespTimeValue
		want     time.Duration // until the repetition
		tries    int
	}{
		{"nothing is measured", 0, 0, 0, 200 * time.Millisecond, 4},
		{"a short trip", 8, 60 * time.Microsecond, 0, 20 * time.Millisecond, 7},
		{"a long trip", 40, 60 * time.Millisecond, 0, 60 * time.Millisecond, 5},
		{"a trip that is too long", 8, 190 * time.Millisecond, 0, 200 * time.Millisecond, 4},
		{"the subscriber asks for more", 8, 60 * time.Microsecond, 17, 4096 << 17, 4},
	} {
		r := newFixture(t, snapshot(3, 0), sa.Config{})
		r.want(2, inform(func(i *wire.InformInfo) { i.RespTimeValue = x.resp }), 0)
		for n := range x.measured {
			r.trap(3, counted(3, n+1))
			r.until(r.now.Add(x.trip))
			p := r.sends[0]
			r.sends = nil
			r.answer(p)
		}
		r.notices = nil
		r.trap(3, counted(3, 99))
		var at []mad.Time
		for end := r.now.Add(20 * time.Second); r.now < end && len(r.notices) == 0; {
			for range r.sends {
				at = append(at, r.now)
			}
			r.sends = nil
			r.until(r.timer)
		}
		if len(at) != x.tries || len(r.notices) != 1 {
			t.Fatalf("%s: %d tries, notices %v", x.name, len(at), r.notices)
		}
		if got := at[1].Sub(at[0]); got < x.want || got > x.want+x.want/20 {
			t.Errorf("%s: repeated after %v, want %v", x.name, got, x.want)
		}
		if all := r.now.Sub(at[0]); x.resp == 0 && (all < 1800*time.Millisecond || all > 3200*time.Millisecond) {
			t.Errorf("%s: given up after %v", x.name, all)
		}
	}
}
