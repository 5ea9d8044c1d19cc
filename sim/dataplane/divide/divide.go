// Package divide shares the switches of a fabric out among parts that are computed at
// the same time.
package divide

import (
	"cmp"
	"slices"
)

// Switches divides the switches among n parts, by node: parts with about equal work
// and few cables between them. Links are the nodes at the ends of each cable. Work is counted in cables, as all may be full.
//
// Switches with hosts come first, those with the same neighbors together, as in a
// pod of a tree: a part gets a run of them. Each other switch goes where most of
// its neighbors are, unless that part has its share. Results do not depend on it.
func Switches(isSwitch []bool, links [][2]int32, n int) []uint8 {
	near, work, hosts := neighbors(isSwitch, links)
	part := make([]uint8, len(isSwitch))
	var leaves, rest []int32
	total, leafWork := 0, 0
	for i := range isSwitch {
		if !isSwitch[i] {
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
	given, done := make([]bool, len(isSwitch)), 0
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
func neighbors(isSwitch []bool, links [][2]int32) (near [][]int32, work, hosts []int) {
	near, work, hosts = make([][]int32, len(isSwitch)), make([]int, len(isSwitch)), make([]int, len(isSwitch))
	for _, l := range links {
		for _, x := range [2][2]int32{l, {l[1], l[0]}} {
			work[x[0]]++
			if isSwitch[x[1]] {
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
