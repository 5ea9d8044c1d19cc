package sm

import (
	"heddle/ib"
	"heddle/store"
	"heddle/subnet"
)

// A LID that floats (LIDtracker, §IV-A) goes with the one VM of a shared port: while the
// lease is placed the port itself has that LID, and its base LID is a further one
// that leads to it, kept for when the VM leaves. So no manager is started anew, and the
// hypervisors' own LIDs stay routed. A migration is one Set(PortInfo) to each port and
// the copy of the LID's entries between the two.
//
// That a port floats is stored with its base LID (functionLIDs.byPlace, function 0): a
// manager that starts anew does not take what such a port shows for its own.

// floatBase is the base LID of a port whose LID floats, 0 if it does not.
func (c *Core) floatBase(port ib.GUID) ib.LID {
	return c.leases.fn.byPlace[subnet.Place{Port: port}]
}

// floatLIDs gives ports whose LID floats the one that they are to have, after LIDs were
// assigned to all ports of a sweep.
func (c *Core) floatLIDs() {
	x := &c.leases
	if len(x.fn.byPlace) == 0 {
		return
	}
	c.scope(func(p *port) {
		if p.lid == 0 || p.lmc != 0 || c.floatBase(p.guid) != p.lid {
			return
		}
		l := x.floats[p.guid]
		if o := x.fn.leaseOf[p.info.LID]; l == nil && o != nil && o.LIDKind == subnet.FloatingLID && o.Place.Port == p.guid {
			l = o // an earlier manager's doing
			x.floats[p.guid], l.floats, l.port = l, p.guid, p.guid
		}
		switch {
		case l != nil:
			p.lid = l.lid
		case !x.given && p.info.LID.IsUnicast() && p.info.PortState >= ib.StateArmed:
			p.lid = p.info.LID // whoever sets leases has not said anything yet
		}
	})
}

// readyFloat is ready for a lease on a shared port whose LID is to float.
func (c *Core) readyFloat(l *lease, p *port, refuse func(string) bool) bool {
	x := &c.leases
	t := l.target()
	if p.lmc != 0 || c.cfg.LMC != 0 {
		return refuse("port " + t.Port.String() + " has an LMC, and a LID that floats has none: let it share the port's LID")
	}
	if p == c.f.agentPort(c.f.self.Node, c.f.self.Port) {
		return refuse("port " + t.Port.String() + " is that of the subnet manager, whose LID all others know: take another hypervisor")
	}
	for i := 1; i < int(p.info.GUIDCap); i++ {
		if o := x.wants[subnet.Place{Port: t.Port, Function: uint16(i)}]; o != nil && o != l {
			return refuse("port " + t.Port.String() + " is to hold GUID " + o.GUID.String() + " too, and where a LID floats there is room for one")
		}
	}
	if x.floats[t.Port] != l || p.info.LID != l.lid || p.lid != l.lid || !c.routedAt(l.lid, t.Port) {
		return true
	}
	c.mergeAliases()
	if l.held == t {
		c.settle(l)
	} else if l.failed == "" {
		c.reportLease(l, subnet.LeaseMoving, "")
	}
	return false
}

// unfloat gives ports that leases of the batch leave their base LID back. It reports
// whether that takes a phase.
func (c *Core) unfloat() bool {
	x := &c.leases
	begun := false
	for _, l := range x.batch {
		if l.floats == 0 || l.floats == l.target().Port {
			continue
		}
		if p := c.endPort(l.floats); p != nil && c.floatBase(p.guid) != 0 {
			p.lid = c.floatBase(p.guid)
			begun = c.floatSet(p, begun)
		}
		x.fn.floated = append(x.fn.floated, l.floats)
		delete(x.floats, l.floats)
		l.floats = 0
	}
	return begun
}

// float gives ports the LIDs of the leases of the batch. It reports whether that
// takes a phase.
func (c *Core) float() bool {
	x := &c.leases
	begun := false
	for _, l := range x.batch {
		t := l.target()
		if l.LIDKind != subnet.FloatingLID || t == (subnet.Place{}) || t != l.aim || !c.sharedPort(t.Port) {
			continue
		}
		p := c.endPort(t.Port)
		if p == nil || c.floatBase(p.guid) == 0 || x.floats[t.Port] != nil && x.floats[t.Port] != l {
			c.lookLease(l)
			continue
		}
		x.floats[t.Port], l.floats = l, t.Port
		p.lid = l.lid
		begun = c.floatSet(p, begun)
	}
	return begun
}

// floatSet has the LID of a port set.
func (c *Core) floatSet(p *port, begun bool) bool {
	if p.info.LID == p.lid {
		return begun
	}
	if !begun {
		c.mv = moves{step: moveFloat, errs: c.errs}
		c.enter(PhaseMove)
	}
	c.add(mk(opSetPort, p.node, p.num, 0))
	return true
}

// floatsSet ends the phase: a port that did not take its LID has the lease turn round.
func (c *Core) floatsSet() {
	x := &c.leases
	if c.errs > c.mv.errs {
		for _, l := range x.batch {
			if p := c.endPort(l.target().Port); l.floats != 0 && p != nil && p.guid == l.floats && p.info.LID != l.lid {
				p.lid = c.floatBase(p.guid)
				delete(x.floats, l.floats)
				l.floats = 0
				c.turnRound(l, "port "+p.guid.String()+" does not take LID "+l.lid.String())
			}
		}
		c.askSweep("a port did not take its LID")
	}
	c.mv = moves{}
	c.enter(PhaseIdle)
	c.baseChanged()
}

// baseChanged brings the graph up to date with the LIDs of ports.
func (c *Core) baseChanged() {
	was := c.f.graph
	h := c.withBases(was)
	if h == was {
		return
	}
	c.f.graph = h
	if c.served != nil && c.served.graph == was {
		c.served = &solution{graph: h, tables: c.served.tables}
	}
	c.floatSnap = true
}

// floatsOver stores that ports have their base LIDs again.
func (c *Core) floatsOver() {
	x := &c.leases
	var ops []store.Op
	for _, g := range x.fn.floated {
		if x.floats[g] == nil && c.floatBase(g) != 0 {
			ops = append(ops, x.fn.set(subnet.Place{Port: g}, 0))
		}
	}
	x.fn.floated = x.fn.floated[:0]
	if len(ops) > 0 {
		c.save(ops)
	}
}

// giveFloating is giveLID for a lease on a shared port.
func (c *Core) giveFloating(l *lease, p *port, ops []store.Op) ([]store.Op, string) {
	why := ""
	if ops, why = c.giveLID(l, nil, l.target(), ops); why != "" {
		return ops, why
	}
	if at := (subnet.Place{Port: p.guid}); c.leases.fn.byPlace[at] == 0 {
		ops = append(ops, c.leases.fn.set(at, p.lid))
	}
	return ops, ""
}
