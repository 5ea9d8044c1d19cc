// Package spt computes balanced shortest-path trees: one tree for each LID (or
// group of LIDs), in which every switch sends over a channel that lies on a
// path of least cost to the destination, and among those over the ones that
// carry the least so far.
//
// This is the global balancing of T. Hoefler, T. Schneider and A. Lumsdaine,
// "Optimized Routing for Large-Scale InfiniBand Networks" (2009): the weight of
// a channel is the number of paths already routed over it, and each tree takes
// the paths of least total weight. They run Dijkstra's algorithm with first
// weights so large that detours hardly pay; here cost (hops, or the operator's
// weights) comes first and paths never detour, so one breadth-first search for
// a destination serves all its LIDs, and the weights are minimized along the
// shortest-path graph alone. Two things go beyond that paper. First, a switch
// considers the load that the current tree already puts on its candidates: a
// spreading tree does not concentrate on one of many equal paths; a gathering
// tree takes, of paths with the same weight, the one that most of it uses
// already. Second, in small networks every tree is removed and recomputed,
// twice, with squared weights, and the best of the three rounds stays, which
// lowers the maximum load by up to a third.
//
// Gathering trees put the destinations of a leaf of a fat tree on different
// spines, and all sources of one destination on the same: D-mod-k routes, with
// which no two flows of a shift share a link (E. Zahavi et al., "Optimized
// InfiniBand fat-tree routing for shift all-to-all communication patterns",
// 2010). On a hypercube they become e-cube routes. Spreading trees have the
// smaller maximum load on some irregular networks.
//
// Each tree depends on all earlier ones, so they are made one after the other;
// workers share only the searches, for 16 destinations ahead. (Routing several
// destinations against the same weights, or in shards with separate weights,
// doubles the maximum load of a fat tree, because all choose the same path.)
// The result does not depend on the number of workers. Cost: O(channels) for a
// search and for a tree, O(trees × channels) together; memory: a few hundred
// KiB for each destination searched ahead, and four bytes for each table entry
// of a small network.
package spt

import (
	"slices"

	"heddle/route"
)

// Net is a network for trees. Channels of switch s are Off[s]:Off[s+1]; they
// come in pairs, one for each direction.
type Net struct {
	Off      []int32
	To, Rev  []int32  // by channel
	Cost     []uint8  // by channel, at least 1; nil: all cost 1
	Load     []uint64 // by channel: paths routed over it; Run adds to it
	Capacity []uint32 // by channel: number of links it represents; nil: one each
	Sources  []uint32 // by switch: paths that begin there
	// Barred lists, by class, the switches that can neither forward nor deliver;
	// nil entries bar none. A destination is never barred in its classes.
	Barred [][]bool
	// Gather makes trees gather on equal paths rather than spread over them.
	Gather bool
}

// Result reports the loads.
type Result struct {
	// Peak is the largest load of a link. Least is a lower bound for shortest
	// paths of these columns: the paths through a switch, shared evenly by its
	// links.
	Peak, Least uint64
}

// Column requests one tree.
type Column struct {
	Dst   int32
	Class uint8  // which of Net.Barred
	Paths uint32 // LIDs that the tree serves; 0: it adds no load
	// Siblings is how many earlier columns lead to the same port: this tree avoids
	// their channels where it can.
	Siblings uint8
}

// Sink reads the old channels and gets the new ones. Columns are numbered as
// passed to Run. One goroutine calls it.
type Sink interface {
	// Keep is the channel that s shall use for a column if it is on a
	// shortest path; -1: none.
	Keep(col int, s int32) int32
	// Set gets the channel c that s uses for a column; -1: no path. It is not
	// called for the destination itself.
	Set(col int, s, c int32)
}

// ahead is how many destinations are searched ahead.
const ahead = 16

const (
	// small is the number of table entries up to which trees are made again.
	small = 1 << 19
	// again is how often.
	again = 2
)

// Run routes the columns, which must be in ascending order of Dst, those of one
// destination by ascending Class, and those of one port adjacent.
func Run(net *Net, cols []Column, sink Sink, workers int) Result {
	r := &runner{net: net, cols: cols, sink: sink, workers: workers, tree: newTree(net), come: make([]uint64, len(net.Off)-1)}
	n := len(net.Off) - 1
	if len(cols)*n > small {
		r.pass(false)
		return Result{net.peak(), net.least(r.come)}
	}
	r.made = make([][]int32, len(cols))
	slab := make([]int32, len(cols)*n)
	for i := range r.made {
		r.made[i] = slab[i*n : (i+1)*n]
	}
	r.pass(false)
	best, load := slices.Clone(slab), slices.Clone(net.Load)
	res := Result{net.peak(), net.least(r.come)}
	for k := 0; k < again && res.Peak > res.Least; k++ {
		r.pass(true)
		if p := net.peak(); p < res.Peak {
			copy(best, slab)
			copy(load, net.Load)
			res.Peak = p
		}
	}
	copy(net.Load, load)
	for i := range cols {
		dst := cols[i].Dst
		for s, c := range best[i*n : (i+1)*n] {
			if int32(s) != dst {
				sink.Set(i, int32(s), c)
			}
		}
	}
	return res
}

// least is a lower bound of the maximum load, from the paths that each switch
// receives from others.
func (net *Net) least(come []uint64) uint64 {
	most := uint64(0)
	for s, v := range come {
		if v == 0 {
			continue
		}
		first, end := net.Off[s], net.Off[s+1]
		cables := uint64(end - first)
		if net.Capacity == nil {
			v += cables - 1 // round up
		} else {
			cables = 0
			for _, c := range net.Rev[first:end] {
				cables += uint64(net.Capacity[c])
			}
		}
		most = max(most, v/cables)
	}
	return most
}

// peak is the largest load of a link.
func (net *Net) peak() uint64 {
	most := uint64(0)
	for c, v := range net.Load {
		if net.Capacity != nil {
			v /= uint64(net.Capacity[c])
		}
		most = max(most, v)
	}
	return most
}

// runner makes all trees, perhaps several times.
type runner struct {
	*tree
	net     *Net
	cols    []Column
	sink    Sink
	workers int
	plans   [ahead]*plan
	made    [][]int32 // by column and switch: the channel taken; nil if trees are made once
	come    []uint64  // by switch: paths of its trees, except those that begin there
}

// pass makes every tree; in later passes it removes a tree's load before it
// recomputes the tree.
func (r *runner) pass(again bool) {
	net, cols, t, plans := r.net, r.cols, r.tree, &r.plans
	t.steep = again
	t.forget()
	for at := 0; at < len(cols); {
		// Searches for the next destinations (and classes), then their trees.
		var first [ahead + 1]int
		k := 0
		for end := at; k < ahead && end < len(cols); k++ {
			first[k] = end
			for end++; end < len(cols) && cols[end].Dst == cols[end-1].Dst && cols[end].Class == cols[end-1].Class; end++ {
			}
			first[k+1] = end
		}
		route.ForEach(r.workers, k, func(_, i int) {
			if plans[i] == nil {
				plans[i] = newPlan(net)
			}
			c := &cols[first[i]]
			plans[i].search(net, c.Dst, c.Class)
			plans[i].fan(net)
		})
		for i := range k {
			for col := first[i]; col < first[i+1]; col++ {
				t.plan = plans[i]
				if again {
					t.takeOff(cols[col].Paths, r.made[col])
				}
				t.choose(col, r.sink)
				t.settle(cols[col].Paths, col, r.sink)
				if dst := cols[col].Dst; !again {
					r.come[dst] += uint64(t.flow[dst] - net.Sources[dst]*cols[col].Paths)
				}
				r.tell(col)
				if col+1 < len(cols) && cols[col+1].Siblings > 0 {
					t.remember()
				} else {
					t.forget()
				}
			}
		}
		at = first[k]
	}
}

const far = ^uint32(0)

// plan holds the shortest paths to one destination.
type plan struct {
	dist  []uint32
	order []int32 // switches with a path, each after its possible next hops; the destination first
	cand  []int32 // channels on shortest paths: cand[net.Off[s]:][:cnt[s]]
	cnt   []int32
	ring  [][]int32 // switches to process, by distance modulo 256
}

func newPlan(net *Net) *plan {
	n, m := len(net.Off)-1, len(net.To)
	return &plan{dist: make([]uint32, n), order: make([]int32, 0, n), cand: make([]int32, m), cnt: make([]int32, n)}
}

// search finds the cost from every switch to the destination: breadth first,
// or with weights in Dial's buckets (R. B. Dial, 1969).
func (p *plan) search(net *Net, dst int32, class uint8) {
	off, to, dist := net.Off, net.To, p.dist
	for s := range dist {
		dist[s] = far
	}
	var barred []bool
	if int(class) < len(net.Barred) {
		barred = net.Barred[class]
	}
	dist[dst] = 0
	order := p.order[:0]
	if net.Cost == nil {
		order = append(order, dst)
		for h := 0; h < len(order); h++ {
			u := order[h]
			d := dist[u] + 1
			for _, v := range to[off[u]:off[u+1]] {
				if dist[v] == far && (barred == nil || !barred[v]) {
					dist[v] = d
					order = append(order, v)
				}
			}
		}
		p.order = order
		return
	}
	if p.ring == nil {
		p.ring = make([][]int32, 256)
	}
	p.ring[0] = append(p.ring[0], dst)
	for d, left := uint32(0), 1; left > 0; d++ {
		bucket := p.ring[d&255]
		p.ring[d&255] = bucket[:0]
		left -= len(bucket)
		for _, u := range bucket {
			if dist[u] != d {
				continue // already reached at lower cost
			}
			order = append(order, u)
			for c := off[u]; c < off[u+1]; c++ {
				v := to[c]
				// Channels cost at least 1, so the current bucket grows no more.
				if e := d + uint32(net.Cost[net.Rev[c]]); e < dist[v] && (barred == nil || !barred[v]) {
					dist[v] = e
					p.ring[e&255] = append(p.ring[e&255], v)
					left++
				}
			}
		}
	}
	p.order = order
}

// fan lists the channels on shortest paths.
func (p *plan) fan(net *Net) {
	for _, s := range p.order[1:] {
		first, end := net.Off[s], net.Off[s+1]
		cand := p.cand[first:end]
		k := int32(0)
		d := p.dist[s]
		for c := first; c < end; c++ {
			cost := uint32(1)
			if net.Cost != nil {
				cost = uint32(net.Cost[c])
			}
			if e := p.dist[net.To[c]]; e != far && e+cost == d {
				cand[k] = c
				k++
			}
		}
		p.cnt[s] = k
	}
}

// tree routes one column at a time.
type tree struct {
	*plan
	net    *Net
	weight []uint64 // by switch: of its path
	flow   []uint32 // by switch: paths that pass it
	next   []int32  // by switch: the channel taken
	loose  []int32  // switches that keep nothing

	patched bool // the tree at hand was, so there are no weights
	steep   bool // heavy channels weigh more than in proportion

	mine []int32 // channels that earlier columns of the port took
	used []uint8 // by channel: how many of them
	near []uint8 // by channel: how many of them went to the same adjacent switch
}

func newTree(net *Net) *tree {
	n := len(net.Off) - 1
	return &tree{net: net, weight: make([]uint64, n), flow: make([]uint32, n), next: make([]int32, n)}
}

// forget begins with another port.
func (t *tree) forget() {
	for _, c := range t.mine {
		t.used[c] = 0
		s := t.net.Rev[c]
		for e, end := t.net.Off[t.net.To[s]], t.net.Off[t.net.To[s]+1]; e < end; e++ {
			t.near[e] = 0
		}
	}
	t.mine = t.mine[:0]
}

// remember marks the channels of the last column.
func (t *tree) remember() {
	if t.used == nil {
		t.used, t.near = make([]uint8, len(t.net.To)), make([]uint8, len(t.net.To))
	}
	for _, s := range t.order[1:] {
		c := t.next[s]
		t.mine = append(t.mine, c)
		t.used[c] = min(t.used[c], 254) + 1
		for e, end := t.net.Off[s], t.net.Off[s+1]; e < end; e++ {
			if t.net.To[e] == t.net.To[c] {
				t.near[e] = min(t.near[e], 254) + 1
			}
		}
	}
}

// Marks of siblings outweigh any load, those of switches outweigh those of
// links.
const (
	siblingCable = 1 << 40
	siblingPeer  = 1 << 51
)

// choose takes, nearest switches first, the channel with the lightest path.
func (t *tree) choose(col int, sink Sink) {
	net := t.net
	t.weight[t.order[0]] = 0
	if t.patched = t.patch(col, sink); t.patched {
		return
	}
	for _, s := range t.order[1:] {
		cand := t.cand[net.Off[s]:][:t.cnt[s]]
		keep := sink.Keep(col, s)
		best, least := cand[0], ^uint64(0)
		if len(cand) == 1 {
			keep = best
		}
		for _, c := range cand {
			w := t.heavy(c)
			if c == keep {
				best, least = c, w
				break
			}
			if w < least {
				best, least = c, w
			}
		}
		t.next[s], t.weight[s] = best, least
	}
}

// patch keeps entries that must be kept, and chooses for the other switches if
// they are few: it then walks their candidates' paths instead of computing all
// weights.
func (t *tree) patch(col int, sink Sink) bool {
	net := t.net
	left := len(t.order) / 8
	t.loose = t.loose[:0]
	for _, s := range t.order[1:] {
		c := sink.Keep(col, s)
		if c < 0 || !t.shortest(s, c) {
			if len(t.loose) == left {
				return false
			}
			t.loose = append(t.loose, s)
			c = -1
		}
		t.next[s] = c
	}
	dst := t.order[0]
	for _, s := range t.loose { // nearest first
		best, least := int32(-1), ^uint64(0)
		for _, c := range t.cand[net.Off[s]:][:t.cnt[s]] {
			w := t.own(c)
			for v := net.To[c]; v != dst && w < least; v = net.To[t.next[v]] {
				w += t.own(t.next[v])
			}
			if w < least {
				best, least = c, w
			}
		}
		t.next[s] = best
	}
	return true
}

// shortest reports whether channel c of switch s is on a shortest path.
func (t *tree) shortest(s, c int32) bool {
	cost := uint32(1)
	if t.net.Cost != nil {
		cost = uint32(t.net.Cost[c])
	}
	d := t.dist[t.net.To[c]]
	return d != far && d+cost == t.dist[s]
}

// heavy is the weight of the path that begins with channel c.
func (t *tree) heavy(c int32) uint64 { return t.own(c) + t.weight[t.net.To[c]] }

// own is the weight of channel c itself.
func (t *tree) own(c int32) uint64 {
	w := t.net.Load[c]
	if t.net.Capacity != nil {
		w /= uint64(t.net.Capacity[c])
	}
	if t.steep {
		w *= w
	}
	if len(t.mine) > 0 {
		w += uint64(t.used[c])*siblingCable + uint64(t.near[c])*siblingPeer
	}
	return w
}

// settle stores the choices and adds the paths of every switch to the loads up
// to the destination.
func (t *tree) settle(paths uint32, col int, sink Sink) {
	net := t.net
	for _, s := range t.order {
		t.flow[s] = net.Sources[s] * paths
	}
	for i := len(t.order) - 1; i > 0; i-- {
		s := t.order[i]
		c := t.next[s]
		if cand := t.cand[net.Off[s]:][:t.cnt[s]]; !t.patched && len(cand) > 1 && sink.Keep(col, s) != c {
			least, most := ^uint64(0), uint32(0)
			for _, e := range cand {
				v := net.To[e]
				w, came := t.heavy(e), t.flow[v]
				if !net.Gather {
					w += uint64(came-net.Sources[v]*paths) * uint64(t.dist[v])
					came = 0
				}
				if w < least || w == least && (came > most || came == most && net.Gather && t.before(v, net.To[c])) {
					c, least, most = e, w, came
				}
			}
		}
		t.next[s] = c
		t.flow[net.To[c]] += t.flow[s]
		net.Load[c] += uint64(t.flow[s])
	}
}

// before is the order of equally good adjacent switches. Switches without hosts
// have the same order from everywhere, regardless of ports; others follow the
// order of ports, which is the order of dimensions in many direct networks.
func (t *tree) before(u, v int32) bool {
	return u < v && t.net.Sources[u] == 0 && t.net.Sources[v] == 0
}

// tell passes the choices to the sink.
func (r *runner) tell(col int) {
	t := r.tree
	if r.made != nil {
		row := r.made[col]
		if len(t.order) < len(row) {
			for s := range row {
				row[s] = -1
			}
		}
		for _, s := range t.order[1:] {
			row[s] = t.next[s]
		}
		return
	}
	for _, s := range t.order[1:] {
		r.sink.Set(col, s, t.next[s])
	}
	if len(t.order) < len(t.dist) {
		for s, d := range t.dist {
			if d == far {
				r.sink.Set(col, int32(s), -1)
			}
		}
	}
}

// takeOff takes the load of a tree made before off its channels.
func (t *tree) takeOff(paths uint32, made []int32) {
	net := t.net
	for _, s := range t.order {
		t.flow[s] = net.Sources[s] * paths
	}
	for i := len(t.order) - 1; i > 0; i-- {
		s := t.order[i]
		c := made[s]
		t.flow[net.To[c]] += t.flow[s]
		net.Load[c] -= uint64(t.flow[s])
	}
}
