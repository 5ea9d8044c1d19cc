package show

import (
	"heddle/api"
	"heddle/ib"
	"heddle/sm"
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
	out := make([]api.Node, 0, len(s.Nodes))
	for i := range s.Nodes {
		n := &s.Nodes[i]
		row := api.Node{
			GUID: n.Info.NodeGUID.String(), Description: n.Desc, Type: n.Info.NodeType.String(),
			Ports: int(n.Info.NumPorts), Path: sm.PathString(n.Path), State: "ok",
		}
		for _, p := range s.NodePorts(int32(i)) {
			if p.EndPort >= 0 && p.LID != 0 {
				row.LID, row.LMC = int(p.LID), int(p.LMC)
				break
			}
		}
		if why := bad[n.Info.NodeGUID]; why != "" {
			row.State = why
		} else if !n.OK {
			row.State = "left out"
		}
		out = append(out, row)
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
		q := s.Port(p.Peer)
		if q == nil || p.Peer.Node < p.Node || p.Peer.Node == p.Node && p.Peer.Port < p.Num {
			continue
		}
		l := api.Link{
			A: linkEnd(s, p), B: linkEnd(s, q), Width: p.Info.LinkWidthActive.String(),
			Speed: s.Speed(p).String(), MTU: p.MTU.Bytes(), VLs: ib.VLsOf(p.Info.OperationalVLs), State: "down",
		}
		switch {
		case p.Held || q.Held:
			l.State = "held down"
		case p.State() == ib.StateActive && q.State() == ib.StateActive:
			l.State = "active"
		case p.State() >= ib.StateInit && q.State() >= ib.StateInit:
			l.State = "not active"
		}
		out = append(out, l)
	}
	return out
}

func linkEnd(s *subnet.Snapshot, p *subnet.Port) api.LinkEnd {
	n := &s.Nodes[p.Node]
	return api.LinkEnd{GUID: n.Info.NodeGUID.String(), Description: n.Desc, Port: int(p.Num), State: p.State().String()}
}
