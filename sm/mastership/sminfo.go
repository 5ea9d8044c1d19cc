package mastership

import (
	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/sm/election"
	"heddle/sm/notice"
	"heddle/subnet"
)

// Get answers a Get(SMInfo) of another manager, or of a tool.
func (s *Machine) Get(p *mad.Packet, m *ib.MAD) {
	prot, key, locked := s.ownProtection()
	ok := !locked || smp.MKey(m) == key
	if !ok && prot >= 2 {
		return
	}
	own := s.own()
	if !ok && prot == 1 {
		own.SMKey = 0
	}
	s.reply(p, m, &own, 0)
}

// ownProtection is how our own port's M_Key guards it.
func (s *Machine) ownProtection() (prot uint8, key ib.MKey, locked bool) {
	if s.Fabric == nil || s.Fabric.Self.Node < 0 {
		return 0, 0, false
	}
	p := s.Fabric.AgentPort(s.Fabric.Self.Node, s.Fabric.Self.Port)
	return p.Info.MKeyProtectBits, p.Info.MKey, p.Info.MKey != 0
}

// reply answers an SMInfo request in the class it came in.
func (s *Machine) reply(p *mad.Packet, m *ib.MAD, own *smp.SMInfo, st ib.Status) {
	r := *m
	clear(smp.Data(&r))
	own.Put(smp.Data(&r))
	smp.Respond(&r, st)
	q := mad.Packet{Addr: p.Addr, LocalQP: 0, Data: r[:]}
	s.Send(&q)
}

// Set takes a signal of another manager. The answer carries our
// SMInfo from before the transition.
func (s *Machine) Set(p *mad.Packet, m *ib.MAD) {
	if _, key, locked := s.ownProtection(); locked && smp.MKey(m) != key {
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
