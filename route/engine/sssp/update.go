package sssp

import (
	"slices"

	"heddle/fabric"
	"heddle/ib"
	"heddle/route"
	"heddle/route/engine"
	"heddle/route/engine/layer"
	"heddle/route/engine/spt"
)

// Update updates tables incrementally after a change of the fabric. It recomputes
// trees that used a removed channel, or that a new one could shorten, and keeps
// entries if no other is better; it does not process the rest. Once paths were lost,
// trees spread until all are computed from scratch. Affected trees are found from the
// rows of the switches that lost a channel, and from one search on the old graph for
// each end of a new one. Cost: that, O(channels) for each recomputed tree, and a copy
// of the changed rows. A new switch affects every tree. If some switch's table is too
// short for all LIDs, tables are computed from scratch.
func (e Engine) Update(from route.Solution, g *fabric.Graph, d *fabric.Delta, o route.Options) (*route.Tables, error) {
	m, ok := from.Tables.Memo.(*memo)
	if ok && m.layers == nil {
		if r := incremental("sssp", from, m, g, d, o); r != nil {
			r.t.Memo = &memo{load: r.net.Load, spread: !r.net.Gather, asked: r.asked}
			return r.t, nil
		}
	}
	return e.Compute(g, engine.Restart(from, g, o))
}

// Update updates tables incrementally like sssp. Pairs whose paths stay keep their
// service level; others keep it if the lane stays free of cycles, otherwise they move to
// another lane, or to an additional one if any is left. If that is not enough, the new
// tables are layered again; if those need too many lanes, they are computed from scratch,
// at last without regard to the old ones. In addition to sssp's, the cost is a copy of
// the layers (four bytes for each possible dependency) and of the service levels, and a
// walk of the changed paths.
func (e DFEngine) Update(from route.Solution, g *fabric.Graph, d *fabric.Delta, o route.Options) (*route.Tables, error) {
	m, ok := from.Tables.Memo.(*memo)
	if ok && m.layers != nil {
		if r := incremental("dfsssp", from, m, g, d, o); r != nil {
			p := r.paths(layer.NewGraph(g.Off, r.net.To, r.net.Rev), m.fine)
			if l := layer.Update(m.layers, p, r.change(m, d), route.Budget(g, o.MaxVLs), o.Workers); l != nil {
				r.finish(l, m.fine)
				r.t.Memo.(*memo).kept = true
				return r.t, nil
			}
			if r.split().take(o) == nil {
				return r.t, nil
			}
		}
	}
	again := engine.Restart(from, g, o)
	t, err := e.Compute(g, again)
	if err != nil && again.Previous != nil {
		again.Previous = nil
		return e.Compute(g, again)
	}
	return t, err
}

// change describes the changed columns to the layering.
func (r *router) change(m *memo, d *fabric.Delta) *layer.Change {
	c := &layer.Change{
		Switch: d.Switch, Gone: d.OldSwitch, Channel: d.Channel, GoneChannel: d.OldChannel,
		Column: make([]int32, len(r.cols)), Touched: r.dirty,
	}
	was := make([]int32, int(max(r.g.TopLID, m.top))+1) // 1 + column, by LID
	for i, l := range m.lids {
		was[l] = int32(i) + 1
	}
	for _, l := range d.LIDs {
		was[l] = 0
	}
	for i, l := range r.lids {
		c.Column[i] = was[l] - 1
	}
	return c
}

// rows are tables of g with the rows of older ones, and whether each is shared.
func rows(name string, from route.Solution, g *fabric.Graph, d *fabric.Delta) (t *route.Tables, shared []bool) {
	width := route.RowLen(g.TopLID)
	t = &route.Tables{Engine: name, LFT: make([][]byte, len(g.Switches)), TopLID: g.TopLID, NumVLs: 1}
	shared = make([]bool, len(g.Switches))
	for s, k := range d.Switch {
		var row []byte
		if k >= 0 {
			row = from.Tables.LFT[k]
		}
		if len(row) >= width {
			t.LFT[s], shared[s] = row[:width:width], true
			continue
		}
		t.LFT[s] = slices.Grow(slices.Clone(row), width-len(row))[:width]
		for l := len(row); l < width; l++ {
			t.LFT[s][l] = route.Drop
		}
	}
	return t, shared
}

// incremental is the update of sssp; nil if it is better to compute from scratch.
func incremental(name string, from route.Solution, m *memo, g *fabric.Graph, d *fabric.Delta, o route.Options) *router {
	old := from.Graph
	if o.Rebalance || m.asked != engine.Asked(o) || len(from.Tables.LFT) != len(old.Switches) || len(limits(old)) > 0 || len(limits(g)) > 0 {
		return nil
	}
	if !engine.Whole(from.Tables) {
		return nil
	}
	t, shared := rows(name, from, g, d)
	r := newRouter(g, o, t, shared)
	r.prev = make([][]byte, len(g.Switches))
	for s, k := range d.Switch {
		if k >= 0 {
			r.prev[s] = from.Tables.LFT[k][:int(from.Tables.TopLID)+1]
		}
	}
	for _, l := range d.LIDs {
		if int(l) <= int(g.TopLID) && g.LIDOwner[l] != fabric.NoLID && g.EndPorts[g.LIDOwner[l]].Switch >= 0 {
			continue
		}
		for s := range t.LFT { // without an owner
			if int(l) < route.RowLen(g.TopLID) {
				r.set(int32(s), l, route.Drop)
			}
		}
	}
	for c, k := range d.Channel {
		if k >= 0 {
			r.net.Load[c] = m.load[k]
		}
	}
	r.dirty = make([]bool, len(r.cols))
	affected, lost := r.affected(from, d, o)
	// Gathering again the packets of a lost link would double the load of another.
	r.net.Gather = !m.spread && !lost
	w := &walker{old: old, t: from.Tables, d: d, load: r.net.Load, sources: sources(old, o)}
	cols := make([]spt.Column, 0, len(affected))
	for _, i := range affected {
		w.takeOff(r.lids[i])
		cols = append(cols, r.cols[i])
	}
	for _, l := range d.LIDs {
		if int(l) > int(g.TopLID) || g.LIDOwner[l] == fabric.NoLID {
			w.takeOff(l)
		}
	}
	r.picked = affected
	spt.Run(r.net, cols, r, o.Workers)
	return r
}

// affected lists the columns to recompute; lost reports whether some of them
// used a removed channel.
func (r *router) affected(from route.Solution, d *fabric.Delta, o route.Options) (cols []int32, lost bool) {
	old := from.Graph
	lid := make([]bool, int(max(r.g.TopLID, from.Tables.TopLID))+1)
	gone := make([]bool, len(lid))
	for _, l := range d.LIDs {
		lid[l] = true
	}
	for c, k := range d.OldChannel {
		if k >= 0 {
			continue
		}
		ch := &old.Channels[c]
		if d.OldSwitch[ch.From] < 0 {
			continue // it has no user left
		}
		for l, p := range from.Tables.LFT[ch.From][:int(from.Tables.TopLID)+1] {
			if p == ch.OutPort {
				lid[l], gone[l] = true, true
			}
		}
	}
	dst := r.shortened(old, d, o)
	for i := 0; i < len(r.cols); {
		// All LIDs of a port or none, so that they keep apart.
		j := i
		any := false
		for ; j < len(r.cols) && (j == i || r.cols[j].Siblings > 0); j++ {
			any = any || lid[r.lids[j]] || dst != nil && dst[r.cols[j].Dst]
			lost = lost || gone[r.lids[j]]
			// An entry may be unchanged and lead elsewhere.
			r.dirty[j] = lid[r.lids[j]]
		}
		for ; i < j; i++ {
			if any {
				cols = append(cols, int32(i))
			}
		}
	}
	return cols, lost
}

// shortened marks the destination switches to which new channels could give
// shorter paths: distances in the old graph that decrease by no more than the
// cost along every new channel stay valid. nil: none.
func (r *router) shortened(old *fabric.Graph, d *fabric.Delta, o route.Options) []bool {
	var dst []bool
	cost, _ := engine.Weights(old, o)
	reach := map[int32][]uint32{} // by old switch: cost to every other
	for c, k := range d.Channel {
		if k >= 0 {
			continue
		}
		if dst == nil {
			dst = make([]bool, len(r.g.Switches))
		}
		ch := &r.g.Channels[c]
		u, v := d.Switch[ch.From], d.Switch[ch.To]
		if u < 0 || v < 0 || len(reach) > len(old.Switches)/2 {
			for s := range dst {
				dst[s] = true
			}
			return dst
		}
		for _, s := range [2]int32{u, v} {
			if reach[s] == nil {
				reach[s] = costs(old, cost, s)
			}
		}
		w := uint32(1)
		if r.net.Cost != nil {
			w = uint32(r.net.Cost[c])
		}
		a, b := reach[u], reach[v]
		for s, k := range d.Switch {
			if k < 0 || b[k] != far && a[k] > b[k]+w {
				dst[s] = true
			}
		}
	}
	return dst
}

const far = ^uint32(0) - 256

// costs finds the cost from a switch to every other, in Dial's buckets.
func costs(g *fabric.Graph, cost []uint8, from int32) []uint32 {
	dist := make([]uint32, len(g.Switches))
	for s := range dist {
		dist[s] = far
	}
	dist[from] = 0
	var ring [256][]int32
	ring[0] = append(ring[0], from)
	for d, left := uint32(0), 1; left > 0; d++ {
		bucket := ring[d&255]
		ring[d&255] = nil
		left -= len(bucket)
		for _, u := range bucket {
			if dist[u] != d {
				continue
			}
			for c := g.Off[u]; c < g.Off[u+1]; c++ {
				e := d + 1
				if cost != nil {
					e = d + uint32(cost[c])
				}
				if v := g.Channels[c].To; e < dist[v] {
					dist[v] = e
					ring[e&255] = append(ring[e&255], v)
					left++
				}
			}
		}
	}
	return dist
}

// sources counts the loading ports of each switch, as columns does.
func sources(g *fabric.Graph, o route.Options) *router {
	t := &route.Tables{LFT: make([][]byte, len(g.Switches)), TopLID: g.TopLID}
	width := route.RowLen(g.TopLID)
	slab := make([]byte, width) // own entries are of no interest
	for s := range t.LFT {
		t.LFT[s] = slab
	}
	return newRouter(g, o, t, nil)
}

// walker takes the load of old trees off.
type walker struct {
	old     *fabric.Graph
	t       *route.Tables
	d       *fabric.Delta
	load    []uint64
	sources *router
	paths   []uint32 // by LID
	next    []int32
	left    []int32
	flow    []uint32
	queue   []int32
}

func (w *walker) takeOff(l ib.LID) {
	n := len(w.old.Switches)
	if w.paths == nil {
		w.paths = make([]uint32, int(w.old.TopLID)+1)
		for i, l := range w.sources.lids {
			w.paths[l] = w.sources.cols[i].Paths
		}
		w.next, w.left, w.flow = make([]int32, n), make([]int32, n), make([]uint32, n)
	}
	if int(l) >= len(w.paths) || w.paths[l] == 0 {
		return
	}
	clear(w.left)
	for s := range n {
		w.next[s] = -1
		w.flow[s] = w.sources.net.Sources[s]
		if p := w.t.Entry(int32(s), l); int(p) < len(w.old.PortChannel[s]) {
			if c := w.old.PortChannel[s][p]; c >= 0 {
				w.next[s] = c
				w.left[w.old.Channels[c].To]++
			}
		}
	}
	w.queue = w.queue[:0]
	for s, k := range w.left {
		if k == 0 {
			w.queue = append(w.queue, int32(s))
		}
	}
	for h := 0; h < len(w.queue); h++ {
		s := w.queue[h]
		c := w.next[s]
		if c < 0 {
			continue
		}
		v := w.old.Channels[c].To
		f := w.flow[s]
		w.flow[v] += f
		if k := w.d.OldChannel[c]; k >= 0 {
			// Loads are heuristic only, but must not wrap.
			w.load[k] -= min(w.load[k], uint64(f))
		}
		if w.left[v]--; w.left[v] == 0 {
			w.queue = append(w.queue, v)
		}
	}
}
