// Package lash routes pairs of switches along shortest paths and puts them into as
// few virtual lanes as keep each lane free of cycles: layered shortest paths (T.
// Skeie, O. Lysne and I. Theiss, "Layered Shortest Path (LASH) Routing in Irregular
// System Area Networks", 2002).
//
// All LIDs of a switch share one tree; if several links join two switches, the LIDs
// use them in turn. A pair has one service level for both directions, because a
// reply uses the level of the request (IBA §13.5.4, reversible paths), like
// OpenSM's LASH. Only pairs with a CA or router port at one end get a layer: no
// other data traffic exists.
//
// The number of layers depends on the choice among the shortest paths, and on the
// order in which pairs are inserted. The engine tries balanced trees
// (route/engine/spt) and trees that always use the first port, with both methods of
// route/engine/layer, and keeps the result with the fewest layers, then the one
// with the least load on the fullest link. Fabrics above a size get fewer tries.
//
// Cost: O(switches × channels) for the trees, O(pairs × hops) look-ups to fit the
// pairs in, plus the search for cycles: O(channels × ports) at worst for each
// dependency that is new to a layer, next to nothing in practice. Memory: one byte
// for each pair of switches, twice, and for each layer four bytes for each possible
// dependency (pairs of neighbors × ports).
//
// Invariants: every path is as short as any over switches whose tables hold the
// LID; no lane has a cycle for traffic that can exist; too few lanes are refused,
// naming how many it takes.
package lash

import (
	"slices"

	"heddle/fabric"
	"heddle/ib"
	"heddle/route"
	"heddle/route/engine/layer"
	"heddle/route/engine/spt"
)

// Engine computes lash tables. The zero value is ready to use.
type Engine struct{}

// Name is "lash".
func (Engine) Name() string { return "lash" }

// Leveling implements route.Leveling.
func (Engine) Leveling() {}

const (
	// fewPairs is up to how many ordered pairs of switches every try is made.
	fewPairs = 1 << 17
	// somePairs is the number of pairs up to which several tries are made.
	somePairs = 1 << 21
)

// Compute returns the tables; Options.Workers, MaxVLs, Previous and SpreadLanes
// are used. If the lanes do not suffice, the error says how many are needed.
func (Engine) Compute(g *fabric.Graph, o route.Options) (*route.Tables, error) {
	if o.Previous != nil && len(o.Previous.LFT) != len(g.Switches) {
		return nil, route.Refuse("lash", route.ErrInput, "previous tables are for %d switches, the graph has %d", len(o.Previous.LFT), len(g.Switches))
	}
	n := newNet(g)
	best := n.best(o)
	budget := route.Budget(g, o.MaxVLs)
	if !best.ok || best.layers.Used > budget {
		return nil, layer.Refuse("lash", best.layers.Used, g, o)
	}
	if o.SpreadLanes {
		best.layers = best.layers.Spread(budget)
	}
	t := route.New("lash", len(g.Switches), g.TopLID)
	n.expand(t, best.trees, o.Previous)
	n.finish(t, best.trees, best.layers)
	return t, nil
}

// finish writes the layers to the tables.
func (n *net) finish(t *route.Tables, trees *trees, l *layer.Layers) {
	t.NumVLs = l.Used
	t.Memo = &memo{net: n, rows: trees.rows, layers: l}
	if l.Used > 1 {
		t.SL = l.SL
		t.SwitchClasses(n.g)
	}
}

// attempt is one result of routing and layering.
type attempt struct {
	trees  *trees
	layers *layer.Layers
	ok     bool
	peak   uint64 // most paths over one link
}

func (a *attempt) better(b *attempt) bool {
	switch {
	case !a.ok || !b.ok:
		return a.ok && !b.ok
	case a.layers.Used != b.layers.Used:
		return a.layers.Used < b.layers.Used
	}
	return a.peak < b.peak
}

// best makes the tries and picks.
func (n *net) best(o route.Options) *attempt {
	pairs := len(n.g.Switches) * len(n.g.Switches)
	balanced := n.grow(o, true)
	best := n.try(balanced, layer.Fit)
	if best.ok && best.layers.Used == 1 && pairs > fewPairs || pairs > somePairs {
		return best
	}
	type way struct {
		even bool
		fill func(*layer.Paths) (*layer.Layers, bool)
	}
	ways := []way{{false, layer.Fit}}
	if pairs <= fewPairs && !(best.ok && best.layers.Used == 1) {
		ways = append(ways, way{true, layer.Split}, way{false, layer.Split})
	}
	ordered := n.grow(o, false)
	tries := make([]*attempt, len(ways))
	route.ForEach(o.Workers, len(ways), func(_, i int) {
		t := ordered
		if ways[i].even {
			t = balanced
		}
		tries[i] = n.try(t, ways[i].fill)
	})
	for _, a := range tries {
		if a.better(best) {
			best = a
		}
	}
	return best
}

func (n *net) try(t *trees, fill func(*layer.Paths) (*layer.Layers, bool)) *attempt {
	a := &attempt{trees: t, peak: t.peak}
	a.layers, a.ok = fill(n.paths(t))
	return a
}

// net is the fabric with all links between two switches as one: a trunk.
type net struct {
	g     *fabric.Graph
	graph *layer.Graph // of trunks
	off   []int32      // trunks of switch s are off[s]:off[s+1]
	to    []int32      // by trunk
	rev   []int32
	first []int32 // channels of trunk k are channels[first[k]:first[k+1]], by output port
	chans []int32
	trunk []int32 // by channel
	ways  [][]int32
	cols  []spt.Column // one for each group
	lids  [][]ib.LID   // by group: LIDs of one switch that the same tables hold
	hosts []bool       // by group: a CA or router port is among the owners
	ca    []bool       // by switch
	bar   [][]bool     // by class: switches whose tables are too short
	from  []uint32     // by switch: CA and router ports with LIDs
}

func newNet(g *fabric.Graph) *net {
	s := len(g.Switches)
	m := len(g.Channels)
	n := &net{g: g, off: make([]int32, s+1), trunk: make([]int32, m), chans: make([]int32, 0, m), ca: make([]bool, s), from: make([]uint32, s)}
	at := make([]int32, s) // 1 + the trunk from the current switch to this one
	for u := range s {
		base := int32(len(n.to))
		first, end := g.Off[u], g.Off[u+1]
		for c := first; c < end; c++ {
			v := g.Channels[c].To
			if at[v] <= base {
				n.to = append(n.to, v)
				at[v] = int32(len(n.to))
			}
			n.trunk[c] = at[v] - 1
		}
		for k := base; k < int32(len(n.to)); k++ {
			n.first = append(n.first, int32(len(n.chans)))
			for c := first; c < end; c++ {
				if n.trunk[c] == k {
					n.chans = append(n.chans, c)
				}
			}
		}
		n.off[u+1] = int32(len(n.to))
	}
	n.first = append(n.first, int32(len(n.chans)))
	n.rev = make([]int32, len(n.to))
	for c := range g.Channels {
		n.rev[n.trunk[c]] = n.trunk[g.Channels[c].Rev]
	}
	n.graph = layer.NewGraph(n.off, n.to, n.rev)
	all := make([]int32, len(n.to))
	for k := range all {
		all[k] = int32(k)
	}
	n.ways = make([][]int32, s)
	for u := range s {
		n.ways[u] = all[n.off[u]:n.off[u+1]]
	}
	n.groups()
	return n
}

// limits are the distinct table sizes that some LID is too high for, ascending.
func limits(g *fabric.Graph) []ib.LID {
	var l []ib.LID
	for s := range g.Switches {
		if c := ib.LID(g.Switches[s].LinearFDBCap); c != 0 && c <= g.TopLID {
			l = append(l, c)
		}
	}
	slices.Sort(l)
	return slices.Compact(l)
}

// groups lists the columns: the LIDs of each switch, apart by the size of the
// tables that hold them.
func (n *net) groups() {
	g := n.g
	limits := limits(g)
	n.bar = make([][]bool, len(limits)+1)
	for k, limit := range limits {
		b := make([]bool, len(g.Switches))
		for s := range b {
			c := ib.LID(g.Switches[s].LinearFDBCap)
			b[s] = c != 0 && c <= limit
		}
		n.bar[k+1] = b
	}
	group := make([]int32, len(g.Switches)*len(n.bar)) // 1 + group by switch and class
	class := 0
	counted := make([]bool, len(g.EndPorts)) // its LIDs need not be consecutive
	add := func(e int32, class int, l ib.LID) {
		p := &g.EndPorts[e]
		k := &group[int(p.Switch)*len(n.bar)+class]
		if *k == 0 {
			return
		}
		i := *k - 1
		n.lids[i] = append(n.lids[i], l)
		if p.Type != ib.NodeSwitch {
			n.cols[i].Paths++
			n.hosts[i] = true
		}
	}
	each := func(fn func(e int32, class int, l ib.LID)) {
		class = 0
		for l, e := range g.LIDOwner {
			for class < len(limits) && limits[class] <= ib.LID(l) {
				class++
			}
			if e == fabric.NoLID || g.EndPorts[e].Switch < 0 {
				continue
			}
			fn(e, class, ib.LID(l))
		}
	}
	each(func(e int32, class int, _ ib.LID) {
		p := &g.EndPorts[e]
		if p.Type != ib.NodeSwitch && !counted[e] {
			n.from[p.Switch]++
			n.ca[p.Switch] = true
			counted[e] = true
		}
		if class == 0 || !n.bar[class][p.Switch] {
			group[int(p.Switch)*len(n.bar)+class] = 1
		}
	})
	for i, k := range group {
		if k > 0 {
			n.cols = append(n.cols, spt.Column{Dst: int32(i / len(n.bar)), Class: uint8(i % len(n.bar))})
			group[i] = int32(len(n.cols))
		}
	}
	n.lids, n.hosts = make([][]ib.LID, len(n.cols)), make([]bool, len(n.cols))
	each(add)
}

// trees are the next hops of all switches to all groups.
type trees struct {
	rows [][]byte // by switch and group: which of the switch's trunks, or none
	peak uint64
}

const none = 0xFF

// sink fills trees.
type sink struct {
	n    *net
	rows [][]byte
	prev *route.Tables
}

// Keep implements spt.Sink: the trunk of the previous entry of the first LID.
func (k *sink) Keep(col int, s int32) int32 {
	if k.prev == nil {
		return -1
	}
	if c := k.n.entry(k.prev, s, k.n.lids[col][0]); c >= 0 {
		return k.n.trunk[c]
	}
	return -1
}

// entry is the channel of an entry, or -1.
func (n *net) entry(t *route.Tables, s int32, l ib.LID) int32 {
	if t.LFT[s] == nil {
		return -1
	}
	if p := t.Entry(s, l); int(p) < len(n.g.PortChannel[s]) {
		return n.g.PortChannel[s][p]
	}
	return -1
}

// Set implements spt.Sink.
func (k *sink) Set(col int, s, c int32) {
	w := byte(none)
	if c >= 0 {
		w = byte(c - k.n.off[s])
	}
	k.rows[s][col] = w
}

// network is the network for spt.
func (n *net) network() *spt.Net {
	s := &spt.Net{
		Off: n.off, To: n.to, Rev: n.rev, Load: make([]uint64, len(n.to)), Capacity: make([]uint32, len(n.to)),
		Sources: n.from, Barred: n.bar,
	}
	for k := range s.Capacity {
		s.Capacity[k] = uint32(n.first[k+1] - n.first[k])
	}
	return s
}

// grow routes all groups: balanced, or by the first port that will do.
func (n *net) grow(o route.Options, balanced bool) *trees {
	t := &trees{rows: make([][]byte, len(n.g.Switches))}
	slab := make([]byte, len(t.rows)*len(n.cols))
	for i := range slab {
		slab[i] = none
	}
	for s := range t.rows {
		t.rows[s] = slab[s*len(n.cols) : (s+1)*len(n.cols)]
	}
	net := n.network()
	cols := n.cols
	if !balanced {
		cols = slices.Clone(cols)
		for i := range cols {
			cols[i].Paths = 0
		}
	}
	spt.Run(net, cols, &sink{n, t.rows, o.Previous}, o.Workers)
	if !balanced {
		n.loads(t.rows, net.Load)
	}
	for k, v := range net.Load {
		t.peak = max(t.peak, v/uint64(net.Capacity[k]))
	}
	return t
}

// loads adds the paths of all groups to load, by trunk.
func (n *net) loads(rows [][]byte, load []uint64) {
	s := len(n.g.Switches)
	left, flow := make([]int32, s), make([]uint32, s)
	var queue []int32
	for i := range n.cols {
		n.flows(rows, int32(i), left, flow, &queue)
		for u := range s {
			if w := rows[u][i]; w != none {
				load[n.off[u]+int32(w)] += uint64(flow[u]) * uint64(n.cols[i].Paths)
			}
		}
	}
}

// flows counts the hosts whose paths to one LID of a group pass each switch.
func (n *net) flows(rows [][]byte, col int32, left []int32, flow []uint32, scratch *[]int32) {
	clear(left)
	for u := range left {
		flow[u] = n.from[u]
		if w := rows[u][col]; w != none {
			left[n.to[n.off[u]+int32(w)]]++
		}
	}
	queue := (*scratch)[:0]
	for u, k := range left {
		if k == 0 {
			queue = append(queue, int32(u))
		}
	}
	for h := 0; h < len(queue); h++ {
		u := queue[h]
		w := rows[u][col]
		if w == none {
			continue
		}
		v := n.to[n.off[u]+int32(w)]
		flow[v] += flow[u]
		if left[v]--; left[v] == 0 {
			queue = append(queue, v)
		}
	}
	*scratch = queue
}

// paths describes trees to the layering.
func (n *net) paths(t *trees) *layer.Paths {
	p := &layer.Paths{
		Graph: n.graph, Rows: t.rows, Ways: n.ways, Cols: make([]layer.Column, len(n.cols)),
		Class: make([][]int32, len(n.g.Switches)), CA: n.ca, Symmetric: true,
	}
	for i := range n.cols {
		d := n.cols[i].Dst
		p.Cols[i] = layer.Column{Row: int32(i), Dst: d, Class: d, CA: n.hosts[i]}
		p.Class[d] = append(p.Class[d], int32(i))
	}
	return p
}

// expand writes the entries: of the links of a trunk the one with the least
// load so far, or the previous one.
func (n *net) expand(t *route.Tables, trees *trees, prev *route.Tables) {
	s := len(n.g.Switches)
	load := make([]uint64, len(n.g.Channels))
	left, flow := make([]int32, s), make([]uint32, s)
	var queue []int32
	for i := range n.cols {
		n.flows(trees.rows, int32(i), left, flow, &queue)
		d := n.cols[i].Dst
		for _, l := range n.lids[i] {
			t.LFT[d][l] = n.g.EndPorts[n.g.LIDOwner[l]].Port
		}
		for u := range s {
			w := trees.rows[u][i]
			if w == none {
				continue
			}
			k := n.off[u] + int32(w)
			cables := n.chans[n.first[k]:n.first[k+1]]
			for _, l := range n.lids[i] {
				c := cables[0]
				if len(cables) > 1 {
					c = n.cable(cables, load, l, prev, int32(u))
					if n.g.EndPorts[n.g.LIDOwner[l]].Type != ib.NodeSwitch {
						load[c] += uint64(flow[u])
					}
				}
				t.LFT[u][l] = n.g.Channels[c].OutPort
			}
		}
	}
}

// cable picks one of several links between two switches.
func (n *net) cable(cables []int32, load []uint64, l ib.LID, prev *route.Tables, u int32) int32 {
	best := cables[0]
	for _, c := range cables[1:] {
		if load[c] < load[best] {
			best = c
		}
	}
	if prev != nil {
		if c := n.entry(prev, u, l); c >= 0 && slices.Contains(cables, c) {
			return c
		}
	}
	return best
}

// memo is the state for Update.
type memo struct {
	net    *net
	rows   [][]byte // the trees; rows are shared between memos
	layers *layer.Layers
	kept   bool // Update kept the levels of unchanged pairs
}

// Maker implements route.Memory.
func (*memo) Maker() string { return "lash" }
