package sim

import (
	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
)

// deliver passes f to its receiver at the port it has reached.
func (s *Subnet) deliver(f *flight) {
	pt := &s.ports[f.port]
	d := &s.devs[pt.dev]
	if d.down {
		s.drop(f, DropNode)
		return
	}
	m := &f.mad
	if m.BaseVersion() != 1 {
		s.drop(f, DropVersion)
		return
	}
	ep := f.port
	if d.isSwitch() {
		ep = d.first
	}
	if h := pt.hv; h != nil && !s.atFunction(h, f) {
		return
	}
	if f.dvp != nil {
		if !s.checkVPortPKey(f.dvp, f) {
			s.drop(f, DropKey)
			return
		}
		if f.dvp.absent() {
			s.drop(f, DropStopped)
			return
		}
	} else if !f.smp && (!f.local || f.svp != nil) && !s.checkPKey(ep, f) {
		s.drop(f, DropKey)
		return
	}
	if f.probe != nil {
		s.probed(f)
		return
	}
	meth := m.Method()
	if meth.IsResponse() {
		s.deliverByTag(f, ep, DropUnmatched)
		return
	}
	switch {
	case f.smp && meth == ib.MethodTrapRepress && s.tagHere(f, ep) != nil:
		s.deliverByTag(f, ep, DropUnmatched)
		return
	case !s.forAgent(f, ep, meth):
		s.deliverRequest(f, ep)
		return
	}
	if d.muted {
		s.drop(f, DropMute)
		return
	}
	f.stage = stServe
	lat := s.cfg.SMALatency
	if d.quirk != nil {
		lat += d.quirk.Slow
	}
	if lat > 0 {
		if q := s.cfg.SMAQueue; q > 0 && d.smaLoad >= q {
			s.countVL15Drop(ep)
			s.drop(f, DropQueue)
			return
		}
		d.smaLoad++
		f.queued = true
		d.smaFree = max(d.smaFree, s.k.now).Add(lat)
		f.wait = d.smaFree.Sub(s.k.now)
	}
}

// forAgent reports whether a request is for the node's own agent, and not for a
// manager or client behind the port.
func (s *Subnet) forAgent(f *flight, ep int32, meth ib.Method) bool {
	getOrSet := meth == ib.MethodGet || meth == ib.MethodSet
	if !f.smp {
		c := f.mad.Class()
		return (c == ib.ClassPerf || c == ib.ClassCC) && getOrSet
	}
	forManager := f.mad.AttrID() == smp.AttrSMInfo && getOrSet && s.infos[ep].CapabilityMask.Has(ib.CapIsSM)
	return meth != ib.MethodTrap && !forManager
}

// serve lets the agent of the node answer f.
func (s *Subnet) serve(f *flight) {
	pt := &s.ports[f.port]
	d := &s.devs[pt.dev]
	if f.queued {
		f.queued = false
		d.smaLoad--
	}
	if d.down {
		s.drop(f, DropNode)
		return
	}
	switch {
	case f.smp:
		s.sma(f, d)
	case f.mad.Class() == ib.ClassCC:
		s.cca(f, d)
	case f.dvp != nil && f.dvp.h.Model != SharedPort:
		s.vportPMA(f, d)
	default:
		s.pma(f, d)
	}
}

// reply sends f back as the response: the agent has written status and data.
func (s *Subnet) reply(f *flight, d *device, status ib.Status) {
	m := &f.mad
	m.SetMethod(ib.MethodGetResp)
	if m.Class() == ib.ClassSubnDR {
		status |= drDirection
	}
	m.SetStatus(status)
	s.turn(f)
	if d.quirk != nil {
		s.applyQuirkReply(f, d)
	}
}

// turn swaps receiver and sender of f. The response comes from the LID and GID
// to which f was sent, if the receiver owns them.
func (s *Subnet) turn(f *flight) {
	f.port = s.endPort(f.port)
	f.slid, f.dlid = f.dlid, f.slid
	if !s.ports[f.port].ownsLID(f.slid) {
		f.slid = s.ports[f.port].lid
	}
	f.dqp, f.sqp = f.sqp, f.dqp
	f.svp, f.dvp = f.dvp, nil
	f.hops = 0
	f.stage = stSend
	if !f.hasGRH {
		return
	}
	from := f.dgid
	if _, ok := s.gidIndex(f.port, f.svp, from); !ok {
		from = s.gidAt(f.port, 0)
		if f.svp != nil {
			from = s.vgid(f.svp, 0)
		}
	}
	f.dgid, f.grh.GID = f.grh.GID, from
}

// tagHere is the endpoint at end port ep that the transaction ID of f names.
func (s *Subnet) tagHere(f *flight, ep int32) *Endpoint {
	tag := int(f.mad[8])<<8 | int(f.mad[9])
	if tag == 0 || tag > len(s.eps) {
		return nil
	}
	if e := s.eps[tag-1]; e != nil && e.port == ep {
		return e
	}
	return nil
}

func (s *Subnet) deliverByTag(f *flight, ep int32, why DropReason) {
	e := s.tagHere(f, ep)
	if e == nil || e.vp != f.dvp {
		s.drop(f, why)
		return
	}
	s.handUp(f, e)
	f.stage = stDone
}

// deliverRequest passes f to the first endpoint of ep that accepts it, or, if
// it is multicast, to every one.
func (s *Subnet) deliverRequest(f *flight, ep int32) {
	p := s.packet(f, ep)
	taken := false
	for i := s.ports[ep].ep; i >= 0; {
		e := s.eps[i]
		i = e.next
		if e.vp == f.dvp && e.inGroup(f) && e.accepts(p) {
			taken = true
			s.handUp(f, e)
			if !f.dlid.IsMulticast() {
				break
			}
		}
	}
	if !taken {
		s.drop(f, DropNobody)
		return
	}
	f.stage = stDone
}

func (s *Subnet) handUp(f *flight, e *Endpoint) {
	s.stats.Delivered++
	if s.cfg.TraceHash {
		s.mix(uint64(e.idx)<<8|3, f)
	}
	if e.OnPacket != nil {
		e.OnPacket(s.packet(f, e.port))
	}
}

// packet describes f to an endpoint at end port ep; the data is f's own. One
// packet suffices, because only one is in use at a time.
func (s *Subnet) packet(f *flight, ep int32) *mad.Packet {
	p := &s.pkt
	*p = mad.Packet{LocalQP: f.dqp, Data: f.mad[:]}
	p.Addr = mad.Addr{LID: f.slid, QP: f.sqp, SL: f.sl}
	pt := &s.ports[ep]
	if pt.baseLID(f.dlid) {
		p.Addr.PathBits = uint8(f.dlid - pt.lid)
	}
	if f.hasGRH {
		p.Addr.HasGRH, p.Addr.GRH = true, f.grh
		i, _ := s.gidIndex(ep, f.dvp, f.dgid)
		p.Addr.GRH.GIDIndex = uint8(i)
	}
	if !f.smp {
		p.Addr.PKeyIndex = f.pkeyIdx
		p.SingleMAD = s.singleMAD(&f.mad)
	}
	return p
}

// singleMAD reports whether m is a request of an endpoint that cannot
// reassemble RMPP messages.
func (s *Subnet) singleMAD(m *ib.MAD) bool {
	if m.Method().IsResponse() {
		return false
	}
	tag := int(m.TID() >> 48)
	return tag > 0 && tag <= len(s.eps) && s.eps[tag-1] != nil && s.eps[tag-1].SingleMAD
}
