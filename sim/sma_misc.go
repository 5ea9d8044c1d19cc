package sim

import (
	"encoding/binary"

	"heddle/ib"
	"heddle/ib/smp"
)

// smaNotice is the notice queue (IBA §13.4.8.2): Get returns the oldest
// unrepressed trap, Set removes it.
func (s *Subnet) smaNotice(r *smaRequest) ib.Status {
	if r.am != 0 {
		return ib.StatusInvalidField
	}
	var oldest *pendingTrap
	count := uint16(0)
	for _, t := range r.d.traps {
		if t.ep == r.ep {
			if oldest == nil {
				oldest = t
			}
			count++
		}
	}
	n := smp.Notice{IsGeneric: true, Type: smp.NoticeEmpty}
	if oldest != nil {
		n = oldest.notice
		n.NoticeCount = count
	}
	if r.set {
		var want smp.Notice
		_ = want.Decode(r.data)
		if oldest != nil && want.NoticeToggle == n.NoticeToggle && want.TrapNumber == n.TrapNumber {
			s.forget(oldest)
		}
	}
	n.Put(r.data)
	return ib.StatusOK
}

// smaLedInfo is the LED of a port: bit 31.
func (s *Subnet) smaLedInfo(r *smaRequest) ib.Status {
	p := r.in
	if n := r.am; n > uint32(r.d.nports) {
		return ib.StatusInvalidField
	} else if n != 0 || r.d.isSwitch() {
		p = r.d.first + int32(n)
	}
	if r.set {
		s.coldOf(p).led = binary.BigEndian.Uint32(r.data) & (1 << 31)
	}
	v := uint32(0)
	if c := s.ports[p].cold; c != nil {
		v = c.led
	}
	clear(r.data)
	binary.BigEndian.PutUint32(r.data, v)
	return ib.StatusOK
}

// smaVendorDiag has one empty page.
func (s *Subnet) smaVendorDiag(r *smaRequest) ib.Status {
	if r.set {
		return ib.StatusBadMethodAttr
	}
	if r.am != 0 {
		return ib.StatusInvalidField
	}
	clear(r.data)
	return ib.StatusOK
}

// portOf is the port of a modifier that consists of a port number; 0 is the
// receiving port of a CA.
func (r *smaRequest) portOf() (p int32, ok bool) {
	if r.am > uint32(r.d.nports) {
		return 0, false
	}
	if r.am == 0 && !r.d.isSwitch() {
		return r.in, true
	}
	return r.d.first + int32(r.am), true
}

// FEC modes: the offsets of the enabled words of PortInfoExtended, for FDR,
// EDR, HDR and NDR; the supported word is the one before.
var fecEnabled = [4]int{8, 12, 16, 20}

const fecSupported = 0x000F // none, Firecode, RS, low-latency RS

// smaPortInfoExtended is the FEC mode selection of a port.
func (s *Subnet) smaPortInfoExtended(r *smaRequest) ib.Status {
	p, ok := r.portOf()
	if !ok {
		return ib.StatusInvalidField
	}
	be := binary.BigEndian
	st := ib.StatusOK
	if r.set && (r.d.isSwitch() || p == r.in) {
		c := s.coldOf(p)
		for i, off := range fecEnabled {
			if v := be.Uint16(r.data[off:]); v&^fecSupported != 0 {
				st = ib.StatusInvalidField
			} else if v != 0 {
				c.fec[i] = v
			}
		}
	}
	clear(r.data)
	be.PutUint32(r.data, 1) // FEC mode selection supported
	for i, off := range fecEnabled {
		be.PutUint16(r.data[off-2:], fecSupported)
		v := uint16(fecSupported)
		if c := s.ports[p].cold; c != nil && c.fec[i] != 0 {
			v = c.fec[i]
		}
		be.PutUint16(r.data[off:], v)
	}
	if s.ports[p].phys == ib.PhysLinkUp && s.infos[p].ActiveSpeedOf(ib.CapIsExtendedSpeedsSupported, false) >= ib.SpeedHDR {
		be.PutUint16(r.data[4:], 2) // RS-FEC
	}
	return st
}

// smaSwitchPortStateTable is the logical state of 128 ports, a nibble each.
func (s *Subnet) smaSwitchPortStateTable(r *smaRequest) ib.Status {
	if r.set || !r.d.isSwitch() {
		return ib.StatusBadMethodAttr
	}
	if r.am&^(smp.PortInfoActiveDefer|1) != 0 {
		return ib.StatusInvalidField
	}
	clear(r.data)
	first := int(r.am&1) * 128
	for i := range 128 {
		if first+i > int(r.d.nports) {
			break
		}
		st := byte(s.ports[r.d.first+int32(first+i)].state)
		if i%2 == 0 {
			st <<= 4
		}
		r.data[i/2] |= st
	}
	return ib.StatusOK
}

// hasExtendedPortInfo reports whether a vendor's devices have attribute 0xFF90:
// NVIDIA's do, and nodes whose netlist names no vendor.
func hasExtendedPortInfo(vendor uint32) bool { return vendor&0xFFFFFF == 0 || smp.IsNVIDIA(vendor) }

// smaExtendedPortInfo is NVIDIA's attribute that reports FDR10.
func (s *Subnet) smaExtendedPortInfo(r *smaRequest) ib.Status {
	if !hasExtendedPortInfo(s.f.Nodes[r.d.node].VendorID) {
		return ib.StatusBadMethodAttr
	}
	p, ok := r.portOf()
	if !ok {
		return ib.StatusInvalidField
	}
	st := ib.StatusOK
	if r.set && r.data[3]&1 != 0 {
		c := s.coldOf(p)
		if on := r.data[11]&1 != 0; on && !c.fdr10Supported {
			st = ib.StatusInvalidField
		} else {
			c.fdr10Enabled = on
		}
	}
	clear(r.data)
	if c := s.ports[p].cold; c != nil {
		r.data[7] = flag(c.fdr10Supported)
		r.data[11] = flag(c.fdr10Enabled)
		r.data[15] = flag(c.fdr10Active)
	}
	return st
}

func flag(v bool) byte {
	if v {
		return 1
	}
	return 0
}
