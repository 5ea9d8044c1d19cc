package sm

import (
	"heddle/sm/job"
	"heddle/sm/notice"
)

// The phases of a sweep from reading tables back to setting up lanes. What is read, computed and
// written is decided by sm/install, sm/routing and sm/lane; Core takes the sweep from one to the
// next.

// takeTables joins the switches that were discovered with what is known of their tables.
func (c *Core) takeTables() {
	if c.install.Discovered(c.links.SMLID(), c.agenda.Audit()) {
		c.router.Change()
	}
}

// needReadback reports whether tables are to be read back before a job.
func (c *Core) needReadback() bool { return c.install.MustRead() || c.groups.MustRead() }

// readBack reads the blocks that are not known, and ends when they are.
func (c *Core) readBack() bool {
	if c.router.Reading() {
		return false // a stale job reads the rows that answers would change; its result comes first
	}
	if c.Total == 0 {
		c.install.ReadBack()
		c.groups.ReadBack()
		c.install.ReadBackLanes()
		if c.Pending > 0 {
			return true
		}
	}
	c.enter(notice.PhaseRoute)
	return true
}

// routed takes the result of the job of a sweep.
func (c *Core) routed() bool {
	if c.sweep.persistWait {
		return false
	}
	if !c.router.Changed() {
		return c.startLanes() // a region sweep found nothing that changes tables
	}
	if !c.router.Asked() {
		c.router.Start()
		return false
	}
	r := c.router.Result()
	if r == nil {
		return false
	}
	c.router.Tell(r)
	c.chooseLevel(r)
	switch {
	case c.Config.PlanOnly:
		c.emitPlan(r)
	case !c.router.Accept(r):
		c.sweep.refused = true
		c.endSweep()
	case c.needLanesFirst():
		c.install.Await(r)
		c.enter(notice.PhaseLanes)
		c.lanes.StartFirst()
	default:
		c.distribute(r)
	}
	return true
}

// emitPlan ends a run that only plans.
func (c *Core) emitPlan(r *job.Result) {
	p := c.router.Plan(r, c.links, c.mastership.Master())
	c.install.Want(r.Tables)
	c.enter(notice.PhaseIdle)
	c.agenda.Drop()
	c.Publish()
	p.Snapshot = c.Snapshot
	c.out.Plan = p
	c.Notify(notice.Notice{Kind: notice.KindSweepEnd, Level: notice.Info, Text: "plan complete; nothing was written"})
}

// distribute begins the transition to the tables of a job.
func (c *Core) distribute(r *job.Result) {
	c.install.Begin(r, func(failed string) {
		if failed != "" {
			c.endSweep()
			return
		}
		c.startLanes()
	})
}

// needLanesFirst reports whether lanes have to be set up before the tables that need them are
// written: the subnet used tables with one lane so far.
func (c *Core) needLanesFirst() bool {
	c.lanes.Unmap()
	return c.lanes.Matter() && !c.lanes.SetUp() && !c.FirstSweep && !c.install.Quiet()
}

// startLanes begins the phase in which SL-to-VL and VL arbitration tables are set up.
func (c *Core) startLanes() bool {
	c.enter(notice.PhaseLanes)
	c.lanes.Start()
	return true
}

// lanesSet ends the phase of startLanes, or that before the first tables that need lanes.
func (c *Core) lanesSet() bool {
	if !c.lanes.First() {
		c.lanes.Done(c.router.Changed())
		c.startArm()
		return true
	}
	c.lanes.FirstDone()
	if c.Errs > 0 {
		c.endSweep()
	} else {
		c.distribute(c.install.Result())
	}
	return true
}
