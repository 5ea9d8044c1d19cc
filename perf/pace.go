package perf

import (
	"cmp"
	"math"
	"slices"
	"time"

	"heddle/internal/plural"
	"heddle/mad"
)

// fewest is how many requests a step sends at most, unless the ports need more, and how many are due
// in the time between two steps. Requests of others wait for those of a step: in the port, and where
// agents share a processor with the subnet's other programs.
const fewest = 8

// The shortest and the longest time between two steps; a 64th of a short period. One step for each of
// many ports would cost more than the requests.
const (
	minGap = 500 * time.Microsecond
	maxGap = 2 * time.Millisecond
)

// space sets the time between steps, and what a step sends, for that many requests in the period.
func (c *Core) space(requests int) {
	each := float64(c.period) / float64(max(requests, 1))
	c.gap = min(max(time.Duration(fewest*each), minGap), maxGap, c.period/64)
	// Half as many again as are due, for steps that come late.
	c.batch = max(fewest, int(math.Ceil(1.5*float64(c.gap)/each)))
}

// spread is the part of a period over which its ports are released. The last of them are to be read
// before the next round begins.
func (c *Core) spread() time.Duration { return c.period - c.period/16 }

// release lets the ports go whose time has come: port k of n at k/n of the period. It begins a
// round when the last one is over.
func (c *Core) release() {
	if c.snap == nil {
		return
	}
	if c.number == 0 || c.released >= c.slots && c.t >= c.began.Add(c.period) {
		if c.number > 0 {
			c.publish()
		}
		c.startRound()
	}
	for c.released < c.due() {
		if c.engine.Queued() > c.cfg.Window {
			return // the fabric does not keep up; Poll sends what waits first
		}
		if !c.releaseOne() {
			c.released = c.slots
			return
		}
	}
}

// due is how many ports of the round may have been released by now.
func (c *Core) due() int {
	gone := c.t.Sub(c.began)
	if gone >= c.spread() {
		return c.slots
	}
	return min(int(float64(c.slots)*float64(gone)/float64(c.spread()))+1, c.slots)
}

// nextRelease is when ports are to be released again.
func (c *Core) nextRelease() mad.Time {
	switch {
	case c.snap == nil:
		return mad.Never
	case c.released >= c.slots:
		return max(c.began.Add(c.period), c.t)
	}
	each := float64(c.spread()) / float64(c.slots)
	return max(c.began.Add(time.Duration(each*float64(c.released))), c.t.Add(c.gap))
}

// startRound begins a round.
func (c *Core) startRound() {
	c.number++
	c.began = c.t
	c.arrange()
	c.countPorts()
}

// arrange puts the agents that are watched behind the others.
func (c *Core) arrange() {
	if len(c.watch) == 0 && !c.moved {
		return
	}
	last := func(a *agent) int {
		if _, ok := slices.BinarySearch(c.watch, a.guid); ok {
			return 1
		}
		return 0
	}
	slices.SortFunc(c.order, func(a, b *agent) int { return cmp.Or(cmp.Compare(last(a), last(b)), cmp.Compare(a.first, b.first)) })
	c.moved = len(c.watch) > 0
}

// countPorts finds the ports of the round, none of which is released, and its period.
func (c *Core) countPorts() {
	c.sortPorts()
	c.slots, c.released, c.walk, c.walkPort = 0, 0, 0, -1
	requests, fresh := 0, 0
	for _, a := range c.order {
		a.skip, a.whole = a.until > c.number, false
		a.next, a.released = a.first, a.first
		if a.skip {
			continue
		}
		n := 0
		for i := a.first; i <= a.last && !(a.probe && n > 0); i++ {
			if c.polled(i) {
				n++
			}
		}
		c.slots += n
		if requests += n; a.wide && !a.full {
			requests += n
		}
		if !a.known { // what it has is asked first, then the unit of XmitWait
			fresh += 1 + 2*n
		}
	}
	c.period = max(c.cfg.Period, time.Duration(float64(requests)/float64(c.cfg.Rate)*float64(time.Second)))
	if long := c.period > c.cfg.Period; long != c.longTold {
		c.longTold = long
		if long {
			c.tell(KindPeriod, true, "%s %s %d requests a period, and at %d a second a period is %v, not %v: raise --perf-rate or --perf", plural.Of(c.slots, "port"), plural.Verb(c.slots, "needs", "need"), requests, c.cfg.Rate, c.period.Round(time.Millisecond), c.cfg.Period)
		}
	}
	c.space(requests + fresh)
}

// releaseOne releases the next port of the round. It reports false if there is none.
func (c *Core) releaseOne() bool {
	a := c.advance()
	if a == nil {
		return false
	}
	c.released++
	c.ask(a)
	return true
}

// advance goes to the next port of the round, whose agent may be asked for all ports up to it. It
// returns the agent; nil: there is no port left.
func (c *Core) advance() *agent {
	for ; c.walk < len(c.order); c.walk, c.walkPort = c.walk+1, -1 {
		a := c.order[c.walk]
		if a.skip || a.whole || a.probe && a.released > a.first {
			continue
		}
		for i := max(c.walkPort, a.first); i <= a.last; i++ {
			if c.polled(i) {
				c.walkPort, a.released = i+1, i+1
				return a
			}
		}
	}
	return nil
}

// publish ends a round.
func (c *Core) publish() {
	c.tellRound()
	r := &Round{
		Number: c.number, Began: c.began, Ended: c.t, Period: c.period, Snap: c.snap, Cleared: c.cleared,
		now: c.now.copy(), before: c.before, tick: append([]uint8(nil), c.tick...), Virtual: c.virtuals(),
	}
	c.st.Rounds++
	c.st.LastRound = c.t.Sub(c.began)
	r.Status = c.Status()
	if c.cfg.History > 0 {
		c.history = c.history.with(c.number, c.began, c.points, c.cfg.History)
		r.history = c.history
		c.points = make([]point, len(c.points))
	}
	c.before = r.now
	for i := range c.now.flags {
		c.now.flags[i] &^= Sampled | Cleared | Wrapped
	}
	c.cleared = nil
	c.last = r
	c.out.Publish = r
}
