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

// ServeVMs gives an attached manager an address manager; call it before Start. Its state is in
// the manager's store, so a manager that is started with that store after a Kill continues its
// operations.
func (m *Manager) ServeVMs(cfg vm.Config) {
	a := &addresses{m: m, armed: mad.Never}
	a.shell = shell.NewVM(vmCore{m, vm.New(cfg)}, vmEdge{a}, &m.shared)
	m.shared.WakeVM = a.shell.Mail
	m.vm = a
}

// VMs is the view of the manager's address manager; nil before it has started.
func (m *Manager) VMs() *vm.View { return m.shared.VMs.Load() }

// DoVM passes a batch of operations to the address manager. done is called for each when it is
// answered, or never if the manager dies before.
func (m *Manager) DoVM(done func(i int, r *vm.Reply), ops ...vm.Op) {
	if !m.Dead {
		m.shared.Ask(&shell.Ask{Ops: ops, Answer: done})
	}
}
