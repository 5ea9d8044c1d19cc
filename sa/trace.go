package sa

import (
	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/subnet"
)

// traceRecords answers SubnAdmGetTraceTable: a PathRecord says which path, and
// each node on it is a record, in the order in which packets meet them. IDs are
// GUIDs and so never change (IDGeneration is 0); those of nodes that the
// requester shares no partition with are 0: the path is told, not who they are. The
// ends of a path of virtual ports are their physical ones.
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
			entry = -1 // it begins here
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

// traceNode adds the record of a node that packets enter and leave by these
// ports, indices in Ports; -1: they come from or end there.
func (q *query) traceNode(entry, exit int32) {
	s := q.s
	p := &s.Ports[max(entry, exit)]
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
