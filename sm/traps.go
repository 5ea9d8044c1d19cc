package sm

import (
	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/sm/topo"
)

// cutEndsHoldTraps says that the switches at the ends of links that a region sweep found down have
// sent traps, even if these were lost on the way.
func (c *Core) cutEndsHoldTraps() {
	for _, x := range c.discovery.Cut() {
		for _, at := range x {
			n := &c.Fabric.Nodes[at.Node]
			if n.IsSwitch() && n.Flags&topo.NodeGone == 0 && !c.Fabric.Port(at).Has(topo.PortLinked) {
				c.traps.Holds(n.Info.NodeGUID)
			}
		}
	}
}

// SuspectLID implements trap.Sweeps.
func (l wiring) SuspectLID(lid ib.LID, whole bool) ib.GUID { return l.c.agenda.SuspectLID(lid, whole) }

// ReadAll implements trap.Sweeps.
func (l wiring) ReadAll() { l.c.agenda.ReadAll() }

// Join implements trap.Sweeps.
func (l wiring) Join() bool { return l.c.joinRegion() }

// Peek implements trap.Sweeps.
func (l wiring) Peek(node ib.GUID) { l.c.peeks.At(node) }

// Sign implements trap.Sweeps.
func (l wiring) Sign() { l.c.router.Sign() }

// Plan implements trap.Sweeps.
func (l wiring) Plan(why string) { l.c.agenda.Because(why) }

// Begin implements trap.Sweeps.
func (l wiring) Begin() {
	l.c.agenda.Urgent()
	l.c.agenda.Ask(l.c.agenda.Why())
}

// Deliver implements trap.Subscribers.
func (l wiring) Deliver(n smp.Notice, from mad.Addr) {
	l.c.out.Traps = append(l.c.out.Traps, Trap{Notice: n, From: from})
}
