package job

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"heddle/fabric"
	"heddle/ib"
	"heddle/ib/smp"
	"heddle/route"
	"heddle/route/transition"
	"heddle/sm/config"
	"heddle/sm/notice"
)

// Forecast is what a manager would do if links or switches failed while the tables of a Plan
// were installed. It is the computation that follows a fault, on the graph without them.
type Forecast struct {
	Faults []notice.Fault
	// Cut are the LIDs that no cable connects to the manager any more, ascending. Nothing
	// can be done for them; they are no pairs.
	Cut []CutLID

	// Repair counts pairs, stages and drains. Took is predicted: the time from the
	// first SMP that writes to the last answer that connects a pair.
	Repair notice.Repair

	Engine     string   // whose tables would be installed
	Updated    bool     // the tables would be updated incrementally
	Passed     []string // "engine: reason" of each engine passed over
	Refused    string   // why nothing would be written; empty if something would
	Transition string   // mode and reason
	Stages     []PlannedStage
	// Touched counts the hosts left, and their paths, that get other attributes. Paths to LIDs
	// that are cut off count as lost. nil: no tables would be installed.
	Touched *route.PathCount
	Total   int // SMPs that write forwarding, lane and multicast tables
	// Seconds is the predicted time of all of them, drains included, from the round
	// trips seen in discovery. Until the manager learns of the fault and has read the switches
	// concerned more time passes, as for routing.
	Seconds float64
}

// CutLID is a LID that would be cut off.
type CutLID struct {
	LID  ib.LID
	Node ib.GUID
	Desc string
}

// Errors of Plan.Forecast.
var (
	ErrNoTables = errors.New("job: no forecast is possible, because no proved tables would be installed")
	ErrCutOff   = errors.New("job: the fault would cut the manager off from all switches, so it could repair nothing")
)

// Forecast predicts what happens if all faults come at once; their Kind, Node and Port
// count. A link is named by either end. It computes on up to workers goroutines, as a
// routing job does.
func (p *Plan) Forecast(faults []notice.Fault, workers int) (*Forecast, error) {
	if p.Job == nil || p.Solution == nil {
		return nil, ErrNoTables
	}
	g := p.Solution.Graph
	out := &Forecast{Faults: slices.Clone(faults)}
	var x fabric.Loss
	for i := range out.Faults {
		if err := p.lose(g, &out.Faults[i], &x); err != nil {
			return nil, err
		}
	}
	own, ok := slices.BinarySearchFunc(g.EndPorts, p.Job.PortGUID, func(e fabric.EndPort, guid ib.GUID) int {
		switch {
		case e.GUID < guid:
			return -1
		case e.GUID > guid:
			return 1
		}
		return 0
	})
	if !ok || g.EndPorts[own].Switch < 0 ||
		slices.Contains(x.Switches, g.EndPorts[own].Switch) || slices.Contains(x.EndPorts, int32(own)) {
		return nil, ErrCutOff
	}
	// What the manager cannot reach is not there for it.
	h := g.Without(x)
	at, _ := h.SwitchByGUID(g.Switches[g.EndPorts[own].Switch].GUID)
	for s, there := range h.Reach(at) {
		if i, ok := g.SwitchByGUID(h.Switches[s].GUID); ok && !there {
			x.Switches = append(x.Switches, i)
		}
	}
	h = g.Without(x)
	for l, e := range g.LIDOwner {
		if e != fabric.NoLID && h.LIDOwner[l] == fabric.NoLID {
			guid := g.EndPorts[e].NodeGUID
			out.Cut = append(out.Cut, CutLID{ib.LID(l), guid, p.desc(guid)})
		}
	}
	r := p.Job.after(p.Solution, h).Run(workers)
	out.fill(p, r, h)
	if out.Refused == "" {
		out.Touched = Touched(route.Solution{Graph: g, Tables: p.Solution.Tables}, route.Solution{Graph: h, Tables: r.Tables}, workers)
	}
	return out, nil
}

// Touched counts what hosts see of a change of tables; nil if entries are not known.
func Touched(old, now route.Solution, workers int) *route.PathCount {
	for _, t := range [...]*route.Tables{old.Tables, now.Tables} {
		if t == nil {
			return nil
		}
		for s := range t.Switches() {
			if !t.Known(int32(s)) {
				return nil
			}
		}
	}
	n := route.DiffPaths(old, now, nil, workers).Count(now.Graph)
	return &n
}

// lose adds a fault to a loss and completes its names.
func (p *Plan) lose(g *fabric.Graph, f *notice.Fault, x *fabric.Loss) error {
	f.Desc = p.desc(f.Node)
	s, isSwitch := g.SwitchByGUID(f.Node)
	if f.Kind == notice.FaultSwitch {
		if !isSwitch {
			return fmt.Errorf("%q (%v) is no switch of the subnet", f.Desc, f.Node)
		}
		if !slices.Contains(x.Switches, s) {
			x.Switches = append(x.Switches, s)
		}
		return nil
	}
	if isSwitch && f.Port > 0 && int(f.Port) < len(g.PortChannel[s]) {
		if c := g.PortChannel[s][f.Port]; c >= 0 {
			ch := &g.Channels[c]
			f.Peer, f.PeerPort = g.Switches[ch.To].GUID, ch.InPort
			f.PeerDesc = p.desc(f.Peer)
			x.Channels = append(x.Channels, c)
			return nil
		}
	}
	for i := range g.EndPorts {
		e := &g.EndPorts[i]
		if e.Type == ib.NodeSwitch || e.Switch < 0 {
			continue
		}
		switch {
		case isSwitch && e.Switch == s && e.Port == f.Port:
			f.Peer, f.PeerPort = e.NodeGUID, e.PortNum
		case e.NodeGUID == f.Node && e.PortNum == f.Port:
			f.Peer, f.PeerPort = g.Switches[e.Switch].GUID, e.Port
		default:
			continue
		}
		f.PeerDesc = p.desc(f.Peer)
		x.EndPorts = append(x.EndPorts, int32(i))
		return nil
	}
	return fmt.Errorf("port %d of %q (%v) has no link to another node of the subnet", f.Port, f.Desc, f.Node)
}

func (p *Plan) desc(g ib.GUID) string {
	if s := p.Snapshot; s != nil {
		if i := s.NodeByGUID(g); i >= 0 {
			return s.Nodes[i].Desc
		}
	}
	return ""
}

// after is the job that a manager runs when its graph has become h, while the tables of
// a solution are installed.
func (j *Job) after(s *Solution, h *fabric.Graph) *Job {
	inst := s.Tables.Remap(s.Graph, h)
	inst.Engine, inst.NumVLs, inst.Multicast = "installed", 1, s.Tables.Multicast.Follow(s.Graph, h)
	k := *j
	k.Graph, k.Installed, k.Mode, k.Base, k.EngineBase, k.Served, k.Tried = h, inst, Update, s, nil, s, false
	k.Groups = groupsOn(j.Groups, s.Graph, h)
	k.Options.Previous, k.Options.Rebalance = inst, false
	t := &k.Transition
	t.Quiet, t.LanesUnknown = j.Policy == config.TransitionStatic2003, false
	t.Held, t.Recent, t.Frozen, t.Left = nil, nil, nil, nil
	return &k
}

// groupsOn are groups by the end ports of another graph.
func groupsOn(groups []route.Group, g, h *fabric.Graph) (out []route.Group) {
	at := make(map[ib.GUID]int32, len(h.EndPorts))
	for i := range h.EndPorts {
		at[h.EndPorts[i].GUID] = int32(i)
	}
	list := func(ends []int32) (now []int32) {
		for _, e := range ends {
			if i, ok := at[g.EndPorts[e].GUID]; ok {
				now = append(now, i)
			}
		}
		return now
	}
	for _, x := range groups {
		if x.Members, x.Senders = list(x.Members), list(x.Senders); len(x.Members) > 0 {
			out = append(out, x)
		}
	}
	return out
}

// fill takes over what a job found.
func (f *Forecast) fill(p *Plan, r *Result, h *fabric.Graph) {
	j := p.Job
	f.Engine, f.Updated, f.Passed = r.Engine, r.Updated, r.Passed
	rep := &f.Repair
	rep.Faults, rep.Policy = f.Faults, j.Policy
	if b := r.Broken; b != nil {
		rep.Broken, rep.Late = b.Pairs.N, b.Late
	}
	switch {
	case r.Tables == nil:
		f.Refused, rep.Left = r.Err.Error(), rep.Broken
		return
	case r.Plan.Mode == transition.ModeRefused:
		f.Refused, rep.Left = r.Plan.Reason, rep.Broken
		rep.Mode = r.Plan.Mode
		return
	}
	plan := r.Plan
	rep.First = rep.Broken - rep.Late
	rep.Mode, rep.Stages = plan.Mode, len(plan.Stages)
	rep.CountDrains(plan, j.DrainTime)
	f.Transition = plan.Mode.String() + ": " + plan.Reason
	if plan.Risk != nil {
		rep.Risk = notice.NewRisk(plan.Risk, func(s int32) ib.GUID {
			if int(s) < len(h.Switches) {
				return h.Switches[s].GUID
			}
			return 0
		}, p.desc)
	}
	t := &j.Transition
	f.Stages = PlannedStages(plan)
	var at time.Duration
	for k := range plan.Stages {
		st := &plan.Stages[k]
		n := len(st.LFT) + len(st.SL2VL) + len(st.MFT)
		f.Total += n
		// No stage is faster than one round trip.
		at += max(time.Duration(n)*t.SMPTime/time.Duration(max(t.Window, 1)), min(time.Duration(n), 1)*t.SMPTime)
		if b := r.Broken; b != nil && len(b.Writes[k]) > 0 {
			rep.Took = at
		}
		wait := st.Drain
		if j.DrainTime > 0 && wait > 0 {
			wait = j.DrainTime
		}
		at += wait + st.Repath
	}
	f.Seconds = at.Seconds()
}

// PlannedStages counts what the stages of a plan write, and the packets that switches discard
// because of them.
func PlannedStages(p *transition.Plan) []PlannedStage {
	list := make([]PlannedStage, 0, len(p.Stages))
	for k := range p.Stages {
		list = append(list, NewPlannedStage(&p.Stages[k]))
	}
	p.Discards(func(d transition.Discarded) {
		if d.Back {
			list[d.From].Back++
		} else {
			list[d.From].Withheld++
		}
	})
	if p.Fitted != nil && p.Fitted.Guards > 0 {
		list[0].Guards = p.Fitted.Guards
	}
	return list
}

// NewPlannedStage counts what a stage writes.
func NewPlannedStage(st *transition.Stage) PlannedStage {
	return PlannedStage{
		Discards: st.Discards, LFT: len(st.LFT), SL2VL: len(st.SL2VL), MFT: len(st.MFT), Drain: st.Drain, Repath: st.Repath,
	}
}

// Sets counts the SMPs of a forecast by attribute.
func (f *Forecast) Sets() []PlannedSMPs {
	rows := []PlannedSMPs{
		{Attr: smp.AttrSLtoVL, What: "lane tables"},
		{Attr: smp.AttrLFT, What: "forwarding blocks"},
		{Attr: smp.AttrMFT, What: "multicast blocks"},
	}
	for _, st := range f.Stages {
		rows[0].N += st.SL2VL
		rows[1].N += st.LFT
		rows[2].N += st.MFT
	}
	return rows
}
