package lockstep

import (
	"runtime"
	"testing"
	"time"
)

// TestRun: what all have written in a round, all see in the next, with workers
// that never sleep and with workers that always do.
func TestRun(t *testing.T) {
	for _, procs := range []int{1, 2, 4} {
		was := runtime.GOMAXPROCS(procs)
		for _, n := range []int{1, 2, 3, 8} {
			const rounds = 200
			var board [2][8]int
			Run(n, func(k int, wait func()) {
				for r := range rounds {
					board[r&1][k] = r * (k + 1)
					if k == r%n { // one is late, another each time
						for range r % 7 {
							runtime.Gosched()
						}
					}
					wait()
					for j := range n {
						if got := board[r&1][j]; got != r*(j+1) {
							t.Errorf("%d workers: round %d: worker %d reads %d of worker %d", n, r, k, got, j)
						}
					}
				}
			})
		}
		runtime.GOMAXPROCS(was)
	}
}

// TestAlone: one worker is the caller itself.
func TestAlone(t *testing.T) {
	before := runtime.NumGoroutine()
	Run(1, func(_ int, wait func()) {
		wait()
		if n := runtime.NumGoroutine(); n > before {
			t.Errorf("%d goroutines, %d before", n, before)
		}
	})
}

// TestPanic: the panic of a worker reaches the caller, and no other waits forever.
func TestPanic(t *testing.T) {
	for bad := range 3 {
		got := func() (x any) {
			defer func() { x = recover() }()
			Run(3, func(k int, wait func()) {
				wait()
				if k == bad {
					panic("overrun")
				}
				wait()
			})
			return nil
		}()
		if got != "overrun" {
			t.Errorf("worker %d: got %v", bad, got)
		}
	}
}

// BenchmarkWait is a round of two workers that do nothing else.
func BenchmarkWait(b *testing.B) {
	start := time.Now()
	Run(2, func(_ int, wait func()) {
		for range b.N {
			wait()
		}
	})
	b.ReportMetric(float64(time.Since(start).Nanoseconds())/float64(b.N), "ns/round")
}
