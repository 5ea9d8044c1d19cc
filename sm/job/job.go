package job

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
	"heddle/sm/forward"
)

// Job is one computation. Its inputs are not written until its result is back.
type Job struct {
	Gen   uint64 // generation; the manager drops a result of an older one
	Graph *fabric.Graph

	// How tables are computed.
	Engines     []route.Engine // the chain, in the order of preference
	Explicit    bool           // the operator named the engine: no other is tried
	AllowUnsafe bool           // tables that do not verify may be installed, if Explicit
	Options     route.Options
	Mode        Mode
	Groups      []route.Group // multicast groups that get trees

	// What was computed before.
	Base *Solution // the last one; nil if there is none
	// EngineBase is the last solution of the engine, if LIDs moved since: Base then has the moved
	// entries. nil: Base is the engine's own.
	EngineBase *Solution
	Local      []LocalMove // since the engine's last solution, in their order
	MoveTo     *Solution   // not nil: tables that differ from Base by moved LIDs only; no engine's
	Rounds

	// What is installed.
	Installed  *route.Tables       // entries, as read back or acknowledged
	Served     *Solution           // whose service levels and lanes are in use; nil if none
	Lanes      forward.StagedLanes // SL-to-VL tables that differ from those of Served
	Transition transition.Options
	// SlowLevels are those of paths that hosts may use on a slow lane.
	SlowLevels []transition.HeldLevel
	Remembered bool // packets, or hosts with earlier path records, still use earlier tables for a while
	// Drained: links that are up are to have no routes any more. Unless something else is broken, new
	// tables are written without haste, and nothing is broken meanwhile.
	Drained bool
	Patient bool // nobody asked for new tables: those that need a wait follow in rounds

	Policy    config.Transition
	PortGUID  ib.GUID       // the manager's port
	DrainTime time.Duration // of each wait for packets to leave; 0: as planned

	// Move, if not nil, moves LIDs and computes nothing else: of the fields above only Gen and
	// Graph count.
	Move *Moves
}

// Rounds is how far the rounds that lead from the installed tables to better ones have come, for
// one graph.
type Rounds struct {
	Tried   bool  // better tables were looked for: Base is what there is to reach
	Aim     int64 // load that no channel should exceed, in destinations; 0: not known
	Balance bool  // Base cannot be reached, but load can be evened out
	Lifts   int   // rounds that moved destinations to other service levels
}

// Mode says how much of the last solution a job may keep.
type Mode uint8

const (
	// Update updates the last solution incrementally, if its engine can. Otherwise it does what
	// Full does.
	Update Mode = iota
	// Full tries the engines of the chain in their order, from scratch.
	Full
	// Improve tries the engines of the chain before that of the last solution, and keeps the
	// solution if none of them will do.
	Improve
)

// Solution is a graph with tables that were proved for it. Later jobs save work by it. It is
// immutable.
type Solution struct {
	Graph  *fabric.Graph
	Engine string
	Tables *route.Tables
	Report *check.Report
	Proof  *check.Proof
	Passed []string // "engine: reason" of each engine of the chain before Engine
}

// Result is what a Job found.
type Result struct {
	Gen      uint64
	Engine   string
	Tables   *route.Tables // nil: nothing may be installed
	Report   *check.Report
	Plan     *transition.Plan // from Installed to Tables
	Passed   []string         // "engine: reason" of each engine of the chain before Engine
	Unsafe   string           // why the tables do not verify, if AllowUnsafe let them through
	Err      error            // why there are no tables
	Updated  bool             // the last solution was updated incrementally
	Kept     bool             // the job was to keep what it could of the last solution (Update)
	Fallback string           // why it was not updated, though the engine tried
	Refused  []route.RefusedGroup

	Held       *transition.Held   // service levels that hosts may use after the transition
	Installed  *route.Tables      // with the service levels and lanes in use
	Transition transition.Options // as the plan was made with

	Partial bool // Tables are between Installed and those of Base
	Moved   int  // destinations that have their entries of Base now; only if Partial
	Waiting int  // destinations that have not; only if Partial
	Rounds       // for the next job of the graph
	// Remembered is Job.Remembered.
	Remembered bool

	Broken *Breakage    // nil: nothing is known to be broken
	Next   *Solution    // Tables with their proof; nil if they do not verify
	Base   *Solution    // for later jobs: Next, or the engine's own that it was updated from
	Move   *move.Result // of a job that moves LIDs; nil: Err says why not
}

var errNoEngine = errors.New("no routing engine is configured")

// Run computes on up to workers goroutines: Solve, then Plan.
func (j *Job) Run(workers int) *Result {
	r := j.Solve(workers)
	j.Plan(r, workers)
	return r
}

// Solve finds tables and proves them, or moves LIDs.
func (j *Job) Solve(workers int) *Result {
	r := &Result{Gen: j.Gen, Err: errNoEngine, Installed: j.Installed, Transition: j.Transition, Remembered: j.Remembered}
	if j.Move != nil {
		r.Move, r.Err = j.Move.run(j.Graph, workers)
		return r
	}
	o := j.Options
	o.Workers = max(workers, 1)
	var s *Solution
	switch {
	case j.Base == nil || j.Mode == Full:
	case j.Mode == Update:
		r.Kept = true
		if s = j.moves(o); s != nil {
			j.EngineBase = j.Base
		} else {
			s, r.Fallback = j.update(o)
		}
		r.Updated = s != nil
	case j.Mode == Improve:
		s = j.improve(o, r)
	}
	if s == nil {
		s = j.compute(j.Engines, o, r)
	}
	if s == nil {
		return r
	}
	r.Engine, r.Tables, r.Report, r.Passed, r.Err = s.Engine, s.Tables, s.Report, s.Passed, nil
	if r.Unsafe == "" {
		r.Next, r.Base = s, s
		if r.Updated && j.EngineBase != nil {
			r.Base = j.EngineBase
		}
	}
	if m := r.Tables.Multicast; m != nil {
		r.Refused = m.Refused
	}
	return r
}

// Plan plans the transition from what is installed to what Solve found, if it
// found anything.
func (j *Job) Plan(r *Result, workers int) {
	if j.Move != nil {
		return
	}
	if r.Tables != nil {
		j.plan(r, workers)
	}
	r.Broken = j.broken(r)
}

func (j *Job) plan(r *Result, workers int) {
	t := j.Transition
	t.Workers = max(workers, 1)
	inst := j.inUse()
	if l, ok := j.Lanes.Over(j.Graph, inst.Lanes); ok {
		inst.Lanes = l
	} else {
		t.LanesUnknown = true
	}
	if j.Served == nil && sameEntries(inst, r.Tables) {
		// A manager before us made these tables, so it gave the levels that
		// we would.
		u := *inst
		u.NumVLs, u.SL, u.Lanes = r.Tables.NumVLs, r.Tables.SL, r.Tables.Lanes
		u.Class, u.NumClasses = r.Tables.Class, r.Tables.NumClasses
		inst = &u
	}
	r.Installed = inst
	r.Held = t.Held
	if t.Held != nil && j.Served != nil && j.Served.Graph != j.Graph {
		r.Held = t.Held.Next(j.Served.Tables, fabric.Diff(j.Served.Graph, j.Graph), 0)
		t.Held = r.Held
	}
	if !inst.OneLane() || !r.Tables.OneLane() {
		t.Held = t.Held.With(len(j.Graph.Switches), j.SlowLevels)
	}
	if j.Served != nil {
		t.Before = j.Served.Graph
		if m := j.Served.Tables.Multicast; m != nil {
			t.GroupLevels = map[ib.LID]uint16{}
			for i := range m.Trees {
				t.GroupLevels[m.Trees[i].MLID] = 1 << (m.Trees[i].SL & 15)
			}
		}
	}
	if r.Next != nil && r.Next.Proof != nil && r.Next.Tables == r.Tables {
		t.Proved, t.ProvedOrder = r.Next.Proof.Dependencies()
	}
	r.Transition = t
	r.Plan = transition.New(j.Graph, inst, r.Tables, t)
	j.between(r, inst, t)
	if r.Plan.NeedsRepath {
		r.Held = t.Held.Next(inst, nil, len(j.Graph.Switches))
	}
}

// compute tries engines in order, from scratch.
func (j *Job) compute(engines []route.Engine, o route.Options, r *Result) *Solution {
	r.Passed = nil
	for _, e := range engines {
		t, err := e.Compute(j.Graph, o)
		var pr *check.Proof
		if err == nil {
			t, pr, err = j.prove(t, nil, nil, o)
		}
		if err != nil && t != nil && j.Explicit && j.AllowUnsafe {
			r.Unsafe, err = err.Error(), nil
		}
		if err == nil {
			return &Solution{Graph: j.Graph, Engine: e.Name(), Tables: t, Report: pr.Report(), Proof: pr, Passed: r.Passed}
		}
		r.Passed = append(r.Passed, route.Refusal(e.Name(), err))
		r.Err = err
		if j.Explicit {
			break
		}
	}
	return nil
}

// update carries the last solution over to the new graph, or says why not.
func (j *Job) update(o route.Options) (*Solution, string) {
	b := j.Base
	for _, e := range j.Engines {
		if e.Name() != b.Engine {
			continue
		}
		u, ok := e.(route.Updater)
		if !ok {
			return nil, ""
		}
		d := fabric.Diff(b.Graph, j.Graph)
		if lanesChanged(b.Graph, j.Graph, d) {
			return nil, "the lanes of a link changed"
		}
		if len(j.Local) > 0 {
			if u := b.follow(j.Local, check.Options{Workers: o.Workers}); u != nil {
				b, d = u, fabric.Diff(u.Graph, j.Graph)
			}
		}
		t := b.Tables
		if !d.SameChannels || len(d.LIDs) > 0 {
			var err error
			if t, err = u.Update(route.Solution{Graph: b.Graph, Tables: b.Tables}, j.Graph, d, o); err != nil {
				return nil, route.Refusal(b.Engine, err)
			}
		}
		t, pr, err := j.prove(t, b, d, o)
		if err != nil {
			return nil, route.Refusal(b.Engine, err)
		}
		return &Solution{Graph: j.Graph, Engine: b.Engine, Tables: t, Report: pr.Report(), Proof: pr, Passed: b.Passed}, ""
	}
	return nil, ""
}

// improve tries the engines before that of the last solution, whose graph has
// not changed. If none will do, the solution stays, or is computed afresh if that
// evens its load out.
func (j *Job) improve(o route.Options, r *Result) *Solution {
	b := j.Base
	for i, e := range j.Engines {
		if e.Name() != b.Engine || b.Graph != j.Graph {
			continue
		}
		if j.Tried {
			return j.current(o)
		}
		if s := j.compute(j.Engines[:i], o, r); s != nil {
			if u := j.fresh(s, o, r); u != nil {
				return u
			}
			return s
		}
		kept := j.current(o)
		kept.Passed = r.Passed
		if s := j.fresh(kept, o, r); s != nil {
			return s
		}
		return kept
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
