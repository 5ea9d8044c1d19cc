package placement

import (
	"heddle/ib"
	"heddle/sm/vport"
	"heddle/subnet"
)

// showsGUID reports whether the VPort at a place is up with a GUID.
func (m *Machine) showsGUID(p subnet.Place, g ib.GUID) bool {
	_, v := m.function(p)
	return v != nil && v.State() >= ib.StateInit && v.InfoKnown() && v.Info().PortGUID == g
}

// ready reports whether a placement is to be part of the batch that is being gathered. If there is
// nothing left to do, or it has to wait, ready reports that.
func (m *Machine) ready(l *placement) bool {
	if l.implied && l.hasFailed() && l.back != (subnet.Place{}) && l.held == (subnet.Place{}) &&
		!m.showsGUID(l.back, l.GUID) && m.showsGUID(l.Place, l.GUID) {
		l.become(Waiting)
		l.back = subnet.Place{} // its hypervisor has put it there
	}
	m.letGo(l)
	t := l.target()
	if t == (subnet.Place{}) {
		if l.held != t || l.floats != 0 || !m.floatLeft(l) || l.unwanted() && m.lidLeads(l) {
			return true
		}
		m.settle(l)
		return false
	}
	if o, f := m.obstacle(l, t); o != none {
		return m.hindered(l, o, f)
	}
	a, v := m.function(t)
	l.sinks = l.sinks && m.sharedTarget(a, t)
	switch {
	case m.sharedTarget(a, t):
		return m.readyShared(l, m.EndPort(t.Port))
	case kindOf(a).ownLID(v):
		return m.readyOwnLID(l, a, v)
	}
	if l.held != (subnet.Place{}) && l.held != t {
		return true // another function still holds it
	}
	m.holdAt(l, t)
	m.functions.Look(a.Ref(t.Function))
	if m.inForce(l, a, v) {
		l.held = t
		m.settle(l)
		return false
	}
	m.waitFor(l, because(subnet.CauseComingUp, "function %v is being brought up", t))
	return false
}

// readyOwnLID is ready for a placement whose target has a LID of its own and takes addresses. If it
// is there already, what is missing is written without a batch.
func (m *Machine) readyOwnLID(l *placement, a *vport.Adapter, v *vport.Port) bool {
	t, own := l.target(), m.lidOf(l)
	here := m.hold[t] == l && (l.held == t || l.held == subnet.Place{})
	if !here || own == 0 || !m.router.RoutedAt(own, t.Port) || !m.lidFits(l, t) {
		return true
	}
	m.functions.Look(a.Ref(t.Function))
	if m.inForce(l, a, v) {
		l.held = t
		m.settle(l)
	} else if !l.hasFailed() {
		m.report(l, subnet.PlacementMoving, failure{})
	}
	return false
}

// hindered deals with a placement whose target does not take its address because of f. It reports
// whether the placement is to be part of the batch all the same.
func (m *Machine) hindered(l *placement, o obstacle, f failure) bool {
	switch {
	case o == permanent:
		return m.refuseTarget(l, f)
	case o == absent && m.hold[l.target()] == l && l.held == (subnet.Place{}) && l.back != (subnet.Place{}) && !l.hasFailed():
		m.rollBack(l, f)
	default:
		m.waitFor(l, f)
	}
	return false
}

// refuseTarget refuses a placement at its target, unless it is rolled back already. It reports
// whether it is to be part of the batch, as where another function has the address now.
func (m *Machine) refuseTarget(l *placement, f failure) bool {
	if t := l.target(); !l.hasFailed() {
		l.fail(f)
		l.back = l.held
		m.mergeAliases() // if it is back where it was, the GUID stays there
		if l.target() != t {
			return m.ready(l)
		}
	}
	m.settle(l)
	return false
}

// waitFor reports what a placement waits for. One that is rolled back ends where it is.
func (m *Machine) waitFor(l *placement, f failure) {
	if l.hasFailed() {
		m.settle(l)
	} else {
		m.report(l, subnet.PlacementWaiting, f)
	}
}

// obstacle is what keeps a target from taking an address.
type obstacle uint8

const (
	none      obstacle = iota
	passing            // it is about to be known
	absent             // the port or function is not there, or not up
	permanent          // it cannot be
)

// sharedTarget reports whether the functions of a target share a GUID table; a is its adapter, nil
// if it is not known.
func (m *Machine) sharedTarget(a *vport.Adapter, t subnet.Place) bool {
	if a != nil {
		return kindOf(a).inTable()
	}
	p := m.EndPort(t.Port)
	return p != nil && p.Info.GUIDCap > 1
}

// obstacle finds what keeps a placement's target t from taking its address, but for what shared
// ports have (readyShared).
func (m *Machine) obstacle(l *placement, t subnet.Place) (obstacle, failure) {
	if o := m.wants[t]; o != nil && o != l && !l.hasFailed() && !l.implied {
		return permanent, because(subnet.CauseFunctionTaken, "function %v is kept for GUID %v", t, o.GUID)
	}
	if m.EndPort(t.Port) == nil {
		return absent, because(subnet.CausePortAbsent, "port %v is not in the subnet", t.Port)
	}
	a, v := m.function(t)
	switch {
	case m.sharedTarget(a, t):
		return none, failure{}
	case a == nil:
		return absent, because(subnet.CauseNoFunctions, "port %v has no virtual functions", t.Port)
	case a.Refused():
		return absent, because(subnet.CauseFunctionsUnusable,
			"the virtual functions of port %v cannot be used", t.Port)
	case !a.Known():
		m.unread = m.unread || !a.Failing()
		return passing, because(subnet.CauseFunctionsUnread,
			"the virtual functions of port %v are not known yet", t.Port)
	case t.Function == 0 || int(t.Function) > a.Functions():
		return permanent, because(subnet.CauseNoSuchFunction,
			"port %v has no function %d, only 1 to %d", t.Port, t.Function, a.Functions())
	case m.EndPort(l.GUID) != nil:
		return permanent, because(subnet.CauseGUIDTaken,
			"GUID %v is the own one of a port of the subnet: give the interface another", l.GUID)
	case v == nil || v.State() < ib.StateInit:
		if !l.looked { // a trap may have been lost, or repressed
			l.looked, m.unread = true, true
			m.functions.Look(a.Ref(0))
		}
		return absent, because(subnet.CauseFunctionDown,
			"function %v is down: its hypervisor has not brought it up", t)
	case !v.InfoKnown():
		m.unread = m.unread || !v.Failing()
		return passing, because(subnet.CauseFunctionUnread, "function %v has not been read yet", t)
	case kindOf(a).hostGUIDs() && v.Info().PortGUID != l.GUID:
		return absent, because(subnet.CauseOtherGUID,
			"function %v has GUID %v: its hypervisor has not put the VM there", t, v.Info().PortGUID)
	case !kindOf(a).ownLID(v) && l.LIDKind != subnet.SharedLID:
		return permanent, because(subnet.CauseLIDKind,
			"function %v shares a LID (LIDRequired is 0), and one of its own is asked for: "+
				"change the interface or the hypervisor", t)
	}
	return none, failure{}
}
