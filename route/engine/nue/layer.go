package nue

import "heddle/internal/toposort"

// layer is the dependency graph of one lane: how many trees use each
// dependency, and an order of the channels in which every dependency that is
// used goes forward. The order is the proof that there is no cycle, and most
// of what the search asks is answered by it: a dependency that goes forward
// may be added as it is. Only one that goes back needs a search, after which
// the order is repaired in the part between the two channels (internal/toposort).
// Removing dependencies never harms the order.
type layer struct {
	*net
	pos  []int32  // by channel: its place in the order
	at   []int32  // by place: the channel
	used []uint16 // by dependency: trees that have it, one more for escape paths

	// blocked remembers dependencies that would close a cycle, while none is
	// taken out; bit by dependency.
	blocked []uint64
	recent  []int32 // those noted since the last mark
	caching bool

	// work is how many dependencies may still be looked at to mend the order;
	// after that only those that go forward are added.
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

// setOrder makes the channels' order what at says.
func (y *layer) setOrder() {
	for i, c := range y.at {
		y.pos[c] = int32(i)
	}
}

// add takes the dependency of c on x in, if that closes no cycle, and reports
// whether it did.
//
// Complexity: O(1) if it is used or goes forward; else the dependencies of the
// channels between x and c that x leads to and that lead to c.
func (y *layer) add(c, x int32) bool {
	i := y.base[c] + x
	if y.used[i] > 0 || y.pos[c] < y.pos[x] {
		y.used[i]++
		return true
	}
	if y.work <= 0 || y.blocked[i>>6]&(1<<(i&63)) != 0 {
		return false
	}
	if !y.mend(c, x) {
		if y.caching {
			y.blocked[i>>6] |= 1 << (i & 63)
			y.recent = append(y.recent, i)
		}
		return false
	}
	y.used[i]++
	return true
}

// drop takes one use of a dependency out.
func (y *layer) drop(c, x int32) { y.used[y.base[c]+x]-- }

// forget gives up what is remembered as blocked since the last mark; it was
// so only because of dependencies that have been taken out again.
func (y *layer) forget() {
	for _, i := range y.recent {
		y.blocked[i>>6] &^= 1 << (i & 63)
	}
	y.recent = y.recent[:0]
}

// mend changes the order so that c comes before x, unless x leads to c.
func (y *layer) mend(c, x int32) bool {
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
