package sa

import (
	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/subnet"
)

// Visibility (IBA §15.4.1.2): a requester sees a port only if the two share a
// partition. A switch is visible if its port 0 is. The requester is the port with the
// source LID, or the VPort there with the SGID.

// visible reports whether the requester may see a port of a node.
func (q *query) visible(p *subnet.Port) bool {
	return q.me < 0 || q.s.Share(q.me, q.endPort(p))
}

// sees is visible for an end port, physical or virtual, by its index in Ports.
func (q *query) sees(i int32) bool { return q.me < 0 || q.s.Share(q.me, i) }

// endPort is the index of the end port that a port of a node belongs to: port 0 for
// switch ports.
func (q *query) endPort(p *subnet.Port) int32 {
	nd := &q.s.Nodes[p.Node]
	if nd.Info.NodeType == ib.NodeSwitch {
		return nd.First
	}
	return nd.First + int32(p.Num)
}

// each calls fn for the physical end ports that the LID component selects, in
// port-GUID order. A LID selects the port whose LMC range contains it; a VPort's LID
// selects none.
func each(q *query, lidComp wire.CompMask, fn func(*subnet.Port)) {
	s := q.s
	if q.has(lidComp) {
		lid := ib.LID(uint16(q.data[0])<<8 | uint16(q.data[1]))
		if i := s.PortByLID(lid); i >= 0 && i < s.FirstVPort() && q.sees(i) {
			fn(s.Ports[i])
		}
		return
	}
	for _, i := range s.EndPortPort {
		if q.full {
			return
		}
		if p := s.Ports[i]; q.visible(p) {
			fn(p)
		}
	}
}

// ports returns the ports that represent an end port in records of single
// ports: all ports of a switch for its port 0, otherwise the port itself.
func (q *query) ports(ep *subnet.Port) []*subnet.Port {
	s := q.s
	if s.Nodes[ep.Node].Info.NodeType == ib.NodeSwitch {
		return s.NodePorts(ep.Node)
	}
	i := s.Nodes[ep.Node].First + int32(ep.Num)
	return s.Ports[i : i+1]
}

// ownsLID reports whether the LID is in the port's LMC range.
func ownsLID(p *subnet.Port, lid ib.LID) bool {
	return lid >= p.LID && int(lid) < int(p.LID)+1<<p.LMC
}
