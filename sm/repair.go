package sm

import (
	"slices"

	"heddle/ib"
	"heddle/mad"
	"heddle/route"
	"heddle/route/transition"
	"heddle/sm/job"
	"heddle/sm/notice"
)

// repairing is the repair that a sweep carries out.
type repairing struct {
	rep    *notice.Repair // nil: nothing is broken, as far as is known
	found  *job.Breakage
	at     mad.Time // when the last block was acknowledged that connects a pair; Never: none was
	sign   mad.Time // the first sign of what the sweep looks for
	signed mad.Time // the first sign since the sweep began; Never: none
	open   bool     // pairs of the last repair are left
}

// noteSign is called when something asks for a sweep.
func (c *Core) noteSign() { c.rp.signed = min(c.rp.signed, c.Now) }

// signSweep is called at the start of a sweep.
func (c *Core) signSweep() {
	r := &c.rp
	if !r.open {
		r.sign = min(r.signed, c.Now)
	}
	*r = repairing{sign: r.sign, signed: mad.Never, at: mad.Never, open: r.open}
}

// startRepair notes what a job found broken.
func (c *Core) startRepair(r *job.Result) {
	p := r.Plan
	if p != nil && p.Risk != nil && p.Mode != transition.ModeRefused {
		c.Report.Risk = c.riskOf(r)
		c.Notify(notice.Notice{Kind: notice.KindTransientCycle, Level: notice.Warn, Text: c.Report.Risk.String()})
		c.placements.AtRisk()
	}
	b := r.Broken
	if b == nil {
		return
	}
	rep := &notice.Repair{
		Reason: c.Report.Reason, Faults: slices.Clone(b.Faults), More: b.More, Policy: c.Config.Transition,
		Broken: b.Pairs.N, Late: b.Late, First: b.Pairs.N - b.Late, Risk: c.Report.Risk,
	}
	rep.Name(c.descOf)
	if p != nil {
		rep.Mode = p.Mode
		rep.Stages = len(p.Stages)
		rep.CountDrains(p, c.Config.DrainTime)
	}
	c.rp.rep, c.rp.found = rep, b
}

// riskOf names what a plan's risk is about.
func (c *Core) riskOf(r *job.Result) *notice.Risk {
	return notice.NewRisk(r.Plan.Risk, func(s int32) ib.GUID {
		if int(s) < len(c.Fabric.SwitchNode) {
			return c.Fabric.Nodes[c.Fabric.SwitchNode[s]].Info.NodeGUID
		}
		if i := int(s) - len(c.Fabric.SwitchNode); i < len(r.Transition.Frozen) {
			return r.Transition.Frozen[i].GUID // excluded, and forwards still
		}
		return 0
	}, c.descOf)
}

// descOf is the description of a node that is or was there.
func (c *Core) descOf(g ib.GUID) string {
	if i, ok := c.Fabric.ByGUID[g]; ok && c.Fabric.Nodes[i].Desc != "" {
		return c.Fabric.Nodes[i].Desc
	}
	if c.Snapshot != nil {
		if i := c.Snapshot.NodeByGUID(g); i >= 0 {
			return c.Snapshot.Nodes[i].Desc
		}
	}
	return ""
}

// repairWritten is called when a block is acknowledged in a transition.
func (c *Core) repairWritten(s int32, b int) {
	r := &c.rp
	if r.rep == nil {
		return
	}
	if k := c.install.Stage(); k >= 0 && k < len(r.found.Writes) {
		if _, ok := slices.BinarySearchFunc(r.found.Writes[k], route.BlockDiff{Switch: s, Block: uint16(b)}, compareBlocks); ok {
			r.at = c.Now
		}
	}
}

func compareBlocks(a, b route.BlockDiff) int {
	if a.Switch != b.Switch {
		return int(a.Switch - b.Switch)
	}
	return int(a.Block) - int(b.Block)
}

// endRepair tells what became of the broken pairs of a sweep.
func (c *Core) endRepair() {
	r := &c.rp
	rep := r.rep
	if rep == nil {
		r.open = r.open && (c.Errs > 0 || c.sweep.again)
		return
	}
	switch {
	case c.sweep.refused, c.install.Result() == nil:
		rep.Left = rep.Broken
	case !c.install.Complete():
		rep.Left = r.found.Pairs.Still(c.installed())
	}
	rep.Late = min(rep.Late, rep.Broken-rep.Left)
	rep.First = rep.Broken - rep.Left - rep.Late
	if r.at != mad.Never && rep.Left < rep.Broken {
		rep.Took = r.at.Sub(r.sign)
	}
	n := notice.Notice{Kind: notice.KindRepair, Level: notice.Info, Dur: rep.Took, Text: rep.String(), Repair: rep}
	if rep.Left > 0 || rep.Risk != nil {
		n.Level = notice.Warn
	}
	c.Report.Repair = rep
	c.Notify(n)
	r.open = rep.Left > 0
	r.rep, r.found = nil, nil
}
