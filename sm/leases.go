package sm

import (
	"cmp"
	"slices"
	"time"

	"heddle/ib"
	"heddle/mad"
	"heddle/sm/topo"
	"heddle/sm/vport"
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
// hold an address that is in use. From the moment at which a lease is set to the last of
// these steps snapshots show its GUID as they did before (leaseshow.go): who asks sees the
// old place or the new one. Graphs in which LIDs moved wait for the end of the batch.
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
	former map[ib.GUID]bool // of leases that ended: a shared port that is read later may hold them yet

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
	// again is when refused leases are tried again (retryRefused), the first of them
	// RetryInterval after it was refused.
	again mad.Time

	entries   map[subnet.Place]*heldEntry // what snapshots go on showing (leaseshow.go)
	entryList []*heldEntry
	entryEnd  mad.Time // when the first of them is over
	showDue   bool     // some of them was freed, and nothing published since
}

// lease is a Lease and how far it is carried out.
type lease struct {
	subnet.Lease
	state   placementState
	implied bool // no lease, but a VPort that asked for a LID, which stays with its GUID

	held subnet.Place // the function that holds it, as read or acknowledged
	back subnet.Place // the function that held it last
	// failed says why its place does not hold it, where its state says so.
	failed failure
	port   ib.GUID // where its LID is routed, or is to be: a port GUID; 0: nowhere
	floats ib.GUID // the shared port that has its LID, or is to have it
	// unfloats is the shared port that had it, and is to have its base LID again.
	unfloats ib.GUID
	smps     int  // LFT blocks of its last move
	atRisk   bool // a transient cycle was possible while it moved

	holds   subnet.Place // the function that is to hold it now: leases.hold
	aim     subnet.Place // of the batch: its target when that was gathered
	leaving bool         // of the batch: held is to give it up
	queued  bool         // in dirty
	looked  bool         // its place was asked whether it is up, since the lease was set
	told    subnet.LeaseReport
	entry   *heldEntry // what snapshots show of it while it is on its way
}

// failure says why a lease waits or is refused: for programs, and for people.
type failure struct {
	cause subnet.Cause
	why   string
}

// target is where a lease is to be now.
func (l *lease) target() subnet.Place {
	switch {
	case l.unwanted():
		return subnet.Place{}
	case l.hasFailed():
		return l.back
	}
	return l.Place
}

func newLeases() leases {
	return leases{
		byGUID: map[ib.GUID]*lease{}, wants: map[subnet.Place]*lease{}, hold: map[subnet.Place]*lease{},
		leaves: map[subnet.Place]*lease{}, floats: map[ib.GUID]*lease{}, former: map[ib.GUID]bool{}, retry: mad.Never, again: mad.Never,
		entries: map[subnet.Place]*heldEntry{}, entryEnd: mad.Never,
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
			if l.state != stateEnded && !l.implied && !named[l.GUID] {
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
		for _, a := range c.vports.All() {
			for _, v := range a.VPorts() {
				if v != nil && v.Index() > 0 {
					c.vports.Look(a.Ref(v.Index()))
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
		c.heldAsAlias(l)
	}
	l.Lease = *n
	l.Aliases = slices.Clone(n.Aliases)
	l.become(stateWaiting)
	l.implied, l.looked, l.failed = false, false, failure{}
	l.told = subnet.LeaseReport{}
	if n.Place != (subnet.Place{}) && x.wants[n.Place] == nil {
		x.wants[n.Place] = l
	}
	if l.port == 0 && c.lidOf(l) != 0 {
		l.port = n.Place.Port // a sweep may route it before functions have been read
	}
	if n.Place != (subnet.Place{}) {
		c.holdEntry(l)
	} else {
		c.freeEntry(l)
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
		c.lids.Claim(g)
	}
	x.byGUID[g] = l
	delete(x.former, g)
	x.list = append(x.list, l)
	return l
}

func (c *Core) dropLease(l *lease) {
	x := &c.leases
	if x.wants[l.Place] == l {
		delete(x.wants, l.Place)
		c.wake(l.Place)
	}
	if l.hasFailed() {
		l.become(stateEvicting)
	} else {
		l.become(stateEnding)
	}
	c.freeEntry(l)
	c.lookLease(l)
}

// virtual is the adapter of a place, nil if it is not in the subnet.
func (x *leases) virtual(c *Core, p subnet.Place) *vport.Adapter {
	if a := c.vports.Adapter(p.Port); a != nil && a.Present() {
		return a
	}
	return nil
}

// function is what is known of a place, nil if it is not in the subnet.
func (c *Core) function(p subnet.Place) (*vport.Adapter, *vport.Port) {
	a := c.leases.virtual(c, p)
	if a == nil || p.Function == 0 || int(p.Function) >= len(a.VPorts()) {
		return a, nil
	}
	return a, a.VPorts()[p.Function]
}

// lookLease has a lease looked at when the next batch is gathered.
func (c *Core) lookLease(l *lease) {
	if !l.queued && l.state != stateEnded {
		l.queued = true
		c.leases.dirty = append(c.leases.dirty, l)
	}
}

// lookPlace has the function of a place looked at, if it is there.
func (c *Core) lookPlace(p subnet.Place) {
	if a, v := c.function(p); a != nil && v != nil {
		c.vports.Look(a.Ref(p.Function))
	}
}

// wake has the lease that names a place looked at.
func (c *Core) wake(p subnet.Place) {
	if l := c.leases.wants[p]; l != nil {
		c.lookLease(l)
	}
}

// needsLID reports whether a function has a LID of its own.
func needsLID(a *vport.Adapter, v *vport.Port) bool {
	return a.Model() == subnet.VSwitch || a.Model() == subnet.VPorts && v.Info().LIDRequired
}

// heldBy reports whether a function is known to hold a lease's address, or part
// of it.
func (c *Core) heldBy(l *lease, a *vport.Adapter, v *vport.Port) bool {
	if v == nil || !v.InfoKnown() || a.Model() == subnet.VPorts && v.State() < ib.StateInit {
		return false
	}
	if own := c.lidOf(l); needsLID(a, v) && !c.always(a) && own != 0 && v.Info().VPortLID == own {
		return true
	}
	return v.Info().PortGUID == l.GUID && (a.Model() == subnet.VSwitch || v.State() >= ib.StateArmed)
}

// inForce reports whether a function holds a lease's address and may be used.
func (c *Core) inForce(l *lease, a *vport.Adapter, v *vport.Port) bool {
	own := c.lidOf(l)
	return v != nil && v.InfoKnown() && v.State() == ib.StateActive && v.Info().PortGUID == l.GUID &&
		(!needsLID(a, v) || v.Info().VPortLID == own && own != 0)
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

// letGo has the function that was about to hold a lease's address, or does and did
// not say so yet, give it up if the lease is to be elsewhere.
func (c *Core) letGo(l *lease) {
	p := l.holds
	if p == (subnet.Place{}) || l.held != (subnet.Place{}) || p == l.target() {
		return
	}
	c.holdAt(l, subnet.Place{})
	if c.mayHold(l, p) {
		l.held = p
	}
}

// mayHold reports whether a function may hold a lease's address, or part of it: it is
// known to, or a Set is on its way.
func (c *Core) mayHold(l *lease, p subnet.Place) bool {
	a, v := c.function(p)
	return v != nil && (v.Asked() || !v.InfoKnown() && v.State() >= ib.StateInit || c.heldBy(l, a, v))
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
	x.dropEntries()
	x.again = mad.Never
	x.dirty, x.batch, x.step, x.known, x.fn.short = nil, nil, batchIdle, false, true
	for _, l := range x.list {
		l.floats, l.unfloats = 0, 0
		l.held, l.holds, l.back, l.leaving, l.queued, l.told = subnet.Place{}, subnet.Place{}, subnet.Place{}, false, false, subnet.LeaseReport{}
		if l.state != stateEnded {
			l.port = l.Place.Port
			c.lookLease(l)
		}
	}
}

// physical finds the port of the fabric at hand whose own GUID is g.
func (c *Core) physical(g ib.GUID) *topo.Port { return c.EndPort(g) }

// endPortIndex is the index in the graph of the end port with a GUID, or -1.
func (c *Core) endPortIndex(g ib.GUID) int32 {
	f := c.Fabric
	if f == nil || f.Graph == nil {
		return -1
	}
	i, ok := slices.BinarySearchFunc(f.EndPort, g, func(pi int32, g ib.GUID) int { return cmp.Compare(f.Ports[pi].GUID, g) })
	if !ok || i >= len(f.Graph.EndPorts) {
		return -1
	}
	return int32(i)
}
