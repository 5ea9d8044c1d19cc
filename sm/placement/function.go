package placement

import (
	"heddle/ib"
	"heddle/sm/guid"
	"heddle/sm/vport"
	"heddle/subnet"
)

// What a function is to hold, and what follows from what it was seen to hold.

// Wanted is what a VPort, or a function of a vSwitch, is to hold now. It may change at any step;
// Functions.Look is called then.
func (m *Machine) Wanted(r vport.Ref) vport.Want {
	l, k := m.hold[r.Place()], kindOf(r.Adapter)
	if l != nil && k.hostGUIDs() && r.VPort().Info().PortGUID != l.GUID {
		l = nil // another VM is there
	}
	return k.wanted(m, r, l)
}

// Changed tells that something about a VPort changed: it was read, it acknowledged a Set, it has
// another state, it came or left. Index 0 is the adapter as a whole.
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
	k, there := kindOf(r.Adapter), r.Adapter.Present()
	if l := m.hold[p]; l != nil {
		m.look(l)
	}
	m.wake(p)
	if !there {
		return
	}
	m.lookForLoss(r, v)
	if !k.mayHold(v) {
		// Another VPort may show its GUID already.
		if o, ok := m.functions.Find(v.Info().PortGUID); ok && o != r && o.VPort().InfoKnown() {
			m.meet(o, o.VPort())
		}
	}
	if !v.InfoKnown() || v.Info().PortGUID == 0 {
		return
	}
	if k.hostGUIDs() && v.State() >= ib.StateInit {
		m.lookForAnother(p, v.Info().PortGUID)
	}
	m.meet(r, v)
	if k.ownLID(v) { // VPorts that share its LID wait for it
		for _, u := range r.Adapter.VPorts() {
			if u != nil && u.Index() != r.Index && u.Info().LIDByVPortIndex == r.Index && u.State() >= ib.StateInit {
				m.functions.Look(r.Adapter.Ref(u.Index()))
			}
		}
	}
}

// lookForLoss notes which placements a function holds no longer.
func (m *Machine) lookForLoss(r vport.Ref, v *vport.Port) {
	p := r.Place()
	for _, l := range [...]*placement{m.byGUID[v.Info().PortGUID], m.hold[p], m.leaves[p]} {
		if l == nil {
			continue
		}
		if l.held == p && !m.heldBy(l, r.Adapter, v) && (v.InfoKnown() || !kindOf(r.Adapter).mayHold(v)) {
			l.held = subnet.Place{}
			if l.target() != p && !l.hasFailed() {
				l.back = p
			}
		}
		m.look(l)
	}
}

// lookForAnother notes that a VPort with a GUID is up at p, where another VM may have been. That
// one keeps its LID.
func (m *Machine) lookForAnother(p subnet.Place, g ib.GUID) {
	h := m.hold[p]
	if h == nil || !h.implied || h.Place != p || h.GUID == g {
		return
	}
	h.Place = subnet.Place{}
	m.look(h)
	if l := m.byGUID[g]; l != nil {
		m.look(l)
	}
}

// AdapterChanged has the placements looked at whose places are at an adapter.
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

// meet joins a function that was read with the placement of the GUID that it shows.
func (m *Machine) meet(r vport.Ref, v *vport.Port) {
	p := r.Place()
	l := m.byGUID[v.Info().PortGUID]
	k := kindOf(r.Adapter)
	own := k.ownLID(v)
	if l == nil {
		keep := m.keepsAddress(r.Adapter, v)
		if !keep && (!k.hostGUIDs() || !own || v.State() < ib.StateInit) || m.EndPort(v.Info().PortGUID) != nil {
			return
		}
		l = m.add(v.Info().PortGUID)
		l.implied, l.LIDKind, l.Place = true, subnet.OwnLID, p
		l.kept, l.since = keep, m.Now
		m.look(l)
	}
	if l.implied && own && v.State() >= ib.StateInit && l.Place != p {
		a, u := m.function(l.Place)
		if u == nil || u.State() < ib.StateInit || u.Info().PortGUID != l.GUID || !kindOf(a).hostGUIDs() {
			l.Place = p // the VM moved
			l.become(Waiting)
			m.look(l)
		}
	}
	if own && v.Info().VPortLID != 0 {
		m.adoptLID(l, v.Info().VPortLID)
	}
	// An earlier manager placed it. Functions that are down are read later.
	free := l.held == (subnet.Place{}) && m.hold[p] == nil && l.holds == (subnet.Place{})
	if free && (!m.known || m.step == Idle) && m.heldBy(l, r.Adapter, v) {
		l.held = p
		m.holdAt(l, p)
		if l.port == 0 {
			l.port = p.Port
		}
		m.look(l)
		m.functions.Look(r)
	}
}

// Refused tells that a VPort rejects what is wanted; err says why.
func (m *Machine) Refused(r vport.Ref, err error) {
	l := m.hold[r.Place()]
	if l == nil {
		l = m.leaves[r.Place()]
	}
	if l == nil || l.hasFailed() && l.target() == (subnet.Place{}) {
		return
	}
	if l.leaving && l.target() == l.held {
		return // it was set again at this place
	}
	f := because(subnet.CauseNotTaken, "function %v does not take it: %v", r.Place(), err)
	if l.leaving {
		f = because(subnet.CauseNotGivenUp, "function %v does not give it up: %v", r.Place(), err)
	}
	m.rollBack(l, f)
}

// rollBack has a placement be where it was, because its target cannot have it.
func (m *Machine) rollBack(l *placement, f failure) {
	t := l.target()
	if l.holds == t && l.held != t {
		m.holdAt(l, subnet.Place{})
	}
	switch {
	case l.hasFailed():
		l.back = subnet.Place{} // neither place can have it
	case l.held != (subnet.Place{}):
		l.fail(f)
		l.back = l.held
	default:
		l.fail(f)
	}
	// The target may hold part of the address, and has to give that up first.
	if l.held == (subnet.Place{}) && m.mayHold(l, t) {
		l.held = t
	}
	m.look(l)
}
