package lab

import (
	"fmt"
	"time"

	"heddle/mad"
	"heddle/shell"
	"heddle/vm"
)

// addresses is the address manager of a Manager, driven in virtual time.
type addresses struct {
	m     *Manager
	shell *shell.VM
	armed mad.Time
}

// ServeVMs gives an attached manager an address manager; call it before Start.
// What it keeps is in the manager's store, so a manager that is started with that
// store after a Kill knows what this one promised.
func (m *Manager) ServeVMs(cfg vm.Config) {
	a := &addresses{m: m, armed: mad.Never}
	a.shell = shell.NewVM(vmCore{m, vm.New(cfg)}, vmEdge{a}, &m.shared)
	m.shared.WakeVM = a.shell.Mail
	m.vm = a
}

// VMs is what the manager's address manager keeps; nil before it has started.
func (m *Manager) VMs() *vm.View { return m.shared.VMs.Load() }

// DoVM gives the address manager operations that belong together; done is called
// for each when it is answered, not at all if the manager dies before.
func (m *Manager) DoVM(done func(i int, r *vm.Reply), ops ...vm.Op) {
	if !m.Dead {
		m.shared.Ask(&shell.Ask{Ops: ops, Answer: done})
	}
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
