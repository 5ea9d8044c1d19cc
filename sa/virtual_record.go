package sa

import (
	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/ib/smp"
	"heddle/subnet"
)

// Records of virtualization. Their key is the LID of the physical port (any of its LMC
// range), the VPort index and the block. The masks list the components that a query may
// use; others are refused. VPort 0 is the port itself; it has port records and none of
// these.
const (
	vportComps  = wire.VPortCompLID | wire.VPortCompVPortIndex | wire.VPortCompBlockNum
	vportComps3 = vportComps | wire.VPortInfoCompGUID // the same bit as VNodeCompGUID
)

// virtualServer is server for virtualization records.
func virtualServer(a ib.AttrID) (func(*query), int) {
	switch a {
	case wire.AttrVirtualizationInfoRecord:
		return virtualizationInfoRecords, wire.VirtualizationInfoRecordLen
	case wire.AttrVPortInfoRecord:
		return vportInfoRecords, wire.VPortInfoRecordLen
	case wire.AttrVNodeRecord:
		return vnodeRecords, wire.VNodeRecordLen
	case wire.AttrVPortGUIDInfoRecord:
		return vportGUIDRecords, wire.VPortGUIDInfoRecordLen
	case wire.AttrVPortPartitionTableRecord:
		return vportPKeyRecords, wire.VPortPartitionTableRecordLen
	}
	return nil, 0
}

// virtualComps refuses components that the record does not have.
func (q *query) virtualComps(may wire.CompMask) bool {
	if q.mask&^may != 0 {
		q.status = statusInvalid
	}
	return q.status == 0
}

func virtualizationInfoRecords(q *query) {
	var want wire.VirtualizationInfoRecord
	if !q.virtualComps(vportComps) || want.Decode(q.data) != nil {
		return
	}
	if q.has(wire.VPortCompVPortIndex) && want.VPortIndex != 0 || q.has(wire.VPortCompBlockNum) && want.BlockNum != 0 {
		return
	}
	each(q, wire.VPortCompLID, func(p *subnet.Port) {
		if p.Adapter == nil || p.Adapter.Model != subnet.VSwitch && p.Adapter.Model != subnet.VPorts {
			return
		}
		if b := q.record(); b != nil {
			r := wire.VirtualizationInfoRecord{VPortRID: wire.VPortRID{LID: p.LID}, VirtualizationInfo: p.Adapter.Info}
			r.Put(b)
		}
	})
}

// eachVPort calls fn for the VPorts that the key (without the block) selects and the
// requester sees, by physical port and index, with the key of their records. A VPort
// with unknown P_Keys is visible if its physical port is.
func eachVPort(q *query, want *wire.VPortRID, fn func(p *subnet.Port, rid wire.VPortRID)) {
	s := q.s
	list := s.EachVPort()
	if q.has(wire.VPortCompLID) {
		at := s.PortByLID(want.LID)
		if at < 0 || s.Ports[at].Virtual != nil {
			return
		}
		list = s.VPortsOf(at)
	}
	for i := range list {
		if q.full {
			return
		}
		p := s.Ports[i]
		if q.has(wire.VPortCompVPortIndex) && p.Virtual.Index != want.VPortIndex {
			continue
		}
		who := i
		if p.PKeys == nil {
			who = p.Virtual.Port
		}
		if q.sees(who) {
			fn(p, wire.VPortRID{LID: s.Ports[p.Virtual.Port].LID, VPortIndex: p.Virtual.Index})
		}
	}
}

// blocks calls fn with the key of each selected block of a table with that many
// entries.
func (q *query) blocks(want *wire.VPortRID, rid wire.VPortRID, entries, perBlock int, fn func(rid wire.VPortRID, first int)) {
	for first := 0; first < entries; first += perBlock {
		rid.BlockNum = uint16(first / perBlock)
		if !q.has(wire.VPortCompBlockNum) || rid.BlockNum == want.BlockNum {
			fn(rid, first)
		}
	}
}

func vportInfoRecords(q *query) {
	var want wire.VPortInfoRecord
	if !q.virtualComps(vportComps3) || want.Decode(q.data) != nil {
		return
	}
	eachVPort(q, &want.VPortRID, func(p *subnet.Port, rid wire.VPortRID) {
		if q.has(wire.VPortInfoCompGUID) && p.Virtual.Info.PortGUID != want.VPortInfo.PortGUID {
			return
		}
		q.blocks(&want.VPortRID, rid, 1, 1, func(rid wire.VPortRID, _ int) {
			if b := q.record(); b != nil {
				r := wire.VPortInfoRecord{VPortRID: rid, VPortInfo: p.Virtual.Info}
				r.Put(b)
			}
		})
	})
}

func vnodeRecords(q *query) {
	var want wire.VNodeRecord
	if !q.virtualComps(vportComps3) || want.Decode(q.data) != nil {
		return
	}
	eachVPort(q, &want.VPortRID, func(p *subnet.Port, rid wire.VPortRID) {
		if q.has(wire.VNodeCompGUID) && p.Virtual.Node.VNodeGUID != want.VNodeInfo.VNodeGUID {
			return
		}
		q.blocks(&want.VPortRID, rid, 1, 1, func(rid wire.VPortRID, _ int) {
			if b := q.record(); b != nil {
				r := wire.VNodeRecord{VPortRID: rid, VNodeInfo: p.Virtual.Node}
				r.VNodeDescription.Set(p.Virtual.Desc)
				r.Put(b)
			}
		})
	})
}

func vportGUIDRecords(q *query) {
	var want wire.VPortGUIDInfoRecord
	if !q.virtualComps(vportComps) || want.Decode(q.data) != nil {
		return
	}
	eachVPort(q, &want.VPortRID, func(p *subnet.Port, rid wire.VPortRID) {
		q.blocks(&want.VPortRID, rid, max(int(p.Virtual.Info.GUIDCap), len(p.Aliases), 1), smp.GUIDBlockLen, func(rid wire.VPortRID, first int) {
			if b := q.record(); b != nil {
				r := wire.VPortGUIDInfoRecord{VPortRID: rid, VPortGUIDInfo: guidBlock(p, first)}
				r.Put(b)
			}
		})
	})
}

// guidBlock returns a block of a port's GUID table from index first.
func guidBlock(p *subnet.Port, first int) (b smp.GUIDInfo) {
	if first < len(p.Aliases) {
		copy(b[:], p.Aliases[first:])
	}
	if first == 0 {
		b[0] = p.GUID
	}
	return b
}

func vportPKeyRecords(q *query) {
	var want wire.VPortPartitionTableRecord
	if !q.virtualComps(vportComps) {
		return
	}
	if !q.trusted {
		q.status = statusInvalid
		return
	}
	if want.Decode(q.data) != nil {
		return
	}
	eachVPort(q, &want.VPortRID, func(p *subnet.Port, rid wire.VPortRID) {
		if p.PKeys == nil {
			return
		}
		q.blocks(&want.VPortRID, rid, max(int(p.Virtual.Node.PartitionCap), len(p.PKeys), 1), smp.PKeyBlockLen, func(rid wire.VPortRID, first int) {
			b := q.record()
			if b == nil {
				return
			}
			r := wire.VPortPartitionTableRecord{VPortRID: rid}
			if first < len(p.PKeys) {
				copy(r.VPortPartitionTable[:], p.PKeys[first:])
			}
			r.Put(b)
		})
	})
}

// eachOwnLID calls fn for the VPorts with their own LIDs that the requester sees and
// the LID component selects: for records that show them as ports.
func eachOwnLID(q *query, lidComp wire.CompMask, fn func(p *subnet.Port)) {
	s := q.s
	from, to := s.FirstVPort(), int32(len(s.Ports))
	if q.has(lidComp) {
		i := s.PortByLID(ib.LID(uint16(q.data[0])<<8 | uint16(q.data[1])))
		if i < s.FirstVPort() {
			return
		}
		from, to = i, i+1
	}
	for i := from; i < to && !q.full; i++ {
		if p := s.Ports[i]; p.EndPort >= 0 && p.Virtual.OwnLID && q.sees(i) {
			fn(p)
		}
	}
}

// nodeInfoOf is the NodeInfo that a record shows for an end port.
func (q *query) nodeInfoOf(p *subnet.Port) (n smp.NodeInfo, desc string) {
	nd := &q.s.Nodes[p.Node]
	n, desc = nd.Info, nd.Description()
	n.PortGUID, n.LocalPortNum = p.GUID, p.Num
	if v := p.Virtual; v != nil {
		n.NodeGUID, n.SystemImageGUID = v.Node.VNodeGUID, v.Node.SystemImageGUID
		n.NumPorts, n.LocalPortNum, n.PartitionCap = v.Node.NumPorts, v.Node.LocalPortNum, v.Node.PartitionCap
		desc = v.Desc
	}
	return n, desc
}

// portInfoOf is the PortInfo that a record shows for a VPort: that of its physical
// port with the VPort's own fields.
func (q *query) portInfoOf(p *subnet.Port) smp.PortInfo {
	i := p.Info
	i.LID, i.LMC, i.LocalPortNum = p.LID, 0, p.Virtual.Node.LocalPortNum
	return i
}
