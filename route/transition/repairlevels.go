package transition

import (
	"math/bits"
	"slices"

	"heddle/fabric"
	"heddle/ib"
	"heddle/route"
)

// onLevelsOf returns the entries of the wanted tables on the service levels and lanes of
// the installed ones. To a LID that is new or moved since the previous graph, and from a
// new switch, no host knows a level yet, so the wanted one applies.
func onLevelsOf(g, before *fabric.Graph, installed, wanted *route.Tables) *route.Tables {
	u := *wanted
	u.SL, u.Class, u.NumClasses, u.Lanes, u.NumVLs, u.Multicast = installed.SL, installed.Class, installed.NumClasses, installed.Lanes, installed.NumVLs, installed.Multicast
	if before == nil || wanted.SL == nil {
		return &u
	}
	d := fabric.Diff(before, g)
	newSwitches := slices.Contains(d.Switch, -1)
	m := newLevelMap(len(g.Switches), wanted.TopLID)
	for l := range m.class {
		k := levelKind{old: classOf(installed, l), now: -1}
		_, fresh := slices.BinarySearch(d.LIDs, ib.LID(l))
		// to a LID without an owner hosts send as before
		fresh = fresh && l < len(g.LIDOwner) && g.LIDOwner[l] != fabric.NoLID
		if fresh || newSwitches {
			k.now, k.fresh = classOf(wanted, l), fresh
		}
		m.add(l, k)
	}
	m.fill(&u, func(s int, k levelKind) ib.SL {
		if k.fresh || d.Switch[s] < 0 {
			return levelOf(wanted, s, k.now)
		}
		return levelOf(installed, s, k.old)
	})
	u.NumVLs = max(u.NumVLs, wanted.NumVLs)
	return &u
}

// claim raises the number of lanes of tables to those that their service levels use: a
// mix of two engines' levels may use lanes that neither engine uses.
func claim(g *fabric.Graph, t *route.Tables) {
	levels := levelsOf(t.SL)
	if t.SL == nil {
		levels = 1
	}
	if t.Lanes == nil {
		most := 1
		for c := range g.Channels {
			most = max(most, int(g.Channels[c].VLs))
		}
		t.NumVLs = max(t.NumVLs, min(bits.Len16(levels), most))
		return
	}
	for i := range t.Lanes.Rows {
		for m := levels; m != 0; m &= m - 1 {
			if v := int(t.Lanes.Rows[i][bits.TrailingZeros16(m)]); v < 15 {
				t.NumVLs = max(t.NumVLs, v+1)
			}
		}
	}
}

// levelKind is a kind of destination as far as service levels are concerned.
type levelKind struct {
	old, now int32 // classes in the two tables; -1: none
	fresh    bool
}

// levelMap makes service levels of those of two tables.
type levelMap struct {
	n     int
	class []int32
	at    map[levelKind]int32
	kinds []levelKind
}

func newLevelMap(switches int, top ib.LID) *levelMap {
	return &levelMap{n: switches, class: make([]int32, int(top)+1), at: map[levelKind]int32{}}
}

func (m *levelMap) add(l int, k levelKind) {
	c, ok := m.at[k]
	if !ok {
		c = int32(len(m.kinds))
		m.at[k] = c
		m.kinds = append(m.kinds, k)
	}
	m.class[l] = c
}

func (m *levelMap) fill(t *route.Tables, level func(s int, k levelKind) ib.SL) {
	k := len(m.kinds)
	t.Class, t.NumClasses, t.SL = m.class, k, make([]ib.SL, m.n*k)
	for s := range m.n {
		for i, kind := range m.kinds {
			t.SL[s*k+i] = level(s, kind)
		}
	}
}

func classOf(t *route.Tables, l int) int32 {
	if t.SL == nil || l >= len(t.Class) {
		return -1
	}
	return t.Class[l]
}

func levelOf(t *route.Tables, s int, class int32) ib.SL {
	if class < 0 {
		return 0
	}
	return t.SL[s*t.NumClasses+int(class)]
}
