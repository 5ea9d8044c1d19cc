package check

import (
	"fmt"
	"math/bits"
	"slices"

	"heddle/fabric"
	"heddle/ib"
	"heddle/route"
)

// depth values of a switch in the tree of one LID; positive: delivered, one
// more than the number of links to the destination's switch.
const (
	unknown int32 = 0
	lost    int32 = -1 // ends at a dead end or a wrong port
	open    int32 = -2 // on the path being walked
	looping int32 = -3 // in a loop or leads into one
)

// verifier is the read-only state that all workers share.
type verifier struct {
	g      *fabric.Graph
	t      *route.Tables
	n      int
	top    int     // highest LID of graph or tables
	stride int     // ports per switch in out, a power of two
	shift  uint    // log2 of stride
	out    []int32 // channel by switch<<shift | port, or -1
	to     []int32 // by channel: the switch it enters
	row    []int32 // by channel: index of its first dependency bit
	col    []int32 // by channel: its column at the switch it leaves
	nbits  int     // dependency bits of one pair of lanes
	lanes  int     // data lanes that packets may be on
	vls    []uint8 // by channel: its data lanes
	mode   mode
	hop    *hopLanes // in mode general
	lidsAt []int64   // by switch: LIDs of the end ports on it
	casAt  []int32   // by switch: CA and router ports on it
	lidsOf []int64   // by end port: its LIDs
	comp   []int32   // by switch: its connected component
	inComp []int64   // by component: LIDs
	total  int64     // LIDs of all end ports
	keep   int       // examples

	keepCounts bool     // of dependencies, for a Proof
	usedBy     []uint16 // by LID: lanes of delivered paths with a CA at one end
	quiet      bool     // do not mark dependencies
}

// scratch belongs to one worker.
type scratch struct {
	tile    []byte  // entries of one block, LID by LID
	ch      []int32 // by switch: output channel for the LID at hand, or -1
	depth   []int32
	order   []int32 // switches, each after its next hop
	stack   []int32
	flow    []int64
	mask    []uint16 // lanes that traffic with a CA at an end brings here
	smask   []uint16 // lanes that traffic between switches brings here
	above   []int32  // by switch: switches with CAs whose packets pass
	load    []int64
	hist    []int64     // paths by links between switches
	less    bool        // measure subtracts from load
	ca      planes      // dependencies of traffic with a CA at one end
	sw      planes      // those of traffic between switch port 0s
	used    uint32      // lanes of delivered paths with a CA at one end
	lanes   uint32      // lanes of all packets between switches
	round   bool        // some packets of the current LID loop
	bad     bool        // some connected switch does not deliver the LID at hand
	state   []laneState // by switch, in mode general
	refused bool        // some packets of the LID at hand are on a lane that a link does not have
	part    partial
	caCount counts // how many destinations make a dependency, for a Proof
	swCount counts
}

// partial sums of a Report; addition commutes, so the total does not depend on
// the distribution of work.
type partial struct {
	unreachable, disconnected, loops, paths, hops int64
	maxHops                                       int32
}

// Verify proves t for g, or reports the failures. The tables' rows must be in
// the graph's switch order. CAs without a switch (connected to one another)
// count as disconnected.
func Verify(g *fabric.Graph, t *route.Tables, o Options) *Report {
	r, _, _ := verify(g, t, o, false)
	return r
}

// verify also returns, if keep is set, the verifier and the first worker's
// scratch with the sums of all.
func verify(g *fabric.Graph, t *route.Tables, o Options, keep bool) (*Report, *verifier, *scratch) {
	if m := malformed(g, t); m != "" {
		return &Report{Malformed: m}, nil, nil
	}
	j := newVerifier(g, t, o)
	if keep {
		j.keepCounts, j.usedBy = true, make([]uint16, j.top+1)
	}
	workers := max(o.Workers, 1)
	blocks := route.RowLen(ib.LID(j.top)) / route.BlockLen
	ws := make([]*scratch, min(workers, blocks))
	failures := make([][]Failure, blocks)
	route.ForEach(len(ws), blocks, func(w, b int) {
		if ws[w] == nil {
			ws[w] = j.newScratch()
		}
		failures[b] = j.block(ws[w], b)
	})

	r := &Report{}
	r.MulticastFailures, r.Multicast = j.trees(ws, o, nil)
	first := ws[0]
	for _, w := range ws {
		if w == nil {
			continue
		}
		if first == nil {
			first = w
		}
		r.UnreachablePairs += w.part.unreachable
		r.DisconnectedPairs += w.part.disconnected
		r.Loops += w.part.loops
		r.Paths += w.part.paths
		r.AvgHops += float64(w.part.hops) // exact: integers below 2^53
		r.MaxHops = max(r.MaxHops, int(w.part.maxHops))
		if w == first {
			continue
		}
		first.used |= w.used
		first.lanes |= w.lanes
		for c, v := range w.load {
			first.load[c] += v
		}
		first.ca.join(w.ca)
		first.sw.join(w.sw)
		first.caCount.join(w.caCount)
		first.swCount.join(w.swCount)
		for h, k := range w.hist {
			first.hist[h] += k
		}
	}
	if r.Paths > 0 {
		r.AvgHops /= float64(r.Paths)
	}
	for _, f := range failures {
		if left := j.keep - len(r.Failures); left > 0 {
			r.Failures = append(r.Failures, f[:min(left, len(f))]...)
		}
	}
	r.balance(first.load)
	r.VLsUsed = max(bits.OnesCount32(first.used), 1)
	if most := bits.Len32(first.lanes); t.NumVLs > 0 && most > t.NumVLs {
		r.Malformed = fmt.Sprintf("the tables claim %d data lanes but use lane %d", t.NumVLs, most-1)
	}
	j.cycles(r, first.ca, first.sw)
	return r, j, first
}

// balance computes the report's figures on channel loads.
func (r *Report) balance(load []int64) {
	var sum int64
	for _, v := range load {
		sum += v
		r.MaxChannelLoad = max(r.MaxChannelLoad, v)
	}
	if len(load) > 0 {
		r.AvgChannelLoad = float64(sum) / float64(len(load))
	}
}

func newVerifier(g *fabric.Graph, t *route.Tables, o Options) *verifier {
	n := len(g.Switches)
	j := &verifier{
		g: g, t: t, n: n, top: int(max(g.TopLID, t.TopLID)),
		to: make([]int32, len(g.Channels)), row: make([]int32, len(g.Channels)), col: make([]int32, len(g.Channels)),
		lanes: 1, comp: make([]int32, n), keep: o.Examples,
	}
	if j.keep == 0 {
		j.keep = 8
	}
	most := uint8(0)
	for c := range g.Channels {
		most = max(most, g.Channels[c].OutPort)
	}
	for j.stride = 1; j.stride <= int(most); j.stride *= 2 {
		j.shift++
	}
	j.out = make([]int32, n*j.stride)
	for i := range j.out {
		j.out[i] = -1
	}
	for c := range g.Channels {
		k := &g.Channels[c]
		j.to[c] = k.To
		j.col[c] = int32(c) - g.Off[k.From]
		j.row[c] = int32(j.nbits)
		j.nbits += int(g.Off[k.To+1] - g.Off[k.To])
		j.out[int(k.From)<<j.shift|int(k.OutPort)] = int32(c)
	}
	j.components()
	j.settleLIDs()
	j.chooseMode()
	return j
}

// settleLIDs counts the LIDs of the graph by where they are.
func (j *verifier) settleLIDs() {
	j.lidsAt, j.casAt, j.lidsOf = make([]int64, j.n), make([]int32, j.n), make([]int64, len(j.g.EndPorts))
	j.total = 0
	for _, e := range j.g.LIDOwner {
		if e == fabric.NoLID {
			continue
		}
		j.total++
		j.lidsOf[e]++
		if s := j.g.EndPorts[e].Switch; s >= 0 {
			j.lidsAt[s]++
		}
	}
	for e := range j.g.EndPorts {
		if p := &j.g.EndPorts[e]; p.Switch >= 0 && p.Type != ib.NodeSwitch && j.lidsOf[e] > 0 {
			j.casAt[p.Switch]++
		}
	}
	j.inComp = make([]int64, len(j.inComp))
	for s, k := range j.lidsAt {
		j.inComp[j.comp[s]] += k
	}
}

// sameEnds reports whether two graphs have the same end ports at the same places.
func sameEnds(g, h *fabric.Graph) bool {
	if len(g.EndPorts) > 0 && &g.EndPorts[0] == &h.EndPorts[0] {
		return true
	}
	for e := range g.EndPorts {
		if a, b := &g.EndPorts[e], &h.EndPorts[e]; a.GUID != b.GUID || a.Switch != b.Switch || a.Type != b.Type {
			return false
		}
	}
	return true
}

// moveLIDs is settleLIDs for the graph of was with other owners of some LIDs.
func (j *verifier) moveLIDs(was *verifier, lids []ib.LID) {
	j.lidsAt, j.casAt, j.lidsOf = slices.Clone(j.lidsAt), slices.Clone(j.casAt), slices.Clone(j.lidsOf)
	j.inComp = slices.Clone(j.inComp)
	count := func(g *fabric.Graph, l ib.LID, n int64) {
		if int(l) >= len(g.LIDOwner) || g.LIDOwner[l] == fabric.NoLID {
			return
		}
		e := g.LIDOwner[l]
		had := j.lidsOf[e] > 0
		j.total += n
		j.lidsOf[e] += n
		p := &g.EndPorts[e]
		if p.Switch < 0 {
			return
		}
		j.lidsAt[p.Switch] += n
		j.inComp[j.comp[p.Switch]] += n
		if has := j.lidsOf[e] > 0; p.Type != ib.NodeSwitch && has != had {
			j.casAt[p.Switch] += int32(n)
		}
	}
	for _, l := range lids {
		count(was.g, l, -1)
		count(j.g, l, 1)
	}
}

// components labels the components that links between switches connect.
func (j *verifier) components() {
	for s := range j.comp {
		j.comp[s] = -1
	}
	var stack []int32
	for s := range j.n {
		if j.comp[s] >= 0 {
			continue
		}
		id := int32(len(j.inComp))
		j.inComp = append(j.inComp, 0)
		stack = append(stack[:0], int32(s))
		j.comp[s] = id
		for len(stack) > 0 {
			u := stack[len(stack)-1]
			stack = stack[:len(stack)-1]
			for c := j.g.Off[u]; c < j.g.Off[u+1]; c++ {
				if v := j.to[c]; j.comp[v] < 0 {
					j.comp[v] = id
					stack = append(stack, v)
				}
			}
		}
	}
}

func (j *verifier) newScratch() *scratch {
	return j.scratchFor(route.BlockLen, make([]int64, len(j.to)), make([]int64, j.n+1))
}

// scratchFor returns scratch for a number of LIDs at a time, which counts in load and hist.
func (j *verifier) scratchFor(lids int, load, hist []int64) *scratch {
	s := &scratch{
		tile: make([]byte, lids*j.n), ch: make([]int32, j.n), depth: make([]int32, j.n),
		order: make([]int32, 0, j.n), flow: make([]int64, j.n), mask: make([]uint16, j.n), smask: make([]uint16, j.n),
		above: make([]int32, j.n), load: load, hist: hist,
		ca: make(planes, j.lanes*j.lanes), sw: make(planes, j.lanes*j.lanes),
	}
	if !j.quiet {
		j.plane(s.ca, 0, 0)
		j.plane(s.sw, 0, 0)
	}
	if j.keepCounts {
		s.caCount, s.swCount = make(counts, j.lanes*j.lanes), make(counts, j.lanes*j.lanes)
	}
	if j.mode == general {
		s.state = make([]laneState, j.n)
	}
	return s
}

// block verifies the LIDs of one LFT block.
func (j *verifier) block(w *scratch, b int) []Failure {
	lo := b * route.BlockLen
	j.transpose(w, lo)
	var fails []Failure
	for l := max(lo, 1); l < lo+route.BlockLen && l <= j.top; l++ {
		entries := w.tile[(l-lo)*j.n : (l-lo+1)*j.n]
		owner := int32(fabric.NoLID)
		if l < len(j.g.LIDOwner) {
			owner = j.g.LIDOwner[l]
		}
		dst, port := int32(-1), uint8(0)
		if owner != fabric.NoLID {
			e := &j.g.EndPorts[owner]
			dst, port = e.Switch, e.Port
			if dst < 0 {
				w.part.disconnected += j.total - j.lidsOf[owner]
			} else {
				w.part.disconnected += j.total - j.inComp[j.comp[dst]]
			}
		}
		bad := j.walk(w, entries, dst, port)
		if dst < 0 {
			continue // only loops matter
		}
		isCA := j.g.EndPorts[owner].Type != ib.NodeSwitch
		was := w.used
		w.used = 0
		j.depend(w, l, dst, port, isCA)
		if j.keepCounts {
			j.usedBy[l] = uint16(w.used)
		}
		w.used |= was
		if w.refused {
			fails = j.slow(w, fails, ib.LID(l), owner, entries)
			continue
		}
		if j.keepCounts {
			j.count(w, isCA)
		}
		if bad {
			fails = j.blame(w, fails, ib.LID(l), owner, entries)
		}
		if isCA {
			j.measure(w, dst)
		}
	}
	return fails
}

// depend records the dependencies of the LID at hand.
func (j *verifier) depend(w *scratch, l int, dst int32, port uint8, isCA bool) {
	switch j.mode {
	case single:
		j.single(w, isCA)
	case uniform:
		j.uniform(w, l, isCA)
	case general:
		j.general(w, l, dst, port, isCA)
	}
}

// transpose turns rows of switches into rows of LIDs, entries as the switches
// act on them: LIDs above the top or the capacity are dropped.
func (j *verifier) transpose(w *scratch, lo int) {
	n := j.n
	for s := range n {
		part := j.t.Part(int32(s), lo/route.BlockLen)
		end := min(lo+len(part), int(j.t.TopLID)+1)
		if limit := int(j.g.Switches[s].LinearFDBCap); limit > 0 {
			end = min(end, limit)
		}
		i := 0
		if lo < end {
			at := s
			for _, p := range part[:end-lo] {
				w.tile[at] = p
				at += n
			}
			i = end - lo
		}
		for ; i < route.BlockLen; i++ {
			w.tile[i*n+s] = route.Drop
		}
	}
}

// walk follows the entries for one LID from every switch and fills w.depth and
// w.order. It reports whether any connected switch does not deliver.
func (j *verifier) walk(w *scratch, entries []byte, dst int32, port uint8) bool {
	depth, ch, out, to := w.depth, w.ch, j.out, j.to
	order := w.order[:0]
	stride := j.stride
	for s := range entries {
		p := int(entries[s])
		depth[s] = unknown
		ch[s] = -1
		if p < stride {
			ch[s] = out[s<<j.shift|p]
		}
	}
	bad := false
	w.round = false
	if dst >= 0 {
		ch[dst] = -1
		order = append(order, dst)
		depth[dst] = 1
		if entries[dst] != port {
			depth[dst] = lost
			bad = true
		}
	}
	stack := w.stack[:0]
	for s := range entries {
		if depth[s] != unknown {
			continue
		}
		u := int32(s)
		for depth[u] == unknown {
			c := ch[u]
			if c < 0 {
				depth[u] = lost
				order = append(order, u)
				break
			}
			depth[u] = open
			stack = append(stack, u)
			u = to[c]
		}
		d := depth[u]
		if d > 0 {
			for i := len(stack) - 1; i >= 0; i-- {
				d++
				v := stack[i]
				depth[v] = d
				order = append(order, v)
			}
			stack = stack[:0]
			continue
		}
		if d == open {
			w.part.loops++
			d = looping
		}
		if d == looping {
			w.round = true
		}
		if dst < 0 || j.comp[s] == j.comp[dst] {
			bad = true
		}
		for i := len(stack) - 1; i >= 0; i-- {
			depth[stack[i]] = d
			if d == lost {
				order = append(order, stack[i])
			}
		}
		stack = stack[:0]
	}
	w.order, w.stack = order, stack
	return bad
}

// mark adds the dependency c1→c2 to a set.
func (j *verifier) mark(set []uint64, c1, c2 int32) {
	b := uint32(j.row[c1] + j.col[c2])
	if m := uint64(1) << (b & 63); set[b>>6]&m == 0 {
		set[b>>6] |= m
	}
}

// single records the dependencies of one LID in single-lane tables.
func (j *verifier) single(w *scratch, isCA bool) {
	w.used |= 1
	w.lanes |= 1
	if isCA {
		if j.quiet {
			return
		}
		// Every switch may send: from port 0, if not from a CA.
		set := w.ca[0]
		for _, u := range w.order {
			c1 := w.ch[u]
			if c1 < 0 {
				continue
			}
			if c2 := w.ch[j.to[c1]]; c2 >= 0 {
				j.mark(set, c1, c2)
			}
		}
		if w.round {
			for u, d := range w.depth {
				if d == looping {
					j.mark(set, w.ch[u], w.ch[j.to[w.ch[u]]])
				}
			}
		}
		return
	}
	above := w.above
	for s, k := range j.casAt {
		above[s] = min(k, 1)
	}
	for i := len(w.order) - 1; i >= 0; i-- {
		u := w.order[i]
		c1 := w.ch[u]
		if c1 < 0 {
			continue
		}
		v := j.to[c1]
		above[v] += above[u]
		if c2 := w.ch[v]; c2 >= 0 && !j.quiet {
			set := w.sw[0]
			if above[u] > 0 {
				set = w.ca[0]
			}
			j.mark(set, c1, c2)
		}
	}
	if w.round && !j.quiet {
		j.loopMasks(w, func(u int32) (uint16, uint16) {
			if above[u] > 0 {
				return 1, 0
			}
			return 0, 1
		})
	}
}

// loopMasks records the dependencies of switches whose packets loop, by
// propagating the lanes on which they start until nothing changes.
func (j *verifier) loopMasks(w *scratch, start func(u int32) (ca, sw uint16)) {
	for u := range w.depth {
		if w.depth[u] == looping {
			w.mask[u], w.smask[u] = start(int32(u))
		}
	}
	for changed := true; changed; {
		changed = false
		for u, d := range w.depth {
			if d != looping {
				continue
			}
			v := j.to[w.ch[u]]
			if w.mask[u]|w.mask[v] != w.mask[v] || w.smask[u]|w.smask[v] != w.smask[v] {
				w.mask[v] |= w.mask[u]
				w.smask[v] |= w.smask[u]
				changed = true
			}
		}
	}
	for u, d := range w.depth {
		if d == looping {
			j.markLanes(w, w.ch[u], w.ch[j.to[w.ch[u]]], w.mask[u], w.smask[u])
		}
	}
}

// measure adds the delivered paths from CA ports to one CA's LID.
func (j *verifier) measure(w *scratch, dst int32) {
	flow := w.flow
	var paths, hops int64
	maxHops := int32(0)
	for s, k := range j.casAt {
		if flow[s] = int64(k); w.less {
			flow[s] = -flow[s]
		}
	}
	for i := len(w.order) - 1; i >= 0; i-- {
		u := w.order[i]
		d := w.depth[u]
		f := flow[u]
		if d <= 0 || f == 0 {
			continue
		}
		if k := int64(j.casAt[u]); k > 0 {
			paths += k
			hops += k * int64(d-1)
			w.hist[d-1] += k
			maxHops = max(maxHops, d-1)
		}
		if c := w.ch[u]; c >= 0 {
			w.load[c] += f
			flow[j.to[c]] += f
		}
	}
	if w.depth[dst] > 0 {
		paths-- // the port itself
		w.hist[0]--
	}
	w.part.paths += paths
	w.part.hops += hops
	w.part.maxHops = max(w.part.maxHops, maxHops)
}
