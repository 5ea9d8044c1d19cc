package sim

import (
	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
)

// caCaps and the others are the capability masks of the simulated devices.
const (
	baseCaps = ib.CapIsNoticeSupported | ib.CapIsTrapSupported | ib.CapIsSLMappingSupported |
		ib.CapIsLEDInfoSupported | ib.CapIsSystemImageGUIDSupported | ib.CapIsCapabilityMask2Supported |
		ib.CapIsDRNoticeSupported | ib.CapIsCapabilityMaskNoticeSupported | ib.CapIsOtherLocalChangesNotice
	caCaps = baseCaps | ib.CapIsAutomaticMigrationSupported | ib.CapIsCommunicationManagementSupported |
		ib.CapIsClientReregistrationSupported
	switchCaps  = baseCaps | ib.CapIsMulticastFDBTopSupported | ib.CapIsPKeySwitchExternalPortTrap
	switch0Caps = switchCaps | ib.CapIsClientReregistrationSupported // enhanced port 0
)

// Power-on values of PortInfo.
const (
	defaultSubnetTimeOut = 18 // 1.07 s
	defaultRespTime      = 16 // 268 ms
	defaultGUIDCap       = 32
	vlArbCap             = 8
)

// reset puts a node into its power-on state: tables empty, LIDs and keys
// cleared (or, with preset, as in the fabric), links not trained.
func (s *Subnet) reset(dev int32, preset bool) {
	d := &s.devs[dev]
	n := &s.f.Nodes[dev]
	d.desc.Set(n.Desc)
	d.traps, d.trapAt, d.trapTimer = nil, 0, 0
	d.boots++
	d.began = s.k.now
	fastest, widths := ib.SpeedNone, ib.LinkWidth(0)
	for i := 1; i < len(n.Ports); i++ {
		fastest, widths = max(fastest, n.Ports[i].Speed), widths|n.Ports[i].Width
	}
	if fastest == ib.SpeedNone {
		fastest = ib.SpeedQDR
	}
	enhanced := n.EnhancedPort0 || s.cfg.EnhancedPort0
	if d.sw != nil {
		*d.sw = switchState{info: s.newSwitchInfo(enhanced)}
	}
	for i := int32(0); i <= int32(d.nports); i++ {
		p := d.first + i
		pt, pi, fp := &s.ports[p], &s.infos[p], &n.Ports[i]
		pt.cold, pt.cnt, pt.check, pt.lid, pt.lmc = nil, counters{}, 0, 0, 0
		pt.phys = ib.PhysPolling
		s.setState(p, ib.StateDown)
		*pi = smp.PortInfo{
			LinkDownDefaultState: ib.PhysPolling, NeighborMTU: s.cfg.MTUCap, VLCap: s.cfg.VLCap, OperationalVLs: s.cfg.VLCap,
			VLArbitrationHighCap: vlArbCap, VLArbitrationLowCap: vlArbCap, MTUCap: s.cfg.MTUCap,
			LocalPhyErrors: 8, OverrunErrors: 8,
		}
		speed, width := fp.Speed, fp.Width
		if speed == ib.SpeedNone {
			speed = fastest
		}
		if width == 0 {
			width = ib.Width4x
		}
		setSpeeds(pi, speed)
		pi.LinkWidthSupported = ib.Width1x | width
		pi.LinkWidthEnabled = pi.LinkWidthSupported
		if speed == ib.SpeedFDR10 {
			c := s.coldOf(p)
			c.fdr10Supported, c.fdr10Enabled = true, true
		}
		if s.endPort(p) != p || i == 0 && d.sw == nil {
			continue
		}
		s.resetEndPort(d, p, fastest, cap2For(max(speed, fastest), widths), enhanced)
		if fp.NumLIDs > 1 {
			pt.extra = fp.NumLIDs - 1
		}
		if preset && fp.LID.IsUnicast() {
			pt.lid, pt.lmc = fp.LID, fp.LMC
		}
		if d.sw != nil {
			// Port 0 has no cable; it is always up.
			pt.phys = ib.PhysLinkUp
			s.setActive(p, width, speed)
			s.setState(p, ib.StateActive)
		}
	}
	for p := d.first; p <= d.first+int32(d.nports); p++ {
		if h := s.ports[p].hv; h != nil {
			s.resetHyper(h)
		}
	}
	if s.OnChange != nil && d.boots > 1 {
		s.OnChange(Change{At: s.k.now, Kind: ChangeReset, Node: int(dev)})
	}
}

// newSwitchInfo is the SwitchInfo of a switch that was just powered on.
func (s *Subnet) newSwitchInfo(enhanced bool) smp.SwitchInfo {
	opt := uint8(0)
	if s.cfg.OptimizedSL2VL {
		opt = 1
	}
	return smp.SwitchInfo{
		LinearFDBCap: s.cfg.LinearFDBCap, MulticastFDBCap: s.cfg.MulticastFDBCap,
		DefaultMulticastPrimaryPort: smp.PortDrop, DefaultMulticastNotPrimaryPort: smp.PortDrop,
		PortStateChange: true, OptimizedSLtoVLMappingProgramming: opt,
		PartitionEnforcementCap: s.cfg.ExternalPartitionCap,
		InboundEnforcementCap:   s.cfg.ExternalPartitionCap > 0, OutboundEnforcementCap: s.cfg.ExternalPartitionCap > 0,
		FilterRawInboundCap: true, FilterRawOutboundCap: true, EnhancedPort0: enhanced,
	}
}

// resetEndPort gives an end port the capabilities that it has after power-on.
// fastest is the speed of the node's fastest port.
func (s *Subnet) resetEndPort(d *device, p int32, fastest ib.LinkSpeed, cap2 ib.CapMask2, enhanced bool) {
	pt, pi := &s.ports[p], &s.infos[p]
	pi.GidPrefix = ib.DefaultSubnetPrefix
	pi.SubnetTimeOut, pi.RespTimeValue = defaultSubnetTimeOut, defaultRespTime
	pi.CapabilityMask2 = cap2
	pi.GUIDCap = defaultGUIDCap
	switch {
	case d.sw == nil:
		pi.CapabilityMask = caCaps
	case enhanced:
		pi.CapabilityMask = switch0Caps
	default:
		pi.CapabilityMask = switchCaps
		pi.GUIDCap = 1
	}
	if s.cfg.NoTraps {
		pi.CapabilityMask &^= ib.CapIsTrapSupported
	}
	if fastest > ib.SpeedFDR10 {
		pi.CapabilityMask |= ib.CapIsExtendedSpeedsSupported
	}
	for e := pt.ep; e >= 0; e = s.eps[e].next {
		if s.eps[e].issm {
			pi.CapabilityMask |= ib.CapIsSM
		}
	}
}

// cap2For is CapabilityMask2 of a node whose fastest port does v and whose
// ports have the widths w.
func cap2For(v ib.LinkSpeed, w ib.LinkWidth) ib.CapMask2 {
	m := ib.Cap2IsSetNodeDescriptionSupported | ib.Cap2IsPortInfoExtendedSupported |
		ib.Cap2IsSwitchPortStateTableSupported
	if w&ib.Width2x != 0 {
		m |= ib.Cap2IsLinkWidth2xSupported
	}
	if v >= ib.SpeedHDR {
		m |= ib.Cap2IsLinkSpeedHDRSupported
	}
	if v >= ib.SpeedNDR {
		m |= ib.Cap2IsLinkSpeedNDRSupported
	}
	if v >= ib.SpeedXDR {
		m |= ib.Cap2IsExtendedSpeeds2Supported | ib.Cap2IsLinkSpeedXDRSupported
	}
	return m
}

// trapGap is the time between two traps of an end port.
func (s *Subnet) trapGap(ep int32) mad.Time {
	return mad.Time(4096) << min(s.infos[ep].SubnetTimeOut, 31)
}
