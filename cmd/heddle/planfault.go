package main

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"heddle/api"
	"heddle/ib"
	"heddle/sm"
	"heddle/subnet"
)

// namedFault is a value of --fault.
type namedFault struct {
	text string
	kind sm.FaultKind
	node string // description or GUID
	port uint8
}

// parseFaults parses the values of --fault, before the subnet is read.
func parseFaults(list []string) (out []namedFault, err error) {
	for _, text := range list {
		kind, rest, _ := strings.Cut(text, " ")
		f := namedFault{text: text, node: strings.TrimSpace(rest)}
		switch {
		case kind == "switch" && f.node != "":
			f.kind = sm.FaultSwitch
		case kind == "link" && strings.Contains(f.node, ":"):
			f.kind = sm.FaultLink
			at := strings.LastIndexByte(f.node, ':')
			n, err := strconv.ParseUint(f.node[at+1:], 10, 8)
			if err != nil || n == 0 || at == 0 {
				return nil, usagef("--fault %q: want 'link NODE:PORT' with a port from 1 to 254", text)
			}
			f.node, f.port = f.node[:at], uint8(n)
		default:
			return nil, usagef("--fault %q: want 'link NODE:PORT' or 'switch NODE', NODE being a description or a node GUID", text)
		}
		out = append(out, f)
	}
	return out, nil
}

// listThem names the command that lists the names for --fault.
const listThem = "'heddle ctl links' of a running manager lists nodes and ports"

// find resolves a node name.
func (f *namedFault) find(s *subnet.Snapshot) (sm.Fault, error) {
	out := sm.Fault{Kind: f.kind, Port: f.port}
	if g, err := ib.ParseGUID(f.node); err == nil && s.NodeByGUID(g) >= 0 {
		out.Node = g
		return out, nil
	}
	var same, names []string
	for i := range s.Nodes {
		n := &s.Nodes[i]
		isSwitch := n.Info.NodeType == ib.NodeSwitch
		if f.kind == sm.FaultLink || isSwitch {
			names = append(names, n.Desc)
		}
		if n.Desc != f.node {
			continue
		}
		if f.kind == sm.FaultSwitch && !isSwitch {
			return out, fmt.Errorf("--fault %q: %q is not a switch; name its link: 'link %s:1'", f.text, f.node, f.node)
		}
		out.Node = n.Info.NodeGUID
		same = append(same, n.Info.NodeGUID.String())
		if int(f.port) > int(n.Info.NumPorts) {
			return out, fmt.Errorf("--fault %q: %q has ports 1 to %d; %s", f.text, f.node, n.Info.NumPorts, listThem)
		}
	}
	switch {
	case len(same) > 1:
		return out, fmt.Errorf("--fault %q: %d nodes have the name %q; use a GUID: %s", f.text, len(same), f.node, strings.Join(same[:min(len(same), 8)], ", "))
	case len(same) == 0:
		return out, fmt.Errorf("--fault %q: no node has the name %q%s; %s", f.text, f.node, didYouMean(f.node, names), listThem)
	}
	return out, nil
}

// forecastOf computes the consequences of faults; nil if there are none.
func forecastOf(p *sm.Plan, list []namedFault) (*sm.Forecast, error) {
	if len(list) == 0 {
		return nil, nil
	}
	if p.Snapshot == nil {
		return nil, sm.ErrNoTables
	}
	var faults []sm.Fault
	for i := range list {
		f, err := list[i].find(p.Snapshot)
		if err != nil {
			return nil, err
		}
		faults = append(faults, f)
	}
	f, err := p.Forecast(faults, runtime.GOMAXPROCS(0))
	switch {
	case errors.Is(err, sm.ErrNoTables) || errors.Is(err, sm.ErrCutOff):
		return nil, fmt.Errorf("--fault: %s", strings.TrimPrefix(err.Error(), "job: "))
	case err != nil:
		return nil, fmt.Errorf("--fault: %w; %s", err, listThem)
	}
	return f, nil
}

type faultView struct {
	Faults     []string       `json:"faults"`
	Cut        []cutView      `json:"lids_cut_off"`
	Broken     int            `json:"pairs_broken"`
	First      int            `json:"pairs_first"`
	Late       int            `json:"pairs_late"`
	Left       int            `json:"pairs_left"`
	Engine     string         `json:"engine"`
	Updated    bool           `json:"updated"`
	PassedOver []string       `json:"engines_passed_over,omitempty"`
	Refused    string         `json:"refused,omitempty"`
	Transition string         `json:"transition"`
	Mode       string         `json:"mode"`
	Policy     string         `json:"policy"`
	Stages     []plannedStage `json:"stages"`
	Touched    *touchedView   `json:"changed_paths,omitempty"`
	Drains     int            `json:"drains"`
	DrainTime  float64        `json:"drain_seconds"`
	Risk       *api.Risk      `json:"risk,omitempty"`
	SMPs       map[string]int `json:"smps"`
	Total      int            `json:"smps_total"`
	Connected  float64        `json:"predicted_repair_seconds"`
	Seconds    float64        `json:"predicted_seconds"`
}

type cutView struct {
	LID  int    `json:"lid"`
	GUID string `json:"node_guid"`
	Node string `json:"description"`
}

func faultJSON(f *sm.Forecast) *faultView {
	if f == nil {
		return nil
	}
	r := &f.Repair
	v := &faultView{
		Cut: []cutView{}, Broken: r.Broken, First: r.First, Late: r.Late, Left: r.Left,
		Engine: f.Engine, Updated: f.Updated, PassedOver: f.Passed, Refused: f.Refused, Transition: f.Transition,
		Mode: r.Mode.String(), Policy: r.Policy.String(), Stages: []plannedStage{}, Touched: touched(f.Touched), Drains: r.Drains, DrainTime: r.Drain.Seconds(),
		Risk: plannedRisk(r.Risk), SMPs: map[string]int{}, Total: f.Total, Connected: r.Took.Seconds(), Seconds: f.Seconds,
	}
	for _, x := range f.Faults {
		v.Faults = append(v.Faults, x.String())
	}
	for _, c := range f.Cut {
		v.Cut = append(v.Cut, cutView{int(c.LID), c.Node.String(), c.Desc})
	}
	for _, st := range f.Stages {
		v.Stages = append(v.Stages, newPlannedStage(st))
	}
	for _, s := range f.Sets() {
		v.SMPs[s.What] += s.N
	}
	return v
}

func newPlannedStage(st sm.PlannedStage) plannedStage {
	return plannedStage{
		st.Discards, st.LFT, st.SL2VL, st.MFT, st.Withheld, st.Back, st.Guards, st.Drain.Seconds(), st.Repath.Seconds(),
	}
}

func plannedRisk(r *sm.Risk) *api.Risk {
	if r == nil {
		return nil
	}
	out := &api.Risk{Channels: []string{}, Worst: r.Worst.Seconds(), Why: r.Why}
	for _, h := range r.Channels {
		out.Channels = append(out.Channels, h.String())
	}
	return out
}

// printForecast adds rows to a plan.
func printForecast(row func(k, f string, a ...any), v *faultView) {
	row("", "")
	row("if lost", "%s", strings.Join(v.Faults, ", "))
	for i, c := range v.Cut {
		if i == shownLIDs {
			row("", "… and %d more (--json lists all)", len(v.Cut)-i)
			break
		}
		row("cut off", "LID %d, %s %s: no longer connected", c.LID, c.GUID, c.Node)
	}
	row("pairs broken", "%d", v.Broken)
	if v.Refused != "" {
		row("refused", "%s", v.Refused)
		return
	}
	for _, e := range v.PassedOver {
		row("passed over", "%s", e)
	}
	how := "computed anew"
	if v.Updated {
		how = "kept where possible"
	}
	row("engine", "%s, tables %s", v.Engine, how)
	row("transition", "%s", v.Transition)
	for i, st := range v.Stages {
		row(fmt.Sprintf("stage %d", i+1), "%s", st)
	}
	if v.Broken > 0 {
		late := ""
		if v.Late > 0 {
			late = fmt.Sprintf(", %d of them late", v.Late)
		}
		row("connected", "%d pairs after about %v of writing%s", v.Broken, shortTime(v.Connected), late)
	}
	if v.Touched != nil {
		row("hosts concerned", "%s", v.Touched)
	}
	if v.Drains > 0 {
		row("drains", "%d, %.3g s in all", v.Drains, v.DrainTime)
	}
	free := "yes, at every step"
	if v.Risk != nil {
		free = "not at every step: " + riskText(v.Risk)
	} else if len(v.Stages) > 1 {
		free = "yes, one stage after the other"
	}
	row("deadlock-free", "%s", free)
	names := make([]string, 0, len(v.SMPs))
	for what, n := range v.SMPs {
		if n > 0 {
			names = append(names, fmt.Sprintf("%d %s", n, what))
		}
	}
	slices.Sort(names)
	if len(names) == 0 {
		row("SMPs in all", "0")
		return
	}
	row("SMPs in all", "%d, about %v (%s)", v.Total, shortTime(v.Seconds), strings.Join(names, ", "))
}

// shortTime rounds seconds for people.
func shortTime(seconds float64) time.Duration {
	return time.Duration(seconds * float64(time.Second)).Round(time.Microsecond)
}
