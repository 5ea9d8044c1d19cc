package sm

import (
	"heddle/ib"
	"heddle/sm/notice"
	"heddle/sm/topo"
	"heddle/sm/work"
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
	return c.lids.OfFunction(subnet.Place{Port: port})
}

// floatLIDs gives ports whose LID floats the one that they are to have, after LIDs were
// assigned to all ports of a sweep.
func (c *Core) floatLIDs() {
	x := &c.leases
	if c.lids.NumFunctions() == 0 {
		return
	}
	c.Scope(func(p *topo.Port) {
		base := c.floatBase(p.GUID)
		if p.LID == 0 || p.LMC != 0 || base == 0 {
			return
		}
		l := x.floats[p.GUID]
		if p == c.Fabric.AgentPort(c.Fabric.Self.Node, c.Fabric.Self.Port) {
			if l != nil { // we came to where it floats: readyFloat refuses that
				delete(x.floats, p.GUID)
				l.floats = 0
				c.lookLease(l)
			}
			p.LID = base
			return
		}
		if o := c.leaseOf(p.Info.LID); l == nil && p.Info.LID != base && o != nil && o.LIDKind == subnet.FloatingLID && o.floats == 0 {
			if o.Place.Port == p.GUID {
				l = o // an earlier manager's doing
				x.floats[p.GUID], l.floats, l.port = l, p.GUID, p.GUID
			} else {
				o.unfloats = p.GUID
				c.lookLease(o)
			}
		}
		switch {
		case l != nil:
			p.LID = c.lidOf(l)
		case x.given || !p.Info.LID.IsUnicast() || p.Info.PortState < ib.StateArmed:
			p.LID = base
			if p.Info.LID == base && x.given {
				x.fn.floated = append(x.fn.floated, p.GUID)
			}
		default:
			p.LID = p.Info.LID // whoever sets leases has not said anything yet
		}
	})
}

// floatLeft reports whether the port from which a lease's LID floats away has let go of
// it. One that is not in the subnet has: its base LID is set when it comes back.
func (c *Core) floatLeft(l *lease) bool {
	if l.unfloats != 0 {
		if p := c.EndPort(l.unfloats); p != nil && p.Info.LID == c.lidOf(l) {
			return false
		}
		l.unfloats = 0
	}
	return true
}

// floatWaits takes a lease out of the batch whose LID a port has still that does not
// answer: no other may have it meanwhile. Sweeps set that port's base LID.
func (c *Core) floatWaits(l *lease) {
	x := &c.leases
	if l.leaving {
		l.leaving = false
		at := l.held
		if at == (subnet.Place{}) {
			at = l.back
		}
		delete(x.leaves, at)
	}
	if !l.hasFailed() {
		c.reportLease(l, subnet.LeaseWaiting, failure{subnet.CausePortSilent, "port " + l.unfloats.String() + " has its LID still, and does not answer"})
	}
	x.retry = min(x.retry, c.Now.Add(c.Config.RetryInterval))
	c.lookLease(l)
}

// readyFloat is ready for a lease on a shared port whose LID is to float.
func (c *Core) readyFloat(l *lease, p *topo.Port, refuse func(subnet.Cause, string) bool) bool {
	x := &c.leases
	t := l.target()
	if p.LMC != 0 || c.Config.LMC != 0 {
		return refuse(subnet.CauseLIDKind, "port "+t.Port.String()+" has an LMC, and a LID that floats has none: let it share the port's LID")
	}
	if p == c.Fabric.AgentPort(c.Fabric.Self.Node, c.Fabric.Self.Port) {
		return refuse(subnet.CauseLIDKind, "port "+t.Port.String()+" is that of the subnet manager, whose LID all others know: take another hypervisor")
	}
	for i := 1; i < int(p.Info.GUIDCap); i++ {
		if o := x.wants[subnet.Place{Port: t.Port, Function: uint16(i)}]; o != nil && o != l {
			return refuse(subnet.CauseFunctionTaken, "port "+t.Port.String()+" is to hold GUID "+o.GUID.String()+" too, and where a LID floats there is room for one")
		}
	}
	own := c.lidOf(l)
	if x.floats[t.Port] != l || p.Info.LID != own || p.LID != own || !c.routedAt(own, t.Port) {
		return true
	}
	c.mergeAliases()
	if l.held == t {
		c.settle(l)
	} else if !l.hasFailed() {
		c.reportLease(l, subnet.LeaseMoving, failure{})
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
		if p := c.EndPort(l.floats); p != nil && c.floatBase(p.GUID) != 0 {
			p.LID = c.floatBase(p.GUID)
			begun = c.floatSet(p, begun)
			x.fn.floated = append(x.fn.floated, l.floats)
		}
		delete(x.floats, l.floats)
		l.floats, l.unfloats = 0, l.floats
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
		p := c.EndPort(t.Port)
		if p == nil || c.floatBase(p.GUID) == 0 || x.floats[t.Port] != nil && x.floats[t.Port] != l {
			c.lookLease(l)
			continue
		}
		x.floats[t.Port], l.floats, l.unfloats = l, t.Port, 0
		p.LID = c.lidOf(l)
		begun = c.floatSet(p, begun)
	}
	return begun
}

// floatSet has the LID of a port set.
func (c *Core) floatSet(p *topo.Port, begun bool) bool {
	if p.Info.LID == p.LID {
		return begun
	}
	if !begun {
		c.mv = moves{step: moveFloat, errs: c.Errs}
		c.enter(notice.PhaseMove)
	}
	c.Add(work.Make(work.OpSetPort, p.Node, p.Num, 0))
	return true
}

// floatsSet ends the phase. A port that is not known to have taken its LID may have it
// all the same, so it counts as having it until it has acknowledged its base LID: the
// lease turns round, and unfloat has that set.
func (c *Core) floatsSet() {
	x := &c.leases
	if c.Errs > c.mv.errs {
		for _, l := range x.batch {
			if p := c.EndPort(l.floats); l.floats != 0 && l.floats == l.target().Port && p != nil && p.Info.LID != c.lidOf(l) {
				p.Info.LID = c.lidOf(l)
				c.turnRound(l, failure{subnet.CauseNotTaken, "port " + p.GUID.String() + " does not take LID " + c.lidOf(l).String()})
			}
		}
		c.AskFullSweep("a port did not take its LID")
	}
	c.mv = moves{}
	c.enter(notice.PhaseIdle)
	c.baseChanged()
}

// baseChanged brings the graph up to date with the LIDs of ports.
func (c *Core) baseChanged() {
	was := c.Fabric.Graph
	h := c.withBases(was)
	if h == was {
		return
	}
	c.Fabric.Graph = h
	if c.served != nil && c.served.graph == was {
		c.served = &solution{graph: h, tables: c.served.tables}
	}
	c.floatSnap = true
}

// floatsOver stores that ports have their base LIDs again, once they are known to.
func (c *Core) floatsOver() {
	x := &c.leases
	var ops []store.Op
	for _, g := range x.fn.floated {
		base := c.floatBase(g)
		if p := c.EndPort(g); x.floats[g] == nil && base != 0 && p != nil && p.Info.LID == base {
			ops = append(ops, c.setFunctionLID(subnet.Place{Port: g}, 0))
		}
	}
	x.fn.floated = x.fn.floated[:0]
	if len(ops) > 0 {
		c.Save(ops)
	}
}

// giveFloating is giveLID for a lease on a shared port.
func (c *Core) giveFloating(l *lease, p *topo.Port, ops []store.Op) ([]store.Op, failure) {
	var f failure
	if ops, f = c.giveLID(l, nil, l.target(), ops); f.cause != 0 {
		return ops, f
	}
	if at := (subnet.Place{Port: p.GUID}); c.lids.OfFunction(at) == 0 {
		ops = append(ops, c.setFunctionLID(at, p.LID))
	}
	return ops, failure{}
}
