package ftree

import (
	"slices"

	"heddle/ib"
	"heddle/route"
)

// renumber gives ports the numbers whose digits their columns have in the
// installed tables, so that a restart changes no entries although hosts have
// come and gone since the ports were numbered. It keeps the fresh numbers if
// the tables have no columns, because packets from different leaves go up by
// different digits, or if a link would then lead down to more ports than with
// fresh numbers.
func (t *tree) renumber(prev *route.Tables, workers int) {
	if prev == nil || t.height == 0 {
		return
	}
	var leaves []int32
	for _, s := range t.order {
		if t.cas[s] > 0 && prev.LFT[s] != nil {
			leaves = append(leaves, s)
		}
	}
	fresh := t.key
	now := slices.Clone(fresh)
	class := t.classes()
	same, other := 0, 0
	for l := 1; l < len(t.g.LIDOwner); l++ {
		d := t.dst[l]
		if d < 0 || class[l] == self {
			continue
		}
		// A sample of leaves: the first two of them that send packets all the way up.
		const tries = 6
		found := 0
		for k := 0; k < tries && found < 2 && len(leaves) > 0; k++ {
			from := leaves[(int(t.place[d])+(k+1)*len(leaves)/(tries+1))%len(leaves)]
			x, ok := t.recall(prev, from, d, ib.LID(l), fresh[l])
			switch {
			case !ok:
			case found == 0:
				now[l] = x
				found++
			default:
				found++
				if x == now[l] {
					same++
				} else {
					other++
				}
			}
		}
	}
	if slices.Equal(now, fresh) || same < 9*other {
		return
	}
	most := t.fullest(workers)
	t.key = now
	for l, k := range t.fullest(workers) {
		if k > most[l] {
			t.key = fresh
			return
		}
	}
}

// recall is the number composed of the digits by which packets from a leaf to a
// LID go up, and of the remaining digits of the fresh number.
func (t *tree) recall(prev *route.Tables, leaf, d int32, l ib.LID, fresh int32) (int32, bool) {
	if t.level[leaf] != t.level[d] {
		return 0, false
	}
	number, weight := int32(0), int32(1)
	for u := leaf; u != d && prev.LFT[u] != nil; {
		slots := t.slots(u)
		if len(slots) == 0 {
			return number + weight*fresh, true
		}
		c := t.leaves(prev.LFT, u, l)
		x := int32(slices.Index(slots, c))
		if c < 0 || x < 0 || weight > 1<<20 {
			return 0, false
		}
		number += weight * x
		weight *= int32(len(slots))
		fresh /= int32(len(slots))
		u = t.g.Channels[c].To
	}
	return 0, false
}

// fullest is, by level, the most CA ports with a column through one link.
func (t *tree) fullest(workers int) []int32 {
	t.columns(workers)
	most := make([]int32, t.height)
	load := make([]int32, len(t.g.Channels))
	class := t.classes()
	for l := range most {
		for d, c := range t.chain[l] {
			if c >= 0 && class[d] != self {
				load[c]++
				most[l] = max(most[l], load[c])
			}
		}
	}
	return most
}
