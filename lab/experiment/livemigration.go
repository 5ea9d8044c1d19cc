package experiment

import (
	"fmt"

	"heddle/report"
	"heddle/sim/hypervisor"
)

// LiveMigration repeats Paper V of W. L. Guay's thesis (2014): virtual machines with
// InfiniBand functions migrate live. The manager and its operations are the real ones;
// hypervisors, machines, queue pairs and packets are simulated.
func LiveMigration(o Options) (*report.Report, error) {
	if len(o.Sizes) > 0 {
		return nil, fmt.Errorf("the network has three hosts; sizes have no meaning")
	}
	return liveMigration(o, 512<<20, 1)
}

// liveResults are the measurements of one report.
type liveResults struct {
	seed    uint64
	memory  int64
	scale   int
	early   *wayResult // three stages with the function detached before pre-copy
	ways    []*wayResult
	figures []*figureResult
	rides   []*rideResult
	ip      liveIP
}

// liveMigration migrates machines of so much memory; the figures' times are divided by
// scale.
func liveMigration(o Options, memory int64, scale int) (*report.Report, error) {
	r := &liveResults{seed: o.Seed, memory: memory, scale: scale}
	var err error
	for _, w := range hypervisor.Ways() {
		o.say("%v", w)
		x, err := runWay(w, true, memory, o.Seed)
		if err != nil {
			return nil, err
		}
		r.ways = append(r.ways, x)
	}
	o.say("three stages, early detach")
	if r.early, err = runWay(hypervisor.ThreeStages, false, memory, o.Seed); err != nil {
		return nil, err
	}
	for i := range liveFigures {
		o.say("%s", liveFigures[i].name)
		x, err := liveFigures[i].run(memory, scale, o.Seed)
		if err != nil {
			return nil, err
		}
		r.figures = append(r.figures, x)
	}
	for _, x := range rides {
		o.say("time-out %d, %d retries", x.timeout, x.retries)
		ride, err := runRide(x.timeout, x.retries, x.part, o.Seed)
		if err != nil {
			return nil, err
		}
		r.rides = append(r.rides, ride)
	}
	o.say("IPoIB")
	if err := r.ip.run(r.ways[0], o.Seed); err != nil {
		return nil, err
	}
	return r.report(), nil
}

// stages is the migration by the three stages, as published.
func (r *liveResults) stages() *wayResult { return r.ways[0] }
