// Package cdg counts the dependencies between the channels of a fabric: for
// each pair of (channel, lane), how many destinations make a packet that holds
// the first wait for the second (W. J. Dally and C. L. Seitz, "Deadlock-free
// message routing in multiprocessor interconnection networks", 1987). Counts
// make it possible to remove the dependencies of one destination; copies share
// unchanged parts, so a graph can be updated from one set of tables to the
// next:
//
//	deps := cdg.New(cdg.NewShape(g), lanes)
//	for … { // each dependency of each destination
//		deps.Add(d, +1)
//	}
//	order := deps.Order() // nil: there is a cycle
//	…
//	try, o := deps.Clone(), order.Clone()
//	if try.Add(d, +1) > 0 && !o.Insert(try, d) {
//		… // d closes a cycle: try.Closes(d)
//	}
//
// A dependency names the switch where packets wait, their ingress port and
// lane, and the egress port and lane. Each ordered pair of ports and pair of
// lanes of a switch has a count, in one slab for each switch and pair of lanes;
// bit matrices next to it let searches process 64 channels per step.
//
// Memory: two bits for each pair of ports of a switch, for each pair of lanes
// that has any dependency there, and 4 bytes for each pair of ports in the same
// page of counts as one. Clone costs a pointer for each switch; a change after it
// copies the switch's bits and a page of its counts.
package cdg

import (
	"math/bits"
	"sync/atomic"

	"heddle/fabric"
)

// Shape is the part that the graphs of one fabric share: the far end of each
// channel. It is immutable.
type Shape struct {
	base []int32 // by switch: number of its port 0; switch s has ports base[s]..base[s+1]-1
	next []int32 // by number of an output port: that of the input port it is cabled to, or -1
	at   []int32 // by number of a port: its switch
	thin bool    // no switch has more than 63 ports
}

// NewShape takes the switches and channels of g. Ports keep their numbers while
// the switches and their port counts stay the same, regardless of links, so a
// graph can move to the shape of a changed fabric (Graph.Move).
func NewShape(g *fabric.Graph) *Shape {
	n := len(g.Switches)
	s := &Shape{base: make([]int32, n+1)}
	width := make([]int32, n)
	for v := range n {
		width[v] = int32(g.Switches[v].NumPorts)
	}
	for c := range g.Channels {
		k := &g.Channels[c]
		width[k.From] = max(width[k.From], int32(k.OutPort))
		width[k.To] = max(width[k.To], int32(k.InPort))
	}
	s.thin = true
	for v, w := range width {
		s.base[v+1] = s.base[v] + w + 1
		s.thin = s.thin && w < 64
	}
	s.next, s.at = make([]int32, s.base[n]), make([]int32, s.base[n])
	for v := range n {
		for p := s.base[v]; p < s.base[v+1]; p++ {
			s.next[p], s.at[p] = -1, int32(v)
		}
	}
	for c := range g.Channels {
		k := &g.Channels[c]
		s.next[s.base[k.From]+int32(k.OutPort)] = s.base[k.To] + int32(k.InPort)
	}
	return s
}

// Alike reports whether two shapes number switches and ports alike.
func (s *Shape) Alike(o *Shape) bool {
	if len(s.base) != len(o.base) {
		return false
	}
	for i, b := range s.base {
		if o.base[i] != b {
			return false
		}
	}
	return true
}

// Dep is a dependency: at Switch, packets that entered by port In on InLane
// wait for port Out on OutLane.
type Dep struct {
	Switch       int32
	In, InLane   uint8
	Out, OutLane uint8
}

// Hop is a node of the graph: the channel that leaves a switch by a port, on
// a lane.
type Hop struct {
	Switch     int32
	Port, Lane uint8
}

// Graph holds counted dependencies. Any number of goroutines may read it; a
// writer needs exclusive access.
type Graph struct {
	shape  *Shape
	lanes  int
	sw     []*block
	owner  *token
	shared atomic.Bool
}

// token identifies the Graph that may change a part in place. It is not empty,
// so that each has its own address.
type token struct{ _ byte }

// block holds the dependencies of a switch.
type block struct {
	owner  *token
	width  int // ports, port 0 included
	words  int // of a row of bits
	planes []*plane
}

// plane has the dependencies of a switch from one lane to another.
type plane struct {
	owner *token
	count []*page  // by out·width + in, in pages; nil: all of a page are 0
	fwd   []uint64 // by in: the outs that have a count
	back  []uint64 // by out: the ins
}

// page is part of the counts of a plane, copied when one of them changes. A LID that gets other
// entries changes counts of one output port at most switches, which are in one page or two.
type page struct {
	owner *token
	n     [pageLen]uint32
}

// pageLen makes a page as large as a block of the allocator.
const pageLen = 126

// newPlane returns a plane without dependencies.
func newPlane(b *block, owner *token) *plane {
	rows := make([]uint64, 2*b.width*b.words)
	return &plane{
		owner: owner, count: make([]*page, (b.width*b.width+pageLen-1)/pageLen),
		fwd: rows[:b.width*b.words], back: rows[b.width*b.words:],
	}
}

// copied is the plane for changes by owner. It shares the pages of counts.
func (p *plane) copied(b *block, owner *token) *plane {
	q := newPlane(b, owner)
	copy(q.count, p.count)
	copy(q.fwd, p.fwd)
	copy(q.back, p.back)
	return q
}

// at is a count.
func (p *plane) at(b *block, in, out uint8) uint32 {
	k := int(out)*b.width + int(in)
	if c := p.count[k/pageLen]; c != nil {
		return c.n[k%pageLen]
	}
	return 0
}

// own is a count for changing it.
func (p *plane) own(b *block, in, out uint8) *uint32 {
	k := int(out)*b.width + int(in)
	c := p.count[k/pageLen]
	switch {
	case c == nil:
		c = &page{owner: p.owner}
		p.count[k/pageLen] = c
	case c.owner != p.owner:
		c = &page{p.owner, c.n}
		p.count[k/pageLen] = c
	}
	return &c.n[k%pageLen]
}

// New returns a graph without dependencies, for data lanes 0..lanes-1.
func New(s *Shape, lanes int) *Graph {
	return &Graph{shape: s, lanes: lanes, sw: make([]*block, len(s.base)-1), owner: &token{}}
}

// Lanes is the number of lanes that the graph was made for.
func (g *Graph) Lanes() int { return g.lanes }

// Clone returns a copy that shares everything until one of the two changes.
// Several goroutines may clone one graph concurrently.
func (g *Graph) Clone() *Graph {
	g.shared.Store(true)
	c := &Graph{shape: g.shape, lanes: g.lanes, sw: make([]*block, len(g.sw)), owner: &token{}}
	copy(c.sw, g.sw)
	return c
}

// Move gives the graph the shape of a changed fabric, which must be Alike.
// Dependencies over removed links must have been removed.
func (g *Graph) Move(s *Shape) { g.shape = s }

// Widen increases the number of lanes; existing dependencies stay on their
// lanes. Orders of the graph become invalid.
func (g *Graph) Widen(lanes int) {
	if lanes <= g.lanes {
		return
	}
	g.owner = &token{}
	g.shared.Store(false)
	for v, b := range g.sw {
		if b == nil {
			continue
		}
		c := *b
		c.owner = g.owner
		c.planes = make([]*plane, lanes*lanes)
		for at, p := range b.planes {
			c.planes[at/g.lanes*lanes+at%g.lanes] = p
		}
		g.sw[v] = &c
	}
	g.lanes = lanes
}

// writable returns the plane of a pair of lanes of a switch for changing it.
func (g *Graph) writable(v int32, l1, l2 uint8) (*block, *plane) {
	if g.shared.Load() {
		g.owner = &token{}
		g.shared.Store(false)
	}
	b := g.sw[v]
	switch {
	case b == nil:
		w := int(g.shape.base[v+1] - g.shape.base[v])
		b = &block{owner: g.owner, width: w, words: (w + 63) / 64, planes: make([]*plane, g.lanes*g.lanes)}
		g.sw[v] = b
	case b.owner != g.owner:
		c := *b
		c.owner = g.owner
		c.planes = append([]*plane(nil), b.planes...)
		b = &c
		g.sw[v] = b
	}
	at := int(l1)*g.lanes + int(l2)
	p := b.planes[at]
	switch {
	case p == nil:
		p = newPlane(b, g.owner)
		b.planes[at] = p
	case p.owner != g.owner:
		p = p.copied(b, g.owner)
		b.planes[at] = p
	}
	return b, p
}

// Add changes the count of a dependency by n and returns +1 if it is new, -1 if
// it ended, otherwise 0. The count must not fall below 0.
func (g *Graph) Add(d Dep, n int) int {
	if n == 0 {
		return 0
	}
	b, p := g.writable(d.Switch, d.InLane, d.OutLane)
	c := p.own(b, d.In, d.Out)
	was := *c
	*c = uint32(int(was) + n)
	if int(was)+n < 0 {
		panic("cdg: a dependency was taken out that is not there")
	}
	if (was == 0) == (*c == 0) {
		return 0
	}
	p.fwd[int(d.In)*b.words+int(d.Out)>>6] ^= 1 << (d.Out & 63)
	p.back[int(d.Out)*b.words+int(d.In)>>6] ^= 1 << (d.In & 63)
	if was == 0 {
		return 1
	}
	return -1
}

// Count is how often a dependency was added.
func (g *Graph) Count(d Dep) int {
	b := g.sw[d.Switch]
	if b == nil {
		return 0
	}
	p := b.planes[int(d.InLane)*g.lanes+int(d.OutLane)]
	if p == nil {
		return 0
	}
	return int(p.at(b, d.In, d.Out))
}

// Each calls fn for every dependency that has a count, by ascending switch,
// lanes, input and output port.
func (g *Graph) Each(fn func(d Dep, n int)) {
	for v, b := range g.sw {
		if b == nil {
			continue
		}
		for at, p := range b.planes {
			if p == nil {
				continue
			}
			for in := range b.width {
				for w, x := range p.fwd[in*b.words : (in+1)*b.words] {
					for ; x != 0; x &= x - 1 {
						out := w<<6 + bits.TrailingZeros64(x)
						fn(Dep{int32(v), uint8(in), uint8(at / g.lanes), uint8(out), uint8(at % g.lanes)}, int(p.at(b, uint8(in), uint8(out))))
					}
				}
			}
		}
	}
}
