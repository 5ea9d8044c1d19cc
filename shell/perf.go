package shell

import (
	"heddle/mad"
	"heddle/perf"
	"heddle/subnet"
)

// PerfCore is perf.Core, or a test's substitute.
type PerfCore interface {
	Step(now mad.Time, ev perf.Event, out *perf.Output)
}

// PerfEdge carries out the effects of a perf.Core.
type PerfEdge interface {
	Clock
	Timer
	// Send sends requests; the core repeats those that are not answered.
	Send(list []mad.Packet)
	// Published is called with each round after Shared.Round has it, and has the cores in
	// Shared.OnRound called with it, each round after the one before.
	Published(r *perf.Round)
	Tell(list []perf.Notice)
}

// Perf drives the core of a performance manager.
type Perf struct {
	queue[perf.Event]
	core   PerfCore
	edge   PerfEdge
	shared *Shared
	seen   *subnet.Snapshot // the snapshot that the core has
	out    perf.Output
}

// NewPerf returns a driver that waits for the first snapshot.
func NewPerf(core PerfCore, edge PerfEdge, shared *Shared) *Perf {
	p := &Perf{core: core, edge: edge, shared: shared}
	p.handle = p.handleEvent
	return p
}

// Step passes an event to the core, or queues it while another one is carried out.
func (p *Perf) Step(ev perf.Event) { p.run(ev) }

// Mail passes the newest snapshot to the core, and which agents are to be read last.
func (p *Perf) Mail() { p.run(nil) }

func (p *Perf) handleEvent(ev perf.Event) {
	if ev != nil {
		p.carryOut(ev)
		return
	}
	if snap := p.shared.Snap.Load(); snap != p.seen && snap != nil {
		p.seen = snap
		p.carryOut(perf.Published{Snap: snap})
	}
	if v, ok := p.shared.rates.take(); ok {
		p.carryOut(v)
	}
	if watch, ok := p.shared.watch.take(); ok {
		p.carryOut(watch)
	}
}

// WatchAgents passes on which agents the performance manager is to read last.
func (s *Shared) WatchAgents(w perf.Watch) {
	if s.WakePerf == nil {
		return
	}
	s.watch.put(w)
	s.WakePerf()
}

// carryOut passes one event to the core and carries out its output, in the order of perf.Output.
func (p *Perf) carryOut(ev perf.Event) {
	if p.halted {
		return
	}
	p.out.Reset()
	p.core.Step(p.edge.Now(), ev, &p.out)
	out := &p.out
	if len(out.Sends) > 0 {
		p.edge.Send(out.Sends)
	}
	if p.halted {
		return
	}
	if out.Publish != nil {
		p.shared.Round.Store(out.Publish)
		p.edge.Published(out.Publish)
	}
	p.edge.Tell(out.Notices)
	p.edge.Wake(out.Timer)
}
