package transition

import (
	"math/bits"

	"heddle/fabric"
	"heddle/ib"
	"heddle/route"
)

// Lift continues where Approach is stuck. It moves waiting destinations to service
// levels, and so to lanes, on which their installed entries can be exchanged for the
// wanted ones without conflict. The next round does that, once hosts use the new levels
// and the old ones are forgotten. Then the installed entries no longer block others on
// the former lanes, and the wanted levels follow as they fit.
//
// It uses levels for which every link between switches has a lane, below o.MaxVLs, and
// first those that no host uses. Levels of the result counts the destinations. nil is
// returned in the cases of Approach, with SL-to-VL tables, and with one lane.
func Lift(g *fabric.Graph, installed, wanted *route.Tables, o Options) *Fitted {
	if !known(g, installed, &o) || installed.Lanes != nil || wanted.Lanes != nil {
		return nil
	}
	lanes := dataLanes(g, &o)
	if lanes < 2 {
		return nil
	}
	o.spare = 1<<lanes - 1
	f := newFitter(g, installed, wanted, &o)
	if f == nil {
		return nil
	}
	order := emptyFirst(installed, lanes)
	r := &Fitted{fitter: f, Lifted: true}
	to := map[ib.LID]ib.SL{}
	for _, l := range f.x.compare(o.Quiet).lids {
		if d, _ := f.x.owner(l); d < 0 || f.broken[l] != 0 || f.unsure[l] {
			continue
		}
		r.Waiting++
		now := f.x.oldLevels(l)
		for _, p := range order {
			if now != 1<<p && f.lift(l, p) {
				to[l] = p
				break
			}
		}
	}
	r.Levels = len(to)
	t := f.tables()
	f.liftedLevels(t, to)
	r.First, r.Tables = t, t
	return r
}

// oldLevels are the service levels that hosts use for a destination.
func (x *mixer) oldLevels(l ib.LID) (m uint16) {
	for s := range int32(x.managed) {
		m |= x.levelsOf(s, l, oldSLs)
	}
	return m
}

// lift adds the dependencies of packets to l on one level alone: by its installed
// entries, during their exchange in rooted order, and by the wanted ones.
func (f *fitter) lift(l ib.LID, p ib.SL) bool {
	x, w := f.x, f.w
	x.alone = map[ib.LID]uint16{l: 1 << p}
	defer func() { x.alone = nil }()
	w.edges = w.edges[:0]
	if f.ins.budget -= x.n; f.ins.budget < 0 || !x.rootedDeps(w, l, mixed) {
		return false
	}
	return f.insert()
}

// liftedLevels gives destinations one level each; others keep the installed ones.
func (f *fitter) liftedLevels(t *route.Tables, to map[ib.LID]ib.SL) {
	m := newLevelMap(len(t.LFT), t.TopLID)
	t.NumVLs = max(f.x.old.NumVLs, f.x.new.NumVLs)
	for l := range m.class {
		k := levelKind{old: classOf(f.x.old, l), now: -1}
		if p, ok := to[ib.LID(l)]; ok {
			k = levelKind{old: -1, now: int32(p), fresh: true}
			t.NumVLs = max(t.NumVLs, int(p)+1)
		}
		m.add(l, k)
	}
	m.fill(t, func(s int, k levelKind) ib.SL {
		if k.fresh {
			return ib.SL(k.now)
		}
		return levelOf(f.x.old, s, k.old)
	})
	t.NumVLs = max(t.NumVLs, bits.Len16(levelsOf(t.SL)))
}
