package cdg

import (
	"math/bits"
	"slices"
	"sort"
	"sync/atomic"

	"heddle/internal/toposort"
)

// Order is a topological order of a graph's nodes, kept while dependencies
// are added (internal/toposort). Removed dependencies leave it valid.
type Order struct {
	pos    []int32     // by node
	shared atomic.Bool // pos belongs to a copy too
	ins    toposort.Inserter
}

// Order sorts the nodes of g so that each precedes the nodes that wait for it;
// nil if there is a cycle. Nodes without predecessors come first, then those
// that only they precede, and so on (A. B. Kahn, 1962): in a fat tree this puts
// channels up before channels down, so that few later dependencies disagree.
//
// Complexity O(dependencies).
func (g *Graph) Order() *Order {
	sh, lanes := g.shape, int32(g.lanes)
	in := make([]int32, g.nodes())
	for v, b := range g.sw {
		if b == nil {
			continue
		}
		for at, p := range b.planes {
			if p == nil {
				continue
			}
			for out := range b.width {
				x := (sh.base[v]+int32(out))*lanes + int32(at)%lanes
				for _, w := range p.back[out*b.words : (out+1)*b.words] {
					in[x] += int32(bits.OnesCount64(w))
				}
			}
		}
	}
	o := &Order{pos: make([]int32, len(in))}
	queue := make([]int32, 0, len(in))
	for x, k := range in {
		if k == 0 {
			queue = append(queue, int32(x))
		}
	}
	var next []int32
	for h := 0; h < len(queue); h++ {
		o.pos[queue[h]] = int32(h)
		next = g.successors(queue[h], next[:0])
		for _, y := range next {
			if in[y]--; in[y] == 0 {
				queue = append(queue, y)
			}
		}
	}
	if len(queue) < len(in) {
		return nil
	}
	return o
}

// Clone returns a copy that shares the order until one of the two changes.
// Several goroutines may clone one order concurrently.
func (o *Order) Clone() *Order {
	o.shared.Store(true)
	c := &Order{pos: o.pos}
	c.shared.Store(true)
	return c
}

// Agrees reports whether a dependency points forward in the order.
func (o *Order) Agrees(g *Graph, d Dep) bool {
	x, y := g.ends(d)
	return o.pos[x] < o.pos[y]
}

// Insert makes the order agree with a dependency of g, and reports whether it
// can. If not, the dependency closes a cycle, and the order is invalid until
// the dependency is removed. g may contain dependencies that are inserted
// later.
//
// Complexity: the nodes between the two ends in the old order that are
// reachable from or reach the dependency's ends, and their dependencies.
func (o *Order) Insert(g *Graph, d Dep) bool {
	x, y := g.ends(d)
	if o.pos[x] < o.pos[y] {
		return true
	}
	if o.shared.Load() {
		o.pos = slices.Clone(o.pos)
		o.shared.Store(false)
	}
	if !g.thin() {
		return o.ins.Insert(o.pos, x, y, g.successors, g.predecessors)
	}
	f := g.finderFor()
	defer f.done()
	return f.insert(g, o.pos, x, y)
}

// Closes reports whether dependencies, which g may have or not, close a cycle with all others of g.
// Those agree with the order, which stays as it is.
//
// Complexity: the nodes that the dependencies lead to and that precede the last of their starts.
func (o *Order) Closes(g *Graph, deps []Dep) bool {
	if !g.thin() {
		return o.closes(g, deps)
	}
	f := g.finderFor()
	defer f.done()
	from, last := o.against(g, deps)
	return len(from) > 0 && f.cycle(g, deps, from, o.pos, last)
}

// FirstClosing is the index of the first dependency that closes a cycle with those of g, which all agree
// with the order, and those before it; -1 if none does.
//
// Complexity: some calls of Closes, in the worst case one for each dependency.
func (o *Order) FirstClosing(g *Graph, deps []Dep) int {
	if !g.thin() {
		if !o.closes(g, deps) {
			return -1
		}
		return sort.Search(len(deps), func(n int) bool { return o.closes(g, deps[:n+1]) })
	}
	// The last dependency of any cycle closes it, so the first that closes one is that or an earlier one.
	found := -1
	for n := len(deps); ; n = found {
		f := g.finderFor()
		from, last := o.against(g, deps[:n])
		if len(from) == 0 || !f.cycle(g, deps[:n], from, o.pos, last) {
			f.done()
			return found
		}
		number := make(map[Dep]int, n)
		for i, d := range slices.Backward(deps[:n]) {
			number[d] = i
		}
		found = -1
		for i, x := range f.fore {
			d := g.dep(x, f.fore[(i+1)%len(f.fore)])
			if k, ok := number[d]; ok && g.Count(d) == 0 {
				found = max(found, k)
			}
		}
		f.done()
	}
}

// against lists the ends of those dependencies that do not agree with the order, and the last
// position of their starts: no node behind it leads to one.
func (o *Order) against(g *Graph, deps []Dep) (from []int32, last int32) {
	last = -1
	for _, d := range deps {
		x, y := g.ends(d)
		if o.pos[x] >= o.pos[y] {
			last = max(last, o.pos[x])
			from = append(from, y)
		}
	}
	return from, last
}

// closes is Closes for any graph.
func (o *Order) closes(g *Graph, deps []Dep) bool {
	from, _ := o.against(g, deps)
	if len(from) == 0 {
		return false
	}
	g = g.Clone()
	for _, d := range deps {
		g.Add(d, 1)
	}
	s := newSearch([]*Graph{g})
	for _, y := range from {
		h := g.hop(y)
		words := int(g.shape.base[h.Switch+1]-g.shape.base[h.Switch]+63) / 64
		seen := s.seen.row(h.Switch, int(h.Lane), words)[h.Port>>6]>>(h.Port&63)&1 != 0
		if !seen && s.from(h.Switch, int(h.Port), int(h.Lane), true) {
			return true
		}
	}
	return false
}

// InsertAll makes the order agree with dependencies that g has, and reports
// whether it can, as Insert does. If any disagrees all nodes are sorted anew,
// which takes less time than many single insertions.
//
// Complexity O(channels × lanes), with a few words of bits each; O(deps) if all
// agree.
func (o *Order) InsertAll(g *Graph, deps []Dep) bool {
	if !slices.ContainsFunc(deps, func(d Dep) bool { return !o.Agrees(g, d) }) {
		return true
	}
	var post []int32
	if n := narrowed(g); n != nil {
		if post = n.postorder(true); post == nil {
			return false
		}
	} else {
		s := newSearch([]*Graph{g})
		s.post = make([]int32, 0, len(o.pos))
		if s.all(true) {
			return false
		}
		post = s.post
	}
	o.pos = make([]int32, len(o.pos))
	o.shared.Store(false)
	// Nodes without dependencies come last.
	for x := range o.pos {
		o.pos[x] = int32(len(o.pos) + x)
	}
	for i, x := range post {
		o.pos[x] = int32(len(post) - i)
	}
	return true
}

// successors appends the nodes that wait for x to buf.
func (g *Graph) successors(x int32, buf []int32) []int32 {
	if g.lanes == 1 {
		return g.after(x, buf)
	}
	sh, lanes := g.shape, int32(g.lanes)
	to := sh.next[x/lanes]
	if to < 0 {
		return buf
	}
	v := sh.at[to]
	b := g.sw[v]
	if b == nil {
		return buf
	}
	in, l1 := int(to-sh.base[v]), int(x%lanes)
	for l2, p := range b.planes[l1*g.lanes : (l1+1)*g.lanes] {
		if p == nil {
			continue
		}
		for w, m := range p.fwd[in*b.words : (in+1)*b.words] {
			for ; m != 0; m &= m - 1 {
				buf = append(buf, (sh.base[v]+int32(w<<6+bits.TrailingZeros64(m)))*lanes+int32(l2))
			}
		}
	}
	return buf
}

// predecessors appends the nodes that x waits for to buf.
func (g *Graph) predecessors(x int32, buf []int32) []int32 {
	if g.lanes == 1 {
		return g.before(x, buf)
	}
	sh, lanes := g.shape, int32(g.lanes)
	port := x / lanes
	v := sh.at[port]
	b := g.sw[v]
	if b == nil {
		return buf
	}
	out, l2 := int(port-sh.base[v]), int(x%lanes)
	for l1 := range g.lanes {
		p := b.planes[l1*g.lanes+l2]
		if p == nil {
			continue
		}
		for w, m := range p.back[out*b.words : (out+1)*b.words] {
			for ; m != 0; m &= m - 1 {
				in := int32(w<<6 + bits.TrailingZeros64(m))
				buf = append(buf, sh.next[sh.base[v]+in]*lanes+int32(l1))
			}
		}
	}
	return buf
}

// after is successors with one lane, the usual case, in which a node is its port.
func (g *Graph) after(x int32, buf []int32) []int32 {
	sh := g.shape
	to := sh.next[x]
	if to < 0 {
		return buf
	}
	v := sh.at[to]
	b := g.sw[v]
	if b == nil || b.planes[0] == nil {
		return buf
	}
	in := int(to - sh.base[v])
	for w, m := range b.planes[0].fwd[in*b.words : (in+1)*b.words] {
		for ; m != 0; m &= m - 1 {
			buf = append(buf, sh.base[v]+int32(w<<6+bits.TrailingZeros64(m)))
		}
	}
	return buf
}

// before is predecessors with one lane.
func (g *Graph) before(x int32, buf []int32) []int32 {
	sh := g.shape
	v := sh.at[x]
	b := g.sw[v]
	if b == nil || b.planes[0] == nil {
		return buf
	}
	out, next := int(x-sh.base[v]), sh.next[sh.base[v]:sh.base[v+1]]
	for w, m := range b.planes[0].back[out*b.words : (out+1)*b.words] {
		for ; m != 0; m &= m - 1 {
			buf = append(buf, next[w<<6+bits.TrailingZeros64(m)])
		}
	}
	return buf
}
