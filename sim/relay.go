package sim

import "heddle/ib"

// Packet relay of an adapter with virtual functions: it selects the function
// that receives an arriving packet, and checks whether a function may send.

// relay finds the function that receives f at port h.port; nil: the port
// itself. ok is false if f was dropped.
func (s *Subnet) relay(h *hyper, f *flight) (v *vport, ok bool) {
	v = s.relayTo(h, f)
	if v != nil && s.vstate(v) != ib.StateActive || v == nil && f.svp != nil && s.ports[h.port].state != ib.StateActive {
		s.drop(f, DropState)
		return nil, false
	}
	if !f.local {
		c := &h.vps[0]
		if v != nil {
			c = v
		}
		c.cnt.received(f.dlid, false)
	}
	return v, true
}

// atFunction sets f.dvp, the receiver of f at port h.port, and reports whether
// f may be delivered there.
func (s *Subnet) atFunction(h *hyper, f *flight) bool {
	if f.smp {
		if f.dlid != ib.LIDPermissive && !s.ports[h.port].baseLID(f.dlid) {
			s.drop(f, DropVPort) // functions have no QP0
			return false
		}
		if !f.local {
			h.vps[0].cnt.received(f.dlid, false)
		}
		return true
	}
	if f.dlid.IsMulticast() {
		s.deliverGroup(h, f)
		return false
	}
	v, ok := s.relay(h, f)
	f.dvp = v
	return ok
}

func (s *Subnet) relayTo(h *hyper, f *flight) *vport {
	if h.Model == SharedPort {
		return s.relayShared(h, f)
	}
	if !h.enabled {
		return nil
	}
	// With a GRH: the VPort that has both DLID and DGID.
	owner, _ := h.owner(f.dlid)
	if f.hasGRH {
		for i := 1; i <= int(h.top); i++ {
			v := &h.vps[i]
			if v.defaultOf() != owner {
				continue
			}
			if _, ok := s.gidIndex(h.port, v, f.dgid); ok {
				return v
			}
		}
	}
	// Otherwise the default VPort of the DLID.
	if owner != 0 {
		return &h.vps[owner]
	}
	return nil
}

// relayShared routes responses by transaction ID, like the driver of the
// physical function, and all other packets by DGID.
func (s *Subnet) relayShared(h *hyper, f *flight) *vport {
	if f.probe == nil && f.mad.Method().IsResponse() {
		if e := s.tagHere(f, h.port); e != nil {
			return e.vp
		}
		return nil
	}
	if f.hasGRH {
		for i := 1; i <= int(h.top); i++ {
			if v := &h.vps[i]; v.up {
				if _, ok := s.gidIndex(h.port, v, f.dgid); ok {
					return v
				}
			}
		}
	}
	return nil
}

// mayLeave drops packets that function f.svp may not send: SMPs, any packet
// while the function is not Active, an SL outside its mask, and a packet
// without a GRH if its LID belongs to another function, because no response
// would return.
func (s *Subnet) mayLeave(f *flight) bool {
	v := f.svp
	switch {
	case f.smp:
		s.drop(f, DropVPort)
	case s.vstate(v) != ib.StateActive:
		s.drop(f, DropState)
	case f.slid == 0:
		s.drop(f, DropNoLID)
	case v.h.Model != SharedPort && (v.sls != 0 && v.sls>>f.sl&1 == 0 || !f.hasGRH && v.defaultOf() != v.idx):
		v.relay++
		s.drop(f, DropVPort)
	default:
		return true
	}
	return false
}

// loopMulticast delivers to the other functions of the port a copy of a
// multicast packet that one of them, or the port, sends.
func (s *Subnet) loopMulticast(f *flight) {
	g := s.cloneFlight(f)
	g.except, g.origin = f.origin, nil
	g.local, g.stage = true, stDeliver
	s.start(g)
}

// deliverGroup delivers a multicast packet at port h.port to every endpoint
// there that listens to its group, on any function.
func (s *Subnet) deliverGroup(h *hyper, f *flight) {
	taken := false
	for i := range int(h.top) + 1 {
		v := &h.vps[i]
		if i == 0 {
			v = nil
		}
		if v.absent() || !s.listens(h, v, f) {
			continue
		}
		if v != nil && (s.vstate(v) != ib.StateActive || !s.checkVPortPKey(v, f)) ||
			v == nil && (s.ports[h.port].state != ib.StateActive || !f.local && !s.checkPKey(h.port, f)) {
			continue
		}
		if !f.local {
			h.vps[i].cnt.received(f.dlid, false)
		}
		f.dvp = v
		p := s.packet(f, h.port)
		for j := s.ports[h.port].ep; j >= 0; {
			e := s.eps[j]
			j = e.next
			if e.vp == v && e != f.except && e.inGroup(f) && e.accepts(p) {
				taken = true
				s.handUp(f, e)
			}
		}
	}
	if !taken && !f.local {
		s.drop(f, DropNobody)
		return
	}
	f.stage = stDone
}

// listens reports whether an endpoint on v, or on the port, is in f's group.
func (s *Subnet) listens(h *hyper, v *vport, f *flight) bool {
	for j := s.ports[h.port].ep; j >= 0; j = s.eps[j].next {
		if e := s.eps[j]; e.vp == v && e != f.except && e.inGroup(f) {
			return true
		}
	}
	return false
}
