package linkmgr

import (
	"heddle/ib"
	"heddle/ib/smp"
	"heddle/sm/topo"
)

// wanted is the PortInfo for a Set that does not change the state of the port. ext says that the
// Set has the extended-speed bit. ok is false for a port that gets no Set. A Set writes all
// fields, so those that are not configured keep what was read (IBA §14.2.5.6).
func (m *Manager) wanted(p *topo.Port) (w smp.PortInfo, ext, ok bool) {
	w = p.Info
	keep(&w)
	w.LinkDownDefaultState = ib.PhysPolling
	if given := m.Config.LanesOf(m.Fabric.Nodes[p.Node].Info.NodeType, p.Num); given.HighLimit != nil && (p.Num > 0 || m.Fabric.Nodes[p.Node].Switch.EnhancedPort0) {
		w.VLHighLimit = *given.HighLimit
	}
	if p.Has(topo.PortEnd) {
		if p.LID == 0 {
			return w, false, false
		}
		m.endPort(p, &w)
	}
	if p.Num == 0 {
		return w, false, true
	}
	if !p.Has(topo.PortLinked) {
		return w, false, p.Has(topo.PortEnd)
	}
	return w, m.link(p, &w), true
}

// keep makes a PortInfo that was read fit to be written back unchanged. Fields in which 0 means
// no change become 0, and values that are invalid in a Set are replaced.
func keep(w *smp.PortInfo) {
	w.ClearForSet()
	if w.NeighborMTU < 1 || w.NeighborMTU > 5 {
		w.NeighborMTU = max(min(w.MTUCap, 5), 1)
	}
}

// endPort fills in what only ports with a LID have.
func (m *Manager) endPort(p *topo.Port, w *smp.PortInfo) {
	cfg := &m.Config
	nd := &m.Fabric.Nodes[p.Node]
	w.LID, w.LMC = p.LID, p.LMC
	w.MasterSMLID = m.SMLID()
	w.GidPrefix = cfg.Prefix
	w.MKey = cfg.MKey
	w.MKeyLeasePeriod = cfg.MKeyLease
	w.MKeyProtectBits = cfg.MKeyProtect
	if sl, ok := m.ManagerLevel(); ok { // else it stays until the tables are known
		w.MasterSMSL = sl
	}
	w.SubnetTimeOut = cfg.SubnetTimeOut
	w.LocalPhyErrors, w.OverrunErrors = cfg.LocalPhyErr, cfg.OverrunErr
	w.ClientReregister = m.isNew(p, w) && !cfg.NoReregister && !nd.IsSwitch() &&
		p.Info.CapabilityMask.Has(ib.CapIsClientReregistrationSupported)
}

// isNew reports whether a port may have lost its groups and subscriptions. A port that the last
// snapshot does not show, or not as an end port, has lost them, even if its node is known by
// another port. One that was told of us, and still knows, was asked to register again then.
func (m *Manager) isNew(p *topo.Port, w *smp.PortInfo) bool {
	if m.told[p.GUID] && p.Info.MasterSMLID == w.MasterSMLID && p.Info.LID == w.LID {
		return false
	}
	if (m.FirstSweep || !m.Up) && m.Inherits && p.Info.PortState == ib.StateActive && p.Info.MasterSMLID == w.MasterSMLID && p.Info.LID == w.LID {
		return m.Snapshot != nil && len(m.Snapshot.Nodes) > 0 && m.Snapshot.PortByPortGUID(p.GUID) < 0
	}
	return m.FirstSweep || m.Fabric.Nodes[p.Node].Flags&topo.NodeNew != 0 ||
		p.Info.MasterSMLID != w.MasterSMLID || p.Info.LID != w.LID ||
		p.Has(topo.PortLinked) && m.Snapshot != nil && m.Snapshot.PortByPortGUID(p.GUID) < 0
}

// link fills in what depends on both ends of the link at a port. It reports whether the Set
// needs the extended-speed bit.
func (m *Manager) link(p *topo.Port, w *smp.PortInfo) (ext bool) {
	f, cfg := m.Fabric, &m.Config
	q := f.Port(p.Peer)
	// MTU and lanes of a link that carries data cannot change without taking it down, so they
	// stay as they are if both ends support them.
	mtu := min(mtuCap(p), mtuCap(q))
	if p.Info.PortState < ib.StateArmed || p.Info.NeighborMTU == 0 || p.Info.NeighborMTU > mtu {
		w.NeighborMTU = min(mtu, cfg.MaxMTU)
	}
	if p.Info.PortState < ib.StateArmed || p.Info.OperationalVLs == 0 {
		vls := min(max(p.Info.VLCap, 1), max(q.Info.VLCap, 1), cfg.MaxOpVLs)
		if vls != p.Info.OperationalVLs {
			w.OperationalVLs = vls
		}
	}
	if f.Nodes[p.Node].IsSwitch() {
		w.VLStallCount, w.HOQLife = cfg.VLStallCount, cfg.HOQLife
		if !f.Nodes[p.Peer.Node].IsSwitch() {
			w.VLStallCount, w.HOQLife = cfg.LeafVLStallCount, cfg.LeafHOQLife
		}
		w.PartitionEnforcementInbound, w.PartitionEnforcementOutbound = m.needs.PKeys.EnforceNow(p)
	}
	v := enabled(cfg.LinkWidth, p.Info.LinkWidthSupported, q.Info.LinkWidthSupported)
	if v != p.Info.LinkWidthEnabled {
		w.LinkWidthEnabled = v
	}
	if v := enabled(cfg.LinkSpeed, p.Info.LinkSpeedSupported, q.Info.LinkSpeedSupported); v != 0 {
		if v |= ib.SpeedBitSDR; v != p.Info.LinkSpeedEnabled { // masks without SDR are reserved (IBA §14.2.5.6)
			w.LinkSpeedEnabled = v
		}
	}
	return m.extended(p, q, w)
}

// extended fills in the extended speeds of a link whose ends both have them. It reports whether
// the Set needs the extended-speed bit.
func (m *Manager) extended(p, q *topo.Port, w *smp.PortInfo) bool {
	f := m.Fabric
	for _, x := range [2]*topo.Port{p, q} {
		if !f.AgentPort(x.Node, x.Num).Info.CapabilityMask.Has(ib.CapIsExtendedSpeedsSupported) {
			return false
		}
	}
	w.LinkSpeedExtEnabled = extSpeeds(m.Config.LinkSpeedExt, &p.Info, &q.Info)
	return w.LinkSpeedExtEnabled != 0
}

// enabled is the mask of enabled widths or speeds in a Set, where 0 means no change. It has those
// of the wanted bits that the port supports, because agents refuse a Set with others. A mask that
// leaves the two ends of a link nothing in common would take it down permanently.
func enabled[T ~uint8](want, own, peer T) T {
	if want&own&peer == 0 {
		return 0
	}
	return want & own
}

// extSpeeds is enabled for extended speeds, which may also be turned off.
func extSpeeds(want ib.SpeedExtBits, own, peer *smp.PortInfo) ib.SpeedExtBits {
	if want == ib.SpeedExtBitNone {
		if own.LinkSpeedExtEnabled == 0 || own.LinkSpeedExtEnabled == ib.SpeedExtBitNone {
			return 0
		}
		return want
	}
	v := enabled(want, own.LinkSpeedExtSupported, peer.LinkSpeedExtSupported)
	if v == own.LinkSpeedExtEnabled {
		return 0
	}
	return v
}

// mtuCap is the largest MTU of a port. A reserved code does not limit it.
func mtuCap(p *topo.Port) ib.MTU {
	if p.Info.MTUCap < 1 || p.Info.MTUCap > 5 {
		return 5
	}
	return p.Info.MTUCap
}

// SMLID is the LID to which ports send their traps: that of our own port.
func (m *Manager) SMLID() ib.LID {
	return m.Fabric.AgentPort(m.Fabric.Self.Node, m.Fabric.Self.Port).LID
}

// differs reports whether a Set of w would change what was read of a port.
func differs(w, p *smp.PortInfo, ext bool) bool {
	return w.LID != p.LID || w.MasterSMLID != p.MasterSMLID || w.LMC != p.LMC || w.GidPrefix != p.GidPrefix ||
		w.MKey != p.MKey || w.MKeyLeasePeriod != p.MKeyLeasePeriod || w.MKeyProtectBits != p.MKeyProtectBits ||
		w.MasterSMSL != p.MasterSMSL || w.SubnetTimeOut != p.SubnetTimeOut ||
		w.LocalPhyErrors != p.LocalPhyErrors || w.OverrunErrors != p.OverrunErrors ||
		w.ClientReregister || ext ||
		w.NeighborMTU != p.NeighborMTU || w.OperationalVLs != 0 ||
		w.VLHighLimit != p.VLHighLimit || w.VLStallCount != p.VLStallCount || w.HOQLife != p.HOQLife ||
		w.PartitionEnforcementInbound != p.PartitionEnforcementInbound ||
		w.PartitionEnforcementOutbound != p.PartitionEnforcementOutbound ||
		w.LinkWidthEnabled != 0 || w.LinkSpeedEnabled != 0
}
