package transition

import (
	"math/bits"
	"slices"

	"heddle/fabric"
	"heddle/ib"
	"heddle/route"
)

// newLevels connects destinations from switches that cannot reach them on their hosts'
// service levels. It gives those hosts another level, on a lane where their packets close
// no cycle, empty lanes first. Working pairs keep their entries and levels. at are the
// tables that connect the other destinations.
//
// Until hosts use the new levels nothing is proved; then the tables are free of cycles.
// nil is returned if a destination fits no lane, if hosts never learn new levels, and if
// an engine made the SL-to-VL tables, so that a level has no lane of its own. pass: see bothWays.
func newLevels(g *fabric.Graph, at, wanted *route.Tables, lids []ib.LID, o Options) (t *route.Tables, pass []sent) {
	lanes := dataLanes(g, &o)
	if lanes < 2 || at.Lanes != nil && !at.Lanes.Guards || wanted.Lanes != nil {
		return nil, nil
	}
	o.Recent, o.Held, o.GroupLevels, o.spare = nil, nil, nil, 1<<lanes-1
	f := newFitter(g, at, wanted, &o)
	if f == nil {
		return nil, nil
	}
	order, level := emptyFirst(at, lanes), map[ib.LID]ib.SL{}
	f.x.told = map[ib.LID][]uint16{}
	for _, l := range lids {
		i := slices.IndexFunc(order, func(p ib.SL) bool { return f.searchOn(l, p) })
		if i < 0 {
			return nil, nil
		}
		level[l] = order[i]
	}
	t = f.tables()
	pass = f.bothWays(t, lids, level)
	f.toldLevels(t)
	return t, pass
}

// searchOn is search where hosts of switches that cannot reach l use a level.
func (f *fitter) searchOn(l ib.LID, p ib.SL) bool {
	x := f.x
	d, port := x.owner(l)
	delete(x.told, l)
	f.s.begin(l, d, port, installedOnly)
	f.s.queue.Reset()
	m := make([]uint16, x.managed)
	for s := range m {
		if m[s] = 1 << p; f.s.good[s] {
			m[s] = x.levelsOf(int32(s), l, oldSLs)
		}
	}
	x.told[l] = m
	return f.search(l)
}

// toldLevels gives tables the levels that searchOn and bothWays chose. LIDs with the same levels
// share a class.
func (f *fitter) toldLevels(t *route.Tables) {
	m := newLevelMap(len(t.LFT), t.TopLID)
	t.NumVLs = max(f.x.old.NumVLs, f.x.new.NumVLs)
	first := map[string]int32{} // LID, by the levels to it
	for l := range m.class {
		k := levelKind{old: classOf(f.x.old, l), now: -1}
		if told := f.x.told[ib.LID(l)]; told != nil {
			b := make([]byte, len(told))
			for s, mask := range told {
				b[s] = byte(lowest(mask))
			}
			if _, ok := first[string(b)]; !ok {
				first[string(b)] = int32(l)
			}
			k = levelKind{old: -1, now: first[string(b)], fresh: true}
		}
		m.add(l, k)
	}
	m.fill(t, func(s int, k levelKind) ib.SL {
		if k.fresh {
			return lowest(f.x.told[ib.LID(k.now)][s])
		}
		return levelOf(f.x.old, s, k.old)
	})
	t.NumVLs = max(t.NumVLs, bits.Len16(levelsOf(t.SL)))
}

// lowest is the lowest level of a mask.
func lowest(mask uint16) ib.SL { return ib.SL(bits.TrailingZeros16(mask)) }

// dataLanes is how many data lanes all links have and may be used.
func dataLanes(g *fabric.Graph, o *Options) int {
	lanes := 16
	if o.MaxVLs > 0 {
		lanes = min(o.MaxVLs, lanes)
	}
	for c := range g.Channels {
		lanes = min(lanes, int(max(g.Channels[c].VLs, 1)))
	}
	return lanes
}

// emptyFirst are the levels that have a lane, those first that tables do not use.
func emptyFirst(t *route.Tables, lanes int) (order []ib.SL) {
	used := levelsOf(t.SL)
	if t.SL == nil {
		used = 1
	}
	for p := range ib.SL(lanes) {
		order = append(order, p)
	}
	slices.SortStableFunc(order, func(a, b ib.SL) int { return int(used>>a&1) - int(used>>b&1) })
	return order
}
