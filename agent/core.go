package agent

import (
	"fmt"
	"slices"
	"time"

	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/internal/heap"
	"heddle/mad"
)

// Core is the path cache of one port.
type Core struct {
	cfg   Config
	now   mad.Time
	out   *Output
	port  Port
	eng   *mad.Engine
	cache cache

	tokens  uint64              // of queries; see subscriptionToken
	queries map[key]*pending    // by question
	byToken map[uint64]*pending // by the engine's token
	asks    map[uint64]*pending // by the number of the asker
	asked   uint64              // numbers of askers
	ends    heap.Heap[mad.Time, uint64]
	silent  bool     // the SA did not answer the last request
	heardAt mad.Time // its last answer

	inform  informs
	changes generations
	tidyAt  mad.Time // when old entries are removed next
	stats   Stats
}

// pending is a query that is queued or in flight, and those who wait for it.
type pending struct {
	key     key
	token   uint64
	at      mad.Time // when it was submitted
	gone    bool     // a notice named its path since: the answer may be older
	waiters []waiter
}

type waiter struct {
	number uint64
	token  uint64
}

// tidyTime is the time between removals of entries that are too old to be served.
const tidyTime = time.Minute

// New returns a core whose port is down until the first SetPort.
func New(cfg Config) *Core {
	retries := cfg.Retries
	if retries == 0 {
		retries = -1
	}
	return &Core{
		cfg: cfg, cache: newCache(cfg.MaxEntries), queries: map[key]*pending{}, byToken: map[uint64]*pending{}, asks: map[uint64]*pending{},
		eng: mad.NewEngine(mad.Config{
			Window: cfg.Window, MaxWindow: cfg.Window, Timeout: cfg.Timeout, Retries: retries,
			TransportTimed: cfg.TransportTimed, FirstTID: cfg.FirstTID,
		}),
		inform: newInforms(), changes: generations{at: mad.Never},
	}
}

// Step applies one event at a time not before that of the last step, and appends to out
// what must be done.
func (c *Core) Step(now mad.Time, ev Event, out *Output) {
	c.now, c.out = max(now, c.now), out
	switch ev := ev.(type) {
	case SetPort:
		c.setPort(&ev.Port)
	case Reregister:
		c.gap("the SA asks for new subscriptions")
	case Ask:
		c.ask(&ev)
	case Received:
		c.received(ev.P)
	case Timer:
	case Flush:
		c.flush(ev)
	}
	c.expire()
	c.inform.act(c)
	c.changes.act(c)
	c.eng.Poll(c.now, c.send)
	out.Timer = c.nextTimer()
	c.out = nil
}

// Stats returns the counts.
func (c *Core) Stats() Stats {
	s := c.stats
	s.Entries, s.Negative, s.Suspect = c.cache.len()-c.cache.negative, c.cache.negative, c.cache.suspect
	s.Waiting, s.InFlight = len(c.asks), len(c.queries)
	s.Subscribed, s.Silent, s.Generation = c.inform.confirmed(), c.silent, c.changes.Have()
	return s
}

// Entry describes a cached answer.
type Entry struct {
	Query   Query
	Record  wire.PathRecord // unless NoPath
	NoPath  bool
	Age     time.Duration // since the query
	Left    time.Duration // how long it is served without a query; 0: it is asked for again
	Suspect bool
	Blind   bool // read while the subscriptions were not confirmed
}

// Entries calls yield for the cached answers, the most recently used one first.
func (c *Core) Entries(now mad.Time, yield func(Entry) bool) {
	c.now = max(now, c.now)
	for i := c.cache.head; i >= 0; i = c.cache.entries[i].next {
		e := &c.cache.entries[i]
		x := Entry{Query: e.key.query(), NoPath: e.negative, Age: c.now.Sub(e.at), Suspect: e.suspect, Blind: e.blind}
		if !e.negative {
			x.Record = decode(&e.rec)
		}
		if c.fresh(e) {
			x.Left = c.life(e) - x.Age
		}
		if !yield(x) {
			return
		}
	}
}

// PortState is the state of the port as last reported.
func (c *Core) PortState() Port { return c.port }

func (c *Core) notice(kind, format string, a ...any) {
	c.out.Notices = append(c.out.Notices, Notice{Kind: kind, Text: fmt.Sprintf(format, a...)})
}

// send appends a packet of the engine to the output.
func (c *Core) send(p *mad.Packet) {
	s := Send{Addr: p.Addr, Timeout: p.Timeout}
	copy(s.MAD[:], p.Data)
	c.out.Sends = append(c.out.Sends, s)
}

// setPort takes the state of the port.
func (c *Core) setPort(p *Port) {
	old := c.port
	p.SM.QP = 1
	p.GIDs, p.PKeys = slices.Clone(p.GIDs), slices.Clone(p.PKeys)
	c.port = *p
	own := old.Deaf != p.Deaf || old.LID != p.LID || old.LMC != p.LMC || !slices.Equal(old.GIDs, p.GIDs) || !slices.Equal(old.PKeys, p.PKeys)
	if own && c.cache.len() > 0 && c.cfg.Policy == UntilChanged {
		n := c.cache.removeIf(func(*entry) bool { return true })
		c.stats.Flushed += uint64(n)
		c.notice("flushed", "the port's LID, GIDs or P_Keys changed: %d entries removed", n)
	}
	switch {
	case !c.reachable():
		if old.Active && old.SM.LID != 0 {
			c.gap("the port is down")
			c.abandon()
		}
	case !old.Active || old.SM != p.SM:
		c.silent = false
		c.gap(fmt.Sprintf("the subnet manager is at LID %d", p.SM.LID))
		c.resubmit()
	case own:
		c.gap("the port's addresses changed")
		c.resubmit()
	}
}

// reachable reports whether the SA can be asked.
func (c *Core) reachable() bool {
	return c.port.Active && c.port.LID.IsUnicast() && c.port.SM.LID.IsUnicast() && len(c.port.GIDs) > 0
}

// gap records that notices may have been missed: all entries are asked for again before they
// are served, and the subscriptions are renewed.
func (c *Core) gap(why string) {
	if c.cfg.Policy == AsPublished {
		return
	}
	c.stats.Gaps++
	c.doubt()
	c.eng.Cancel(generationToken, generationToken)
	c.changes.restart()
	c.inform.restart(c)
	if c.port.Deaf {
		c.changes.want(c) // otherwise when the subscriptions are settled
	}
	c.notice("gap", "%s; notices may have been missed: %d entries are suspect", why, c.cache.len())
}

// abandon answers all askers: the port is down.
func (c *Core) abandon() {
	c.eng.CancelAll()
	for _, p := range c.inOrder() {
		for _, w := range p.waiters {
			c.fail(w.token, Down, 0)
			delete(c.asks, w.number)
		}
		c.drop(p)
	}
}

// resubmit sends all queries anew, to where the SA is now.
func (c *Core) resubmit() {
	c.eng.Cancel(1, c.tokens)
	for _, p := range c.inOrder() {
		c.submit(p)
	}
}

// inOrder lists the queries in the order in which they were made.
func (c *Core) inOrder() []*pending {
	list := make([]*pending, 0, len(c.byToken))
	for _, p := range c.byToken {
		list = append(list, p)
	}
	slices.SortFunc(list, func(a, b *pending) int { return int(int64(a.token - b.token)) })
	return list
}

// submit passes a query to the engine.
func (c *Core) submit(p *pending) {
	p.at, p.gone = c.now, false
	r := mad.Request{Addr: c.port.SM, Token: p.token}
	wire.New(&r.MAD, ib.MethodGet, wire.AttrPathRecord, 0, p.key.mask)
	copy(wire.Data(&r.MAD), p.key.rec[:])
	_ = c.eng.Submit(&r) // MaxWaiting is far below the engine's bound
}

// drop forgets a query.
func (c *Core) drop(p *pending) {
	delete(c.byToken, p.token)
	delete(c.queries, p.key)
}

func (c *Core) flush(f Flush) {
	match := func(e *entry) bool {
		return f == Flush{} || !f.GID.IsZero() && e.names(f.GID) || f.LID != 0 && e.namesLID(f.LID)
	}
	n := c.cache.removeIf(match)
	c.stats.Flushed += uint64(n)
	c.repeatAll()
	c.notice("flushed", "by request: %d entries removed", n)
}

// expire ends what is due.
func (c *Core) expire() {
	c.eng.Expire(c.now, c.done)
	for c.ends.Len() > 0 && c.ends.Min().Key <= c.now {
		number := c.ends.Min().Value
		c.ends.Remove(0)
		if p := c.asks[number]; p != nil {
			c.timeUp(p, number)
		}
	}
	if c.now >= c.tidyAt {
		c.tidyAt = c.now.Add(tidyTime)
		n := c.cache.removeIf(func(e *entry) bool {
			return !c.usable(e) && (!e.negative || !c.fresh(e))
		})
		c.stats.Aged += uint64(n)
	}
}

func (c *Core) nextTimer() mad.Time {
	t := min(c.eng.NextTimer(), c.inform.nextTimer(c), c.changes.nextTimer(c))
	if c.ends.Len() > 0 {
		t = min(t, c.ends.Min().Key)
	}
	if c.cache.len() > 0 {
		t = min(t, c.tidyAt)
	}
	return t
}
