package sim

import "fmt"

// The steps of a live migration, as hypervisors do them: the VM is stopped, the
// function at the destination comes up with the VM's configuration, the VM is
// switched to it, and runs again. Until the switch the VM keeps its function at the
// source, so it can go on there.

// StopVM stops a VM: its programs neither send nor receive. Its function stays up.
func (s *Subnet) StopVM(name string) error {
	m, err := s.placed(name)
	if err != nil {
		return err
	}
	m.stopped = true
	return nil
}

// ResumeVM lets a stopped VM run on.
func (s *Subnet) ResumeVM(name string) error {
	m, err := s.placed(name)
	if err != nil {
		return err
	}
	m.stopped = false
	return nil
}

// ReadyVM reserves a function for a VM and brings it up with the VM's configuration.
// The VM stays at its own function; a packet that reaches the new one finds nobody.
func (s *Subnet) ReadyVM(name string, to VF) error {
	m, err := s.placed(name)
	if err != nil {
		return err
	}
	v, err := s.function(to)
	switch {
	case err != nil:
		return fmt.Errorf("sim: VM %q: %w", name, err)
	case v == m.next:
		return nil
	case v == m.at:
		return fmt.Errorf("sim: VM %q is on %s VF %d", name, s.portName(v.h.port), v.idx)
	case v.vm != nil:
		return fmt.Errorf("sim: VM %q: %s VF %d is taken by VM %q", name, s.portName(v.h.port), v.idx, v.vm.name)
	}
	s.unready(m)
	if v.up { // it was up without a VM: take it down and up again
		s.setVirtLink(v, false)
	}
	m.next, v.vm = v, m
	v.settle(m)
	v.h.reindex()
	s.setVirtLink(v, true)
	return nil
}

// UnreadyVM gives up the function that ReadyVM prepared, if there is one.
func (s *Subnet) UnreadyVM(name string) error {
	m := s.vms[name]
	if m == nil {
		return fmt.Errorf("sim: no VM %q", name)
	}
	s.unready(m)
	return nil
}

func (s *Subnet) unready(m *vm) {
	if v := m.next; v != nil {
		m.next = nil
		s.vacate(v)
	}
}

// SwitchVM moves a VM to the function that ReadyVM prepared, which stays as it is.
// The old function goes down.
func (s *Subnet) SwitchVM(name string) error {
	m, err := s.placed(name)
	if err != nil {
		return err
	}
	if m.next == nil {
		return fmt.Errorf("sim: VM %q has no function to be switched to: make one ready", name)
	}
	old := m.at
	m.at, m.next = m.next, nil
	for _, e := range m.eps {
		e.leave()
		e.port, e.vp = m.at.h.port, m.at
		e.join()
	}
	s.vacate(old)
	return nil
}

// absent reports whether a function has a VM that does not run there: it is stopped,
// or has not been switched to it.
func (v *vport) absent() bool { return v != nil && v.vm != nil && (v.vm.stopped || v.vm.at != v) }
