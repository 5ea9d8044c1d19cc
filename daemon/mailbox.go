package daemon

import (
	"sync"

	"heddle/mad"
)

// mailbox passes packets from the receiver to the manager's loop and back, many at a time: a
// channel for each way costs an SMP four locks, with wake-ups in between.
type mailbox struct {
	bell bell // rung when packets wait that did not before
	most int  // packets that may wait

	mu    sync.Mutex
	wait  []*mad.Packet // from head on, oldest first; guarded by mu
	head  int           // guarded by mu
	spare []*mad.Packet // those that are done; guarded by mu
}

func newMailbox(most int) *mailbox { return &mailbox{bell: newBell(), most: most} }

// put adds a packet, unless most or more wait; the limit of the mailbox applies too. It returns one
// that is done, or nil if there is none.
func (b *mailbox) put(p *mad.Packet, most int) (spare *mad.Packet, ok bool) {
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
	if k := len(b.spare); k > 0 {
		spare, b.spare = b.spare[k-1], b.spare[:k-1]
	}
	b.mu.Unlock()
	if n == 0 {
		b.bell.ring()
	}
	return spare, true
}

// take gives back the packets of list, which are done, and returns up to most that wait, oldest
// first, in the memory of list. If more wait, it rings the bell.
func (b *mailbox) take(list []*mad.Packet, most int) []*mad.Packet {
	b.mu.Lock()
	b.spare = append(b.spare, list...)
	n := min(most, len(b.wait)-b.head)
	list = append(list[:0], b.wait[b.head:b.head+n]...)
	b.head += n
	more := b.head < len(b.wait)
	if !more {
		b.wait, b.head = b.wait[:0], 0
	}
	b.mu.Unlock()
	if more {
		b.bell.ring()
	}
	return list
}
