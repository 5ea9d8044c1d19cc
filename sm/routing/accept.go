package routing

import (
	"strconv"

	"heddle/mad"
	"heddle/route/transition"
	"heddle/sm/job"
	"heddle/sm/notice"
)

// Tell reports which engines were passed over, and whose tables a job found.
func (r *Router) Tell(res *job.Result) {
	if res.Fallback != "" {
		r.Notify(notice.Notice{
			Kind: notice.KindEnginePassed, Level: notice.Info,
			Text: "the tables could not be updated incrementally; all are computed from scratch: " + res.Fallback,
		})
	}
	for _, p := range res.Passed {
		if r.NoteOnce("passed " + p) {
			r.Notify(notice.Notice{Kind: notice.KindEnginePassed, Level: notice.Info, Text: p})
		}
	}
	if res.Tables != nil && res.Tables.Note != "" && r.NoteOnce("note "+res.Tables.Note) {
		r.Notify(notice.Notice{Kind: notice.KindRouted, Level: notice.Warn, Text: res.Engine + ": " + res.Tables.Note})
	}
	for _, g := range res.Refused {
		r.needs.Groups.Refused(g.MLID, g.Reason)
	}
	r.Report.Engine, r.Report.PassedOver, r.Report.Updated = res.Engine, res.Passed, res.Updated
}

// Accept decides about the tables of a job: with true they are the wanted ones from now on, and
// may be written by their plan. Otherwise nothing may be installed.
func (r *Router) Accept(res *job.Result) bool {
	r.startRepair(res)
	if res.Tables == nil {
		r.refuse(res)
		return false
	}
	if res.Unsafe != "" {
		r.Notify(notice.Notice{
			Kind: notice.KindUnsafe, Level: notice.Error,
			Text: "tables of " + res.Engine + " are installed although they do not verify: " + res.Unsafe,
		})
	}
	if res.Plan.Mode == transition.ModeRefused {
		// The lifetimes of packets are limited by default: only an operator's unlimited ones
		// lead here.
		r.Notify(notice.Notice{
			Kind: notice.KindRouteRefused, Level: notice.Error,
			Text: "the change of tables cannot be made safely: " + res.Plan.Reason,
		})
		return false
	}
	if r.improve.now && r.engine != res.Engine {
		r.Notify(notice.Notice{
			Kind: notice.KindRouted, Level: notice.Info,
			Text: res.Engine + " can route the subnet again and replaces " + r.engine,
		})
	}
	r.install.Want(res.Tables)
	if r.base != res.Base {
		r.base, r.local = res.Base, nil
	}
	r.planImprovement(res)
	r.anew, r.improve.now, r.rebalance = false, false, false
	r.engine, r.passed = res.Engine, res.Passed
	r.mode = res.Plan.Mode.String() + ": " + res.Plan.Reason
	r.Report.Transition = r.mode
	if res.Plan.Mode != transition.ModeNone {
		r.Notify(notice.Notice{
			Kind: notice.KindRouted, Level: notice.Info, Dur: res.Plan.Predicted,
			Text: r.engine + ", " + r.mode + ", " + planText(res.Plan),
		})
	}
	if res.Plan.NeedsRepath {
		r.Notify(notice.Notice{
			Kind: notice.KindRepath, Level: notice.Warn,
			Text: "service levels of " + strconv.FormatInt(res.Plan.RepathPairs, 10) +
				" pairs of ports change: their hosts must resolve the paths again",
		})
	}
	return true
}

// refuse reports that no engine has tables that may be installed; the same reason in the sweeps
// that follow is reported at level Debug.
func (r *Router) refuse(res *job.Result) {
	text := "no engine has tables that may be installed; the installed tables stay"
	if r.Config.Explicit {
		text = "the engine that the configuration names has no tables that may be installed; " +
			"the installed tables stay: name another engine"
	}
	level := notice.Error
	if !r.NoteOnce("refused " + res.Err.Error()) {
		level = notice.Debug
	}
	r.Notify(notice.Notice{Kind: notice.KindRouteRefused, Level: level, Err: res.Err, Text: text})
}

// planImprovement sets the time at which better tables are looked for, if the engine in use was
// kept over a change. A full sweep has just tried all engines.
func (r *Router) planImprovement(res *job.Result) {
	if res.Base != res.Next && !res.Partial {
		return // only groups changed, or LIDs moved: the time stays
	}
	r.improve.at = mad.Never
	round := r.improve.now || r.rebalance || r.anew
	if r.improve.now {
		r.improve.graph, r.improve.rounds = r.Fabric.Graph, res.Rounds
	}
	switch {
	case r.Config.ImproveDelay <= 0:
	case res.Partial && round && res.Moved == 0 && guards(res):
		r.improve.at = r.Now.Add(max(r.Config.ImproveDelay, r.install.LeftAfter())) // to remove them
	case res.Partial && round && res.Moved == 0 && res.Remembered:
		r.improve.at = r.Now.Add(max(r.Config.ImproveDelay, r.install.Remembered()))
	case res.Partial && round && res.Moved == 0:
		// Each of the destinations left waits for another of them.
		if r.NoteOnce("stalled") {
			r.Notify(notice.Notice{
				Kind: notice.KindRouted, Level: notice.Info,
				Text: strconv.Itoa(res.Waiting) + " destinations keep their entries, because those of " + res.Engine +
					" do not mix with them; all pairs work",
			})
		}
	case res.Partial:
		r.improve.at = r.Now.Add(max(r.Config.ImproveDelay, r.install.LeftAfter()))
	case res.Kept && r.improve.graph != r.Fabric.Graph:
		r.improve.at = r.Now.Add(r.Config.ImproveDelay)
	}
}

// guards reports whether the tables of a job come with SL-to-VL tables that discard packets on levels
// used before, so that another job is to replace these when hosts use others.
func guards(res *job.Result) bool {
	return res.Plan.Fitted != nil && res.Plan.Fitted.Guards > 0
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
