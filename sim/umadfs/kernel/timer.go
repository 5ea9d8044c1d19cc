package kernel

import (
	"encoding/binary"

	"heddle/internal/heap"
	"heddle/mad"
)

func tid(m []byte) uint64       { return binary.BigEndian.Uint64(m[8:16]) }
func setTID(m []byte, v uint64) { binary.BigEndian.PutUint64(m[8:16], v) }

// timer is a deadline and its action.
type timer struct {
	pos  int // in the heap, -1 outside
	fire func()
}

func (t *timer) moved(pos int) { t.pos = pos }

// timers are ordered by deadline, and by age among equals.
type timers struct {
	heap heap.Heap[mad.Time, *timer]
	seq  uint64
}

// set starts t or moves its deadline.
func (h *timers) set(t *timer, at mad.Time) {
	h.stop(t)
	h.seq++
	h.heap.Push(at, h.seq, t)
}

// stop stops t if it runs.
func (h *timers) stop(t *timer) {
	if t.pos >= 0 {
		h.heap.Remove(t.pos)
	}
}

// arm requests a call from the wire at the earliest deadline, unless an early
// enough one is scheduled.
func (p *Port) arm() {
	if p.timers.heap.Len() == 0 {
		return
	}
	if at := p.timers.heap.Min().Key; at < p.armed {
		p.armed = at
		p.wire.At(at, p.expire)
	}
}

// onTimer runs due timers. The wire may call it for a deadline that moved.
func (p *Port) onTimer() {
	now := p.wire.Now()
	if p.armed <= now {
		p.armed = mad.Never
	}
	outer := p.enter()
	for p.timers.heap.Len() > 0 && p.timers.heap.Min().Key <= now {
		t := p.timers.heap.Min().Value
		p.timers.stop(t)
		t.fire()
	}
	p.leave(outer)
}
