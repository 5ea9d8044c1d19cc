package placement

import (
	"heddle/ib"
	"heddle/sm/vport"
	"heddle/subnet"
)

// Addresses of functions that no placement gives them, and that stay because another manager may
// have placed them there (package tenure). They count as placements that nobody set, until an
// interface takes one over.

// Keeper says whether such addresses stay. tenure.Tenure implements it.
type Keeper interface{ Keeps() bool }

// keepsAddress reports whether a function, of which no placement is known, keeps what it shows. One
// of a prepopulated vSwitch has a LID whether it is used or not, so it must be up.
func (m *Machine) keepsAddress(a *vport.Adapter, v *vport.Port) bool {
	g := v.Info().PortGUID
	return m.keeper != nil && m.keeper.Keeps() && kindOf(a).alwaysLIDs() && g != 0 && v.Info().VPortLID != 0 && !m.former[g] &&
		(v.State() >= ib.StateArmed || !m.always(a))
}

// isKept reports whether a placement is such an address. One that was dropped is not, though its
// function may have it still.
func (l *placement) isKept() bool { return l.kept && l.implied && !l.unwanted() }

// Kept lists the addresses that are kept.
func (m *Machine) Kept() (list []subnet.Kept) {
	for _, l := range m.list {
		if l.isKept() {
			list = append(list, subnet.Kept{Place: l.Place, GUID: l.GUID, LID: m.lidOf(l), Since: int64(l.since), Function: true})
		}
	}
	return list
}

// Met reports whether all functions that may have an address were read.
func (m *Machine) Met() bool {
	for _, a := range m.functions.All() {
		if !a.Present() || !a.Known() || !a.WasOn() || a.Failing() || !kindOf(a).alwaysLIDs() {
			continue
		}
		for _, v := range a.VPorts() {
			if v != nil && v.Index() > 0 && !v.Seen() && !v.InfoKnown() && !v.Failing() && !v.Refuses() {
				m.functions.Look(a.Ref(v.Index()))
				return false
			}
		}
	}
	return true
}

// DropKept has functions at ports give up the addresses that they keep.
func (m *Machine) DropKept(at func(port ib.GUID) bool) {
	for _, l := range m.list {
		if l.isKept() && at(l.Place.Port) {
			m.drop(l)
		}
	}
}
