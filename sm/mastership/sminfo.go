package mastership

import (
	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/sm/election"
	"heddle/sm/notice"
	"heddle/subnet"
)

// Self is what a manager tells of itself, and how its port guards it.
type Self struct {
	Info    smp.SMInfo
	Key     ib.MKey // of the port; 0 = it guards nothing
	Protect uint8   // PortInfo:M_KeyProtectBits
}

// Self is what a Get(SMInfo) is answered with.
func (s *Machine) Self() Self {
	x := Self{Info: s.own()}
	if s.Fabric != nil && s.Fabric.Self.Node >= 0 {
		p := s.Fabric.AgentPort(s.Fabric.Self.Node, s.Fabric.Self.Port)
		x.Key, x.Protect = p.Info.MKey, p.Info.MKeyProtectBits
	}
	return x
}

// trusts reports whether a request has the M_Key of the port.
func (x *Self) trusts(m *ib.MAD) bool { return x.Key == 0 || smp.MKey(m) == x.Key }

// Answer returns the answer to a Get(SMInfo). It reports false if there is none, because the port's
// M_Key is wrong.
func (x *Self) Answer(m *ib.MAD) (r ib.MAD, ok bool) {
	info, trusted := x.Info, x.trusts(m)
	switch {
	case !trusted && x.Protect >= 2:
		return r, false
	case !trusted && x.Protect == 1:
		info.SMKey = 0
	}
	return response(m, &info, 0), true
}

// response is a response to an SMInfo request.
func response(m *ib.MAD, info *smp.SMInfo, st ib.Status) ib.MAD {
	r := *m
	clear(smp.Data(&r))
	info.Put(smp.Data(&r))
	smp.Respond(&r, st)
	return r
}

// Get answers a Get(SMInfo) of another manager, or of a tool.
func (s *Machine) Get(p *mad.Packet, m *ib.MAD) {
	x := s.Self()
	if r, ok := x.Answer(m); ok {
		s.Send(&mad.Packet{Addr: p.Addr, Data: r[:]})
	}
}

// reply answers an SMInfo request in the class it came in.
func (s *Machine) reply(p *mad.Packet, m *ib.MAD, own *smp.SMInfo, st ib.Status) {
	r := response(m, own, st)
	s.Send(&mad.Packet{Addr: p.Addr, Data: r[:]})
}

// Set takes a signal of another manager. The answer carries our
// SMInfo from before the transition.
func (s *Machine) Set(p *mad.Packet, m *ib.MAD) {
	if x := s.Self(); !x.trusts(m) {
		return
	}
	var from smp.SMInfo
	own := s.own()
	if c := s.candidate(); from.Decode(smp.Data(m)) != nil || !c.Trusts(&from) || !c.Counts(from.GUID) {
		s.reply(p, m, &own, ib.StatusInvalidField)
		return
	}
	sig := m.AttrMod()
	if s.Config.PlanOnly || !election.Accepts(s.State, sig, from.SMState) {
		s.reply(p, m, &own, ib.StatusInvalidField)
		return
	}
	s.reply(p, m, &own, 0)
	sender := s.senderOf(p, m, from)
	switch {
	case sig == smp.SMModHandover:
		s.Notify(notice.Notice{Kind: notice.KindHandover, Level: notice.Info, Text: "handover received from " + from.GUID.String()})
		s.takeHandover(sender)
	case sig == smp.SMModAcknowledge:
	case s.State == subnet.NotActive: // STANDBY
		s.tookOver = false
		s.master = sender
		s.setState(subnet.Standby, "requested by "+from.GUID.String())
		s.startPolling()
	case sig == smp.SMModDisable:
		s.rest("requested by " + from.GUID.String())
	case sig == smp.SMModDiscover:
		s.Discover("requested by " + from.GUID.String())
	}
}

// senderOf finds the directed route to the sender of a signal: from the last
// discovery, else the path of the signal, reversed.
func (s *Machine) senderOf(p *mad.Packet, m *ib.MAD, from smp.SMInfo) election.Other {
	for i := range s.others {
		if s.others[i].Info.GUID == from.GUID {
			o := s.others[i]
			o.Info = from
			return o
		}
	}
	o := election.Other{Info: from, LID: p.Addr.LID}
	if m.Class() == ib.ClassSubnDR {
		n := int(smp.HopCount(m))
		if n <= smp.MaxHops {
			for h := n; h >= 1; h-- {
				o.Path = append(o.Path, smp.ReturnPath(m)[h])
			}
		}
	}
	return o
}
