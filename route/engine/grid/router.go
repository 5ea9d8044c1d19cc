package grid

import (
	"fmt"

	"heddle/ib"
	"heddle/route"
)

// router finds next hops on one grid.
type router struct {
	n     *Net
	gr    *Grid
	o     Options
	order []int   // dimensions, first routed first
	turn  []uint8 // by dimension: its place in order
	coord []int16 // by cell, dimension
	// reach is, by cell, dimension and direction (0 up, 1 down), the number of
	// steps until the line is cut; not for full meshes.
	reach []int16
	dim   []uint8 // by link: the dimension it runs along
}

func newRouter(n *Net, gr *Grid, o Options) *router {
	D := len(gr.Dims)
	r := &router{
		n: n, gr: gr, o: o, turn: make([]uint8, D), dim: make([]uint8, len(n.to)),
		coord: make([]int16, len(gr.Switch)*D), reach: make([]int16, len(gr.Switch)*D*2),
	}
	order := make([]int, D)
	for d := range order {
		order[d] = d
	}
	r.setOrder(order)
	for c := range int32(len(gr.Switch)) {
		for d := range D {
			r.coord[int(c)*D+d] = int16(gr.at(c, d))
		}
	}
	for c := range int32(len(gr.Switch)) {
		for d, dim := range gr.Dims {
			if dim.Kind == Full || gr.at(c, d) != 0 {
				continue
			}
			// One line: walking twice around from either end gives the reach.
			for dir := range 2 {
				run := 0
				for i := range 2 * dim.Size {
					v := (2*dim.Size - 1 - i) % dim.Size
					if dir == 1 {
						v = i % dim.Size
					}
					at := gr.moved(c, d, v)
					if to := r.step(at, d, 1-2*dir); to < 0 || !r.linked(at, to) {
						run = 0
					} else {
						run = min(run+1, dim.Size)
					}
					r.reach[(int(at)*D+d)*2+dir] = int16(run)
				}
			}
		}
	}
	for s := range int32(n.size()) {
		for k := n.off[s]; k < n.off[s+1]; k++ {
			d, _ := gr.direction(gr.Cell[s], gr.Cell[n.to[k]])
			r.dim[k] = uint8(d)
		}
	}
	return r
}

func (r *router) setOrder(order []int) {
	r.order = order
	for i, d := range order {
		r.turn[d] = uint8(i)
	}
}

// whole reports whether no switch and no link of the grid is missing.
func (r *router) whole() bool {
	links := 0
	for _, d := range r.gr.Dims {
		links += d.links() * (len(r.gr.Switch) / d.Size)
	}
	return r.gr.Missing() == 0 && links == len(r.n.to)/2
}

// moved is cell c with coordinate d set to v.
func (r *router) moved(c int32, d, v int) int32 {
	return c + int32(v-int(r.coord[int(c)*len(r.gr.Dims)+d]))*r.gr.stride[d]
}

// step is the cell next to c in a path or ring, or -1 at the end of a path.
func (r *router) step(c int32, d, dir int) int32 {
	dim := r.gr.Dims[d]
	v := int(r.coord[int(c)*len(r.gr.Dims)+d]) + dir
	if v < 0 || v >= dim.Size {
		if dim.Kind != Ring {
			return -1
		}
		v = (v + dim.Size) % dim.Size
	}
	return r.moved(c, d, v)
}

// linked reports whether both cells have switches with a link between them.
func (r *router) linked(a, b int32) bool {
	s, t := r.gr.Switch[a], r.gr.Switch[b]
	return s >= 0 && t >= 0 && r.n.link(s, t) >= 0
}

// shortest is the direction of the shorter path from cell c to coordinate q in
// dimension d, for destination cell dst, and its length in steps.
func (r *router) shortest(c int32, d, q int, dst int32) (dir, steps int) {
	D := len(r.gr.Dims)
	dim := r.gr.Dims[d]
	p := int(r.coord[int(c)*D+d])
	if dim.Kind != Ring {
		if q > p {
			return 1, q - p
		}
		return -1, p - q
	}
	up := q - p
	if up < 0 {
		up += dim.Size
	}
	down := dim.Size - up
	if up == down {
		// Even and odd positions use different directions, and other destinations at
		// the same position of the ring the opposite ones.
		sum := p
		for e := range D {
			if e != d {
				sum += int(r.coord[int(dst)*D+e])
			}
		}
		if sum&1 == 1 {
			return -1, down
		}
		return 1, up
	}
	if down < up {
		return -1, down
	}
	return 1, up
}

// Results of leg besides a cell.
const (
	cut   = -1 // the line is cut on all sides
	early = -2 // the next cell is missing, and the leg would end there
)

// leg is the next cell from c toward coordinate q in dimension d.
func (r *router) leg(c int32, d, q int, dst int32) int32 {
	dim := r.gr.Dims[d]
	end := r.moved(c, d, q)
	missing := 0
	if r.gr.Switch[end] < 0 {
		missing = 1
	}
	if dim.Kind == Full {
		if missing == 1 {
			return early
		}
		if !r.linked(c, end) {
			return cut
		}
		return end
	}
	dir, steps := r.shortest(c, d, q, dst)
	for try := range 2 {
		at := (int(c)*len(r.gr.Dims) + d) * 2
		if dir < 0 {
			at++
		}
		switch need := steps - missing; {
		case int(r.reach[at]) < need:
		case need == 0:
			return early
		default:
			return r.step(c, d, dir)
		}
		if dim.Kind != Ring || try == 1 {
			break
		}
		dir, steps = -dir, dim.Size-steps
	}
	return cut
}

// next is the cell that packets for cell dst go to from cell c, or -1.
func (r *router) next(c, dst int32) int32 {
	D := len(r.gr.Dims)
	for _, d := range r.order {
		q := int(r.coord[int(dst)*D+d])
		if int(r.coord[int(c)*D+d]) == q {
			continue
		}
		to := r.leg(c, d, q, dst)
		if to >= 0 {
			return to
		}
		if !r.o.Around {
			return -1
		}
		return r.around(c, d, q, dst)
	}
	return -1
}

// around steps from a line that does not lead to coordinate q of dimension d
// into a later dimension: preferably one in which the packet must move anyway.
func (r *router) around(c int32, d, q int, dst int32) int32 {
	D := len(r.gr.Dims)
	best, bestCost := int32(-1), 4
	for _, e := range r.order[r.turn[d]+1:] {
		want := int(r.coord[int(dst)*D+e])
		have := int(r.coord[int(c)*D+e])
		forward := 0
		if want != have {
			forward, _ = r.shortest(c, e, want, dst)
		}
		for _, dir := range [2]int{1, -1} {
			cost := 2
			switch {
			case want != have && dir == forward:
				cost = 0
			case want != have:
				cost = 1
			case dir < 0:
				cost = 3
			}
			var side int32
			if r.gr.Dims[e].Kind == Full {
				if side = r.moved(c, e, want); dir < 0 || want == have {
					continue
				}
			} else {
				side = r.step(c, e, dir)
			}
			if side < 0 || cost >= bestCost || !r.linked(c, side) {
				continue
			}
			switch r.leg(side, d, q, dst) {
			case cut:
				continue
			case early:
				// The next switch is missing too: continue in the same direction.
				if cost > 0 || r.around(side, d, q, dst) < 0 {
					continue
				}
			default:
				// From the line's end the destination must be in reach.
				end := r.moved(side, d, q)
				if r.gr.Switch[end] < 0 || int(r.coord[int(end)*D+e]) != want && r.leg(end, e, want, dst) == cut {
					continue
				}
			}
			best, bestCost = side, cost
		}
	}
	return best
}

// level is the service level of paths from cell c to cell dst.
func (r *router) level(c, dst int32) ib.SL {
	D := len(r.gr.Dims)
	var sl ib.SL
	for d, b := range r.o.Bits {
		p, q := int(r.coord[int(c)*D+d]), int(r.coord[int(dst)*D+d])
		if b == NoBit || p == q {
			continue
		}
		dir, _ := r.shortest(c, d, q, dst)
		if dir > 0 && q < p || dir < 0 && q > p {
			sl |= 1 << b
		}
	}
	return sl
}

// lane is the lane of a hop in dimension out by a packet that arrived in
// dimension in (-1: from an end port). spare lanes are for turns against the
// order.
func (r *router) lane(in, out int, sl ib.SL, legal, spare int) int {
	bit := 0
	if b := r.o.Bits[out]; b != NoBit {
		bit = int(sl>>b) & 1
	}
	if in >= 0 && spare > 0 && r.turn[in] > r.turn[out] {
		return legal + bit%spare
	}
	return bit
}

// walk reports whether some path turns against the order of the dimensions; the
// error names a path that does not reach its destination.
func (r *router) walk() (turns bool, err error) {
	n := r.n.size()
	type result struct {
		src   int32
		fails bool
		turns bool
	}
	results := make([]result, n)
	type scratch struct {
		hop  []int32 // link taken by each switch
		mark []int32
	}
	work := make([]scratch, max(r.o.Workers, 1))
	route.ForEach(r.o.Workers, n, func(w, d int) {
		sc := &work[w]
		if sc.hop == nil {
			sc.hop, sc.mark = make([]int32, n), make([]int32, n)
		}
		res := &results[d]
		r.column(int32(d), sc.hop)
		clear(sc.mark)
		sc.mark[d] = -1
		for s := range int32(n) {
			u := s
			for sc.mark[u] == 0 {
				sc.mark[u] = s + 1
				if sc.hop[u] < 0 {
					break
				}
				v := r.n.to[sc.hop[u]]
				if sc.hop[v] >= 0 && r.turn[r.dim[sc.hop[u]]] > r.turn[r.dim[sc.hop[v]]] {
					res.turns = true
				}
				u = v
			}
			if sc.mark[u] != -1 {
				*res = result{src: s, fails: true}
				return
			}
			for v := s; sc.mark[v] == s+1; v = r.n.to[sc.hop[v]] {
				sc.mark[v] = -1
			}
		}
	})
	for d, res := range results {
		if res.fails {
			return false, fmt.Errorf("no path in dimension order from switch %v at %s to switch %v at %s: %s and %s are missing from the %v",
				r.n.guid(res.src), r.gr.where(r.gr.Cell[res.src]), r.n.guid(int32(d)), r.gr.where(r.gr.Cell[d]),
				count(r.gr.Missing(), "switch", "switches"), count(r.missingLinks(), "link between others", "links between others"), r.gr)
		}
		turns = turns || res.turns
	}
	return turns, nil
}

func count(n int, one, many string) string {
	if n == 1 {
		many = one
	}
	return fmt.Sprint(n, " ", many)
}

// missingLinks counts the links missing between switches that are there.
func (r *router) missingLinks() int {
	k := 0
	for c := range int32(len(r.gr.Switch)) {
		for d, dim := range r.gr.Dims {
			for v := range dim.Size {
				to := r.moved(c, d, v)
				if to <= c || r.gr.Switch[c] < 0 || r.gr.Switch[to] < 0 {
					continue
				}
				near := dim.Kind == Full || r.step(c, d, 1) == to || r.step(c, d, -1) == to
				if near && !r.linked(c, to) {
					k++
				}
			}
		}
	}
	return k
}

// column finds the link that each switch uses toward switch d; -1 if there is
// none, and at d.
func (r *router) column(d int32, hop []int32) {
	dst := r.gr.Cell[d]
	for s := range hop {
		hop[s] = -1
		if int32(s) != d {
			if to := r.next(r.gr.Cell[s], dst); to >= 0 {
				hop[s] = r.n.link(int32(s), r.gr.Switch[to])
			}
		}
	}
}
