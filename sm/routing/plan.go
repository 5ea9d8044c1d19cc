package routing

import (
	"cmp"
	"slices"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/route"
	"heddle/route/transition"
	"heddle/sm/job"
	"heddle/sm/topo"
	"heddle/subnet"
)

// Ports says what a sweep would do to ports.
type Ports interface {
	// Differs reports whether the parameters of a port are not as they are to be, SwitchDiffers
	// the same of a switch.
	Differs(p *topo.Port) bool
	// OnlyAsks reports whether all that a Set would do to a port that differs is to ask its host to
	// register again.
	OnlyAsks(p *topo.Port) bool
	SwitchDiffers(n *topo.Node) bool
	// Moves reports whether the manager may change the state of a port.
	Moves(p *topo.Port) bool
}

// sets counts the Sets that a sweep would send.
type sets struct {
	ports, asked, switches, states int
	lft, lanes, mft, tops          int
}

// Plan is what a sweep would write, with the result of the job asked for last. Nothing is written.
func (r *Router) Plan(res *job.Result, ports Ports, master subnet.SM) *job.Plan {
	p := &job.Plan{Engine: res.Engine, Passed: res.Passed, Master: master, Job: r.planned, Solution: res.Base}
	r.planned = nil
	if res.Err != nil {
		p.Refused = res.Err.Error()
	}
	var n sets
	r.planPorts(p, ports, &n)
	for i := range r.Fabric.Nodes {
		if nd := &r.Fabric.Nodes[i]; nd.IsSwitch() && nd.OK() && ports.SwitchDiffers(nd) {
			n.switches++
		}
	}
	if res.Plan != nil {
		r.planTables(p, res, &n)
	}
	for _, row := range [...]job.PlannedSMPs{
		{Attr: smp.AttrPortInfo, What: "LIDs and port parameters", N: n.ports},
		{Attr: smp.AttrPortInfo, What: "hosts asked to register again", N: n.asked},
		{Attr: smp.AttrSwitchInfo, What: "switch parameters", N: n.switches},
		{Attr: smp.AttrSLtoVL, What: "lane tables", N: n.lanes},
		{Attr: smp.AttrLFT, What: "forwarding blocks", N: n.lft},
		{Attr: smp.AttrMFT, What: "multicast blocks", N: n.mft},
		{Attr: smp.AttrSwitchInfo, What: "LinearFDBTop", N: n.tops},
		{Attr: smp.AttrPortInfo, What: "port states (Armed, Active)", N: n.states},
	} {
		if row.N == 0 && (row.Attr == smp.AttrSLtoVL || row.Attr == smp.AttrMFT) {
			continue // most subnets have none
		}
		p.Sets = append(p.Sets, row)
		p.Total += row.N
	}
	p.Asked = n.asked
	p.SecondsAt = r.meanRTT().Seconds() * float64(p.Total) / float64(max(r.Engine.Window(), 1))
	if res.Plan != nil {
		p.SecondsAt += res.Plan.Drain.Seconds() + res.Plan.Repath.Seconds()
	}
	return p
}

// planPorts adds the LIDs that ports would get, and counts the Sets of ports.
func (r *Router) planPorts(p *job.Plan, ports Ports, n *sets) {
	f := r.Fabric
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
			p.LIDs = append(p.LIDs, job.PlannedLID{
				Where: f.Where(q.Node, int(q.Num)), GUID: q.GUID, Old: q.Info.LID, New: q.LID, Why: why,
			})
		}
		switch {
		case !ports.Differs(q):
		case ports.OnlyAsks(q):
			n.asked++
		default:
			n.ports++
		}
		if ports.Moves(q) {
			switch q.Info.PortState {
			case ib.StateInit:
				n.states += 2
			case ib.StateArmed:
				n.states++
			}
		}
	}
	slices.SortFunc(p.LIDs, func(a, b job.PlannedLID) int { return cmp.Compare(a.GUID, b.GUID) })
}

// planTables adds the stages of the transition and what switches would be sent in them.
func (r *Router) planTables(p *job.Plan, res *job.Result, n *sets) {
	f := r.Fabric
	p.Transition = res.Plan.Mode.String() + ": " + res.Plan.Reason
	p.Clean = res.Plan.Mode == transition.ModeNone || res.Plan.Mode == transition.ModeDynamic
	p.Mode, p.RepathPairs, p.Refusals = res.Plan.Mode, res.Plan.RepathPairs, res.Refused
	p.Touched = job.Touched(route.Solution{Graph: f.Graph, Tables: res.Installed}, route.Solution{Graph: f.Graph, Tables: res.Tables}, 1)
	if res.Plan.Risk != nil {
		p.Risk = r.risk(res)
	}
	blocks := make([]int, len(f.SwitchNode))
	p.Stages = job.PlannedStages(res.Plan)
	for i := range res.Plan.Stages {
		st := &res.Plan.Stages[i]
		n.lanes += len(st.SL2VL)
		n.mft += len(st.MFT)
		for _, b := range st.LFT {
			blocks[b.Switch]++
		}
	}
	for s, k := range blocks {
		if k > 0 {
			p.Blocks = append(p.Blocks, job.PlannedSwitch{Where: f.Where(f.SwitchNode[s], -1), Blocks: k})
			n.lft += k
		}
		if f.Nodes[f.SwitchNode[s]].LFT.Top != res.Tables.TopLID {
			n.tops++
		}
	}
}
