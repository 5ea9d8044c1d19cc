package daemon

import (
	"sync"

	"heddle/ib"
	"heddle/mad"
	"heddle/settings"
)

// queue is a fair queue between goroutines. Answered packets return to the receiver under the
// same lock.
type queue struct {
	// bell is rung while requests wait. A goroutine that takes some but not all requests rings
	// it again.
	bell bell

	mu    sync.Mutex
	fair  *fair         // guarded by mu
	spare []*mad.Packet // guarded by mu
	over  bool          // end was called; guarded by mu
	slow  int           // requests that wait and are not quick; guarded by mu
}

func newQueue(perSource, total int) *queue {
	return &queue{bell: newBell(), fair: newFair(perSource, total)}
}

// put adds p to the queue of requester, unless it is refused. spare is a packet for the next
// receive, or nil if there is none.
func (q *queue) put(requester ib.LID, p *mad.Packet, at mad.Time) (spare *mad.Packet, r refusal) {
	spare, _, r = q.add(requester, query{p: p, at: at}, 0)
	return spare, r
}

// add is put for the receiver, which may answer quick requests itself. If only quick requests
// wait, and no more than most, the receiver takes them and no worker is woken.
func (q *queue) add(requester ib.LID, x query, most int) (spare *mad.Packet, own bool, r refusal) {
	q.mu.Lock()
	if q.over {
		q.mu.Unlock()
		return nil, false, ended
	}
	if r = q.fair.put(requester, x); r == accepted {
		if !x.quick {
			q.slow++
		}
		own = q.slow == 0 && q.fair.len() <= most
		if n := len(q.spare); n > 0 {
			spare = q.spare[n-1]
			q.spare = q.spare[:n-1]
		}
	}
	q.mu.Unlock()
	if r == accepted && !own {
		q.bell.ring()
	}
	return spare, own, r
}

// take returns the remaining packets of the requests in done, and moves waiting requests into
// b: all that fit, or only the part of one of share takers. It does not block. After end it
// takes nothing.
func (q *queue) take(b, done []query, share int) int {
	q.mu.Lock()
	q.giveBack(done)
	n := q.fair.len()
	n = q.next(b[:min(len(b), (n+share-1)/share)])
	more := q.fair.len() > 0
	q.mu.Unlock()
	if more {
		q.bell.ring()
	}
	return n
}

// takeQuick is take for the receiver. If a request waits that is not quick, it takes nothing
// and rings the bell. more reports that quick requests are left.
func (q *queue) takeQuick(b, done []query) (n int, more bool) {
	q.mu.Lock()
	q.giveBack(done)
	slow := q.slow > 0
	if !slow {
		n = q.next(b)
		more = q.fair.len() > 0
	}
	q.mu.Unlock()
	if slow {
		q.bell.ring()
	}
	return n, more
}

// giveBack keeps answered packets for reuse; mu is held.
func (q *queue) giveBack(done []query) {
	for i := range done {
		if p := done[i].p; p != nil && cap(p.Data) <= keptData && len(q.spare) < maxSpare {
			q.spare = append(q.spare, p)
		}
	}
}

// next moves requests into b; mu is held.
func (q *queue) next(b []query) int {
	n := q.fair.take(b)
	for i := range b[:n] {
		if !b[i].quick {
			q.slow--
		}
	}
	return n
}

// end makes the queue refuse further requests, and returns those that waited.
func (q *queue) end() []query {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.over = true
	rest := make([]query, q.fair.len())
	return rest[:q.next(rest)]
}

// Packets kept for reuse: their number, and their largest size.
const (
	maxSpare = settings.DefaultQueue
	keptData = 16 * ib.MADLen
)

// load counts the waiting requests and their requesters.
func (q *queue) load() (requests, requesters int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.fair.len(), q.fair.sources()
}
