// Package toposort keeps a topological order of a graph while edges are added.
//
// The algorithm is that of D. J. Pearce and P. H. J. Kelly, "A dynamic topological sort algorithm
// for directed acyclic graphs", 2006. The graph belongs to the caller, who says which edges leave
// and enter a node. Removing edges needs no work: the order stays valid.
package toposort

import "slices"

// Edges appends to buf the nodes at the other end of a node's edges. It must not keep buf.
type Edges func(node int32, buf []int32) []int32

// Inserter inserts edges into orders. It holds only scratch space, so one Inserter may
// serve several orders, but only one goroutine. The zero value is ready for use.
type Inserter struct {
	// Visits counts the edges that all calls of Insert have examined.
	Visits int64
	// Stop ends the search for a cycle when an Edges function sets it during a call of Insert.
	Stop bool

	seen  []bool // by node; all false between calls
	fore  []int32
	back  []int32
	buf   []int32
	keys  []uint64
	moved []int32
}

// Insert makes an order agree with the edge u→v and reports whether it could. It cannot
// if v leads to u, or if the search was stopped; the order is then unchanged. pos holds
// each node's position (distinct, not negative). Every edge must point forward in it,
// except edges that are inserted later. The caller adds the edge to the graph.
//
// Complexity: the edges of those nodes between v and u in the order that v leads to or
// that lead to u.
func (t *Inserter) Insert(pos []int32, u, v int32, succ, pred Edges) bool {
	lo, hi := pos[v], pos[u]
	if hi < lo {
		return true
	}
	if u == v {
		return false
	}
	if len(t.seen) < len(pos) {
		t.seen = make([]bool, len(pos))
	}
	t.Stop = false
	ok := t.forward(pos, u, v, succ)
	if ok {
		t.backward(pos, u, lo, pred)
		for _, z := range t.back {
			t.seen[z] = false
		}
	}
	for _, z := range t.fore {
		t.seen[z] = false
	}
	if ok {
		t.reorder(pos)
	}
	return ok
}

// forward collects the nodes between v and u in the order that v leads to; false if they
// include u or the search is stopped.
func (t *Inserter) forward(pos []int32, u, v int32, succ Edges) bool {
	seen, fore, buf := t.seen, append(t.fore[:0], v), t.buf
	seen[v] = true
	after := pos[v] + 1
	between := uint32(pos[u] - after) // positions
	ok := true
	for h := 0; h < len(fore) && ok && !t.Stop; h++ {
		buf = succ(fore[h], buf[:0])
		t.Visits += int64(len(buf))
		for i, z := range buf {
			if uint32(pos[z]-after) < between {
				if !seen[z] {
					seen[z] = true
					fore = append(fore, z)
				}
			} else if z == u {
				t.Visits -= int64(len(buf) - i - 1)
				ok = false
				break
			}
		}
	}
	t.fore, t.buf = fore, buf
	return ok && !t.Stop
}

// backward collects the nodes between position lo and u in the order that lead
// to u.
func (t *Inserter) backward(pos []int32, u, lo int32, pred Edges) {
	seen, back, buf := t.seen, append(t.back[:0], u), t.buf
	seen[u] = true
	after := lo + 1
	between := uint32(pos[u] - after)
	for h := 0; h < len(back); h++ {
		buf = pred(back[h], buf[:0])
		t.Visits += int64(len(buf))
		for _, z := range buf {
			if uint32(pos[z]-after) < between && !seen[z] {
				seen[z] = true
				back = append(back, z)
			}
		}
	}
	t.back, t.buf = back, buf
}

// Moved returns the nodes that the last Insert moved, in their new order. It is valid
// after an Insert that repaired the order for a backward edge, until the next one.
func (t *Inserter) Moved() []int32 { return t.moved }

// reorder assigns the positions of both parts to those before the edge first.
func (t *Inserter) reorder(pos []int32) {
	// Keys of position and node sort faster than nodes with a comparison function.
	keys := t.keys[:0]
	for _, z := range t.back {
		keys = append(keys, uint64(pos[z])<<32|uint64(z))
	}
	for _, z := range t.fore {
		keys = append(keys, uint64(pos[z])<<32|uint64(z))
	}
	t.keys = keys
	a, b := keys[:len(t.back)], keys[len(t.back):]
	slices.Sort(a)
	slices.Sort(b)
	moved := t.moved[:0]
	for _, k := range keys {
		moved = append(moved, int32(uint32(k)))
	}
	t.moved = moved
	for _, z := range moved {
		if len(b) == 0 || len(a) > 0 && a[0] < b[0] {
			pos[z], a = int32(a[0]>>32), a[1:]
		} else {
			pos[z], b = int32(b[0]>>32), b[1:]
		}
	}
}
