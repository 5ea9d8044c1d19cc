package sm

import (
	"slices"

	"heddle/ib"
	"heddle/mad"
	"heddle/sm/notice"
	"heddle/sm/topo"
	"heddle/sm/vport"
)

// pkeyPass is a step of bringing tables up to date. Keys are taken away, from
// hosts and switches at once: a host that is slow to give one up is cut off by
// its switch. What is given is first given to switch ports, then their
// enforcement is turned on, then to hosts: a member that was told never meets a
// switch that was not, and traffic of members that stay is never dropped.
type pkeyPass uint8

const (
	passRevoke pkeyPass = iota
	passSwitch
	passEnforce
	passGrant
	passDone
)

// touchMembers has those looked at who are members by some GUIDs. It reports false
// if it is not known who that is.
func (c *Core) touchMembers(guids []ib.GUID) bool {
	if len(guids) > manyTouched || !c.MayUpkeep() || !c.BetweenSweeps() {
		return false
	}
	k := &c.pk
	named := make(map[ib.GUID]bool, len(guids))
	for _, g := range guids {
		if named[g] {
			continue
		}
		named[g] = true
		c.touchPKeys(g)
		c.touchPKeys(c.guids.Holder(g))
		c.touchPKeys(c.guids.Owner(g))
		if l := c.leases.byGUID[g]; l != nil {
			c.touchPKeys(l.holds.Port)
		}
	}
	is := func(g ib.GUID) bool { return named[g] }
	for _, l := range c.leases.list {
		if slices.ContainsFunc(l.Aliases, is) {
			c.touchPKeys(l.holds.Port)
		}
	}
	for _, a := range c.vports.All() {
		if slices.ContainsFunc(a.VPorts(), func(v *vport.Port) bool {
			return v != nil && (named[v.Info().PortGUID] || slices.ContainsFunc(v.GUIDs(), is))
		}) {
			c.touchPKeys(a.PortGUID())
		}
	}
	if k.pass == passDone { // if it is nobody: the end of the change is to be told
		k.pass, k.scope = passGrant, []ib.GUID{}
	}
	return true
}

// manyTouched is how many end ports are looked at one by one; where there are more,
// all are.
const manyTouched = 1024

// masterPKeys is for a new mastership. What a predecessor sent last may still
// arrive, so tables that matter are read once more when it has.
func (c *Core) masterPKeys() {
	c.pk.look = true
	c.pk.applying = c.pk.applying || !c.pk.trivial
	if !c.pk.trivial || len(c.pk.freed) > 0 {
		c.pk.reread = c.Now.Add(mad.LateCopy)
	}
}

// touchPKeys: an end port, or a virtual port there, may be to hold other keys than
// before.
func (c *Core) touchPKeys(guid ib.GUID) {
	p := c.EndPort(guid)
	if p == nil {
		return
	}
	for _, q := range [2]*topo.Port{p, c.edgeOf(p)} {
		if q != nil && q.PKeys != nil {
			q.PKeys.OKGen = 0
		}
	}
	c.eachVPort(p, func(h holder) { c.table(h).OKGen = 0 })
	switch k := &c.pk; {
	case len(k.touched) >= manyTouched:
		k.look = true
	case !slices.Contains(k.touched, guid):
		k.touched = append(k.touched, guid)
	}
}

// pkeysDue reports whether upkeep has something to do about tables.
func (c *Core) pkeysDue() bool {
	k := &c.pk
	return k.look || len(k.touched) > 0 || k.pass != passDone || min(k.retry, k.reread) <= c.Now
}

// upkeepPKeys asks up to most holders for the next thing about their tables.
func (c *Core) upkeepPKeys(most int) {
	k := &c.pk
	for c.Pending < most {
		if len(k.todo) > 0 {
			r := k.todo[0]
			k.todo = k.todo[1:]
			if h, ok := c.holder(r); ok {
				c.pkeyDo(h)
			}
			continue
		}
		switch {
		case c.Pending > 0:
			return // the next pass begins when this one is done
		case k.look || min(k.retry, k.reread) <= c.Now:
			k.look, k.touched, k.scope = false, nil, nil
			k.pass = passRevoke
		case k.pass != passDone:
			k.pass++
		case len(k.touched) > 0:
			k.touched, k.scope = nil, k.touched
			k.pass = passRevoke
		}
		if k.pass == passDone {
			c.pkeysDone()
			if k.pass == passDone && !k.look && len(k.touched) == 0 {
				return
			}
			continue
		}
		c.scanPKeys()
	}
}

// scanPKeys lists the holders that the pass may concern.
func (c *Core) scanPKeys() {
	k, f := &c.pk, c.Fabric
	k.todo = k.todo[:0]
	if k.reread <= c.Now {
		k.reread = mad.Never
		c.eachHolder(func(h holder) { c.table(h).Forget() })
	}
	if k.scope != nil {
		for _, g := range k.scope {
			if p := c.EndPort(g); p != nil {
				c.scanPort(p)
			}
		}
		return
	}
	k.retry = mad.Never
	for _, pi := range f.EndPort {
		c.scanPort(&f.Ports[pi])
	}
}

// eachHolder calls do for all end ports of the fabric and their virtual ports.
func (c *Core) eachHolder(do func(h holder)) {
	for _, pi := range c.Fabric.EndPort {
		p := &c.Fabric.Ports[pi]
		do(holder{p: p})
		c.eachVPort(p, do)
	}
}

// scanPort lists the holders at an end port that the pass may concern.
func (c *Core) scanPort(p *topo.Port) {
	k := &c.pk
	ends := k.pass == passRevoke || k.pass == passGrant
	if q := c.edgeOf(p); q != nil && (c.enforcing() || enforced(&q.Info) != enforcement{}) {
		if t := c.pTable(q); t.Peer != p.GUID {
			t.Peer, t.OKGen = p.GUID, 0
		}
		c.scanHolder(holder{p: q}, k.pass != passGrant)
	}
	c.scanHolder(holder{p: p}, ends)
	c.eachVPort(p, func(h holder) { c.scanHolder(h, ends) })
}

// scanHolder lists a holder if there is something to do about it; now says that
// this pass is about it.
func (c *Core) scanHolder(h holder, now bool) {
	k, t := &c.pk, c.table(h)
	if h.v != nil {
		c.metVPort(h)
	}
	if t.Ghost != nil && t.GhostAt <= c.Now {
		t.Ghost = nil
		t.Forget()
	}
	if t.Ghost != nil {
		k.retry = min(k.retry, t.GhostAt)
	}
	if t.VerifyAt != 0 {
		if t.VerifyAt <= c.Now {
			t.OKGen = 0
		} else {
			k.retry = min(k.retry, t.VerifyAt)
		}
	}
	switch {
	case t.OKGen == k.gen:
	case t.RetryAt > c.Now:
		k.retry = min(k.retry, t.RetryAt)
	case now:
		k.todo = append(k.todo, h.ref())
	}
}

// pkeyDo does for a holder what the pass is about.
func (c *Core) pkeyDo(h holder) {
	p, edge := h.p, c.isEdge(h)
	if !c.Fabric.Nodes[p.Node].OK() || p.LID == 0 && !edge || h.v != nil && !h.v.TakesPart() {
		return // it left meanwhile
	}
	pass := c.pk.pass
	switch {
	case edge && pass == passEnforce:
		if c.enforceStep(p) {
			return
		}
	case edge && c.enforceWanted(p) == (enforcement{}):
		return
	case c.pkeyStep(h, pass):
		return
	}
	switch {
	case edge && pass == passEnforce && (c.enforceWanted(p) == (enforcement{}) || c.settled(h)), !edge && pass == passGrant && c.settled(h):
		c.pkeySettled(h)
	}
}

// pkeysDone ends the passes: keys come out of quarantine, which begins them
// anew, or the end of a change is told.
func (c *Core) pkeysDone() {
	k := &c.pk
	c.guids.TellUnowned()
	if c.releaseKeys() {
		k.again()
		return
	}
	if !k.applying || k.reread != mad.Never || k.look || len(k.touched) > 0 {
		return
	}
	open, late, blocked := c.openPKeys(c.Fabric), 0, 0
	c.eachHolder(func(h holder) {
		if t := c.table(h); len(t.Ghost) > 0 && t.OKGen == k.gen && slices.ContainsFunc(t.Ghost, c.strange(h)) {
			late++ // a copy of an earlier Set may still undo it
		}
	})
	for key := range k.freed {
		if k.grants.Policy().Find(key) != nil {
			blocked++
		}
	}
	switch {
	case open+late+blocked == 0:
		k.applying = false
		c.Notify(notice.Notice{Kind: notice.KindPartitionsApplied, Level: notice.Info, Tag: k.tag, Text: "every port of the subnet holds the P_Keys that it is given, and no other"})
	case open != k.waiting && open > 0:
		k.waiting = open
		c.Notify(notice.Notice{Kind: notice.KindPartitionsWaiting, Level: notice.Warn, Tag: k.tag, Text: notice.Plural(open, "port") + " could not be brought up to date yet and will be asked again"})
	}
}
