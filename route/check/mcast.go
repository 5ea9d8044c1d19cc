package check

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"

	"heddle/ib"
	"heddle/route"
	"heddle/route/cdg"
)

// MulticastFailure is a group whose tree does not deliver exactly one copy of a
// packet to each member, and the first place where that shows.
type MulticastFailure struct {
	MLID   ib.LID
	Switch int32 // -1: no place in particular
	Port   uint8
	Reason string
}

// String names the group and the place.
func (f MulticastFailure) String() string {
	if f.Switch < 0 {
		return fmt.Sprintf("group %#04x: %s", uint16(f.MLID), f.Reason)
	}
	return fmt.Sprintf("group %#04x, switch %d, port %d: %s", uint16(f.MLID), f.Switch, f.Port, f.Reason)
}

// trees verifies the trees of all groups: that they are trees and reach their
// members, and that their packets' dependencies have no cycle. A packet of a
// group may enter any switch of the tree from any end port there or by any link
// of the tree, and leaves by every other port of the tree.
//
// Cost of a tree: the sum of squared port counts over its switches, and its
// members. Trees that skip names are not verified.
func (j *verifier) trees(ws []*scratch, o Options, skip []bool) (failures int, examples []MulticastFailure) {
	m := j.t.Multicast
	if m == nil && o.Groups == nil {
		return 0, nil
	}
	var list []route.Tree
	if m != nil {
		list = m.Trees
	}
	tj := j.newTreeVerifier(o.Groups)
	tj.marks = make([][]uint8, len(ws))
	found := make([]MulticastFailure, len(list))
	pos := make([][]int32, len(ws))
	route.ForEach(len(ws), len(list), func(w, i int) {
		if skip != nil && skip[i] {
			return
		}
		if ws[w] == nil {
			ws[w] = j.newScratch()
		}
		if pos[w] == nil {
			tj.marks[w] = make([]uint8, len(j.g.EndPorts))
			pos[w] = make([]int32, j.n)
			for s := range pos[w] {
				pos[w][s] = -1
			}
		}
		found[i] = tj.tree(ws[w], &list[i], pos[w], tj.marks[w])
	})
	for i := range found {
		if found[i].Reason != "" {
			examples = append(examples, found[i])
		}
	}
	examples = append(examples, tj.missing(list)...)
	failures = len(examples)
	return failures, examples[:min(len(examples), j.keep)]
}

type treeVerifier struct {
	*verifier
	groups []route.Group // ascending MLID
	known  bool          // groups are given
	endAt  []int32       // end port by switch<<8 | port, or -1
	hosts  [][]uint8     // by switch: the ports of its end ports
	pos    []int32       // scratch of each
	marks  [][]uint8     // by worker and end port: scratch of members, all 0
}

func (j *verifier) newTreeVerifier(known []route.Group) *treeVerifier {
	t := &treeVerifier{verifier: j, groups: byMLID(known), known: known != nil, endAt: make([]int32, j.n<<8), hosts: make([][]uint8, j.n)}
	for i := range t.endAt {
		t.endAt[i] = -1
	}
	for e := range j.g.EndPorts {
		if p := &j.g.EndPorts[e]; p.Switch >= 0 {
			t.endAt[int(p.Switch)<<8|int(p.Port)] = int32(e)
			t.hosts[p.Switch] = append(t.hosts[p.Switch], p.Port)
		}
	}
	return t
}

// missing lists the groups that have members but neither tree nor refusal.
func (t *treeVerifier) missing(list []route.Tree) (out []MulticastFailure) {
	for i := range t.groups {
		grp := &t.groups[i]
		if _, ok := slices.BinarySearchFunc(list, grp.MLID, func(tr route.Tree, l ib.LID) int { return cmp.Compare(tr.MLID, l) }); ok ||
			t.t.Multicast != nil && slices.ContainsFunc(t.t.Multicast.Refused, func(r route.RefusedGroup) bool { return r.MLID == grp.MLID }) {
			continue
		}
		if slices.ContainsFunc(grp.Members, func(e int32) bool { return t.g.EndPorts[e].Switch >= 0 }) {
			out = append(out, MulticastFailure{MLID: grp.MLID, Switch: -1, Reason: "no tree"})
		}
	}
	return out
}

// tree verifies one tree and records its dependencies. pos is all -1 before and
// after, marks all 0.
func (t *treeVerifier) tree(w *scratch, tr *route.Tree, pos []int32, marks []uint8) (fail MulticastFailure) {
	for i, s := range tr.Switches {
		pos[s] = int32(i)
	}
	blame := func(s int32, port int, reason string) {
		if fail.Reason == "" {
			fail = MulticastFailure{MLID: tr.MLID, Switch: s, Port: uint8(port), Reason: reason}
		}
	}
	links := 0
	for i, s := range tr.Switches {
		eachPort(&tr.Ports[i], func(p int) {
			c := t.channelAt(s, p)
			if c < 0 {
				if t.endAt[int(s)<<8|p] < 0 {
					blame(s, p, "the port leads nowhere")
				}
				return
			}
			links++
			k := &t.g.Channels[c]
			if at := pos[k.To]; at < 0 || !hasPort(&tr.Ports[at], int(k.InPort)) {
				blame(s, p, "the far end of the link is not in the tree")
			}
		})
	}
	t.shape(tr, pos, links, blame)
	if t.known {
		t.members(tr, pos, marks, blame)
	}
	for i, s := range tr.Switches {
		eachPort(&tr.Ports[i], func(p int) {
			lanes, refused := t.lanesInto(tr, pos, s, p)
			if refused {
				blame(s, p, "packets on a lane that the link does not have")
			}
			if c := t.channelAt(s, p); c >= 0 {
				w.lanes |= uint32(lanes)
				t.wait(tr, pos, c, lanes, func(c1, c2 int32, l1, l2 int) {
					b := uint32(t.row[c1] + t.col[c2])
					t.plane(w.ca, l1, l2)[b>>6] |= 1 << (b & 63)
				})
			}
		})
	}
	for _, s := range tr.Switches {
		pos[s] = -1
	}
	return fail
}

// shape verifies that the links of a tree close no cycle and join its switches.
func (t *treeVerifier) shape(tr *route.Tree, pos []int32, links int, blame func(int32, int, string)) {
	if len(tr.Switches) == 0 {
		return
	}
	seen := make([]bool, len(tr.Switches))
	seen[0] = true
	stack := []int32{0}
	reached := 0
	for len(stack) > 0 {
		i := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		reached++
		eachPort(&tr.Ports[i], func(p int) {
			if c := t.channelAt(tr.Switches[i], p); c >= 0 {
				if at := pos[t.to[c]]; at >= 0 && !seen[at] {
					seen[at] = true
					stack = append(stack, at)
				}
			}
		})
	}
	if reached < len(tr.Switches) {
		blame(tr.Switches[slices.Index(seen, false)], 0, "links of the tree do not lead here")
	} else if links > 2*(len(tr.Switches)-1) {
		blame(-1, 0, "the links close a cycle")
	}
}

// Roles of an end port in a group.
const (
	isMember = 1 << iota
	isSender // gets no copies
)

// members compares the tree's ports to end ports with the group.
func (t *treeVerifier) members(tr *route.Tree, pos []int32, marks []uint8, blame func(int32, int, string)) {
	k, ok := slices.BinarySearchFunc(t.groups, tr.MLID, func(g route.Group, l ib.LID) int { return cmp.Compare(g.MLID, l) })
	grp := route.Group{}
	if ok {
		grp = t.groups[k]
	}
	for _, e := range grp.Members {
		marks[e] |= isMember
	}
	for _, e := range grp.Senders {
		marks[e] |= isSender
	}
	for _, e := range grp.Members {
		p := &t.g.EndPorts[e]
		if p.Switch < 0 || len(tr.Switches) > 0 && t.comp[p.Switch] != t.comp[tr.Switches[0]] {
			continue // no link joins it to the others
		}
		at := pos[p.Switch]
		if at < 0 || marks[e]&isSender == 0 && !hasPort(&tr.Ports[at], int(p.Port)) {
			blame(p.Switch, int(p.Port), "a member that the tree does not reach")
		}
	}
	for i, s := range tr.Switches {
		eachPort(&tr.Ports[i], func(p int) {
			if e := t.endAt[int(s)<<8|p]; e >= 0 && t.channelAt(s, p) < 0 {
				if marks[e] != isMember {
					blame(s, p, "copies for an end port that is no member")
				}
			}
		})
	}
	for _, list := range [2][]int32{grp.Members, grp.Senders} {
		for _, e := range list {
			marks[e] = 0
		}
	}
}

// byMLID is a copy of groups in ascending order.
func byMLID(groups []route.Group) []route.Group {
	l := slices.Clone(groups)
	slices.SortStableFunc(l, func(a, b route.Group) int { return cmp.Compare(a.MLID, b.MLID) })
	return l
}

func sameTree(a, b *route.Tree) bool {
	return a.SL == b.SL && sameList(a.Switches, b.Switches) && sameList(a.Ports, b.Ports)
}

// sameList is slices.Equal with no cost for slices that share memory.
func sameList[T comparable](a, b []T) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0] || slices.Equal(a, b))
}

// verified reports for each tree whether an earlier result for the same members
// applies, because the fabric, the lanes and the number of lanes are unchanged.
// nil: none.
func (u *update) verified() []bool {
	was, now, before := u.p.t.Multicast, u.now.t.Multicast, u.p.st.groups
	if was == nil || now == nil || u.now.g != u.old.g || u.now.t.NumVLs != u.old.t.NumVLs || before == nil || u.o.Groups == nil {
		return nil
	}
	groups := byMLID(u.o.Groups)
	find := func(l []route.Group, m ib.LID) *route.Group {
		k, ok := slices.BinarySearchFunc(l, m, func(g route.Group, m ib.LID) int { return cmp.Compare(g.MLID, m) })
		if !ok {
			return nil
		}
		return &l[k]
	}
	out := make([]bool, len(now.Trees))
	i := 0
	for k := range now.Trees {
		tr := &now.Trees[k]
		for i < len(was.Trees) && was.Trees[i].MLID < tr.MLID {
			i++
		}
		if i == len(was.Trees) || was.Trees[i].MLID != tr.MLID || !sameTree(&was.Trees[i], tr) {
			continue
		}
		a, b := find(before, tr.MLID), find(groups, tr.MLID)
		out[k] = a != nil && b != nil && sameList(a.Members, b.Members) && sameList(a.Senders, b.Senders)
	}
	return out
}

// lanesInto is the set of lanes of packets that leave switch s by port out of
// the tree, and whether some are refused.
func (t *treeVerifier) lanesInto(tr *route.Tree, pos []int32, s int32, out int) (lanes uint16, refused bool) {
	c := t.channelAt(s, out)
	if c < 0 && t.endAt[int(s)<<8|out] < 0 {
		return 0, false
	}
	add := func(in uint8) {
		if v, ok := t.laneBetween(tr.SL, s, in, out, c); ok {
			lanes |= 1 << v
		} else {
			refused = true
		}
	}
	if t.t.Lanes == nil { // the same from everywhere
		add(0)
		return lanes, refused
	}
	for _, p := range t.hosts[s] {
		if int(p) != out {
			add(p)
		}
	}
	eachPort(&tr.Ports[pos[s]], func(p int) {
		if back := t.channelAt(s, p); back >= 0 && p != out && t.sends(tr, pos, t.g.Channels[back].Rev) {
			add(uint8(p))
		}
	})
	return lanes, refused
}

// laneBetween is the lane from port in of switch s to port out, over channel c
// if that is not -1; ok if the link has it.
func (t *treeVerifier) laneBetween(sl ib.SL, s int32, in uint8, out int, c int32) (lane uint8, ok bool) {
	vls := uint8(15)
	if c >= 0 {
		vls = t.vls[c]
	} else if out == 0 {
		return 0, true
	}
	lane = uint8(t.t.VL(s, in, uint8(out), sl, vls))
	return lane, lane < vls
}

// sends reports whether channel c is of the tree.
func (t *treeVerifier) sends(tr *route.Tree, pos []int32, c int32) bool {
	if c < 0 {
		return false
	}
	k := &t.g.Channels[c]
	at := pos[k.From]
	return at >= 0 && hasPort(&tr.Ports[at], int(k.OutPort))
}

// wait calls fn for the channels for which packets on channel c1 of the tree,
// on some lanes, wait.
func (t *treeVerifier) wait(tr *route.Tree, pos []int32, c1 int32, lanes uint16, fn func(c1, c2 int32, l1, l2 int)) {
	k := &t.g.Channels[c1]
	at := pos[k.To]
	if at < 0 {
		return
	}
	eachPort(&tr.Ports[at], func(p int) {
		c2 := t.channelAt(k.To, p)
		if c2 < 0 || p == int(k.InPort) {
			return
		}
		l2, ok := t.laneBetween(tr.SL, k.To, k.InPort, p, c2)
		if !ok {
			return
		}
		for x := lanes; x != 0; x &= x - 1 {
			fn(c1, c2, bits.TrailingZeros16(x), int(l2))
		}
	})
}

// explainTree finds a path of a group's packets that makes the dependency d of
// channel c2 on c1.
func (j *verifier) explainTree(d *Dependency, c1, c2 int32) {
	if j.t.Multicast == nil {
		return
	}
	u, in := d.In.Switch, j.g.Channels[c1].InPort
	for i := range j.t.Multicast.Trees {
		tr := &j.t.Multicast.Trees[i]
		at, ok := slices.BinarySearch(tr.Switches, u)
		next, ok2 := slices.BinarySearch(tr.Switches, d.Out.Switch)
		if !ok || !ok2 || !hasPort(&tr.Ports[at], int(d.In.Port)) || !hasPort(&tr.Ports[next], int(d.Out.Port)) ||
			uint8(j.t.VL(d.Out.Switch, in, d.Out.Port, tr.SL, j.vls[c2])) != d.Out.Lane {
			continue
		}
		enters := func(port uint8) bool {
			return port != d.In.Port && uint8(j.t.VL(u, port, d.In.Port, tr.SL, j.vls[c1])) == d.In.Lane
		}
		for e := range j.g.EndPorts {
			if p := &j.g.EndPorts[e]; p.Switch == u && enters(p.Port) {
				d.Src, d.Dst, d.Path = int32(e), tr.MLID, []Hop{d.In, d.Out}
				return
			}
		}
		for c := j.g.Off[u]; c < j.g.Off[u+1]; c++ {
			k := &j.g.Channels[c]
			from, ok := slices.BinarySearch(tr.Switches, k.To)
			if !ok || !enters(k.OutPort) || !hasPort(&tr.Ports[at], int(k.OutPort)) || !hasPort(&tr.Ports[from], int(k.InPort)) {
				continue
			}
			for e := range j.g.EndPorts {
				if p := &j.g.EndPorts[e]; p.Switch == k.To && p.Port != k.InPort {
					lane := j.t.VL(k.To, p.Port, k.InPort, tr.SL, j.vls[k.Rev])
					d.Src, d.Dst, d.Path = int32(e), tr.MLID, []Hop{{k.To, k.InPort, uint8(lane)}, d.In, d.Out}
					return
				}
			}
		}
	}
}

func (j *verifier) channelAt(s int32, port int) int32 {
	if port >= j.stride {
		return -1
	}
	return j.out[int(s)<<j.shift|port]
}

func hasPort(m *[4]uint64, p int) bool { return m[p>>6]>>(p&63)&1 != 0 }

func eachPort(m *[4]uint64, fn func(p int)) {
	for w, x := range m {
		for ; x != 0; x &= x - 1 {
			fn(w<<6 + bits.TrailingZeros64(x))
		}
	}
}

// badTrees says why the trees cannot be read; "" if they can.
func badTrees(n int, m *route.Multicast) string {
	for i := range m.Trees {
		tr := &m.Trees[i]
		if tr.MLID < 0xC000 || tr.MLID == 0xFFFF || i > 0 && tr.MLID <= m.Trees[i-1].MLID {
			return fmt.Sprintf("tree %d is of group %#04x", i, uint16(tr.MLID))
		}
		if tr.SL > 15 {
			return fmt.Sprintf("the tree of group %#04x has service level %d", uint16(tr.MLID), tr.SL)
		}
		if len(tr.Ports) != len(tr.Switches) {
			return fmt.Sprintf("the tree of group %#04x has ports of %d switches for %d", uint16(tr.MLID), len(tr.Ports), len(tr.Switches))
		}
		for k, s := range tr.Switches {
			if s < 0 || int(s) >= n || k > 0 && s <= tr.Switches[k-1] {
				return fmt.Sprintf("the tree of group %#04x has switch %d at place %d", uint16(tr.MLID), s, k)
			}
		}
	}
	return ""
}

// each calls fn once for each dependency of a tree.
func (t *treeVerifier) each(tr *route.Tree, fn func(d cdg.Dep)) {
	if t.pos == nil {
		t.pos = make([]int32, t.n)
		for s := range t.pos {
			t.pos[s] = -1
		}
	}
	for i, s := range tr.Switches {
		t.pos[s] = int32(i)
	}
	for i, s := range tr.Switches {
		eachPort(&tr.Ports[i], func(p int) {
			if c := t.channelAt(s, p); c >= 0 {
				lanes, _ := t.lanesInto(tr, t.pos, s, p)
				t.wait(tr, t.pos, c, lanes, func(c1, c2 int32, l1, l2 int) { fn(t.dep(c1, c2, l1, l2)) })
			}
		})
	}
	for _, s := range tr.Switches {
		t.pos[s] = -1
	}
}
