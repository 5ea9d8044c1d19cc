package subnet

import (
	"heddle/fabric"
	"heddle/ib"
	"heddle/ib/smp"
)

// Fabric is the subnet as a fabric with the same order of nodes, for functions
// on fabrics such as layouts and dump files. It is built on each call.
func (s *Snapshot) Fabric() *fabric.Fabric {
	f := &fabric.Fabric{Nodes: make([]fabric.Node, len(s.Nodes))}
	for i := range s.Nodes {
		n := &s.Nodes[i]
		fn := &f.Nodes[i]
		*fn = fabric.Node{
			ID: n.Info.NodeGUID.String(), Desc: n.Desc, Type: n.Info.NodeType, GUID: n.Info.NodeGUID, SystemImageGUID: n.Info.SystemImageGUID,
			VendorID: n.Info.VendorID, DeviceID: n.Info.DeviceID, Revision: n.Info.Revision, NumPorts: int(n.Info.NumPorts),
			EnhancedPort0: n.Switch.EnhancedPort0, Ports: make([]fabric.Port, n.Info.NumPorts+1),
		}
		for j, p := range s.NodePorts(int32(i)) {
			fn.Ports[j] = fabric.Port{
				GUID: p.GUID, Peer: fabric.Ref{Node: p.Peer.Node, Port: p.Peer.Port},
				Width: p.Info.LinkWidthActive, Speed: s.Speed(p), LID: p.LID, LMC: p.LMC,
			}
		}
	}
	return f
}

// Speed is the speed of a lane of the port's link, as its PortInfo says. On a switch the capability
// bits that say which field counts are those of port 0.
func (s *Snapshot) Speed(p *Port) ib.LinkSpeed {
	return p.Info.ActiveSpeedOf(s.capabilities(p), false)
}

// capabilities are the capability bits that count for a port: on a switch those of port 0.
func (s *Snapshot) capabilities(p *Port) ib.CapMask {
	mask := p.Info.CapabilityMask
	if n := &s.Nodes[p.Node]; n.Info.NodeType == ib.NodeSwitch || mask == 0 {
		mask = s.Ports[n.First].Info.CapabilityMask
	}
	return mask
}

// Fastest is the highest speed that a port supports.
func (s *Snapshot) Fastest(p *Port) ib.LinkSpeed {
	return p.Info.FastestSpeed(s.capabilities(p))
}

// Able is the best width and speed that both ends of the link at a port support, 0 and SpeedNone if
// there is no link.
func (s *Snapshot) Able(at Ref) (ib.LinkWidth, ib.LinkSpeed) {
	p := s.Port(at)
	if p == nil {
		return 0, ib.SpeedNone
	}
	q := s.Port(p.Peer)
	if q == nil {
		return 0, ib.SpeedNone
	}
	return (p.Info.LinkWidthSupported & q.Info.LinkWidthSupported).Widest(), min(s.Fastest(p), s.Fastest(q))
}

// Throttled reports whether the link at a port is narrower or slower than both of its ends can be.
func (s *Snapshot) Throttled(at Ref) bool {
	p := s.Port(at)
	if p == nil {
		return false
	}
	q := s.Port(p.Peer)
	return q != nil && smp.Throttled(&p.Info, &q.Info, s.capabilities(p), s.capabilities(q))
}

// Moved lists the LIDs, ascending, that have another owner in the graph of s than in that of old. ok is
// false if the graphs are not known to be the same otherwise.
func (s *Snapshot) Moved(old *Snapshot) (lids []ib.LID, ok bool) {
	if s.Graph == nil || old.Graph == nil {
		return nil, false
	}
	return fabric.OtherOwners(old.Graph, s.Graph)
}
