package placement

import (
	"strconv"

	"heddle/ib"
	"heddle/sm/guid"
	"heddle/sm/topo"
	"heddle/subnet"
)

// Leases on shared ports are entries of the ports' GUID tables, which package guid
// programs: a GUID is taken from one port before another gets it.

// aliases are the leases that are placed, or to be placed, on shared ports:
// entries of their GUID tables.
func (m *Machine) aliases() (list []subnet.Alias) {
	for _, l := range m.list {
		t := l.target()
		if !m.known && l.held != t {
			continue // another port or function may have it
		}
		if l.state == Ended || t == (subnet.Place{}) || t.Function == 0 || t.Function >= guid.MaxEntries || !m.sharedPort(t.Port) {
			continue
		}
		switch {
		case l.held != (subnet.Place{}) && !m.sharedPort(l.held.Port), l.held == (subnet.Place{}) && m.heldByVPort(l) != (subnet.Place{}):
			continue // a function of another kind has it still
		case l.LIDKind == subnet.OwnLID, l.LIDKind == subnet.FloatingLID && l.floats != t.Port:
			continue // it cannot be, or not yet
		}
		list = append(list, subnet.Alias{Port: t.Port, Index: uint8(t.Function), GUID: l.GUID, Carries: true})
	}
	return list
}

// heldByVPort is the VPort that is up with a lease's GUID, the zero Place if there is none.
func (m *Machine) heldByVPort(l *placement) subnet.Place {
	if r, ok := m.functions.Find(l.GUID); ok && r.Adapter.Present() && m.heldBy(l, r.Adapter, r.VPort()) {
		return r.Place()
	}
	return subnet.Place{}
}

// sharedPort reports whether a port holds the addresses of functions in its GUID
// table alone.
func (m *Machine) sharedPort(g ib.GUID) bool {
	a := m.functions.Adapter(g)
	return a != nil && kindOf(a).inTable()
}

// Elsewhere reports whether a GUID is that of a lease that is to be at another
// place, or nowhere, or of one that ended.
func (m *Machine) Elsewhere(g ib.GUID, p subnet.Place) bool {
	l := m.byGUID[g]
	return m.former[g] || l != nil && l.state != Ended && !l.implied && l.target() != p && l.holds != p
}

// mergeAliases has the GUID tables hold what leases and the SA's clients want; for
// a GUID that both name, the lease counts.
func (m *Machine) mergeAliases() {
	if len(m.list) > 0 || m.tables.HasPlaced() {
		m.tables.SetPlaced(m.aliases())
	}
}

// AliasesHeld is told when the GUID table of a port holds others than before.
func (m *Machine) AliasesHeld(port ib.GUID, old []ib.GUID) {
	if len(m.byGUID) == 0 {
		return
	}
	for i, g := range old {
		p := subnet.Place{Port: port, Function: uint16(i)}
		if l := m.byGUID[g]; l != nil && g != 0 && l.held == p && m.tables.Held(p) != g {
			l.held = subnet.Place{}
			// After a restart the first table with the GUID that is read counts; where it
			// is to be may have had it all the time.
			if p := l.target(); m.tables.Held(p) == g {
				l.held = p
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

// heldAsAlias finds a new lease's GUID in the tables that were read before: an earlier
// manager placed it, and who keeps aliases for the SA's clients had them read.
func (m *Machine) heldAsAlias(l *placement) {
	if p := m.tables.Find(l.GUID); p != (subnet.Place{}) {
		l.held = p
		m.tables.Look(p.Port)
	}
}

// readyShared is ready for a lease on a shared port.
func (m *Machine) readyShared(l *placement, p *topo.Port) bool {
	t := l.target()
	switch {
	case m.EndPort(l.GUID) != nil:
		return m.refuseTarget(l, subnet.CauseGUIDTaken, "GUID "+l.GUID.String()+" is the own one of a port of the subnet: give the interface another")
	case l.LIDKind == subnet.OwnLID:
		return m.refuseTarget(l, subnet.CauseLIDKind, "port "+t.Port.String()+" has one LID for all its functions, and one of its own is asked for: change the interface, or let its LID float")
	case t.Function == 0 || int(t.Function) >= int(p.Info.GUIDCap):
		return m.refuseTarget(l, subnet.CauseNoSuchFunction, "port "+t.Port.String()+" has no function "+strconv.Itoa(int(t.Function))+", only 1 to "+strconv.Itoa(int(p.Info.GUIDCap)-1))
	}
	if l.held == (subnet.Place{}) {
		l.held = m.heldByVPort(l)
	}
	if l.held != (subnet.Place{}) && !m.sharedPort(l.held.Port) {
		return true // a function of another kind has it
	}
	if l.LIDKind == subnet.FloatingLID {
		return m.readyFloat(l, p)
	}
	m.mergeAliases()
	switch other := m.tables.Wanted(t); {
	case l.held == t:
		m.settle(l)
	case other != l.GUID && other != 0:
		return m.refuseTarget(l, subnet.CauseFunctionTaken, "another alias GUID is to be at "+t.String()+": "+other.String())
	case m.tables.Refused(t):
		return m.refuseTarget(l, subnet.CauseNotTaken, "port "+t.Port.String()+" does not take alias GUIDs at index "+strconv.Itoa(int(t.Function)))
	default:
		m.report(l, subnet.LeaseMoving, failure{})
	}
	return false
}
