package subnet

import "heddle/ib"

// Hop is a switch on a path: packets come in by port In and leave by Out, both
// 0 where the path begins or ends at the switch itself.
type Hop struct {
	Node    int32
	In, Out uint8
}

// Trace appends the switches that a packet from port src (index in Ports) to
// lid crosses to hops. ok is false where there is no path; what was walked of it
// is appended all the same.
func (s *Snapshot) Trace(src int32, lid ib.LID, hops []Hop) (_ []Hop, ok bool) {
	dst := s.PortByLID(lid)
	if dst < 0 || src < 0 {
		return hops, false
	}
	if src == dst {
		return hops, true
	}
	p := &s.Ports[src]
	at := Ref{p.Node, 0}
	if p.Num != 0 || s.Nodes[p.Node].SwitchIndex < 0 {
		if at = p.Peer; at.Node < 0 {
			return hops, false
		}
	}
	for range 65 { // as many as Path walks
		n := &s.Nodes[at.Node]
		row := s.LFT(at.Node)
		if row == nil {
			return hops, n.SwitchIndex < 0 && s.owns(at, dst)
		}
		if int(lid) >= len(row) || int(row[lid]) > int(n.Info.NumPorts) {
			return hops, false
		}
		out := row[lid]
		hops = append(hops, Hop{at.Node, at.Port, out})
		if out == 0 {
			return hops, n.First == dst
		}
		if at = s.Ports[n.First+int32(out)].Peer; at.Node < 0 {
			return hops, false
		}
	}
	return hops, false
}
