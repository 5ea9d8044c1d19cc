package ftree

import (
	"cmp"
	"math/bits"
	"slices"

	"heddle/fabric"
	"heddle/ib"
	"heddle/route"
)

// maxHeight is the highest level that a switch of a tree may have.
const maxHeight = 15

// rank assigns levels to the switches. With given roots, the level is the
// distance from the nearest one. Otherwise the lowest level is the first of
// these sets that gives a tree in which all CA ports reach each other: the
// switches with compute nodes, if any are given; the switches with more than
// half as many CAs as the fullest, so that a few I/O nodes further up do not
// matter; all switches with CAs.
func (t *tree) rank(o route.Options) error {
	var first error
	try := func(levels func() []int8) bool {
		level := levels()
		if level == nil {
			return false
		}
		err := t.setLevels(level)
		if err == nil {
			t.closure()
			err = t.complete(o)
		}
		if err == nil {
			return true
		}
		if first == nil {
			first = err
		}
		return false
	}
	if len(o.Roots) > 0 {
		if roots := t.givenRoots(o.Roots); roots != nil {
			if try(func() []int8 { return t.fromRoots(roots) }) {
				return nil
			}
			return first
		}
	}
	var last []bool
	for _, seeds := range [][]bool{t.seedsCompute(), t.seedsFull(), t.seedsAll()} {
		if seeds == nil || slices.Equal(seeds, last) {
			continue
		}
		last = seeds
		if try(func() []int8 { return t.fromLeaves(seeds, true) }) || try(func() []int8 { return t.fromLeaves(seeds, false) }) {
			return nil
		}
	}
	return first
}

func (t *tree) givenRoots(roots []ib.GUID) []bool {
	is := make([]bool, t.n)
	covered := make([]bool, len(t.partSize))
	missing := 0
	for _, guid := range roots {
		s, ok := slices.BinarySearchFunc(t.g.Switches, guid, func(a fabric.SwitchNode, b ib.GUID) int { return cmp.Compare(a.GUID, b) })
		if !ok {
			missing++
			continue
		}
		is[s], covered[t.part[s]] = true, true
	}
	if missing > 0 {
		t.say("%d of %d given roots are not in the fabric", missing, len(roots))
	}
	if missing == len(roots) {
		return nil
	}
	// A part without a root has those that it would have without any given.
	for k := range covered {
		if covered[k] || !t.hasCA[k] {
			continue
		}
		level := t.fromLeaves(t.seedsFull(), true)
		top := int8(0)
		for s := range level {
			if t.part[s] == int32(k) {
				top = max(top, level[s])
			}
		}
		for s := range level {
			if t.part[s] == int32(k) && level[s] == top {
				is[s] = true
			}
		}
		t.say("a part of the fabric had no given root; found some")
	}
	return is
}

// distances gives every switch its distance from the nearest of a set; -1
// where none is.
func (t *tree) distances(from []bool) []int32 {
	g := t.g
	dist := make([]int32, t.n)
	queue := make([]int32, 0, t.n)
	for s := range dist {
		dist[s] = -1
		if from[s] {
			dist[s] = 0
			queue = append(queue, int32(s))
		}
	}
	for h := 0; h < len(queue); h++ {
		u := queue[h]
		for c := g.Off[u]; c < g.Off[u+1]; c++ {
			if v := g.Channels[c].To; dist[v] < 0 {
				dist[v] = dist[u] + 1
				queue = append(queue, v)
			}
		}
	}
	return dist
}

// levels makes levels of distances from the bottom or, negative, from the top.
func (t *tree) levels(dist []int32) []int8 {
	low := make([]int32, len(t.partSize))
	for s, d := range dist {
		low[t.part[s]] = min(low[t.part[s]], d)
	}
	level := make([]int8, t.n)
	for s, d := range dist {
		level[s] = -1
		if k := t.part[s]; t.hasCA[k] {
			level[s] = int8(min(d-low[k], maxHeight+1))
		}
	}
	return level
}

func (t *tree) fromRoots(roots []bool) []int8 {
	dist := t.distances(roots)
	for s := range dist {
		dist[s] = -max(dist[s], 0)
	}
	return t.levels(dist)
}

// seedsCompute are the switches with compute nodes; nil if none are given.
func (t *tree) seedsCompute() []bool {
	if t.compute == nil {
		return nil
	}
	var is []bool
	for l := range t.g.LIDOwner {
		d := t.dst[l]
		if d < 0 {
			continue
		}
		if e := &t.g.EndPorts[t.g.LIDOwner[l]]; e.Type != ib.NodeSwitch && t.isCompute(e) {
			if is == nil {
				is = make([]bool, t.n)
			}
			is[d] = true
		}
	}
	return t.everyPart(is)
}

// seedsFull are the switches with more than half as many CAs as the fullest of
// their part.
func (t *tree) seedsFull() []bool {
	most := make([]int32, len(t.partSize))
	for s, k := range t.cas {
		most[t.part[s]] = max(most[t.part[s]], k)
	}
	is := make([]bool, t.n)
	for s, k := range t.cas {
		is[s] = 2*k > most[t.part[s]]
	}
	return is
}

func (t *tree) seedsAll() []bool {
	is := make([]bool, t.n)
	for s, k := range t.cas {
		is[s] = k > 0
	}
	return is
}

// everyPart adds all switches with CAs of the parts that have no seed.
func (t *tree) everyPart(is []bool) []bool {
	if is == nil {
		return nil
	}
	covered := make([]bool, len(t.partSize))
	for s, y := range is {
		if y {
			covered[t.part[s]] = true
		}
	}
	for s, k := range t.cas {
		if k > 0 && !covered[t.part[s]] {
			is[s] = true
		}
	}
	return is
}

// fromLeaves returns every switch's distance from the nearest seed. A leaf
// without CAs then looks like a switch above its parents; it can be recognized
// because all switches below it are also below one of those. With fold, such
// switches are put under their parents. It returns nil if there are none.
func (t *tree) fromLeaves(seeds []bool, fold bool) []int8 {
	dist := t.distances(seeds)
	if !fold {
		return t.levels(dist)
	}
	high := false
	order := make([]int32, 0, t.n)
	for s, d := range dist {
		high = high || d >= 2
		if d >= 0 {
			order = append(order, int32(s))
		}
	}
	if !high {
		return t.levels(dist)
	}
	slices.SortStableFunc(order, func(a, b int32) int { return int(dist[a] - dist[b]) })
	g := t.g
	cover := make([]uint64, t.n*t.words)
	folded := make([]bool, t.n)
	covers := make([]int, t.n)
	any := false
	for _, s := range order {
		mine := cover[int(s)*t.words:][:t.words]
		if seeds[s] {
			mine[s>>6] |= 1 << (s & 63)
		}
		most := 0
		for c := g.Off[s]; c < g.Off[s+1]; c++ {
			v := g.Channels[c].To
			if dist[v] != dist[s]-1 {
				continue
			}
			most = max(most, covers[v])
			for i, w := range cover[int(v)*t.words:][:t.words] {
				mine[i] |= w
			}
		}
		covers[s] = count(mine)
		folded[s] = dist[s] >= 2 && covers[s] == most
		any = any || folded[s]
	}
	if !any {
		return t.levels(dist)
	}
	// From the others outwards, one level down at each step.
	const unset = 1 << 20
	queue := order[:0]
	for s := range int32(t.n) {
		if folded[s] {
			dist[s] = unset
		}
	}
	for s := range int32(t.n) {
		if dist[s] != unset && dist[s] >= 0 {
			queue = append(queue, s)
		}
	}
	for h := 0; h < len(queue); h++ {
		u := queue[h]
		for c := g.Off[u]; c < g.Off[u+1]; c++ {
			if v := g.Channels[c].To; dist[v] == unset {
				dist[v] = dist[u] - 1
				queue = append(queue, v)
			}
		}
	}
	return t.levels(dist)
}

// setLevels uses the levels, unless a link contradicts them.
func (t *tree) setLevels(level []int8) error {
	g := t.g
	t.level, t.height = level, 0
	for s, l := range level {
		if l > maxHeight {
			return route.Refuse("ftree", route.ErrTopology, "no tree: switch %v is more than %d links away from the lowest rank", g.Switches[s].GUID, maxHeight)
		}
		t.height = max(t.height, int(l))
	}
	t.upOff, t.dnOff = make([]int32, t.n+1), make([]int32, t.n+1)
	t.up, t.dn = make([]int32, 0, len(g.Channels)/2), make([]int32, 0, len(g.Channels)/2)
	for s := range t.n {
		mine := level[s]
		for c := g.Off[s]; mine >= 0 && c < g.Off[s+1]; c++ {
			to := g.Channels[c].To
			switch level[to] - mine {
			case 1:
				t.up = append(t.up, c)
			case -1:
				t.dn = append(t.dn, c)
			case 0:
				return route.Refuse("ftree", route.ErrTopology, "no tree: switches %v and %v, both of rank %d, are cabled", g.Switches[s].GUID, g.Switches[to].GUID, t.height-int(mine))
			default:
				return route.Refuse("ftree", route.ErrTopology, "no tree: switches %v of rank %d and %v of rank %d are cabled", g.Switches[s].GUID, t.height-int(mine), g.Switches[to].GUID, t.height-int(level[to]))
			}
		}
		t.upOff[s+1], t.dnOff[s+1] = int32(len(t.up)), int32(len(t.dn))
	}
	t.order = t.order[:0]
	for l := 0; l <= t.height; l++ {
		for s := range int32(t.n) {
			if int(level[s]) == l {
				t.order = append(t.order, s)
			}
		}
	}
	return nil
}

// closure computes which switches are below each switch, and which reach each
// other at which height.
func (t *tree) closure() {
	g := t.g
	t.below = make([]uint64, t.n*t.words)
	for _, s := range t.order {
		mine := t.below1(s)
		mine[s>>6] |= 1 << (s & 63)
		was := int32(-1)
		for _, c := range t.downs(s) {
			v := g.Channels[c].To
			if v == was {
				continue
			}
			was = v
			for i, w := range t.below1(v) {
				mine[i] |= w
			}
		}
	}
	t.reach = make([][]uint64, t.height+1)
	for p := range t.reach {
		t.reach[p] = slices.Clone(t.below)
		for k := len(t.order) - 1; k >= 0; k-- {
			s := t.order[k]
			if int(t.level[s]) >= p {
				continue
			}
			mine := t.reach1(p, s)
			was := int32(-1)
			for _, c := range t.ups(s) {
				v := g.Channels[c].To
				if v == was {
					continue
				}
				was = v
				for i, w := range t.reach1(p, v) {
					mine[i] |= w
				}
			}
		}
	}
}

// complete reports the first two CA ports without a path up then down, unless
// I/O nodes may do without.
func (t *tree) complete(o route.Options) error {
	t.lonely = t.lonely[:0]
	cas := make([]uint64, t.words)
	for s, k := range t.cas {
		if k > 0 {
			cas[s>>6] |= 1 << (s & 63)
		}
	}
	of := make([]int, len(t.partSize))
	for s, k := range t.cas {
		if k > 0 {
			of[t.part[s]]++
		}
	}
	for s := range int32(t.n) {
		if t.cas[s] == 0 {
			continue
		}
		mine := t.reach1(t.height, s)
		k := 0
		for i, w := range mine {
			k += bits.OnesCount64(w & cas[i])
		}
		if k == of[t.part[s]] {
			continue
		}
		for d := range int32(t.n) {
			if t.cas[d] > 0 && t.part[d] == t.part[s] && !has(mine, d) {
				if o.MaxReverseHops <= 0 || !t.mayReverse(s, d) {
					a, b := t.firstCA(s), t.firstCA(d)
					return route.Refuse("ftree", route.ErrTopology, "CA ports %v on switch %v and %v on switch %v have no path up then down, and are not I/O nodes that may take reverse hops",
						a.GUID, t.g.Switches[s].GUID, b.GUID, t.g.Switches[d].GUID)
				}
				t.lonely = append(t.lonely, [2]int32{s, d})
			}
		}
	}
	return nil
}

func (t *tree) firstCA(s int32) *fabric.EndPort {
	for _, l := range t.lids[t.lidOff[s]:t.lidOff[s+1]] {
		if e := &t.g.EndPorts[t.g.LIDOwner[l]]; e.Type != ib.NodeSwitch {
			return e
		}
	}
	return nil
}

// mayReverse reports whether all CA ports on one of two switches are I/O
// nodes.
func (t *tree) mayReverse(a, b int32) bool {
	all := func(s int32) bool {
		for _, l := range t.lids[t.lidOff[s]:t.lidOff[s+1]] {
			e := &t.g.EndPorts[t.g.LIDOwner[l]]
			if _, ok := slices.BinarySearch(t.io, e.GUID); !ok && e.Type != ib.NodeSwitch {
				return false
			}
		}
		return true
	}
	return all(a) || all(b)
}
