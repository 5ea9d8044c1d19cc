package experiment

import (
	"fmt"
	"slices"
	"time"

	"heddle/mad"
	"heddle/report"
	"heddle/sa"
	"heddle/sm"
)

// Signalling repeats Paper II of W. L. Guay's thesis (2014): how the manager notifies hosts of paths
// that a reroute changed, and what each way costs hosts, the manager and the network. The manager, its
// SA and the datagrams are the real ones; hosts and queue pairs are simulated. OpenSM routes the same
// networks if Options.Peer is there.
func Signalling(o Options) (*report.Report, error) {
	if len(o.Sizes) == 0 {
		o.Sizes = []int{6, 36, 64, 100, 144, 256, 400}
	}
	return signalling(o, []int{8, 16, 32, 64})
}

// signalSize is a network of so many switches.
type signalSize struct {
	n     int
	lanes signalLanes
	runs  []signalRun // by signalCases; nil for the test bed
}

// signalResults are the measurements of one report.
type signalResults struct {
	seed      uint64
	peer      bool
	sizes     []signalSize
	lanes     []signalRun   // cut 4-5, by signalCases
	moved     []signalRun   // cut 2-5
	processes []int         // P2.5
	many      [][]signalRun // by processes and signalCases
	sweeps    []cutSweeps
}

// signalling runs the networks of o.Sizes, and the test bed with so many processes.
func signalling(o Options, processes []int) (*report.Report, error) {
	r := &signalResults{seed: o.Seed, peer: o.Peer != nil, processes: processes}
	clock := o.clock()
	ways := func(n, p int, node string, port int) (list []signalRun, err error) {
		for i := range signalCases {
			c := &signalCases[i]
			o.say("%d switches, %d processes, %s-%d cut: %s", n, p, node, port, c.name)
			x, err := c.run(n, p, o.Seed, node, port, clock)
			if err != nil {
				return nil, err
			}
			list = append(list, x)
		}
		return list, nil
	}
	var err error
	if r.lanes, err = ways(6, 6, "S4", 3); err != nil {
		return nil, err
	}
	if r.moved, err = ways(6, 6, "S2", 2); err != nil {
		return nil, err
	}
	for _, p := range processes {
		list, err := ways(6, p, "S2", 2)
		if err != nil {
			return nil, err
		}
		r.many = append(r.many, list)
	}
	for _, m := range []sa.Signal{sa.SignalWildcard, sa.SignalHybrid, sa.SignalTargeted} {
		o.say("sweeps and Reports for each cable: %v", m)
		if err := r.countSweeps(m, o.Seed); err != nil {
			return nil, err
		}
	}
	for _, n := range slices.Sorted(slices.Values(o.Sizes)) {
		x := signalSize{n: n}
		o.say("%d switches: lanes", n)
		if x.lanes, err = o.lanes(n); err != nil {
			return nil, err
		}
		if _, node, port, _ := signalFabric(n); n > 6 {
			if x.runs, err = ways(n, n, node, port); err != nil {
				return nil, err
			}
		}
		r.sizes = append(r.sizes, x)
	}
	return r.report(), nil
}

// cutSweeps is what the cut of one cable of the test bed costs the product, in sweepSpan.
type cutSweeps struct {
	mode           sa.Signal
	cable          string
	sweeps, routes uint64
	first          int // most Reports of any way to one host before the manager looks for better tables
	most           int // and in all
	told           time.Duration
}

// sweepSpan is how long a cut cable is looked at: longer than repath time, and until better tables have
// been looked for.
const sweepSpan = 5 * time.Minute

// countSweeps cuts each cable of the test bed once.
func (r *signalResults) countSweeps(m sa.Signal, seed uint64) error {
	c := signalCase{name: m.String(), mode: m}
	cables := []struct {
		node string
		port int
		name string
	}{{"S2", 2, "2-5"}}
	for i := 1; i <= 6; i++ {
		cables = append(cables, struct {
			node string
			port int
			name string
		}{fmt.Sprintf("S%d", i), 3, fmt.Sprintf("%d-%d", i, i%6+1)})
	}
	for _, k := range cables {
		b, err := c.newBed(6, 6, seed)
		if err != nil {
			return err
		}
		b.Run(2 * time.Second)
		clear(b.heard)
		x := cutSweeps{mode: m, cable: k.name}
		was, at := b.Manager.Status().Sweeps, b.Sim.Now()
		b.Manager.OnJob = func(*sm.JobResult) { x.routes++ }
		if err := b.Sim.LinkDown(k.node, k.port); err != nil {
			return err
		}
		b.Run(8 * time.Second) // ImproveDelay is 10 s
		x.sweeps, x.first = b.Manager.Status().Sweeps-was, b.mostReports()
		routes := x.routes
		b.Run(sweepSpan)
		x.routes, x.most, x.told = routes, b.mostReports(), b.lastReport(at)
		r.sweeps = append(r.sweeps, x)
	}
	return nil
}

// mostReports is how many Reports the host got that got most.
func (b *signalBed) mostReports() (n int) {
	for _, x := range b.heard {
		n = max(n, x.reports)
	}
	return n
}

// lastReport is how long after a time the last host got its first Report.
func (b *signalBed) lastReport(at mad.Time) (d time.Duration) {
	for _, x := range b.heard {
		if x.reports > 0 {
			d = max(d, x.first.Sub(at))
		}
	}
	return d
}
