// Package sssp routes every LID along a shortest path, the load balanced over the whole
// network rather than switch by switch, and, as dfsssp, puts the paths into as many
// virtual lanes as deadlock freedom needs.
//
// Engine sssp is the global balancing of T. Hoefler, T. Schneider and A. Lumsdaine,
// "Optimized Routing for Large-Scale InfiniBand Networks" (2009), with hops before
// weights; see route/engine/spt for the trees and how workers share them. Gathering trees
// are made first: on complete fat trees no two flows of a shift then share a link. If
// they load some link more than necessary, spreading trees are made too, and those with
// the smaller maximum load are used. Cost: O(LIDs × channels). It promises no deadlock
// freedom.
//
// Engine dfsssp adds the layers of J. Domke, T. Hoefler and W. Nagel, "Deadlock-Free
// Oblivious Routing for Arbitrary Topologies" (2011); see route/engine/layer. A service
// level is given to each pair of source switch and destination switch, or of source
// switch and destination LID where that takes fewer lanes. Cost: O(LIDs × switches) to
// count dependencies; then, for each cycle, a scan of the LIDs and the paths that move.
// Memory: the tables, one byte for each pair, and for each lane four bytes for each
// possible dependency (channels × ports).
//
// Invariants: every entry is on a path of least cost (hops, or Options.HopWeights) among
// the switches whose tables hold the LID; entries for unreachable LIDs are Drop; LIDs of
// one port use different adjacent switches, then links, as far as there are any. With
// dfsssp no lane has a cycle for traffic that can exist, or the engine refuses and names
// the lanes it needs.
package sssp

import (
	"slices"

	"heddle/fabric"
	"heddle/ib"
	"heddle/route"
	"heddle/route/engine"
	"heddle/route/engine/spt"
)

// Engine computes sssp tables. The zero value is ready to use.
type Engine struct{}

// Name is "sssp".
func (Engine) Name() string { return "sssp" }

// Compute returns the tables; Options.Workers, Previous, HopWeights and
// Unbalanced are used.
func (Engine) Compute(g *fabric.Graph, o route.Options) (*route.Tables, error) {
	ways, err := compute("sssp", g, o)
	if err != nil {
		return nil, err
	}
	r := ways[0]
	r.t.Memo = &memo{load: r.net.Load, spread: !r.net.Gather, asked: r.asked}
	return r.t, nil
}

const (
	// large is the number of table entries above which gathering trees are used
	// without trying others, if their load is within a fraction 1/slack of the
	// least possible.
	large = 1 << 19
	slack = 16
	// worth is the part of the largest load that gathering is worth where some
	// switches have no hosts: fewer flows of a permutation meet.
	worth = 32
)

// compute routes everything with gathering trees and, if those load some link
// more than necessary, with spreading trees. The result with the smaller
// maximum load comes first, the gathering one if they are equal. It depends on
// the graph and the options alone.
func compute(name string, g *fabric.Graph, o route.Options) ([]*router, error) {
	r, err := routes(name, g, o, true)
	if err != nil || r.load.Peak <= r.load.Least {
		return []*router{r}, err
	}
	if len(r.cols)*len(g.Switches) > large && r.load.Peak <= r.load.Least+r.load.Least/slack {
		return []*router{r}, nil
	}
	s, err := routes(name, g, o, false)
	switch {
	case err != nil:
		return nil, err
	case s.load.Peak < r.load.Peak:
		if slices.Contains(s.net.Sources, 0) && r.load.Peak <= s.load.Peak+s.load.Peak/worth {
			break
		}
		return []*router{s, r}, nil
	}
	return []*router{r, s}, nil
}

// routes makes trees of one kind.
func routes(name string, g *fabric.Graph, o route.Options, gather bool) (*router, error) {
	n := len(g.Switches)
	if o.Previous != nil && len(o.Previous.LFT) != n {
		return nil, route.Refuse(name, route.ErrInput, "previous tables are for %d switches, the graph has %d", len(o.Previous.LFT), n)
	}
	r := newRouter(g, o, route.New(name, n, g.TopLID), nil)
	if o.Previous != nil {
		r.keep(o.Previous.LFT, o.Previous.TopLID)
	}
	r.net.Gather = gather
	r.load = spt.Run(r.net, r.cols, r, o.Workers)
	return r, nil
}

// router fills tables with balanced shortest paths.
type router struct {
	asked uint64 // engine.Asked
	g     *fabric.Graph
	t     *route.Tables
	net   *spt.Net
	cols  []spt.Column // one for each LID that can be delivered, by switch, then LID
	lids  []ib.LID     // by column
	ca    []bool       // by switch: CA or router ports with LIDs hang on it
	host  []bool       // by column: its port is one of those CAs
	load  spt.Result

	prev   [][]byte // rows to keep entries of; nil: none
	picked []int32  // columns being routed, as indices of cols
	dirty  []bool   // by column: some entry has changed
	shared []bool   // by switch: the row belongs to other tables and is copied before it is written
}

// newRouter prepares to fill t; rows of it that are shared are copied first.
func newRouter(g *fabric.Graph, o route.Options, t *route.Tables, shared []bool) *router {
	n := len(g.Switches)
	r := &router{g: g, t: t, ca: make([]bool, n), shared: shared, asked: engine.Asked(o)}
	r.net = &spt.Net{
		Off: g.Off, To: make([]int32, len(g.Channels)), Rev: make([]int32, len(g.Channels)),
		Load: make([]uint64, len(g.Channels)), Sources: make([]uint32, n),
	}
	for c := range g.Channels {
		r.net.To[c], r.net.Rev[c] = g.Channels[c].To, g.Channels[c].Rev
	}
	r.net.Cost, r.t.Note = engine.Weights(g, o)
	light := make([]bool, len(g.EndPorts))
	var missing []ib.GUID
	for _, guid := range o.Unbalanced {
		if e := engine.Port(g, guid); e >= 0 {
			light[e] = true
		} else {
			missing = append(missing, guid)
		}
	}
	r.t.Note = engine.Notes(r.t.Note, engine.Missing("unbalanced ports", missing))
	r.columns(light)
	return r
}

// limits are the distinct table sizes that some LID is too high for, ascending.
func limits(g *fabric.Graph) []ib.LID {
	var l []ib.LID
	for s := range g.Switches {
		if c := ib.LID(g.Switches[s].LinearFDBCap); c != 0 && c <= g.TopLID {
			l = append(l, c)
		}
	}
	slices.Sort(l)
	return slices.Compact(l)
}

// columns lists the LIDs by destination switch, writes the entries of their own switches, and
// counts the senders.
func (r *router) columns(light []bool) {
	g := r.g
	n := len(g.Switches)
	limits := limits(g)
	r.net.Barred = make([][]bool, len(limits)+1)
	for k, limit := range limits {
		b := make([]bool, n)
		for s := range b {
			c := ib.LID(g.Switches[s].LinearFDBCap)
			b[s] = c != 0 && c <= limit
		}
		r.net.Barred[k+1] = b
	}

	off := make([]int32, n+1)
	for _, e := range g.LIDOwner {
		if e != fabric.NoLID && g.EndPorts[e].Switch >= 0 {
			off[g.EndPorts[e].Switch+1]++
		}
	}
	for s := range n {
		off[s+1] += off[s]
	}
	order := make([]ib.LID, off[n])
	for l, e := range g.LIDOwner {
		if e != fabric.NoLID && g.EndPorts[e].Switch >= 0 {
			s := g.EndPorts[e].Switch
			order[off[s]] = ib.LID(l)
			off[s]++
		}
	}
	r.cols = make([]spt.Column, 0, len(order))
	r.lids = make([]ib.LID, 0, len(order))
	r.host = make([]bool, 0, len(order))
	last, siblings := int32(-1), uint8(0)
	counted := make([]bool, len(g.EndPorts)) // its LIDs need not be consecutive
	for _, l := range order {
		e := g.LIDOwner[l]
		p := &g.EndPorts[e]
		class := 0
		for class < len(limits) && limits[class] <= l {
			class++
		}
		host := p.Type != ib.NodeSwitch
		if host && !counted[e] && !light[e] {
			r.net.Sources[p.Switch]++
			counted[e] = true
		}
		r.ca[p.Switch] = r.ca[p.Switch] || host
		siblings++
		if e != last {
			siblings = 0
		}
		last = e
		if class > 0 && r.net.Barred[class][p.Switch] {
			continue // its own switch cannot hold it
		}
		r.set(p.Switch, l, p.Port)
		c := spt.Column{Dst: p.Switch, Class: uint8(class), Siblings: siblings}
		if host && !light[e] {
			c.Paths = 1
		}
		r.cols = append(r.cols, c)
		r.lids = append(r.lids, l)
		r.host = append(r.host, host)
	}
}

// keep takes rows whose entries stay if no other is better.
func (r *router) keep(rows [][]byte, top ib.LID) {
	r.prev = make([][]byte, len(rows))
	for s, row := range rows {
		r.prev[s] = row[:min(len(row), int(top)+1)]
	}
}

func (r *router) column(col int) int {
	if r.picked != nil {
		return int(r.picked[col])
	}
	return col
}

// Keep implements spt.Sink.
func (r *router) Keep(col int, s int32) int32 {
	if r.prev == nil {
		return -1
	}
	l := int(r.lids[r.column(col)])
	row := r.prev[s]
	if l >= len(row) || int(row[l]) >= len(r.g.PortChannel[s]) {
		return -1
	}
	return r.g.PortChannel[s][row[l]]
}

// Set implements spt.Sink.
func (r *router) Set(col int, s, c int32) {
	i := r.column(col)
	port := byte(route.Drop)
	if c >= 0 {
		port = r.g.Channels[c].OutPort
	}
	if r.set(s, r.lids[i], port) && r.dirty != nil {
		r.dirty[i] = true
	}
}

// set writes an entry and reports whether it is another than before.
func (r *router) set(s int32, l ib.LID, port byte) bool {
	row := r.t.LFT[s]
	if row[l] == port {
		return false
	}
	if r.shared != nil && r.shared[s] {
		row = slices.Clone(row)
		r.t.LFT[s], r.shared[s] = row, false
	}
	row[l] = port
	return true
}
