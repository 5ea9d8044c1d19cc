package experiment

import (
	"fmt"
	"time"

	"heddle/lab"
	"heddle/sim/host/rc"
	"heddle/sim/hypervisor"
)

// wayResult is what a migration of one way was like, in true time.
type wayResult struct {
	way              hypervisor.Way
	late             bool
	out, in          time.Duration // outage of what the machine sends, and of what it receives
	away             time.Duration // of the function
	took             time.Duration // all
	still            time.Duration // the machine stood still
	rounds           int
	copied           int64
	messages         int // between processes
	told             int // peers that learnt another address
	peers            int
	sent, sets, lfts int // by the manager; Sets; blocks of forwarding tables
	repeats, timers  uint64
	failed           int
	bad              error
	lost             uint64            // messages that did not come
	marks            []hypervisor.Mark // from the first step on
	steps            [2][]float64      // messages/s sent and received by the machine, each wayStep
}

// Times of the page of all ways: what is shown before the migration and in all, and a
// step.
const (
	wayBefore = 500 * time.Millisecond
	waySpan   = 8500 * time.Millisecond
	wayStep   = 50 * time.Millisecond
)

// livePeers is how many programs on host B the machine talks to in each direction.
const livePeers = 2

// runWay migrates a machine from A to C, which talks to programs on B.
func runWay(way hypervisor.Way, late bool, memory int64, seed uint64) (*wayResult, error) {
	b, err := newLiveBed(way, seed, 1)
	if err != nil {
		return nil, err
	}
	m, err := b.Create("VMa", hostA, 1)
	if err != nil {
		return nil, err
	}
	for i := range 2 * livePeers {
		if _, err := m.Connect(hostB, i%2 == 0, b.options(), b.sender(), b.pulse(seed+uint64(i))); err != nil {
			return nil, err
		}
	}
	r := &wayResult{way: way, late: late}
	var was [2]uint64
	look := func() {
		var now [2]uint64
		for i, x := range m.Streams {
			n, _ := x.Sink.Got()
			now[i%2] += n
		}
		for k := range now {
			r.steps[k] = append(r.steps[k], float64(now[k]-was[k])/wayStep.Seconds())
		}
		was = now
	}
	for range wayBefore / wayStep {
		b.Run(wayStep)
		b.Sim.Data()
		look()
	}
	for _, x := range m.Streams {
		x.Sink.Gap(b.Engine.Now())
	}
	began := m.Session.Messages()
	v, err := b.watch(m, hostC, b.migration(memory, late, seed), wayStep, look)
	if err != nil {
		return nil, fmt.Errorf("%v: %w", way, err)
	}
	r.away, r.messages, r.sent, r.sets, r.lfts = v.Away(), m.Session.Messages()-began, v.Sent, v.Sets, v.Blocks
	for _, k := range v.Marks() {
		r.marks = append(r.marks, hypervisor.Mark{At: wayBefore + k.At - v.Began(), What: k.What})
	}
	r.took = r.marks[len(r.marks)-1].At - r.marks[0].At
	stop, run := time.Duration(0), time.Duration(0)
	for _, k := range r.marks {
		switch k.What {
		case "stop-and-copy":
			stop = k.At
		case "attach":
			run = k.At
		}
	}
	if run == 0 {
		run = r.marks[len(r.marks)-1].At
	}
	r.still = run - stop
	r.rounds, r.copied = len(v.Copy().Rounds())-1, v.Copy().Moved()
	for len(r.steps[0]) < int(waySpan/wayStep) { // peers come to their next retry
		b.Run(wayStep)
		b.Sim.Data()
		look()
	}
	r.measure(b, m)
	return r, b.Engine.Check()
}

// measure ends the streams and looks at them.
func (r *wayResult) measure(b *liveBed, m *lab.Machine) {
	b.Sim.Data()
	for i, x := range m.Streams {
		if gap := x.Sink.Gap(b.Engine.Now()).Duration(); i%2 == 0 {
			r.out = max(r.out, gap)
		} else {
			r.in = max(r.in, gap)
		}
		x.Stop()
	}
	b.Run(10 * time.Second)
	b.Sim.Data()
	for _, x := range m.Streams {
		r.peers++
		if x.Told() {
			r.told++
		}
		if st, _ := x.Failed(); st != rc.Success {
			r.failed++
		}
		got, _ := x.Sink.Got()
		r.lost += x.Posted() - min(got, x.Posted())
		if err := x.Check(); err != nil {
			r.bad = err
		}
		for _, q := range []*rc.QP{x.Mine.QP(), x.Theirs.QP()} {
			r.repeats += q.Count.Repeats
			r.timers += q.Count.Timeouts
		}
	}
}
