package transition

import (
	"slices"

	"heddle/fabric"
	"heddle/ib"
	"heddle/route"
)

// A guard is an SL-to-VL table of a switch that discards (lane 15, IBA §7.6.6) packets of some
// service levels from one port to another: a turn that no data packet takes which uses the tables
// as they will be. So it loses packets that could close a cycle: those of hosts that have yet to
// learn a new level, and those in flight that meet new entries. It may also lose packets between
// two switches' own ports, which nothing sends (data traffic, see route/check).
//
// Guards stay until hosts have learned and packets have left; then the tables without them are
// installed like any others.

// guard collects dependencies, each once.
type guard struct {
	edges []edge
	has   map[int64]bool
}

func (k *guard) take(e edge) {
	if !k.has[e.bit] {
		k.has[e.bit] = true
		k.edges = append(k.edges, e)
	}
}

// guards returns SL-to-VL tables for t that discard none of the packets of pass, with which nothing
// that hosts may send, and nothing in flight, closes a cycle: neither while the entries of installed,
// first and t mix, nor later.
// installed has the service levels that hosts use now. n counts the tables that discard something.
// waits says that packets may be waiting at such a turn already: they found their output before the
// switch took its guard, and are gone when they have left that switch. ok is false if there are no
// such tables: packets may be at unknown places, or a switch that cannot be written, or a link with
// one lane, would have to discard.
func guards(g *fabric.Graph, installed, first, t *route.Tables, pass []sent, o *Options) (lanes *route.Lanes, n int, waits, ok bool) {
	held := o.Held.Next(installed, nil, len(g.Switches))
	p := *o
	p.Held, p.GroupLevels, p.spare = nil, nil, 0
	for _, m := range held.Mask {
		p.spare |= m
	}
	for _, m := range o.GroupLevels {
		p.spare |= m
	}
	before := p
	p.Recent = append(slices.Clone(o.Recent), Recent{Tables: installed}, Recent{Tables: first})
	f, recent := newBareFitter(g, t, t, &p)
	if f == nil {
		return nil, 0, false, false
	}
	f.s = newSeeker(f)
	for _, p := range pass {
		f.w.edges = f.w.edges[:0]
		if !f.along(t, p) || !f.insert() {
			return nil, 0, false, false // newLevels has inserted all of them
		}
	}
	f.guard = &guard{has: map[int64]bool{}}
	if !f.gather(held, o.GroupLevels, recent) {
		return nil, 0, false, false
	}
	var closing []edge
	for i, e := range f.guard.edges {
		// Switches discard packets that would leave by the port they came in by (IBA §16.1.3.5).
		back := f.x.inPort[e.u/f.x.lanes] == f.x.outPort[e.v/f.x.lanes]
		if !back && !f.ins.all(f.guard.edges[i:i+1]) {
			closing = append(closing, e)
		}
	}
	if len(closing) == 0 {
		return t.Lanes, 0, false, true
	}
	lanes, n, ok = f.x.guarded(t, closing)
	return lanes, n, waitsAt(g, installed, t, held, o.GroupLevels, &before, f, closing), ok
}

// relabel makes t, with new service levels for n destinations, the tables after the second step,
// with guards if there are such.
func (r *Fitted) relabel(g *fabric.Graph, installed, t *route.Tables, pass []sent, n int, o *Options) {
	lanes, tables, waits, ok := guards(g, installed, r.First, t, pass, o)
	if !ok && o.RepathTime <= 0 {
		return // the risk would have no end
	}
	r.Tables, r.NewLevels = t, n
	r.Late += r.Left
	r.Left = 0
	if ok {
		t.Lanes, r.Guarded, r.Guards, r.waits = lanes, true, tables, waits
	}
}

// gather adds to the guard's dependencies those of packets of recent states, and of hosts that use
// held levels on the installed entries. It reports whether that is all there can be.
func (f *fitter) gather(held *Held, groups map[ib.LID]uint16, recent []Recent) bool {
	f.x.held, f.x.groups = held, groups
	f.remember(recent, (&builder{x: f.x, o: f.o}).drain(1))
	for l := ib.LID(1); int(l) < len(f.broken); l++ {
		f.w.edges = f.w.edges[:0]
		if !f.x.depsOf(f.w, l, installedOnly) {
			return false
		}
		f.insertEach(f.w)
	}
	return !f.partly
}

// waitsAt reports whether packets may wait at one of some dependencies of f before anything is
// written.
func waitsAt(g *fabric.Graph, installed, t *route.Tables, held *Held, groups map[ib.LID]uint16, o *Options, f *fitter, list []edge) bool {
	h, recent := newBareFitter(g, installed, t, o)
	if h == nil || h.x.lanes != f.x.lanes || h.x.cross != f.x.cross {
		return true
	}
	h.guard = &guard{has: map[int64]bool{}}
	if !h.gather(held, groups, recent) {
		return true
	}
	return slices.ContainsFunc(list, func(e edge) bool { return h.ins.deps.has(e.bit) || h.guard.has[e.bit] })
}

// guarded are the SL-to-VL tables of t, but discarding at the dependencies of a list.
func (x *mixer) guarded(t *route.Tables, list []edge) (*route.Lanes, int, bool) {
	l := &route.Lanes{Guards: true, Index: make([][]uint8, x.managed), Stride: make([]uint16, x.managed)}
	at := map[[16]ib.VL]uint8{}
	put := func(s int32, i int, row *[16]ib.VL) bool {
		k, ok := at[*row]
		if !ok {
			if len(l.Rows) == route.Modulo {
				return false
			}
			k = uint8(len(l.Rows))
			at[*row] = k
			l.Rows = append(l.Rows, *row)
		}
		l.Index[s][i] = k
		return true
	}
	for s := range int32(x.managed) {
		ports := int(x.g.Switches[s].NumPorts) + 1
		for out := range x.g.PortChannel[s] {
			ports = max(ports, out+1)
		}
		l.Stride[s], l.Index[s] = uint16(ports), slices.Repeat([]uint8{route.Modulo}, ports*ports)
		for i := range l.Index[s] {
			in, out := uint8(i/ports), uint8(i%ports)
			c := x.port[int(s)<<8|int(out)]
			if c < 0 && (t.Lanes == nil || t.Lanes.Row(s, in, out) == nil) {
				continue
			}
			if row := x.laneRow(t.Lanes, s, in, out, c); !put(s, i, &row) {
				return nil, 0, false
			}
		}
	}
	n := 0
	for _, e := range list {
		c1, lane1, c2, lane2 := e.u/x.lanes, e.u%x.lanes, e.v/x.lanes, e.v%x.lanes
		s, in, out := x.to[c1], x.inPort[c1], x.outPort[c2]
		if int(s) >= x.managed || x.vls[c2] < 2 || max(in, out) >= uint8(min(l.Stride[s], 255)) {
			return nil, 0, false
		}
		i := int(in)*int(l.Stride[s]) + int(out)
		was := l.Rows[l.Index[s][i]]
		row := was
		for sl := range row {
			if int32(row[sl]) == lane2 && int32(uint8(sl)%x.vls[c1]) == lane1 {
				row[sl] = 15
			}
		}
		if row == was {
			continue
		}
		if !put(s, i, &row) {
			return nil, 0, false
		}
		if !slices.Contains(was[:], 15) {
			n++
		}
	}
	return l, n, true
}

// meetsGuard reports whether a guard discards packets to l, on the levels of the installed tables,
// that follow channels by switch to d.
func (f *fitter) meetsGuard(l ib.LID, d int32, next []int32) bool {
	x := f.x
	if g := x.old.Lanes; g == nil || !g.Guards {
		return false
	}
	for s := range int32(x.managed) {
		sl := x.old.PathSL(s, l)
		c := next[s]
		for range x.n {
			if c < 0 || x.to[c] == d {
				break
			}
			k := next[x.to[c]]
			if k >= 0 && x.lanesOf(k, x.inPort[c], sl, oldLanes) == 0 {
				return true
			}
			c = k
		}
	}
	return false
}
