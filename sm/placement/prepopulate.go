package placement

import (
	"fmt"

	"heddle/ib"
	"heddle/sm/lid"
	"heddle/sm/notice"
	"heddle/sm/vport"
	"heddle/store"
	"heddle/subnet"
)

// Prepopulated vSwitches (§V-A of the vSwitch paper): every function has a LID from the time its
// adapter is found, which the engine routes. A placement that goes to another function exchanges
// its LID with that function's.

// always reports whether the functions of an adapter have LIDs even if they are unused.
func (m *Machine) always(a *vport.Adapter) bool {
	return m.Config.VSwitchPrepopulate && kindOf(a).alwaysLIDs()
}

// lacksLIDs reports whether some function of an adapter should have a LID and has none.
func (m *Machine) lacksLIDs(a *vport.Adapter) bool {
	for i := 1; m.always(a) && i <= a.Functions(); i++ {
		if m.lids.OfFunction(subnet.Place{Port: a.PortGUID(), Function: uint16(i)}) == 0 {
			return true
		}
	}
	return false
}

// lidFits reports whether a placement's LID is that of its function, if that has one.
func (m *Machine) lidFits(l *placement, t subnet.Place) bool {
	a := m.functions.Adapter(t.Port)
	return a == nil || !m.always(a) || m.lids.OfFunction(t) == m.lidOf(l)
}

// prepopulate gives LIDs to the functions that have none. It reports whether placements have to
// wait: a batch without placements has begun, or functions are still being read.
func (m *Machine) prepopulate() bool {
	fn := &m.fn
	if !m.Config.VSwitchPrepopulate || !fn.short {
		return false
	}
	if !m.downRead() {
		return true
	}
	var ops []store.Op
	short := 0
	// Functions keep the LIDs that they show, and those that are up come first: if a manager
	// died while it moved a LID, the function that the VM left may show it too.
	for _, pass := range [...]struct{ shown, up bool }{{true, true}, {true, false}, {false, false}} {
		for _, a := range m.functions.All() {
			if !a.Present() || !a.Known() || !m.always(a) {
				continue
			}
			for i := 1; i <= a.Functions(); i++ {
				p := subnet.Place{Port: a.PortGUID(), Function: uint16(i)}
				if m.lids.OfFunction(p) != 0 || pass.up && !functionUp(a, i) {
					continue
				}
				l := ib.LID(0)
				if pass.shown {
					if l = m.shownLID(a, i); l == 0 {
						continue
					}
				} else if l, ops = m.takeLID(false, ops); l == 0 {
					short++
					continue
				}
				ops = append(ops, m.setFunctionLID(p, l))
				fn.changed = append(fn.changed, p)
			}
		}
	}
	fn.short = short > 0
	if short > 0 && m.NoteOnce(fmt.Sprint("functions without a LID ", short)) {
		m.Notify(notice.Notice{
			Kind: notice.KindNoLID, Level: notice.Error, Text: fmt.Sprintf("%d virtual functions get no LID: %s", short, m.noLID()),
		})
	}
	if len(ops) == 0 {
		return false
	}
	fn.fresh = true
	m.enterStep(Storing)
	m.store(ops)
	return true
}

// functionUp reports whether a function is up.
func functionUp(a *vport.Adapter, i int) bool {
	return i < len(a.VPorts()) && a.VPorts()[i] != nil && a.VPorts()[i].State() >= ib.StateInit
}

// downRead reports whether functions that are down have been read too: an earlier manager may have
// given them LIDs. It does not wait for functions that do not answer.
func (m *Machine) downRead() bool {
	read := true
	for _, a := range m.functions.All() {
		if !a.Present() || !a.Known() || !a.WasOn() || a.Failing() || !m.always(a) {
			continue
		}
		for i := 1; i <= a.Functions() && i < len(a.VPorts()); i++ {
			if v := a.VPorts()[i]; v != nil && !v.Seen() && !v.InfoKnown() && !v.Failing() && !v.Refuses() {
				m.functions.Look(a.Ref(v.Index()))
				read = false
			}
		}
	}
	return read
}

// shownLID is the LID that a function shows from an earlier mastership, if it is free or that of
// the placement there; else 0.
func (m *Machine) shownLID(a *vport.Adapter, i int) ib.LID {
	if i >= len(a.VPorts()) || a.VPorts()[i] == nil || !a.VPorts()[i].InfoKnown() {
		return 0
	}
	v := a.VPorts()[i]
	shown := v.Info().VPortLID
	if shown == 0 {
		return 0
	}
	sp := m.lids.InUse()
	l := m.byGUID[v.Info().PortGUID]
	if (l == nil || m.lidOf(l) != shown || m.placeLID(shown)) && !sp.Free(lid.One(shown)) {
		return 0
	}
	sp.Take(lid.One(shown))
	return shown
}

// swapPlaces gives function t the LID of a placement. The function that had it gets t's. A
// placement that has none yet takes t's, if no other placement has that.
func (m *Machine) swapPlaces(l *placement, t subnet.Place, ops []store.Op) ([]store.Op, failure) {
	fn := &m.fn
	has, at := m.lidOf(l), m.lids.OfFunction(t)
	if at == 0 {
		if has == 0 || m.placeLID(has) {
			return ops, failure{subnet.CauseNoLID, m.noLID()}
		}
		fn.changed = append(fn.changed, t)
		return append(ops, m.setFunctionLID(t, has)), failure{}
	}
	if has == 0 {
		if m.lids.Placement(at) == 0 {
			return append(ops, m.lids.Give(l.GUID, at)...), failure{}
		}
		// Another placement, which is nowhere now, has it. An unused LID of the same port
		// needs no routing, so those come first.
		for _, same := range [2]bool{true, false} {
			for _, p := range m.lids.Functions() {
				free := m.lids.OfFunction(p)
				if p.Function > 0 && (p.Port == t.Port) == same && m.lids.Placement(free) == 0 && has == 0 {
					has = free
					ops = append(ops, m.lids.Give(l.GUID, has)...)
				}
			}
		}
		if has == 0 {
			return ops, failure{subnet.CauseNoLID, m.noLID()}
		}
	}
	if at == has {
		return ops, failure{}
	}
	from, ok := m.lids.Function(has)
	fn.changed = append(fn.changed, t)
	if !ok { // it was assigned before functions had LIDs, or at one that does not always have one
		if m.lids.Placement(at) == 0 { // else it stays that of a placement that is nowhere now
			m.lids.InUse().Release(lid.One(at))
		}
		fn.fresh = true
		return append(ops, m.setFunctionLID(t, has)), failure{}
	}
	fn.changed = append(fn.changed, from)
	m.lids.SetFunction(t, 0) // for a moment: no function is left without a LID
	return append(ops, m.setFunctionLID(from, at), m.setFunctionLID(t, has)), failure{}
}
