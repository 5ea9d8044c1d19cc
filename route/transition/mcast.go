package transition

import (
	"cmp"
	"slices"

	"heddle/ib"
	"heddle/route"
)

// treeChange is a multicast group whose tree or service level changes; a nil
// tree is none.
type treeChange struct{ old, now *route.Tree }

// McastBlock names one block of a switch's multicast forwarding table: 32 MLIDs
// by 16 ports, the unit of one Set(MulticastForwardingTable).
type McastBlock struct {
	Switch   int32
	Block    uint16 // MLIDs 0xC000 + 32·Block and the next 31
	Position uint8  // ports 16·Position … 16·Position+15
}

func trees(t *route.Tables) []route.Tree {
	if t.Multicast == nil {
		return nil
	}
	return t.Multicast.Trees
}

// compareTrees fills ch.trees with the groups that change and ch.free with
// those that do not. If lanes change, all groups do.
func (x *mixer) compareTrees(ch *change) {
	a, b := trees(x.old), trees(x.new)
	for len(a) > 0 || len(b) > 0 {
		switch {
		case len(b) == 0 || len(a) > 0 && a[0].MLID < b[0].MLID:
			ch.trees = append(ch.trees, treeChange{old: &a[0]})
			a = a[1:]
		case len(a) == 0 || b[0].MLID < a[0].MLID:
			ch.trees = append(ch.trees, treeChange{now: &b[0]})
			b = b[1:]
		default:
			k := treeChange{&a[0], &b[0]}
			if len(ch.lanes) == 0 && sameTree(k.old, k.now) {
				ch.free = append(ch.free, k)
			} else {
				ch.trees = append(ch.trees, k)
			}
			a, b = a[1:], b[1:]
		}
	}
}

func sameTree(a, b *route.Tree) bool {
	if a.SL != b.SL || len(a.Switches) != len(b.Switches) || len(a.Ports) != len(b.Ports) {
		return false
	}
	if len(a.Ports) > 0 && len(a.Switches) > 0 && &a.Ports[0] == &b.Ports[0] && &a.Switches[0] == &b.Switches[0] {
		return true // a manager has the very trees that it distributed
	}
	return slices.Equal(a.Switches, b.Switches) && slices.Equal(a.Ports, b.Ports)
}

// treePorts are the ports by which switch s sends packets of a tree.
func treePorts(t *route.Tree, s int32) (p [4]uint64) {
	if t != nil {
		if i, ok := slices.BinarySearch(t.Switches, s); ok {
			p = t.Ports[i]
		}
	}
	return p
}

// treeLinks are the switches of a group that use the old or the new ports, as sp says, ascending, and
// by switch the channels on which it sends packets of the group.
func (x *mixer) treeLinks(k treeChange, sp spec) (list []int32, out [][]int32) {
	if k.old != nil && sp&oldEntries != 0 {
		list = append(list, k.old.Switches...)
	}
	if k.now != nil && sp&newEntries != 0 {
		list = append(list, k.now.Switches...)
	}
	slices.Sort(list)
	list = slices.Compact(list)
	out = make([][]int32, len(list))
	for i, s := range list {
		var p [4]uint64
		if sp&oldEntries != 0 {
			p = treePorts(k.old, s)
		}
		if sp&newEntries != 0 {
			for j, m := range treePorts(k.now, s) {
				p[j] |= m
			}
		}
		for _, c := range x.outs[x.outOff[s]:x.outOff[s+1]] {
			if q := x.outPort[c]; p[q>>6]>>(q&63)&1 != 0 {
				out[i] = append(out[i], c)
			}
		}
	}
	return list, out
}

// treeHops is how many switches a packet of a group may pass, by the old or the new ports, as sp says:
// the longest path of the forest that the links form. If they form none, a packet may visit all.
func (x *mixer) treeHops(k treeChange, sp spec) int {
	list, out := x.treeLinks(k, sp)
	if !x.isForest(list, out) {
		return len(list)
	}
	next := make([][]int32, len(list)) // neighbors, whichever end sends
	for i := range list {
		for _, c := range out[i] {
			if j, ok := slices.BinarySearch(list, x.to[c]); ok {
				next[i] = append(next[i], int32(j))
				next[j] = append(next[j], int32(i))
			}
		}
	}
	for i := range next { // a link that both ends send on is one
		slices.Sort(next[i])
		next[i] = slices.Compact(next[i])
	}
	most, seen := 0, make([]bool, len(list))
	for i := range list {
		if !seen[i] {
			end, _ := farthest(next, int32(i), seen)
			_, n := farthest(next, end, nil)
			most = max(most, n)
		}
	}
	return most
}

// farthest is the last node that a walk over a tree from a node on finds, nearest first, and how many
// nodes the path to it has. It notes in seen, unless that is nil, which it finds.
func farthest(next [][]int32, from int32, seen []bool) (last int32, nodes int) {
	type step struct{ at, before int32 }
	walk := []step{{from, -1}}
	for len(walk) > 0 {
		nodes++
		var further []step
		for _, w := range walk {
			last = w.at
			if seen != nil {
				seen[w.at] = true
			}
			for _, n := range next[w.at] {
				if n != w.before {
					further = append(further, step{n, w.at})
				}
			}
		}
		walk = further
	}
	return last, nodes
}

// treeDeps adds the dependencies of a group whose switches use the old or the
// new ports, as sp says: a packet from one port waits for all others. It
// reports whether the links form a forest; otherwise a packet could loop or be
// duplicated.
func (x *mixer) treeDeps(w *walker, k treeChange, sp spec) (forest bool) {
	return x.treeDepsOn(w, k, x.treeLevels(k, sp), sp)
}

// treeLevels are the service levels that packets of a group may have.
func (x *mixer) treeLevels(k treeChange, sp spec) (levels uint16) {
	if sp&oldSLs != 0 {
		levels = x.groups[k.mlid()]
		if k.old != nil {
			levels |= 1 << (k.old.SL & 15)
		}
	}
	if k.now != nil && sp&newSLs != 0 {
		levels |= 1 << (k.now.SL & 15)
	}
	return levels
}

// treeDepsOn is treeDeps for given service levels.
func (x *mixer) treeDepsOn(w *walker, k treeChange, levels uint16, sp spec) (forest bool) {
	list, out := x.treeLinks(k, sp)
	forest = x.isForest(list, out)
	for i := range list {
		for _, c1 := range out[i] {
			j, ok := slices.BinarySearch(list, x.to[c1])
			if !ok {
				continue
			}
			for _, c2 := range out[j] {
				if x.to[c2] != x.from[c1] || x.outPort[c2] != x.inPort[c1] {
					x.treeLanes(w, c1, c2, levels, sp)
				}
			}
		}
	}
	return forest
}

// treeLanes adds c1→c2 on each lane that a level may use. The lane of c1
// depends on the packets' source, so all are added.
func (x *mixer) treeLanes(w *walker, c1, c2 int32, levels uint16, sp spec) {
	for sl := range int32(16) {
		if levels>>sl&1 == 0 {
			continue
		}
		into := x.lanesOf(c2, x.inPort[c1], ib.SL(sl), sp)
		var from uint16
		if x.tables {
			for in := range 256 {
				if in == 0 || x.port[int(x.from[c1])<<8|in] >= 0 {
					from |= x.lanesOf(c1, uint8(in), ib.SL(sl), sp)
				}
			}
			for _, in := range x.ports[x.from[c1]] {
				from |= x.lanesOf(c1, in, ib.SL(sl), sp)
			}
		} else {
			from = x.lanesOf(c1, 0, ib.SL(sl), sp)
		}
		for v1 := range x.lanes {
			for v2 := range x.lanes {
				if from>>v1&1 != 0 && into>>v2&1 != 0 && (x.cross || v1 == v2) {
					x.add(w, c1, v1, c2, v2)
				}
			}
		}
	}
}

// isForest reports whether the links of the channels close no cycle.
func (x *mixer) isForest(list []int32, out [][]int32) bool {
	up := make([]int32, len(list))
	for i := range up {
		up[i] = int32(i)
	}
	find := func(i int32) int32 {
		for up[i] != i {
			up[i] = up[up[i]]
			i = up[i]
		}
		return i
	}
	for i := range list {
		for _, c := range out[i] {
			j, ok := slices.BinarySearch(list, x.to[c])
			if !ok {
				continue
			}
			if int(j) < i && slices.ContainsFunc(out[j], func(d int32) bool {
				return x.to[d] == x.from[c] && x.outPort[d] == x.inPort[c]
			}) {
				continue // the same link from its other end
			}
			a, b := find(int32(i)), find(int32(j))
			if a == b {
				return false
			}
			up[a] = b
		}
	}
	return true
}

func (k treeChange) mlid() ib.LID {
	if k.now != nil {
		return k.now.MLID
	}
	return k.old.MLID
}

// switches of either tree, ascending.
func (k treeChange) switches() (list []int32) {
	for _, t := range [2]*route.Tree{k.old, k.now} {
		if t != nil {
			list = append(list, t.Switches...)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// mcastBlocks lists the blocks in which the masks that before and after give
// differ, for n groups.
func mcastBlocks(n int, group func(i int) (ib.LID, []int32), before, after func(i int, s int32) [4]uint64) (list []McastBlock) {
	for i := range n {
		mlid, switches := group(i)
		for _, s := range switches {
			a, b := before(i, s), after(i, s)
			for pos := range uint8(16) {
				sh := pos % 4 * 16
				if (a[pos/4]^b[pos/4])>>sh&0xFFFF != 0 {
					list = append(list, McastBlock{s, uint16(mlid-0xC000) / 32, pos})
				}
			}
		}
	}
	slices.SortFunc(list, func(a, b McastBlock) int {
		return cmp.Or(cmp.Compare(a.Switch, b.Switch), cmp.Compare(a.Block, b.Block), cmp.Compare(a.Position, b.Position))
	})
	return slices.Compact(list)
}
