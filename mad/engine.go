package mad

import (
	"errors"
	"math"
	"math/bits"
	"time"

	"heddle/ib"
)

// Config sets up an Engine. The zero value of every field means its default.
type Config struct {
	// Window is the initial number of unanswered requests; default 16, never above
	// MaxWindow.
	Window int
	// MaxWindow is the largest window, 1..4096; default 64. Set it to the
	// transport's MaxInFlight (see Tuned).
	MaxWindow int
	// MaxQueued bounds the requests that wait for the window; default 1<<20.
	MaxQueued int
	// Timeout is how long the first try of a request waits for its answer;
	// default 200 ms. Every further try waits twice as long as the one before,
	// up to MaxTimeout, default 8 × Timeout.
	Timeout    time.Duration
	MaxTimeout time.Duration
	// Retries is how many tries follow the first one; default 3, negative
	// means none.
	Retries int
	// TransportTimed says that the transport times tries itself and reports
	// each unanswered one as Failed (umad). The engine's own timers then
	// only guard against a report that never comes.
	TransportTimed bool
	// FirstTID shifts the transaction IDs that the engine issues, so that a
	// response meant for an earlier process does not match.
	FirstTID uint32
}

// Tuned returns c with MaxWindow lowered to the transport's limit
// (Transport.MaxInFlight; 0: unknown).
func (c Config) Tuned(maxInFlight int) Config {
	if maxInFlight > 0 {
		if c.MaxWindow == 0 || c.MaxWindow > maxInFlight {
			c.MaxWindow = maxInFlight
		}
		if c.Window == 0 {
			c.Window = c.MaxWindow
		}
	}
	return c
}

const (
	maxMaxWindow = 4096
	unknownRTT   = time.Hour
)

func (c *Config) setDefaults() {
	if c.MaxWindow <= 0 {
		c.MaxWindow = 64
	}
	c.MaxWindow = min(c.MaxWindow, maxMaxWindow)
	if c.Window <= 0 {
		c.Window = 16
	}
	c.Window = min(c.Window, c.MaxWindow)
	if c.MaxQueued <= 0 {
		c.MaxQueued = 1 << 20
	}
	if c.Timeout <= 0 {
		c.Timeout = 200 * time.Millisecond
	}
	if c.MaxTimeout <= 0 {
		c.MaxTimeout = 8 * c.Timeout
	}
	switch {
	case c.Retries == 0:
		c.Retries = 3
	case c.Retries < 0:
		c.Retries = 0
	}
}

// SetTries changes the time-out and the retries of requests that are submitted from now on, as Config
// has them; 0 means the default.
func (e *Engine) SetTries(timeout time.Duration, retries int) {
	c := Config{Timeout: timeout, Retries: retries}
	c.setDefaults()
	e.cfg.Timeout, e.cfg.MaxTimeout, e.cfg.Retries = c.Timeout, c.MaxTimeout, c.Retries
}

// Priority orders requests that wait for the window.
type Priority uint8

const (
	// Normal requests go out in the order of their Submit calls.
	Normal Priority = iota
	// Urgent requests overtake all Normal ones and may exceed the window by one: polls of
	// another SM must not wait behind a sweep, or for the time-outs of requests to a silent
	// node.
	Urgent
)

// Request is one request that expects an answer. The engine copies it.
type Request struct {
	Addr Addr
	// MAD is the request as it goes out, except for the transaction ID, which
	// the engine writes.
	MAD ib.MAD
	// Timeout of the first try; 0 = Config.Timeout.
	Timeout time.Duration
	// Retries after the first try; 0 = Config.Retries, negative = none.
	Retries int
	// Token is the caller's key; the Completion returns it.
	Token    uint64
	Priority Priority
}

// Completion reports how a request ended. Every submitted request completes
// exactly once unless it is canceled.
type Completion struct {
	Token uint64
	// Err is nil (MAD holds the answer, whose status may still be an error),
	// ErrTimeout, ErrFailed or an *AnswerError.
	Err error
	// MAD is the response; Data is all of it if it is a whole RMPP message. Both
	// belong to the packet given to Receive; nil with Err.
	MAD  *ib.MAD
	Data []byte
	// Request is the request as it was sent. Valid until the next Poll.
	Request *ib.MAD
	Addr    Addr
	Class   ib.Class
	Method  ib.Method
	Attr    ib.AttrID
	AttrMod uint32
	// Tries is how often it was sent.
	Tries int
	// Hurried says that Hurry shortened its tries.
	Hurried bool
	// RTT is the time from the last send to the response, 0 with Err. After more
	// than one try the response may belong to an earlier one.
	RTT time.Duration
	// Elapsed is the time from the first send to the end.
	Elapsed time.Duration
}

// Kind is the outcome of Receive.
type Kind uint8

const (
	// KindStale: nothing is left to do. The packet is a late, repeated or
	// unrequested response, or too short to be a MAD.
	KindStale Kind = iota
	// KindCompletion: the returned Completion is valid.
	KindCompletion
	// KindUnsolicited: not a response (trap, SMInfo or SA request, TrapRepress
	// …); the caller processes it.
	KindUnsolicited
	// KindRetry: the current try ended without a usable response; Poll sends the
	// request again.
	KindRetry
)

var (
	// ErrTimeout: no answer to any try.
	ErrTimeout = errors.New("mad: no answer")
	// ErrFailed: the transport reported that the last try could not be
	// delivered or answered, without a time-out (status 110 of ibsim).
	ErrFailed = errors.New("mad: not delivered")
	// ErrQueueFull: Config.MaxQueued requests are waiting already.
	ErrQueueFull = errors.New("mad: request queue is full")
)

type slotState uint8

const (
	slotFree     slotState = iota
	slotInFlight           // sent, waiting for the answer
	slotPause              // a try failed immediately; short pause before the next
	slotReady              // waits for the window to be sent again
)

type slot struct {
	mad       ib.MAD
	addr      Addr
	token     uint64
	seq       uint64 // orders timers of the same instant
	timeout   time.Duration
	firstSent Time
	sent      Time
	due       Time          // when the current try ends
	wait      time.Duration // time-out of the current try
	hurry     time.Duration // upper bound of the time-out of every try; 0: none
	gen       uint32
	alarm     Time  // its deadline in timers
	place     int32 // of that, see timers
	prev      int32 // ready list, or that of timers
	next      int32 // one of these, or the free list
	stat      int32
	retries   int32 // tries left after the current one
	tries     int32
	state     slotState
	charged   bool // counts against the window
	released  bool // this try no longer counts, because it takes too long
	timedOut  bool // some try got no answer in time
	bad       AnswerKind
	badHdr    [24]byte
}

// Engine matches responses to requests, retries with growing time-outs, and
// bounds the requests in flight. It is a pure state machine for one port: no
// clock, no goroutine, no I/O; not safe for concurrent use.
//
// Its caller's loop passes packets to Receive and due timers to Expire, calls
// Poll after both and after Submit, and returns at NextTimer.
//
// A response to a request is a MAD with the R bit, the low 32 bits of its
// transaction ID, its class, attribute and modifier, from the same directed
// route or LID. A response that differs in one of these fields never completes
// a request with foreign data: the try is repeated, and if no better response
// comes, the completion carries an *AnswerError. A response with status busy is
// repeated too; the response to the last try completes the request.
//
// MADs that expect no response (responses, TrapRepress, traps) do not go
// through the engine.
type Engine struct {
	cfg      Config
	slots    []slot
	maxSlots int
	// normalSlots is how many slots normal requests may hold. The rest are reserved for urgent
	// ones: if a node with many requests falls silent, the urgent ones find out why.
	normalSlots int
	slotBits    uint
	genMask     uint32
	free        int32
	used        int // slots not free
	charged     int // slots that count against the window
	srtt        time.Duration
	seq         uint64

	urgent, normal queue
	readyHead      int32
	readyTail      int32
	timers         timers
	win            window
	stats          statTable
	pkt            Packet
	short          ib.MAD // responses shorter than a MAD, zero padded
}

// NewEngine returns an idle engine.
func NewEngine(c Config) *Engine {
	c.setDefaults()
	e := &Engine{cfg: c, free: -1, readyHead: -1, readyTail: -1}
	e.normalSlots = max(4*c.MaxWindow, 64) + 1
	e.maxSlots = e.normalSlots + max(c.MaxWindow, 16)
	e.slotBits = uint(bits.Len(uint(e.maxSlots - 1)))
	e.genMask = 1<<(32-e.slotBits) - 1
	e.win.init(c.Window, c.MaxWindow)
	e.srtt = unknownRTT
	e.stats.init()
	e.initTimers()
	return e
}

// Submit queues a request; Poll sends it. The only error is ErrQueueFull.
func (e *Engine) Submit(r *Request) error {
	if e.urgent.n+e.normal.n >= e.cfg.MaxQueued {
		return ErrQueueFull
	}
	if r.Priority == Urgent {
		e.urgent.push(r)
	} else {
		e.normal.push(r)
	}
	return nil
}

// Poll sends what the window permits: urgent requests, then retries, then
// normal requests. The packet given to send is reused; its Data points at the
// request inside the engine and stays intact until the next Poll.
func (e *Engine) Poll(now Time, send func(*Packet)) { e.PollSome(now, math.MaxInt, send) }

// PollSome is Poll that sends at most most requests that are not urgent, retries included. It reports
// whether the window permits more, which wait for the next call.
func (e *Engine) PollSome(now Time, most int, send func(*Packet)) (more bool) {
	for e.urgent.n > 0 && e.charged <= e.win.size && e.used < e.maxSlots {
		e.start(now, &e.urgent, send)
	}
	for e.charged < e.win.size {
		retry := e.readyHead >= 0
		switch {
		case !retry && (e.normal.n == 0 || e.used >= e.normalSlots):
			return false
		case most <= 0:
			return true
		case retry:
			i := e.readyHead
			e.unready(i)
			e.sendTry(now, i, send)
		default:
			e.start(now, &e.normal, send)
		}
		most--
	}
	return false
}

func (e *Engine) start(now Time, q *queue, send func(*Packet)) {
	i := e.alloc()
	s := &e.slots[i]
	q.pop(s)
	if s.timeout <= 0 {
		s.timeout = e.cfg.Timeout
	}
	switch {
	case s.retries == 0:
		s.retries = int32(e.cfg.Retries)
	case s.retries < 0:
		s.retries = 0
	}
	s.mad.SetTID(uint64(s.gen<<e.slotBits | uint32(i)))
	s.stat = e.stats.index(s.mad.Class(), s.mad.Method(), s.mad.AttrID())
	s.firstSent = now
	e.sendTry(now, i, send)
}

func (e *Engine) sendTry(now Time, i int32, send func(*Packet)) {
	s := &e.slots[i]
	st := &e.stats.rows[s.stat]
	st.Sent++
	if s.tries > 0 {
		st.Retried++
	}
	d := s.timeout
	for k := int32(0); k < s.tries && d < e.cfg.MaxTimeout; k++ {
		d *= 2
	}
	if s.tries > 0 {
		d = max(min(d, e.cfg.MaxTimeout), s.timeout)
	}
	if s.hurry > 0 {
		d = min(d, s.hurry)
		if s.tries > 0 && e.cfg.TransportTimed {
			// The transport may still wait for the try before, and accepts no second one
			// with the same transaction ID.
			e.renew(s)
			s.mad.SetTID(uint64(s.gen<<e.slotBits | uint32(i)))
		}
	}
	s.tries++
	s.sent = now
	wait := d
	if e.cfg.TransportTimed {
		wait += max(d/4, 50*time.Millisecond)
	}
	s.wait, s.due = wait, now.Add(wait)
	s.state = slotInFlight
	s.charged, s.released = true, false
	e.charged++
	e.seq++
	s.seq = e.seq
	// A try that takes far longer than others no longer counts against the window.
	e.setTimer(i, now.Add(max(wait/32, min(16*e.srtt, wait/4))))

	e.pkt = Packet{Addr: s.addr, LocalQP: localQP(s.mad.Class()), Timeout: d, Data: s.mad[:]}
	send(&e.pkt)
}

func localQP(c ib.Class) uint32 {
	if c == ib.ClassSubnLID || c == ib.ClassSubnDR {
		return 0
	}
	return 1
}

// Expire ends the tries whose deadline has passed. Requests with tries left
// wait for Poll; done is called for each of the others.
func (e *Engine) Expire(now Time, done func(Completion)) {
	for i := e.firstTimer(); i >= 0 && e.slots[i].alarm <= now; i = e.firstTimer() {
		s := &e.slots[i]
		e.clearTimer(i)
		switch {
		case s.state == slotPause:
			e.ready(i)
		case !s.released && s.due > now:
			s.released = true
			e.uncharge(s)
			e.setTimer(i, s.due)
		default:
			e.stats.rows[s.stat].TimedOut++
			s.timedOut = true
			if e.endTry(now, i, false) {
				done(e.finish(now, i, e.failure(s, ErrTimeout)))
			}
		}
	}
}

// endTry takes the slot out of flight. It reports whether no try is left.
// Otherwise the slot waits for its next try, after a short pause if the failure
// was immediate, so that the tries are spread over time.
func (e *Engine) endTry(now Time, i int32, pause bool) bool {
	s := &e.slots[i]
	e.uncharge(s)
	e.clearTimer(i)
	if s.retries <= 0 {
		return true
	}
	s.retries--
	if pause && now.Sub(s.sent) < s.timeout/4 {
		s.state = slotPause
		d := min(time.Millisecond<<min(2*s.tries-2, 20), s.timeout)
		e.setTimer(i, now.Add(d))
		return false
	}
	e.ready(i)
	return false
}

// failure is the error of a request that ran out of tries: the wrong response
// if there was one, otherwise err.
func (e *Engine) failure(s *slot, err error) error {
	if s.bad == 0 {
		return err
	}
	return newAnswerError(s.bad, &s.mad, &s.badHdr)
}

// finish frees the slot and describes how the request ended.
func (e *Engine) finish(now Time, i int32, err error) Completion {
	s := &e.slots[i]
	c := Completion{
		Token: s.token, Err: err, Request: &s.mad, Addr: s.addr,
		Class: s.mad.Class(), Method: s.mad.Method(), Attr: s.mad.AttrID(), AttrMod: s.mad.AttrMod(),
		Tries: int(s.tries), Hurried: s.hurry > 0, Elapsed: now.Sub(s.firstSent),
	}
	if err != nil {
		e.stats.rows[s.stat].Errors++
	}
	e.release(i)
	return c
}

func (e *Engine) uncharge(s *slot) {
	if s.charged {
		s.charged = false
		e.charged--
	}
}

// alloc takes a free slot, which must exist. The slot gets a new generation,
// and so a new transaction ID.
func (e *Engine) alloc() int32 {
	i := e.free
	if i >= 0 {
		e.free = e.slots[i].next
	} else {
		i = int32(len(e.slots))
		e.slots = append(e.slots, slot{gen: e.cfg.FirstTID & e.genMask, place: noTimer})
	}
	e.used++
	s := &e.slots[i]
	e.renew(s)
	s.prev, s.next, s.place = -1, -1, noTimer
	s.tries, s.bad, s.timedOut, s.charged, s.released, s.hurry = 0, 0, false, false, false, 0
	return i
}

// renew gives a slot a generation that it did not have before.
func (e *Engine) renew(s *slot) {
	s.gen = (s.gen + 1) & e.genMask
	if s.gen == 0 {
		s.gen = 1
	}
}

// release frees a slot in any state.
func (e *Engine) release(i int32) {
	s := &e.slots[i]
	e.uncharge(s)
	e.clearTimer(i)
	if s.state == slotReady {
		e.unready(i)
	}
	s.state = slotFree
	s.next = e.free
	e.free = i
	e.used--
}

func (e *Engine) ready(i int32) {
	s := &e.slots[i]
	s.state = slotReady
	s.prev, s.next = e.readyTail, -1
	if e.readyTail >= 0 {
		e.slots[e.readyTail].next = i
	} else {
		e.readyHead = i
	}
	e.readyTail = i
}

func (e *Engine) unready(i int32) {
	s := &e.slots[i]
	if s.prev >= 0 {
		e.slots[s.prev].next = s.next
	} else {
		e.readyHead = s.next
	}
	if s.next >= 0 {
		e.slots[s.next].prev = s.prev
	} else {
		e.readyTail = s.prev
	}
	s.prev, s.next = -1, -1
}

// Cancel forgets every request whose token is in [first, last], queued or in
// flight, and returns how many there were. They do not complete; late responses
// count as stale. Its cost grows with the queue.
func (e *Engine) Cancel(first, last uint64) int {
	n := e.urgent.cancel(first, last) + e.normal.cancel(first, last)
	for i := range e.slots {
		s := &e.slots[i]
		if s.state != slotFree && s.token >= first && s.token <= last {
			e.release(int32(i))
			n++
		}
	}
	return n
}

// CancelAll forgets every request, and returns how many there were.
func (e *Engine) CancelAll() int { return e.Cancel(0, 1<<64-1) }

// Pending calls fn for every request that has not completed: first those sent,
// then those queued. The order within each group is fixed, not chronological.
func (e *Engine) Pending(fn func(token uint64, sent bool)) {
	for i := range e.slots {
		if s := &e.slots[i]; s.state != slotFree {
			fn(s.token, true)
		}
	}
	e.urgent.each(fn)
	e.normal.each(fn)
}

// Idle reports whether no request is queued or in flight.
func (e *Engine) Idle() bool { return e.used == 0 && e.Queued() == 0 }

// Queued is the number of requests not yet sent. A caller with very many
// requests saves memory by submitting only while Queued is below a few windows.
func (e *Engine) Queued() int { return e.urgent.n + e.normal.n }

// Outstanding is the number of requests sent and not completed.
func (e *Engine) Outstanding() int { return e.used }

// Window is the current size of the window.
func (e *Engine) Window() int { return e.win.size }
