package lab

import (
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
