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

// memo is what Update wants to know.
type memo struct {
	load   []uint64 // by channel: paths over it
	layers *layer.Layers
	fine   bool     // classes are LIDs, not switches
	lids   []ib.LID // by column of the layers' paths
	top    ib.LID
	kept   bool // Update kept the levels of what stayed
}

// Compute returns the tables; Options.Workers, MaxVLs, Previous, HopWeights,
// Unbalanced and SpreadLanes are used. Too few lanes are an error that says
// how many it takes.
func (DFEngine) Compute(g *fabric.Graph, o route.Options) (*route.Tables, error) {
	r, err := compute("dfsssp", g, o)
	if err != nil {
		return nil, err
	}
	if err := r.layer(o); err != nil {
		return nil, err
	}
	return r.t, nil
}

// layer puts the paths of finished tables into lanes.
func (r *router) layer(o route.Options) error {
	graph := layer.NewGraph(r.g.Off, r.net.To, r.net.Rev)
	var way [2]*layer.Layers
	var ok [2]bool
	way[0], ok[0] = layer.Split(r.paths(graph, false))
	best := 0
	if !ok[0] || way[0].Used > 1 {
		way[1], ok[1] = layer.Split(r.paths(graph, true))
		if ok[1] && (!ok[0] || way[1].Used < way[0].Used) {
			best = 1
		}
	}
	budget := route.Budget(r.g, o.MaxVLs)
	if !ok[best] || way[best].Used > budget {
		return layer.Refuse("dfsssp", way[best].Used, r.g, o)
	}
	if o.SpreadLanes {
		way[best] = way[best].Spread(budget)
	}
	r.finish(way[best], best == 1)
	return nil
}

// finish writes the layers to the tables.
func (r *router) finish(l *layer.Layers, fine bool) {
	t := r.t
	t.NumVLs = l.Used
	t.Memo = &memo{load: r.net.Load, layers: l, fine: fine, lids: r.lids, top: t.TopLID}
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
