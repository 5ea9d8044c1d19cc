package sm

import (
	"heddle/sm/notice"
	"heddle/sm/work"
)

// press cuts the work between sweeps short if a sweep has waited for it long enough.
func (c *Core) press() {
	if c.agenda.PressAt() > c.Now {
		return
	}
	switch c.Phase {
	case notice.PhaseLight:
		c.stopLight()
	case notice.PhaseUpkeep:
		c.stopUpkeep()
	case notice.PhaseMove:
		c.stopMove()
	}
}

// unanswered calls fn for each item of the phase that is not finished, and cancels it;
// sent reports whether its request may have arrived. One that has not been built into a
// request is left out.
func (c *Core) unanswered(fn func(it work.Item, sent bool)) {
	var list []work.Item
	n := 0
	c.Engine.Pending(func(token uint64, sent bool) {
		it := work.Item(token)
		if it.Beside() {
			return
		}
		list = append(list, it)
		if sent {
			n = len(list)
		}
	})
	for c.Todo.N > 0 {
		list = append(list, c.Todo.Pop())
	}
	c.cancelAll()
	c.mastership.Canceled()
	for i, it := range list {
		fn(it, i < n)
	}
}

// stopUpkeep ends a portion of upkeep. What was asked is not known.
func (c *Core) stopUpkeep() {
	c.unanswered(func(it work.Item, sent bool) {
		switch it.Op() {
		case work.OpGetGUIDs, work.OpSetGUIDs:
			c.guids.Canceled(it, sent)
		case work.OpEnforce, work.OpEnforced:
			c.pkeys.Canceled(it)
		case work.OpReadSL, work.OpReadArb:
			c.lanes.Canceled(it)
		}
	})
	c.pkeys.DropAsked()
	c.vports.DropAsked()
	c.upkeepDone()
}

// cancelAll cancels all requests but those of package hurry, whose operation is the last.
func (c *Core) cancelAll() { c.Engine.Cancel(0, uint64(work.OpLate)<<56-1) }
