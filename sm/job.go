package sm

import (
	"errors"
	"time"

	"heddle/fabric"
	"heddle/ib"
	"heddle/route"
	"heddle/route/check"
	"heddle/route/move"
	"heddle/route/transition"
	"heddle/sm/config"
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
	// engineBase is what stays the engine's last solution where base is that with LIDs
	// moved since, and carries over; nil: base is the engine's.
	engineBase *solution
	local      []localMove // since the engine's last solution, in their order
	moved      *solution   // nil, or tables that differ from those in force by LIDs that move; no engine's
	groups     []route.Group
	mix        laneMix // SL-to-VL tables that are not those of served
	installed  *route.Tables
	served     *solution // the tables whose service levels and lanes are in use, nil if none
	transition transition.Options
	tried      bool  // improve has found its target for this graph: base
	aim        int64 // load of a channel that is not to be exceeded; 0: not known
	balance    bool  // the target cannot be reached, but load can be taken off
	lifts      int   // rounds so far that moved destinations to other levels so that the target comes nearer
	patient    bool  // nobody asked for new tables: those that need a wait follow in rounds
	remembered bool  // packets or hosts stand for earlier tables; they will leave
	policy     config.Transition
	port       ib.GUID       // the manager's
	drain      time.Duration // of a wait for packets to leave, 0 = as planned
	move       *moveInput    // not nil: LIDs are moved instead of routing anew; only graph counts besides
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
	Kept       bool     // the fabric changed: the tables keep what they can of those before
	Fallback   string   // why it could not be, though it was tried
	Refused    []route.RefusedGroup
	held       *transition.Held
	installed  *route.Tables
	transition transition.Options
	partial    bool // Tables are between the installed ones and those of base
	moved      int  // destinations that have their entries of base now
	waiting    int  // … that have not
	aim        int64
	balance    bool // as in Job, for the next round
	lifts      int  // as in Job, for the next round
	remembered bool // as in Job
	broken     *breakage
	next       *solution
	base       *solution    // for jobs to come: next, or the engine's own that it was carried from
	move       *move.Result // of a job that moves LIDs; nil: Err says why not
}

var errNoEngine = errors.New("no routing engine is configured")

// Run computes on up to workers goroutines: Solve, then Plan.
func (j *Job) Run(workers int) *JobResult {
	r := j.Solve(workers)
	j.Plan(r, workers)
	return r
}

// Solve finds tables and proves them.
func (j *Job) Solve(workers int) *JobResult {
	r := &JobResult{Gen: j.Gen, Err: errNoEngine, installed: j.installed, transition: j.transition, remembered: j.remembered}
	if j.move != nil {
		r.move, r.Err = j.move.run(j.graph, workers)
		return r
	}
	o := j.opt
	o.Workers = max(workers, 1)
	var s *solution
	switch {
	case j.base == nil || j.mode == jobFull:
	case j.mode == jobUpdate:
		r.Kept = true
		if s = j.moves(o); s != nil {
			j.engineBase = j.base
		} else {
			s, r.Fallback = j.update(o)
		}
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
		r.next, r.base = s, s
		if r.Updated && j.engineBase != nil {
			r.base = j.engineBase
		}
	}
	if m := r.Tables.Multicast; m != nil {
		r.Refused = m.Refused
	}
	return r
}

// Plan plans the transition from what is installed to what Solve found, if it
// found anything.
func (j *Job) Plan(r *JobResult, workers int) {
	if j.move != nil {
		return
	}
	if r.Tables != nil {
		j.plan(r, workers)
	}
	r.broken = j.broken(r)
}

func (j *Job) plan(r *JobResult, workers int) {
	t := j.transition
	t.Workers = max(workers, 1)
	inst := j.inUse()
	if l, ok := j.mix.over(j.graph, inst.Lanes); ok {
		inst.Lanes = l
	} else {
		t.LanesUnknown = true
	}
	if j.served == nil && sameEntries(inst, r.Tables) {
		// A manager before us made these tables, so it gave the levels that
		// we would.
		u := *inst
		u.NumVLs, u.SL, u.Class, u.NumClasses, u.Lanes = r.Tables.NumVLs, r.Tables.SL, r.Tables.Class, r.Tables.NumClasses, r.Tables.Lanes
		inst = &u
	}
	r.installed = inst
	r.held = t.Held
	if t.Held != nil && j.served != nil && j.served.graph != j.graph {
		r.held = t.Held.Next(j.served.tables, fabric.Diff(j.served.graph, j.graph), 0)
		t.Held = r.held
	}
	if j.served != nil {
		t.Before = j.served.graph
		if m := j.served.tables.Multicast; m != nil {
			t.GroupLevels = map[ib.LID]uint16{}
			for i := range m.Trees {
				t.GroupLevels[m.Trees[i].MLID] = 1 << (m.Trees[i].SL & 15)
			}
		}
	}
	if r.next != nil && r.next.proof != nil && r.next.tables == r.Tables {
		t.Proved, t.ProvedOrder = r.next.proof.Dependencies()
	}
	r.transition = t
	r.Plan = transition.New(j.graph, inst, r.Tables, t)
	j.between(r, inst, t)
	if r.Plan.NeedsRepath {
		r.held = t.Held.Next(inst, nil, len(j.graph.Switches))
	}
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
		r.Passed = append(r.Passed, route.Refusal(e.Name(), err))
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
		if len(j.local) > 0 {
			if u := b.follow(j.local, check.Options{Workers: o.Workers}); u != nil {
				b, d = u, fabric.Diff(u.graph, j.graph)
			}
		}
		t := b.tables
		if !d.SameChannels || len(d.LIDs) > 0 {
			var err error
			if t, err = u.Update(route.Solution{Graph: b.graph, Tables: b.tables}, j.graph, d, o); err != nil {
				return nil, route.Refusal(b.engine, err)
			}
		}
		t, pr, err := j.prove(t, b, d, o)
		if err != nil {
			return nil, route.Refusal(b.engine, err)
		}
		return &solution{graph: j.graph, engine: b.engine, tables: t, report: pr.Report(), proof: pr, passed: b.passed}, ""
	}
	return nil, ""
}

// improve tries the engines before that of the last solution, whose graph has
// not changed. If none will do, the solution stays, or is computed afresh if that
// evens its load out.
func (j *Job) improve(o route.Options, r *JobResult) *solution {
	b := j.base
	for i, e := range j.engines {
		if e.Name() != b.engine || b.graph != j.graph {
			continue
		}
		if j.tried {
			return b
		}
		if s := j.compute(j.engines[:i], o, r); s != nil {
			if u := j.fresh(s, o, r); u != nil {
				return u
			}
			return s
		}
		kept := *b
		kept.passed = r.Passed
		if s := j.fresh(&kept, o, r); s != nil {
			return s
		}
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

// sameEntries reports whether every switch is known to forward as t says.
func sameEntries(inst, t *route.Tables) bool {
	for s, row := range t.LFT {
		if s >= len(inst.LFT) || inst.LFT[s] == nil {
			return false
		}
		for l := 1; l <= int(t.TopLID); l++ {
			if inst.Entry(int32(s), ib.LID(l)) != row[l] {
				return false
			}
		}
	}
	return true
}
