package sm

import (
	"strconv"

	"heddle/ib"
	"heddle/mad"
	"heddle/subnet"
)

// startMoves takes the batch of leases on, or gathers a new one. It reports whether it
// began a phase; what functions are to hold is written by upkeep.
func (c *Core) startMoves() bool {
	x := &c.leases
	if !c.MayUpkeep() {
		return false
	}
	c.endEntries()
	if x.again <= c.Now {
		c.retryRefused()
	}
	if x.retry <= c.Now {
		x.retry = mad.Never
		if x.step == batchStore && x.saveErr != nil {
			c.storeBatch(nil)
		}
	}
	for {
		switch x.step {
		case batchIdle:
			c.tellLeases()
			if c.routeMoved(); c.wantSweep {
				return false
			}
			if len(x.dirty) == 0 && !(x.fn.short && c.Config.VSwitchPrepopulate) || !c.functionsKnown() {
				return false
			}
			if !c.gather() {
				c.tellLeases()
				return false
			}
		case batchStore:
			if x.gen != 0 || x.saveErr != nil {
				return false
			}
			if c.leave() {
				return true
			}
		case batchLeave:
			if !c.allLeft() {
				return false
			}
			c.enterStep(batchRoute)
			if c.routeLeases() {
				return true
			}
		case batchRoute:
			if !c.allRouted() {
				return false
			}
			if c.put() {
				return true
			}
		case batchPut:
			if !c.allPut() {
				return false
			}
			c.endBatch()
		}
	}
}

func (c *Core) enterStep(s batchStep) {
	x := &c.leases
	x.step, x.began, x.retry = x.step.next(s), c.Now, mad.Never
}

// stepOver reports whether the step under way has lasted long enough; if not, it
// sees to it that it is looked at again then.
func (c *Core) stepOver() bool {
	end := c.leases.began.Add(stepLimit)
	if end <= c.Now {
		return true
	}
	c.leases.retry = end
	return false
}

// functionsKnown reports whether it is known, for this mastership, which addresses
// functions hold that are up: before that no function is given any, as another may
// have it.
func (c *Core) functionsKnown() bool {
	x := &c.leases
	if x.known {
		return true
	}
	for _, a := range c.vports.All() {
		switch {
		case !a.Present() || a.Refused() || a.Failing():
			continue
		case !a.Known():
			return false
		case a.Model() == subnet.SharedPort && !c.guids.Known(a.PortGUID()):
			return false
		}
		for _, v := range a.VPorts() {
			if v != nil && v.Index() > 0 && v.State() >= ib.StateInit && !v.InfoKnown() && !v.Failing() && !v.Refuses() {
				return false
			}
		}
	}
	x.known = true
	for _, a := range c.vports.All() {
		for _, v := range a.VPorts() {
			if v != nil && v.Index() > 0 && a.Model() == subnet.VPorts && v.Info().LIDRequired {
				c.vports.Look(a.Ref(v.Index()))
			}
		}
	}
	return true
}

// gather picks the leases that can be carried out now. It reports whether there are any.
func (c *Core) gather() bool {
	x := &c.leases
	list := x.dirty
	x.dirty = nil
	x.batch = x.batch[:0]
	if c.prepopulate() {
		x.dirty = list
		return x.step != batchIdle
	}
	x.unread = false
	for _, l := range list {
		l.queued = false
		if l.state != stateEnded && c.ready(l) {
			l.aim = l.target()
			l.leaving = l.held != (subnet.Place{}) && l.held != l.aim
			x.batch = append(x.batch, l)
		}
	}
	if x.settle == 0 {
		x.settle = c.Now.Add(settleLeases)
	}
	if len(x.batch) > 0 && x.unread && c.Now < x.settle {
		for _, l := range x.batch {
			l.leaving = false
			c.lookLease(l)
		}
		x.retry = x.settle
		return false
	}
	x.settle = 0
	// A place that is taken must be given up in the same batch.
	for again := true; again; {
		again = false
		keep := x.batch[:0]
		for _, l := range x.batch {
			t := l.target()
			if h := x.hold[t]; t != (subnet.Place{}) && h != nil && h != l && !h.leaving && (h.held == t || h.target() == t) {
				l.leaving = false
				again = true
				if l.hasFailed() {
					c.settle(l)
					continue
				}
				c.reportLease(l, subnet.LeaseWaiting, failure{subnet.CauseFunctionHeld, "function " + t.String() + " is still held by GUID " + h.GUID.String()})
				continue
			}
			keep = append(keep, l)
		}
		x.batch = keep
	}
	ops := c.giveLIDs()
	if len(x.batch) == 0 && len(ops) == 0 {
		return false
	}
	for _, l := range x.batch {
		if l.state == stateRefused {
			l.become(stateRollingBack)
		} else if !l.hasFailed() {
			c.reportLease(l, subnet.LeaseMoving, failure{})
		}
	}
	c.tellLeases()
	c.enterStep(batchStore)
	if len(ops) > 0 {
		c.storeBatch(ops)
	}
	return true
}

// showsGUID reports whether the VPort at a place is up with a GUID.
func (c *Core) showsGUID(p subnet.Place, g ib.GUID) bool {
	_, v := c.function(p)
	return v != nil && v.State() >= ib.StateInit && v.InfoKnown() && v.Info().PortGUID == g
}

// ready reports whether a lease is to be part of the batch that is gathered. Where
// nothing is left to do, or it must wait, that is reported.
func (c *Core) ready(l *lease) bool {
	x := &c.leases
	if l.implied && l.hasFailed() && l.back != (subnet.Place{}) && l.held == (subnet.Place{}) && !c.showsGUID(l.back, l.GUID) && c.showsGUID(l.Place, l.GUID) {
		l.become(stateWaiting)
		l.back = subnet.Place{} // its host says where it is
	}
	c.letGo(l)
	t := l.target()
	if t == (subnet.Place{}) {
		if l.held != t || l.floats != 0 || !c.floatLeft(l) || l.unwanted() && c.lidLeads(l) {
			return true
		}
		c.settle(l)
		return false
	}
	refuse := func(cause subnet.Cause, why string) bool {
		if !l.hasFailed() {
			l.fail(failure{cause, why})
			l.back = l.held
			if l.target() != t {
				return c.ready(l)
			}
		}
		c.settle(l)
		return false
	}
	look := func(cause subnet.Cause, why string) bool { // it is about to be known
		if l.hasFailed() {
			c.settle(l)
		} else {
			c.reportLease(l, subnet.LeaseWaiting, failure{cause, why})
		}
		return false
	}
	wait := func(cause subnet.Cause, why string) bool {
		if x.hold[t] == l && l.held == (subnet.Place{}) && l.back != (subnet.Place{}) && !l.hasFailed() {
			c.turnRound(l, failure{cause, why})
			return false
		}
		return look(cause, why)
	}
	if o := x.wants[t]; o != nil && o != l && !l.hasFailed() && !l.implied {
		return refuse(subnet.CauseFunctionTaken, "function "+t.String()+" is kept for GUID "+o.GUID.String())
	}
	p := c.EndPort(t.Port)
	if p == nil {
		return wait(subnet.CausePortAbsent, "port "+t.Port.String()+" is not in the subnet")
	}
	a, v := c.function(t)
	switch {
	case a == nil && p.Info.GUIDCap > 1, a != nil && a.Model() == subnet.SharedPort:
		return c.readyShared(l, p, refuse)
	case a == nil:
		return wait(subnet.CauseNoFunctions, "port "+t.Port.String()+" has no virtual functions")
	case a.Refused():
		return wait(subnet.CauseFunctionsUnusable, "the virtual functions of port "+t.Port.String()+" cannot be used")
	case !a.Known():
		x.unread = x.unread || !a.Failing()
		return look(subnet.CauseFunctionsUnread, "the virtual functions of port "+t.Port.String()+" are not known yet")
	case t.Function == 0 || int(t.Function) > a.Functions():
		return refuse(subnet.CauseNoSuchFunction, "port "+t.Port.String()+" has no function "+strconv.Itoa(int(t.Function))+", only 1 to "+strconv.Itoa(a.Functions()))
	case c.physical(l.GUID) != nil:
		return refuse(subnet.CauseGUIDTaken, "GUID "+l.GUID.String()+" is the own one of a port of the subnet: give the interface another")
	case v == nil || v.State() < ib.StateInit:
		if !l.looked { // a trap may have been lost, or repressed
			l.looked, x.unread = true, true
			c.vports.Look(a.Ref(0))
		}
		return wait(subnet.CauseFunctionDown, "function "+t.String()+" is down: its hypervisor has not brought it up")
	case !v.InfoKnown():
		x.unread = x.unread || !v.Failing()
		return look(subnet.CauseFunctionUnread, "function "+t.String()+" has not been read yet")
	case a.Model() == subnet.VPorts && v.Info().PortGUID != l.GUID:
		return wait(subnet.CauseOtherGUID, "function "+t.String()+" has GUID "+v.Info().PortGUID.String()+": its hypervisor has not put the VM there")
	case !needsLID(a, v) && l.LIDKind != subnet.SharedLID:
		return refuse(subnet.CauseLIDKind, "function "+t.String()+" shares a LID (LIDRequired is 0), and one of its own is asked for: change the interface or the hypervisor")
	}
	if !needsLID(a, v) {
		if l.held != (subnet.Place{}) && l.held != t {
			return true // another function still has it
		}
		c.holdAt(l, t)
		c.vports.Look(a.Ref(t.Function))
		if c.inForce(l, a, v) {
			l.held = t
			c.settle(l)
			return false
		}
		return look(subnet.CauseComingUp, "function "+t.String()+" is being brought up")
	}
	own := c.lidOf(l)
	if x.hold[t] == l && own != 0 && (l.held == t || l.held == subnet.Place{}) && c.routedAt(own, t.Port) && c.lidFits(l, t) {
		c.vports.Look(a.Ref(t.Function))
		if c.inForce(l, a, v) {
			l.held = t
			c.settle(l)
		} else if !l.hasFailed() {
			c.reportLease(l, subnet.LeaseMoving, failure{})
		}
		return false
	}
	return true
}

// retryRefused tries refused leases again, as if they were set again: what was in the way may
// be gone. The address manager has no retries of its own; it sets a lease elsewhere, and so
// back, if the interface has another place.
func (c *Core) retryRefused() {
	x := &c.leases
	x.again = mad.Never
	tried := false
	for _, l := range x.list {
		if l.state == stateRefused && !l.implied {
			again := l.Lease
			c.putLease(&again)
			tried = true
		}
	}
	if tried {
		c.mergeAliases()
	}
}

// lidLeads reports whether a lease's own LID leads anywhere, and is not that of a function.
func (c *Core) lidLeads(l *lease) bool {
	own := c.lidOf(l)
	return own != 0 && c.ownerOf(own) != 0 && !c.placeLID(own)
}

// settle ends the work for a lease: it is where it is to be.
func (c *Core) settle(l *lease) {
	switch {
	case l.unwanted():
		c.forgetLease(l)
	case l.hasFailed():
		if !l.implied {
			c.leases.again = min(c.leases.again, c.Now.Add(c.Config.RetryInterval))
		}
		c.reportLease(l, subnet.LeaseRefused, l.failed)
	default:
		l.back = subnet.Place{}
		if l.held == l.Place {
			c.reportLease(l, subnet.LeasePlaced, failure{})
		}
	}
}

// leave has functions give up the addresses that are to go elsewhere. It reports
// whether that takes a phase.
func (c *Core) leave() bool {
	x := &c.leases
	c.enterStep(batchLeave)
	for _, l := range x.batch {
		if !l.leaving {
			continue
		}
		if l.target() != (subnet.Place{}) {
			c.holdEntry(l)
		}
		c.holdAt(l, subnet.Place{})
		x.leaves[l.held] = l
		c.lookPlace(l.held)
	}
	begun := c.unfloat()
	c.mergeAliases()
	return begun
}

// allLeft reports whether no function holds any of the addresses any more. One
// that is not in the subnet holds none: it is read when it comes back.
func (c *Core) allLeft() bool {
	x := &c.leases
	over := true
	for _, l := range x.batch {
		if !c.floatLeft(l) {
			over = false
		}
		if !l.leaving || l.held == (subnet.Place{}) {
			continue
		}
		if a, v := c.function(l.held); a == nil || v == nil || !v.Asked() && v.InfoKnown() && a.Model() != subnet.SharedPort && !c.heldBy(l, a, v) {
			l.held, l.back = subnet.Place{}, l.held
			continue
		}
		if !l.hasFailed() || l.target() != l.held {
			over = false
		}
	}
	if !over && !c.stepOver() {
		return false
	}
	keep := x.batch[:0]
	for _, l := range x.batch {
		if !c.floatLeft(l) {
			c.floatWaits(l)
			continue
		}
		if !l.leaving {
			keep = append(keep, l)
			continue
		}
		l.leaving = false
		if l.held == (subnet.Place{}) {
			delete(x.leaves, l.back)
			c.wake(l.back)
			keep = append(keep, l)
			continue
		}
		// It still holds it, or nobody knows: so it stays there.
		delete(x.leaves, l.held)
		if l.hasFailed() && l.target() != l.held {
			c.lookLease(l) // it has to
			continue
		}
		if x.hold[l.held] == nil {
			c.holdAt(l, l.held)
		}
		if l.unwanted() { // and is tried again
			x.retry = min(x.retry, c.Now.Add(c.Config.RetryInterval))
		}
		if !l.hasFailed() {
			l.fail(failure{subnet.CauseNotGivenUp, "function " + l.held.String() + ", which has the address, does not give it up"})
		}
		l.back = l.held
		c.lookPlace(l.held)
		c.lookLease(l)
	}
	x.batch = keep
	return true
}

// allRouted reports whether the LIDs of the batch lead to their places. What does not
// after a sweep turns round.
func (c *Core) allRouted() bool {
	x := &c.leases
	if c.wantSweep {
		return false
	}
	keep := x.batch[:0]
	for _, l := range x.batch {
		t := l.target()
		if t != l.aim { // it was set again meanwhile
			c.lookLease(l)
			continue
		}
		if own := c.lidOf(l); t != (subnet.Place{}) && own != 0 && !c.routedAt(own, t.Port) {
			l.port = l.back.Port
			c.turnRound(l, failure{subnet.CauseNoRoute, "no route leads to it: " + c.whyNoRoute()})
			continue
		}
		keep = append(keep, l)
	}
	x.batch = keep
	return true
}

// put has functions take the addresses. It reports whether that takes a phase.
func (c *Core) put() bool {
	x := &c.leases
	c.enterStep(batchPut)
	for _, l := range x.batch {
		if t := l.target(); t == l.aim && t != (subnet.Place{}) && !c.sharedPort(t.Port) {
			c.holdAt(l, t)
		}
	}
	for _, p := range x.fn.changed {
		if x.hold[p] == nil {
			c.lookPlace(p)
		}
	}
	x.fn.changed = x.fn.changed[:0]
	begun := c.float()
	c.mergeAliases()
	return begun
}

// allPut reports whether the functions hold the addresses. Those that do not
// answer are waited for, but not by the rest.
func (c *Core) allPut() bool {
	x := &c.leases
	done := true
	for _, l := range x.batch {
		t := l.target()
		if t == (subnet.Place{}) || t != l.aim || x.hold[t] != l {
			continue // it has turned round, or is at a shared port
		}
		switch a, v := c.function(t); {
		case a == nil || v == nil || v.State() < ib.StateInit:
			c.lookLease(l)
		case c.inForce(l, a, v):
			l.held = t
		default:
			done = false
		}
	}
	return done || c.stepOver()
}

// endBatch publishes what the batch did and reports it.
func (c *Core) endBatch() {
	x := &c.leases
	c.enterStep(batchIdle)
	c.floatsOver()
	for _, l := range x.batch {
		c.letGo(l)
		if t := l.target(); l.held == t {
			l.queued = false
			c.settle(l)
		}
		c.lookLease(l)
	}
	clear(x.batch)
	x.batch = x.batch[:0]
	if !c.floatSnap { // else tellLeases publishes more
		c.showNow()
	}
	c.tellLeases()
}

// dropMoves gives up what is under way: answers will not be seen.
func (c *Core) dropMoves() {
	x := &c.leases
	for _, l := range x.batch {
		l.leaving = false
		c.lookLease(l)
	}
	clear(x.leaves)
	x.batch, x.step, x.gen, x.saveErr = nil, batchIdle, 0, nil
	c.mv = moves{}
}
