package mcast

import (
	"slices"

	"heddle/fabric"
	"heddle/ib"
	"heddle/route"
	"heddle/route/cdg"
)

// deps are the dependencies of unicast tables and multicast trees, in an order
// that shows them free of cycles.
type deps struct {
	graph *cdg.Graph
	order *cdg.Order // nil: the unicast tables have a cycle of their own
}

// add puts dependencies in. If they would close a cycle it changes nothing
// and returns false.
func (d *deps) add(list []cdg.Dep) bool {
	if d.order == nil {
		return len(list) == 0
	}
	for i, e := range list {
		if d.graph.Add(e, 1) > 0 && !d.order.Insert(d.graph, e) {
			d.remove(list[:i+1])
			return false
		}
	}
	return true
}

// disagree reports whether adding dependencies takes a search.
func (d *deps) disagree(list []cdg.Dep) bool {
	return d.order != nil && slices.ContainsFunc(list, func(e cdg.Dep) bool { return !d.order.Agrees(d.graph, e) && d.graph.Count(e) == 0 })
}

// remove takes dependencies out that add put in.
func (d *deps) remove(list []cdg.Dep) {
	if d.order == nil {
		return
	}
	for _, e := range list {
		d.graph.Add(e, -1)
	}
}

// Unicast computes the dependencies of the unicast tables t: those of paths
// with a CA or router port at one end at least, which is the possible traffic
// on data lanes.
func Unicast(g *fabric.Graph, t *route.Tables, workers int) *cdg.Graph {
	lanes := lanesOf(g)
	shape := cdg.NewShape(g)
	// Each worker has a graph of its own, joined at the end.
	workers = min(max(workers, 1), 8)
	const run = 64 // LIDs at a time
	parts := make([]*walker, workers)
	route.ForEach(workers, int(g.TopLID)/run+1, func(w, k int) {
		if parts[w] == nil {
			parts[w] = newWalker(g, t, cdg.New(shape, lanes))
		}
		for l := max(k*run, 1); l < (k+1)*run && l < len(g.LIDOwner); l++ {
			parts[w].lid(ib.LID(l))
		}
	})
	all := cdg.New(shape, lanes)
	for _, p := range parts {
		if p != nil {
			p.deps.Each(func(d cdg.Dep, _ int) { all.Add(d, 1) })
		}
	}
	return all
}

// lanesOf is the number of data lanes of the widest link between switches.
func lanesOf(g *fabric.Graph) int {
	lanes := 1
	for c := range g.Channels {
		lanes = max(lanes, int(g.Channels[c].VLs))
	}
	return lanes
}

// walker collects the dependencies of unicast paths.
type walker struct {
	g       *fabric.Graph
	t       *route.Tables
	deps    *cdg.Graph
	hasCA   []bool
	hosts   [][]uint8    // by switch: ports by which packets are injected
	seen    [][16]uint16 // by channel and lane: service levels that already passed here
	touched []int32
}

func newWalker(g *fabric.Graph, t *route.Tables, into *cdg.Graph) *walker {
	w := &walker{
		g: g, t: t, deps: into,
		hasCA: make([]bool, len(g.Switches)), hosts: make([][]uint8, len(g.Switches)), seen: make([][16]uint16, len(g.Channels)),
	}
	for i := range g.EndPorts {
		e := &g.EndPorts[i]
		if e.Switch < 0 {
			continue
		}
		if e.Type != ib.NodeSwitch {
			w.hasCA[e.Switch] = true
		}
		// Without tables of their own all ports are alike.
		if t.Lanes != nil || len(w.hosts[e.Switch]) == 0 {
			w.hosts[e.Switch] = append(w.hosts[e.Switch], e.Port)
		}
	}
	return w
}

// out is the channel by which switch s sends packets for l; -1 if it does not.
func (w *walker) out(s int32, l ib.LID) int32 {
	p := w.t.Entry(s, l)
	if int(p) >= len(w.g.PortChannel[s]) {
		return -1
	}
	return w.g.PortChannel[s][p]
}

// lid walks the paths to one LID from every switch, each until it joins another
// walk with the same service level on the same channel and lane.
func (w *walker) lid(l ib.LID) {
	g := w.g
	owner := g.LIDOwner[l]
	if owner == fabric.NoLID || g.EndPorts[owner].Switch < 0 {
		return
	}
	dst := &g.EndPorts[owner]
	for s := range int32(len(g.Switches)) {
		if s == dst.Switch || dst.Type == ib.NodeSwitch && !w.hasCA[s] {
			continue
		}
		sl := w.t.PathSL(s, l)
		c := w.out(s, l)
		if c < 0 {
			continue
		}
		for _, in := range w.hosts[s] {
			w.path(c, w.t.VL(s, in, g.Channels[c].OutPort, sl, g.Channels[c].VLs), sl, l)
		}
	}
	for _, c := range w.touched {
		w.seen[c] = [16]uint16{}
	}
	w.touched = w.touched[:0]
}

func (w *walker) path(c1 int32, v1 ib.VL, sl ib.SL, l ib.LID) {
	g := w.g
	for int(v1) < w.deps.Lanes() && w.seen[c1][v1]>>sl&1 == 0 {
		w.seen[c1][v1] |= 1 << sl
		w.touched = append(w.touched, c1)
		s := g.Channels[c1].To
		c2 := w.out(s, l)
		if c2 < 0 {
			return
		}
		a, z := &g.Channels[c1], &g.Channels[c2]
		v2 := w.t.VL(s, a.InPort, z.OutPort, sl, z.VLs)
		if int(v2) >= w.deps.Lanes() {
			return
		}
		d := dep(a, v1, z, v2)
		if w.deps.Count(d) == 0 {
			w.deps.Add(d, 1)
		}
		c1, v1 = c2, v2
	}
}

// dep is the dependency of packets that arrive by channel a and leave by z.
func dep(a *fabric.Channel, v1 ib.VL, z *fabric.Channel, v2 ib.VL) cdg.Dep {
	return cdg.Dep{Switch: a.To, In: a.InPort, InLane: uint8(v1), Out: z.OutPort, OutLane: uint8(v2)}
}
