// Package congestion is the experiment congestion-control: what the congestion control
// of the IBA (annex A10) does about hot spots, and what it brings beside lanes.
//
// It repeats Figures 5b and 6 of W. L. Guay's Paper III (2011), shows what each field of
// the settings is for, and compares congestion control with vFtree, with dFtree and with
// combinations on trees. All is deterministic by its seed.
package congestion

import (
	"fmt"
	"time"

	"heddle/lab/experiment/bed"
	"heddle/report"
	"heddle/sim/dataplane"
)

// Run is the experiment. Sizes are trees of 72, 648 (default) and 2,916 hosts.
func Run(o bed.Options) (*report.Report, error) {
	all := page{schemes(), mixes()}
	return run(o, plan{span: 40 * time.Millisecond, sweep: true, page: func(hosts int) page {
		if hosts > maxAll {
			return page{fewer(), fewMixes()}
		}
		return all
	}})
}

// maxAll is how many hosts a tree has at most whose page has all lines.
const maxAll = 648

// plan is how much is run.
type plan struct {
	span  time.Duration // of runs on the test bed
	sweep bool
	page  func(hosts int) page
}

// page are the lines of a tree.
type page struct {
	schemes []scheme // of the crowd, each with all kinds of inputs
	mixes   []mixCase
}

// results are the measurements of a report.
type results struct {
	seed   uint64
	plan   plan
	pairs  []pairResult
	checks []check
	sweeps []report.Section
	trees  []treeResult
}

// pairCase is a line of the test bed.
type pairCase struct {
	name  string
	lanes int
	set   *settings
	input dataplane.Queueing
}

type pairResult struct {
	pairCase
	*outcome
}

// The places of lines that claims speak of, for each kind of inputs.
const (
	pairOne = iota
	pairTwo
	pairGran
	pairBased
	pairLines
)

func pairCases() (list []pairCase) {
	g, b := gran(), pairBase()
	for _, in := range inputs() {
		list = append(
			list,
			pairCase{"one lane (5a)", 1, nil, in},
			pairCase{"two, the victim's by hand (5c)", 2, nil, in},
			pairCase{"one, CC, threshold 15", 1, &g, in},
			pairCase{"one, CC, threshold 8 (5b)", 1, &b, in},
		)
	}
	return list
}

// treeResult is the page of a tree.
type treeResult struct {
	tree  bed.Tree
	crowd []crowdLine
	mix   []mixLine
}

type crowdLine struct {
	scheme scheme
	input  dataplane.Queueing
	crowdResult
}

// mixCase is a line of the mix.
type mixCase struct {
	scheme scheme
	spots  int
	input  dataplane.Queueing
	queue  dataplane.Sharing
}

type mixLine struct {
	mixCase
	mixResult
}

// mixes are the lines of the mix: hosts of the thesis with FIFO inputs, then hosts whose
// queue pairs take turns with VoQ inputs.
func mixes() (list []mixCase) {
	for _, s := range schemes() {
		if !s.cc || s.fast == 1 {
			list = append(list, mixCase{s, 1, dataplane.FIFO, dataplane.LaneQueue})
		}
	}
	for _, s := range []scheme{
		{1, false, false}, {8, false, false}, {1, true, false}, {7, true, false}, {1, false, true}, {1, true, true},
	} {
		list = append(list, mixCase{s, 1, dataplane.VOQ, dataplane.DestQueue})
	}
	return list
}

// fewMixes are those without congestion control, for which packets of thousands of hosts would
// have to be simulated for a hundred milliseconds.
func fewMixes() (list []mixCase) {
	for _, s := range fewer() {
		if !s.cc {
			list = append(list, mixCase{s, 1, dataplane.FIFO, dataplane.LaneQueue})
		}
	}
	return append(list, mixCase{scheme{7, true, false}, 1, dataplane.FIFO, dataplane.LaneQueue})
}

func run(o bed.Options, p plan) (*report.Report, error) {
	r := &results{seed: o.Seed, plan: p}
	sizes := o.Sizes
	if len(sizes) == 0 {
		sizes = []int{648}
	}
	for _, n := range sizes {
		t, err := bed.FullTree(n)
		if err != nil {
			return nil, err
		}
		r.trees = append(r.trees, treeResult{tree: t})
	}
	o.Say("the test bed of Figure 5")
	for _, c := range pairCases() {
		x := pairRun{c.lanes, c.set, c.input, p.span}
		y, err := x.run(o.Seed)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.name, err)
		}
		r.pairs = append(r.pairs, pairResult{c, y})
	}
	o.Say("validation cases")
	var err error
	if r.checks, err = checks(o.Seed); err != nil {
		return nil, err
	}
	if p.sweep {
		if err := r.sweepAll(&o); err != nil {
			return nil, err
		}
	}
	for i := range r.trees {
		if err := r.trees[i].run(&o, &p); err != nil {
			return nil, fmt.Errorf("%v: %w", &r.trees[i].tree, err)
		}
	}
	return r.report(), nil
}

// sweepAll makes the sections of the sweep.
func (r *results) sweepAll(o *bed.Options) error {
	one := func(title, unit string, f field, rows []sweepRow, err error) error {
		if err == nil {
			r.sweeps = append(r.sweeps, sweepSection(title, unit, f.name, rows))
		}
		return err
	}
	for _, f := range fields(pairBase(), 4) {
		o.Say("sweep on the test bed: %s", f.name)
		rows, err := sweepPairs(o.Seed, f.variants, r.plan.span)
		if err := one("Sweep on the test bed", "Gb/s", f, rows, err); err != nil {
			return err
		}
	}
	f := field{"settings", grid(pairBase())}
	o.Say("grid on the test bed")
	rows, err := sweepPairs(o.Seed, f.variants, r.plan.span)
	if err := one("Grid on the test bed", "Gb/s", f, rows, err); err != nil {
		return err
	}
	t, err := bed.FullTree(72)
	if err != nil {
		return err
	}
	for _, f := range fields(forCrowd(t.Hosts), t.Hosts) {
		o.Say("sweep over a crowd of 72 hosts: %s", f.name)
		rows, err := sweepCrowd(o.Seed, &t, f.variants)
		if err := one("Sweep over a crowd of 72 hosts", "share", f, rows, err); err != nil {
			return err
		}
	}
	return nil
}

// run measures the page of a tree.
func (r *treeResult) run(o *bed.Options, p *plan) error {
	lines := p.page(r.tree.Hosts)
	for _, in := range inputs() {
		for _, s := range lines.schemes {
			r.crowd = append(r.crowd, crowdLine{scheme: s, input: in})
		}
	}
	for _, c := range lines.mixes {
		r.mix = append(r.mix, mixLine{mixCase: c})
	}
	n := len(r.crowd)
	return bed.Each(n+len(r.mix), func(i int) error {
		if i < n {
			l := &r.crowd[i]
			c := crowdRun{tree: r.tree, scheme: l.scheme, input: l.input}
			x, err := c.run(o.Seed)
			if err != nil {
				return fmt.Errorf("crowd, %v, %v inputs: %w", l.scheme, l.input, err)
			}
			l.crowdResult = *x
			return nil
		}
		l := &r.mix[i-n]
		m := mixRun{r.tree, l.scheme, l.spots, l.input, l.queue}
		x, err := m.run(o.Seed)
		if err != nil {
			return fmt.Errorf("mix, %v, %v inputs: %w", l.scheme, l.input, err)
		}
		l.mixResult = *x
		return nil
	}, func(_, ended int) { o.Say("%v: %d of %d", &r.tree, ended, n+len(r.mix)) })
}
