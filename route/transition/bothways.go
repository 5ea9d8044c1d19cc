package transition

import (
	"slices"

	"heddle/ib"
	"heddle/route"
)

// Communication management uses the service level of a request in both directions, and so does the
// passive end of a connection. So where newLevels gives one direction of a pair another level, the
// other direction takes it too, if its packets close no cycle there. Until hosts use it their old
// level must pass as well.

// sent are packets of hosts at a switch to a LID, on a service level.
type sent struct {
	s  int32
	l  ib.LID
	sl ib.SL
}

// bothWays gives the pairs to which searchOn gave levels in one direction the same level in the
// other, on the entries of t. It returns the packets that may come on levels which are not those of
// the result, and which no guard is to discard.
func (f *fitter) bothWays(t *route.Tables, lids []ib.LID, order map[ib.LID]ib.SL) (pass []sent) {
	x, w := f.x, f.w
	at := f.hostLIDs()
	seen := map[[2]int32]bool{}
	for _, l := range lids {
		d, p := f.x.g.EndPorts[f.x.g.LIDOwner[l]].Switch, order[l]
		if !f.fromCA(l) {
			continue
		}
		for s := range int32(x.managed) {
			pair := [2]int32{s, d}
			if s == d || seen[pair] || x.old.PathSL(s, l) == p || x.told[l][s] != 1<<p {
				continue
			}
			seen[pair], seen[[2]int32{d, s}] = true, true
			w.edges = w.edges[:0]
			var more []sent
			ok := true
			for _, m := range at[s] { // back: on the new level, and on the one that hosts use
				if was := f.levelFor(d, m); was != p {
					more = append(more, sent{d, m, was})
					ok = ok && f.along(t, sent{d, m, p}) && f.along(t, sent{d, m, was})
				}
			}
			back := len(more)
			for _, k := range at[d] { // answers to the others at d
				if f.levelFor(s, k) != p {
					more = append(more, sent{s, k, p})
					ok = ok && f.along(t, sent{s, k, p})
				}
			}
			if !ok || back == 0 || !f.insert() {
				continue
			}
			for _, b := range more[:back] {
				f.setLevel(d, b.l, p)
			}
			pass = append(pass, more...)
		}
	}
	return pass
}

// hostLIDs lists the LIDs of CA and router ports by switch.
func (f *fitter) hostLIDs() [][]ib.LID {
	at := make([][]ib.LID, f.x.managed)
	for l := range f.broken {
		if d, _ := f.x.owner(ib.LID(l)); d >= 0 && int(d) < len(at) && f.fromCA(ib.LID(l)) {
			at[d] = append(at[d], ib.LID(l))
		}
	}
	return at
}

// levelFor is the level that hosts at a switch are to use to l.
func (f *fitter) levelFor(s int32, l ib.LID) ib.SL {
	if m := f.x.told[l]; m != nil {
		return lowest(m[s])
	}
	return f.x.old.PathSL(s, l)
}

// setLevel makes hosts at a switch use a level to l.
func (f *fitter) setLevel(s int32, l ib.LID, p ib.SL) {
	m := slices.Clone(f.x.told[l])
	if m == nil {
		m = make([]uint16, f.x.managed)
		for u := range m {
			m[u] = 1 << f.x.old.PathSL(int32(u), l)
		}
	}
	m[s] = 1 << p
	f.x.told[l] = m
}

// along adds to the walker's edges the dependencies of packets on the entries of t. It is false if
// they do not arrive.
func (f *fitter) along(t *route.Tables, p sent) bool {
	x := f.x
	d, _ := x.owner(p.l)
	next := func(s int32) int32 { return x.port[int(s)<<8|int(effective(t, s, int(p.l)))] }
	c := int32(-1)
	if p.s != d {
		if c = next(p.s); c < 0 {
			return false
		}
		clear(f.w.arrive)
		f.w.arrive[p.s] = 1 << p.sl
	}
	var at slot
	if c >= 0 {
		f.s.inject(&at, p.l, p.s, c)
	}
	for range x.n {
		if c < 0 || x.to[c] == d {
			return true
		}
		if int(x.to[c]) >= x.managed {
			return false
		}
		k := next(x.to[c])
		if k < 0 {
			return false
		}
		var on slot
		f.s.lost = false
		f.s.passIn(&at, c, x.inPort[c], k, &on, true)
		if f.s.lost {
			return false
		}
		c, at = k, on
	}
	return false
}
