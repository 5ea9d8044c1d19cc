package sm

import (
	"slices"

	"heddle/mad"
	"heddle/sm/forward"
	"heddle/sm/topo"
)

// Requests that are canceled may have been carried out. What they were about is in
// doubt: it is forgotten here, and read by the next sweep, which takes its nodes over.

// carry is what a sweep of a region takes over from one that was broken off.
type carry struct {
	nodes []int32 // of Core.f: in doubt, or not finished
	moved bool    // the last snapshot does not show all that changed
	wide  bool    // the whole fabric is to be set up
}

// doubt notes that an item was not finished. If its request was sent it may have been
// carried out, now or as long as a copy of it is under way.
func (c *Core) doubt(it item, sent bool) {
	if it.node() < 0 {
		return
	}
	nd := &c.f.Nodes[it.node()]
	c.carryNode(it.node())
	switch it.op() {
	case opSetLFT:
		if l := nd.LFT; l != nil && sent {
			l.Forget(int(it.extra()))
			forward.BitSet(&l.Suspect, int(it.extra()))
			c.auditAt = c.now.Add(mad.LateCopy)
		}
	case opSetMFT:
		if nd.MFT != nil && sent {
			delete(nd.MFT.Blocks, forward.MulticastKey(uint16(it.extra()), it.port()))
			c.mftChanged(it.node(), uint16(it.extra()))
		}
	case opSetSL, opSetArb:
		if sent {
			c.laneDoubt(it)
		}
	case opSetSwitch:
		if !sent {
			return
		}
		if it.extra() != 1 && nd.LFT != nil {
			nd.LFT.Raised = c.topWanted()
		}
		c.suspect(nd.Info.NodeGUID, wholeSwitch) // PortStateChange may be cleared, or the top raised
	case opPortAgain: // what it was to find out is not known
		if nd.IsSwitch() {
			c.suspect(nd.Info.NodeGUID, wholeSwitch)
		} else {
			c.suspect(nd.Info.NodeGUID, it.port())
		}
	}
}

// laneDoubt notes that a lane table may have been written.
func (c *Core) laneDoubt(it item) {
	if it.op() == opSetArb {
		c.holdArb(it.node(), it.port(), it.extra(), 0)
		return
	}
	if c.inTransition() {
		c.laneDoubted(it)
	}
	if !c.f.Nodes[it.node()].IsSwitch() {
		c.holdSL(it.node(), 0, it.port(), 0)
		return
	}
	c.eachLane(it, func(k laneKey) { c.holdSL(it.node(), k.in, k.out, 0) })
}

func (c *Core) carryNode(n int32) {
	if c.f.Nodes[n].Flags&topo.NodeGone == 0 && !slices.Contains(c.carry.nodes, n) {
		c.carry.nodes = append(c.carry.nodes, n)
	}
}

// takeOver makes what a broken-off sweep left part of the region.
func (c *Core) takeOver() {
	for _, n := range c.carry.nodes {
		if c.f.Nodes[n].Flags&topo.NodeGone == 0 {
			c.touch(n)
		}
	}
	c.reg.moved, c.reg.wide = c.carry.moved, c.carry.wide
	c.carry = carry{nodes: c.carry.nodes[:0]}
}

// stopMove gives up a move of LIDs, because of a fault. The sweep that follows routes the
// LIDs to where they are to be, from what is installed.
func (c *Core) stopMove() {
	m := &c.mv
	c.resumeAt = mad.Never
	if m.step == moveFloat {
		// A port that did not answer may have taken the LID: the placement is rolled
		// back.
		c.unanswered(func(item, bool) { c.errs++ })
		c.floatsSet()
		return
	}
	c.unanswered(c.doubt)
	c.past.Abandon(c.now)
	c.unfinished = c.unfinished || m.step != moveJob
	c.dist = distribution{}
	why := c.sweepWhy
	c.moveBySweep(why, c.errs > m.errs)
	c.sweepWhy = why
}
