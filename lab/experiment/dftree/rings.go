package dftree

import (
	"fmt"
	"math/rand/v2"
	"time"

	"heddle/fabric"
	"heddle/ib"
	"heddle/lab"
	"heddle/lab/experiment/bed"
	"heddle/sim/host/adapter"
	"heddle/sim/host/program"
	"heddle/sim/host/rc"
)

// Rings of b_eff beside the hot spot (Tables 2 and 3): in a step each host sends a message
// to both neighbors, and the next step begins when all are there.

const (
	ringBytes = 1 << 16
	ringSteps = 60
	ringLimit = time.Second
)

// ringCase is a table.
type ringCase struct {
	title     string
	fabric    func() (*fabric.Fabric, error)
	hosts     int
	flows     []bed.Flow
	published string
}

func ringCases() []ringCase {
	return []ringCase{
		{"Tree 3a (Table 2)", small, 6, []bed.Flow{{1, 5}, {3, 5}, {6, 5}}, "+49.34 %"},
		{"Tree 3b (Table 3)", large, 12, []bed.Flow{{1, 9}, {5, 9}, {10, 9}}, "+52.60 % (of which table is lost)"},
	}
}

// ringResult are MB/s of a host, sent, by loop: without, real.
type ringResult struct{ natural, random [2]float64 }

func (x *ringCase) run(seed uint64) (r ringResult, err error) {
	for k, loop := range []Loop{none{}, &real{every: interval}} {
		f, err := x.fabric()
		if err != nil {
			return r, err
		}
		b, err := newTestBed(f, loop, bed.Wide(), x.flows, seed)
		if err != nil {
			return r, err
		}
		for _, f := range b.Flows {
			if err := b.begin(loop, f, true); err != nil {
				return r, err
			}
		}
		b.rates(3 * interval)
		rng := rand.New(rand.NewPCG(seed, 0x72696e67))
		natural := make([]int, x.hosts)
		for i := range natural {
			natural[i] = i
		}
		order := func() []int { return natural }
		if r.natural[k], err = b.ring(x.hosts, order); err != nil {
			return r, err
		}
		if r.random[k], err = b.ring(x.hosts, func() []int { return rng.Perm(x.hosts) }); err != nil {
			return r, err
		}
		if err := b.check(); err != nil {
			return r, err
		}
	}
	return r, nil
}

// ring runs steps of rings and returns what a host sends, in MB/s.
func (b *TestBed) ring(hosts int, order func() []int) (float64, error) {
	steps := make([][]program.Step, hosts)
	for range ringSteps {
		for i, list := range program.Ring(order(), ringBytes, 1) {
			steps[i] = append(steps[i], list...)
		}
	}
	at := map[*adapter.Adapter]*lab.Host{}
	var ranks []*adapter.Adapter
	for _, h := range b.Hosts {
		at[h.Adapter] = h
		ranks = append(ranks, h.Adapter)
	}
	hc := config().Hosts
	w, err := program.NewWorld(ranks, steps, program.Links{
		Options: hc.Options, Sender: hc.Sender,
		Path: func(from, to *adapter.Adapter) (rc.Path, error) { return at[from].Resolve(at[to]) },
		Peer: func(a *adapter.Adapter) ib.GID { return at[a].GID() },
	})
	if err != nil {
		return 0, err
	}
	began := b.Sim.Data().Now()
	w.Run()
	for limit := b.Sim.Now().Add(ringLimit); ; {
		b.Run(time.Millisecond)
		b.Sim.Data()
		if ended, end := w.Ended(); ended {
			if err := w.Check(); err != nil {
				return 0, err
			}
			us := float64((end - began).Duration().Nanoseconds()) / 1000
			return 2 * ringBytes * ringSteps / us, nil
		}
		if b.Sim.Now() > limit {
			return 0, fmt.Errorf("a ring stands at step %d after %v", w.Step(), ringLimit)
		}
	}
}
