package sa

import (
	"slices"

	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/ib/smp"
	"heddle/route"
	"heddle/subnet"
)

// skips reports whether a component that tells the records of a port apart
// leaves one out.
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

// mftRecords answers MulticastForwardingTableRecord queries: the blocks up to
// the highest multicast LID that the switch has an entry for, all positions of
// each.
func mftRecords(q *query) {
	var want wire.MFTRecord
	_ = want.Decode(q.data)
	each(q, wire.MFTCompLID, func(p *subnet.Port) {
		blocks := q.mftBlocks(p.Node)
		positions := (int(q.s.Nodes[p.Node].Info.NumPorts) + 16) / 16
		for b := range blocks {
			for pos := range positions {
				if q.skips(wire.MFTCompBlock, int(want.Block), b) || q.skips(wire.MFTCompPosition, int(want.Position), pos) {
					continue
				}
				rec := q.record()
				if rec == nil {
					return
				}
				r := wire.MFTRecord{LID: p.LID, Block: uint16(b), Position: uint8(pos), MFT: q.mft(p.Node, b, pos)}
				r.Put(rec)
			}
		}
	})
}

// eachTree calls fn for the multicast trees that cross a switch.
func (q *query) eachTree(node int32, fn func(mlid ib.LID, ports *[4]uint64)) {
	t := q.s.Tables
	sw := q.s.Nodes[node].SwitchIndex
	if sw < 0 || t == nil || t.Multicast == nil {
		return
	}
	for i := range t.Multicast.Trees {
		x := &t.Multicast.Trees[i]
		if j, ok := slices.BinarySearch(x.Switches, sw); ok {
			fn(x.MLID, &x.Ports[j])
		}
	}
}

// mftBlocks is one more than the number of the last block in use.
func (q *query) mftBlocks(node int32) (n int) {
	q.eachTree(node, func(mlid ib.LID, _ *[4]uint64) {
		b, _ := smp.MFTBlockOf(mlid)
		n = max(n, int(b)+1)
	})
	return n
}

func (q *query) mft(node int32, block, position int) (t smp.MFT) {
	q.eachTree(node, func(mlid ib.LID, ports *[4]uint64) {
		if b, i := smp.MFTBlockOf(mlid); int(b) == block {
			t[i] = uint16(ports[position/4] >> (position % 4 * 16))
		}
	})
	return t
}

// guidInfoRecords answers GUIDInfoRecord queries: the port GUID and its aliases.
func guidInfoRecords(q *query) {
	var want wire.GUIDInfoRecord
	_ = want.Decode(q.data)
	each(q, wire.GUIDInfoCompLID, func(p *subnet.Port) {
		for b := 0; b*smp.GUIDBlockLen < int(p.Info.GUIDCap); b++ {
			if q.skips(wire.GUIDInfoCompBlock, int(want.Block), b) {
				continue
			}
			r := wire.GUIDInfoRecord{LID: p.LID, Block: uint8(b)}
			if b*smp.GUIDBlockLen < len(p.Aliases) {
				copy(r.GUIDInfo[:], p.Aliases[b*smp.GUIDBlockLen:])
			}
			if b == 0 {
				r.GUIDInfo[0] = p.GUID
			}
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
	})
}

// pKeyRecords answers P_KeyTableRecord queries of those who are trusted: the
// tables as the ports have them, empty blocks and switch external ports
// included.
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
			p := &ports[i]
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

// lanes is what a snapshot knows of SL-to-VL and VL arbitration tables.
type lanes interface {
	SLtoVL(node int32, in, out uint8) (smp.SLtoVL, bool)
	VLArb(node int32, port, block uint8) (smp.VLArb, bool)
}

// slToVLRecords answers SLtoVLMappingTableRecord queries: one record for each
// input and output port of a switch, one with ports 0 for other end ports.
func slToVLRecords(q *query) {
	var want wire.SLtoVLRecord
	_ = want.Decode(q.data)
	l, ok := any(q.s).(lanes)
	if !ok {
		q.status = ib.StatusBadMethodAttr
		return
	}
	each(q, wire.SLtoVLCompLID, func(ep *subnet.Port) {
		add := func(in, out, inShown, outShown uint8) {
			if q.skips(wire.SLtoVLCompInputPort, int(want.InputPort), int(inShown)) ||
				q.skips(wire.SLtoVLCompOutputPort, int(want.OutputPort), int(outShown)) {
				return
			}
			t, ok := l.SLtoVL(ep.Node, in, out)
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
	l, ok := any(q.s).(lanes)
	if !ok {
		q.status = ib.StatusBadMethodAttr
		return
	}
	each(q, wire.VLArbCompLID, func(ep *subnet.Port) {
		ports := q.ports(ep)
		for i := range ports {
			for b := uint8(1); b <= 4; b++ {
				if q.skips(wire.VLArbCompOutputPort, int(want.OutputPort), int(ports[i].Num)) || q.skips(wire.VLArbCompBlock, int(want.Block), int(b)) {
					continue
				}
				t, ok := l.VLArb(ep.Node, ports[i].Num, b)
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

// hasLane reports whether packets of a service level get through from a port to
// a LID: a link may map it to lane 15, which means discard. Tables that are not
// known are taken to have a lane for all.
func (q *query) hasLane(src int32, dlid ib.LID, sl ib.SL) bool {
	l, ok := any(q.s).(lanes)
	if !ok {
		return true
	}
	p := &q.s.Ports[src]
	if p.Num != 0 && deadLane(l, p.Node, 0, p.Num, sl) {
		return false
	}
	var buf [subnet.MaxHops]subnet.Hop
	hops, ok := q.s.Trace(src, dlid, buf[:0])
	for _, h := range hops {
		if h.Out != 0 && deadLane(l, h.Node, h.In, h.Out, sl) {
			return false
		}
	}
	return ok
}

func deadLane(l lanes, node int32, in, out uint8, sl ib.SL) bool {
	t, ok := l.SLtoVL(node, in, out)
	return ok && t[sl&15] == 15
}
