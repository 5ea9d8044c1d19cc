package cdg

import (
	"math/bits"
	"slices"
)

// A search sees a node both as an output port of one switch and, by shape.next,
// as an input port of the next one. Marks are kept by input port, one row of
// bits for each switch and lane, so that a transposed row of dependencies and a
// row of marks can be combined; or by output port, to search forward.

// rows has one row of bits for each switch and lane.
type rows struct {
	off  []int32 // by switch
	bits []uint64
}

func (g *Graph) rows() rows {
	r := rows{off: make([]int32, len(g.sw)+1)}
	for v := range g.sw {
		w := int(g.shape.base[v+1]-g.shape.base[v]+63) / 64
		r.off[v+1] = r.off[v] + int32(w*g.lanes)
	}
	r.bits = make([]uint64, r.off[len(g.sw)])
	return r
}

func (r *rows) row(v int32, lane, words int) []uint64 {
	at := int(r.off[v]) + lane*words
	return r.bits[at : at+words]
}

// node packs a Hop: number of the output port · lanes + lane.
func (g *Graph) node(h Hop) int32 {
	return (g.shape.base[h.Switch]+int32(h.Port))*int32(g.lanes) + int32(h.Lane)
}

func (g *Graph) hop(x int32) Hop {
	p := x / int32(g.lanes)
	v := g.shape.at[p]
	return Hop{v, uint8(p - g.shape.base[v]), uint8(int(x) % g.lanes)}
}

// nodes is the highest node plus one.
func (g *Graph) nodes() int { return len(g.shape.next) * g.lanes }

// ends returns both nodes of a dependency. The link of its input port must
// exist.
func (g *Graph) ends(d Dep) (x, y int32) {
	in := g.shape.next[g.shape.base[d.Switch]+int32(d.In)] // the far end of the link
	return in*int32(g.lanes) + int32(d.InLane), g.node(Hop{d.Switch, d.Out, d.OutLane})
}

// dep is the dependency of a node on another one, with one lane.
func (g *Graph) dep(x, y int32) Dep {
	to := g.shape.next[x]
	v := g.shape.at[to]
	return Dep{Switch: v, In: uint8(to - g.shape.base[v]), Out: uint8(y - g.shape.base[v])}
}

// depth-first search from all nodes, or a union of graphs with one shape.
type search struct {
	g     *Graph // for shape and lanes
	of    []*Graph
	seen  rows // by output port
	onWay rows // by output port: on the path to the current node
	buf   [4]uint64
	stack []frame
	post  []int32 // nodes in postorder; nil: not needed
}

type frame struct {
	x    int32 // node
	in   int32 // port of the switch it enters
	v    int32
	lane int16 // lane of the node
	next int16 // next lane
}

func newSearch(of []*Graph) *search {
	s := &search{g: of[0], of: of}
	s.seen, s.onWay = s.g.rows(), s.g.rows()
	return s
}

// succ returns the row of bits of the nodes on lane l2 that wait for a node
// which enters v by port in on lane l1; nil: none.
func (s *search) succ(v, in int32, l1, l2 int) []uint64 {
	var row []uint64
	for i, g := range s.of {
		b := g.sw[v]
		if b == nil {
			continue
		}
		p := b.planes[l1*g.lanes+l2]
		if p == nil {
			continue
		}
		r := p.fwd[int(in)*b.words : (int(in)+1)*b.words]
		if row == nil {
			row = r
			continue
		}
		if i > 0 && &row[0] != &s.buf[0] {
			row = s.buf[:copy(s.buf[:], row)]
		}
		for k, x := range r {
			row[k] |= x
		}
	}
	return row
}

// push enters a node and reports whether it waits for one on the path, which is
// a cycle.
func (s *search) push(v int32, port int, lane int) bool {
	sh := s.g.shape
	words := int(sh.base[v+1]-sh.base[v]+63) / 64
	s.seen.row(v, lane, words)[port>>6] |= 1 << (port & 63)
	s.onWay.row(v, lane, words)[port>>6] |= 1 << (port & 63)
	x := (sh.base[v]+int32(port))*int32(s.g.lanes) + int32(lane)
	f := frame{x: x, v: -1, lane: int16(lane)}
	if to := sh.next[sh.base[v]+int32(port)]; to >= 0 {
		f.v = sh.at[to]
		f.in = to - sh.base[f.v]
	}
	s.stack = append(s.stack, f)
	if f.v < 0 {
		return false
	}
	w := int(sh.base[f.v+1]-sh.base[f.v]+63) / 64
	for l2 := range s.g.lanes {
		way := s.onWay.row(f.v, l2, w)
		for k, b := range s.succ(f.v, f.in, lane, l2) {
			if b&way[k] != 0 {
				return true
			}
		}
	}
	return false
}

// from searches from a node. It stops at the first cycle, with the path to it
// on the stack, and reports whether it found one.
func (s *search) from(v int32, port, lane int, stop bool) bool {
	sh := s.g.shape
	if s.push(v, port, lane) && stop {
		return true
	}
	for len(s.stack) > 0 {
		f := &s.stack[len(s.stack)-1]
		found := false
		if f.v >= 0 {
			words := int(sh.base[f.v+1]-sh.base[f.v]+63) / 64
			for int(f.next) < s.g.lanes && !found {
				l2 := int(f.next)
				seen := s.seen.row(f.v, l2, words)
				for k, b := range s.succ(f.v, f.in, int(f.lane), l2) {
					if b &^= seen[k]; b != 0 {
						found = true
						if s.push(f.v, k<<6+bits.TrailingZeros64(b), l2) && stop {
							return true
						}
						break
					}
				}
				if !found {
					f.next++
				}
			}
		}
		if found {
			continue
		}
		h := s.g.hop(f.x)
		words := int(sh.base[h.Switch+1]-sh.base[h.Switch]+63) / 64
		s.onWay.row(h.Switch, int(h.Lane), words)[h.Port>>6] &^= 1 << (h.Port & 63)
		if s.post != nil {
			s.post = append(s.post, f.x)
		}
		s.stack = s.stack[:len(s.stack)-1]
	}
	return false
}

// leads reports whether anything at switch v waits for packets on a lane.
func (s *search) leads(v int32, lane int) bool {
	for _, g := range s.of {
		if b := g.sw[v]; b != nil {
			for _, p := range b.planes[lane*g.lanes : (lane+1)*g.lanes] {
				if p != nil {
					return true
				}
			}
		}
	}
	return false
}

// all searches from every node that others may wait for.
func (s *search) all(stop bool) bool {
	sh := s.g.shape
	for v := range int32(len(s.g.sw)) {
		words := int(sh.base[v+1]-sh.base[v]+63) / 64
		for lane := range s.g.lanes {
			seen := s.seen.row(v, lane, words)
			for p := sh.base[v]; p < sh.base[v+1]; p++ {
				port := int(p - sh.base[v])
				if sh.next[p] < 0 || seen[port>>6]>>(port&63)&1 != 0 || !s.leads(sh.at[sh.next[p]], lane) {
					continue
				}
				if s.from(v, port, lane, stop) {
					return true
				}
			}
		}
	}
	return false
}

// Closes returns a shortest cycle that a dependency closes with those of the graph: the
// hops from the end of the dependency back to its start; nil if it closes none.
func (g *Graph) Closes(d Dep) []Hop {
	x, y := g.ends(d)
	if g.thin() {
		f := g.finderFor()
		defer f.done()
		var list []Hop
		for _, z := range f.shortest(g, y, x) {
			list = append(list, g.hop(z))
		}
		return list
	}
	before := make([]int32, g.nodes()) // plus 1; 0: not seen
	before[y] = y + 1
	queue := []int32{y}
	var next []int32
	for h := 0; h < len(queue) && before[x] == 0; h++ {
		next = g.successors(queue[h], next[:0])
		for _, v := range next {
			if before[v] == 0 {
				before[v] = queue[h] + 1
				queue = append(queue, v)
			}
		}
	}
	if before[x] == 0 {
		return nil
	}
	list := []Hop{g.hop(x)}
	for v := x; v != y; {
		v = before[v] - 1
		list = append(list, g.hop(v))
	}
	slices.Reverse(list)
	return list
}

// Tangles counts the strongly connected components with at least two nodes in
// the union of g and more, all of one shape, that contain a dependency which g
// lacks. (S. R. Kosaraju's and M. Sharir's two searches, the second one against
// the dependencies.)
//
// Complexity O(channels × lanes), with a few words of bits each.
func (g *Graph) Tangles(more *Graph) int {
	of := []*Graph{g, more}
	if n := narrowed(of...); n != nil {
		id, big := n.components(n.postorder(false))
		return g.foreign(more, id, big)
	}
	s := newSearch(of)
	s.post = make([]int32, 0, 1024)
	s.all(false)

	sh, lanes := g.shape, g.lanes
	id := make([]int32, g.nodes())
	left := g.rows() // by input port of the switch that a node enters: not yet in a component
	for _, to := range sh.next {
		if to < 0 {
			continue
		}
		v := sh.at[to]
		words := int(sh.base[v+1]-sh.base[v]+63) / 64
		for lane := range lanes {
			port := to - sh.base[v]
			left.row(v, lane, words)[port>>6] |= 1 << (port & 63)
		}
	}
	take := func(x int32) {
		to := sh.next[x/int32(lanes)]
		v := sh.at[to]
		port := to - sh.base[v]
		words := int(sh.base[v+1]-sh.base[v]+63) / 64
		left.row(v, int(x)%lanes, words)[port>>6] &^= 1 << (port & 63)
	}
	count := int32(0)
	var stack []int32
	big := make([]bool, 1, 64)
	for i := len(s.post) - 1; i >= 0; i-- {
		if id[s.post[i]] != 0 {
			continue
		}
		count++
		size := 0
		stack = append(stack[:0], s.post[i])
		id[s.post[i]] = count
		take(s.post[i])
		for len(stack) > 0 {
			x := stack[len(stack)-1]
			stack = stack[:len(stack)-1]
			size++
			h := g.hop(x)
			words := int(sh.base[h.Switch+1]-sh.base[h.Switch]+63) / 64
			for l1 := range lanes {
				rest := left.row(h.Switch, l1, words)
				for _, d := range of {
					b := d.sw[h.Switch]
					if b == nil || b.planes[l1*lanes+int(h.Lane)] == nil {
						continue
					}
					row := b.planes[l1*lanes+int(h.Lane)].back[int(h.Port)*words : (int(h.Port)+1)*words]
					for k := range row {
						for m := row[k] & rest[k]; m != 0; m &= m - 1 {
							in := int32(k<<6 + bits.TrailingZeros64(m))
							y := sh.next[sh.base[h.Switch]+in]*int32(lanes) + int32(l1)
							id[y] = count
							take(y)
							stack = append(stack, y)
						}
					}
				}
			}
		}
		big = append(big, size > 1)
	}
	return g.foreign(more, id, big)
}

// foreign counts the components that hold a dependency of more alone.
func (g *Graph) foreign(more *Graph, id []int32, big []bool) int {
	sh, lanes := g.shape, g.lanes
	found := make([]bool, len(big))
	n := 0
	for v, b := range more.sw {
		if b == nil {
			continue
		}
		for at, p := range b.planes {
			if p == nil {
				continue
			}
			var own *plane
			if g.sw[v] != nil {
				own = g.sw[v].planes[at]
			}
			for in := range b.width {
				from := sh.next[sh.base[v]+int32(in)]
				if from < 0 {
					continue
				}
				k := id[from*int32(lanes)+int32(at/lanes)]
				if !big[k] || found[k] {
					continue
				}
				for w, x := range p.fwd[in*b.words : (in+1)*b.words] {
					if own != nil {
						x &^= own.fwd[in*b.words+w]
					}
					for ; x != 0; x &= x - 1 {
						out := sh.base[v] + int32(w<<6+bits.TrailingZeros64(x))
						if id[out*int32(lanes)+int32(at%lanes)] == k && !found[k] {
							found[k] = true
							n++
						}
					}
				}
			}
		}
	}
	return n
}
