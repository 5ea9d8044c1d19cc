package grid

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"heddle/ib"
)

// Kind is how the positions of a line are joined.
type Kind uint8

// Kinds of lines.
const (
	Path Kind = iota // each position to the next
	Ring             // the last to the first as well; three or more
	Full             // every two positions
)

// Dim is one dimension of a grid.
type Dim struct {
	Kind Kind
	Size int
}

// degree is the number of adjacent positions of an inner position of the line.
func (d Dim) degree() int {
	if d.Kind == Full {
		return d.Size - 1
	}
	return min(2, d.Size-1)
}

// links is the number of links of one line.
func (d Dim) links() int {
	switch d.Kind {
	case Ring:
		return d.Size
	case Full:
		return d.Size * (d.Size - 1) / 2
	}
	return d.Size - 1
}

// Grid gives every switch a cell. Cells are numbered by their coordinates, the
// last fastest; a cell may be empty, where a switch is missing.
type Grid struct {
	Dims   []Dim
	Cell   []int32 // by switch
	Switch []int32 // by cell; -1: missing
	stride []int32
}

func newGrid(dims []Dim, switches int) *Grid {
	g := &Grid{Dims: dims, Cell: make([]int32, switches), stride: make([]int32, len(dims))}
	cells := 1
	for d := len(dims) - 1; d >= 0; d-- {
		g.stride[d] = int32(cells)
		cells *= dims[d].Size
	}
	g.Switch = make([]int32, cells)
	for c := range g.Switch {
		g.Switch[c] = -1
	}
	for s := range g.Cell {
		g.Cell[s] = -1
	}
	return g
}

func (g *Grid) clone() *Grid {
	c := *g
	c.Cell, c.Switch = slices.Clone(g.Cell), slices.Clone(g.Switch)
	return &c
}

// at is the coordinate of a cell in dimension d.
func (g *Grid) at(c int32, d int) int { return int(c/g.stride[d]) % g.Dims[d].Size }

// moved is cell c with coordinate d set to v.
func (g *Grid) moved(c int32, d, v int) int32 { return c + int32(v-g.at(c, d))*g.stride[d] }

// Missing is how many cells have no switch.
func (g *Grid) Missing() int { return len(g.Switch) - len(g.Cell) }

// String names the grid by its sizes: "6x5 torus", "2x2x2 mesh".
func (g *Grid) String() string { return shapeName(g.Dims) }

func shapeName(dims []Dim) string {
	var b strings.Builder
	rings, full := 0, 0
	for i, d := range dims {
		if i > 0 {
			b.WriteByte('x')
		}
		fmt.Fprint(&b, d.Size)
		switch d.Kind {
		case Ring:
			rings++
		case Full:
			full++
		}
	}
	switch {
	case len(dims) == 0:
		return "single switch"
	case rings == len(dims):
		b.WriteString(" torus")
	case full == len(dims):
		b.WriteString(" HyperX")
	case rings+full == 0:
		b.WriteString(" mesh")
	default:
		b.WriteString(" grid")
	}
	return b.String()
}

// Find finds the grid of a net and passes it to try. With damaged, it also fits
// the net into tori and meshes of up to three dimensions, and passes those
// until try returns no error. The error is that of the first try, or says in
// one line why there is no grid.
func Find(n *Net, damaged bool, try func(*Grid) error) error {
	if err := connected(n); err != nil {
		return err
	}
	g, err := factor(n)
	if err == nil {
		g.settle(n, true)
		return try(g)
	}
	if !damaged {
		return fmt.Errorf("%w%w", ErrNoGrid, err)
	}
	o := offer{try: try}
	fitAny(n, &o)
	switch {
	case o.taken:
		return nil
	case o.first != nil:
		return o.first
	}
	return fmt.Errorf("%w%w, and no damaged torus or mesh", ErrNoGrid, err)
}

// ErrNoGrid is in the errors of Find if there is no grid.
var ErrNoGrid = errors.New("the switches form no grid: ")

func connected(n *Net) error {
	if n.size() == 0 {
		return errors.New("there are no switches")
	}
	if _, k := n.parts(nil); k > 1 {
		return fmt.Errorf("the switches are in %d disconnected parts", k)
	}
	return nil
}

// settle normalizes a detected grid: dimensions by the ports that lead along them (if
// sort says so), rings from the switch with the lowest GUID on, upwards by the lower
// ports.
func (g *Grid) settle(n *Net, sort bool) {
	D := len(g.Dims)
	sum, count, votes := make([]int64, D), make([]int64, D), make([]int64, D)
	up, down := make([]int32, D), make([]int32, D)
	for s := range int32(n.size()) {
		for d := range D {
			up[d], down[d] = -1, -1
		}
		for k := n.off[s]; k < n.off[s+1]; k++ {
			d, step := g.direction(g.Cell[s], g.Cell[n.to[k]])
			for _, c := range n.chans[n.coff[k]:n.coff[k+1]] {
				sum[d] += int64(n.rank[c])
				count[d]++
			}
			first := n.rank[n.chans[n.coff[k]]]
			if step > 0 {
				up[d] = first
			} else {
				down[d] = first
			}
		}
		for d := range D {
			if up[d] >= 0 && down[d] >= 0 && up[d] < down[d] {
				votes[d]++
			} else if up[d] >= 0 && down[d] >= 0 {
				votes[d]--
			}
		}
	}
	order := make([]int, D)
	for d := range order {
		order[d] = d
	}
	if sort {
		slices.SortStableFunc(order, func(a, b int) int {
			// mean rank, compared without dividing
			return cmp.Compare(sum[a]*max(count[b], 1), sum[b]*max(count[a], 1))
		})
	}
	first := int32(0) // switches ascend by GUID
	dims := make([]Dim, D)
	for i, d := range order {
		dims[i] = g.Dims[d]
	}
	r := newGrid(dims, len(g.Cell))
	for s, c := range g.Cell {
		var to int32
		for i, d := range order {
			v, k := g.at(c, d), g.Dims[d].Size
			if g.Dims[d].Kind == Ring {
				v = (v - g.at(g.Cell[first], d) + k) % k
			}
			if votes[d] < 0 && g.Dims[d].Kind != Full {
				if v = k - 1 - v; g.Dims[d].Kind == Ring {
					v = (v + 1) % k
				}
			}
			to += int32(v) * r.stride[i]
		}
		r.Cell[s] = to
		r.Switch[to] = int32(s)
	}
	*g = *r
}

// direction is the dimension in which two adjacent cells differ, and whether
// the step goes up (from the last to the first position of a ring is up).
func (g *Grid) direction(a, b int32) (d, step int) {
	for d := range g.Dims {
		v, w := g.at(a, d), g.at(b, d)
		if v == w {
			continue
		}
		step := 1
		if w < v {
			step = -1
		}
		if k := g.Dims[d].Size; g.Dims[d].Kind == Ring && (w-v == k-1 || v-w == k-1) {
			step = -step
		}
		return d, step
	}
	return 0, 0
}

// where names a cell for an error: its coordinates.
func (g *Grid) where(c int32) string {
	var b strings.Builder
	b.WriteByte('(')
	for d := range g.Dims {
		if d > 0 {
			b.WriteByte(',')
		}
		fmt.Fprint(&b, g.at(c, d))
	}
	b.WriteByte(')')
	return b.String()
}

// Square joins dimensions of two into rings of four, pair by pair, and full
// meshes of three into rings of three: factor splits tori of those sizes that
// way.
func (g *Grid) Square() *Grid {
	var dims []Dim
	var from [][]int // by new dimension: the old dimensions
	open := -1
	for d, dim := range g.Dims {
		switch {
		case dim.Size == 2 && open < 0:
			open = len(dims)
			dims = append(dims, Dim{Path, 2})
			from = append(from, []int{d})
		case dim.Size == 2:
			dims[open] = Dim{Ring, 4}
			from[open] = append(from[open], d)
			open = -1
		case dim.Kind == Full && dim.Size == 3:
			dims = append(dims, Dim{Ring, 3})
			from = append(from, []int{d})
		default:
			dims = append(dims, dim)
			from = append(from, []int{d})
		}
	}
	r := newGrid(dims, len(g.Cell))
	for s, c := range g.Cell {
		var to int32
		for i, f := range from {
			v := g.at(c, f[0])
			if len(f) == 2 {
				v = []int{0, 1, 3, 2}[2*v+g.at(c, f[1])] // round the square
			}
			to += int32(v) * r.stride[i]
		}
		r.Cell[s] = to
		r.Switch[to] = int32(s)
	}
	return r
}

// GUID names a switch.
func (n *Net) guid(s int32) ib.GUID { return n.g.Switches[s].GUID }
