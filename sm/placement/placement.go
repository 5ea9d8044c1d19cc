package placement

import (
	"slices"
	"time"

	"heddle/ib"
	"heddle/mad"
	"heddle/sm/vport"
	"heddle/subnet"
)

// Set takes a change of the placements wanted.
func (m *Machine) Set(ev Change) {
	first := !m.given
	m.given = true
	if ev.All {
		named := make(map[ib.GUID]bool, len(ev.Put))
		for i := range ev.Put {
			named[ev.Put[i].GUID] = true
		}
		for _, l := range m.list {
			if l.state != Ended && !l.implied && !named[l.GUID] {
				m.drop(l)
			}
		}
	}
	for _, g := range ev.Drop {
		if l := m.byGUID[g]; l != nil && !l.implied {
			m.drop(l)
		}
	}
	// Places are given up before they are taken: two placements may exchange theirs.
	for i := range ev.Put {
		if l := m.byGUID[ev.Put[i].GUID]; l != nil && m.wants[l.Place] == l {
			delete(m.wants, l.Place)
			if l.Place != ev.Put[i].Place {
				m.lookAt(l.Place) // it was not cleaned while a placement named it
			}
		}
	}
	for i := range ev.Put {
		m.set(&ev.Put[i])
	}
	m.mergeAliases()
	if first {
		for _, a := range m.functions.All() {
			for _, v := range a.VPorts() {
				if v != nil && v.Index() > 0 {
					m.functions.Look(a.Ref(v.Index()))
				}
			}
		}
	}
}

// set sets one placement.
func (m *Machine) set(n *subnet.Placement) {
	l := m.byGUID[n.GUID]
	if l == nil {
		l = m.add(n.GUID)
		m.heldAsAlias(l)
	}
	was := l.target()
	l.Placement = *n
	l.Aliases = slices.Clone(n.Aliases)
	l.become(Waiting)
	l.implied, l.kept, l.looked, l.failed = false, false, false, failure{}
	l.sinks = l.sinks && n.LIDKind == subnet.SharedLID
	l.told = subnet.PlacementReport{}
	if n.Place != (subnet.Place{}) && m.wants[n.Place] == nil {
		m.wants[n.Place] = l
	}
	if l.port == 0 && m.lidOf(l) != 0 {
		l.port = n.Place.Port // a sweep may route it before functions have been read
	}
	if n.Place != (subnet.Place{}) {
		m.holdEntry(l, was != (subnet.Place{}) && was != n.Place)
	} else {
		m.freeEntry(l)
	}
	m.look(l)
	if l.held == n.Place {
		m.lookAt(n.Place) // its aliases may have changed
	}
}

// add adds a placement. Its LID is the one that the store has for its GUID.
func (m *Machine) add(g ib.GUID) *placement {
	l := &placement{Placement: subnet.Placement{GUID: g}}
	if m.EndPort(g) == nil {
		_, ops := m.lids.Claim(g)
		m.Unsaved = append(m.Unsaved, ops...)
	}
	m.byGUID[g] = l
	delete(m.former, g)
	m.list = append(m.list, l)
	return l
}

// drop ends a placement.
func (m *Machine) drop(l *placement) {
	if m.wants[l.Place] == l {
		delete(m.wants, l.Place)
		m.wake(l.Place)
	}
	if l.hasFailed() {
		l.become(Evicting)
	} else {
		l.become(Ending)
	}
	m.freeEntry(l)
	m.look(l)
}

// virtual is the adapter of a place, nil if it is not in the subnet.
func (m *Machine) virtual(p subnet.Place) *vport.Adapter {
	if a := m.functions.Adapter(p.Port); a != nil && a.Present() {
		return a
	}
	return nil
}

// function is what is known of a place; either is nil if it is not in the subnet.
func (m *Machine) function(p subnet.Place) (*vport.Adapter, *vport.Port) {
	a := m.virtual(p)
	if a == nil || p.Function == 0 || int(p.Function) >= len(a.VPorts()) {
		return a, nil
	}
	return a, a.VPorts()[p.Function]
}

// look has a placement looked at when the next batch is gathered.
func (m *Machine) look(l *placement) {
	if !l.queued && l.state != Ended {
		l.queued = true
		m.dirty = append(m.dirty, l)
	}
}

// lookAt has the function of a place looked at, if it is there.
func (m *Machine) lookAt(p subnet.Place) {
	if a, v := m.function(p); a != nil && v != nil {
		m.functions.Look(a.Ref(p.Function))
	}
}

// wake has the placement looked at that names a place.
func (m *Machine) wake(p subnet.Place) {
	if l := m.wants[p]; l != nil {
		m.look(l)
	}
}

// Expects reports whether a placement that names a function is about to be looked at, so that the function may have
// to hold its address soon.
func (m *Machine) Expects(p subnet.Place) bool {
	l := m.wants[p]
	return l != nil && l.queued && m.hold[p] != l
}

// heldBy reports whether a function is known to hold a placement's address, or part of it.
func (m *Machine) heldBy(l *placement, a *vport.Adapter, v *vport.Port) bool {
	if v == nil || !v.InfoKnown() || !kindOf(a).mayHold(v) {
		return false
	}
	if own := m.lidOf(l); kindOf(a).ownLID(v) && !m.always(a) && own != 0 && v.Info().VPortLID == own {
		return true
	}
	return v.Info().PortGUID == l.GUID && kindOf(a).holdsGUID(v)
}

// inForce reports whether a function holds a placement's address and is Active.
func (m *Machine) inForce(l *placement, a *vport.Adapter, v *vport.Port) bool {
	own := m.lidOf(l)
	return v != nil && v.InfoKnown() && v.State() == ib.StateActive && v.Info().PortGUID == l.GUID &&
		(!kindOf(a).ownLID(v) || v.Info().VPortLID == own && own != 0)
}

// holdAt has the function at p, and no other, hold a placement's address; the zero Place: none.
func (m *Machine) holdAt(l *placement, p subnet.Place) {
	if l.holds == p {
		return
	}
	if old := l.holds; old != (subnet.Place{}) {
		delete(m.hold, old)
		m.lookAt(old)
	}
	if l.holds = p; p != (subnet.Place{}) {
		if h := m.hold[p]; h != nil {
			h.holds = subnet.Place{} // that one has left
		}
		m.hold[p] = l
		m.lookAt(p)
	}
}

// letGo has the function that is to hold a placement's address give it up, if the placement's
// target is another one. The function may have taken it without having said so yet.
func (m *Machine) letGo(l *placement) {
	p := l.holds
	if p == (subnet.Place{}) || l.held != (subnet.Place{}) || p == l.target() {
		return
	}
	m.holdAt(l, subnet.Place{})
	if m.mayHold(l, p) {
		l.held = p
	}
}

// mayHold reports whether a function may hold a placement's address, or part of it: it is known
// to, or a Set is under way.
func (m *Machine) mayHold(l *placement, p subnet.Place) bool {
	a, v := m.function(p)
	return v != nil && (v.Asked() || !v.InfoKnown() && v.State() >= ib.StateInit || m.heldBy(l, a, v))
}

// settleTime is how long placements wait for others that were set with them and whose places are
// being read, so that they move together.
const settleTime = 20 * time.Millisecond

// stepLimit is how long a batch waits for a function that does not answer. Then it goes on without
// that function.
const stepLimit = 3 * time.Second

// Reset begins a new mastership: nothing is known of any function. What is wanted stays.
func (m *Machine) Reset() {
	clear(m.hold)
	clear(m.leaves)
	clear(m.floats)
	m.dropEntries()
	m.again = mad.Never
	m.dirty, m.batch, m.step, m.known, m.fn.short = nil, nil, m.step.next(Idle), false, true
	for _, l := range m.list {
		l.floats, l.unfloats = 0, 0
		l.held, l.holds, l.back = subnet.Place{}, subnet.Place{}, subnet.Place{}
		l.leaving, l.queued, l.told = false, false, subnet.PlacementReport{}
		if l.state != Ended {
			l.port = l.Place.Port
			m.look(l)
		}
	}
}
