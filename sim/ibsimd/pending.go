package ibsimd

import "heddle/mad"

// pending holds the unanswered requests of one client, and for a while those
// that were returned to it, in the order of their deadlines. The driver's lock
// guards it. It allocates nothing once it has reached its size.
type pending struct {
	ents  []pendEnt
	free  int32   // list of free entries by next
	first int32   // oldest, -1: none
	last  int32   // newest
	n     int     // entries in the list
	index []int32 // open-addressed by TID; entry+1, 0: empty
}

type pendEnt struct {
	tid      uint64 // low 48 bits
	deadline mad.Time
	prev     int32
	next     int32
	returned bool // status 110 was sent; stays to catch a late answer
	respLen  int16
	msg      dataMsg // the request
}

// maxPending bounds what one client can have open; beyond it the oldest is
// completed early.
const maxPending = 1 << 15

const tidMask = 1<<48 - 1

func (p *pending) init() {
	p.free, p.first, p.last = -1, -1, -1
}

func (p *pending) slot(tid uint64) uint32 {
	return uint32(tid*0x9E3779B97F4A7C15>>33) & uint32(len(p.index)-1)
}

// find returns the entry of a transaction or -1.
func (p *pending) find(tid uint64) int32 {
	if p.n == 0 {
		return -1
	}
	for i := p.slot(tid); ; i = (i + 1) & uint32(len(p.index)-1) {
		e := p.index[i]
		if e == 0 {
			return -1
		}
		if p.ents[e-1].tid == tid {
			return e - 1
		}
	}
}

// add adds an entry, and replaces the one with the same transaction. Deadlines
// must not decrease from call to call.
func (p *pending) add(tid uint64, deadline mad.Time) *pendEnt {
	if old := p.find(tid); old >= 0 {
		p.remove(old)
	}
	if p.free < 0 {
		p.ents = append(p.ents, pendEnt{next: -1})
		p.free = int32(len(p.ents) - 1)
	}
	if 2*(p.n+1) > len(p.index) {
		p.rehash(max(64, 2*len(p.index)))
	}
	i := p.free
	e := &p.ents[i]
	p.free = e.next
	e.tid, e.deadline, e.returned, e.respLen = tid, deadline, false, 0
	e.prev, e.next = p.last, -1
	if p.last >= 0 {
		p.ents[p.last].next = i
	} else {
		p.first = i
	}
	p.last = i
	p.n++
	p.place(tid, i)
	return e
}

func (p *pending) place(tid uint64, ent int32) {
	i := p.slot(tid)
	for p.index[i] != 0 {
		i = (i + 1) & uint32(len(p.index)-1)
	}
	p.index[i] = ent + 1
}

func (p *pending) rehash(size int) {
	p.index = make([]int32, size)
	for e := p.first; e >= 0; e = p.ents[e].next {
		p.place(p.ents[e].tid, e)
	}
}

// remove frees entry i.
func (p *pending) remove(i int32) {
	e := &p.ents[i]
	mask := uint32(len(p.index) - 1)
	h := p.slot(e.tid)
	for p.index[h] != i+1 {
		h = (h + 1) & mask
	}
	// Close the gap, so that probing needs no tombstones.
	for j := (h + 1) & mask; p.index[j] != 0; j = (j + 1) & mask {
		home := p.slot(p.ents[p.index[j]-1].tid)
		if (j-home)&mask >= (j-h)&mask {
			p.index[h] = p.index[j]
			h = j
		}
	}
	p.index[h] = 0
	if e.prev >= 0 {
		p.ents[e.prev].next = e.next
	} else {
		p.first = e.next
	}
	if e.next >= 0 {
		p.ents[e.next].prev = e.prev
	} else {
		p.last = e.prev
	}
	e.next, p.free = p.free, i
	p.n--
}

// renew moves entry i to the end of the list with a later deadline.
func (p *pending) renew(i int32, deadline mad.Time) {
	e := &p.ents[i]
	e.deadline = deadline
	if p.last == i {
		return
	}
	if e.prev >= 0 {
		p.ents[e.prev].next = e.next
	} else {
		p.first = e.next
	}
	p.ents[e.next].prev = e.prev
	e.prev, e.next = p.last, -1
	p.ents[p.last].next = i
	p.last = i
}

// next is the earliest deadline, mad.Never if there is none.
func (p *pending) next() mad.Time {
	if p.first < 0 {
		return mad.Never
	}
	return p.ents[p.first].deadline
}
