package replica

import (
	"fmt"
	"testing"
	"time"

	"heddle/internal/need"
)

// campaign runs one schedule.
func (w *world) campaign() {
	end := w.now.Add(time.Duration(10+w.r.IntN(60)) * time.Second)
	var load func()
	load = func() {
		for _, s := range w.site {
			for range w.r.IntN(3) {
				s.ask()
			}
		}
		w.check()
		if w.now < end.Add(20*time.Second) {
			w.at(w.lag(50*time.Millisecond), load)
		}
	}
	w.at(0, load)
	var faults func()
	every := []time.Duration{300 * time.Millisecond, time.Second, 3 * time.Second, 8 * time.Second}[w.r.IntN(4)]
	faults = func() {
		if w.now < end {
			w.fault()
			w.at(time.Duration(w.r.Int64N(int64(every))), faults)
		}
	}
	w.at(4*time.Second, faults)
	w.run(end)
	w.heal()
	w.fork()
	w.run(end.Add(20 * time.Second))
	w.show()
	w.judge(end)
}

// TestPair runs schedules of faults. No change that was acknowledged is lost, but where the
// rules say so; both managers are a pair again at the end.
func TestPair(t *testing.T) {
	// How many schedules had what: a manager of another vendor, a single Heddle that became master,
	// a fork file, a takeover that said that entries may be missing.
	vendor, heddle, forks, loud, all := 0, 0, 0, 0, need.Seeds(300, 30_000)
	for _, seed := range all {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			w := newWorld(t, seed)
			w.campaign()
			for n, had := range map[*int]bool{&vendor: w.third.came, &heddle: w.single.ruled, &forks: w.forks > 0, &loud: w.begun > 0} {
				if had {
					*n++
				}
			}
		})
	}
	t.Logf("%d schedules: a third manager of another vendor in %d, a single Heddle was master in %d, fork files in %d, loud takeovers in %d",
		len(all), vendor, heddle, forks, loud)
	if len(all) >= 100 && (vendor == 0 || heddle == 0 || forks == 0 || loud == 0) {
		t.Error("some of these never occur")
	}
}
