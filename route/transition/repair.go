package transition

import (
	"slices"

	"heddle/fabric"
	"heddle/ib"
	"heddle/route"
)

// Fitted is the result of Repair and Approach: two steps from the installed tables, of
// which the first needs no wait. Approach has only one.
type Fitted struct {
	// First are the installed tables with entries for all broken pairs that can be
	// connected without other changes and regardless of packets in flight. Entries that
	// change in the second step are Drop if they led nowhere before. Service levels and
	// lanes are the current ones.
	First *route.Tables
	// Tables are those after the second step. Its writes close no cycle with other entries,
	// but may close one with packets that followed the entries before First. They equal
	// First if there is no second step, and are nil if some pair cannot be connected
	// without changing working ones. They may have other service levels: see NewLevels.
	Tables *route.Tables
	// Broken counts the pairs (switch with a CA or router port, LID of one) that the
	// installed entries do not deliver although a path exists; Late those that the
	// second step connects; Left those that neither step connects.
	Broken, Late, Left int
	// LIDs are the destinations that some switch could not reach, ascending.
	LIDs []ib.LID
	// Cycle is an example of a cycle that the second step could close if it came
	// first: channels of which each may wait for the next.
	Cycle []Hop

	// Stale: the installed entries and service levels have a cycle of their own, at least
	// with levels that hosts learned earlier. So nothing is proved.
	Stale bool
	// Past: packets that met earlier tables, such as those that crossed a restored link,
	// may form a cycle regardless of what is written now.
	Past   bool
	circle []Hop
	hops   int // of the wait before the second step
	// Moved counts the destinations to which Approach gave their wanted entries,
	// Waiting those that still have others.
	Moved, Waiting int
	// Entries are those that Approach wrote for destinations that wait.
	Entries int
	// Levels counts the waiting destinations that now have the wanted service levels; for
	// Lift, those with levels on which their entries can change.
	Levels int
	// Lifted: it is by Lift. Balanced: it is by Balance.
	Lifted, Balanced bool
	// NewLevels are the destinations that are connected on service levels which their hosts
	// have yet to learn, after Repair. Until then nothing is proved of the second step.
	NewLevels int
	// Guarded: the SL-to-VL tables of Tables discard what would close a cycle because of them, so
	// the second step is proved. Guards counts the tables (of an input and an output port) that do.
	Guarded bool
	Guards  int
	waits   bool // packets may wait at turns that discard later
	// Lanes: this round of Approach only changes SL-to-VL tables to the wanted
	// ones, with which the installed entries work too.
	Lanes bool
	// Later: nothing can change in this round of Approach before packets of recent states
	// have left.
	Later bool

	fitter *fitter // with all that the first step allows
}

// Hop is a channel of a graph: the port by which a switch sends, and the lane.
type Hop struct {
	Switch int32
	Port   uint8
	Lane   uint8
}

// repairTries is how often all broken destinations are fitted, each time those first
// that found no place before.
const repairTries = 3

// Repair connects the pairs that the installed entries leave broken. It breaks no working
// pair and changes as little as possible. It searches new entries under the existing
// dependencies: those of all installed entries, of multicast trees, and of the entries
// that packets in flight may have met (o.Recent), with the hosts' service levels. The
// search runs over ordered channels as in Nue (J. Domke, T. Hoefler, S. Matsuoka,
// "Routing on the Dependency Graph", 2016), but takes the order from the installed tables
// of any engine.
//
// Written in rooted order, the first step never closes a cycle or a loop. Most of its
// failures are due to packets on their way to a switch that drops them: once the switch
// has an entry, they would take a forbidden turn. The second step serves those pairs.
// When the first is acknowledged, such packets are only on the links before these
// switches; after the time that packets may stay in two switches they are gone.
//
// If neither step can connect a pair, because every entry would close a cycle on the
// current levels, the pair gets other levels with its entries, provided that the wanted
// tables have other levels too.
//
// wanted are the engine's tables for the same graph; a destination takes their entries if
// the search finds no path. nil is returned if tables of switches or lanes are unknown.
//
// It takes time proportional to switches × LIDs, on all workers, and for each broken
// destination to the disconnected switches and the dependencies that disagree with the
// current order.
func Repair(g *fabric.Graph, installed, wanted *route.Tables, o Options) *Fitted {
	if !known(g, installed, &o) {
		return nil
	}
	r := &Fitted{}
	onOld := onLevelsOf(g, o.Before, installed, wanted)
	f := newFitter(g, installed, onOld, &o)
	for f == nil {
		// A cycle exists already, because of levels that hosts learned earlier or of
		// packets in flight. The repair cannot wait for its end.
		switch r.Stale = true; {
		case o.Held != nil || o.GroupLevels != nil:
			o.Held, o.GroupLevels = nil, nil
		default:
			r.First = installed
			return r
		}
		f = newFitter(g, installed, onOld, &o)
	}
	r.fitter = f
	r.Past, r.circle = f.partly, f.circle
	for l, n := range f.broken {
		if d, _ := f.x.owner(ib.LID(l)); n == 0 || d < 0 {
			continue
		}
		r.LIDs = append(r.LIDs, ib.LID(l))
		if n > 0 && f.fromCA(ib.LID(l)) {
			r.Broken += int(f.pairs[l])
		}
		r.Stale = r.Stale || f.unsure[ib.LID(l)]
	}
	rest := f.fit(r.LIDs)
	if len(rest) == 0 {
		r.First = f.tables()
		r.Tables = r.First
		return r
	}
	r.Cycle = f.cycle
	for _, l := range rest {
		f.searchSome(l)
	}
	// What these destinations still leave disconnected is dropped.
	for _, l := range rest {
		n := f.dropBroken(l)
		if f.fromCA(l) {
			r.Late += n
		}
	}
	r.First = f.tables()
	second := o
	second.Recent, r.hops = f.afterWait(r.First, rest)
	second.Held = o.Held.Next(installed, nil, len(g.Switches)) // hosts still use the levels that they know
	h := newFitter(g, r.First, onLevelsOf(g, o.Before, installed, wanted), &second)
	if h == nil {
		r.Left, r.Late = r.Late, 0
		return r
	}
	if rest = h.fit(rest); len(rest) == 0 {
		r.Tables = h.tables()
		r.fitter = h // trees follow with the second step
		return r
	}
	for _, l := range rest {
		if n := h.broken[l]; n > 0 && h.fromCA(l) {
			r.Left += int(h.pairs[l])
			r.Late -= int(h.pairs[l])
		}
	}
	if newMixer(g, installed, wanted, &o).compare(o.Quiet).pairs == 0 {
		return r // the wanted tables are proved when packets have left, and new levels when hosts have resolved them
	}
	if t, pass := newLevels(g, h.tables(), onLevelsOf(g, o.Before, installed, wanted), rest, o); t != nil {
		r.relabel(g, installed, t, pass, len(rest), &o)
	}
	return r
}

// afterWait lists the states that packets may remember when the second step begins, and
// the switches of the preceding wait. On one lane that is two: then packets that followed
// an earlier channel have left it.
func (f *fitter) afterWait(first *route.Tables, lids []ib.LID) (list []Recent, hops int) {
	b := &builder{x: f.x, o: f.o}
	if hops = 2; !f.x.single() {
		hops = max(hops, f.x.longest(lids, mixed, f.o.Workers))
	}
	wait := b.drain(hops)
	if wait < 0 {
		return nil, hops
	}
	list = slices.Clone(f.o.Recent)
	for i := range list {
		list[i].Ago += wait
	}
	rooted := &Plan{steps: []*route.Tables{first}}
	return append(list, Recent{Tables: f.x.old, Ago: wait, Plan: rooted}), hops
}

// fit connects destinations, and returns those for which that failed.
func (f *fitter) fit(lids []ib.LID) (rest []ib.LID) {
	rows := slices.Clone(f.rows)
	clear(f.own) // they are copied before they are written to
	order := lids
	for try := 1; ; try++ {
		f.log, rest = f.log[:0], nil
		for _, l := range order {
			if !f.search(l) && !f.column(l, mixed) {
				rest = append(rest, l)
			}
		}
		if len(rest) == 0 || try == repairTries || f.ins.budget < 0 {
			slices.Sort(rest)
			return rest
		}
		for _, b := range f.log {
			f.ins.deps.clear(b)
		}
		f.rows, f.own = slices.Clone(rows), make([]bool, len(rows))
		next := slices.Clone(rest)
		for _, l := range order {
			if !slices.Contains(rest, l) {
				next = append(next, l)
			}
		}
		order = next
	}
}

// dropBroken drops the current entries that lead nowhere. It returns the number
// of affected switches with a CA or router port.
func (f *fitter) dropBroken(l ib.LID) (n int) {
	x := f.x
	d, port := x.owner(l)
	if d < 0 {
		return 0
	}
	const unknown, good, bad = 0, 1, 2
	state := make([]uint8, x.managed)
	state[d] = bad
	if f.rows[d][l] == port {
		state[d] = good
	}
	var path []int32
	for s := range int32(x.managed) {
		path = path[:0]
		u := s
		for state[u] == unknown {
			state[u] = bad
			path = append(path, u)
			c := x.port[int(u)<<8|int(f.rows[u][l])]
			if c < 0 || int(x.to[c]) >= x.managed {
				break
			}
			u = x.to[c]
		}
		if state[u] == good {
			for _, v := range path {
				state[v] = good
			}
		}
	}
	for s, st := range state {
		if st == bad && f.comp[s] == f.comp[d] {
			if x.hasCA[s] {
				n++
			}
			f.set(int32(s), l, route.Drop)
		}
	}
	return n
}

// fitter changes tables entry by entry while the possible dependencies of
// packets stay free of cycles.
type fitter struct {
	x      *mixer // from the installed to the wanted state
	o      *Options
	ins    *inserter
	w      *walker
	comp   []int32                  // by switch: the connected part of the graph
	broken []int32                  // by LID: switches that cannot reach it; -1: its entries loop
	pairs  []int32                  // by LID: those of them that have a CA or router port
	past   []pastPacket             // by LID and switch
	trees  map[ib.LID][]*route.Tree // of recent states
	rows   [][]byte
	own    []bool // by switch: the row is a copy
	s      *seeker
	retold func(l ib.LID) bool
	unsure map[ib.LID]bool // destinations for which packets of recent states may be at unknown places
	partly bool            // not all that packets of recent states may do is free of cycles
	guard  *guard          // not nil: takes what packets of recent states may do
	circle []Hop           // an example
	log    []int64         // bits set since the last try began
	cycle  []Hop           // that a dependency would have closed, the first time
}

// Unknown is for NewRepair if Repair returns nil because tables are unknown: the wanted
// tables are written immediately, and nothing is proved until they are installed.
func Unknown(installed *route.Tables) *Fitted { return &Fitted{First: installed, Stale: true} }

// known reports whether all installed tables are known.
func known(g *fabric.Graph, installed *route.Tables, o *Options) bool {
	return !o.LanesUnknown && installed != nil && len(installed.LFT) == len(g.Switches) &&
		!slices.ContainsFunc(installed.LFT, func(row []byte) bool { return row == nil })
}

// newFitter is nil if the installed tables have a cycle.
func newFitter(g *fabric.Graph, installed, wanted *route.Tables, o *Options) *fitter {
	f, recent := newBareFitter(g, installed, wanted, o)
	if f == nil {
		return nil
	}
	f.remember(recent, (&builder{x: f.x, o: o}).drain(1))
	f.share(installed)
	f.s = newSeeker(f)
	return f
}

// newBareFitter is newFitter without the packets of recent states, which it returns.
func newBareFitter(g *fabric.Graph, installed, wanted *route.Tables, o *Options) (*fitter, []Recent) {
	x := newMixer(g, installed, wanted, o)
	recent := (&builder{x: x, o: o}).alive()
	for _, r := range recent {
		if x.levels |= levelsOf(r.Tables.SL); r.Tables.SL == nil {
			x.levels |= 1
		}
		if l := r.Tables.Lanes; l != nil {
			x.tables = true
			x.recent = append(x.recent, l)
		}
	}
	x.build()
	f := &fitter{x: x, o: o, unsure: map[ib.LID]bool{}, comp: parts(g), retold: x.retold(), broken: make([]int32, int(max(installed.TopLID, wanted.TopLID))+1)}
	f.pairs = make([]int32, len(f.broken))
	ws := x.scan(o.Workers, func(w *walker, l ib.LID) {
		x.target(w, 0)
		if !x.depsOf(w, l, installedOnly) {
			f.broken[l] = -1
			return
		}
		if int(l) < len(g.LIDOwner) {
			f.broken[l], f.pairs[l] = f.countBroken(w, l)
		}
	})
	base := x.merged(ws, 0)
	f.w = x.newWalker()
	f.w.into = base
	for i := range trees(installed) {
		x.treeDeps(f.w, treeChange{old: &installed.Multicast.Trees[i]}, installedOnly)
	}
	f.w.into = nil
	ord, ok := x.topoOrder(base)
	if !ok {
		return nil, nil
	}
	f.ins = newInserter(x.layout, base, ord, insertBudget)
	f.w.skip = base
	return f, recent
}

// owner is where packets to l are to arrive; switch -1: nowhere.
func (x *mixer) owner(l ib.LID) (s int32, port uint8) {
	if int(l) >= len(x.g.LIDOwner) || x.g.LIDOwner[l] == fabric.NoLID {
		return -1, 0
	}
	e := &x.g.EndPorts[x.g.LIDOwner[l]]
	return e.Switch, e.Port
}

func (f *fitter) fromCA(l ib.LID) bool {
	return f.x.g.EndPorts[f.x.g.LIDOwner[l]].Type != ib.NodeSwitch
}

// countBroken counts the switches that cannot reach l, and those of them with a CA or
// router port. depsOf must have been called for the installed entries.
func (f *fitter) countBroken(w *walker, l ib.LID) (n, hosts int32) {
	x := f.x
	d, port := x.owner(l)
	if d < 0 {
		return 0, 0
	}
	if x.lanes == 1 && len(w.post) == 0 {
		x.order(w)
	}
	for _, u := range w.post {
		switch c := w.a[u]; {
		case u == d:
			w.seen[u] = effective(x.old, u, int(l)) == port
		default:
			w.seen[u] = c >= 0 && w.seen[x.to[c]]
		}
		if !w.seen[u] && u < int32(x.managed) && f.comp[u] == f.comp[d] {
			n++
			if x.hasCA[u] {
				hosts++
			}
		}
	}
	return n, hosts
}

// share makes the rows of the result: the installed ones up to their length.
func (f *fitter) share(installed *route.Tables) {
	n := route.RowLen(f.x.new.TopLID)
	f.rows, f.own = make([][]byte, len(installed.LFT)), make([]bool, len(installed.LFT))
	for s, have := range installed.LFT {
		if len(have) >= n && installed.TopLID >= f.x.new.TopLID {
			f.rows[s] = have[:n:n]
			continue
		}
		row := make([]byte, n)
		for l := range row {
			row[l] = effective(installed, int32(s), l)
		}
		f.rows[s], f.own[s] = row, true
	}
}

// set writes an entry of the result. LIDs above the wanted top have no owner, and
// need no entry.
func (f *fitter) set(s int32, l ib.LID, e byte) {
	if int(l) >= len(f.rows[s]) || f.rows[s][l] == e {
		return
	}
	if !f.own[s] {
		f.rows[s], f.own[s] = slices.Clone(f.rows[s]), true
	}
	f.rows[s][l] = e
}

// tables are the result so far.
func (f *fitter) tables() *route.Tables {
	t := *f.x.new
	t.Memo, t.Multicast = nil, f.x.old.Multicast
	t.LFT = f.rows
	if t.Class != nil && len(t.Class) <= int(t.TopLID) {
		t.Class = slices.Clone(t.Class)
		for len(t.Class) <= int(t.TopLID) {
			t.Class = append(t.Class, -1)
		}
	}
	return &t
}

// column gives a destination its wanted entries, if they can be written in
// rooted order and deliver on the service levels of sp.
func (f *fitter) column(l ib.LID, sp spec) bool {
	x, w := f.x, f.w
	w.edges = w.edges[:0]
	if f.ins.budget -= x.n; f.ins.budget < 0 || !x.rootedDeps(w, l, sp) {
		return false
	}
	// rootedDeps leaves the installed and the wanted channels by switch.
	if d, port := x.owner(l); d >= 0 {
		for _, u := range w.postNow {
			c := w.now[u]
			w.fresh[u] = u == d && effective(x.new, u, int(l)) == port || u != d && c >= 0 && w.fresh[x.to[c]]
			if !w.fresh[u] && u < int32(x.managed) && f.comp[u] == f.comp[d] {
				return false
			}
		}
		if f.meetsGuard(l, d, w.now) {
			return false
		}
	}
	for u, c := range w.now {
		if c == w.old[u] || c < 0 {
			continue
		}
		if out, any := f.s.fromPast(l, int32(u), c); any {
			f.s.followBy(w.now, c, out)
		}
	}
	if !f.insert() {
		return false
	}
	for s := range f.rows {
		f.set(int32(s), l, effective(x.new, int32(s), int(l)))
	}
	return true
}
