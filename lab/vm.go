package lab

import (
	"fmt"
	"time"

	"heddle/mad"
	"heddle/sm"
	"heddle/store"
	"heddle/vm"
)

// addresses is the address manager of a Manager, driven in virtual time.
type addresses struct {
	m     *Manager
	core  *vm.Core
	view  *vm.View
	out   vm.Output
	inbox []vm.Event
	busy  bool
	armed mad.Time
	tag   uint64
	wait  map[uint64]func(*vm.Reply)
}

// ServeVMs gives an attached manager an address manager; call it before Start.
// What it keeps is in the manager's store, so a manager that is started with that
// store after a Kill knows what this one promised.
func (m *Manager) ServeVMs(cfg vm.Config) {
	m.vm = &addresses{m: m, core: vm.New(cfg), armed: mad.Never, wait: map[uint64]func(*vm.Reply){}}
}

// VMs is what the manager's address manager keeps; nil before it has started.
func (m *Manager) VMs() *vm.View { return m.vm.view }

// DoVM gives the address manager operations that belong together; done is called
// for each when it is answered, not at all if the manager dies before.
func (m *Manager) DoVM(done func(i int, r *vm.Reply), ops ...vm.Op) {
	if m.Dead {
		return
	}
	a := m.vm
	reqs := vm.Requests{List: make([]vm.Request, len(ops))}
	for i, op := range ops {
		a.tag++
		reqs.List[i] = vm.Request{Tag: a.tag, Op: op}
		if done != nil {
			a.wait[a.tag] = func(r *vm.Reply) { done(i, r) }
		}
	}
	a.step(reqs)
}

// VM does an operation and runs events until it is answered, at most for a
// minute of virtual time.
func (m *Manager) VM(op vm.Op) vm.Reply {
	var got *vm.Reply
	m.DoVM(func(_ int, r *vm.Reply) { c := *r; got = &c }, op)
	err := m.c.RunUntil(time.Minute, func() bool { return got != nil || m.Dead })
	if got == nil {
		return vm.Reply{Err: fmt.Errorf("lab: %T is not answered: %w", op, err)}
	}
	return *got
}

// start gives the core what the store holds.
func (a *addresses) start(records []store.Record) { a.step(vm.Start{Records: records}) }

// step gives the core an event, and those that follow from it.
func (a *addresses) step(ev vm.Event) {
	a.inbox = append(a.inbox, ev)
	if a.busy {
		return
	}
	a.busy = true
	for i := 0; i < len(a.inbox) && !a.m.Dead; i++ {
		ev := a.inbox[i]
		a.inbox[i] = nil
		a.out.Reset()
		began := a.m.clock()
		a.core.Step(a.m.c.Sim.Now(), ev, &a.out)
		a.m.VMCPU += a.m.clock() - began
		a.do()
	}
	a.inbox = a.inbox[:0]
	a.busy = false
}

// do does what the core wants, in the order that vm promises.
func (a *addresses) do() {
	// What the subnet manager makes of it may come back, and the core be asked
	// again, before the end of this function: out is read first.
	out := a.out
	if len(out.Persist) > 0 {
		a.inbox = append(a.inbox, vm.Persisted{Gen: out.PersistGen, Err: a.m.persist(out.Persist)})
		if a.m.KillAfterVMWrites > 0 {
			if a.m.KillAfterVMWrites--; a.m.KillAfterVMWrites == 0 {
				a.m.Kill()
				return
			}
		}
	}
	if out.Publish != nil {
		a.view = out.Publish
		if a.m.OnVMs != nil {
			a.m.OnVMs(a.view)
		}
	}
	if out.PartitionsChanged {
		a.m.stepIfAlive(sm.SetMembers{Partitions: out.Partitions})
	}
	if out.LeasesChanged {
		if a.m.OnLeases != nil {
			a.m.OnLeases(sm.SetLeases{Put: out.Put, Drop: out.Drop, All: out.All})
		}
		a.m.stepIfAlive(sm.SetLeases{Put: out.Put, Drop: out.Drop, All: out.All})
	}
	for i := range out.Replies {
		r := &out.Replies[i]
		if done := a.wait[r.Tag]; done != nil {
			delete(a.wait, r.Tag)
			done(r)
		}
	}
	a.m.tellVM(out.Notices)
	a.arm(out.Timer)
}

// arm has the core woken at t; see Manager.arm.
func (a *addresses) arm(t mad.Time) {
	a.m.wake(&a.armed, t, func() { a.step(vm.Timer{}) })
}
