package sm

import (
	"errors"
	"strconv"
	"time"

	"heddle/fabric"
	"heddle/ib"
	"heddle/mad"
	"heddle/route"
	"heddle/route/check"
	"heddle/route/transition"
)

// Job is a computation that the shell runs on a bounded pool: routing,
// proving and planning a transition. It is a pure function of its inputs, so
// it may run anywhere and its result does not depend on when. The core does
// not touch the inputs before the result is back.
type Job struct {
	Gen uint64 // generation; a result of an older one is dropped

	graph       *fabric.Graph
	engines     []route.Engine
	explicit    bool
	allowUnsafe bool
	opt         route.Options
	installed   *route.Tables
	transition  transition.Options
}

// JobResult is what a Job found.
type JobResult struct {
	Gen        uint64
	Engine     string
	Tables     *route.Tables // nil if nothing may be installed
	Report     *check.Report
	Plan       *transition.Plan
	Passed     []string // "engine: reason" of each engine of the chain before Engine
	Unsafe     string   // why the tables do not verify, if AllowUnsafe let them through
	Err        error    // why there are no tables
	installed  *route.Tables
	transition transition.Options
}

var errNoEngine = errors.New("no routing engine is configured")

// Run computes on up to workers goroutines.
func (j *Job) Run(workers int) *JobResult {
	r := &JobResult{Gen: j.Gen, Err: errNoEngine, installed: j.installed, transition: j.transition}
	o := j.opt
	o.Workers = max(workers, 1)
	for _, e := range j.engines {
		t, err := e.Compute(j.graph, o)
		var rep *check.Report
		if err == nil {
			rep = check.Verify(j.graph, t, check.Options{Workers: o.Workers})
			err = rep.Err()
		}
		if err != nil && t != nil && j.explicit && j.allowUnsafe {
			r.Unsafe, err = err.Error(), nil
		}
		if err == nil {
			r.Engine, r.Tables, r.Report, r.Err = e.Name(), t, rep, nil
			break
		}
		r.Passed = append(r.Passed, e.Name()+": "+err.Error())
		r.Err = err
		if j.explicit {
			break
		}
	}
	if r.Tables == nil {
		return r
	}
	j.transition.Workers = o.Workers
	r.Plan = transition.New(j.graph, j.installed, r.Tables, j.transition)
	return r
}

// installed is what the switches of the graph hold, as read back or
// acknowledged.
func (c *Core) installed() *route.Tables {
	g := c.f.graph
	t := &route.Tables{Engine: "installed", LFT: make([][]byte, len(g.Switches)), NumVLs: 1}
	for s, ni := range c.f.swNode {
		l := c.f.nodes[ni].lft
		t.LFT[s] = l.installed()
		if l != nil {
			t.TopLID = max(t.TopLID, l.top)
		}
	}
	return t
}

// startJob asks for tables. The result comes back as JobDone.
func (c *Core) startJob() {
	c.jobGen++
	c.jobsOut++
	c.jobLast, c.jobDone = c.jobGen, nil
	inst := c.installed()
	j := &Job{
		Gen: c.jobGen, graph: c.f.graph, engines: c.cfg.Engines, explicit: c.cfg.Explicit, allowUnsafe: c.cfg.AllowUnsafe,
		opt:       route.Options{Seed: c.cfg.RouteSeed, Roots: c.cfg.Roots, MaxVLs: c.cfg.MaxVLs},
		installed: inst,
		transition: transition.Options{
			Quiet: c.quiet(), SwitchLifetime: transition.Lifetime(c.cfg.PacketLife),
			HOQLife: transition.Lifetime(max(c.cfg.HOQLife, c.cfg.LeafHOQLife)),
			SMPTime: c.meanRTT(), Window: c.eng.Window(),
		},
	}
	switch c.cfg.Transition {
	case TransitionDiscard:
		j.transition.Force = transition.ModeDiscard
	case TransitionStatic:
		j.transition.Force = transition.ModeStatic
	case TransitionStatic2003:
		j.transition.Quiet = true // every link is down while tables are written
	}
	if len(inst.LFT) > 0 && inst.TopLID > 0 {
		j.opt.Previous = inst
	}
	c.out.Jobs = append(c.out.Jobs, j)
}

// quiet reports whether no data packet can be in the subnet: no link between
// switches is Armed or Active.
func (c *Core) quiet() bool {
	for i := range c.f.ports {
		p := &c.f.ports[i]
		if p.has(pLinked) && p.num != 0 && c.f.nodes[p.node].isSwitch() && p.info.PortState >= ib.StateArmed &&
			c.f.nodes[p.peer.Node].isSwitch() {
			return false
		}
	}
	return true
}

// meanRTT is the mean round trip of this manager's SMPs so far.
func (c *Core) meanRTT() time.Duration {
	var st mad.Stats
	c.eng.Stats(&st)
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

func (c *Core) onJobDone(r *JobResult) {
	c.jobsOut--
	if r == nil || r.Gen != c.jobGen {
		return // of a sweep that was given up
	}
	c.jobDone = r
}

// routed takes the result of the job.
func (c *Core) routed() bool {
	if c.persistWait {
		return false
	}
	r := c.jobDone
	if r == nil {
		if c.jobLast != c.jobGen { // not asked for in this sweep
			c.startJob()
		}
		return false
	}
	c.jobDone = nil
	c.result = r
	for _, p := range r.Passed {
		if c.noteOnce("passed " + p) {
			c.out.notify(Notice{Kind: KindEnginePassed, Level: Info, Text: p})
		}
	}
	if r.Tables != nil && r.Tables.Note != "" && c.noteOnce("note "+r.Tables.Note) {
		c.out.notify(Notice{Kind: KindRouted, Level: Warn, Text: r.Engine + ": " + r.Tables.Note})
	}
	c.report.Engine, c.report.PassedOver = r.Engine, r.Passed
	if c.cfg.PlanOnly {
		c.emitPlan(r)
		return true
	}
	switch {
	case r.Tables == nil:
		text := "no engine's tables may be installed; what is installed stays as it is"
		if c.cfg.Explicit {
			text = "the tables of the engine asked for do not verify and are refused; what is installed stays: name another engine, or allow unsafe tables"
		}
		n := Notice{Kind: KindRouteRefused, Level: Error, Err: r.Err, Text: text}
		if !c.noteOnce("refused " + r.Err.Error()) {
			n.Level = Debug // told before; it is still so
		}
		c.out.notify(n)
		c.errs++
		c.attempts = maxAttempts // the same fabric gives the same tables: no haste
		c.endSweep()
		return true
	case r.Unsafe != "":
		c.out.notify(Notice{Kind: KindUnsafe, Level: Error, Text: "tables of " + r.Engine + " are installed although they do not verify: " + r.Unsafe})
	}
	if r.Plan.Mode == transition.ModeRefused {
		// Our own lifetimes are limited (or this would not be offered), so
		// only an operator's unlimited ones lead here.
		c.out.notify(Notice{Kind: KindRouteRefused, Level: Error, Text: "the change of tables cannot be made safely: " + r.Plan.Reason})
		c.errs++
		c.endSweep()
		return true
	}
	c.wanted = r.Tables
	c.engine, c.passed = r.Engine, r.Passed
	c.transit = r.Plan.Mode.String() + ": " + r.Plan.Reason
	c.report.Transition = c.transit
	if r.Plan.Mode != transition.ModeNone {
		c.out.notify(Notice{Kind: KindRouted, Level: Info, Dur: r.Plan.Predicted, Text: r.Engine + ", " + c.transit +
			", " + strconv.Itoa(r.Plan.SMPs) + " blocks to write"})
	}
	c.startDistribution(r)
	return true
}
