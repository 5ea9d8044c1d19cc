package transition

import (
	"math/bits"

	"heddle/fabric"
	"heddle/ib"
	"heddle/route"
)

// layout numbers the channels of a graph and of its frozen switches, their
// lanes, and the dependencies between them.
//
// A node is a lane of a channel: channel·lanes + lane. A dependency is one bit:
// the row of a node has a column for each channel that leaves the next switch,
// and within it one for each lane if packets may change lanes (cross).
type layout struct {
	g       *fabric.Graph
	n       int // switches: those of g, then the frozen ones
	managed int // switches of g
	m       int // channels, those of g first
	lanes   int32
	cross   bool
	row     []int64 // by channel: first bit of its rows, in units of lanes (and of lanes again if cross)
	col     []int32 // by channel: its column
	deg     []int32 // by channel: channels that leave the switch it enters
	nbits   int64
	port    []int32 // channel by switch·256 + port, or -1
	to      []int32
	from    []int32
	vls     []uint8
	inPort  []uint8
	outPort []uint8
	outs    []int32 // channels by the switch they leave
	outOff  []int32
	into    []int32 // channels by the switch they enter
	intoOff []int32
	hasCA   []bool // by switch: a CA or router port hangs on it
}

type depSet []uint64

func (d depSet) has(b int64) bool { return d[b>>6]&(1<<(b&63)) != 0 }
func (d depSet) set(b int64)      { d[b>>6] |= 1 << (b & 63) }
func (d depSet) clear(b int64)    { d[b>>6] &^= 1 << (b & 63) }

func newLayout(g *fabric.Graph, frozen []Frozen, left []LeftCable) *layout {
	n := len(g.Switches)
	x := &layout{g: g, managed: n, n: n + len(frozen), m: len(g.Channels), lanes: 1}
	extra := 2 * len(left)
	for i := range frozen {
		extra += 2 * len(frozen[i].Cables)
	}
	m := x.m + extra
	ints := make([]int32, 0, 4*m)
	take := func() []int32 { l := len(ints); ints = ints[:l+m]; return ints[l : l+m : l+m] }
	x.to, x.from, x.col, x.deg = take(), take(), take(), take()
	x.vls, x.inPort, x.outPort = make([]uint8, m), make([]uint8, m), make([]uint8, m)
	x.row = make([]int64, m)
	x.port = make([]int32, x.n*256)
	for i := range x.port {
		x.port[i] = -1
	}
	x.hasCA = make([]bool, x.n)
	for c := range g.Channels {
		ch := &g.Channels[c]
		x.to[c], x.from[c], x.vls[c], x.inPort[c], x.outPort[c] = ch.To, ch.From, max(ch.VLs, 1), ch.InPort, ch.OutPort
		x.port[int(ch.From)<<8|int(ch.OutPort)] = int32(c)
	}
	x.addFrozen(frozen, left)
	x.to, x.from, x.col, x.deg = x.to[:x.m], x.from[:x.m], x.col[:x.m], x.deg[:x.m]
	for i := range g.EndPorts {
		if e := &g.EndPorts[i]; e.Type != ib.NodeSwitch && e.Switch >= 0 {
			x.hasCA[e.Switch] = true
		}
	}
	x.outs, x.outOff = group(x.from, x.n)
	x.into, x.intoOff = group(x.to, x.n)
	for s := range x.n {
		for i := x.outOff[s]; i < x.outOff[s+1]; i++ {
			x.col[x.outs[i]] = i - x.outOff[s]
		}
	}
	for c := range x.m {
		x.deg[c] = x.outOff[x.to[c]+1] - x.outOff[x.to[c]]
		x.row[c] = x.nbits
		x.nbits += int64(x.deg[c])
	}
	return x
}

// addFrozen adds the links of the frozen switches, and the left links. Each link
// of a frozen switch is listed at one frozen end at least; unknown ends are
// skipped.
func (x *layout) addFrozen(frozen []Frozen, left []LeftCable) {
	if len(frozen)+len(left) == 0 {
		return
	}
	index := make(map[ib.GUID]int32, x.n)
	for s := range x.g.Switches {
		index[x.g.Switches[s].GUID] = int32(s)
	}
	for i := range frozen {
		index[frozen[i].GUID] = int32(x.managed + i)
		x.hasCA[x.managed+i] = true
	}
	add := func(from, to int32, out, in, vls uint8) {
		if at := int(from)<<8 | int(out); x.port[at] < 0 {
			c := x.m
			x.port[at] = int32(c)
			x.to[c], x.from[c], x.vls[c], x.inPort[c], x.outPort[c] = to, from, max(vls, 1), in, out
			x.m++
		}
	}
	for _, c := range left {
		a, ok := index[c.Switch]
		b, found := index[c.Peer]
		if ok && found && a != b {
			add(a, b, c.Port, c.PeerPort, c.VLs)
			add(b, a, c.PeerPort, c.Port, c.VLs)
		}
	}
	for i := range frozen {
		for _, c := range frozen[i].Cables {
			if peer, ok := index[c.Peer]; ok {
				self := int32(x.managed + i)
				add(self, peer, c.Port, c.PeerPort, c.VLs)
				add(peer, self, c.PeerPort, c.Port, c.VLs)
			}
		}
	}
}

// group lists 0..len(key)-1 by key, ascending within one.
func group(key []int32, n int) (list, off []int32) {
	off = make([]int32, n+1)
	for _, k := range key {
		off[k+1]++
	}
	for s := range n {
		off[s+1] += off[s]
	}
	list = make([]int32, len(key))
	next := append([]int32(nil), off[:n]...)
	for c, k := range key {
		list[next[k]] = int32(c)
		next[k]++
	}
	return list, off
}

// setLanes fixes how many lanes nodes have; before any set is made.
func (x *layout) setLanes(lanes int, cross bool) {
	x.lanes, x.cross = int32(max(lanes, 1)), cross && lanes > 1
}

func (x *layout) newSet() depSet {
	bits := x.nbits * int64(x.lanes)
	if x.cross {
		bits *= int64(x.lanes)
	}
	return make(depSet, (bits+63)/64)
}

// bit is the dependency of lane v1 of channel c1 on lane v2 of c2, which
// leaves the switch that c1 enters.
func (x *layout) bit(c1, v1, c2, v2 int32) int64 {
	b := x.row[c1]*int64(x.lanes) + int64(v1*x.deg[c1]+x.col[c2])
	if x.cross {
		b = b*int64(x.lanes) + int64(v2)
	}
	return b
}

func (x *layout) nodes() int { return x.m * int(x.lanes) }

// succ appends the nodes that packets holding node u may wait for to buf.
func (x *layout) succ(d depSet, u int32, buf []int32) []int32 {
	c, lane := u/x.lanes, u%x.lanes
	s := x.to[c]
	outs := x.outs[x.outOff[s]:x.outOff[s+1]]
	b := x.row[c]*int64(x.lanes) + int64(lane*x.deg[c])
	width := int64(x.deg[c])
	if x.cross {
		b, width = b*int64(x.lanes), width*int64(x.lanes)
	}
	start, end := b, b+width
	for b < end {
		word := d[b>>6] >> (b & 63)
		if left := end - b; left < 64 {
			word &= 1<<left - 1
		}
		at := int32(b - start)
		for ; word != 0; word &= word - 1 {
			k := at + int32(bits.TrailingZeros64(word))
			if x.cross {
				buf = append(buf, outs[k/x.lanes]*x.lanes+k%x.lanes)
			} else {
				buf = append(buf, outs[k]*x.lanes+lane)
			}
		}
		b = (b | 63) + 1
	}
	return buf
}

// pred appends the nodes that may wait for node v to buf.
func (x *layout) pred(d depSet, v int32, buf []int32) []int32 {
	c, lane := v/x.lanes, v%x.lanes
	s := x.from[c]
	for _, e := range x.into[x.intoOff[s]:x.intoOff[s+1]] {
		if !x.cross {
			if d.has(x.bit(e, lane, c, lane)) {
				buf = append(buf, e*x.lanes+lane)
			}
			continue
		}
		for l := range x.lanes {
			if d.has(x.bit(e, l, c, lane)) {
				buf = append(buf, e*x.lanes+l)
			}
		}
	}
	return buf
}

// topoOrder numbers the nodes so that every dependency points forward; false if
// there is a cycle.
func (x *layout) topoOrder(d depSet) ([]int32, bool) {
	m := x.nodes()
	in := make([]int32, m)
	var next []int32
	for u := range m {
		next = x.succ(d, int32(u), next[:0])
		for _, v := range next {
			in[v]++
		}
	}
	queue := make([]int32, 0, m)
	for u := range m {
		if in[u] == 0 {
			queue = append(queue, int32(u))
		}
	}
	ord := in
	for h := 0; h < len(queue); h++ {
		next = x.succ(d, queue[h], next[:0])
		for _, v := range next {
			if in[v]--; in[v] == 0 {
				queue = append(queue, v)
			}
		}
	}
	if len(queue) != m {
		return nil, false
	}
	for h, u := range queue {
		ord[u] = int32(h)
	}
	return ord, true
}

// effective is the entry that a switch applies: Drop if the row is unknown or
// too short, or above the top.
func effective(t *route.Tables, s int32, l int) byte {
	if int(s) >= len(t.LFT) {
		return route.Drop
	}
	row := t.LFT[s]
	if l >= len(row) || l > int(t.TopLID) {
		return route.Drop
	}
	return row[l]
}

// parts numbers the connected parts of a graph, by switch.
func parts(g *fabric.Graph) []int32 {
	comp := make([]int32, len(g.Switches))
	for s := range comp {
		comp[s] = -1
	}
	var queue []int32
	for s := range comp {
		if comp[s] >= 0 {
			continue
		}
		comp[s] = int32(s)
		queue = append(queue[:0], int32(s))
		for len(queue) > 0 {
			u := queue[len(queue)-1]
			queue = queue[:len(queue)-1]
			for _, c := range g.Channels[g.Off[u]:g.Off[u+1]] {
				if comp[c.To] < 0 {
					comp[c.To] = int32(s)
					queue = append(queue, c.To)
				}
			}
		}
	}
	return comp
}
