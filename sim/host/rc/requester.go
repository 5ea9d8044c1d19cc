package rc

import (
	"errors"

	"heddle/sim/dataplane"
)

// requester is the sending half of a queue pair (IBA §9.7.3, §9.9.2).
type requester struct {
	// sends is a ring of the posted messages, the oldest at head.
	sends []send
	head  int
	n     int
	end   uint32 // number after that of the last packet of the last message

	next    uint32 // number of the next packet to be sent
	oldest  uint32 // of the oldest packet without acknowledgment
	highest uint32 // after the highest that was ever sent
	cur     int    // place in the ring, from head, of the message of next
	ssn     uint32 // number of the oldest message

	deadline  Time // of the transport timer, Never: it does not run
	waitUntil Time // of an RNR wait, 0: none
	retries   uint8
	rnr       uint8
	inside    bool // a request packet is in the adapter
	ask       bool // the next packet requests an acknowledgment
	sinceAsk  int  // packets since one did
	drained   bool

	news Time // when something new was acknowledged last

	limited bool   // the peer counts receives
	limit   uint32 // number of the first message without a receive
}

// send is a posted message.
type send struct {
	id      uint64
	bytes   int
	first   uint32 // number of its first packet
	packets int
}

func (r *requester) reset() {
	*r = requester{sends: r.sends, deadline: dataplane.Never}
}

func (r *requester) start(s Sender) {
	first := s.PSN & psnMask
	r.next, r.oldest, r.highest, r.end = first, first, first, first
	r.retries, r.rnr = s.Retries, s.RNRRetries
	// What was posted in an earlier state gets its numbers now.
	for i := range r.n {
		w := r.at(i)
		w.first = r.end
		r.end = psnAdd(r.end, w.packets)
	}
}

// at is the i-th posted message.
func (r *requester) at(i int) *send { return &r.sends[(r.head+i)%len(r.sends)] }

func (r *requester) push(w send) {
	if r.n == len(r.sends) {
		grown := make([]send, max(16, 2*r.n))
		for i := range r.n {
			grown[i] = *r.at(i)
		}
		r.sends, r.head = grown, 0
	}
	r.n++
	*r.at(r.n - 1) = w
}

func (r *requester) pop() {
	r.head = (r.head + 1) % len(r.sends)
	r.n--
	r.ssn++
	r.cur = max(0, r.cur-1)
}

// ErrFull is returned by Post when numbers run out.
var ErrFull = errors.New("rc: more than 2²² packets are posted")

// Post posts a message of so many bytes; id comes back with its completion and is
// what the peer receives.
func (q *QP) Post(id uint64, bytes int) error {
	if err := q.must(ReadyToSend, SendQueueDrain); err != nil {
		return err
	}
	r := &q.req
	packets := max(1, (bytes+q.cfg.MTU-1)/q.cfg.MTU)
	if int(psnAfter(r.end, r.oldest))+packets >= 1<<22 {
		return ErrFull
	}
	r.push(send{id: id, bytes: bytes, first: r.end, packets: packets})
	r.end = psnAdd(r.end, packets)
	return nil
}

// LastNews is when something new was acknowledged last; 0: nothing was.
func (q *QP) LastNews() Time { return q.req.news }

// Pending is how many messages are posted and not complete.
func (q *QP) Pending() int { return q.req.n }

// Idle reports whether all that was posted is complete.
func (q *QP) Idle() bool { return q.req.n == 0 }

// begun reports whether a packet of the message of next has been sent before.
func (r *requester) begun() bool {
	return psnAfter(r.highest, r.at(r.cur).first) > 0
}

// nextRequest makes the next request packet, if one may be sent.
func (q *QP) nextRequest(now Time, p *Packet) bool {
	r := &q.req
	if r.next == r.end || r.inside || r.waitUntil > now {
		return false
	}
	r.waitUntil = 0
	if int(psnAfter(r.next, r.oldest)) >= q.cfg.Window {
		return false
	}
	w := r.at(r.cur)
	if q.state == SendQueueDrain && !r.begun() {
		return false
	}
	short := r.limited && psnAfter(r.ssn+uint32(r.cur), r.limit) >= 0
	if short && r.next != r.oldest {
		return false // one packet at a time, until the peer has receives (IBA §9.7.7.2.5)
	}
	i := int(psnAfter(r.next, w.first))
	last := i == w.packets-1
	*p = Packet{
		Opcode: requestOpcode(i, w.packets), RemoteQPN: q.remoteQPN, PSN: r.next, Message: w.id,
		Length: min(q.cfg.MTU, w.bytes-i*q.cfg.MTU), MigReq: q.apm.state == StateMigrated,
	}
	q.Count.Packets++
	if psnAfter(r.highest, r.next) > 0 {
		q.Count.Repeats++
	}
	r.sinceAsk++
	r.next = psnAdd(r.next, 1)
	if psnAfter(r.next, r.highest) > 0 {
		r.highest = r.next
	}
	full := int(psnAfter(r.next, r.oldest)) >= q.cfg.Window
	if last || r.ask || full || short || q.cfg.AckEvery > 0 && r.sinceAsk >= q.cfg.AckEvery {
		p.AckReq, r.ask, r.sinceAsk = true, false, 0
	}
	if last {
		r.cur++
	}
	r.inside, r.deadline = true, dataplane.Never
	return true
}

func requestOpcode(i, n int) Opcode {
	switch {
	case n == 1:
		return SendOnly
	case i == 0:
		return SendFirst
	case i == n-1:
		return SendLast
	}
	return SendMiddle
}

// arm starts the transport timer if something is not acknowledged.
func (q *QP) arm(now Time) {
	r := &q.req
	r.deadline = dataplane.Never
	if r.inside || r.waitUntil > 0 || r.next == r.oldest {
		return
	}
	if t := AckTimeout(q.sender.Timeout); t != dataplane.Never {
		r.deadline = now + t
	}
}

// rewind goes back to the packet n.
func (r *requester) rewind(n uint32) {
	r.next, r.ask, r.sinceAsk = n, true, 0
	r.cur = 0
	for r.cur < r.n-1 && psnAfter(n, r.at(r.cur).first) >= int32(r.at(r.cur).packets) {
		r.cur++
	}
}

// covered takes all packets before n as acknowledged, and reports whether that is
// news.
func (q *QP) covered(now Time, n uint32) bool {
	r := &q.req
	if psnAfter(n, r.oldest) <= 0 {
		return false
	}
	r.oldest, r.news = n, now
	r.retries, r.rnr = q.sender.Retries, q.sender.RNRRetries
	if psnAfter(n, r.next) > 0 {
		r.rewind(n) // a late acknowledgment of what was to be repeated
	}
	for r.n > 0 {
		w := r.at(0)
		if psnAfter(n, w.first) < int32(w.packets) {
			break
		}
		id := w.id
		r.pop()
		q.Count.MessagesSent++
		q.owner.Sent(q, id, Success)
		if q.state >= SendQueueError || q.state == Reset {
			return true // the owner has ended it
		}
	}
	if r.n > 0 && r.next != r.end {
		r.locate()
	} else {
		r.cur = r.n
	}
	q.arm(now)
	return true
}

// locate finds the message of next.
func (r *requester) locate() {
	r.cur = 0
	for r.cur < r.n-1 && psnAfter(r.next, r.at(r.cur).first) >= int32(r.at(r.cur).packets) {
		r.cur++
	}
}

// acknowledged handles a response.
func (q *QP) acknowledged(now Time, p *Packet) {
	r := &q.req
	if psnAfter(p.PSN, psnAdd(r.oldest, -1)) < 0 || psnAfter(p.PSN, r.highest) >= 0 {
		return // of packets that are complete, or were never sent
	}
	switch p.Syndrome & kindMask {
	case ackKind:
		q.Count.Acks++
		if n := creditsOf(p.Syndrome & valueMask); n >= 0 {
			r.limited, r.limit = true, p.MSN+uint32(n)
		} else {
			r.limited = false
		}
		q.covered(now, psnAdd(p.PSN, 1))
	case rnrKind:
		q.Count.RNRs++
		q.notReady(now, p)
	case nakKind:
		q.Count.NAKs++
		if p.Syndrome != NAKSequence {
			q.covered(now, p.PSN)
			q.fail(RemoteInvalid)
			return
		}
		q.missing(now, p.PSN)
	}
	if q.state == SendQueueDrain {
		q.checkDrained()
	}
}

// missing handles a NAK of a sequence error: the peer expects packet n.
func (q *QP) missing(now Time, n uint32) {
	r := &q.req
	if psnAfter(n, r.oldest) < 0 {
		return // it is older than what the peer has acknowledged since
	}
	if !q.covered(now, n) {
		if q.exhausted(now) {
			return
		}
	}
	if q.state != ReadyToSend && q.state != SendQueueDrain {
		return
	}
	r.rewind(n)
	q.arm(now)
}

// notReady handles an RNR NAK.
func (q *QP) notReady(now Time, p *Packet) {
	r := &q.req
	if psnAfter(p.PSN, r.oldest) < 0 {
		return
	}
	q.covered(now, p.PSN)
	if q.state != ReadyToSend && q.state != SendQueueDrain {
		return
	}
	if q.sender.RNRRetries < 7 {
		if r.rnr == 0 {
			q.fail(RNRExceeded)
			return
		}
		r.rnr--
	}
	r.rewind(p.PSN)
	r.waitUntil, r.deadline = now+RNRTime(uint8(p.Syndrome&valueMask)), dataplane.Never
}

// timedOut handles the expiry of the transport timer.
func (q *QP) timedOut(now Time) {
	r := &q.req
	q.Count.Timeouts++
	r.deadline = dataplane.Never
	if q.exhausted(now) {
		return
	}
	r.rewind(r.oldest)
}

// exhausted uses a retry. Without any the queue pair migrates if it is armed, or
// ends, which it reports.
func (q *QP) exhausted(now Time) bool {
	r := &q.req
	if r.retries > 0 {
		r.retries--
		return false
	}
	if q.apm.state == StateArmed {
		r.retries = q.sender.Retries
		q.migrate(now)
		return false
	}
	q.fail(RetryExceeded)
	return true
}

// checkDrained reports Drained once when nothing that was begun is left.
func (q *QP) checkDrained() {
	r := &q.req
	if r.drained || r.oldest != r.highest || r.n > 0 && r.begunOldest() {
		return
	}
	r.drained = true
	q.owner.Happened(q, Drained)
}

// begunOldest reports whether a packet of the oldest message was ever sent.
func (r *requester) begunOldest() bool { return psnAfter(r.highest, r.at(0).first) > 0 }
