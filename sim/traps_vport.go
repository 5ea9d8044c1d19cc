package sim

import (
	"encoding/binary"
	"fmt"

	"heddle/ib/smp"
)

// nvidia is the VendorID of notices in NVIDIA's form from nodes whose netlist
// names another vendor.
const nvidia = 0x0002C9

// vtrap queues a notice about VPorts at their port, which sends and repeats it
// like its own.
func (s *Subnet) vtrap(h *hyper, number uint16, d interface{ Put(*smp.Details) }) {
	n := smp.Notice{Type: smp.TrapType(number), TrapNumber: number}
	d.Put(&n.DataDetails)
	if h.VendorTraps {
		node := &s.f.Nodes[s.ports[h.port].dev]
		if n.Producer = node.VendorID & 0xFFFFFF; !smp.IsNVIDIA(n.Producer) {
			n.Producer = nvidia
		}
		n.TrapNumber = node.DeviceID
		binary.BigEndian.PutUint16(n.DataDetails[len(n.DataDetails)-2:], number)
	}
	s.trap(h.port, n)
}

// trap1146: a VPort changed state, or VPortIndexTop changed. A pending one
// covers later changes.
func (s *Subnet) trap1146(h *hyper) {
	if h.Model != SharedPort {
		s.vtrap(h, smp.TrapVPortState, smp.DetailVPortState{LID: s.ports[h.port].lid})
	}
}

// trap1144: the capabilities (flags 0) or something else of a VPort changed.
func (s *Subnet) trap1144(v *vport, flags smp.ChangeFlags) {
	if v.h.Model != SharedPort && v.h.enabled {
		s.vtrap(v.h, smp.TrapVPortChange, smp.DetailVPortChange{
			LID: s.ports[v.h.port].lid, OtherLocalChanges: flags != 0, CapabilityMask: v.caps, ChangeFlags: flags, VPortIndex: v.idx,
		})
	}
}

// trapVPortKey is trap 1257: a packet for v had a P_Key that its table does
// not have.
func (s *Subnet) trapVPortKey(v *vport, f *flight) {
	k := smp.DetailVPortKey{VPortIndex: v.idx}
	k.DetailKey = smp.DetailKey{LID1: f.slid, LID2: f.dlid, Key: uint32(f.pkey), SL: f.sl, QP1: f.sqp & 0xFFFFFF, QP2: f.dqp & 0xFFFFFF}
	if f.hasGRH {
		k.GID1, k.GID2 = f.grh.GID, f.dgid
	}
	s.vtrap(v.h, smp.TrapVPortBadPKey, k)
}

// InjectVPortTrap makes a port send trap 1144, 1146, 1257 or 1258 for one of
// its VPorts without a cause.
func (s *Subnet) InjectVPortTrap(f VF, number uint16) error {
	v, err := s.function(f)
	if err != nil {
		return err
	}
	if v.h.Model == SharedPort || !v.h.enabled {
		return fmt.Errorf("sim: %s: virtualization is off, so no VPort can cause a trap", s.portName(v.h.port))
	}
	switch number {
	case smp.TrapVPortChange:
		s.trap1144(v, smp.ChangeNodeDescription)
	case smp.TrapVPortState:
		s.vportsChanged(v.h)
	case smp.TrapVPortBadPKey, smp.TrapVPortBadQKey:
		k := smp.DetailVPortKey{VPortIndex: v.idx}
		k.LID2, k.GID2 = s.lidOf(v), s.vgid(v, 0)
		if number == smp.TrapVPortBadQKey && v.qviol != 0xFFFF {
			v.qviol++
		}
		s.vtrap(v.h, number, k)
	default:
		return fmt.Errorf("sim: trap %d is not one that VPorts cause", number)
	}
	return nil
}
