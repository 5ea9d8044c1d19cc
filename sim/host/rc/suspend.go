package rc

import "heddle/sim/dataplane"

// A queue pair that moves to another adapter with all that it knows: SUSPEND of W. L.
// Guay's thesis (Paper V, figure 17), which the IBA does not have. What arrives while
// it is suspended is lost, and sent again by the peer's retries.

// Suspend stops the timers of a queue pair, which is not to be polled until Continue.
// What was posted stays, and more may be posted.
func (q *QP) Suspend() {
	q.req.inside, q.req.deadline = false, dataplane.Never
}

// Continue goes on after Suspend. Packets and acknowledgments may have been lost, so it
// goes back to the oldest packet without an acknowledgment, at once; that uses no retry.
func (q *QP) Continue() {
	r := &q.req
	if q.state != ReadyToSend && q.state != SendQueueDrain || r.next == r.oldest {
		return
	}
	r.rewind(r.oldest)
}
