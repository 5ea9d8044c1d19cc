// Package routing is the part of a subnet manager that decides what is routed and when: it asks
// for jobs (sm/job), says what each starts from, takes the results, and has better tables looked
// for when the fabric is quiet. It also measures how long broken pairs of ports are cut off.
//
//	NewSweep ─► Change … ─► Start ─► (a pool runs the job) ─► Done ─► Result ─► Tell, Accept
//
// The conductor calls Start once the graph of the sweep is built (BuildGraph) and what switches
// hold is known. Accept says whether the tables may be written; sm/install writes them. A result
// of a sweep that was given up is stale: each job has a generation.
package routing

import (
	"heddle/fabric"
	"heddle/ib"
	"heddle/mad"
	"heddle/route"
	"heddle/sm/env"
	"heddle/sm/install"
	"heddle/sm/job"
	"heddle/subnet"
)

// Groups are the multicast groups of the subnet.
type Groups interface {
	// Route returns the groups that get trees; Installed the trees that switches hold.
	Route() []route.Group
	Installed() *route.Multicast
	// Refused tells that a group has no tree.
	Refused(mlid ib.LID, reason string)
}

// LIDs are the LIDs of virtual functions that no placement uses.
type LIDs interface {
	NumFunctions() int
	Functions() []subnet.Place
	OfFunction(p subnet.Place) ib.LID
	// Limit is above all LIDs that forwarding tables have room for.
	Limit() int
}

// Placements are the addresses of virtual functions.
type Placements interface {
	Any() bool
	// EachLID calls fn with each LID of a placement and the port at which it is, or is to be.
	EachLID(fn func(lid ib.LID, port ib.GUID))
	// AtRisk tells that a transient cycle is possible while tables change, for the reports on
	// placements that move.
	AtRisk()
}

// Lanes are the SL-to-VL tables of ports.
type Lanes interface {
	// SetUpAnew has all tables set up before forwarding tables that need them.
	SetUpAnew()
}

// Jobs runs jobs; the results come back to Done.
type Jobs interface {
	RunJob(j *job.Job)
}

// Needs are the other parts.
type Needs struct {
	Groups     Groups
	LIDs       LIDs
	Placements Placements
	Lanes      Lanes
	Jobs       Jobs
}

// Router decides what is routed and when.
type Router struct {
	*env.Env
	install *install.Installer
	needs   Needs

	generation uint64      // of jobs; results of older generations are stale
	out        int         // jobs whose results have not come back, stale ones too
	last       uint64      // generation of the last job
	done       *job.Result // to be taken; nil: there is none
	planned    *job.Job    // the last one, with PlanOnly

	base  *job.Solution   // the engine's last solution, for the next job; nil: there is none
	local []job.LocalMove // since base
	// aim has the tables to which the next sweep is to move LIDs, if it finds nothing else. No
	// engine computed them.
	aim    *job.Solution
	engine string   // whose tables are installed
	passed []string // "engine: reason" of each engine before it in the chain
	mode   string   // of the last transition, with the reason

	changed   bool // this sweep computes tables
	regrant   bool // LIDs have other owners than the graph says
	wanted    bool // the next sweep computes tables from scratch, whatever it finds
	anew      bool // this sweep does
	rebalance bool // without regard to the installed tables

	improve improvement
	repair  repair
	slow    slowPaths
}

// improvement is the search for better tables while the fabric is quiet.
type improvement struct {
	now    bool          // this sweep only looks for better tables
	at     mad.Time      // when the next search begins
	graph  *fabric.Graph // for which better tables than those of base were looked for
	rounds job.Rounds    // for that graph
}

// New returns a Router that has computed nothing.
func New(e *env.Env, in *install.Installer, needs Needs) *Router {
	return &Router{
		Env: e, install: in, needs: needs, mode: "none yet",
		improve: improvement{at: mad.Never}, repair: repair{signed: mad.Never, at: mad.Never},
	}
}

// NewSweep is for a sweep that begins. also says that it computes tables whatever it finds.
func (r *Router) NewSweep(also bool) {
	r.Stale()
	r.anew, r.wanted = r.wanted, false
	r.changed = r.anew || also || r.regrant
	r.newRepair()
}

// ReadsAll is for a sweep that reads everything: it does more than improve.
func (r *Router) ReadsAll() { r.improve.now = false }

// Change has this sweep compute tables.
func (r *Router) Change() { r.changed = true }

// Changed reports whether this sweep computes tables.
func (r *Router) Changed() bool { return r.changed }

// Regrant has the next sweep build the graph anew, because LIDs have other owners.
func (r *Router) Regrant() { r.regrant = true }

// Regranting reports whether LIDs have other owners than the graph says.
func (r *Router) Regranting() bool { return r.regrant }

// Want has the next sweep compute tables from scratch.
func (r *Router) Want() { r.wanted = true }

// Rebalance has the next tables computed without regard to the installed ones.
func (r *Router) Rebalance() { r.rebalance = true }

// Reroute asks for tables without reading the fabric. It is a full sweep if the fabric is not
// known for sure.
func (r *Router) Reroute(why string) {
	if r.State != subnet.Master {
		return // a new master computes all tables from scratch
	}
	r.wanted = true
	r.Sweeper.AskSweep(why)
}

// BreakOff is for a sweep that is broken off by a fault. The next one does what this one was to
// do, but it does not look for better tables.
func (r *Router) BreakOff() {
	if r.anew {
		r.wanted = r.wanted || !r.improve.now
	}
	if r.improve.now {
		r.improve.now = false
		r.improve.at = r.Now.Add(r.Config.ImproveDelay)
	}
}

// Repairs reports whether the sweep connects pairs that a fault broke.
func (r *Router) Repairs() bool { return r.repair.report != nil && r.repair.report.Broken > 0 }

// Next is when better tables are looked for.
func (r *Router) Next() mad.Time { return r.improve.at }

// Improve asks for the sweep that looks for better tables.
func (r *Router) Improve() {
	r.improve.at = mad.Never
	r.improve.now = true
	r.Reroute("better tables than those in force are looked for")
}

// Improving reports whether better tables are looked for, or will be once the fabric has been
// quiet for a while.
func (r *Router) Improving() bool { return r.improve.now || r.improve.at != mad.Never }

// Show fills the fields of a snapshot that say how the installed tables came about.
func (r *Router) Show(s *subnet.Snapshot) {
	s.Engine, s.PassedOver, s.Transition = r.engine, r.passed, r.mode
}

// Stale drops the result of a job that runs, or is back: its sweep is over.
func (r *Router) Stale() {
	r.generation++
	r.done = nil
}

// Done takes the result of a job.
func (r *Router) Done(res *job.Result) {
	r.out--
	if res != nil && res.Gen == r.generation {
		r.done = res
	}
}

// Reading reports whether a job, a stale one too, still reads the rows of installed tables.
func (r *Router) Reading() bool { return r.out > 0 }

// Asked reports whether a job was asked for in this sweep.
func (r *Router) Asked() bool { return r.last == r.generation }

// Result takes the result of the job asked for last; nil: it is not back.
func (r *Router) Result() *job.Result {
	res := r.done
	r.done = nil
	return res
}

// run has a job run.
func (r *Router) run(j *job.Job) {
	r.generation++
	r.out++
	r.last, r.done = r.generation, nil
	j.Gen = r.generation
	r.needs.Jobs.RunJob(j)
}
