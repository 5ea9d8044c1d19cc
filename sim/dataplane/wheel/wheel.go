// Package wheel is the event queue of the data plane: a timing wheel whose
// events leave in the order of (time, key, argument), whatever the order in
// which they were put in.
//
// The wheel has a power of two of buckets, each a power of two of picoseconds
// wide; a two-level bitmap finds the next bucket that is not empty. The events of a
// bucket are in chunks of seven, two cache lines, which are linked by index in one
// slice without pointers, so the collector scans nothing.
// The bucket that is being emptied is sorted. What lies beyond the last bucket
// waits in a heap. R. Brown's calendar queue (1988) resizes itself; the delays
// of a fabric lie in a known band (10 ns to some µs), so this one need not.
//
// A Queue belongs to one goroutine.
package wheel

import (
	"math"
	"math/bits"
	"slices"

	"heddle/internal/heap"
)

// Event is an entry of the queue.
type Event struct {
	At  int64  // time
	Key uint32 // orders events of one time
	Arg int32  // orders events of one time and key
}

// before is the order of the queue.
func (a *Event) before(b *Event) bool {
	if a.At != b.At {
		return a.At < b.At
	}
	if a.Key != b.Key {
		return a.Key < b.Key
	}
	return a.Arg < b.Arg
}

// tie is Key and Arg as the second key of the heap.
func (a *Event) tie() uint64 { return uint64(a.Key)<<32 | uint64(uint32(a.Arg)^1<<31) }

// perChunk is how many events a chunk holds.
const perChunk = 7

// chunk holds events of a bucket: 128 bytes.
type chunk struct {
	ev   [perChunk]Event
	next int32 // full one of the same bucket, or the next free one, -1
	_    [12]byte
}

// place is the first chunk of a bucket, times 8, and how many events are in it; 0:
// the bucket is empty. So an event is put in without reading the chunk.
type place uint32

func (p place) chunk() int32 { return int32(p >> 3) }
func (p place) n() int       { return int(p & 7) }

// Queue is an event queue. New makes one.
type Queue struct {
	shift uint  // a bucket is 1<<shift wide
	mask  int64 // buckets - 1
	base  int64 // number of the current bucket: time >> shift
	n     int   // events, far ones included

	cur    []Event // events of the current bucket, the next one last
	heads  []place // of each other bucket
	chunks []chunk
	free   int32

	words []uint64 // a bit for each bucket with events
	sums  []uint64 // a bit for each word that is not 0
	far   heap.Heap[int64, int32]
}

// New returns an empty queue at time 0 with 1<<buckets buckets (at least 64) of
// 1<<shift time units each.
func New(shift, buckets uint) *Queue {
	n := int64(1) << max(buckets, 6)
	q := &Queue{
		shift: shift, mask: n - 1, free: -1,
		heads: make([]place, n), words: make([]uint64, n/64), sums: make([]uint64, (n/64+63)/64),
	}
	return q
}

// Bytes is the memory that the queue has reserved, without that of far events.
func (q *Queue) Bytes() int {
	return 16*cap(q.cur) + 128*cap(q.chunks) + 4*cap(q.heads) + 8*(cap(q.words)+cap(q.sums))
}

// Len is the number of events.
func (q *Queue) Len() int { return q.n }

// Push puts an event in. One before the current bucket is the next to leave.
func (q *Queue) Push(at int64, key uint32, arg int32) {
	q.n++
	b := at >> q.shift
	d := b - q.base
	if d <= 0 {
		q.insert(Event{at, key, arg})
		return
	}
	if d > q.mask {
		e := Event{at, key, arg}
		// Arg is in the tie too, so that the order is whole.
		q.far.Push(at, e.tie(), arg)
		return
	}
	q.put(b&q.mask, Event{at, key, arg})
}

// put puts an event into a bucket.
func (q *Queue) put(slot int64, e Event) {
	p := q.heads[slot]
	if n := p.n(); n > 0 && n < perChunk {
		q.chunks[p.chunk()].ev[n] = e
		q.heads[slot] = p + 1
		return
	}
	i := q.free
	if i < 0 {
		i = int32(len(q.chunks))
		q.chunks = append(q.chunks, chunk{})
	} else {
		q.free = q.chunks[i].next
	}
	c := &q.chunks[i]
	c.ev[0], c.next = e, -1
	q.heads[slot] = place(i)<<3 | 1
	if p != 0 {
		c.next = p.chunk()
		return
	}
	w := slot >> 6
	q.words[w] |= 1 << (slot & 63)
	q.sums[w>>6] |= 1 << (w & 63)
}

// bucket is the events of a bucket.
func (q *Queue) bucket(p place) func(yield func(Event) bool) {
	return func(yield func(Event) bool) {
		n := p.n()
		for i := p.chunk(); i >= 0; i = q.chunks[i].next {
			for k := range n {
				if !yield(q.chunks[i].ev[k]) {
					return
				}
			}
			n = perChunk // only the first may not be full
		}
	}
}

// clear empties a bucket that has events.
func (q *Queue) clear(slot int64) {
	for i := q.heads[slot].chunk(); i >= 0; {
		c := &q.chunks[i]
		next := c.next
		c.next, q.free = q.free, i
		i = next
	}
	q.heads[slot] = 0
	w := slot >> 6
	if q.words[w] &^= 1 << (slot & 63); q.words[w] == 0 {
		q.sums[w>>6] &^= 1 << (w & 63)
	}
}

// insert puts e in its place of the current bucket.
func (q *Queue) insert(e Event) {
	c := append(q.cur, e)
	i := len(c) - 1
	for i > 0 && c[i-1].before(&e) {
		c[i] = c[i-1]
		i--
	}
	c[i] = e
	q.cur = c
}

// Peek is the time of the first event. The queue must not be empty.
func (q *Queue) Peek() int64 {
	if n := len(q.cur); n > 0 {
		return q.cur[n-1].At
	}
	t := int64(math.MaxInt64)
	if d := q.nextBucket(); d >= 0 {
		p := q.heads[(q.base+d)&q.mask]
		n := p.n()
		for i := p.chunk(); i >= 0; i = q.chunks[i].next {
			for k := range n {
				t = min(t, q.chunks[i].ev[k].At)
			}
			n = perChunk
		}
	}
	if q.far.Len() > 0 {
		t = min(t, q.far.Min().Key)
	}
	return t
}

// NextBefore is the time of the first event, if that is before limit; PopAt takes
// it out. The wheel does not turn past limit, so that events at limit and later
// can still be put into their buckets: in the current one they cost more.
func (q *Queue) NextBefore(limit int64) (t int64, ok bool) {
	if len(q.cur) == 0 {
		if q.n == 0 {
			return 0, false
		}
		b := q.firstBucket()
		if b < 0 || b<<q.shift >= limit {
			return 0, false
		}
		q.turn(b)
	}
	t = q.cur[len(q.cur)-1].At
	return t, t < limit
}

// Bucket is the number of the current bucket.
func (q *Queue) Bucket() int64 { return q.base }

// Current is what is left in the current bucket, the first event last.
func (q *Queue) Current() []Event { return q.cur }

// HeadAt is the first event if its time is t, which NextBefore has returned.
func (q *Queue) HeadAt(t int64) (Event, bool) {
	n := len(q.cur) - 1
	if n < 0 || q.cur[n].At != t {
		return Event{}, false
	}
	return q.cur[n], true
}

// PopAt takes out the first event if its time is t, which NextBefore has returned.
func (q *Queue) PopAt(t int64) (Event, bool) {
	n := len(q.cur) - 1
	if n < 0 || q.cur[n].At != t {
		return Event{}, false
	}
	e := q.cur[n]
	q.cur = q.cur[:n]
	q.n--
	return e, true
}

// firstBucket is the number of the first bucket after the current one that has an
// event, -1 if none has.
func (q *Queue) firstBucket() int64 {
	b := int64(-1)
	if d := q.nextBucket(); d >= 0 {
		b = q.base + d
	}
	if q.far.Len() > 0 {
		if f := q.far.Min().Key >> q.shift; b < 0 || f < b {
			b = f
		}
	}
	return b
}

// turn makes a bucket the current one.
func (q *Queue) turn(b int64) {
	q.base = b
	slot := b & q.mask
	if p := q.heads[slot]; p != 0 {
		n := p.n()
		for i := p.chunk(); i >= 0; i = q.chunks[i].next {
			q.cur = append(q.cur, q.chunks[i].ev[:n]...)
			n = perChunk
		}
		q.clear(slot)
	}
	for q.far.Len() > 0 && q.far.Min().Key>>q.shift == b {
		x := q.far.Pop()
		q.cur = append(q.cur, Event{x.Key, uint32(x.Tie >> 32), x.Value})
	}
	q.sortCurrent()
}

// sortCurrent sorts the current bucket, the first event last.
func (q *Queue) sortCurrent() { sortEvents(q.cur) }

func sortEvents(c []Event) {
	for len(c) > 24 {
		c = split(c)
	}
	for i := 1; i < len(c); i++ {
		e := c[i]
		j := i
		for j > 0 && c[j-1].before(&e) {
			c[j] = c[j-1]
			j--
		}
		c[j] = e
	}
}

// split sorts a part of c, and returns the rest (C. A. R. Hoare's quicksort; the
// larger part is the rest). Calls by a general sort would cost more than it does.
func split(c []Event) []Event {
	last := len(c) - 1
	mid := last / 2
	if c[0].before(&c[mid]) {
		c[0], c[mid] = c[mid], c[0]
	}
	if c[mid].before(&c[last]) {
		c[mid], c[last] = c[last], c[mid]
		if c[0].before(&c[mid]) {
			c[0], c[mid] = c[mid], c[0]
		}
	}
	pivot := c[mid]
	i, j := 0, last
	for i <= j {
		for pivot.before(&c[i]) {
			i++
		}
		for c[j].before(&pivot) {
			j--
		}
		if i <= j {
			c[i], c[j] = c[j], c[i]
			i++
			j--
		}
	}
	small, rest := c[:j+1], c[i:]
	if len(small) > len(rest) {
		small, rest = rest, small
	}
	sortEvents(small)
	return rest
}

// nextBucket is how many buckets after the current one the next bucket with
// events is, -1 if there is none.
func (q *Queue) nextBucket() int64 {
	start := (q.base + 1) & q.mask
	w := start >> 6
	if m := q.words[w] >> (start & 63); m != 0 {
		return 1 + int64(bits.TrailingZeros64(m))
	}
	// Whole words after w, round the wheel, and w itself at last.
	nw := int64(len(q.words))
	for k := int64(1); k <= nw; {
		i := (w + k) % nw
		if m := q.sums[i>>6] >> (i & 63); m == 0 {
			// The rest of this summary word is empty.
			k += min(64-i&63, nw-i)
			continue
		} else if s := int64(bits.TrailingZeros64(m)); s > 0 {
			k += s
			continue
		}
		slot := i<<6 + int64(bits.TrailingZeros64(q.words[i]))
		return (slot-q.base-1)&q.mask + 1
	}
	return -1
}

// Remove takes out the events for which drop is true. It takes time proportional
// to the buckets.
func (q *Queue) Remove(drop func(Event) bool) {
	q.cur = slices.DeleteFunc(q.cur, drop)
	q.n = len(q.cur)
	var keep []Event
	for slot, p := range q.heads {
		if p == 0 {
			continue
		}
		keep = keep[:0]
		for e := range q.bucket(p) {
			if !drop(e) {
				keep = append(keep, e)
			}
		}
		q.clear(int64(slot))
		for _, e := range keep {
			q.put(int64(slot), e)
			q.n++
		}
	}
	var far heap.Heap[int64, int32]
	for x := range q.far.All {
		if e := (Event{x.Key, uint32(x.Tie >> 32), x.Value}); !drop(e) {
			far.Push(x.Key, x.Tie, x.Value)
			q.n++
		}
	}
	q.far = far
}

// Clone returns a copy that shares nothing with q.
func (q *Queue) Clone() *Queue {
	c := *q
	c.cur = slices.Clone(q.cur)
	c.heads = slices.Clone(q.heads)
	c.chunks = slices.Clone(q.chunks)
	c.words = slices.Clone(q.words)
	c.sums = slices.Clone(q.sums)
	c.far = q.far.Clone()
	return &c
}

// All calls yield for every event, in no particular order. It is for checks and
// faults: it takes time proportional to the buckets.
func (q *Queue) All(yield func(Event) bool) {
	for _, e := range q.cur {
		if !yield(e) {
			return
		}
	}
	for _, p := range q.heads {
		if p == 0 {
			continue
		}
		for e := range q.bucket(p) {
			if !yield(e) {
				return
			}
		}
	}
	for x := range q.far.All {
		if !yield(Event{x.Key, uint32(x.Tie >> 32), x.Value}) {
			return
		}
	}
}
