// Package dor routes meshes, hypercubes, tori and HyperX networks in dimension
// order: a packet first moves along the first dimension until its coordinate is
// right, then along the second, and so on (H. Sullivan and T. R. Bashkow, 1977).
// On meshes, hypercubes and HyperX no cycle of channel dependencies can form,
// with one lane. Rings of five switches and more need a second lane and a date
// line each (W. J. Dally and C. L. Seitz, "Deadlock-free message routing in
// multiprocessor interconnection networks", 1987): the service level of a path
// says, one bit for each ring, whether it crosses the date line there, and the
// SL-to-VL tables choose the lane from the bit of the dimension that a packet
// moves in. A ring of four is a square of a hypercube and needs no date line, one
// of three is a full mesh.
//
// The grid is found from the links, regardless of port numbers; the dimension
// with the lowest ports, or first in Options.PortOrder, is routed first, and
// parallel links are used in turn. A torus with failed links is recognized too:
// on a ring that they cut, packets take the remaining direction. A pair without a
// path in dimension order is refused; the engine torus has more paths.
//
// If no grid is found and Options.PortOrder is given, it defines the dimensions,
// as for OpenSM's dor: each switch takes the first port in its order that is on a
// shortest path, and the result is refused if it has a cycle.
//
// Cost: O(switches × degree²) to find the grid, O(switches² × dimensions) for
// the next hops, O(switches × LIDs) for the tables.
package dor

import (
	"errors"
	"fmt"

	"heddle/fabric"
	"heddle/ib"
	"heddle/route"
	"heddle/route/engine/grid"
)

// Engine computes dimension-order tables. The zero value is ready to use.
type Engine struct{}

// Name is "dor".
func (Engine) Name() string { return "dor" }

// Compute returns the tables; Options.Workers, MaxVLs and PortOrder are used.
func (Engine) Compute(g *fabric.Graph, o route.Options) (*route.Tables, error) {
	t, err := compute(g, o)
	if err != nil {
		return nil, route.RefusedBy("dor", route.ErrTopology, err)
	}
	return t, nil
}

// levelBits are the bits of a service level.
const levelBits = 4

// Update is Compute with the switches at their former coordinates, including those
// that return, so that no service level changes without need. If they no longer fit
// there, it computes from scratch.
func (e Engine) Update(from route.Solution, g *fabric.Graph, d *fabric.Delta, o route.Options) (*route.Tables, error) {
	if m, ok := from.Tables.Memo.(*grid.Memo); ok && !o.Rebalance {
		n, opt := setup(g, o)
		if gr := m.Place(n); gr != nil {
			if t, err := one(n, gr, opt, m); err == nil {
				t.Note = unused(g, o)
				grid.Share(t, from.Tables, d)
				return t, nil
			}
		}
	}
	return e.Compute(g, o)
}

func setup(g *fabric.Graph, o route.Options) (*grid.Net, grid.Options) {
	var order func(s int32) []uint8
	if len(o.PortOrder) > 0 {
		order = func(s int32) []uint8 { return o.PortOrder[g.Switches[s].GUID] }
	}
	return grid.NewNet(g, order), grid.Options{Engine: "dor", Budget: route.Budget(g, o.MaxVLs), Workers: o.Workers}
}

func compute(g *fabric.Graph, o route.Options) (*route.Tables, error) {
	n, opt := setup(g, o)
	var t *route.Tables
	err := grid.Find(n, true, func(gr *grid.Grid) (err error) {
		t, err = one(n, gr, opt, nil)
		return err
	})
	if errors.Is(err, grid.ErrNoGrid) && len(o.PortOrder) > 0 {
		if t = grid.ByPorts(n, opt); t == nil {
			return nil, fmt.Errorf("%w; the order of ports that was given closes a cycle", err)
		}
	} else if err != nil {
		return nil, err
	}
	t.Note = unused(g, o)
	return t, nil
}

// one routes one grid, and remembers it on top of old.
func one(n *grid.Net, gr *grid.Grid, opt grid.Options, old *grid.Memo) (*route.Tables, error) {
	used := uint8(0)
	for _, d := range gr.Dims {
		bit := uint8(grid.NoBit)
		if d.Kind == grid.Ring && d.Size > 3 {
			bit = used
			used++
		}
		opt.Bits = append(opt.Bits, bit)
	}
	if used > levelBits {
		return nil, fmt.Errorf("the %v has %d rings, the service level has bits for the date lines of %d", gr, used, levelBits)
	}
	t, err := grid.Route(n, gr, opt)
	if err != nil {
		return nil, err
	}
	t.Memo = gr.Memo(n, nil, old)
	return t, nil
}

// unused names the switches of PortOrder that the graph does not have.
func unused(g *fabric.Graph, o route.Options) string {
	have := 0
	for i := range g.Switches {
		if _, ok := o.PortOrder[g.Switches[i].GUID]; ok {
			have++
		}
	}
	if have == len(o.PortOrder) {
		return ""
	}
	var low ib.GUID
	for guid := range o.PortOrder {
		if (low == 0 || guid < low) && !has(g, guid) {
			low = guid
		}
	}
	if n := len(o.PortOrder) - have; n > 1 {
		return fmt.Sprintf("the port order names %d switches that are not there, such as %v", n, low)
	}
	return fmt.Sprintf("the port order names a switch that is not there: %v", low)
}

func has(g *fabric.Graph, guid ib.GUID) bool {
	for i := range g.Switches {
		if g.Switches[i].GUID == guid {
			return true
		}
	}
	return false
}
