package transition

import (
	"cmp"
	"maps"
	"math/bits"
	"slices"
	"time"

	"heddle/ib"
	"heddle/route"
)

// lostCable is one direction of a lost link: packets that crossed it are still in
// flight.
type lostCable struct {
	to int32
	in uint8
}

// pastPacket is a packet to a LID, sent by recent states, that may arrive at a
// switch: over channel c, or over a lost link if that is negative.
type pastPacket struct {
	lid ib.LID
	to  int32
	c   int32
	in  uint8
	slot
}

// maxPast bounds the list of such packets.
const maxPast = 1 << 20

// remember adds the possible behavior of packets that met recent states, until they
// leave: their dependencies, and the places where new entries may meet them.
//
// A packet meets states in chronological order, except for two that were mixed without an
// order. remember walks its possible locations for each destination that some recent
// state sent elsewhere, from the switches that send to it, by all states that it may
// still meet.
func (f *fitter) remember(recent []Recent, stay time.Duration) {
	x := f.x
	if len(recent) == 0 {
		return
	}
	f.rememberTrees(recent)
	recent = x.unicast(recent)
	p := &pastWalk{f: f, lost: x.lost, stay: stay}
	for _, r := range recent {
		p.states = append(p.states, r.Tables)
		p.plans, p.ago = append(p.plans, r.Plan), append(p.ago, r.Ago)
		if r.Tables.Lanes != x.old.Lanes {
			p.lanes = append(p.lanes, r.Tables)
		}
	}
	p.states, p.plans = append(p.states, x.old), append(p.plans, nil)
	p.ago = append(p.ago, 0)
	first := f.concerned(recent, stay, len(p.lanes) > 0)
	for l, i := range first {
		if i < 0 {
			continue
		}
		p.walk(ib.LID(l), int(i))
		if f.guard != nil || !f.ins.all(f.w.edges) {
			// More than can exist at one time, or a restored link lets packets continue
			// by entries that led to it.
			f.insertEach(f.w)
			f.past = slices.DeleteFunc(f.past, func(p pastPacket) bool { return p.lid == ib.LID(l) })
			f.unsure[ib.LID(l)] = true
		}
	}
	slices.SortStableFunc(f.past, func(a, b pastPacket) int { return compareCells(cell{a.lid, a.to}, cell{b.lid, b.to}) })
}

// concerned finds, by LID, the oldest recent state that differs for it from a later
// state; -1: none.
func (f *fitter) concerned(recent []Recent, stay time.Duration, lanes bool) []int16 {
	x := f.x
	first := make([]int16, len(f.broken))
	for l := range first {
		if first[l] = -1; lanes && l > 0 {
			first[l] = 0
		}
	}
	single := x.single()
	for i, r := range recent {
		next := x.old // reinstalled entries differed in between
		if i+1 < len(recent) {
			next = recent[i+1].Tables
		}
		y := *x
		y.old, y.new = r.Tables, next
		ch := &change{touched: make([]bool, int(max(r.Tables.TopLID, next.TopLID))+1)}
		y.compareRows(ch)
		f.partly = f.partly || ch.large
		note := func(l ib.LID) {
			// On one lane, packets that come from anywhere are ignored (see withRecent).
			if int(l) < len(first) && first[l] < 0 && !(single && stay > 0 && r.Ago >= 2*stay && x.fromAnywhere(l)) {
				first[l] = int16(i)
			}
		}
		for _, c := range ch.cells {
			note(c.lid)
		}
		for at := range x.lost {
			for l := range first {
				if l > 0 && effective(r.Tables, int32(at>>8), l) == byte(at) && !(single && x.fromAnywhere(ib.LID(l))) {
					note(ib.LID(l))
				}
			}
		}
	}
	return first
}

// rememberTrees adds the packets of recent multicast trees. A packet may pass from any of
// a group's trees to any other, so those of one service level are merged into one tree
// with the ports of all: hosts that join all the time leave a hundred of them.
func (f *fitter) rememberTrees(recent []Recent) {
	x := f.x
	f.trees = map[ib.LID][]*route.Tree{}
	last := x.old.Multicast
	for _, r := range slices.Backward(recent) {
		if r.Tables.Multicast == last {
			continue
		}
		last = r.Tables.Multicast
		for i := range trees(r.Tables) {
			f.trees[last.Trees[i].MLID] = joined(f.trees[last.Trees[i].MLID], &last.Trees[i])
		}
	}
	for _, l := range slices.Sorted(maps.Keys(f.trees)) {
		all := f.trees[l]
		now := treeOf(x.old, l)
		for i, t := range all {
			f.takeTrees(treeChange{t, now})
			for _, u := range all[:i] {
				f.takeTrees(treeChange{t, u})
			}
		}
	}
}

func (f *fitter) takeTrees(k treeChange) {
	if k.now != nil && sameTree(k.old, k.now) {
		return // the installed state is in already
	}
	f.w.edges = f.w.edges[:0]
	f.x.treeDeps(f.w, k, mixed)
	f.insertEach(f.w)
}

// treeOf is the tree of a group, nil if there is none.
func treeOf(t *route.Tables, l ib.LID) *route.Tree {
	list := trees(t)
	if i, ok := slices.BinarySearchFunc(list, l, func(t route.Tree, l ib.LID) int { return cmp.Compare(t.MLID, l) }); ok {
		return &list[i]
	}
	return nil
}

// joined merges a tree into a list that has one tree for each service level.
func joined(list []*route.Tree, t *route.Tree) []*route.Tree {
	i := slices.IndexFunc(list, func(u *route.Tree) bool { return u.SL == t.SL })
	if i < 0 {
		return append(list, t)
	}
	u := list[i]
	if sameTree(u, t) {
		return list
	}
	m := &route.Tree{MLID: t.MLID, SL: t.SL, Switches: slices.Concat(u.Switches, t.Switches)}
	slices.Sort(m.Switches)
	m.Switches = slices.Compact(m.Switches)
	m.Ports = make([][4]uint64, len(m.Switches))
	for k, s := range m.Switches {
		a, b := treePorts(u, s), treePorts(t, s)
		for w := range a {
			m.Ports[k][w] = a[w] | b[w]
		}
	}
	list[i] = m
	return list
}

// insertEach adds those dependencies of a walker that close no cycle, and records
// whether there are others.
func (f *fitter) insertEach(w *walker) {
	for i := range w.edges {
		if f.guard != nil {
			f.guard.take(w.edges[i])
		} else if !f.ins.all(w.edges[i : i+1]) {
			f.partly = true
			if f.circle == nil {
				all := w.edges
				w.edges = all[i : i+1]
				f.circle = f.findCycle()
				w.edges = all
			}
		}
	}
}

// pastOf lists the packets of the past to l that arrive at switch u.
func (f *fitter) pastOf(l ib.LID, u int32) []pastPacket {
	at := func(c cell) int {
		i, _ := slices.BinarySearchFunc(f.past, c, func(p pastPacket, c cell) int { return compareCells(cell{p.lid, p.to}, c) })
		return i
	}
	return f.past[at(cell{l, u}):at(cell{l, u + 1})]
}

// pastWalk follows packets of recent states.
type pastWalk struct {
	f      *fitter
	states []*route.Tables // oldest first; the last is the installed one
	plans  []*Plan         // by state: that by which it was left
	ago    []time.Duration // by state: as in Recent
	stay   time.Duration   // in a switch; negative: without limit
	lanes  []*route.Tables // those whose SL-to-VL tables differ from the installed ones
	lost   map[int]lostCable
	at     map[pastNode]*pastSlot
	queue  []pastNode
}

// pastSlot is the state at the end of a channel, and the time since the last packet
// arrived there.
type pastSlot struct {
	slot
	ago time.Duration
}

// here reports whether packets that arrived at a switch that long ago may still be
// there.
func (p *pastWalk) here(ago time.Duration) bool { return p.stay < 0 || ago < p.stay }

// pastNode is a channel in a state; negative channels are lost links: switch·256
// + port, inverted.
type pastNode struct {
	c     int32
	state int16
}

// way is the next channel of l from switch u in a state; ok is false if it is
// dropped.
func (p *pastWalk) way(i int, u int32, l ib.LID) (c int32, ok bool) {
	x := p.f.x
	t, at := p.states[i], int(u)<<8
	if int(u) < x.managed {
		at |= int(effective(t, u, int(l)))
	} else if row := x.frozen[int(u)-x.managed].Row; int(l) < len(row) {
		at |= int(row[l])
	} else {
		return 0, false
	}
	if c = x.port[at]; c >= 0 {
		return c, true
	}
	_, ok = p.lost[at]
	return ^int32(at), ok
}

// oldest is the oldest state that a packet may still meet after state i.
func (p *pastWalk) oldest(i int, l ib.LID) int {
	for i > 0 && !p.plans[i-1].ordered(l) {
		i--
	}
	return i
}

// ends returns the next switch of a node, and the ingress port there.
func (p *pastWalk) ends(c int32) (to int32, in uint8) {
	if c >= 0 {
		return p.f.x.to[c], p.f.x.inPort[c]
	}
	k := p.lost[int(^c)]
	return k.to, k.in
}

// walk leaves the dependencies of packets to l that met state first or a later one in the
// walker's edges, and records their locations.
func (p *pastWalk) walk(l ib.LID, first int) {
	f, x := p.f, p.f.x
	w := f.w
	w.edges = w.edges[:0]
	p.at, p.queue = map[pastNode]*pastSlot{}, p.queue[:0]
	x.start(w, l, oldSLs)
	all := x.fromAnywhere(l)
	for u, m := range w.arrive {
		if m == 0 && !all {
			continue
		}
		for i := first; u < x.managed && i < len(p.states)-1; i++ {
			m |= 1 << (p.states[i].PathSL(int32(u), l) & 15)
		}
		ports := []uint8{0}
		if x.tables {
			if ports = x.ports[u]; all {
				ports = x.injected[u]
			}
		}
		p.leave(int32(u), l, first, func(c int32, on *slot) {
			for _, in := range ports {
				p.take(on, m, c, in)
			}
		}, nil, 0)
	}
	for len(p.queue) > 0 {
		k := p.queue[len(p.queue)-1]
		p.queue = p.queue[:len(p.queue)-1]
		at := p.at[k]
		u, in := p.ends(k.c)
		p.leave(u, l, p.oldest(int(k.state), l), func(c int32, on *slot) {
			for m := at.levels; m != 0; m &= m - 1 {
				if sl := bits.TrailingZeros16(m); at.lanes[sl] != 0 {
					p.take(on, 1<<sl, c, in)
				}
			}
		}, func(c int32, ago time.Duration) {
			if k.c < 0 || c < 0 || !p.here(max(at.ago, ago)) {
				return // no packet waits for a lost link, and those that waited have left
			}
			for m := at.levels; m != 0; m &= m - 1 {
				sl := bits.TrailingZeros16(m)
				for a := at.lanes[sl]; a != 0; a &= a - 1 {
					for b := p.lanesOf(c, in, ib.SL(sl)); b != 0; b &= b - 1 {
						x.add(w, k.c, int32(bits.TrailingZeros16(a)), c, int32(bits.TrailingZeros16(b)))
					}
				}
			}
		}, at.ago)
	}
	p.note(l, all)
}

// leave sends packets at switch u on by all states from number from on; the last packet
// arrived there that long ago.
func (p *pastWalk) leave(u int32, l ib.LID, from int, fill func(c int32, on *slot), deps func(c int32, ago time.Duration), came time.Duration) {
	type way struct {
		c     int32
		state int
		ago   time.Duration
	}
	var room [8]way
	ways := room[:0]
	for i := from; i < len(p.states); i++ {
		c, ok := p.way(i, u, l)
		if !ok {
			continue
		}
		if k := slices.IndexFunc(ways, func(w way) bool { return w.c == c }); k >= 0 {
			// An entry that is equal in an earlier state counts as the older one.
			ways[k].ago = min(ways[k].ago, p.ago[i])
			continue
		}
		ways = append(ways, way{c, i, p.ago[i]})
	}
	for _, w := range ways {
		var on slot
		fill(w.c, &on)
		if deps != nil {
			deps(w.c, w.ago)
		}
		// Packets that the state sent arrived before its end, and may have waited
		// since.
		ago := time.Duration(0)
		if p.stay > 0 {
			ago = max(max(came, w.ago)-p.stay, 0)
		}
		k := pastNode{w.c, int16(w.state)}
		at := p.at[k]
		if at == nil {
			at = &pastSlot{ago: ago}
			p.at[k] = at
		}
		if more := at.join(&on); more || ago < at.ago {
			at.ago = min(at.ago, ago)
			p.queue = append(p.queue, k)
		}
	}
}

// take adds packets of some levels from a port to channel c.
func (p *pastWalk) take(on *slot, levels uint16, c int32, in uint8) {
	for m := levels; m != 0; m &= m - 1 {
		sl := bits.TrailingZeros16(m)
		on.levels |= 1 << sl
		on.lanes[sl] |= p.lanesOf(c, in, ib.SL(sl))
	}
}

// lanesOf are the lanes of a level on a channel by the SL-to-VL tables of any state.
func (p *pastWalk) lanesOf(c int32, in uint8, sl ib.SL) uint16 {
	x := p.f.x
	if c < 0 {
		return 1 // the next channel depends on the port only
	}
	m := x.lanesOf(c, in, sl, oldLanes)
	for _, t := range p.lanes {
		if v := x.lane(t, c, in, sl); int32(v) < x.lanes {
			m |= 1 << v
		} else if v < 15 {
			p.f.partly = true
		}
	}
	return m
}

// note lists the places where packets may be that no installed entry brings there. On one
// lane, packets from anywhere are also where installed entries take them.
func (p *pastWalk) note(l ib.LID, all bool) {
	f, x := p.f, p.f.x
	plain := x.single() && all
	byChannel := map[int32]*slot{}
	var list []int32
	for k, s := range p.at {
		if !p.here(s.ago) {
			continue
		}
		u := int32(-1)
		if k.c >= 0 {
			u = x.from[k.c]
		}
		if plain && u >= 0 {
			if c, ok := p.way(len(p.states)-1, u, l); ok && c == k.c {
				continue
			}
		}
		if byChannel[k.c] == nil {
			byChannel[k.c] = &slot{}
			list = append(list, k.c)
		}
		byChannel[k.c].join(&s.slot)
	}
	slices.Sort(list)
	for _, c := range list {
		to, in := p.ends(c)
		if len(f.past) >= maxPast {
			f.partly = true
			return
		}
		f.past = append(f.past, pastPacket{l, to, max(c, -1), in, *byChannel[c]})
	}
}

// fromPast adds the dependencies of packets to l that recent states bring to switch u and
// that continue by channel c, and returns what it adds there.
func (s *seeker) fromPast(l ib.LID, u, c int32) (out *slot, any bool) {
	out = &slot{}
	past := s.f.pastOf(l, u)
	for i := range past {
		s.passIn(&past[i].slot, past[i].c, past[i].in, c, out, true)
	}
	return out, len(past) > 0
}

// followBy adds the dependencies of packets on channel c that continue by given channels,
// by switch.
func (s *seeker) followBy(next []int32, c int32, at *slot) {
	x := s.f.x
	for range x.n {
		k := next[x.to[c]]
		if k < 0 {
			return
		}
		on := &slot{}
		s.pass(at, c, k, on, true)
		c, at = k, on
	}
}
