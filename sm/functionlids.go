package sm

import (
	"fmt"
	"slices"

	"heddle/ib"
	"heddle/sm/lid"
	"heddle/sm/notice"
	"heddle/sm/vport"
	"heddle/store"
	"heddle/subnet"
)

// LIDs of virtual functions come out of the space of those of ports (assign.go),
// whose order they follow: ports have been served when functions are found. The
// lowest that is free is taken; one that floats is the highest that is free. A LID is
// kept for as long as its lease, whether the function is there or not. LIDs of
// ports that are not there are given up when there is no other (as for ports).
//
// A LID belongs to a GUID, and is stored as those of ports are. Where vSwitches are
// prepopulated it belongs to a function as well (byPlace): a lease that takes its
// LID to another function leaves that one's LID behind.

// functionLIDs are the LIDs of functions.
type functionLIDs struct {
	fresh   bool           // LIDs came that the engine is to route
	floated []ib.GUID      // ports that have their base LID again, which is not stored
	short   bool           // functions that are to have LIDs may have none: prepopulate looks
	changed []subnet.Place // functions that have other LIDs, from when these are stored
}

// setFunctionLID gives a function its LID; 0 takes it away.
func (c *Core) setFunctionLID(p subnet.Place, l ib.LID) store.Op {
	c.leases.fn.short = c.leases.fn.short || l == 0
	return c.lids.SetFunction(p, l)
}

// loadFunctionLIDs takes the LIDs of virtual functions that the store held. What
// cannot be right is left out, and said.
func (c *Core) loadFunctionLIDs(list []store.Record) {
	c.Unsaved = append(c.Unsaved, c.lids.LoadFunctions(list, c.Config.VSwitchPrepopulate, func(err error) {
		c.Notify(notice.Notice{Kind: notice.KindLIDConflict, Level: notice.Warn, Err: err, Text: "a stored LID of a function is left out"})
	})...)
	// Leases are set before the start, when nothing was known of their LIDs.
	for _, l := range c.leases.list {
		if c.lids.Claim(l.GUID) && l.port == 0 {
			l.port = l.Place.Port
		}
	}
}

// placeLID reports whether a LID belongs to a function, whoever uses it.
func (c *Core) placeLID(l ib.LID) bool {
	_, ok := c.lids.Function(l)
	return ok
}

// takeFunctionLIDs takes the LIDs of functions out of a space that LIDs of ports
// are about to be given from. Those beyond its limit, because a switch came whose
// table is smaller, are lost.
func (c *Core) takeFunctionLIDs(sp *lid.Space) (ops []store.Op) {
	x := &c.leases
	c.lids.Recount()
	lost := func(who string, l ib.LID) {
		c.Notify(notice.Notice{
			Kind: notice.KindLIDConflict, Level: notice.Warn,
			Text: fmt.Sprintf("LID %d of %s cannot be kept: the smallest forwarding table holds LIDs below %d, or a port has it; it gets another", l, who, sp.Limit),
		})
	}
	for _, p := range c.lids.Functions() {
		l := c.lids.OfFunction(p)
		if p.Function == 0 {
			continue // its port is served first
		}
		if r := lid.One(l); sp.Free(r) {
			sp.Take(r)
			continue
		}
		lost("function "+p.String(), l)
		ops = append(ops, c.setFunctionLID(p, 0))
	}
	for _, l := range x.list {
		own := c.lidOf(l)
		if l.state == stateEnded || own == 0 {
			continue
		}
		r := lid.One(own)
		if sp.Free(r) {
			sp.Take(r)
			continue
		}
		if c.placeLID(own) {
			continue // it is that of the function that holds it
		}
		lost("GUID "+l.GUID.String(), own)
		ops = append(ops, c.loseLID(l)...)
	}
	return ops
}

// loseLID takes a lease's LID away. Whoever holds it gets another.
func (c *Core) loseLID(l *lease) []store.Op {
	l.port = 0
	c.lookLease(l)
	return c.lids.Lose(l.GUID)
}

// lidOf is the LID of a lease, 0 if it has none of its own.
func (c *Core) lidOf(l *lease) ib.LID { return c.lids.OfPlacement(l.GUID) }

// leaseOf is the lease that has a LID, nil if none has it.
func (c *Core) leaseOf(l ib.LID) *lease { return c.leases.byGUID[c.lids.Placement(l)] }

// takeLID takes a free LID for a function; 0: there is none, not even one of a port that
// is not there. It appends what is to be stored.
func (c *Core) takeLID(top bool, ops []store.Op) (ib.LID, []store.Op) {
	return c.lids.Take(top, func(g ib.GUID) bool { return c.EndPort(g) == nil && c.leases.byGUID[g] == nil }, ops)
}

// noLID says that there is no LID left, how many there are, and who has them.
func (c *Core) noLID() string {
	n := c.countLIDs()
	waiting := 0
	for _, l := range c.leases.list {
		if own := c.lidOf(l); l.state != stateEnded && own != 0 && !c.placeLID(own) && l.target() == (subnet.Place{}) {
			waiting++
		}
	}
	return fmt.Sprintf("no LID left: all %d that the smallest forwarding table holds are in use: %d by ports, %d by functions that always have one, %d by interfaces, %d of them without a place; "+
		"delete interfaces or take functions away, use a smaller LMC or switches with larger tables", n.Limit, n.Ports, n.Functions, n.Placements, waiting)
}

// countLIDs counts the LIDs that are assigned or kept.
func (c *Core) countLIDs() lid.Count {
	return c.lids.Count(func(g ib.GUID) bool { return c.leases.byGUID[g] != nil })
}

// adoptLID takes over a LID that a function shows, if nobody else has it.
func (c *Core) adoptLID(l *lease, shown ib.LID) {
	if c.lidOf(l) != 0 || l.LID != 0 && l.LID != shown || l.GUID == 0 {
		return
	}
	sp := c.lids.InUse()
	if !sp.Free(lid.One(shown)) {
		return
	}
	sp.Take(lid.One(shown))
	c.Save(c.lids.Give(l.GUID, shown))
}

// giveLIDs gives the leases of the batch that need one a LID. Those for which
// there is none leave the batch.
func (c *Core) giveLIDs() (ops []store.Op) {
	x := &c.leases
	keep := x.batch[:0]
	for _, l := range x.batch {
		t := l.target()
		if p := c.EndPort(t.Port); p != nil && t != (subnet.Place{}) && l.LIDKind == subnet.FloatingLID && c.sharedPort(t.Port) {
			var f failure
			if ops, f = c.giveFloating(l, p, ops); f.cause != 0 {
				c.refuseLease(l, f)
				continue
			}
			keep = append(keep, l)
			continue
		}
		a, v := c.function(t)
		if t == (subnet.Place{}) || a == nil || v == nil || !needsLID(a, v) {
			keep = append(keep, l)
			continue
		}
		var f failure
		if ops, f = c.giveLID(l, a, t, ops); f.cause != 0 {
			c.refuseLease(l, f)
			continue
		}
		keep = append(keep, l)
	}
	x.batch = keep
	return ops
}

// refuseLease takes a lease out of the batch, because it cannot be carried out.
func (c *Core) refuseLease(l *lease, f failure) {
	l.leaving = false
	l.fail(f)
	l.back = l.held
	c.settle(l)
	c.lookLease(l)
}

func (c *Core) giveLID(l *lease, a *vport.Adapter, t subnet.Place, ops []store.Op) ([]store.Op, failure) {
	sp := c.lids.InUse()
	has := c.lidOf(l)
	always := a != nil && c.always(a)
	if l.LID != 0 && has != l.LID && !l.hasFailed() {
		switch {
		case int(l.LID) >= c.lids.Limit():
			return ops, failure{subnet.CauseTableFull, fmt.Sprintf("LID %d is asked for, and the smallest forwarding table holds LIDs below %d only", l.LID, c.lids.Limit())}
		case has != 0 && l.held != (subnet.Place{}):
			return ops, failure{subnet.CauseLIDInUse, fmt.Sprintf("LID %d is asked for, and it has LID %d, which may be in use: detach it first", l.LID, has)}
		case always && c.placeLID(l.LID) && c.lids.Placement(l.LID) == 0: // a function's that nobody uses
		case !sp.Free(lid.One(l.LID)):
			return ops, failure{subnet.CauseLIDTaken, fmt.Sprintf("LID %d is asked for, and somebody else has it", l.LID)}
		}
		if has != 0 && !c.placeLID(has) {
			sp.Release(lid.One(has))
		}
		sp.Take(lid.One(l.LID))
		ops = append(ops, c.lids.Give(l.GUID, l.LID)...)
	}
	if always {
		return c.swapPlaces(l, t, ops)
	}
	if from, ok := c.lids.Function(c.lidOf(l)); ok { // which gets another in its turn
		ops = append(ops, c.setFunctionLID(from, 0))
		c.leases.fn.changed = append(c.leases.fn.changed, from)
	}
	if c.lidOf(l) == 0 {
		free, more := c.takeLID(l.LIDKind == subnet.FloatingLID, ops)
		if ops = more; free == 0 {
			return ops, failure{subnet.CauseNoLID, c.noLID()}
		}
		ops = append(ops, c.lids.Give(l.GUID, free)...)
	}
	return ops, failure{}
}

// maxFormer bounds leases.former; an address manager gives GUIDs again, so that this is
// more than there are in most subnets.
const maxFormer = 1 << 16

// forgetLease ends a lease that nothing holds any more.
func (c *Core) forgetLease(l *lease) {
	x := &c.leases
	if l.state == stateEnded {
		return
	}
	if c.lidOf(l) != 0 {
		c.Save(c.loseLID(l))
	}
	l.become(stateEnded)
	delete(x.byGUID, l.GUID)
	if !l.implied {
		if len(x.former) >= maxFormer {
			clear(x.former)
		}
		x.former[l.GUID] = true
	}
	if x.gone++; x.gone > 64 && x.gone > len(x.list)/2 {
		x.list = slices.DeleteFunc(x.list, func(l *lease) bool { return l.state == stateEnded })
		x.gone = 0
	}
}

// storeBatch has LIDs stored before they are used.
func (c *Core) storeBatch(ops []store.Op) {
	c.Save(ops)
	c.leases.gen, c.leases.saveErr = c.SaveGen, nil
}

// leasesSaved takes the answer.
func (c *Core) leasesSaved(ev Persisted) {
	x := &c.leases
	if x.gen == 0 || ev.Gen < x.gen {
		return
	}
	x.gen, x.saveErr = 0, ev.Err
	if ev.Err != nil {
		for _, l := range x.batch {
			c.reportLease(l, subnet.LeaseWaiting, failure{subnet.CauseNotStored, "its LID could not be stored: " + ev.Err.Error()})
		}
		x.retry = c.Now.Add(c.Config.RetryInterval)
		c.tellLeases()
	}
}
