package sm

import (
	"fmt"

	"heddle/ib"
	"heddle/sm/lid"
	"heddle/sm/notice"
	"heddle/sm/vport"
	"heddle/store"
	"heddle/subnet"
)

// Prepopulated vSwitches (§V-A of the vSwitch paper): every function has a LID from
// the time its adapter is found, which the engine routes, and a lease takes its LID
// along by changing it with that of the function that it goes to.

// always reports whether the functions of an adapter have LIDs whether they are
// used or not.
func (c *Core) always(a *vport.Adapter) bool {
	return c.Config.VSwitchPrepopulate && a.Model() == subnet.VSwitch
}

// lacksLIDs reports whether some function of an adapter is to have a LID and has none.
func (c *Core) lacksLIDs(a *vport.Adapter) bool {
	for i := 1; c.always(a) && i <= a.Functions(); i++ {
		if c.lids.OfFunction(subnet.Place{Port: a.PortGUID(), Function: uint16(i)}) == 0 {
			return true
		}
	}
	return false
}

// lidFits reports whether a lease's LID is that of the function, if that has one.
func (c *Core) lidFits(l *lease, t subnet.Place) bool {
	a := c.vports.Adapter(t.Port)
	return a == nil || !c.always(a) || c.lids.OfFunction(t) == c.lidOf(l)
}

// prepopulate gives LIDs to the functions that have none. It reports whether leases have to
// wait: there are any, and a batch has begun, of no lease; or it is not known yet.
func (c *Core) prepopulate() bool {
	fn := &c.leases.fn
	if !c.Config.VSwitchPrepopulate || !fn.short {
		return false
	}
	if !c.downRead() {
		return true
	}
	var ops []store.Op
	short := 0
	// LIDs that functions show are theirs, before others are given out: first those of
	// functions that are up. Where a manager died while it moved one, the function that the VM
	// left may show it too.
	for _, pass := range [...]struct{ shown, up bool }{{true, true}, {true, false}, {false, false}} {
		for _, a := range c.vports.All() {
			if !a.Present() || !a.Known() || !c.always(a) {
				continue
			}
			for i := 1; i <= a.Functions(); i++ {
				p := subnet.Place{Port: a.PortGUID(), Function: uint16(i)}
				if c.lids.OfFunction(p) != 0 || pass.up && !functionUp(a, i) {
					continue
				}
				l := ib.LID(0)
				if pass.shown {
					if l = c.shownLID(a, i); l == 0 {
						continue
					}
				} else if l, ops = c.takeLID(false, ops); l == 0 {
					short++
					continue
				}
				ops = append(ops, c.setFunctionLID(p, l))
				fn.changed = append(fn.changed, p)
			}
		}
	}
	fn.short = short > 0
	if short > 0 && c.NoteOnce(fmt.Sprint("functions without a LID ", short)) {
		c.Notify(notice.Notice{Kind: notice.KindNoLID, Level: notice.Error, Text: fmt.Sprintf("%d virtual functions get no LID: %s", short, c.noLID())})
	}
	if len(ops) == 0 {
		return false
	}
	fn.fresh = true
	c.enterStep(batchStore)
	c.storeBatch(ops)
	return true
}

// functionUp reports whether a function is up.
func functionUp(a *vport.Adapter, i int) bool {
	return i < len(a.VPorts()) && a.VPorts()[i] != nil && a.VPorts()[i].State() >= ib.StateInit
}

// downRead reports whether functions that are down have been read too, where an earlier manager
// may have given them LIDs; those that do not answer are not waited for.
func (c *Core) downRead() bool {
	read := true
	for _, a := range c.vports.All() {
		if !a.Present() || !a.Known() || !a.WasOn() || a.Failing() || !c.always(a) {
			continue
		}
		for i := 1; i <= a.Functions() && i < len(a.VPorts()); i++ {
			if v := a.VPorts()[i]; v != nil && !v.Seen() && !v.InfoKnown() && !v.Failing() && !v.Refuses() {
				c.vports.Look(a.Ref(v.Index()))
				read = false
			}
		}
	}
	return read
}

// shownLID is the LID that a function shows, from an earlier manager, if it is free
// or that of the lease that is there.
func (c *Core) shownLID(a *vport.Adapter, i int) ib.LID {
	if i >= len(a.VPorts()) || a.VPorts()[i] == nil || !a.VPorts()[i].InfoKnown() {
		return 0
	}
	v := a.VPorts()[i]
	shown := v.Info().VPortLID
	if shown == 0 {
		return 0
	}
	sp := c.lids.InUse()
	if l := c.leases.byGUID[v.Info().PortGUID]; (l == nil || c.lidOf(l) != shown || c.placeLID(shown)) && !sp.Free(lid.One(shown)) {
		return 0
	}
	sp.Take(lid.One(shown))
	return shown
}

// swapPlaces has the function t have the LID of a lease: the function that has it
// gets that of t instead. A lease that has none yet takes t's, if no other lease does.
func (c *Core) swapPlaces(l *lease, t subnet.Place, ops []store.Op) ([]store.Op, failure) {
	fn := &c.leases.fn
	has, at := c.lidOf(l), c.lids.OfFunction(t)
	if at == 0 {
		if has == 0 || c.placeLID(has) {
			return ops, failure{subnet.CauseNoLID, c.noLID()}
		}
		fn.changed = append(fn.changed, t)
		return append(ops, c.setFunctionLID(t, has)), failure{}
	}
	if has == 0 {
		if c.lids.Placement(at) == 0 {
			return append(ops, c.lids.Give(l.GUID, at)...), failure{}
		}
		// Another lease, which is nowhere now, has it: one of the same port, if there is
		// any, as nothing needs routing then.
		for _, same := range [2]bool{true, false} {
			for _, p := range c.lids.Functions() {
				free := c.lids.OfFunction(p)
				if p.Function > 0 && (p.Port == t.Port) == same && c.lids.Placement(free) == 0 && has == 0 {
					has = free
					ops = append(ops, c.lids.Give(l.GUID, has)...)
				}
			}
		}
		if has == 0 {
			return ops, failure{subnet.CauseNoLID, c.noLID()}
		}
	}
	if at == has {
		return ops, failure{}
	}
	from, ok := c.lids.Function(has)
	fn.changed = append(fn.changed, t)
	if !ok { // of the time before functions had LIDs
		c.lids.InUse().Release(lid.One(at))
		fn.fresh = true
		return append(ops, c.setFunctionLID(t, has)), failure{}
	}
	fn.changed = append(fn.changed, from)
	c.setFunctionLID(t, 0)
	return append(ops, c.setFunctionLID(from, at), c.setFunctionLID(t, has)), failure{}
}
