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
	for _, u := range [...]mad.Time{c.install.Next(), c.traps.Next(), c.mastership.Next(), c.pkeys.NextMembers(), c.takeover.Next()} {
		t = min(t, u)
	}
	t = min(t, c.agenda.InterruptAt(), c.unstored.retryAt)
	if c.Phase == notice.PhaseLight || c.peeks.Useful() {
		t = min(t, c.light.Next())
	}
	t = min(t, c.peeks.Next(), c.hurry.Next(c.peeks.Progressed()), c.breaking.at, c.heldTimer())
	if c.Phase == notice.PhaseIdle {
		t = min(t, c.idleTimer())
		if c.MayUpkeep() {
			t = min(t, c.guids.Next(), c.lanes.Next(), c.pkeys.Next(), c.vports.Next(), c.placements.Next())
		}
	}
	return t
}

// onTimers does what has come due.
func (c *Core) onTimers() {
	c.traps.Due()
	c.mastership.Due()
	c.pkeys.RetryMembers()
	c.install.Due()
	if c.unstored.retryAt <= c.Now && !c.sweep.persistWait {
		c.saveAgain()
	}
	if c.peeks.Next() <= c.Now {
		c.peeks.Stalled()
	}
	if c.hurry.Next(c.peeks.Progressed()) <= c.Now {
		c.hurry.Send()
	}
	if c.heldTimer() <= c.Now {
		c.traps.Look()
	}
	if c.breaking.at <= c.Now {
		c.breaking.at = mad.Never
		if c.breakable() {
			c.breakOff(c.breaking.why)
		}
	}
	if c.Phase == notice.PhaseLight && c.light.Next() <= c.Now {
		c.light.AskSwitches() // some owe answers; the others are asked in time all the same
	}
	if c.Phase != notice.PhaseIdle {
		return
	}
	switch {
	case c.schedule.reactivateAt <= c.Now:
		c.schedule.reactivateAt = mad.Never
		c.AskFullSweep("the manager's port had no link")
	case c.schedule.retryAt <= c.Now:
		c.schedule.retryAt = mad.Never
		c.AskFullSweep("retry of nodes and ports that were excluded")
	case c.links.NextRelease() <= c.Now:
		c.releaseLinks()
	case c.nextImprovement() <= c.Now:
		c.router.Improve()
	case c.schedule.fullAt <= c.Now:
		c.schedule.fullAt = mad.Never
		c.AskFullSweep("the interval of full sweeps has passed")
	case c.light.NextAudit() <= c.Now:
		c.startAudit()
	case c.light.Next() <= c.Now:
		c.startLight()
	}
}

// heldTimer is when switches that hold traps back are asked for news: while faults are dealt with,
// and what switches say is comparable with what is known of them.
func (c *Core) heldTimer() mad.Time {
	if !c.Running() || c.Fabric.Graph == nil || !c.BetweenSweeps() && !c.peeks.Useful() {
		return mad.Never
	}
	return c.traps.NextLook()
}

// peek sends the peeks that are due.
func (c *Core) peek() {
	c.peeks.Send()
	if c.light.Next() <= c.Now && c.peeks.Useful() {
		c.light.Postpone()
		c.peeks.All()
	}
}
