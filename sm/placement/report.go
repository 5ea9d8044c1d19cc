package placement

import (
	"slices"

	"heddle/ib"
	"heddle/sm/lid"
	"heddle/subnet"
)

// reported are the states of placements, by what is reported of them.
var reported = [...]State{
	subnet.PlacementWaiting: Waiting, subnet.PlacementMoving: Moving, subnet.PlacementPlaced: Placed, subnet.PlacementRefused: Refused,
}

// report reports how far a placement has come, if that is news.
func (m *Machine) report(l *placement, s subnet.PlacementState, f failure) {
	// One that is refused may be on its way back to a function that had given it up.
	if s == subnet.PlacementPlaced || s == subnet.PlacementRefused && l.held == l.target() {
		m.freeEntry(l)
	}
	if s == subnet.PlacementRefused || !l.unwanted() && !l.hasFailed() {
		l.become(reported[s])
	}
	if l.implied || l.unwanted() {
		return
	}
	r := subnet.PlacementReport{GUID: l.GUID, Place: l.Place, Held: l.held, State: s, Cause: f.cause, Reason: f.why}
	if s == subnet.PlacementPlaced {
		r.SMPs, r.AtRisk = l.smps, l.atRisk
		if r.LID = m.lidOf(l); r.LID == 0 {
			r.LID = m.sharedLID(l.held)
		}
	} else {
		r.LID = m.lidOf(l)
	}
	same := r
	same.Held, same.SMPs, same.AtRisk = l.told.Held, l.told.SMPs, l.told.AtRisk
	if l.told == same && l.told.GUID != 0 {
		return
	}
	l.told = r
	m.reports = append(m.reports, r)
}

// sharedLID is the LID of a function that has none of its own.
func (m *Machine) sharedLID(p subnet.Place) ib.LID {
	if a, v := m.function(p); a != nil && v != nil && v.Info().LIDByVPortIndex != 0 {
		if k := int(v.Info().LIDByVPortIndex); k < len(a.VPorts()) && a.VPorts()[k] != nil && a.VPorts()[k].Info().LIDRequired {
			return a.VPorts()[k].Info().VPortLID
		}
	}
	if q := m.EndPort(p.Port); q != nil {
		return q.LID
	}
	return 0
}

// tell passes the reports on. Snapshots show what they say by then.
func (m *Machine) tell() {
	m.snapshots.PublishPorts()
	if m.showDue {
		m.showDue = false
		m.snapshots.ShowNow()
	}
	if len(m.reports) == 0 {
		return
	}
	if slices.ContainsFunc(m.reports, func(r subnet.PlacementReport) bool { return r.State >= subnet.PlacementPlaced }) {
		m.snapshots.ShowNow()
	}
	m.snapshots.Report(m.reports)
	clear(m.reports)
	m.reports = m.reports[:0]
}

// Midway reports whether addresses are on their way, so that what functions hold is neither the old
// state nor the new one.
func (m *Machine) Midway() bool {
	return m.step == Leaving || m.step == Routing || m.step == Putting
}

// Status counts placements.
type Status struct {
	LIDs       lid.Count
	Placements int // that were set
	Nowhere    int // of these: that are to be nowhere
}

// Status counts placements and LIDs.
func (m *Machine) Status() Status {
	s := Status{LIDs: m.countLIDs()}
	for _, l := range m.list {
		if l.state != Ended && !l.implied {
			s.Placements++
			if l.Place == (subnet.Place{}) {
				s.Nowhere++
			}
		}
	}
	return s
}

// EachLID calls fn for each LID of a placement, with the port that it is to lead to, 0 if nowhere.
func (m *Machine) EachLID(fn func(l ib.LID, port ib.GUID)) {
	for _, l := range m.list {
		if l.state != Ended {
			fn(m.lidOf(l), l.port)
		}
	}
}

// Any reports whether there are placements.
func (m *Machine) Any() bool { return len(m.list) > 0 }

// PortOf is the port whose function is to hold a GUID now, 0 if none is.
func (m *Machine) PortOf(g ib.GUID) ib.GUID {
	if l := m.byGUID[g]; l != nil {
		return l.holds.Port
	}
	return 0
}

// EachPortWithAlias calls fn for each port whose function is to hold an alias for which is holds.
func (m *Machine) EachPortWithAlias(is func(g ib.GUID) bool, fn func(port ib.GUID)) {
	for _, l := range m.list {
		if slices.ContainsFunc(l.Aliases, is) {
			fn(l.holds.Port)
		}
	}
}

// Moved notes how many LFT blocks the move of a placement's LID took.
func (m *Machine) Moved(g ib.GUID, blocks int) {
	if l := m.byGUID[g]; l != nil {
		l.smps = blocks
	}
}

// AtRisk notes that a transient cycle is possible while the LIDs of the batch move, or are routed.
func (m *Machine) AtRisk() {
	if m.step == Routing {
		for _, l := range m.batch {
			l.atRisk = true
		}
	}
}
