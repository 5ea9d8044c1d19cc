package nue

import (
	"cmp"
	"math"
	"slices"
)

// escape is a spanning forest of the fabric and the order of switches in which
// it grew: a channel goes up if it leads to an earlier switch.
type escape struct {
	rank   []int32 // by switch: its place in breadth-first order
	order  []int32 // by place: the switch
	parent []int32 // by switch: channel to its parent, -1 at a root
	met    []int32 // by switch: adjacent switches in the forest
}

// grow builds the forest whose first root is root; other components grow from
// their lowest switches. With deep it grows depth first, always to the adjacent
// switch with the most neighbors in the forest (J. C. Sancho, A. Robles, J.
// Duato, 2000): paths get longer, but the root is no bottleneck.
func (e *escape) grow(w *net, root int32, deep bool) {
	n := w.n
	if e.rank == nil {
		slab := make([]int32, 4*n)
		e.rank, e.order, e.parent, e.met = slab[:n], slab[n:n:2*n], slab[2*n:3*n], slab[3*n:]
	}
	for s := range e.rank {
		e.rank[s], e.parent[s], e.met[s] = -1, -1, 0
	}
	e.order = e.order[:0]
	more := e.wide
	if deep {
		more = e.deep
	}
	more(w, root)
	for s := range int32(n) {
		if e.rank[s] < 0 && !w.short[s] {
			more(w, s)
		}
	}
	if !w.limit {
		return
	}
	// Switches with short tables come last, as leaves if possible, so that no
	// escape path to others leads through them.
	for i := 0; i < len(e.order); i++ {
		v := e.order[i]
		for c := w.g.Off[v]; c < w.g.Off[v+1]; c++ {
			if e.rank[w.to[c]] < 0 {
				e.take(w.to[c], w.rev[c])
			}
		}
	}
	for s := range int32(n) {
		if e.rank[s] < 0 {
			e.wide(w, s)
		}
	}
}

// take gives a switch the next place.
func (e *escape) take(s, parent int32) {
	e.rank[s], e.parent[s] = int32(len(e.order)), parent
	e.order = append(e.order, s)
}

func (e *escape) wide(w *net, root int32) {
	k := len(e.order)
	for e.take(root, -1); k < len(e.order); k++ {
		v := e.order[k]
		for c := w.g.Off[v]; c < w.g.Off[v+1]; c++ {
			if u := w.to[c]; e.rank[u] < 0 && !w.short[u] {
				e.take(u, w.rev[c])
			}
		}
	}
}

func (e *escape) deep(w *net, root int32) {
	meet := func(v int32) {
		for c := w.g.Off[v]; c < w.g.Off[v+1]; c++ {
			e.met[w.to[c]]++
		}
	}
	e.take(root, -1)
	meet(root)
	for v := root; ; {
		best := int32(-1)
		for c := w.g.Off[v]; c < w.g.Off[v+1]; c++ {
			if u := w.to[c]; e.rank[u] < 0 && !w.short[u] && (best < 0 || e.met[u] > e.met[w.to[best]]) {
				best = c
			}
		}
		switch {
		case best >= 0:
			e.take(w.to[best], w.rev[best])
			v = w.to[best]
			meet(v)
		case e.parent[v] >= 0:
			v = w.to[e.parent[v]]
		default:
			return
		}
	}
}

// has reports whether channel c is in the forest.
func (e *escape) has(w *net, c int32) bool {
	return e.parent[w.from[c]] == c || e.parent[w.to[c]] == w.rev[c]
}

// legal rates the up-then-down paths to d: the shorter they are, and the more
// channels begin a shortest one, the lower is the sum over all switches,
// weighted by their hosts. scratch has 2n entries.
func (e *escape) legal(w *net, d int32, scratch []int32) (sum uint64) {
	const far = math.MaxInt32 / 2
	down, any := scratch[:w.n], scratch[w.n:]
	off := w.g.Off
	for i := len(e.order) - 1; i >= 0; i-- {
		u := e.order[i]
		best := int32(far)
		if u == d {
			best = 0
		} else if int32(i) < e.rank[d] {
			for c := off[u]; c < off[u+1]; c++ {
				if v := w.to[c]; e.rank[v] > int32(i) {
					best = min(best, down[v]+1)
				}
			}
		}
		down[u] = best
	}
	for i, u := range e.order {
		best := down[u]
		if u != d {
			for c := off[u]; c < off[u+1]; c++ {
				if v := w.to[c]; e.rank[v] < int32(i) {
					best = min(best, any[v]+1)
				}
			}
		}
		any[u] = best
		if best == far || u == d {
			continue
		}
		ways := uint64(0)
		for c := off[u]; c < off[u+1]; c++ {
			v := w.to[c]
			if e.rank[v] < int32(i) && any[v]+1 == best || e.rank[v] > int32(i) && down[v]+1 == best {
				ways++
			}
		}
		sum += (uint64(best)*linkWays - min(ways, linkWays)) * uint64(w.hosts[u]+1)
	}
	return sum
}

const (
	// rootWork bounds the search for a root, in channels examined.
	rootWork = 3 << 20
	maxRoots = 64
	// linkWays is how many more choices are worth an additional link.
	linkWays = 64
	maxDests = 24
)

// able is the first switch from s on, cyclically, whose table holds all LIDs; s
// if there is none.
func (w *net) able(s int32) int32 {
	for i := range w.n {
		if r := (int(s) + i) % w.n; !w.short[r] {
			return int32(r)
		}
	}
	return s
}

// chooseRoot returns a forest for the destination switches dests. Of some
// roots, distributed over the fabric, it takes the one with the shortest
// up/down paths to some of the destinations. On a fat tree that is a leaf: in
// the order that starts at a leaf every shortest path between leaves goes up
// and then down. (The paper takes the most central switch among the paths to
// the destinations, for the same purpose: few detours.)
//
// Complexity: O(roots · destinations tried · channels), bounded by rootWork.
func chooseRoot(w *net, dests []int32, seed uint64, deep bool) *escape {
	var e escape
	if w.n == 0 {
		return &e
	}
	roots, tries := min(w.n, maxRoots), min(len(dests), maxDests)
	for roots*tries*len(w.to) > rootWork && (roots > 8 || tries > 6) {
		if roots > 8 {
			roots = max(8, roots*3/4)
		}
		if tries > 6 {
			tries = max(6, tries*3/4)
		}
	}
	scratch := make([]int32, 2*w.n)
	best, least := w.able(0), uint64(math.MaxUint64)
	first := int(seed % uint64(w.n))
	for i := range roots {
		r := w.able(int32((first + i*w.n/roots) % w.n))
		e.grow(w, r, deep)
		var sum uint64
		for k := range tries {
			sum += e.legal(w, dests[(2*k+1)*len(dests)/(2*tries)], scratch)
		}
		if sum < least {
			best, least = r, sum
		}
	}
	e.grow(w, best, deep)
	return &e
}

// start puts the channels in the order of e: those that go up, from the last
// switches on, then those that go down.
func (y *layer) start(e *escape) {
	for c := range y.at {
		y.at[c] = int32(c)
	}
	key := func(c int32) int32 {
		a, b := e.rank[y.from[c]], e.rank[y.to[c]]
		if b < a {
			return -a
		}
		return a + 1
	}
	slices.SortFunc(y.at, func(a, b int32) int { return cmp.Or(cmp.Compare(key(a), key(b)), cmp.Compare(a, b)) })
	y.setOrder()
}

// holdEscape adds the dependencies of the escape paths, from every switch over
// the forest to every switch of dest, and reports whether none of them closes a
// cycle. Later trees must not close one with them, so every destination keeps a
// path.
func (y *layer) holdEscape(e *escape, dest []bool) bool {
	ok := true
	below := make([]int32, y.n) // destinations in the subtree of a switch
	whole := make([]int32, y.n) // by root: destinations in its tree
	root := make([]int32, y.n)
	for i := len(e.order) - 1; i >= 0; i-- {
		u := e.order[i]
		if dest[u] {
			below[u]++
		}
		if p := e.parent[u]; p >= 0 {
			below[y.to[p]] += below[u]
		} else {
			whole[u] = below[u]
		}
	}
	for _, u := range e.order {
		root[u] = u
		if p := e.parent[u]; p >= 0 {
			root[u] = root[y.to[p]]
		}
	}
	var near []int32 // channels out of v in the forest
	for v := range int32(y.n) {
		near = near[:0]
		for c := y.g.Off[v]; c < y.g.Off[v+1]; c++ {
			if e.has(y.net, c) {
				near = append(near, c)
			}
		}
		for _, x := range near {
			beyond := below[y.to[x]]
			if e.parent[v] == x {
				beyond = whole[root[v]] - below[v]
			}
			if beyond == 0 {
				continue
			}
			for _, c := range near {
				if c != x && !y.add(y.rev[c], x) {
					ok = false
				}
			}
		}
	}
	return ok
}

// partition assigns the switches with LIDs to k layers, by repeated bisection:
// switches nearer to one end of the fabric go to one side, so that a layer's
// destinations are close together and their trees are similar. The weight of a
// switch is the number of its LIDs.
//
// Complexity: O((switches·log switches + channels)·log k).
func partition(w *net, k int) (of []int32) {
	of = make([]int32, w.n)
	if k <= 1 {
		return of
	}
	var all []int32
	for s := range int32(w.n) {
		if w.off[s+1] > w.off[s] {
			all = append(all, s)
		}
	}
	dist := [2][]int32{make([]int32, w.n), make([]int32, w.n)}
	queue := make([]int32, 0, w.n)
	far := func(s int32, d []int32) {
		for i := range d {
			d[i] = math.MaxInt32 / 4
		}
		d[s] = 0
		queue = append(queue[:0], s)
		for i := 0; i < len(queue); i++ {
			v := queue[i]
			for c := w.g.Off[v]; c < w.g.Off[v+1]; c++ {
				if u := w.to[c]; d[u] > d[v]+1 {
					d[u] = d[v] + 1
					queue = append(queue, u)
				}
			}
		}
	}
	farthest := func(set, d []int32) int32 {
		best := set[0]
		for _, s := range set {
			if d[s] > d[best] {
				best = s
			}
		}
		return best
	}
	var split func(set []int32, first, k int32)
	split = func(set []int32, first, k int32) {
		if k == 1 || len(set) == 0 {
			for _, s := range set {
				of[s] = first
			}
			return
		}
		far(set[0], dist[0])
		a := farthest(set, dist[0])
		far(a, dist[0])
		b := farthest(set, dist[0])
		far(b, dist[1])
		slices.SortFunc(set, func(s, t int32) int {
			return cmp.Or(cmp.Compare(dist[0][s]-dist[1][s], dist[0][t]-dist[1][t]), cmp.Compare(dist[0][s], dist[0][t]), cmp.Compare(s, t))
		})
		total := int64(0)
		for _, s := range set {
			total += int64(w.off[s+1] - w.off[s])
		}
		half := k / 2
		sum, cut := int64(0), 0
		for cut < len(set) && sum*int64(k) < total*int64(half) {
			sum += int64(w.off[set[cut]+1] - w.off[set[cut]])
			cut++
		}
		split(set[:cut], first, half)
		split(set[cut:], first+half, k-half)
	}
	split(all, 0, int32(k))
	return of
}
