package mad

import "heddle/internal/heap"

// timers are the deadlines of slots, earliest first, those of one instant by slot.seq. Tries with
// equal time-outs end in the order in which they begin, so most deadlines come after all others:
// these are a list. Those that do not are in a heap.
type timers struct {
	first, last int32 // the list; -1: empty. slot.prev and slot.next link it
	heap        heap.Heap[Time, int32]
}

// Values of slot.place that are not one in the heap.
const (
	noTimer = -1
	inList  = -2
)

func (e *Engine) initTimers() {
	e.timers.first, e.timers.last = -1, -1
	e.timers.heap.Moved = func(i int32, place int) { e.slots[i].place = int32(place) }
}

// setTimer sets the deadline of a slot that has none and is in no other list.
func (e *Engine) setTimer(i int32, at Time) {
	t, s := &e.timers, &e.slots[i]
	s.alarm = at
	if t.last >= 0 {
		if l := &e.slots[t.last]; at < l.alarm || at == l.alarm && s.seq < l.seq {
			t.heap.Push(at, s.seq, i)
			return
		}
		e.slots[t.last].next = i
	} else {
		t.first = i
	}
	s.place, s.prev, s.next = inList, t.last, -1
	t.last = i
}

// clearTimer removes the deadline of a slot, if it has one.
func (e *Engine) clearTimer(i int32) {
	t, s := &e.timers, &e.slots[i]
	switch s.place {
	case noTimer:
		return
	case inList:
	default:
		t.heap.Remove(int(s.place))
		return
	}
	if s.prev >= 0 {
		e.slots[s.prev].next = s.next
	} else {
		t.first = s.next
	}
	if s.next >= 0 {
		e.slots[s.next].prev = s.prev
	} else {
		t.last = s.prev
	}
	s.place, s.prev, s.next = noTimer, -1, -1
}

// firstTimer is the slot with the earliest deadline, -1 if there is none.
func (e *Engine) firstTimer() int32 {
	t := &e.timers
	i := t.first
	if t.heap.Len() == 0 {
		return i
	}
	m := t.heap.Min()
	if i >= 0 {
		if s := &e.slots[i]; s.alarm < m.Key || s.alarm == m.Key && s.seq < m.Tie {
			return i
		}
	}
	return m.Value
}

// NextTimer is when Expire must be called next; Never if nothing waits.
func (e *Engine) NextTimer() Time {
	if i := e.firstTimer(); i >= 0 {
		return e.slots[i].alarm
	}
	return Never
}
