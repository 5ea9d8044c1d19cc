package experiment

import (
	"fmt"
	"time"

	"heddle/lab"
	"heddle/sim/host/program"
	"heddle/sim/host/rc"
	"heddle/sim/hypervisor"
)

// liveFlow is a stream of an experiment of Paper V.
type liveFlow struct {
	name     string
	from, to int
	machine  bool // it begins at the machine that migrates, wherever that is
}

// liveFigure is a figure of Paper V: streams over RDMA while a machine migrates.
type liveFigure struct {
	name, what string
	at, to     int // of the machine
	flows      []liveFlow
}

var liveFigures = []liveFigure{
	{"Figure 12", "VMa migrates from A to C, its peer is on B", hostA, hostC, []liveFlow{{"VMa-VM1", hostA, hostB, true}}},
	{"Figure 14", "VMa sends to three machines on B and migrates from A to C", hostA, hostC, []liveFlow{
		{"VMa-VM1", hostA, hostB, true}, {"VMa-VM2", hostA, hostB, true}, {"VMa-VM3", hostA, hostB, true},
	}},
	{"Figure 15", "VMa leaves B, which it shares with two senders, for C", hostB, hostC, []liveFlow{
		{"VMa-VM5", hostB, hostA, true}, {"VM2-VM4", hostB, hostC, false}, {"VM3-VM4", hostB, hostC, false},
	}},
	{"Figure 15, to A", "the same, to the host of its peer", hostB, hostA, []liveFlow{
		{"VMa-VM5", hostB, hostA, true}, {"VM2-VM4", hostB, hostC, false}, {"VM3-VM4", hostB, hostC, false},
	}},
}

// The places of figures that claims speak of.
const (
	figureOne = iota
	figureThree
	figureLeave
)

// figureResult is what a figure shows. Times are true ones.
type figureResult struct {
	before, after []float64       // by flow, Gb/s
	outage        []time.Duration // by flow
	steps         [][]float64     // by flow, each liveStep
	marks         []hypervisor.Mark
	failed        int
	bad           error
}

// Spans of a figure, and its steps, in true time.
const (
	liveBefore = 4 * time.Second
	liveAfter  = 4 * time.Second
	liveStep   = 200 * time.Millisecond
)

// run runs a figure in compressed time.
func (f *liveFigure) run(memory int64, scale int, seed uint64) (*figureResult, error) {
	b, err := newLiveBed(hypervisor.ThreeStages, seed, scale)
	if err != nil {
		return nil, err
	}
	m, err := b.Create("VMa", f.at, 1)
	if err != nil {
		return nil, err
	}
	r := &figureResult{steps: make([][]float64, len(f.flows))}
	var streams []*program.Stream
	var sinks []*program.Sink
	for _, x := range f.flows {
		p := program.Stream{Bytes: 1 << 15, Depth: 32}
		if x.machine {
			s, err := m.Connect(x.to, true, b.options(), b.sender(), p)
			if err != nil {
				return nil, err
			}
			streams, sinks = append(streams, s.Stream), append(sinks, s.Sink)
			continue
		}
		s, k := &p, &program.Sink{}
		c, _, err := program.Pair(b.Adapters[x.from], b.Adapters[x.to], b.options(), b.sender(), rc.Path{DLID: b.Adapters[x.to].LID()},
			rc.Path{DLID: b.Adapters[x.from].LID()}, s, k)
		if err != nil {
			return nil, err
		}
		s.Run(c)
		streams, sinks = append(streams, s), append(sinks, k)
	}
	v, began, err := r.play(b, m, f.to, memory, seed, sinks)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.name, err)
	}
	for _, k := range v.Marks() {
		r.marks = append(r.marks, hypervisor.Mark{At: b.real(k.At - began), What: k.What})
	}
	for _, s := range streams {
		s.Stop()
	}
	b.Run(10 * time.Second / time.Duration(scale))
	b.Sim.Data()
	for i, s := range streams {
		if st, _ := s.Failed(); st != rc.Success {
			r.failed++
		}
		if err := sinks[i].Check(s); err != nil {
			r.bad = err
		}
		if got, _ := sinks[i].Got(); got != s.Posted() && r.bad == nil {
			r.bad = fmt.Errorf("%d of %d messages have come", got, s.Posted())
		}
	}
	return r, b.Engine.Check()
}

// play runs the time of a figure, and samples it.
func (r *figureResult) play(b *liveBed, m *lab.Machine, to int, memory int64, seed uint64, sinks []*program.Sink) (*lab.Move, time.Duration, error) {
	scaled := func(d time.Duration) time.Duration { return d / time.Duration(b.scale) }
	b.Run(scaled(time.Second)) // to a steady state
	was := make([]uint64, len(sinks))
	for i, s := range sinks {
		_, was[i] = s.Got()
	}
	sample := func(d time.Duration) []float64 {
		x := make([]float64, len(sinks))
		for range d / liveStep {
			b.Run(scaled(liveStep))
			b.Sim.Data()
			for i, s := range sinks {
				_, now := s.Got()
				g := float64(now-was[i]) * 8 / float64(scaled(liveStep).Nanoseconds())
				r.steps[i] = append(r.steps[i], g)
				x[i] += g * float64(liveStep) / float64(d)
				was[i] = now
			}
		}
		return x
	}
	r.before = sample(liveBefore)
	for _, s := range sinks {
		s.Gap(b.Engine.Now())
	}
	v, err := m.Migrate(to, b.migration(memory, true, seed), b.options(), b.sender())
	if err != nil {
		return nil, 0, err
	}
	for n := 0; !v.Ended(); n++ {
		if n > int(time.Minute/liveStep) {
			return nil, 0, fmt.Errorf("the migration does not end: %+v", v.Marks())
		}
		sample(liveStep)
	}
	if v.Err() != nil {
		return nil, 0, v.Err()
	}
	sample(2 * liveStep)
	for _, s := range sinks {
		r.outage = append(r.outage, b.real(s.Gap(b.Engine.Now()).Duration()))
	}
	r.after = sample(liveAfter)
	return v, v.Began() - scaled(liveBefore), nil
}
