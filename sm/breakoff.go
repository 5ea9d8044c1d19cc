package sm

import (
	"slices"

	"heddle/fabric"
	"heddle/mad"
	"heddle/route/transition"
	"heddle/subnet"
)

// A sweep that is under way is broken off when another fault takes paths away: its plan
// is void, and what it waits for (drains, answers of a dead switch) keeps hosts cut off.
// The next sweep begins immediately. It covers the region of the new fault and what the
// first sweep had not finished, and plans from what switches hold: acknowledged blocks are
// known; blocks whose Set was not answered are in doubt and are read back first.
//
// A sweep is broken off only if a port is read as down that leads to another switch, or
// to a node that owes an answer (see peek.go). Traps without news, hosts that come and go,
// and links that return leave it alone: for them a new plan would only mean more waits.

// maxBreaks is how many sweeps in a row are broken off. Then one is carried through: where
// something fails all the time, changes with long drains would otherwise never end.
const maxBreaks = 8

// running reports whether the subnet is one in which faults matter more than the end
// of a sweep.
func (c *Core) running() bool {
	return c.state == subnet.Master && c.up && !c.firstTime && !c.waitHand && !c.cfg.PlanOnly && c.f != nil && c.f.Self != subnet.NoRef
}

// breakable reports whether the sweep under way may be broken off now.
func (c *Core) breakable() bool {
	if !c.running() || c.breaks >= maxBreaks || c.cfg.Transition == TransitionStatic2003 || c.persistWait {
		return false
	}
	switch c.phase {
	case PhaseDiscover:
		return !c.reg.on // regions take a new fault in
	case PhaseAssign, PhaseReadback, PhaseRoute, PhaseArm, PhaseActivate:
		return true
	case PhaseDiscard, PhaseDrain, PhaseDistribute, PhaseTop:
		// Where SL-to-VL tables are not known every plan begins with a stop of all traffic.
		return c.dist.res == nil || !c.dist.res.transition.LanesUnknown || c.dist.next == 0
	case PhaseLanes:
		return true
	}
	return false
}

// breakOff ends the sweep under way and begins the next.
func (c *Core) breakOff(why string) {
	c.breaks++
	c.breakAt = mad.Never
	late := c.phase != PhaseDiscover
	if c.phase == PhaseDiscard || c.phase == PhaseDrain || c.phase == PhaseDistribute || c.phase == PhaseTop {
		c.unanswered(c.doubt) // of the stage under way
		c.leaveTransition()
	} else {
		c.unanswered(c.doubt)
	}
	if c.phase == PhaseLanes && c.lanesPre {
		c.lanesPre, c.dist = false, distribution{}
	}
	switch {
	case !late:
		c.wantFull = true
	case c.reg.on && !c.reg.wide:
		for _, n := range c.reg.nodes {
			c.carryNode(n)
		}
	default:
		c.carry.wide = true
	}
	if late {
		if !c.reg.on {
			c.compare() // says what came and went
			c.last = nil
		}
		c.carry.moved = true
		c.unfinished = c.unfinished || c.changed && c.phase != PhaseArm && c.phase != PhaseActivate
	}
	c.wantFull = c.wantFull || c.errs > 0
	c.sound = true // but for that the fabric is known; what is not finished is carried over
	if c.anew {
		c.wantRoute = c.wantRoute || !c.improving
	}
	if c.improving {
		c.improving = false
		c.improveAt = c.now.Add(c.cfg.ImproveDelay)
	}
	if c.served != nil {
		c.wanted = c.served.tables // what hosts can learn until then
	}
	c.endReport(why)
	c.startSweep(why)
}

// endReport tells of a sweep that is broken off.
func (c *Core) endReport(why string) {
	r := c.report
	r.Phases[c.phase] += c.now.Sub(c.phaseStart)
	c.phaseStart = c.now
	r.Took = c.now.Sub(c.sweepStart)
	c.statSweep(&r)
	r.Problems, r.Again, r.Broken = len(c.f.Problems), true, true
	c.out.notify(Notice{Kind: KindSweepEnd, Level: Info, Dur: r.Took, Text: r.summary() + "; broken off: " + why, Report: &r})
	c.lastReport = &r
}

// leaveTransition leaves a transition between two of its stages, or in the middle of
// one.
func (c *Core) leaveTransition() {
	d := &c.dist
	if d.res != nil {
		c.past.Abandon(c.now)
		over := d.stages[:d.next]
		if c.phase != PhaseDrain && c.phase != PhaseTop {
			over = over[:max(d.next-1, 0)]
		}
		if slices.ContainsFunc(over, func(s transition.Stage) bool { return s.Repath > 0 }) && c.served != nil {
			// Hosts may have learned the new levels; the old ones stay in use.
			c.held = d.res.held.Next(c.wanted, fabric.Diff(c.f.Graph, c.served.graph), 0)
			c.heldAt = c.now
		}
		c.lanesUnsure = d.res.transition.LanesUnknown
	}
	c.dist = distribution{}
}
