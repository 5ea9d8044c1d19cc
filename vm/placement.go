package vm

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"heddle/ib"
	"heddle/subnet"
)

// report processes a report of the subnet manager about a placement. A report about a place
// that is no longer requested is outdated.
func (c *Core) report(r *subnet.PlacementReport) {
	e := c.named[c.byGUID[r.GUID]]
	if e == nil || e.GUID != r.GUID {
		return
	}
	l, ok := e.placement()
	if !ok || l.Place != r.Place {
		return
	}
	if e.Doing == DoingAttach && e.Place.Function == 0 {
		return // the attach still waits for a function
	}
	e = c.learn(e, r)
	switch r.State {
	case subnet.PlacementPlaced:
		c.settle(e, r)
	case subnet.PlacementRefused:
		c.refused(e, r)
	case subnet.PlacementMoving, subnet.PlacementWaiting:
		c.update(e, func(e *entry) {
			e.Placement, e.Reason = r.State, cmpReason(r.Reason, e.why)
		})
		if r.State == subnet.PlacementWaiting && c.awaited(r.Place.Port) != "" && r.Place != (subnet.Place{}) {
			c.still(e.Name)
		}
	}
}

func cmpReason(reason, why string) string {
	if reason == "" {
		return why
	}
	return clip(reason)
}

// clip bounds a reason to what can be stored.
func clip(s string) string {
	s = strings.ToValidUTF8(s, "?")
	if len(s) <= maxReason {
		return s
	}
	return strings.ToValidUTF8(s[:maxReason-3], "") + "..."
}

// settle ends the operation of e: its address is at its place.
func (c *Core) settle(e *entry, r *subnet.PlacementReport) {
	doing := e.Doing
	n := c.update(e, func(n *entry) {
		n.Placement, n.Doing, n.anyFunction, n.before = subnet.PlacementPlaced, "", n.anyFunction && doing == "", Created
		switch doing {
		case DoingAttach:
			n.why = ""
		case DoingFinish:
			n.arrive()
			n.Blocks = r.SMPs
		case DoingDetach:
			n.State, n.Place, n.Dest, n.last, n.why = Detached, subnet.Place{}, subnet.Place{}, noMigration, ""
		}
		n.Reason = n.why
		switch {
		case n.Pinned:
		case n.GUIDKind == FunctionGUID && n.State == Detached:
			n.LID = 0 // it belonged to the function
		case r.LID.IsUnicast():
			n.LID = r.LID
		case n.LIDKind == subnet.SharedLID:
			n.LID = 0
		}
	})
	at := atLID(n)
	switch doing {
	case DoingAttach:
		c.tell("vm_attached", false, "interface %q (GUID %v) is at %v%s", n.Name, n.GUID, n.Place, at)
		c.end(n.Name, "", nil)
	case DoingFinish:
		with := ""
		if n.GUIDKind == FunctionGUID {
			with = " with GUID " + c.functions.guid[e.Place].String()
		}
		risk := ""
		if r.AtRisk {
			risk = "; a transient cycle was possible"
		}
		c.tell("vm_migrated", false, "interface %q (GUID %v) is at %v%s, before at %v%s; LFT blocks: %d%s", n.Name, n.GUID, n.Place, at, e.Place, with, r.SMPs, risk)
		c.end(n.Name, "", nil)
	case DoingRollBack:
		c.backAgain(n)
	case DoingDetach:
		c.tell("vm_detached", false, "interface %q (GUID %v) has no place any more (before: %v)", n.Name, e.GUID, e.Place)
		c.end(n.Name, "", nil)
	}
}

// backAgain reports that a migration was rolled back.
func (c *Core) backAgain(n *entry) {
	if n.why != "" {
		c.end(n.Name, DoingFinish, conflict("interface %q did not migrate and is at %v: %s", n.Name, n.Place, n.why))
	} else {
		c.tell("vm_rolled_back", false, "interface %q (GUID %v) stays at %v", n.Name, n.GUID, n.Place)
		c.end(n.Name, DoingFinish, conflict("interface %q was rolled back and is at %v", n.Name, n.Place))
	}
	c.end(n.Name, "", nil)
}

func atLID(e *entry) string {
	if e.LID == 0 {
		return ""
	}
	return fmt.Sprintf(", LID %d", e.LID)
}

// refused ends the operation of e: its place cannot hold the address, which stays at the old
// place.
func (c *Core) refused(e *entry, r *subnet.PlacementReport) {
	reason := clip(r.Reason)
	if reason == "" {
		reason = "the subnet manager gave no reason"
	}
	switch e.Doing {
	case DoingAttach:
		c.notAttached(e, refusal(e, r.Cause, reason))
	case DoingFinish:
		if !e.resumed {
			c.goBack(e, reason)
			return
		}
		c.stays(e, reason)
		c.still(e.Name)
	case DoingRollBack:
		n := c.update(e, func(n *entry) {
			n.Placement, n.Doing = subnet.PlacementRefused, ""
			n.why = clip(cmpReason(n.why, "rolled back") + "; and back where it was: " + reason)
			n.Reason = n.why
		})
		c.tell("vm_refused", true, "interface %q (GUID %v) cannot return to %v: %s", n.Name, n.GUID, n.Place, reason)
		c.end(n.Name, "", refusal(n, r.Cause, reason))
	case DoingDetach:
		n := c.update(e, func(n *entry) {
			n.Doing, n.why, n.Reason = "", clip("could not be detached: "+reason), clip("could not be detached: "+reason)
		})
		c.tell("vm_refused", true, "interface %q (GUID %v) cannot be detached from %v: %s", n.Name, n.GUID, n.Place, reason)
		c.end(n.Name, "", refusal(n, r.Cause, reason))
	default:
		c.stays(e, reason)
	}
}

// stays notes that the place of e refuses it. The subnet manager tries again.
func (c *Core) stays(e *entry, reason string) {
	n := c.update(e, func(n *entry) { n.Placement, n.Reason = subnet.PlacementRefused, reason })
	if e.Placement != subnet.PlacementRefused {
		l, _ := n.placement()
		c.tell("vm_refused", true, "interface %q (GUID %v) cannot be at %v: %s", n.Name, n.GUID, l.Place, reason)
	}
}

// refusal is a refusal of the subnet manager as an error.
func refusal(e *entry, cause subnet.Cause, reason string) error {
	if cause == subnet.CauseNoLID {
		return noRoom("interface %q: %s", e.Name, reason)
	}
	return conflict("interface %q: %s", e.Name, reason)
}

// notAttached ends an attach that is refused. The state of e is what it was before.
func (c *Core) notAttached(e *entry, err error) {
	n := c.update(e, func(n *entry) {
		n.State, n.before, n.Place, n.Doing, n.anyFunction = e.before, Created, subnet.Place{}, "", false
		n.why = clip(fmt.Sprintf("not attached to %v: %v", e.Place, err))
		n.Placement, n.Reason = subnet.PlacementRefused, n.why
	})
	c.tell("vm_refused", true, "interface %q (GUID %v) is %v: %s", n.Name, e.GUID, n.State, n.why)
	c.end(n.Name, "", err)
}

// goBack rolls back a migration that cannot be finished.
func (c *Core) goBack(e *entry, reason string) {
	n := c.update(e, func(n *entry) {
		n.why = clip(fmt.Sprintf("rolled back: it cannot be at %v: %s", e.Dest, reason))
		n.rollBack()
		n.Reason = n.why
	})
	c.tell("vm_rolled_back", true, "interface %q (GUID %v) is rolled back to %v, because it cannot be at %v: %s", n.Name, n.GUID, n.Place, e.Dest, reason)
}

// rollBack releases the destination of e. If its address may be there already, the subnet
// manager moves it back.
func (e *entry) rollBack() {
	if e.Doing == DoingFinish {
		e.Doing, e.Placement = DoingRollBack, subnet.PlacementMoving
	}
	e.State, e.Dest, e.last, e.anyFunction = Attached, subnet.Place{}, rolledBack, false
}

// snapshotChanged compares the operations in progress with a new state of the subnet. It continues
// those whose places appeared, and ends those whose places are gone.
func (c *Core) snapshotChanged() {
	for g := range c.fading {
		if c.snap == nil || c.snap.PortByGUID(g) < 0 {
			delete(c.fading, g)
		}
	}
	c.pool.look(c)
	c.changed = true
	if c.up() == nil || len(c.busy) == 0 {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(c.busy)) {
		switch e := c.named[name]; e.Doing {
		case DoingAttach:
			c.lookAttach(e)
		case DoingFinish:
			c.lookFinish(e)
		case DoingRollBack:
			if c.absent(e.Place.Port) {
				c.still(e.Name)
			}
		}
	}
}

func (c *Core) lookAttach(e *entry) {
	at, known, err := c.place(e, e.Place.Port, c.askedFunction(e, e.Place))
	if err == nil && known {
		err = c.bind(e, at)
	}
	switch {
	case err != nil:
		c.notAttached(e, err)
	case known && (at != e.Place || e.GUID == 0):
		c.update(e, func(n *entry) { n.Place, n.Placement, n.Reason = at, subnet.PlacementMoving, "" })
	case !known:
		if why := c.unknown(e.Place.Port); why != e.Reason {
			c.update(e, func(n *entry) { n.Reason = why })
		}
		if c.absent(e.Place.Port) {
			c.still(e.Name)
		}
	}
}

func (c *Core) lookFinish(e *entry) {
	if c.absent(e.Dest.Port) && e.resumed {
		c.still(e.Name)
		return
	}
	if c.absent(e.Dest.Port) {
		c.goBack(e, fmt.Sprintf("port %v is not in the subnet any more", e.Dest.Port))
		return
	}
	if at := c.follow(e); at != e.Dest {
		c.update(e, func(n *entry) { n.Dest = at })
	}
}

// askedFunction is the function to request at a place. If the core chose it, that is the one
// whose VPort shows the GUID, or else the chosen one.
func (c *Core) askedFunction(e *entry, at subnet.Place) uint16 {
	if !e.anyFunction || at.Function == 0 {
		return at.Function
	}
	return c.seen(e, at).Function
}

// follow is the destination of a migration, by what VPorts show now.
func (c *Core) follow(e *entry) subnet.Place {
	if !e.anyFunction {
		return e.Dest
	}
	return c.seen(e, e.Dest)
}

// seen is the free place on the port of at whose VPort shows the GUID of e, or at if there is
// none.
func (c *Core) seen(e *entry, at subnet.Place) subnet.Place {
	s, i := c.port(at.Port)
	if i < 0 || s.Ports[i].Adapter == nil || s.Ports[i].Adapter.Model != subnet.VPorts {
		return at
	}
	for k := range s.VPortsOf(i) {
		v := s.Ports[k]
		p := subnet.Place{Port: at.Port, Function: v.Virtual.Index}
		if v.GUID != e.GUID || v.Virtual.Index == 0 || int(v.Virtual.Index) > s.Ports[i].Adapter.Functions {
			continue
		}
		if p == at {
			return at
		}
		if _, taken := c.byPlace[p]; !taken {
			return p
		}
	}
	return at
}

// shownAt names, for messages, the end port of the subnet that has a GUID. It is empty if there
// is none, or if an interface may take the GUID over.
func (c *Core) shownAt(g ib.GUID) string {
	if c.snap == nil || c.fading[g] {
		return ""
	}
	i := c.snap.PortByGUID(g)
	if i < 0 {
		return ""
	}
	p := c.snap.Ports[i]
	node := c.snap.Nodes[p.Node].Desc
	if slices.ContainsFunc(c.snap.Kept, func(k subnet.Kept) bool { return k.Function && k.GUID == g }) {
		return "" // another manager gave it to an interface
	}
	switch {
	case p.GUID != g:
		return fmt.Sprintf("an alias GUID of port %v of %q", p.GUID, node)
	case p.Virtual == nil:
		return fmt.Sprintf("the GUID of port %d of %q", p.Num, node)
	}
	if a := c.snap.Ports[p.Virtual.Port].Adapter; a != nil && a.Model == subnet.VPorts {
		return "" // the hypervisor assigns it with the VM
	}
	return fmt.Sprintf("the GUID of virtual function %d of port %d of %q", p.Virtual.Index, p.Num, node)
}
