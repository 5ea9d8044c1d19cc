package dftree

import (
	"fmt"
	"math"
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

// Rings of b_eff beside the hot spot (Tables 2 and 3), as the HPC Challenge benchmark runs them: each
// rank sends a message to both neighbors of a ring, some times over; the ring of the hosts in their
// order, and rings in random order, of whose times the geometric mean counts.

const (
	// ringBytes is a message: two million bytes in the benchmark. Control times are divided by 1,000
	// here, and a ring is to take less than an interval of the counters, as it does there.
	ringBytes = 1 << 16
	// ringRepeats is how many times a ring that is measured is run, after once that is not, and
	// ringRandom how many rings are random. Both are the benchmark's.
	ringRepeats = 3
	ringRandom  = 10
	ringLimit   = time.Second
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

// ringLine is how rings run.
type ringLine struct {
	loop func() Loop
	// fast: queue pairs begin on the fast lane, as in the paper (§3.3), and not on the lane that the
	// SA's answer names.
	fast bool
}

// The places of lines of ringLines.
const (
	ringWithout = iota
	ringReal
	ringFast
	numRingLines
)

func ringLines() [numRingLines]ringLine {
	loop := func() Loop { return &real{every: interval} }
	return [...]ringLine{
		ringWithout: {func() Loop { return none{} }, false}, ringReal: {loop, false}, ringFast: {loop, true},
	}
}

// ringResult are MB/s of a host, sent, by line.
type ringResult struct{ natural, random [numRingLines]float64 }

// gain is that of a line in percent.
func gainOf(x *[numRingLines]float64, line int) float64 { return 100*x[line]/x[ringWithout] - 100 }

func (x *ringCase) run(seed uint64) (r ringResult, err error) {
	for k, line := range ringLines() {
		f, err := x.fabric()
		if err != nil {
			return r, err
		}
		loop := line.loop()
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
		list, err := b.rings(x.hosts, seed, line.fast)
		if err != nil {
			return r, err
		}
		r.natural[k] = list[0]
		for _, v := range list[1:] {
			r.random[k] += math.Log(v) / ringRandom
		}
		r.random[k] = math.Exp(r.random[k])
		if err := b.check(); err != nil {
			return r, err
		}
	}
	return r, nil
}

// rings runs the natural ring and random ones, each in two ways: to both neighbors at once, and to
// one after the other. It returns what a host sends, in MB/s: by the better way of each host, and
// the host that takes longest.
func (b *TestBed) rings(hosts int, seed uint64, fast bool) ([]float64, error) {
	rng := rand.New(rand.NewPCG(seed, 0x72696e67))
	order := make([]int, hosts)
	for i := range order {
		order[i] = i
	}
	steps := make([][]program.Step, hosts)
	var ways [][2]int // by ring and way: its first step that is measured, and how many are
	for range 1 + ringRandom {
		for _, way := range [...]func([]int, int, int) [][]program.Step{program.Ring, program.RingInTurn} {
			for i := range steps {
				steps[i] = append(steps[i], program.Step{To: others(i, hosts), From: others(i, hosts), Bytes: 8})
			}
			first := len(steps[0])
			for i, list := range way(order, ringBytes, 1+ringRepeats) {
				steps[i] = append(steps[i], list...)
			}
			each := (len(steps[0]) - first) / (1 + ringRepeats)
			ways = append(ways, [2]int{first + each, ringRepeats * each})
		}
		order = rng.Perm(hosts)
	}
	w, err := b.world(steps, fast)
	if err != nil {
		return nil, err
	}
	var rates []float64
	for k := 0; k < len(ways); k += 2 {
		worst := 0.0
		for i := range hosts {
			at := w.Began(i)
			best := math.Inf(1)
			for _, x := range ways[k : k+2] {
				best = min(best, float64((at[x[0]+x[1]] - at[x[0]]).Duration().Nanoseconds()))
			}
			worst = max(worst, best)
		}
		rates = append(rates, 2*ringBytes*ringRepeats*1000/worst)
	}
	return rates, nil
}

// others are the ranks besides i.
func others(i, n int) (list []int) {
	for j := 1; j < n; j++ {
		list = append(list, (i+j)%n)
	}
	return list
}

// world runs a program with a rank on each host to its end. With fast its queue pairs begin on the
// fast lane.
func (b *TestBed) world(steps [][]program.Step, fast bool) (*program.World, error) {
	at := map[*adapter.Adapter]*lab.Host{}
	var ranks []*adapter.Adapter
	for _, h := range b.Hosts {
		at[h.Adapter] = h
		ranks = append(ranks, h.Adapter)
	}
	hc := config().Hosts
	w, err := program.NewWorld(ranks, steps, program.Links{
		Options: hc.Options, Sender: hc.Sender,
		Path: func(from, to *adapter.Adapter) (rc.Path, error) {
			p, err := at[from].Resolve(at[to])
			if fast {
				p.SL = 0
			}
			return p, err
		},
		Peer: func(a *adapter.Adapter) ib.GID { return at[a].GID() },
	})
	if err != nil {
		return nil, err
	}
	w.Run()
	for limit := b.Sim.Now().Add(ringLimit); ; {
		b.Run(time.Millisecond)
		b.Sim.Data()
		if ended, _ := w.Ended(); ended {
			return w, w.Check()
		}
		if b.Sim.Now() > limit {
			return nil, fmt.Errorf("a ring stands at step %d after %v", w.Step(), ringLimit)
		}
	}
}
