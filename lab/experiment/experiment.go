// Package experiment repeats published experiments with Heddle's own manager
// on its own simulator, and sets what was published against what is measured.
// All run in virtual time but for SAFlood, which measures processes.
package experiment

import (
	"fmt"
	"slices"
	"time"

	"heddle/lab/experiment/bed"
	"heddle/lab/experiment/congestion"
	"heddle/lab/experiment/dftree"
	"heddle/report"
)

// Options of an experiment.
type Options struct {
	Seed uint64
	// Runs is how many networks of each size are drawn, in sa-flood how many
	// rounds there are; 0 = the experiment's own number.
	Runs int
	// Sizes replaces the sizes of the networks, in sa-flood the numbers of
	// MIFs; nil = as published.
	Sizes []int
	// Losses is how many switches change-assimilation removes and adds under traffic
	// in each network; 0 = all, negative = none.
	Losses int
	// Repeats is how many times sa-flood measures each line, the managers in
	// turn; 0 = 3.
	Repeats int
	// RoundTime is how long sa-flood measures in each round; 0 = 1 s.
	RoundTime time.Duration
	// Rig runs managers for sa-flood.
	Rig Rig
	// Peer routes for signalling with OpenSM; nil = it is not there.
	Peer Peer
	// Clock measures what computing takes; nil = the time of this machine.
	Clock func() time.Duration
	// Progress, if set, hears what is being done.
	Progress func(text string)
}

// Experiment is one that can be run.
type Experiment struct {
	Name  string
	Title string
	Run   func(Options) (*report.Report, error)
	// Takes are the options that it uses, besides Seed and those of the machine that it runs on, by
	// the names of the flags of heddle lab run.
	Takes []string
}

// Flags of heddle lab run that only some experiments use.
const (
	FlagRuns      = "runs"
	FlagSizes     = "sizes"
	FlagLosses    = "losses"
	FlagRepeats   = "repeats"
	FlagRoundTime = "round-time"
)

// Flags are all of these, in the order of help.
func Flags() []string { return []string{FlagRuns, FlagSizes, FlagLosses, FlagRepeats, FlagRoundTime} }

// All lists the experiments by name.
func All() []Experiment {
	runs, sizes, both := []string{FlagRuns}, []string{FlagSizes}, []string{FlagRuns, FlagSizes}
	return []Experiment{
		{
			"change-assimilation", "How long a subnet takes to assimilate a switch that comes or goes (2003)", ChangeAssimilation,
			[]string{FlagRuns, FlagSizes, FlagLosses},
		},
		{"vswitch-reconfiguration", "What it costs that VMs migrate with their LIDs (2015)", VSwitchReconfiguration, both},
		{"signalling", "How hosts hear of changed paths, and what each way costs (2014)", Signalling, sizes},
		{"deadlock", "A ring that stands still, and what a transition plan does about it (2014)", Deadlock, runs},
		{"host-reconfiguration", "Connections that follow a reroute to other service levels (2014)", HostReconfiguration, runs},
		{"live-migration", "Virtual machines that migrate live, in five ways (2014)", LiveMigration, nil},
		{"vm-signalling", "Peers learn that a VM that migrated has another LID (2014)", VMSignalling, runs},
		{"vftree", "Hot spots, and lanes by pair of leaves of a fat tree (2011)", VFTree, both},
		{"dftree", "Hot spots found by counters, and flows to them moved to a slow lane (2011)", DFTree, both},
		{"congestion-control", "Hot spots, congestion control and lanes: what each brings to victims (2011)", CongestionControl, sizes},
		{"engines", "What traffic gets on the routes of each engine: trees, a damaged tree, a torus, a dragonfly", Engines, nil},
		{"path-caching", "A VM with RDS connections migrates, with and without path caches (2015)", PathCaching, both},
		{
			"sa-flood", "SA load test: OpenSM and Heddle under more and more queries (2015)", SAFlood,
			[]string{FlagRuns, FlagSizes, FlagRepeats, FlagRoundTime},
		},
	}
}

// CongestionControl is the experiment of package congestion.
func CongestionControl(o Options) (*report.Report, error) { return congestion.Run(o.common()) }

// DFTree is the experiment of package dftree.
func DFTree(o Options) (*report.Report, error) { return dftree.Run(o.common()) }

// common are the options that experiments in packages of their own take.
func (o *Options) common() bed.Options {
	return bed.Options{Seed: o.Seed, Runs: o.Runs, Sizes: o.Sizes, Progress: o.Progress}
}

// Find looks an experiment up by name.
func Find(name string) (Experiment, error) {
	all := All()
	if i := slices.IndexFunc(all, func(e Experiment) bool { return e.Name == name }); i >= 0 {
		return all[i], nil
	}
	return Experiment{}, fmt.Errorf("no experiment is called %q ('heddle lab list' shows them)", name)
}

func (o *Options) say(format string, a ...any) {
	if o.Progress != nil {
		o.Progress(fmt.Sprintf(format, a...))
	}
}
