package sim

import (
	"heddle/ib"
	"heddle/ib/smp"
)

// The subnet management interface: directed routes (IBA §14.2.2). HP is the
// hop pointer, HC the hop count, D the direction.

const drDirection ib.Status = 0x8000

// drStartsHere reports whether a directed-route SMP that an end port sends
// begins with its directed part. If not, the LID part comes first and it is
// sent by its DLID.
func drStartsHere(m *ib.MAD) bool {
	if smp.Direction(m) {
		return smp.DrDLID(m) == ib.LIDPermissive
	}
	return smp.DrSLID(m) == ib.LIDPermissive
}

// drOriginate is the sending SMI: a request of an endpoint, or a response of an
// agent or endpoint.
func (s *Subnet) drOriginate(f *flight, d *device) {
	m := &f.mad
	hp, hc := smp.HopPointer(m), smp.HopCount(m)
	if hc > smp.MaxHops {
		s.drop(f, DropRoute)
		return
	}
	f.dlid, f.slid = ib.LIDPermissive, ib.LIDPermissive
	if smp.Direction(m) {
		if hp == hc+1 {
			s.drBack(f, d)
			return
		}
		s.drop(f, DropRoute)
		return
	}
	switch {
	case hp != 0:
		s.drop(f, DropRoute)
	case hc == 0:
		s.drEnd(f, d)
	default:
		s.drOut(f, d, 1)
	}
}

// drOut sets HP and sends f through InitialPath[HP].
func (s *Subnet) drOut(f *flight, d *device, hp uint8) {
	smp.SetHopPointer(&f.mad, hp)
	s.drCross(f, d, smp.InitialPath(&f.mad)[hp])
}

// drBack moves a returning SMP one entry back: HP = HC+1 at the responder, 2
// ≤ HP ≤ HC at a switch, 1 at the requester.
func (s *Subnet) drBack(f *flight, d *device) {
	m := &f.mad
	hp := smp.HopPointer(m) - 1
	smp.SetHopPointer(m, hp)
	if hp > 0 {
		s.drCross(f, d, smp.ReturnPath(m)[hp])
		return
	}
	l := smp.DrSLID(m)
	switch {
	case l == ib.LIDPermissive:
		f.stage = stDeliver
	case d.isSwitch():
		s.drToLID(f, d, l)
	default:
		s.drop(f, DropRoute)
	}
}

// drCross sends f through port number out of d. A CA has one SMI for each port,
// so it cannot leave through another port.
func (s *Subnet) drCross(f *flight, d *device, out uint8) {
	if out == 0 || out > d.nports || !d.isSwitch() && out != s.ports[f.port].num {
		s.drop(f, DropRoute)
		return
	}
	s.cross(f, d.first+int32(out))
}

// drEnd is the end of the directed part of an outbound SMP: HP = HC.
func (s *Subnet) drEnd(f *flight, d *device) {
	m := &f.mad
	smp.SetHopPointer(m, smp.HopCount(m)+1)
	l := smp.DrDLID(m)
	switch {
	case l == ib.LIDPermissive:
		f.stage = stDeliver
	case d.isSwitch():
		s.drToLID(f, d, l)
	default:
		s.drop(f, DropRoute)
	}
}

// drToLID sends f from switch d by its tables: the LID part that follows the
// directed part.
func (s *Subnet) drToLID(f *flight, d *device, l ib.LID) {
	f.port = d.first
	f.dlid = l
	f.slid = s.ports[d.first].lid
	s.lidOriginate(f, d)
}

// drArrive is the SMI that receives an SMP on its directed part.
func (s *Subnet) drArrive(f *flight, d *device) {
	m := &f.mad
	hp, hc := smp.HopPointer(m), smp.HopCount(m)
	if hc > smp.MaxHops {
		s.drop(f, DropRoute)
		return
	}
	if smp.Direction(m) {
		switch {
		case hp == 0:
			f.stage = stDeliver
		case hp == 1 || d.isSwitch() && hp <= hc:
			s.drBack(f, d)
		default:
			s.drop(f, DropRoute)
		}
		return
	}
	switch {
	case hp == 0 && hc > 0:
		s.drop(f, DropRoute)
	case hp < hc:
		if !d.isSwitch() {
			s.drop(f, DropRoute)
			return
		}
		smp.ReturnPath(m)[hp] = s.ports[f.port].num
		s.drOut(f, d, hp+1)
	case hp == hc:
		if hc > 0 {
			smp.ReturnPath(m)[hp] = s.ports[f.port].num
		}
		s.drEnd(f, d)
	case hp == hc+1:
		f.stage = stDeliver
	default:
		s.drop(f, DropRoute)
	}
}

// drArriveLID is the SMI at which the LID-routed part of a mixed route ends.
func (s *Subnet) drArriveLID(f *flight, d *device) {
	m := &f.mad
	hp, hc := smp.HopPointer(m), smp.HopCount(m)
	switch {
	case hc > smp.MaxHops:
		s.drop(f, DropRoute)
	case smp.Direction(m):
		switch {
		case hp == 0: // back at the requester
			f.stage = stDeliver
		case hp == hc+1 && d.isSwitch(): // the directed part begins
			f.dlid, f.slid = ib.LIDPermissive, ib.LIDPermissive
			s.drBack(f, d)
		default:
			s.drop(f, DropRoute)
		}
	case hp == hc+1: // at the target
		f.stage = stDeliver
	case hp == 0 && d.isSwitch(): // the directed part begins
		f.dlid, f.slid = ib.LIDPermissive, ib.LIDPermissive
		if hc == 0 {
			s.drEnd(f, d)
		} else {
			s.drOut(f, d, 1)
		}
	default:
		s.drop(f, DropRoute)
	}
}
