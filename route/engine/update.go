package engine

import (
	"bytes"
	"slices"

	"heddle/fabric"
	"heddle/ib"
	"heddle/route"
)

// Repairer is an engine's part of Update. Each goroutine has its own; they
// share the state of the destinations, which only Repair writes.
type Repairer interface {
	// Repair updates the state of destination dst and appends to touched the
	// switches that may have lost a permitted choice; duplicates are harmless. It
	// returns false if the state no longer fits.
	Repair(dst int32, touched []int32) ([]int32, bool)
	// May reports whether the switch that channel c leaves may use it toward
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
	// Lost are the removed channels, by their old index; New are the added ones.
	Lost, New []int32

	o       route.Options
	from    *route.Tables
	sp      *spread  // the new graph
	was     []uint32 // by old switch: loading ports
	gone    []int32  // removed switches; they are numbered from len(G.Switches) on
	goneIs  []int32  // by old switch: its current number
	dropped []ib.LID // LIDs that lose all paths
	undone  []ib.LID // LIDs whose old load is subtracted
	state   []uint8  // by LID
	grown   []int32  // switches whose number of loading ports changed
}

// Treatment of a LID.
const (
	asIs    = iota // entries stay where they are allowed
	deliver        // the last switch has another entry
	fresh          // every switch decides
)

// A change that affects more than this share of the channels, or of the LIDs,
// is not processed incrementally.
const (
	channelShare = 16
	lidShare     = 8
	alwaysSmall  = 80 // channels, LIDs
)

// NewChange prepares Update. It returns nil if computing from scratch is
// better: o requests it, the change is large, or tables of switches are too
// short for some LIDs.
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

// sort decides the treatment of each LID.
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

// lids are the LIDs of switch d.
func (ch *Change) lids(d int32) []ib.LID { return ch.sp.lids[ch.sp.off[d]:ch.sp.off[d+1]] }

// Rows maps rows of one byte by switch, one row for each destination switch, to
// the switches of the new graph, with fill for new switches. Unchanged rows are
// shared; those of new destinations, and of destinations without LIDs, are nil.
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

// columns is the work for the LIDs of one switch: each job lists the switches
// that must decide, nearest first.
type columns struct {
	jobs     []job
	switches []int32
}

type job struct {
	lid    ib.LID
	fresh  bool
	lo, hi int32 // range in switches
}

// updateState is the state of Update besides the Change.
type updateState struct {
	*Change
	rows   [][]byte  // the new tables; shared with the old until copied
	shared []bool    // by switch
	loads  []int64   // by channel
	todo   []columns // by destination switch
}

// Update updates tables incrementally after a change. loads are those of the
// old tables; it returns the new ones. It chooses only entries that are no
// longer permitted, for new LIDs and at new switches: the least loaded of the
// choices, counting paths as Spread does. Loads are exact: the paths that an
// entry moves are found by walking up the tree of its LID. The result does not
// depend on the number of workers. It returns nil if a Repairer failed.
//
// Cost: one Repair for each destination, then O(ports) table look-ups for each
// switch that uses a moved entry, and the copies of changed rows.
func (ch *Change) Update(name string, loads []uint64, repairer func() Repairer) (*route.Tables, []uint64) {
	g := ch.G
	n := len(g.Switches)
	c := &updateState{Change: ch, todo: make([]columns, n)}
	c.reuse()
	c.mapLoads(loads)

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

// reuse derives the rows of the new tables from the old ones.
func (c *updateState) reuse() {
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

// mapLoads maps the loads to the new channels, without the LIDs whose old
// tree is dropped.
func (c *updateState) mapLoads(loads []uint64) {
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

// finder finds the entries to move, one destination at a time.
type finder struct {
	*updateState
	r       Repairer
	need    []bool // by switch: its row may change
	touched []int32
	seen    []int32 // by switch: 1 + the last destination it was touched for
	bySpan  []int32
	span    []int32
}

func (c *updateState) newFinder(r Repairer) *finder {
	n := len(c.G.Switches)
	return &finder{updateState: c, r: r, need: make([]bool, n), seen: make([]int32, n)}
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
				everyone = len(col.switches)
				col.switches = f.all(d, col.switches)
			}
			col.jobs = append(col.jobs, job{l, true, int32(everyone), int32(everyone + len(f.G.Switches) - 1)})
			for s := range f.need {
				f.need[s] = true
			}
			continue
		}
		lo := len(col.switches)
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
			col.switches = append(col.switches, s)
		}
		if len(col.switches) > lo || f.state[l] == deliver {
			col.jobs = append(col.jobs, job{l, false, int32(lo), int32(len(col.switches))})
			f.need[d] = f.need[d] || f.state[l] == deliver
		}
	}
	return true
}

// stays reports whether the entry of switch s for LID l of switch d is still
// permitted.
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

// Restart returns the options for computing tables for g from scratch after
// from: with its tables as the previous ones, unless o requests rebalancing.
func Restart(from route.Solution, g *fabric.Graph, o route.Options) route.Options {
	o.Previous = nil
	if !o.Rebalance && len(from.Tables.LFT) == len(from.Graph.Switches) {
		o.Previous = from.Tables.Remap(from.Graph, g)
	}
	return o
}
