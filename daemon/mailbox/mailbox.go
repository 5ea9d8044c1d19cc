// Package mailbox passes packets from the goroutine that receives to the one that works on them.
package mailbox

import (
	"sync"

	"heddle/mad"
)

// Box passes packets from the receiver to the manager's loop and back, many at a time: a channel for
// each way costs an SMP four locks, with wake-ups in between.
type Box struct {
	bell chan struct{} // see Bell
	most int           // packets that may wait

	mu    sync.Mutex
	wait  []*mad.Packet // from head on, oldest first; guarded by mu
	head  int           // guarded by mu
	spare []*mad.Packet // those that are done; guarded by mu
	came  uint64        // packets that were added; guarded by mu
	done  uint64        // those of them that are done; guarded by mu
}

// New returns an empty Box in which at most so many packets wait.
func New(most int) *Box { return &Box{bell: make(chan struct{}, 1), most: most} }

// Bell is rung when packets wait that did not before: it stays so until somebody receives from it.
func (b *Box) Bell() <-chan struct{} { return b.bell }

func (b *Box) ring() {
	select {
	case b.bell <- struct{}{}:
	default:
	}
}

// Put adds a packet, unless most or more wait; the limit of the Box applies too. It returns one
// that is done, or nil if there is none.
func (b *Box) Put(p *mad.Packet, most int) (spare *mad.Packet, ok bool) {
	b.mu.Lock()
	n := len(b.wait) - b.head
	if n >= min(most, b.most) {
		b.mu.Unlock()
		return nil, false
	}
	if b.head > 0 && len(b.wait) == cap(b.wait) {
		b.wait, b.head = b.wait[:copy(b.wait, b.wait[b.head:])], 0
	}
	b.wait = append(b.wait, p)
	b.came++
	if k := len(b.spare); k > 0 {
		spare, b.spare = b.spare[k-1], b.spare[:k-1]
	}
	b.mu.Unlock()
	if n == 0 {
		b.ring()
	}
	return spare, true
}

// Take gives back the packets of list, which are done, and returns up to most that wait, oldest
// first, in the memory of list. If more wait, it rings the bell.
func (b *Box) Take(list []*mad.Packet, most int) []*mad.Packet {
	b.mu.Lock()
	b.spare = append(b.spare, list...)
	b.done += uint64(len(list))
	n := min(most, len(b.wait)-b.head)
	list = append(list[:0], b.wait[b.head:b.head+n]...)
	b.head += n
	more := b.head < len(b.wait)
	if !more {
		b.wait, b.head = b.wait[:0], 0
	}
	b.mu.Unlock()
	if more {
		b.ring()
	}
	return list
}

// Counts returns the number of the last packet that was added, from 1, and that of the last one which
// the loop is done with.
func (b *Box) Counts() (came, done uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.came, b.done
}
