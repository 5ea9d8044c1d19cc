package lab

import (
	"time"

	"heddle/ib"
	"heddle/mad"
	"heddle/sa"
	"heddle/sm"
	"heddle/store"
	"heddle/subnet"
	"heddle/vm"
)

// smCore is the core of a Manager, whose steps are timed.
type smCore struct{ m *Manager }

func (c smCore) Step(now mad.Time, ev sm.Event, out *sm.Output) {
	if l, ok := ev.(sm.SetPlacements); ok && c.m.OnPlacements != nil {
		c.m.OnPlacements(l)
	}
	began := c.m.clock()
	c.m.core.Step(now, ev, out)
	c.m.StepCPU += c.m.clock() - began
}

// smEdge does in virtual time what the subnet manager's core wants.
type smEdge struct{ m *Manager }

func (e smEdge) Now() mad.Time { return e.m.c.Sim.Now() }

func (e smEdge) Apply(ops []store.Op) error { return e.m.persist(ops) }

func (e smEdge) SetIsSM(on bool) error {
	_ = e.m.ep.SetIsSM(on) // a node that is down has no port to set it on
	return nil
}

func (e smEdge) Send(list []mad.Packet) {
	for i := range list {
		if e.send(&list[i]); e.m.Dead {
			return
		}
	}
}

func (e smEdge) send(p *mad.Packet) {
	m := e.m
	if m.OnSend != nil {
		m.OnSend(p)
	}
	m.Sent++
	if p.Data[3] == byte(ib.MethodSet) {
		m.Writes++
	}
	m.sends(p)
	if m.KillAfter > 0 {
		if m.KillAfter--; m.KillAfter == 0 {
			m.Kill()
		}
	}
}

func (e smEdge) Compute(j *sm.Job) {
	m := e.m
	began := m.clock()
	r := j.Solve(max(m.Workers, 1))
	proved := m.clock()
	j.Plan(r, max(m.Workers, 1))
	m.JobCPU += proved - began
	ended := m.clock()
	m.PlanCPU += ended - proved
	if m.OnJob != nil {
		m.OnJob(r)
	}
	takes := m.JobTime
	if m.JobClock {
		takes += ended - began
	}
	if takes > 0 {
		m.c.Sim.After(takes, func() { m.sm.Step(sm.JobDone{Result: r}) })
	} else {
		m.sm.Step(sm.JobDone{Result: r})
	}
}

func (smEdge) Publishing() {}

func (e smEdge) Published(s *subnet.Snapshot) {
	m := e.m
	m.Snap = s
	m.c.remember(m)
	if m.OnPublish != nil {
		m.OnPublish()
	}
}

func (e smEdge) TrapLost() {}

func (e smEdge) Tell(list []sm.Notice) { e.m.tell(list) }

func (e smEdge) Planned(p *sm.Plan) { e.m.Plan = p }

// Wake makes sure that the core is woken at t; an earlier wake-up that is
// pending will do and looks again.
func (e smEdge) Wake(t mad.Time) {
	e.m.wake(&e.m.armed, t, func() { e.m.sm.Step(sm.Timer{}) })
}

func (e smEdge) Stepped(ev sm.Event, out *sm.Output) {
	m := e.m
	m.Placements = append(m.Placements, out.Placements...)
	m.Traps = append(m.Traps, out.Traps...)
	if out.Stopped {
		m.Stopped = true
		if m.vm != nil {
			m.vm.shell.Stop()
		}
		m.Kill()
	}
	if _, ok := ev.(sm.Received); ok {
		m.spare = append(m.spare, m.bufs[0])
		m.bufs = append(m.bufs[:0], m.bufs[1:]...)
		m.done++
	}
	m.stand.Publish(m.core)
	if m.OnStep != nil {
		m.OnStep()
	}
}

// saEdge does what the SA's core wants.
type saEdge struct{ a *administrator }

func (e saEdge) Now() mad.Time { return e.a.m.c.Sim.Now() }

func (e saEdge) Save(gen uint64, ops []store.Op) {
	a := e.a
	if a.slow == nil {
		a.shell.Step(sa.Persisted{Gen: gen, Err: a.m.persist(ops)})
		return
	}
	a.m.c.Sim.After(a.slow(), func() {
		if !a.m.Dead {
			a.shell.Step(sa.Persisted{Gen: gen, Err: a.m.persist(ops)})
		}
	})
}

func (e saEdge) Published(*sa.View) {}

func (e saEdge) Unsaved(int) {}

func (e saEdge) Promised([]store.Record) {}

func (e saEdge) Replies(list []sa.Reply) {
	for i := range list {
		e.a.send(list[i].To, list[i].Data)
	}
}

func (e saEdge) Report(p *mad.Packet) { e.a.raw(p) }

func (e saEdge) Tell(list []sa.Notice) { e.a.m.tellSA(list) }

func (e saEdge) Wake(t mad.Time) {
	e.a.m.wake(&e.a.armed, t, func() { e.a.shell.Step(sa.Timer{}) })
}

// vmCore is the core of an address manager, whose steps are timed.
type vmCore struct {
	m    *Manager
	core *vm.Core
}

func (c vmCore) Step(now mad.Time, ev vm.Event, out *vm.Output) {
	began := c.m.clock()
	c.core.Step(now, ev, out)
	c.m.VMCPU += c.m.clock() - began
}

// vmEdge does what the address manager's core wants.
type vmEdge struct{ a *addresses }

func (e vmEdge) Now() mad.Time { return e.a.m.c.Sim.Now() }

func (e vmEdge) Apply(ops []store.Op) error {
	m := e.a.m
	err := m.persist(ops)
	if m.KillAfterVMWrites > 0 {
		if m.KillAfterVMWrites--; m.KillAfterVMWrites == 0 {
			m.Kill()
		}
	}
	return err
}

func (e vmEdge) Published(v *vm.View) {
	if e.a.m.OnVMs != nil {
		e.a.m.OnVMs(v)
	}
}

func (e vmEdge) Reported([]subnet.PlacementReport) {}

func (e vmEdge) Answered(op vm.Op, r *vm.Reply, _ time.Duration) {
	m := e.a.m
	switch op.(type) {
	case vm.Finish, vm.Move:
		if m.KillAfterMoves > 0 && r.Err == nil && !r.Waiting {
			if m.KillAfterMoves--; m.KillAfterMoves == 0 {
				m.Kill()
			}
		}
	}
}

func (e vmEdge) Tell(list []vm.Notice) { e.a.m.tellVM(list) }

func (e vmEdge) Wake(t mad.Time) {
	e.a.m.wake(&e.a.armed, t, func() { e.a.shell.Step(vm.Timer{}) })
}
