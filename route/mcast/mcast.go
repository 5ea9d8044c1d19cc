// Package mcast computes the spanning trees of multicast groups.
//
// Build gives each group a tree of low depth, and distributes the trees evenly
// over switches and links. The channel dependencies of the trees' packets must
// not close a cycle with those of unicast traffic and of other trees on the same
// lane. If the tree of shortest paths would, Build grows a tree without turns
// that close a cycle (with tables of up*/down* such a tree goes up to its root
// and down from it, with dimension-ordered ones it keeps the order of
// dimensions). If there is none, the group moves to a service level of another
// lane. If no lane permits a tree, the group has none, and Multicast.Refused
// gives the reason.
//
// A tree that is still valid is kept, with branches for new members and without
// those of former members: packets of an unchanged group never change their
// path.
//
// Cost for each group without a tree: a breadth-first search from every switch
// with a member, O(members × channels), and the insertion of its dependencies
// into a topological order (internal/toposort). If only groups changed, and
// neither the fabric nor the unicast tables, the other groups cost a comparison
// of their members. The search for turns that close no cycle is bounded, so in a
// large fabric a group may be refused although a tree exists. The result depends
// on the arguments alone.
package mcast

import (
	"cmp"
	"fmt"
	"slices"

	"heddle/fabric"
	"heddle/ib"
	"heddle/route"
	"heddle/route/cdg"
)

// Options of Build.
type Options struct {
	Workers int
	// Previous are the installed trees and their graph. Trees that are still valid
	// are kept.
	Previous      *route.Multicast
	PreviousGraph *fabric.Graph
	// Unicast are the dependencies of the unicast tables, if the caller has them
	// (it may continue to use them); nil: Build computes them.
	Unicast *cdg.Graph
}

// Build computes the trees of all groups for graph g with the unicast tables t.
// Groups may be in any order; of two with the same MLID the first counts. Build
// keeps their lists, which must not change: the next Build skips lists that are
// the same memory.
func Build(g *fabric.Graph, t *route.Tables, groups []route.Group, o Options) *route.Multicast {
	out := &route.Multicast{}
	if len(groups) == 0 {
		return out
	}
	list := slices.Clone(groups)
	slices.SortStableFunc(list, func(x, y route.Group) int { return cmp.Compare(x.MLID, y.MLID) })
	list = slices.CompactFunc(list, func(x, y route.Group) bool { return x.MLID == y.MLID })
	trees := make([]*route.Tree, len(list))
	refused := make([]string, len(list))

	// First the unchanged trees, then those to extend, then the others: a new tree
	// must fit the existing ones.
	b, prev := resume(g, t, list, trees, refused, o)
	if b == nil {
		b, prev = newBuilder(g, t, o), remap(o.Previous, o.PreviousGraph, g)
	}
	demands := make([]demand, len(list))
	for i := range list {
		if trees[i] == nil && refused[i] == "" {
			demands[i] = b.connected(gather(g, list[i]))
			if old := prev[list[i].MLID]; old != nil {
				trees[i] = b.keep(&demands[i], old)
			}
		}
	}
	for i := range demands {
		d := &demands[i]
		if refused[i] != "" {
			out.Refused = append(out.Refused, route.RefusedGroup{MLID: list[i].MLID, Reason: refused[i]})
			continue
		}
		if trees[i] != nil || len(d.at) == 0 {
			continue
		}
		tree, why := b.build(d, prev[d.MLID])
		if tree == nil {
			out.Refused = append(out.Refused, route.RefusedGroup{MLID: d.MLID, Reason: why})
			continue
		}
		trees[i] = tree
	}
	for _, tr := range trees {
		if tr != nil {
			out.Trees = append(out.Trees, *tr)
		}
	}
	out.Memo = b.memo(list)
	return out
}

// Join returns the tables t with trees, and with the data lanes that these add.
func Join(g *fabric.Graph, t *route.Tables, m *route.Multicast) *route.Tables {
	with := *t
	with.Multicast = m
	for i := range m.Trees {
		tr := &m.Trees[i]
		b := builder{g: g, t: t}
		b.eachChannel(tr, func(c int32) {
			for v, on := range b.possible(c, tr.SL) {
				if on {
					with.NumVLs = max(with.NumVLs, v+1)
				}
			}
		})
	}
	return &with
}

type builder struct {
	g     *fabric.Graph
	t     *route.Tables
	deps  deps
	dist  map[int32][]uint16 // by switch: distances of all others
	queue []int32
	load  []int32 // by channel, the lower of a link's two: number of trees
	trees []int32 // by switch: trees
	need  []int32
	pos   []int32
	plan  *plan
	comp  []int32
	at    []int32   // by switch: 1 + its position in the tree that is open
	open  []int32   // the switches of that tree
	hosts [][]uint8 // by switch: ports to end ports; nil until needed
	tops  map[top]int32
	work  int // remaining budget of searches
}

// maxWork bounds the searches of one Build for turns that close no cycle, in
// channels examined.
const maxWork = 1 << 27

func newBuilder(g *fabric.Graph, t *route.Tables, o Options) *builder {
	n := len(g.Switches)
	b := &builder{
		g: g, t: t, dist: map[int32][]uint16{},
		load: make([]int32, len(g.Channels)), trees: make([]int32, n),
		need: make([]int32, n), pos: make([]int32, n),
		plan: newPlan(n), comp: make([]int32, n), at: make([]int32, n), tops: map[top]int32{}, work: maxWork,
	}
	if o.Unicast != nil {
		b.deps.graph = o.Unicast.Clone()
		b.deps.graph.Widen(lanesOf(g)) // a group may be on a lane that no unicast path uses
	} else {
		b.deps.graph = Unicast(g, t, o.Workers)
	}
	b.deps.order = b.deps.graph.Order()
	for s := range b.comp {
		b.comp[s] = -1
	}
	for s := range int32(n) {
		if b.comp[s] >= 0 {
			continue
		}
		for v, d := range b.search(s) {
			if d != far {
				b.comp[v] = s
			}
		}
	}
	return b
}

const far = 0xFFFF

// search is a breadth-first search from s.
func (b *builder) search(s int32) []uint16 {
	dist := make([]uint16, len(b.g.Switches))
	for i := range dist {
		dist[i] = far
	}
	dist[s] = 0
	queue := append(b.queue[:0], s)
	for h := 0; h < len(queue); h++ {
		u := queue[h]
		for c := b.g.Off[u]; c < b.g.Off[u+1]; c++ {
			if v := b.g.Channels[c].To; dist[v] == far {
				dist[v] = dist[u] + 1
				queue = append(queue, v)
			}
		}
	}
	b.queue = queue
	return dist
}

func (b *builder) distances(s int32) []uint16 {
	d, ok := b.dist[s]
	if !ok {
		d = b.search(s)
		b.dist[s] = d
	}
	return d
}

// connected omits the members outside the largest connected component. A
// managed subnet is connected, so it omits none unless the fabric is splitting.
func (b *builder) connected(d demand) demand {
	if len(d.at) == 0 {
		return d
	}
	count := map[int32]int{}
	most := b.comp[d.at[0]]
	for _, s := range d.at {
		count[b.comp[s]]++
	}
	for _, s := range d.at {
		if count[b.comp[s]] > count[most] {
			most = b.comp[s]
		}
	}
	if count[most] == len(d.at) {
		return d
	}
	kept := demand{Group: d.Group}
	for i, s := range d.at {
		if b.comp[s] == most {
			kept.at, kept.host = append(kept.at, s), append(kept.host, d.host[i])
		}
	}
	return kept
}

// roots lists switches by how good a root they are: the least depth first,
// then the fewest trees that pass already.
func (b *builder) roots(d *demand, most int) []int32 {
	n := len(b.g.Switches)
	ecc := make([]uint16, n)
	sum := make([]int64, n)
	for _, m := range d.at {
		for s, x := range b.distances(m) {
			ecc[s] = max(ecc[s], x)
			sum[s] += int64(x)
		}
	}
	var list []int32
	for s := range int32(n) {
		if ecc[s] != far {
			list = append(list, s)
		}
	}
	slices.SortFunc(list, func(x, y int32) int {
		return cmp.Or(cmp.Compare(ecc[x], ecc[y]), cmp.Compare(b.trees[x], b.trees[y]), cmp.Compare(sum[x], sum[y]), cmp.Compare(x, y))
	})
	return list[:min(most, len(list))]
}

// tryRoots bounds how many roots are tried on a lane before it is given up.
const tryRoots = 16

// build makes a tree for a group that has none, or whose tree no longer fits.
func (b *builder) build(d *demand, old *route.Tree) (*route.Tree, string) {
	if b.deps.order == nil {
		return nil, "the unicast tables have a cycle of channel dependencies of their own"
	}
	roots := b.roots(d, tryRoots)
	tried := map[ib.VL]bool{}
	for _, sl := range b.levels(d.SL) {
		tried[b.lane(sl)] = true
		if old != nil && old.SL == sl {
			if t := b.extend(d, old); t != nil {
				return t, ""
			}
		}
		// A tree with unused turns may block later groups; one by way of the top does
		// not.
		b.shortest(d, roots[0], b.plan)
		t := b.finish(d, b.plan, sl)
		if b.strange(&t) {
			if r := b.topFor(d, sl); r >= 0 && b.along(d, r, b.plan) {
				if t := b.finish(d, b.plan, sl); b.accept(&t) {
					return &t, ""
				}
			}
		}
		if b.accept(&t) {
			return &t, ""
		}
		for _, r := range roots {
			if b.work > 0 && b.grow(d, r, sl, b.plan) {
				if t := b.finish(d, b.plan, sl); b.accept(&t) {
					return &t, ""
				}
			}
		}
	}
	if b.work <= 0 {
		return nil, fmt.Sprintf("on each of %d lanes the trees that were tried close a cycle of channel dependencies with the traffic there, and the search for others was given up", len(tried))
	}
	return nil, fmt.Sprintf("on each of %d lanes every tree that was tried (%d roots) closes a cycle of channel dependencies with the traffic there", len(tried), len(roots))
}

// levels lists the service levels to try: the group's own, then one for each
// other lane, lanes beyond those of the unicast tables first.
func (b *builder) levels(own ib.SL) []ib.SL {
	list := []ib.SL{own}
	seen := map[ib.VL]bool{b.lane(own): true}
	for k := range 16 {
		sl := ib.SL((max(b.t.NumVLs, 1) + k) % 16)
		if v := b.lane(sl); !seen[v] {
			seen[v] = true
			list = append(list, sl)
		}
	}
	return list
}

// lane is the lane of a service level on the first channel. If lanes differ by
// link it only serves to distinguish levels.
func (b *builder) lane(sl ib.SL) ib.VL {
	if len(b.g.Channels) == 0 {
		return 0
	}
	c := &b.g.Channels[0]
	return b.t.VL(c.From, 0, c.OutPort, sl, c.VLs)
}

// accept adds a tree's dependencies to the graph, unless they close a cycle, or
// packets would need a lane that a link does not have.
func (b *builder) accept(t *route.Tree) bool {
	b.show(t)
	if !b.hasLanes(t) || !b.deps.add(b.dependencies(t)) {
		return false
	}
	b.count(t, 1)
	return true
}

// hasLanes reports whether every link of the shown tree has the lanes of its
// packets, which come from any end port of the switch or over another link of
// the tree.
func (b *builder) hasLanes(t *route.Tree) bool {
	if b.t.Lanes == nil {
		return true
	}
	if b.hosts == nil {
		b.hosts = make([][]uint8, len(b.g.Switches))
		for e := range b.g.EndPorts {
			if p := &b.g.EndPorts[e]; p.Switch >= 0 {
				b.hosts[p.Switch] = append(b.hosts[p.Switch], p.Port)
			}
		}
	}
	for i, s := range t.Switches {
		ok := true
		ports(&t.Ports[i], func(out uint8) {
			if out == 0 {
				return
			}
			vls := uint8(15)
			if int(out) < len(b.g.PortChannel[s]) && b.g.PortChannel[s][out] >= 0 {
				vls = b.g.Channels[b.g.PortChannel[s][out]].VLs
			}
			from := func(in uint8) {
				ok = ok && (in == out || uint8(b.t.VL(s, in, out, t.SL, vls)) < vls)
			}
			for _, in := range b.hosts[s] {
				from(in)
			}
			ports(&t.Ports[i], from)
		})
		if !ok {
			return false
		}
	}
	return true
}

// show makes t the tree that uses refers to.
func (b *builder) show(t *route.Tree) {
	for _, s := range b.open {
		b.at[s] = 0
	}
	b.open = t.Switches
	for i, s := range t.Switches {
		b.at[s] = int32(i) + 1
	}
}

// dependencies of the shown tree: a packet that arrived by one of its channels
// may wait for any other that leaves the switch.
func (b *builder) dependencies(t *route.Tree) (list []cdg.Dep) {
	g := b.g
	var outs, ins []int32
	for i, s := range t.Switches {
		outs, ins = outs[:0], ins[:0]
		for c := g.Off[s]; c < g.Off[s+1]; c++ {
			if has(&t.Ports[i], g.Channels[c].OutPort) {
				outs = append(outs, c)
			}
			if r := g.Channels[c].Rev; r >= 0 && b.uses(t, r) {
				ins = append(ins, r)
			}
		}
		for _, c2 := range outs {
			for _, c1 := range ins {
				if g.Channels[c1].Rev != c2 {
					list = b.turn(list, c1, c2, t.SL)
				}
			}
		}
	}
	return list
}
