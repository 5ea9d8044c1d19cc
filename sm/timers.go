package sm

import (
	"heddle/mad"
	"heddle/sm/notice"
)

// nextTimer is the earliest moment at which something is due.
func (c *Core) nextTimer() mad.Time {
	if c.stopping || !c.started {
		return mad.Never
	}
	t := c.Engine.NextTimer()
	for _, u := range [...]mad.Time{c.install.Next(), c.trapAt, c.mastership.Next(), c.pkeys.NextMembers()} {
		t = min(t, u)
	}
	if c.presses() {
		t = min(t, c.pressAt)
	}
	if c.Phase == notice.PhaseLight || c.peekable() {
		t = min(t, c.lightAt)
	}
	t = min(t, c.stallAt(), c.hurryAt(), c.breakAt, c.heldTimer())
	if c.Phase == notice.PhaseIdle {
		t = min(t, c.idleTimer())
		if c.MayUpkeep() {
			t = min(t, c.guids.Next(), c.readDue(), c.pkeys.Next(), c.vports.Next(), c.placements.Next())
		}
	}
	return t
}

// onTimers does what has come due.
func (c *Core) onTimers() {
	if c.trapAt <= c.Now {
		c.trapAt = mad.Never
		c.lastTrapRun = c.Now
		c.urgent = true
		c.AskSweep(c.sweepWhy)
	}
	c.mastership.Due()
	c.pkeys.RetryMembers()
	c.install.Due()
	if c.stallAt() <= c.Now {
		c.lookAtPaths()
	}
	if c.hurryAt() <= c.Now {
		c.hurryUp()
	}
	if c.heldTimer() <= c.Now {
		c.lookHeld()
	}
	if c.breakAt <= c.Now {
		c.breakAt = mad.Never
		if c.breakable() {
			c.breakOff(c.breakWhy)
		}
	}
	if c.Phase == notice.PhaseLight && c.lightAt <= c.Now {
		c.lightSwitches() // some owe answers; the others are asked in time all the same
	}
	if c.Phase != notice.PhaseIdle {
		return
	}
	switch {
	case c.reactivate <= c.Now:
		c.reactivate = mad.Never
		c.AskFullSweep("our port had no link")
	case c.retryAt <= c.Now:
		c.retryAt = mad.Never
		c.AskFullSweep("trying again what was left out")
	case c.damped.Next() <= c.Now:
		c.releaseDamped()
	case c.routing.improveAt <= c.Now:
		c.routing.improveAt = mad.Never
		c.routing.improving = true
		c.reroute("better tables than those in force are looked for")
	case c.fullAt <= c.Now:
		c.fullAt = mad.Never
		c.AskFullSweep("it is time for a full sweep")
	case c.auditAt <= c.Now:
		c.auditAt = mad.Never
		c.startAudit()
	case c.lightAt <= c.Now:
		c.lightAt = mad.Never
		c.startLight()
	}
}
