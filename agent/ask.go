package agent

import (
	"slices"

	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/mad"
)

// pathEnds are the components that name the ends of a path.
const (
	pathSource = wire.PathCompSGID | wire.PathCompSLID
	pathDest   = wire.PathCompDGID | wire.PathCompDLID
)

// keyOf reduces a question to its components. Without a source, the source is the port. One
// path is asked for.
func (c *Core) keyOf(q *Query) (k key, ok bool) {
	r := q.Record
	k.mask = q.Mask & (wire.PathCompPreference<<1 - 1) &^ wire.PathCompReserved
	if !k.mask.Any(pathDest) || !c.reachable() && !k.mask.Any(pathSource) {
		return k, false
	}
	if !k.mask.Any(pathSource) {
		k.mask |= wire.PathCompSGID
		r.SGID = c.port.GIDs[0]
	}
	k.mask |= wire.PathCompNumbPath
	r.NumbPath = 1
	clearOthers(k.mask, &r)
	r.Put(k.rec[:])
	return k, true
}

// clearOthers zeroes the components that mask does not name.
func clearOthers(mask wire.CompMask, r *wire.PathRecord) {
	var x wire.PathRecord
	take := func(comp wire.CompMask, f func()) {
		if mask.Has(comp) {
			f()
		}
	}
	take(wire.PathCompServiceID8, func() { x.ServiceID |= r.ServiceID &^ (1<<56 - 1) })
	take(wire.PathCompServiceID56, func() { x.ServiceID |= r.ServiceID & (1<<56 - 1) })
	take(wire.PathCompDGID, func() { x.DGID = r.DGID })
	take(wire.PathCompSGID, func() { x.SGID = r.SGID })
	take(wire.PathCompDLID, func() { x.DLID = r.DLID })
	take(wire.PathCompSLID, func() { x.SLID = r.SLID })
	take(wire.PathCompRawTraffic, func() { x.RawTraffic = r.RawTraffic })
	take(wire.PathCompFlowLabel, func() { x.FlowLabel = r.FlowLabel })
	take(wire.PathCompHopLimit, func() { x.HopLimit = r.HopLimit })
	take(wire.PathCompTClass, func() { x.TClass = r.TClass })
	take(wire.PathCompReversible, func() { x.Reversible = r.Reversible })
	take(wire.PathCompNumbPath, func() { x.NumbPath = r.NumbPath })
	take(wire.PathCompPKey, func() { x.PKey = r.PKey })
	take(wire.PathCompQoSClass, func() { x.QoSClass = r.QoSClass })
	take(wire.PathCompSL, func() { x.SL = r.SL })
	take(wire.PathCompMTUSelector, func() { x.MTUSelector = r.MTUSelector })
	take(wire.PathCompMTU, func() { x.MTU = r.MTU })
	take(wire.PathCompRateSelector, func() { x.RateSelector = r.RateSelector })
	take(wire.PathCompRate, func() { x.Rate = r.Rate })
	take(wire.PathCompLifeSelector, func() { x.PacketLifeTimeSelector = r.PacketLifeTimeSelector })
	take(wire.PathCompPacketLifeTime, func() { x.PacketLifeTime = r.PacketLifeTime })
	take(wire.PathCompPreference, func() { x.Preference = r.Preference })
	*r = x
}

func (k *key) query() Query { return Query{Mask: k.mask, Record: decode(&k.rec)} }

// decode reads a record that this package encoded or checked.
func decode(b *[wire.PathRecordLen]byte) (r wire.PathRecord) {
	_ = r.Decode(b[:]) // fails by length alone
	return r
}

// ask answers from the cache, or joins or makes a query.
func (c *Core) ask(a *Ask) {
	k, ok := c.keyOf(&a.Query)
	if !c.reachable() {
		c.fail(a.Token, Down, 0)
		return
	}
	if !ok {
		c.fail(a.Token, Refused, 0)
		return
	}
	e := c.cache.find(&k)
	if e != nil && !a.Direct && (c.fresh(e) || c.silent && c.usable(e)) {
		c.cache.use(&k)
		if !c.fresh(e) {
			c.query(&k) // finds out whether the SA answers again
			c.serve(a.Token, e, FromStale)
			return
		}
		c.serve(a.Token, e, FromCache)
		return
	}
	if a.Wait <= 0 {
		c.fail(a.Token, NotCached, 0)
		return
	}
	p := c.query(&k)
	if p == nil || len(c.asks) >= c.cfg.MaxWaiting {
		c.fail(a.Token, Busy, 0)
		return
	}
	if len(p.waiters) > 0 {
		c.stats.Joined++
	}
	c.asked++
	p.waiters = append(p.waiters, waiter{c.asked, a.Token})
	c.asks[c.asked] = p
	c.ends.Push(c.now.Add(a.Wait), c.asked, c.asked)
	if c.ends.Len() > 2*len(c.asks)+minEnds {
		c.compact()
	}
}

// minEnds is how many ends of waits are kept of askers that have their answer.
const minEnds = 256

// compact removes the ends of waits that are over.
func (c *Core) compact() {
	old := c.ends.Clone()
	c.ends.Reset()
	for x := range old.All {
		if c.asks[x.Value] != nil {
			c.ends.Push(x.Key, x.Tie, x.Value)
		}
	}
}

// query returns the query for a question, which it makes if there is none; nil if there are
// too many.
func (c *Core) query(k *key) *pending {
	if p := c.queries[*k]; p != nil {
		return p
	}
	if len(c.queries) >= c.cfg.MaxWaiting {
		return nil
	}
	c.tokens++
	p := &pending{key: *k, token: c.tokens}
	c.queries[*k], c.byToken[p.token] = p, p
	c.stats.Queries++
	c.submit(p)
	return p
}

// serve answers from an entry.
func (c *Core) serve(token uint64, e *entry, from Source) {
	a := Answer{Token: token, Result: Found, Source: from, Age: c.now.Sub(e.at)}
	if e.negative {
		a.Result = NoPath
	} else {
		a.Record = served(decode(&e.rec))
	}
	c.answer(&a)
}

// served clears the permission to cache, which no program expects in a reserved field.
func served(r wire.PathRecord) wire.PathRecord {
	r.Reserved3 = 0
	return r
}

func (c *Core) fail(token uint64, r Result, st ib.Status) {
	c.answer(&Answer{Token: token, Result: r, Source: FromNone, Status: st})
}

func (c *Core) answer(a *Answer) {
	c.stats.Answers[a.Result][a.Source]++
	c.out.Answers = append(c.out.Answers, *a)
}

// timeUp answers an asker whose time is over. The query goes on.
func (c *Core) timeUp(p *pending, number uint64) {
	delete(c.asks, number)
	i := slices.IndexFunc(p.waiters, func(w waiter) bool { return w.number == number })
	w := p.waiters[i]
	p.waiters = slices.Delete(p.waiters, i, i+1)
	if e := c.cache.find(&p.key); e != nil && c.silent && c.usable(e) {
		c.serve(w.token, e, FromStale)
		return
	}
	c.fail(w.token, TimedOut, 0)
}

// received sorts a packet.
func (c *Core) received(p *mad.Packet) {
	done, kind := c.eng.Receive(c.now, p)
	switch kind {
	case mad.KindCompletion:
		c.done(done)
	case mad.KindUnsolicited:
		c.report(p)
	}
}

// done takes the end of a request of the engine.
func (c *Core) done(d mad.Completion) {
	if c.heard(&d) {
		defer c.resubmit() // the tries in flight were lost
	}
	if d.Token == generationToken {
		c.changes.done(c, &d)
		return
	}
	if trap, ok := subscriptionOf(d.Token); ok {
		c.inform.done(c, trap, &d)
		return
	}
	p := c.byToken[d.Token]
	if p == nil {
		return
	}
	if p.gone && c.reachable() && len(p.waiters) > 0 && d.Err == nil {
		c.stats.Repeated++
		c.submit(p)
		return
	}
	gone := p.gone
	c.drop(p)
	if d.Err != nil {
		c.unanswered(p)
		return
	}
	r, res, st := check(&p.key, d.MAD)
	if !gone {
		c.keep(p, &r, res)
	}
	for _, w := range p.waiters {
		delete(c.asks, w.number)
		a := Answer{Token: w.token, Result: res, Source: FromSA, Status: st}
		if res == Found {
			a.Record = served(r)
		}
		c.answer(&a)
	}
}

// unanswered ends a query that got no answer, or none that matches it.
func (c *Core) unanswered(p *pending) {
	c.stats.Unanswered++
	e := c.cache.find(&p.key)
	for _, w := range p.waiters {
		delete(c.asks, w.number)
		if e != nil && c.silent && c.usable(e) {
			c.serve(w.token, e, FromStale)
		} else {
			c.fail(w.token, TimedOut, 0)
		}
	}
}

// heard notes whether the SA answers. A request that it left unanswered says nothing if it
// answered another one since. returned: it had been silent.
func (c *Core) heard(d *mad.Completion) (returned bool) {
	silent := mad.Unanswered(d.Err)
	if !silent {
		c.heardAt = c.now
	} else if c.now.Add(-d.Elapsed) < c.heardAt {
		return false
	}
	if silent == c.silent {
		return false
	}
	c.silent = silent
	if !silent {
		c.changes.want(c)
		c.notice("sa_answers", "the SA at LID %d answers", c.port.SM.LID)
		return true
	}
	c.inform.probe(c)
	c.notice("sa_silent", "the SA at LID %d does not answer: cached paths are served for %v beyond their age", c.port.SM.LID, c.cfg.StaleTime)
	return false
}

// check evaluates a response: it must have the components of the question.
func check(k *key, m *ib.MAD) (r wire.PathRecord, res Result, st ib.Status) {
	switch st = m.Status(); st {
	case ib.StatusOK:
	case ib.StatusSANoRecords, ib.StatusSAInvalidGID:
		return r, NoPath, st
	default:
		return r, Refused, st
	}
	_ = r.Decode(wire.Data(m)) // fails by length alone
	q := k.query()
	same := func(comp wire.CompMask, ok bool) bool { return !q.Mask.Has(comp) || ok }
	switch {
	case !same(wire.PathCompDGID, r.DGID.GUID() == q.Record.DGID.GUID()),
		!same(wire.PathCompSGID, r.SGID.GUID() == q.Record.SGID.GUID()),
		!same(wire.PathCompDLID, r.DLID == q.Record.DLID),
		!same(wire.PathCompSLID, r.SLID == q.Record.SLID),
		!same(wire.PathCompPKey, r.PKey.Base() == q.Record.PKey.Base()),
		!r.SLID.IsUnicast(), r.DLID == 0:
		return r, Refused, 0
	}
	return r, Found, 0
}

// keep puts an answer of the SA into the cache, if it may be kept.
func (c *Core) keep(p *pending, r *wire.PathRecord, res Result) {
	if c.cfg.Policy == AsPublished {
		if res == NoPath || c.cache.find(&p.key) != nil {
			return
		}
	} else {
		c.cache.remove(&p.key)
	}
	e := entry{key: p.key, at: p.at, blind: !c.inform.confirmed()}
	switch {
	case res == NoPath && c.cfg.NegativeTime > 0:
		e.negative = true
	case res != Found:
		return
	case r.Reserved3 == 0:
		c.stats.Unpermitted++
		return
	case !c.own(r) || !r.DLID.IsUnicast() || r.DGID.IsMulticast():
		return // no notice would come when it changes
	}
	if !e.negative {
		r.Put(e.rec[:])
	}
	c.stats.Evicted += uint64(c.cache.put(e))
}

// own reports whether a path begins at this port: the SA reports changes of those alone.
func (c *Core) own(r *wire.PathRecord) bool {
	return slices.Contains(c.port.GIDs, r.SGID) && r.SLID >= c.port.LID && int(r.SLID) < int(c.port.LID)+1<<c.port.LMC
}
