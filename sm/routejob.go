package sm

import (
	"slices"
	"strconv"
	"time"

	"heddle/fabric"
	"heddle/mad"
	"heddle/route"
	"heddle/route/transition"
	"heddle/sm/config"
	"heddle/sm/job"
	"heddle/sm/notice"
	"heddle/subnet"
)

// routing is what the manager computed, and what it is to compute and when.
type routing struct {
	jobGen  uint64      // results of older generations are stale
	jobsOut int         // jobs whose results have not come back, stale ones too
	jobLast uint64      // generation of the last job asked for
	jobDone *job.Result // result to be taken; nil: there is none
	planJob *job.Job    // the last one, with PlanOnly
	result  *job.Result // of this sweep

	base       *job.Solution   // for the next job: the engine's last solution; nil: there is none
	localMoves []job.LocalMove // since base
	// moveAim has the tables to which the next sweep is to move LIDs, if it finds nothing else. No
	// engine computed them.
	moveAim *job.Solution
	engine  string   // whose tables are installed
	passed  []string // "engine: reason" of each engine before it in the chain
	transit string   // mode of the last transition, with the reason

	changed   bool // this sweep computes tables
	regrant   bool // LIDs have other owners than the graph says
	wantRoute bool // the next sweep computes tables from scratch, whatever it finds
	anew      bool // this sweep does
	rebalance bool // without regard to what is installed

	improving bool          // this sweep only looks for better tables
	improveAt mad.Time      // when the next one of these is due
	triedFor  *fabric.Graph // for which better tables than those of base were looked for
	rounds    job.Rounds    // for that graph
}

// installed is what the switches of the graph hold, as read back or
// acknowledged.
func (c *Core) installed() *route.Tables {
	t := c.install.Rows()
	t.Multicast = c.groups.Installed()
	return t
}

// startJob asks for tables. The result comes back as JobDone.
func (c *Core) startJob() {
	c.routing.jobGen++
	c.routing.jobsOut++
	c.routing.jobLast, c.routing.jobDone = c.routing.jobGen, nil
	inst := c.installed()
	opt := c.Config.Route
	opt.Seed, opt.MaxVLs = c.Config.RouteSeed, c.Config.MaxVLs
	if len(c.Config.Roots) > 0 {
		opt.Roots = c.Config.Roots
	}
	j := &job.Job{
		Gen: c.routing.jobGen, Graph: c.Fabric.Graph, Engines: c.Config.Engines, Explicit: c.Config.Explicit, AllowUnsafe: c.Config.AllowUnsafe,
		Options: opt, Mode: job.Full, Base: c.routing.base, Groups: c.groups.Route(), Installed: inst, Served: c.install.Served(),
		Transition: transition.Options{
			Quiet: c.install.Quiet(), SwitchLifetime: transition.Lifetime(c.Config.PacketLife),
			HOQLife: transition.Lifetime(max(c.Config.HOQLife, c.Config.LeafHOQLife)),
			SMPTime: c.meanRTT(), Window: c.Engine.Window(), RepathTime: max(c.Config.RepathTime, 0), MaxVLs: c.Config.MaxVLs,
			Recent: c.install.Recent(),
		},
	}
	j.Transition.Held = c.install.Held()
	var setUp bool
	j.Lanes, j.Transition.LanesUnknown, setUp = c.install.Lanes(j.Transition.Quiet)
	if !setUp {
		c.lanes.SetUpAnew()
	}
	if !j.Transition.Quiet {
		j.Transition.Frozen, j.Transition.Left = c.install.Outside()
		j.Transition.Lost = c.install.LostLinks()
	}
	j.Policy = c.Config.Transition
	j.PortGUID, j.DrainTime = c.Config.PortGUID, c.Config.DrainTime
	if c.routing.triedFor == c.Fabric.Graph {
		j.Rounds = c.routing.rounds
		j.Tried = true
	}
	j.Remembered = c.install.Remembered() > 0
	j.Patient = c.Running() && !c.routing.anew && c.Config.ImproveDelay > 0
	switch c.Config.Transition {
	case config.TransitionDiscard:
		j.Transition.Force = transition.ModeDiscard
	case config.TransitionStatic:
		j.Transition.Force = transition.ModeStatic
	case config.TransitionStatic2003:
		j.Transition.Quiet = true // every link is down while tables are written
	}
	if len(inst.LFT) > 0 && inst.TopLID > 0 {
		j.Options.Previous = inst
	}
	switch {
	case c.routing.rebalance:
		j.Options.Rebalance, j.Options.Previous = true, nil
	case c.routing.improving && c.Region:
		if c.routing.base == nil || c.routing.base.Graph != c.Fabric.Graph {
			// Something changed just now: that comes first.
			c.routing.improving, c.routing.anew = false, false
			j.Mode = job.Update
			break
		}
		j.Mode = job.Improve
	case c.Region && !c.routing.anew:
		j.Mode = job.Update
		if s := c.movedSolution(); s != nil {
			j.Base, j.EngineBase = s, c.routing.base
		} else {
			j.Local = slices.Clone(c.routing.localMoves)
		}
		j.MoveTo, c.routing.moveAim = c.routing.moveAim, nil
	}
	if c.Config.PlanOnly {
		c.routing.planJob = j
	}
	c.out.Jobs = append(c.out.Jobs, j)
}

// movedSolution is the solution in force where LIDs moved since the engine's, or the engine's
// is still to follow in rounds, and
// nothing else is to change but groups: nil otherwise. The engine would find other entries for
// those LIDs, and hosts would be told of other paths because a VM is in a group.
func (c *Core) movedSolution() *job.Solution {
	s := c.install.Current()
	if c.routing.base == nil || s == nil || c.routing.base.Graph == c.Fabric.Graph && c.routing.base.Tables == s.Tables || s.Proof == nil || s.Graph != c.Fabric.Graph || c.install.Served() == nil || c.install.Served().Tables != s.Tables {
		return nil
	}
	u := *s
	u.Engine, u.Passed, u.Report = c.routing.base.Engine, c.routing.base.Passed, s.Proof.Report()
	return &u
}

// meanRTT is the mean round trip of this manager's SMPs so far.
func (c *Core) meanRTT() time.Duration {
	var st mad.Stats
	c.Engine.Stats(&st)
	var sum time.Duration
	var n uint64
	for _, a := range st.Attrs {
		sum += a.RTTSum
		n += a.RTTCount
	}
	if n == 0 {
		return 0
	}
	return sum / time.Duration(n)
}

func (c *Core) onJobDone(r *job.Result) {
	c.routing.jobsOut--
	if r == nil || r.Gen != c.routing.jobGen {
		return // of a sweep that was given up
	}
	c.routing.jobDone = r
}

// routed takes the result of the job.
func (c *Core) routed() bool {
	if c.sweep.persistWait {
		return false
	}
	if !c.routing.changed {
		return c.startLanes() // of a sweep of a region that found nothing to route anew
	}
	r := c.routing.jobDone
	if r == nil {
		if c.routing.jobLast != c.routing.jobGen { // not asked for in this sweep
			c.startJob()
		}
		return false
	}
	c.routing.jobDone = nil
	c.routing.result = r
	if r.Fallback != "" {
		c.Notify(notice.Notice{Kind: notice.KindEnginePassed, Level: notice.Info, Text: "tables could not be carried over the change, all are computed anew: " + r.Fallback})
	}
	for _, p := range r.Passed {
		if c.NoteOnce("passed " + p) {
			c.Notify(notice.Notice{Kind: notice.KindEnginePassed, Level: notice.Info, Text: p})
		}
	}
	if r.Tables != nil && r.Tables.Note != "" && c.NoteOnce("note "+r.Tables.Note) {
		c.Notify(notice.Notice{Kind: notice.KindRouted, Level: notice.Warn, Text: r.Engine + ": " + r.Tables.Note})
	}
	for _, g := range r.Refused {
		c.groups.Refused(g.MLID, g.Reason)
	}
	c.Report.Engine, c.Report.PassedOver, c.Report.Updated = r.Engine, r.Passed, r.Updated
	if c.Config.PlanOnly {
		c.emitPlan(r)
		return true
	}
	c.startRepair(r)
	switch {
	case r.Tables == nil:
		text := "no engine's tables may be installed; what is installed stays as it is"
		if c.Config.Explicit {
			text = "the engine asked for has no tables that may be installed; what is installed stays: name another engine to take instead"
		}
		n := notice.Notice{Kind: notice.KindRouteRefused, Level: notice.Error, Err: r.Err, Text: text}
		if !c.NoteOnce("refused " + r.Err.Error()) {
			n.Level = notice.Debug // told before; it is still so
		}
		c.Notify(n)
		c.sweep.refused = true
		c.endSweep()
		return true
	case r.Unsafe != "":
		c.Notify(notice.Notice{Kind: notice.KindUnsafe, Level: notice.Error, Text: "tables of " + r.Engine + " are installed although they do not verify: " + r.Unsafe})
	}
	if r.Plan.Mode == transition.ModeRefused {
		// Our own lifetimes are limited (or this would not be offered), so
		// only an operator's unlimited ones lead here.
		c.Notify(notice.Notice{Kind: notice.KindRouteRefused, Level: notice.Error, Text: "the change of tables cannot be made safely: " + r.Plan.Reason})
		c.sweep.refused = true
		c.endSweep()
		return true
	}
	if c.routing.improving && c.routing.engine != r.Engine {
		c.Notify(notice.Notice{Kind: notice.KindRouted, Level: notice.Info, Text: r.Engine + " will do again and replaces " + c.routing.engine})
	}
	c.install.Want(r.Tables)
	if c.routing.base != r.Base {
		c.routing.base, c.routing.localMoves = r.Base, nil
	}
	c.planImprove(r)
	c.routing.anew, c.routing.improving, c.routing.rebalance = false, false, false
	c.routing.engine, c.routing.passed = r.Engine, r.Passed
	c.routing.transit = r.Plan.Mode.String() + ": " + r.Plan.Reason
	c.Report.Transition = c.routing.transit
	if r.Plan.Mode != transition.ModeNone {
		c.Notify(notice.Notice{Kind: notice.KindRouted, Level: notice.Info, Dur: r.Plan.Predicted, Text: r.Engine + ", " + c.routing.transit +
			", " + planText(r.Plan)})
	}
	if r.Plan.NeedsRepath {
		c.Notify(notice.Notice{Kind: notice.KindRepath, Level: notice.Warn, Text: "service levels of " + strconv.FormatInt(r.Plan.RepathPairs, 10) +
			" pairs of ports change: their hosts must resolve the paths again"})
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

// planImprove sets the time at which the engines before the one in use are
// tried again, if it was kept over a change. A full sweep has just tried them.
func (c *Core) planImprove(r *job.Result) {
	if r.Base != r.Next && !r.Partial {
		return // only groups changed, or LIDs moved: what is planned stays
	}
	c.routing.improveAt = mad.Never
	round := c.routing.improving || c.routing.rebalance || c.routing.anew
	if c.routing.improving {
		c.routing.triedFor, c.routing.rounds = c.Fabric.Graph, r.Rounds
	}
	switch {
	case c.Config.ImproveDelay <= 0:
	case r.Partial && round && r.Moved == 0 && r.Remembered:
		c.routing.improveAt = c.Now.Add(max(c.Config.ImproveDelay, c.install.Remembered()))
	case r.Partial && round && r.Moved == 0:
		// All that is left waits for what is left: it stays as it is.
		if c.NoteOnce("stalled") {
			c.Notify(notice.Notice{Kind: notice.KindRouted, Level: notice.Info, Text: strconv.Itoa(r.Waiting) + " destinations keep the entries that they have: those of " +
				r.Engine + " do not mix with them, and all pairs work"})
		}
	case r.Partial:
		c.routing.improveAt = c.Now.Add(max(c.Config.ImproveDelay, c.install.LeftAfter()))
	case r.Kept && c.routing.triedFor != c.Fabric.Graph:
		c.routing.improveAt = c.Now.Add(c.Config.ImproveDelay)
	}
}

// reroute asks for tables without looking at the fabric. It is a full sweep
// if the fabric is not known for sure.
func (c *Core) reroute(why string) {
	if c.State != subnet.Master {
		return // a new master computes from scratch anyway
	}
	c.routing.wantRoute = true
	c.AskSweep(why)
}

// planText counts what a plan writes.
func planText(p *transition.Plan) string {
	var lft, lanes, mft int
	for i := range p.Stages {
		lft += len(p.Stages[i].LFT)
		lanes += len(p.Stages[i].SL2VL)
		mft += len(p.Stages[i].MFT)
	}
	s := strconv.Itoa(lft) + " blocks to write"
	if lanes > 0 {
		s += ", " + strconv.Itoa(lanes) + " lane tables"
	}
	if mft > 0 {
		s += ", " + strconv.Itoa(mft) + " multicast blocks"
	}
	if len(p.Stages) > 1 {
		s += ", in " + strconv.Itoa(len(p.Stages)) + " stages"
	}
	return s
}
