package sm

import (
	"slices"

	"heddle/sm/topo"
	"heddle/sm/work"
)

// A request that is canceled may have been carried out. What it would have changed is in doubt: the
// parts forget it, and the next sweep reads it, because the nodes join its region.

// doubt is called for each item that is canceled. If its request was sent it may have been carried
// out, or may be later, as long as a copy of it is in the network.
func (c *Core) doubt(it work.Item, sent bool) {
	if it.Node() < 0 {
		return
	}
	nd := &c.Fabric.Nodes[it.Node()]
	c.carryNode(it.Node())
	switch it.Op() {
	case work.OpSetLFT, work.OpSetMFT:
		if sent {
			c.install.Doubt(it)
		}
	case work.OpSetSL, work.OpSetArb:
		if sent {
			c.lanes.Doubt(it)
		}
	case work.OpSetSwitch:
		if !sent {
			return
		}
		c.install.Doubt(it)
		c.agenda.SuspectSwitch(nd.Info.NodeGUID) // PortStateChange may be cleared, or LinearFDBTop raised
	case work.OpPortAgain: // the state of the port stays unknown
		if nd.IsSwitch() {
			c.agenda.SuspectSwitch(nd.Info.NodeGUID)
		} else {
			c.agenda.Suspect(nd.Info.NodeGUID, it.Port())
		}
	}
}

// carryNode has the next region sweep read a node.
func (c *Core) carryNode(n int32) {
	if c.Fabric.Nodes[n].Flags&topo.NodeGone == 0 && !slices.Contains(c.breaking.carry.Nodes, n) {
		c.breaking.carry.Nodes = append(c.breaking.carry.Nodes, n)
	}
}

// stopMove gives up a move of LIDs, because of a fault. The sweep that follows routes the LIDs to
// their new ports, starting from the installed tables.
func (c *Core) stopMove() {
	if c.mover.SettingPorts() {
		c.install.Cancel()
		// A port that did not answer may have taken its LID: the placement is rolled back.
		c.unanswered(func(work.Item, bool) { c.Errs++ })
		c.mover.PortsSet()
		return
	}
	c.unanswered(c.doubt)
	failing, writing := c.install.Stop(), c.mover.Writing()
	c.sweep.unfinished = c.sweep.unfinished || writing
	why := c.agenda.Why()
	c.mover.LeaveToSweep(why, writing && failing)
	c.agenda.Because(why)
}
