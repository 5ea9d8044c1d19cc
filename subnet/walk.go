package subnet

import (
	"slices"

	"heddle/ib"
	"heddle/route"
)

// wire is the part of a port that walks need: 12 bytes instead of a whole Port,
// so that those of a full subnet stay in a processor's cache during millions of
// path queries.
type wire struct {
	far  int32 // index in Ports of the far end, -1 if no packet can leave by the port
	sw   int32 // index in Graph.Switches of the far node, -1 for an end
	mtu  ib.MTU
	rate ib.Rate
}

// crossing is the part of a switch that walks need: the index in Ports of its
// port 0, and its number of external ports.
type crossing struct {
	first int32
	ports uint8
}

// links are the data for walks.
type links struct {
	wires    []wire     // by index in Ports, without virtual ports
	switches []crossing // by index in Graph.Switches
}

// lay builds the data for walks.
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
	s.wires = make([]wire, s.vfirst)
	for i := range s.wires {
		s.wires[i] = s.wireOf(int32(i))
	}
}

// layAgain is lay for a snapshot that differs in the ports of some nodes from
// the one from which it was copied.
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
	p := s.Ports[i]
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

// MaxHops is the length of the longest path that is walked, in switches: the
// reach of a directed route (IBA §14.2.1.2) plus one.
const MaxHops = 65

// Path walks the installed tables from port src (index in Ports) to lid and
// returns the attributes of the path; a virtual port sends and receives through
// its physical one. ok is false if there is no path: an entry is missing or
// leads elsewhere, or a link of the path is not Active.
func (s *Snapshot) Path(src int32, lid ib.LID) (a PathAttr, ok bool) {
	w := s.walk(src, lid)
	for !w.done {
		w.step(nil)
	}
	return w.attr, w.ok
}

// RoundTrip is Path from port src to dlid, and from port dst to slid. The two
// are walked side by side, because a walk mostly waits for memory.
func (s *Snapshot) RoundTrip(src int32, slid ib.LID, dst int32, dlid ib.LID) (there, back PathAttr, ok, backOK bool) {
	w, v := s.walk(src, dlid), s.walk(dst, slid)
	for !w.done || !v.done {
		if !w.done {
			w.step(nil)
		}
		if !v.done {
			v.step(nil)
		}
	}
	return w.attr, v.attr, w.ok, v.ok
}

// Hop is a switch on a path: packets enter by port In and leave by Out, both 0
// where the path begins or ends at the switch itself.
type Hop struct {
	Node    int32
	In, Out uint8
}

// Trace appends the switches on the path from port src (index in Ports) to lid
// to hops. ok is false if Path finds none; the hops walked are appended anyway.
func (s *Snapshot) Trace(src int32, lid ib.LID, hops []Hop) (_ []Hop, ok bool) {
	w := s.walk(src, lid)
	for !w.done {
		w.step(&hops)
	}
	return hops, w.ok
}

// walker is a packet at the switch sw.
type walker struct {
	s        *Snapshot
	rows     [][]byte
	band     route.Band // the entries for lid; nil: they are in rows
	dst      int32      // index in Ports
	sw       int32      // index in Graph.Switches
	first    int32      // the first switch
	in       int32      // index in Ports of its ingress port
	lid      ib.LID
	attr     PathAttr
	steps    uint8
	onWire   bool // it has crossed a link
	done, ok bool
}

// walk starts at port src, and ends there if the path crosses no switch.
func (s *Snapshot) walk(src int32, lid ib.LID) (w walker) {
	w.s, w.lid, w.dst = s, lid, s.PortByLID(lid)
	w.done = true
	if w.dst < 0 || src < 0 {
		return w
	}
	src, w.dst = s.Physical(src), s.Physical(w.dst) // packets between virtual ports of one port stay in the adapter
	p := s.Ports[src]
	w.attr.MTU, w.attr.Rate = p.MTU, p.Rate
	if src == w.dst {
		w.ok = true
		return w
	}
	if w.sw, w.in = s.Nodes[p.Node].SwitchIndex, src; p.Num != 0 || w.sw < 0 {
		x := s.wires[src]
		if x.far < 0 {
			return w
		}
		if x.sw < 0 { // back to back
			w.arrive()
			w.ok = x.far == w.dst
			return w
		}
		w.sw, w.in, w.onWire = x.sw, x.far, true
	}
	if w.first, w.done = w.sw, s.Tables == nil; !w.done {
		w.rows, w.band = s.Tables.At(int(lid) / route.BlockLen)
	}
	return w
}

// step crosses a switch.
func (w *walker) step(hops *[]Hop) {
	s := w.s
	w.done = true
	if int(w.sw) >= len(w.rows) || w.steps == MaxHops {
		return
	}
	x, e := s.switches[w.sw], byte(route.Drop)
	if w.band != nil {
		e = w.band[int(w.sw)*route.BlockLen+int(w.lid)%route.BlockLen]
	} else if row := w.rows[w.sw]; int(w.lid) < len(row) {
		e = row[w.lid]
	}
	if e > x.ports {
		return
	}
	w.steps++
	out := x.first + int32(e)
	if hops != nil {
		*hops = append(*hops, Hop{s.Ports[w.in].Node, s.Ports[w.in].Num, e})
	}
	if out == x.first {
		if w.ok = out == w.dst; w.ok {
			w.attr.SL = s.Tables.PathSL(w.first, w.lid)
		}
		return
	}
	l := s.wires[out]
	if l.far < 0 {
		return
	}
	w.attr.Hops++
	if w.onWire {
		w.attr.MTU, w.attr.Rate = min(w.attr.MTU, l.mtu), slower(w.attr.Rate, l.rate)
	} else { // port 0 of a switch has no wire of its own: the first hop's counts
		w.attr.MTU, w.attr.Rate, w.onWire = l.mtu, l.rate, true
	}
	if l.sw < 0 {
		if w.ok = l.far == w.dst; w.ok {
			w.attr.SL = s.Tables.PathSL(w.first, w.lid)
			w.arrive()
		}
		return
	}
	w.sw, w.in, w.done = l.sw, l.far, false
}

// arrive counts the end's own link.
func (w *walker) arrive() {
	q := w.s.Ports[w.dst]
	w.attr.MTU, w.attr.Rate = min(w.attr.MTU, q.MTU), slower(w.attr.Rate, q.Rate)
}

// slower is the lower of two rates, in the order in which the SA compares them.
func slower(a, b ib.Rate) ib.Rate {
	if b.Order() < a.Order() {
		return b
	}
	return a
}
