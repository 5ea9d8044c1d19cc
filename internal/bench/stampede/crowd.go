package stampede

import (
	"math/rand/v2"
	"time"

	"heddle/ib"
	"heddle/ib/sa"
	"heddle/internal/bench/rawibsim"
)

const (
	crowdPaths = 32 // that each host of the crowd asks for
	// probePause is the longest pause of the quiet hosts: they ask for a path, one after the other,
	// some 5,000 times a second.
	probePause = 400 * time.Microsecond
	// lostAfter is when a query counts as lost; agents wait about as long.
	lostAfter = time.Second
	// noReport is when a manager that has sent no Report will send none.
	noReport = 20 * time.Second
	// ignoredPause is the time from a host's first queries to its next ones if nobody answers.
	ignoredPause = time.Millisecond
)

// crowd are the hosts of a subnet that ask the manager for paths: many hosts that have been
// notified, and quiet ones whose answers are timed.
type crowd struct {
	manager ib.LID
	hosts   []ib.LID
	quiet   []ib.LID
	rng     *rand.Rand

	host [1 << 16]struct {
		at       int32 // its index in hosts + 1
		left     uint8 // queries that it has not sent yet
		inFlight uint8
	}
	asks  []ask // queries of the crowd, before the manager's port
	again []due // hosts that ask again, in order of time

	phase   *phase
	began   time.Time
	sent    int // hosts that have begun to ask
	pending int // queries of the crowd without an answer
	last    time.Time

	probe   ask // the one of the quiet hosts
	probing bool
	queued  bool // probe waits for the manager's port
	probed  time.Time
	tid     uint64

	echo     int // a socket whose owner returns what it gets, in order
	ignoring int // a socket whose owner takes no notice of what it gets
	out      rawibsim.Burst
}

type ask struct{ from, to ib.LID }

type due struct {
	at   time.Time
	from ib.LID
}

// A phase is one measurement. It is copied before it begins.
type phase struct {
	crowd     *crowd
	length    time.Duration // at least
	rate      int           // hosts of the crowd that ask in a second; 0: all at once
	once      int           // queries of a host in flight; 0: the crowd does not ask
	ignored   bool          // the crowd asks somebody else
	echo      bool          // an echo is in the place of the manager
	notified  bool          // a host asks when it gets a Report
	subscribe bool          // hosts subscribe, and nothing is measured

	end    chan struct{} // closed when what follows is valid
	took   []probe
	lost   int // queries of the quiet hosts
	busy   int // answers BUSY to the crowd
	hosts  int // that have asked
	lasted time.Duration
}

// A probe is an answer to a quiet host: when, and how long after the query.
type probe struct {
	at   time.Time
	took time.Duration
}

func newCrowd(hosts, quiet []ib.LID, manager ib.LID) *crowd {
	c := &crowd{manager: manager, hosts: hosts, quiet: quiet, rng: rand.New(rand.NewPCG(5, 5)), ignoring: -1}
	for i, lid := range hosts {
		c.host[lid].at = int32(i + 1)
	}
	c.out.Init()
	return c
}

func (c *crowd) begin(p *phase) {
	c.phase, c.began, c.sent, c.pending = p, time.Now(), 0, 0
	c.last, c.probed = c.began, c.began
	c.again = c.again[:0]
	for _, lid := range c.hosts {
		h := &c.host[lid]
		h.left, h.inFlight = 0, 0
	}
}

// act does what is due and returns how long nothing is.
func (c *crowd) act(now time.Time) time.Duration {
	p := c.phase
	if p == nil {
		return time.Hour
	}
	wait := c.actCrowd(now)
	if !p.subscribe && (!p.notified || c.sent > 0) { // quiet hosts ask from the first Report on
		wait = min(wait, c.actProbe(now))
	}
	silent := now.Sub(c.last) > 2*lostAfter && (!p.notified || c.sent > 0 || now.Sub(c.began) > noReport)
	if now.Sub(c.began) >= p.length && !c.probing && (c.ended() || silent) {
		p.hosts, p.lasted = c.sent, c.last.Sub(c.began)
		c.phase = nil
		close(p.end)
	}
	return wait
}

// ended reports whether the crowd has all that it asked for.
func (c *crowd) ended() bool {
	p := c.phase
	return c.pending == 0 && len(c.asks) == 0 && len(c.again) == 0 && (p.once == 0 || c.sent == len(c.hosts))
}

// actProbe has the next quiet host ask.
func (c *crowd) actProbe(now time.Time) time.Duration {
	if c.probing {
		left := c.probed.Add(lostAfter).Sub(now)
		if left > 0 {
			return left
		}
		c.phase.lost++
		c.phase.took = append(c.phase.took, probe{now, lostAfter})
		c.probing, c.queued = false, false
		c.probed = now
	}
	if wait := c.probed.Sub(now); wait > 0 {
		return wait
	}
	c.tid++
	c.probe, c.probing, c.queued, c.probed = ask{c.quiet[c.rng.IntN(len(c.quiet))], c.hosts[c.rng.IntN(len(c.hosts))]}, true, true, now
	return lostAfter
}

// actCrowd has hosts ask whose time has come.
func (c *crowd) actCrowd(now time.Time) time.Duration {
	p := c.phase
	if p.once == 0 && !p.subscribe {
		return time.Hour
	}
	for len(c.again) > 0 {
		if wait := c.again[0].at.Sub(now); wait > 0 {
			return wait
		}
		c.more(c.again[0].from, now)
		c.again = c.again[1:]
	}
	switch {
	case c.sent == len(c.hosts) || p.notified:
		return time.Hour
	case p.subscribe:
		for ; c.sent < len(c.hosts) && c.pending < 64; c.sent++ {
			c.asks = append(c.asks, ask{from: c.hosts[c.sent]})
			c.pending++
		}
		return time.Hour
	}
	for ; c.sent < len(c.hosts); c.sent++ {
		if p.rate > 0 {
			if wait := c.began.Add(time.Second * time.Duration(c.sent) / time.Duration(p.rate)).Sub(now); wait > 0 {
				return wait
			}
		}
		c.start(c.hosts[c.sent], now)
	}
	return time.Hour
}

// notified has a host ask that got a Report.
func (c *crowd) notified(lid ib.LID, now time.Time) {
	c.last = now
	if p := c.phase; p != nil && p.notified && c.host[lid].at > 0 && c.host[lid].left+c.host[lid].inFlight == 0 {
		if c.sent == 0 {
			c.began, c.probed = now, now
		}
		c.sent++
		c.start(lid, now)
	}
}

// start has a host ask for all its paths.
func (c *crowd) start(lid ib.LID, now time.Time) {
	c.host[lid].left = crowdPaths
	c.more(lid, now)
}

// more has a host send what it may.
func (c *crowd) more(lid ib.LID, now time.Time) {
	h, p := &c.host[lid], c.phase
	n := max(0, min(int(h.left), p.once-int(h.inFlight), rawibsim.MaxBurst))
	h.left -= uint8(n)
	c.last = now
	for i := range n {
		x := ask{lid, c.hosts[c.rng.IntN(len(c.hosts))]}
		if p.ignored {
			m := pathRequest(x.from, x.to, 1)
			putQuery((*rawMessage)(&c.out.Buf[i]), x.from, c.manager, &m)
		} else {
			c.asks = append(c.asks, x)
		}
	}
	if !p.ignored {
		h.inFlight += uint8(n)
		c.pending += n
		return
	}
	_, _ = c.out.TrySend(c.ignoring, n)
	if h.left > 0 {
		c.again = append(c.again, due{now.Add(ignoredPause), lid})
	}
}

// waiting is how many queries wait for the manager's port.
func (c *crowd) waiting() int {
	n := len(c.asks)
	if c.queued {
		n++
	}
	return n
}

// take writes the next queries into b. That of a quiet host is the first: in a fabric it comes by
// another link, and waits in the port of the manager only.
func (c *crowd) take(b [][rawibsim.DataLen]byte) int {
	n := 0
	if c.queued && n < len(b) {
		m := pathRequest(c.probe.from, c.probe.to, c.tid)
		putQuery((*rawMessage)(&b[n]), c.probe.from, c.manager, &m)
		n++
	}
	for _, x := range c.asks[:min(len(c.asks), len(b)-n)] {
		var m ib.MAD
		if x.to == 0 {
			m = subscription(1)
		} else {
			m = pathRequest(x.from, x.to, 1)
		}
		putQuery((*rawMessage)(&b[n]), x.from, c.manager, &m)
		n++
	}
	return n
}

// took notes that the port has taken n of what take wrote.
func (c *crowd) took(n int) {
	if n > 0 && c.queued {
		c.queued = false
		n--
	}
	c.asks = c.asks[n:]
	if len(c.asks) == 0 {
		c.asks = nil
	}
}

// subscription asks for all Reports of changed paths.
func subscription(tid uint64) (m ib.MAD) {
	sa.New(&m, ib.MethodSet, sa.AttrInformInfo, 0, 0)
	info := sa.InformInfo{
		LIDRangeBegin: sa.InformAllLIDs, IsGeneric: 1, Subscribe: 1, Type: sa.InformAllTypes,
		TrapNumber: 69, QPN: 1, RespTimeValue: 13, Producer: sa.InformAllProducers,
	}
	info.Put(sa.Data(&m))
	m.SetTID(tid)
	return m
}

// answered takes an answer for a host.
func (c *crowd) answered(lid ib.LID, m *ib.MAD, now time.Time) {
	p := c.phase
	switch {
	case p == nil:
	case c.host[lid].at == 0:
		if c.probing && m.TID()&0xFFFFFFFF == c.tid&0xFFFFFFFF && m.Status() == 0 {
			p.took = append(p.took, probe{now, now.Sub(c.probed)})
			c.probing = false
			c.probed = now.Add(time.Duration(c.rng.IntN(int(probePause))))
		}
	case p.subscribe:
		c.last = now
		c.pending--
	case m.AttrID() == sa.AttrPathRecord:
		c.last = now
		h := &c.host[lid]
		h.inFlight--
		c.pending--
		if m.Status() == ib.StatusBusy {
			p.busy++
			h.left++
			c.again = append(c.again, due{now.Add(lostAfter), lid})
			return
		}
		if h.left > 0 {
			c.more(lid, now)
		}
	}
}
