// Package layer assigns paths to layers (virtual lanes) in which no cycle of
// waiting channels can form (W. J. Dally and C. L. Seitz, 1987), for engines
// that choose paths first and break cycles after.
//
// The unit of assignment is a pair: all paths from one switch to one class of
// columns (LIDs, or groups of LIDs); in symmetric layerings the pair's paths of
// both directions. There are two methods to fill layers:
//
//   - Split, after J. Domke, T. Hoefler and W. Nagel, "Deadlock-Free Oblivious
//     Routing for Arbitrary Topologies" (2011): all pairs begin in the first
//     layer; as long as a layer has a cycle, the pairs on its weakest
//     dependency move on to the next one.
//   - Fit, after T. Skeie, O. Lysne and I. Theiss, "Layered Shortest Path
//     (LASH) Routing in Irregular System Area Networks" (2002): pair by pair,
//     into the first layer that stays acyclic.
//
// Dependencies are counted, so that Update can move single pairs when their
// paths change.
//
// Only possible traffic counts: a path between two switches without CA or
// router ports makes no dependency in any layer.
package layer

import (
	"heddle/ib"
)

// Max is how many layers there can be: the data lanes of a link (IBA §7.6).
const Max = 15

// Paths are the paths of packets. The slices are kept, and must not change.
type Paths struct {
	Graph *Graph
	// Rows[s][col] is the way (index into Ways[s]) by which switch s sends packets
	// of a column; Ways[s][w] is the channel of a way, -1 for none. Ways beyond
	// the end of Ways[s] are none.
	Rows [][]byte
	Ways [][]int32
	Cols []Column
	// Class[i] are the columns of class i, as indices in Cols.
	Class [][]int32
	// CA marks the switches with CA or router ports.
	CA []bool
	// Symmetric says that classes are switches and that a pair's reverse paths use
	// its layer too.
	Symmetric bool
}

// Column is one tree of paths.
type Column struct {
	Row   int32 // its place in a row of Rows
	Dst   int32
	Class int32
	CA    bool // some LID of it is a CA's or router's
}

// next is the channel by which s sends packets of a column, or -1.
func (p *Paths) next(c *Column, s int32) int32 {
	if s == c.Dst {
		return -1
	}
	w := p.Rows[s][c.Row]
	if ways := p.Ways[s]; int(w) < len(ways) {
		return ways[w]
	}
	return -1
}

// counts reports whether data traffic from s to a column can exist.
func (p *Paths) counts(c *Column, s int32) bool { return c.CA || p.CA[s] }

// walk appends the channels from s to the end of a column's path.
func (p *Paths) walk(path []int32, c *Column, s int32) []int32 {
	for {
		ch := p.next(c, s)
		if ch < 0 {
			return path
		}
		path = append(path, ch)
		s = p.Graph.To[ch]
	}
}

// Layers is the assignment of pairs to layers: SL[src*NumClasses+class] is the
// layer of a pair.
type Layers struct {
	p    *Paths
	SL   []ib.SL
	Used int // layers
	cdg  []*CDG
	w    *search
	path []int32
	ends []int32 // in path: where each path of a unit ends
	node []int32
	way  []byte  // by channel: its index in the ways of its switch
	base []int32 // the order of channels that layers begin with; nil: any
}

func newLayers(p *Paths) *Layers {
	l := &Layers{p: p, SL: make([]ib.SL, p.Graph.Switches()*len(p.Class)), w: &search{}, way: make([]byte, p.Graph.Channels())}
	for _, ways := range p.Ways {
		for w, c := range ways {
			if c >= 0 {
				l.way[c] = byte(w)
			}
		}
	}
	l.grow()
	return l
}

func (l *Layers) grow() {
	d := newCDG(l.p.Graph, l.w)
	if l.base != nil {
		copy(d.ord, l.base)
	}
	l.cdg = append(l.cdg, d)
	l.Used = len(l.cdg)
}

func (l *Layers) at(src, class int32) int { return int(src)*len(l.p.Class) + int(class) }

// put sets the layer of a pair.
func (l *Layers) put(src, class int32, k int) {
	l.SL[l.at(src, class)] = ib.SL(k)
	if l.p.Symmetric {
		l.SL[l.at(class, src)] = ib.SL(k)
	}
}

// unit walks all paths of a pair that count.
func (l *Layers) unit(src, class int32) {
	l.path, l.ends = l.path[:0], l.ends[:0]
	l.half(src, class)
	if l.p.Symmetric {
		l.half(class, src)
	}
}

func (l *Layers) half(src, class int32) {
	for _, i := range l.p.Class[class] {
		c := &l.p.Cols[i]
		if !l.p.counts(c, src) {
			continue
		}
		begin := len(l.path)
		l.path = l.p.walk(l.path, c, src)
		if len(l.path)-begin < 2 {
			l.path = l.path[:begin] // makes no dependency
			continue
		}
		l.ends = append(l.ends, int32(len(l.path)))
	}
}

// tryUnit puts the paths of the unit at hand into a layer, all or none.
func (l *Layers) tryUnit(d *CDG) bool {
	begin := int32(0)
	for i, end := range l.ends {
		if !d.try(l.path[begin:end]) {
			begin = 0
			for _, end := range l.ends[:i] {
				d.remove(l.path[begin:end])
				begin = end
			}
			return false
		}
		begin = end
	}
	return true
}

func (l *Layers) addUnit(d *CDG) {
	begin := int32(0)
	for _, end := range l.ends {
		d.add(l.path[begin:end])
		begin = end
	}
}

func (l *Layers) removeUnit(d *CDG) {
	begin := int32(0)
	for _, end := range l.ends {
		d.remove(l.path[begin:end])
		begin = end
	}
}

// fill counts the dependencies of all paths in the first layer, tree by tree.
func (l *Layers) fill() {
	p := l.p
	n := p.Graph.Switches()
	next, flow, left := make([]int32, n), make([]int32, n), make([]int32, n)
	var queue []int32
	for i := range p.Cols {
		c := &p.Cols[i]
		for s := range n {
			next[s] = p.next(c, int32(s))
			flow[s] = 0
			if p.counts(c, int32(s)) {
				flow[s] = 1
			}
			left[s] = 0
		}
		for _, ch := range next {
			if ch >= 0 {
				left[p.Graph.To[ch]]++
			}
		}
		queue = queue[:0]
		for s, k := range left {
			if k == 0 {
				queue = append(queue, int32(s))
			}
		}
		for h := 0; h < len(queue); h++ {
			c1 := next[queue[h]]
			if c1 < 0 {
				continue
			}
			v := p.Graph.To[c1]
			f := flow[queue[h]]
			flow[v] += f
			if c2 := next[v]; c2 >= 0 && f > 0 {
				l.cdg[0].more(c1, c2, f)
			}
			if left[v]--; left[v] == 0 {
				queue = append(queue, v)
			}
		}
	}
}
