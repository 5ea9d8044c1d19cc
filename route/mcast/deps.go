package mcast

import (
	"math/bits"
	"slices"

	"heddle/fabric"
	"heddle/ib"
	"heddle/route"
)

// edge is a dependency between two channels on their lanes: packets that hold
// the first may wait for the second. It is a bit of Deps.
type edge struct {
	from, to int32 // nodes: channel·lanes + lane
}

// Deps is the graph of the dependencies of unicast tables and multicast
// trees, kept in a topological order that changes with what is added
// (D. J. Pearce and P. H. J. Kelly, "A dynamic topological sort algorithm for
// directed acyclic graphs", 2006).
//
// Dependencies of a node are a row of bits: the channels that leave the switch
// which its channel enters, by lane.
type Deps struct {
	g     *fabric.Graph
	lanes int32
	row   []int64 // by channel: first bit of the row of its lane 0
	bits  []uint64
	count map[edge]int32 // of those that only trees bring: how many times
	ord   []int32        // by node: its place in the order
	at    []int32        // by place: the node
	mark  []bool         // by node: scratch of searches
	fore  []int32
	back  []int32
	stack []int32
}

// NewDeps computes the dependencies of the unicast tables t: of the paths with
// a CA or router port at one end at least, which is the traffic that can exist
// on data lanes. If they hold a cycle already, no tree closes one: t is not
// for this package to judge.
func NewDeps(g *fabric.Graph, t *route.Tables, workers int) *Deps {
	d := &Deps{g: g, lanes: 1, row: make([]int64, len(g.Channels)+1), count: map[edge]int32{}}
	for c := range g.Channels {
		d.lanes = max(d.lanes, int32(g.Channels[c].VLs))
	}
	for c := range g.Channels {
		to := g.Channels[c].To
		d.row[c+1] = d.row[c] + int64(d.lanes)*d.width(to)
	}
	d.bits = make([]uint64, (d.row[len(g.Channels)]+63)/64)
	nodes := len(g.Channels) * int(d.lanes)
	d.mark = make([]bool, nodes)

	// Each worker has bits of its own, joined at the end.
	workers = min(max(workers, 1), 8)
	const run = 64 // LIDs at a time
	parts := make([]*unicast, workers)
	route.ForEach(workers, (int(g.TopLID)+run)/run, func(w, k int) {
		if parts[w] == nil {
			parts[w] = newUnicast(d, t)
		}
		for l := max(k*run, 1); l < (k+1)*run && l < len(g.LIDOwner); l++ {
			parts[w].lid(ib.LID(l))
		}
	})
	for _, p := range parts {
		if p != nil {
			for i, b := range p.bits {
				d.bits[i] |= b
			}
		}
	}
	d.sort()
	return d
}

// width is how many bits one lane of a channel into switch s needs.
func (d *Deps) width(s int32) int64 { return int64(d.lanes) * int64(d.g.Off[s+1]-d.g.Off[s]) }

func (d *Deps) node(c int32, v ib.VL) int32 { return c*d.lanes + min(int32(v), d.lanes-1) }

func (d *Deps) edge(c1 int32, v1 ib.VL, c2 int32, v2 ib.VL) edge {
	return edge{d.node(c1, v1), d.node(c2, v2)}
}

func (d *Deps) bit(e edge) int64 {
	c1, v1 := e.from/d.lanes, int64(e.from%d.lanes)
	s := d.g.Channels[c1].To
	return d.row[c1] + v1*d.width(s) + int64(e.to-d.g.Off[s]*d.lanes)
}

func has64(b []uint64, i int64) bool { return b[i>>6]>>(i&63)&1 != 0 }

// next calls fn for each dependency of a node until it returns false.
func (d *Deps) next(n int32, fn func(to int32) bool) {
	c := n / d.lanes
	s := d.g.Channels[c].To
	w := d.width(s)
	lo := d.row[c] + int64(n%d.lanes)*w
	base := d.g.Off[s] * d.lanes
	for i := lo; i < lo+w; {
		x := d.bits[i>>6] >> (i & 63)
		if x == 0 {
			i = (i | 63) + 1
			continue
		}
		i += int64(bits.TrailingZeros64(x))
		if i >= lo+w {
			return
		}
		if !fn(base + int32(i-lo)) {
			return
		}
		i++
	}
}

// before calls fn for each node that depends on n until it returns false.
func (d *Deps) before(n int32, fn func(from int32) bool) {
	s := d.g.Channels[n/d.lanes].From
	for k := d.g.Off[s]; k < d.g.Off[s+1]; k++ {
		c1 := d.g.Channels[k].Rev
		if c1 < 0 {
			continue
		}
		for v := range d.lanes {
			if e := (edge{c1*d.lanes + v, n}); has64(d.bits, d.bit(e)) && !fn(e.from) {
				return
			}
		}
	}
}

// sort makes the first order (A. B. Kahn, 1962). Nodes of a cycle come last.
func (d *Deps) sort() {
	n := int32(len(d.mark))
	in := make([]int32, n)
	for x := range n {
		d.next(x, func(to int32) bool { in[to]++; return true })
	}
	d.ord, d.at = make([]int32, n), make([]int32, 0, n)
	placed := make([]bool, n)
	for x := range n {
		if in[x] == 0 {
			d.at = append(d.at, x)
			placed[x] = true
		}
	}
	for h := 0; h < len(d.at); h++ {
		d.next(d.at[h], func(to int32) bool {
			if in[to]--; in[to] == 0 {
				d.at = append(d.at, to)
				placed[to] = true
			}
			return true
		})
	}
	for x := range n {
		if !placed[x] {
			d.at = append(d.at, x)
		}
	}
	for i, x := range d.at {
		d.ord[x] = int32(i)
	}
}

// add puts dependencies in. If they would close a cycle it changes nothing
// and returns false.
func (d *Deps) add(list []edge) bool {
	for i, e := range list {
		if d.count[e] > 0 {
			d.count[e]++
			continue
		}
		b := d.bit(e)
		if has64(d.bits, b) {
			continue // unicast traffic brings it too
		}
		if !d.insert(e) {
			d.remove(list[:i])
			return false
		}
		d.bits[b>>6] |= 1 << (b & 63)
		d.count[e] = 1
	}
	return true
}

// remove takes dependencies out that add put in.
func (d *Deps) remove(list []edge) {
	for _, e := range list {
		switch n := d.count[e]; {
		case n > 1:
			d.count[e] = n - 1
		case n == 1:
			delete(d.count, e)
			b := d.bit(e)
			d.bits[b>>6] &^= 1 << (b & 63)
		}
	}
}

// insert makes the order fit a new dependency; false if there is a way back.
func (d *Deps) insert(e edge) bool {
	lo, hi := d.ord[e.to], d.ord[e.from]
	if e.from == e.to {
		return false
	}
	if hi < lo {
		return true
	}
	// Forward from e.to, as far as e.from's place.
	ok := true
	d.fore = append(d.fore[:0], e.to)
	d.mark[e.to] = true
	for h := 0; h < len(d.fore) && ok; h++ {
		d.next(d.fore[h], func(to int32) bool {
			if to == e.from {
				ok = false
			}
			if !d.mark[to] && d.ord[to] < hi {
				d.mark[to] = true
				d.fore = append(d.fore, to)
			}
			return ok
		})
	}
	if ok {
		d.back = append(d.back[:0], e.from)
		d.mark[e.from] = true
		for h := 0; h < len(d.back); h++ {
			d.before(d.back[h], func(from int32) bool {
				if !d.mark[from] && d.ord[from] > lo {
					d.mark[from] = true
					d.back = append(d.back, from)
				}
				return true
			})
		}
		d.shift()
	}
	for _, x := range d.fore {
		d.mark[x] = false
	}
	if ok {
		for _, x := range d.back {
			d.mark[x] = false
		}
	}
	return ok
}

// shift gives the places of both sets to the backward set first.
func (d *Deps) shift() {
	byOrder := func(x, y int32) int { return int(d.ord[x]) - int(d.ord[y]) }
	slices.SortFunc(d.back, byOrder)
	slices.SortFunc(d.fore, byOrder)
	d.stack = d.stack[:0]
	for _, x := range d.back {
		d.stack = append(d.stack, d.ord[x])
	}
	for _, x := range d.fore {
		d.stack = append(d.stack, d.ord[x])
	}
	slices.Sort(d.stack)
	k := 0
	for _, set := range [2][]int32{d.back, d.fore} {
		for _, x := range set {
			d.ord[x] = d.stack[k]
			d.at[d.stack[k]] = x
			k++
		}
	}
}
