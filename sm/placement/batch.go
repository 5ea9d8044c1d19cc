package placement

import (
	"heddle/ib"
	"heddle/mad"
	"heddle/subnet"
)

// Advance takes the next steps of the batch under way, or gathers a new batch. It reports whether
// it began a phase. What functions are to hold is written by upkeep, which is no phase of a batch.
func (m *Machine) Advance() bool {
	if !m.MayUpkeep() {
		return false
	}
	m.endEntries()
	if m.again <= m.Now {
		m.retryRefused()
	}
	if m.retry <= m.Now {
		m.retry = mad.Never
		if m.step == Storing && m.saveErr != nil {
			m.store(nil)
		}
	}
	for {
		switch m.step {
		case Idle:
			if !m.begin() {
				return false
			}
		case Storing:
			if m.gen != 0 || m.saveErr != nil {
				return false
			}
			if m.leave() {
				return true
			}
		case Leaving:
			if !m.allLeft() {
				return false
			}
			m.enterStep(Routing)
			if m.route() {
				return true
			}
		case Routing:
			if !m.allRouted() {
				return false
			}
			if m.put() {
				return true
			}
		case Putting:
			if !m.allPut() {
				return false
			}
			m.endBatch()
		}
	}
}

// Waiting reports whether placements have changed that no batch has yet.
func (m *Machine) Waiting() bool { return len(m.dirty) > 0 }

// begin gathers a new batch, if there is one and nothing else comes first.
func (m *Machine) begin() bool {
	m.tell()
	if m.router.RouteGroups(); m.router.SweepAsked() {
		return false
	}
	if len(m.dirty) == 0 && !(m.fn.short && m.Config.VSwitchPrepopulate) || !m.functionsRead() {
		return false
	}
	if !m.gather() {
		m.tell()
		return false
	}
	return true
}

// enterStep begins a step of the batch.
func (m *Machine) enterStep(s Step) {
	m.step, m.began, m.retry = m.step.next(s), m.Now, mad.Never
}

// stepOver reports whether the step under way has reached its time limit. If not, it sets the
// timer for it.
func (m *Machine) stepOver() bool {
	end := m.began.Add(stepLimit)
	if end <= m.Now {
		return true
	}
	m.retry = end
	return false
}

// FunctionsRead reports whether it is known at which functions the addresses of placements are, as
// far as any is placed. Before that ports seem to have no right to the P_Keys of those addresses.
func (m *Machine) FunctionsRead() bool { return len(m.list) == 0 || m.functionsRead() }

// functionsRead reports whether it is known in this mastership which addresses the functions hold
// that are up. Before that no function gets one, as another may hold it.
func (m *Machine) functionsRead() bool {
	if m.known {
		return true
	}
	for _, a := range m.functions.All() {
		switch {
		case !a.Present() || a.Refused() || a.Failing():
			continue
		case !a.Known():
			return false
		case kindOf(a).inTable() && !m.tables.Known(a.PortGUID()):
			return false
		}
		for _, v := range a.VPorts() {
			if v != nil && v.Index() > 0 && v.State() >= ib.StateInit && !v.InfoKnown() && !v.Failing() && !v.Refuses() {
				return false
			}
		}
	}
	m.known = true
	for _, a := range m.functions.All() {
		for _, v := range a.VPorts() {
			if v != nil && v.Index() > 0 && kindOf(a).hostGUIDs() && kindOf(a).ownLID(v) {
				m.functions.Look(a.Ref(v.Index()))
			}
		}
	}
	return true
}

// gather picks the placements that can be carried out now. It reports whether there are any.
func (m *Machine) gather() bool {
	list := m.dirty
	m.dirty = nil
	m.batch = m.batch[:0]
	if m.prepopulate() {
		m.dirty = list
		return m.step != Idle
	}
	m.unread = false
	for _, l := range list {
		l.queued = false
		if l.state != Ended && m.ready(l) {
			l.aim = l.target()
			l.leaving = l.held != (subnet.Place{}) && l.held != l.aim
			m.batch = append(m.batch, l)
		}
	}
	if m.waitsForOthers() {
		return false
	}
	m.dropBlocked()
	ops := m.giveLIDs()
	if len(m.batch) == 0 && len(ops) == 0 {
		return false
	}
	for _, l := range m.batch {
		if l.state == Refused {
			l.become(RollingBack)
		} else if !l.hasFailed() {
			m.report(l, subnet.PlacementMoving, failure{})
		}
	}
	m.tell()
	m.enterStep(Storing)
	if len(ops) > 0 {
		m.store(ops)
	}
	return true
}

// waitsForOthers reports whether the batch that is being gathered waits for placements that were
// set with it and whose places are being read.
func (m *Machine) waitsForOthers() bool {
	if m.settleBy == 0 {
		m.settleBy = m.Now.Add(settleTime)
	}
	if len(m.batch) == 0 || !m.unread || m.Now >= m.settleBy {
		m.settleBy = 0
		return false
	}
	for _, l := range m.batch {
		l.leaving = false
		m.look(l)
	}
	m.retry = m.settleBy
	return true
}

// dropBlocked takes placements out of the batch whose targets are held by others that do not leave
// in the same batch.
func (m *Machine) dropBlocked() {
	for again := true; again; {
		again = false
		keep := m.batch[:0]
		for _, l := range m.batch {
			t := l.target()
			if h := m.hold[t]; t != (subnet.Place{}) && h != nil && h != l && !h.leaving && (h.held == t || h.target() == t) {
				l.leaving = false
				again = true
				if l.hasFailed() {
					m.settle(l)
					continue
				}
				m.report(l, subnet.PlacementWaiting, because(subnet.CauseFunctionHeld, "function %v is still held by GUID %v", t, h.GUID))
				continue
			}
			keep = append(keep, l)
		}
		m.batch = keep
	}
}

// retryRefused tries all refused placements again, as if they were set again: the cause may be
// gone. The address manager has no retries of its own. If an interface has another place, it sets
// the placement there.
func (m *Machine) retryRefused() {
	m.again = mad.Never
	tried := false
	for _, l := range m.list {
		if l.state == Refused && !l.implied {
			again := l.Placement
			m.set(&again)
			tried = true
		}
	}
	if tried {
		m.mergeAliases()
	}
}

// lidLeads reports whether a placement's LID is routed anywhere, and is not that of a function.
func (m *Machine) lidLeads(l *placement) bool {
	own := m.lidOf(l)
	return own != 0 && m.router.Owner(own) != 0 && !m.placeLID(own)
}

// settle ends the work for a placement, which is at its target.
func (m *Machine) settle(l *placement) {
	switch {
	case l.unwanted():
		m.forget(l)
	case l.hasFailed():
		if !l.implied {
			m.again = min(m.again, m.Now.Add(m.Config.RetryInterval))
		}
		m.report(l, subnet.PlacementRefused, l.failed)
	default:
		l.back = subnet.Place{}
		if l.held == l.Place {
			m.report(l, subnet.PlacementPlaced, failure{})
		}
	}
}

// leave has functions give up the addresses that are to be elsewhere. It reports whether that
// takes a phase.
func (m *Machine) leave() bool {
	m.enterStep(Leaving)
	for _, l := range m.batch {
		if !l.leaving {
			m.aimEntry(l)
			continue
		}
		if l.target() != (subnet.Place{}) {
			m.holdEntry(l, false)
			m.aimEntry(l)
		}
		m.holdAt(l, subnet.Place{})
		m.leaves[l.held] = l
		m.lookAt(l.held)
	}
	begun := m.unfloat()
	m.mergeAliases()
	return begun
}

// allLeft reports whether the functions have given up the addresses, or had the time for it. A
// function that is not in the subnet holds none: it is read when it comes back.
func (m *Machine) allLeft() bool {
	over := true
	for _, l := range m.batch {
		if !m.floatLeft(l) {
			over = false
		}
		if !l.leaving || l.held == (subnet.Place{}) {
			continue
		}
		a, v := m.function(l.held)
		if a == nil || v == nil || !v.Asked() && v.InfoKnown() && !kindOf(a).inTable() && !m.heldBy(l, a, v) {
			l.held, l.back = subnet.Place{}, l.held
			continue
		}
		if !l.hasFailed() || l.target() != l.held {
			over = false
		}
	}
	if !over && !m.stepOver() {
		return false
	}
	keep := m.batch[:0]
	for _, l := range m.batch {
		if !m.floatLeft(l) {
			m.floatWaits(l)
			continue
		}
		if !l.leaving {
			keep = append(keep, l)
			continue
		}
		l.leaving = false
		if l.held == (subnet.Place{}) {
			delete(m.leaves, l.back)
			m.wake(l.back)
			keep = append(keep, l)
			continue
		}
		// The function still holds it, or may: the address stays there.
		delete(m.leaves, l.held)
		if l.hasFailed() && l.target() != l.held {
			m.look(l) // it is asked again
			continue
		}
		if m.hold[l.held] == nil {
			m.holdAt(l, l.held)
		}
		if l.unwanted() { // it is asked again
			m.retry = min(m.retry, m.Now.Add(m.Config.RetryInterval))
		}
		if !l.hasFailed() && l.target() != l.held { // else it was set again at this place
			l.fail(because(subnet.CauseNotGivenUp, "function %v, which has the address, does not give it up", l.held))
		}
		l.back = l.held
		m.lookAt(l.held)
		m.look(l)
	}
	m.batch = keep
	return true
}

// allRouted reports whether the LIDs of the batch lead to their targets. A placement whose LID
// does not after a sweep is rolled back.
func (m *Machine) allRouted() bool {
	if m.router.SweepAsked() {
		return false
	}
	keep := m.batch[:0]
	for _, l := range m.batch {
		t := l.target()
		if t != l.aim { // it was set again during the batch
			m.look(l)
			continue
		}
		if own := m.lidOf(l); t != (subnet.Place{}) && own != 0 && !l.sinks && !m.router.RoutedAt(own, t.Port) {
			l.port = l.back.Port
			m.rollBack(l, because(subnet.CauseNoRoute, "no route leads to it: %s", m.router.WhyNot()))
			continue
		}
		keep = append(keep, l)
	}
	m.batch = keep
	return true
}

// put has functions take the addresses. It reports whether that takes a phase.
func (m *Machine) put() bool {
	m.enterStep(Putting)
	for _, l := range m.batch {
		if t := l.target(); t == l.aim && t != (subnet.Place{}) && !m.sharedPort(t.Port) {
			m.holdAt(l, t)
		}
	}
	for _, p := range m.fn.changed {
		if m.hold[p] == nil {
			m.lookAt(p)
		}
	}
	m.fn.changed = m.fn.changed[:0]
	begun := m.float()
	m.mergeAliases()
	return begun
}

// allPut reports whether the functions hold the addresses, or had the time for it.
func (m *Machine) allPut() bool {
	done := true
	for _, l := range m.batch {
		t := l.target()
		if t == (subnet.Place{}) || t != l.aim || m.hold[t] != l {
			continue // it is rolled back, or at a shared port
		}
		switch a, v := m.function(t); {
		case a == nil || v == nil || v.State() < ib.StateInit:
			m.look(l)
		case m.inForce(l, a, v):
			l.held = t
		default:
			done = false
		}
	}
	return done || m.stepOver()
}

// endBatch publishes what the batch did and reports it.
func (m *Machine) endBatch() {
	m.enterStep(Idle)
	m.floatsOver()
	m.sink()
	for _, l := range m.batch {
		m.letGo(l)
		if t := l.target(); l.held == t {
			l.queued = false
			m.settle(l)
		}
		m.look(l)
	}
	clear(m.batch)
	m.batch = m.batch[:0]
	if !m.snapshots.PortsChanged() { // else tell publishes them
		m.snapshots.ShowNow()
	}
	m.tell()
}

// Abort drops the batch under way: its answers will not arrive.
func (m *Machine) Abort() {
	for _, l := range m.batch {
		l.leaving = false
		m.look(l)
	}
	clear(m.leaves)
	m.batch, m.step, m.gen, m.saveErr = nil, m.step.next(Idle), 0, nil
}
