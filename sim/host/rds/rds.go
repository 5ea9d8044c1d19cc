// Package rds is how the software of a host keeps a connection to a peer: the
// reconnection of Reliable Datagram Sockets (RDS), as Linux has it (net/rds).
//
//	         Start                 found                accepted
//	Waiting ───────► Resolving ───────────► Connecting ──────────► Up
//	   ▲   its delay     │    not found         │   refused,        │ broken
//	   │   is over       ▼                      ▼   no answer       ▼
//	   └──────────────── Closing ◄──────────────┴───────────────────┘
//	        a delay is drawn
//
// Both ends of a broken connection connect again. Each first tries at once, then after a
// delay drawn from 0 to a limit, which doubles from MinDelay to MaxDelay with each try and
// begins anew when the connection is up. An end that is not Waiting refuses its peer's
// request, so two requests that cross are both refused.
//
// A Conn is pure: times, draws and what happens go in, and Actions come out. One
// goroutine uses a Conn at a time.
package rds

import (
	"math/rand/v2"
	"time"

	"heddle/mad"
)

// Config are the times of a connection.
type Config struct {
	// MinDelay and MaxDelay bound the limit of the delays that are drawn.
	MinDelay, MaxDelay time.Duration
	// Setup is how long an end prepares a request (its queue pair, and the peer's address);
	// Teardown is how long it takes to clear away what a try or a connection had. Meanwhile
	// it refuses requests.
	Setup, Teardown time.Duration
}

// Defaults are the delays of Linux, and no other times.
func Defaults() Config { return Config{MinDelay: time.Millisecond, MaxDelay: time.Second} }

// State is that of a connection.
type State uint8

// The states.
const (
	Idle       State = iota // nobody has asked for a connection
	Waiting                 // for its next try; takes requests
	Resolving               // prepares a request, and asks for the path
	Connecting              // has sent a request, or has accepted one
	Up
	Closing // clears away
)

// String prints "waiting".
func (s State) String() string {
	return [...]string{"idle", "waiting", "resolving", "connecting", "up", "closing"}[s]
}

// Actions is what a Conn has done. Each try has a number; what becomes of it is reported
// with that number.
type Actions interface {
	// Resolve looks for the peer's address and the path; Resolved says how it ended.
	Resolve(now mad.Time, try uint64)
	// Request sends a request on the path that Resolve found; Ended says how it ended.
	Request(now mad.Time, try uint64)
	// Drop ends what there is of a try or of a connection.
	Drop(now mad.Time)
	// Changed is called after each change of state.
	Changed(now mad.Time, s State)
}

// Conn is one end of a connection.
type Conn struct {
	cfg   Config
	act   Actions
	rng   *rand.Rand
	state State
	limit time.Duration // of the next delay; 0: no delay
	due   mad.Time
	try   uint64
	// Tries counts the requests for a path, Refused those of the peer that it refused.
	Tries, Refused int
}

// New makes an end that is Idle.
func New(cfg Config, rng *rand.Rand, act Actions) *Conn {
	return &Conn{cfg: cfg, act: act, rng: rng, due: mad.Never}
}

// State is its state.
func (c *Conn) State() State { return c.state }

// NextTimer is when Expire is due; mad.Never if it is not.
func (c *Conn) NextTimer() mad.Time { return c.due }

func (c *Conn) become(now mad.Time, s State, due mad.Time) {
	c.state, c.due = s, due
	c.act.Changed(now, s)
}

// Start connects: a program has something to send.
func (c *Conn) Start(now mad.Time) {
	if c.state == Idle {
		c.reconnect(now)
	}
}

// reconnect waits for the next try.
func (c *Conn) reconnect(now mad.Time) {
	if c.limit == 0 {
		c.limit = c.cfg.MinDelay
		c.become(now, Waiting, now)
		return
	}
	d := time.Duration(c.rng.Int64N(int64(c.limit)))
	c.limit = min(2*c.limit, c.cfg.MaxDelay)
	c.become(now, Waiting, now.Add(d))
}

// Expire does what is due.
func (c *Conn) Expire(now mad.Time) {
	if now < c.due {
		return
	}
	switch c.state {
	case Waiting:
		c.try++
		c.become(now, Resolving, now.Add(c.cfg.Setup))
	case Resolving:
		c.due = mad.Never
		c.Tries++
		c.act.Resolve(now, c.try)
	case Closing:
		c.reconnect(now)
	}
}

// Resolved says whether the path of a try was found.
func (c *Conn) Resolved(now mad.Time, try uint64, found bool) {
	switch {
	case c.state != Resolving || try != c.try:
	case !found:
		c.close(now)
	default:
		c.become(now, Connecting, mad.Never)
		c.act.Request(now, try)
	}
}

// Ended says whether the request of a try was accepted.
func (c *Conn) Ended(now mad.Time, try uint64, accepted bool) {
	switch {
	case c.state != Connecting || try != c.try:
	case !accepted:
		c.close(now)
	default:
		c.up(now)
	}
}

// Incoming takes a request of the peer, and says whether it is accepted. Established or
// Broken follows if it is.
func (c *Conn) Incoming(now mad.Time) (accepted bool) {
	switch c.state {
	case Idle, Waiting:
		c.try++
		c.become(now, Connecting, mad.Never)
		return true
	case Up: // the peer has begun anew
		c.close(now)
	}
	c.Refused++
	return false
}

// Established says that the request that Incoming accepted has led to a connection.
func (c *Conn) Established(now mad.Time) {
	if c.state == Connecting {
		c.up(now)
	}
}

// Broken says that the connection, or the device that it needs, is gone.
func (c *Conn) Broken(now mad.Time) {
	if c.state == Up || c.state == Connecting || c.state == Resolving {
		c.close(now)
	}
}

func (c *Conn) up(now mad.Time) {
	c.limit = 0
	c.become(now, Up, mad.Never)
}

// close clears away, then waits for the next try. What comes of the old one is too late.
func (c *Conn) close(now mad.Time) {
	c.try++
	c.become(now, Closing, now.Add(c.cfg.Teardown))
	c.act.Drop(now)
}
