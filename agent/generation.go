package agent

import (
	"heddle/agent/generation"
	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/mad"
)

// generations asks the SA which paths of the port changed since the generation that the cache has,
// so that a lost notice or another manager does not cost a query for each entry.
type generations struct {
	generation.Tracker
	since  mad.Time // entries read since then are covered by the tracker's generation
	asking bool
	again  bool     // something happened since the query
	at     mad.Time // when to ask next
}

// generationToken is the engine's token of the query for changes.
const generationToken = subscriptionToken | 1<<32

// restart begins with what may be another manager, which is asked when it confirmed the
// subscriptions, so that no change falls between.
func (g *generations) restart() {
	g.Restart()
	g.asking, g.again, g.at = false, false, mad.Never
}

// want has the SA asked now.
func (g *generations) want(c *Core) {
	if g.asking {
		g.again = true
		return
	}
	g.at = c.now
}

// nextTimer is when act has something to do. An empty cache needs no verification.
func (g *generations) nextTimer(c *Core) mad.Time {
	if c.cfg.Policy == AsPublished || g.asking || !g.Known() || !c.reachable() || c.cache.len() == 0 && g.Have() != 0 {
		return mad.Never
	}
	return g.at
}

// act asks for the changes if it is time.
func (g *generations) act(c *Core) {
	if c.now < g.nextTimer(c) {
		return
	}
	g.asking, g.again = true, false
	r := mad.Request{Addr: c.port.SM, Token: generationToken}
	generation.Ask(&r.MAD, c.port.GIDs[0], g.Have(), g.Have() == 0)
	c.stats.ChangeQueries++
	_ = c.eng.Submit(&r)
}

// done takes the answer.
func (g *generations) done(c *Core, d *mad.Completion) {
	g.asking, g.at = false, c.now.Add(c.cfg.VerifyTime)
	if d.Err != nil {
		if !c.silent { // otherwise it is asked when it answers again
			g.at = c.now.Add(min(minRetry, c.cfg.VerifyTime))
		}
		return
	}
	if st := d.MAD.Status(); st != ib.StatusOK {
		g.Refused(st)
		return
	}
	list, err := generation.Decode(d.Data)
	if err != nil {
		return
	}
	if whole, newer := g.Answered(&list[0]); whole {
		// What was read before this answer may be older than its generation.
		g.since = c.now
		c.doubt()
	} else {
		g.changed(c, list[1:], newer)
	}
	if g.again {
		g.at = c.now
	}
}

// changed applies what the SA says has changed. newer: no Report has brought newer values.
func (g *generations) changed(c *Core, list []wire.PathChangeRecord, newer bool) {
	for i := range list {
		p, lost := &list[i].Path, list[i].Lost
		n := c.cache.removeIf(func(e *entry) bool { return concerns(pathDest, p, e) && (lost || !newer || !c.renew(e, p)) })
		c.stats.Noticed += uint64(n)
	}
	if len(list) > 0 {
		c.repeatAll()
	}
	if !g.again { // a doubt that came since the question stays
		c.cache.trust(g.since, c.inform.confirmed())
	}
}

// reported takes the generations of a Report of trap 68 or 69. named: its mask names a
// destination. It reports whether the changes that the Report does not name are asked for, so
// that no entry needs to leave for them.
func (g *generations) reported(c *Core, n *wire.PathNotice, named bool) (follows bool) {
	switch g.Reported(n, named) {
	case generation.Absent:
		return false
	case generation.Unknown, generation.Missed:
		g.want(c)
	}
	return true
}

// trust ends the doubt about entries read since a time; noticed: the SA reports GIDs that come
// and go, of which an SA may know no generation.
func (c *cache) trust(since mad.Time, noticed bool) {
	for i := c.head; i >= 0; i = c.entries[i].next {
		e := &c.entries[i]
		if e.at < since {
			continue
		}
		if e.suspect {
			e.suspect = false
			c.suspect--
		}
		e.blind = e.blind && !noticed
	}
}

// doubt makes all entries suspect.
func (c *Core) doubt() {
	c.cache.doubt()
	c.repeatAll()
}

// repeatAll has all queries in flight repeated.
func (c *Core) repeatAll() {
	for _, p := range c.queries {
		p.gone = true // in any order
	}
}
