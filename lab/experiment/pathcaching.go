package experiment

import (
	"errors"
	"fmt"
	"time"

	"heddle/ib"
	"heddle/lab/experiment/bed"
	"heddle/mad"
	"heddle/report"
	"heddle/sim/host/adapter"
	"heddle/sim/host/comm"
	"heddle/sim/host/program"
	"heddle/sim/host/rc"
)

// heddleAnswer is what an answer of Heddle's SA takes in models of it; it is 1.3 µs of one core
// in one process (docs/benchmarks.md).
const heddleAnswer = 5 * time.Microsecond

// pathCachingSize is how much of the experiment is run.
type pathCachingSize struct {
	runs    int           // of each figure
	clients int           // of the crowd
	rounds  int           // of Algorithm 1
	each    time.Duration // of a round
	phases  int           // returns of the VM within a time-out
}

// PathCaching repeats §IV and §V of E. Tasoulas, E. G. Gran, B. D. Johnsen and T. Skeie, "A
// Novel Query Caching Scheme for Dynamic InfiniBand Subnets" (2015): a VM with RDS
// connections migrates, with and without its addresses, and with path caches. Tables II to V
// are a model; sa-flood measures Table V on real managers.
func PathCaching(o Options) (*report.Report, error) {
	size := pathCachingSize{runs: 10, clients: 2000, rounds: floodRounds, each: 20 * time.Second, phases: 12}
	if o.Runs > 0 {
		size.runs = o.Runs
	}
	if len(o.Sizes) > 1 {
		return nil, errors.New("path-caching has one crowd: give one size, the number of its clients")
	}
	if len(o.Sizes) == 1 {
		size.clients = o.Sizes[0]
	}
	return pathCaching(o, size)
}

// rdsResults are the measurements of one report.
type rdsResults struct {
	seed    uint64
	size    pathCachingSize
	runs    [][]*rdsRun // by figure
	clocks  []clockRun
	phases  []phaseRun
	crowds  []crowd
	flooded []floodedRun
	timeout []timeoutRun
}

// clockRun is Figure 5 under a reading of the time-out of communication management.
type clockRun struct {
	name     string
	comm     comm.Config
	restored time.Duration // after the detach
}

// phaseRun is Figure 6 with another return of the VM.
type phaseRun struct {
	back     time.Duration // from the detach to the return
	restored time.Duration // from the return
	late     int           // the server's queries after it
}

// timeoutRun is a time-out of communication management: by equation 2, and measured with
// the IBA's times and with those of Linux.
type timeoutRun struct {
	plt, rtv            uint8
	equation, iba, unix time.Duration
}

// floodedRun is a line of Table V in the model.
type floodedRun struct {
	p           *published
	first, last modelRound
	alone       float64 // sum of what each host can ask alone
}

func pathCaching(o Options, size pathCachingSize) (*report.Report, error) {
	r := &rdsResults{seed: o.Seed, size: size}
	for i := range rdsFigures {
		f := &rdsFigures[i]
		o.say("figure %s, %d runs", f.name, size.runs)
		var runs []*rdsRun
		for k := range size.runs {
			x, err := f.run(rdsDefaults(), o.Seed+uint64(k))
			if err != nil {
				return nil, err
			}
			runs = append(runs, x)
		}
		r.runs = append(r.runs, runs)
	}
	for _, step := range []func(*Options) error{r.runClocks, r.runPhases, r.runTimeouts, r.runCrowds, r.runFlooded} {
		if err := step(&o); err != nil {
			return nil, err
		}
	}
	return r.report(), nil
}

// runClocks runs Figure 5 with each reading of the time-out.
func (r *rdsResults) runClocks(o *Options) error {
	o.say("figure 5, readings of the time-out")
	k := comm.Defaults()
	linux := k
	linux.Rounded = true
	less := k
	less.Retries--
	for _, c := range []clockRun{
		{name: "Linux: 6.144 s, 16 times in all", comm: linux},
		{name: "equation 3: 6.44 s, 15 times in all", comm: less},
		{name: "equation 3: 6.44 s, 15 times after the first", comm: k},
	} {
		cfg := rdsDefaults()
		cfg.comm = c.comm
		x, err := rdsFigures[0].run(cfg, r.seed)
		if err != nil {
			return err
		}
		c.restored = x.restored - rdsFigures[0].detach
		r.clocks = append(r.clocks, c)
	}
	return nil
}

// runPhases runs Figure 6 with returns over a whole time-out.
func (r *rdsResults) runPhases(o *Options) error {
	o.say("figure 6, %d returns of the VM", r.size.phases)
	period := rdsDefaults().comm.Timeout()
	for k := range r.size.phases {
		f := rdsFigures[1]
		f.back += period * time.Duration(k) / time.Duration(r.size.phases)
		f.end += period
		x, err := f.run(rdsDefaults(), r.seed+uint64(k))
		if err != nil {
			return err
		}
		p := phaseRun{back: f.back, late: f.late(x), restored: -1}
		if x.restored > 0 {
			p.restored = x.restored - f.returned()
		}
		r.phases = append(r.phases, p)
	}
	return nil
}

// runTimeouts measures how long requests to a VM that is gone wait, try by try.
func (r *rdsResults) runTimeouts(o *Options) error {
	o.say("time-outs of equation 2")
	for plt := uint8(12); plt <= 20; plt++ {
		for rtv := uint8(12); rtv <= 20; rtv++ {
			t := timeoutRun{plt: plt, rtv: rtv}
			t.equation = 4096 * time.Nanosecond * (2<<plt + 1<<rtv)
			for _, x := range []struct {
				rounded bool
				to      *time.Duration
			}{{false, &t.iba}, {true, &t.unix}} {
				took, tries, err := unanswered(comm.Config{PacketLife: plt, Response: rtv, Retries: 15, Rounded: x.rounded})
				if err != nil {
					return err
				}
				*x.to = took / time.Duration(tries)
			}
			r.timeout = append(r.timeout, t)
		}
	}
	return nil
}

// unanswered is how long a request waits for a peer that never answers, and how often it is
// sent.
func unanswered(cfg comm.Config) (took time.Duration, tries int, err error) {
	hosts, err := manyHosts()
	if err != nil {
		return 0, 0, err
	}
	qp, err := hosts[0].Connect(adapter.Options{MTU: bed.Payload, Window: 1}, &program.Sink{})
	if err != nil {
		return 0, 0, err
	}
	m := comm.New(cfg, func(*mad.Packet) { tries++ }, func() (ib.LID, ib.GID) {
		return 1,
			ib.MakeGID(ib.DefaultSubnetPrefix, 1)
	})
	var end mad.Time
	m.Connect(0, comm.Request{Service: rdsService, QP: qp, Path: rc.Path{DLID: 2}}, func(now mad.Time, e error) {
		if end = now; !errors.Is(e, comm.ErrTimeout) {
			err = fmt.Errorf("a request without an answer ends with %w", e)
		}
	})
	for t := m.NextTimer(); t != mad.Never; t = m.NextTimer() {
		m.Expire(t)
	}
	return end.Sub(0), tries, err
}

// runCrowds runs the crowd with both SAs, without and with caches.
func (r *rdsResults) runCrowds(o *Options) error {
	for _, answer := range []time.Duration{paperAnswer, heddleAnswer} {
		for _, caching := range []rdsCaching{noCaching, asPrinted, heddleAgent} {
			o.say("%d clients, %v for an answer, path caches: %v", r.size.clients, answer, caching)
			x := crowd{clients: r.size.clients, answer: answer, caching: caching}
			if err := x.run(r.seed); err != nil {
				return err
			}
			r.crowds = append(r.crowds, x)
		}
	}
	return nil
}

// runFlooded runs Table V on the model.
func (r *rdsResults) runFlooded(o *Options) error {
	o.say("Table V on a model")
	for i := range tableV {
		p := &tableV[i]
		hosts := append([]floodHost{floodSIF}, mifs(p.mifs)...)
		x := floodedRun{p: p, alone: floodSIF.alone(1, r.seed)}
		for k, h := range hosts[1:] {
			x.alone += h.alone(p.instances*(r.size.rounds-1), r.seed+uint64(k))
		}
		x.first, x.last = newFloodModel(paperAnswer, r.seed, hosts...).algorithm1(r.size.rounds, p.instances, r.size.each)
		r.flooded = append(r.flooded, x)
	}
	return nil
}
