package experiment

import (
	"fmt"

	"heddle/lab/experiment/bed"
	"heddle/report"
)

// VFTree repeats the evaluation of W. L. Guay, B. Bogdański, S.-A. Reinemo,
// O. Lysne and T. Skeie, "vFtree – a fat-tree routing algorithm using virtual
// lanes to alleviate congestion" (2011; Paper III of Guay's thesis): pairs of
// leaves are spread over lanes, so that flows to a hot spot delay fewer others.
// Figures 5 to 9 and Tables I and II are test beds, Figure 10 trees of 648 hosts.
// What has to do with congestion control (Figure 5b) is left out.
func VFTree(o Options) (*report.Report, error) {
	return vftreeWith(o, hotLanes, hotSpots)
}

// vftreeWith draws Figure 10 for so many lanes and hot spots.
func vftreeWith(o Options, lanes, spots []int) (*report.Report, error) {
	r := &vftreeResults{seed: o.Seed, runs: o.Runs, lanes: lanes, spots: spots}
	if r.runs == 0 {
		r.runs = 8
	}
	sizes := o.Sizes
	if len(sizes) == 0 {
		sizes = []int{648}
	}
	for _, hosts := range sizes {
		trees, err := bed.Trees(hosts)
		if err != nil {
			return nil, err
		}
		r.trees = append(r.trees, trees...)
	}
	for i := range bedFigures {
		o.say("%s", bedFigures[i].title)
		f, err := bedFigures[i].run(o.Seed)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", bedFigures[i].title, err)
		}
		r.beds = append(r.beds, f)
	}
	for i := range ringTables {
		o.say("%s", ringTables[i].title)
		x, err := ringTables[i].rings(o.Seed, ringPatterns)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", ringTables[i].title, err)
		}
		r.rings = append(r.rings, x)
	}
	for _, t := range r.trees {
		for _, s := range spots {
			for _, l := range lanes {
				r.points = append(r.points, hotPoint{t, l, s, lossy})
			}
		}
		r.points = append(r.points, hotPoint{t, lanes[len(lanes)-1], spots[0], blocking})
	}
	var err error
	if r.hot, err = o.hotRun(r.points, r.runs); err != nil {
		return nil, err
	}
	return r.report(), nil
}

// ringPatterns is how many steps of each order b_eff takes here. The paper has
// 5,000.
const ringPatterns = 60

// bedResult is what a figure's lines gave: rates by flow, with wide and with
// narrow buffers.
type bedResult [][2][]float64

func (f *bedFigure) run(seed uint64) (bedResult, error) {
	r := make(bedResult, len(f.lines))
	for i, l := range f.lines {
		for k, x := range []bed.Buffers{bed.Wide(), bed.Narrow()} {
			run := bed.Run{
				Fabric: f.fabric, Engine: l.engine, Lanes: l.lanes, ByHand: l.byHand, Flows: f.flows, Buffers: x,
			}
			var err error
			if r[i][k], err = run.Rates(seed); err != nil {
				return nil, fmt.Errorf("figure %s, %s: %w", l.figure, x.Name, err)
			}
		}
	}
	return r, nil
}
