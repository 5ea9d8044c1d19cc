package sm

import (
	"fmt"

	"heddle/ib"
	"heddle/sm/notice"
	"heddle/store"
	"heddle/subnet"
)

// Prepopulated vSwitches (§V-A of the vSwitch paper): every function has a LID from
// the time its adapter is found, which the engine routes, and a lease takes its LID
// along by changing it with that of the function that it goes to.

// always reports whether the functions of an adapter have LIDs whether they are
// used or not.
func (c *Core) always(a *adapter) bool {
	return c.Config.VSwitchPrepopulate && a.model == subnet.VSwitch
}

// lacksLIDs reports whether some function of an adapter is to have a LID and has none.
func (c *Core) lacksLIDs(a *adapter) bool {
	for i := 1; c.always(a) && i <= a.functions; i++ {
		if c.leases.fn.byPlace[subnet.Place{Port: a.port, Function: uint16(i)}] == 0 {
			return true
		}
	}
	return false
}

// lidFits reports whether a lease's LID is that of the function, if that has one.
func (c *Core) lidFits(l *lease, t subnet.Place) bool {
	a := c.virt.byPort[t.Port]
	return a == nil || !c.always(a) || c.leases.fn.byPlace[t] == l.lid
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
		for _, a := range c.virt.list {
			if a.at.Node < 0 || a.step != adapterKnown || !c.always(a) {
				continue
			}
			for i := 1; i <= a.functions; i++ {
				p := subnet.Place{Port: a.port, Function: uint16(i)}
				if fn.byPlace[p] != 0 || pass.up && !a.up(i) {
					continue
				}
				lid := ib.LID(0)
				if pass.shown {
					if lid = c.shownLID(a, i); lid == 0 {
						continue
					}
				} else if lid, ops = c.takeLID(false, ops); lid == 0 {
					short++
					continue
				}
				ops = append(ops, fn.set(p, lid))
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

// up reports whether a function is up.
func (a *adapter) up(i int) bool {
	return i < len(a.vports) && a.vports[i] != nil && a.vports[i].state >= ib.StateInit
}

// downRead reports whether functions that are down have been read too, where an earlier manager
// may have given them LIDs; those that do not answer are not waited for.
func (c *Core) downRead() bool {
	read := true
	for _, a := range c.virt.list {
		if a.at.Node < 0 || a.step != adapterKnown || !a.wasOn || a.tries > 0 || !c.always(a) {
			continue
		}
		for i := 1; i <= a.functions && i < len(a.vports); i++ {
			if v := a.vports[i]; v != nil && !v.seen && v.known&knowInfo == 0 && v.tries == 0 && v.refused == nil {
				c.lookVPort(vportRef{a, v.index})
				read = false
			}
		}
	}
	return read
}

// shownLID is the LID that a function shows, from an earlier manager, if it is free
// or that of the lease that is there.
func (c *Core) shownLID(a *adapter, i int) ib.LID {
	if i >= len(a.vports) || a.vports[i] == nil || a.vports[i].known&knowInfo == 0 {
		return 0
	}
	v := a.vports[i]
	lid := v.info.VPortLID
	if lid == 0 {
		return 0
	}
	sp := c.lidsInUse()
	if l := c.leases.byGUID[v.info.PortGUID]; (l == nil || l.lid != lid || c.placeLID(lid)) && !sp.free(lidRange{lid: lid}) {
		return 0
	}
	sp.take(lidRange{lid: lid})
	return lid
}

// swapPlaces has the function t have the LID of a lease: the function that has it
// gets that of t instead. A lease that has none yet takes t's, if no other lease does.
func (c *Core) swapPlaces(l *lease, t subnet.Place, ops []store.Op) ([]store.Op, failure) {
	fn := &c.leases.fn
	at := fn.byPlace[t]
	if at == 0 {
		if _, taken := fn.placeOf[l.lid]; l.lid == 0 || taken {
			return ops, failure{subnet.CauseNoLID, c.noLID()}
		}
		fn.changed = append(fn.changed, t)
		return append(ops, fn.set(t, l.lid)), failure{}
	}
	if l.lid == 0 {
		if fn.leaseOf[at] == nil {
			return append(ops, c.storeLID(l, at)...), failure{}
		}
		// Another lease, which is nowhere now, has it: one of the same port, if there is
		// any, as nothing needs routing then.
		for _, same := range [2]bool{true, false} {
			for _, p := range fn.places() {
				if p.Function > 0 && (p.Port == t.Port) == same && fn.leaseOf[fn.byPlace[p]] == nil && l.lid == 0 {
					ops = append(ops, c.storeLID(l, fn.byPlace[p])...)
				}
			}
		}
		if l.lid == 0 {
			return ops, failure{subnet.CauseNoLID, c.noLID()}
		}
	}
	if at == l.lid {
		return ops, failure{}
	}
	from, ok := fn.placeOf[l.lid]
	fn.changed = append(fn.changed, t)
	if !ok { // of the time before functions had LIDs
		c.lidsInUse().release(lidRange{lid: at})
		fn.fresh = true
		return append(ops, fn.set(t, l.lid)), failure{}
	}
	fn.changed = append(fn.changed, from)
	fn.set(t, 0)
	return append(ops, fn.set(from, at), fn.set(t, l.lid)), failure{}
}
