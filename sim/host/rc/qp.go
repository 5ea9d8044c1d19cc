package rc

import (
	"errors"
	"fmt"
	"slices"

	"heddle/ib"
	"heddle/sim/dataplane"
)

// State is that of a queue pair (IBA §10.3.1).
type State uint8

// The states.
const (
	Reset State = iota
	Init
	ReadyToReceive
	ReadyToSend
	SendQueueDrain // finishes the messages that it has begun, and begins no other
	SendQueueError // of unreliable queue pairs only
	Error
)

// String prints "RTS".
func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return fmt.Sprintf("state %d", uint8(s))
}

var stateNames = [...]string{"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"}

// Status is how a send ended.
type Status uint8

// The statuses.
const (
	Success       Status = iota
	RetryExceeded        // the peer did not acknowledge
	RNRExceeded          // the peer never had a receive
	RemoteInvalid        // the peer refused the request
	Flushed              // the queue pair went to Error before
)

// String prints "retries exceeded".
func (s Status) String() string {
	return [...]string{"success", "retries exceeded", "RNR retries exceeded", "remote invalid request", "flushed"}[s]
}

// Event is something that happened to a queue pair and to no message (IBA §11.6.3).
type Event uint8

// The events.
const (
	Drained      Event = iota // all that was begun before SQD is acknowledged
	Migrated                  // the alternate path is the primary one now, by the peer's wish or by retries
	PathArmed                 // both ends are armed
	Failed                    // the state is Error
	FirstReceive              // a packet came in ReadyToReceive (communication established)
)

// String prints "drained".
func (e Event) String() string {
	return [...]string{"drained", "migrated", "armed", "failed", "established"}[e]
}

// Owner hears what becomes of a queue pair. It may post and poll in its methods.
type Owner interface {
	// Sent completes a send, in the order of Post.
	Sent(q *QP, id uint64, s Status)
	// Received completes a receive: a whole message.
	Received(q *QP, message uint64, bytes int)
	// Happened reports an event.
	Happened(q *QP, e Event)
}

// Config is fixed when a queue pair is made.
type Config struct {
	QPN      uint32 // 24 bits
	MTU      int    // path MTU in bytes: 256 to 4096
	Window   int    // packets without acknowledgment, 1 to 2²³−1
	AckEvery int    // an acknowledgment is requested so often, at least; 0: with last packets alone
	// Credits makes the responder count its receives and tell the requester.
	Credits bool
}

// Connect is what INIT to RTR sets (IBA §11.2.4.2).
type Connect struct {
	RemoteQPN uint32
	PSN       uint32 // of the first packet to be received
	Path      Path
	// RNRTimer is the code of the RNR NAKs that it sends.
	RNRTimer uint8
}

// Sender is what RTR to RTS sets.
type Sender struct {
	PSN        uint32 // of the first packet to be sent
	Timeout    uint8  // code of the transport timer
	Retries    uint8  // 0 to 7
	RNRRetries uint8  // 0 to 7; 7: without limit
}

// QP is one end of a reliable connection.
type QP struct {
	cfg   Config
	owner Owner
	state State

	remoteQPN uint32
	path      Path
	rnrTimer  uint8
	sender    Sender
	apm       migration

	req  requester
	resp responder
	// Count counts what happened; the caller may reset it.
	Count Counters
}

// Counters count the packets and events of a queue pair.
type Counters struct {
	Packets      uint64 // request packets sent, repeats included
	Repeats      uint64
	Timeouts     uint64
	NAKs         uint64 // received
	RNRs         uint64 // received
	OutOfOrder   uint64 // request packets received beyond the expected one
	Duplicates   uint64 // request packets received again
	WrongPath    uint64 // packets received from a LID that is not the peer's
	Acks         uint64 // received
	Migrations   uint64
	MessagesSent uint64 // acknowledged
}

// New makes a queue pair in Reset.
func New(c Config, owner Owner) *QP {
	q := &QP{cfg: c, owner: owner}
	q.Reset()
	return q
}

// QPN is the number of the queue pair.
func (q *QP) QPN() uint32 { return q.cfg.QPN }

// RemoteQPN is that of the other end.
func (q *QP) RemoteQPN() uint32 { return q.remoteQPN }

// State is its state.
func (q *QP) State() State { return q.state }

// Path is the path that its packets take.
func (q *QP) Path() Path { return q.path }

// Sender is what RTR to RTS has set.
func (q *QP) Sender() Sender { return q.sender }

// ErrState is wrapped by errors about changes that the state does not permit.
var ErrState = errors.New("not in this state")

// ErrNotArmed is returned by Migrate while the two ends are not armed.
var ErrNotArmed = errors.New("rc: the path migration is not armed")

func (q *QP) must(want ...State) error {
	if slices.Contains(want, q.state) {
		return nil
	}
	return fmt.Errorf("rc: queue pair %d is in %v: %w", q.cfg.QPN, q.state, ErrState)
}

// Reset takes the queue pair to Reset from any state. What was posted is gone
// without completion.
func (q *QP) Reset() {
	q.state, q.path, q.remoteQPN = Reset, Path{}, 0
	q.apm = migration{}
	q.req.reset()
	q.resp = responder{}
}

// Init takes it from Reset to Init, where receives can be posted.
func (q *QP) Init() error {
	if err := q.must(Reset); err != nil {
		return err
	}
	q.state = Init
	return nil
}

// Receivable takes it from Init to ReadyToReceive.
func (q *QP) Receivable(c Connect) error {
	if err := q.must(Init); err != nil {
		return err
	}
	q.state = ReadyToReceive
	q.remoteQPN, q.path, q.rnrTimer = c.RemoteQPN&psnMask, c.Path, c.RNRTimer
	q.resp.expected = c.PSN & psnMask
	return nil
}

// Sendable takes it from ReadyToReceive to ReadyToSend.
func (q *QP) Sendable(s Sender) error {
	if err := q.must(ReadyToReceive); err != nil {
		return err
	}
	q.state, q.sender = ReadyToSend, s
	q.req.start(s)
	return nil
}

// Drain takes it from ReadyToSend to SendQueueDrain. Drained follows when all
// messages that were begun are acknowledged, now if there are none.
func (q *QP) Drain() error {
	if err := q.must(ReadyToSend); err != nil {
		return err
	}
	q.state = SendQueueDrain
	q.req.drained = false
	q.checkDrained()
	return nil
}

// IsDrained reports whether a queue pair in SendQueueDrain has nothing under way.
func (q *QP) IsDrained() bool { return q.state == SendQueueDrain && q.req.drained }

// SetPath changes the path of a drained queue pair (IBA table 91: SQD to SQD), and takes
// the path migration to Migrated: an alternate path was one to the path before. A peer
// that is armed migrates with the next packet.
func (q *QP) SetPath(p Path) error {
	if !q.IsDrained() {
		return fmt.Errorf("rc: queue pair %d is in %v, not drained: %w", q.cfg.QPN, q.state, ErrState)
	}
	q.path, q.apm = p, migration{}
	return nil
}

// Resume takes it from SendQueueDrain to ReadyToSend.
func (q *QP) Resume() error {
	if err := q.must(SendQueueDrain); err != nil {
		return err
	}
	q.state = ReadyToSend
	return nil
}

// Fail takes it to Error from any state but Reset: all that is posted ends as
// Flushed.
func (q *QP) Fail() {
	if q.state == Reset || q.state == Error {
		return
	}
	q.fail(Flushed)
}

// fail ends the oldest send with a status and flushes the others.
func (q *QP) fail(s Status) {
	q.state = Error
	q.req.deadline, q.req.waitUntil = dataplane.Never, 0
	q.resp.pending = false
	for q.req.n > 0 {
		id := q.req.at(0).id
		q.req.pop()
		q.owner.Sent(q, id, s)
		s = Flushed
	}
	q.owner.Happened(q, Failed)
}

// PostReceives adds so many receives, each for one message.
func (q *QP) PostReceives(n int) {
	q.resp.receives += int32(n)
	if q.cfg.Credits && q.resp.starved && q.resp.receives > 0 && q.state >= ReadyToReceive && q.state <= SendQueueDrain {
		// An unsolicited acknowledgment brings the credits (IBA §9.7.7.2.5).
		q.resp.starved = false
		q.respond(ackKind, psnAdd(q.resp.expected, -1))
	}
}

// Receives is how many are posted and unused.
func (q *QP) Receives() int { return int(q.resp.receives) }

// Poll takes the next packet that is to be sent, if there is one. Responses come
// first. The caller reports by Left when it has left the adapter.
func (q *QP) Poll(now Time, p *Packet) bool {
	if q.state < ReadyToReceive || q.state >= SendQueueError {
		return false
	}
	if q.resp.pending {
		q.takeResponse(p)
		return true
	}
	return q.state != ReadyToReceive && q.nextRequest(now, p)
}

// Left says that the packet of the last Poll is on the wire, or lost before it.
func (q *QP) Left(now Time) {
	r := &q.req
	if !r.inside {
		return
	}
	r.inside = false
	q.arm(now)
}

// Receive handles a packet that came from slid.
func (q *QP) Receive(now Time, p *Packet, slid ib.LID) {
	if q.state < ReadyToReceive || q.state >= SendQueueError {
		return
	}
	if !q.checkPath(now, p, slid) {
		q.Count.WrongPath++
		return
	}
	if q.state == ReadyToReceive && !q.resp.heard {
		q.resp.heard = true
		q.owner.Happened(q, FirstReceive)
	}
	if p.Opcode == Acknowledge {
		if q.state != ReadyToReceive {
			q.acknowledged(now, p)
		}
		return
	}
	q.request(p)
}

// NextTimer is when Expire is due, Never: not at all.
func (q *QP) NextTimer() Time {
	r := &q.req
	if r.waitUntil > 0 {
		return r.waitUntil
	}
	return r.deadline
}

// Expire handles the timers that are due.
func (q *QP) Expire(now Time) {
	if r := &q.req; r.waitUntil > 0 && r.waitUntil <= now {
		r.waitUntil = 0 // the RNR wait is over: Poll repeats
	}
	if q.req.deadline <= now {
		q.timedOut(now)
	}
}
