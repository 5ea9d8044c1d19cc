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
	mode        jobMode
	base        *solution // the last good one, nil if none
	groups      []Group
	installed   *route.Tables
	transition  transition.Options
}

// jobMode says how much of the last solution a job may keep.
type jobMode uint8

const (
	// jobUpdate carries the last solution over the change of the fabric, if
	// its engine can, else it does what jobFull does.
	jobUpdate jobMode = iota
	// jobFull tries the engines of the chain in their order, from scratch.
	jobFull
	// jobImprove tries the engines of the chain before that of the last
	// solution, which is kept if none of them will do.
	jobImprove
)

// solution is a graph with tables that were proved for it, by which the next
// job saves work. It is immutable.
type solution struct {
	graph  *fabric.Graph
	engine string
	tables *route.Tables
	report *check.Report
	proof  *check.Proof
	passed []string // the engines before it in the chain, and why not
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
	Updated    bool     // the last solution was carried over the change
	Fallback   string   // why it could not be, though it was tried
	installed  *route.Tables
	transition transition.Options
	next       *solution
}

var errNoEngine = errors.New("no routing engine is configured")

// Run computes on up to workers goroutines.
func (j *Job) Run(workers int) *JobResult {
	r := &JobResult{Gen: j.Gen, Err: errNoEngine, installed: j.installed, transition: j.transition}
	o := j.opt
	o.Workers = max(workers, 1)
	var s *solution
	switch {
	case j.base == nil || j.mode == jobFull:
	case j.mode == jobUpdate:
		s, r.Fallback = j.update(o)
		r.Updated = s != nil
	case j.mode == jobImprove:
		s = j.improve(o, r)
	}
	if s == nil {
		s = j.compute(j.engines, o, r)
	}
	if s == nil {
		return r
	}
	r.Engine, r.Tables, r.Report, r.Passed, r.Err = s.engine, s.tables, s.report, s.passed, nil
	if r.Unsafe == "" {
		r.next = s
	}
	j.transition.Workers = o.Workers
	r.Plan = transition.New(j.graph, j.installed, r.Tables, j.transition)
	return r
}

// compute tries engines in order, from scratch.
func (j *Job) compute(engines []route.Engine, o route.Options, r *JobResult) *solution {
	r.Passed = nil
	for _, e := range engines {
		t, err := e.Compute(j.graph, o)
		var pr *check.Proof
		if err == nil {
			t, pr, err = j.prove(t, nil, nil, o)
		}
		if err != nil && t != nil && j.explicit && j.allowUnsafe {
			r.Unsafe, err = err.Error(), nil
		}
		if err == nil {
			return &solution{graph: j.graph, engine: e.Name(), tables: t, report: pr.Report(), proof: pr, passed: r.Passed}
		}
		r.Passed = append(r.Passed, e.Name()+": "+err.Error())
		r.Err = err
		if j.explicit {
			break
		}
	}
	return nil
}

// update carries the last solution over to the new graph, or says why not.
func (j *Job) update(o route.Options) (*solution, string) {
	b := j.base
	for _, e := range j.engines {
		if e.Name() != b.engine {
			continue
		}
		u, ok := e.(route.Updater)
		if !ok {
			return nil, ""
		}
		d := fabric.Diff(b.graph, j.graph)
		if lanesChanged(b.graph, j.graph, d) {
			return nil, "the lanes of a link changed"
		}
		t, err := u.Update(route.Solution{Graph: b.graph, Tables: b.tables}, j.graph, d, o)
		if err != nil {
			return nil, b.engine + ": " + err.Error()
		}
		t, pr, err := j.prove(t, b, d, o)
		if err != nil {
			return nil, b.engine + ": " + err.Error()
		}
		return &solution{graph: j.graph, engine: b.engine, tables: t, report: pr.Report(), proof: pr, passed: b.passed}, ""
	}
	return nil, ""
}

// improve tries the engines before that of the last solution, whose graph has
// not changed. If none will do, the solution stays.
func (j *Job) improve(o route.Options, r *JobResult) *solution {
	b := j.base
	for i, e := range j.engines {
		if e.Name() != b.engine || b.graph != j.graph {
			continue
		}
		if s := j.compute(j.engines[:i], o, r); s != nil {
			return s
		}
		kept := *b
		kept.passed = r.Passed
		return &kept
	}
	return nil
}

// lanesChanged reports whether a link that stayed has another number of lanes.
func lanesChanged(old, now *fabric.Graph, d *fabric.Delta) bool {
	for c, o := range d.Channel {
		if o >= 0 && old.Channels[o].VLs != now.Channels[c].VLs {
			return true
		}
	}
	return false
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
	opt := c.cfg.Route
	opt.Seed, opt.MaxVLs = c.cfg.RouteSeed, c.cfg.MaxVLs
	if len(c.cfg.Roots) > 0 {
		opt.Roots = c.cfg.Roots
	}
	j := &Job{
		Gen: c.jobGen, graph: c.f.graph, engines: c.cfg.Engines, explicit: c.cfg.Explicit, allowUnsafe: c.cfg.AllowUnsafe,
		opt: opt, mode: jobFull, base: c.base, groups: c.groups, installed: inst,
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
	switch {
	case c.rebalance:
		j.opt.Rebalance, j.opt.Previous = true, nil
	case c.improving && c.reg.on:
		j.mode = jobImprove
	case c.reg.on && !c.anew:
		j.mode = jobUpdate
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
	if !c.changed {
		return c.startLanes() // of a sweep of a region that found nothing to route anew
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
	if r.Fallback != "" {
		c.out.notify(Notice{Kind: KindEnginePassed, Level: Info, Text: "tables could not be carried over the change and were computed from scratch: " + r.Fallback})
	}
	for _, p := range r.Passed {
		if c.noteOnce("passed " + p) {
			c.out.notify(Notice{Kind: KindEnginePassed, Level: Info, Text: p})
		}
	}
	if r.Tables != nil && r.Tables.Note != "" && c.noteOnce("note "+r.Tables.Note) {
		c.out.notify(Notice{Kind: KindRouted, Level: Warn, Text: r.Engine + ": " + r.Tables.Note})
	}
	c.report.Engine, c.report.PassedOver, c.report.Updated = r.Engine, r.Passed, r.Updated
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
		c.refused = true
		c.endSweep()
		return true
	case r.Unsafe != "":
		c.out.notify(Notice{Kind: KindUnsafe, Level: Error, Text: "tables of " + r.Engine + " are installed although they do not verify: " + r.Unsafe})
	}
	if r.Plan.Mode == transition.ModeRefused {
		// Our own lifetimes are limited (or this would not be offered), so
		// only an operator's unlimited ones lead here.
		c.out.notify(Notice{Kind: KindRouteRefused, Level: Error, Text: "the change of tables cannot be made safely: " + r.Plan.Reason})
		c.refused = true
		c.endSweep()
		return true
	}
	if c.improving && c.engine != r.Engine {
		c.out.notify(Notice{Kind: KindRouted, Level: Info, Text: r.Engine + " will do again and replaces " + c.engine})
	}
	c.planImprove(r)
	c.wanted, c.base = r.Tables, r.next
	c.anew, c.improving, c.rebalance = false, false, false
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

// planImprove sets the time at which the engines before the one in use are
// tried again, if it was kept over a change. A full sweep has just tried them.
func (c *Core) planImprove(r *JobResult) {
	c.improveAt = mad.Never
	if r.Updated && len(r.Passed) > 0 && c.cfg.ImproveDelay > 0 {
		c.improveAt = c.now.Add(c.cfg.ImproveDelay)
	}
}

// reroute asks for tables without looking at the fabric. It is a full sweep
// if the fabric is not known for sure.
func (c *Core) reroute(why string) {
	c.wantRoute = true
	c.ask(why)
}
