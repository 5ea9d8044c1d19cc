package grid

import (
	"cmp"
	"fmt"
	"slices"

	"heddle/fabric"
	"heddle/ib"
)

// Limits of the damage for which fitAny searches.
const (
	maxShapes = 48 // shapes tried, least damage first
	maxSeeds  = 6  // switches tried as the first one placed, for each shape
	maxTries  = 16 // fits that are offered to the caller
)

// shape is a whole grid that a net may be the remains of.
type shape struct {
	dims    []Dim
	failed  int // least number of switches and links that must be missing
	broken  int // most links that may be missing between switches that are there
	missing int
}

// offer passes the fits of a search to the caller until it accepts one.
type offer struct {
	try   func(*Grid) error
	tries int
	seen  map[uint64]bool // distinct mappings of links to dimensions
	first error           // why the first was not taken
	taken bool
}

// end reports whether the search is over.
func (o *offer) end() bool { return o.taken || o.tries >= maxTries }

func (o *offer) put(n *Net, g *Grid) {
	if o.seen == nil {
		o.seen = map[uint64]bool{}
	}
	sign := g.signature(n)
	if o.seen[sign] {
		return
	}
	o.seen[sign] = true
	o.tries++
	err := o.try(g)
	if o.taken = err == nil; o.first == nil {
		o.first = err
	}
}

// signature distinguishes fits that map links to different lines. Mirrored and
// rotated fits have the same signature.
func (g *Grid) signature(n *Net) uint64 {
	const prime = 1099511628211 // FNV-1a
	sign := uint64(14695981039346656037)
	names := make([]uint64, len(g.Dims)) // dimensions by first appearance
	next := uint64(1)
	for s := range int32(n.size()) {
		for k := n.off[s]; k < n.off[s+1]; k++ {
			d, _ := g.direction(g.Cell[s], g.Cell[n.to[k]])
			if names[d] == 0 {
				names[d] = next
				next++
			}
			sign = (sign ^ names[d]) * prime
		}
	}
	for _, d := range g.Dims {
		sign = (sign ^ uint64(d.Size)<<1 ^ uint64(d.Kind)) * prime
	}
	return sign
}

// fitAny offers the fits of a net into a torus or mesh of up to three
// dimensions, the least damaged first.
func fitAny(n *Net, o *offer) {
	for _, sh := range shapes(n) {
		for _, s := range seeds(n, sh.dims) {
			found := false
			fit(n, sh, []Placed{{Switch: s}}, func(g *Grid) bool {
				found = true
				c := g.clone()
				c.settle(n, true)
				o.put(n, c)
				return o.end()
			})
			if o.end() {
				return
			}
			if found {
				break // another seed gives the same
			}
		}
	}
}

// shapes lists the whole grids that need the least damage to become the net:
// all sizes of two or more in ascending order, each ring or path.
func shapes(n *Net) []shape {
	size, links, degree := n.size(), len(n.to)/2, 0
	for s := range int32(size) {
		degree = max(degree, n.degree(s))
	}
	if degree > 6 {
		return nil
	}
	limit := 4 + size/8
	var out []shape
	try := func(sizes ...int) {
		cells := 1
		for _, k := range sizes {
			cells *= k
		}
		missing := cells - size
		if missing < 0 || missing > limit {
			return
		}
	kinds:
		for kinds := range 1 << len(sizes) {
			dims := make([]Dim, len(sizes))
			most, least, full := 0, 0, 0
			for i, k := range sizes {
				dims[i] = Dim{Kind(kinds >> i & 1), k}
				if dims[i].Kind == Ring && k < 3 || i > 0 && k == sizes[i-1] && dims[i].Kind > dims[i-1].Kind {
					continue kinds // no ring, or the same as another order
				}
				most += dims[i].degree()
				if dims[i].Kind == Ring {
					least += 2
				} else {
					least++
				}
				full += dims[i].links() * (cells / k)
			}
			lack := full - links
			shared := min(missing*(missing-1)/2, missing*len(sizes))
			sh := shape{dims: dims, missing: missing, failed: missing + max(0, lack-missing*most), broken: lack - (missing*least - shared)}
			if degree == most && lack >= 0 && sh.broken >= 0 && sh.failed <= limit {
				out = append(out, sh)
			}
		}
	}
	top := size + limit
	for a := 2; a <= top; a++ {
		try(a)
		for b := a; a*b <= top; b++ {
			try(a, b)
			for c := b; a*b*c <= top; c++ {
				try(a, b, c)
			}
		}
	}
	slices.SortStableFunc(out, func(a, b shape) int {
		return cmp.Or(cmp.Compare(a.failed, b.failed), cmp.Compare(a.missing, b.missing), cmp.Compare(a.broken, b.broken))
	})
	return out[:min(len(out), maxShapes)]
}

// seeds lists switches that may be the first cell of a grid, a corner of its
// paths: those with its degree, first those near which as few links are
// missing, compared with the inside of the grid, as near a corner.
func seeds(n *Net, dims []Dim) []int32 {
	inner, corner := 0, cellDegree(dims, nil)
	for _, d := range dims {
		inner += d.degree()
	}
	// Links missing within two steps of a corner, path after path.
	want := 0
	at := make([]int, len(dims))
	each(dims, at, func() {
		want += inner - cellDegree(dims, at)
		each(dims, at, func() { want += inner - cellDegree(dims, at) })
	})
	type seed struct {
		s   int32
		off int
	}
	var all []seed
	for s := range int32(n.size()) {
		if n.degree(s) != corner {
			continue
		}
		lack := 0
		for _, v := range n.neighbors(s) {
			lack += inner - n.degree(v)
			for _, w := range n.neighbors(v) {
				lack += inner - n.degree(w)
			}
		}
		all = append(all, seed{s, max(lack-want, want-lack)})
	}
	slices.SortStableFunc(all, func(a, b seed) int { return cmp.Compare(a.off, b.off) })
	var out []int32
	for _, s := range all[:min(len(all), maxSeeds)] {
		out = append(out, s.s)
	}
	return out
}

// cellDegree is the degree of the cell with coordinates at in a complete grid
// of paths and rings; nil: the first cell.
func cellDegree(dims []Dim, at []int) (k int) {
	for d, dim := range dims {
		v := 0
		if at != nil {
			v = at[d]
		}
		switch {
		case dim.Kind == Ring:
			k += 2
		default:
			if v > 0 {
				k++
			}
			if v < dim.Size-1 {
				k++
			}
		}
	}
	return k
}

// each moves at to every adjacent cell in turn and calls fn there.
func each(dims []Dim, at []int, fn func()) {
	for d, dim := range dims {
		was := at[d]
		for _, step := range [2]int{1, -1} {
			v := was + step
			if v < 0 || v >= dim.Size {
				if dim.Kind != Ring {
					continue
				}
				v = (v + dim.Size) % dim.Size
			}
			at[d] = v
			fn()
		}
		at[d] = was
	}
}

// Placed is a switch with a given cell.
type Placed struct {
	Switch int32
	Coord  [3]int
}

// Fit fits a net into a given complete grid with some switches at given cells,
// and passes each fit to try until that returns no error. Dims are paths or
// rings, three at most. The error is that of the first try, or says in one line
// why there is no fit.
func Fit(n *Net, dims []Dim, given []Placed, try func(*Grid) error) error {
	if err := connected(n); err != nil {
		return err
	}
	cells, full := 1, 0
	for _, d := range dims {
		cells *= d.Size
	}
	for _, d := range dims {
		full += d.links() * (cells / d.Size)
	}
	sh := shape{dims: dims, missing: cells - n.size(), broken: full - len(n.to)/2}
	if sh.missing < 0 || sh.broken < 0 {
		return fmt.Errorf("a %s has %d switches and %d links, the net %d and %d", shapeName(dims), cells, full, n.size(), len(n.to)/2)
	}
	o := offer{try: try}
	if len(given) > 0 {
		fit(n, sh, given, func(g *Grid) bool {
			o.put(n, g.clone())
			return o.end()
		})
	} else {
		for _, s := range seeds(n, dims) {
			fit(n, sh, []Placed{{Switch: s}}, func(g *Grid) bool {
				c := g.clone()
				c.settle(n, false)
				o.put(n, c)
				return o.end()
			})
			if o.tries > 0 {
				break
			}
		}
	}
	switch {
	case o.taken:
		return nil
	case o.first != nil:
		return o.first
	}
	return fmt.Errorf("the links between the switches are not those of a %s", shapeName(dims))
}

// fitter places switches one by one, first those whose cell is determined by
// others, and backtracks when that fails.
type fitter struct {
	n      *Net
	g      *Grid
	nbOff  []int32
	nb     []int32 // cells next to cell c: nb[nbOff[c]:nbOff[c+1]]
	placed []int32 // in order, for backtracking
	around []uint8 // by switch: adjacent switches that are placed
	broken int     // missing links between placed switches that may still be found
	steps  int     // placements left
	queue  []int32
	queued []bool
	found  func(*Grid) bool
}

// fit calls found with every embedding of the net in the shape until it returns
// true. The number of steps is bounded: a net that is no grid reaches the
// bound.
func fit(n *Net, sh shape, given []Placed, found func(*Grid) bool) {
	f := &fitter{
		n: n, found: found, g: newGrid(sh.dims, n.size()), broken: sh.broken, steps: 5000 + 60*n.size(),
		around: make([]uint8, n.size()), queued: make([]bool, n.size()),
	}
	f.nbOff = make([]int32, len(f.g.Switch)+1)
	for c := range int32(len(f.g.Switch)) {
		for d, dim := range sh.dims {
			v := f.g.at(c, d)
			if dim.Kind == Ring || v+1 < dim.Size {
				f.nb = append(f.nb, f.g.moved(c, d, (v+1)%dim.Size))
			}
			if dim.Kind == Ring || v > 0 {
				f.nb = append(f.nb, f.g.moved(c, d, (v-1+dim.Size)%dim.Size))
			}
		}
		f.nbOff[c+1] = int32(len(f.nb))
	}
	for _, p := range given {
		var c int32
		for d := range sh.dims {
			c += int32(p.Coord[d]) * f.g.stride[d]
		}
		if f.g.Cell[p.Switch] == c {
			continue
		}
		if f.g.Cell[p.Switch] >= 0 || f.g.Switch[c] >= 0 || f.cost(p.Switch, c) < 0 {
			return
		}
		f.place(p.Switch, c)
	}
	f.search()
}

func (f *fitter) next(c int32) []int32 { return f.nb[f.nbOff[c]:f.nbOff[c+1]] }

// cost is how many links would be missing if switch v stood in the free cell
// c; -1 if it cannot.
func (f *fitter) cost(v, c int32) int {
	linked, broken, free := 0, 0, 0
	for _, x := range f.next(c) {
		w := f.g.Switch[x]
		switch {
		case w < 0:
			free++
		case f.n.link(v, w) >= 0:
			linked++
		default:
			broken++
		}
	}
	if linked != int(f.around[v]) || broken > f.broken || f.n.degree(v)-linked > free {
		return -1
	}
	return broken
}

func (f *fitter) place(v, c int32) {
	f.broken -= f.cost(v, c)
	f.g.Cell[v], f.g.Switch[c] = c, v
	f.placed = append(f.placed, v)
	f.steps--
	for _, w := range f.n.neighbors(v) {
		f.around[w]++
		f.enqueue(w)
	}
	// Switches that could have this cell have one choice less.
	for _, x := range f.next(c) {
		if w := f.g.Switch[x]; w >= 0 {
			for _, u := range f.n.neighbors(w) {
				f.enqueue(u)
			}
		}
	}
}

func (f *fitter) enqueue(w int32) {
	if !f.queued[w] && f.g.Cell[w] < 0 {
		f.queued[w] = true
		f.queue = append(f.queue, w)
	}
}

// undo takes switches back until so many are placed.
func (f *fitter) undo(keep int) {
	for len(f.placed) > keep {
		v := f.placed[len(f.placed)-1]
		f.placed = f.placed[:len(f.placed)-1]
		c := f.g.Cell[v]
		f.g.Cell[v], f.g.Switch[c] = -1, -1
		for _, w := range f.n.neighbors(v) {
			f.around[w]--
		}
		for _, x := range f.next(c) {
			if w := f.g.Switch[x]; w >= 0 && f.n.link(v, w) < 0 {
				f.broken++
			}
		}
	}
	f.clear()
}

func (f *fitter) clear() {
	for _, w := range f.queue {
		f.queued[w] = false
	}
	f.queue = f.queue[:0]
}

// choices lists the cells for an unplaced switch next to a placed one, first
// those that leave fewer links missing.
func (f *fitter) choices(v int32, out []int32) []int32 {
	out = out[:0]
	for _, w := range f.n.neighbors(v) {
		c := f.g.Cell[w]
		if c < 0 {
			continue
		}
		for _, x := range f.next(c) {
			if f.g.Switch[x] < 0 && f.cost(v, x) >= 0 && !slices.Contains(out, x) {
				out = append(out, x)
			}
		}
		break
	}
	slices.SortStableFunc(out, func(a, b int32) int { return cmp.Compare(f.cost(v, a), f.cost(v, b)) })
	return out
}

// force places every switch with only one choice; false if one has none.
func (f *fitter) force() bool {
	var buf [8]int32
	for len(f.queue) > 0 {
		v := f.queue[0]
		f.queue = f.queue[1:]
		f.queued[v] = false
		if f.g.Cell[v] >= 0 || f.around[v] == 0 {
			continue
		}
		switch c := f.choices(v, buf[:]); len(c) {
		case 0:
			return false
		case 1:
			f.place(v, c[0])
		}
		if f.steps <= 0 {
			return false
		}
	}
	return true
}

// search places the rest; true ends it.
func (f *fitter) search() bool {
	if !f.force() {
		f.clear()
		return f.steps <= 0
	}
	if len(f.placed) == f.n.size() {
		return f.found(f.g)
	}
	best, fewest := int32(-1), 1<<30
	var buf [8]int32
	for v, c := range f.g.Cell {
		if c < 0 && f.around[v] > 0 {
			if k := len(f.choices(int32(v), buf[:])); k < fewest {
				best, fewest = int32(v), k
			}
		}
	}
	if best < 0 {
		return false
	}
	keep := len(f.placed)
	for _, c := range f.choices(best, nil) {
		f.place(best, c)
		if f.search() {
			return true
		}
		f.undo(keep)
		if f.steps <= 0 {
			return true
		}
	}
	return false
}

// Find is the index of the switch with a node GUID.
func (n *Net) Find(guid ib.GUID) (int32, bool) {
	i, ok := slices.BinarySearchFunc(n.g.Switches, guid, func(s fabric.SwitchNode, g ib.GUID) int { return cmp.Compare(s.GUID, g) })
	return int32(i), ok
}
