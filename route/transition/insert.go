package transition

import "heddle/internal/toposort"

// inserter keeps a topological order of the nodes while dependencies are
// added one at a time, and refuses one that would close a cycle. Removed
// dependencies leave the order valid.
type inserter struct {
	x      *layout
	deps   depSet
	ord    []int32 // by node: its place
	budget int     // remaining visits; negative: insert returned false for lack of budget
	topo   toposort.Inserter
	added  []int64 // bits set since the last keep
}

func newInserter(x *layout, deps depSet, ord []int32, budget int) *inserter {
	return &inserter{x: x, deps: deps, ord: ord, budget: budget}
}

// edge is a dependency between two nodes.
type edge struct {
	u, v int32
	bit  int64
}

// all inserts a set of dependencies, or none if one would close a cycle.
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

// insert makes the order agree with the dependency u→v; false if it would
// close a cycle or the budget is used up. The caller sets the bit.
func (t *inserter) insert(u, v int32) bool {
	return t.ord[u] < t.ord[v] || t.topo.Insert(t.ord, u, v, t.succ, t.pred)
}

func (t *inserter) succ(u int32, buf []int32) []int32 {
	buf = t.x.succ(t.deps, u, buf)
	t.budget -= len(buf)
	t.topo.Stop = t.budget < 0
	return buf
}

func (t *inserter) pred(v int32, buf []int32) []int32 {
	buf = t.x.pred(t.deps, v, buf)
	t.budget -= len(buf)
	return buf
}
