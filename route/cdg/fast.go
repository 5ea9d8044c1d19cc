package cdg

import (
	"math/bits"
	"slices"
	"sync"
)

// The searches of this file are for graphs of one lane whose switches have at most 63 ports. They
// process the nodes that wait for a node as one word, and find what the general ones find.

// thin reports whether a graph is such a one.
func (g *Graph) thin() bool { return g.lanes == 1 && g.shape.thin }

// finder is the scratch space of such a search. Its bits are all 0 between searches.
type finder struct {
	seen, way []uint64 // by switch: bits by port
	fore      []int32  // nodes
	back      []int32
	from      []int32    // by index in fore: that of the node it was found from
	rows      [][]uint64 // by switch: rows of bits by input port, as plane.fwd

	// To sort nodes by position, both from the lowest of the two ends on.
	inFore, inBack []uint64 // bits by position
	node           []int32  // by position
}

var finders = sync.Pool{New: func() any { return new(finder) }}

// finderFor takes a finder for a graph; done puts it back.
func (g *Graph) finderFor() *finder {
	f := finders.Get().(*finder)
	if n := len(g.sw); len(f.seen) < n {
		f.seen, f.way, f.rows = make([]uint64, n), make([]uint64, n), make([][]uint64, n)
	}
	f.fore, f.back, f.from = f.fore[:0], f.back[:0], f.from[:0]
	return f
}

func (f *finder) done() {
	clear(f.seen)
	clear(f.way)
	clear(f.rows)
	finders.Put(f)
}

// waiting returns the switch that a node enters, and the nodes there that wait for it as bits by
// port.
func (g *Graph) waiting(x int32) (v int32, row uint64) {
	sh := g.shape
	to := sh.next[x]
	if to < 0 {
		return 0, 0
	}
	v = sh.at[to]
	if b := g.sw[v]; b != nil && b.planes[0] != nil {
		row = b.planes[0].fwd[to-sh.base[v]]
	}
	return v, row
}

// insert does what toposort.Inserter.Insert does for the edge x→y.
func (f *finder) insert(g *Graph, pos []int32, x, y int32) bool {
	if x == y {
		return false
	}
	sh, lo, hi := g.shape, pos[y], pos[x]
	between := func(z int32) bool { return lo < pos[z] && pos[z] < hi }
	f.fore = append(f.fore, y)
	for h := 0; h < len(f.fore); h++ {
		v, row := g.waiting(f.fore[h])
		m := row &^ f.seen[v]
		for f.seen[v] |= m; m != 0; m &= m - 1 {
			z := sh.base[v] + int32(bits.TrailingZeros64(m))
			if between(z) {
				f.fore = append(f.fore, z)
			} else if z == x {
				return false
			}
		}
	}
	clear(f.seen) // from here on by input port, which has one node
	f.back = append(f.back, x)
	for h := 0; h < len(f.back); h++ {
		z := f.back[h]
		v := sh.at[z]
		b := g.sw[v]
		if b == nil || b.planes[0] == nil {
			continue
		}
		m := b.planes[0].back[z-sh.base[v]] &^ f.seen[v]
		for f.seen[v] |= m; m != 0; m &= m - 1 {
			if u := sh.next[sh.base[v]+int32(bits.TrailingZeros64(m))]; between(u) {
				f.back = append(f.back, u)
			}
		}
	}
	f.reorder(pos, lo, hi)
	return true
}

// reorder gives the positions of fore and back, which are between lo and hi, to back first.
func (f *finder) reorder(pos []int32, lo, hi int32) {
	n := int(hi-lo) + 1
	if len(f.node) < n {
		f.node, f.inFore, f.inBack = make([]int32, n), make([]uint64, n/64+1), make([]uint64, n/64+1)
	}
	inFore, inBack := f.inFore[:(n+63)/64], f.inBack[:(n+63)/64]
	put := func(in []uint64, list []int32) {
		for _, z := range list {
			k := pos[z] - lo
			in[k/64] |= 1 << (k % 64)
			f.node[k] = z
		}
	}
	put(inFore, f.fore)
	put(inBack, f.back)
	list := f.from[:0] // all nodes in their new order
	for _, in := range [2][]uint64{inBack, inFore} {
		for w, m := range in {
			for ; m != 0; m &= m - 1 {
				list = append(list, f.node[w*64+bits.TrailingZeros64(m)])
			}
		}
	}
	k := 0
	for w := range inFore {
		for m := inFore[w] | inBack[w]; m != 0; m &= m - 1 {
			pos[list[k]] = lo + int32(w*64+bits.TrailingZeros64(m))
			k++
		}
	}
	clear(inFore)
	clear(inBack)
	f.from = list
}

// cycle reports whether nodes lead back to themselves, or to each other, if deps are added. Without
// those all dependencies agree with the order pos; no node behind last leads to the start of one. The
// nodes of the cycle are in f.fore then, each waited for by the one before, the first by the last.
func (f *finder) cycle(g *Graph, deps []Dep, from, pos []int32, last int32) bool {
	f.add(g, deps)
	type frame struct {
		v    int32 // switch that the node enters
		node int32
		row  uint64 // nodes that wait for it
	}
	sh := g.shape
	var stack []frame
	// enter marks a node and pushes it if others wait for it; false: one of them is on the way.
	enter := func(x int32) bool {
		v := sh.at[x]
		bit := uint64(1) << (x - sh.base[v])
		f.seen[v] |= bit
		if pos[x] > last {
			return true
		}
		u, row := g.waiting(x)
		if r := f.rows[u]; r != nil && sh.next[x] >= 0 {
			row = r[sh.next[x]-sh.base[u]]
		}
		if row == 0 {
			return true
		}
		f.way[v] |= bit
		stack = append(stack, frame{u, x, row})
		m := row & f.way[u]
		if m == 0 {
			return true
		}
		first := sh.base[u] + int32(bits.TrailingZeros64(m))
		at := slices.IndexFunc(stack, func(t frame) bool { return t.node == first })
		for _, t := range stack[at:] {
			f.fore = append(f.fore, t.node)
		}
		return false
	}
	for _, x := range from {
		if v := sh.at[x]; f.seen[v]>>(x-sh.base[v])&1 != 0 {
			continue
		}
		if !enter(x) {
			return true
		}
		for len(stack) > 0 {
			t := &stack[len(stack)-1]
			if m := t.row &^ f.seen[t.v]; m != 0 {
				if !enter(sh.base[t.v] + int32(bits.TrailingZeros64(m))) {
					return true
				}
				continue
			}
			v := sh.at[t.node]
			f.way[v] &^= 1 << (t.node - sh.base[v])
			stack = stack[:len(stack)-1]
		}
	}
	return false
}

// add puts dependencies into f.rows, which has copies of the rows of the switches concerned.
func (f *finder) add(g *Graph, deps []Dep) {
	for _, d := range deps {
		v := d.Switch
		if f.rows[v] == nil {
			if b := g.sw[v]; b != nil && b.planes[0] != nil {
				f.rows[v] = slices.Clone(b.planes[0].fwd)
			} else {
				f.rows[v] = make([]uint64, g.shape.base[v+1]-g.shape.base[v])
			}
		}
		f.rows[v][d.In] |= 1 << d.Out
	}
}

// shortest finds the first way from y to x in breadth-first order; nil: there is none.
func (f *finder) shortest(g *Graph, y, x int32) (list []int32) {
	sh := g.shape
	v := sh.at[y]
	f.seen[v] |= 1 << (y - sh.base[v])
	f.fore, f.from = append(f.fore, y), append(f.from, -1)
	for h := 0; h < len(f.fore); h++ {
		if f.fore[h] == x {
			for k := int32(h); k >= 0; k = f.from[k] {
				list = append(list, f.fore[k])
			}
			slices.Reverse(list)
			return list
		}
		v, row := g.waiting(f.fore[h])
		m := row &^ f.seen[v]
		for f.seen[v] |= m; m != 0; m &= m - 1 {
			f.fore, f.from = append(f.fore, sh.base[v]+int32(bits.TrailingZeros64(m))), append(f.from, int32(h))
		}
	}
	return nil
}
