package nue

import (
	"math"

	"heddle/ib"
	"heddle/internal/heap"
)

const (
	hop = uint64(1) << 40 // price of a link in addition to that of its load
	// idleToll is how much more, in tolls, a switch without hosts pays if the
	// order of the layer's channels must be repaired for it: its own packets may take a detour.
	idleToll = 15
	none     = int32(-2) // next of a switch without a route
	here     = int32(-1) // next of the destination
)

// vertex is the search state of a switch.
type vertex struct {
	cost uint64 // price of its path
	next int32  // the channel it sends to: none, here or a channel
	np   int32  // place of that channel in the layer's order; the highest at the destination
}

// router finds trees in one layer.
type router struct {
	*layer
	price []uint64 // by channel: cost of one more path over it
	fixed bool     // the layer's order must not be repaired
	// even makes shortest charge the paths of hosts immediately, so that those to
	// one LID are spread. Otherwise they converge, which is as good on complete
	// fat trees, and faster.
	even bool
	toll uint64 // price of a channel whose dependency points backward

	v     []vertex
	order []int32 // switches with a route, each after its next hop
	want  int     // switches that can have a route

	dist []int32 // links to the destination of the plan
	plan []int32 // switches by ascending dist, the destination first
	cand []int32 // channels on a shortest path from plan[i+1]: cand[end[i-1]:end[i]]
	end  []int32
	need []bool // by switch: paths of hosts need it
	bars bool   // some switches' tables are too short for the LID
	bar  []bool

	heap  heap.Heap[uint64, struct{}] // cost, then channel
	tent  []uint64                    // by switch: the cheapest in the heap
	tried []uint32                    // by channel: the run that refused it
	run   uint32
	pin   []int32 // by switch: the only channel it may take, or none
	top   []int32 // by switch: its channel in the highest tree, or none
	flow  []uint32

	// While loads is set, finish adds the paths of the tree to it immediately and
	// raises prices by the slope at scale.
	loads []uint64
	scale float64
	way   []int32
}

func newRouter(y *layer) *router {
	n, m := y.n, len(y.to)
	r := &router{
		layer: y, toll: hop / 2, price: make([]uint64, m), v: make([]vertex, n), order: make([]int32, 0, n),
		dist: make([]int32, n), plan: make([]int32, 0, n), cand: make([]int32, 0, m), end: make([]int32, 0, n),
		bar: make([]bool, n), need: make([]bool, n), tent: make([]uint64, n), tried: make([]uint32, m),
		pin: make([]int32, n), top: make([]int32, n), flow: make([]uint32, n),
	}
	for c := range r.price {
		r.price[c] = hop
	}
	for s := range r.pin {
		r.pin[s] = none
	}
	return r
}

// prepare plans for LID l on switch d: which switches can have a route, at what
// distance, and by which channels. The plan applies to all LIDs of the switch,
// unless some table is too short for one.
//
// Complexity: O(channels).
func (r *router) prepare(d int32, l ib.LID) {
	r.bars = false
	if r.limit {
		for s := range int32(r.n) {
			r.bar[s] = s != d && !r.holds(s, l)
			r.bars = r.bars || r.bar[s]
		}
	}
	for s := range r.dist {
		r.dist[s] = -1
	}
	off := r.g.Off
	r.plan, r.cand, r.end = append(r.plan[:0], d), r.cand[:0], r.end[:0]
	r.dist[d] = 0
	for k := 0; k < len(r.plan); k++ {
		v := r.plan[k]
		for c := off[v]; c < off[v+1]; c++ {
			if u := r.to[c]; r.dist[u] < 0 && !(r.bars && r.bar[u]) {
				r.dist[u] = r.dist[v] + 1
				r.plan = append(r.plan, u)
			}
		}
	}
	r.want = len(r.plan)
	for _, u := range r.plan[1:] {
		near := r.dist[u] - 1
		for c := off[u]; c < off[u+1]; c++ {
			if r.dist[r.to[c]] == near {
				r.cand = append(r.cand, c)
			}
		}
		r.end = append(r.end, int32(len(r.cand)))
	}
}

func (r *router) begin(d int32) {
	for s := range r.v {
		r.v[s].next = none
	}
	r.v[d] = vertex{next: here, np: math.MaxInt32}
	r.order = append(r.order[:0], d)
	r.recent = r.recent[:0]
}

// settle gives switch u the channel c, whose dependency has been added.
func (r *router) settle(u, c int32, cost uint64) {
	r.v[u] = vertex{cost: cost, next: c, np: r.pos[c]}
	r.order = append(r.order, u)
}

// try adds the dependency of c on the next channel of the switch that c enters.
func (r *router) try(c int32) bool {
	x := r.v[r.to[c]].next
	if x < 0 {
		return true
	}
	if r.pos[c] < r.pos[x] {
		r.used[r.base[c]+x]++
		return true
	}
	if r.fixed || !r.add(c, x) {
		return false
	}
	// The order has been repaired.
	for _, u := range r.order {
		if c := r.v[u].next; c >= 0 {
			r.v[u].np = r.pos[c]
		}
	}
	return true
}

// shortest routes the switches of the plan over shortest paths, as far as the
// dependency graph permits, and returns how many it could not route. Channels
// whose dependency points forward are preferred, the cheapest of them. If there
// is none, the order is repaired for the cheapest channel that permits it, but
// only for switches with hosts and those that these need.
//
// Complexity: O(channels on shortest paths), times their length if even, and
// the repairs.
func (r *router) shortest(d int32) (left int) {
	r.begin(d)
	lo := int32(0)
	hosts := false
	for i, u := range r.plan[1:] {
		cand := r.cand[lo:r.end[i]]
		lo = r.end[i]
		best, least := none, uint64(math.MaxUint64)
		if r.even {
			best, least = r.evenly(u, cand)
		} else {
			for _, c := range cand {
				v := &r.v[r.to[c]]
				if v.next == none || r.pos[c] >= v.np {
					continue
				}
				if k := v.cost + r.price[c]; k < least {
					best, least = c, k
				}
			}
			if best >= 0 {
				if x := r.v[r.to[best]].next; x >= 0 {
					r.used[r.base[best]+x]++
				}
			}
		}
		if best < 0 {
			left++
			hosts = hosts || r.hosts[u] > 0
			continue
		}
		r.settle(u, best, least)
		if r.even {
			r.charge(u, uint64(r.hosts[u]))
		}
	}
	if r.even {
		for _, u := range r.order {
			r.charge(u, -uint64(r.hosts[u]))
		}
	}
	if hosts && !r.fixed {
		left -= r.repairAll()
	}
	return left
}

// evenly finds the cheapest of some channels for switch u and adds its
// dependency. Prices include the paths that shortest has charged. If some
// dependency points forward, those that point backward are candidates too, for
// a toll of as many paths as lead to one LID.
func (r *router) evenly(u int32, cand []int32) (best int32, least uint64) {
	r.run++
	for {
		best, least = none, math.MaxUint64
		forward := false
		for _, c := range cand {
			v := &r.v[r.to[c]]
			if v.next == none || r.tried[c] == r.run {
				continue
			}
			k := v.cost + r.price[c]
			if r.hosts[u] > 0 {
				k = 0
				for x := c; x >= 0; x = r.v[r.to[x]].next {
					k += r.price[x]
				}
			}
			if r.pos[c] < v.np {
				forward = true
			} else {
				k += r.net.total
			}
			if k < least {
				best, least = c, k
			}
		}
		if !forward {
			return none, 0
		}
		if r.try(best) {
			return best, least
		}
		r.tried[best] = r.run
	}
}

// charge adds to the prices on the path from u.
func (r *router) charge(u int32, paths uint64) {
	for c := r.v[u].next; c >= 0 && paths != 0; c = r.v[r.to[c]].next {
		r.price[c] += paths
	}
}

// repairAll repairs the order for the switches that shortest did not route and
// that paths of hosts need. It returns the number of successes.
func (r *router) repairAll() (done int) {
	need := r.need
	clear(need)
	for i := len(r.plan) - 1; i > 0; i-- {
		u := r.plan[i]
		if r.v[u].next != none || r.hosts[u] == 0 && !need[u] {
			continue
		}
		need[u] = true
		for _, c := range r.candidates(i) {
			need[r.to[c]] = true
		}
	}
	for i, u := range r.plan {
		if i == 0 || r.v[u].next != none || !need[u] {
			continue
		}
		if c, cost := r.repairFor(r.candidates(i)); c >= 0 {
			r.settle(u, c, cost)
			done++
		}
	}
	return done
}

// candidates are the channels on a shortest path from plan[i].
func (r *router) candidates(i int) []int32 {
	lo := int32(0)
	if i > 1 {
		lo = r.end[i-2]
	}
	return r.cand[lo:r.end[i-1]]
}

// repairFor finds the cheapest of some channels that may be used after repairing
// the order.
func (r *router) repairFor(cand []int32) (best int32, least uint64) {
	r.run++
	for {
		best, least = none, math.MaxUint64
		for _, c := range cand {
			v := &r.v[r.to[c]]
			if v.next == none || r.tried[c] == r.run {
				continue
			}
			if k := v.cost + r.price[c]; k < least {
				best, least = c, k
			}
		}
		if best < 0 || r.try(best) {
			return best, least
		}
		r.tried[best] = r.run
	}
}

// finish routes the remaining switches, the cheapest paths first (Dijkstra's algorithm from the
// destination, over routed switches, each with one channel). An offer whose prices have risen
// is recomputed when it is taken from the queue.
//
// Complexity: O(channels · log channels), and the repairs.
func (r *router) finish() {
	r.run++
	r.heap.Reset()
	for s := range r.tent {
		r.tent[s] = math.MaxUint64
	}
	if 2*len(r.order) <= r.n {
		for _, v := range r.order {
			r.relax(v)
		}
	} else {
		for u := range int32(r.n) {
			if r.v[u].next == none && !(r.bars && r.bar[u]) {
				r.ask(u)
			}
		}
	}
	for r.heap.Len() > 0 && len(r.order) < r.want {
		it := r.heap.Pop()
		ch := int32(it.Tie)
		u := r.from[ch]
		if r.v[u].next != none || it.Key != r.tent[u] || r.tried[ch] == r.run {
			continue
		}
		if r.loads == nil || r.offer(ch) <= it.Key {
			if r.try(ch) {
				r.settle(u, ch, it.Key)
				if r.loads != nil && r.hosts[u] > 0 {
					r.send(u, r.hosts[u])
				}
				r.relax(u)
				continue
			}
			r.tried[ch] = r.run
		}
		r.ask(u)
	}
}

// ask finds the best path from u over adjacent switches that have one.
func (r *router) ask(u int32) {
	best, least := none, uint64(math.MaxUint64)
	for c := r.g.Off[u]; c < r.g.Off[u+1]; c++ {
		if r.v[r.to[c]].next == none || r.tried[c] == r.run || r.pin[u] != none && r.pin[u] != c {
			continue
		}
		if k := r.offer(c); k < least {
			best, least = c, k
		}
	}
	r.tent[u] = least
	if best >= 0 {
		r.heap.Push(least, uint64(best), struct{}{})
	}
}

// relax offers the switches adjacent to v the path through it.
func (r *router) relax(v int32) {
	for o := r.g.Off[v]; o < r.g.Off[v+1]; o++ {
		u := r.to[o]
		if r.v[u].next != none || r.bars && r.bar[u] {
			continue
		}
		c := r.rev[o]
		if k := r.offer(c); k < r.tent[u] && (r.pin[u] == none || r.pin[u] == c) {
			r.tent[u] = k
			r.heap.Push(k, uint64(c), struct{}{})
		}
	}
}

// offer is the price of the path that begins with c.
func (r *router) offer(c int32) uint64 {
	v := &r.v[r.to[c]]
	k := v.cost + r.price[c]
	if r.pos[c] >= v.np {
		k += r.toll
		if r.hosts[r.from[c]] == 0 {
			k += r.toll * idleToll
		}
	}
	return k
}

// send adds paths from u to the loads, and their cost to the prices along the
// path.
func (r *router) send(u int32, paths uint32) {
	r.way = r.way[:0]
	for c := r.v[u].next; c >= 0; c = r.v[r.to[c]].next {
		r.loads[c] += uint64(paths)
		r.price[c] = slope(r.loads[c], r.scale)
		r.way = append(r.way, c)
	}
	for i := len(r.way) - 1; i >= 0; i-- {
		c := r.way[i]
		r.v[r.from[c]].cost = r.v[r.to[c]].cost + r.price[c]
	}
}

// undo takes the tree at hand out again.
func (r *router) undo() {
	for _, u := range r.order {
		if c := r.v[u].next; c >= 0 {
			if x := r.v[r.to[c]].next; x >= 0 {
				r.drop(c, x)
			}
		}
	}
	r.forget()
}

// highest finds the tree in which every switch uses the highest channel in the
// order, of those that begin a path along the order. It omits no switch from
// which such a path exists, so none at all while the escape paths are held:
// channels are processed from the highest down, so the next channel of a switch
// is above all that are still to come.
//
// Complexity: O(channels).
func (r *router) highest(d int32) {
	for s := range r.top {
		r.top[s] = none
	}
	r.top[d] = here
	for i := len(r.at) - 1; i >= 0; i-- {
		c := r.at[i]
		u := r.from[c]
		if r.top[u] == none && r.top[r.to[c]] != none && !(r.bars && r.bar[u]) {
			r.top[u] = c
		}
	}
}

// maxPins is how many times more and more switches are pinned to the highest
// tree before it is taken as it is.
const maxPins = 8

// route finds the tree of the plan's destination and adds its dependencies:
// shortest paths first, then detours. After an impasse it retries in the
// unchanged order, with the disconnected switches, and all switches on their
// paths, pinned to the highest tree. It reports whether all hosts' paths are
// shortest.
func (r *router) route(d int32) bool {
	clean := true
	if r.shortest(d) > 0 {
		for _, u := range r.plan {
			if r.v[u].next == none && r.hosts[u] > 0 {
				clean = false
				break
			}
		}
		r.finish()
	}
	if len(r.order) < r.want {
		r.impasse(d)
	}
	return clean
}

// impasse routes a destination that the search could not finish. The highest
// tree can be smaller than the search's result only if escape paths lead
// through tables that are too short.
func (r *router) impasse(d int32) {
	r.highest(d)
	reach := 0
	for _, c := range r.top {
		if c != none {
			reach++
		}
	}
	if reach <= len(r.order) {
		return
	}
	r.undo()
	was := r.fixed
	r.fixed = true
	r.want = min(r.want, reach)
	pinned := false
	for round := 0; ; round++ {
		r.begin(d)
		r.finish()
		if len(r.order) == r.want {
			break
		}
		for _, u := range r.plan {
			if r.v[u].next == none || round == maxPins {
				pinned = true
				for x := u; r.top[x] >= 0 && r.pin[x] == none; x = r.to[r.top[x]] {
					r.pin[x] = r.top[x]
				}
			}
		}
		r.undo()
	}
	if pinned {
		for s := range r.pin {
			r.pin[s] = none
		}
	}
	r.want = len(r.plan)
	r.fixed = was
}

// count adds the flow of the current tree, one path from every host to one LID,
// to load and price.
func (r *router) count(load []uint32) {
	for i := len(r.order) - 1; i > 0; i-- {
		u := r.order[i]
		f := r.flow[u] + r.hosts[u]
		r.flow[u] = 0
		if f > 0 {
			c := r.v[u].next
			load[c] += f
			r.price[c] += uint64(f)
			r.flow[r.to[c]] += f
		}
	}
	r.flow[r.order[0]] = 0
}
