package sssp

import (
	"heddle/fabric"
	"heddle/ib"
	"heddle/route"
	"heddle/route/engine/layer"
)

// DFEngine computes dfsssp tables. The zero value is ready to use.
type DFEngine struct{}

// Name is "dfsssp".
func (DFEngine) Name() string { return "dfsssp" }

// Leveling implements route.Leveling.
func (DFEngine) Leveling() {}

// memo is the state for Update.
type memo struct {
	load   []uint64 // by channel: paths over it
	spread bool     // trees spread
	layers *layer.Layers
	fine   bool     // classes are LIDs, not switches
	lids   []ib.LID // by column of the layers' paths
	top    ib.LID
	kept   bool   // Update kept the levels of unchanged pairs
	asked  uint64 // engine.Asked
}

// Maker implements route.Memory.
func (*memo) Maker() string { return "sssp" }

// Compute returns the tables; Options.Workers, MaxVLs, Previous, HopWeights,
// Unbalanced and SpreadLanes are used. If the lanes do not suffice, the error
// says how many are needed.
func (DFEngine) Compute(g *fabric.Graph, o route.Options) (*route.Tables, error) {
	ways, err := compute("dfsssp", g, o)
	if err != nil {
		return nil, err
	}
	best := ways[0].split()
	// Use the other trees if these do not fit; or if the others load no link more,
	// need fewer lanes, and are cheap to layer.
	fits := best.fits(route.Budget(g, o.MaxVLs))
	if few := len(ways[0].cols)*len(g.Switches) <= large; !fits || few && best.layers.Used > 1 {
		if len(ways) == 1 {
			other, err := routes("dfsssp", g, o, false)
			if err != nil {
				return nil, err
			}
			ways = append(ways, other)
		}
		if !fits || ways[0].load.Peak == ways[1].load.Peak {
			if other := ways[1].split(); other.fewer(best) {
				best = other
			}
		}
	}
	if err := best.take(o); err != nil {
		return nil, err
	}
	return best.r.t, nil
}

// layering is one way to divide the paths of tables into layers.
type layering struct {
	r      *router
	layers *layer.Layers
	fine   bool // by LID
	ok     bool
}

// split layers by switches and by LIDs and returns the result with fewer lanes.
func (r *router) split() *layering {
	graph := layer.NewGraph(r.g.Off, r.net.To, r.net.Rev)
	best := &layering{r: r}
	best.layers, best.ok = layer.Split(r.paths(graph, false))
	if !best.ok || best.layers.Used > 1 {
		fine := &layering{r: r, fine: true}
		fine.layers, fine.ok = layer.Split(r.paths(graph, true))
		if fine.fewer(best) {
			return fine
		}
	}
	return best
}

// fewer reports whether l takes fewer lanes than m.
func (l *layering) fewer(m *layering) bool {
	return l.ok && (!m.ok || l.layers.Used < m.layers.Used)
}

func (l *layering) fits(budget int) bool { return l.ok && l.layers.Used <= budget }

// take makes the layers those of the tables.
func (l *layering) take(o route.Options) error {
	budget := route.Budget(l.r.g, o.MaxVLs)
	if !l.fits(budget) {
		return layer.Refuse("dfsssp", l.layers.Used, l.r.g, o)
	}
	if o.SpreadLanes {
		l.layers = l.layers.Spread(budget)
	}
	l.r.finish(l.layers, l.fine)
	return nil
}

// finish writes the layers to the tables.
func (r *router) finish(l *layer.Layers, fine bool) {
	t := r.t
	t.NumVLs = l.Used
	t.Memo = &memo{load: r.net.Load, spread: !r.net.Gather, layers: l, fine: fine, lids: r.lids, top: t.TopLID, asked: r.asked}
	if l.Used == 1 {
		t.SL, t.Class, t.NumClasses = nil, nil, 0
		return
	}
	t.SL = l.SL
	if !fine {
		t.SwitchClasses(r.g)
		return
	}
	t.NumClasses = len(r.cols)
	t.Class = make([]int32, int(t.TopLID)+1)
	for l := range t.Class {
		t.Class[l] = -1
	}
	for i, l := range r.lids {
		t.Class[l] = int32(i)
	}
}

// paths describes the tables to the layering.
func (r *router) paths(graph *layer.Graph, fine bool) *layer.Paths {
	p := &layer.Paths{Graph: graph, Rows: r.t.LFT, Ways: r.g.PortChannel, Cols: make([]layer.Column, len(r.cols)), CA: r.ca}
	if fine {
		p.Class = make([][]int32, len(r.cols))
	} else {
		p.Class = make([][]int32, len(r.g.Switches))
	}
	for i := range r.cols {
		class := r.cols[i].Dst
		if fine {
			class = int32(i)
		}
		p.Cols[i] = layer.Column{Row: int32(r.lids[i]), Dst: r.cols[i].Dst, Class: class, CA: r.host[i]}
		p.Class[class] = append(p.Class[class], int32(i))
	}
	return p
}
