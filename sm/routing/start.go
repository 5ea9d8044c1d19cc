package routing

import (
	"slices"
	"time"

	"heddle/mad"
	"heddle/route"
	"heddle/route/transition"
	"heddle/sm/config"
	"heddle/sm/job"
)

// Start asks for tables.
func (r *Router) Start() {
	inst := r.installed()
	j := &job.Job{
		Graph: r.Fabric.Graph, Engines: r.Config.Engines, Explicit: r.Config.Explicit,
		AllowUnsafe: r.Config.AllowUnsafe, Options: r.options(), Mode: job.Full, Base: r.base,
		Groups: r.needs.Groups.Route(), Installed: inst, Served: r.install.Served(),
		SlowLevels: r.slowLevels(r.Fabric.Graph),
		Policy:     r.Config.Transition, PortGUID: r.Config.PortGUID, DrainTime: r.Config.DrainTime,
	}
	r.setTransition(j)
	if r.improve.graph == r.Fabric.Graph {
		j.Rounds = r.improve.rounds
		j.Tried = true
	}
	j.Remembered = r.install.Remembered() > 0
	j.Patient = r.Running() && !r.anew && r.Config.ImproveDelay > 0
	if len(inst.LFT) > 0 && inst.TopLID > 0 {
		j.Options.Previous = inst
	}
	r.setMode(j)
	if r.Config.PlanOnly {
		r.planned = j
	}
	r.run(j)
}

// StartMoves asks for moves of LIDs.
func (r *Router) StartMoves(m *job.Moves) { r.run(&job.Job{Graph: r.Fabric.Graph, Move: m}) }

// options are those of the engines.
func (r *Router) options() route.Options {
	return r.Config.OptionsFor(r.Fabric.Graph, func(s int32, port uint8) bool {
		return r.Fabric.Throttled(r.Fabric.PortOf(r.Fabric.SwitchNode[s], port))
	})
}

// setTransition says what the plan of a job has to respect: what packets in flight, hosts and
// excluded switches still use.
func (r *Router) setTransition(j *job.Job) {
	j.Transition = transition.Options{
		Quiet: r.install.Quiet(), SwitchLifetime: transition.Lifetime(r.Config.PacketLife),
		HOQLife: transition.Lifetime(max(r.Config.HOQLife, r.Config.LeafHOQLife)),
		SMPTime: r.meanRTT(), Window: r.Engine.Window(),
		RepathTime: max(r.Config.RepathTime, 0), MaxVLs: r.Config.PathLanes(r.Fabric.Graph),
		Recent: r.install.Recent(), Held: r.install.Held(),
	}
	var setUp bool
	j.Lanes, j.Transition.LanesUnknown, setUp = r.install.Lanes(j.Transition.Quiet)
	if !setUp {
		r.needs.Lanes.SetUpAnew()
	}
	if !j.Transition.Quiet {
		j.Transition.Frozen, j.Transition.Left = r.install.Outside()
		j.Transition.Lost = r.install.LostLinks()
		j.Drained = r.install.Drains(j.Transition.Left)
	}
	switch r.Config.Transition {
	case config.TransitionDiscard:
		j.Transition.Force = transition.ModeDiscard
	case config.TransitionStatic:
		j.Transition.Force = transition.ModeStatic
	case config.TransitionStatic2003:
		j.Transition.Quiet = true // every link is down while tables are written
	}
}

// setMode says how much of earlier tables a job keeps.
func (r *Router) setMode(j *job.Job) {
	switch {
	case r.rebalance:
		j.Options.Rebalance, j.Options.Previous = true, nil
	case r.improve.now && r.Region:
		if r.base == nil || r.base.Graph != r.Fabric.Graph {
			// Something changed just now, which comes first.
			r.improve.now, r.anew = false, false
			j.Mode = job.Update
			break
		}
		j.Mode = job.Improve
	case r.Region && !r.anew:
		j.Mode = job.Update
		if s := r.moved(); s != nil {
			j.Base, j.EngineBase = s, r.base
		} else {
			j.Local = slices.Clone(r.local)
		}
		j.MoveTo, r.aim = r.aim, nil
	}
}

// installed is what the switches of the graph hold, as read back or acknowledged.
func (r *Router) installed() *route.Tables {
	t := r.install.Rows()
	t.Multicast = r.needs.Groups.Installed()
	return t
}

// moved is the solution in use if LIDs moved since the engine's, or the engine's is still to
// follow in rounds, and nothing but multicast trees is to change; nil otherwise. The engine would
// find other entries for those LIDs, and hosts would be told of other paths because a VM joined a
// group.
func (r *Router) moved() *job.Solution {
	s := r.install.Current()
	if r.base == nil || s == nil || s.Proof == nil || s.Graph != r.Fabric.Graph {
		return nil
	}
	if r.base.Graph == r.Fabric.Graph && r.base.Tables == s.Tables {
		return nil
	}
	if served := r.install.Served(); served == nil || served.Tables != s.Tables {
		return nil
	}
	u := *s
	u.Engine, u.Passed, u.Report = r.base.Engine, r.base.Passed, s.Proof.Report()
	return &u
}

// meanRTT is the mean round trip of this manager's SMPs so far.
func (r *Router) meanRTT() time.Duration {
	var st mad.Stats
	r.Engine.Stats(&st)
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
