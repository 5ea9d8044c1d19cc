package ftree

import (
	"bytes"
	"slices"

	"heddle/fabric"
	"heddle/ib"
	"heddle/route"
	"heddle/route/engine"
)

// past is the state of a tree before a change.
type past struct {
	old *tree
	d   *fabric.Delta
}

// Update returns tables for the changed fabric. Numbers, labels and pivot stay,
// so only entries change whose link is gone, is back, or no longer leads there
// as directly; a switch that returns gets its former labels. If the layout does
// not fit the changed tree, or the tree cannot be routed with it, Update
// computes from scratch.
//
// Cost: O(channels × switches/64) words, and the entries that may change.
func (e Engine) Update(from route.Solution, g *fabric.Graph, d *fabric.Delta, o route.Options) (*route.Tables, error) {
	if from.Tables == nil || o.Rebalance {
		return e.Compute(g, o)
	}
	old, ok := from.Tables.Memo.(*tree)
	if !ok || old.asked != engine.Asked(o) || !old.same(from.Graph) || len(from.Tables.LFT) != old.n {
		return e.Compute(g, o)
	}
	t, err := newTree(g, o, &past{old, d})
	if err != nil {
		return e.again(from, g, d, o) // it may choose another layout, or report why there is none
	}
	tb := &route.Tables{Engine: "ftree", Note: t.note, LFT: make([][]byte, t.n), TopLID: g.TopLID, NumVLs: 1, Memo: t}
	c := t.compare(old, d)
	ws := make([]*scratch, max(o.Workers, 1))
	route.ForEach(o.Workers, t.n, func(w, i int) {
		if ws[w] == nil {
			ws[w] = t.newScratch()
		}
		s := int32(i)
		var was []byte
		if os := d.Switch[s]; os >= 0 {
			was = from.Tables.LFT[os]
		}
		tb.LFT[s] = c.row(s, was, ws[w])
	})
	if err := t.verify(tb.LFT, o); err != nil {
		return e.again(from, g, d, o)
	}
	return tb, nil
}

// same reports whether g is the graph of the tree, or an equal one.
func (t *tree) same(g *fabric.Graph) bool {
	if g == t.g {
		return true
	}
	if len(g.Switches) != t.n || len(g.Channels) != len(t.g.Channels) || len(g.LIDOwner) != len(t.g.LIDOwner) {
		return false
	}
	for s := range g.Switches {
		if g.Switches[s].GUID != t.g.Switches[s].GUID {
			return false
		}
	}
	for c := range g.Channels {
		a, b := &g.Channels[c], &t.g.Channels[c]
		if a.From != b.From || a.To != b.To || a.OutPort != b.OutPort || a.InPort != b.InPort {
			return false
		}
	}
	for l, e := range g.LIDOwner {
		if e == fabric.NoLID && t.dst[l] >= 0 || e != fabric.NoLID && g.EndPorts[e].Switch != t.dst[l] {
			return false
		}
	}
	return true
}

// again computes from scratch and shares unchanged rows.
func (e Engine) again(from route.Solution, g *fabric.Graph, d *fabric.Delta, o route.Options) (*route.Tables, error) {
	tb, err := e.Compute(g, o)
	if err != nil {
		return nil, err
	}
	for s, os := range d.Switch {
		if os >= 0 && bytes.Equal(tb.LFT[s], from.Tables.LFT[os]) {
			tb.LFT[s] = from.Tables.LFT[os]
		}
	}
	return tb, nil
}

// keepLayout takes the layout of the old tree over.
func (t *tree) keepLayout(was *past) error {
	old, d, g := was.old, was.d, t.g
	if t.height != old.height {
		return errLayout
	}
	t.label, t.width, t.base = make([]int32, t.n), make([]int32, t.n), make([]int32, t.n)
	t.start, t.number = make([]int32, t.n), make([]int32, t.n)
	t.ghosts = slices.Clone(old.ghosts)
	for s, now := range d.OldSwitch {
		if now < 0 {
			t.ghosts = append(t.ghosts, ghost{old.g.Switches[s].GUID, old.level[s], old.label[s], old.width[s], old.base[s], old.start[s], old.number[s]})
		}
	}
	next := int32(0) // after all numbers
	for _, k := range old.key {
		next = max(next, k+1)
	}
	known := make([]bool, t.n)
	for s := range t.n {
		if os := d.Switch[s]; os >= 0 {
			t.start[s], t.number[s] = old.start[os], old.number[os]
			if old.level[os] == t.level[s] || t.level[s] < 0 {
				t.label[s], t.width[s], t.base[s] = old.label[os], old.width[os], old.base[os]
				known[s] = true
			}
			continue
		}
		i := slices.IndexFunc(t.ghosts, func(h ghost) bool { return h.guid == g.Switches[s].GUID })
		t.start[s], t.number[s] = next, next
		next += t.cas[s]
		if i >= 0 {
			h := t.ghosts[i]
			t.start[s], t.number[s] = h.start, h.number
			if h.level == t.level[s] {
				t.label[s], t.width[s], t.base[s] = h.label, h.width, h.base
				known[s] = true
			}
			t.ghosts = slices.Delete(t.ghosts, i, i+1)
		}
	}
	for _, s := range t.order {
		if !known[s] && !t.adopt(s, known) {
			return errLayout
		}
	}
	// A part that had no CAs has no layout yet.
	for k, ca := range t.hasCA {
		if ca && slices.ContainsFunc(t.order, func(s int32) bool { return t.part[s] == int32(k) && t.width[s] == 0 && len(t.ups(s)) > 0 }) {
			return errLayout
		}
	}
	t.keepNumbers(was)
	return nil
}

// adopt gives a switch that is new on its level the layout of its peers, and
// the lowest label that they leave free.
func (t *tree) adopt(s int32, known []bool) bool {
	g := t.g
	if len(t.ups(s)) > 0 {
		for _, c := range t.ups(s) {
			for _, c2 := range t.downs(g.Channels[c].To) {
				if v := g.Channels[c2].To; known[v] && t.base[v] > t.base[s] {
					t.width[s], t.base[s] = t.width[v], t.base[v]
				}
			}
		}
		if t.base[s] == 0 {
			return false
		}
	}
	if len(t.downs(s)) > 0 {
		var taken []int32
		for _, c := range t.downs(s) {
			for _, c2 := range t.ups(g.Channels[c].To) {
				if v := g.Channels[c2].To; known[v] {
					taken = append(taken, t.label[v])
				}
			}
		}
		x := int32(0)
		for slices.Contains(taken, x) {
			x++
		}
		t.label[s] = x
	}
	known[s] = true
	return true
}

// keepNumbers keeps the numbers of remaining ports. A new port gets the lowest
// free number on its switch whose first digit is rarest there.
func (t *tree) keepNumbers(was *past) {
	old, g := was.old, t.g
	t.key = make([]int32, len(t.dst))
	changed := make([]bool, len(g.LIDOwner))
	for _, l := range was.d.LIDs {
		if int(l) < len(changed) {
			changed[l] = true
		}
	}
	for s := range int32(t.n) {
		fresh := false
		t.owners(s, func(e *fabric.EndPort, lids []ib.LID) {
			l := lids[0]
			if changed[l] || int(l) >= len(old.g.LIDOwner) {
				fresh = true
				return
			}
			for i, m := range lids {
				t.key[m] = old.key[l] + int32(i)
				if !changed[m] && int(m) < len(old.g.LIDOwner) {
					t.key[m] = old.key[m]
				}
			}
		})
		if !fresh {
			continue
		}
		// Numbers in use, and how often their first digits are.
		base := max(t.base[s], 1)
		var taken []int32
		used := make([]int32, base)
		t.owners(s, func(e *fabric.EndPort, lids []ib.LID) {
			if l := lids[0]; !changed[l] && int(l) < len(old.g.LIDOwner) && t.isCompute(e) {
				taken = append(taken, t.key[l])
				used[t.key[l]%base]++
			}
		})
		t.owners(s, func(e *fabric.EndPort, lids []ib.LID) {
			l := lids[0]
			if !changed[l] && int(l) < len(old.g.LIDOwner) {
				return
			}
			least := slices.Min(used)
			free := t.start[s]
			for used[free%base] > least || slices.Contains(taken, free) {
				free++
			}
			taken = append(taken, free)
			used[free%base]++
			for i, m := range lids {
				t.key[m] = free + int32(i)
			}
		})
	}
	t.switchKeys()
}

// comparison lists the entries that a change may affect.
type comparison struct {
	t, old *tree
	all    bool     // everything
	row1   []bool   // by switch: its whole row
	lids   []ib.LID // everywhere
	diff   []uint64 // by switch: destination switches that it reaches otherwise than before
	differ []bool   // by switch: diff is not empty
	exit   []bool   // by switch: its path to the pivot changed
}

func (t *tree) compare(old *tree, d *fabric.Delta) *comparison {
	c := &comparison{t: t, old: old}
	g := t.g
	c.all = t.height != old.height || t.many != nil || old.many != nil || !t.sameParts(old, d)
	if c.all {
		return c
	}
	c.row1, c.differ, c.exit = make([]bool, t.n), make([]bool, t.n), make([]bool, t.n)
	c.diff = make([]uint64, t.n*t.words)
	moves := shiftsOf(d)
	was := make([]uint64, t.words)
	for s := range int32(t.n) {
		os := d.Switch[s]
		if os < 0 {
			continue
		}
		p, op := t.pivot[t.part[s]], old.pivot[old.part[os]]
		c.exit[s] = t.exit[s] != old.exit[os] || (p < 0) != (op < 0) || p >= 0 && d.Switch[p] != op
		c.row1[s] = t.local(old, d, s)
		mine := c.diff[int(s)*t.words:][:t.words]
		var any uint64
		for p := range t.reach {
			then := old.reach1(p, os)
			if !d.SameSwitches {
				then = moved(was, then, moves)
			}
			for i, w := range t.reach1(p, s) {
				w ^= then[i]
				mine[i] |= w
				any |= w
			}
		}
		c.differ[s] = any != 0
	}
	// The columns, by LID.
	for l := 1; l < len(g.LIDOwner); l++ {
		same := l < len(old.g.LIDOwner) && sameSwitch(t.dst[l], old.dst[l], d) && t.key[l] == old.key[l]
		for p := 0; same && p <= t.height; p++ {
			a, b := t.chain[p][l], old.chain[p][l]
			same = t.pos[p][l] == old.pos[p][l] && t.plan[p][l] == old.plan[p][l] && t.peer[p][l] == old.peer[p][l] && (a < 0) == (b < 0) && (a < 0 || d.Channel[a] == b)
		}
		if !same {
			c.lids = append(c.lids, ib.LID(l))
		}
	}
	c.lids = append(c.lids, d.LIDs...)
	slices.Sort(c.lids)
	c.lids = slices.Compact(c.lids)
	return c
}

// sameParts reports whether the components are unchanged, apart from added and
// removed switches.
func (t *tree) sameParts(old *tree, d *fabric.Delta) bool {
	then, now := make([]int32, len(t.partSize)), make([]int32, len(old.partSize))
	for k := range then {
		then[k] = -1
	}
	for k := range now {
		now[k] = -1
	}
	for s, os := range d.Switch {
		if os < 0 {
			continue
		}
		k, ok := t.part[s], old.part[os]
		if then[k] < 0 && now[ok] < 0 {
			then[k], now[ok] = ok, k
		}
		if then[k] != ok || now[ok] != k || t.hasCA[k] != old.hasCA[ok] {
			return false
		}
	}
	return true
}

func sameSwitch(s, os int32, d *fabric.Delta) bool {
	if s < 0 || os < 0 {
		return s == os
	}
	return d.Switch[s] == os
}

// run is a run of switches that are numbered in a row before and after.
type run struct{ from, to, n int }

func shiftsOf(d *fabric.Delta) []run {
	var all []run
	for s, os := range d.Switch {
		if os < 0 {
			continue
		}
		if k := len(all) - 1; k >= 0 && all[k].from+all[k].n == int(os) && all[k].to+all[k].n == s {
			all[k].n++
			continue
		}
		all = append(all, run{int(os), s, 1})
	}
	return all
}

// moved copies a set of old switches to dst as a set of new switches.
func moved(dst, set []uint64, moves []run) []uint64 {
	clear(dst)
	for _, m := range moves {
		for from, to, n := m.from, m.to, m.n; n > 0; {
			// As many bits as lie in one word on both sides.
			k := min(n, 64-from&63, 64-to&63)
			bits := set[from>>6] >> (from & 63)
			if k < 64 {
				bits &= 1<<k - 1
			}
			dst[to>>6] |= bits << (to & 63)
			from, to, n = from+k, to+k, n-k
		}
	}
	return dst
}

// local reports whether a switch's own links, or the switches at their far
// ends, changed.
func (t *tree) local(old *tree, d *fabric.Delta, s int32) bool {
	g, og, os := t.g, old.g, d.Switch[s]
	if t.level[s] != old.level[os] || t.base[s] != old.base[os] || t.width[s] != old.width[os] || t.label[s] != old.label[os] ||
		g.Off[s+1]-g.Off[s] != og.Off[os+1]-og.Off[os] {
		return true
	}
	for c := g.Off[s]; c < g.Off[s+1]; c++ {
		to := g.Channels[c].To
		was := d.Switch[to]
		if d.Channel[c] < 0 || t.level[to] != old.level[was] || t.label[to] != old.label[was] {
			return true
		}
	}
	if t.hasCA[t.part[s]] {
		return false
	}
	return !d.SameSwitches || !bytes.Equal(t.plain[t.part[s]], old.plain[old.part[os]])
}

// row is the row of switch s: was, if it is still right.
func (c *comparison) row(s int32, was []byte, w *scratch) []byte {
	t := c.t
	size := route.RowLen(t.g.TopLID)
	if was == nil || len(was) != size || c.all || c.row1[s] {
		row := w.row
		for i := range row {
			row[i] = route.Drop
		}
		t.fill(s, row, w)
		if bytes.Equal(row, was) {
			return was
		}
		return bytes.Clone(row)
	}
	row := was
	shared := true
	put := func(l ib.LID) {
		v := byte(route.Drop)
		if int(l) < len(t.g.LIDOwner) {
			v = t.entry(s, l)
		} else if int(l) >= size {
			return
		}
		if row[l] != v {
			if shared {
				row, shared = bytes.Clone(was), false
			}
			row[l] = v
		}
	}
	for _, l := range c.lids {
		put(l)
	}
	near := w.odd
	clear(near)
	touched := false
	add := func(u int32) {
		if c.differ[u] {
			touched = true
			for i, x := range c.diff[int(u)*t.words:][:t.words] {
				near[i] |= x
			}
		}
	}
	add(s)
	for _, ch := range t.g.Channels[t.g.Off[s]:t.g.Off[s+1]] {
		add(ch.To)
	}
	if c.exit[s] && t.level[s] >= 0 {
		touched = true
		all := t.reach1(t.height, s)
		for i := range near {
			near[i] |= ^all[i]
		}
	}
	if !touched {
		return row
	}
	for i, set := range near {
		each(set, i, func(d int32) {
			if int(d) >= t.n {
				return
			}
			for _, l := range t.lids[t.lidOff[d]:t.lidOff[d+1]] {
				put(l)
			}
		})
	}
	return row
}
