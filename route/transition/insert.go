package transition

import "slices"

// inserter keeps a topological order of the nodes while dependencies are
// added one at a time, and refuses one that would close a cycle (D. J. Pearce
// and P. H. J. Kelly, "A dynamic topological sort algorithm for directed
// acyclic graphs", 2006). Taking dependencies away needs no work: the order
// stays valid.
type inserter struct {
	x      *layout
	deps   depSet
	ord    []int32 // by node: its place
	budget int     // visits left; negative: insert answers false for want of it
	mark   []bool
	fwd    []int32
	back   []int32
	places []int32
	added  []int64 // bits set since the last keep
}

func newInserter(x *layout, deps depSet, ord []int32, budget int) *inserter {
	return &inserter{x: x, deps: deps, ord: ord, budget: budget, mark: make([]bool, x.nodes())}
}

// edge is a dependency between two nodes.
type edge struct {
	u, v int32
	bit  int64
}

// all inserts a whole set of dependencies, or none if one would close a cycle.
func (t *inserter) all(edges []edge) bool {
	t.added = t.added[:0]
	for _, e := range edges {
		if t.deps.has(e.bit) {
			continue
		}
		if !t.insert(e.u, e.v) {
			for _, b := range t.added {
				t.deps.clear(b)
			}
			return false
		}
		t.deps.set(e.bit)
		t.added = append(t.added, e.bit)
	}
	return true
}

// insert makes room for the dependency u→v in the order; false if it would
// close a cycle or the budget is used up. The caller sets the bit.
func (t *inserter) insert(u, v int32) bool {
	if u == v {
		return false
	}
	lo, hi := t.ord[v], t.ord[u]
	if hi < lo {
		return true
	}
	ok := t.forward(v, u, hi)
	if ok {
		t.backward(u, lo)
	}
	for _, c := range t.fwd {
		t.mark[c] = false
	}
	for _, c := range t.back {
		t.mark[c] = false
	}
	if ok {
		t.shift()
	}
	t.fwd, t.back = t.fwd[:0], t.back[:0]
	return ok
}

// forward collects what c reaches at places up to hi; false if that includes
// goal.
func (t *inserter) forward(c, goal, hi int32) bool {
	t.mark[c] = true
	t.fwd = append(t.fwd, c)
	found := false
	for h := 0; h < len(t.fwd); h++ {
		t.x.succ(t.deps, t.fwd[h], func(d int32) {
			if d == goal {
				found = true
			}
			if t.ord[d] < hi && !t.mark[d] {
				t.mark[d] = true
				t.fwd = append(t.fwd, d)
			}
			t.budget--
		})
		if found || t.budget < 0 {
			return false
		}
	}
	return true
}

// backward collects what reaches c at places from lo on.
func (t *inserter) backward(c, lo int32) {
	t.mark[c] = true
	t.back = append(t.back, c)
	for h := 0; h < len(t.back); h++ {
		t.x.pred(t.deps, t.back[h], func(e int32) {
			t.budget--
			if t.ord[e] > lo && !t.mark[e] {
				t.mark[e] = true
				t.back = append(t.back, e)
			}
		})
	}
}

// shift gives the places of both sets to back first, then fwd.
func (t *inserter) shift() {
	byPlace := func(a, b int32) int { return int(t.ord[a] - t.ord[b]) }
	slices.SortFunc(t.back, byPlace)
	slices.SortFunc(t.fwd, byPlace)
	t.places = t.places[:0]
	for _, c := range t.back {
		t.places = append(t.places, t.ord[c])
	}
	for _, c := range t.fwd {
		t.places = append(t.places, t.ord[c])
	}
	slices.Sort(t.places)
	i := 0
	for _, c := range t.back {
		t.ord[c] = t.places[i]
		i++
	}
	for _, c := range t.fwd {
		t.ord[c] = t.places[i]
		i++
	}
}
