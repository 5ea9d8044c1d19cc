package sm

import (
	"heddle/sm/notice"
	"heddle/sm/work"
)

// interrupt ends the phase between sweeps if a sweep has waited for it long enough.
func (c *Core) interrupt() {
	if c.agenda.InterruptAt() > c.Now {
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

// unanswered cancels all items of the phase that are not finished, and calls fn for each. sent
// reports whether the request of an item may have arrived.
func (c *Core) unanswered(fn func(it work.Item, sent bool)) {
	var list []work.Item
	n := 0
	c.Engine.Pending(func(token uint64, sent bool) {
		it := work.Item(token)
		if it.OutOfPhase() {
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

// stopUpkeep cancels the current batch of upkeep requests; their results remain unknown.
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
