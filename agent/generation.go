package agent

import (
	"encoding/binary"

	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/mad"
)

// generations follows the generation of the manager's path state (docs/signalling.md). One
// query says which paths of the port changed since the generation that the cache has, so
// that a lost notice or another manager does not cost a query for each entry.
type generations struct {
	have   uint64   // 0: none
	latest uint64   // the newest whose values were taken
	since  mad.Time // entries read since then are covered by have
	absent bool     // the SA refused the question: it has no generations
	asking bool
	again  bool     // something happened since the query
	asked  mad.Time // when the query was submitted
	at     mad.Time // when to ask next
}

// generationToken is the engine's token of the query for changes.
const generationToken = subscriptionToken | 1<<32

// restart begins with what may be another manager, which is asked when it confirmed the
// subscriptions, so that no change falls between.
func (g *generations) restart() {
	g.absent, g.asking, g.again, g.at = false, false, false, mad.Never
}

// sameHistory reports whether two generations can be compared.
func sameHistory(a, b uint64) bool { return a != 0 && b != 0 && a>>32 == b>>32 }

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
	if g.asking || g.absent || !c.reachable() || c.cache.len() == 0 && g.have != 0 {
		return mad.Never
	}
	return g.at
}

// act asks for the changes if it is time.
func (g *generations) act(c *Core) {
	if c.now < g.nextTimer(c) {
		return
	}
	g.asking, g.again, g.asked = true, false, c.now
	method := ib.MethodGetTable
	if g.have == 0 {
		method = ib.MethodGet // the head alone
	}
	r := mad.Request{Addr: c.port.SM, Token: generationToken}
	wire.New(&r.MAD, method, wire.AttrPathChangeRecord, 0, wire.PathChangeCompGeneration|wire.PathChangeCompSGID)
	q := wire.PathChangeRecord{Generation: g.have, Path: wire.PathRecord{SGID: c.port.GIDs[0]}}
	q.Put(wire.Data(&r.MAD))
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
	if d.MAD.Status() != ib.StatusOK {
		g.absent = d.MAD.Status()&ib.StatusBusy == 0
		return
	}
	list, ok := pathChanges(d.Data)
	if !ok {
		return
	}
	head, list := list[0], list[1:]
	switch {
	case head.All || g.have == 0 || !sameHistory(head.Generation, g.have):
		// What was read before this answer may be older than its generation.
		g.have, g.since = head.Generation, c.now
		c.doubt()
	default:
		g.have = max(g.have, head.Generation)
		newest := !sameHistory(head.Generation, g.latest) || head.Generation >= g.latest
		if newest {
			g.latest = head.Generation
		}
		for i := range list {
			p, lost := &list[i].Path, list[i].Lost
			n := c.cache.removeIf(func(e *entry) bool { return concerns(pathDest, p, e) && (lost || !newest || !c.renew(e, p)) })
			c.stats.Noticed += uint64(n)
		}
		if len(list) > 0 {
			c.repeatAll()
		}
		if !g.again { // a doubt that came since the question stays
			c.cache.trust(g.since, c.inform.confirmed())
		}
	}
	if g.again {
		g.at = c.now
	}
}

// pathChanges decodes a table, or the one record of a Get. It begins with a head.
func pathChanges(b []byte) (list []wire.PathChangeRecord, ok bool) {
	if len(b) < wire.HeaderLen+wire.PathChangeRecordLen {
		return nil, false
	}
	table := ib.Method(b[3]) == ib.MethodGetTableResp
	step := 8 * int(binary.BigEndian.Uint16(b[44:]))
	for b = b[wire.HeaderLen:]; len(b) >= wire.PathChangeRecordLen; b = b[step:] {
		var r wire.PathChangeRecord
		if r.Decode(b[:wire.PathChangeRecordLen]) != nil || r.Head != (len(list) == 0) {
			break
		}
		list = append(list, r)
		if !table || step < wire.PathChangeRecordLen || step > len(b) {
			break
		}
	}
	return list, len(list) > 0 && list[0].Generation != 0
}

// newest reports whether the values of a Report are newer than all that the cache has taken: a
// repetition of an older Report is not.
func (g *generations) newest(n *wire.PathNotice) bool {
	if g.absent || !sameHistory(n.Generation, g.have) || n.Generation <= g.have ||
		sameHistory(n.Generation, g.latest) && n.Generation < g.latest {
		return false
	}
	g.latest = n.Generation
	return true
}

// reported takes the generations of a Report of trap 68 or 69. named: its mask names a
// destination. It reports whether the changes that the Report does not name are asked for, so
// that no entry needs to leave for them.
func (g *generations) reported(c *Core, n *wire.PathNotice, named bool) (follows bool) {
	switch {
	case n.Generation == 0 || g.absent:
		return false
	case !sameHistory(n.Generation, g.have) || !sameHistory(n.Before, g.have):
	case g.have >= n.Before && named:
		if !n.More {
			g.have = max(g.have, n.Generation)
		}
		return true
	}
	g.want(c)
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
