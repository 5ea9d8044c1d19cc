package sm

import (
	"heddle/ib"
	"heddle/sm/guid"
	"heddle/subnet"
)

// What leases have to do with a function: what it is to hold, and what is concluded from
// what it is seen to hold.

// functionWanted is what a VPort, or a function of a vSwitch, is to hold now. It
// may change at any step; lookVPort is called then.
func (c *Core) functionWanted(r vportRef) functionWant {
	x := &c.leases
	a, p := r.a, r.place()
	v := a.vports[r.index]
	l := x.hold[p]
	if l != nil && a.model == subnet.VPorts && v.info.PortGUID != l.GUID {
		l = nil // another VM is there
	}
	if a.model == subnet.VSwitch {
		switch {
		case l != nil:
			return functionWant{lid: c.lidOf(l), guid: l.GUID, up: c.routedAt(c.lidOf(l), a.port), aliases: l.Aliases}
		case !x.given: // who sets leases has not said anything yet
			return functionWant{lid: v.info.VPortLID, guid: v.info.PortGUID, up: v.state >= ib.StateArmed, aliases: v.aliases()}
		case x.wants[p] != nil && x.wants[p].failed.cause == 0 && x.leaves[p] == nil && v.state < ib.StateArmed:
			// It is about to get an address; there is no need to clean it before.
			return functionWant{lid: v.info.VPortLID, guid: v.info.PortGUID}
		}
		return functionWant{lid: c.lids.OfFunction(p)}
	}
	g := v.info.PortGUID
	if v.info.LIDRequired {
		if l == nil {
			if !x.known || !x.given && c.lids.Placement(v.info.VPortLID) == 0 {
				return functionWant{lid: v.info.VPortLID, up: v.state == ib.StateActive, aliases: v.aliases()}
			}
			return functionWant{}
		}
		return functionWant{lid: c.lidOf(l), up: c.routedAt(c.lidOf(l), a.port), aliases: l.Aliases}
	}
	w := functionWant{up: g != 0}
	if m := x.byGUID[g]; m != nil {
		w.up, w.aliases = m.implied || m.target() == p, m.Aliases
	}
	if k := int(v.info.LIDByVPortIndex); k != 0 && k < len(a.vports) && a.vports[k] != nil && a.vports[k].info.LIDRequired {
		lid := a.vports[k].info.VPortLID
		w.up = w.up && lid != 0 && c.routedAt(lid, a.port)
	}
	return w
}

// functionChanged is told when what is known of a VPort changed: it was read, it
// took what was wanted, it changed its state, it came or went. Index 0 is the
// adapter as a whole.
func (c *Core) functionChanged(r vportRef) {
	x := &c.leases
	p := r.place()
	if r.index == 0 {
		x.fn.short = x.fn.short || c.lacksLIDs(r.a)
		c.adapterChanged(r.a)
		return
	}
	if int(r.index) >= len(r.a.vports) || r.a.vports[r.index] == nil {
		return
	}
	v := r.a.vports[r.index]
	there := r.a.at.Node >= 0
	if l := x.hold[p]; l != nil {
		c.lookLease(l)
	}
	c.wake(p)
	if !there {
		return
	}
	// Who held it may have let go.
	for _, l := range [...]*lease{x.byGUID[v.info.PortGUID], x.hold[p], x.leaves[p]} {
		if l == nil {
			continue
		}
		if l.held == p && !c.heldBy(l, r.a, v) && (v.known&knowInfo != 0 || r.a.model == subnet.VPorts && v.state < ib.StateInit) {
			l.held = subnet.Place{}
			if l.target() != p && l.failed.cause == 0 {
				l.back = p
			}
		}
		c.lookLease(l)
	}
	if v.state < ib.StateInit && r.a.model == subnet.VPorts {
		// Somebody else may show its GUID already.
		if o, ok := c.vportByGUID(v.info.PortGUID); ok && o != r && o.vport().known&knowInfo != 0 {
			c.meet(o, o.vport())
		}
	}
	if v.known&knowInfo == 0 || v.info.PortGUID == 0 {
		return
	}
	if h := x.hold[p]; h != nil && h.implied && h.Place == p && h.GUID != v.info.PortGUID && r.a.model == subnet.VPorts && v.state >= ib.StateInit {
		h.Place = subnet.Place{} // somebody else is there now; its LID waits for it
		c.lookLease(h)
		if l := x.byGUID[v.info.PortGUID]; l != nil {
			c.lookLease(l)
		}
	}
	c.meet(r, v)
	if needsLID(r.a, v) { // those who share its LID wait for it
		for _, u := range r.a.vports {
			if u != nil && u.index != r.index && u.info.LIDByVPortIndex == r.index && u.state >= ib.StateInit {
				c.lookVPort(vportRef{r.a, u.index})
			}
		}
	}
}

// adapterChanged has the leases looked at whose places are at an adapter.
func (c *Core) adapterChanged(a *adapter) {
	x := &c.leases
	if len(x.wants)+len(x.hold) == 0 {
		return
	}
	for i := 1; i <= max(a.functions, len(a.vports), guid.MaxEntries); i++ {
		p := subnet.Place{Port: a.port, Function: uint16(i)}
		if l := x.wants[p]; l != nil {
			c.lookLease(l)
		}
		if l := x.hold[p]; l != nil {
			c.lookLease(l)
		}
	}
}

// meet joins a function that was read with the lease of the GUID that it shows.
func (c *Core) meet(r vportRef, v *vport) {
	x := &c.leases
	p := r.place()
	l := x.byGUID[v.info.PortGUID]
	own := needsLID(r.a, v)
	if l == nil {
		if r.a.model != subnet.VPorts || !own || v.state < ib.StateInit || c.physical(v.info.PortGUID) != nil {
			return
		}
		l = c.newLease(v.info.PortGUID)
		l.implied, l.LIDKind, l.Place = true, subnet.OwnLID, p
		c.lookLease(l)
	}
	if l.implied && own && v.state >= ib.StateInit && l.Place != p {
		if a, u := c.function(l.Place); u == nil || u.state < ib.StateInit || u.info.PortGUID != l.GUID || a.model != subnet.VPorts {
			l.Place, l.failed = p, failure{} // the VM moved
			c.lookLease(l)
		}
	}
	if own && v.info.VPortLID != 0 {
		c.adoptLID(l, v.info.VPortLID)
	}
	// What an earlier manager placed. Functions that are down are read when there is
	// time for it.
	if (!x.known || x.step == batchIdle) && l.held == (subnet.Place{}) && x.hold[p] == nil && l.holds == (subnet.Place{}) && c.heldBy(l, r.a, v) {
		l.held = p
		c.holdAt(l, p)
		if l.port == 0 {
			l.port = p.Port
		}
		c.lookLease(l)
		c.lookVPort(r)
	}
}

// functionRefused is told when a VPort does not take what is wanted: err says why.
func (c *Core) functionRefused(r vportRef, err error) {
	l := c.leases.hold[r.place()]
	if l == nil {
		l = c.leases.leaves[r.place()]
	}
	if l == nil || l.failed.cause != 0 && l.target() == (subnet.Place{}) {
		return
	}
	f := failure{subnet.CauseNotTaken, "function " + r.place().String() + " does not take it: " + err.Error()}
	if l.leaving {
		f = failure{subnet.CauseNotGivenUp, "function " + r.place().String() + " does not give it up: " + err.Error()}
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
	case l.failed.cause != 0:
		l.back = subnet.Place{} // neither here nor there
	case l.held != (subnet.Place{}):
		l.failed, l.back = f, l.held
	default:
		l.failed = f
	}
	// It may have taken part of the address, which it has to give up before.
	if l.held == (subnet.Place{}) && c.mayHold(l, t) {
		l.held = t
	}
	c.lookLease(l)
}
