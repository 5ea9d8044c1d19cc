package mad

// alarms is a binary heap of the times at which transfers have something to
// do; those of one moment come in the order in which they were set, so that
// each has its turn.
type alarms struct {
	heap []*alarm
	seq  uint64
}

// alarm is that of a transfer; pos is -1 while it is not set.
type alarm struct {
	at  Time
	seq uint64
	pos int
	tx  *rmppTx // one of the two
	rx  *rmppRx
}

func (a *alarm) before(b *alarm) bool { return a.at < b.at || a.at == b.at && a.seq < b.seq }

// next is when the first one is due, Never if none is set.
func (h *alarms) next() Time {
	if len(h.heap) == 0 {
		return Never
	}
	return h.heap[0].at
}

// set sets or moves an alarm; Never clears it.
func (h *alarms) set(a *alarm, at Time) {
	switch {
	case a.pos >= 0 && a.at == at:
		return
	case at == Never:
		h.clear(a)
		return
	case a.pos < 0:
		a.pos = len(h.heap)
		h.heap = append(h.heap, a)
	}
	h.seq++
	a.at, a.seq = at, h.seq
	h.fix(a.pos)
}

func (h *alarms) clear(a *alarm) {
	k := a.pos
	if k < 0 {
		return
	}
	a.pos = -1
	n := len(h.heap) - 1
	last := h.heap[n]
	h.heap[n] = nil
	h.heap = h.heap[:n]
	if k < n {
		h.heap[k], last.pos = last, k
		h.fix(k)
	}
}

func (h *alarms) swap(i, j int) {
	h.heap[i], h.heap[j] = h.heap[j], h.heap[i]
	h.heap[i].pos, h.heap[j].pos = i, j
}

// fix moves the entry at k to where it belongs.
func (h *alarms) fix(k int) {
	for k > 0 && h.heap[k].before(h.heap[(k-1)/2]) {
		h.swap(k, (k-1)/2)
		k = (k - 1) / 2
	}
	for {
		c := 2*k + 1
		if c+1 < len(h.heap) && h.heap[c+1].before(h.heap[c]) {
			c++
		}
		if c >= len(h.heap) || !h.heap[c].before(h.heap[k]) {
			return
		}
		h.swap(c, k)
		k = c
	}
}
