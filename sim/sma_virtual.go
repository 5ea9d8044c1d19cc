package sim

import (
	"heddle/ib"
	"heddle/ib/smp"
)

// smaVirtual answers the attributes of virtualization, which belong to the port
// that received the SMP. An index that does not exist is an invalid field;
// while virtualization is off, so is every index but 0. VPort 0 is the port
// itself, configured as a port and read-only here.
func (s *Subnet) smaVirtual(r *smaRequest, attr ib.AttrID) ib.Status {
	h := s.ports[r.in].hv
	if h == nil || h.Model == SharedPort {
		return ib.StatusBadMethodAttr
	}
	st := s.virtualAttribute(r, h, attr)
	if r.set && st == ib.StatusOK {
		s.stats.VPortSets++
	}
	return st
}

func (s *Subnet) virtualAttribute(r *smaRequest, h *hyper, attr ib.AttrID) ib.Status {
	switch attr {
	case smp.AttrVirtualizationInfo:
		return s.smaVirtualizationInfo(r, h)
	case smp.AttrVPortInfo:
		return s.smaVPortInfo(r, h)
	case smp.AttrVPortGUIDInfo:
		return s.smaVPortGUIDInfo(r, h)
	case smp.AttrVPortPartitionTable:
		return s.smaVPortPartitionTable(r, h)
	}
	if r.set {
		return ib.StatusBadMethodAttr // the others are read only
	}
	switch attr {
	case smp.AttrVNodeInfo:
		return s.smaVNodeInfo(r, h)
	case smp.AttrVPortState:
		return s.smaVPortState(r, h)
	case smp.AttrVNodeDescription:
		return s.smaVNodeDescription(r, h)
	}
	return ib.StatusBadMethodAttr
}

// vportOf is the VPort of an index; nil is VPort 0.
func (h *hyper) vportOf(index uint16) (v *vport, ok bool) {
	if index == 0 {
		return nil, true
	}
	if index > h.top || !h.enabled {
		return nil, false
	}
	return &h.vps[index], true
}

// vportOf is the VPort of a modifier that consists of an index. Status applies
// if the request cannot be executed.
func (r *smaRequest) vportOf(h *hyper) (*vport, ib.Status) {
	index, ok := smp.SplitVPortMod(r.am)
	v, known := h.vportOf(index)
	switch {
	case !ok || !known:
		return nil, ib.StatusInvalidField
	case v == nil && r.set:
		return nil, ib.StatusBadMethodAttr
	}
	return v, ib.StatusOK
}

func (s *Subnet) virtualizationInfo(h *hyper) smp.VirtualizationInfo {
	i := smp.VirtualizationInfo{
		VPortCap: uint16(h.VFs), VPortIndexTop: h.top, VirtualizationEnable: h.enabled, VPortStateChange: h.changed,
		VirtualizationRevision: smp.VirtualizationRevision,
	}
	if h.Model == VSwitch {
		i.CapabilityMask = smp.VirtCapIsVSwitch
	}
	return i
}

func (s *Subnet) smaVirtualizationInfo(r *smaRequest, h *hyper) ib.Status {
	if r.am != 0 {
		return ib.StatusInvalidField
	}
	rereg := false
	if r.set {
		var n smp.VirtualizationInfo
		_ = n.Decode(r.data) // 64 bytes, cannot fail
		if n.VPortStateChange {
			h.changed = false
		}
		s.enable(h, n.VirtualizationEnable)
		rereg = n.VClientReregister
	}
	i := s.virtualizationInfo(h)
	i.VClientReregister = rereg
	i.Put(r.data)
	return ib.StatusOK
}

// smaVPortState is the states of 128 VPorts, VPort 0 being the port.
func (s *Subnet) smaVPortState(r *smaRequest, h *hyper) ib.Status {
	if first := r.am * smp.VPortsPerBlock; r.am >= smp.VPortBlocks || first > uint32(h.top) {
		return ib.StatusInvalidField
	}
	var t smp.VPortState
	for i := range t {
		switch k := int(r.am)*smp.VPortsPerBlock + i; {
		case k == 0:
			t[i] = s.ports[h.port].state
		case k <= int(h.top):
			t[i] = h.vps[k].state
		}
	}
	t.Put(r.data)
	return ib.StatusOK
}

func (s *Subnet) vportInfo(h *hyper, v *vport) smp.VPortInfo {
	if v == nil {
		pi := &s.infos[h.port]
		return smp.VPortInfo{
			VPortState: s.ports[h.port].state, GUIDCap: pi.GUIDCap, CapabilityMask: vportCaps(pi.CapabilityMask),
			PKeyViolations: pi.PKeyViolations, QKeyViolations: pi.QKeyViolations, PortGUID: s.guidOf(h.port),
			SLMask: 0xFFFF, LocalPortNum: s.ports[h.port].num,
		}
	}
	local, _ := s.vnodePorts(v)
	i := smp.VPortInfo{
		VPortState: v.state, LIDRequired: v.own, GUIDCap: uint8(v.vguids()), CapabilityMask: v.caps,
		PKeyViolations: v.pviol, QKeyViolations: v.qviol, PortGUID: s.vguid(v, 0), SLMask: v.sls, LocalPortNum: local,
	}
	if v.own {
		i.VPortLID = v.lid
	} else {
		i.LIDByVPortIndex = v.by
	}
	return i
}

// vportCaps is VPort 0's view of the port's capabilities.
func vportCaps(m ib.CapMask) (c ib.VPortCapMask) {
	for _, x := range [...]struct {
		port ib.CapMask
		v    ib.VPortCapMask
	}{
		{ib.CapIsCommunicationManagementSupported, ib.VPortCapIsCommunicationManagementSupported},
		{ib.CapIsSM, ib.VPortCapIsSM},
	} {
		if m.Has(x.port) {
			c |= x.v
		}
	}
	return c
}

func (s *Subnet) smaVPortInfo(r *smaRequest, h *hyper) ib.Status {
	v, st := r.vportOf(h)
	if st != ib.StatusOK {
		return st
	}
	rereg := false
	if r.set {
		var n smp.VPortInfo
		_ = n.Decode(r.data)
		st = statusOf(s.setVPortInfo(v, &n))
		rereg = n.ClientReregister
	}
	i := s.vportInfo(h, v)
	i.ClientReregister = rereg
	i.Put(r.data)
	return st
}

// setVPortInfo stores every valid field of n and reports whether one was
// invalid.
func (s *Subnet) setVPortInfo(v *vport, n *smp.VPortInfo) (bad bool) {
	if v.own {
		if n.VPortLID == 0 || n.VPortLID.IsUnicast() {
			v.lid = n.VPortLID
			v.h.reindex()
		} else {
			bad = true
		}
	}
	if v.h.Model == VSwitch {
		if v.guid = n.PortGUID; v.guid == 0 {
			v.guid = v.first
		}
	}
	if n.PKeyViolations == 0 {
		v.pviol = 0
	}
	if n.QKeyViolations == 0 {
		v.qviol = 0
	}
	v.sls = n.SLMask
	return s.writeVPortState(v, n.VPortState) || bad
}

// writeVPortState applies a manager's change of a VPort's state: Init to Armed
// to Active, or directly to Active, which needs the LID that the VPort
// requests; or Down, from where it returns to Init if the host wants it up.
func (s *Subnet) writeVPortState(v *vport, st ib.PortState) (bad bool) {
	switch {
	case st == ib.StateNoChange:
	case st == ib.StateDown:
		if v.state == ib.StateDown {
			return false
		}
		s.setVPortState(v, ib.StateDown)
		if v.up {
			s.setVPortState(v, ib.StateInit)
		}
		v.h.changed = true
	case st == ib.StateArmed && v.state == ib.StateInit,
		st == ib.StateActive && (v.state == ib.StateInit || v.state == ib.StateArmed) && s.lidOf(v) != 0:
		s.setVPortState(v, st)
	default:
		return true
	}
	return false
}

// vnodeGUID is the node GUID of the virtual adapter of v: the same behind all
// ports of its adapter.
func (s *Subnet) vnodeGUID(v *vport) ib.GUID {
	return s.devs[s.ports[v.h.port].dev].guid + vfGUIDStep*ib.GUID(v.idx)
}

// vnodePorts returns the port number of v at its virtual adapter, from 1, and
// the adapter's number of ports: one for each port of the physical adapter that
// has function v.idx.
func (s *Subnet) vnodePorts(v *vport) (local, n uint8) {
	d := &s.devs[s.ports[v.h.port].dev]
	for p := d.first + 1; p <= d.first+int32(d.nports); p++ {
		if h := s.ports[p].hv; h != nil && h.Model == v.h.Model && v.idx <= h.top {
			n++
			if p == v.h.port {
				local = n
			}
		}
	}
	return local, n
}

func (s *Subnet) smaVNodeInfo(r *smaRequest, h *hyper) ib.Status {
	v, st := r.vportOf(h)
	if st != ib.StatusOK {
		return st
	}
	ni := s.nodeInfo(h.port)
	i := smp.VNodeInfo{
		PartitionCap: ni.PartitionCap, LocalPortNum: ni.LocalPortNum, NumPorts: ni.NumPorts,
		VNodeGUID: ni.NodeGUID, SystemImageGUID: ni.SystemImageGUID, PortGUID: ni.PortGUID,
	}
	if v != nil {
		i.PartitionCap = uint16(s.pkeyCap(h.port))
		i.LocalPortNum, i.NumPorts = s.vnodePorts(v)
		i.VNodeGUID, i.PortGUID = s.vnodeGUID(v), s.vguid(v, 0)
	}
	i.Put(r.data)
	return ib.StatusOK
}

func (s *Subnet) smaVNodeDescription(r *smaRequest, h *hyper) ib.Status {
	v, st := r.vportOf(h)
	if st != ib.StatusOK {
		return st
	}
	d := &r.d.desc
	if v != nil {
		d = &v.desc
	}
	d.Put(r.data)
	return ib.StatusOK
}

// tableOf is the VPort and the first entry that a modifier names, for a table
// with blocks of n entries; capacity0 is VPort 0's table size, capacity that of
// the others.
func (r *smaRequest) tableOf(h *hyper, n, capacity0, capacity int) (v *vport, first int, st ib.Status) {
	index, block := smp.SplitVPortTableMod(r.am)
	v, ok := h.vportOf(index)
	first = int(block) * n
	switch {
	case !ok:
		return nil, 0, ib.StatusInvalidField
	case v == nil && r.set:
		return nil, 0, ib.StatusBadMethodAttr
	case v == nil && first >= capacity0, v != nil && first >= capacity:
		return nil, 0, ib.StatusInvalidField
	}
	return v, first, ib.StatusOK
}

func (s *Subnet) smaVPortGUIDInfo(r *smaRequest, h *hyper) ib.Status {
	v, first, st := r.tableOf(h, smp.GUIDBlockLen, int(s.infos[h.port].GUIDCap), vportGUIDCap)
	if st != ib.StatusOK {
		return st
	}
	var g smp.VPortGUIDInfo
	if r.set {
		_ = g.Decode(r.data)
		if v.alias == nil {
			v.alias = make([]ib.GUID, vportGUIDCap)
		}
		copy(v.alias[first:], g[:])
	}
	if v == nil {
		g = smp.VPortGUIDInfo{}
		if c := s.ports[h.port].cold; c != nil && c.guids != nil {
			copy(g[:], c.guids[first:])
		}
		if first == 0 {
			g[0] = s.guidOf(h.port)
		}
	} else {
		for i := range g {
			g[i] = s.vguid(v, first+i)
		}
	}
	g.Put(r.data)
	return ib.StatusOK
}

func (s *Subnet) smaVPortPartitionTable(r *smaRequest, h *hyper) ib.Status {
	capacity := s.pkeyCap(h.port)
	v, first, st := r.tableOf(h, smp.PKeyBlockLen, capacity, capacity)
	if st != ib.StatusOK {
		return st
	}
	var t smp.VPortPartitionTable
	if r.set {
		_ = t.Decode(r.data)
		if v.pkeys == nil {
			v.pkeys = make([]ib.PKey, capacity)
			v.pkeys[0] = ib.PKeyDefaultFull
		}
		copy(v.pkeys[first:], t[:])
	}
	for i := range t {
		if v == nil {
			t[i] = s.pkeyAt(h.port, first+i)
		} else {
			t[i] = s.vpkeyAt(v, first+i)
		}
	}
	t.Put(r.data)
	return ib.StatusOK
}
