package sm

import (
	"strconv"

	"heddle/ib"
	"heddle/sm/guid"
	"heddle/sm/topo"
	"heddle/subnet"
)

// Leases on shared ports are entries of the ports' GUID tables, which package guid
// programs: a GUID is taken from one port before another gets it.

// leaseAliases are the leases that are placed, or to be placed, on shared ports:
// entries of their GUID tables.
func (c *Core) leaseAliases() (list []subnet.Alias) {
	for _, l := range c.leases.list {
		t := l.target()
		if !c.leases.known && l.held != t {
			continue // another port or function may have it
		}
		if l.state == stateEnded || t == (subnet.Place{}) || t.Function == 0 || t.Function >= guid.MaxEntries || !c.sharedPort(t.Port) {
			continue
		}
		switch {
		case l.held != (subnet.Place{}) && !c.sharedPort(l.held.Port), l.held == (subnet.Place{}) && c.heldByVPort(l) != (subnet.Place{}):
			continue // a function of another kind has it still
		case l.LIDKind == subnet.OwnLID, l.LIDKind == subnet.FloatingLID && l.floats != t.Port:
			continue // it cannot be, or not yet
		}
		list = append(list, subnet.Alias{Port: t.Port, Index: uint8(t.Function), GUID: l.GUID, Carries: true})
	}
	return list
}

// heldByVPort is the VPort that is up with a lease's GUID, the zero Place if there is none.
func (c *Core) heldByVPort(l *lease) subnet.Place {
	if r, ok := c.vports.Find(l.GUID); ok && r.Adapter.Present() && c.heldBy(l, r.Adapter, r.VPort()) {
		return r.Place()
	}
	return subnet.Place{}
}

// sharedPort reports whether a port holds the addresses of functions in its GUID
// table alone.
func (c *Core) sharedPort(g ib.GUID) bool {
	a := c.vports.Adapter(g)
	return a != nil && a.Model() == subnet.SharedPort
}

// leasedElsewhere reports whether a GUID is that of a lease that is to be at another
// place, or nowhere, or of one that ended.
func (c *Core) leasedElsewhere(g ib.GUID, p subnet.Place) bool {
	l := c.leases.byGUID[g]
	return c.leases.former[g] || l != nil && l.state != stateEnded && !l.implied && l.target() != p && l.holds != p
}

// mergeAliases has the GUID tables hold what leases and the SA's clients want; for
// a GUID that both name, the lease counts.
func (c *Core) mergeAliases() {
	if len(c.leases.list) > 0 || c.guids.HasPlaced() {
		c.guids.SetPlaced(c.leaseAliases())
	}
}

// aliasesHeld is told when the GUID table of a port holds others than before.
func (c *Core) aliasesHeld(port ib.GUID, old []ib.GUID) {
	x := &c.leases
	if len(x.byGUID) == 0 {
		return
	}
	for i, g := range old {
		p := subnet.Place{Port: port, Function: uint16(i)}
		if l := x.byGUID[g]; l != nil && g != 0 && l.held == p && c.guids.Held(p) != g {
			l.held = subnet.Place{}
			// After a restart the first table with the GUID that is read counts; where it
			// is to be may have had it all the time.
			if p := l.target(); c.guids.Held(p) == g {
				l.held = p
			}
			c.lookLease(l)
			c.wake(p)
		}
	}
	for i, g := range c.guids.Have(port) {
		p := subnet.Place{Port: port, Function: uint16(i)}
		if l := x.byGUID[g]; l != nil && g != 0 && l.held == (subnet.Place{}) && (l.target() == p || !x.known) {
			l.held = p
			c.lookLease(l)
		}
	}
}

// heldAsAlias finds a new lease's GUID in the tables that were read before: an earlier
// manager placed it, and who keeps aliases for the SA's clients had them read.
func (c *Core) heldAsAlias(l *lease) {
	if p := c.guids.Find(l.GUID); p != (subnet.Place{}) {
		l.held = p
		c.guids.Look(p.Port)
	}
}

// readyShared is ready for a lease on a shared port.
func (c *Core) readyShared(l *lease, p *topo.Port, refuse func(subnet.Cause, string) bool) bool {
	t := l.target()
	switch {
	case c.physical(l.GUID) != nil:
		return refuse(subnet.CauseGUIDTaken, "GUID "+l.GUID.String()+" is the own one of a port of the subnet: give the interface another")
	case l.LIDKind == subnet.OwnLID:
		return refuse(subnet.CauseLIDKind, "port "+t.Port.String()+" has one LID for all its functions, and one of its own is asked for: change the interface, or let its LID float")
	case t.Function == 0 || int(t.Function) >= int(p.Info.GUIDCap):
		return refuse(subnet.CauseNoSuchFunction, "port "+t.Port.String()+" has no function "+strconv.Itoa(int(t.Function))+", only 1 to "+strconv.Itoa(int(p.Info.GUIDCap)-1))
	}
	if l.held == (subnet.Place{}) {
		l.held = c.heldByVPort(l)
	}
	if l.held != (subnet.Place{}) && !c.sharedPort(l.held.Port) {
		return true // a function of another kind has it
	}
	if l.LIDKind == subnet.FloatingLID {
		return c.readyFloat(l, p, refuse)
	}
	c.mergeAliases()
	switch other := c.guids.Wanted(t); {
	case l.held == t:
		c.settle(l)
	case other != l.GUID && other != 0:
		return refuse(subnet.CauseFunctionTaken, "another alias GUID is to be at "+t.String()+": "+other.String())
	case c.guids.Refused(t):
		return refuse(subnet.CauseNotTaken, "port "+t.Port.String()+" does not take alias GUIDs at index "+strconv.Itoa(int(t.Function)))
	default:
		c.reportLease(l, subnet.LeaseMoving, failure{})
	}
	return false
}
