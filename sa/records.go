package sa

import (
	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/ib/smp"
	"heddle/subnet"
)

func classPortInfo(q *query) {
	c := wire.ClassPortInfo{
		BaseVersion: 1, ClassVersion: wire.ClassVersion,
		CapabilityMask: ib.ClassCapCapMask2 | wire.CapUDMulticast | wire.CapMultiPath | wire.CapPortInfoCapMatch,
		CapabilityMask2: wire.Cap2MulticastTop | wire.Cap2AliasGUIDs | wire.Cap2FullPortInfo | wire.Cap2ExtSpeeds |
			wire.Cap2MulticastService | wire.Cap2PortInfoCap2Match | wire.Cap2SendOnlyFull |
			wire.Cap2Width2x | wire.Cap2HDR | wire.Cap2NDR,
		RespTimeValue: 16, // 268 ms
		RedirectQP:    1, RedirectQKey: ib.QKeyGSI, TrapQKey: ib.QKeyGSI,
	}
	if q.opt.QoS != nil {
		c.CapabilityMask2 |= wire.Cap2QoS
	}
	if b := q.record(); b != nil {
		c.Put(b)
	}
}

// comp is a component that is compared for equality: its mask bit, and its
// offset and width in the record, in bits.
type comp struct {
	bit        uint8
	off, width uint16
}

// match compares the components that the mask selects. rec and want are whole
// records.
func match(mask wire.CompMask, comps []comp, rec, want []byte) bool {
	for _, c := range comps {
		if mask&(1<<c.bit) == 0 {
			continue
		}
		first, last := c.off/8, (c.off+c.width+7)/8
		if c.off%8 == 0 && c.width%8 == 0 {
			if string(rec[first:last]) != string(want[first:last]) {
				return false
			}
			continue
		}
		var x uint32 // fields of odd width lie within 32 bits
		for i := first; i < last; i++ {
			x = x<<8 | uint32(rec[i]^want[i])
		}
		x >>= last*8 - c.off - c.width
		if x&(1<<c.width-1) != 0 {
			return false
		}
	}
	return true
}

var nodeComps = []comp{
	{2, 32, 8},
	{3, 40, 8},
	{4, 48, 8},
	{5, 56, 8},
	{6, 64, 64},
	{7, 128, 64},
	{8, 192, 64},
	{9, 256, 16},
	{10, 272, 16},
	{11, 288, 32},
	{12, 320, 8},
	{13, 328, 24},
}

func nodeRecords(q *query) {
	var want [smp.NodeDescriptionLen]byte
	copy(want[:], q.data[44:108])
	desc := smp.NodeDescription(want)
	add := func(p *subnet.Port) {
		r := wire.NodeRecord{LID: p.LID}
		var is string
		r.NodeInfo, is = q.nodeInfoOf(p)
		r.NodeDescription.Set(is)
		if q.has(wire.NodeCompNodeDescription) && r.NodeDescription.String() != desc.String() {
			return
		}
		if b := q.record(); b != nil {
			if r.Put(b); !match(q.mask, nodeComps, b, q.data) {
				q.drop()
			}
		}
	}
	each(q, wire.NodeCompLID, add)
	if q.opt.VirtRecords {
		eachOwnLID(q, wire.NodeCompLID, add)
	}
}

func switchInfoRecords(q *query) {
	each(q, wire.SwitchInfoCompLID, func(p *subnet.Port) {
		n := &q.s.Nodes[p.Node]
		if n.Info.NodeType != ib.NodeSwitch {
			return
		}
		if b := q.record(); b != nil {
			r := wire.SwitchInfoRecord{LID: p.LID, SwitchInfo: n.Switch}
			r.Put(b)
		}
	})
}

// smInfoRecords answers with the managers of the subnet. SM_Key and ActCount
// are not compared: the key is secret, and the count has changed since.
func smInfoRecords(q *query) {
	s := q.s
	var want wire.SMInfoRecord
	if want.Decode(q.data) != nil {
		q.status = statusInvalid
		return
	}
	lidOf := int32(-1)
	if q.has(wire.SMInfoCompLID) {
		if lidOf = s.PortByLID(want.LID); lidOf < 0 {
			return
		}
	}
	add := func(m subnet.SM) {
		port := s.PortByGUID(m.GUID)
		r := wire.SMInfoRecord{LID: m.LID, SMInfo: smp.SMInfo{
			GUID: m.GUID, ActCount: m.ActCount,
			Priority: m.Priority, SMState: smp.SMState(m.State),
		}}
		if q.has(wire.SMInfoCompLID) && port != lidOf || q.has(wire.SMInfoCompGUID) && want.SMInfo.GUID != r.SMInfo.GUID ||
			q.has(wire.SMInfoCompPriority) && want.SMInfo.Priority != r.SMInfo.Priority ||
			q.has(wire.SMInfoCompSMState) && want.SMInfo.SMState != r.SMInfo.SMState ||
			port >= 0 && !q.sees(port) {
			return
		}
		if b := q.record(); b != nil {
			r.Put(b)
		}
	}
	add(subnet.SM{GUID: s.PortGUID, LID: s.LID, Priority: s.Priority, State: s.State, ActCount: s.ActCount})
	for _, m := range s.SMs {
		add(m)
	}
}

func linkRecords(q *query) {
	var want wire.LinkRecord
	if want.Decode(q.data) != nil {
		q.status = statusInvalid
		return
	}
	s := q.s
	each(q, wire.LinkCompFromLID, func(ep *subnet.Port) {
		ports := q.ports(ep)
		for i := range ports {
			p := ports[i]
			far := s.Port(p.Peer)
			if far == nil || far.LID == 0 || !q.visible(far) { // a link is visible to a requester that sees both ends
				continue
			}
			if q.has(wire.LinkCompFromPort) && want.FromPort != p.Num || q.has(wire.LinkCompToPort) && want.ToPort != far.Num ||
				q.has(wire.LinkCompToLID) && !ownsLID(far, want.ToLID) {
				continue
			}
			if b := q.record(); b != nil {
				r := wire.LinkRecord{FromLID: ep.LID, FromPort: p.Num, ToPort: far.Num, ToLID: far.LID}
				r.Put(b)
			}
		}
	})
}
