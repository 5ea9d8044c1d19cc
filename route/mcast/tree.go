package mcast

import (
	"math/bits"
	"slices"

	"heddle/fabric"
	"heddle/ib"
	"heddle/route"
)

// demand is a group by switch: where packets enter and where members receive
// them.
type demand struct {
	route.Group
	at   []int32     // switches with a member, ascending
	host [][4]uint64 // by position in at: ports of the members that receive
}

// gather sorts a group's members by switch. It omits members without a switch,
// which no packet reaches.
func gather(g *fabric.Graph, grp route.Group) demand {
	d := demand{Group: grp}
	members := slices.Clone(grp.Members)
	members = slices.DeleteFunc(members, func(e int32) bool {
		return e < 0 || int(e) >= len(g.EndPorts) || g.EndPorts[e].Switch < 0
	})
	slices.SortFunc(members, func(a, b int32) int {
		return int(g.EndPorts[a].Switch) - int(g.EndPorts[b].Switch)
	})
	senders := slices.Sorted(slices.Values(grp.Senders))
	for _, e := range members {
		p := &g.EndPorts[e]
		k := len(d.at) - 1
		if k < 0 || d.at[k] != p.Switch {
			d.at = append(d.at, p.Switch)
			d.host = append(d.host, [4]uint64{})
			k++
		}
		if _, only := slices.BinarySearch(senders, e); !only {
			d.host[k][p.Port>>6] |= 1 << (p.Port & 63)
		}
	}
	return d
}

// plan is a tree under construction: its switches, and the channel from each
// toward the root (-1 for the root).
type plan struct {
	in     []bool  // by switch
	parent []int32 // by switch in the tree
	list   []int32 // switches in the tree, in the order of insertion
}

func newPlan(n int) *plan {
	return &plan{in: make([]bool, n), parent: make([]int32, n)}
}

func (p *plan) reset() {
	for _, s := range p.list {
		p.in[s] = false
	}
	p.list = p.list[:0]
}

func (p *plan) add(s, parent int32) {
	p.in[s] = true
	p.parent[s] = parent
	p.list = append(p.list, s)
}

// mask is a set of ports.
type mask = [4]uint64

func set(m *mask, p uint8)      { m[p>>6] |= 1 << (p & 63) }
func has(m *mask, p uint8) bool { return m[p>>6]&(1<<(p&63)) != 0 }

// ports calls fn for each port of m, ascending.
func ports(m *mask, fn func(p uint8)) {
	for w, b := range m {
		for ; b != 0; b &= b - 1 {
			fn(uint8(w<<6 + bits.TrailingZeros64(b)))
		}
	}
}

// finish turns a plan into a tree. Branches without members are cut off. A
// branch with senders alone is set in both directions, as OpenSM does and tools
// that read the tables expect; packets end where it does.
func (b *builder) finish(d *demand, p *plan, sl ib.SL) route.Tree {
	g := b.g
	// need: switches with members at or below them. Children follow their parents
	// in list.
	for _, s := range p.list {
		b.need[s] = 0
	}
	for _, s := range d.at {
		b.need[s] = 1
	}
	for i := len(p.list) - 1; i > 0; i-- {
		s := p.list[i]
		b.need[g.Channels[p.parent[s]].To] += b.need[s]
	}
	root := p.list[0]
	// A root with a single branch and without members is not needed, nor are the
	// switches below it up to the first fork.
	kids := map[int32]int{}
	for _, s := range p.list[1:] {
		if b.need[s] > 0 {
			kids[g.Channels[p.parent[s]].To]++
		}
	}
	for !slices.Contains(d.at, root) && kids[root] == 1 {
		for _, s := range p.list {
			if c := p.parent[s]; c >= 0 && b.need[s] > 0 && g.Channels[c].To == root {
				p.parent[s] = -1
				b.need[root] = 0
				root = s
				break
			}
		}
	}
	t := route.Tree{MLID: d.MLID, SL: sl}
	for _, s := range p.list {
		if b.need[s] > 0 {
			t.Switches = append(t.Switches, s)
		}
	}
	slices.Sort(t.Switches)
	t.Ports = make([]mask, len(t.Switches))
	for i, s := range t.Switches {
		b.pos[s] = int32(i)
	}
	for i, s := range d.at {
		t.Ports[b.pos[s]] = d.host[i]
	}
	for _, s := range p.list {
		c := p.parent[s]
		if b.need[s] == 0 || c < 0 {
			continue
		}
		ch := &g.Channels[c]
		set(&t.Ports[b.pos[ch.To]], ch.InPort)
		set(&t.Ports[b.pos[s]], ch.OutPort)
	}
	return t
}

// shortest plans the tree of shortest paths from root to all members. Beginning
// with the farthest, each takes the adjacent switch on a shortest path that is
// in the tree already, otherwise the one whose link the fewest trees use.
func (b *builder) shortest(d *demand, root int32, p *plan) {
	g := b.g
	dist := b.distances(root)
	p.reset()
	p.add(root, -1)
	order := slices.Clone(d.at)
	slices.SortStableFunc(order, func(x, y int32) int { return int(dist[y]) - int(dist[x]) })
	var path []int32 // channels from a member toward the tree
	for _, s := range order {
		path = path[:0]
		for !p.in[s] {
			best := int32(-1)
			for c := g.Off[s]; c < g.Off[s+1]; c++ {
				to := g.Channels[c].To
				if dist[to]+1 != dist[s] {
					continue
				}
				if best < 0 || b.better(p, c, best) {
					best = c
				}
			}
			path = append(path, best)
			s = g.Channels[best].To
		}
		for i := len(path) - 1; i >= 0; i-- {
			p.add(g.Channels[path[i]].From, path[i])
		}
	}
}

// better prefers channel c to best for the next step toward the root.
func (b *builder) better(p *plan, c, best int32) bool {
	x, y := p.in[b.g.Channels[c].To], p.in[b.g.Channels[best].To]
	if x != y {
		return x
	}
	return b.cable(c) < b.cable(best)
}

// cable is how many trees use the link of a channel.
func (b *builder) cable(c int32) int32 {
	if r := b.g.Channels[c].Rev; r >= 0 && r < c {
		c = r
	}
	return b.load[c]
}

// count adds the shown tree to the load of its links and switches, or removes it.
func (b *builder) count(t *route.Tree, by int32) {
	b.eachChannel(t, func(c int32) {
		if r := b.g.Channels[c].Rev; r > c || r < 0 || !b.uses(t, r) {
			if r >= 0 && r < c {
				c = r
			}
			b.load[c] += by
		}
	})
	for _, s := range t.Switches {
		b.trees[s] += by
	}
}

// uses reports whether the shown tree sends over a channel.
func (b *builder) uses(t *route.Tree, c int32) bool {
	ch := &b.g.Channels[c]
	i := b.at[ch.From]
	return i > 0 && has(&t.Ports[i-1], ch.OutPort)
}

// strange reports whether a tree takes turns that the traffic there is does
// not take, and that do not agree with the order of its channels either.
func (b *builder) strange(t *route.Tree) bool {
	b.show(t)
	return b.deps.disagree(b.dependencies(t))
}

// top identifies the groups that may share a root: those in one component on
// one service level.
type top struct {
	part int32
	sl   ib.SL
}

// topFor is the root of a tree of the unicast paths of all switches in the
// group's component, such that these paths close no cycle; the first root of
// up*/down* is one. Of several it is the one with the least distance to all,
// then the lowest; -1: none. It is computed once.
func (b *builder) topFor(d *demand, sl ib.SL) int32 {
	part := b.comp[d.at[0]]
	r, ok := b.tops[top{part, sl}]
	if ok {
		return r
	}
	all := demand{Group: route.Group{MLID: d.MLID}}
	for s := range int32(len(b.g.Switches)) {
		if b.comp[s] == part {
			all.at, all.host = append(all.at, s), append(all.host, mask{})
		}
	}
	r = -1
	for _, x := range b.roots(&all, len(b.g.Switches)) {
		if b.work -= len(b.g.Channels); b.work < maxWork/2 {
			break
		}
		if !b.along(&all, x, b.plan) {
			continue
		}
		t := b.finish(&all, b.plan, sl)
		b.show(&t)
		if list := b.dependencies(&t); b.hasLanes(&t) && b.deps.add(list) {
			b.deps.remove(list)
			r = x
			break
		}
	}
	b.tops[top{part, sl}] = r
	return r
}

// along plans the tree of the unicast paths from all members to switch r; false
// if some member has none.
func (b *builder) along(d *demand, r int32, p *plan) bool {
	g := b.g
	lid := ib.LID(0)
	if e := g.Switches[r].EndPort; int(e) < len(g.EndPorts) && g.EndPorts[e].Switch == r {
		lid = g.EndPorts[e].LID
	}
	if lid == 0 {
		return false
	}
	p.reset()
	p.add(r, -1)
	var path []int32
	for _, s := range d.at {
		path = path[:0]
		for !p.in[s] {
			out := b.t.Entry(s, lid)
			if int(out) >= len(g.PortChannel[s]) || g.PortChannel[s][out] < 0 || len(path) > len(g.Switches) {
				return false
			}
			path = append(path, g.PortChannel[s][out])
			s = g.Channels[path[len(path)-1]].To
		}
		for i := len(path) - 1; i >= 0; i-- {
			p.add(g.Channels[path[i]].From, path[i])
		}
	}
	return true
}

// eachChannel calls fn for every channel that a tree sends over.
func (b *builder) eachChannel(t *route.Tree, fn func(c int32)) {
	for i, s := range t.Switches {
		ports(&t.Ports[i], func(p uint8) {
			if int(p) < len(b.g.PortChannel[s]) {
				if c := b.g.PortChannel[s][p]; c >= 0 {
					fn(c)
				}
			}
		})
	}
}
