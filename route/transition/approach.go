package transition

import (
	"slices"

	"heddle/fabric"
	"heddle/ib"
	"heddle/route"
)

// Approach moves tables closer to the wanted ones without interrupting traffic. In rooted
// order, it gives as many destinations as possible their wanted entries and service
// levels, such that no mix with the other installed entries and with packets in flight is
// unsafe. When these packets have left, more destinations can follow. So tables that do
// not mix are exchanged in rounds, without discarding anything and without blocking other
// work.
//
// Changed SL-to-VL tables take a round of their own: before any entry if the installed
// entries work with both, otherwise after all others.
//
// nil is returned if tables of switches or lanes are unknown, if neither the installed
// nor the wanted entries work with both SL-to-VL tables, or if the installed ones have a
// cycle of their own.
func Approach(g *fabric.Graph, installed, wanted *route.Tables, o Options) *Fitted {
	x := newMixer(g, installed, wanted, &o)
	ch := x.compare(o.Quiet)
	if !known(g, installed, &o) {
		return nil
	}
	if len(ch.lanes) > 0 {
		if x.passes(ch, o.Workers, oldEntries|oldSLs|oldLanes|newLanes) {
			t := *installed
			t.Lanes, t.NumVLs = wanted.Lanes, max(installed.NumVLs, wanted.NumVLs)
			claim(g, &t)
			if len(o.Recent) > 0 {
				both := o // packets of recent states meet either SL-to-VL tables
				both.Recent = append(slices.Clone(o.Recent), Recent{Tables: &t})
				if f := newFitter(g, installed, wanted, &both); f == nil || f.partly {
					return &Fitted{First: installed, Tables: installed, Later: true, Waiting: len(ch.lids)}
				}
			}
			return &Fitted{First: &t, Tables: &t, Lanes: true, Waiting: len(ch.lids)}
		}
		if wanted = onLanesOf(g, installed, wanted, &o); wanted == nil {
			return nil
		}
	}
	f := newFitter(g, installed, wanted, &o)
	if f == nil {
		return nil
	}
	r := &Fitted{fitter: f, Past: f.partly, circle: f.circle}
	moved := make([]bool, len(ch.touched))
	var rest []ib.LID
	for _, l := range ch.lids {
		if !ch.touched[l] && !f.retold(l) {
			moved[l] = true // it differs only in levels that hosts may still use
			continue
		}
		r.Waiting++
		switch {
		case f.unsure[l]:
		case f.column(l, mixed):
			moved[l] = true
			r.Moved++
		case !f.retold(l):
			rest = append(rest, l)
		case ch.touched[l] && f.column(l, mixed&^newSLs):
			// Its service levels follow when packets have left,
			r.Entries++
		case !o.Lifted && f.relabel(l):
			// … or its entries do.
			moved[l] = true
			r.Levels++
		case ch.touched[l]:
			rest = append(rest, l)
		}
	}
	q := &local{x: f.x}
	for _, l := range rest {
		r.Entries += f.some(q, l)
	}
	r.Waiting -= r.Moved
	t := f.tables()
	f.levels(t, moved)
	r.First, r.Tables = t, t
	return r
}

// onLanesOf returns the wanted tables with the installed SL-to-VL tables, nil if
// that combination has a cycle.
func onLanesOf(g *fabric.Graph, installed, wanted *route.Tables, o *Options) *route.Tables {
	t := *wanted
	t.Memo, t.Lanes, t.NumVLs = nil, installed.Lanes, max(installed.NumVLs, wanted.NumVLs)
	claim(g, &t)
	x := newMixer(g, installed, &t, o)
	x.build()
	if !x.passes(x.compare(o.Quiet), o.Workers, wantedOnly) {
		return nil
	}
	return &t
}

// relabel permits hosts the wanted service levels for a destination on its installed
// entries.
func (f *fitter) relabel(l ib.LID) bool {
	f.w.edges = f.w.edges[:0]
	if f.ins.budget -= f.x.n; f.ins.budget < 0 {
		return false
	}
	return f.x.depsOf(f.w, l, installedOnly|newSLs) && f.insert()
}

// some gives switches their wanted entry for a destination that cannot move as a
// whole: the nearest to it first, each only if all later switches of its new path
// have theirs. It returns the number of switches.
func (f *fitter) some(q *local, l ib.LID) (n int) {
	x, s, w := f.x, f.s, f.w
	d, port := x.owner(l)
	if d < 0 || f.broken[l] != 0 || f.unsure[l] {
		return 0
	}
	var cells []stagedCell
	for u := range int32(x.managed) {
		if effective(x.old, u, int(l)) != effective(x.new, u, int(l)) {
			c := cell{l, u}
			cells = append(cells, stagedCell{c, q.rank(c)})
		}
	}
	slices.SortStableFunc(cells, func(a, b stagedCell) int { return int(a.stage) - int(b.stage) })
	s.begin(l, d, port, installedOnly)
	s.queue.Reset()
	for _, k := range cells {
		u := k.s
		c := x.port[int(u)<<8|int(effective(x.new, u, int(l)))]
		if u == d || c < 0 || int(x.to[c]) >= x.managed || !s.good[x.to[c]] {
			continue
		}
		// The rest of its path is wanted too.
		v := x.to[c]
		for v != d && s.next[v] >= 0 && s.next[v] == x.port[int(v)<<8|int(effective(x.new, v, int(l)))] && v != u {
			v = x.to[s.next[v]]
		}
		if v != d {
			continue
		}
		w.edges = w.edges[:0]
		if !s.attach(l, u, c) || !f.insert() {
			continue
		}
		s.connected(l, u, c)
		f.set(u, l, x.outPort[c])
		n++
	}
	s.queue.Reset()
	return n
}

// retold returns a function that reports whether hosts get another level for a
// destination.
func (x *mixer) retold() func(l ib.LID) bool {
	type kind struct{ old, now int32 }
	known := map[kind]bool{}
	return func(l ib.LID) bool {
		k := kind{classOf(x.old, int(l)), classOf(x.new, int(l))}
		is, ok := known[k]
		for s := int32(0); !ok && !is && int(s) < x.managed; s++ {
			is = x.old.PathSL(s, l) != x.new.PathSL(s, l)
		}
		known[k] = is
		return is
	}
}

// levels gives the moved destinations their wanted service levels.
func (f *fitter) levels(t *route.Tables, moved []bool) {
	old, now := f.x.old, f.x.new
	if f.x.sameLevels() || old.SL == nil && now.SL == nil {
		t.SL, t.Class, t.NumClasses, t.NumVLs = now.SL, now.Class, now.NumClasses, max(old.NumVLs, now.NumVLs)
		return
	}
	m := newLevelMap(len(t.LFT), t.TopLID)
	for l := range m.class {
		if l < len(moved) && moved[l] {
			m.add(l, levelKind{-1, classOf(now, l), true})
		} else {
			m.add(l, levelKind{old: classOf(old, l), now: -1})
		}
	}
	m.fill(t, func(s int, k levelKind) ib.SL {
		if k.fresh {
			return levelOf(now, s, k.now)
		}
		return levelOf(old, s, k.old)
	})
	if t.NumVLs = max(old.NumVLs, now.NumVLs); slices.Max(t.SL) == 0 {
		t.SL, t.Class, t.NumClasses = nil, nil, 0
	}
}
