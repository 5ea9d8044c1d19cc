package sa

import (
	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/ib/smp"
	"heddle/route"
	"heddle/subnet"
)

// skips reports whether a component that distinguishes the records of one port
// excludes a record.
func (q *query) skips(bit wire.CompMask, asked, have int) bool { return q.has(bit) && asked != have }

// lftRecords answers LinearForwardingTableRecord queries: the blocks up to the
// highest LID.
func lftRecords(q *query) {
	var want wire.LFTRecord
	_ = want.Decode(q.data)
	each(q, wire.LFTCompLID, func(p *subnet.Port) {
		row := q.s.LFT(p.Node)
		for b := 0; b*route.BlockLen < len(row); b++ {
			if q.skips(wire.LFTCompBlock, int(want.Block), b) {
				continue
			}
			rec := q.record()
			if rec == nil {
				return
			}
			r := wire.LFTRecord{LID: p.LID, Block: uint16(b)}
			copy(r.LFT[:], row[b*route.BlockLen:])
			r.Put(rec)
		}
	})
}

// mftRecords answers MulticastForwardingTableRecord queries: the blocks that
// hold a group.
func mftRecords(q *query) {
	var want wire.MFTRecord
	_ = want.Decode(q.data)
	each(q, wire.MFTCompLID, func(p *subnet.Port) {
		for _, m := range q.s.MFTBlocks(p.Node) {
			if q.skips(wire.MFTCompBlock, int(want.Block), int(m.Block)) || q.skips(wire.MFTCompPosition, int(want.Position), int(m.Position)) {
				continue
			}
			rec := q.record()
			if rec == nil {
				return
			}
			r := wire.MFTRecord{LID: p.LID, Block: m.Block, Position: m.Position, MFT: *m.Masks}
			r.Put(rec)
		}
	})
}

// guidInfoRecords answers GUIDInfoRecord queries: the port GUID and its aliases. A
// VPort appears only in a query for its own LID.
func guidInfoRecords(q *query) {
	var want wire.GUIDInfoRecord
	_ = want.Decode(q.data)
	add := func(p *subnet.Port, room uint8) {
		for b := 0; b*smp.GUIDBlockLen < int(room); b++ {
			if q.skips(wire.GUIDInfoCompBlock, int(want.Block), b) {
				continue
			}
			r := wire.GUIDInfoRecord{LID: p.LID, Block: uint8(b), GUIDInfo: guidBlock(p, b*smp.GUIDBlockLen)}
			fits := true
			for i, g := range r.GUIDInfo {
				fits = fits && (!q.has(wire.GUIDInfoCompGUID0<<i) || g == want.GUIDInfo[i])
			}
			if !fits {
				continue
			}
			rec := q.record()
			if rec == nil {
				return
			}
			r.Put(rec)
		}
	}
	each(q, wire.GUIDInfoCompLID, func(p *subnet.Port) { add(p, p.Info.GUIDCap) })
	if q.has(wire.GUIDInfoCompLID) {
		eachOwnLID(q, wire.GUIDInfoCompLID, func(p *subnet.Port) { add(p, p.Virtual.Info.GUIDCap) })
	}
}

// pKeyRecords answers P_KeyTableRecord queries of trusted requesters: the
// tables as read from the ports, including empty blocks and external switch
// ports.
func pKeyRecords(q *query) {
	if !q.trusted {
		q.status = statusInvalid
		return
	}
	var want wire.PKeyTableRecord
	_ = want.Decode(q.data)
	each(q, wire.PKeyCompLID, func(ep *subnet.Port) {
		nd := &q.s.Nodes[ep.Node]
		ports := q.ports(ep)
		for i := range ports {
			p := ports[i]
			if p.PKeys == nil || q.skips(wire.PKeyCompPortNum, int(want.PortNum), int(p.Num)) {
				continue
			}
			room := int(nd.Info.PartitionCap)
			if nd.Info.NodeType == ib.NodeSwitch && p.Num != 0 {
				room = int(nd.Switch.PartitionEnforcementCap)
			}
			room = max(room, len(p.PKeys), 1)
			for b := 0; b*smp.PKeyBlockLen < room; b++ {
				if q.skips(wire.PKeyCompBlock, int(want.Block), b) {
					continue
				}
				rec := q.record()
				if rec == nil {
					return
				}
				r := wire.PKeyTableRecord{LID: ep.LID, Block: uint16(b), PortNum: p.Num}
				if first := b * smp.PKeyBlockLen; first < len(p.PKeys) {
					copy(r.PKeyTable[:], p.PKeys[first:])
				}
				r.Put(rec)
			}
		}
	})
}

// slToVLRecords answers SLtoVLMappingTableRecord queries: one record for each
// pair of input and output ports of a switch, one with ports 0 for other end
// ports.
func slToVLRecords(q *query) {
	var want wire.SLtoVLRecord
	_ = want.Decode(q.data)
	each(q, wire.SLtoVLCompLID, func(ep *subnet.Port) {
		if q.unreadLanes(ep.Node) {
			return
		}
		add := func(in, out, inShown, outShown uint8) {
			if q.skips(wire.SLtoVLCompInputPort, int(want.InputPort), int(inShown)) ||
				q.skips(wire.SLtoVLCompOutputPort, int(want.OutputPort), int(outShown)) {
				return
			}
			t, ok := q.s.SLtoVL(ep.Node, in, out)
			if !ok {
				return
			}
			if rec := q.record(); rec != nil {
				r := wire.SLtoVLRecord{LID: ep.LID, InputPort: inShown, OutputPort: outShown, SLtoVL: t}
				r.Put(rec)
			}
		}
		nd := &q.s.Nodes[ep.Node]
		if nd.Info.NodeType != ib.NodeSwitch {
			add(0, ep.Num, 0, 0)
			return
		}
		for out := range int(nd.Info.NumPorts) + 1 {
			for in := range int(nd.Info.NumPorts) + 1 {
				add(uint8(in), uint8(out), uint8(in), uint8(out))
			}
		}
	})
}

// vlArbRecords answers VLArbitrationTableRecord queries: four blocks a port.
func vlArbRecords(q *query) {
	var want wire.VLArbRecord
	_ = want.Decode(q.data)
	each(q, wire.VLArbCompLID, func(ep *subnet.Port) {
		if q.unreadLanes(ep.Node) {
			return
		}
		ports := q.ports(ep)
		// A query may call a CA's port 0, as osmtest does.
		anyPort := want.OutputPort == 0 && q.s.Nodes[ep.Node].Info.NodeType != ib.NodeSwitch
		for i := range ports {
			for b := uint8(1); b <= 4; b++ {
				if !anyPort && q.skips(wire.VLArbCompOutputPort, int(want.OutputPort), int(ports[i].Num)) || q.skips(wire.VLArbCompBlock, int(want.Block), int(b)) {
					continue
				}
				t, ok := q.s.VLArb(ep.Node, ports[i].Num, b)
				if !ok {
					continue
				}
				rec := q.record()
				if rec == nil {
					return
				}
				r := wire.VLArbRecord{LID: ep.LID, OutputPort: ports[i].Num, Block: b, VLArb: t}
				r.Put(rec)
			}
		}
	})
}

// hasLane reports whether packets of a service level get from a port to a LID.
// A link may map the level to lane 15, which discards. Unknown tables count as
// having a lane for every level.
func (q *query) hasLane(src int32, dlid ib.LID, sl ib.SL) bool {
	p := q.s.Ports[src]
	if p.Num != 0 && q.deadLane(p.Node, 0, p.Num, sl) {
		return false
	}
	var buf [subnet.MaxHops]subnet.Hop
	hops, ok := q.s.Trace(src, dlid, buf[:0])
	for _, h := range hops {
		if h.Out != 0 && q.deadLane(h.Node, h.In, h.Out, sl) {
			return false
		}
	}
	return ok
}

func (q *query) deadLane(node int32, in, out uint8, sl ib.SL) bool {
	t, ok := q.s.SLtoVL(node, in, out)
	return ok && t[sl&15] == 15
}
