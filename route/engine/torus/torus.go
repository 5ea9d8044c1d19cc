// Package torus routes two- and three-dimensional tori and meshes as OpenSM's
// torus-2QoS does (torus-2QoS(8)): in dimension order, with a date line on each
// ring.
//
// Bit 0, 1 or 2 of a path's service level says whether it crosses the date line
// of x, y or z. The lane of a hop along a dimension is the bit of that dimension,
// so two lanes do for three rings; a second class of service, levels 8 to 15, has
// as many lanes again if there are four. Date lines lie between the last and the
// first position of each ring. With eight lanes the SL-to-VL tables of links
// between switches are those of torus-2QoS, and no failure changes them.
//
// Failures: a ring that is cut once is a path, and packets take the remaining
// direction; their service level stays. If the switch at which a path would turn
// is missing, the path turns one step earlier into the next dimension; the turn
// that follows is against the order, and the hop after it takes lanes 2 and 3.
// The tables of a damaged torus are proved free of cycles before they are
// returned. Path levels depend on the coordinates alone, so failures do not
// change them while the coordinates stay.
//
// A Config gives the sizes, and the first of its seeds whose switches all exist
// fixes coordinates and date lines. Without one, sizes and coordinates are found
// from the links: the lowest GUID is the origin, the dimension with the lowest
// ports is x; pairs of dimensions of two are routed as rings of four.
//
// Cost: O(switches × degree²) to find a whole torus, a bounded search to fit a
// damaged one, O(switches² × dimensions + switches × LIDs) for the tables, and
// O(switches² × diameter) to prove a damaged one.
package torus

import (
	"errors"
	"fmt"

	"heddle/fabric"
	"heddle/ib"
	"heddle/route"
	"heddle/route/engine/grid"
)

// Engine computes torus tables. The zero value detects the torus.
type Engine struct {
	Config *Config
}

// Name is "torus".
func (Engine) Name() string { return "torus" }

// Compute returns the tables; Options.Workers and MaxVLs are used, and
// PortOrder for the order of parallel cables.
func (e Engine) Compute(g *fabric.Graph, o route.Options) (*route.Tables, error) {
	t, err := e.compute(g, o)
	if err != nil {
		return nil, route.RefusedBy("torus", route.ErrTopology, err)
	}
	return t, nil
}

// Update is Compute with the switches at their former coordinates, including
// those that return, so that no path's service level changes. If they no longer
// fit there, it computes from scratch.
func (e Engine) Update(from route.Solution, g *fabric.Graph, d *fabric.Delta, o route.Options) (*route.Tables, error) {
	if m, ok := from.Tables.Memo.(*grid.Memo); ok && !o.Rebalance {
		n, opt := e.setup(g, o)
		if gr := m.Place(n); gr != nil {
			if t, err := one(n, gr, m.Axes, opt, m); err == nil {
				note(t, opt)
				grid.Share(t, from.Tables, d)
				return t, nil
			}
		}
	}
	return e.Compute(g, o)
}

func (e Engine) setup(g *fabric.Graph, o route.Options) (*grid.Net, grid.Options) {
	var order func(s int32) []uint8
	if len(o.PortOrder) > 0 {
		order = func(s int32) []uint8 { return o.PortOrder[g.Switches[s].GUID] }
	}
	opt := grid.Options{
		Engine: "torus", Budget: route.Budget(g, o.MaxVLs), Workers: o.Workers, Around: true, Classes: true,
	}
	if e.Config != nil {
		opt.HostOrder = e.Config.PortOrder
	}
	return grid.NewNet(g, order), opt
}

func (e Engine) compute(g *fabric.Graph, o route.Options) (*route.Tables, error) {
	n, opt := e.setup(g, o)
	var t *route.Tables
	try := func(axes []int) func(gr *grid.Grid) error {
		return func(gr *grid.Grid) (err error) {
			t, err = one(n, gr, axes, opt, nil)
			return err
		}
	}
	var err error
	if e.Config != nil {
		if err = e.Config.fit(n, try); err != nil && !errors.Is(err, route.ErrLanes) {
			err = route.Refuse("torus", route.ErrInput, "%v", err)
		}
	} else {
		each := try([]int{0, 1, 2})
		err = grid.Find(n, true, func(gr *grid.Grid) error { return each(gr.Square()) })
	}
	if err != nil {
		return nil, err
	}
	note(t, opt)
	return t, nil
}

// note reports that there is only one class of service.
func note(t *route.Tables, opt grid.Options) {
	if t.Lanes != nil && !twoClasses(t) {
		t.Note = fmt.Sprintf("one class of service: a second one would need more than the available %d lanes", opt.Budget)
	}
}

// one routes one grid, and remembers it on top of old; axes says which of its
// dimensions are x, y and z.
func one(n *grid.Net, gr *grid.Grid, axes []int, opt grid.Options, old *grid.Memo) (*route.Tables, error) {
	for _, d := range gr.Dims {
		if d.Kind == grid.Full && d.Size > 2 {
			return nil, fmt.Errorf("the switches form a %v, which is no torus; dor routes it", gr)
		}
	}
	if len(gr.Dims) > 3 {
		return nil, fmt.Errorf("the switches form a %v, three dimensions at most are routed; dor takes more", gr)
	}
	for d, dim := range gr.Dims {
		bit := uint8(grid.NoBit)
		if dim.Kind == grid.Ring {
			bit = uint8(axes[d])
		}
		opt.Bits = append(opt.Bits, bit)
	}
	t, err := grid.Route(n, gr, opt)
	if err != nil {
		return nil, err
	}
	t.Memo = gr.Memo(n, axes, old)
	return t, nil
}

// twoClasses reports whether levels 8 to 15 have lanes of their own.
func twoClasses(t *route.Tables) bool {
	for _, r := range t.Lanes.Rows {
		if r[0] != r[8] {
			return true
		}
	}
	return false
}

// fit fits the net into the configured torus, by the first seed whose switches
// all exist.
func (c *Config) fit(n *grid.Net, try func(axes []int) func(*grid.Grid) error) error {
	var dims []grid.Dim
	var axes []int // by dimension: 0 x, 1 y, 2 z
	for d, k := range c.Size {
		if k == 1 {
			continue
		}
		kind := grid.Ring
		if c.Open[d] || k == 2 {
			kind = grid.Path
		}
		dims = append(dims, grid.Dim{Kind: kind, Size: k})
		axes = append(axes, d)
	}
	if len(c.Seeds) == 0 {
		return grid.Fit(n, dims, nil, try(axes))
	}
	var first error
	for i := range c.Seeds {
		given, err := c.Seeds[i].place(n, c, axes)
		if err == nil {
			err = grid.Fit(n, dims, given, try(axes))
		}
		if err == nil {
			return nil
		}
		if first == nil {
			first = fmt.Errorf("seed %d: %w", i+1, err)
		}
	}
	return first
}

// place gives the switches of a seed their coordinates.
func (s *Seed) place(n *grid.Net, c *Config, axes []int) ([]grid.Placed, error) {
	var given []grid.Placed
	put := func(guid ib.GUID, move, by int) error {
		i, ok := n.Find(guid)
		if !ok {
			return fmt.Errorf("switch %v is not there", guid)
		}
		p := grid.Placed{Switch: i}
		for j, d := range axes {
			k := c.Size[d]
			v := (k - s.Dateline[d]) % k
			if d == move {
				v += by
			}
			if c.Open[d] && (v < 0 || v >= k) {
				return fmt.Errorf("the link from %v to %v leaves the mesh; move the origin with %c_dateline", s.From, guid, "xyz"[d])
			}
			p.Coord[j] = (v + k) % k
		}
		given = append(given, p)
		return nil
	}
	if err := put(s.From, -1, 0); err != nil {
		return nil, err
	}
	for _, d := range axes {
		for i, guid := range [2]ib.GUID{s.Plus[d], s.Minus[d]} {
			if guid == 0 {
				continue
			}
			if err := put(guid, d, 1-2*i); err != nil {
				return nil, err
			}
		}
	}
	return given, nil
}
