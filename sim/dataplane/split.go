package dataplane

import (
	"cmp"
	"slices"
)

// split divides the switches among n parts, by node: parts with about equal work
// and few cables between them. Work is counted in cables, as all may be full.
//
// Switches with hosts come first, those with the same neighbors together, as in a
// pod of a tree: a part gets a run of them. Each other switch goes where most of
// its neighbors are, unless that part has its share. Results do not depend on it.
func split(t *Topology, n int) []uint8 {
	near, work, hosts := neighbors(t)
	part := make([]uint8, len(t.Nodes))
	var leaves, rest []int32
	total, leafWork := 0, 0
	for i := range t.Nodes {
		if !t.Nodes[i].Switch {
			continue
		}
		total += work[i]
		if hosts[i] > 0 {
			leaves = append(leaves, int32(i))
			leafWork += work[i]
		} else {
			rest = append(rest, int32(i))
		}
	}
	slices.SortStableFunc(leaves, func(a, b int32) int { return slices.Compare(near[a], near[b]) })
	load := make([]int, n)
	given, done := make([]bool, len(t.Nodes)), 0
	give := func(sw int32, p int) {
		part[sw], given[sw] = uint8(p), true
		load[p] += work[sw]
	}
	for _, sw := range leaves {
		give(sw, min((done+work[sw]/2)*n/max(leafWork, 1), n-1))
		done += work[sw]
	}
	share := total/n + total/(32*n) + 1
	for len(rest) > 0 {
		later := rest[:0:0]
		for _, sw := range rest {
			count, known := make([]int, n), false
			for _, x := range near[sw] {
				if given[x] {
					count[part[x]]++
					known = true
				}
			}
			if known {
				give(sw, choosePart(count, load, work[sw], share))
			} else {
				later = append(later, sw)
			}
		}
		if len(later) == len(rest) { // no hosts anywhere near
			give(later[0], choosePart(make([]int, n), load, work[later[0]], share))
			later = later[1:]
		}
		rest = later
	}
	return part
}

// choosePart is the part with most neighbors that has room, of equals the one with
// least to do.
func choosePart(count, load []int, work, share int) int {
	best := -1
	for p := range count {
		if load[p]+work > share {
			continue
		}
		if best < 0 || cmp.Or(cmp.Compare(count[best], count[p]), cmp.Compare(load[p], load[best])) < 0 {
			best = p
		}
	}
	if best < 0 {
		best = slices.Index(load, slices.Min(load))
	}
	return best
}

// neighbors are the switches next to each switch, sorted, and how many cables and
// hosts it has.
func neighbors(t *Topology) (near [][]int32, work, hosts []int) {
	near, work, hosts = make([][]int32, len(t.Nodes)), make([]int, len(t.Nodes)), make([]int, len(t.Nodes))
	for _, l := range t.Links {
		for _, x := range [2][2]int32{{l.A.Node, l.B.Node}, {l.B.Node, l.A.Node}} {
			work[x[0]]++
			if t.Nodes[x[1]].Switch {
				near[x[0]] = append(near[x[0]], x[1])
			} else {
				work[x[0]]++ // and what the host does
				hosts[x[0]]++
			}
		}
	}
	for _, l := range near {
		slices.Sort(l)
	}
	return near, work, hosts
}

// owners gives each port to the part of its switch, or of the switch at the far
// end, and says how many parts there are.
func (e *Engine) owners(part []uint8) ([]uint8, int) {
	owner := make([]uint8, len(e.out))
	for i := range e.out {
		o := &e.out[i]
		nd := &e.nodes[o.node]
		switch {
		case nd.sw || e.top.Nodes[nd.ref].Switch: // or its management port
			owner[i] = part[nd.ref]
		case o.peer >= 0 && e.nodes[e.out[o.peer].node].sw:
			owner[i] = part[e.nodes[e.out[o.peer].node].ref]
		}
	}
	return owner, int(slices.Max(part)) + 1
}
