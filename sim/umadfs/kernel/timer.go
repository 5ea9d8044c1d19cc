package kernel

import (
	"encoding/binary"

	"heddle/mad"
)

func tid(m []byte) uint64       { return binary.BigEndian.Uint64(m[8:16]) }
func setTID(m []byte, v uint64) { binary.BigEndian.PutUint64(m[8:16], v) }

// timer is a deadline with what to do then.
type timer struct {
	at   mad.Time
	seq  uint64
	pos  int // in the heap, -1 outside
	fire func()
}

// timerHeap is a binary heap by (at, seq).
type timerHeap struct {
	t   []*timer
	seq uint64
}

func (h *timerHeap) less(i, j int) bool {
	a, b := h.t[i], h.t[j]
	return a.at < b.at || a.at == b.at && a.seq < b.seq
}

func (h *timerHeap) swap(i, j int) {
	h.t[i], h.t[j] = h.t[j], h.t[i]
	h.t[i].pos, h.t[j].pos = i, j
}

func (h *timerHeap) up(i int) {
	for i > 0 {
		j := (i - 1) / 2
		if !h.less(i, j) {
			return
		}
		h.swap(i, j)
		i = j
	}
}

func (h *timerHeap) down(i int) {
	for {
		j := 2*i + 1
		if j >= len(h.t) {
			return
		}
		if j+1 < len(h.t) && h.less(j+1, j) {
			j++
		}
		if !h.less(j, i) {
			return
		}
		h.swap(i, j)
		i = j
	}
}

// set puts t into the heap or moves it.
func (h *timerHeap) set(t *timer, at mad.Time) {
	h.stop(t)
	h.seq++
	t.at, t.seq, t.pos = at, h.seq, len(h.t)
	h.t = append(h.t, t)
	h.up(t.pos)
}

// stop takes t out of the heap if it is in it.
func (h *timerHeap) stop(t *timer) {
	i := t.pos
	if i < 0 || i >= len(h.t) || h.t[i] != t {
		t.pos = -1
		return
	}
	last := len(h.t) - 1
	h.swap(i, last)
	h.t[last] = nil
	h.t = h.t[:last]
	if i < last {
		h.down(i)
		h.up(i)
	}
	t.pos = -1
}

// arm asks the wire for a call at the earliest deadline, unless one that is
// early enough is already coming.
func (p *Port) arm() {
	if len(p.timers.t) == 0 {
		return
	}
	if at := p.timers.t[0].at; at < p.armed {
		p.armed = at
		p.wire.At(at, p.expire)
	}
}

// onTimer fires what is due. The wire may call it for a deadline that moved.
func (p *Port) onTimer() {
	now := p.wire.Now()
	if p.armed <= now {
		p.armed = mad.Never
	}
	outer := p.enter()
	for len(p.timers.t) > 0 && p.timers.t[0].at <= now {
		t := p.timers.t[0]
		p.timers.stop(t)
		t.fire()
	}
	p.leave(outer)
}
