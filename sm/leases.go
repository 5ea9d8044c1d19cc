package sm

import (
	"cmp"
	"slices"
	"time"

	"heddle/ib"
	"heddle/mad"
	"heddle/subnet"
)

// Leases say which function is to hold an address (subnet.Lease). They are brought
// about in batches, between sweeps: all that can be done together is.
//
//	dirty ─► gather ─► stored ─► left ─► routed ─► put ─► published, reported
//
// gather (leasebatch.go) picks the leases that can be carried out now and gives
// LIDs; those are stored first. Then the functions that hold the addresses give
// them up, one Set(VPortInfo) each; only when all have, the LIDs' entries move
// (moves.go), and only when every switch that must change has acknowledged, the
// functions that are to hold them get them, one Set(VPortInfo) each. So no two functions ever
// hold an address that is in use. Snapshots are held back from the first of
// these steps to the last: who asks sees the old place or the new one.
//
// Where a function does not take what it is to hold, the lease turns round: the
// function where it was becomes its target, by the same way.

// leases is what a manager knows and does about leases.
type leases struct {
	given  bool // SetLeases was called: functions that no lease names are to hold nothing
	byGUID map[ib.GUID]*lease
	list   []*lease                // in the order in which they came; some may be gone
	gone   int                     // of list
	wants  map[subnet.Place]*lease // by the place that the lease names
	hold   map[subnet.Place]*lease // whose address a function holds, or is to hold now
	leaves map[subnet.Place]*lease // of the batch: whose address a function is to give up
	floats map[ib.GUID]*lease      // by port GUID: whose LID a shared port has, or is to have now
	dirty  []*lease                // to be looked at
	fn     functionLIDs

	known   bool // the functions that are up have been read in this mastership
	step    batchStep
	batch   []*lease
	gen     uint64   // of the stored LIDs that the batch waits for
	saveErr error    // why they could not be stored
	began   mad.Time // of the step
	unread  bool     // some place was being read when a batch was gathered
	settle  mad.Time // until then a batch waits for such places; 0: none does
	reports []subnet.LeaseReport
	retry   mad.Time // when something is due
}

// lease is a Lease and how far it is carried out.
type lease struct {
	subnet.Lease
	ended   bool // nobody wants it any more: once nothing holds it, it is gone
	gone    bool
	implied bool // no lease, but a VPort that asked for a LID, which stays with its GUID

	lid  ib.LID       // of its own; 0: none
	held subnet.Place // the function that holds it, as read or acknowledged
	back subnet.Place // the function that held it last
	// failed says why its place does not hold it; it is then to be at back again.
	failed string
	port   ib.GUID // where its LID is routed, or is to be: a port GUID; 0: nowhere
	floats ib.GUID // the shared port that has its LID, or is to have it
	smps   int     // LFT blocks of its last move

	holds   subnet.Place // the function that is to hold it now: leases.hold
	aim     subnet.Place // of the batch: its target when that was gathered
	leaving bool         // of the batch: held is to give it up
	queued  bool         // in dirty
	looked  bool         // its place was asked whether it is up, since the lease was set
	told    subnet.LeaseReport
}

// target is where a lease is to be now.
func (l *lease) target() subnet.Place {
	switch {
	case l.ended:
		return subnet.Place{}
	case l.failed != "":
		return l.back
	}
	return l.Place
}

func newLeases() leases {
	return leases{
		byGUID: map[ib.GUID]*lease{}, wants: map[subnet.Place]*lease{}, hold: map[subnet.Place]*lease{},
		leaves: map[subnet.Place]*lease{}, floats: map[ib.GUID]*lease{}, fn: newFunctionLIDs(), retry: mad.Never,
	}
}

// setLeases takes a change of the leases.
func (c *Core) setLeases(ev SetLeases) {
	x := &c.leases
	first := !x.given
	x.given = true
	if ev.All {
		named := make(map[ib.GUID]bool, len(ev.Put))
		for i := range ev.Put {
			named[ev.Put[i].GUID] = true
		}
		for _, l := range x.list {
			if !l.gone && !l.implied && !named[l.GUID] {
				c.dropLease(l)
			}
		}
	}
	for _, g := range ev.Drop {
		if l := x.byGUID[g]; l != nil && !l.implied {
			c.dropLease(l)
		}
	}
	// Places are given up before they are taken, so that two may change places.
	for i := range ev.Put {
		if l := x.byGUID[ev.Put[i].GUID]; l != nil && x.wants[l.Place] == l {
			delete(x.wants, l.Place)
			if l.Place != ev.Put[i].Place {
				c.lookPlace(l.Place) // it was not cleaned while it was wanted
			}
		}
	}
	for i := range ev.Put {
		c.putLease(&ev.Put[i])
	}
	c.mergeAliases()
	if first {
		for _, a := range c.virt.list {
			for _, v := range a.vports {
				if v != nil && v.index > 0 {
					c.lookVPort(vportRef{a, v.index})
				}
			}
		}
	}
}

func (c *Core) putLease(n *subnet.Lease) {
	x := &c.leases
	l := x.byGUID[n.GUID]
	if l == nil {
		l = c.newLease(n.GUID)
	}
	l.Lease = *n
	l.Aliases = slices.Clone(n.Aliases)
	l.implied, l.ended, l.looked, l.failed = false, false, false, ""
	l.told = subnet.LeaseReport{}
	if n.Place != (subnet.Place{}) && x.wants[n.Place] == nil {
		x.wants[n.Place] = l
	}
	if l.port == 0 && l.lid != 0 {
		l.port = n.Place.Port // a sweep may route it before functions have been read
	}
	c.lookLease(l)
	if l.held == n.Place {
		c.lookPlace(n.Place) // its aliases may be others
	}
}

// newLease begins to keep an address. Its LID is what the store has for it.
func (c *Core) newLease(g ib.GUID) *lease {
	x := &c.leases
	l := &lease{Lease: subnet.Lease{GUID: g}}
	if c.physical(g) == nil {
		l.lid = c.stored[g].lid
	}
	if l.lid != 0 {
		x.fn.leaseOf[l.lid] = l
	}
	x.byGUID[g] = l
	x.list = append(x.list, l)
	return l
}

func (c *Core) dropLease(l *lease) {
	x := &c.leases
	if x.wants[l.Place] == l {
		delete(x.wants, l.Place)
		c.wake(l.Place)
	}
	l.ended = true
	c.lookLease(l)
	// A VPort that asks for a LID keeps its address while it is there.
	if a := x.virtual(c, l.held); a != nil && a.model == subnet.VPorts && !l.ended {
		l.ended, l.implied = false, true
	}
}

// virtual is the adapter of a place, nil if it is not in the subnet.
func (x *leases) virtual(c *Core, p subnet.Place) *adapter {
	if a := c.virt.byPort[p.Port]; a != nil && a.at.Node >= 0 {
		return a
	}
	return nil
}

// function is what is known of a place, nil if it is not in the subnet.
func (c *Core) function(p subnet.Place) (*adapter, *vport) {
	a := c.leases.virtual(c, p)
	if a == nil || p.Function == 0 || int(p.Function) >= len(a.vports) {
		return a, nil
	}
	return a, a.vports[p.Function]
}

// lookLease has a lease looked at when the next batch is gathered.
func (c *Core) lookLease(l *lease) {
	if !l.queued && !l.gone {
		l.queued = true
		c.leases.dirty = append(c.leases.dirty, l)
	}
}

// lookPlace has the function of a place looked at, if it is there.
func (c *Core) lookPlace(p subnet.Place) {
	if a, v := c.function(p); a != nil && v != nil {
		c.lookVPort(vportRef{a, p.Function})
	}
}

// wake has the lease that names a place looked at.
func (c *Core) wake(p subnet.Place) {
	if l := c.leases.wants[p]; l != nil {
		c.lookLease(l)
	}
}

// reportLease tells how far a lease has come, if that is news.
func (c *Core) reportLease(l *lease, s subnet.LeaseState, why string) {
	if l.implied || l.ended {
		return
	}
	r := subnet.LeaseReport{GUID: l.GUID, Place: l.Place, State: s, Reason: why}
	if s == subnet.LeasePlaced {
		r.SMPs = l.smps
		if r.LID = l.lid; r.LID == 0 {
			r.LID = c.sharedLID(l.held)
		}
	} else if l.lid != 0 {
		r.LID = l.lid
	}
	same := r
	same.SMPs = l.told.SMPs
	if l.told == same && l.told.GUID != 0 {
		return
	}
	l.told = r
	c.leases.reports = append(c.leases.reports, r)
}

// sharedLID is the LID at which a function without one of its own is reached.
func (c *Core) sharedLID(p subnet.Place) ib.LID {
	if a, v := c.function(p); a != nil && v != nil && v.info.LIDByVPortIndex != 0 {
		if k := int(v.info.LIDByVPortIndex); k < len(a.vports) && a.vports[k] != nil && a.vports[k].info.LIDRequired {
			return a.vports[k].info.VPortLID
		}
	}
	if q := c.endPort(p.Port); q != nil {
		return q.lid
	}
	return 0
}

// needsLID reports whether a function has a LID of its own.
func needsLID(a *adapter, v *vport) bool {
	return a.model == subnet.VSwitch || a.model == subnet.VPorts && v.info.LIDRequired
}

// heldBy reports whether a function is known to hold a lease's address, or part
// of it.
func (c *Core) heldBy(l *lease, a *adapter, v *vport) bool {
	if v == nil || v.known&knowInfo == 0 || a.model == subnet.VPorts && v.state < ib.StateInit {
		return false
	}
	if needsLID(a, v) && !c.always(a) && l.lid != 0 && v.info.VPortLID == l.lid {
		return true
	}
	return v.info.PortGUID == l.GUID && (a.model == subnet.VSwitch || v.state >= ib.StateArmed)
}

// inForce reports whether a function holds a lease's address and may be used.
func (l *lease) inForce(a *adapter, v *vport) bool {
	return v != nil && v.known&knowInfo != 0 && v.state == ib.StateActive && v.info.PortGUID == l.GUID &&
		(!needsLID(a, v) || v.info.VPortLID == l.lid && l.lid != 0)
}

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
			return functionWant{lid: l.lid, guid: l.GUID, up: c.routedAt(l.lid, a.port), aliases: l.Aliases}
		case !x.given: // who sets leases has not said anything yet
			return functionWant{lid: v.info.VPortLID, guid: v.info.PortGUID, up: v.state >= ib.StateArmed, aliases: v.aliases()}
		case x.wants[p] != nil && x.wants[p].failed == "" && x.leaves[p] == nil && v.state < ib.StateArmed:
			// It is about to get an address; there is no need to clean it before.
			return functionWant{lid: v.info.VPortLID, guid: v.info.PortGUID}
		}
		return functionWant{lid: x.fn.byPlace[p]}
	}
	g := v.info.PortGUID
	if v.info.LIDRequired {
		if l == nil {
			if !x.known || !x.given && x.fn.leaseOf[v.info.VPortLID] == nil {
				return functionWant{lid: v.info.VPortLID, up: v.state == ib.StateActive, aliases: v.aliases()}
			}
			return functionWant{}
		}
		return functionWant{lid: l.lid, up: c.routedAt(l.lid, a.port), aliases: l.Aliases}
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
			if l.target() != p && l.failed == "" {
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
	if h := x.hold[p]; h != nil && h.implied && h.GUID != v.info.PortGUID && r.a.model == subnet.VPorts && v.state >= ib.StateInit {
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
	for i := 1; i <= max(a.functions, len(a.vports), maxGUIDs); i++ {
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
			l.Place, l.failed = p, "" // the VM moved
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

// holdAt has the function p, and no other, hold a lease's address; the zero Place:
// none.
func (c *Core) holdAt(l *lease, p subnet.Place) {
	x := &c.leases
	if l.holds == p {
		return
	}
	if old := l.holds; old != (subnet.Place{}) {
		delete(x.hold, old)
		c.lookPlace(old)
	}
	if l.holds = p; p != (subnet.Place{}) {
		if h := x.hold[p]; h != nil {
			h.holds = subnet.Place{} // it has left already
		}
		x.hold[p] = l
		c.lookPlace(p)
	}
}

// functionRefused is told when a VPort does not take what is wanted: err says why.
func (c *Core) functionRefused(r vportRef, err error) {
	l := c.leases.hold[r.place()]
	if l == nil {
		l = c.leases.leaves[r.place()]
	}
	if l == nil || l.failed != "" && l.target() == (subnet.Place{}) {
		return
	}
	why := "function " + r.place().String() + " does not take it: " + err.Error()
	if l.leaving {
		why = "function " + r.place().String() + " does not give it up: " + err.Error()
	}
	c.turnRound(l, why)
}

// turnRound has a lease be where it was, because its target cannot have it.
func (c *Core) turnRound(l *lease, why string) {
	t := l.target()
	if l.holds == t && l.held != t {
		c.holdAt(l, subnet.Place{})
	}
	switch {
	case l.failed != "":
		l.back = subnet.Place{} // neither here nor there
	case l.held != (subnet.Place{}):
		l.failed, l.back = why, l.held
	default:
		l.failed = why
	}
	// It may have taken part of the address, which it has to give up before.
	if a, v := c.function(t); l.held == (subnet.Place{}) && v != nil && (v.known&knowInfo == 0 && v.state >= ib.StateInit || c.heldBy(l, a, v)) {
		l.held = t
	}
	c.lookLease(l)
}

// settleLeases is how long leases wait for others that were set with them and whose
// places are being read, so that they move together.
const settleLeases = 20 * time.Millisecond

// stepLimit is how long a batch waits for a function that does not answer. Then it goes
// on without it.
const stepLimit = 3 * time.Second

// forgetLeases is for a new mastership: nothing is known of any function. Places
// stay what they are to be.
func (c *Core) forgetLeases() {
	x := &c.leases
	clear(x.hold)
	clear(x.leaves)
	clear(x.floats)
	x.dirty, x.batch, x.step, x.known, x.fn.short = nil, nil, batchIdle, false, true
	for _, l := range x.list {
		l.floats = 0
		l.held, l.holds, l.back, l.leaving, l.queued, l.told = subnet.Place{}, subnet.Place{}, subnet.Place{}, false, false, subnet.LeaseReport{}
		if !l.gone {
			l.port = l.Place.Port
			c.lookLease(l)
		}
	}
}

// physical finds the port of the fabric at hand whose own GUID is g.
func (c *Core) physical(g ib.GUID) *port { return c.endPort(g) }

// endPortIndex is the index in the graph of the end port with a GUID, or -1.
func (c *Core) endPortIndex(g ib.GUID) int32 {
	f := c.f
	if f == nil || f.graph == nil {
		return -1
	}
	i, ok := slices.BinarySearchFunc(f.epPort, g, func(pi int32, g ib.GUID) int { return cmp.Compare(f.ports[pi].guid, g) })
	if !ok || i >= len(f.graph.EndPorts) {
		return -1
	}
	return int32(i)
}
