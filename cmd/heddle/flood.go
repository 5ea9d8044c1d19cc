package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"heddle/flood"
	"heddle/flood/figure"
	"heddle/flood/live"
)

// floodFlags are the flags of heddle flood.
type floodFlags struct {
	port      string
	window    int
	queries   uint64
	limit     time.Duration
	sif       string
	mifs      []string
	instances int
	rounds    int
	roundTime time.Duration
	query     string
	dst       []string
	seed      uint64
	timeout   time.Duration
	dots      int
	out       string
	asJSON    bool
}

func newFlood() *cobra.Command {
	var f floodFlags
	c := &cobra.Command{
		Use:     "flood --port PORT | --sif PORT --mif PORT...",
		GroupID: "manage",
		Short:   "Load a subnet administrator with queries and measure its responses",
		Long: `Queries the SA of a subnet, of any manager, as fast as it answers. An instance is
synchronous: it sends a query, waits for the response or
--timeout, and sends the next. PORT is ` + floodPortHelp + `.

With --port, --window instances share one port until --queries have been sent
or --time is over (10 s if neither is given).

With --sif and --mif, the experiment of Tasoulas et al. (2015), Algorithm 1: one
instance on the SIF all the time, and from the second round on --instances more
in every round on each MIF. In each round all ports are measured for --round-time
once every new instance has had its first answer. The figures of the SIF, which
only the SA's load affects, are separate from the totals. MIFs may also be other
processes on other hosts, each with its own --port.

Answers BUSY, timeouts, other error statuses and answers that do not match the
query are counted separately; response times are those of good answers. An
interrupt ends a run, with the results so far.

Destinations are drawn from the SA's NodeRecords by --seed. If the SA cannot return
a complete table, as with ibsim and a manager without ,rmpp=on, the nodes are
queried LID by LID.`,
		Example: `  heddle flood --port umad:mlx5_0/1 --queries 100000 --window 64
  heddle flood --sif ibsim:Hca1@net --mif ibsim:Hca2@net --mif ibsim:Hca3@net --instances 8 --rounds 25 --out results`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	fl := c.Flags()
	fl.StringVar(&f.port, "port", "", "`PORT` to send queries through")
	fl.IntVar(&f.window, "window", 1, "`W` instances on --port")
	fl.Uint64Var(&f.queries, "queries", 0, "send `N` queries through --port in all")
	fl.DurationVar(&f.limit, "time", 0, "send queries through --port for `T`")
	fl.StringVar(&f.sif, "sif", "", "`PORT` of the single-instance flooder")
	fl.StringArrayVar(&f.mifs, "mif", nil, "`PORT` of a multi-instance flooder; can be given more than once")
	fl.IntVar(&f.instances, "instances", 8, "`K` new instances on each MIF per round")
	fl.IntVar(&f.rounds, "rounds", 25, "`M` rounds")
	fl.DurationVar(&f.roundTime, "round-time", 20*time.Second, "`T` to measure in each round")
	fl.StringVar(&f.query, "query", "path", "`KIND` of query: "+strings.Join(flood.Queries(), ", "))
	fl.StringSliceVar(&f.dst, "dst", nil, "`DEST[,DEST...]` to draw from instead of all hosts: GIDs or port GUIDs for path, LIDs for the others")
	fl.Uint64Var(&f.seed, "seed", 1, "`SEED` of the destinations")
	fl.DurationVar(&f.timeout, "timeout", time.Second, "`T` that an instance waits for a response")
	fl.IntVar(&f.dots, "dots", 400, "`N` queries of the SIF to plot in each round, with --out")
	fl.StringVar(&f.out, "out", "", "`DIR` for an HTML page with a plot, and JSON")
	fl.BoolVar(&f.asJSON, "json", false, "print JSON")
	return c
}

func (f *floodFlags) check(cmd *cobra.Command) error {
	set := cmd.Flags().Changed
	switch {
	case f.port == "" && f.sif == "":
		return usagef("missing port; give --port PORT, or --sif PORT and --mif PORT for the experiment with rounds; PORT is %s", floodPortHelp)
	case f.port != "" && (f.sif != "" || len(f.mifs) > 0):
		return usagef("--port is one load, --sif and --mif an experiment; give one of them")
	case f.port != "" && (set("instances") || set("rounds") || set("round-time") || set("out")):
		return usagef("--instances, --rounds, --round-time and --out belong to --sif and --mif, not to --port")
	case f.sif != "" && (set("window") || set("queries") || set("time")):
		return usagef("--window, --queries and --time belong to --port, not to --sif and --mif")
	case f.window < 1 || f.window > maxInstances:
		return usagef("--window %d: want 1 to %d", f.window, maxInstances)
	case f.instances < 1 || f.instances > maxInstances:
		return usagef("--instances %d: want 1 to %d", f.instances, maxInstances)
	case f.rounds < 1 || f.rounds > 10000:
		return usagef("--rounds %d: want 1 to 10000", f.rounds)
	case f.instances*(f.rounds-1) > maxInstances:
		return usagef("--instances %d --rounds %d: the last round would have %d instances on each MIF; want at most %d", f.instances, f.rounds, f.instances*(f.rounds-1), maxInstances)
	case f.roundTime == 0 || f.timeout == 0:
		return usagef("--round-time and --timeout must be more than 0")
	case f.dots > 100000:
		return usagef("--dots %d: want 0 to 100000", f.dots)
	}
	return nil
}

// maxInstances bounds the instances of one port.
const maxInstances = 1 << 16

func (f *floodFlags) run(cmd *cobra.Command) error {
	if err := f.check(cmd); err != nil {
		return err
	}
	q, err := flood.ParseQuery(f.query)
	if err != nil {
		return usagef("--query: %w", err)
	}
	ctx, cancel := cancelable(cmd)
	defer cancel()
	specs := []portFlag{{"--port", f.port}}
	if f.sif != "" {
		specs = []portFlag{{"--sif", f.sif}}
		for _, m := range f.mifs {
			specs = append(specs, portFlag{"--mif", m})
		}
	}
	tty := newTerminal(cmd)
	defer tty.clear()
	target := floodTarget{query: q, dst: f.dst, seed: f.seed, timeout: f.timeout}
	if f.out != "" {
		target.dots = f.dots
	}
	var say func(string)
	if tty.shows {
		say = tty.show
	}
	fs, ends, closeAll, err := openFlooders(ctx, specs, target, say)
	if err != nil {
		return err
	}
	defer closeAll()
	if f.port != "" {
		return f.load(ctx, cmd, tty, fs, ends)
	}
	return f.experiment(ctx, cmd, tty, fs, ends)
}

// loadView is the JSON of a plain load.
type loadView struct {
	Port         string `json:"port"`
	Query        string `json:"query"`
	Destinations int    `json:"destinations"`
	Window       int    `json:"window"`
	flood.Figures
}

func (f *floodFlags) load(ctx context.Context, cmd *cobra.Command, tty *terminal, fs []live.Flooder, ends int) error {
	limit := f.limit
	if limit == 0 && f.queries == 0 {
		limit = 10 * time.Second
	}
	prog := flood.NewLoad(fs[0].Flooder, f.window, f.queries, limit)
	var watch func()
	if tty.shows {
		watch = func() {
			ended, answered := fs[0].Counted()
			tty.show(fmt.Sprintf("%d queries answered, %d not", answered, ended-answered))
		}
	}
	failed := live.Run(ctx, fs, prog, watch) // measurements up to a failure count
	tty.clear()
	t := prog.Tally()
	v := loadView{f.port, f.query, ends, f.window, flood.FiguresOf(&t)}
	if f.asJSON {
		return errors.Join(failed, printJSON(cmd.OutOrStdout(), v))
	}
	w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
	row := func(k, form string, a ...any) { fmt.Fprintf(w, "%s\t%s\n", k, fmt.Sprintf(form, a...)) }
	row("asked", "%s through %s, window %d, %d destinations", v.Query, v.Port, v.Window, v.Destinations)
	row("answered", "%d in %.3f s, %.0f a second", v.Answered, v.Seconds, v.QPS)
	row("response time", "mean %.1f us, median %.1f us, standard deviation %.1f us", v.Mean, v.Median, v.StdDev)
	row("", "90 %% %.1f us, 99 %% %.1f us, 99.9 %% %.1f us, longest %.1f us", v.P90, v.P99, v.P999, v.Max)
	row("errors", "%s", errorsText(&v.Figures))
	return errors.Join(failed, w.Flush())
}

// errorsText describes the queries without a good response.
func errorsText(v *flood.Figures) string {
	if v.Errors == 0 {
		return "none"
	}
	var parts []string
	for _, p := range []struct {
		n    uint64
		what string
	}{{v.Timeouts, "timeouts"}, {v.Busy, "busy"}, {v.Refused, "refused"}, {v.Wrong, "wrong answers"}} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", p.n, p.what))
		}
	}
	for _, s := range slices.Sorted(mapKeys(v.Statuses)) {
		parts = append(parts, fmt.Sprintf("%d with status %s", v.Statuses[s], s))
	}
	return strings.Join(parts, ", ")
}

// floodView is the JSON of an experiment; sif and total are those of the last
// complete round.
type floodView struct {
	SIFPort      string               `json:"sif_port"`
	MIFPorts     []string             `json:"mif_ports"`
	Query        string               `json:"query"`
	Destinations int                  `json:"destinations"`
	PerRound     int                  `json:"instances_per_round"`
	RoundTime    float64              `json:"round_seconds"`
	Rounds       []flood.RoundFigures `json:"rounds"`
	SIF          *flood.Figures       `json:"sif"`
	Total        *flood.Figures       `json:"total"`
}

func (f *floodFlags) experiment(ctx context.Context, cmd *cobra.Command, tty *terminal, fs []live.Flooder, ends int) error {
	prog := flood.NewExperiment(flood.Plan{Instances: f.instances, Rounds: f.rounds, RoundTime: f.roundTime}, fs[0].Flooder, flooders(fs[1:]))
	var watch func()
	if tty.shows {
		watch = func() {
			round, instances, spawning := prog.Progress()
			line := fmt.Sprintf("round %d of %d, %d instances", round, f.rounds, instances)
			if spawning {
				line += ", spawning"
			}
			tty.show(line)
		}
	}
	failed := live.Run(ctx, fs, prog, watch)
	tty.clear()
	v := floodView{
		SIFPort: f.sif, MIFPorts: append([]string{}, f.mifs...), Query: f.query, Destinations: ends,
		PerRound: f.instances, RoundTime: f.roundTime.Seconds(), Rounds: []flood.RoundFigures{},
	}
	rounds := prog.Rounds()
	for i := range rounds {
		r := flood.FiguresOfRound(&rounds[i])
		v.Rounds = append(v.Rounds, r)
		if !r.Cut || v.SIF == nil {
			v.SIF, v.Total = &r.SIF, &r.Total
		}
	}
	return errors.Join(failed, f.print(cmd.OutOrStdout(), &v, rounds))
}

func (f *floodFlags) print(w io.Writer, v *floodView, rounds []flood.Round) error {
	if f.out != "" && len(rounds) > 0 {
		intro := fmt.Sprintf("SIF %s, MIFs %s; %d new instances on each MIF a round, measured for %v in each; query %s to %d destinations.",
			f.sif, strings.Join(f.mifs, ", "), f.instances, f.roundTime, f.query, v.Destinations)
		r := figure.Report("flood", "SA queries, round by round", intro, f.seed, []figure.Run{{Title: "As measured", Rounds: rounds}})
		if err := os.MkdirAll(f.out, 0o755); err != nil {
			return usagef("--out: %w", err)
		}
		if err := writeFile(filepath.Join(f.out, "flood.html"), r.HTML); err != nil {
			return fmt.Errorf("--out: %w", err)
		}
		data := func(w io.Writer) error { return printJSON(w, v) }
		if err := writeFile(filepath.Join(f.out, "flood.json"), data); err != nil {
			return fmt.Errorf("--out: %w", err)
		}
	}
	if f.asJSON {
		return printJSON(w, v)
	}
	if len(rounds) == 0 {
		_, err := fmt.Fprintln(w, "ended before the first round was measured")
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "%s\t\n", strings.Join(figure.Columns(), "\t"))
	for i := range rounds {
		fmt.Fprintf(t, "%s\t\n", strings.Join(figure.Cells(&rounds[i]), "\t"))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	last := &v.Rounds[len(v.Rounds)-1]
	if last.Cut {
		fmt.Fprintf(w, "round %s was interrupted after %.1f s\n", strconv.Itoa(last.Round), last.SIF.Seconds)
	}
	_, err := fmt.Fprintf(w, "errors of the last round: SIF %s; in all %s\n", errorsText(&last.SIF), errorsText(&last.Total))
	return err
}
