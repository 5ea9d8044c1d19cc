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
	// light says that its source has asked little (fair).
	light bool
}

// refusal is why a fair queue refuses a request.
type refusal uint8

const (
	accepted       refusal = iota
	sourceFull             // the requester has used its share
	everythingFull         // the queue is full
	ended                  // the queue has ended
)

// Sources that ask little are served first. A source may ask lightBurst requests at once, and one
// more each lightEvery after that; beyond it is heavy, until it has been quiet for a while. Hosts
// that were notified of a change ask for all their paths at once and are heavy; other hosts need
// a path now and then.
const (
	lightBurst = 8
	lightEvery = 48 // ticks
	// tick is the unit in which the use of a source is counted.
	tick = 1 << 20 // ns, 1.05 ms
	// heavyEvery: while both wait, one request in heavyEvery is of a heavy source.
	heavyEvery = 8
)

// fair is a bounded queue of requests: in order of arrival within one source LID, round-robin
// between light source LIDs, then between heavy ones. A flood delays only its own requester: with
// n requesters waiting, a request is served after at most n others for each earlier one of its
// own requester, and heavyEvery times as many if it is heavy and others are light.
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
	light     turns    // sources that were light when they last asked
	heavy     turns
	lights    int // light requests served while heavy ones waited, since the last heavy one
}

type slot struct {
	q    query
	next uint16 // in the source's queue, or in the free list; 0 = none
}

// source is the queue of one requester. Sources with requests are in a ring, in the order in
// which they are served.
type source struct {
	head, tail uint16 // slots
	n          uint16
	next       ib.LID // valid if n > 0
	asked      bool   // a request, ever
	isHeavy    bool   // since its last request; its ring follows when it is its turn
	// used is the tick at which everything that it has asked for is permitted: it is light if
	// that is within lightBurst requests from now. It wraps after 52 days.
	used uint32
}

// turns is a ring of sources, served in turn.
type turns struct {
	last ib.LID // the source that was served last; valid if n > 0
	n    int
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

// sources is how many sources have requests.
func (f *fair) sources() int { return f.light.n + f.heavy.n }

// put adds a request from lid at the end of that requester's queue.
func (f *fair) put(lid ib.LID, q query) refusal {
	s := &f.src[lid]
	s.charge(q.at)
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
		f.ringOf(s).enter(f.src, lid)
	}
	s.tail = i
	s.n++
	return accepted
}

// charge counts a request at a time, and decides whether its source is heavy.
func (s *source) charge(at mad.Time) {
	now := uint32(at / tick)
	ahead := s.used - now
	if !s.asked || ahead > lightBurst*lightEvery { // used is in the past
		ahead = 0
	}
	s.isHeavy = ahead > (lightBurst-1)*lightEvery
	s.asked, s.used = true, now+min(ahead+lightEvery, lightBurst*lightEvery)
}

// ringOf is the ring in which s belongs.
func (f *fair) ringOf(s *source) *turns {
	if s.isHeavy {
		return &f.heavy
	}
	return &f.light
}

// enter adds lid at the end of the ring.
func (r *turns) enter(src []source, lid ib.LID) {
	if r.n == 0 {
		src[lid].next = lid
	} else {
		last := &src[r.last]
		src[lid].next, last.next = last.next, lid
	}
	r.last = lid
	r.n++
}

// leave removes the next source from the ring.
func (r *turns) leave(src []source) {
	last := &src[r.last]
	last.next = src[last.next].next
	r.n--
}

// take moves the next requests into b and returns their number. It marks those of light sources.
func (f *fair) take(b []query) (n int) {
	for ; n < len(b) && f.light.n+f.heavy.n > 0; n++ {
		if f.nextIsLight() {
			f.serve(&f.light, &b[n])
			b[n].light = true
			f.lights++
		} else {
			f.serve(&f.heavy, &b[n])
			f.lights = 0
		}
		if f.heavy.n == 0 {
			f.lights = 0
		}
	}
	return n
}

// nextIsLight reports whether a light source is served next. Sources in its ring that have become
// heavy change to the other one.
func (f *fair) nextIsLight() bool {
	for f.light.n > 0 {
		lid := f.src[f.light.last].next
		if !f.src[lid].isHeavy {
			return f.heavy.n == 0 || f.lights < heavyEvery-1
		}
		f.light.leave(f.src)
		f.heavy.enter(f.src, lid)
	}
	return false
}

// serve takes a request of the next source in r.
func (f *fair) serve(r *turns, q *query) {
	lid := f.src[r.last].next
	s := &f.src[lid]
	i := s.head
	t := &f.slots[i]
	*q = t.q
	s.head = t.next
	*t = slot{next: f.free}
	f.free = i
	f.left++
	s.n--
	to := f.ringOf(s)
	if s.n > 0 && to == r {
		r.last = lid
		return
	}
	r.leave(f.src)
	if s.n > 0 {
		to.enter(f.src, lid)
	}
}
