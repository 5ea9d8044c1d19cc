// Package shell carries out the outputs of a manager's cores. It defines the order of the
// effects in an output and the events that report their results, and passes mail between the
// cores. The effects themselves are those of SMEdge, SAEdge and VMEdge, which package daemon
// implements in real time and package lab in virtual time. So tests in lab run the order of
// effects that production runs.
//
// SM, SA and VM each drive one core, and each belongs to one goroutine (lab has
// one for all three). Shared joins them and is safe for concurrent use. Nothing
// here blocks, unless an edge does: those of SM and VM wait for the store, that of SA does not.
package shell

import (
	"heddle/mad"
	"heddle/store"
)

// Clock returns the time.
type Clock interface{ Now() mad.Time }

// Store is the part of store.Store that cores write to. Apply returns when ops are
// durable, or with the reason why none is.
type Store interface {
	Apply(ops []store.Op) error
}

// Timer wakes a core.
type Timer interface {
	// Wake requests the Timer event of the core at a time, in place of the previous request;
	// mad.Never: no event. The event may also come earlier.
	Wake(at mad.Time)
}

// queue passes events to a core one by one in order of arrival. An event that arrives while
// another is carried out waits.
type queue[E any] struct {
	handle func(E)
	events []E
	busy   bool
	halted bool
}

func (q *queue[E]) add(ev E) { q.events = append(q.events, ev) }

// run processes ev and the events that result from it. Called from within run it only queues
// ev.
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

// Halt ends the driver immediately, also in the middle of an output: it carries out no further
// effects and takes no events.
func (q *queue[E]) Halt() { q.halted = true }

// Halted reports whether the driver has ended.
func (q *queue[E]) Halted() bool { return q.halted }
