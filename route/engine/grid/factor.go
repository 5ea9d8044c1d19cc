package grid

import (
	"errors"
	"fmt"
	"slices"
)

// classes is a union of links that run along one dimension.
type classes []int32

func (c classes) find(k int32) int32 {
	for c[k] != k {
		c[k] = c[c[k]]
		k = c[k]
	}
	return k
}

func (c classes) join(a, b int32) {
	a, b = c.find(a), c.find(b)
	if a < b {
		c[b] = a
	} else {
		c[a] = b
	}
}

// maxDims bounds the dimensions of a whole grid; a hypercube of more would
// have more switches than there are LIDs.
const maxDims = 16

// factor splits a complete grid into its dimensions. Two links that meet at a
// switch are in different dimensions exactly if they are sides of one square
// and of no triangle; opposite sides of a square are in the same one. It then
// checks the resulting classes against the definition of a product: as many
// switches and links as the lines require, no two switches in one cell. A net
// that is no grid fails this check. Cost: O(Σ degree³) at most, O(switches ×
// degree²) for grids.
func factor(n *Net) (*Grid, error) {
	size := n.size()
	links := len(n.to) / 2
	class := squares(n)
	root := make([]int32, len(n.to))
	var roots []int32
	for k := range n.to {
		root[k] = class.find(min(int32(k), n.rev[k]))
		if int32(k) == root[k] {
			roots = append(roots, root[k])
		}
	}
	if len(roots) > maxDims {
		return nil, fmt.Errorf("their links run in %d unrelated directions", len(roots))
	}
	var dims []Dim
	coord := make([][]int32, 0, len(roots)) // by dimension, switch
	product, want := 1, 0
	for _, r := range roots {
		part, count := n.parts(func(k int32) bool { return root[k] == r })
		if product *= count; product > size {
			return nil, fmt.Errorf("%d of them do not fill the cells that their links span", size)
		}
		dim, pos, err := line(n, part, count, func(k int32) bool { return root[k] == r })
		if err != nil {
			return nil, err
		}
		for s, p := range part {
			part[s] = pos[p]
		}
		dims = append(dims, dim)
		coord = append(coord, part)
	}
	for _, d := range dims {
		want += d.links() * (size / d.Size)
	}
	g := newGrid(dims, size)
	if product != size || want != links {
		return nil, fmt.Errorf("a %s has %d switches and %d links, the net %d and %d", shapeName(dims), product, want, size, links)
	}
	for s := range size {
		var c int32
		for d := range dims {
			c += coord[d][s] * g.stride[d]
		}
		if g.Switch[c] >= 0 {
			return nil, fmt.Errorf("%v and %v would be in one cell", n.guid(g.Switch[c]), n.guid(int32(s)))
		}
		g.Cell[s], g.Switch[c] = c, int32(s)
	}
	return g, nil
}

// squares joins the links that must be in one dimension.
func squares(n *Net) classes {
	class := make(classes, len(n.to))
	for k := range class {
		class[k] = int32(k)
	}
	join := func(a, b int32) { class.join(min(a, n.rev[a]), min(b, n.rev[b])) }
	place := make([]int32, n.size()) // 1 + index among the switches adjacent to u
	head := make([]int32, n.size())  // by switch two links away: 1 + first of its list in via
	type item struct{ nb, next int32 }
	var via []item
	var far []int32
	var common []uint16 // by pair of adjacent switches: common adjacent switches except u
	var corner []int32  // by pair: one of them
	for u := range int32(n.size()) {
		nb := n.neighbors(u)
		d := len(nb)
		first := n.off[u]
		common = append(common[:0], make([]uint16, d*d)...)
		corner = append(corner[:0], make([]int32, d*d)...)
		via, far = via[:0], far[:0]
		for i, v := range nb {
			place[v] = int32(i) + 1
		}
		const adjacent = 0xFFFF
		for i, v := range nb {
			for _, x := range n.neighbors(v) {
				switch {
				case x == u:
				case place[x] > 0:
					j := int(place[x]) - 1
					common[i*d+j] = adjacent
					join(first+int32(i), first+int32(j))
				default:
					if head[x] == 0 {
						far = append(far, x)
					}
					via = append(via, item{int32(i), head[x]})
					head[x] = int32(len(via))
				}
			}
		}
		for _, x := range far {
			for a := head[x]; a > 0; a = via[a-1].next {
				for b := via[a-1].next; b > 0; b = via[b-1].next {
					i, j := int(via[b-1].nb), int(via[a-1].nb) // ascending
					if at := i*d + j; common[at] < adjacent-1 {
						common[at]++
						corner[at] = x
					}
				}
			}
			head[x] = 0
		}
		for i := range d {
			for j := i + 1; j < d; j++ {
				a, b := first+int32(i), first+int32(j)
				switch common[i*d+j] {
				case adjacent:
				case 1:
					x := corner[i*d+j]
					join(a, n.link(nb[j], x))
					join(b, n.link(nb[i], x))
				default:
					join(a, b)
				}
			}
		}
		for _, v := range nb {
			place[v] = 0
		}
	}
	return class
}

// line identifies the line that the parts form with the links in, and the
// position of each part on it.
func line(n *Net, part []int32, count int, in func(k int32) bool) (Dim, []int32, error) {
	var ends []uint64 // pairs of parts, both directions
	for s := range int32(n.size()) {
		for k := n.off[s]; k < n.off[s+1]; k++ {
			if in(k) {
				if part[s] == part[n.to[k]] {
					return Dim{}, nil, fmt.Errorf("the links near %v cross", n.guid(s))
				}
				ends = append(ends, uint64(part[s])<<32|uint64(part[n.to[k]]))
			}
		}
	}
	slices.Sort(ends)
	ends = slices.Compact(ends)
	degree := make([]int, count)
	nb := make([][2]int32, count)
	for _, e := range ends {
		a, b := e>>32, int32(e&0xFFFFFFFF)
		if degree[a] < 2 {
			nb[a][degree[a]] = b
		}
		degree[a]++
	}
	pos := make([]int32, count)
	m := len(ends) / 2
	if m == count*(count-1)/2 {
		for p := range pos {
			pos[p] = int32(p)
		}
		return Dim{Full, count}, pos, nil
	}
	start, most := -1, 0
	for p, d := range degree {
		most = max(most, d)
		if d == 1 && start < 0 {
			start = p
		}
	}
	kind := Path
	if start < 0 {
		kind, start = Ring, 0
	}
	if most > 2 || kind == Path && m != count-1 || kind == Ring && m != count {
		if count == n.size() {
			return Dim{}, nil, errors.New("their links form no rows and columns")
		}
		return Dim{}, nil, fmt.Errorf("%d rows of them are joined by %d links, as neither a path nor a ring nor a full mesh is", count, m)
	}
	for prev, p, i := int32(-1), int32(start), int32(0); i < int32(count); i++ {
		pos[p] = i
		next := nb[p][0]
		if next == prev && degree[p] == 2 {
			next = nb[p][1]
		}
		prev, p = p, next
	}
	return Dim{kind, count}, pos, nil
}
