package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"heddle/api"
	"heddle/daemon"
	"heddle/internal/plural"
	"heddle/route"
	"heddle/sm"
	"heddle/store"
)

// planFlags are the flags of 'heddle plan'.
type planFlags struct {
	smFlags
	asJSON bool
	status bool // --exit-code
	faults []string
}

func newPlan() *cobra.Command {
	f := planFlags{smFlags: newSMFlags()}
	c := &cobra.Command{
		Use:     "plan --port PORT",
		GroupID: "manage",
		Short:   "Show what managing a subnet would change; nothing is written",
		Long: `Discovers the subnet and computes what 'heddle sm' with the same settings would
do to it: LIDs that would change, forwarding-table blocks, SMPs by attribute, and the
transition of the tables with its proof.

It only reads: no Set is sent and IsSM is not claimed, so another manager may
own the subnet. It stops at a port that refuses its M_Key.

With --fault it predicts what the manager would do if a link or a switch failed
once the wanted tables are installed: the pairs (switch with a host, LID of a host)
that would break, how and in what time they would be connected, the drains,
whether a transient cycle would be possible and through which channels, and the
LIDs that no cable would connect any more. Nodes are named by description or
node GUID. Several faults are applied together.

The exit status is 0 once the plan is made. With --exit-code it is 0 only if the
manager would write nothing except the requests to hosts to register again, as
after each start; 3 if it would write more, or refuse to start. As always it is 1
for errors and 2 for usage.`,
		Example: `  heddle plan --port umad:mlx5_0/1 --state /var/lib/heddle
  heddle plan --port ibsim:Spine0@my-fabric --engine updn --json
  heddle plan --port umad:mlx5_0/1 --fault 'link leaf-3:19' --fault 'switch spine-2'`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	c.Flags().BoolVar(&f.asJSON, "json", false, "print JSON")
	c.Flags().BoolVar(&f.status, "exit-code", false, "end with status 3 if the manager would write something, or would refuse to")
	c.Flags().StringArrayVar(&f.faults, "fault", nil, "predict the loss of `WHAT`: 'link NODE:PORT' or 'switch NODE'; may be repeated")
	// The output is the plan, so log little.
	f.SetDefault("log-level", "warn")
	f.register(c.Flags(), "plan")
	for _, name := range []string{"api", "api-socket", "api-host", "token-file", "api-tls-cert", "api-tls-key", "api-read-token-file", "dump"} {
		c.Flags().MarkHidden(name) // unused here, but one configuration file serves sm and plan
	}
	return c
}

func (f *planFlags) run(cmd *cobra.Command) error {
	port := f.Port
	if port == "" {
		return usagef("missing port; give --port umad:DEVICE/PORT or --port ibsim:NODE[@SOCKNAME]")
	}
	cfg, err := f.config("plan")
	if err != nil {
		return err
	}
	lost, err := parseFaults(f.faults)
	if err != nil {
		return err
	}
	log := f.logger(newTerminal(cmd))
	f.warnSecrets(log)
	st, err := f.peekStore()
	if err != nil {
		return err
	}
	defer st.Close()
	plan, err := f.plan(cmd, cfg, st, port)
	if err != nil {
		return err
	}
	forecast, err := forecastOf(plan, lost)
	if err != nil {
		return err
	}
	if f.asJSON {
		v := planJSON(plan)
		v.Fault = faultJSON(forecast)
		err = printJSON(cmd.OutOrStdout(), v)
	} else {
		err = printPlan(cmd.OutOrStdout(), plan, forecast)
	}
	if err == nil && f.status && plan.Changes() {
		return &exitError{code: exitDiffers}
	}
	return err
}

// plan is what a manager with a configuration and a store would do to the subnet of a port.
func (f smFlags) plan(cmd *cobra.Command, cfg sm.Config, st store.Store, port string) (*sm.Plan, error) {
	cfg.PlanOnly = true
	tty := newTerminal(cmd)
	log := f.logger(tty)
	p, err := openPortAs(cmd.Context(), port, false) // OpenSM may run on this port
	if err != nil {
		return nil, err
	}
	defer p.Close()
	suit(&cfg, p)
	var plan *sm.Plan
	dc := daemon.Config{
		Port: p, PortName: port, Core: cfg, Store: st, Log: log,
		OnPlan: func(pl *sm.Plan) { plan = pl },
	}
	dc.Progress = tty.progress()
	err = daemon.New(dc).Run(cmd.Context())
	tty.clear()
	if err == nil && plan == nil {
		err = fmt.Errorf("the discovery was interrupted; there is no plan")
	}
	return plan, err
}

type planView struct {
	Switches   int            `json:"switches"`
	CAs        int            `json:"cas"`
	Links      int            `json:"links"`
	Master     string         `json:"master,omitempty"`
	LIDs       []plannedLID   `json:"lids"`
	Blocks     int            `json:"lft_blocks"`
	BySwitch   map[string]int `json:"lft_blocks_by_switch"`
	SMPs       map[string]int `json:"smps"`
	Total      int            `json:"smps_total"`
	Engine     string         `json:"engine"`
	PassedOver []string       `json:"engines_passed_over,omitempty"`
	Refused    string         `json:"refused,omitempty"`
	Transition string         `json:"transition"`
	Mode       string         `json:"mode"`
	Stages     []plannedStage `json:"stages"`
	Repath     int64          `json:"repath_pairs"`
	Touched    *touchedView   `json:"changed_paths,omitempty"`
	GroupsOut  []string       `json:"groups_refused,omitempty"`
	Clean      bool           `json:"deadlock_free"`
	Seconds    float64        `json:"predicted_seconds"`
	Risk       *api.Risk      `json:"transition_risk,omitempty"`
	Problems   []string       `json:"problems"`
	Fault      *faultView     `json:"fault,omitempty"`
}

// touchedView counts what hosts see of a change.
type touchedView struct {
	Hosts    int   `json:"hosts"`
	Paths    int64 `json:"paths"`
	SL       int64 `json:"service_level"`
	Capacity int64 `json:"mtu_or_rate"`
	Lost     int64 `json:"lost"`
	Gained   int64 `json:"gained"`
}

func touched(n *route.PathCount) *touchedView {
	if n == nil {
		return nil
	}
	return &touchedView{n.Hosts, n.Paths, n.SL, n.Capacity, n.Lost, n.Gained}
}

// String is one line for people.
func (v *touchedView) String() string {
	if v.Paths == 0 {
		return "none: no path has other attributes"
	}
	var parts []string
	for _, x := range []struct {
		n    int64
		what string
	}{{v.SL, "service level"}, {v.Capacity, "MTU or rate"}, {v.Lost, "lost"}, {v.Gained, "gained"}} {
		if x.n > 0 {
			parts = append(parts, fmt.Sprintf("%s %d", x.what, x.n))
		}
	}
	return fmt.Sprintf("%d, with %d changed paths (%s)", v.Hosts, v.Paths, strings.Join(parts, ", "))
}

type plannedStage struct {
	Discards bool    `json:"discards"`
	LFT      int     `json:"lft_blocks"`
	SL2VL    int     `json:"sl2vl_tables"`
	MFT      int     `json:"mft_blocks"`
	Withheld int     `json:"withheld_entries"`
	Back     int     `json:"back_entries"`
	Guards   int     `json:"guards"`
	Drain    float64 `json:"drain_seconds"`
	Repath   float64 `json:"repath_seconds"`
}

// String describes the writes and the wait of a stage.
func (s plannedStage) String() string {
	var parts []string
	count := func(n int, thing, one, many string) {
		if n > 0 {
			parts = append(parts, plural.Of(n, thing)+plural.Verb(n, one, many))
		}
	}
	discard, discards := "", ""
	if s.Discards {
		discard, discards = " that discard", " that discards"
	}
	count(s.LFT, "LFT block", discards, discard)
	count(s.SL2VL, "SL2VL table", "", "")
	count(s.MFT, "MFT block", "", "")
	count(s.Withheld, "entry", " discards packets until a later stage or plan", " discard packets until a later stage or plan")
	count(s.Back, "entry", " turns packets around that are on the link, which are lost", " turn packets around that are on the link, which are lost")
	count(s.Guards, "SL2VL table", " discards what could close a cycle", " discard what could close a cycle")
	if s.Drain > 0 {
		parts = append(parts, fmt.Sprintf("then %.3g s until packets in flight have left", s.Drain))
	}
	if s.Repath > 0 {
		parts = append(parts, fmt.Sprintf("then %.3g s until hosts use their new service levels", s.Repath))
	}
	return strings.Join(parts, ", ")
}

type plannedLID struct {
	Port string `json:"port"`
	GUID string `json:"port_guid"`
	Old  int    `json:"old"`
	New  int    `json:"new"`
	Why  string `json:"why,omitempty"`
}

func planJSON(p *sm.Plan) planView {
	v := planView{
		LIDs: []plannedLID{}, BySwitch: map[string]int{}, SMPs: map[string]int{}, Total: p.Total, Engine: p.Engine,
		PassedOver: p.Passed, Refused: p.Refused, Transition: p.Transition, Clean: p.Clean, Seconds: p.SecondsAt,
		Mode: p.Mode.String(), Stages: []plannedStage{}, Repath: p.RepathPairs, Touched: touched(p.Touched),
		Problems: []string{}, Risk: plannedRisk(p.Risk),
	}
	if s := p.Snapshot; s != nil {
		v.Switches, v.CAs, v.Links = s.Counts.Switches, s.Counts.CAs, s.Counts.Links
		for _, pr := range s.Problems {
			v.Problems = append(v.Problems, pr.Node+": "+pr.Text)
		}
	}
	if p.Master.GUID != 0 {
		v.Master = p.Master.GUID.String()
	}
	for _, l := range p.LIDs {
		v.LIDs = append(v.LIDs, plannedLID{l.Where.String(), l.GUID.String(), int(l.Old), int(l.New), l.Why})
	}
	for _, st := range p.Stages {
		v.Stages = append(v.Stages, newPlannedStage(st))
	}
	for _, g := range p.Refusals {
		v.GroupsOut = append(v.GroupsOut, fmt.Sprintf("group %#x: %s", uint16(g.MLID), g.Reason))
	}
	for _, b := range p.Blocks {
		v.Blocks += b.Blocks
		v.BySwitch[b.Where.Node.String()] += b.Blocks
	}
	for _, s := range p.Sets {
		v.SMPs[s.What] += s.N
	}
	return v
}

// shownLIDs is how many changes of LIDs are listed one by one.
const shownLIDs = 20

func printPlan(w io.Writer, p *sm.Plan, f *sm.Forecast) error {
	v := planJSON(p)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(k, f string, a ...any) { fmt.Fprintf(t, "%s\t%s\n", k, plain(fmt.Sprintf(f, a...))) }
	row("found", "%d switches, %d CAs, %d links", v.Switches, v.CAs, v.Links)
	if v.Master != "" {
		row("master now", "%s (LID %d, priority %d)", v.Master, p.Master.LID, p.Master.Priority)
	}
	row("LIDs to change", "%d", len(v.LIDs))
	for i, l := range v.LIDs {
		if i == shownLIDs {
			row("", "… and %d more (--json lists all)", len(v.LIDs)-i)
			break
		}
		old := strconv.Itoa(l.Old)
		if l.Old == 0 {
			old = "none"
		}
		row("", "%s: %s to %d (%s)", l.Port, old, l.New, l.Why)
	}
	for _, e := range v.PassedOver {
		row("passed over", "%s", e)
	}
	if v.Refused != "" {
		row("refused", "%s", v.Refused)
	} else {
		row("engine", "%s", v.Engine)
		row("LFT blocks", "%d on %s", v.Blocks, plural.Of(len(v.BySwitch), "switch"))
		row("transition", "%s", v.Transition)
		for i, st := range v.Stages {
			row(fmt.Sprintf("stage %d", i+1), "%s", st)
		}
		if v.Repath > 0 {
			row("needs repath", "%d pairs of source port and LID change their service level", v.Repath)
		}
		if v.Touched != nil {
			row("hosts concerned", "%s", v.Touched)
		}
		for _, g := range v.GroupsOut {
			row("refused", "%s", g)
		}
		free := "yes, at every step"
		if !v.Clean {
			free = "yes, one stage after the other"
		}
		if v.Risk != nil {
			free = "not at every step: " + riskText(v.Risk)
		}
		row("deadlock-free", "%s", free)
	}
	for _, s := range p.Sets {
		if s.N > 0 {
			row("SMPs", "%d %s", s.N, s.What)
		}
	}
	row("SMPs in all", "%d, about %.2f s", v.Total, v.Seconds)
	for _, pr := range v.Problems {
		row("problem", "%s", pr)
	}
	if f != nil {
		printForecast(row, faultJSON(f))
	}
	row("", "nothing was written")
	return t.Flush()
}
