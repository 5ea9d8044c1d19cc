package experiment

import (
	"fmt"
	"slices"
	"time"

	"heddle/fabric"
	"heddle/ib"
	"heddle/ib/smp"
	"heddle/lab/experiment/bed"
	"heddle/mad"
	"heddle/sim/dataplane"
	"heddle/sim/host/adapter"
	"heddle/sim/host/program"
	"heddle/sim/host/repath"
	"heddle/sim/host/saclient"
)

// Queue pairs of the paper's Figure 6, on how many hosts they are spread for short
// lists, how many are timed at the end of each part, and how often.
const (
	listQPs   = 10_000
	listHosts = 100
	listParts = 10
	listTimed = 100
	listTries = 40
)

// listCost is the time of making a queue pair, by how many there are: in one long list,
// and in lists of a hundredth of them each, so that the same memory is in use. It is
// the best of some tries for the end of each part, in µs of this machine.
func listCost(clock func() time.Duration) (long, short []float64, err error) {
	long, short = make([]float64, listParts), make([]float64, listParts)
	for try := range listTries {
		for _, best := range [][]float64{long, short} {
			hosts, err := manyHosts()
			if err != nil {
				return nil, nil, err
			}
			if &best[0] == &long[0] {
				hosts = hosts[:1]
			}
			for part := range best {
				us, err := makePart(hosts, part, clock)
				if err != nil {
					return nil, nil, err
				}
				if try == 0 || us < best[part] {
					best[part] = us
				}
			}
		}
	}
	return long, short, nil
}

// makePart makes a part of the queue pairs, on hosts in turn, and times its end.
func makePart(hosts []*adapter.Adapter, part int, clock func() time.Duration) (us float64, err error) {
	const n = listQPs / listParts
	var began time.Duration
	for i := range n {
		if i == n-listTimed {
			began = clock()
		}
		a := hosts[(part*n+i)/listTimed%len(hosts)]
		if _, err := a.Connect(adapter.Options{MTU: bed.Payload, Window: 64}, &program.Sink{}); err != nil {
			return 0, err
		}
	}
	return (clock() - began).Seconds() * 1e6 / listTimed, nil
}

// manyHosts are adapters on one switch.
func manyHosts() ([]*adapter.Adapter, error) {
	b := &fabric.Builder{Width: ib.Width4x, Speed: ib.SpeedDDR}
	s := b.AddSwitch("S", listHosts)
	for i := range listHosts {
		b.Connect(s, i+1, b.AddCA(fmt.Sprintf("H%d", i+1), 1), 1)
	}
	f, err := b.Build()
	if err != nil {
		return nil, err
	}
	top, err := dataplane.FromFabric(f, dataplane.DefaultCable)
	if err != nil {
		return nil, err
	}
	e, err := dataplane.New(top, dataplane.NewPlain(top, 1), dataplane.Defaults())
	if err != nil {
		return nil, err
	}
	var hosts []*adapter.Adapter
	for h := range e.NumHosts() {
		a, err := adapter.New(e, h)
		if err != nil {
			return nil, err
		}
		hosts = append(hosts, a)
	}
	return hosts, nil
}

// handlerCosts are what the handlers of hosts with one queue pair took.
type handlerCosts struct {
	inService []time.Duration
	idle      []repath.Round // repath, nothing to change
	changed   []repath.Round
}

// run cuts the middle cable under each of the six flows by itself, and takes a host
// away and back.
func (x *handlerCosts) run(seed uint64) error {
	for i := range sixFlows {
		b, err := newMeshBed(seed, hostLife, false)
		if err != nil {
			return err
		}
		// A message now and then: the connection is used, and no cable is full.
		f := sixFlows[i]
		s, err := b.hosts[f[0]-1].Stream(b.hosts[f[1]-1], program.Stream{Bytes: bed.Payload, Depth: 4, Gap: 50 * dataplane.Microsecond, Seed: seed})
		if err != nil {
			return err
		}
		b.Run(time.Millisecond)
		if err := b.Sim.LinkDown("S2", 2); err != nil {
			return err
		}
		b.Run(150 * time.Millisecond)
		for _, h := range b.hosts {
			for _, r := range h.Rounds {
				switch {
				case r.Changed == 1:
					x.changed = append(x.changed, r)
				case r.Looked == 1:
					x.idle = append(x.idle, r)
				}
			}
		}
		if err := s.Check(); err != nil {
			return err
		}
	}
	return x.comeBack(seed)
}

// comeBack takes a host away and back.
func (x *handlerCosts) comeBack(seed uint64) error {
	b, err := newMeshBed(seed, hostLife, false)
	if err != nil {
		return err
	}
	for _, h := range b.hosts {
		h.Handler.Taken = func(r *saclient.Report, until mad.Time) {
			if trap, _ := r.Notice.Trap(); trap == smp.TrapGIDInService {
				x.inService = append(x.inService, until.Sub(r.At))
			}
		}
	}
	if err := b.Sim.LinkDown("H3", 1); err != nil {
		return err
	}
	b.Run(200 * time.Millisecond)
	if err := b.Sim.LinkUp("H3", 1); err != nil {
		return err
	}
	b.Run(3 * time.Second)
	return nil
}

// longest is the longest of some rounds, from the notice to the end.
func longest(list []repath.Round) (r repath.Round) {
	if len(list) == 0 {
		return r
	}
	return slices.MaxFunc(list, func(a, b repath.Round) int { return int(took(&a) - took(&b)) })
}

// took is how long a round took.
func took(r *repath.Round) time.Duration { return r.End.Sub(r.Notice) }

// share is what part of a round queue pairs took: asking and changing them.
func share(r *repath.Round) float64 {
	return 100 * (r.Look + r.Change).Seconds() / took(r).Seconds()
}
