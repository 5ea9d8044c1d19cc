package replica

import (
	"slices"
	"time"

	"heddle/mad"
	"heddle/store/journal"
)

// signsKept is how many of the last signs a standby remembers the times of.
const signsKept = 64

// maxTerm is the highest number of a term that is believed. No pair reaches it, and a term
// must follow.
const maxTerm = 1 << 62

// Core decides for one manager of a pair. It belongs to the goroutine that calls Step.
type Core struct {
	cfg Config
	now mad.Time
	out *Output

	ready bool // the start is written down
	role  Role
	note  note // as last written or being written
	may   bool // the note on the disk may say that this manager is alone
	alone int  // notes that said so
	term  journal.Term
	tail  journal.Mark // the last entry that was given to the disk
	last  journal.Mark // the last durable entry
	// unsure: a write failed, and the disk may have entries after last that the peer has not.
	unsure bool
	// aborted: the last entries are of a term that did not begin. The one before them is had.
	aborted bool
	had     journal.Mark
	// unsaid is the first entry of a term that began with a word that entries may be missing, if
	// the manager stopped before it appended another one: the word may not have been heard.
	unsaid journal.Mark
	port   bool     // this manager's port is active
	way    mad.Time // since when it is, and no switch was missed
	disk   []pending
	probe  probe

	// Signs.
	seq      uint64
	nextSign mad.Time
	sentAt   [signsKept]mad.Time // by seq
	peer     Sign                // the latest
	heard    bool                // there was one since the start
	started  mad.Time
	heardAt  [2]mad.Time // by channel; the start if none
	missed   bool        // a request in band got no answer since the last sign
	ended    uint64      // the latest start of the peer whose process has ended
	endedAt  mad.Time    // when this manager learned that

	standby standby
	active  active
}

// pending is a command at the disk, and what its answer means.
type pending struct {
	since mad.Time
	then  func(Did)
}

// probe is the last look at the fabric.
type probe struct {
	asked  bool // and not answered
	have   bool
	result Probed
}

// New returns a core that waits for Start.
func New(cfg Config) *Core { return &Core{cfg: cfg, port: true} }

// Role returns the role of the manager.
func (c *Core) Role() Role { return c.role }

// Step takes one event. It appends to out, which the caller has Reset.
func (c *Core) Step(now mad.Time, ev Event, out *Output) {
	c.now, c.out = now, out
	switch ev := ev.(type) {
	case Start:
		c.start(ev)
	case Did:
		c.did(ev)
	case Heard:
		c.hear(ev)
	case Unanswered:
		c.missed = true
	case Ended:
		c.hearEnded(ev)
	case Opened:
		c.opened(ev.Mine)
	case Closed:
		c.closed(ev.Mine)
	case Received:
		c.receive(ev.Message)
	case Change:
		c.change(ev)
	case Probed:
		c.probed(ev)
	case Fenced:
		c.active.fence(c, ev)
	case Challenged:
		if ev.Third {
			c.active.third = now
		} else {
			c.stepBack(WhyChallenged)
		}
	case Port:
		if !ev.Active || !c.port {
			c.way = now
		}
		c.port = ev.Active
		c.nextSign = now
	case Handover:
		c.active.handover(c, WhyHandover)
	case Takeover:
		c.standby.asked = c.role == Standby
	case Timer:
	}
	switch {
	case c.ready:
		c.think()
	case c.note.boot > 0 && c.nextSign <= now:
		c.begin()
	}
	if !c.ready {
		c.due(c.nextSign)
	}
	c.out = nil
}

func (c *Core) start(ev Start) {
	n, err := decodeNote(ev.Note)
	if err != nil {
		c.tell(Notice{Kind: NoticeDisk, Err: err})
		return // never ready: the shell has checked the note
	}
	c.note = n
	c.last, c.tail = ev.Last, ev.Last
	c.learn(n.term)
	c.learn(ev.Last.Term)
	if n.boot > 0 && n.began != ev.Last.Term && ev.Last.Term.Owner == c.cfg.Me {
		c.aborted, c.had = true, n.had
		if ev.Begin != nil {
			c.had = ev.Begin.Had // the note may not have been written
		}
	}
	if b := ev.Begin; b != nil && !c.aborted && (b.Reason == WhyStale.String() || b.Reason == WhyAsked.String()) {
		c.unsaid = ev.Last
	}
	c.started, c.heardAt = c.now, [2]mad.Time{c.now, c.now}
	c.standby.wasAlone, c.may = n.alone, n.alone
	// Entries of the peer follow those of this manager only at one that has these.
	c.note.solo = n.solo && (c.aborted || ev.Last.Term.Owner == c.cfg.Me)
	c.standby.claims = c.note.solo
	c.standby.pair = n.pair
	if !n.alone && n.pair > 0 {
		c.standby.rest = c.now.Add(c.cfg.Alone) // as in stepBack
	}
	c.note.boot = max(n.boot+1, ev.Boot)
	c.begin()
}

// begin writes the start down. A disk that fails is asked again.
func (c *Core) begin() {
	c.nextSign = mad.Never
	c.write(func(d Did) {
		c.ready, c.nextSign = d.Err == nil, c.now
		x := &c.standby.illness
		if x.on = d.Err != nil; !x.on {
			return
		}
		if x.fails(c) {
			c.tell(Notice{Kind: NoticeDisk, Err: d.Err})
		}
		c.nextSign = c.now.Add(max(c.cfg.Look, x.pause))
	})
}

// think does what is due.
func (c *Core) think() {
	if c.role == Active {
		c.active.think(c)
	} else {
		c.standby.think(c)
	}
	if c.nextSign <= c.now {
		c.sign()
	}
	c.due(c.nextSign)
}

// due asks for a Timer at t, if that is to come.
func (c *Core) due(t mad.Time) {
	if t > c.now && t < c.out.Wake {
		c.out.Wake = t
	}
}

func (c *Core) tell(n Notice) { c.out.Notices = append(c.out.Notices, n) }

// learn notes a term. A newer one than its own ends an active manager's.
func (c *Core) learn(t journal.Term) {
	if t.Compare(c.term) <= 0 || t.Number > maxTerm {
		return
	}
	c.term = t
	if c.role == Active {
		c.stepBack(WhySuperseded)
	}
}

// order gives a command to the disk.
func (c *Core) order(cmd Command, then func(Did)) {
	c.out.Disk = append(c.out.Disk, cmd)
	c.disk = append(c.disk, pending{c.now, then})
}

func (c *Core) did(ev Did) {
	if len(c.disk) == 0 {
		return
	}
	p := c.disk[0]
	c.disk = slices.Delete(c.disk, 0, 1)
	if len(c.disk) > 0 {
		c.disk[0].since = c.now // the disk begins with it now
	}
	p.then(ev)
	if len(c.disk) == 0 {
		c.tail = c.last
	}
}

// write gives the note to the disk.
func (c *Core) write(then func(Did)) {
	c.note.term = c.term
	alone := c.note.alone
	if alone {
		c.may = true
		c.alone++
	}
	n := c.alone
	c.order(SetNote{c.note.encode()}, func(d Did) {
		if d.Err == nil && !alone && n == c.alone {
			c.may = false
		}
		then(d)
	})
}

// failed takes what the disk has after a write that failed: it may have been carried out.
func (c *Core) failed(d Did) {
	if c.unsure = d.Mark == (journal.Mark{}); !c.unsure {
		c.last = d.Mark
	}
	c.tail = c.last
}

// remember writes the note and calls then when it is durable. If the disk cannot write it, an
// active manager is standby, and a standby leaves the pairing.
func (c *Core) remember(then func()) {
	c.write(func(d Did) {
		switch {
		case d.Err == nil:
			then()
		case c.role == Active:
			c.tell(Notice{Kind: NoticeDisk, Err: d.Err})
			c.stepBack(WhyDisk)
		default:
			c.standby.ill(c, d.Err)
		}
	})
}

// silence is since when nothing was heard of the peer.
func (c *Core) silence() mad.Time { return max(c.heardAt[Stream], c.heardAt[Fabric]) }

func (c *Core) probed(ev Probed) {
	c.probe.asked, c.probe.have, c.probe.result = false, true, ev
	if !ev.Port || !ev.Fabr {
		c.way = c.now
	}
}

func (c *Core) hearEnded(ev Ended) {
	if ev.Boot > c.ended {
		c.ended, c.endedAt = ev.Boot, c.now
	}
}

// gone reports whether the process has ended whose sign was heard last.
func (c *Core) gone() bool { return c.heard && c.ended >= c.peer.Boot }

// hear takes a sign. One that is older than the latest counts for nothing.
func (c *Core) hear(ev Heard) {
	s := ev.Sign
	if s.Boot < c.peer.Boot || s.Boot == c.peer.Boot && s.Seq <= c.peer.Seq && c.heard {
		// The other channel brought it before. It shows that this one works, if it is the latest.
		if s.Boot == c.peer.Boot && s.Seq == c.peer.Seq {
			c.heardAt[ev.Channel] = max(c.heardAt[ev.Channel], c.silence())
		}
		return
	}
	c.peer, c.heard, c.missed = s, true, false
	c.heardAt[ev.Channel] = c.now
	if c.ended >= s.Boot {
		c.ended = s.Boot - 1 // it lives: its port was asked between two processes
	}
	c.learn(s.Term)
	if c.role == Standby {
		if s.Active && c.nextSign.Sub(c.now) < c.cfg.Every/2 {
			c.nextSign = c.now // the shell is awake now
		}
		c.standby.heard(c, &s)
	} else if t, ok := c.echoed(&s); ok && t > c.active.third {
		c.active.third = 0
	}
}

// echoed is when this manager sent the sign that the peer's one echoes, if that was lately.
func (c *Core) echoed(p *Sign) (mad.Time, bool) {
	if p.EchoBoot != c.note.boot || p.Echo == 0 || p.Echo > c.seq || c.seq-p.Echo >= signsKept {
		return 0, false
	}
	return c.sentAt[p.Echo%signsKept], true
}

// sign sends a sign of life.
func (c *Core) sign() {
	c.seq++
	c.sentAt[c.seq%signsKept] = c.now
	c.nextSign = c.now.Add(c.cfg.Every)
	s := &Sign{
		Boot: c.note.boot, Seq: c.seq, EchoBoot: c.peer.Boot, Echo: c.peer.Seq,
		Term: c.term, Last: c.begun(), Left: c.standby.left, PortOK: c.port,
	}
	if c.role == Active {
		s.Active, s.Alone, s.Pair = true, c.active.alone || c.active.going, c.note.pair
	} else {
		s.Was, s.Pair, s.Paired, s.Yield = c.was(), c.standby.pair, c.standby.spare(c), c.standby.yield
	}
	c.out.Sign = s
}

func (c *Core) opened(mine bool) {
	if mine {
		c.standby.opened(c)
	} else {
		c.active.opened(c)
	}
}

func (c *Core) closed(mine bool) {
	if mine {
		c.standby.closed(c)
	} else {
		c.active.closed()
	}
}

func (c *Core) receive(m Message) {
	switch m := m.(type) {
	case Hello:
		c.learn(m.Term)
		c.active.hello(c, m)
	case Ack:
		c.active.ack(c, m)
	case Refused:
		c.learn(m.Term)
	case Entries:
		if c.current(m.Term) {
			c.standby.entries(c, m)
		}
	case Snapshot:
		if c.current(m.Term) {
			c.standby.snapshot(c, m)
		}
	case Pair:
		if c.current(m.Term) {
			c.standby.offered(c, m)
		}
	case Over:
		if c.current(m.Term) && c.standby.pair == m.ID {
			c.standby.over = true
		}
	}
}

// current reports whether a message of the active manager belongs to the newest term.
func (c *Core) current(t journal.Term) bool {
	if !c.ready || c.role != Standby {
		return false
	}
	c.learn(t)
	if t == c.term && t.Compare(c.last.Term) > 0 {
		c.standby.outdone() // the sender feeds nobody who claims
	}
	if t.Compare(c.term) < 0 {
		c.out.Sends = append(c.out.Sends, Refused{c.term})
		return false
	}
	return t == c.term
}

// look returns the result of a look at the fabric that began at since or later, and was
// answered now or a moment ago. It asks for one if there is none.
func (c *Core) look(since mad.Time) (Probed, bool) {
	p := &c.probe
	if p.have && p.result.Begun >= since && c.now.Sub(p.result.Begun) <= 2*c.cfg.Every {
		return p.result, true
	}
	if !p.asked {
		p.asked, p.have = true, false
		c.out.Probe = true
	}
	return Probed{}, false
}

// past reports whether d has passed since t, and asks for a Timer then if not.
func (c *Core) past(t mad.Time, d time.Duration) bool {
	c.due(t.Add(d))
	return c.now >= t.Add(d)
}

// takeOver makes the manager active, in a new term. The term counts once its first entry and
// the note are written. If not, the manager is as before, but for that entry.
func (c *Core) takeOver(why Why) {
	c.role = Active
	spare := why == WhySilence || why == WhyHandover
	lapse, alone := mad.Never, c.standby.wasAlone
	if why == WhySilence {
		lapse = c.standby.lease
	}
	c.had, c.aborted = c.has(), true
	c.standby.stop(c)
	c.term = c.term.Next(c.cfg.Me)
	if why == WhyStale || why == WhyAsked {
		// The other one may have done this too, unheard. If their clocks are right the later term
		// is the newer one.
		wall := c.note.boot + uint64(c.now.Sub(c.started)/time.Second)
		c.term.Number = max(c.term.Number, min(wall, maxTerm))
	}
	waits := why == WhyNewer && (c.peer.Was || !alone)
	if c.unsaid != (journal.Mark{}) && c.had == c.unsaid {
		why = WhyStale
	}
	c.active.begin(c, spare, waits, lapse)
	c.active.append(c, &journal.Entry{Begin: &journal.Begin{Had: c.had, Reason: why.String()}}, nil)
	c.note.had, c.note.alone, c.active.solo = c.had, !spare && !waits, c.note.solo
	if c.note.alone {
		c.note.solo = true
		c.active.secure(c)
	}
	if spare {
		c.note.common = c.had.Number
	}
	term := c.term
	c.remember(func() {
		if c.role == Active && c.term == term {
			c.active.grant(c, why)
		}
	})
	c.nextSign = c.now
}

// has is the last durable entry, without those of a term that did not begin.
func (c *Core) has() journal.Mark {
	if c.aborted {
		return c.had
	}
	return c.last
}

// begun is has, and without those of a term in which nothing counts yet.
func (c *Core) begun() journal.Mark {
	if c.role == Active && !c.active.secured {
		return c.had
	}
	return c.has()
}

// was reports whether the disk may say that this manager was alone, or whether entries counted
// here alone and no newer term is known to have begun.
func (c *Core) was() bool { return c.may || c.standby.claims }

// stepBack makes an active manager standby.
func (c *Core) stepBack(why Why) {
	if c.role != Active {
		return
	}
	if !c.active.granted || !c.active.secured {
		c.aborted, c.note.began = true, journal.Term{}
	}
	c.note.solo = c.note.solo && (c.active.solo || c.active.told)
	c.active.stop(c)
	c.role = Standby
	c.standby = standby{pair: c.note.pair, conn: c.standby.conn, left: c.standby.left, claims: c.note.solo, illness: c.standby.illness}
	c.standby.rest = c.now.Add(c.cfg.Alone)   // an offer of a pairing may be under way
	c.standby.clearAt = c.now.Add(c.cfg.Look) // the note of below does it
	c.note.alone = false
	c.remember(func() {})
	c.out.Yield, c.out.Grant = true, nil // a grant of this step has come too late
	c.nextSign = c.now
	c.heardAt[Stream] = max(c.heardAt[Stream], c.now) // the silence of before counts no more
	c.tell(Notice{Kind: NoticeStandby, Why: why, Mark: c.last})
}
