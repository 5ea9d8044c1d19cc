package sm

import (
	"cmp"
	"slices"
	"time"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/route"
	"heddle/route/transition"
	"heddle/sm/notice"
	"heddle/sm/topo"
	"heddle/subnet"
)

// Plan is what a manager would do to the fabric it found: the result of
// Config.PlanOnly. Nothing was written.
type Plan struct {
	Snapshot *subnet.Snapshot // what was found; its Graph and Tables are the wanted ones
	Master   subnet.SM        // the master that owns the subnet now; GUID 0 if none answers

	LIDs    []PlannedLID // end ports whose LID would change, ascending port GUID
	Blocks  []PlannedSwitch
	Sets    []PlannedSMPs // SMPs that write, by attribute, in the order they are sent
	Total   int           // their sum
	Engine  string
	Passed  []string // "engine: reason" of each engine passed over
	Refused string   // why nothing would be installed; empty if something would
	// Transition is the mode in which tables would change, with the reason.
	Transition string
	Mode       transition.Mode
	Stages     []PlannedStage // one after the other
	// RepathPairs is how many pairs (source port, LID) change their service
	// level, so that hosts must resolve the paths again.
	RepathPairs int64
	Refusals    []route.RefusedGroup // multicast groups without a tree
	// Clean: the change is free of loops and cyclic dependencies at every step.
	Clean     bool
	SecondsAt float64      // predicted seconds, from the round-trip time seen in discovery
	Risk      *notice.Risk // not nil: the transition is not proved at every step

	job      *Job      // for Forecast
	solution *solution // the engine's tables with their proof, nil if there are none
}

// PlannedStage is a stage of the change of tables: what is written before
// everything is acknowledged and the waits have passed.
type PlannedStage struct {
	Discards        bool // it clears entries, or cuts multicast trees, for a while
	LFT, SL2VL, MFT int  // blocks and tables written
	Drain           time.Duration
	Repath          time.Duration // wait for hosts to use new service levels
}

// PlannedLID is a change of an end port's LID.
type PlannedLID struct {
	Where    notice.Where
	GUID     ib.GUID
	Old, New ib.LID
	Why      string
}

// PlannedSwitch says how many LFT blocks of a switch would be written.
type PlannedSwitch struct {
	Where  notice.Where
	Blocks int
}

// PlannedSMPs counts the Set SMPs of one attribute.
type PlannedSMPs struct {
	Attr ib.AttrID
	What string
	N    int
}

// emitPlan ends a plan-only run.
func (c *Core) emitPlan(r *JobResult) {
	f := c.Fabric
	p := &Plan{Engine: r.Engine, Passed: r.Passed, Master: c.mastership.Master(), job: c.planJob, solution: r.base}
	c.planJob = nil
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
			p.LIDs = append(p.LIDs, PlannedLID{Where: f.Where(q.Node, int(q.Num)), GUID: q.GUID, Old: q.Info.LID, New: q.LID, Why: why})
		}
		if w, ext, ok := c.portWanted(q.Node, q.Num); ok && c.differs(&w, &q.Info, ext) {
			sets[smp.AttrPortInfo]++
		}
		if c.moves(q) {
			switch q.Info.PortState {
			case ib.StateInit:
				sets[planMove] += 2
			case ib.StateArmed:
				sets[planMove]++
			}
		}
	}
	slices.SortFunc(p.LIDs, func(a, b PlannedLID) int { return cmp.Compare(a.GUID, b.GUID) })
	for i := range f.Nodes {
		if n := &f.Nodes[i]; n.IsSwitch() && n.OK() && (n.Switch.PortStateChange || n.Switch.LifeTimeValue != c.Config.PacketLife) {
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
			p.Stages = append(p.Stages, plannedStage(st))
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
				p.Blocks = append(p.Blocks, PlannedSwitch{Where: f.Where(f.SwitchNode[s], -1), Blocks: k})
				sets[smp.AttrLFT] += k
			}
			if f.Nodes[f.SwitchNode[s]].LFT.Top != r.Tables.TopLID {
				sets[planTop]++
			}
		}
	}
	for _, row := range [...]PlannedSMPs{
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
	c.wanted = r.Tables
	c.enter(notice.PhaseIdle)
	c.wantSweep = false
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
