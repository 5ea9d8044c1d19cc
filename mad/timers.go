package mad

// timerHeap is a 4-ary heap of the slots' deadlines. Each slot knows its
// place, so an answer takes its timer out at once instead of leaving it to
// fire in vain.
type timerHeap []timer

type timer struct {
	at   Time
	seq  uint64
	slot int32
}

func (t timer) before(u timer) bool { return t.at < u.at || t.at == u.at && t.seq < u.seq }

func (h *timerHeap) push(slots []slot, i int32, at Time) {
	*h = append(*h, timer{at: at, seq: slots[i].seq, slot: i})
	h.up(slots, len(*h)-1)
}

func (h *timerHeap) remove(slots []slot, k int) {
	s := *h
	slots[s[k].slot].heapPos = -1
	n := len(s) - 1
	last := s[n]
	*h = s[:n]
	if k == n {
		return
	}
	s[k] = last
	slots[last.slot].heapPos = int32(k)
	h.down(slots, k)
	h.up(slots, int(slots[last.slot].heapPos))
}

func (h *timerHeap) up(slots []slot, k int) {
	s := *h
	t := s[k]
	for k > 0 {
		p := (k - 1) / 4
		if !t.before(s[p]) {
			break
		}
		s[k] = s[p]
		slots[s[k].slot].heapPos = int32(k)
		k = p
	}
	s[k] = t
	slots[t.slot].heapPos = int32(k)
}

func (h *timerHeap) down(slots []slot, k int) {
	s := *h
	t := s[k]
	for {
		c := 4*k + 1
		if c >= len(s) {
			break
		}
		m := c
		for j := c + 1; j < min(c+4, len(s)); j++ {
			if s[j].before(s[m]) {
				m = j
			}
		}
		if !s[m].before(t) {
			break
		}
		s[k] = s[m]
		slots[s[k].slot].heapPos = int32(k)
		k = m
	}
	s[k] = t
	slots[t.slot].heapPos = int32(k)
}
