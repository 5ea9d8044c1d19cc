package lab

import (
	"time"

	wire "heddle/ib/sa"
	"heddle/mad"
	"heddle/sa"
	"heddle/shell"
)

// administrator is the subnet administrator of a Manager, driven in virtual
// time: queries are answered at once, as by a worker that has nothing else to
// do, or after a time (Manager.SlowSA); the rest goes through a core.
type administrator struct {
	m     *Manager
	shell *shell.SA
	core  *sa.Core
	opt   sa.Options
	rmpp  *mad.RMPP
	armed mad.Time // of the core
	timed mad.Time // of rmpp
	buf   []byte
	each  time.Duration // that a query takes; see Manager.SlowSA
	free  mad.Time      // when all queries that came are answered
	slow  func() time.Duration
	watch func(p *mad.Packet)
}

// ServeSA gives an attached manager a subnet administrator; call it before Start. Its state is
// in the manager's store.
func (m *Manager) ServeSA(cfg sa.Config, opt sa.Options) {
	cfg.QoS, cfg.PathCaching, cfg.VirtHopLimit = cfg.QoS || opt.QoS != nil, opt.PathCaching, opt.VirtHopLimit
	a := &administrator{m: m, opt: opt, armed: mad.Never, timed: mad.Never, rmpp: mad.NewRMPP(mad.RMPPConfig{})}
	a.core = sa.NewCore(cfg)
	a.shell = shell.NewSA(a.core, saEdge{a}, &m.shared)
	m.shared.WakeSA = a.shell.Mail
	m.sa = a
}

// SlowSA has the SA take virtual time for each query, one after the other in the order of
// their coming; call it after ServeSA.
func (m *Manager) SlowSA(each time.Duration) { m.sa.each = each }

// SlowSAStore has each write of the SA take as long in virtual time as takes says; call it after
// ServeSA. What a dead manager was writing is not stored.
func (m *Manager) SlowSAStore(takes func() time.Duration) { m.sa.slow = takes }

// WatchSA has fn see every packet of the manager's SA before it is sent.
func (m *Manager) WatchSA(fn func(p *mad.Packet)) { m.sa.watch = fn }

// View is the state of the manager's SA as queries see it.
func (m *Manager) View() *sa.View { return m.shared.View.Load() }

// Signals says what has become of the Reports about paths of the manager's SA.
func (m *Manager) Signals() sa.SignalStats { return m.sa.core.Signals() }

// source is what the SA's answers are made from.
func (a *administrator) source() *sa.Source {
	return &sa.Source{Snap: a.m.Snap, View: a.m.View(), Opt: &a.opt, Held: a.core.Held()}
}

// receive passes an SA packet from the port on.
func (a *administrator) receive(p *mad.Packet) {
	whole, kind := a.rmpp.Receive(a.m.c.Sim.Now(), p, a.raw, noDone)
	a.arm()
	switch kind {
	case mad.RMPPUsed:
		return
	case mad.RMPPMessage:
		p = whole
	}
	switch shell.KindOf(p) {
	case shell.Query, shell.Change:
	case shell.ReportAnswer:
		a.shell.Step(sa.Received{P: keep(p)})
		return
	default:
		return
	}
	if a.each > 0 {
		now := a.m.c.Sim.Now()
		a.free = max(a.free, now).Add(a.each)
		q := keep(p)
		a.m.c.Sim.At(a.free, func() { a.answer(q) })
		return
	}
	a.answer(p)
}

// answer answers a query or a change.
func (a *administrator) answer(p *mad.Packet) {
	if a.m.Dead {
		return
	}
	req := sa.Request{From: p.Addr, Data: p.Data}
	reply, v := sa.Answer(a.source(), &req, a.buf[:0])
	a.buf = reply
	switch v {
	case sa.Answered:
		a.send(req.From, reply)
	case sa.ForCore:
		a.shell.Step(sa.Requests{List: []sa.Request{{From: p.Addr, Data: keep(p).Data}}})
	}
}

func keep(p *mad.Packet) *mad.Packet {
	q := *p
	q.Data = append([]byte(nil), p.Data...)
	return &q
}

func noDone(uint64, error) {}

func (a *administrator) raw(p *mad.Packet) {
	if a.watch != nil {
		a.watch(p)
	}
	a.m.sends(p)
}

// send sends an answer, by RMPP if it asks for that.
func (a *administrator) send(to mad.Addr, data []byte) {
	p := mad.Packet{Addr: to, LocalQP: 1, Data: data}
	if data[26]&wire.RMPPActive == 0 {
		a.raw(&p)
		return
	}
	p.Data = append([]byte(nil), data...)
	_ = a.rmpp.Send(a.m.c.Sim.Now(), &p, false, 0, a.raw)
	a.arm()
}

// arm has the segmentation woken when something of it is due.
func (a *administrator) arm() {
	t := a.rmpp.NextTimer()
	a.m.wake(&a.timed, t, func() {
		a.rmpp.Expire(a.m.c.Sim.Now(), a.raw, noDone)
		a.arm()
	})
}
