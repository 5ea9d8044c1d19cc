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
		CapabilityMask: wire.CapPortInfoCapMatch,
		CapabilityMask2: wire.Cap2FullPortInfo | wire.Cap2ExtSpeeds | wire.Cap2PortInfoCap2Match |
			wire.Cap2Width2x | wire.Cap2HDR | wire.Cap2NDR,
		RespTimeValue: 16, // 268 ms
		RedirectQP:    1, RedirectQKey: ib.QKeyGSI, TrapQKey: ib.QKeyGSI,
	}
	c.CapabilityMask |= ib.ClassCapCapMask2
	if b := q.record(); b != nil {
		c.Put(b)
	}
}

// comp is a component that must be equal: its mask bit and where it is in the
// record, in bits.
type comp struct {
	bit        uint8
	off, width uint16
}

// match compares the components that the mask asks for. Both are whole
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
	each(q, wire.NodeCompLID, func(p *subnet.Port) {
		n := &q.s.Nodes[p.Node]
		r := wire.NodeRecord{LID: p.LID, NodeInfo: n.Info}
		r.NodeInfo.PortGUID, r.NodeInfo.LocalPortNum = p.GUID, p.Num
		r.NodeDescription.Set(n.Desc)
		if q.has(wire.NodeCompNodeDescription) && r.NodeDescription.String() != desc.String() {
			return
		}
		if b := q.record(); b != nil {
			if r.Put(b); !match(q.mask, nodeComps, b, q.data) {
				q.drop()
			}
		}
	})
}

// each calls fn for the end ports that the LID component (and nothing else)
// leaves, in port-GUID order.
func each(q *query, lidComp wire.CompMask, fn func(*subnet.Port)) {
	s := q.s
	if q.has(lidComp) {
		lid := ib.LID(uint16(q.data[0])<<8 | uint16(q.data[1]))
		if i := s.PortByLID(lid); i >= 0 && q.visible(&s.Ports[i]) {
			fn(&s.Ports[i])
		}
		return
	}
	for _, i := range s.EndPortPort {
		if q.full {
			return
		}
		if p := &s.Ports[i]; q.visible(p) {
			fn(p)
		}
	}
}

// portComps are the components of PortInfoRecord; those that are matched in
// another way (LID, PortNum, Options, M_Key, CapabilityMask) are not here.
var portComps = func() []comp {
	pi := []struct {
		bit        uint8
		off, width uint16 // inside PortInfo
	}{
		{4, 64, 64},
		{5, 128, 16},
		{6, 144, 16},
		{8, 192, 16},
		{9, 208, 16},
		{10, 224, 8},
		{11, 232, 8},
		{12, 240, 8},
		{13, 248, 8},
		{14, 256, 4},
		{15, 260, 4},
		{16, 264, 4},
		{17, 268, 4},
		{18, 272, 2},
		{20, 277, 3},
		{21, 280, 4},
		{22, 284, 4},
		{23, 288, 4},
		{24, 292, 4},
		{25, 296, 4},
		{26, 300, 4},
		{27, 304, 8},
		{28, 312, 8},
		{29, 320, 8},
		{30, 328, 4},
		{31, 332, 4},
		{32, 336, 3},
		{33, 339, 5},
		{34, 344, 4},
		{35, 348, 1},
		{36, 349, 1},
		{37, 350, 1},
		{38, 351, 1},
		{39, 352, 16},
		{40, 368, 16},
		{41, 384, 16},
		{42, 400, 8},
		{43, 408, 1},
		{44, 409, 2},
		{45, 411, 5},
		{47, 419, 5},
		{48, 424, 4},
		{49, 428, 4},
		{50, 432, 16},
		{52, 456, 24},
		{54, 496, 4},
		{55, 500, 4},
		{57, 507, 5},
	}
	out := make([]comp, len(pi))
	for i, c := range pi {
		out[i] = comp{c.bit, c.off + 32, c.width}
	}
	return out
}()

func portInfoRecords(q *query) {
	if q.has(wire.PortInfoCompMKey) {
		return // keys are not told, and so not guessed by asking either
	}
	var want wire.PortInfoRecord
	if want.Decode(q.data) != nil {
		q.status = statusInvalid
		return
	}
	s := q.s
	subset := q.mod&wire.PortInfoCapMatch != 0
	fits := func(have, asked uint32) bool { return have == asked || subset && have&asked == asked }
	each(q, wire.PortInfoCompLID, func(ep *subnet.Port) {
		ports := s.Ports[s.PortIndex(subnet.Ref{Node: ep.Node, Port: ep.Num}):][:1]
		if s.Nodes[ep.Node].Info.NodeType == ib.NodeSwitch {
			ports = s.NodePorts(ep.Node)
		}
		for i := range ports {
			p := &ports[i]
			if !p.Known || q.has(wire.PortInfoCompPortNum) && p.Num != want.PortNum {
				continue
			}
			if q.has(wire.PortInfoCompCapabilityMask) && !fits(uint32(p.Info.CapabilityMask), uint32(want.PortInfo.CapabilityMask)) ||
				q.has(wire.PortInfoCompCapabilityMask2) && !fits(uint32(p.Info.CapabilityMask2), uint32(want.PortInfo.CapabilityMask2)) {
				continue
			}
			b := q.record()
			if b == nil {
				return
			}
			r := wire.PortInfoRecord{LID: ep.LID, PortNum: p.Num, PortInfo: p.Info}
			if q.has(wire.PortInfoCompOptions) {
				r.Options = want.Options
			}
			if !q.trusted {
				r.PortInfo.MKey = 0
			}
			if r.Options&wire.PortInfoRawOption == 0 {
				oldSpeeds(&r.PortInfo, s.Ports[s.Nodes[ep.Node].First].Info.CapabilityMask|ep.Info.CapabilityMask)
			}
			if r.Put(b); !match(q.mask, portComps, b, q.data) {
				q.drop()
			}
		}
	})
}

// oldSpeeds shows a port at an extended speed as QDR in the legacy fields
// too, for clients that know no others.
func oldSpeeds(p *smp.PortInfo, mask ib.CapMask) {
	if !mask.Has(ib.CapIsExtendedSpeedsSupported) || p.LinkSpeedExtActive == 0 && p.LinkSpeedExtActive2 == 0 {
		return
	}
	p.LinkSpeedSupported |= ib.SpeedBitQDR
	p.LinkSpeedEnabled |= ib.SpeedBitQDR
	p.LinkSpeedActive = ib.SpeedBitQDR
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

func smInfoRecords(q *query) {
	s := q.s
	var want wire.SMInfoRecord
	if want.Decode(q.data) != nil {
		q.status = statusInvalid
		return
	}
	add := func(m subnet.SM) {
		r := wire.SMInfoRecord{LID: m.LID, SMInfo: smp.SMInfo{
			GUID: m.GUID, ActCount: m.ActCount,
			Priority: m.Priority, SMState: smp.SMState(m.State),
		}}
		if q.has(wire.SMInfoCompLID) && want.LID != r.LID || q.has(wire.SMInfoCompGUID) && want.SMInfo.GUID != r.SMInfo.GUID ||
			q.has(wire.SMInfoCompPriority) && want.SMInfo.Priority != r.SMInfo.Priority ||
			q.has(wire.SMInfoCompSMState) && want.SMInfo.SMState != r.SMInfo.SMState {
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
		ports := s.Ports[s.PortIndex(subnet.Ref{Node: ep.Node, Port: ep.Num}):][:1]
		if s.Nodes[ep.Node].Info.NodeType == ib.NodeSwitch {
			ports = s.NodePorts(ep.Node)
		}
		for i := range ports {
			p := &ports[i]
			far := s.Port(p.Peer)
			if far == nil || far.LID == 0 || !q.visible(far) || !s.Share(q.endPort(p), q.endPort(far)) {
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

// LFTRecord's components beside the LID.
const lftCompBlock wire.CompMask = 1 << 1

func lftRecords(q *query) {
	var want wire.LFTRecord
	if want.Decode(q.data) != nil {
		q.status = statusInvalid
		return
	}
	each(q, 1, func(p *subnet.Port) {
		row := q.s.LFT(p.Node)
		for b := 0; b*64 < len(row); b++ {
			if q.has(lftCompBlock) && int(want.Block) != b {
				continue
			}
			rec := q.record()
			if rec == nil {
				return
			}
			r := wire.LFTRecord{LID: p.LID, Block: uint16(b)}
			copy(r.LFT[:], row[b*64:])
			r.Put(rec)
		}
	})
}
