// Package dftree is the experiment dftree: W. L. Guay's Paper IV (2012), in which a
// performance manager finds hot spots and hosts move the flows to them to a slow lane.
//
// Test beds have simulated hosts with queue pairs under a real manager; what moves the
// flows is a Loop. The tree of 648 hosts has streams of packets, and hosts that know hot
// spots from the beginning, as in the paper's simulation.
package dftree

import (
	"fmt"

	"heddle/lab/experiment/bed"
	"heddle/report"
	"heddle/sim/dataplane"
)

// Run is the experiment. Sizes are trees of 72, 648 (default) and 2,916 hosts, Runs is how
// many seeds each point of the trees is run with (2).
func Run(o bed.Options) (*report.Report, error) { return run(o, layouts(), []int{1, 3, 9}) }

// results are the measurements of a report.
type results struct {
	seed  uint64
	runs  int
	beds  [][]*bedResult // by experiment
	rings []ringResult
	trees []bed.Tree
	loops [][]treeLoop // by tree
	lanes []layout
	spots []int
	point []treePoint
	tree  []treeResult
}

// The places of lines of a test bed.
const (
	bedWithout = iota
	bedIdeal
	bedReal
	bedNarrow // ideal, one packet a lane
)

// bedLine is a line of a test bed.
type bedLine struct {
	loop func() Loop
	buf  bed.Buffers
}

func bedLines() []bedLine {
	return []bedLine{
		{func() Loop { return none{} }, bed.Wide()},
		{func() Loop { return ideal{} }, bed.Wide()},
		{func() Loop { return &real{every: interval} }, bed.Wide()},
		{func() Loop { return ideal{} }, bed.Narrow()},
	}
}

func run(o bed.Options, lanes []layout, spots []int) (*report.Report, error) {
	r := &results{seed: o.Seed, runs: o.Runs, lanes: lanes, spots: spots}
	if r.runs == 0 {
		r.runs = 2
	}
	sizes := o.Sizes
	if len(sizes) == 0 {
		sizes = []int{648}
	}
	for _, n := range sizes {
		t, err := bed.FullTree(n)
		if err != nil {
			return nil, err
		}
		r.trees = append(r.trees, t)
		for _, s := range spots {
			for _, l := range lanes {
				r.point = append(r.point, treePoint{t, l, s, dataplane.LaneQueue, false})
			}
		}
		r.point = append(
			r.point, treePoint{t, lanes[1], spots[0], dataplane.OwnQueue, false},
			treePoint{t, lanes[1], spots[0], dataplane.LaneQueue, true},
		)
	}
	for _, x := range experiments() {
		o.Say("experiment %s", x.name)
		var list []*bedResult
		for _, l := range bedLines() {
			y, err := x.run(l.loop(), l.buf, o.Seed)
			if err != nil {
				return nil, err
			}
			list = append(list, y)
		}
		r.beds = append(r.beds, list)
	}
	for _, x := range ringCases() {
		o.Say("%s", x.title)
		y, err := x.run(o.Seed)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", x.title, err)
		}
		r.rings = append(r.rings, y)
	}
	r.tree = make([]treeResult, len(r.point))
	err := bed.Each(len(r.point), func(i int) (err error) {
		p := &r.point[i]
		if r.tree[i], err = p.run(o.Seed, r.runs); err != nil {
			err = fmt.Errorf("%v, %v, %d hot spots: %w", &p.tree, p.layout, p.spots, err)
		}
		return err
	}, func(i, ended int) {
		p := &r.point[i]
		o.Say("%v: %d hot spots, %v (%d of %d)", &p.tree, p.spots, p.layout, ended, len(r.point))
	})
	if err != nil {
		return nil, err
	}
	for _, t := range r.trees {
		list, err := r.treeLoops(o, t)
		if err != nil {
			return nil, fmt.Errorf("%v, the real loop: %w", &t, err)
		}
		r.loops = append(r.loops, list)
	}
	return r.report(), nil
}

// treeLoops runs a tree with the real loop, if it is not too large.
func (r *results) treeLoops(o bed.Options, t bed.Tree) (list []treeLoop, err error) {
	for _, spots := range r.spots {
		if t.Hosts > maxLoopTree || !crowds(t, spots) {
			continue
		}
		o.Say("%v: the real loop, %d hot spots", &t, spots)
		x := treeLoop{
			spots: spots, without: *r.at(t, layout{1, false}, spots, dataplane.LaneQueue),
			ideal: *r.at(t, layout{1, true}, spots, dataplane.LaneQueue),
		}
		if err := x.run(t, o.Seed); err != nil {
			return nil, err
		}
		list = append(list, x)
	}
	return list, nil
}

// crowds reports whether so many hot spots are sent well more than they take: smaller crowds hardly
// make a hot spot.
func crowds(t bed.Tree, spots int) bool { return t.Share*float64(t.Hosts/spots) > 2 }

// slot is the result that is compared with the slot model.
func (r *results) slot(t bed.Tree) *treeResult {
	for i, p := range r.point {
		if p.tree == t && p.one {
			return &r.tree[i]
		}
	}
	return nil
}

// at is the result of a point, nil if it was not run.
func (r *results) at(t bed.Tree, l layout, spots int, q dataplane.Sharing) *treeResult {
	for i, p := range r.point {
		if p == (treePoint{t, l, spots, q, false}) {
			return &r.tree[i]
		}
	}
	return nil
}
