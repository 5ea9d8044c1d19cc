package mad

import "heddle/internal/heap"

// alarms is a queue of deadlines of transfers. Deadlines of the same moment run
// in the order in which they were set, so no transfer starves.
type alarms struct {
	heap heap.Heap[Time, *alarm]
	seq  uint64
}

// alarm is the deadline of one transfer; pos is -1 while it is not set.
type alarm struct {
	at  Time
	pos int
	tx  *rmppTx // one of the two
	rx  *rmppRx
}

func (a *alarm) moved(pos int) { a.pos = pos }

// next returns the earliest deadline; Never: none.
func (h *alarms) next() Time {
	if h.heap.Len() == 0 {
		return Never
	}
	return h.heap.Min().Key
}

// set sets or moves an alarm; Never clears it.
func (h *alarms) set(a *alarm, at Time) {
	if a.pos >= 0 && a.at == at {
		return
	}
	h.clear(a)
	if at != Never {
		h.seq++
		a.at = at
		h.heap.Push(at, h.seq, a)
	}
}

func (h *alarms) clear(a *alarm) {
	if a.pos >= 0 {
		h.heap.Remove(a.pos)
	}
}
