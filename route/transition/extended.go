package transition

import (
	"fmt"
	"math/bits"
	"slices"

	"heddle/fabric"
	"heddle/ib"
	"heddle/route"
)

// extended is the multi-valued routing function {installed, wanted} over a
// graph, and the dependencies between channels that it allows.
//
// Dependencies are kept as one bit matrix per switch, in-channels × out-channels:
// bit row[c1]+col[c2] of a depSet says that packets holding channel c1 may wait
// for c2, which leaves the switch that c1 enters. A row is a channel's bits.
type extended struct {
	g                 *fabric.Graph
	installed, wanted *route.Tables
	row               []int64 // by channel: first bit of its row
	col               []int32 // by channel: its column at the switch it leaves
	nbits             int64
	port              []int32 // channel by switch·256 + port, or -1
	to                []int32 // by channel: the switch it enters
	hasCA             []bool  // by switch: a CA or router port hangs on it
}

type depSet []uint64

func (d depSet) has(b int64) bool { return d[b>>6]&(1<<(b&63)) != 0 }
func (d depSet) set(b int64)      { d[b>>6] |= 1 << (b & 63) }
func (d depSet) clear(b int64)    { d[b>>6] &^= 1 << (b & 63) }

func newExtended(g *fabric.Graph, installed, wanted *route.Tables) *extended {
	n := len(g.Switches)
	x := &extended{
		g: g, installed: installed, wanted: wanted,
		row: make([]int64, len(g.Channels)), col: make([]int32, len(g.Channels)), to: make([]int32, len(g.Channels)),
		port: make([]int32, n*256), hasCA: make([]bool, n),
	}
	for i := range x.port {
		x.port[i] = -1
	}
	for c := range g.Channels {
		ch := &g.Channels[c]
		x.col[c] = int32(c) - g.Off[ch.From]
		x.to[c] = ch.To
		x.row[c] = x.nbits
		x.nbits += int64(g.Off[ch.To+1] - g.Off[ch.To])
		x.port[int(ch.From)<<8|int(ch.OutPort)] = int32(c)
	}
	for i := range g.EndPorts {
		if e := &g.EndPorts[i]; e.Type != ib.NodeSwitch && e.Switch >= 0 {
			x.hasCA[e.Switch] = true
		}
	}
	return x
}

func (x *extended) newSet() depSet { return make(depSet, (x.nbits+63)/64) }

// walker holds one worker's scratch for walking one destination at a time.
type walker struct {
	old, new []int32 // by switch: channel of the installed and the wanted entry, or -1
	seen     []bool
	stack    []int32
	state    []uint8
	tile     []byte  // wanted entries of one block, LID by LID
	edges    []int64 // dependencies of the last mixed destination
	from     []int32 // their first channel
	to       []int32 // and their second
}

func (x *extended) newWalker() *walker {
	n := len(x.g.Switches)
	return &walker{old: make([]int32, n), new: make([]int32, n), seen: make([]bool, n), state: make([]uint8, n), tile: make([]byte, route.BlockLen*n)}
}

// load fills w with the channels of both entries for l; where they agree,
// old is -1.
func (x *extended) load(w *walker, l ib.LID, withOld bool) {
	for s := range w.new {
		e := effective(x.wanted, int32(s), int(l))
		w.new[s] = x.port[s<<8|int(e)]
		w.old[s] = -1
		if withOld {
			if f := effective(x.installed, int32(s), int(l)); f != e {
				w.old[s] = x.port[s<<8|int(f)]
			}
		}
	}
}

// loadBlock fills tile, LID by LID, with the wanted entries of 64 LIDs.
func (x *extended) loadBlock(tile []byte, block int) {
	n := len(x.g.Switches)
	var b [route.BlockLen]byte
	for s := range n {
		x.wanted.Block(int32(s), uint16(block), &b)
		at := s
		for _, e := range b {
			tile[at] = e
			at += n
		}
	}
}

// wantedDeps adds to d what packets from anywhere to one LID do by its wanted
// entries, one for each switch.
func (x *extended) wantedDeps(w *walker, entries []byte, d depSet) {
	ch := w.new
	for s, e := range entries {
		ch[s] = x.port[s<<8|int(e)]
	}
	for _, c1 := range ch {
		if c1 < 0 {
			continue
		}
		if c2 := ch[x.to[c1]]; c2 >= 0 {
			b := x.row[c1] + int64(x.col[c2])
			if m := uint64(1) << (b & 63); d[b>>6]&m == 0 {
				d[b>>6] |= m
			}
		}
	}
}

// fromAnywhere reports whether any switch may send data packets to l: to a CA
// or router port, or to a LID that nobody owns (any more), all may; to a
// switch port 0 only CAs do, as far as deadlocks are concerned.
func (x *extended) fromAnywhere(l ib.LID) bool {
	if int(l) >= len(x.g.LIDOwner) {
		return true
	}
	e := x.g.LIDOwner[l]
	return e == fabric.NoLID || x.g.EndPorts[e].Type != ib.NodeSwitch
}

// deps calls emit for every dependency that packets to l can make in w.
func (x *extended) deps(w *walker, l ib.LID, emit func(c1, c2 int32)) {
	all := x.fromAnywhere(l)
	if !all {
		x.reach(w)
	}
	for u := range w.new {
		if !all && !w.seen[u] {
			continue
		}
		for _, c1 := range [2]int32{w.new[u], w.old[u]} {
			if c1 < 0 {
				continue
			}
			v := x.to[c1]
			if c2 := w.new[v]; c2 >= 0 {
				emit(c1, c2)
			}
			if c2 := w.old[v]; c2 >= 0 {
				emit(c1, c2)
			}
		}
	}
}

// reach marks in w.seen the switches that packets from CAs can visit.
func (x *extended) reach(w *walker) {
	w.stack = w.stack[:0]
	for s, ca := range x.hasCA {
		w.seen[s] = ca
		if ca {
			w.stack = append(w.stack, int32(s))
		}
	}
	for len(w.stack) > 0 {
		u := w.stack[len(w.stack)-1]
		w.stack = w.stack[:len(w.stack)-1]
		for _, c := range [2]int32{w.new[u], w.old[u]} {
			if c < 0 {
				continue
			}
			if v := x.to[c]; !w.seen[v] {
				w.seen[v] = true
				w.stack = append(w.stack, v)
			}
		}
	}
}

// loops reports whether some mix of entries sends a packet round.
func (x *extended) loops(w *walker) bool {
	const fresh, open, done = 0, 1, 2
	clear(w.state)
	for s := range w.new {
		if w.state[s] != fresh {
			continue
		}
		w.stack = append(w.stack[:0], int32(s))
		for len(w.stack) > 0 {
			u := w.stack[len(w.stack)-1]
			if w.state[u] == fresh {
				w.state[u] = open
				for _, c := range [2]int32{w.new[u], w.old[u]} {
					if c < 0 {
						continue
					}
					v := x.to[c]
					if w.state[v] == open {
						return true
					}
					if w.state[v] == fresh {
						w.stack = append(w.stack, v)
					}
				}
				continue
			}
			w.stack = w.stack[:len(w.stack)-1]
			w.state[u] = done
		}
	}
	return false
}

// verdict is the outcome of analyse.
type verdict struct {
	clean   bool
	discard []ib.LID
	loops   int    // how many of discard are there for a loop
	gaveUp  string // why only discarding everything is offered
}

// insertBudget bounds the channel visits that the search for a small discard
// set may make; beyond it all changed destinations are discarded.
const insertBudget = 200_000_000

// analyse says whether the changed destinations can mix, and if not, which of
// them to discard so that the rest can.
func (x *extended) analyse(changed []ib.LID, workers int) verdict {
	var v verdict
	top := max(x.wanted.TopLID, x.installed.TopLID)
	workers = max(workers, 1)
	base := make([]depSet, workers)
	mixed := make([]depSet, workers)
	walkers := make([]*walker, workers)
	loop := make([]bool, len(changed))
	isChanged := make([]int32, int(top)+1) // 1 + index in changed
	for i, l := range changed {
		isChanged[l] = int32(i) + 1
	}
	route.ForEach(workers, route.RowLen(top)/route.BlockLen, func(worker, b int) {
		if walkers[worker] == nil {
			walkers[worker], base[worker], mixed[worker] = x.newWalker(), x.newSet(), x.newSet()
		}
		w, bs, ms := walkers[worker], base[worker], mixed[worker]
		n := len(x.g.Switches)
		x.loadBlock(w.tile, b)
		for l := max(b*route.BlockLen, 1); l < (b+1)*route.BlockLen && l <= int(top); l++ {
			switch {
			case l > int(x.wanted.TopLID):
			case x.fromAnywhere(ib.LID(l)):
				x.wantedDeps(w, w.tile[(l-b*route.BlockLen)*n:][:n], bs)
			default:
				x.load(w, ib.LID(l), false)
				x.deps(w, ib.LID(l), func(c1, c2 int32) { bs.set(x.row[c1] + int64(x.col[c2])) })
			}
			if i := isChanged[l]; i > 0 {
				x.load(w, ib.LID(l), true)
				if x.loops(w) {
					loop[i-1] = true
					continue
				}
				x.deps(w, ib.LID(l), func(c1, c2 int32) { ms.set(x.row[c1] + int64(x.col[c2])) })
			}
		}
	})
	want, mix := x.newSet(), x.newSet()
	for i := range base {
		if base[i] == nil {
			continue
		}
		for j := range want {
			want[j] |= base[i][j]
			mix[j] |= mixed[i][j]
		}
	}
	for j := range mix {
		mix[j] |= want[j]
	}
	for _, lp := range loop {
		if lp {
			v.loops++
		}
	}
	if _, ok := x.topoOrder(mix); ok {
		v.clean = v.loops == 0
		for i, lp := range loop {
			if lp {
				v.discard = append(v.discard, changed[i])
			}
		}
		return v
	}
	ord, ok := x.topoOrder(want)
	if !ok {
		v.gaveUp = "the wanted tables have credit cycles of their own, so all changed destinations are discarded"
		return v
	}
	ins := &inserter{x: x, deps: want, ord: ord, budget: insertBudget}
	ins.init()
	w := x.newWalker()
	for i, l := range changed {
		if loop[i] {
			v.discard = append(v.discard, l)
			continue
		}
		x.load(w, l, true)
		w.from, w.to = w.from[:0], w.to[:0]
		x.deps(w, l, func(c1, c2 int32) {
			if !want.has(x.row[c1] + int64(x.col[c2])) {
				w.from, w.to = append(w.from, c1), append(w.to, c2)
			}
		})
		w.edges = w.edges[:0]
		for k := range w.from {
			b := x.row[w.from[k]] + int64(x.col[w.to[k]])
			if want.has(b) {
				continue
			}
			if !ins.insert(w.from[k], w.to[k]) {
				for _, b := range w.edges {
					want.clear(b)
				}
				v.discard = append(v.discard, l)
				break
			}
			want.set(b)
			w.edges = append(w.edges, b)
		}
		if ins.budget < 0 {
			v.gaveUp = fmt.Sprintf("mixing old and new entries would close cycles, and too many to choose among %d changed destinations: all are discarded", len(changed))
			return v
		}
	}
	return v
}

// topoOrder gives each channel a place such that every dependency goes
// forward; false if there is a cycle.
func (x *extended) topoOrder(d depSet) ([]int32, bool) {
	m := len(x.g.Channels)
	in := make([]int32, m)
	for c := range m {
		x.succ(d, int32(c), func(c2 int32) { in[c2]++ })
	}
	queue := make([]int32, 0, m)
	for c := range m {
		if in[c] == 0 {
			queue = append(queue, int32(c))
		}
	}
	ord := make([]int32, m)
	for h := 0; h < len(queue); h++ {
		ord[queue[h]] = int32(h)
		x.succ(d, queue[h], func(c2 int32) {
			if in[c2]--; in[c2] == 0 {
				queue = append(queue, c2)
			}
		})
	}
	return ord, len(queue) == m
}

// succ calls fn for the channels that packets holding c may wait for.
func (x *extended) succ(d depSet, c int32, fn func(c2 int32)) {
	to := x.g.Channels[c].To
	first := x.g.Off[to]
	b, end := x.row[c], x.row[c]+int64(x.g.Off[to+1]-first)
	for b < end {
		word := d[b>>6] >> (b & 63)
		if left := end - b; left < 64 {
			word &= 1<<left - 1
		}
		at := b - x.row[c]
		for word != 0 {
			fn(first + int32(at) + int32(bits.TrailingZeros64(word)))
			word &= word - 1
		}
		b = (b | 63) + 1
	}
}

// longestInstalled is the largest number of switches on an installed path to
// one of lids (all LIDs if nil), counting loops as all switches.
func (x *extended) longestInstalled(lids []ib.LID) int {
	n := len(x.g.Switches)
	if lids == nil {
		for l := 1; l <= int(x.installed.TopLID); l++ {
			lids = append(lids, ib.LID(l))
		}
	}
	depth := make([]int32, n)
	longest := int32(1)
	var path []int32
	for _, l := range lids {
		clear(depth)
		for s := range n {
			path = path[:0]
			u := int32(s)
			d := int32(0)
			for {
				if depth[u] < 0 {
					return n // a loop
				}
				if depth[u] > 0 {
					d = depth[u]
					break
				}
				depth[u] = -1
				path = append(path, u)
				c := x.port[int(u)<<8|int(effective(x.installed, u, int(l)))]
				if c < 0 {
					break
				}
				u = x.g.Channels[c].To
			}
			for i := len(path) - 1; i >= 0; i-- {
				d++
				depth[path[i]] = d
			}
			longest = max(longest, d)
		}
	}
	return int(longest)
}

// needsDiscard reports whether the first phase writes block b: it holds an
// entry of a discarded destination that changes and is not Drop already, or
// its switch's table is not known.
func (x *extended) needsDiscard(discard []ib.LID, b route.BlockDiff) bool {
	if int(b.Switch) >= len(x.installed.LFT) || x.installed.LFT[b.Switch] == nil {
		return true
	}
	first := ib.LID(b.Block) * route.BlockLen
	i, _ := slices.BinarySearch(discard, first)
	for ; i < len(discard) && discard[i] < first+route.BlockLen; i++ {
		have := effective(x.installed, b.Switch, int(discard[i]))
		if have != route.Drop && have != effective(x.wanted, b.Switch, int(discard[i])) {
			return true
		}
	}
	return false
}
