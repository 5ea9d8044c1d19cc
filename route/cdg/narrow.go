package cdg

import "math/bits"

// narrow is a graph of one lane whose switches have at most 63 ports, so that a
// row is one word: the usual case, which must be fast.
type narrow struct {
	shape     *Shape
	fwd, back [][]uint64 // by switch and port, as plane has them
}

// narrowed returns the union of graphs of one shape as a narrow one, or nil.
func narrowed(of ...*Graph) *narrow {
	g := of[0]
	if g.lanes != 1 {
		return nil
	}
	n := &narrow{shape: g.shape, fwd: make([][]uint64, len(g.sw)), back: make([][]uint64, len(g.sw))}
	for v := range g.sw {
		for _, h := range of {
			b := h.sw[v]
			if b == nil || b.planes[0] == nil {
				continue
			}
			if b.words != 1 {
				return nil
			}
			n.fwd[v] = union(n.fwd[v], b.planes[0].fwd)
			n.back[v] = union(n.back[v], b.planes[0].back)
		}
	}
	return n
}

func union(a, b []uint64) []uint64 {
	if a == nil {
		return b
	}
	out := make([]uint64, len(b))
	for i, x := range b {
		out[i] = x | a[i]
	}
	return out
}

// postorder searches depth first from every node and returns them in postorder,
// without ports that have no link. With stop it returns nil if there is a
// cycle.
func (n *narrow) postorder(stop bool) []int32 {
	type frame struct {
		node int32 // output port
		v    int32 // switch it enters, -1: none
		row  uint64
	}
	sh := n.shape
	seen, way := make([]uint64, len(n.fwd)), make([]uint64, len(n.fwd))
	post := make([]int32, 0, len(sh.next))
	var stack []frame
	push := func(v int32, port int) bool {
		p := sh.base[v] + int32(port)
		seen[v] |= 1 << port
		way[v] |= 1 << port
		f := frame{node: p, v: -1}
		if to := sh.next[p]; to >= 0 {
			u := sh.at[to]
			if rows := n.fwd[u]; rows != nil {
				f.v, f.row = u, rows[to-sh.base[u]]
			}
		}
		stack = append(stack, f)
		return f.v >= 0 && f.row&way[f.v] != 0
	}
	for v := range int32(len(n.fwd)) {
		for p := sh.base[v]; p < sh.base[v+1]; p++ {
			port := int(p - sh.base[v])
			if sh.next[p] < 0 || seen[v]>>port&1 != 0 {
				continue
			}
			if push(v, port) && stop {
				return nil
			}
			for len(stack) > 0 {
				f := &stack[len(stack)-1]
				if f.v >= 0 {
					if m := f.row &^ seen[f.v]; m != 0 {
						if push(f.v, bits.TrailingZeros64(m)) && stop {
							return nil
						}
						continue
					}
				}
				post = append(post, f.node)
				u := sh.at[f.node]
				way[u] &^= 1 << (f.node - sh.base[u])
				stack = stack[:len(stack)-1]
			}
		}
	}
	return post
}

// components numbers the strongly connected components from 1, by node, and
// reports which have more than one node. post is a postorder.
func (n *narrow) components(post []int32) (id []int32, big []bool) {
	sh := n.shape
	id = make([]int32, len(sh.next))
	left := make([]uint64, len(n.fwd)) // by input port of the switch that a node enters
	for _, x := range post {
		to := sh.next[x]
		v := sh.at[to]
		left[v] |= 1 << (to - sh.base[v])
	}
	big = make([]bool, 1, len(post)+1)
	var stack []int32
	for i := len(post) - 1; i >= 0; i-- {
		x := post[i]
		if id[x] != 0 {
			continue
		}
		count := int32(len(big))
		size := 0
		stack = append(stack[:0], x)
		id[x] = count
		to := sh.next[x]
		left[sh.at[to]] &^= 1 << (to - sh.base[sh.at[to]])
		for len(stack) > 0 {
			x := stack[len(stack)-1]
			stack = stack[:len(stack)-1]
			size++
			v := sh.at[x]
			if n.back[v] == nil {
				continue
			}
			m := n.back[v][x-sh.base[v]] & left[v]
			left[v] &^= m
			for ; m != 0; m &= m - 1 {
				y := sh.next[sh.base[v]+int32(bits.TrailingZeros64(m))]
				id[y] = count
				stack = append(stack, y)
			}
		}
		big = append(big, size > 1)
	}
	return id, big
}
