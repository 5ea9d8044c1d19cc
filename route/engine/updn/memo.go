package updn

import (
	"slices"

	"heddle/fabric"
	"heddle/ib"
	"heddle/route"
	"heddle/route/engine"
)

// memo is the state for Update. Memos share rows; a row is copied before it
// changes.
type memo struct {
	// dist gives, by destination switch, the cost from every switch by the chosen
	// path, or none; with the bit entered if a switch above may send down to it.
	// down gives the cost of the cheapest path that only goes down.
	dist, down [][]uint8
	loads      []uint64 // by channel
	order      []int32
	asked      uint64 // engine.Asked

	// roots are Options.Roots and the detected ones, removed ones included. known
	// (ascending), cables and hosts describe the fabric in which roots were last
	// detected.
	roots  []ib.GUID
	found  bool
	known  []ib.GUID
	cables int // twice that
	hosts  int
}

// Maker implements route.Memory.
func (*memo) Maker() string { return "updn" }

const (
	none    = 127 // costs are below it
	cost    = 0x7F
	entered = 0x80
)

// store keeps a planner's result for destination dst, if it fits.
func (m *memo) store(dst int32, dist, only []uint32, in []bool) {
	n := len(dist)
	rows := make([]uint8, 2*n)
	a, b := rows[:n:n], rows[n:]
	for s, d := range dist {
		if d < far && d >= none || only[s] < far && only[s] >= none {
			m.dist[dst], m.down[dst] = nil, nil
			return
		}
		a[s], b[s] = uint8(min(d, none)), uint8(min(only[s], none))
		if in[s] && int32(s) != dst {
			a[s] |= entered
		}
	}
	m.dist[dst], m.down[dst] = a, b
}

// learn records the roots used.
func (m *memo) learn(g *fabric.Graph, o route.Options, r *ranking) {
	m.roots, m.found = slices.Clone(o.Roots), false
	m.find(g, r)
}

// find adds the roots that r has found.
func (m *memo) find(g *fabric.Graph, r *ranking) {
	if !r.Found {
		return
	}
	m.found = true
	m.roots = slices.Clip(m.roots)
	for _, s := range r.Roots {
		if guid := g.Switches[s].GUID; !slices.Contains(m.roots, guid) {
			m.roots = append(m.roots, guid)
		}
	}
	m.known = make([]ib.GUID, len(g.Switches))
	for s := range g.Switches {
		m.known[s] = g.Switches[s].GUID
	}
	m.cables, m.hosts = len(g.Channels), r.hosts
}

// grown reports whether the fabric is larger than when roots were last found.
func (m *memo) grown(ch *engine.Change) bool {
	if len(ch.G.Channels) > m.cables {
		return true
	}
	for s, o := range ch.Switch {
		if o >= 0 {
			continue
		}
		if _, ok := slices.BinarySearch(m.known, ch.G.Switches[s].GUID); !ok {
			return true
		}
	}
	hosts := 0
	for i := range ch.G.EndPorts {
		if e := &ch.G.EndPorts[i]; e.Switch >= 0 && e.Type != ib.NodeSwitch {
			hosts++
		}
	}
	return hosts*4 > m.hosts*5
}

// update updates tables incrementally, or computes them from scratch.
func update(from route.Solution, g *fabric.Graph, d *fabric.Delta, o route.Options, name string, mirrored bool) (*route.Tables, error) {
	m, ok := from.Tables.Memo.(*memo)
	if ok && from.Tables.Engine == name && m.asked == engine.Asked(o) {
		if ch := engine.NewChange(from, g, d, o); ch != nil {
			if t := m.incremental(ch, o, name, mirrored); t != nil {
				return t, nil
			}
		}
	}
	return compute(g, engine.Restart(from, g, o), name, mirrored)
}

// incremental returns nil if computing from scratch is better.
func (m *memo) incremental(ch *engine.Change, o route.Options, name string, mirrored bool) *route.Tables {
	now := &memo{asked: m.asked, roots: m.roots, found: m.found, known: m.known, cables: m.cables, hosts: m.hosts}
	var r *ranking
	if m.found && m.grown(ch) {
		r = rank(ch.G, o, o.Roots, mirrored)
		now.learn(ch.G, o, r)
	} else {
		r = rank(ch.G, o, m.roots, mirrored)
		now.find(ch.G, r)
	}
	weights, note := engine.Weights(ch.G, o)
	p := newRepair(ch, newShape(ch.G, r.Order, weights), m.order, now)
	if p == nil {
		return nil
	}
	now.dist, now.down = ch.Rows(m.dist, none), ch.Rows(m.down, none)
	t, loads := ch.Update(name, m.loads, p.worker)
	if t == nil {
		return nil
	}
	now.loads, now.order = loads, r.Order
	t.Note = engine.Notes(r.Note, note, t.Note)
	t.Memo = now
	return t
}
