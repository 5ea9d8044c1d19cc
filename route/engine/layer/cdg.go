package layer

import (
	"math/bits"
	"slices"

	"heddle/internal/toposort"
)

// CDG is the channel dependency graph of one layer: how many paths cause each
// dependency, and an order of the channels in which every dependency points
// forward. Each insertion keeps it acyclic (internal/toposort); removals keep
// the order valid.
type CDG struct {
	g     *Graph
	count []int32 // by dependency: paths that make it
	succ  []uint64
	pred  []uint64
	ord   []int32 // by channel: its place
	w     *search
}

// search is scratch that the layers of one computation share.
type search struct {
	topo       toposort.Inserter
	heap       []int32
	indegree   []int32
	color      []uint8
	stack, ats []int32
}

func newCDG(g *Graph, w *search) *CDG {
	l := &CDG{
		g: g, w: w, count: make([]int32, g.edges), succ: make([]uint64, g.words), pred: make([]uint64, g.backs),
		ord: make([]int32, g.Channels()),
	}
	for c := range l.ord {
		l.ord[c] = int32(c)
	}
	return l
}

func (l *CDG) clone(w *search) *CDG {
	return &CDG{
		g: l.g, w: w, count: slices.Clone(l.count), succ: slices.Clone(l.succ), pred: slices.Clone(l.pred), ord: slices.Clone(l.ord),
	}
}

// translate returns l for another graph: its channel c was channel was[c] of
// l's, or is new (-1). Dependencies of removed channels are dropped.
func (l *CDG) translate(g *Graph, was []int32, w *search) *CDG {
	n := newCDG(g, w)
	order := make([]int32, 0, len(was)) // channels by their old position, new ones last
	for c := range was {
		order = append(order, int32(c))
	}
	slices.SortStableFunc(order, func(a, b int32) int {
		x, y := was[a], was[b]
		switch {
		case x < 0 && y < 0:
			return 0
		case x < 0:
			return 1
		case y < 0:
			return -1
		}
		return int(l.ord[x] - l.ord[y])
	})
	for i, c := range order {
		n.ord[c] = int32(i)
	}
	for c1, o1 := range was {
		if o1 < 0 {
			continue
		}
		v := g.To[c1]
		for c2 := g.Off[v]; c2 < g.Off[v+1]; c2++ {
			if o2 := was[c2]; o2 >= 0 {
				if k := l.count[l.g.edge(o1, o2)]; k > 0 {
					n.set(int32(c1), c2)
					n.count[g.edge(int32(c1), c2)] = k
				}
			}
		}
	}
	return n
}

func (l *CDG) set(c1, c2 int32) {
	g := l.g
	k := g.col[c2]
	l.succ[g.word[c1]+k>>6] |= 1 << (k & 63)
	k = g.col[g.Rev[c1]]
	l.pred[g.back[c2]+k>>6] |= 1 << (k & 63)
}

func (l *CDG) unset(c1, c2 int32) {
	g := l.g
	k := g.col[c2]
	l.succ[g.word[c1]+k>>6] &^= 1 << (k & 63)
	k = g.col[g.Rev[c1]]
	l.pred[g.back[c2]+k>>6] &^= 1 << (k & 63)
}

// add counts the dependencies of a path without looking for cycles.
func (l *CDG) add(path []int32) {
	for i := 1; i < len(path); i++ {
		l.more(path[i-1], path[i], 1)
	}
}

// more counts k paths with a dependency.
func (l *CDG) more(c1, c2, k int32) {
	e := l.g.edge(c1, c2)
	if l.count[e] == 0 {
		l.set(c1, c2)
	}
	l.count[e] += k
}

// remove takes a path out.
func (l *CDG) remove(path []int32) {
	for i := 1; i < len(path); i++ {
		l.less(path[i-1], path[i])
	}
}

func (l *CDG) less(c1, c2 int32) {
	e := l.g.edge(c1, c2)
	if l.count[e]--; l.count[e] == 0 {
		l.unset(c1, c2)
	}
}

// try adds a path if that closes no cycle; otherwise it changes nothing and
// returns false. The layer must be acyclic and ordered.
func (l *CDG) try(path []int32) bool {
	for i := 1; i < len(path); i++ {
		c1, c2 := path[i-1], path[i]
		if l.count[l.g.edge(c1, c2)] == 0 && !l.insert(c1, c2) {
			l.remove(path[:i])
			return false
		}
		l.more(c1, c2, 1)
	}
	return true
}

// insert makes the order agree with the dependency c1→c2; false if it would
// close a cycle.
func (l *CDG) insert(c1, c2 int32) bool {
	return l.ord[c1] < l.ord[c2] || l.w.topo.Insert(l.ord, c1, c2, l.successors, l.predecessors)
}

// successors appends the channels that c leads to to buf.
func (l *CDG) successors(c int32, buf []int32) []int32 {
	g := l.g
	first := g.Off[g.To[c]]
	at, end := g.word[c], int32(g.words)
	if int(c)+1 < len(g.word) {
		end = g.word[c+1]
	}
	for ; at < end; at++ {
		for b := l.succ[at]; b != 0; b &= b - 1 {
			buf = append(buf, first+int32(bits.TrailingZeros64(b)))
		}
		first += 64
	}
	return buf
}

// predecessors appends the channels that lead to c to buf.
func (l *CDG) predecessors(c int32, buf []int32) []int32 {
	g := l.g
	first := g.Off[g.From[c]]
	at, end := g.back[c], int32(g.backs)
	if int(c)+1 < len(g.back) {
		end = g.back[c+1]
	}
	for ; at < end; at++ {
		for b := l.pred[at]; b != 0; b &= b - 1 {
			buf = append(buf, g.Rev[first+int32(bits.TrailingZeros64(b))])
		}
		first += 64
	}
	return buf
}

// order finds an order of the channels for all dependencies (A. B. Kahn, 1962);
// false, without changes, if there is a cycle.
func (l *CDG) order() bool {
	g, w := l.g, l.w
	m := g.Channels()
	if w.indegree == nil {
		w.indegree, w.heap = make([]int32, m), make([]int32, 0, m)
	}
	in, queue := w.indegree, w.heap[:0]
	for c := range m {
		k := int32(0)
		end := int32(g.backs)
		if c+1 < m {
			end = g.back[c+1]
		}
		for at := g.back[c]; at < end; at++ {
			k += int32(bits.OnesCount64(l.pred[at]))
		}
		in[c] = k
		if k == 0 {
			queue = append(queue, int32(c))
		}
	}
	for h := 0; h < len(queue); h++ {
		for d := l.next(queue[h], 0); d >= 0; d = l.next(queue[h], g.col[d]+1) {
			if in[d]--; in[d] == 0 {
				queue = append(queue, d)
			}
		}
	}
	w.heap = queue
	if len(queue) < m {
		return false
	}
	for i, c := range queue {
		l.ord[c] = int32(i)
	}
	return true
}

// nearOrder is an order of the channels in which only the dependencies that a
// search depth first finds to close a cycle go back.
func (l *CDG) nearOrder() []int32 {
	g, w := l.g, l.w
	m := g.Channels()
	ord := make([]int32, m)
	place := int32(m)
	seen := make([]bool, m)
	for r := range m {
		if seen[r] {
			continue
		}
		seen[r] = true
		stack, ats := append(w.stack[:0], int32(r)), append(w.ats[:0], 0)
		for len(stack) > 0 {
			top := len(stack) - 1
			e := l.next(stack[top], ats[top])
			if e < 0 {
				place--
				ord[stack[top]] = place
				stack, ats = stack[:top], ats[:top]
				continue
			}
			ats[top] = g.col[e] + 1
			if !seen[e] {
				seen[e] = true
				stack, ats = append(stack, e), append(ats, 0)
			}
		}
		w.stack, w.ats = stack, ats
	}
	return ord
}

// next is the first channel from column at on that depends on c's release, or
// -1.
func (l *CDG) next(c, at int32) int32 {
	g := l.g
	first := g.Off[g.To[c]]
	k := g.Off[g.To[c]+1] - first
	for at < k {
		if b := l.succ[g.word[c]+at>>6] >> (at & 63); b != 0 {
			return first + at + int32(bits.TrailingZeros64(b))
		}
		at = (at | 63) + 1
	}
	return -1
}
