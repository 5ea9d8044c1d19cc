package ftree

import (
	"cmp"
	"slices"

	"heddle/fabric"
	"heddle/ib"
)

// A layout turns numbers of destinations into columns. It is each switch's
// label: its digit among its peers, as seen from the switches below. Peers
// above one switch have different labels. Switches of different pods that lead
// to the same part of the tree above share a label: below the roots of a k-ary
// n-tree, for instance, the switches of one plane.

// union is a forest of disjoint sets.
type union []int32

func newUnion(n int) union {
	u := make(union, n)
	for i := range u {
		u[i] = int32(i)
	}
	return u
}

func (u union) find(a int32) int32 {
	for u[a] != a {
		u[a] = u[u[a]]
		a = u[a]
	}
	return a
}

// join makes the lower root that of both.
func (u union) join(a, b int32) {
	a, b = u.find(a), u.find(b)
	u[max(a, b)] = min(a, b)
}

// layOut assigns labels from the top down. Planes are the components of a level
// and all above it; pods are the components of two adjacent levels. Each plane
// gets the lowest labels that are free in all its pods, large planes first.
func (t *tree) layOut() {
	g := t.g
	t.label, t.width, t.base = make([]int32, t.n), make([]int32, t.n), make([]int32, t.n)
	inner := newUnion(t.n) // planes of level l+1 and above
	for l := t.height - 1; l >= 0; l-- {
		outer := newUnion(t.n) // those of level l and above
		copy(outer, inner)
		pods := newUnion(t.n)
		for _, s := range t.order {
			if int(t.level[s]) == l {
				for _, c := range t.ups(s) {
					outer.join(s, g.Channels[c].To)
					pods.join(s, g.Channels[c].To)
				}
			}
		}
		t.labelLevel(l, inner, outer, pods)
		inner = outer
	}
}

func (t *tree) labelLevel(l int, inner, outer, pods union) {
	type member struct{ outer, plane, pod, s int32 }
	var all []member
	for _, s := range t.order {
		if int(t.level[s]) == l+1 && len(t.downs(s)) > 0 {
			all = append(all, member{outer.find(s), inner.find(s), pods.find(s), s})
		}
	}
	size := make([]int32, t.n)
	for _, m := range all {
		size[m.plane]++
	}
	slices.SortFunc(all, func(a, b member) int {
		return cmp.Or(cmp.Compare(a.outer, b.outer), cmp.Compare(size[b.plane], size[a.plane]), cmp.Compare(a.plane, b.plane), cmp.Compare(a.pod, b.pod), cmp.Compare(a.s, b.s))
	})
	used := make([][]uint64, t.n) // by pod: labels taken
	width := make([]int32, t.n)   // by outer plane
	for i := 0; i < len(all); {
		j, most, run := i, 0, 0
		for ; j < len(all) && all[j].plane == all[i].plane; j++ {
			if j > i && all[j].pod == all[j-1].pod {
				run++
			} else {
				run = 1
			}
			most = max(most, run)
		}
		labels := make([]int32, 0, most)
		for x := int32(0); len(labels) < most; x++ {
			free := true
			for k := i; free && k < j; k++ {
				u := used[all[k].pod]
				free = int(x>>6) >= len(u) || !has(u, x)
			}
			if free {
				labels = append(labels, x)
			}
		}
		run = 0
		for k := i; k < j; k++ {
			m := all[k]
			if k > i && m.pod == all[k-1].pod {
				run++
			} else {
				run = 0
			}
			x := labels[run]
			t.label[m.s] = x
			u := used[m.pod]
			for int(x>>6) >= len(u) {
				u = append(u, 0)
			}
			u[x>>6] |= 1 << (x & 63)
			used[m.pod] = u
			width[m.outer] = max(width[m.outer], x+1)
		}
		i = j
	}
	t.levelWidths(l, outer, width)
}

// levelWidths gives the switches of level l the width of their outer plane, and
// the number of ports that its labels take.
func (t *tree) levelWidths(l int, outer union, width []int32) {
	parallel := make([]int32, t.n) // by outer plane: most links between two switches
	for _, s := range t.order {
		if int(t.level[s]) != l {
			continue
		}
		t.width[s] = width[outer.find(s)]
		ups := t.ups(s)
		for i, c := range ups {
			k := int32(0)
			for _, c2 := range ups[:i+1] {
				if t.g.Channels[c2].To == t.g.Channels[c].To {
					k++
				}
			}
			parallel[outer.find(s)] = max(parallel[outer.find(s)], k)
		}
	}
	for _, s := range t.order {
		if int(t.level[s]) == l {
			t.base[s] = t.width[s] * parallel[outer.find(s)]
		}
	}
}

// treeOrder sorts the switches with CAs by their place in the tree.
func (t *tree) treeOrder() []int32 {
	g := t.g
	var leaves []int32
	for s, k := range t.cas {
		if k > 0 {
			leaves = append(leaves, int32(s))
		}
	}
	first := make([]int32, t.n) // lowest base LID of a CA in the subtree
	for s := range first {
		first[s] = int32(g.TopLID) + 1
	}
	for _, s := range leaves {
		for _, l := range t.lids[t.lidOff[s]:t.lidOff[s+1]] {
			if g.EndPorts[g.LIDOwner[l]].Type != ib.NodeSwitch {
				first[s] = int32(l)
				break
			}
		}
	}
	keys := make([][]int32, t.height+1) // [level]: by switch, the lowest LID of its subtree up to that level
	sub := newUnion(t.n)
	for l := range keys {
		for _, s := range t.order {
			if int(t.level[s]) == l {
				for _, c := range t.downs(s) {
					a, b := sub.find(s), sub.find(g.Channels[c].To)
					sub.join(a, b)
					r := sub.find(a)
					first[r] = min(first[a], first[b])
				}
			}
		}
		keys[l] = make([]int32, t.n)
		for _, s := range leaves {
			keys[l][s] = first[sub.find(s)]
		}
	}
	slices.SortFunc(leaves, func(a, b int32) int {
		for l := t.height; l >= 0; l-- {
			if c := cmp.Compare(keys[l][a], keys[l][b]); c != 0 {
				return c
			}
		}
		return cmp.Compare(a, b)
	})
	return leaves
}

// owners calls fn for the LIDs of each CA port on a switch, the base LID first.
func (t *tree) owners(s int32, fn func(e *fabric.EndPort, lids []ib.LID)) {
	lids := t.lids[t.lidOff[s]:t.lidOff[s+1]]
	for i := 0; i < len(lids); {
		e := t.g.LIDOwner[lids[i]]
		j := i + 1
		for j < len(lids) && t.g.LIDOwner[lids[j]] == e {
			j++
		}
		if p := &t.g.EndPorts[e]; p.Type != ib.NodeSwitch {
			fn(p, lids[i:j])
		}
		i = j
	}
}

// numbers assigns every CA port its number, compute nodes first, by the
// position of its switch in the tree: those of a pod are consecutive, and pods
// and leaves are ordered by their lowest LID. The LIDs of a port have
// consecutive numbers, so that they use different links.
func (t *tree) numbers() {
	t.key = make([]int32, len(t.dst))
	t.start, t.number = make([]int32, t.n), make([]int32, t.n)
	var compute, other int32
	for _, s := range t.treeOrder() {
		t.start[s] = compute
		t.owners(s, func(e *fabric.EndPort, lids []ib.LID) {
			next := &other
			if t.isCompute(e) {
				next = &compute
			}
			for i, l := range lids {
				t.key[l] = *next + int32(i)
			}
			*next++
		})
	}
	at := make([]int32, t.height+1)
	for _, s := range t.order {
		t.number[s] = at[t.level[s]]
		at[t.level[s]]++
	}
	t.switchKeys()
}

// switchKeys numbers the switches' own LIDs.
func (t *tree) switchKeys() {
	for s := range t.n {
		t.key[int(t.g.TopLID)+1+s] = t.number[s]
		if l := t.g.EndPorts[t.g.Switches[s].EndPort].LID; l != 0 {
			t.key[l] = t.number[s]
		}
	}
}

// slotCables sorts every switch's links up by digit: the label of their upper
// switch and, above the width, parallel links. It returns false if one has no
// digit.
func (t *tree) slotCables() bool {
	t.offset = make([]int32, t.n+1)
	for s := range t.n {
		t.offset[s+1] = t.offset[s] + t.base[s]
	}
	t.slot = make([]int32, t.offset[t.n])
	for i := range t.slot {
		t.slot[i] = -1
	}
	for s := range int32(t.n) {
		mine := t.slots(s)
		for _, c := range t.ups(s) {
			at := t.label[t.g.Channels[c].To]
			for int(at) < len(mine) && mine[at] >= 0 {
				at += t.width[s]
			}
			if int(at) >= len(mine) || int(at) >= none || t.label[t.g.Channels[c].To] >= t.width[s] {
				return false
			}
			mine[at] = c
		}
	}
	return true
}
