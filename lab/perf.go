package lab

import (
	"time"

	"heddle/mad"
	"heddle/perf"
	"heddle/shell"
)

// counters is the performance manager of a Manager, driven in virtual time.
type counters struct {
	m       *Manager
	notices []perf.Notice
	core    *perf.Core
	shell   *shell.Perf
	armed   mad.Time
	// By clock, if it is set: what all steps took, and the longest.
	clock        func() time.Duration
	cpu, slowest time.Duration
	most         int // requests that left in one step
}

// ServeCounters gives an attached manager a performance manager; call it before Start.
func (m *Manager) ServeCounters(cfg perf.Config) {
	c := &counters{m: m, core: perf.New(cfg), armed: mad.Never}
	c.shell = shell.NewPerf(perfCore{c}, perfEdge{c}, &m.shared)
	m.shared.WakePerf = c.shell.Mail
	m.perf = c
}

// Counters is the state of the manager's performance manager.
func (m *Manager) Counters() perf.Status { return m.perf.core.Status() }

// Round is the newest round of the manager's performance manager, nil before the first.
func (m *Manager) Round() *perf.Round { return m.shared.Round.Load() }

// CounterNotices are those of the manager's performance manager.
func (m *Manager) CounterNotices() []perf.Notice { return m.perf.notices }

// OnRound has fn called with every round, before Start.
func (m *Manager) OnRound(fn func(r *perf.Round)) { m.shared.OnRound = append(m.shared.OnRound, fn) }

// perfCore is the core, whose steps are timed.
type perfCore struct{ c *counters }

func (p perfCore) Step(now mad.Time, ev perf.Event, out *perf.Output) {
	if p.c.clock == nil {
		p.c.core.Step(now, ev, out)
		return
	}
	began := p.c.clock()
	p.c.core.Step(now, ev, out)
	took := p.c.clock() - began
	p.c.cpu, p.c.slowest = p.c.cpu+took, max(p.c.slowest, took)
}

// perfEdge does what the performance manager's core wants.
type perfEdge struct{ c *counters }

func (e perfEdge) Now() mad.Time { return e.c.m.c.Sim.Now() }

func (e perfEdge) Send(list []mad.Packet) {
	m := e.c.m
	e.c.most = max(e.c.most, len(list))
	for i := range list {
		if m.OnSend != nil {
			m.OnSend(&list[i])
		}
		m.sends(&list[i])
	}
}

func (e perfEdge) Published(r *perf.Round) {
	for _, fn := range e.c.m.shared.OnRound {
		fn(r)
	}
}

func (e perfEdge) Tell(list []perf.Notice) { e.c.notices = append(e.c.notices, list...) }

func (e perfEdge) Wake(t mad.Time) {
	e.c.m.wake(&e.c.armed, t, func() { e.c.shell.Step(perf.Timer{}) })
}
