package sim

import (
	"math/bits"
	"time"

	"heddle/ib"
	"heddle/internal/heap"
	"heddle/mad"
)

// event is an entry of the event queue. It contains no pointer, so the
// collector does not scan the queue: arg is an index into a side table.
type event struct {
	arg  int32
	kind eventKind
}

type eventKind uint8

const (
	evFunc   eventKind = iota // arg: index into kernel.fns
	evFlight                  // arg: index into Subnet.flights
	evData                    // the data plane was to be brought up to now
)

// kernel is the event queue, ordered by (time, seq).
type kernel struct {
	now    mad.Time
	seq    uint64
	q      heap.Heap[mad.Time, event]
	fns    []func()
	freeFn []int32
}

func (k *kernel) push(at mad.Time, kind eventKind, arg int32) {
	k.seq++
	k.q.Push(max(at, k.now), k.seq, event{arg: arg, kind: kind})
}

// pushFunc queues fn in a recycled slot of the side table.
func (k *kernel) pushFunc(at mad.Time, fn func()) {
	var i int32
	if n := len(k.freeFn); n > 0 {
		i = k.freeFn[n-1]
		k.freeFn = k.freeFn[:n-1]
		k.fns[i] = fn
	} else {
		i = int32(len(k.fns))
		k.fns = append(k.fns, fn)
	}
	k.push(at, evFunc, i)
}

func (k *kernel) takeFunc(i int32) func() {
	fn := k.fns[i]
	k.fns[i] = nil
	k.freeFn = append(k.freeFn, i)
	return fn
}

// Now is the present virtual time; 0 when the Subnet was made.
func (s *Subnet) Now() mad.Time { return s.k.now }

// At runs fn at time t, or at the next step of the queue if t is past. Events
// of one moment run in the order in which they were scheduled.
func (s *Subnet) At(t mad.Time, fn func()) { s.k.pushFunc(t, fn) }

// After runs fn once d has passed.
func (s *Subnet) After(d time.Duration, fn func()) { s.k.pushFunc(s.k.now.Add(d), fn) }

// NextEvent is the time of the earliest event, mad.Never if there is none.
func (s *Subnet) NextEvent() mad.Time {
	if s.data != nil {
		s.settle()
	}
	if s.k.q.Len() == 0 {
		return mad.Never
	}
	return s.k.q.Min().Key
}

// Step runs the earliest event and reports whether there was one.
func (s *Subnet) Step() bool {
	if s.data != nil {
		s.settle()
	}
	if s.k.q.Len() == 0 {
		return false
	}
	e := s.k.q.Pop()
	if s.data != nil {
		s.catchUp(e.Key)
	}
	s.k.now = e.Key
	switch e.Value.kind {
	case evFunc:
		s.k.takeFunc(e.Value.arg)()
	case evFlight:
		s.start(s.flights[e.Value.arg])
	}
	return true
}

// RunUntil runs all events due up to t and leaves the time at t (or where it
// was, if that is later).
func (s *Subnet) RunUntil(t mad.Time) {
	for {
		if s.data != nil {
			s.settle()
		}
		if s.k.q.Len() == 0 || s.k.q.Min().Key > t {
			break
		}
		s.Step()
	}
	s.k.now = max(s.k.now, t)
	if s.data != nil {
		s.catchUp(s.k.now)
	}
}

// stream is one entity's random stream (SplitMix64, Steele, Lea and Flood
// 2014). Its only state is a counter, so 100,000 of them cost 800 kB.
type stream uint64

// newStream derives the stream of an entity from the seed of the run and the
// entity's GUID, so streams do not depend on how many other entities exist.
func newStream(seed uint64, g ib.GUID) stream {
	st := stream(seed)
	a := st.next()
	st = stream(a ^ uint64(g))
	return stream(st.next())
}

func (r *stream) next() uint64 {
	*r += 0x9E3779B97F4A7C15
	z := uint64(*r)
	z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
	z = (z ^ z>>27) * 0x94D049BB133111EB
	return z ^ z>>31
}

// chance is true with probability p.
func (r *stream) chance(p float64) bool {
	return p > 0 && float64(r.next()>>11)*(1.0/(1<<53)) < p
}

// below is uniform in [0, n).
func (r *stream) below(n uint64) uint64 {
	if n == 0 {
		return 0
	}
	hi, _ := bits.Mul64(r.next(), n)
	return hi
}
