package sm

import (
	"cmp"
	"slices"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/route/transition"
	"heddle/sm/job"
	"heddle/sm/notice"
	"heddle/sm/topo"
)

// emitPlan ends a plan-only run.
func (c *Core) emitPlan(r *job.Result) {
	f := c.Fabric
	p := &job.Plan{Engine: r.Engine, Passed: r.Passed, Master: c.mastership.Master(), Job: c.routing.planJob, Solution: r.Base}
	c.routing.planJob = nil
	if r.Err != nil {
		p.Refused = r.Err.Error()
	}
	sets := map[ib.AttrID]int{}
	for i := range f.Ports {
		q := &f.Ports[i]
		if !f.Nodes[q.Node].OK() || !q.Has(topo.PortKnown) {
			continue
		}
		if q.LID != 0 && q.LID != q.Info.LID {
			why := "new"
			if q.Info.LID != 0 {
				why = "shows LID " + q.Info.LID.String()
			}
			p.LIDs = append(p.LIDs, job.PlannedLID{Where: f.Where(q.Node, int(q.Num)), GUID: q.GUID, Old: q.Info.LID, New: q.LID, Why: why})
		}
		if c.links.Differs(q) {
			sets[smp.AttrPortInfo]++
		}
		if c.links.Moves(q) {
			switch q.Info.PortState {
			case ib.StateInit:
				sets[planMove] += 2
			case ib.StateArmed:
				sets[planMove]++
			}
		}
	}
	slices.SortFunc(p.LIDs, func(a, b job.PlannedLID) int { return cmp.Compare(a.GUID, b.GUID) })
	for i := range f.Nodes {
		if n := &f.Nodes[i]; n.IsSwitch() && n.OK() && c.links.SwitchDiffers(n) {
			sets[smp.AttrSwitchInfo]++
		}
	}
	if r.Plan != nil {
		p.Transition = r.Plan.Mode.String() + ": " + r.Plan.Reason
		p.Clean = r.Plan.Mode == transition.ModeNone || r.Plan.Mode == transition.ModeDynamic
		p.Mode, p.RepathPairs, p.Refusals = r.Plan.Mode, r.Plan.RepathPairs, r.Refused
		if r.Plan.Risk != nil {
			p.Risk = c.riskOf(r)
		}
		for i := range r.Plan.Stages {
			st := &r.Plan.Stages[i]
			p.Stages = append(p.Stages, job.NewPlannedStage(st))
			sets[smp.AttrSLtoVL] += len(st.SL2VL)
			sets[smp.AttrMFT] += len(st.MFT)
		}
		by := make([]int, len(f.SwitchNode))
		for _, st := range r.Plan.Stages {
			for _, b := range st.LFT {
				by[b.Switch]++
			}
		}
		for s, k := range by {
			if k > 0 {
				p.Blocks = append(p.Blocks, job.PlannedSwitch{Where: f.Where(f.SwitchNode[s], -1), Blocks: k})
				sets[smp.AttrLFT] += k
			}
			if f.Nodes[f.SwitchNode[s]].LFT.Top != r.Tables.TopLID {
				sets[planTop]++
			}
		}
	}
	for _, row := range [...]job.PlannedSMPs{
		{Attr: smp.AttrPortInfo, What: "LIDs and port parameters", N: sets[smp.AttrPortInfo]},
		{Attr: smp.AttrSwitchInfo, What: "switch parameters", N: sets[smp.AttrSwitchInfo]},
		{Attr: smp.AttrSLtoVL, What: "lane tables", N: sets[smp.AttrSLtoVL]},
		{Attr: smp.AttrLFT, What: "forwarding blocks", N: sets[smp.AttrLFT]},
		{Attr: smp.AttrMFT, What: "multicast blocks", N: sets[smp.AttrMFT]},
		{Attr: smp.AttrSwitchInfo, What: "LinearFDBTop", N: sets[planTop]},
		{Attr: smp.AttrPortInfo, What: "port states (Armed, Active)", N: sets[planMove]},
	} {
		if row.N == 0 && (row.Attr == smp.AttrSLtoVL || row.Attr == smp.AttrMFT) {
			continue // of no account in most subnets
		}
		p.Sets = append(p.Sets, row)
		p.Total += row.N
	}
	seconds := c.meanRTT().Seconds() * float64(p.Total) / float64(max(c.Engine.Window(), 1))
	if r.Plan != nil {
		seconds += r.Plan.Drain.Seconds() + r.Plan.Repath.Seconds()
	}
	p.SecondsAt = seconds
	c.install.Want(r.Tables)
	c.enter(notice.PhaseIdle)
	c.next.wanted = false
	c.Publish()
	p.Snapshot = c.Snapshot
	c.out.Plan = p
	c.Notify(notice.Notice{Kind: notice.KindSweepEnd, Level: notice.Info, Text: "plan complete; nothing was written"})
}

// Keys of emitPlan's counts that are no attribute of their own.
const (
	planMove ib.AttrID = 0xFFFE
	planTop  ib.AttrID = 0xFFFD
)
