package ftree

import (
	"math/bits"
	"slices"

	"heddle/ib"
	"heddle/route"
)

// columns finds every destination's column, level by level: the links from its
// switch to a top. At each switch, destinations of compute nodes whose digit
// has a useful link get that link; the others get the links with the fewest,
// beginning at the digit.
func (t *tree) columns(workers int) {
	m := len(t.dst)
	t.pos, t.chain = make([][]uint16, t.height+1), make([][]int32, t.height+1)
	t.plan, t.peer = make([][]uint16, t.height+1), make([][]uint16, t.height+1)
	rest := slices.Clone(t.key) // remaining digits of the number, level by level
	at := slices.Clone(t.dst)   // where the column has got to
	class := t.classes()
	good := t.useful()

	for l := range t.height + 1 {
		pos, chain, plan, peer := make([]uint16, m), make([]int32, m), make([]uint16, m), make([]uint16, m)
		t.pos[l], t.chain[l], t.plan[l], t.peer[l] = pos, chain, plan, peer
		off := make([]int32, t.n+1)
		for d, s := range at {
			pos[d], chain[d], plan[d], peer[d] = none, -1, none, none
			if s >= 0 && int(t.level[s]) == l {
				off[s+1]++
			}
		}
		for s := range t.n {
			off[s+1] += off[s]
		}
		bucket := make([]int32, off[t.n])
		next := slices.Clone(off)
		for d, s := range at {
			if s >= 0 && int(t.level[s]) == l {
				bucket[next[s]] = int32(d)
				next[s]++
				peer[d] = uint16(t.label[s])
			}
		}
		work := make([]placer, max(workers, 1))
		route.ForEach(workers, t.n, func(w, i int) {
			if s := int32(i); off[s] < off[s+1] && t.base[s] > 0 && len(t.ups(s)) > 0 {
				work[w].place(t, l, s, bucket[off[s]:off[s+1]], rest, class, good)
			}
		})
		for d, c := range chain {
			if c >= 0 {
				at[d] = t.g.Channels[c].To
			}
		}
	}
	// The column of a switch above the bottom is that of its first child, so that
	// packets on their way up to it find it.
	for d, s := range t.dst {
		for s >= 0 && t.level[s] > 0 {
			x := uint16(none)
			downs := t.downs(s)
			if len(downs) > 0 {
				x = uint16(t.label[s])
			}
			t.pos[t.level[s]-1][d], t.plan[t.level[s]-1][d] = x, x
			if len(downs) == 0 {
				break
			}
			s = t.g.Channels[downs[0]].To
		}
	}
}

// Classes of destinations, in the order of placement.
const (
	compute = iota
	other
	self // switch port 0
)

func (t *tree) classes() []uint8 {
	class := make([]uint8, len(t.dst))
	was, kind := int32(-2), uint8(self)
	for d := range class {
		class[d] = self
		if d >= len(t.g.LIDOwner) || t.dst[d] < 0 {
			continue
		}
		if e := t.g.LIDOwner[d]; e != was {
			was, kind = e, other
			if p := &t.g.EndPorts[e]; p.Type == ib.NodeSwitch {
				kind = self
			} else if t.isCompute(p) {
				kind = compute
			}
		}
		class[d] = kind
	}
	return class
}

// useful reports which channels up suit a column: they lead to a switch that
// reaches more than half as many CAs as its best peer does.
func (t *tree) useful() []bool {
	ca := make([]uint64, t.words)
	for s, k := range t.cas {
		if k > 0 {
			ca[s>>6] |= 1 << (s & 63)
		}
	}
	reaches := make([]int, t.n)
	for _, s := range t.order {
		if len(t.downs(s)) == 0 {
			continue
		}
		for i, w := range t.reach1(t.height, s) {
			reaches[s] += bits.OnesCount64(w & ca[i])
		}
	}
	good := make([]bool, len(t.g.Channels))
	for _, s := range t.order {
		most := 0
		for _, c := range t.ups(s) {
			most = max(most, reaches[t.g.Channels[c].To])
		}
		for _, c := range t.ups(s) {
			good[c] = 2*reaches[t.g.Channels[c].To] > most || most == 0
		}
	}
	return good
}

// placer places the destinations of one switch at a time.
type placer struct {
	load []int32
	left []int32
}

func (p *placer) place(t *tree, l int, s int32, dests, rest []int32, class []uint8, good []bool) {
	slots := t.slots(s)
	base := int32(len(slots))
	pos, chain, plan := t.pos[l], t.chain[l], t.plan[l]
	p.load = append(p.load[:0], make([]int32, base)...)
	p.left = p.left[:0]
	for _, d := range dests {
		digit := rest[d] % base
		c := slots[digit]
		plan[d] = uint16(digit)
		if class[d] == other || c < 0 || !good[c] {
			p.left = append(p.left, d)
			continue
		}
		pos[d], chain[d] = uint16(digit), c
		rest[d] /= base
		if class[d] == compute {
			p.load[digit]++
		}
	}
	if len(p.left) == 0 {
		return
	}
	slices.SortFunc(p.left, func(a, b int32) int {
		if class[a] != class[b] {
			return int(class[a]) - int(class[b])
		}
		if rest[a] != rest[b] {
			return int(rest[a] - rest[b])
		}
		return int(a - b)
	})
	for _, d := range p.left {
		// Those displaced from one digit begin at different ones.
		begin := rest[d] % base
		if c := slots[begin]; (c < 0 || !good[c]) && base > 1 {
			begin = (begin + 1 + rest[d]/base%(base-1)) % base
		}
		best := int32(-1)
		for i := range base {
			x := begin + i
			if x >= base {
				x -= base
			}
			if c := slots[x]; c >= 0 && good[c] && (best < 0 || class[d] != self && p.load[x] < p.load[best]) {
				best = x
			}
		}
		if best < 0 {
			continue
		}
		pos[d], chain[d] = uint16(best), slots[best]
		rest[d] /= base
		if class[d] != self {
			p.load[best]++
		}
	}
}
