package ftree

import (
	"math/bits"

	"heddle/ib"
	"heddle/route"
)

// Cases of a switch's entries for the LIDs of another switch.
const (
	drop   = iota
	fixed  // one port for all of them
	own    // its own LIDs
	digit  // all links up are equivalent: the digit's link
	choose // step decides
	turn   // there is no path up then down: to the pivot
	apart  // a part without CAs
)

// scratch belongs to one worker.
type scratch struct {
	kind []uint8 // by destination switch
	port []uint8
	odd  []uint64
	by   []uint8 // by digit: the port up, 0 for none
	row  []byte
}

func (t *tree) newScratch() *scratch {
	return &scratch{kind: make([]uint8, t.n), port: make([]uint8, t.n), odd: make([]uint64, t.words), row: make([]byte, route.RowLen(t.g.TopLID))}
}

// fill writes the row of switch u, except entries of LIDs without an owner.
func (t *tree) fill(u int32, row []byte, w *scratch) {
	t.sort(u, w)
	g := t.g
	var pos, plan, peer []uint16
	if l := t.level[u]; l >= 0 {
		pos, plan, peer = t.pos[l], t.plan[l], t.peer[l]
		if l == 0 {
			plan = pos
		}
	}
	label := uint16(t.label[u])
	size := t.partSize[t.part[u]]
	for l := 1; l <= int(g.TopLID); l++ {
		d := t.dst[l]
		if d < 0 {
			continue
		}
		switch w.kind[d] {
		case fixed:
			row[l] = w.port[d]
		case digit:
			x := plan[l]
			if peer[l] == label {
				x = pos[l]
			}
			if int(x) < len(w.by) && w.by[x] != 0 {
				row[l] = w.by[x]
				break
			}
			row[l] = g.Channels[t.step(u, d, l)].OutPort
		case choose:
			row[l] = g.Channels[t.step(u, d, l)].OutPort
		case own:
			row[l] = g.EndPorts[g.LIDOwner[l]].Port
		case turn:
			row[l] = t.detour(u, d)
		case apart:
			row[l] = t.plain[t.part[u]][t.place[u]*size+t.place[d]]
		}
	}
}

// sort classifies the LIDs of every switch for u.
func (t *tree) sort(u int32, w *scratch) {
	g := t.g
	kind, port := w.kind, w.port
	part := t.part[u]
	if !t.hasCA[part] {
		for d := range kind {
			kind[d] = drop
			if t.part[d] == part {
				kind[d] = apart
			}
		}
		kind[u] = own
		return
	}
	for d := range kind {
		kind[d] = drop
		if t.part[d] == part {
			kind[d] = turn
		}
	}
	// Up: odd are those that not every link up reaches equally well.
	lu := int(t.level[u])
	clear(w.odd)
	below := t.below1(u)
	for p := lu + 1; p <= t.height; p++ {
		mine := t.reach1(p, u)
		was := int32(-1)
		for _, c := range t.ups(u) {
			v := g.Channels[c].To
			if v == was {
				continue
			}
			was = v
			theirs := t.reach1(p, v)
			for i := range mine {
				w.odd[i] |= mine[i] &^ below[i] &^ theirs[i]
			}
		}
	}
	all := t.reach1(t.height, u)
	for i, set := range all {
		each(set&^below[i], i, func(d int32) { kind[d] = digit })
		each(w.odd[i], i, func(d int32) { kind[d] = choose })
	}
	// Down: if only one link leads there, it is used.
	for _, c := range t.downs(u) {
		ch := &g.Channels[c]
		for i, set := range t.below1(ch.To) {
			each(set, i, func(d int32) {
				if kind[d] == turn {
					kind[d], port[d] = fixed, ch.OutPort
				} else {
					kind[d] = choose
				}
			})
		}
	}
	kind[u] = own

	slots := t.slots(u)
	w.by = w.by[:0]
	for _, c := range slots {
		p := uint8(0)
		if c >= 0 {
			p = g.Channels[c].OutPort
		}
		w.by = append(w.by, p)
	}
}

// each calls fn for the switches of word i of a set.
func each(set uint64, i int, fn func(d int32)) {
	for ; set != 0; set &= set - 1 {
		fn(int32(i<<6 + bits.TrailingZeros64(set)))
	}
}

// entry is what fill writes for one LID.
func (t *tree) entry(u int32, l ib.LID) byte {
	d := t.dst[l]
	switch {
	case d < 0 || t.part[d] != t.part[u]:
		return route.Drop
	case d == u:
		return t.g.EndPorts[t.g.LIDOwner[l]].Port
	case !t.hasCA[t.part[u]]:
		return t.plain[t.part[u]][t.place[u]*t.partSize[t.part[u]]+t.place[d]]
	case !has(t.reach1(t.height, u), d):
		return t.detour(u, d)
	}
	return t.g.Channels[t.step(u, d, int(l))].OutPort
}

// step is the channel that leaves u toward destination at, which is on switch
// d and has a path up then down.
func (t *tree) step(u, d int32, at int) int32 {
	if has(t.below1(u), d) {
		return t.stepDown(u, d, at)
	}
	return t.stepUp(u, d, at)
}

// stepUp uses the link of the column's digit if no other leads there more
// directly, otherwise one drawn by the number's next digit, otherwise the first
// in an order drawn for the number. A switch that is not a peer of the column's
// carries no packets between hosts; it uses the digit that the column would
// have without damage, so it need not change when the column moves.
func (t *tree) stepUp(u, d int32, at int) int32 {
	g := t.g
	lu := int(t.level[u])
	p := lu + 1
	for !has(t.reach1(p, u), d) {
		p++
	}
	reach := t.reach[p]
	leads := func(c int32) bool { return has(reach[int(g.Channels[c].To)*t.words:], d) }
	slots := t.slots(u)
	x := int(t.pos[lu][at])
	if lu > 0 && int32(t.peer[lu][at]) != t.label[u] {
		x = int(t.plan[lu][at])
	}
	if x < len(slots) && slots[x] >= 0 && leads(slots[x]) {
		return slots[x]
	}
	if k := len(slots); k > 1 && x < k {
		y := (x + 1 + int(t.key[at])/k%(k-1)) % k
		if c := slots[y]; c >= 0 && leads(c) {
			return c
		}
	}
	best, most := int32(-1), uint32(0)
	for y, c := range slots {
		if c >= 0 && leads(c) {
			if h := draw(t.key[at], y); best < 0 || h > most {
				best, most = c, h
			}
		}
	}
	return best
}

// stepDown follows the column if u is in it, joins it if it can, and otherwise
// uses a drawn link.
func (t *tree) stepDown(u, d int32, at int) int32 {
	g := t.g
	l := int(t.level[u]) - 1
	if c := t.chain[l][at]; c >= 0 && g.Channels[c].To == u {
		return g.Channels[c].Rev
	}
	join := t.columnSwitch(l, d, at)
	best, most := int32(-1), uint64(0)
	for y, c := range t.downs(u) {
		v := g.Channels[c].To
		if !has(t.below1(v), d) {
			continue
		}
		h := uint64(draw(t.key[at], int(g.Channels[c].OutPort))) + 1
		if v == join {
			h |= 1 << 32
		}
		if h > most {
			best, most = t.downs(u)[y], h
		}
	}
	return best
}

// columnSwitch is the switch of a destination's column at a level; -1 if it
// does not get so far.
func (t *tree) columnSwitch(l int, d int32, at int) int32 {
	switch own := int(t.level[d]); {
	case l == own:
		return d
	case l < own:
		return -1
	}
	if c := t.chain[l-1][at]; c >= 0 {
		return t.g.Channels[c].To
	}
	return -1
}

// draw is a pseudo-random value for a destination's number and a link.
func draw(key int32, cable int) uint32 {
	h := uint64(uint32(key))*0x9E3779B97F4A7C15 ^ uint64(cable+1)*0xC2B2AE3D27D4EB4F
	h ^= h >> 29
	h *= 0xBF58476D1CE4E5B9
	return uint32(h >> 32)
}
