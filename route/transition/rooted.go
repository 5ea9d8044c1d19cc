package transition

import (
	"math/bits"
	"slices"

	"heddle/ib"
	"heddle/route"
)

// A destination is written in rooted order if no switch sends to it by its
// wanted entry before all later switches of the wanted path do. Stages then
// need acknowledgments but no drain. A packet follows installed entries first
// and wanted ones from then on, so it cannot loop if neither state loops, and
// of the mixed dependencies those from a new to an old entry are impossible.

// rank fills rank, by switch, with the stage of each changed entry for l: one more
// than that of the next entry along the wanted path. load must have been called
// for the mix, and the wanted entries must not loop. It returns the cells.
func (x *mixer) rank(w *walker, l ib.LID, cells []stagedCell) []stagedCell {
	const unknown = -1
	if w.rank == nil {
		w.rank = make([]int32, x.n)
	}
	for s := range w.rank {
		w.rank[s] = unknown
	}
	at := int(l) % route.BlockLen * x.n
	var path []int32
	for s := range int32(x.managed) {
		if w.tileNew[at+int(s)] == w.tileOld[at+int(s)] {
			continue
		}
		path = path[:0]
		u, r := s, int32(0)
		for w.rank[u] == unknown && len(path) <= x.n {
			path = append(path, u)
			if w.a[u] < 0 {
				break
			}
			u = x.to[w.a[u]]
		}
		if w.rank[u] != unknown {
			r = w.rank[u]
		}
		for _, v := range slices.Backward(path) {
			// rank is that of the next change from here on.
			w.rank[v] = r
			if w.tileNew[at+int(v)] != w.tileOld[at+int(v)] {
				r++
				w.rank[v] = r
			}
		}
		cells = append(cells, stagedCell{cell{l, s}, uint8(min(w.rank[s]-1, pending))})
	}
	return cells
}

// rootedDeps adds the dependencies of l if it is written in rooted order;
// false if the installed or the wanted entries loop.
func (x *mixer) rootedDeps(w *walker, l ib.LID, sp spec) bool {
	x.load(w, l, mixed)
	if w.old == nil {
		w.old, w.now = make([]int32, x.n), make([]int32, x.n)
		w.later = make([]uint16, x.n)
	}
	// By switch: the channels of the installed and the wanted entry.
	at := int(l) % route.BlockLen * x.n
	for s := range w.a {
		w.now[s], w.old[s] = w.a[s], w.a[s]
		if w.tileOld[at+s] != w.tileNew[at+s] {
			w.old[s] = w.b[s]
		}
	}
	copy(w.a, w.now)
	for s := range w.b {
		w.b[s] = -1
	}
	if !x.order(w) {
		return false
	}
	w.postNow = append(w.postNow[:0], w.post...)
	copy(w.a, w.old)
	if !x.order(w) {
		return false
	}
	if x.lanes == 1 {
		x.rootedSingle(w, l, x.fromAnywhere(l))
		return true
	}
	x.start(w, l, sp)
	if x.tables {
		x.rootedTables(w, x.fromAnywhere(l), sp)
		return true
	}
	clear(w.later)
	for _, u := range slices.Backward(w.post) {
		c1, m := w.old[u], w.arrive[u]
		if c1 < 0 || m == 0 {
			continue
		}
		v := x.to[c1]
		w.arrive[v] |= m
		x.addLevels(w, c1, w.old[v], m)
		if w.now[v] != w.old[v] {
			x.addLevels(w, c1, w.now[v], m)
		}
	}
	for _, u := range slices.Backward(w.postNow) {
		c1, m := w.now[u], w.later[u]
		if c1 != w.old[u] {
			m |= w.arrive[u]
		}
		if c1 < 0 || m == 0 {
			continue
		}
		v := x.to[c1]
		w.later[v] |= m
		x.addLevels(w, c1, w.now[v], m)
	}
	return true
}

// rootedSingle is rootedDeps for one lane: w.seen marks switches that packets
// reach by installed entries only, w.fresh those that they reach by wanted
// ones.
func (x *mixer) rootedSingle(w *walker, l ib.LID, all bool) {
	for s := range w.seen {
		w.seen[s], w.fresh[s] = all || x.hasCA[s], all
	}
	for _, k := range x.strays[l] {
		w.seen[k.s] = true
	}
	if !all {
		for _, u := range slices.Backward(w.post) {
			if w.seen[u] && w.old[u] >= 0 {
				w.seen[x.to[w.old[u]]] = true
			}
		}
		for _, u := range slices.Backward(w.postNow) {
			if c := w.now[u]; c >= 0 && (w.fresh[u] || w.seen[u] && c != w.old[u]) {
				w.fresh[x.to[c]] = true
			}
		}
	}
	for u, was := range w.old {
		now := w.now[u]
		if was >= 0 && w.seen[u] {
			v := x.to[was]
			if c := w.old[v]; c >= 0 {
				x.add(w, was, 0, c, 0)
			}
			if c := w.now[v]; c >= 0 && c != w.old[v] {
				x.add(w, was, 0, c, 0)
			}
		}
		if now >= 0 && (w.fresh[u] || w.seen[u] && now != was) {
			if c := w.now[x.to[now]]; c >= 0 {
				x.add(w, now, 0, c, 0)
			}
		}
	}
}

// rootedTables is rootedDeps for SL-to-VL tables. A channel has two slots:
// packets that followed installed entries only so far, and the others.
func (x *mixer) rootedTables(w *walker, all bool, sp spec) {
	for s := range w.head {
		w.head[s] = -1
	}
	for pass, post := range [2][]int32{w.post, w.postNow} {
		for _, u := range slices.Backward(post) {
			c2 := w.old[u]
			if pass == 1 {
				c2 = w.now[u]
			}
			if c2 < 0 {
				continue
			}
			changed := w.now[u] != w.old[u]
			slot := 2*u + int32(pass)
			out := &w.slots[slot]
			*out = [16]uint16{}
			w.levels[slot] = 0
			if pass == 0 || changed {
				ports := x.ports[u]
				if all {
					ports = x.injected[u]
				}
				x.inject(w, slot, c2, ports, w.arrive[u], sp)
			}
			for j := w.head[u]; j >= 0; j = w.next[j] {
				c1 := w.old[j/2]
				if j&1 != 0 {
					c1 = w.now[j/2]
				}
				if j&1 == 1 || pass == 0 || changed {
					x.passOn(w, slot, c2, j, c1, sp)
				}
			}
			if w.levels[slot] != 0 {
				v := x.to[c2]
				w.next[slot], w.head[v] = w.head[v], slot
			}
		}
	}
}

// inject starts packets of the given levels at input ports into a slot.
func (x *mixer) inject(w *walker, slot, c2 int32, ports []uint8, levels uint16, sp spec) {
	for _, p := range ports {
		for m := levels; m != 0; m &= m - 1 {
			sl := bits.TrailingZeros16(m)
			w.slots[slot][sl] |= x.lanesOf(c2, p, ib.SL(sl), sp)
			w.levels[slot] |= 1 << sl
		}
	}
}

// passOn sends the packets in slot j, on channel c1, by channel c2 and adds the
// dependencies.
func (x *mixer) passOn(w *walker, slot, c2, j, c1 int32, sp spec) {
	in, out := &w.slots[j], &w.slots[slot]
	for m := w.levels[j]; m != 0; m &= m - 1 {
		sl := bits.TrailingZeros16(m)
		if in[sl] == 0 {
			continue // all packets of that level were dropped on the path
		}
		lanes := x.lanesOf(c2, x.inPort[c1], ib.SL(sl), sp)
		out[sl] |= lanes
		w.levels[slot] |= 1 << sl
		for p := in[sl]; p != 0; p &= p - 1 {
			for q := lanes; q != 0; q &= q - 1 {
				x.add(w, c1, int32(bits.TrailingZeros16(p)), c2, int32(bits.TrailingZeros16(q)))
			}
		}
	}
}

// addLevels adds c1→c2 on the lanes that levels m take; c2 may be -1.
func (x *mixer) addLevels(w *walker, c1, c2 int32, m uint16) {
	if c2 < 0 {
		return
	}
	if k := x.vls[c1]; k == x.vls[c2] {
		f := m
		for r := m >> k; r != 0; r >>= k {
			f |= r
		}
		for f &= 1<<k - 1; f != 0; f &= f - 1 {
			v := int32(bits.TrailingZeros16(f))
			x.add(w, c1, v, c2, v)
		}
		return
	}
	for r := m; r != 0; r &= r - 1 {
		sl := uint8(bits.TrailingZeros16(r))
		x.add(w, c1, int32(sl%x.vls[c1]), c2, int32(sl%x.vls[c2]))
	}
}
