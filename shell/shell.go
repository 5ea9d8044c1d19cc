// Package shell carries out what the cores of a manager want done. It owns the
// order of the effects in an output, the events that report their results, and
// what passes between the cores. It performs no effect itself: SMEdge, SAEdge and
// VMEdge do. Package daemon supplies edges in real time, package lab in virtual
// time, so tests in lab run what production runs.
//
// SM, SA and VM each drive one core, and each belongs to one goroutine (lab has
// one for all three). Shared joins them and is safe for concurrent use. Nothing
// here blocks, unless an edge does.
package shell

import (
	"heddle/mad"
	"heddle/store"
)

// Clock tells the time.
type Clock interface{ Now() mad.Time }

// Store is the part of store.Store that cores write to. Apply returns when ops are
// durable, or with the reason why none is.
type Store interface {
	Apply(ops []store.Op) error
}

// Timer wakes a core.
type Timer interface {
	// Wake asks for the Timer event of the core at a time, instead of any
	// earlier request; mad.Never: for none. The event may also come earlier.
	Wake(at mad.Time)
}

// queue hands events to a core one by one, in the order in which they came. An
// event that comes while another one is carried out waits for its turn.
type queue[E any] struct {
	handle func(E)
	events []E
	busy   bool
	halted bool
}

func (q *queue[E]) add(ev E) { q.events = append(q.events, ev) }

// run handles ev, and all that follows from it. Called from within run it only
// adds ev.
func (q *queue[E]) run(ev E) {
	q.add(ev)
	if q.busy {
		return
	}
	q.busy = true
	for i := 0; i < len(q.events) && !q.halted; i++ {
		ev := q.events[i]
		var none E
		q.events[i] = none
		q.handle(ev)
	}
	clear(q.events)
	q.events, q.busy = q.events[:0], false
}

// Halt ends the driver at once, in the middle of an output too: it carries out
// nothing more, and takes no events.
func (q *queue[E]) Halt() { q.halted = true }

// Halted reports whether the driver has ended.
func (q *queue[E]) Halted() bool { return q.halted }
