package sm

import (
	"heddle/sm/job"
	"heddle/sm/notice"
)

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
	if c.Config.PlanOnly {
		c.emitPlan(r)
		return true
	}
	if !c.router.Accept(r) {
		c.sweep.refused = true
		c.endSweep()
		return true
	}
	if c.needLanesFirst() {
		c.install.Await(r)
		c.enter(notice.PhaseLanes)
		c.lanes.StartFirst()
		return true
	}
	c.startDistribution(r)
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
