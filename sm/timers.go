package sm

import "heddle/mad"

// nextTimer is the earliest moment at which something is due.
func (c *Core) nextTimer() mad.Time {
	if c.stopping || !c.started {
		return mad.Never
	}
	t := c.eng.NextTimer()
	for _, u := range [...]mad.Time{c.resumeAt, c.trapAt, c.pollAt, c.pk.againAt} {
		t = min(t, u)
	}
	if c.presses() {
		t = min(t, c.pressAt)
	}
	if c.phase == PhaseLight || c.peekable() {
		t = min(t, c.lightAt)
	}
	t = min(t, c.stallAt(), c.breakAt, c.heldTimer())
	if c.phase == PhaseIdle {
		t = min(t, c.idleTimer())
		if c.mayUpkeep() {
			t = min(t, c.guids.retry, c.readDue(), c.pk.retry, c.pk.reread, c.virt.retry, c.leases.retry, c.leases.entryEnd)
		}
	}
	return t
}

// onTimers does what has come due.
func (c *Core) onTimers() {
	if c.trapAt <= c.now {
		c.trapAt = mad.Never
		c.lastTrapRun = c.now
		c.urgent = true
		c.ask(c.sweepWhy)
	}
	if c.pollAt <= c.now {
		c.onPollTimer()
	}
	c.membersAgain()
	if c.resumeAt <= c.now {
		c.resumeAt = mad.Never
		c.onResume()
	}
	if c.stallAt() <= c.now {
		c.lookAtPaths()
	}
	if c.heldTimer() <= c.now {
		c.lookHeld()
	}
	if c.breakAt <= c.now {
		c.breakAt = mad.Never
		if c.breakable() {
			c.breakOff(c.breakWhy)
		}
	}
	if c.phase == PhaseLight && c.lightAt <= c.now {
		c.lightSwitches() // some owe answers; the others are asked in time all the same
	}
	if c.phase != PhaseIdle {
		return
	}
	switch {
	case c.reactivate <= c.now:
		c.reactivate = mad.Never
		c.askSweep("our port had no link")
	case c.retryAt <= c.now:
		c.retryAt = mad.Never
		c.askSweep("trying again what was left out")
	case c.damped.Next() <= c.now:
		c.releaseDamped()
	case c.improveAt <= c.now:
		c.improveAt = mad.Never
		c.improving = true
		c.reroute("better tables than those in force are looked for")
	case c.fullAt <= c.now:
		c.fullAt = mad.Never
		c.askSweep("it is time for a full sweep")
	case c.auditAt <= c.now:
		c.auditAt = mad.Never
		c.startAudit()
	case c.lightAt <= c.now:
		c.lightAt = mad.Never
		c.startLight()
	}
}
