package sm

import (
	"heddle/mad"
	"heddle/sm/agenda"
	"heddle/sm/config"
	"heddle/sm/notice"
)

// A sweep is broken off when another fault interrupts paths: its plan is void, and what it waits for
// (drains, answers of a dead switch) keeps hosts cut off. The next sweep begins immediately. It
// covers the region of the new fault and what the first sweep had not finished, and plans from what
// switches hold: acknowledged blocks are known, and blocks whose Set was not answered are in doubt
// and are read back first.
//
// A sweep is broken off only if a port is read as down that leads to another switch, or to a node
// that owes an answer (package peek). It is not broken off for traps without news, hosts that come
// and go, and links that return: a new plan would only add waits. For those only a wait that repairs
// nothing is left (giveway.go).

// maxBreaks is how many sweeps in a row are broken off. The next one runs to its end: where faults
// never stop, changes with long drains would otherwise never end.
const maxBreaks = 8

// breakable reports whether the sweep under way may be broken off now.
func (c *Core) breakable() bool {
	if !c.Running() || c.breaking.count >= maxBreaks || c.Config.Transition == config.TransitionStatic2003 || c.sweep.persistWait {
		return false
	}
	switch c.Phase {
	case notice.PhaseDiscover:
		return !c.Region // a region is extended by the new fault
	case notice.PhaseAssign, notice.PhaseReadback, notice.PhaseRoute, notice.PhaseArm, notice.PhaseActivate:
		return true
	case notice.PhaseDiscard, notice.PhaseDrain, notice.PhaseDistribute, notice.PhaseTop:
		return c.install.Stoppable()
	case notice.PhaseLanes:
		return true
	}
	return false
}

// linkDown is called when a peek finds that a link to another switch is down.
func (c *Core) linkDown(n int32, why string) {
	// The switches around a dead one are about to answer too.
	soon := c.Now.Add(agenda.Patience)
	switch {
	case c.BetweenSweeps():
		c.router.Sign()
		c.agenda.SuspectNode(n)
		if c.traps.Hasten(soon) {
			c.agenda.Because(why)
		}
	case c.breaking.at == mad.Never:
		c.breaking.at, c.breaking.why = soon, why
		fallthrough
	default:
		c.agenda.AskRegion(n, why)
	}
}

// breakOff ends the sweep under way and begins the next.
func (c *Core) breakOff(why string) {
	c.breaking.count++
	c.breaking.at = mad.Never
	late := c.Phase != notice.PhaseDiscover
	if c.Phase == notice.PhaseDiscard || c.Phase == notice.PhaseDrain || c.Phase == notice.PhaseDistribute || c.Phase == notice.PhaseTop {
		c.unanswered(c.doubt) // those of the stage under way
		c.install.Stop()
	} else {
		c.unanswered(c.doubt)
	}
	if c.Phase == notice.PhaseLanes && c.lanes.CancelFirst() {
		c.install.Drop()
	}
	switch {
	case !late:
		c.agenda.ReadAll()
	case c.Region && !c.discovery.Wide():
		for _, n := range c.discovery.Nodes() {
			c.carryNode(n)
		}
	default:
		c.breaking.carry.Wide = true
	}
	if late {
		if !c.Region {
			c.discovery.ReportChanges()
			c.Last = nil
		}
		c.breaking.carry.Moved = true
		c.sweep.unfinished = c.sweep.unfinished || c.router.Changed() && c.Phase != notice.PhaseArm && c.Phase != notice.PhaseActivate
	}
	if c.Errs > 0 {
		c.agenda.ReadAll()
	}
	c.sweep.sound = true // the subnet is known; the next sweep takes over what is not finished
	c.router.BreakOff()
	c.install.WantServed() // so that snapshots show it until then
	c.endReport(why)
	c.startSweep(why)
}

// endReport reports a sweep that is broken off.
func (c *Core) endReport(why string) {
	r := c.Report
	r.Phases[c.Phase] += c.Now.Sub(c.PhaseStart)
	c.PhaseStart = c.Now
	r.Took = c.Now.Sub(c.sweep.start)
	c.statSweep(&r)
	r.Problems, r.Again, r.Broken = len(c.Fabric.Problems), true, true
	c.Notify(notice.Notice{Kind: notice.KindSweepEnd, Level: notice.Info, Dur: r.Took, Text: r.Summary() + "; broken off: " + why, Report: &r})
	c.sweep.lastReport = &r
}
