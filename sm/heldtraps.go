package sm

import (
	"slices"
	"time"

	"heddle/ib"
	"heddle/mad"
	"heddle/sm/topo"
	"heddle/sm/work"
)

// The agent of a switch that has just sent a trap holds its next one back until the subnet
// time-out is over (PortInfo:SubnetTimeOut, 1.07 s by default; IBA §14.2.5.6). Of a link that
// goes down in that time nobody may hear: the trap of its other end may have to go over it. So
// such switches are peeked at until then.

// heldLook is the time between two peeks at such a switch: a fault is to be repaired within
// 200 ms, and a repair takes some 10.
const heldLook = 50 * time.Millisecond

// maxHeld bounds these switches. The light sweeps after a fault see the others.
const maxHeld = 64

// heldTraps is a switch whose next trap has to wait.
type heldTraps struct {
	guid  ib.GUID
	until mad.Time
}

// trapGap is how long an agent holds traps back.
func (c *Core) trapGap() time.Duration {
	return 4096 * time.Nanosecond << min(c.Config.SubnetTimeOut, 31)
}

// holdsTraps notes that a switch has sent a trap.
func (c *Core) holdsTraps(g ib.GUID) {
	h := heldTraps{g, c.Now.Add(c.trapGap())}
	if i := slices.IndexFunc(c.peeking.trappers, func(h heldTraps) bool { return h.guid == g }); i >= 0 {
		c.peeking.trappers[i] = h
	} else if len(c.peeking.trappers) < maxHeld {
		c.peeking.trappers = append(c.peeking.trappers, h)
	}
	if c.peeking.heldAt == mad.Never {
		c.peeking.heldAt = c.Now.Add(heldLook)
	}
}

// cutEndsHoldTraps notes the ends of links that a sweep of a region found to be down: those
// switches have sent traps, also where these got lost on the way.
func (c *Core) cutEndsHoldTraps() {
	for _, x := range c.reg.cut {
		for _, at := range x {
			if n := &c.Fabric.Nodes[at.Node]; n.IsSwitch() && n.Flags&topo.NodeGone == 0 && !c.Fabric.Port(at).Has(topo.PortLinked) {
				c.holdsTraps(n.Info.NodeGUID)
			}
		}
	}
}

// heldTimer is when the switches that hold traps back are to be peeked at.
func (c *Core) heldTimer() mad.Time {
	if !c.Running() || c.Fabric.Graph == nil || !c.BetweenSweeps() && !c.peekable() {
		return mad.Never
	}
	return c.peeking.heldAt
}

// lookHeld peeks at the switches that hold traps back.
func (c *Core) lookHeld() {
	c.peeking.trappers = slices.DeleteFunc(c.peeking.trappers, func(h heldTraps) bool { return h.until <= c.Now })
	c.peeking.heldAt = mad.Never
	if len(c.peeking.trappers) > 0 {
		c.peeking.heldAt = c.Now.Add(heldLook)
	}
	for _, h := range c.peeking.trappers {
		if n, ok := c.Fabric.Find(h.guid); ok && c.Fabric.Nodes[n].IsSwitch() {
			c.askBeside(work.Make(work.OpPeek, n, 0, 0), mad.Urgent)
		}
	}
}
