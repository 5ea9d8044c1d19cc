package grid

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"heddle/fabric"
	"heddle/ib"
	"heddle/route"
)

// NoBit marks a dimension without a date line.
const NoBit = 0xFF

// Options are how a grid is to be routed.
type Options struct {
	Engine  string
	Budget  int // lanes that may be used
	Workers int
	// Bits gives, by dimension, the bit of the service level that says
	// whether a path crosses the date line of its ring; NoBit: there is none.
	Bits []uint8
	// Around allows turns against the order of the dimensions, next to
	// missing switches and cut lines only.
	Around bool
	// Classes asks for a second set of lanes for service levels 8 to 15, if
	// there are enough.
	Classes bool
	// HostOrder is the order in which the ports of a switch take parallel
	// cables in turn; nil: ascending.
	HostOrder []uint8
}

// Route computes tables in dimension order.
//
// On each ring a packet goes the shorter way. Half-way round both are short;
// which one is taken depends on where it enters the ring and on its
// destination, so that the load is even. The path's service level tells which
// date lines it crosses, and each link takes the lane that the bit of its own
// dimension says. Paths on lane 0 of a ring never pass the date line; those on
// lane 1 all do, and no two of them reach round the ring: neither lane has a
// cycle (after W. J. Dally and C. L. Seitz, 1987; OpenSM's torus-2QoS(8)).
// A ring that is cut is a path: packets go the way that is left, whatever
// their level says.
//
// With Around, a packet that cannot go on in its dimension, because the
// switch where it would turn is missing or because the line is cut, makes one
// step in a later dimension first. The turn that follows is against the order;
// the hop after it takes lanes of its own. Whether that closes a cycle is
// computed for such grids, other orders of the dimensions are tried too, and
// what cannot be routed is refused.
//
// Cost: O(switches² × dimensions + switches × LIDs); damaged grids
// O(switches² × diameter) more.
func Route(n *Net, gr *Grid, o Options) (*route.Tables, error) {
	g := n.g
	for s := range g.Switches {
		if c := ib.LID(g.Switches[s].LinearFDBCap); c != 0 && c <= g.TopLID {
			return nil, fmt.Errorf("the table of switch %v holds %d entries, the top LID is %d", g.Switches[s].GUID, c, g.TopLID)
		}
	}
	r := newRouter(n, gr, o)
	legal := 1
	for _, b := range o.Bits {
		if b != NoBit {
			legal = 2
		}
	}
	if o.Budget < legal {
		return nil, errors.New(r.tooFew(legal))
	}
	spare, err := r.plan(legal)
	if err != nil {
		return nil, err
	}
	if o.Around && o.Classes && legal > 1 && 4*legal <= o.Budget {
		spare = legal // keeps the lane tables as they are when a switch fails
	}
	return r.tables(legal, spare), nil
}

// noLanes says that turns against the order need no lanes of their own.
const noLanes = 0

// plan chooses the order of the dimensions and how many lanes hops after
// turns against the order have to themselves.
func (r *router) plan(legal int) (spare int, err error) {
	if r.whole() {
		return noLanes, nil
	}
	orders := permutations(len(r.gr.Dims))
	if !r.o.Around {
		orders = orders[:1]
	}
	var first error
	need := 0 // lanes that would do
	for _, order := range orders {
		r.setOrder(order)
		turns, err := r.walk()
		if err != nil {
			if first == nil {
				first = err
			}
			continue
		}
		options := []int{noLanes}
		if turns {
			// A lane for each bit of the date lines; one for both; none.
			options = slices.Compact([]int{legal, 1, noLanes})
		}
		for _, spare := range options {
			fits := legal+spare <= r.o.Budget
			if !fits && need != 0 && need <= legal+spare {
				continue
			}
			if r.acyclic(legal, spare) {
				if fits {
					return spare, nil
				}
				need = legal + spare
			}
		}
	}
	r.setOrder(orders[0])
	switch {
	case need > 0:
		return 0, errors.New(r.tooFew(need))
	case first != nil:
		return 0, first
	}
	return 0, fmt.Errorf("the ways round what is missing from the %v would close a cycle", r.gr)
}

// tooFew names the lanes needed and the link that has the fewest.
func (r *router) tooFew(need int) string {
	g := r.n.g
	worst := -1
	for c := range g.Channels {
		if worst < 0 || g.Channels[c].VLs < g.Channels[worst].VLs {
			worst = c
		}
	}
	are := "are"
	if r.o.Budget == 1 {
		are = "is"
	}
	why := fmt.Sprintf("the %v needs %d lanes, %d %s allowed", r.gr, need, r.o.Budget, are)
	if worst >= 0 && int(max(g.Channels[worst].VLs, 1)) <= r.o.Budget {
		c := &g.Channels[worst]
		why += fmt.Sprintf(" (link %v port %d has %d)", g.Switches[c.From].GUID, c.OutPort, max(c.VLs, 1))
	}
	return why
}

func permutations(n int) [][]int {
	base := make([]int, n)
	for i := range base {
		base[i] = i
	}
	out := [][]int{base}
	if n > 3 {
		return out
	}
	for {
		// The next in lexicographic order.
		p := slices.Clone(out[len(out)-1])
		i := n - 2
		for i >= 0 && p[i] > p[i+1] {
			i--
		}
		if i < 0 {
			return out
		}
		j := n - 1
		for p[j] < p[i] {
			j--
		}
		p[i], p[j] = p[j], p[i]
		slices.Reverse(p[i+1:])
		out = append(out, p)
	}
}

// router finds next hops on one grid.
type router struct {
	n     *Net
	gr    *Grid
	o     Options
	order []int   // dimensions, first routed first
	turn  []uint8 // by dimension: its place in order
	coord []int16 // by cell, dimension
	// reach is, by cell, dimension and direction (0 up, 1 down), how many
	// steps one can go before the line is cut; not for full meshes.
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
			// One line: twice round from either end tells how far one gets.
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

// linked reports whether both cells have switches with a cable between them.
func (r *router) linked(a, b int32) bool {
	s, t := r.gr.Switch[a], r.gr.Switch[b]
	return s >= 0 && t >= 0 && r.n.link(s, t) >= 0
}

// shortest is the direction in which cell c has the shorter way to coordinate
// q in dimension d on the way to cell dst, and the steps it takes.
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
		// Even and odd positions go different ways, and other destinations
		// on the same place of the ring the other way round.
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

// What leg says besides a cell.
const (
	cut   = -1 // the line is cut on all sides
	early = -2 // the next cell would be the missing one where the leg ends
)

// leg is the next cell from c towards coordinate q in dimension d.
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

// around steps out of a line that does not lead to coordinate q of dimension
// d, into a later dimension: one in which the packet has to move anyway if
// there is one.
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
				// The next one is missing too: on in the same direction.
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

// lane is the lane of a hop along dimension out by a packet that came along
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

// walk reports whether some path turns against the order of the dimensions;
// the error says which way does not lead to its destination.
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
			return false, fmt.Errorf("no way in dimension order from switch %v at %s to switch %v at %s: %s and %s are missing from the %v",
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

// column finds the link that each switch takes towards switch d; -1 where
// there is none, and at d.
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

// hosted tells which switches have CA or router ports with LIDs.
func hosted(g *fabric.Graph) []bool {
	has := make([]bool, len(g.Switches))
	for i := range g.EndPorts {
		if e := &g.EndPorts[i]; e.Type != ib.NodeSwitch && e.Switch >= 0 && e.LID != 0 {
			has[e.Switch] = true
		}
	}
	return has
}

// tables writes the result down.
func (r *router) tables(legal, spare int) *route.Tables {
	g := r.n.g
	n := len(g.Switches)
	t := route.New(r.o.Engine, n, g.TopLID)
	nth := turns(g, r.o.HostOrder)
	hop := make([][]int32, max(r.o.Workers, 1))
	cells := make([]int32, n)
	copy(cells, r.gr.Cell)
	route.ForEach(r.o.Workers, n, func(w, s int) {
		if hop[w] == nil {
			hop[w] = make([]int32, n)
		}
		h := hop[w]
		for d := range n {
			h[d] = -1
			if d != s {
				if to := r.next(cells[s], cells[d]); to >= 0 {
					h[d] = r.n.link(int32(s), r.gr.Switch[to])
				}
			}
		}
		row := t.LFT[s]
		for l, e := range g.LIDOwner {
			if e == fabric.NoLID || g.EndPorts[e].Switch < 0 {
				continue
			}
			d := g.EndPorts[e].Switch
			if int(d) == s {
				row[l] = g.EndPorts[e].Port
			} else if k := h[d]; k >= 0 {
				cs := r.n.chans[r.n.coff[k]:r.n.coff[k+1]]
				row[l] = g.Channels[cs[(int(nth[l])+r.sum(cells[d]))%len(cs)]].OutPort
			}
		}
	})
	if legal+spare == 1 {
		return t
	}
	t.SwitchClasses(g)
	if legal > 1 {
		t.SL = make([]ib.SL, n*n)
		route.ForEach(r.o.Workers, n, func(_, s int) {
			for d := range n {
				t.SL[s*n+d] = r.level(cells[s], cells[d])
			}
		})
	} else {
		t.Class, t.NumClasses = nil, 0
	}
	t.NumVLs = legal + spare
	second := 0 // first lane of the second class
	if r.o.Classes && 2*t.NumVLs <= r.o.Budget {
		second = t.NumVLs
		t.NumVLs += second
	}
	t.Lanes = r.lanes(legal, spare, second)
	return t
}

// sum is the sum of a cell's coordinates.
func (r *router) sum(c int32) int {
	D := len(r.gr.Dims)
	k := 0
	for _, v := range r.coord[int(c)*D : int(c)*D+D] {
		k += int(v)
	}
	return k
}

// turns gives, by LID, which of several parallel cables it takes: the ports
// of each destination switch one after the other, and the LIDs of a port one
// further each.
func turns(g *fabric.Graph, hostOrder []uint8) []uint16 {
	var place [256]int
	for p := range place {
		place[p] = 256 + p
	}
	place[0] = 512 // the switch itself comes last
	for i, p := range hostOrder {
		if place[p] >= 256 {
			place[p] = i
		}
	}
	ports := make([]int32, 0, len(g.EndPorts))
	for i := range g.EndPorts {
		if g.EndPorts[i].Switch >= 0 {
			ports = append(ports, int32(i))
		}
	}
	slices.SortStableFunc(ports, func(a, b int32) int {
		x, y := &g.EndPorts[a], &g.EndPorts[b]
		return cmp.Or(cmp.Compare(x.Switch, y.Switch), cmp.Compare(place[x.Port], place[y.Port]))
	})
	base := make([]uint16, len(g.EndPorts))
	for i := 1; i < len(ports); i++ {
		if g.EndPorts[ports[i]].Switch == g.EndPorts[ports[i-1]].Switch {
			base[ports[i]] = base[ports[i-1]] + 1
		}
	}
	nth := make([]uint16, len(g.LIDOwner))
	for l, e := range g.LIDOwner {
		if e != fabric.NoLID {
			nth[l] = base[e] + uint16(ib.LID(l)-g.EndPorts[e].LID)
		}
	}
	return nth
}

// lanes programs the SL-to-VL tables: one row for packets to end ports, and
// one for each dimension, for turns in order and against it. Levels from 8 on
// have lanes from second on.
func (r *router) lanes(legal, spare, second int) *route.Lanes {
	g := r.n.g
	D := len(r.gr.Dims)
	l := &route.Lanes{Index: make([][]uint8, len(g.Switches)), Stride: make([]uint16, len(g.Switches))}
	l.Rows = make([][16]ib.VL, 1, 1+2*D) // row 0: to end ports, all on lane 0
	for d := range D {
		for against := range 2 {
			in := -1
			if against == 1 {
				in = r.order[D-1] // later than all but itself
			}
			var row [16]ib.VL
			for sl := range row {
				lane := r.lane(in, d, ib.SL(sl), legal, spare)
				if against == 1 && in == d && spare > 0 {
					lane = r.lane(-1, d, ib.SL(sl), legal, spare) // nothing is later
				}
				if sl >= 8 {
					lane += second
				}
				row[sl] = ib.VL(lane)
			}
			l.Rows = append(l.Rows, row)
		}
	}
	for s := range g.Switches {
		ports := int(g.Switches[s].NumPorts) + 1
		l.Stride[s] = uint16(ports)
		l.Index[s] = make([]uint8, ports*ports)
		var dim [256]int
		for p := range dim {
			dim[p] = -1
		}
		for k := r.n.off[s]; k < r.n.off[s+1]; k++ {
			for _, c := range r.n.chans[r.n.coff[k]:r.n.coff[k+1]] {
				dim[g.Channels[c].OutPort] = int(r.dim[k])
			}
		}
		for out := 1; out < ports; out++ {
			if dim[out] < 0 {
				continue
			}
			for in := range ports {
				row := 1 + 2*dim[out]
				if dim[in] >= 0 && r.turn[dim[in]] > r.turn[dim[out]] {
					row++
				}
				l.Index[s][in*ports+out] = uint8(row)
			}
		}
	}
	return l
}
