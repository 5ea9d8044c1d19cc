package experiment

import (
	"fmt"

	"heddle/report"
)

// HostReconfiguration repeats Paper I of W. L. Guay's thesis (2014): hosts change the
// service levels of established connections after a reroute. The manager, its SA and
// the datagrams are the real ones; hosts, queue pairs and packets are simulated.
func HostReconfiguration(o Options) (*report.Report, error) {
	if len(o.Sizes) > 0 {
		return nil, fmt.Errorf("the network has six switches; sizes have no meaning")
	}
	return hostReconfiguration(o, beffSteps, 1)
}

// hostResults are the measurements of one report.
type hostResults struct {
	seed        uint64
	runs        int
	scale       int
	long, short []float64 // listCost
	costs       handlerCosts
	cut         []hostCutResult
	beff        []beff
	nas         []nas
}

// hostReconfiguration runs rings of so many steps through the cuts, and programs whose
// blocks and times are divided by scale.
func hostReconfiguration(o Options, steps, scale int) (*report.Report, error) {
	r := &hostResults{seed: o.Seed, runs: o.Runs, scale: scale, nas: nasRuns()}
	if r.runs == 0 {
		r.runs = 3
	}
	var err error
	o.say("the list of queue pairs")
	if r.long, r.short, err = listCost(o.clock()); err != nil {
		return nil, err
	}
	o.say("handlers with one queue pair")
	if err = r.costs.run(o.Seed); err != nil {
		return nil, err
	}
	for i := range hostCuts {
		r.cut = append(r.cut, hostCutResult{})
		for k := range r.runs {
			o.say("%s, run %d of %d", hostCuts[i].name, k+1, r.runs)
			if err := hostCuts[i].run(o.Seed+uint64(k), &r.cut[i]); err != nil {
				return nil, fmt.Errorf("%s: %w", hostCuts[i].name, err)
			}
		}
	}
	for _, x := range []beff{
		{limits: hostLife},
		{cuts: 1, limits: hostLife},
		{cuts: 2, limits: hostLife},
		{cuts: 1, deaf: true, limits: never},
		{cuts: 1, deaf: true, limits: hostLife},
	} {
		o.say("b_eff with %d cuts, hosts repath: %v", x.cuts, !x.deaf)
		if err := x.run(o.Seed, steps); err != nil {
			return nil, fmt.Errorf("b_eff with %d cuts: %w", x.cuts, err)
		}
		r.beff = append(r.beff, x)
	}
	for i := range r.nas {
		o.say("%s", r.nas[i].name)
		if err := r.nas[i].run(o.Seed, scale); err != nil {
			return nil, err
		}
	}
	return r.report(), nil
}
