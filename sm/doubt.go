package sm

import (
	"slices"

	"heddle/sm/topo"
	"heddle/sm/work"
)

// Requests that are canceled may have been carried out. What they were about is in
// doubt: it is forgotten here, and read by the next sweep, which takes its nodes over.

// doubt notes that an item was not finished. If its request was sent it may have been
// carried out, now or as long as a copy of it is under way.
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
		c.agenda.SuspectSwitch(nd.Info.NodeGUID) // PortStateChange may be cleared, or the top raised
	case work.OpPortAgain: // what it was to find out is not known
		if nd.IsSwitch() {
			c.agenda.SuspectSwitch(nd.Info.NodeGUID)
		} else {
			c.agenda.Suspect(nd.Info.NodeGUID, it.Port())
		}
	}
}

func (c *Core) carryNode(n int32) {
	if c.Fabric.Nodes[n].Flags&topo.NodeGone == 0 && !slices.Contains(c.breaking.carry.Nodes, n) {
		c.breaking.carry.Nodes = append(c.breaking.carry.Nodes, n)
	}
}

// stopMove gives up a move of LIDs, because of a fault. The sweep that follows routes the
// LIDs to where they are to be, from what is installed.
func (c *Core) stopMove() {
	if c.mover.SettingPorts() {
		c.install.Cancel()
		// A port that did not answer may have taken the LID: the placement is rolled
		// back.
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
