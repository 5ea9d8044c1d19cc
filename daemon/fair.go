package daemon

import (
	"heddle/ib"
	"heddle/mad"
)

// query is a request in a queue.
type query struct {
	p  *mad.Packet
	at mad.Time // arrival
	// quick says that the answer is short and fast to compute, so that the receiver may compute
	// it.
	quick bool
}

// refusal is why a fair queue refuses a request.
type refusal uint8

const (
	accepted       refusal = iota
	sourceFull             // the requester has used its share
	everythingFull         // the queue is full
	ended                  // the queue has ended
)

// fair is a bounded queue of requests: in order of arrival within one source LID, round-robin
// between source LIDs. A flood delays only its own requester: with n requesters waiting, a
// request is served after at most n others for each earlier one of its own requester.
//
// A source may have perSource requests waiting, but no more than half of the free places. So
// there is always room for a new source. Pure, not safe for concurrent use, and nothing is
// allocated after newFair.
type fair struct {
	perSource int
	slots     []slot   // slot 0 is not used
	free      uint16   // first slot of the free list
	left      int      // slots in it
	src       []source // by LID
	turn      ib.LID   // the source that was served last; valid if waiting > 0
	waiting   int      // sources with requests
}

type slot struct {
	q    query
	next uint16 // in the source's queue, or in the free list; 0 = none
}

// source is the queue of one requester. Sources with requests form a ring in the order in which
// they are served.
type source struct {
	head, tail uint16 // slots
	n          uint16
	next       ib.LID // valid if n > 0
}

// maxFair is the largest total: slots are numbered by 16 bits, and 0 is not used.
const maxFair = 1<<16 - 1

// newFair returns a queue of total places, 1 to maxFair.
func newFair(perSource, total int) *fair {
	f := &fair{perSource: perSource, slots: make([]slot, total+1), src: make([]source, 1<<16), free: 1, left: total}
	for i := 1; i < total; i++ {
		f.slots[i].next = uint16(i + 1)
	}
	return f
}

// len is how many requests wait.
func (f *fair) len() int { return len(f.slots) - 1 - f.left }

// put adds a request from lid at the end of that requester's queue.
func (f *fair) put(lid ib.LID, q query) refusal {
	s := &f.src[lid]
	switch {
	case f.left == 0:
		return everythingFull
	case int(s.n) >= f.perSource || s.n > 0 && int(s.n) >= f.left/2:
		return sourceFull
	}
	i := f.free
	f.free = f.slots[i].next
	f.left--
	f.slots[i] = slot{q: q}
	if s.n > 0 {
		f.slots[s.tail].next = i
	} else {
		s.head = i
		f.enter(lid, s)
	}
	s.tail = i
	s.n++
	return accepted
}

// enter adds lid at the end of the ring.
func (f *fair) enter(lid ib.LID, s *source) {
	if f.waiting == 0 {
		s.next = lid
	} else {
		last := &f.src[f.turn]
		s.next, last.next = last.next, lid
	}
	f.turn = lid
	f.waiting++
}

// take moves the next requests into b, one of each requester in turn, and returns their number.
func (f *fair) take(b []query) int {
	n := 0
	for ; n < len(b) && f.waiting > 0; n++ {
		last := &f.src[f.turn]
		lid := last.next
		s := &f.src[lid]
		i := s.head
		t := &f.slots[i]
		b[n] = t.q
		s.head = t.next
		*t = slot{next: f.free}
		f.free = i
		f.left++
		if s.n--; s.n > 0 {
			f.turn = lid
			continue
		}
		last.next = s.next
		f.waiting--
	}
	return n
}
