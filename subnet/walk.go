package subnet

import (
	"slices"

	"heddle/ib"
)

// wire is a port as walks see it: 12 bytes instead of a whole Port, so that
// those of a full subnet stay in a processor's cache while millions of paths
// are asked for.
type wire struct {
	far  int32 // index in Ports of the far end, -1 if no packet can leave by the port
	sw   int32 // index in Graph.Switches of the far node, -1 for an end
	mtu  ib.MTU
	rate ib.Rate
}

// crossing is a switch as walks see it: the index in Ports of its port 0, and
// how many ports it has besides.
type crossing struct {
	first int32
	ports uint8
}

// lay builds what walks read.
func (s *Snapshot) lay() {
	n := int32(0)
	for i := range s.Nodes {
		n = max(n, s.Nodes[i].SwitchIndex+1)
	}
	s.switches = make([]crossing, n)
	for i := range s.Nodes {
		if nd := &s.Nodes[i]; nd.SwitchIndex >= 0 {
			s.switches[nd.SwitchIndex] = crossing{nd.First, nd.Info.NumPorts}
		}
	}
	s.wires = make([]wire, len(s.Ports))
	for i := range s.Ports {
		s.wires[i] = s.wireOf(int32(i))
	}
}

// layAgain is lay for a snapshot that differs in the ports of some nodes from
// the one it was copied from.
func (s *Snapshot) layAgain(nodes []int32) {
	if len(nodes) == 0 {
		return
	}
	s.wires = slices.Clone(s.wires)
	for _, n := range nodes {
		nd := &s.Nodes[n]
		for i := nd.First; i <= nd.First+int32(nd.Info.NumPorts); i++ {
			s.wires[i] = s.wireOf(i)
		}
	}
}

// wireOf is the wire of the port with index i in Ports. Data leaves by a port
// only if both ends of its link are Active (IBA §7.2.7).
func (s *Snapshot) wireOf(i int32) wire {
	p := &s.Ports[i]
	w := wire{far: s.PortIndex(p.Peer), sw: -1, mtu: p.MTU, rate: p.Rate}
	if w.far >= 0 && (p.State() != ib.StateActive || s.Ports[w.far].State() != ib.StateActive) {
		w.far = -1
	}
	if w.far >= 0 {
		w.sw = s.Nodes[p.Peer.Node].SwitchIndex
	}
	return w
}

// PathAttr are the attributes of a path.
type PathAttr struct {
	MTU  ib.MTU
	Rate ib.Rate
	SL   ib.SL
	Hops uint8 // switches crossed
}

// MaxHops is the length of the longest path that is walked, in switches: as far
// as a directed route reaches (IBA §14.2.1.2), and one more.
const MaxHops = 65

// Path walks the installed tables from port src (index in Ports) to lid and
// returns what the path can carry. ok is false where there is none: an entry
// is missing or leads elsewhere, or a link on the way is not Active.
func (s *Snapshot) Path(src int32, lid ib.LID) (a PathAttr, ok bool) {
	return s.walk(src, lid, nil)
}

// Hop is a switch on a path: packets come in by port In and leave by Out, both
// 0 where the path begins or ends at the switch itself.
type Hop struct {
	Node    int32
	In, Out uint8
}

// Trace appends the switches that a packet from port src (index in Ports) to
// lid crosses to hops. ok is false where Path has none; what was walked of it
// is appended all the same.
func (s *Snapshot) Trace(src int32, lid ib.LID, hops []Hop) (_ []Hop, ok bool) {
	_, ok = s.walk(src, lid, &hops)
	return hops, ok
}

func (s *Snapshot) walk(src int32, lid ib.LID, hops *[]Hop) (a PathAttr, ok bool) {
	dst := s.PortByLID(lid)
	if dst < 0 || src < 0 {
		return a, false
	}
	p, q := &s.Ports[src], &s.Ports[dst]
	a.MTU, a.Rate = p.MTU, p.Rate
	if src == dst {
		return a, true
	}
	sw, in, onWire := s.Nodes[p.Node].SwitchIndex, src, false
	if p.Num != 0 || sw < 0 {
		w := s.wires[src]
		if w.far < 0 {
			return a, false
		}
		if w.sw < 0 { // back to back
			a.MTU, a.Rate = min(a.MTU, q.MTU), slower(a.Rate, q.Rate)
			return a, w.far == dst
		}
		sw, in, onWire = w.sw, w.far, true
	}
	if s.Tables == nil {
		return a, false
	}
	first := sw
	for a.Hops = 0; a.Hops < MaxHops; a.Hops++ {
		if int(sw) >= len(s.Tables.LFT) {
			return a, false
		}
		row, x := s.Tables.LFT[sw], s.switches[sw]
		if int(lid) >= len(row) || row[lid] > x.ports {
			return a, false
		}
		out := x.first + int32(row[lid])
		if hops != nil {
			*hops = append(*hops, Hop{s.Ports[in].Node, s.Ports[in].Num, row[lid]})
		}
		if out == x.first {
			if out != dst {
				return a, false
			}
			a.SL = s.Tables.PathSL(first, lid)
			return a, true
		}
		w := s.wires[out]
		if w.far < 0 {
			return a, false
		}
		if onWire {
			a.MTU, a.Rate = min(a.MTU, w.mtu), slower(a.Rate, w.rate)
		} else { // port 0 of a switch has no wire of its own: the first hop's counts
			a.MTU, a.Rate, onWire = w.mtu, w.rate, true
		}
		if w.sw < 0 {
			if w.far != dst {
				return a, false
			}
			a.Hops++
			a.SL = s.Tables.PathSL(first, lid)
			a.MTU, a.Rate = min(a.MTU, q.MTU), slower(a.Rate, q.Rate)
			return a, true
		}
		sw, in = w.sw, w.far
	}
	return a, false
}

// slower is the lower of two rates, in the order in which the SA compares them.
func slower(a, b ib.Rate) ib.Rate {
	if b.Order() < a.Order() {
		return b
	}
	return a
}
