package routing

import (
	"slices"

	"heddle/ib"
	"heddle/mad"
	"heddle/route"
	"heddle/route/transition"
	"heddle/sm/job"
	"heddle/sm/notice"
)

// repair is the repair that a sweep carries out: what a fault broke, and when each pair worked
// again.
type repair struct {
	report *notice.Repair // nil: no pair is known to be broken
	found  *job.Breakage
	at     mad.Time // when the last block was acknowledged that connects a pair; Never: none was
	sign   mad.Time // the first sign of what the sweep looks for
	signed mad.Time // the first sign since the sweep began; Never: none
	open   bool     // pairs of the last repair are left
}

// Sign is called when something asks for a sweep: it may be the first sign of a fault.
func (r *Router) Sign() { r.repair.signed = min(r.repair.signed, r.Now) }

// newRepair is for a sweep that begins.
func (r *Router) newRepair() {
	x := &r.repair
	if !x.open {
		x.sign = min(x.signed, r.Now)
	}
	*x = repair{sign: x.sign, signed: mad.Never, at: mad.Never, open: x.open}
}

// startRepair takes what a job found broken.
func (r *Router) startRepair(res *job.Result) {
	p := res.Plan
	if p != nil && p.Risk != nil && p.Mode != transition.ModeRefused {
		r.Report.Risk = r.risk(res)
		r.Notify(notice.Notice{Kind: notice.KindTransientCycle, Level: notice.Warn, Text: r.Report.Risk.String()})
		r.needs.Placements.AtRisk()
	}
	b := res.Broken
	if b == nil {
		return
	}
	rep := &notice.Repair{
		Reason: r.Report.Reason, Faults: slices.Clone(b.Faults), More: b.More, Policy: r.Config.Transition,
		Broken: b.Pairs.N, Late: b.Late, First: b.Pairs.N - b.Late, Risk: r.Report.Risk,
	}
	rep.Name(r.DescOf)
	if p != nil {
		rep.Mode = p.Mode
		rep.Stages = len(p.Stages)
		rep.CountDrains(p, r.Config.DrainTime)
	}
	r.repair.report, r.repair.found = rep, b
}

// risk names the switches of a plan's risk.
func (r *Router) risk(res *job.Result) *notice.Risk {
	return notice.NewRisk(res.Plan.Risk, func(s int32) ib.GUID {
		if int(s) < len(r.Fabric.SwitchNode) {
			return r.Fabric.Nodes[r.Fabric.SwitchNode[s]].Info.NodeGUID
		}
		if i := int(s) - len(r.Fabric.SwitchNode); i < len(res.Transition.Frozen) {
			return res.Transition.Frozen[i].GUID // excluded, and forwards still
		}
		return 0
	}, r.DescOf)
}

// Written is called when an LFT block of a switch of the graph is acknowledged.
func (r *Router) Written(s int32, block int) {
	x := &r.repair
	if x.report == nil {
		return
	}
	if k := r.install.Stage(); k >= 0 && k < len(x.found.Writes) {
		b := route.BlockDiff{Switch: s, Block: uint16(block)}
		if _, ok := slices.BinarySearchFunc(x.found.Writes[k], b, compareBlocks); ok {
			x.at = r.Now
		}
	}
}

func compareBlocks(a, b route.BlockDiff) int {
	if a.Switch != b.Switch {
		return int(a.Switch - b.Switch)
	}
	return int(a.Block) - int(b.Block)
}

// EndRepair reports what became of the broken pairs of a sweep. refused says that no tables could be
// installed, again that something changed during the sweep.
func (r *Router) EndRepair(refused, again bool) {
	x := &r.repair
	rep := x.report
	if rep == nil {
		x.open = x.open && (r.Errs > 0 || again)
		return
	}
	switch {
	case refused, r.install.Result() == nil:
		rep.Left = rep.Broken
	case !r.install.Complete():
		rep.Left = x.found.Pairs.Still(r.installed())
	}
	rep.Late = min(rep.Late, rep.Broken-rep.Left)
	rep.First = rep.Broken - rep.Left - rep.Late
	if x.at != mad.Never && rep.Left < rep.Broken {
		rep.Took = x.at.Sub(x.sign)
	}
	n := notice.Notice{Kind: notice.KindRepair, Level: notice.Info, Dur: rep.Took, Text: rep.String(), Repair: rep}
	if rep.Left > 0 || rep.Risk != nil {
		n.Level = notice.Warn
	}
	r.Report.Repair = rep
	r.Notify(n)
	x.open = rep.Left > 0
	x.report, x.found = nil, nil
}
