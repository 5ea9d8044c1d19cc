package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"heddle/fabric"
	"heddle/route"
	"heddle/route/check"
	"heddle/route/mcast"
	"heddle/settings"
)

// netlistFlags select and configure the netlist file.
type netlistFlags struct {
	netlist string
	allowDo bool
	include bool
}

func (f *netlistFlags) register(fs *pflag.FlagSet) {
	fs.StringVar(&f.netlist, "netlist", "", "netlist `FILE` in the format of ibnetdiscover and ibsim; - is standard input")
	fs.BoolVar(&f.allowDo, "allow-do", false, "permit console commands in the netlist's 'do' lines")
	fs.BoolVar(&f.include, "allow-include", false, "permit the netlist to include files from its own directory")
}

// read reads the netlist.
func (f *netlistFlags) read(stdin io.Reader) (*fabric.Fabric, []string, error) {
	if f.netlist == "" {
		return nil, nil, usagef("missing fabric; give --netlist FILE ('heddle topo gen' makes one)")
	}
	o := fabric.NetlistOptions{Name: f.netlist, AllowDo: f.allowDo}
	if f.netlist == "-" {
		o.Name = "standard input"
		return readNetlist(stdin, o)
	}
	file, err := os.Open(f.netlist)
	if err != nil {
		return nil, nil, inputError("--netlist", err)
	}
	defer file.Close()
	if f.include {
		root, err := os.OpenRoot(filepath.Dir(f.netlist))
		if err != nil {
			return nil, nil, usagef("--netlist: %w", err)
		}
		defer root.Close()
		o.Include = root.FS()
	}
	return readNetlist(bufio.NewReader(file), o)
}

// routeResult is the JSON contract of `heddle route`.
type routeResult struct {
	Engine             string         `json:"engine"`
	PassedOver         []string       `json:"passed_over,omitempty"`
	Note               string         `json:"note,omitempty"`
	Switches           int            `json:"switches"`
	EndPorts           int            `json:"endports"`
	LIDs               int            `json:"lids"`
	SecondsCompute     float64        `json:"seconds_compute"`
	SecondsVerify      float64        `json:"seconds_verify"`
	VLsUsed            int            `json:"vls_used"`
	UnreachablePairs   int64          `json:"unreachable_pairs"`
	DisconnectedPairs  int64          `json:"disconnected_pairs"`
	Loops              int64          `json:"loops"`
	CreditCycles       int            `json:"credit_cycles"`
	CreditCyclesSwitch int            `json:"credit_cycles_switch"`
	MaxHops            int            `json:"max_hops"`
	AvgHops            float64        `json:"avg_hops"`
	MaxChannelLoad     int64          `json:"max_channel_load"`
	AvgChannelLoad     float64        `json:"avg_channel_load"`
	BytesRSS           int64          `json:"bytes_rss"`
	Verified           bool           `json:"verified"`
	Groups             int            `json:"multicast_groups"`
	GroupsRefused      []string       `json:"multicast_refused,omitempty"`
	MulticastFailures  int            `json:"multicast_failures"`
	Patterns           *patternResult `json:"patterns,omitempty"`
	Cycle              []string       `json:"cycle,omitempty"`
}

// patternResult reports the load of communication patterns on the channels.
type patternResult struct {
	ShiftMax   int     `json:"shift_max_load"`      // most flows over a channel in any shift
	ShiftMean  float64 `json:"shift_mean_max_load"` // mean over the shifts
	RandomMax  float64 `json:"random_max_load"`     // mean over random permutations
	Bisection  float64 `json:"effective_bisection"` // mean share of a flow; 1 is a whole link
	Rounds     int     `json:"rounds"`              // random permutations, and bisections
	ShiftsSeen int     `json:"shifts"`
}

// manyShifts is the number of shifts up to which all are evaluated.
const manyShifts = 1000

func patterns(g *fabric.Graph, t *route.Tables, o route.Options) *patternResult {
	p := check.PatternOptions{Workers: o.Workers, Seed: o.Seed}
	if len(g.EndPorts) > manyShifts {
		p.Rounds = manyShifts / 4
	}
	shift := check.PatternLoad(g, t, check.Shift, p)
	p.Rounds = 100
	random := check.PatternLoad(g, t, check.Permutation, p)
	bisect := check.PatternLoad(g, t, check.Bisect, p)
	return &patternResult{
		ShiftMax: shift.MaxLoad, ShiftMean: shift.MeanMaxLoad, RandomMax: random.MeanMaxLoad, Bisection: bisect.MeanShare,
		Rounds: random.Rounds, ShiftsSeen: shift.Rounds,
	}
}

func (res *routeResult) multicast(m *route.Multicast) {
	if m == nil {
		return
	}
	res.Groups = len(m.Trees)
	for _, r := range m.Refused {
		res.GroupsRefused = append(res.GroupsRefused, fmt.Sprintf("group %#x: %s", uint16(r.MLID), r.Reason))
	}
}

// routeFlags are the flags of 'heddle route'.
type routeFlags struct {
	netlist                        netlistFlags
	engine                         engineFlags
	vls, lidsPerPort, workers      int
	seed                           uint64
	dump, groups                   string
	asJSON, noVerify, withPatterns bool
}

func newRoute() *cobra.Command {
	f := routeFlags{engine: engineFlags{settings.New()}}
	c := &cobra.Command{
		Use:     "route --netlist FILE",
		GroupID: "offline",
		Short:   "Compute and prove routes of a netlist offline",
		Long: `Computes forwarding tables for the fabric of a netlist and proves them: every
connected pair of LIDs is delivered, nothing loops, and no traffic of hosts can
deadlock. LIDs are assigned in ascending port-GUID order.

Exits with 1 if the proof fails, unless --no-verify skips it.`,
		Example: `  heddle topo gen fattree 648 | heddle route --netlist - --engine minhop
  heddle route --netlist fabric.net --engine updn --roots roots.txt --json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	f.netlist.register(c.Flags())
	registerSettings(c.Flags(), f.engine.Values, settings.Of("route"))
	c.Flags().IntVar(&f.vls, "vls", 8, "data lanes that every link has, `1-15`")
	c.Flags().IntVar(&f.lidsPerPort, "lids-per-port", 1, "`N` LIDs for each CA port")
	c.Flags().IntVar(&f.workers, "workers", 0, "`CORES` to use; 0 = all. The result is the same for any number")
	c.Flags().Uint64Var(&f.seed, "seed", 0, "`SEED` of engines that use random numbers")
	c.Flags().StringVar(&f.groups, "groups", "", groupsHelp)
	c.Flags().StringVar(&f.dump, "dump", "", "`DIR` to write OpenSM-style dump files to")
	c.Flags().BoolVar(&f.withPatterns, "patterns", false, "also show the load of shifts and random permutations, and the effective bisection bandwidth")
	c.Flags().BoolVar(&f.noVerify, "no-verify", false, "skip the proof")
	c.Flags().BoolVar(&f.asJSON, "json", false, "print JSON")
	return c
}

func (f *routeFlags) run(cmd *cobra.Command) error {
	if f.lidsPerPort < 1 {
		return usagef("--lids-per-port %d: want 1 or more", f.lidsPerPort)
	}
	fab, _, err := f.netlist.read(cmd.InOrStdin())
	if err != nil {
		return err
	}
	chain, _, err := f.engine.chain()
	if err != nil {
		return err
	}
	o, err := f.engine.options()
	if err != nil {
		return err
	}
	if err := fabric.AssignLIDs(fab, f.lidsPerPort); err != nil {
		return err
	}
	if f.vls < 1 || f.vls > 15 {
		return usagef("--vls %d: want 1 to 15", f.vls)
	}
	g, err := fab.Graph(fabric.GraphOptions{VLs: uint8(f.vls)})
	if err != nil {
		return err
	}
	if err := f.engine.mustHaveRoots(g, o.Roots); err != nil {
		return err
	}
	if f.workers == 0 {
		f.workers = runtime.GOMAXPROCS(0)
	}
	o.Workers, o.Seed, o.MaxVLs = f.workers, f.seed, f.vls
	lines, err := readInput("--groups", f.groups, readGroups)
	if err != nil {
		return err
	}
	var groups []route.Group
	for i := range lines {
		grp, err := lines[i].onGraph(g)
		if err != nil {
			return usagef("--groups %s: %w", f.groups, err)
		}
		groups = append(groups, grp)
	}
	tables, res, err := routeOffline(g, chain, groups, o, f.noVerify)
	if tables != nil && f.dump != "" {
		err = errors.Join(err, dumpFabric(f.dump, fab, g, tables))
	}
	if f.withPatterns && tables != nil && res != nil {
		res.Patterns = patterns(g, tables, o)
	}
	if res != nil {
		if f.asJSON {
			err = errors.Join(err, printJSON(cmd.OutOrStdout(), res))
		} else {
			err = errors.Join(err, printRoute(cmd.OutOrStdout(), res))
		}
	}
	return err
}

// routeOffline uses the first engine of the chain whose tables verify; if there
// is none, it returns the result of the last one.
func routeOffline(g *fabric.Graph, chain []route.Engine, groups []route.Group, o route.Options, noVerify bool) (*route.Tables, *routeResult, error) {
	var passed []string
	for i, e := range chain {
		begin := time.Now()
		t, err := e.Compute(g, o)
		took := time.Since(begin)
		last := i == len(chain)-1
		if err != nil {
			passed = append(passed, route.Refusal(e.Name(), err))
			if last {
				return nil, nil, fmt.Errorf("no routes: %s", strings.Join(passed, "; "))
			}
			continue
		}
		if len(groups) > 0 {
			t = mcast.Join(g, t, mcast.Build(g, t, groups, mcast.Options{Workers: o.Workers}))
		}
		res := &routeResult{
			Engine: e.Name(), PassedOver: passed, Note: t.Note, Switches: len(g.Switches), EndPorts: len(g.EndPorts),
			LIDs: lidCount(g), SecondsCompute: took.Seconds(), BytesRSS: peakRSS(),
		}
		res.multicast(t.Multicast)
		if noVerify {
			return t, res, nil
		}
		begin = time.Now()
		r := check.Verify(g, t, check.Options{Workers: o.Workers, Groups: groups})
		res.SecondsVerify = time.Since(begin).Seconds()
		res.fill(g, r)
		res.BytesRSS = peakRSS()
		err = r.Err()
		if err == nil {
			return t, res, nil
		}
		if last {
			hint := ""
			if r.CreditCycles > 0 && r.UnreachablePairs == 0 && r.Loops == 0 && r.MulticastFailures == 0 {
				hint = "\nIts paths can deadlock on this fabric; 'updn' and 'nue' never do; append one of them: --engine " + e.Name() + ",updn"
			}
			return t, res, fmt.Errorf("%s: the tables do not verify: %w%s", e.Name(), err, hint)
		}
		passed = append(passed, route.Refusal(e.Name(), err))
	}
	return nil, nil, usagef("--engine: none given")
}

func (res *routeResult) fill(g *fabric.Graph, r *check.Report) {
	res.Verified = r.OK()
	res.VLsUsed, res.UnreachablePairs, res.DisconnectedPairs = r.VLsUsed, r.UnreachablePairs, r.DisconnectedPairs
	res.MulticastFailures = r.MulticastFailures
	res.Loops, res.CreditCycles, res.CreditCyclesSwitch = r.Loops, r.CreditCycles, r.CreditCyclesSwitch
	res.MaxHops, res.AvgHops = r.MaxHops, r.AvgHops
	res.MaxChannelLoad, res.AvgChannelLoad = r.MaxChannelLoad, r.AvgChannelLoad
	for i := range r.Cycles {
		if r.Cycles[i].SwitchOnly {
			continue
		}
		for _, d := range r.Cycles[i].Edges {
			res.Cycle = append(res.Cycle, fmt.Sprintf("%s port %d lane %d waits for %s port %d lane %d, on the path from %s to LID %d",
				g.Switches[d.In.Switch].GUID, d.In.Port, d.In.Lane, g.Switches[d.Out.Switch].GUID, d.Out.Port, d.Out.Lane,
				g.EndPorts[d.Src].GUID, d.Dst))
		}
		break
	}
}

func lidCount(g *fabric.Graph) int {
	n := 0
	for _, e := range g.LIDOwner {
		if e != fabric.NoLID {
			n++
		}
	}
	return n
}

func printRoute(w io.Writer, r *routeResult) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(k, f string, a ...any) { fmt.Fprintf(t, "%s\t%s\n", k, fmt.Sprintf(f, a...)) }
	for _, p := range r.PassedOver {
		row("passed over", "%s", p)
	}
	row("engine", "%s", r.Engine)
	if r.Note != "" {
		row("note", "%s", r.Note)
	}
	row("fabric", "%d switches, %d end ports, %d LIDs", r.Switches, r.EndPorts, r.LIDs)
	row("computed in", "%.3f s", r.SecondsCompute)
	if r.SecondsVerify > 0 {
		row("verified in", "%.3f s", r.SecondsVerify)
		row("unreachable pairs", "%d", r.UnreachablePairs)
		row("loops", "%d", r.Loops)
		row("credit cycles", "%d (and %d of traffic between switches alone)", r.CreditCycles, r.CreditCyclesSwitch)
		row("hops", "%.2f on average, %d at most", r.AvgHops, r.MaxHops)
		row("paths over a channel", "%.1f on average, %d at most", r.AvgChannelLoad, r.MaxChannelLoad)
		row("lanes", "%d", r.VLsUsed)
	}
	if p := r.Patterns; p != nil {
		row("shifts", "%d flows over a channel at most, %.2f in the mean of %d shifts", p.ShiftMax, p.ShiftMean, p.ShiftsSeen)
		row("random permutations", "%.2f flows over the fullest channel, mean of %d", p.RandomMax, p.Rounds)
		row("bisection bandwidth", "%.3f of a link for each flow, mean of %d random bisections", p.Bisection, p.Rounds)
	}
	if r.Groups > 0 {
		row("multicast trees", "%d", r.Groups)
	}
	for _, g := range r.GroupsRefused {
		row("refused", "%s", g)
	}
	row("memory", "%.0f MiB", float64(r.BytesRSS)/(1<<20))
	for _, e := range r.Cycle {
		row("cycle", "%s", e)
	}
	return t.Flush()
}

// peakRSS is the most memory this process has held, in bytes; 0 if unknown.
func peakRSS() int64 {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for l := range strings.SplitSeq(string(b), "\n") {
		if rest, ok := strings.CutPrefix(l, "VmHWM:"); ok {
			kb, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			if err == nil {
				return kb << 10
			}
		}
	}
	return 0
}
