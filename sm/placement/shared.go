package placement

import (
	"heddle/ib"
	"heddle/sm/guid"
	"heddle/sm/topo"
	"heddle/subnet"
)

// Placements on shared ports are entries of the GUID tables of the ports, which package guid
// programs. A GUID is removed from one port before another gets it.

// aliases lists the GUIDs that shared ports are to hold for placements.
func (m *Machine) aliases() (list []subnet.Alias) {
	if !m.functions.AnyShared() {
		return nil // there may be many placements, and no such port
	}
	for _, l := range m.list {
		t := l.target()
		if !m.known && l.held != t {
			continue // another port or function may hold it
		}
		if l.state == Ended || t == (subnet.Place{}) || t.Function == 0 || t.Function >= guid.MaxEntries || !m.sharedPort(t.Port) {
			continue
		}
		switch {
		case l.held != (subnet.Place{}) && !m.sharedPort(l.held.Port),
			l.held == (subnet.Place{}) && m.heldByVPort(l) != (subnet.Place{}):
			continue // a function of another kind still holds it
		case l.held == t && !l.leaving:
			// It stays, also if the port cannot have it as it is wanted now: then it is refused.
		case l.LIDKind == subnet.OwnLID, l.LIDKind == subnet.FloatingLID && l.floats != t.Port:
			continue // it cannot be, or not yet
		}
		list = append(list, subnet.Alias{Port: t.Port, Index: uint8(t.Function), GUID: l.GUID, Carries: true})
	}
	return list
}

// heldByVPort is the VPort that is up with a placement's GUID, the zero Place if there is none.
func (m *Machine) heldByVPort(l *placement) subnet.Place {
	if r, ok := m.functions.Find(l.GUID); ok && r.Adapter.Present() && m.heldBy(l, r.Adapter, r.VPort()) {
		return r.Place()
	}
	return subnet.Place{}
}

// sharedPort reports whether a port holds addresses of functions in its GUID table alone.
func (m *Machine) sharedPort(g ib.GUID) bool {
	a := m.functions.Adapter(g)
	return a != nil && kindOf(a).inTable()
}

// Elsewhere reports whether a GUID belongs to a placement whose target is not p, or to one that
// ended.
func (m *Machine) Elsewhere(g ib.GUID, p subnet.Place) bool {
	l := m.byGUID[g]
	return m.former[g] || l != nil && l.state != Ended && !l.implied && l.target() != p && l.holds != p
}

// mergeAliases has the GUID tables hold what placements and the SA's clients want. If both name a
// GUID, the placement counts.
func (m *Machine) mergeAliases() {
	if len(m.list) > 0 || m.tables.HasPlaced() {
		m.tables.SetPlaced(m.aliases())
	}
}

// AliasesHeld tells that the GUID table of a port changed; old is what it held before, by index.
func (m *Machine) AliasesHeld(port ib.GUID, old []ib.GUID) {
	if len(m.byGUID) == 0 {
		return
	}
	for i, g := range old {
		p := subnet.Place{Port: port, Function: uint16(i)}
		if l := m.byGUID[g]; l != nil && g != 0 && l.held == p && m.tables.Held(p) != g {
			l.held = subnet.Place{}
			// After a restart the first table that is read with the GUID counts. The target
			// may have held it all the time.
			switch t := l.target(); {
			case m.tables.Held(t) == g:
				l.held = t
			case t != (subnet.Place{}):
				// Such a move is no batch. Its entry may not be held yet: the manager began with
				// the placement elsewhere, or the placement waited for longer than holdLimit.
				m.holdEntry(l, false)
			}
			m.look(l)
			m.wake(p)
		}
	}
	for i, g := range m.tables.Have(port) {
		p := subnet.Place{Port: port, Function: uint16(i)}
		if l := m.byGUID[g]; l != nil && g != 0 && l.held == (subnet.Place{}) && (l.target() == p || !m.known) {
			l.held = p
			m.look(l)
		}
	}
}

// heldAsAlias finds a new placement's GUID in the tables that were read before: an earlier manager
// placed it, and tables are read before placements are set.
func (m *Machine) heldAsAlias(l *placement) {
	if p := m.tables.Find(l.GUID); p != (subnet.Place{}) {
		l.held = p
		m.tables.Look(p.Port)
	}
}

// readyShared is ready for a placement on a shared port.
func (m *Machine) readyShared(l *placement, p *topo.Port) bool {
	t := l.target()
	switch {
	case m.EndPort(l.GUID) != nil:
		return m.refuseTarget(l, because(subnet.CauseGUIDTaken,
			"GUID %v is the own one of a port of the subnet: give the interface another", l.GUID))
	case l.LIDKind == subnet.OwnLID:
		return m.refuseTarget(l, because(subnet.CauseLIDKind,
			"port %v has one LID for all its functions, and one of its own is asked for: "+
				"change the interface, or let its LID float", t.Port))
	case t.Function == 0 || int(t.Function) >= int(p.Info.GUIDCap):
		return m.refuseTarget(l, because(subnet.CauseNoSuchFunction,
			"port %v has no function %d, only 1 to %d", t.Port, t.Function, int(p.Info.GUIDCap)-1))
	}
	if l.held == (subnet.Place{}) {
		l.held = m.heldByVPort(l)
	}
	if l.held != (subnet.Place{}) && !m.sharedPort(l.held.Port) {
		return true // a function of another kind holds it
	}
	if l.LIDKind == subnet.FloatingLID {
		return m.readyFloat(l, p)
	}
	if l.floats != 0 || !m.floatLeft(l) || l.sinks {
		l.sinks = true
		return true
	}
	m.mergeAliases()
	switch other := m.tables.Wanted(t); {
	case l.held == t:
		m.settle(l)
	case other != l.GUID && other != 0:
		return m.refuseTarget(l, because(subnet.CauseFunctionTaken, "another alias GUID is to be at %v: %v", t, other))
	case m.tables.Refused(t):
		return m.refuseTarget(l, because(subnet.CauseNotTaken,
			"port %v does not take alias GUIDs at index %d", t.Port, t.Function))
	default:
		m.report(l, subnet.PlacementMoving, failure{})
	}
	return false
}

// Uses reports whether a placement is at a function of a port, or is to be there.
func (m *Machine) Uses(port ib.GUID) bool {
	for _, l := range m.list {
		if l.target().Port == port || l.held.Port == port {
			return true
		}
	}
	return false
}
