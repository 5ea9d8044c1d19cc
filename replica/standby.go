package replica

import (
	"errors"
	"time"

	"heddle/ib"
	"heddle/mad"
	"heddle/store/journal"
)

var errWild = errors.New("the active manager sent what it cannot have")

// standby copies the journal of an active manager.
type standby struct {
	open   bool   // the stream of this manager
	hello  bool   // it said what it has on it
	copies bool   // a snapshot is at the disk: no entry follows before that is there
	conn   uint64 // number of the last stream
	left   uint64 // the highest number of a stream that was left
	lostAt mad.Time

	pair     uint64       // the last pairing that was accepted
	pairTerm journal.Term // and its term
	pairConn uint64       // and the stream on which it came
	paired   bool         // it holds, if the lease does
	lease    mad.Time     // end of the lease

	wasAlone bool // this manager has all that counts, as of its start
	// claims: entries counted here alone, and no newer term is known to have begun. A manager in
	// whose term nothing counts yet gives it up for them.
	claims   bool
	clearing bool     // the disk is to forget that this manager was alone
	clearAt  mad.Time // not before
	yield    bool     // it gave up being active for the pairing, and the peer may follow
	over     bool     // the active manager gave up for the pairing
	asked    bool     // an operator wants this manager to be active
	held     ib.GUID  // the master for which this manager does not take over; 0: none
	rest     mad.Time // no takeover before: the peer may be accepting a pairing, or the disk failed
	illness  illness
}

// illness is a disk that fails or stalls. A standby that copied at once again would make the active
// manager wait at each attempt.
type illness struct {
	on    bool          // nothing is copied before a note could be written
	pause time.Duration // until the next attempt; twice as long after each
	at    mad.Time      // of the last failure
	next  mad.Time      // attempt
}

// The first pause of an ill disk is Config.Every. The last one is illPause of them, and a disk that was
// well for four times as long begins anew.
const illPause = 50

// fails notes a failure of the disk, and reports whether it is the first one of an illness.
func (x *illness) fails(c *Core) bool {
	most := illPause * c.cfg.Every
	first := x.pause == 0 || c.now.Sub(x.at) > 4*most
	if x.pause = min(2*x.pause, most); first {
		x.pause = c.cfg.Every
	}
	x.on, x.at, x.next = true, c.now, c.now.Add(x.pause)
	return first
}

// try writes a note to the disk of an ill standby.
func (x *illness) try(c *Core) {
	if len(c.disk) > 0 || !c.past(x.next, 0) {
		return
	}
	c.write(func(d Did) {
		if x := &c.standby.illness; d.Err != nil {
			x.fails(c)
		} else {
			x.on = false
		}
	})
}

// spare reports whether this manager has every entry that counts, and may take over.
func (s *standby) spare(c *Core) bool { return s.paired && c.now < s.lease }

func (s *standby) opened(c *Core) {
	s.open, s.hello = true, false
	s.left = s.conn // no message of an older stream can come any more
	s.conn++
}

func (s *standby) closed(c *Core) {
	if s.open {
		s.open, s.hello = false, false
		s.lostAt = c.now
	}
}

// ill ends the stream and the pairing because of the disk. People hear of it once.
func (s *standby) ill(c *Core, err error) {
	first := s.illness.fails(c)
	s.end(c, err, first || s.paired)
}

// leave ends the stream and the pairing. The active manager may go alone once it hears of it.
func (s *standby) leave(c *Core, err error) { s.end(c, err, s.paired || err != nil) }

func (s *standby) end(c *Core, err error, tell bool) {
	if tell {
		c.tell(Notice{Kind: NoticeLeft, Err: err, Mark: c.last})
	}
	if s.open {
		c.out.Close = true
	}
	s.open, s.hello, s.paired = false, false, false
	s.left = s.conn
	s.lostAt = c.now
	c.nextSign = c.now
}

// stop ends all that a standby does, because the manager becomes active.
func (s *standby) stop(c *Core) {
	if s.open {
		c.out.Close = true
	}
	*s = standby{conn: s.conn, left: s.conn, pair: s.pair, illness: s.illness}
}

// outdone takes that the peer has all that counted here, or that entries count in a later term.
func (s *standby) outdone() { s.wasAlone, s.claims = false, false }

// heard takes a new sign of the peer.
func (s *standby) heard(c *Core, p *Sign) {
	if p.Active && p.Term == c.term && p.Term.Compare(c.last.Term) > 0 && p.Last.Compare(c.has()) >= 0 {
		s.outdone()
	}
	if p.Last.Term == c.last.Term && p.Last.Number >= c.last.Number && !c.unsure {
		c.note.solo = false // the peer has all of this journal
	}
	s.held = 0
	if p.Active {
		s.asked = false // it was asked because the peer was silent
	}
	if s.yield && (p.Active || !p.Paired) {
		s.yield = false // the peer took over, or cannot any more
	}
	if !s.paired {
		return
	}
	switch {
	case p.Active && p.Term == s.pairTerm && p.Pair < s.pair:
		// It was sent before the pairing began.
	case p.Active && (p.Alone || p.Pair != s.pair || p.Term != s.pairTerm):
		s.paired = false // the active manager does not count on this one
	case p.Active:
		s.renew(c, p)
	case p.Yield && p.Pair == s.pair:
		s.over = true
	}
}

// renew makes the lease last longer, by the sign that the peer heard last.
func (s *standby) renew(c *Core, p *Sign) {
	if t, ok := c.echoed(p); ok {
		s.lease = max(s.lease, t.Add(c.cfg.Lease))
	}
}

func (s *standby) think(c *Core) {
	if s.illness.on {
		s.illness.try(c)
	}
	if s.open && !s.hello && !s.illness.on && len(c.disk) == 0 {
		s.hello, s.copies = true, false
		last := c.last
		if c.unsure {
			last = journal.Mark{} // its next entry must not follow one that the peer has not
		}
		c.out.Sends = append(c.out.Sends, Hello{Boot: c.note.boot, Conn: s.conn, Last: last, Term: c.term})
	}
	// The active manager waits for this one's disk as soon as it is not alone, which is before
	// this one accepts the pairing.
	waits := s.paired || c.peer.Active && !c.peer.Alone
	if s.open && waits && len(c.disk) > 0 && c.past(c.disk[0].since, c.cfg.Stall) {
		s.ill(c, errStall)
	}
	// Once the stream of the pairing has ended, the active manager may go alone as soon as a sign
	// says that the lease has. So no later sign of its own may renew the lease.
	if s.paired && s.left >= s.pairConn && !s.spare(c) {
		s.paired = false
		c.tell(Notice{Kind: NoticeLeft, Mark: c.last})
	}
	if c.may && !s.wasAlone {
		s.clear(c)
	}
	// A stream that was lost while the active manager lives: say so.
	if s.paired && !s.open && c.silence() > s.lostAt && c.past(s.lostAt, c.cfg.Left) {
		s.leave(c, nil)
	}
	if len(c.disk) > 0 {
		return // what it has is not known before all is written
	}
	s.decide(c)
}

// clear makes the disk forget that this manager was alone. Until then signs say so.
func (s *standby) clear(c *Core) {
	if s.clearing || !c.past(s.clearAt, 0) {
		return
	}
	s.clearing, c.note.alone = true, false
	c.write(func(d Did) {
		s.clearing, s.clearAt = false, c.now
		if d.Err != nil {
			s.clearAt = c.now.Add(c.cfg.Look)
		}
		c.nextSign = c.now
	})
}

// decide takes over if a rule permits it.
func (s *standby) decide(c *Core) {
	silence := c.silence()
	spare := s.spare(c)
	switch {
	case s.asked && c.past(s.rest, 0):
		c.takeOver(WhyAsked)
	case s.over && spare:
		c.takeOver(WhyHandover)
	case spare:
		c.due(s.lease)
		if c.past(silence, c.cfg.Take) || !s.open && (c.missed || c.gone()) {
			s.tryTake(c, silence, WhySilence)
		}
	case !c.past(s.rest, 0):
	case s.mayLead(c, silence):
		s.tryTake(c, silence, WhyNewer)
	case s.wasAlone && !(c.heard && c.peer.Active) && c.past(silence, c.cfg.Look):
		s.tryTake(c, silence.Add(c.cfg.Look), WhyWasAlone)
	case c.past(silence, c.cfg.Stale):
		s.tryTake(c, silence.Add(c.cfg.Stale), WhyStale)
	}
}

// mayLead reports whether both managers are standby, none of them for a pairing, and this one
// has the newer entries.
func (s *standby) mayLead(c *Core, silence mad.Time) bool {
	p := &c.peer
	if c.term.Owner == c.cfg.Peer && p.Term.Compare(c.term) < 0 {
		return false // the peer has become active since that sign
	}
	return c.heard && !p.Active && !p.Paired && !s.yield && c.now.Sub(silence) < c.cfg.Take && s.leads(c)
}

// leads reports whether, of two standby managers, this one has the newer entries.
func (s *standby) leads(c *Core) bool {
	p := &c.peer
	if d := c.has().Compare(p.Last); d != 0 {
		return d > 0
	}
	if c.was() != p.Was {
		return c.was()
	}
	return c.cfg.Me > c.cfg.Peer
}

// tryTake takes over if a look at the fabric that began at since or later permits it.
func (s *standby) tryTake(c *Core, since mad.Time, why Why) {
	p, ok := c.look(since)
	if !ok {
		return
	}
	// A manager that may lack what a living master acknowledged leaves the subnet to that one:
	// otherwise two that do not hear each other would take over by turns. A spare lacks nothing.
	if blind := why == WhyStale || why == WhyWasAlone; blind && p.Master != s.held {
		if s.held = p.Master; s.held != 0 {
			c.tell(Notice{Kind: NoticeHeld, Other: s.held, Mark: c.last})
		}
	} else if !blind {
		s.held = 0
	}
	if p.Port && p.Fabr && s.held == 0 {
		c.takeOver(why)
	}
}

func (s *standby) entries(c *Core, m Entries) {
	if !s.open || !s.hello {
		return
	}
	for i := range m.List {
		e := &m.List[i]
		err := journal.Follows(c.tail, e.Mark)
		if e.Term.Compare(m.Term) > 0 || s.copies {
			err = errWild
		}
		if err != nil {
			s.leave(c, err)
			return
		}
		c.tail = e.Mark
		conn := s.conn
		c.order(Append{*e}, func(d Did) {
			if d.Err != nil {
				c.failed(d)
				if c.role == Standby && s.open && s.conn == conn {
					s.ill(c, d.Err)
				}
				return
			}
			c.last, c.unsure, c.aborted = e.Mark, false, false
			c.note.solo = false // the peer's journal has what came before
			s.ack(c, conn)
		})
	}
}

func (s *standby) ack(c *Core, conn uint64) {
	if c.role != Standby || !s.open || s.conn != conn {
		return
	}
	// One acknowledgment covers all that became durable in this step.
	if n := len(c.out.Sends); n > 0 {
		if _, ok := c.out.Sends[n-1].(Ack); ok {
			c.out.Sends = c.out.Sends[:n-1]
		}
	}
	c.out.Sends = append(c.out.Sends, Ack{Term: c.term, Number: c.last.Number})
}

func (s *standby) snapshot(c *Core, m Snapshot) {
	if !s.open || !s.hello {
		return
	}
	if m.State == nil || m.At.Term.Compare(m.Term) > 0 {
		s.leave(c, errWild)
		return
	}
	s.copies = true
	c.tail = m.At // a pairing goes on: what was here and what comes both have all that counts
	conn := s.conn
	c.order(Replace{State: m.State, At: m.At, Fork: c.note.common, Counted: c.note.solo}, func(d Did) {
		if d.Err != nil {
			c.failed(d)
			if c.role == Standby && s.open && s.conn == conn {
				s.ill(c, d.Err)
			}
			return
		}
		c.last, c.unsure, c.aborted, c.note.solo = m.At, false, false, false
		s.copies = s.copies && s.conn != conn
		c.tell(Notice{Kind: NoticeCopied, Mark: c.last})
		s.ack(c, conn)
	})
}

// offered accepts a pairing, once what this manager knows of it is written down.
func (s *standby) offered(c *Core, m Pair) {
	if !s.open || !s.hello || m.Mark > c.last.Number {
		return
	}
	conn := s.conn
	c.note.pair, c.note.common, c.note.alone, c.note.solo = m.ID, m.Mark, false, false
	c.remember(func() {
		if c.role != Standby || !s.open || s.conn != conn || c.term != m.Term {
			return
		}
		s.pair, s.pairTerm, s.pairConn = m.ID, m.Term, conn
		s.paired, s.over = true, false
		s.outdone()
		if p := &c.peer; p.Active && !p.Alone && p.Pair == s.pair && p.Term == m.Term {
			s.renew(c, p)
		}
		c.nextSign = c.now
		c.tell(Notice{Kind: NoticePaired, Mark: c.last})
	})
}
