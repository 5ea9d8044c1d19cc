package sim

import (
	"time"

	"heddle/ib"
	"heddle/ib/smp"
)

// smaRequest is one Get or Set during its processing by an SMA.
type smaRequest struct {
	d    *device
	ep   int32 // the addressed end port: port 0 of a switch
	in   int32 // the port on which the SMP arrived
	am   uint32
	set  bool
	key  ib.MKey
	data []byte // 64 bytes: in and out
}

// sma is the subnet management agent: it checks f in the order of IBA §14.2.4
// and answers it.
func (s *Subnet) sma(f *flight, d *device) {
	m := &f.mad
	if m.ClassVersion() != smp.ClassVersion {
		s.reply(f, d, ib.StatusBadVersion)
		return
	}
	r := smaRequest{
		d: d, ep: s.endPort(f.port), in: f.port, am: m.AttrMod(), set: m.Method() == ib.MethodSet,
		key: smp.MKey(m), data: smp.Data(m),
	}
	attr := m.AttrID()
	if attr != smp.AttrSMInfo { // SMInfo goes to the manager, which checks for itself
		if !s.checkMKey(f, r.ep, m.Method() == ib.MethodGet) {
			s.drop(f, DropKey)
			return
		}
		if other := s.otherCAPort(&r, attr); other >= 0 && !s.checkMKey(f, other, m.Method() == ib.MethodGet) {
			s.drop(f, DropKey)
			return
		}
	}
	switch m.Method() {
	case ib.MethodGet, ib.MethodSet:
	case ib.MethodTrapRepress:
		s.repress(d, r.ep, m.TID())
		s.stats.Delivered++
		f.stage = stDone
		return
	default:
		s.reply(f, d, ib.StatusBadMethod)
		return
	}
	s.stats.SMPs++
	if r.set && s.OnChange != nil {
		copy(s.asked[:], r.data)
	}
	st := s.attribute(&r, attr)
	if r.set {
		s.dataChanged(d.node)
	}
	if r.set && st == ib.StatusOK && s.OnChange != nil {
		from := -1
		if f.origin != nil {
			from = int(s.ports[f.origin.port].dev)
		}
		s.OnChange(Change{At: s.k.now, Kind: ChangeSet, Node: int(d.node), Port: s.ports[r.in].num, Attr: attr, AttrMod: r.am, From: from, Data: s.asked[:]})
	}
	if d.down { // the Set turned the node off
		s.drop(f, DropNode)
		return
	}
	s.reply(f, d, st)
}

// attribute answers r in place.
func (s *Subnet) attribute(r *smaRequest, attr ib.AttrID) ib.Status {
	switch attr {
	case smp.AttrNodeInfo:
		return s.smaNodeInfo(r)
	case smp.AttrPortInfo:
		return s.smaPortInfo(r)
	case smp.AttrLFT:
		return s.smaLFT(r)
	case smp.AttrSwitchInfo:
		return s.smaSwitchInfo(r)
	case smp.AttrNodeDescription:
		return s.smaNodeDescription(r)
	case smp.AttrGUIDInfo:
		return s.smaGUIDInfo(r)
	case smp.AttrPKeyTable:
		return s.smaPKeyTable(r)
	case smp.AttrSLtoVL:
		return s.smaSLtoVL(r)
	case smp.AttrVLArb:
		return s.smaVLArb(r)
	case smp.AttrMFT:
		return s.smaMFT(r)
	case smp.AttrNotice:
		return s.smaNotice(r)
	case smp.AttrLedInfo:
		return s.smaLedInfo(r)
	case smp.AttrVendorDiag:
		return s.smaVendorDiag(r)
	case smp.AttrPortInfoExtended:
		return s.smaPortInfoExtended(r)
	case smp.AttrSwitchPortStateTable:
		return s.smaSwitchPortStateTable(r)
	case smp.AttrExtendedPortInfo:
		return s.smaExtendedPortInfo(r)
	}
	return s.smaVirtual(r, attr)
}

// otherCAPort is the port of a CA that a Get(PortInfo) names, if it is not the
// receiving port: its M_Key applies too. -1: none.
func (s *Subnet) otherCAPort(r *smaRequest, attr ib.AttrID) int32 {
	n := uint8(r.am)
	if attr != smp.AttrPortInfo || r.d.isSwitch() || n == 0 || n > r.d.nports || n == s.ports[r.in].num {
		return -1
	}
	return r.d.first + int32(n)
}

// checkMKey applies the M_Key rules of end port ep to f (IBA §14.2.4): a
// stored key of 0 makes every key right; protect bits 0 and 1 let a Get pass
// with a wrong key. A refusal counts, starts the lease and sends trap 256; a
// right key stops the lease.
func (s *Subnet) checkMKey(f *flight, ep int32, get bool) bool {
	pi := &s.infos[ep]
	if pi.MKey == 0 || pi.MKey == smp.MKey(&f.mad) {
		if c := s.ports[ep].cold; c != nil {
			c.lease = 0
		}
		return true
	}
	if get && pi.MKeyProtectBits <= 1 {
		return true
	}
	if pi.MKeyViolations != 0xFFFF {
		pi.MKeyViolations++
	}
	s.startLease(ep)
	s.trap256(ep, &f.mad, f.slid)
	return false
}

// keyHidden reports whether the M_Key of end port ep must read as 0 for key.
func (s *Subnet) keyHidden(ep int32, key ib.MKey) bool {
	pi := &s.infos[ep]
	return pi.MKey != 0 && pi.MKeyProtectBits != 0 && pi.MKey != key
}

// startLease starts the M_Key lease of ep unless it runs or is infinite. When
// it expires, the protect bits are cleared; the key stays readable.
func (s *Subnet) startLease(ep int32) {
	pi := &s.infos[ep]
	c := s.coldOf(ep)
	if pi.MKeyLeasePeriod == 0 || c.lease != 0 {
		return
	}
	c.leases++
	c.lease = c.leases
	gen := c.lease
	s.After(time.Duration(pi.MKeyLeasePeriod)*time.Second, func() {
		if s.ports[ep].cold == c && c.lease == gen {
			c.lease = 0
			s.infos[ep].MKeyProtectBits = 0
		}
	})
}

func (s *Subnet) nodeInfo(in int32) smp.NodeInfo {
	pt := &s.ports[in]
	d := &s.devs[pt.dev]
	n := &s.f.Nodes[d.node]
	ni := smp.NodeInfo{
		BaseVersion: 1, ClassVersion: smp.ClassVersion, NodeType: d.typ, NumPorts: d.nports,
		SystemImageGUID: d.sysimg, NodeGUID: d.guid, PortGUID: s.guidOf(in), PartitionCap: s.cfg.PartitionCap,
		DeviceID: n.DeviceID, Revision: n.Revision, LocalPortNum: pt.num, VendorID: n.VendorID,
	}
	if q := d.quirk; q != nil {
		if q.NoPKeys {
			ni.PartitionCap = 0
		}
		if q.NodeGUID != 0 {
			ni.NodeGUID = q.NodeGUID
		}
		if q.LocalPort != nil {
			ni.LocalPortNum = q.LocalPort(pt.num)
		}
	}
	return ni
}

func (s *Subnet) smaNodeInfo(r *smaRequest) ib.Status {
	if r.set {
		return ib.StatusBadMethodAttr
	}
	if r.am != 0 {
		return ib.StatusInvalidField
	}
	ni := s.nodeInfo(r.in)
	clear(r.data[smp.NodeInfoLen:])
	ni.Put(r.data)
	return ib.StatusOK
}

func (s *Subnet) smaNodeDescription(r *smaRequest) ib.Status {
	if r.am != 0 {
		return ib.StatusInvalidField
	}
	if r.set {
		if !s.infos[r.ep].CapabilityMask2.Has(ib.Cap2IsSetNodeDescriptionSupported) {
			return ib.StatusBadMethodAttr
		}
		_ = r.d.desc.Decode(r.data) // any 64 bytes are a description
	}
	r.d.desc.Put(r.data)
	return ib.StatusOK
}

func (s *Subnet) smaGUIDInfo(r *smaRequest) ib.Status {
	capacity := int(s.infos[r.ep].GUIDCap)
	first := int(r.am) * smp.GUIDBlockLen
	if r.am > 31 || first >= capacity {
		return ib.StatusInvalidField
	}
	var g smp.GUIDInfo
	if r.set {
		_ = g.Decode(r.data)
		c := s.coldOf(r.ep)
		if c.guids == nil {
			c.guids = make([]ib.GUID, capacity)
		}
		for i := range g {
			if k := first + i; k > 0 && k < capacity {
				c.guids[k] = g[i]
			}
		}
	}
	g = smp.GUIDInfo{}
	if c := s.ports[r.ep].cold; c != nil && c.guids != nil {
		copy(g[:], c.guids[first:])
	}
	if first == 0 {
		g[0] = s.guidOf(r.ep)
	}
	g.Put(r.data)
	return ib.StatusOK
}

func (s *Subnet) smaSwitchInfo(r *smaRequest) ib.Status {
	w := r.d.sw
	if w == nil {
		return ib.StatusBadMethodAttr
	}
	if r.am != 0 {
		return ib.StatusInvalidField
	}
	st := ib.StatusOK
	if r.set {
		var n smp.SwitchInfo
		_ = n.Decode(r.data)
		i := &w.info
		if n.LinearFDBTop == 0 || uint16(n.LinearFDBTop) < s.linearCap(r.d) {
			i.LinearFDBTop = n.LinearFDBTop
		} else {
			st = ib.StatusInvalidField
		}
		i.DefaultPort = n.DefaultPort
		i.DefaultMulticastPrimaryPort = n.DefaultMulticastPrimaryPort
		i.DefaultMulticastNotPrimaryPort = n.DefaultMulticastNotPrimaryPort
		i.LifeTimeValue = n.LifeTimeValue
		if n.PortStateChange {
			i.PortStateChange = false
		}
		if n.MulticastFDBTop == 0 || n.MulticastFDBTop >= ib.LIDMinMulticast-1 {
			i.MulticastFDBTop = n.MulticastFDBTop
		} else {
			st = ib.StatusInvalidField
		}
	}
	out := w.info
	out.LinearFDBCap = s.linearCap(r.d)
	clear(r.data[smp.SwitchInfoLen:])
	out.Put(r.data)
	return st
}
