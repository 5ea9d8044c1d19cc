package nue

import (
	"bytes"
	"cmp"
	"math"
	"slices"

	"heddle/fabric"
	"heddle/ib"
	"heddle/route"
)

// memo is the state for Update of the previous tables: the layer of each
// switch's LIDs, each layer's order of the channels and uses of each
// dependency, and the loads. It is immutable.
type memo struct {
	of    []int32
	order [][]int32
	used  [][]uint16 // by layer: layer.used
	load  []uint32   // by channel: paths between hosts
}

// Maker implements route.Memory.
func (*memo) Maker() string { return "nue" }

// tooLarge is the share of all channels (one in tooLarge) up to which Update
// processes a change.
const tooLarge = 8

// Update updates tables incrementally after a change. Every destination stays in
// its layer, so no remaining pair changes its service level. Remaining trees and
// subtrees are added to the dependency graph in the order that proved them;
// disconnected and new switches then search a path within it. A tree that cannot
// be repaired that way is rerouted. For that the escape paths are added; if the
// remaining trees do not permit them, that layer is computed from scratch. New
// links get LIDs of their switch whose path gets shorter, and their share of
// those whose path stays equally long.
//
// Complexity: O(LIDs + dependencies + affected LIDs · switches) and the
// searches if no switch is new; otherwise O(LIDs · switches), to count the
// dependencies and loads.
func (e Engine) Update(from route.Solution, g *fabric.Graph, d *fabric.Delta, o route.Options) (*route.Tables, error) {
	if from.Tables == nil {
		return e.Compute(g, o)
	}
	old, ok := from.Tables.Memo.(*memo)
	for _, row := range from.Tables.LFT {
		ok = ok && len(row) > int(from.Tables.TopLID) // row is known
	}
	changed := 0
	for _, c := range d.Channel {
		if c < 0 {
			changed++
		}
	}
	for _, c := range d.OldChannel {
		if c < 0 {
			changed++
		}
	}
	if !ok || o.Rebalance || changed*tooLarge > len(g.Channels)+tooLarge*tooLarge || len(old.order) > route.Budget(g, o.MaxVLs) ||
		len(from.Tables.LFT) != len(from.Graph.Switches) {
		return e.Compute(g, o)
	}
	w := newNet(g)
	u := &update{job: &job{net: w, o: o, t: route.New("nue", w.n, g.TopLID), of: make([]int32, w.n)}, from: from, d: d, old: old}
	u.layers()
	u.entries()
	if !u.splice() {
		route.ForEach(o.Workers, len(u.tours), func(_, k int) { u.layer(k) })
	}
	u.useNew()
	t := u.tables()
	for s, o := range d.Switch {
		if o >= 0 && bytes.Equal(t.LFT[s], from.Tables.LFT[o]) {
			t.LFT[s] = from.Tables.LFT[o]
		}
	}
	return t, nil
}

// update is the state of one call of Update.
type update struct {
	*job
	from route.Solution
	d    *fabric.Delta
	old  *memo
	anew []bool // by LID: its destination changed
}

// layers gives every switch its former layer, and a new one that of the first
// adjacent switch with one.
func (u *update) layers() {
	for s, o := range u.d.Switch {
		u.of[s] = -1
		if o >= 0 {
			u.of[s] = u.old.of[o]
		}
	}
	for again := true; again; {
		again = false
		for s := range u.of {
			if u.of[s] >= 0 {
				continue
			}
			for c := u.g.Off[s]; c < u.g.Off[s+1]; c++ {
				if k := u.of[u.to[c]]; k >= 0 {
					u.of[s] = k
					again = true
					break
				}
			}
		}
	}
	for s := range u.of {
		u.of[s] = max(u.of[s], 0)
	}
	u.tours = make([]*tour, len(u.old.order))
	for k := range u.tours {
		u.tours[k] = &tour{job: u.job}
	}
	for s := range int32(u.n) {
		if t := u.tours[u.of[s]]; u.off[s+1] > u.off[s] {
			t.dest = append(t.dest, s)
		}
	}
}

// entries copies the entries that still lead somewhere.
func (u *update) entries() {
	u.anew = make([]bool, int(u.g.TopLID)+1)
	for _, l := range u.d.LIDs {
		if l <= u.g.TopLID {
			u.anew[l] = true
		}
	}
	top := min(u.g.TopLID, u.from.Tables.TopLID)
	var leads [256]bool
	for s, o := range u.d.Switch {
		row := u.t.LFT[s]
		if o >= 0 {
			n := copy(row, u.from.Tables.LFT[o][:min(int(top)+1, len(u.from.Tables.LFT[o]))])
			clear(leads[:])
			for p, c := range u.g.PortChannel[s] {
				leads[p] = c >= 0 && u.d.Channel[c] >= 0
			}
			for l, p := range row[:n] {
				if !leads[p] || u.anew[l] {
					row[l] = route.Drop
				}
			}
		}
		for _, l := range u.behind(int32(s)) {
			row[l] = u.g.EndPorts[u.g.LIDOwner[l]].Port
		}
	}
}

// layer keeps and completes the trees of one layer.
func (u *update) layer(k int) {
	t := u.tours[k]
	t.load = make([]uint32, len(u.to))
	t.keepAll(func() { t.arrange(u.old.order[k], u.d) })
}

// resume keeps the trees of the previous tables and completes them. It uses one
// layer if that holds all of them, otherwise all permitted lanes. It returns
// nil if there is little to keep.
func resume(w *net, o route.Options, budget int) *job {
	for layers := 1; ; layers = budget {
		j := newJob(w, o, layers, way{bare: true})
		whole := 0
		for s, row := range j.t.LFT {
			prev := o.Previous.LFT[s]
			n := min(int(o.Previous.TopLID)+1, len(prev), len(row))
			for l := 1; l < min(n, len(w.g.LIDOwner)); l++ {
				if e := w.g.LIDOwner[l]; e == fabric.NoLID || w.g.EndPorts[e].Switch < 0 {
					continue // packets to unowned LIDs must not cause dependencies
				}
				if p := prev[l]; row[l] == route.Drop && int(p) < len(w.g.PortChannel[s]) && w.g.PortChannel[s][p] >= 0 {
					row[l] = p
					whole++
				}
			}
		}
		if 2*whole < len(w.lids)*w.n {
			return nil
		}
		refused := make([]int, layers)
		route.ForEach(o.Workers, layers, func(_, k int) {
			t := j.tours[k]
			at := slices.Clone(t.at)
			refused[k] = t.keepAll(func() {
				copy(t.at, at)
				t.setOrder()
			})
		})
		if layers == budget || refused[0] == 0 {
			return j
		}
	}
}

// fitting is the forest whose escape paths contradict an order of the channels
// least.
func (t *tour) fitting(pos []int32) *escape {
	const roots = 12
	var e escape
	best, least := 0, math.MaxInt
	grow := func(i int) {
		e.grow(t.net, t.able(int32(i/2*t.n/roots)), i&1 != 0)
	}
	for i := range 2 * roots {
		grow(i)
		against := 0
		for v := range int32(t.n) {
			for x := t.g.Off[v]; x < t.g.Off[v+1]; x++ {
				for o := t.g.Off[v]; o < t.g.Off[v+1]; o++ {
					if o != x && e.has(t.net, o) && e.has(t.net, x) && pos[t.rev[o]] > pos[x] {
						against++
					}
				}
			}
		}
		if against < least {
			best, least = i, against
		}
	}
	grow(best)
	return &e
}

// arrange restores the order of the channels. Of a new link, the direction to
// the lower switch comes first of all and the other last; the opposite if the
// lower switch has no other link yet.
func (t *tour) arrange(was []int32, d *fabric.Delta) {
	var up, down []int32
	for c, o := range d.Channel {
		if o >= 0 {
			continue
		}
		a, b := t.from[c], t.to[c]
		if na, nb := d.Switch[a] < 0, d.Switch[b] < 0; na != nb && na || na == nb && a > b {
			up = append(up, int32(c))
		} else {
			down = append(down, int32(c))
		}
	}
	slices.SortFunc(up, func(a, b int32) int { return cmp.Or(cmp.Compare(t.from[b], t.from[a]), cmp.Compare(a, b)) })
	slices.SortFunc(down, func(a, b int32) int { return cmp.Or(cmp.Compare(t.to[a], t.to[b]), cmp.Compare(a, b)) })
	at := append(t.at[:0], up...)
	for _, o := range was {
		if c := d.OldChannel[o]; c >= 0 {
			at = append(at, c)
		}
	}
	t.at = append(at, down...)
	t.setOrder()
}

// keepAll adds the existing trees and completes them. It returns how many were
// refused. order puts the channels of an empty layer in order.
//
// If some tree cannot be completed, the layer starts over with the escape
// paths, which guarantee a path for each, but may refuse existing trees.
func (t *tour) keepAll(order func()) (refused int) {
	var was []int32 // the order of the first try
	for _, escapes := range []bool{false, true} {
		t.router = newRouter(newLayer(t.job.net, repairWork/int64(len(t.job.tours))))
		clear(t.load)
		order()
		if escapes {
			t.holdEscape(t.fitting(was), t.dests())
		}
		refused = 0
		t.left = t.left[:0]
		for _, d := range t.dest {
			for i, l := range t.behind(d) {
				if !t.keep(d, l, i < int(t.cas[d])) {
					refused++
				}
			}
		}
		if t.complete() {
			break
		}
		was = t.pos
	}
	return refused
}

// keep adds the existing part of a LID's tree, and records what is missing. It
// returns false if that closes a cycle.
func (t *tour) keep(d int32, l ib.LID, host bool) bool {
	t.read(d, l)
	whole := t.whole(d, l)
	admitted := t.admit()
	if !whole || !admitted {
		t.left = append(t.left, lidAt{d, l, host, admitted})
		return admitted
	}
	if host {
		t.count(t.load)
	}
	t.trim(l)
	return true
}

func (t *tour) dests() []bool {
	is := make([]bool, t.n)
	for _, d := range t.dest {
		is[d] = true
	}
	return is
}

type lidAt struct {
	d    int32
	l    ib.LID
	host bool
	part bool // the layer has the existing part of its tree
}

// whole reports whether the tree at hand has all switches.
func (t *tour) whole(d int32, l ib.LID) bool {
	if len(t.order) == int(t.size[d]) {
		return true
	}
	if !t.limit {
		return false
	}
	t.prepare(d, l)
	return len(t.order) >= t.want
}

// trim clears the entries for a LID at switches without a path to it.
func (t *tour) trim(l ib.LID) {
	if len(t.order) == t.n {
		return
	}
	for s := range t.v {
		if t.v[s].next == none {
			t.job.t.LFT[s][l] = route.Drop
		}
	}
}

// admit adds the dependencies of the current tree; all or none.
func (t *tour) admit() bool {
	for i, u := range t.order[1:] {
		if !t.try(t.v[u].next) {
			t.order = t.order[:i+1]
			t.undo()
			return false
		}
	}
	return true
}

// complete routes the remaining LIDs: from the existing part of their trees if
// that suffices, otherwise from scratch. It returns false if some cannot reach
// all. Prices are those of improve, so that detours use free capacity.
func (t *tour) complete() bool {
	if len(t.left) == 0 {
		return true
	}
	loads := make([]uint64, len(t.load))
	for c, k := range t.load {
		loads[c] = uint64(k)
		if t.job.base != nil {
			loads[c] += uint64(t.job.base[c])
		}
	}
	t.scale = float64(max(slices.Max(loads), 1))
	t.toll = link * (1 + steep) / 2
	for c, k := range loads {
		t.price[c] = slope(k, t.scale)
	}
	for _, x := range t.left {
		if t.limit {
			t.prepare(x.d, x.l)
		}
		t.read(x.d, x.l)
		t.want = int(t.size[x.d])
		if t.limit {
			t.want = len(t.plan)
		}
		if x.host {
			t.loads = loads
		}
		done := x.part
		if done {
			for _, u := range t.order[1:] {
				if x.host && t.hosts[u] > 0 {
					t.send(u, t.hosts[u])
				}
			}
			t.finish()
			if done = len(t.order) == t.want; !done {
				t.undo()
				t.takeBack()
			}
		}
		if !done {
			t.loads = nil
			t.prepare(x.d, x.l)
			t.route(x.d)
			if len(t.order) < t.want && !t.limit {
				t.undo()
				return false
			}
			t.erase(x.l)
			if x.host {
				t.loads = loads
				for _, u := range t.order[1:] {
					if t.hosts[u] > 0 {
						t.send(u, t.hosts[u])
					}
				}
			}
		}
		t.loads = nil
		t.write(x.l)
		t.trim(x.l)
	}
	for c, k := range loads {
		t.load[c] = uint32(k)
		if t.job.base != nil {
			t.load[c] -= t.job.base[c]
		}
	}
	return true
}

// takeBack takes the paths of the tree at hand off the loads.
func (r *router) takeBack() {
	if r.loads == nil {
		return
	}
	for _, u := range r.order[1:] {
		for c := r.v[u].next; c >= 0 && r.hosts[u] > 0; c = r.v[r.to[c]].next {
			r.loads[c] -= uint64(r.hosts[u])
			r.price[c] = slope(r.loads[c], r.scale)
		}
	}
}

// erase empties the entries for a LID but where it is.
func (t *tour) erase(l ib.LID) {
	for s, row := range t.job.t.LFT {
		if int32(s) != t.g.EndPorts[t.g.LIDOwner[l]].Switch {
			row[l] = route.Drop
		}
	}
}
