package placement

import (
	"heddle/ib"
	"heddle/sm/vport"
	"heddle/subnet"
)

// kind is how a kind of adapter holds addresses.
type kind interface {
	// inTable reports whether addresses are entries of the port's GUID table, and no more.
	inTable() bool
	// hostGUIDs reports whether functions have their GUIDs from the hypervisor.
	hostGUIDs() bool
	// alwaysLIDs reports whether functions may have LIDs whether they are used or not.
	alwaysLIDs() bool
	// ownLID reports whether a function has a LID of its own.
	ownLID(v *vport.Port) bool
	// mayHold reports whether a function in its state can hold anything of an address.
	mayHold(v *vport.Port) bool
	// holdsGUID reports whether a function in its state holds the GUID that it shows.
	holdsGUID(v *vport.Port) bool
	// wanted is what a function is to hold: the address of l, or nothing if l is nil.
	wanted(m *Machine, r vport.Ref, l *placement) vport.Want
}

// kindOf is the kind of an adapter.
func kindOf(a *vport.Adapter) kind {
	switch a.Model() {
	case subnet.SharedPort:
		return sharedPort{}
	case subnet.VSwitch:
		return vSwitch{}
	case subnet.VPorts:
		return vPorts{}
	}
	return noFunctions{}
}

// noFunctions is an adapter that was not read yet, or that holds nothing. Its functions take what
// they show.
type noFunctions struct{}

func (noFunctions) inTable() bool                { return false }
func (noFunctions) hostGUIDs() bool              { return false }
func (noFunctions) alwaysLIDs() bool             { return false }
func (noFunctions) ownLID(*vport.Port) bool      { return false }
func (noFunctions) mayHold(*vport.Port) bool     { return true }
func (noFunctions) holdsGUID(v *vport.Port) bool { return v.State() >= ib.StateArmed }
func (noFunctions) wanted(m *Machine, r vport.Ref, l *placement) vport.Want {
	return vPorts{}.wanted(m, r, l)
}

// sharedPort has one LID and one P_Key table for all functions (shared.go, float.go).
type sharedPort struct{ noFunctions }

func (sharedPort) inTable() bool { return true }

// vSwitch has functions whose GUID and LID the manager writes, also while they are down.
type vSwitch struct{ noFunctions }

func (vSwitch) alwaysLIDs() bool           { return true }
func (vSwitch) ownLID(*vport.Port) bool    { return true }
func (vSwitch) holdsGUID(*vport.Port) bool { return true }

func (vSwitch) wanted(m *Machine, r vport.Ref, l *placement) vport.Want {
	p, v := r.Place(), r.VPort()
	switch {
	case l != nil:
		own := m.lidOf(l)
		return vport.Want{LID: own, GUID: l.GUID, Up: m.router.RoutedAt(own, p.Port), Aliases: l.Aliases}
	case !m.given: // the address manager has not said anything yet
		return vport.Want{LID: v.Info().VPortLID, GUID: v.Info().PortGUID, Up: v.State() >= ib.StateArmed, Aliases: v.Aliases()}
	case m.wants[p] != nil && !m.wants[p].hasFailed() && m.leaves[p] == nil && v.State() < ib.StateArmed:
		// It is about to get an address; there is no need to clean it before.
		return vport.Want{LID: v.Info().VPortLID, GUID: v.Info().PortGUID}
	}
	return vport.Want{LID: m.lids.OfFunction(p)}
}

// vPorts are those of the IBTA: a VPort shares the LID of its port or of another VPort, or asks for
// one of its own.
type vPorts struct{ noFunctions }

func (vPorts) hostGUIDs() bool            { return true }
func (vPorts) ownLID(v *vport.Port) bool  { return v.Info().LIDRequired }
func (vPorts) mayHold(v *vport.Port) bool { return v.State() >= ib.StateInit }

func (vPorts) wanted(m *Machine, r vport.Ref, l *placement) vport.Want {
	p, v := r.Place(), r.VPort()
	if v.Info().LIDRequired {
		switch {
		case l != nil:
			own := m.lidOf(l)
			return vport.Want{LID: own, Up: m.router.RoutedAt(own, p.Port), Aliases: l.Aliases}
		case !m.known || !m.given && m.lids.Placement(v.Info().VPortLID) == 0:
			return vport.Want{LID: v.Info().VPortLID, Up: v.State() == ib.StateActive, Aliases: v.Aliases()}
		}
		return vport.Want{}
	}
	g := v.Info().PortGUID
	w := vport.Want{Up: g != 0}
	if l := m.byGUID[g]; l != nil {
		w.Up, w.Aliases = l.implied || l.target() == p, l.Aliases
		w.Away = !w.Up && m.leaves[p] == l
	}
	if k := v.Info().LIDByVPortIndex; k != 0 {
		if u := r.Adapter.VPort(k); u != nil && u.Info().LIDRequired {
			w.Up = w.Up && u.Info().VPortLID != 0 && m.router.RoutedAt(u.Info().VPortLID, p.Port)
		}
	}
	return w
}
