package ftree

import (
	"cmp"
	"slices"

	"heddle/ib"
	"heddle/route"
)

// pivots chooses, in each component, the switch at which paths turn that cannot
// go up then down. It must reach all by such paths, so that those paths take
// one turn. It is the previous one if still suitable, otherwise the lowest.
func (t *tree) pivots(was *past) {
	t.pivot = make([]int32, len(t.partSize))
	t.exit = make([]uint8, t.n)
	for k := range t.pivot {
		t.pivot[k] = -1
	}
	old := make([]bool, t.n)
	if was != nil {
		for _, p := range was.old.pivot {
			if p >= 0 && was.d.OldSwitch[p] >= 0 {
				old[was.d.OldSwitch[p]] = true
			}
		}
	}
	need := make([]bool, len(t.partSize)) // some CA has no path up then down to or from a switch
	best := make([]int, len(t.partSize))
	for _, s := range t.order {
		k := t.part[s]
		full := count(t.reach1(t.height, s)) == int(t.partSize[k])
		need[k] = need[k] || !full && t.cas[s] > 0
		if !full {
			continue
		}
		worth := 1
		if old[s] {
			worth = 3
		}
		if best[k] < 2 || worth == 3 {
			worth++
			if !t.oneWayDown(s) {
				worth = 1
			}
		}
		if worth > best[k] {
			best[k], t.pivot[k] = worth, s
		}
	}
	for k := range t.pivot {
		switch {
		case !t.hasCA[k]:
		case best[k] == 0:
			t.severalPivots(int32(k))
			t.doubt = true
		case best[k] == 1 && need[k]:
			t.doubt = true
		}
	}
	for _, s := range t.order {
		if p := t.pivot[t.part[s]]; p >= 0 && p != s {
			t.exit[s] = t.toward(s, p)
		}
	}
}

// oneWayDown reports whether from every switch above s only one switch leads
// down to it.
func (t *tree) oneWayDown(s int32) bool {
	for _, u := range t.order {
		if u == s || !has(t.below1(u), s) {
			continue
		}
		by := int32(-1)
		for _, c := range t.downs(u) {
			v := t.g.Channels[c].To
			if v != by && has(t.below1(v), s) {
				if by >= 0 {
					return false
				}
				by = v
			}
		}
	}
	return true
}

// toward is the port of u on the path to switch p.
func (t *tree) toward(u, p int32) uint8 {
	return t.g.Channels[t.step(u, p, int(t.g.TopLID)+1+int(p))].OutPort
}

// detour is the port of u toward switch d, to which no path goes up then down.
func (t *tree) detour(u, d int32) uint8 {
	if p := t.pivot[t.part[u]]; p >= 0 {
		return t.exit[u]
	}
	if m := t.many[t.part[u]]; m != nil {
		if p := m[t.place[u]*t.partSize[t.part[u]]+t.place[d]]; p >= 0 {
			return t.toward(u, p)
		}
	}
	return route.Drop
}

// severalPivots finds pivots for each pair of a component in which no switch
// reaches all: for switches without a path to d, the first switch with CAs that
// has a path, or that has one by a pivot of its own.
func (t *tree) severalPivots(part int32) {
	if t.many == nil {
		t.many = make([][]int32, len(t.partSize))
	}
	k := int(t.partSize[part])
	via := make([]int32, k*k)
	var members, hubs []int32
	for _, s := range t.order {
		if t.part[s] == part {
			members = append(members, s)
			if t.cas[s] > 0 {
				hubs = append(hubs, s)
			}
		}
	}
	slices.SortStableFunc(hubs, func(a, b int32) int {
		return cmp.Compare(count(t.reach1(t.height, b)), count(t.reach1(t.height, a)))
	})
	solved := make([]bool, t.n)
	for _, d := range members {
		for _, u := range members {
			solved[u] = has(t.reach1(t.height, u), d)
		}
		for more := true; more; {
			more = false
			var now []int32
			for _, u := range members {
				at := &via[int(t.place[u])*k+int(t.place[d])]
				if solved[u] {
					continue
				}
				*at = -1
				for _, p := range hubs {
					if solved[p] && has(t.reach1(t.height, u), p) {
						*at = p
						now = append(now, u)
						break
					}
				}
			}
			for _, u := range now {
				solved[u], more = true, true
			}
		}
	}
	t.many[part] = via
}

// verify proves the properties that the layout alone does not guarantee: that
// I/O nodes need no more reverse hops than allowed, and, if in doubt, that
// detours close no cycle.
func (t *tree) verify(rows [][]byte, o route.Options) error {
	g := t.g
	for _, pair := range t.lonely {
		for _, l := range t.lids[t.lidOff[pair[1]]:t.lidOff[pair[1]+1]] {
			if g.EndPorts[g.LIDOwner[l]].Type == ib.NodeSwitch {
				continue
			}
			fell, k := false, 0
			for u := pair[0]; u != pair[1]; {
				c := t.leaves(rows, u, l)
				if c < 0 {
					return route.Refuse("ftree", route.ErrTopology, "I/O nodes on switch %v are not reached from switch %v", g.Switches[pair[1]].GUID, g.Switches[pair[0]].GUID)
				}
				v := g.Channels[c].To
				if t.level[v] < t.level[u] {
					fell = true
				} else if fell {
					k++
				}
				u = v
			}
			if k > o.MaxReverseHops {
				return route.Refuse("ftree", route.ErrTopology, "from switch %v to I/O nodes on switch %v takes %d reverse hops, %d are allowed",
					g.Switches[pair[0]].GUID, g.Switches[pair[1]].GUID, k, o.MaxReverseHops)
			}
		}
	}
	if t.doubt {
		return t.acyclic(rows)
	}
	return nil
}

// leaves is the channel that switch u sends lid by, or -1.
func (t *tree) leaves(rows [][]byte, u int32, l ib.LID) int32 {
	p := route.Drop
	if int(l) < len(rows[u]) {
		p = int(rows[u][l])
	}
	if p >= len(t.g.PortChannel[u]) {
		return -1
	}
	return t.g.PortChannel[u][p]
}

// acyclic searches the dependencies of all traffic with a CA at one end.
func (t *tree) acyclic(rows [][]byte) error {
	g := t.g
	m := len(g.Channels)
	wide := 0
	for s := range t.n {
		wide = max(wide, int(g.Off[s+1]-g.Off[s]))
	}
	words := (wide + 63) / 64
	deps := make([]uint64, m*words)
	seen := make([]bool, t.n)
	for _, d := range t.order {
		for _, l := range t.lids[t.lidOff[d]:t.lidOff[d+1]] {
			all := g.EndPorts[g.LIDOwner[l]].Type != ib.NodeSwitch
			clear(seen)
			for _, s := range t.order {
				if t.part[s] != t.part[d] || !all && t.cas[s] == 0 {
					continue
				}
				for u := s; u != d && !seen[u]; {
					seen[u] = true
					c := t.leaves(rows, u, l)
					if c < 0 {
						return route.Refuse("ftree", route.ErrTopology, "switch %v has no path to switch %v", g.Switches[s].GUID, g.Switches[d].GUID)
					}
					u = g.Channels[c].To
					if u == d {
						break
					}
					if c2 := t.leaves(rows, u, l); c2 >= 0 {
						x := int(c2 - g.Off[u])
						deps[int(c)*words+x>>6] |= 1 << (x & 63)
					}
				}
			}
		}
	}
	in := make([]int32, m)
	next := func(c int32, fn func(c2 int32)) {
		first := g.Off[g.Channels[c].To]
		for i := range words {
			each(deps[int(c)*words+i], i, func(x int32) { fn(first + x) })
		}
	}
	for c := range int32(m) {
		next(c, func(c2 int32) { in[c2]++ })
	}
	queue := make([]int32, 0, m)
	for c := range int32(m) {
		if in[c] == 0 {
			queue = append(queue, c)
		}
	}
	for h := 0; h < len(queue); h++ {
		next(queue[h], func(c2 int32) {
			if in[c2]--; in[c2] == 0 {
				queue = append(queue, c2)
			}
		})
	}
	if len(queue) < m {
		for c := range int32(m) {
			if in[c] > 0 {
				a, b := g.Channels[c].From, g.Channels[c].To
				return route.Refuse("ftree", route.ErrTopology, "some switches have no path up then down, and turning further down closes a cycle through the link from switch %v to %v", g.Switches[a].GUID, g.Switches[b].GUID)
			}
		}
	}
	return nil
}
