package sim

import (
	"heddle/ib"
	"heddle/ib/smp"
)

// portInfoMods are the defined bits of the PortInfo modifier.
const portInfoMods = smp.PortInfoExtSpeeds | smp.PortInfoActiveDefer | 0xFF

// portInfo is the PortInfo of port p as read through port in, with its M_Key.
func (s *Subnet) portInfo(p, in int32) smp.PortInfo {
	pt := &s.ports[p]
	pi := s.infos[p]
	pi.LID, pi.LMC = pt.lid, pt.lmc
	pi.PortState, pi.PortPhysicalState = pt.state, pt.phys
	pi.LocalPortNum = s.ports[in].num
	return pi
}

// smaPortInfo is Get and Set of PortInfo (IBA §14.2.5.6).
func (s *Subnet) smaPortInfo(r *smaRequest) ib.Status {
	num := uint8(r.am)
	p := r.in
	switch {
	case r.am&^portInfoMods != 0 || num > r.d.nports:
		return ib.StatusInvalidField
	case r.d.isSwitch():
		p = r.d.first + int32(num)
	case num != 0:
		p = r.d.first + int32(num)
	}
	ext := r.am&smp.PortInfoExtSpeeds != 0
	if q := r.d.quirk; q != nil && q.NoExtendedSpeeds && ext {
		return ib.StatusInvalidField
	}
	st := ib.StatusOK
	hide := !r.set && s.keyHidden(s.endPort(p), r.key)
	rereg := false
	bounce := actNone
	if r.set && (r.d.isSwitch() || p == r.in) {
		var n smp.PortInfo
		_ = n.Decode(r.data) // 64 bytes, cannot fail
		s.stats.PortInfoSets++
		st, bounce = s.setPortInfo(r, p, &n, ext)
		rereg = n.ClientReregister && s.infos[p].CapabilityMask.Has(ib.CapIsClientReregistrationSupported)
	}
	s.linkAction(p, bounce)
	pi := s.portInfo(p, r.in)
	if hide {
		pi.MKey = 0
	}
	if pi.ClientReregister = rereg; rereg {
		s.reregister(p)
	}
	if q := r.d.quirk; !ext && (s.cfg.HideExtendedSpeeds || q != nil && q.HideExtendedSpeeds) {
		pi.LinkSpeedExtActive, pi.LinkSpeedExtSupported, pi.LinkSpeedExtEnabled = 0, 0, 0
		pi.LinkSpeedExtActive2, pi.LinkSpeedExtSupported2, pi.LinkSpeedExtEnabled2 = 0, 0, 0
	}
	if q := r.d.quirk; q != nil && q.NoExtendedSpeeds {
		pi.CapabilityMask &^= ib.CapIsExtendedSpeedsSupported
		pi.LinkSpeedExtActive, pi.LinkSpeedExtSupported, pi.LinkSpeedExtEnabled = 0, 0, 0
	}
	pi.Put(r.data)
	return st
}

// linkAct is the effect of a Set on the link, after the fields are stored.
type linkAct uint8

const (
	actNone    linkAct = iota
	actRetrain         // down and up again
	actDisable
	actSleep
)

// setPortInfo stores every valid field of n and answers 0x001C if one was
// invalid (IBA §14.2.5.6; as the qib driver's agent does).
func (s *Subnet) setPortInfo(r *smaRequest, p int32, n *smp.PortInfo, ext bool) (ib.Status, linkAct) {
	pi, pt := &s.infos[p], &s.ports[p]
	bad := false
	port0 := r.d.isSwitch() && pt.num == 0
	if s.endPort(p) == p {
		bad = s.setEndPortInfo(p, pi, n, port0)
	}
	if port0 && !r.d.sw.info.EnhancedPort0 {
		if n.PortState > ib.StateActive || n.PortState == ib.StateInit || n.PortPhysicalState > ib.PhysDisabled {
			bad = true
		}
		return statusOf(bad), actNone
	}

	bad = setLink(pi, n) || bad
	if ext {
		bad = setExtSpeeds(pi, n) || bad
	}
	bad = setLimits(pi, n) || bad
	pi.VLHighLimit = n.VLHighLimit
	pi.InitTypeReply = n.InitTypeReply
	pi.LocalPhyErrors, pi.OverrunErrors = n.LocalPhyErrors, n.OverrunErrors
	if n.PKeyViolations == 0 {
		pi.PKeyViolations = 0
	}
	if r.d.typ != ib.NodeCA {
		pi.VLStallCount, pi.HOQLife = n.VLStallCount, n.HOQLife
	}
	if r.d.isSwitch() && !port0 {
		i := &r.d.sw.info
		pi.PartitionEnforcementInbound = n.PartitionEnforcementInbound && i.InboundEnforcementCap
		pi.PartitionEnforcementOutbound = n.PartitionEnforcementOutbound && i.OutboundEnforcementCap
		pi.FilterRawInbound = n.FilterRawInbound && i.FilterRawInboundCap
		pi.FilterRawOutbound = n.FilterRawOutbound && i.FilterRawOutboundCap
		s.refreshFilter(p)
	}
	badState, act := s.setPortState(p, n, port0)
	return statusOf(bad || badState), act
}

// setLink stores widths and speeds to enable; bad if one is not supported.
func setLink(pi, n *smp.PortInfo) (bad bool) {
	switch w := n.LinkWidthEnabled; {
	case w == 0:
	case w == ib.WidthAll:
		pi.LinkWidthEnabled = pi.LinkWidthSupported
	case w&^pi.LinkWidthSupported != 0:
		bad = true
	default:
		pi.LinkWidthEnabled = w
	}
	switch v := n.LinkSpeedEnabled; {
	case v == 0:
	case v == ib.SpeedBitAll:
		pi.LinkSpeedEnabled = pi.LinkSpeedSupported
	case v&^pi.LinkSpeedSupported != 0:
		bad = true
	default:
		pi.LinkSpeedEnabled = v
	}
	return bad
}

// setLimits stores the default state, the MTU and the lanes of a link; bad if one
// is not possible.
func setLimits(pi, n *smp.PortInfo) (bad bool) {
	switch n.LinkDownDefaultState {
	case ib.PhysNoChange:
	case ib.PhysSleep, ib.PhysPolling:
		pi.LinkDownDefaultState = n.LinkDownDefaultState
	default:
		bad = true
	}
	if n.NeighborMTU == 0 || n.NeighborMTU > pi.MTUCap {
		bad = true
	} else {
		pi.NeighborMTU = n.NeighborMTU
	}
	if n.OperationalVLs > pi.VLCap {
		bad = true
	} else if n.OperationalVLs != 0 {
		pi.OperationalVLs = n.OperationalVLs
	}
	return bad
}

func statusOf(bad bool) ib.Status {
	if bad {
		return ib.StatusInvalidField
	}
	return ib.StatusOK
}

// setEndPortInfo stores the fields that only ports with LIDs have, and reports
// whether one was invalid.
func (s *Subnet) setEndPortInfo(p int32, pi, n *smp.PortInfo, port0 bool) (bad bool) {
	lmc := n.LMC
	if lmc != 0 && port0 && !s.devs[s.ports[p].dev].sw.info.EnhancedPort0 {
		bad = true // base port 0 has one LID
		lmc = 0
	}
	if n.LID.IsUnicast() && n.LID&(1<<lmc-1) == 0 {
		s.ports[p].lid, s.ports[p].lmc = n.LID, lmc
	} else {
		bad = true
	}
	if n.MasterSMLID.IsUnicast() {
		pi.MasterSMLID = n.MasterSMLID
	} else {
		bad = true
	}
	pi.MKey, pi.GidPrefix = n.MKey, n.GidPrefix
	pi.MKeyLeasePeriod, pi.MKeyProtectBits = n.MKeyLeasePeriod, n.MKeyProtectBits
	pi.MasterSMSL = n.MasterSMSL
	pi.SubnetTimeOut = n.SubnetTimeOut
	if pi.CapabilityMask.Has(ib.CapIsMulticastPKeyTrapSuppression) {
		pi.MulticastPKeyTrapSuppressionEnabled = n.MulticastPKeyTrapSuppressionEnabled
	}
	if n.MKeyViolations == 0 {
		pi.MKeyViolations = 0
	}
	if n.QKeyViolations == 0 {
		pi.QKeyViolations = 0
	}
	if n.PKeyViolations == 0 {
		pi.PKeyViolations = 0
	}
	return bad
}

// setExtSpeeds stores the enabled extended speeds.
func setExtSpeeds(pi, n *smp.PortInfo) (bad bool) {
	switch v := n.LinkSpeedExtEnabled; {
	case v == 0:
	case v == ib.SpeedExtBitAll:
		pi.LinkSpeedExtEnabled = pi.LinkSpeedExtSupported
	case v == ib.SpeedExtBitNone:
		pi.LinkSpeedExtEnabled = v
	case v&^pi.LinkSpeedExtSupported != 0:
		bad = true
	default:
		pi.LinkSpeedExtEnabled = v
	}
	switch v := n.LinkSpeedExtEnabled2; {
	case v == 0:
	case v == ib.SpeedExt2BitAll:
		pi.LinkSpeedExtEnabled2 = pi.LinkSpeedExtSupported2
	case v&^pi.LinkSpeedExtSupported2 != 0:
		bad = true
	default:
		pi.LinkSpeedExtEnabled2 = v
	}
	return bad
}

// setPortState applies PortState and PortPhysicalState of a Set: the table of
// IBA §7.2.7 as devices implement it. Repeating the current state is refused.
func (s *Subnet) setPortState(p int32, n *smp.PortInfo, port0 bool) (bad bool, act linkAct) {
	pt := &s.ports[p]
	phys := n.PortPhysicalState
	if phys > ib.PhysDisabled || phys != 0 && n.PortState > ib.StateDown {
		return true, actNone
	}
	if s.cfg.DirectStates && !port0 && n.PortState >= ib.StateInit && n.PortState <= ib.StateActive && pt.state >= ib.StateInit {
		s.setState(p, n.PortState)
		return false, actNone
	}
	switch n.PortState {
	case ib.StateNoChange, ib.StateDown:
	case ib.StateArmed:
		if pt.state != ib.StateInit {
			return true, actNone
		}
		s.setState(p, ib.StateArmed)
		return false, actNone
	case ib.StateActive:
		if pt.state != ib.StateArmed {
			return true, actNone
		}
		s.setState(p, ib.StateActive)
		return false, actNone
	default:
		return true, actNone
	}
	if port0 {
		return false, actNone // port 0 has no link
	}
	switch {
	case phys == ib.PhysDisabled:
		return false, actDisable
	case phys == ib.PhysSleep:
		return false, actSleep
	case phys == ib.PhysPolling:
		return false, actRetrain
	case n.PortState == ib.StateDown && pt.state != ib.StateDown:
		return false, actRetrain
	}
	return false, actNone
}

// linkAction takes the link of p down, as a manager requested, and up again if
// both ends are ready. The far end reports the change, p does not.
func (s *Subnet) linkAction(p int32, a linkAct) {
	if a == actNone {
		return
	}
	s.fall(p, p)
	pt := &s.ports[p]
	pt.epoch++
	switch a {
	case actDisable:
		pt.phys = ib.PhysDisabled
	case actSleep:
		pt.phys = ib.PhysSleep
	default:
		pt.phys = ib.PhysPolling
		s.kick(p, p)
	}
}
