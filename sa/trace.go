package sa

import (
	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/subnet"
)

// traceRecords answers SubnAdmGetTraceTable. A PathRecord names the path; each node
// on it gives a record, in the order in which packets pass. IDs are GUIDs, which
// never change, so IDGeneration is 0. The ID is 0 for a node with which the
// requester shares no partition: the path is visible, the node's identity is not. A
// path between virtual ports is traced between their physical ports.
func traceRecords(q *query) {
	var r wire.PathRecord
	if r.Decode(q.data) != nil {
		q.status = statusInvalid
		return
	}
	src, dst, ok := q.pathEnds(&r)
	if !ok {
		return
	}
	if src.port < 0 || dst.port < 0 {
		q.status = statusInsufficient
		return
	}
	w := q.way(&r, src, dst)
	if w.impossible {
		return
	}
	var rec wire.PathRecord
	for w.next() {
		if !w.record(q, &r, &rec) {
			continue
		}
		q.trace(q.s.Physical(src.port), q.s.Physical(dst.port), rec.DLID)
		return
	}
}

// trace adds the records of the path from a port to another's LID.
func (q *query) trace(src, dst int32, lid ib.LID) {
	s := q.s
	var buf [subnet.MaxHops]subnet.Hop
	hops, _ := s.Trace(src, lid, buf[:0])
	if s.Ports[src].Num != 0 {
		entry := int32(-1)
		if src == dst {
			entry = src
		}
		q.traceNode(entry, src)
	}
	for i, h := range hops {
		first := s.Nodes[h.Node].First
		entry := first + int32(h.In)
		if i == 0 && h.In == 0 {
			entry = -1 // the path starts here
		}
		q.traceNode(entry, first+int32(h.Out))
	}
	switch {
	case src == dst && s.Ports[src].Num == 0:
		q.traceNode(src, src)
	case src != dst && s.Ports[dst].Num != 0:
		q.traceNode(dst, -1)
	}
}

// traceNode adds the record of a node. entry and exit are indices in Ports; -1:
// the path starts or ends there.
func (q *query) traceNode(entry, exit int32) {
	s := q.s
	p := s.Ports[max(entry, exit)]
	n := &s.Nodes[p.Node]
	r := wire.TraceRecord{GIDPrefix: s.Prefix, NodeType: n.Info.NodeType}
	known := q.visible(p)
	if known {
		r.NodeID, r.ChassisID = uint64(n.Info.NodeGUID), uint64(n.Info.SystemImageGUID)
	}
	port := func(i int32) (num uint8, id ib.GUID) {
		if i < 0 {
			return 0, 0
		}
		if num = s.Ports[i].Num; known {
			id = s.Ports[i].GUID
		}
		return num, id
	}
	var id ib.GUID
	r.EntryPort, id = port(entry)
	r.EntryPortID = uint64(id)
	r.ExitPort, id = port(exit)
	r.ExitPortID = uint64(id)
	if b := q.record(); b != nil {
		r.Put(b)
	}
}
