package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"heddle/lab/experiment"
	"heddle/report"
)

func newLab() *cobra.Command {
	c := &cobra.Command{
		Use:     "lab",
		GroupID: "offline",
		Short:   "Repeat published experiments",
		Args:    subcommandOnly,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	c.AddCommand(newLabList(), newLabRun())
	return c
}

func newLabList() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "list",
		Short: "List the experiments",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if asJSON {
				type row struct {
					Name  string `json:"name"`
					Title string `json:"title"`
				}
				var rows []row
				for _, e := range experiment.All() {
					rows = append(rows, row{e.Name, e.Title})
				}
				return printJSON(cmd.OutOrStdout(), rows)
			}
			t := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			for _, e := range experiment.All() {
				fmt.Fprintf(t, "%s\t%s\n", e.Name, e.Title)
			}
			return t.Flush()
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

// labRun are the flags of 'heddle lab run'.
type labRun struct {
	experiment.Options
	out    string
	asJSON bool
}

// labRunLong describes the experiments one by one.
const labRunLong = `Runs an experiment on simulated subnets in virtual time: the manager and the
datagrams are real, and a seed reproduces the run. Prints tables, and with --out
writes them with plots as one self-contained HTML file, and as JSON.

change-assimilation takes a few minutes, most of them for the packets that each
change loses: --losses 3 takes three switches of each network, --losses -1 none.

vswitch-reconfiguration migrates VMs on fat trees of 324 to 11,664 hosts and boots a
subnet whose LIDs are all used: a few minutes. For it --sizes are numbers of hosts
(2853: the full subnet) and --runs is how many VMs migrate on each.

deadlock cuts a cable of the thesis' 3×2 mesh under traffic, by the published method
and by Heddle's plans: packets move on the tables that the manager writes. --runs is
how many times each line is run; a few minutes.

host-reconfiguration cuts the same cable under queue pairs: hosts subscribe to
notices, query new paths and modify their connections while these are in use.
--runs is how many times each line is run; two minutes.

signalling cuts a cable of meshes of 6 to 400 switches (--sizes), with a host each, and
compares methods of notifying hosts; OpenSM, if it is installed, routes the same
meshes. Minutes; --sizes 36 takes seconds.

path-caching migrates a VM that has connections (Reliable Datagram Sockets, RDS), and
counts the SA queries of its peers: without path caches, with the paper's, and with
those of heddle agent. --runs is how often each figure is run, --sizes the
number of clients of the crowd (2,000); 20 seconds.

live-migration migrates virtual machines between three hypervisors by five methods, from
three stages on shared ports to firmware that saves a function, and shows outages,
messages and the peers involved; a minute.

vm-signalling migrates VMs with IPoIB between servers, with and without notices, and
counts the messages of the SA. --runs is how many migrations are compared with
Ethernet; half a minute.

vftree repeats the hot spots of the vFtree paper: testbeds in seconds, and trees of
648 hosts, some ten seconds of a core for each of 32 points and each of --runs seeds
(8, as published). For it --sizes 72 are small trees.

dftree repeats the testbeds of the dFtree paper with simulated hosts, without, with an
ideal and with the manager's own detector of hot spots, and its trees of --sizes hosts
(648; 72 and 2916 as well) with --runs seeds (2). Minutes at 648, seconds at 72.

congestion-control compares congestion control, vFtree and dFtree: a testbed, a sweep
over the fields of the settings, and trees of --sizes hosts (648; 72 and 2916 as well).
Minutes at 648, half a minute with --sizes 72.

sa-flood runs in real time instead: heddle, and OpenSM where it is installed, as
processes on a simulated subnet of ten hosts. For it --runs is the number of
rounds and --sizes the numbers of MIFs; each line is measured --repeats times.

A flag that an experiment does not use is refused.

Each report begins with the settings that differ from the production defaults.
"published" marks values from the text or tables of the paper; values that follow
from its equations, or are computed here, are marked as such.`

func newLabRun() *cobra.Command {
	var o labRun
	c := &cobra.Command{
		Use:   "run NAME",
		Short: "Run an experiment and compare it with the published results",
		Long:  labRunLong,
		Example: `  heddle lab run change-assimilation
  heddle lab run deadlock --runs 1 --out results
  heddle lab run host-reconfiguration --runs 1 --out results
  heddle lab run path-caching --out results
  heddle lab run vftree --sizes 72 --runs 2
  heddle lab run dftree --sizes 72 --runs 1 --out results
  heddle lab run congestion-control --sizes 72 --out results
  heddle lab run vm-signalling --out results
  heddle lab run sa-flood --sizes 5 --out results
  heddle lab run vswitch-reconfiguration --sizes 324,648 --out results
  heddle lab run change-assimilation --runs 1 --out results`,
		Args: func(_ *cobra.Command, args []string) error {
			switch len(args) {
			case 0:
				return usagef("missing experiment; 'heddle lab list' lists them")
			case 1:
				return nil
			}
			return usagef("lab run takes one experiment, got %q as well", args[1])
		},
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			var names []string
			for _, e := range experiment.All() {
				names = append(names, e.Name)
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd, args[0]) },
	}
	c.Flags().Uint64Var(&o.Seed, "seed", 1, "`SEED` of the networks")
	c.Flags().IntVar(&o.Runs, "runs", 0, "`N` networks of each size, VMs that migrate, or rounds; 0 = the experiment's own number")
	c.Flags().IntSliceVar(&o.Sizes, "sizes", nil, "`N[,N...]` switches, hosts, or MIFs; default: as published")
	c.Flags().IntVar(&o.Losses, "losses", 0, "`N` switches of each network removed and added under traffic by change-assimilation; 0 = all, -1 = none")
	c.Flags().IntVar(&o.Repeats, "repeats", 0, "`N` measurements of each line by sa-flood, the managers in turn; default 3")
	c.Flags().DurationVar(&o.RoundTime, "round-time", 0, "`T` of measurement in each round of sa-flood; default 1s")
	c.Flags().StringVar(&o.out, "out", "", "`DIR` for an HTML page with plots, and JSON")
	c.Flags().BoolVar(&o.asJSON, "json", false, "print JSON")
	return c
}

func (o *labRun) run(cmd *cobra.Command, name string) error {
	e, err := experiment.Find(name)
	if err != nil {
		return &usageError{err}
	}
	if err := unusedFlag(cmd, &e); err != nil {
		return err
	}
	for _, n := range o.Sizes {
		if n < 1 {
			return usagef("--sizes %d: want 1 or more", n)
		}
	}
	if o.Losses < -1 {
		return usagef("--losses %d: want -1 or more", o.Losses)
	}
	rig := newFloodTestbed(cmd.Context())
	defer rig.close()
	o.Rig = rig
	if _, ok := findOpenSM(); ok {
		o.Peer = rig
	}
	tty := newTerminal(cmd)
	if tty.shows {
		o.Progress = tty.show
	}
	r, err := untilInterrupt(cmd.Context(), func() (*report.Report, error) { return e.Run(o.Options) })
	tty.clear()
	if err != nil {
		return err
	}
	if o.out != "" {
		if err := os.MkdirAll(o.out, 0o755); err != nil {
			return usagef("--out: %w", err)
		}
		for ext, write := range map[string]func(io.Writer) error{".html": r.HTML, ".json": r.JSON} {
			if err := writeFile(filepath.Join(o.out, e.Name+ext), write); err != nil {
				return fmt.Errorf("--out: %w", err)
			}
		}
	}
	if o.asJSON {
		return r.JSON(cmd.OutOrStdout())
	}
	return r.Text(cmd.OutOrStdout())
}

// unusedFlag is an error if a flag was given that the experiment does not use: its results would be
// those without the flag.
func unusedFlag(cmd *cobra.Command, e *experiment.Experiment) error {
	for _, name := range experiment.Flags() {
		if !cmd.Flags().Changed(name) || slices.Contains(e.Takes, name) {
			continue
		}
		var takes strings.Builder
		takes.WriteString("--seed")
		for _, t := range e.Takes {
			takes.WriteString(", --" + t)
		}
		return usagef("--%s: experiment %s does not use it; it takes %s", name, e.Name, takes.String())
	}
	return nil
}

// errInterrupted ends the command with exit status 1.
var errInterrupted = errors.New("interrupted; no results were written")

// untilInterrupt runs an experiment, which computes for minutes and looks at no context, and returns
// without waiting for its end when ctx is done: the program then ends.
func untilInterrupt(ctx context.Context, run func() (*report.Report, error)) (*report.Report, error) {
	type result struct {
		report *report.Report
		err    error
	}
	done := make(chan result, 1)
	go func() {
		r, err := run()
		done <- result{r, err}
	}()
	select {
	case x := <-done:
		return x.report, x.err
	case <-ctx.Done():
		return nil, errInterrupted
	}
}
