package placement

import (
	"heddle/ib"
	"heddle/sm/topo"
	"heddle/store"
	"heddle/subnet"
)

// A floating LID (LIDtracker, §IV-A) belongs to the one VM of a shared port. While the placement
// is at a port, that port has this LID in place of its own. Its base LID leads to it too, and it
// gets that back when the VM leaves. So the hypervisors' own LIDs stay routed. A migration is one
// Set(PortInfo) to each port, and the copy of the LID's entries between the two.
//
// The base LID is stored while the LID floats (lid.Table, function 0), so that a restarted manager
// does not take the LID that such a port shows for the port's own.

// FloatBase is the base LID of a port whose LID floats, 0 if it does not.
func (m *Machine) FloatBase(port ib.GUID) ib.LID {
	return m.lids.OfFunction(subnet.Place{Port: port})
}

// LIDOwner is the GUID of the placement that has a LID, 0 if none has it.
func (m *Machine) LIDOwner(l ib.LID) ib.GUID { return m.lids.Placement(l) }

// LIDOwnerAt is LIDOwner of the LID that a physical port has. unknownPlacement: it is not the
// port's own, and the address manager has not said whose it is.
func (m *Machine) LIDOwnerAt(port ib.GUID, l ib.LID) ib.GUID {
	if g := m.lids.Placement(l); g != 0 {
		return g
	}
	if base := m.FloatBase(port); base != 0 && base != l {
		return unknownPlacement
	}
	return 0
}

// unknownPlacement is the GUID of no port.
const unknownPlacement = ^ib.GUID(0)

// AssignFloating gives ports whose LID floats the LID that they are to have. A sweep has assigned
// LIDs to all ports before.
func (m *Machine) AssignFloating() {
	if m.lids.NumFunctions() == 0 {
		return
	}
	m.Sweeper.Scope(func(p *topo.Port) {
		base := m.FloatBase(p.GUID)
		if p.LID == 0 || p.LMC != 0 || base == 0 {
			return
		}
		l := m.floats[p.GUID]
		if p == m.Fabric.AgentPort(m.Fabric.Self.Node, m.Fabric.Self.Port) {
			if l != nil { // this manager's own port: readyFloat refuses that
				delete(m.floats, p.GUID)
				l.floats = 0
				m.look(l)
			}
			p.LID = base
			return
		}
		if o := m.withLID(p.Info.LID); l == nil && p.Info.LID != base && o != nil && o.LIDKind == subnet.FloatingLID && o.floats == 0 {
			if o.Place.Port == p.GUID {
				l = o // an earlier manager set it
				m.floats[p.GUID], l.floats, l.port = l, p.GUID, p.GUID
			} else {
				o.unfloats = p.GUID
				m.look(o)
			}
		}
		switch {
		case l != nil:
			p.LID = m.lidOf(l)
		case m.given || !p.Info.LID.IsUnicast() || p.Info.PortState < ib.StateArmed:
			p.LID = base
			if p.Info.LID == base && m.given {
				m.fn.floated = append(m.fn.floated, p.GUID)
			}
		default:
			p.LID = p.Info.LID // the address manager has not said anything yet
		}
	})
}

// floatLeft reports whether the port that had a placement's floating LID has its base LID again. A
// port that is not in the subnet counts as such: its base LID is set when it comes back.
func (m *Machine) floatLeft(l *placement) bool {
	if l.unfloats != 0 {
		if p := m.EndPort(l.unfloats); p != nil && p.Info.LID == m.lidOf(l) {
			return false
		}
		l.unfloats = 0
	}
	return true
}

// floatWaits takes a placement out of the batch whose LID a port still has that does not answer.
// No other port may have the LID before. Sweeps set the base LID of that port.
func (m *Machine) floatWaits(l *placement) {
	if l.leaving {
		l.leaving = false
		at := l.held
		if at == (subnet.Place{}) {
			at = l.back
		}
		delete(m.leaves, at)
	}
	if !l.hasFailed() {
		m.report(l, subnet.PlacementWaiting, because(subnet.CausePortSilent, "port %v has its LID still, and does not answer", l.unfloats))
	}
	m.retry = min(m.retry, m.Now.Add(m.Config.RetryInterval))
	m.look(l)
}

// readyFloat is readyShared for a placement with a floating LID.
func (m *Machine) readyFloat(l *placement, p *topo.Port) bool {
	t := l.target()
	if p.LMC != 0 || m.Config.LMC != 0 {
		return m.refuseTarget(l, because(subnet.CauseLIDKind,
			"port %v has an LMC, and a LID that floats has none: let it share the port's LID", t.Port))
	}
	if p == m.Fabric.AgentPort(m.Fabric.Self.Node, m.Fabric.Self.Port) {
		return m.refuseTarget(l, because(subnet.CauseLIDKind,
			"port %v is that of the subnet manager, whose LID all others know: take another hypervisor", t.Port))
	}
	for i := 1; i < int(p.Info.GUIDCap); i++ {
		if o := m.wants[subnet.Place{Port: t.Port, Function: uint16(i)}]; o != nil && o != l {
			return m.refuseTarget(l, because(subnet.CauseFunctionTaken,
				"port %v is to hold GUID %v too, and where a LID floats there is room for one", t.Port, o.GUID))
		}
	}
	own := m.lidOf(l)
	if m.floats[t.Port] != l || p.Info.LID != own || p.LID != own || !m.router.RoutedAt(own, t.Port) {
		return true
	}
	m.mergeAliases()
	if l.held == t {
		m.settle(l)
	} else if !l.hasFailed() {
		m.report(l, subnet.PlacementMoving, failure{})
	}
	return false
}

// unfloat gives ports that placements of the batch leave their base LIDs back. It reports whether
// that takes a phase.
func (m *Machine) unfloat() bool {
	begun := false
	for _, l := range m.batch {
		if l.floats == 0 || l.floats == l.target().Port && !l.sinks {
			continue
		}
		if p := m.EndPort(l.floats); p != nil && m.FloatBase(p.GUID) != 0 {
			p.LID = m.FloatBase(p.GUID)
			begun = m.router.SetPortLID(p, begun)
			m.fn.floated = append(m.fn.floated, l.floats)
		}
		delete(m.floats, l.floats)
		l.floats, l.unfloats = 0, l.floats
	}
	return begun
}

// float gives ports the LIDs of the placements of the batch. It reports whether that takes a
// phase.
func (m *Machine) float() bool {
	begun := false
	for _, l := range m.batch {
		t := l.target()
		if l.LIDKind != subnet.FloatingLID || t == (subnet.Place{}) || t != l.aim || !m.sharedPort(t.Port) {
			continue
		}
		p := m.EndPort(t.Port)
		if p == nil || m.FloatBase(p.GUID) == 0 || m.floats[t.Port] != nil && m.floats[t.Port] != l {
			m.look(l)
			continue
		}
		m.floats[t.Port], l.floats, l.unfloats = l, t.Port, 0
		p.LID = m.lidOf(l)
		begun = m.router.SetPortLID(p, begun)
	}
	return begun
}

// PortsSet tells that the ports whose LIDs were set have answered; failed: not all of them did. A
// port that is not known to have taken its LID may have it all the same, so it counts as having it
// until it has acknowledged its base LID: the placement is rolled back, and unfloat has that set.
func (m *Machine) PortsSet(failed bool) {
	if !failed {
		return
	}
	for _, l := range m.batch {
		if p := m.EndPort(l.floats); l.floats != 0 && l.floats == l.target().Port && p != nil && p.Info.LID != m.lidOf(l) {
			p.Info.LID = m.lidOf(l)
			m.rollBack(l, because(subnet.CauseNotTaken, "port %v does not take LID %v", p.GUID, m.lidOf(l)))
		}
	}
}

// sink takes the LIDs away that floated and are not routed any more.
func (m *Machine) sink() {
	for _, l := range m.batch {
		if own := m.lidOf(l); l.sinks && l.floats == 0 && l.unfloats == 0 && (own == 0 || m.router.Owner(own) == 0) {
			if l.sinks = false; own != 0 {
				m.Save(m.loseLID(l))
			}
		}
	}
}

// floatsOver stores that ports have their base LIDs again, once they have acknowledged them.
func (m *Machine) floatsOver() {
	var ops []store.Op
	for _, g := range m.fn.floated {
		base := m.FloatBase(g)
		if p := m.EndPort(g); m.floats[g] == nil && base != 0 && p != nil && p.Info.LID == base {
			ops = append(ops, m.setFunctionLID(subnet.Place{Port: g}, 0))
		}
	}
	m.fn.floated = m.fn.floated[:0]
	if len(ops) > 0 {
		m.Save(ops)
	}
}

// giveFloating is giveLID for a placement on a shared port.
func (m *Machine) giveFloating(l *placement, p *topo.Port, ops []store.Op) ([]store.Op, failure) {
	var f failure
	if ops, f = m.giveLID(l, nil, l.target(), ops); f.cause != 0 {
		return ops, f
	}
	if at := (subnet.Place{Port: p.GUID}); m.lids.OfFunction(at) == 0 {
		ops = append(ops, m.setFunctionLID(at, p.LID))
	}
	return ops, failure{}
}
