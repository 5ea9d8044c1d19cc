package sim

import (
	"fmt"
	"slices"

	"heddle/ib"
)

// vm is a virtual machine: a set of programs that move together.
type vm struct {
	name    string
	o       VMOptions
	at      *vport // nil: on no function, as during a migration
	next    *vport // ReadyVM: the function to which it may be switched; nil: none
	stopped bool   // StopVM
	eps     []*Endpoint
}

// VMOptions is what a hypervisor configures for a VM at any location.
type VMOptions struct {
	// GUID moves with the VM: on a VPort adapter the hypervisor sets it in the
	// VPort. On other adapters the manager writes GUIDs. 0: the function's GUID.
	GUID ib.GUID
	// OwnLID makes the VM's VPort request a LID of its own; other models ignore
	// it.
	OwnLID bool
	// PKeys are the keys of a shared port that the VM may use, regardless of
	// membership bits; nil: all. VPorts have tables of their own.
	PKeys []ib.PKey
}

// VMState is the location of a VM and its addresses there.
type VMState struct {
	Name string
	At   VF // Node is -1 if it is on no function
	Next VF // the function that ReadyVM prepared; Node is -1 if there is none
	// Stopped: its programs neither send nor receive.
	Stopped bool
	State   ib.PortState
	LID     ib.LID // 0: none yet
	GID     ib.GID
	PKeys   []ib.PKey // the keys in its table, without empty entries
}

// PlaceVM starts a VM on a free virtual function, or places one that DetachVM
// removed (whose options become o). The function comes up.
func (s *Subnet) PlaceVM(name string, at VF, o VMOptions) error {
	v, err := s.function(at)
	if err != nil {
		return fmt.Errorf("sim: VM %q: %w", name, err)
	}
	m := s.vms[name]
	switch {
	case name == "":
		return fmt.Errorf("sim: a VM must have a name")
	case v.vm != nil:
		return fmt.Errorf("sim: VM %q: %s VF %d is taken by VM %q", name, s.portName(v.h.port), v.idx, v.vm.name)
	case m != nil && m.at != nil:
		return fmt.Errorf("sim: VM %q is on %s VF %d already: move it", name, s.portName(m.at.h.port), m.at.idx)
	}
	if m == nil {
		m = &vm{name: name}
		if s.vms == nil {
			s.vms = make(map[string]*vm)
		}
		s.vms[name] = m
	}
	o.PKeys = slices.Clone(o.PKeys)
	m.o = o
	s.settleVM(m, v)
	return nil
}

// settleVM puts m on v, which is free.
func (s *Subnet) settleVM(m *vm, v *vport) {
	if v.up { // it was up without a VM: take it down and up again
		s.setVirtLink(v, false)
	}
	m.at, v.vm = v, m
	v.settle(m)
	v.h.reindex()
	for _, e := range m.eps {
		e.leave()
		e.port, e.vp = v.h.port, v
		e.join()
	}
	s.setVirtLink(v, true)
}

// settle applies the hypervisor's configuration for m.
func (v *vport) settle(m *vm) {
	v.allow = m.o.PKeys
	if v.h.Model == VPorts {
		if m.o.GUID != 0 {
			v.guid = m.o.GUID
		}
		v.own = m.o.OwnLID || v.h.OwnLIDs
	}
}

// detach removes m from its function, which goes down and returns to its
// initial state, except for what managers wrote. The VM's endpoints stay with
// it, silent, until it is placed again.
func (s *Subnet) detach(m *vm) {
	s.unready(m)
	s.vacate(m.at)
	m.at = nil
}

// vacate takes the VM off v.
func (s *Subnet) vacate(v *vport) {
	s.setVirtLink(v, false)
	v.vm, v.allow = nil, nil
	if v.h.Model == VPorts {
		v.guid, v.own = v.first, v.h.OwnLIDs
		v.h.reindex()
	}
}

func (s *Subnet) placed(name string) (*vm, error) {
	m := s.vms[name]
	if m == nil {
		return nil, fmt.Errorf("sim: no VM %q", name)
	}
	if m.at == nil {
		return m, fmt.Errorf("sim: VM %q is on no virtual function; place it first", name)
	}
	return m, nil
}

// DetachVM takes a VM off its function: the beginning of a migration.
func (s *Subnet) DetachVM(name string) error {
	m, err := s.placed(name)
	if err != nil {
		return err
	}
	s.detach(m)
	return nil
}

// MoveVM migrates a VM at this moment: its function goes down, and the
// destination comes up with the VM's options. Nothing that a manager writes
// moves.
func (s *Subnet) MoveVM(name string, to VF) error {
	m, err := s.placed(name)
	if err != nil {
		return err
	}
	v, err := s.function(to)
	if err != nil {
		return fmt.Errorf("sim: VM %q: %w", name, err)
	}
	if v == m.at {
		return nil
	}
	if v.vm != nil && v.vm != m { // or it is ready for the VM
		return fmt.Errorf("sim: VM %q: %s VF %d is taken by VM %q", name, s.portName(v.h.port), v.idx, v.vm.name)
	}
	s.detach(m)
	s.settleVM(m, v)
	return nil
}

// RemoveVM ends a VM and closes its endpoints.
func (s *Subnet) RemoveVM(name string) error {
	m := s.vms[name]
	if m == nil {
		return fmt.Errorf("sim: no VM %q", name)
	}
	if m.at != nil {
		s.detach(m)
	}
	for len(m.eps) > 0 {
		m.eps[0].Close()
	}
	delete(s.vms, name)
	return nil
}

// ShowPKeys changes VMOptions.PKeys of a running VM: the keys of a shared port
// that it may use.
func (s *Subnet) ShowPKeys(name string, keys []ib.PKey) error {
	m := s.vms[name]
	if m == nil {
		return fmt.Errorf("sim: no VM %q", name)
	}
	m.o.PKeys = slices.Clone(keys)
	for _, v := range []*vport{m.at, m.next} {
		if v != nil {
			v.allow = m.o.PKeys
		}
	}
	return nil
}

// AttachVM opens the virtual function of a VM. The endpoint moves with the VM.
func (s *Subnet) AttachVM(name string) (*Endpoint, error) {
	m, err := s.placed(name)
	if err != nil {
		return nil, err
	}
	e, err := s.attach(m.at.h.port, m.at)
	if err != nil {
		return nil, err
	}
	e.vm = m
	m.eps = append(m.eps, e)
	return e, nil
}

// VM is the state of a VM; ok is false if there is none of that name.
func (s *Subnet) VM(name string) (st VMState, ok bool) {
	m := s.vms[name]
	if m == nil {
		return st, false
	}
	st = VMState{Name: name, At: VF{Node: -1}, Next: VF{Node: -1}, Stopped: m.stopped}
	if m.next != nil {
		st.Next = s.ref(m.next)
	}
	if v := m.at; v != nil {
		st.At, st.State, st.LID, st.GID = s.ref(v), s.vstate(v), s.lidOf(v), s.vgid(v, 0)
		for i := range s.pkeyCap(v.h.port) {
			if k := s.vpkeyAt(v, i); k != 0 {
				st.PKeys = append(st.PKeys, k)
			}
		}
	}
	return st, true
}

// VMs lists the names of the VMs in order.
func (s *Subnet) VMs() (names []string) {
	for n := range s.vms {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// VPortStatus is the current state of a virtual function.
type VPortStatus struct {
	Up    bool // VirtLink
	State ib.PortState
	LID   ib.LID // that it sends from; 0: none yet
	Own   bool   // the LID is its own
	GUID  ib.GUID
	SLs   uint16
	VM    string // "" if there is none on it
}

// VPort is the state of a virtual function; on a shared port, the state that
// applies to its packets.
func (s *Subnet) VPort(f VF) (st VPortStatus, err error) {
	v, err := s.function(f)
	if err != nil {
		return st, err
	}
	st = VPortStatus{
		Up: v.up, State: s.vstate(v), LID: s.lidOf(v), Own: v.own, GUID: s.vguid(v, 0), SLs: v.sls,
	}
	if v.vm != nil {
		st.VM = v.vm.name
	}
	return st, nil
}

// VPortPKeys appends the P_Key table of a virtual function to b, by index, with
// its empty entries; on a shared port, only the entries that it may use.
func (s *Subnet) VPortPKeys(f VF, b []ib.PKey) ([]ib.PKey, error) {
	v, err := s.function(f)
	if err != nil {
		return b, err
	}
	for i := range s.pkeyCap(v.h.port) {
		b = append(b, s.vpkeyAt(v, i))
	}
	return b, nil
}
