package check

import (
	"math/bits"
	"slices"

	"heddle/ib"
	"heddle/route"
)

// mode selects how the lanes of packets are determined.
type mode uint8

const (
	single  mode = iota // every packet is on lane 0
	uniform             // every link has as many lanes, and a packet keeps the lane that its SL names
	general             // lanes follow from SL, ports and links, hop by hop
)

// planes are the dependency bits by (lane of the first channel)·lanes + (lane
// of the second); nil where there are none.
type planes [][]uint64

func (p planes) join(q planes) {
	for i, b := range q {
		if b == nil {
			continue
		}
		if p[i] == nil {
			p[i] = b
			continue
		}
		for k, x := range b {
			p[i][k] |= x
		}
	}
}

func (j *verifier) plane(p planes, l1, l2 int) []uint64 {
	at := &p[l1*j.lanes+l2]
	if *at == nil {
		*at = make([]uint64, (j.nbits+63)/64)
	}
	return *at
}

// notALane is the mask bit of a lane that a link does not have.
const notALane = 1 << 15

// laneState holds, for the packets to one LID from a switch to its next hop,
// the lanes that they use there, by service level.
type laneState struct {
	sls    uint16     // service levels of any
	ca, sw [16]uint16 // by class of traffic
}

// hopLanes determines lanes in mode general. Rows give the lane by SL.
type hopLanes struct {
	lanes *route.Lanes // nil: SL mod the link's lanes
	mod   [16][16]ib.VL
	// By channel and SL, the lanes of packets that start at the channel's switch:
	// those of its CAs, and of the switch itself; notALane if an SL maps to a lane
	// that the channel does not have.
	ca, self [][16]uint16
}

func (j *verifier) chooseMode() {
	t := j.t
	if j.vls == nil { // else they are those of a verifier for the same channels
		j.vls = make([]uint8, len(j.g.Channels))
		for c := range j.vls {
			j.vls[c] = min(max(j.g.Channels[c].VLs, 1), 15)
		}
	}
	most, least := uint8(1), uint8(15)
	for _, v := range j.vls {
		most, least = max(most, v), min(least, v)
	}
	switch {
	case t.SL == nil && t.Lanes == nil:
		j.mode = single
		if t.Multicast != nil && slices.ContainsFunc(t.Multicast.Trees, func(tr route.Tree) bool { return tr.SL != 0 }) {
			j.lanes = int(most)
		}
	case t.Lanes == nil && (least == most || len(j.vls) == 0):
		j.mode, j.lanes = uniform, int(most)
	default:
		j.mode, j.lanes = general, int(most)
		j.hop = &hopLanes{lanes: t.Lanes}
		j.injections()
	}
}

// injections computes the lanes of packets on their first links.
func (j *verifier) injections() {
	h := j.hop
	for v := 1; v < 16; v++ {
		for sl := range 16 {
			h.mod[v][sl] = ib.VL(sl % v)
		}
	}
	h.ca, h.self = make([][16]uint16, len(j.to)), make([][16]uint16, len(j.to))
	add := func(into [][16]uint16, s int32, port uint8) {
		for c := j.g.Off[s]; c < j.g.Off[s+1]; c++ {
			row := j.lanesOf(s, port, c)
			for sl, v := range row {
				if uint8(v) >= j.vls[c] {
					into[c][sl] |= notALane
				} else {
					into[c][sl] |= 1 << v
				}
			}
		}
	}
	for s := range j.n {
		add(h.self, int32(s), 0)
	}
	for e := range j.g.EndPorts {
		if p := &j.g.EndPorts[e]; p.Switch >= 0 && p.Type != ib.NodeSwitch && j.lidsOf[e] > 0 {
			add(h.ca, p.Switch, p.Port)
		}
	}
}

// lanesOf gives by SL the lane of packets that enter switch s by port in and
// leave by channel c.
func (j *verifier) lanesOf(s int32, in uint8, c int32) *[16]ib.VL {
	h := j.hop
	if h.lanes != nil {
		if row := h.lanes.Row(s, in, j.g.Channels[c].OutPort); row != nil {
			return row
		}
	}
	return &h.mod[j.vls[c]]
}

// exitsOf gives by SL the lane of packets that enter switch s by port in and
// leave by port out to an end port; nil if any lane will do.
func (j *verifier) exitsOf(s int32, in, out uint8) *[16]ib.VL {
	h := j.hop
	if h == nil || h.lanes == nil || out == 0 {
		return nil
	}
	return h.lanes.Row(s, in, out)
}

// levels returns the column of service levels of a LID: that of switch s is
// at s*step. nil means SL 0 from everywhere.
func (j *verifier) levels(l int) (col []ib.SL, step int) {
	t := j.t
	if t.SL == nil || l >= len(t.Class) || t.Class[l] < 0 {
		return nil, 0
	}
	return t.SL[t.Class[l]:], t.NumClasses
}

// uniform records the dependencies of one LID if all links have the same number
// of lanes and packets stay on one lane.
func (j *verifier) uniform(w *scratch, l int, isCA bool) {
	col, step := j.levels(l)
	lanes := uint8(j.lanes)
	start := func(u int32) (uint16, uint16) {
		m := uint16(1)
		if col != nil {
			m <<= uint8(col[int(u)*step]) % lanes
		}
		if isCA || j.casAt[u] > 0 {
			return m, 0
		}
		return 0, m
	}
	for _, u := range w.order {
		w.mask[u], w.smask[u] = start(u)
	}
	for i := len(w.order) - 1; i >= 0; i-- {
		u := w.order[i]
		c1 := w.ch[u]
		if c1 < 0 {
			continue
		}
		v := j.to[c1]
		m, sm := w.mask[u], w.smask[u]
		w.mask[v] |= m
		w.smask[v] |= sm
		w.lanes |= uint32(m | sm)
		if w.depth[u] > 0 {
			w.used |= uint32(m)
		}
		if c2 := w.ch[v]; c2 >= 0 {
			j.markLanes(w, c1, c2, m, sm)
		}
	}
	if w.round {
		j.loopMasks(w, start)
	}
}

// markLanes adds c1→c2 on each lane of the masks.
func (j *verifier) markLanes(w *scratch, c1, c2 int32, ca, sw uint16) {
	if j.quiet {
		return
	}
	b := uint32(j.row[c1] + j.col[c2])
	at, m := b>>6, uint64(1)<<(b&63)
	for x := ca; x != 0; x &= x - 1 {
		l := bits.TrailingZeros16(x)
		if set := j.plane(w.ca, l, l); set[at]&m == 0 {
			set[at] |= m
		}
	}
	for x := sw &^ ca; x != 0; x &= x - 1 {
		l := bits.TrailingZeros16(x)
		if set := j.plane(w.sw, l, l); set[at]&m == 0 {
			set[at] |= m
		}
	}
}

// general records the dependencies of one LID with lanes determined hop by hop,
// and sets w.refused if some packets are on a lane that a link does not have.
// Such packets cause no dependency on that link.
func (j *verifier) general(w *scratch, l int, dst int32, port uint8, isCA bool) {
	w.refused = false
	col, step := j.levels(l)
	used, lanes := w.used, w.lanes
	for u := range w.state {
		s := &w.state[u]
		for x := s.sls; x != 0; x &= x - 1 {
			k := bits.TrailingZeros16(x)
			s.ca[k], s.sw[k] = 0, 0
		}
		s.sls = 0
		sl := uint8(0)
		if col != nil {
			sl = uint8(col[u*step])
		}
		c := w.ch[u]
		if c < 0 {
			if int32(u) == dst {
				j.exitsHere(w, dst, port, sl)
			}
			continue
		}
		ca, self := j.hop.ca[c][sl], j.hop.self[c][sl]
		if (ca|self)&notALane != 0 {
			w.refused = true
			ca &^= notALane
			self &^= notALane
		}
		if isCA {
			ca, self = ca|self, 0
		}
		s.sls = 1 << sl
		s.ca[sl], s.sw[sl] = ca, self
	}
	for i := len(w.order) - 1; i >= 0; i-- {
		u := w.order[i]
		if c1 := w.ch[u]; c1 >= 0 {
			m := j.pass(w, u, c1, dst, port)
			lanes |= uint32(m)
		}
	}
	for changed := w.round; changed; {
		changed = false
		for u, d := range w.depth {
			if d == looping {
				v := &w.state[j.to[w.ch[u]]]
				was := *v
				lanes |= uint32(j.pass(w, int32(u), w.ch[u], dst, port))
				changed = changed || *v != was
			}
		}
	}
	w.lanes = lanes
	if w.refused {
		return // slow determines which are delivered
	}
	for _, u := range w.order {
		if w.depth[u] > 0 && w.ch[u] >= 0 {
			s := &w.state[u]
			for x := s.sls; x != 0; x &= x - 1 {
				used |= uint32(s.ca[bits.TrailingZeros16(x)])
			}
		}
	}
	w.used = used
}

// exitsHere verifies packets between end ports of the destination's switch.
func (j *verifier) exitsHere(w *scratch, dst int32, port, sl uint8) {
	if j.hop.lanes == nil || port == 0 {
		return
	}
	for e := range j.g.EndPorts {
		p := &j.g.EndPorts[e]
		if p.Switch != dst || p.Port == port || j.lidsOf[e] == 0 {
			continue
		}
		if exits := j.exitsOf(dst, p.Port, port); exits != nil && exits[sl] >= 15 {
			w.refused = true
		}
	}
}

// pass carries the packets on channel c1, which leaves switch u, over the
// switch that it leads to. It returns the lanes of c1.
func (j *verifier) pass(w *scratch, u, c1, dst int32, port uint8) (lanes uint16) {
	s := &w.state[u]
	v := j.to[c1]
	in := j.g.Channels[c1].InPort
	c2 := w.ch[v]
	if c2 < 0 {
		var exits *[16]ib.VL
		if v == dst {
			exits = j.exitsOf(v, in, port)
		}
		for x := s.sls; x != 0; x &= x - 1 {
			sl := bits.TrailingZeros16(x)
			lanes |= s.ca[sl] | s.sw[sl]
			if exits != nil && exits[sl] >= 15 && s.ca[sl]|s.sw[sl] != 0 {
				w.refused = true
			}
		}
		return lanes
	}
	row := j.lanesOf(v, in, c2)
	vls := j.vls[c2]
	next := &w.state[v]
	b := uint32(j.row[c1] + j.col[c2])
	at, m := b>>6, uint64(1)<<(b&63)
	for x := s.sls; x != 0; x &= x - 1 {
		sl := bits.TrailingZeros16(x)
		ca, sw := s.ca[sl], s.sw[sl]
		lanes |= ca | sw
		if ca|sw == 0 {
			continue
		}
		l2 := uint8(row[sl])
		if l2 >= vls {
			// What only switches' own ports send to each other a guard may discard.
			w.refused = w.refused || ca != 0 || j.hop.lanes == nil || !j.hop.lanes.Guards
			continue
		}
		next.sls |= 1 << sl
		if ca != 0 {
			next.ca[sl] |= 1 << l2
		}
		if sw != 0 {
			next.sw[sl] |= 1 << l2
		}
		if j.quiet {
			continue
		}
		for y := ca; y != 0; y &= y - 1 {
			if set := j.plane(w.ca, bits.TrailingZeros16(y), int(l2)); set[at]&m == 0 {
				set[at] |= m
			}
		}
		for y := sw &^ ca; y != 0; y &= y - 1 {
			if set := j.plane(w.sw, bits.TrailingZeros16(y), int(l2)); set[at]&m == 0 {
				set[at] |= m
			}
		}
	}
	return lanes
}
