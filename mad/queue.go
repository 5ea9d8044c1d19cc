package mad

import (
	"encoding/binary"
	"math/bits"
	"time"

	"heddle/ib"
)

// queue is a FIFO queue of requests in chunks. A request is stored without its
// trailing zeros (a LID-routed SMP has 128), so a long queue takes about half
// the memory of its MADs. Chunks are reused: in steady state nothing is
// allocated.
type queue struct {
	n          int // waiting requests, without canceled ones
	head, tail *chunk
	spare      *chunk
	spares     int
}

const (
	chunkLen  = 128
	maxSpares = 8
)

type chunk struct {
	next     *chunk
	from, to int
	meta     [chunkLen]queued
	body     []byte
}

type queued struct {
	addr     Addr
	canceled bool
	retries  int16
	end      uint32 // end of the MAD in body; it starts where the previous one ends
	timeout  time.Duration
	token    uint64
}

func (q *queue) push(r *Request) {
	c := q.tail
	if c == nil || c.to == chunkLen {
		c = q.grow()
	}
	c.body = append(c.body, r.MAD[:used(&r.MAD)]...)
	m := &c.meta[c.to]
	*m = queued{
		addr: r.Addr, timeout: r.Timeout, token: r.Token, end: uint32(len(c.body)),
		retries: int16(max(-1, min(r.Retries, 1<<10))),
	}
	if m.addr.QP == 0 {
		m.addr.QP = localQP(r.MAD.Class())
	}
	c.to++
	q.n++
}

// used is the length of a MAD without its trailing zeros.
func used(m *ib.MAD) int {
	for n := ib.MADLen; n > 0; n -= 8 {
		if x := binary.LittleEndian.Uint64(m[n-8 : n]); x != 0 {
			return n - bits.LeadingZeros64(x)/8
		}
	}
	return 0
}

func (q *queue) grow() *chunk {
	c := q.spare
	if c != nil {
		q.spare = c.next
		q.spares--
		c.next, c.from, c.to, c.body = nil, 0, 0, c.body[:0]
	} else {
		c = &chunk{body: make([]byte, 0, chunkLen*144)}
	}
	if q.tail == nil {
		q.head = c
	} else {
		q.tail.next = c
	}
	q.tail = c
	return c
}

// pop moves the oldest request into s. The queue must not be empty.
func (q *queue) pop(s *slot) {
	for {
		c := q.head
		if c.from == c.to {
			q.drop()
			continue
		}
		k := c.from
		c.from++
		m := &c.meta[k]
		if m.canceled {
			continue
		}
		start := uint32(0)
		if k > 0 {
			start = c.meta[k-1].end
		}
		n := copy(s.mad[:], c.body[start:m.end])
		clear(s.mad[n:])
		s.addr, s.timeout, s.token, s.retries = m.addr, m.timeout, m.token, int32(m.retries)
		q.n--
		if c.from == c.to && (c.to == chunkLen || q.n == 0) {
			q.drop()
		}
		return
	}
}

// drop releases the head chunk.
func (q *queue) drop() {
	c := q.head
	q.head = c.next
	if q.head == nil {
		q.tail = nil
	}
	if q.spares < maxSpares {
		c.next = q.spare
		q.spare = c
		q.spares++
	}
}

// each calls fn for the waiting requests, oldest first.
func (q *queue) each(fn func(token uint64, sent bool)) {
	for c := q.head; c != nil; c = c.next {
		for k := c.from; k < c.to; k++ {
			if m := &c.meta[k]; !m.canceled {
				fn(m.token, false)
			}
		}
	}
}

func (q *queue) cancel(first, last uint64) int {
	n := 0
	for c := q.head; c != nil; c = c.next {
		for k := c.from; k < c.to; k++ {
			m := &c.meta[k]
			if !m.canceled && m.token >= first && m.token <= last {
				m.canceled = true
				n++
			}
		}
	}
	q.n -= n
	if q.n == 0 {
		for q.head != nil {
			q.drop()
		}
	}
	return n
}
