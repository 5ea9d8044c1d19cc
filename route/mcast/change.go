package mcast

import (
	"slices"

	"heddle/fabric"
	"heddle/ib"
	"heddle/route"
	"heddle/route/cdg"
)

// remap translates the trees of an older graph. It omits removed switches and
// links, and ports to hosts, which come from the demand.
func remap(m *route.Multicast, from, to *fabric.Graph) map[ib.LID]*route.Tree {
	out := map[ib.LID]*route.Tree{}
	if m == nil || from == nil {
		return out
	}
	d := fabric.Diff(from, to)
	for i := range m.Trees {
		old := &m.Trees[i]
		t := &route.Tree{MLID: old.MLID, SL: old.SL}
		// Indices ascend by GUID in both graphs, so the order stays.
		for k, s := range old.Switches {
			if int(s) >= len(d.OldSwitch) || d.OldSwitch[s] < 0 || k >= len(old.Ports) {
				continue
			}
			var m mask
			ports(&old.Ports[k], func(p uint8) {
				if int(p) >= len(from.PortChannel[s]) {
					return
				}
				if c := from.PortChannel[s][p]; c >= 0 && d.OldChannel[c] >= 0 {
					set(&m, p)
				}
			})
			t.Switches = append(t.Switches, d.OldSwitch[s])
			t.Ports = append(t.Ports, m)
		}
		out[t.MLID] = t
	}
	return out
}

// asPlan makes the part of an old tree that still hangs together, and has the
// most members of the group, the beginning of a plan. It reports whether there
// is any.
func (b *builder) asPlan(d *demand, old *route.Tree, p *plan) bool {
	best, most := int32(-1), 0
	for _, m := range d.at {
		if _, ok := slices.BinarySearch(old.Switches, m); !ok {
			continue
		}
		b.spread(old, m, p)
		n := 0
		for _, s := range d.at {
			if p.in[s] {
				n++
			}
		}
		if n > most {
			best, most = m, n
		}
		if n == len(d.at) {
			return true
		}
	}
	if best < 0 {
		return false
	}
	b.spread(old, best, p)
	return true
}

// spread walks an old tree from switch s.
func (b *builder) spread(old *route.Tree, s int32, p *plan) {
	g := b.g
	p.reset()
	p.add(s, -1)
	b.show(old)
	for h := 0; h < len(p.list); h++ {
		u := p.list[h]
		for c := g.Off[u]; c < g.Off[u+1]; c++ {
			r := g.Channels[c].Rev
			if r < 0 || p.in[g.Channels[c].To] || !b.uses(old, c) && !b.uses(old, r) {
				continue
			}
			p.add(g.Channels[c].To, r)
		}
	}
}

// keep returns an old tree that reaches every member, without branches that are
// no longer needed.
func (b *builder) keep(d *demand, old *route.Tree) *route.Tree {
	if len(d.at) == 0 || !b.asPlan(d, old, b.plan) {
		return nil
	}
	for _, s := range d.at {
		if !b.plan.in[s] {
			return nil
		}
	}
	if t := b.finish(d, b.plan, old.SL); b.accept(&t) {
		return &t
	}
	return nil
}

// extend adds branches to an old tree, or to its remains: each missing member
// by a shortest path to the tree.
func (b *builder) extend(d *demand, old *route.Tree) *route.Tree {
	g, p := b.g, b.plan
	if !b.asPlan(d, old, p) {
		return nil
	}
	for _, m := range d.at {
		if p.in[m] {
			continue
		}
		dist := b.distances(m)
		near := int32(-1)
		for _, s := range p.list {
			if near < 0 || dist[s] < dist[near] {
				near = s
			}
		}
		// From the tree outwards to the member.
		for s := near; s != m; {
			next := int32(-1)
			for c := g.Off[s]; c < g.Off[s+1]; c++ {
				to := g.Channels[c].To
				if dist[to]+1 != dist[s] || g.Channels[c].Rev < 0 {
					continue
				}
				if next < 0 || b.cable(c) < b.cable(next) {
					next = c
				}
			}
			if next < 0 {
				return nil
			}
			s = g.Channels[next].To
			p.add(s, g.Channels[next].Rev)
		}
	}
	if t := b.finish(d, p, old.SL); b.accept(&t) {
		return &t
	}
	return nil
}

// grow plans a tree from root without turns that close a cycle: switch after
// switch in breadth-first order, each link only if its possible dependencies
// are permitted. It reports whether all members are in it. The dependency graph
// is unchanged afterward.
func (b *builder) grow(d *demand, root int32, sl ib.SL, p *plan) bool {
	g := b.g
	p.reset()
	p.add(root, -1)
	missing := len(d.at)
	if slices.Contains(d.at, root) {
		missing--
	}
	var added []cdg.Dep
	defer func() { b.deps.remove(added) }()
	for h := 0; h < len(p.list) && missing > 0; h++ {
		u := p.list[h]
		for c := g.Off[u]; c < g.Off[u+1] && missing > 0; c++ {
			v, r := g.Channels[c].To, g.Channels[c].Rev
			if r < 0 || p.in[v] {
				continue
			}
			edges := b.turns(p, u, c, sl)
			if b.deps.disagree(edges) {
				if b.work -= len(g.Channels); b.work <= 0 {
					return false
				}
			}
			if !b.deps.add(edges) {
				continue
			}
			added = append(added, edges...)
			p.add(v, r)
			if slices.Contains(d.at, v) {
				missing--
			}
		}
	}
	return missing == 0
}

// turns are the dependencies that a new branch by channel c adds at u: from and
// to every other link of the tree there.
func (b *builder) turns(p *plan, u, c int32, sl ib.SL) (list []cdg.Dep) {
	g := b.g
	back := g.Channels[c].Rev
	for k := g.Off[u]; k < g.Off[u+1]; k++ {
		w, in := g.Channels[k].To, g.Channels[k].Rev
		// A link of the tree: the one to u's parent or from a child.
		if k == c || in < 0 || !p.in[w] || p.parent[u] != k && p.parent[w] != in {
			continue
		}
		list = b.turn(list, in, c, sl)
		list = b.turn(list, back, k, sl)
	}
	return list
}

// turn appends the dependencies of packets that arrive by channel c1, on any
// lane they may have there, and leave by c2.
func (b *builder) turn(list []cdg.Dep, c1, c2 int32, sl ib.SL) []cdg.Dep {
	g := b.g
	a, z := &g.Channels[c1], &g.Channels[c2]
	v2 := b.t.VL(z.From, a.InPort, z.OutPort, sl, z.VLs)
	for v1, on := range b.possible(c1, sl) {
		if on && v1 < b.deps.graph.Lanes() && int(v2) < b.deps.graph.Lanes() {
			list = append(list, dep(a, ib.VL(v1), z, v2))
		}
	}
	return list
}

// possible are the lanes that packets of a level may have on a channel.
func (b *builder) possible(c int32, sl ib.SL) (on [16]bool) {
	ch := &b.g.Channels[c]
	if b.t.Lanes == nil {
		on[b.t.VL(ch.From, 0, ch.OutPort, sl, ch.VLs)] = true
		return on
	}
	for p := range int(b.g.Switches[ch.From].NumPorts) + 1 {
		if p != int(ch.OutPort) {
			on[b.t.VL(ch.From, uint8(p), ch.OutPort, sl, ch.VLs)] = true
		}
	}
	return on
}
