package wheel

import (
	"math"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"
	"time"

	"heddle/internal/need"
)

// TestOrder puts random events in, in and between the buckets, far beyond them
// and before the current one, and compares the order with a sorted list.
func TestOrder(t *testing.T) {
	for _, seed := range need.Seeds(200, 20000) {
		r := rand.New(rand.NewPCG(seed, 1))
		q := New(uint(r.IntN(8)), uint(6+r.IntN(8)))
		span := q.mask << q.shift
		var model []Event
		now := int64(0)
		for range 600 {
			if len(model) == 0 || r.IntN(2) == 0 {
				d := r.Int64N(span + 1)
				switch r.IntN(8) {
				case 0:
					d = 0
				case 1:
					d = r.Int64N(20 * span)
				case 2:
					d = r.Int64N(1 << q.shift)
				}
				e := Event{now + d, uint32(r.IntN(5)) << (r.IntN(2) * 28), int32(r.IntN(7) - 3)}
				q.Push(e.At, e.Key, e.Arg)
				model = append(model, e)
				continue
			}
			if r.IntN(40) == 0 {
				q = q.Clone()
			}
			if r.IntN(40) == 0 {
				arg := int32(r.IntN(7) - 3)
				q.Remove(func(e Event) bool { return e.Arg == arg })
				model = slices.DeleteFunc(model, func(e Event) bool { return e.Arg == arg })
				continue
			}
			slices.SortFunc(model, func(a, b Event) int {
				if a.before(&b) {
					return -1
				} else if b.before(&a) {
					return 1
				}
				return 0
			})
			if r.IntN(3) == 0 { // look, and come back later
				limit := now + r.Int64N(2*span)
				if first, ok := q.NextBefore(limit); ok != (model[0].At < limit) || ok && first != model[0].At {
					t.Fatalf("seed %d: NextBefore(%d) = %d %v, first is %v", seed, limit, first, ok, model[0])
				}
				now = max(now, min(limit, model[0].At))
				continue
			}
			if q.Peek() != model[0].At {
				t.Fatalf("seed %d: Peek %d, first is %v", seed, q.Peek(), model[0])
			}
			now, _ = q.NextBefore(math.MaxInt64)
			e, ok := q.PopAt(now)
			if !ok || e != model[0] {
				t.Fatalf("seed %d: got %v %v, want %v", seed, e, ok, model[0])
			}
			model = model[1:]
		}
		n := 0
		for range q.All {
			n++
		}
		if n != len(model) || q.Len() != n {
			t.Fatalf("seed %d: All gives %d events, Len %d, want %d", seed, n, q.Len(), len(model))
		}
	}
}

// TestAllocations: a queue in steady state allocates nothing.
func TestAllocations(t *testing.T) {
	q, r := held(5000), rand.New(rand.NewPCG(1, 1))
	step := func() {
		for range 5000 {
			now, _ := q.NextBefore(math.MaxInt64)
			e, _ := q.PopAt(now)
			q.Push(now+delay(r), e.Key, e.Arg)
		}
	}
	for range 20 {
		step()
	}
	if a := testing.AllocsPerRun(20, step); a != 0 {
		t.Errorf("%v allocations in 5000 operations", a)
	}
}

// delay is like those of a fabric, in ps: cable and switch, credits, packets.
func delay(r *rand.Rand) int64 {
	switch r.IntN(4) {
	case 0:
		return 110_000
	case 1:
		return 12_000 + r.Int64N(32)*16_000
	default:
		return 518_500
	}
}

func held(n int) *Queue {
	r := rand.New(rand.NewPCG(7, 7))
	q := New(6, 17)
	for i := range n {
		q.Push(r.Int64N(520_000), uint32(i), int32(i))
	}
	return q
}

// cpu is the processor time of the process: builders are shared.
func cpu() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkHold takes the first event and puts one back, at 40,000 events
// pending: the goal is 15 M/s of a core.
func BenchmarkHold(b *testing.B) {
	for _, n := range []int{5_000, 40_000, 150_000} {
		b.Run(map[int]string{5_000: "5k", 40_000: "40k", 150_000: "150k"}[n], func(b *testing.B) {
			q, r := held(n), rand.New(rand.NewPCG(1, 1))
			delays := make([]int64, 4096)
			for i := range delays {
				delays[i] = delay(r)
			}
			b.ResetTimer()
			used := cpu()
			for i := range b.N {
				now, _ := q.NextBefore(math.MaxInt64)
				e, _ := q.PopAt(now)
				q.Push(now+delays[i&4095], e.Key, e.Arg)
			}
			b.ReportMetric(float64(b.N)/max((cpu()-used).Seconds(), 1e-9)/1e6, "M/cpu-s")
		})
	}
}
