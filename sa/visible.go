package sa

import (
	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/subnet"
)

// Who may see what (IBA §15.4.1.2): a requester learns of a port only if the
// two share a partition. A switch is seen by who shares one with its port 0. The
// requester is the port that owns the source LID, or the VPort there that has the SGID.

// visible reports whether the requester may see a port of a node.
func (q *query) visible(p *subnet.Port) bool {
	return q.me < 0 || q.s.Share(q.me, q.endPort(p))
}

// sees is visible for an end port, a virtual one too, by its index in Ports.
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

// each calls fn for the physical end ports that the LID component (and nothing else)
// leaves, in port-GUID order. A LID stands for the port whose LMC range it is
// in; that of a VPort for none.
func each(q *query, lidComp wire.CompMask, fn func(*subnet.Port)) {
	s := q.s
	if q.has(lidComp) {
		lid := ib.LID(uint16(q.data[0])<<8 | uint16(q.data[1]))
		if i := s.PortByLID(lid); i >= 0 && i < s.FirstVPort() && q.sees(i) {
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

// ports are the ports that an end port stands for in records of single ports:
// all of a switch for its port 0, else itself.
func (q *query) ports(ep *subnet.Port) []subnet.Port {
	s := q.s
	if s.Nodes[ep.Node].Info.NodeType == ib.NodeSwitch {
		return s.NodePorts(ep.Node)
	}
	i := s.Nodes[ep.Node].First + int32(ep.Num)
	return s.Ports[i : i+1]
}

// ownsLID reports whether the port has the LID, any of its LMC range.
func ownsLID(p *subnet.Port, lid ib.LID) bool {
	return lid >= p.LID && int(lid) < int(p.LID)+1<<p.LMC
}
