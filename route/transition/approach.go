package transition

import (
	"slices"

	"heddle/fabric"
	"heddle/ib"
	"heddle/route"
)

// Approach brings tables nearer to the wanted ones while everything works: as many destinations as
// can take their wanted entries and service levels now, in rooted order, while all
// others stay and whatever packets are under way. When these packets have left more
// can follow. So tables that do not mix are exchanged in rounds, without discarding
// anything and without a moment in which nothing else can be done.
//
// SL-to-VL tables that change are a round of their own, before any entry.
//
// nil is returned if tables of switches or lanes are not known, the installed
// entries do not go together with the wanted SL-to-VL tables, or have a cycle of their own.
func Approach(g *fabric.Graph, installed, wanted *route.Tables, o Options) *Fitted {
	x := newMixer(g, installed, wanted, &o)
	ch := x.compare(o.Quiet)
	if ch.unknown > 0 || o.LanesUnknown {
		return nil
	}
	if len(ch.lanes) > 0 {
		if !x.passes(ch, o.Workers, oldEntries|oldSLs|oldLanes|newLanes) {
			return nil
		}
		t := *installed
		t.Lanes, t.NumVLs = wanted.Lanes, max(installed.NumVLs, wanted.NumVLs)
		return &Fitted{First: &t, Tables: &t, Lanes: true, Waiting: len(ch.lids)}
	}
	f := newFitter(g, installed, wanted, &o)
	if f == nil {
		return nil
	}
	r := &Fitted{fitter: f, Waiting: len(ch.lids)}
	moved := make([]bool, len(ch.touched))
	for _, l := range ch.lids {
		if f.column(l) {
			moved[l] = true
			r.Moved++
		}
	}
	r.Waiting -= r.Moved
	t := f.tables()
	f.levels(t, moved)
	r.First, r.Tables = t, t
	return r
}

// levels gives the destinations that moved the wanted service levels.
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
