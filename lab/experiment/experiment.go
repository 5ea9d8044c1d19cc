// Package experiment repeats published experiments with Heddle's own manager
// on its own simulator, in virtual time, and sets what was published against
// what is measured.
package experiment

import (
	"fmt"
	"slices"

	"heddle/lab/report"
)

// Options of an experiment.
type Options struct {
	Seed uint64
	// Runs is how many networks of each size are drawn; 0 = the experiment's
	// own number.
	Runs int
	// Sizes replaces the sizes of the networks; nil = as published.
	Sizes []int
	// Progress, if set, hears what is being done.
	Progress func(text string)
}

// Experiment is one that can be run.
type Experiment struct {
	Name  string
	Title string
	Run   func(Options) (*report.Report, error)
}

// All lists the experiments by name.
func All() []Experiment {
	return []Experiment{
		{"change-assimilation", "How long a subnet takes to assimilate a switch that comes or goes (2003)", ChangeAssimilation},
	}
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
