package replica

import (
	"errors"
	"slices"

	"heddle/mad"
	"heddle/store/journal"
)

// What an active manager keeps and sends at once.
const (
	recentEntries = 1024     // entries kept in memory for the standby
	recentBytes   = 32 << 20 // and their size
	sendAhead     = 1024     // entries sent and not acknowledged, at most
	sendBytes     = 8 << 20  // and their size, unless it is one entry
	readSize      = 1 << 20  // bytes read from the journal at once
	joinLag       = 64       // entries that a standby may lack when the pairing begins
)

var errStall = errors.New("the disk takes too long")

// active appends to the journal.
type active struct {
	granted bool
	alone   bool // entries count without the peer
	solo    bool // note.solo, as it was before this term
	told    bool // a change was answered while entries counted here alone
	going   bool // alone is being written down
	over    bool // it took over and is not alone yet; no pairing has begun since
	// waits: nothing counts before the other manager, as standby, knows this term, and its disk
	// does not say that it was alone. It might be active too, or go on alone after a start.
	waits   bool
	fenced  bool     // as rule 5 wants
	named   mad.Time // since when the peer's port names this manager, before its lease ended; 0: it may not
	secured bool     // entries of this term are newer than any that counted without it
	lapse   mad.Time // end of the lease with which it took over from a silent manager, which may be alone then; else mad.Never
	// third is when the port named a third manager last, if no sign of the peer answered a later
	// one of this manager since: that it named the peer meanwhile may have been overwritten.
	third mad.Time

	// The standby.
	open   bool   // its stream
	met    *Hello // what it said
	sent   uint64 // number of the last entry that was sent; 0: not known where it stands
	acked  uint64
	ahead  []flight // entries sent and not acknowledged
	flying int      // and their size
	copied bool     // the standby has what a snapshot replaced, if one was sent
	busy   bool     // the disk reads for it
	joined bool     // entries count on both from here on: the pairing is written down or being so
	from   uint64   // the last entry when joined was set: up to it entries may count here alone
	noted  bool     // it is written down
	paired bool     // the offer was sent

	stalled mad.Time // since when this manager's disk takes too long
	proof   uint64   // the entry that then asks the standby's disk; 0: none

	pairBoot, pairConn uint64 // start and stream of the standby that the offer went or may go to

	waiting    []waiting
	size       int
	recent     []journal.Entry
	recentSize int
	newest     uint64     // number of the last entry that was given to the disk
	failing    int        // entries at the disk that fail, because one before them did
	said       NoticeKind // the last one of NoticePaired and NoticeAlone; 0: none
	handing    bool
	handWhy    Why
	handAt     mad.Time
}

// flight is an entry on its way to the standby.
type flight struct {
	number uint64
	size   int
}

// waiting is a change that does not count yet.
type waiting struct {
	id     uint64
	number uint64
	size   int
}

// begin prepares for a term that starts.
func (a *active) begin(c *Core, spare, waits bool, lapse mad.Time) {
	*a = active{over: spare || waits, waits: waits, lapse: lapse, open: a.open}
	if a.open {
		c.out.Hangup, a.open = true, false // the standby begins anew with this term
	}
}

// grant begins the term.
func (a *active) grant(c *Core, why Why) {
	a.granted, a.alone, c.aborted = true, c.note.alone, false
	c.out.Grant = &Grant{Why: why, Stale: why == WhyStale || why == WhyAsked, First: c.had.Term.Owner == 0, Until: a.lapse}
	c.nextSign = c.now
	c.tell(Notice{Kind: NoticeActive, Why: why, Mark: c.last})
}

func (a *active) stop(c *Core) {
	for _, w := range a.waiting {
		c.out.Done = append(c.out.Done, Done{w.id, ErrSuperseded})
	}
	if a.open {
		c.out.Hangup = true
	}
	*a = active{}
}

func (a *active) opened(c *Core) { a.open, a.met = true, nil }

func (a *active) closed() {
	a.open, a.met, a.sent, a.busy, a.paired = false, nil, 0, false, false
	a.ahead, a.flying = nil, 0
}

// change appends what a manager asks for.
func (c *Core) change(ev Change) {
	a := &c.active
	var err error
	switch {
	case c.role != Active || !a.granted:
		err = ErrStandby
	case a.handing:
		err = ErrBusy
	case a.size >= c.cfg.Waiting, a.failing > 0:
		err = ErrBusy
	}
	if err != nil {
		c.out.Done = append(c.out.Done, Done{ev.ID, err})
		return
	}
	a.append(c, &journal.Entry{Wall: ev.Wall, Ops: ev.Ops}, &ev.ID)
}

// append gives an entry to the disk and to the standby. The first entry of a term has no ID.
func (a *active) append(c *Core, e *journal.Entry, id *uint64) {
	e.Mark = journal.Mark{Term: c.term, Number: c.tail.Number + 1}
	n := size(e)
	if id != nil {
		a.waiting = append(a.waiting, waiting{*id, e.Number, n})
		a.size += n
	}
	c.tail, a.newest = e.Mark, e.Number
	c.order(Append{*e}, func(d Did) { a.wrote(c, e.Mark, d) })
	a.recent = append(a.recent, *e)
	a.recentSize += n
	drop := 0
	for len(a.recent)-drop > recentEntries || a.recentSize > recentBytes && len(a.recent)-drop > 0 {
		a.recentSize -= size(&a.recent[drop])
		drop++
	}
	clear(a.recent[:drop]) // append makes another array when this one is used up
	a.recent = a.recent[drop:]
}

// size is about what an entry takes in memory.
func size(e *journal.Entry) int {
	n := 64
	for i := range e.Ops {
		n += 32 + len(e.Ops[i].Record.Key) + len(e.Ops[i].Record.Value)
	}
	return n
}

// wrote takes the disk's answer about an entry.
func (a *active) wrote(c *Core, m journal.Mark, d Did) {
	after := a.failing > 0 && c.role == Active && c.term == m.Term
	if after {
		a.failing--
	}
	if d.Err == nil {
		c.last, c.unsure = m, false
		if after && c.tail.Number < m.Number {
			c.tail = m // the one that failed is there, so this one could follow it
		}
		return
	}
	c.failed(d)
	if after || c.role != Active || c.term != m.Term {
		return
	}
	err := d.Err
	c.tell(Notice{Kind: NoticeDisk, Err: err, Mark: m})
	switch {
	case !a.granted:
		c.stepBack(WhyDisk)
	case a.alone:
		// The entries after this one fail too, or are not answered for.
		for _, w := range a.waiting {
			if w.number >= m.Number {
				c.out.Done = append(c.out.Done, Done{w.id, err})
				a.size -= w.size
			}
		}
		a.waiting = slices.DeleteFunc(a.waiting, func(w waiting) bool { return w.number >= m.Number })
		a.recent, a.recentSize = nil, 0 // the disk knows what it has
		a.failing = int(a.newest - m.Number)
	default:
		// The peer may have what this disk has not, and an entry of the same number must not
		// be made twice.
		a.yield(c, WhyDisk)
	}
}

func (a *active) fence(c *Core, ev Fenced) {
	if c.role != Active || !a.granted || !a.over {
		return
	}
	a.fenced = a.fenced || ev.Unreachable || c.now < a.lapse
	if !ev.Unreachable && a.named == 0 && c.now < a.lapse {
		a.named = c.now
	}
}

// secure says, in the note that is written next, that the term began: no entry of an older
// term counts any more that this manager lacks. Without it a manager that starts again does
// not hold the entries of its term for newer than those of the other manager.
func (a *active) secure(c *Core) { a.secured, c.note.began = true, c.term }

// hello begins to send to a standby.
func (a *active) hello(c *Core, m Hello) {
	if !a.open {
		return
	}
	a.met = &m
	a.sent, a.acked, a.busy, a.paired, a.copied = 0, 0, false, false, true
	a.ahead, a.flying = nil, 0
}

func (a *active) ack(c *Core, m Ack) {
	if c.role == Active && a.met != nil && m.Term == c.term && m.Number <= a.sent {
		a.acked = max(a.acked, m.Number)
		a.copied = a.copied || a.acked >= a.sent
		n := 0
		for n < len(a.ahead) && a.ahead[n].number <= a.acked {
			a.flying -= a.ahead[n].size
			n++
		}
		a.ahead = a.ahead[n:]
	}
}

func (a *active) think(c *Core) {
	if !c.port && a.granted && !a.handing {
		a.handover(c, WhyPort) // if not now, as soon as there is a spare
	}
	if a.third > 0 && !a.alone && !a.going && !a.over && c.past(c.silence(), c.cfg.Alone) {
		c.stepBack(WhyChallenged) // the other manager may be alone
		return
	}
	a.waits = a.waits && !(knows(c) && !c.peer.Was)
	if a.waits && c.past(c.silence(), c.cfg.Alone) {
		c.stepBack(WhyOtherAlone)
		return
	}
	if a.over && !a.fenced && c.past(a.lapse, 0) {
		// The old manager may be alone by now. What was written since does not count.
		c.stepBack(WhyLate)
		return
	}
	if p := &c.peer; !a.secured && knows(c) && p.Was && p.Last.Compare(c.had) > 0 {
		// Entries counted there alone that are not here, and none counts in this term: the fabric
		// was in two halves, or this manager lost its port.
		c.stepBack(WhyOtherAlone)
		return
	}
	if a.stalls(c) {
		c.tell(Notice{Kind: NoticeDisk, Err: errStall, Mark: c.last})
		a.yield(c, WhyDisk)
		return
	}
	a.feed(c)
	a.join(c)
	a.leave(c)
	a.count(c)
	a.handOver(c)
}

// stalls reports whether changes wait for this manager's disk alone, for longer than that may take: the
// standby has them, and can take over. A sign of before this process was stopped says nothing, and a
// write may have ended meanwhile. What the standby acknowledged before its own disk stalled says nothing
// either: where both write to one disk array, nobody would be active. So an entry without operations asks
// its disk first.
func (a *active) stalls(c *Core) bool {
	if !a.spare(c) || c.now.Sub(c.silence()) >= c.cfg.Take || len(c.disk) == 0 ||
		len(a.waiting) == 0 || a.waiting[0].number > a.acked || a.waiting[0].number <= c.last.Number {
		return false
	}
	since := c.disk[0].since
	if !c.past(since, c.cfg.Stall) {
		return false
	}
	if a.proof == 0 || a.stalled != since {
		a.proof, a.stalled = c.tail.Number+1, since
		a.append(c, &journal.Entry{}, nil)
	}
	return a.acked >= a.proof && c.past(since, 2*c.cfg.Stall)
}

// spare reports whether the standby is paired and can take over.
func (a *active) spare(c *Core) bool {
	return a.accepted(c) && c.peer.PortOK
}

// count answers the changes whose entries count.
func (a *active) count(c *Core) {
	n := 0
	for _, w := range a.waiting {
		if w.number > c.last.Number || !a.alone && w.number > a.acked {
			break
		}
		a.told = a.told || a.alone
		c.out.Done = append(c.out.Done, Done{w.id, nil})
		a.size -= w.size
		n++
	}
	a.waiting = slices.Delete(a.waiting, 0, n)
}

// feed sends the standby what it lacks.
func (a *active) feed(c *Core) {
	if !a.open || a.met == nil || a.busy || !a.granted || !a.secured && !knows(c) {
		return
	}
	if a.sent == 0 {
		a.place(c)
		return
	}
	end := c.last.Number
	if a.joined {
		end = c.tail.Number // both disks write at the same time
	}
	if !a.copied || a.sent >= end || a.sent-a.acked >= sendAhead || a.flying >= sendBytes {
		return
	}
	if len(a.recent) > 0 && a.recent[0].Number <= a.sent+1 {
		list := a.recent[a.sent+1-a.recent[0].Number:]
		list = list[:min(int(end-a.sent), int(sendAhead-(a.sent-a.acked)))]
		n, bytes := 0, a.flying
		for n < len(list) && (bytes == 0 || bytes+size(&list[n]) <= sendBytes) {
			bytes += size(&list[n])
			n++
		}
		if n > 0 {
			a.send(c, slices.Clone(list[:n]))
		}
		return
	}
	if a.sent >= c.last.Number || a.flying > 0 && a.flying+readSize > sendBytes {
		return
	}
	a.read(c, a.sent+1, readSize, func(d Did) {
		if d.Err != nil || len(d.Entries) == 0 {
			a.snapshot(c)
			return
		}
		a.send(c, d.Entries)
	})
}

func (a *active) send(c *Core, list []journal.Entry) {
	c.out.Sends = append(c.out.Sends, Entries{Term: c.term, List: list})
	a.sent = list[len(list)-1].Number
	for i := range list {
		n := size(&list[i])
		a.ahead = append(a.ahead, flight{list[i].Number, n})
		a.flying += n
	}
}

// place finds out whether the standby's last entry is one of this journal.
func (a *active) place(c *Core) {
	had := a.met.Last
	if had.Number == 0 || had.Number > c.last.Number {
		if had.Number == 0 || had.Number > c.tail.Number {
			a.snapshot(c)
		}
		return // or wait: the disk may be about to have that entry
	}
	a.read(c, had.Number, 1, func(d Did) {
		if d.Err == nil && len(d.Entries) > 0 && d.Entries[0].Mark == had {
			a.sent, a.acked = had.Number, had.Number
			return
		}
		a.snapshot(c)
	})
}

// read reads the journal for the standby of now.
func (a *active) read(c *Core, from uint64, size int, then func(Did)) {
	a.busy = true
	met := a.met
	c.order(ReadEntries{From: from, Size: size}, func(d Did) {
		if c.role == Active && a.met == met {
			a.busy = false
			then(d)
		}
	})
}

func (a *active) snapshot(c *Core) {
	a.busy = true
	met := a.met
	c.order(ReadState{}, func(d Did) {
		if c.role != Active || a.met != met {
			return
		}
		a.busy = false
		if d.Err != nil {
			c.tell(Notice{Kind: NoticeDisk, Err: d.Err})
			c.out.Hangup = true
			a.closed()
			return
		}
		c.out.Sends = append(c.out.Sends, Snapshot{Term: c.term, At: d.Mark, State: d.State})
		a.sent, a.acked, a.copied = d.Mark.Number, 0, false
	})
}

// join begins a pairing with a standby that lacks little, and offers it when it lacks nothing.
func (a *active) join(c *Core) {
	if !a.open || a.met == nil || a.sent == 0 || a.going || a.waits || a.acked == 0 || !a.joined && c.tail.Number-a.acked > joinLag {
		return
	}
	if !a.joined && c.now >= c.silence().Add(c.cfg.Alone) {
		return // without a sign the manager would go alone again now
	}
	if !a.joined {
		// From here on nothing counts on this manager alone.
		a.joined, a.noted, a.alone, a.from = true, false, false, c.tail.Number
		c.note.pair++
		c.note.alone, c.note.common = false, a.acked
		a.secure(c)
		a.pairBoot, a.pairConn = a.met.Boot, a.met.Conn
		a.over = false
		pair := c.note.pair
		c.remember(func() { a.noted = a.joined && c.note.pair == pair })
		c.nextSign = c.now
	}
	if a.noted && !a.paired && a.acked >= a.from {
		if a.pairBoot != a.met.Boot || a.pairConn != a.met.Conn {
			// Another stream: the standby may have accepted the old offer, so a new one begins.
			a.joined = false
			a.join(c)
			return
		}
		a.paired = true
		c.note.common, c.note.solo, a.solo, a.told = a.from, false, false, false
		c.write(func(Did) {}) // it only saves a fork that is none
		c.out.Sends = append(c.out.Sends, Pair{Term: c.term, ID: c.note.pair, Mark: a.from})
	}
	if a.accepted(c) {
		a.say(c, NoticePaired)
	}
}

// accepted reports whether the standby says that it is paired.
func (a *active) accepted(c *Core) bool {
	return a.paired && c.peer.Paired && c.peer.Pair == c.note.pair
}

// say tells people how the standby stands, if that has changed: an offer that it cannot accept, because
// its disk fails, is no news.
func (a *active) say(c *Core, k NoticeKind) {
	if a.said != k {
		a.said = k
		c.tell(Notice{Kind: k, Mark: c.last})
	}
}

// leave goes alone when a rule permits it.
func (a *active) leave(c *Core) {
	if !a.granted || a.alone || a.going || !a.may(c) {
		return
	}
	a.going, a.joined, a.noted, a.paired = true, false, false, false
	a.goAlone(c)
}

func (a *active) goAlone(c *Core) {
	c.note.alone, c.note.solo, c.note.common = true, true, max(c.note.common, a.acked)
	a.secure(c)
	term := c.term
	c.remember(func() {
		if c.role == Active && c.term == term && a.going {
			a.going, a.alone, a.over = false, true, false
			c.nextSign = c.now
			a.say(c, NoticeAlone)
		}
	})
}

// may reports whether a paired manager may go alone: rules 2 and 5.
func (a *active) may(c *Core) bool {
	switch {
	case a.waits:
		return false
	case a.over && knows(c):
		return !c.peer.Was // or it might go on alone after a start
	case !a.over && a.left(c):
		return true // or it started anew
	case a.over && a.named > 0 && (c.gone() || c.past(a.named, c.cfg.Fence)):
		return c.master(a.named)
	case !a.over && a.third == 0 && c.heard && c.ended >= a.pairBoot && c.way < c.silence():
		// It starts anew, if ever. It may have taken over before, unheard: this port names it then,
		// unless a third manager wrote there since.
		return c.master(c.endedAt)
	}
	// Where no way led to this port, the other manager may have taken over without it, and needs
	// time to make itself the SM of this port once there is one.
	silence := max(c.silence(), c.way)
	return c.past(silence, c.cfg.Alone) && c.master(silence.Add(c.cfg.Alone)) && (!a.over || a.fenced)
}

// left reports whether the standby left the pairing, or started anew.
func (a *active) left(c *Core) bool {
	p := &c.peer
	return c.heard && (p.Boot > a.pairBoot || p.Boot == a.pairBoot && !p.Paired && p.Left >= a.pairConn)
}

// master reports whether a look at the fabric that began at since or later shows this manager as the
// SM of its port, which works.
func (c *Core) master(since mad.Time) bool {
	r, ok := c.look(since)
	return ok && r.Port && r.Fabr && r.Mine
}

// knows reports whether the other manager is standby and knows this term.
func knows(c *Core) bool { return c.heard && !c.peer.Active && c.peer.Term == c.term }

// heir reports whether a standby can follow, or is about to be able to.
func (a *active) heir(c *Core) bool { return a.granted && a.joined && c.peer.PortOK }

// handover asks for the end of this term. Without an heir it changes nothing: changes would wait
// in vain.
func (a *active) handover(c *Core, why Why) {
	if c.role == Active && !a.handing && a.heir(c) {
		a.handing, a.handWhy, a.handAt = true, why, c.now
	}
}

// handOver stops when the standby is paired and nothing waits for it.
func (a *active) handOver(c *Core) {
	switch {
	case !a.handing:
	case c.past(a.handAt, c.cfg.Alone):
		a.handing = false // the standby does not come: go on
	case a.spare(c) && len(a.waiting) == 0:
		a.yield(c, a.handWhy)
	}
}

// yield gives the term up to the paired standby.
func (a *active) yield(c *Core, why Why) {
	id, term := c.note.pair, c.term
	c.out.Sends = append(c.out.Sends, Over{Term: term, ID: id})
	open := a.open
	c.stepBack(why)
	c.out.Hangup, a.open = false, open // Over is on its way
	c.standby.yield, c.standby.pair = true, id
}
