package pkeymgr

import (
	"slices"

	"heddle/ib"
	"heddle/internal/plural"
	"heddle/mad"
	"heddle/sm/notice"
	"heddle/sm/topo"
	"heddle/sm/vport"
)

// pass is a step of bringing tables up to date. Keys are taken from hosts and switches at the same time:
// the switch cuts off a host that is slow to give one up. Keys are given to switch ports first. Then the
// switches enforce, then the hosts receive the keys. So no switch drops what a new member sends, and
// traffic of members that stay is never dropped.
type pass uint8

const (
	passRevoke pass = iota
	passSwitch
	passEnforce
	passGrant
	passDone
)

// touchMembers marks the tables of the ports that are members by the given GUIDs, to be looked at. It
// reports false if those ports are not known.
func (m *Manager) touchMembers(guids []ib.GUID) bool {
	if len(guids) > manyTouched || !m.MayUpkeep() || !m.BetweenSweeps() {
		return false
	}
	named := make(map[ib.GUID]bool, len(guids))
	for _, g := range guids {
		if named[g] {
			continue
		}
		named[g] = true
		m.Touch(g)
		m.Touch(m.needs.Aliases.Holder(g))
		m.Touch(m.needs.Aliases.Owner(g))
		m.Touch(m.needs.Placements.PortOf(g))
	}
	is := func(g ib.GUID) bool { return named[g] }
	m.needs.Placements.EachPortWithAlias(is, m.Touch)
	for _, a := range m.needs.VPorts.All() {
		if slices.ContainsFunc(a.VPorts(), func(v *vport.Port) bool {
			return v != nil && (named[v.Info().PortGUID] || slices.ContainsFunc(v.GUIDs(), is))
		}) {
			m.Touch(a.PortGUID())
		}
	}
	if m.pass == passDone { // even if there is no such member, the end of the change is told
		m.pass, m.scope = passGrant, []ib.GUID{}
	}
	return true
}

// manyTouched is how many end ports are looked at one by one; where there are more,
// all are.
const manyTouched = 1024

// BecomeMaster begins a mastership. The last Sets of an earlier manager may still arrive, so tables that
// matter are read once more after that.
func (m *Manager) BecomeMaster() {
	m.look = true
	m.applying = m.applying || !m.trivial
	if !m.trivial || len(m.freed) > 0 {
		m.reread = m.Now.Add(mad.LateCopy)
	}
}

// Touch tells that an end port, or a virtual port there, may have to hold other keys than before.
func (m *Manager) Touch(guid ib.GUID) {
	p := m.EndPort(guid)
	if p == nil {
		return
	}
	for _, q := range [2]*topo.Port{p, m.edgeOf(p)} {
		if q != nil && q.PKeys != nil {
			q.PKeys.OKGen = 0
		}
	}
	m.eachVPort(p, func(h holder) { m.table(h).OKGen = 0 })
	switch {
	case len(m.touched) >= manyTouched:
		m.look = true
	case !slices.Contains(m.touched, guid):
		m.touched = append(m.touched, guid)
	}
}

// Due reports whether Upkeep has something to do.
func (m *Manager) Due() bool {
	return m.look || len(m.touched) > 0 || m.pass != passDone || min(m.retry, m.reread) <= m.Now
}

// Waiting reports whether Upkeep has something to do that somebody waits for: not only to read again what is known.
func (m *Manager) Waiting() bool {
	return len(m.touched) > 0 || m.applying && (m.look || m.pass != passDone)
}

// Upkeep asks up to most holders for the next thing about their tables.
func (m *Manager) Upkeep(most int) {
	for m.Pending < most {
		if len(m.todo) > 0 {
			r := m.todo[0]
			m.todo = m.todo[1:]
			if h, ok := m.holder(r); ok {
				m.treat(h)
			}
			continue
		}
		switch {
		case m.Pending > 0:
			return // the next pass begins when this one is done
		case m.look || min(m.retry, m.reread) <= m.Now:
			m.look, m.touched, m.scope = false, nil, nil
			m.pass = passRevoke
		case m.pass != passDone:
			m.pass++
		case len(m.touched) > 0:
			m.touched, m.scope = nil, m.touched
			m.pass = passRevoke
		}
		if m.pass == passDone {
			m.passesDone()
			if m.pass == passDone && !m.look && len(m.touched) == 0 {
				return
			}
			continue
		}
		m.scan()
	}
}

// scan lists the holders that the pass may concern.
func (m *Manager) scan() {
	f := m.Fabric
	m.todo = m.todo[:0]
	if m.reread <= m.Now {
		m.reread = mad.Never
		m.eachHolder(func(h holder) { m.table(h).Forget() })
	}
	if m.scope != nil {
		for _, g := range m.scope {
			if p := m.EndPort(g); p != nil {
				m.scanPort(p)
			}
		}
		return
	}
	m.retry = mad.Never
	for _, pi := range f.EndPort {
		m.scanPort(&f.Ports[pi])
	}
}

// eachHolder calls do for all end ports of the fabric and their virtual ports.
func (m *Manager) eachHolder(do func(h holder)) {
	for _, pi := range m.Fabric.EndPort {
		p := &m.Fabric.Ports[pi]
		do(holder{p: p})
		m.eachVPort(p, do)
	}
}

// scanPort lists the holders at an end port that the pass may concern.
func (m *Manager) scanPort(p *topo.Port) {
	ends := m.pass == passRevoke || m.pass == passGrant
	if q := m.edgeOf(p); q != nil && (m.enforcing() || enforced(&q.Info) != enforcement{}) {
		if t := m.portTable(q); t.Peer != p.GUID {
			t.Peer, t.OKGen = p.GUID, 0
		}
		m.scanHolder(holder{p: q}, m.pass != passGrant)
	}
	m.scanHolder(holder{p: p}, ends)
	m.eachVPort(p, func(h holder) { m.scanHolder(h, ends) })
}

// scanHolder lists a holder if there is something to do about it. now: this pass is about it.
func (m *Manager) scanHolder(h holder, now bool) {
	t := m.table(h)
	if h.v != nil {
		m.met(h)
	}
	if t.Ghost != nil && t.GhostAt <= m.Now {
		t.Ghost = nil
		t.Forget()
	}
	if t.Ghost != nil {
		m.retry = min(m.retry, t.GhostAt)
	}
	if t.VerifyAt != 0 {
		if t.VerifyAt <= m.Now {
			t.OKGen = 0
		} else {
			m.retry = min(m.retry, t.VerifyAt)
		}
	}
	switch {
	case t.OKGen == m.gen:
	case t.RetryAt > m.Now:
		m.retry = min(m.retry, t.RetryAt)
	case now:
		m.todo = append(m.todo, h.ref())
	}
}

// treat takes the step of the pass for a holder.
func (m *Manager) treat(h holder) {
	p, edge := h.p, m.isEdge(h)
	if !m.Fabric.Nodes[p.Node].OK() || p.LID == 0 && !edge || h.v != nil && !h.v.TakesPart() {
		return // it left meanwhile
	}
	pass := m.pass
	switch {
	case edge && pass == passEnforce:
		if m.enforceStep(p) {
			return
		}
	case edge && m.enforceWanted(p) == (enforcement{}):
		return
	case m.step(h, pass):
		return
	}
	switch {
	case edge && pass == passEnforce && (m.enforceWanted(p) == (enforcement{}) || m.settled(h)),
		!edge && pass == passGrant && m.settled(h):
		m.settle(h)
	}
}

// passesDone ends the passes. If keys come out of quarantine they begin again, else the end of a change
// may be told.
func (m *Manager) passesDone() {
	m.needs.Aliases.TellUnowned(m.renamed)
	m.renamed = false
	if m.releaseKeys() {
		m.again()
		return
	}
	if !m.applying || m.reread != mad.Never || m.look || len(m.touched) > 0 {
		return
	}
	open, late, blocked := m.countOpen(m.Fabric), 0, 0
	m.eachHolder(func(h holder) {
		if t := m.table(h); len(t.Ghost) > 0 && t.OKGen == m.gen && slices.ContainsFunc(t.Ghost, m.strange(h)) {
			late++ // a copy of an earlier Set may still undo it
		}
	})
	for key := range m.freed {
		if m.grants.Policy().Find(key) != nil {
			blocked++
		}
	}
	switch {
	case open+late+blocked == 0:
		m.applying = false
		m.Notify(notice.Notice{
			Kind: notice.KindPartitionsApplied, Level: notice.Info, Tag: m.tag,
			Text: "every port of the subnet holds the P_Keys that it is given, and no other",
		})
	case open != m.waiting && open > 0:
		m.waiting = open
		m.Notify(notice.Notice{
			Kind: notice.KindPartitionsWaiting, Level: notice.Warn, Tag: m.tag,
			Text: plural.Of(open, "port") + " could not be brought up to date yet and will be asked again",
		})
	}
}
