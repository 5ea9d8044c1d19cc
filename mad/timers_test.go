package mad

import (
	"math/rand/v2"
	"testing"
)

// TestTimers: deadlines leave in the order of their time and then of seq, in whichever order they were
// set and cleared.
func TestTimers(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	const n = 40
	e := NewEngine(Config{})
	e.slots = make([]slot, n)
	for i := range e.slots {
		e.slots[i].place = noTimer
	}
	now, seq, listed, inHeap := Time(0), uint64(0), 0, 0
	for range 20_000 {
		i := int32(r.IntN(n))
		switch s := &e.slots[i]; {
		case s.place != noTimer:
			if r.IntN(3) == 0 {
				e.clearTimer(i)
			}
		case r.IntN(8) == 0: // earlier than others
			if r.IntN(2) == 0 {
				seq++
				s.seq = seq
			}
			e.setTimer(i, now+Time(r.IntN(20)))
		default:
			seq++
			s.seq = seq
			e.setTimer(i, now+20)
		}
		want := int32(-1)
		for k := range e.slots {
			s := &e.slots[k]
			switch s.place {
			case noTimer:
				continue
			case inList:
				listed++
			default:
				inHeap++
			}
			if want < 0 || s.alarm < e.slots[want].alarm || s.alarm == e.slots[want].alarm && s.seq < e.slots[want].seq {
				want = int32(k)
			}
		}
		if got := e.firstTimer(); got != want {
			t.Fatalf("slot %d is first, want %d", got, want)
		}
		if want >= 0 && r.IntN(4) == 0 {
			now = e.NextTimer()
			e.clearTimer(want)
		}
	}
	if listed == 0 || inHeap == 0 {
		t.Errorf("%d deadlines were in the list, %d in the heap", listed, inHeap)
	}
	for i := range e.slots {
		e.clearTimer(int32(i))
	}
	if e.NextTimer() != Never {
		t.Error("a deadline is left")
	}
}
