package engine

import (
	"bytes"
	"slices"

	"heddle/fabric"
	"heddle/ib"
	"heddle/route"
)

// Repairer is what an engine adds to Update. Each goroutine has its own; what
// they know of the destinations is shared, and written by Repair only.
type Repairer interface {
	// Repair brings what is known of destination dst up to date and appends
	// to touched the switches where a choice that was allowed may be no more;
	// twice is no harm. It is false if that cannot be held any more.
	Repair(dst int32, touched []int32) ([]int32, bool)
	// May reports whether the switch that channel c leaves may use it towards
	// dst. It and Cost are called once all destinations are repaired.
	May(dst, c int32) bool
	// Cost falls along every channel that May allows; Far if there is none.
	Cost(dst, s int32) int
}

// Far is the Cost of switches without a route.
const Far = 1 << 30

// Change is a step from one graph, with its tables, to another. Build it with
// NewChange.
type Change struct {
	*fabric.Delta
	Old, G *fabric.Graph
	// Lost are the old channels that are gone, New the new ones that were not.
	Lost, New []int32

	o       route.Options
	from    *route.Tables
	sp      *spread  // the new graph
	was     []uint32 // by old switch: loading ports
	gone    []int32  // old switches that are gone; they are called len(G.Switches) and on
	goneIs  []int32  // by old switch: what it is called now
	dropped []ib.LID // LIDs that lose their way altogether
	undone  []ib.LID // LIDs whose load of old is taken off
	state   []uint8  // by LID
	grown   []int32  // switches whose number of loading ports changed
}

// What is to do about a LID.
const (
	asIs    = iota // entries stay where they are allowed
	deliver        // the last switch has another entry
	fresh          // every switch decides
)

// A change that touches more than one channel in so many, or one LID in so
// many, is not carried over.
const (
	channelShare = 16
	lidShare     = 8
	alwaysSmall  = 80 // channels, LIDs
)

// NewChange prepares Update. It is nil where computing from scratch is better:
// o asks for it, the change is large, or tables of switches are too short for
// some LIDs.
func NewChange(from route.Solution, g *fabric.Graph, d *fabric.Delta, o route.Options) *Change {
	old, t := from.Graph, from.Tables
	if o.Rebalance || len(t.LFT) != len(old.Switches) || short(old) || short(g) {
		return nil
	}
	for _, row := range t.LFT {
		if len(row) < route.RowLen(t.TopLID) {
			return nil
		}
	}
	ch := &Change{Delta: d, Old: old, G: g, o: o, from: t}
	if !d.SameChannels {
		for c, k := range d.Channel {
			if k < 0 {
				ch.New = append(ch.New, int32(c))
			}
		}
		for c, k := range d.OldChannel {
			if k < 0 {
				ch.Lost = append(ch.Lost, int32(c))
			}
		}
	}
	if k := len(ch.New) + len(ch.Lost); k > max(alwaysSmall, len(g.Channels)/channelShare) || len(d.LIDs) > max(alwaysSmall, int(g.TopLID)/lidShare) {
		return nil
	}
	o.Previous = nil
	ch.sp = newSpread(g, o)
	before := readWishes(old, o)
	ch.was = before.hosts(old)
	ch.goneIs = make([]int32, len(old.Switches))
	for s, k := range d.OldSwitch {
		ch.goneIs[s] = k
		if k < 0 {
			ch.goneIs[s] = int32(len(g.Switches) + len(ch.gone))
			ch.gone = append(ch.gone, int32(s))
		}
	}
	for s, k := range d.Switch {
		if k >= 0 && ch.was[k] != ch.sp.hosts[s] {
			ch.grown = append(ch.grown, int32(s))
		}
	}
	for _, s := range ch.gone {
		if ch.was[s] > 0 {
			ch.grown = append(ch.grown, ch.goneIs[s])
		}
	}
	ch.sort(before)
	return ch
}

// sort decides what is to do about each LID.
func (ch *Change) sort(before *wishes) {
	ch.state = make([]uint8, int(ch.G.TopLID)+1)
	for _, l := range ch.LIDs {
		a, b := owner(ch.Old, l), owner(ch.G, l)
		var p, q *fabric.EndPort
		if a >= 0 {
			p = &ch.Old.EndPorts[a]
		}
		if b >= 0 {
			q = &ch.G.EndPorts[b]
		}
		if a >= 0 && b >= 0 && ch.OldSwitch[p.Switch] == q.Switch && before.unloaded[a] == ch.sp.unloaded[b] {
			ch.state[l] = deliver
			continue
		}
		if a >= 0 && !before.unloaded[a] {
			ch.undone = append(ch.undone, l)
		}
		switch {
		case b >= 0:
			ch.state[l] = fresh
		case a >= 0:
			ch.dropped = append(ch.dropped, l)
		}
	}
}

// owner is the end port that has a LID and hangs on a switch, or -1.
func owner(g *fabric.Graph, l ib.LID) int32 {
	if int(l) >= len(g.LIDOwner) {
		return -1
	}
	e := g.LIDOwner[l]
	if e == fabric.NoLID || g.EndPorts[e].Switch < 0 {
		return -1
	}
	return e
}

func short(g *fabric.Graph) bool {
	for s := range g.Switches {
		if c := ib.LID(g.Switches[s].LinearFDBCap); c != 0 && c <= g.TopLID {
			return true
		}
	}
	return false
}

// lids are the LIDs behind switch d.
func (ch *Change) lids(d int32) []ib.LID { return ch.sp.lids[ch.sp.off[d]:ch.sp.off[d+1]] }

// Rows carries rows of one byte by switch, one row for each destination
// switch, over to the switches of the new graph: fill stands where a switch
// is new. Rows are shared where nothing moved; those of new destinations, and
// of destinations without LIDs, are nil.
func (ch *Change) Rows(old [][]uint8, fill uint8) [][]uint8 {
	rows := make([][]uint8, len(ch.Switch))
	if ch.SameSwitches {
		copy(rows, old)
	} else {
		var runs [][3]int // from, to in the new row; from in the old one, -1 for fill
		for s, o := range ch.Switch {
			if k := len(runs) - 1; k >= 0 && (o < 0) == (runs[k][2] < 0) && (o < 0 || int(o) == runs[k][2]+s-runs[k][0]) {
				runs[k][1] = s + 1
				continue
			}
			runs = append(runs, [3]int{s, s + 1, int(o)})
		}
		route.ForEach(ch.o.Workers, len(rows), func(_, d int) {
			k := ch.Switch[d]
			if k < 0 || old[k] == nil {
				return
			}
			row := make([]uint8, len(rows))
			for _, r := range runs {
				if r[2] >= 0 {
					copy(row[r[0]:r[1]], old[k][r[2]:])
					continue
				}
				for s := r[0]; s < r[1]; s++ {
					row[s] = fill
				}
			}
			rows[d] = row
		})
	}
	for d := range rows {
		if !ch.sp.wanted(int32(d)) {
			rows[d] = nil
		}
	}
	return rows
}

// Complete reports whether every destination switch with LIDs has a row.
func Complete(g *fabric.Graph, rows [][]uint8) bool {
	for l := range g.LIDOwner {
		if e := owner(g, ib.LID(l)); e >= 0 && rows[g.EndPorts[e].Switch] == nil {
			return false
		}
	}
	return true
}

func (sp *spread) wanted(d int32) bool {
	return sp.off[d] < sp.off[d+1] || slices.ContainsFunc(sp.first, func(e int32) bool { return sp.g.EndPorts[e].Switch == d })
}

// columns is what is to do about the LIDs behind one switch: each job lists
// the switches that have to decide, nearest first.
type columns struct {
	jobs []job
	who  []int32
}

type job struct {
	lid    ib.LID
	fresh  bool
	lo, hi int32 // of who
}

// carried is what Update works with, beside the Change.
type carried struct {
	*Change
	rows   [][]byte  // the new tables; shared with the old until copied
	shared []bool    // by switch
	loads  []int64   // by channel
	todo   []columns // by destination switch
}

// Update carries tables over a change. loads are those of the old tables; the
// new ones are returned. Only entries that are not allowed any more, for LIDs
// that are new and at switches that are new are chosen: the least loaded of
// the choices, counting paths as Spread does. Loads are exact: the paths
// that an entry moves are found by going up the tree of its LID. The result
// does not depend on the number of workers. It is nil if a Repairer gave up.
//
// Cost: one Repair for each destination, then O(ports) table look-ups for
// each switch that sends by a moved entry, and the copies of changed rows.
func (ch *Change) Update(name string, loads []uint64, repairer func() Repairer) (*route.Tables, []uint64) {
	g := ch.G
	n := len(g.Switches)
	c := &carried{Change: ch, todo: make([]columns, n)}
	c.reuse()
	c.carryLoads(loads)

	workers := max(ch.o.Workers, 1)
	repairers := make([]Repairer, workers)
	finders := make([]*finder, workers)
	for i := range workers {
		repairers[i] = repairer()
		finders[i] = c.newFinder(repairers[i])
	}
	const run = 32 // destinations at a time
	bad := make([]bool, workers)
	route.ForEach(workers, (n+run-1)/run, func(w, i int) {
		for d := i * run; d < min((i+1)*run, n); d++ {
			if ch.sp.wanted(int32(d)) && !finders[w].find(int32(d)) {
				bad[w] = true
			}
		}
	})
	if slices.Contains(bad, true) {
		return nil, nil
	}
	need := make([]bool, n)
	for _, f := range finders {
		for s, is := range f.need {
			need[s] = need[s] || is
		}
	}
	if len(ch.dropped) > 0 {
		for s := range need {
			need[s] = need[s] || slices.ContainsFunc(ch.dropped, func(l ib.LID) bool {
				return int(l) < len(c.rows[s]) && c.rows[s][l] != route.Drop
			})
		}
	}
	route.ForEach(workers, n, func(_, s int) {
		if need[s] && c.shared[s] {
			c.rows[s] = bytes.Clone(c.rows[s])
		}
	})
	wrote, ok := c.move(repairers)
	if !ok {
		return nil, nil
	}
	for s := range need {
		for _, l := range ch.dropped {
			if row := c.rows[s]; int(l) < len(row) && row[l] != route.Drop {
				row[l], wrote[s] = route.Drop, true
			}
		}
		if c.shared[s] && need[s] && !wrote[s] {
			o := ch.Switch[s]
			c.rows[s] = ch.from.LFT[o][:len(c.rows[s]):len(c.rows[s])]
		}
	}
	t := &route.Tables{Engine: name, Note: ch.sp.note, LFT: c.rows, TopLID: g.TopLID, NumVLs: 1}
	out := make([]uint64, len(c.loads))
	for i, x := range c.loads {
		out[i] = uint64(x)
	}
	return t, out
}

// reuse makes the rows of the new tables from the old ones.
func (c *carried) reuse() {
	g := c.G
	n, width := len(g.Switches), route.RowLen(g.TopLID)
	c.rows, c.shared = make([][]byte, n), make([]bool, n)
	for s, o := range c.Switch {
		var have []byte
		if o >= 0 {
			have = c.from.LFT[o]
		}
		if len(have) >= width {
			c.rows[s], c.shared[s] = have[:width:width], true
			continue
		}
		row := make([]byte, width)
		for i := copy(row, have); i < width; i++ {
			row[i] = route.Drop
		}
		c.rows[s] = row
	}
}

// carryLoads brings the loads to the new channels, without the LIDs whose old
// tree is given up.
func (c *carried) carryLoads(loads []uint64) {
	c.loads = make([]int64, len(c.Channel))
	for i, o := range c.Channel {
		if o >= 0 {
			c.loads[i] = int64(loads[o])
		}
	}
	old := c.Old
	for _, l := range c.undone {
		for s, h := range c.was {
			if h == 0 {
				continue
			}
			u := int32(s)
			for range old.Switches {
				p := c.from.LFT[u][l]
				if int(p) >= len(old.PortChannel[u]) || old.PortChannel[u][p] < 0 {
					break
				}
				oc := old.PortChannel[u][p]
				if k := c.OldChannel[oc]; k >= 0 {
					c.loads[k] -= int64(h)
				}
				u = old.Channels[oc].To
			}
		}
	}
}

// finder finds what has to move, one destination at a time.
type finder struct {
	*carried
	r       Repairer
	need    []bool // by switch: its row may change
	touched []int32
	seen    []int32 // by switch: 1 + the last destination it was touched for
	bySpan  []int32
	span    []int32
}

func (c *carried) newFinder(r Repairer) *finder {
	n := len(c.G.Switches)
	return &finder{carried: c, r: r, need: make([]bool, n), seen: make([]int32, n)}
}

// find repairs destination d and lists its jobs; false if that failed.
func (f *finder) find(d int32) bool {
	touched, ok := f.r.Repair(d, f.touched[:0])
	if !ok {
		return false
	}
	for s, o := range f.Switch {
		if o < 0 {
			touched = append(touched, int32(s))
		}
	}
	k := 0
	for _, s := range touched {
		if s != d && f.seen[s] != d+1 {
			f.seen[s] = d + 1
			touched[k] = s
			k++
		}
	}
	touched = touched[:k]
	f.touched = touched

	lids := f.lids(d)
	if len(f.sp.first) > 0 {
		lids = slices.Clone(lids)
		for i, e := range f.sp.first {
			if f.G.EndPorts[e].Switch == d {
				lids = append(lids, f.sp.ahead[i]...)
			}
		}
	}
	col := &f.todo[d]
	sorted := false
	everyone := -1 // where the list of all switches is
	for _, l := range lids {
		if f.state[l] == fresh {
			if everyone < 0 {
				everyone = len(col.who)
				col.who = f.all(d, col.who)
			}
			col.jobs = append(col.jobs, job{l, true, int32(everyone), int32(everyone + len(f.G.Switches) - 1)})
			for s := range f.need {
				f.need[s] = true
			}
			continue
		}
		lo := len(col.who)
		for i := 0; i < len(touched); i++ {
			s := touched[i]
			if f.stays(d, s, l) {
				continue
			}
			if !sorted {
				sorted = true
				slices.SortFunc(touched, func(a, b int32) int {
					if x, y := f.r.Cost(d, a), f.r.Cost(d, b); x != y {
						return x - y
					}
					return int(a - b)
				})
				i = -1
				continue
			}
			f.need[s] = true
			col.who = append(col.who, s)
		}
		if len(col.who) > lo || f.state[l] == deliver {
			col.jobs = append(col.jobs, job{l, false, int32(lo), int32(len(col.who))})
			f.need[d] = f.need[d] || f.state[l] == deliver
		}
	}
	return true
}

// stays reports whether the entry of switch s for LID l, behind d, still holds.
func (f *finder) stays(d, s int32, l ib.LID) bool {
	p := f.rows[s][l]
	if int(p) < len(f.G.PortChannel[s]) {
		if c := f.G.PortChannel[s][p]; c >= 0 && f.Channel[c] >= 0 {
			return f.r.May(d, c)
		}
	}
	return p == route.Drop && f.r.Cost(d, s) == Far
}

// all appends all switches but d, nearest first.
func (f *finder) all(d int32, who []int32) []int32 {
	n := len(f.G.Switches)
	f.bySpan = f.bySpan[:0]
	most := 0
	for s := range n {
		x := f.r.Cost(d, int32(s))
		if x < Far {
			most = max(most, x)
		}
		f.bySpan = append(f.bySpan, int32(x))
	}
	f.span = append(f.span[:0], make([]int32, most+3)...)
	slot := func(x int32) int { return min(int(x), most+1) }
	for _, x := range f.bySpan {
		f.span[slot(x)+1]++
	}
	for i := range most + 2 {
		f.span[i+1] += f.span[i]
	}
	base := len(who)
	who = append(who, make([]int32, n)...)
	for s, x := range f.bySpan {
		who[base+int(f.span[slot(x)])] = int32(s)
		f.span[slot(x)]++
	}
	at := slices.Index(who[base:], d) + base
	return slices.Delete(who, at, at+1)
}

// Restart is o for computing tables for g from scratch after from: with its
// tables as the previous ones, unless o asks to rebalance.
func Restart(from route.Solution, g *fabric.Graph, o route.Options) route.Options {
	o.Previous = nil
	if !o.Rebalance && len(from.Tables.LFT) == len(from.Graph.Switches) {
		o.Previous = from.Tables.Remap(from.Graph, g)
	}
	return o
}
