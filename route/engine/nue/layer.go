package nue

import "heddle/internal/toposort"

// layer is the dependency graph of one lane: how many trees use each dependency,
// and an order of the channels in which every used dependency points forward. The
// order proves that there is no cycle, and answers most questions of the search:
// a dependency that points forward may be added. Only one that points backward
// needs a search, after which the order is repaired between the two channels
// (internal/toposort). Removing dependencies never invalidates the order.
type layer struct {
	*net
	pos  []int32  // by channel: its place in the order
	at   []int32  // by place: the channel
	used []uint16 // by dependency: trees that use it, plus one for escape paths

	// blocked remembers dependencies that would close a cycle, while none is
	// taken out; bit by dependency.
	blocked []uint64
	recent  []int32 // those recorded since the last mark
	caching bool

	// work is how many dependencies may still be examined to repair the order;
	// after that only those that point forward are added.
	work int64

	topo toposort.Inserter
}

func newLayer(w *net, work int64) *layer {
	m := len(w.to)
	return &layer{
		net: w, pos: make([]int32, m), at: make([]int32, m), used: make([]uint16, w.deps),
		blocked: make([]uint64, (w.deps+63)/64), caching: true, work: work,
	}
}

// setOrder sets the channels' order to at.
func (y *layer) setOrder() {
	for i, c := range y.at {
		y.pos[c] = int32(i)
	}
}

// add adds the dependency of c on x if that closes no cycle, and reports
// whether it did.
//
// Complexity: O(1) if it is used or points forward; otherwise the dependencies
// of the channels between x and c that x leads to and that lead to c.
func (y *layer) add(c, x int32) bool {
	i := y.base[c] + x
	if y.used[i] > 0 || y.pos[c] < y.pos[x] {
		y.used[i]++
		return true
	}
	if y.work <= 0 || y.blocked[i>>6]&(1<<(i&63)) != 0 {
		return false
	}
	if !y.repair(c, x) {
		if y.caching {
			y.blocked[i>>6] |= 1 << (i & 63)
			y.recent = append(y.recent, i)
		}
		return false
	}
	y.used[i]++
	return true
}

// drop removes one use of a dependency.
func (y *layer) drop(c, x int32) { y.used[y.base[c]+x]-- }

// forget drops the entries recorded as blocked since the last mark; only
// dependencies that have been removed again blocked them.
func (y *layer) forget() {
	for _, i := range y.recent {
		y.blocked[i>>6] &^= 1 << (i & 63)
	}
	y.recent = y.recent[:0]
}

// repair repairs the order so that c precedes x, unless x leads to c.
func (y *layer) repair(c, x int32) bool {
	if !y.topo.Insert(y.pos, c, x, y.successors, y.predecessors) {
		return false
	}
	for _, z := range y.topo.Moved() {
		y.at[y.pos[z]] = z
	}
	return true
}

// successors appends the channels that c leads to to buf.
func (y *layer) successors(c int32, buf []int32) []int32 {
	off, v, b := y.g.Off, y.to[c], y.base[c]
	y.work -= int64(off[v+1] - off[v])
	for z := off[v]; z < off[v+1]; z++ {
		if y.used[b+z] != 0 {
			buf = append(buf, z)
		}
	}
	return buf
}

// predecessors appends the channels that lead to c to buf.
func (y *layer) predecessors(c int32, buf []int32) []int32 {
	off, u := y.g.Off, y.from[c]
	y.work -= int64(off[u+1] - off[u])
	for o := off[u]; o < off[u+1]; o++ {
		if z := y.rev[o]; y.used[y.base[z]+c] != 0 {
			buf = append(buf, z)
		}
	}
	return buf
}
