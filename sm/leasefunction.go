package sm

import (
	"heddle/ib"
	"heddle/sm/guid"
	"heddle/sm/vport"
	"heddle/subnet"
)

// What leases have to do with a function: what it is to hold, and what is concluded from
// what it is seen to hold.

// functionWanted is what a VPort, or a function of a vSwitch, is to hold now. It
// may change at any step; lookVPort is called then.
func (c *Core) functionWanted(r vport.Ref) vport.Want {
	x := &c.leases
	a, p := r.Adapter, r.Place()
	v := a.VPorts()[r.Index]
	l := x.hold[p]
	if l != nil && a.Model() == subnet.VPorts && v.Info().PortGUID != l.GUID {
		l = nil // another VM is there
	}
	if a.Model() == subnet.VSwitch {
		switch {
		case l != nil:
			return vport.Want{LID: c.lidOf(l), GUID: l.GUID, Up: c.routedAt(c.lidOf(l), a.PortGUID()), Aliases: l.Aliases}
		case !x.given: // who sets leases has not said anything yet
			return vport.Want{LID: v.Info().VPortLID, GUID: v.Info().PortGUID, Up: v.State() >= ib.StateArmed, Aliases: v.Aliases()}
		case x.wants[p] != nil && !x.wants[p].hasFailed() && x.leaves[p] == nil && v.State() < ib.StateArmed:
			// It is about to get an address; there is no need to clean it before.
			return vport.Want{LID: v.Info().VPortLID, GUID: v.Info().PortGUID}
		}
		return vport.Want{LID: c.lids.OfFunction(p)}
	}
	g := v.Info().PortGUID
	if v.Info().LIDRequired {
		if l == nil {
			if !x.known || !x.given && c.lids.Placement(v.Info().VPortLID) == 0 {
				return vport.Want{LID: v.Info().VPortLID, Up: v.State() == ib.StateActive, Aliases: v.Aliases()}
			}
			return vport.Want{}
		}
		return vport.Want{LID: c.lidOf(l), Up: c.routedAt(c.lidOf(l), a.PortGUID()), Aliases: l.Aliases}
	}
	w := vport.Want{Up: g != 0}
	if m := x.byGUID[g]; m != nil {
		w.Up, w.Aliases = m.implied || m.target() == p, m.Aliases
	}
	if k := int(v.Info().LIDByVPortIndex); k != 0 && k < len(a.VPorts()) && a.VPorts()[k] != nil && a.VPorts()[k].Info().LIDRequired {
		lid := a.VPorts()[k].Info().VPortLID
		w.Up = w.Up && lid != 0 && c.routedAt(lid, a.PortGUID())
	}
	return w
}

// functionChanged is told when what is known of a VPort changed: it was read, it
// took what was wanted, it changed its state, it came or went. Index 0 is the
// adapter as a whole.
func (c *Core) functionChanged(r vport.Ref) {
	x := &c.leases
	p := r.Place()
	if r.Index == 0 {
		x.fn.short = x.fn.short || c.lacksLIDs(r.Adapter)
		c.adapterChanged(r.Adapter)
		return
	}
	if int(r.Index) >= len(r.Adapter.VPorts()) || r.Adapter.VPorts()[r.Index] == nil {
		return
	}
	v := r.Adapter.VPorts()[r.Index]
	there := r.Adapter.Present()
	if l := x.hold[p]; l != nil {
		c.lookLease(l)
	}
	c.wake(p)
	if !there {
		return
	}
	// Who held it may have let go.
	for _, l := range [...]*lease{x.byGUID[v.Info().PortGUID], x.hold[p], x.leaves[p]} {
		if l == nil {
			continue
		}
		if l.held == p && !c.heldBy(l, r.Adapter, v) && (v.InfoKnown() || r.Adapter.Model() == subnet.VPorts && v.State() < ib.StateInit) {
			l.held = subnet.Place{}
			if l.target() != p && !l.hasFailed() {
				l.back = p
			}
		}
		c.lookLease(l)
	}
	if v.State() < ib.StateInit && r.Adapter.Model() == subnet.VPorts {
		// Somebody else may show its GUID already.
		if o, ok := c.vports.Find(v.Info().PortGUID); ok && o != r && o.VPort().InfoKnown() {
			c.meet(o, o.VPort())
		}
	}
	if !v.InfoKnown() || v.Info().PortGUID == 0 {
		return
	}
	if h := x.hold[p]; h != nil && h.implied && h.Place == p && h.GUID != v.Info().PortGUID && r.Adapter.Model() == subnet.VPorts && v.State() >= ib.StateInit {
		h.Place = subnet.Place{} // somebody else is there now; its LID waits for it
		c.lookLease(h)
		if l := x.byGUID[v.Info().PortGUID]; l != nil {
			c.lookLease(l)
		}
	}
	c.meet(r, v)
	if needsLID(r.Adapter, v) { // those who share its LID wait for it
		for _, u := range r.Adapter.VPorts() {
			if u != nil && u.Index() != r.Index && u.Info().LIDByVPortIndex == r.Index && u.State() >= ib.StateInit {
				c.vports.Look(r.Adapter.Ref(u.Index()))
			}
		}
	}
}

// adapterChanged has the leases looked at whose places are at an adapter.
func (c *Core) adapterChanged(a *vport.Adapter) {
	x := &c.leases
	if len(x.wants)+len(x.hold) == 0 {
		return
	}
	for i := 1; i <= max(a.Functions(), len(a.VPorts()), guid.MaxEntries); i++ {
		p := subnet.Place{Port: a.PortGUID(), Function: uint16(i)}
		if l := x.wants[p]; l != nil {
			c.lookLease(l)
		}
		if l := x.hold[p]; l != nil {
			c.lookLease(l)
		}
	}
}

// meet joins a function that was read with the lease of the GUID that it shows.
func (c *Core) meet(r vport.Ref, v *vport.Port) {
	x := &c.leases
	p := r.Place()
	l := x.byGUID[v.Info().PortGUID]
	own := needsLID(r.Adapter, v)
	if l == nil {
		if r.Adapter.Model() != subnet.VPorts || !own || v.State() < ib.StateInit || c.physical(v.Info().PortGUID) != nil {
			return
		}
		l = c.newLease(v.Info().PortGUID)
		l.implied, l.LIDKind, l.Place = true, subnet.OwnLID, p
		c.lookLease(l)
	}
	if l.implied && own && v.State() >= ib.StateInit && l.Place != p {
		if a, u := c.function(l.Place); u == nil || u.State() < ib.StateInit || u.Info().PortGUID != l.GUID || a.Model() != subnet.VPorts {
			l.Place = p // the VM moved
			l.become(stateWaiting)
			c.lookLease(l)
		}
	}
	if own && v.Info().VPortLID != 0 {
		c.adoptLID(l, v.Info().VPortLID)
	}
	// What an earlier manager placed. Functions that are down are read when there is
	// time for it.
	if (!x.known || x.step == batchIdle) && l.held == (subnet.Place{}) && x.hold[p] == nil && l.holds == (subnet.Place{}) && c.heldBy(l, r.Adapter, v) {
		l.held = p
		c.holdAt(l, p)
		if l.port == 0 {
			l.port = p.Port
		}
		c.lookLease(l)
		c.vports.Look(r)
	}
}

// functionRefused is told when a VPort does not take what is wanted: err says why.
func (c *Core) functionRefused(r vport.Ref, err error) {
	l := c.leases.hold[r.Place()]
	if l == nil {
		l = c.leases.leaves[r.Place()]
	}
	if l == nil || l.hasFailed() && l.target() == (subnet.Place{}) {
		return
	}
	f := failure{subnet.CauseNotTaken, "function " + r.Place().String() + " does not take it: " + err.Error()}
	if l.leaving {
		f = failure{subnet.CauseNotGivenUp, "function " + r.Place().String() + " does not give it up: " + err.Error()}
	}
	c.turnRound(l, f)
}

// turnRound has a lease be where it was, because its target cannot have it.
func (c *Core) turnRound(l *lease, f failure) {
	t := l.target()
	if l.holds == t && l.held != t {
		c.holdAt(l, subnet.Place{})
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
	if l.held == (subnet.Place{}) && c.mayHold(l, t) {
		l.held = t
	}
	c.lookLease(l)
}
