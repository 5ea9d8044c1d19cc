package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"heddle/lab"
	"heddle/settings"
	"heddle/sim/dataplane"
	"heddle/traffic"
	"heddle/traffic/study"
)

// trafficFlags are the flags of 'heddle traffic'.
type trafficFlags struct {
	netlist        netlistFlags
	engine         engineFlags
	engines        []string
	patterns, cuts []string
	loads          []string
	vls, seeds     int
	workers        int
	seed           uint64
	time           time.Duration
	packets        study.PacketOptions
	flow, cutEach  bool
	cutPackets     string // a number, or "all"
	asJSON         bool
	out            string

	timeGiven, repairGiven bool // --time and --repair-time
}

func newTraffic() *cobra.Command {
	f := trafficFlags{engine: engineFlags{settings.New()}, packets: study.DefaultPackets(), cutPackets: "10"}
	c := &cobra.Command{
		Use:     "traffic --netlist FILE --pattern SPEC",
		GroupID: "offline",
		Short:   "Compute the throughput of traffic on routes, and the cost of losing a cable",
		Long: `Computes routes of a netlist with one or more engines, simulates packets on them,
and compares the engines: accepted and offered rates, latency, fairness, the worst
flow, the hottest cables, discards by cause, deadlocks.

With --cut a cable is lost and the engine repairs its routes, before traffic
starts or, with @TIME, under traffic. With --cut-each every cable is lost in turn,
and the cables are ranked by the cost of their loss: by max-min fair shares, and the
most costly ones by packets too (--cut-packets).

With --flow all results are max-min fair shares, in milliseconds. They do not include
head-of-line blocking, latency and lanes in the network; see docs/traffic.md.

A pattern is NAME[:ARGUMENT...][,KEY=VALUE...]. Several run at the same time.
` + patternUsage(),
		Example: `  heddle topo gen fattree 648 | heddle traffic --netlist - --engine ftree,minhop --pattern permutation
  heddle traffic --netlist fabric.net --pattern random --load 0.1,0.3,0.5,0.7 --out results
  heddle traffic --netlist fabric.net --engine ftree --pattern shift:1 --cut spine-2:7@150us
  heddle traffic --netlist fabric.net --pattern permutation --seeds 4 --cut-each --flow
  heddle traffic --netlist fabric.net --pattern 'hot:5%:9,queue=host' --pattern 'pair:a>b,rate=10%'`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	f.register(c.Flags())
	return c
}

func (f *trafficFlags) register(fs *pflag.FlagSet) {
	f.netlist.register(fs)
	fs.StringSliceVar(&f.engines, "engine", []string{"auto"},
		"`ENGINE[,...]` to compare: auto (the first of the default chain that verifies), "+
			strings.Join(settings.EngineNames(), ", "))
	var inputs []*settings.Setting
	for _, s := range settings.Of("route") {
		if s.Name != "engine" {
			inputs = append(inputs, s)
		}
	}
	registerSettings(fs, f.engine.Values, inputs)
	fs.StringArrayVar(&f.patterns, "pattern", nil, "`SPEC` of a pattern; may be repeated, all run at the same time")
	fs.StringSliceVar(&f.loads, "load", []string{"1"},
		"`SHARE[,...]` of the patterns' offered load, above 0 and at most 1: each is simulated")
	fs.IntVar(&f.vls, "vls", 8, "data lanes that every link has, `1-15`")
	fs.IntVar(&f.seeds, "seeds", 1, "`N` seeds; results are their means")
	fs.Uint64Var(&f.seed, "seed", 1, "first `SEED`, of patterns and of engines that use random numbers")
	fs.DurationVar(&f.time, "time", 300*time.Microsecond,
		"`TIME` for which traffic runs, 10ms longer than the cut if a manager repairs one; collectives run to their end")
	fs.StringArrayVar(&f.cuts, "cut", nil, "lose the cable at `NODE:PORT`, by description, netlist ID or node GUID, "+
		"from the start or, with @TIME, under traffic; may be repeated, all are lost together")
	fs.BoolVar(&f.cutEach, "cut-each", false, "lose each cable in turn, and rank all by the cost of their loss")
	fs.StringVar(&f.cutPackets, "cut-packets", f.cutPackets, "with --cut-each, simulate packets for the `N` cables of each kind "+
		"(between switches, to hosts) that cost most by fair shares; 0 = none, all = every cable")
	fs.DurationVar(&f.packets.Warmup, "warmup", f.packets.Warmup,
		"first part of --time, in which packets are not counted; hot spots need about 2ms of `TIME`")
	fs.IntVar(&f.packets.Buffer, "buffer", f.packets.Buffer,
		"input buffer of a port in `BYTES`, split equally among its lanes")
	fs.IntVar(&f.packets.Reads, "reads", f.packets.Reads, "`PACKETS` that a switch reads from an input at once; with 1, saturated flows on several lanes can fall into step, so that one starves; some switches have 3")
	fs.BoolVar(&f.packets.VOQ, "voq", false,
		"switches with a queue for each input, lane and output, in place of FIFOs")
	fs.DurationVar(&f.packets.RepairTime, "repair-time", f.packets.RepairTime,
		"`TIME` from a cut under traffic (--cut NODE:PORT@TIME) to the repaired tables in all switches; "+
			"without it a simulated manager finds the cut and repairs")
	fs.BoolVar(&f.flow, "flow", false, "answer by max-min fair shares in place of packets, in milliseconds")
	fs.IntVar(&f.workers, "workers", 0, "`CORES` to use; 0 = all. The result is the same for any number")
	fs.BoolVar(&f.asJSON, "json", false, "print JSON")
	fs.StringVar(&f.out, "out", "", "`DIR` for an HTML page with plots that needs nothing else, and JSON")
}

// patternUsage lists the patterns and their keys for the help.
func patternUsage() string {
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, u := range traffic.Usage() {
		fmt.Fprintf(t, "  %s\t%s\n", u[0], u[1])
	}
	t.Flush()
	b.WriteString("\nKeys:\n")
	for _, u := range traffic.OptionUsage() {
		fmt.Fprintf(t, "  %s\t%s\n", u[0], u[1])
	}
	t.Flush()
	return b.String()
}

func (f *trafficFlags) run(cmd *cobra.Command) error {
	f.timeGiven, f.repairGiven = cmd.Flags().Changed("time"), cmd.Flags().Changed("repair-time")
	if err := f.checkUse(cmd.Flags()); err != nil {
		return err
	}
	q, err := f.question(cmd.InOrStdin())
	if err != nil {
		return err
	}
	if f.out != "" {
		if err := os.MkdirAll(f.out, 0o755); err != nil {
			return usagef("--out: %w", err)
		}
	}
	tty := newTerminal(cmd)
	var progress study.Progress
	if tty.shows {
		progress = func(what string, share float64) { tty.show(fmt.Sprintf("%s: %.0f %%", what, share*100)) }
	}
	a, err := q.Answer(cmd.Context(), progress)
	tty.clear()
	if err != nil {
		return err
	}
	if f.out != "" {
		if err := writePages(f.out, a, f.cutEach); err != nil {
			return err
		}
	}
	if f.asJSON {
		err = printJSON(cmd.OutOrStdout(), a)
	} else {
		err = a.Text(cmd.OutOrStdout())
	}
	if err == nil && a.Interrupted {
		return fmt.Errorf("interrupted; the output has what was done by then")
	}
	if err == nil && !a.HasTables() {
		return fmt.Errorf("no engine has tables for this fabric; --engine auto takes the first that has")
	}
	return err
}

// checkUse refuses flags that would change nothing.
func (f *trafficFlags) checkUse(fs *pflag.FlagSet) error {
	if f.flow {
		for _, name := range []string{"warmup", "buffer", "reads", "voq", "repair-time", "cut-packets"} {
			if fs.Changed(name) {
				return usagef("--%s: fair shares do not know it; omit it, or --flow", name)
			}
		}
	}
	if fs.Changed("repair-time") && !slices.ContainsFunc(f.cuts, func(c string) bool { return strings.Contains(c, "@") }) {
		return usagef("--repair-time: no cable is cut under traffic; give --cut NODE:PORT@TIME")
	}
	if fs.Changed("cut-packets") && !f.cutEach {
		return usagef("--cut-packets: give --cut-each too")
	}
	return nil
}

// cutPacketsOf reads the value of --cut-packets.
func cutPacketsOf(text string) (int, error) {
	if text == "all" {
		return -1, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return 0, usagef("--cut-packets %q: want a number of cables, 0 or more, or all", text)
	}
	return n, nil
}

// question reads all input, and refuses what has no answer.
func (f *trafficFlags) question(stdin io.Reader) (*study.Question, error) {
	if len(f.patterns) == 0 {
		return nil, usagef("missing pattern; give --pattern SPEC (patterns: %s)", strings.Join(traffic.Names(), ", "))
	}
	if f.workers == 0 {
		f.workers = runtime.GOMAXPROCS(0)
	}
	q := &study.Question{
		Name: f.netlist.netlist, VLs: f.vls, Seeds: f.seeds, First: f.seed, Time: f.time, CutEach: f.cutEach, Flow: f.flow,
		Packets: f.packets,
	}
	if q.Name == "-" {
		q.Name = "standard input"
	}
	for _, text := range f.loads {
		v, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return nil, usagef("--load %q: want a number above 0 and at most 1", text)
		}
		q.Loads = append(q.Loads, v)
	}
	for _, text := range f.patterns {
		s, err := traffic.Parse(text)
		if err != nil {
			return nil, refused(err)
		}
		q.Specs = append(q.Specs, s)
	}
	var err error
	if q.CutPackets, err = cutPacketsOf(f.cutPackets); err != nil {
		return nil, err
	}
	if q.Fabric, _, err = f.netlist.read(stdin); err != nil {
		return nil, err
	}
	if err := f.chooseEngines(q); err != nil {
		return nil, err
	}
	if err := f.parseCuts(q); err != nil {
		return nil, err
	}
	if q.Packets.CutAt > 0 && !f.repairGiven {
		if !slices.Contains([]int{1, 2, 4, 8, 15}, f.vls) {
			return nil, usagef("--vls %d: a port of a managed subnet has 1, 2, 4, 8 or 15 data lanes; choose one of them, or give --repair-time", f.vls)
		}
		f.manage(q)
	}
	if err := f.readTraces(q); err != nil {
		return nil, err
	}
	if err := q.Check(); err != nil {
		return nil, refused(err)
	}
	return q, nil
}

// managedTime is how long traffic runs after a cut that a manager repairs, if
// nothing else is asked for.
const managedTime = 10 * time.Millisecond

// manage lets a manager repair the cuts.
func (f *trafficFlags) manage(q *study.Question) {
	if !f.timeGiven {
		q.Time = q.Packets.CutAt + managedTime
	}
	q.Packets.ManagedModel = lab.LoadedModel()
	q.Packets.Managed = func(c study.Choice, d dataplane.Config) (study.Subnet, error) {
		cfg := lab.DefaultConfig()
		cfg.Engines, cfg.Route, cfg.MaxVLs, cfg.RouteSeed = c.Engines, q.Options, q.Options.MaxVLs, q.Options.Seed
		// A chain goes on after a refusal; a single engine is asked about as it is.
		cfg.Explicit, cfg.AllowUnsafe = len(c.Engines) == 1, true
		return lab.NewLoaded(q.Fabric, cfg, d)
	}
}

// parseCuts reads the values of --cut: NODE:PORT or NODE:PORT@TIME.
func (f *trafficFlags) parseCuts(q *study.Question) error {
	for i, text := range f.cuts {
		name, at, timed := strings.Cut(text, "@")
		t := time.Duration(0)
		if timed {
			var err error
			if t, err = time.ParseDuration(at); err != nil || t <= 0 {
				return usagef("--cut %q: want NODE:PORT@TIME with a time above 0, such as 150us", text)
			}
			if f.flow {
				return usagef("--cut %q: fair shares know no time of a cut; omit @%s, or --flow", text, at)
			}
		}
		if i > 0 && t != q.Packets.CutAt {
			return usagef("--cut %q: all cables are lost at the same time", text)
		}
		q.Packets.CutAt = t
		r, err := study.FindPort(q.Fabric, name)
		if err != nil {
			return refused(err)
		}
		q.Cuts = append(q.Cuts, r)
	}
	return nil
}

// refused is an input that has no answer: exit status 2.
func refused(err error) error {
	text := err.Error()
	for _, p := range []string{"study: ", "traffic: "} {
		text = strings.TrimPrefix(text, p)
	}
	if e := (*study.Error)(nil); asError(err, &e) && e.What != "netlist" {
		text = "--" + text
	}
	return &exitError{2, fmt.Errorf("%s", text)}
}

// chooseEngines sets the engines and their options. Unlike in other commands, a
// list of engines is no chain.
func (f *trafficFlags) chooseEngines(q *study.Question) error {
	for _, name := range f.engines {
		if err := f.engine.Set("engine", name, "--engine"); err != nil {
			return usagef("%w", err)
		}
		list, _, err := f.engine.chain()
		if err != nil {
			return err
		}
		for _, c := range q.Choices {
			if c.Name == name {
				return usagef("--engine: %q is named twice", name)
			}
		}
		q.Choices = append(q.Choices, study.Choice{Name: name, Engines: list})
	}
	o, err := f.engine.options()
	if err != nil {
		return err
	}
	o.Workers, o.Seed, o.MaxVLs = f.workers, f.seed, f.vls
	q.Options = o
	return nil
}

// readTraces reads the files of trace patterns.
func (f *trafficFlags) readTraces(q *study.Question) error {
	q.Traces = make([][]traffic.Message, len(q.Specs))
	for i, s := range q.Specs {
		if s.Kind != traffic.Trace {
			continue
		}
		hosts, err := q.Prepare()
		if err != nil {
			return refused(err)
		}
		q.Traces[i], err = readInput("--pattern "+s.Kind.String(), s.File, func(r io.Reader) ([]traffic.Message, error) {
			return traffic.ReadTrace(r, hosts)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// writePages writes the page and the JSON of an answer, and the costs of cables.
func writePages(dir string, a *study.Answer, costs bool) error {
	files := map[string]func(io.Writer) error{
		"traffic.html": a.HTML,
		"traffic.json": func(w io.Writer) error { return printJSON(w, a) },
	}
	if costs {
		files["cables.csv"] = a.CostTable
	}
	for name, write := range files {
		if err := writeFile(filepath.Join(dir, name), write); err != nil {
			return fmt.Errorf("--out: %w", err)
		}
	}
	return nil
}
