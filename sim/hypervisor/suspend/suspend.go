// Package suspend is how connections live through a migration on adapters whose
// functions share a LID: the three stages of Paper V of W. L. Guay's thesis. The
// virtual machine's LID, queue pair numbers and keys change, its programs notice
// nothing, and its peers have to act.
//
//	s := suspend.New(after, latency)
//	s.Add(pid, mine, theirs, sender)
//	s.Suspend()       // stage 1; Step until Suspended
//	…                 // stage 2: the machine migrates
//	s.Resume(adapter) // stage 3; Step until Resumed
//
// Stage 1: the kernel's table has a pair (PID, QPN) for each live queue pair
// (Algorithm 1). Each process stops sending, finishes what it has posted (SQD in
// software) and tells the peer, which stops, finishes too, goes to RESET and answers.
// Then the process saves the attributes and gives up its queue pair. Stage 3: the
// process makes a new queue pair, and a table of its library has, for each number that
// the program knows, the present number, LID and keys; both ends exchange these and go
// to RTS. What programs post meanwhile is kept by the library and sent then.
//
// Messages between processes go out of band, as over sockets: they take a time and are
// not lost.
package suspend

import (
	"fmt"
	"slices"
	"time"

	"heddle/ib"
	"heddle/sim/host/adapter"
	"heddle/sim/host/rc"
)

// Pair is an entry of the kernel's table.
type Pair struct {
	PID int
	QPN uint32
}

// Table is the kernel's table of live queue pairs.
type Table struct{ list []Pair }

// Created adds a queue pair, when its process has made it.
func (t *Table) Created(p Pair) { t.list = append(t.list, p) }

// Destroyed removes a queue pair.
func (t *Table) Destroyed(p Pair) {
	if i := slices.Index(t.list, p); i >= 0 {
		t.list = slices.Delete(t.list, i, i+1)
	}
}

// Live lists the entries, the oldest first. While there are any the function cannot
// be detached.
func (t *Table) Live() []Pair { return t.list }

// Attributes are what ends of a connection tell each other.
type Attributes struct {
	QPN        uint32
	LID        ib.LID
	RKey, LKey uint32 // of the memory that is registered for the connection
	PSN        uint32
}

// stage is how far a connection is.
type stage uint8

const (
	running   stage = iota
	draining        // the process finishes its sends
	telling         // SUSPEND is under way to the peer
	finishing       // the peer finishes its sends
	answering       // SUSPENDED is under way back
	saved           // both ends are in RESET
	joining         // CONNECT, ACCEPT or READY is under way
)

// link is a connection of the machine.
type link struct {
	pid          int
	mine, theirs *adapter.Connection
	sender       rc.Sender
	stage        stage
	number       uint32     // that the program knows
	now          Attributes // what stands behind it
	peer         Attributes
	dead         bool    // an end is in error: nothing can be done for it
	there        rc.Path // to the peer
	sl           ib.SL   // of the path back
}

// Session suspends and resumes the connections of a machine.
type Session struct {
	after   func(time.Duration, func())
	latency time.Duration
	table   Table
	links   []*link
	keys    uint32
	sent    int
	err     error
}

// New makes a session. after calls a function in so much time; a message out of band
// takes latency.
func New(after func(time.Duration, func()), latency time.Duration) *Session {
	return &Session{after: after, latency: latency}
}

// Add makes a connection of a process of the machine known, as ib_create_qp does.
func (s *Session) Add(pid int, mine, theirs *adapter.Connection) {
	l := &link{pid: pid, mine: mine, theirs: theirs, sender: mine.QP().Sender(), number: mine.QPN(), there: mine.QP().Path(), sl: theirs.QP().Path().SL}
	l.now, l.peer = s.attributes(mine), s.attributes(theirs)
	s.links = append(s.links, l)
	s.table.Created(Pair{pid, mine.QPN()})
}

// attributes are those of a queue pair whose memory is registered now.
func (s *Session) attributes(c *adapter.Connection) Attributes {
	s.keys++
	return Attributes{QPN: c.QPN(), LID: c.LID(), RKey: s.keys<<8 | 1, LKey: s.keys << 8, PSN: s.keys * 4099 & 0xFFFFFF}
}

// Table is the kernel's table.
func (s *Session) Table() *Table { return &s.table }

// Maps is what stands behind the number that a program knows (QPN → QPN, LID, keys).
func (s *Session) Maps(number uint32) (a Attributes, ok bool) {
	for _, l := range s.links {
		if l.number == number {
			return l.now, true
		}
	}
	return a, false
}

// Messages counts those between processes, of all migrations so far.
func (s *Session) Messages() int { return s.sent }

// Peers is how many connections have an end elsewhere that must take part.
func (s *Session) Peers() int { return len(s.links) }

// Err is why the first connection that has ended by itself could not be suspended or
// resumed. It is left out, and its process notices as it would have without a migration.
func (s *Session) Err() error { return s.err }

// tell sends a message out of band.
func (s *Session) tell(f func()) {
	s.sent++
	s.after(s.latency, f)
}

// Suspend begins stage 1.
func (s *Session) Suspend() {
	for _, l := range s.links {
		if l.stage == running {
			l.mine.Hold()
			l.stage = draining
		}
	}
}

// Cancel ends stage 1 where it can still end: a connection that has a path which does
// not work cannot finish. Those that were suspended, or will be in a moment, are to be
// resumed when Settled.
func (s *Session) Cancel() {
	for _, l := range s.links {
		switch l.stage {
		case finishing:
			s.tell(func() { s.fail(l, l.theirs.Release()) })
			fallthrough
		case draining:
			l.stage = running
			s.fail(l, l.mine.Release())
		}
	}
}

// Settled reports whether each connection is at work or saved.
func (s *Session) Settled() bool {
	for _, l := range s.links {
		if !l.dead && l.stage != running && l.stage != saved {
			return false
		}
	}
	return true
}

// Step looks at the queues of processes that finish what they have posted.
func (s *Session) Step() {
	for _, l := range s.links {
		if l.stage > running && l.stage <= finishing && (l.mine.QP().State() == rc.Error || l.theirs.QP().State() == rc.Error) {
			s.fail(l, rc.ErrState)
			s.fail(l, l.mine.Release())
			s.fail(l, l.theirs.Release())
			s.table.Destroyed(Pair{l.pid, l.mine.QPN()})
			l.stage = running
		}
		switch {
		case l.dead:
		case l.stage == draining && l.mine.QP().Idle():
			l.stage = telling
			s.tell(func() {
				if l.theirs.Hold(); l.stage == telling {
					l.stage = finishing
				}
			})
		case l.stage == finishing && l.theirs.QP().Idle():
			l.stage = answering
			s.fail(l, reset(l.theirs))
			s.tell(func() {
				s.fail(l, reset(l.mine))
				s.table.Destroyed(Pair{l.pid, l.mine.QPN()})
				l.mine.Detach()
				l.stage = saved
			})
		}
	}
}

// fail notes an error of a connection.
func (s *Session) fail(l *link, err error) {
	if err == nil {
		return
	}
	l.dead = true
	if s.err == nil {
		s.err = fmt.Errorf("suspend: queue pair %d of process %d: %w", l.number, l.pid, err)
	}
}

// reset takes a queue pair to RESET; it keeps its receives.
func reset(c *adapter.Connection) error {
	return c.Do(func(q *rc.QP, _ adapter.Time) error {
		if q.State() == rc.Error {
			return rc.ErrState
		}
		n := q.Receives()
		q.Reset()
		q.PostReceives(n)
		return nil
	})
}

// Suspended reports whether all connections are saved.
func (s *Session) Suspended() bool { return s.all(saved) }

// Resumed reports whether all connections are at work.
func (s *Session) Resumed() bool { return s.all(running) }

func (s *Session) all(want stage) bool {
	for _, l := range s.links {
		if !l.dead && l.stage != want {
			return false
		}
	}
	return true
}

// Resume begins stage 3, with the machine at an adapter: the old one, if it did not
// migrate.
func (s *Session) Resume(a *adapter.Adapter) {
	for _, l := range s.links {
		if l.dead || l.stage != saved {
			continue
		}
		if err := l.mine.Renew(a); err != nil {
			s.fail(l, err)
			continue
		}
		s.table.Created(Pair{l.pid, l.mine.QPN()})
		l.now = s.attributes(l.mine)
		l.stage = joining
		s.tell(func() { s.connect(l, l.now) })
	}
}

// connect is the peer that hears where the process is now: it goes to RTS, sends
// nothing yet and answers.
func (s *Session) connect(l *link, a Attributes) {
	l.peer = s.attributes(l.theirs)
	sender := l.sender
	sender.PSN = l.peer.PSN
	s.fail(l, l.theirs.Do(func(q *rc.QP, _ adapter.Time) error { return q.Init() }))
	s.fail(l, l.theirs.Start(rc.Connect{RemoteQPN: a.QPN, PSN: a.PSN, Path: rc.Path{DLID: a.LID, SL: l.sl}}, sender))
	b := l.peer
	s.tell(func() { s.accept(l, b) })
}

// accept is the process that hears of the peer: it goes to RTS and says so.
func (s *Session) accept(l *link, b Attributes) {
	sender := l.sender
	sender.PSN = l.now.PSN
	path := l.there
	path.DLID = b.LID
	s.fail(l, l.mine.Start(rc.Connect{RemoteQPN: b.QPN, PSN: b.PSN, Path: path}, sender))
	s.fail(l, l.mine.Release())
	s.tell(func() {
		s.fail(l, l.theirs.Release())
		l.stage = running
	})
}
