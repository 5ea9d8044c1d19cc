package placement

import (
	"heddle/ib"
	"heddle/sm/guid"
	"heddle/sm/vport"
	"heddle/subnet"
)

// What leases have to do with a function: what it is to hold, and what is concluded from
// what it is seen to hold.

// Wanted is what a VPort, or a function of a vSwitch, is to hold now. It
// may change at any step; lookVPort is called then.
func (m *Machine) Wanted(r vport.Ref) vport.Want {
	a, p := r.Adapter, r.Place()
	v := a.VPorts()[r.Index]
	l := m.hold[p]
	if l != nil && a.Model() == subnet.VPorts && v.Info().PortGUID != l.GUID {
		l = nil // another VM is there
	}
	if a.Model() == subnet.VSwitch {
		switch {
		case l != nil:
			return vport.Want{LID: m.lidOf(l), GUID: l.GUID, Up: m.router.RoutedAt(m.lidOf(l), a.PortGUID()), Aliases: l.Aliases}
		case !m.given: // who sets leases has not said anything yet
			return vport.Want{LID: v.Info().VPortLID, GUID: v.Info().PortGUID, Up: v.State() >= ib.StateArmed, Aliases: v.Aliases()}
		case m.wants[p] != nil && !m.wants[p].hasFailed() && m.leaves[p] == nil && v.State() < ib.StateArmed:
			// It is about to get an address; there is no need to clean it before.
			return vport.Want{LID: v.Info().VPortLID, GUID: v.Info().PortGUID}
		}
		return vport.Want{LID: m.lids.OfFunction(p)}
	}
	g := v.Info().PortGUID
	if v.Info().LIDRequired {
		if l == nil {
			if !m.known || !m.given && m.lids.Placement(v.Info().VPortLID) == 0 {
				return vport.Want{LID: v.Info().VPortLID, Up: v.State() == ib.StateActive, Aliases: v.Aliases()}
			}
			return vport.Want{}
		}
		return vport.Want{LID: m.lidOf(l), Up: m.router.RoutedAt(m.lidOf(l), a.PortGUID()), Aliases: l.Aliases}
	}
	w := vport.Want{Up: g != 0}
	if l := m.byGUID[g]; l != nil {
		w.Up, w.Aliases = l.implied || l.target() == p, l.Aliases
	}
	if k := int(v.Info().LIDByVPortIndex); k != 0 && k < len(a.VPorts()) && a.VPorts()[k] != nil && a.VPorts()[k].Info().LIDRequired {
		lid := a.VPorts()[k].Info().VPortLID
		w.Up = w.Up && lid != 0 && m.router.RoutedAt(lid, a.PortGUID())
	}
	return w
}

// Changed is told when what is known of a VPort changed: it was read, it
// took what was wanted, it changed its state, it came or went. Index 0 is the
// adapter as a whole.
func (m *Machine) Changed(r vport.Ref) {
	p := r.Place()
	if r.Index == 0 {
		m.fn.short = m.fn.short || m.lacksLIDs(r.Adapter)
		m.AdapterChanged(r.Adapter)
		return
	}
	if int(r.Index) >= len(r.Adapter.VPorts()) || r.Adapter.VPorts()[r.Index] == nil {
		return
	}
	v := r.Adapter.VPorts()[r.Index]
	there := r.Adapter.Present()
	if l := m.hold[p]; l != nil {
		m.look(l)
	}
	m.wake(p)
	if !there {
		return
	}
	// Who held it may have let go.
	for _, l := range [...]*placement{m.byGUID[v.Info().PortGUID], m.hold[p], m.leaves[p]} {
		if l == nil {
			continue
		}
		if l.held == p && !m.heldBy(l, r.Adapter, v) && (v.InfoKnown() || r.Adapter.Model() == subnet.VPorts && v.State() < ib.StateInit) {
			l.held = subnet.Place{}
			if l.target() != p && !l.hasFailed() {
				l.back = p
			}
		}
		m.look(l)
	}
	if v.State() < ib.StateInit && r.Adapter.Model() == subnet.VPorts {
		// Somebody else may show its GUID already.
		if o, ok := m.functions.Find(v.Info().PortGUID); ok && o != r && o.VPort().InfoKnown() {
			m.meet(o, o.VPort())
		}
	}
	if !v.InfoKnown() || v.Info().PortGUID == 0 {
		return
	}
	if h := m.hold[p]; h != nil && h.implied && h.Place == p && h.GUID != v.Info().PortGUID && r.Adapter.Model() == subnet.VPorts && v.State() >= ib.StateInit {
		h.Place = subnet.Place{} // somebody else is there now; its LID waits for it
		m.look(h)
		if l := m.byGUID[v.Info().PortGUID]; l != nil {
			m.look(l)
		}
	}
	m.meet(r, v)
	if needsLID(r.Adapter, v) { // those who share its LID wait for it
		for _, u := range r.Adapter.VPorts() {
			if u != nil && u.Index() != r.Index && u.Info().LIDByVPortIndex == r.Index && u.State() >= ib.StateInit {
				m.functions.Look(r.Adapter.Ref(u.Index()))
			}
		}
	}
}

// AdapterChanged has the leases looked at whose places are at an adapter.
func (m *Machine) AdapterChanged(a *vport.Adapter) {
	if len(m.wants)+len(m.hold) == 0 {
		return
	}
	for i := 1; i <= max(a.Functions(), len(a.VPorts()), guid.MaxEntries); i++ {
		p := subnet.Place{Port: a.PortGUID(), Function: uint16(i)}
		if l := m.wants[p]; l != nil {
			m.look(l)
		}
		if l := m.hold[p]; l != nil {
			m.look(l)
		}
	}
}

// meet joins a function that was read with the lease of the GUID that it shows.
func (m *Machine) meet(r vport.Ref, v *vport.Port) {
	p := r.Place()
	l := m.byGUID[v.Info().PortGUID]
	own := needsLID(r.Adapter, v)
	if l == nil {
		if r.Adapter.Model() != subnet.VPorts || !own || v.State() < ib.StateInit || m.EndPort(v.Info().PortGUID) != nil {
			return
		}
		l = m.add(v.Info().PortGUID)
		l.implied, l.LIDKind, l.Place = true, subnet.OwnLID, p
		m.look(l)
	}
	if l.implied && own && v.State() >= ib.StateInit && l.Place != p {
		if a, u := m.function(l.Place); u == nil || u.State() < ib.StateInit || u.Info().PortGUID != l.GUID || a.Model() != subnet.VPorts {
			l.Place = p // the VM moved
			l.become(Waiting)
			m.look(l)
		}
	}
	if own && v.Info().VPortLID != 0 {
		m.adoptLID(l, v.Info().VPortLID)
	}
	// What an earlier manager placed. Functions that are down are read when there is
	// time for it.
	if (!m.known || m.step == Idle) && l.held == (subnet.Place{}) && m.hold[p] == nil && l.holds == (subnet.Place{}) && m.heldBy(l, r.Adapter, v) {
		l.held = p
		m.holdAt(l, p)
		if l.port == 0 {
			l.port = p.Port
		}
		m.look(l)
		m.functions.Look(r)
	}
}

// Refused is told when a VPort does not take what is wanted: err says why.
func (m *Machine) Refused(r vport.Ref, err error) {
	l := m.hold[r.Place()]
	if l == nil {
		l = m.leaves[r.Place()]
	}
	if l == nil || l.hasFailed() && l.target() == (subnet.Place{}) {
		return
	}
	f := failure{subnet.CauseNotTaken, "function " + r.Place().String() + " does not take it: " + err.Error()}
	if l.leaving {
		f = failure{subnet.CauseNotGivenUp, "function " + r.Place().String() + " does not give it up: " + err.Error()}
	}
	m.rollBack(l, f)
}

// rollBack has a lease be where it was, because its target cannot have it.
func (m *Machine) rollBack(l *placement, f failure) {
	t := l.target()
	if l.holds == t && l.held != t {
		m.holdAt(l, subnet.Place{})
	}
	switch {
	case l.hasFailed():
		l.back = subnet.Place{} // neither here nor there
	case l.held != (subnet.Place{}):
		l.fail(f)
		l.back = l.held
	default:
		l.fail(f)
	}
	// It may have taken part of the address, which it has to give up before.
	if l.held == (subnet.Place{}) && m.mayHold(l, t) {
		l.held = t
	}
	m.look(l)
}
