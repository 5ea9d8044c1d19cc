package grid

import (
	"bytes"
	"slices"

	"heddle/fabric"
	"heddle/ib"
	"heddle/route"
)

// Memo remembers where the switches of a grid stood, also those that have
// failed since, so that coordinates and with them service levels stay as they
// are. It is immutable.
type Memo struct {
	dims []Dim
	cell map[ib.GUID]int32
	Axes []int // the engine's own data on the dimensions
}

// Maker implements route.Memory.
func (*Memo) Maker() string { return "grid" }

// Memo describes a grid for the next Update; switches that old knows of the
// same grid are kept.
func (g *Grid) Memo(n *Net, axes []int, old *Memo) *Memo {
	m := &Memo{dims: g.Dims, Axes: axes, cell: make(map[ib.GUID]int32, len(g.Switch))}
	if old != nil && slices.Equal(old.dims, g.Dims) {
		for guid, c := range old.cell {
			if g.Switch[c] < 0 {
				m.cell[guid] = c
			}
		}
	}
	for s, c := range g.Cell {
		m.cell[n.guid(int32(s))] = c
	}
	return m
}

// Place is the grid with its switches at their former positions; nil if a
// switch is new or a link does not fit.
func (m *Memo) Place(n *Net) *Grid {
	if connected(n) != nil {
		return nil
	}
	g := newGrid(m.dims, n.size())
	for s := range g.Cell {
		c, ok := m.cell[n.guid(int32(s))]
		if !ok || g.Switch[c] >= 0 {
			return nil
		}
		g.Cell[s], g.Switch[c] = c, int32(s)
	}
	for s := range int32(n.size()) {
		for _, t := range n.neighbors(s) {
			if !g.near(g.Cell[s], g.Cell[t]) {
				return nil
			}
		}
	}
	return g
}

// near reports whether two cells are adjacent.
func (g *Grid) near(a, b int32) bool {
	d, _ := g.direction(a, b)
	if len(g.Dims) == 0 || g.moved(a, d, g.at(b, d)) != b {
		return false
	}
	k := g.Dims[d].Size
	step := (g.at(a, d) - g.at(b, d) + k) % k
	switch g.Dims[d].Kind {
	case Full:
		return step != 0
	case Ring:
		return step == 1 || step == k-1
	}
	return g.at(a, d)-g.at(b, d) == 1 || g.at(b, d)-g.at(a, d) == 1
}

// Share puts the rows of old into t where they are the same, and its service
// levels and lane tables if all of them are.
func Share(t *route.Tables, old *route.Tables, d *fabric.Delta) {
	for s, o := range d.Switch {
		if o >= 0 && int(o) < len(old.LFT) && bytes.Equal(t.LFT[s], old.LFT[o]) {
			t.LFT[s] = old.LFT[o]
		}
	}
	if !d.SameSwitches {
		return
	}
	if t.NumClasses == old.NumClasses && slices.Equal(t.SL, old.SL) && slices.Equal(t.Class, old.Class) {
		t.SL, t.Class = old.SL, old.Class
	}
	if a, b := t.Lanes, old.Lanes; a != nil && b != nil && slices.Equal(a.Rows, b.Rows) && slices.Equal(a.Stride, b.Stride) &&
		slices.EqualFunc(a.Index, b.Index, bytes.Equal) {
		t.Lanes = b
	}
}
