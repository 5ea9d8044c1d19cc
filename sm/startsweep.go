package sm

import (
	"heddle/mad"
	"heddle/sm/discover"
	"heddle/sm/notice"
	"heddle/sm/work"
	"heddle/subnet"
)

// AskFullSweep implements env.Sweeper.
func (c *Core) AskFullSweep(why string) { c.agenda.AskFull(why) }

// AskSweep implements env.Sweeper.
func (c *Core) AskSweep(why string) { c.agenda.Ask(why) }

// startAskedSweep starts the demanded sweep, if there is one.
func (c *Core) startAskedSweep() bool {
	if !c.agenda.Wanted() || c.State == subnet.Standby || c.State == subnet.NotActive {
		return false
	}
	if c.takeover.Wanted() && c.beginTakeover() {
		return true
	}
	c.startSweep(c.agenda.Why())
	return true
}

// startSweep begins a sweep: of the region around the suspects if the rest of the subnet is known,
// else a full one.
func (c *Core) startSweep(why string) {
	c.discovery.EndRegion()
	c.traps.LeaveToSweep()
	part := c.mayExplore()
	c.cancelAll()
	c.pkeys.DropAsked()
	c.mastership.Canceled()
	groups := c.agenda.Begin()
	c.Errs, c.sweep.refused, c.unstored.failed = 0, false, false
	c.traps.SweepBegins()
	c.light.SweepBegins()
	c.install.NewSweep()
	if !part {
		c.schedule.retryAt = mad.Never // a region may not include what was excluded
	}
	c.breaking.at = mad.Never
	c.peeks.NewSweep()
	c.Report = notice.SweepReport{Reason: why, Region: part}
	c.sweep.sound = false
	c.router.NewSweep(groups || c.sweep.unfinished)
	c.sweep.unfinished = false
	c.Engine.Stats(&c.sweep.madBase)
	c.PhaseStart, c.sweep.start = c.Now, c.Now
	c.Notify(notice.Notice{Kind: notice.KindSweepStart, Level: notice.Info, Text: why})
	if !part {
		c.discovery.Full()
		return
	}
	c.regionLIDs = regionLIDs{}
	c.enter(notice.PhaseDiscover)
	c.discovery.Explore(c.agenda.Suspects(), c.breaking.carry)
	c.agenda.ClearSuspects()
	c.breaking.carry = discover.Carry{Nodes: c.breaking.carry.Nodes[:0]}
}

// mayExplore reports whether the next sweep may read a region only.
func (c *Core) mayExplore() bool {
	if c.agenda.ReadsAll() || !c.sweep.sound || !c.Up || c.State != subnet.Master || c.FirstSweep || c.WaitHandover || c.Config.PlanOnly {
		return false
	}
	return c.discovery.Explorable(c.agenda.Suspects())
}

// beginFull is called when a full discovery begins: what refers to the topology before is dropped.
func (c *Core) beginFull() {
	c.agenda.ClearSuspects()
	c.light.Forget()
	c.breaking.carry = discover.Carry{Nodes: c.breaking.carry.Nodes[:0]}
	c.Engine.Cancel(uint64(work.OpPeek)<<56, uint64(work.OpPeekPort)<<56|1<<56-1)
	c.router.ReadsAll()
	c.lanes.NewFabric()
	c.install.NewFabric()
	c.mastership.Forget()
	c.enter(notice.PhaseDiscover)
}

// discovered is called in a discovery when no item is pending.
func (c *Core) discovered() bool {
	switch c.discovery.Done() {
	case discover.More:
	case discover.Failed:
		c.endSweep()
	case discover.OwnMute:
		c.ownPortDown("PortInfo of the manager's port cannot be read")
	case discover.NoLink:
		c.ownPortDown("the manager's port has no link: check the cable; the port is read again every retry interval")
	case discover.Read:
		if c.Region {
			c.mastership.Refresh()
		}
		return c.decide()
	}
	return true
}

// joinRegion has the region that is being read extended by the suspects. It reports whether that
// is possible.
func (c *Core) joinRegion() bool {
	if c.agenda.NeedsFull() || !c.discovery.Join(c.agenda.Suspects()) {
		return false
	}
	c.agenda.ClearSuspects()
	return true
}

// ownPortDown ends a sweep in which our port had no link or could not be read, so that there is no
// subnet to manage. The port is read again after the retry interval.
func (c *Core) ownPortDown(text string) {
	c.Notify(notice.Notice{Kind: notice.KindPortDown, Level: notice.Error, Where: c.Fabric.Where(c.Fabric.Self.Node, int(c.Fabric.Self.Port)), Text: text})
	if c.State == subnet.Master {
		c.Up = false
		c.Last = nil
		c.pkeys.Forget()
		c.mastership.NoLink()
	}
	c.Errs = 0
	c.endSweep()
	c.schedule.retryAt = mad.Never
	c.schedule.reactivateAt = c.Now.Add(c.Config.RetryInterval)
}
