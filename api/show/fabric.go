package show

import (
	"heddle/api"
	"heddle/ib"
	"heddle/subnet"
)

// Nodes lists the nodes found by the last sweep, in GUID order; s may be nil.
func Nodes(s *subnet.Snapshot) []api.Node {
	if s == nil {
		return nil
	}
	bad := map[ib.GUID]string{}
	for _, p := range s.Problems {
		if p.GUID != 0 && bad[p.GUID] == "" {
			bad[p.GUID] = p.Text
		}
	}
	out := make([]api.Node, len(s.Nodes))
	for i := range out {
		out[i] = nodeRow(s, int32(i), bad)
	}
	return out
}

// Links lists the links, in order of the lower of their node GUIDs; s may be nil.
func Links(s *subnet.Snapshot) []api.Link {
	if s == nil {
		return nil
	}
	var out []api.Link
	for i := range s.Ports {
		p := s.Ports[i]
		if p.Virtual != nil {
			break // virtual ports come last, and share the link of their physical port
		}
		if isLink(s, p) {
			out = append(out, linkRow(s, p))
		}
	}
	return out
}

// isLink reports whether p is the lower end of a link.
func isLink(s *subnet.Snapshot, p *subnet.Port) bool {
	return p.Virtual == nil && s.Port(p.Peer) != nil && (p.Peer.Node > p.Node || p.Peer.Node == p.Node && p.Peer.Port >= p.Num)
}

// linkRow shows the link whose lower end p is.
func linkRow(s *subnet.Snapshot, p *subnet.Port) api.Link {
	return api.Link{
		A: linkEnd(s, p), B: linkEnd(s, s.Port(p.Peer)), Width: p.Info.LinkWidthActive.String(),
		Speed: s.Speed(p).String(), MTU: p.MTU.Bytes(), VLs: ib.VLsOf(p.Info.OperationalVLs), State: linkState(s, p),
		Inner: between(s, p),
	}
}

// between reports whether both ends of the link at p are switches.
func between(s *subnet.Snapshot, p *subnet.Port) bool {
	return s.Nodes[p.Node].Info.NodeType == ib.NodeSwitch && s.Nodes[p.Peer.Node].Info.NodeType == ib.NodeSwitch
}

func linkState(s *subnet.Snapshot, p *subnet.Port) string {
	q := s.Port(p.Peer)
	switch {
	case p.Held || q.Held:
		return "held down"
	case p.State() == ib.StateActive && q.State() == ib.StateActive:
		return "active"
	case p.State() >= ib.StateInit && q.State() >= ib.StateInit:
		return "not active"
	}
	return "down"
}

func linkEnd(s *subnet.Snapshot, p *subnet.Port) api.LinkEnd {
	n := &s.Nodes[p.Node]
	return api.LinkEnd{GUID: n.Info.NodeGUID.String(), Description: n.Desc, Port: int(p.Num), State: p.State().String()}
}
