package sm

import (
	"time"

	"heddle/sm/notice"
	"heddle/sm/work"
)

// A sweep that was asked for does not wait until all requests of what goes on between
// sweeps are answered or have timed out: a dead switch, which is what it may be
// about, takes 3 s for each of them. It begins when nothing is under way any more, or
// at pressAt; then what is unanswered is canceled and asked again later.

// pressTime is how long a sweep that was asked for waits at most for what goes on
// between sweeps. The answers of a whole light sweep come within a few milliseconds
// (1,620 switches take 50 windows of round trips), so the neighbors of a dead switch
// join one region; a fault of which they tell must be handled within 100 ms.
const pressTime = 10 * time.Millisecond

// presses reports whether a sweep waits for a phase that may be cut short.
func (c *Core) presses() bool {
	switch c.Phase {
	case notice.PhaseLight, notice.PhaseUpkeep:
		return c.next.wanted
	case notice.PhaseMove:
		// Moves are asked for by people who wait, and their drains are bounded: only a
		// fault is more urgent.
		return c.next.wanted && c.next.urgent
	}
	return false
}

// press cuts what is between sweeps short if a sweep has waited long enough.
func (c *Core) press() {
	if !c.presses() || c.next.pressAt > c.Now {
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
