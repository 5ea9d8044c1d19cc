// Package spt computes balanced shortest-path trees: one tree for each LID (or
// group of LIDs), in which every switch sends over a channel that lies on a
// path of least cost to the destination, and among those over the ones that
// carry the least so far.
//
// This is the global balancing of T. Hoefler, T. Schneider and A. Lumsdaine,
// "Optimized Routing for Large-Scale InfiniBand Networks" (2009): the weight
// of a channel is the number of paths already routed over it, and each tree
// takes the paths of least total weight. They run Dijkstra's algorithm with
// first weights so large that detours hardly pay; here cost (hops, or the
// operator's weights) comes first and paths never detour, so one breadth-first
// search for a destination serves all its LIDs, and the weights are minimised
// along the shortest-path graph alone.
//
// Large networks are routed in rounds: one tree for each of 16 destinations
// against the same weights, which workers share out. The rounds do not depend
// on the number of workers, and so neither does the result. Cost: O(channels) for
// a tree and O(switches × distance) for its load, O(trees × channels)
// together; memory: a few hundred KiB for each of the 16.
package spt

import (
	"heddle/route"
)

// Net is a network as the trees see it. Channels of switch s are
// Off[s]:Off[s+1]; they come in pairs, one each way.
type Net struct {
	Off      []int32
	To, Rev  []int32  // by channel
	Cost     []uint8  // by channel, at least 1; nil: all cost 1
	Load     []uint64 // by channel: paths routed over it; Run adds to it
	Capacity []uint32 // by channel: cables it stands for; nil: all stand for one
	Sources  []uint32 // by switch: paths that begin there
	// Barred tells, by class, which switches can neither forward nor deliver;
	// nil entries bar none. A destination is never barred in its classes.
	Barred [][]bool
}

// Column asks for one tree.
type Column struct {
	Dst   int32
	Class uint8  // which of Net.Barred
	Paths uint32 // LIDs that the tree stands for; 0: it is no load
	// Siblings is how many columns before this one lead to the same port:
	// this tree avoids their channels where it can.
	Siblings uint8
}

// Sink says what was and takes what is. Run calls Keep from many goroutines
// and Set from one; columns are numbered as Run was given them.
type Sink interface {
	// Keep is the channel that s shall use for a column if it is on a
	// shortest path; -1: none.
	Keep(col int, s int32) int32
	// Set tells that s uses channel c for a column. Switches without a path
	// are not told of.
	Set(col int, s, c int32)
}

const (
	// slots is how many destinations of a large network are routed against
	// the same weights.
	slots = 16
	// large is the number of table entries from which a network is large.
	large = 1 << 19
)

// Run routes the columns, which stand in ascending order of Dst, those of one
// destination by ascending Class, and those of one port side by side.
func Run(net *Net, cols []Column, sink Sink, workers int) {
	type span struct{ from, to int }
	var spans []span
	for i := 0; i < len(cols); {
		j := i + 1
		for j < len(cols) && cols[j].Dst == cols[i].Dst {
			j++
		}
		spans = append(spans, span{i, j})
		i = j
	}
	width := 1
	if len(cols)*(len(net.Off)-1) >= large {
		width = slots
	}
	width = min(width, len(spans))
	if width == 0 {
		return
	}
	team := make([]*tree, width)
	for k := range team {
		team[k] = newTree(net, k)
	}
	// Neighbours in the list are neighbours in the network, so a team takes
	// destinations far apart.
	teams := (len(spans) + width - 1) / width
	for first := range teams {
		for round := 0; ; round++ {
			busy := 0
			for k, t := range team {
				t.col = -1
				if at := first + k*teams; at < len(spans) && spans[at].from+round < spans[at].to {
					t.col = spans[at].from + round
					busy++
				}
			}
			if busy == 0 {
				break
			}
			route.ForEach(workers, width, func(_, k int) {
				if t := team[k]; t.col >= 0 {
					t.grow(cols[t.col], round == 0, sink)
				}
			})
			for _, t := range team {
				if t.col >= 0 {
					t.settle(sink)
				}
			}
		}
	}
}

const far = ^uint32(0)

// tree routes one column at a time.
type tree struct {
	net   *Net
	turn  int // where ties are resolved first
	col   int
	class uint8
	dst   int32

	dist  []uint32
	order []int32 // switches with a path, each after every one it may send to
	cand  []int32 // channels on shortest paths: cand[net.Off[s]:][:cnt[s]]
	cnt   []int32
	ring  [][]int32 // switches to look at, by distance modulo 256

	weight []uint64 // by switch: of its path
	flow   []uint32 // by switch: paths that come by
	next   []int32  // by switch: the channel taken

	mine []int32 // channels that earlier columns of the port took
	used []uint8 // by channel: how many of them
	near []uint8 // by channel: how many of them went to the same neighbour
}

func newTree(net *Net, turn int) *tree {
	n, m := len(net.Off)-1, len(net.To)
	return &tree{
		net: net, turn: turn, dist: make([]uint32, n), order: make([]int32, 0, n), cand: make([]int32, m), cnt: make([]int32, n),
		weight: make([]uint64, n), flow: make([]uint32, n), next: make([]int32, n),
	}
}

// grow chooses the channels of a column.
func (t *tree) grow(c Column, fresh bool, sink Sink) {
	if c.Siblings == 0 {
		t.forget()
	} else {
		t.remember()
	}
	if fresh || c.Class != t.class {
		t.dst, t.class = c.Dst, c.Class
		t.search()
		t.fan()
	}
	t.choose(sink)
	t.count(c.Paths)
}

func (t *tree) barred() []bool {
	if int(t.class) < len(t.net.Barred) {
		return t.net.Barred[t.class]
	}
	return nil
}

// search finds the cost from every switch to the destination: breadth first,
// or with weights in Dial's buckets (R. B. Dial, 1969).
func (t *tree) search() {
	net := t.net
	off, to, dist := net.Off, net.To, t.dist
	for s := range dist {
		dist[s] = far
	}
	barred := t.barred()
	dist[t.dst] = 0
	order := t.order[:0]
	if net.Cost == nil {
		order = append(order, t.dst)
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
		t.order = order
		return
	}
	if t.ring == nil {
		t.ring = make([][]int32, 256)
	}
	t.ring[0] = append(t.ring[0], t.dst)
	for d, left := uint32(0), 1; left > 0; d++ {
		bucket := t.ring[d&255]
		t.ring[d&255] = bucket[:0]
		left -= len(bucket)
		for _, u := range bucket {
			if dist[u] != d {
				continue // reached by a cheaper way
			}
			order = append(order, u)
			for c := off[u]; c < off[u+1]; c++ {
				v := to[c]
				// Channels cost at least 1, so the bucket at hand gets no more.
				if e := d + uint32(net.Cost[net.Rev[c]]); e < dist[v] && (barred == nil || !barred[v]) {
					dist[v] = e
					t.ring[e&255] = append(t.ring[e&255], v)
					left++
				}
			}
		}
	}
	t.order = order
}

// fan lists the channels on shortest paths.
func (t *tree) fan() {
	net := t.net
	for _, s := range t.order[1:] {
		first, end := net.Off[s], net.Off[s+1]
		cand := t.cand[first:end]
		k := int32(0)
		d := t.dist[s]
		for c := first; c < end; c++ {
			cost := uint32(1)
			if net.Cost != nil {
				cost = uint32(net.Cost[c])
			}
			if e := t.dist[net.To[c]]; e != far && e+cost == d {
				cand[k] = c
				k++
			}
		}
		t.cnt[s] = k
	}
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

// remember marks what the last column took.
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

// Marks of siblings stand above any load, neighbours above cables.
const (
	siblingCable = 1 << 40
	siblingPeer  = 1 << 51
)

// choose takes, nearest switches first, the channel with the lightest path.
func (t *tree) choose(sink Sink) {
	net := t.net
	t.weight[t.dst] = 0
	for _, s := range t.order[1:] {
		cand := t.cand[net.Off[s]:][:t.cnt[s]]
		best, least := int32(-1), ^uint64(0)
		keep := sink.Keep(t.col, s)
		at := 0
		if len(cand) > 1 {
			at = t.turn % len(cand)
		}
		for range cand {
			c := cand[at]
			if at++; at == len(cand) {
				at = 0
			}
			w := net.Load[c]
			if net.Capacity != nil {
				w /= uint64(net.Capacity[c])
			}
			w += t.weight[net.To[c]]
			if len(t.mine) > 0 {
				w += uint64(t.used[c])*siblingCable + uint64(t.near[c])*siblingPeer
			}
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

// count lets the paths of every switch flow to the destination.
func (t *tree) count(paths uint32) {
	net := t.net
	for _, s := range t.order {
		t.flow[s] = net.Sources[s] * paths
	}
	for i := len(t.order) - 1; i > 0; i-- {
		s := t.order[i]
		t.flow[net.To[t.next[s]]] += t.flow[s]
	}
}

// settle makes the choices known.
func (t *tree) settle(sink Sink) {
	for _, s := range t.order[1:] {
		c := t.next[s]
		t.net.Load[c] += uint64(t.flow[s])
		sink.Set(t.col, s, c)
	}
}
