package transition

import (
	"cmp"
	"slices"

	"heddle/ib"
	"heddle/route"
)

// Treatment of a destination; 0: its entries are written in stage main.
const (
	dropped    = iota + 1 // entries that change are Drop until stage late
	droppedAll            // so are all that lead to another switch
	inStage               // written in its own stage, old until then
	inStages              // entry by entry
)

// Part of a multicast tree that remains in stage 0; 0: all.
const (
	cutShared = iota + 1 // what both trees share
	cutAll
)

// content determines the contents of each entry and tree after each stage.
type content struct {
	p                *Plan
	x                *mixer  // where droppedAll matters; nil once the plan is made
	kind             []uint8 // by LID; nil: all 0
	stage            []uint8 // by LID, of inStage
	main, late, last uint8
	cells            []stagedCell // of inStages, by LID, switch
	rooted           bool         // they are in rooted order
	hold             []cell       // Drop until stage last; by LID, switch
	links            [][4]uint64  // by switch: the ports that droppedAll drops entries to, those to other switches

	trees   []treeChange
	treeAt  []uint8 // by index in trees: the stage
	treeCut []uint8 // the part of it that remains before that
	// treeFrom is the stage in which trees are cut.
	treeFrom uint8
}

// entry is the entry of switch s for l after stage k.
func (c *content) entry(k int, s int32, l ib.LID, old, now byte) byte {
	if len(c.hold) > 0 && k < int(c.last) && hasCell(c.hold, cell{l, s}) {
		return route.Drop
	}
	at := c.main
	if int(l) < len(c.kind) {
		switch c.kind[l] {
		case dropped, droppedAll:
			if k >= int(c.late) {
				return now
			}
			if old != now || c.kind[l] == droppedAll && int(s) < len(c.links) && c.links[s][old>>6]>>(old&63)&1 != 0 {
				return route.Drop
			}
			return old
		case inStage:
			at = c.stage[l]
		case inStages:
			i, ok := slices.BinarySearchFunc(c.cells, cell{l, s}, func(a stagedCell, b cell) int { return compareCells(a.cell, b) })
			if ok {
				at = c.cells[i].stage
			}
		}
	}
	if k >= int(at) {
		return now
	}
	return old
}

func compareCells(a, b cell) int { return cmp.Or(cmp.Compare(a.lid, b.lid), cmp.Compare(a.s, b.s)) }

func hasCell(list []cell, c cell) bool {
	_, ok := slices.BinarySearchFunc(list, c, compareCells)
	return ok
}

// Block fills dst with the content that stage k writes to a block of its LFT
// list.
func (p *Plan) Block(k int, b route.BlockDiff, dst *[route.BlockLen]byte) {
	if p.steps != nil {
		p.steps[k].Block(b.Switch, b.Block, dst)
		return
	}
	p.wanted.Block(b.Switch, b.Block, dst)
	if k >= len(p.Stages)-1 {
		return
	}
	if int(b.Switch) >= len(p.installed.LFT) || p.installed.LFT[b.Switch] == nil {
		if k < int(p.content.main) {
			for i := range dst {
				dst[i] = route.Drop
			}
			return
		}
	}
	var was [route.BlockLen]byte
	p.was(b, &was)
	first := int(b.Block) * route.BlockLen
	same := len(p.content.hold)+len(p.content.links) == 0 // unchanged entries stay
	for i := range dst {
		if !same || was[i] != dst[i] {
			dst[i] = p.content.entry(k, b.Switch, ib.LID(first+i), was[i], dst[i])
		}
	}
}

// was fills dst with the installed entries of a block; Drop where unknown.
func (p *Plan) was(b route.BlockDiff, dst *[route.BlockLen]byte) {
	if int(b.Switch) < len(p.installed.LFT) {
		p.installed.Block(b.Switch, b.Block, dst)
		return
	}
	for i := range dst {
		dst[i] = route.Drop
	}
}

// blocks fills the LFT lists of all stages.
func (b *builder) blocks() {
	p, c := b.p, &b.p.content
	special := make([]bool, len(b.ch.touched)/route.BlockLen+1)
	for l, k := range c.kind {
		if k != 0 {
			special[l/route.BlockLen] = true
		}
	}
	diff := b.ch.diff
	if c.x != nil {
		diff = b.more(special)
		c.x = nil
	}
	var before, after [route.BlockLen]byte
	for _, d := range diff {
		known := int(d.Switch) < len(p.installed.LFT) && p.installed.LFT[d.Switch] != nil
		if known && int(d.Block) < len(special) && !special[d.Block] {
			p.Stages[c.main].LFT = append(p.Stages[c.main].LFT, d)
			continue
		}
		p.was(d, &before)
		wrote := false
		for k := range p.Stages {
			p.Block(k, d, &after)
			if before != after || k == 0 && !known {
				p.Stages[k].LFT = append(p.Stages[k].LFT, d)
				wrote = true
			}
			before = after
		}
		if !wrote && (!known || len(p.installed.LFT[d.Switch]) < (int(d.Block)+1)*route.BlockLen) {
			// It differs only beyond the installed row's end.
			p.Stages[c.main].LFT = append(p.Stages[c.main].LFT, d)
		}
	}
	for k := range p.Stages {
		slices.SortFunc(p.Stages[k].LFT, compareBlocks)
	}
}

func compareBlocks(a, b route.BlockDiff) int {
	return cmp.Or(cmp.Compare(a.Switch, b.Switch), cmp.Compare(a.Block, b.Block))
}

// rooted sorts blocks so that switches nearer to the destinations of a block
// come first: writing a new tree from its root outwards causes no transient loop
// among switches that had no entry, and few where entries move. The distance is
// the number of links by the wanted entries to the block's first destination
// that changes.
func (b *builder) rooted(blocks []route.BlockDiff) {
	x := b.x
	lid := make([]ib.LID, len(b.ch.touched)/route.BlockLen+1)
	for l := len(b.ch.touched) - 1; l > 0; l-- {
		if b.ch.touched[l] {
			lid[l/route.BlockLen] = ib.LID(l)
		}
	}
	far := int32(64) // no path of a subnet is longer (IBA §14.2.2)
	key := make([]int32, len(blocks))
	count := make([]int32, far+2)
	for i, d := range blocks {
		l := ib.LID(0)
		if int(d.Block) < len(lid) {
			l = lid[d.Block]
		}
		u := d.Switch
		for ; key[i] < far; key[i]++ {
			e := effective(x.new, u, int(l))
			if int(e) >= len(x.g.PortChannel[u]) || x.g.PortChannel[u][e] < 0 {
				break
			}
			u = x.g.Channels[x.g.PortChannel[u][e]].To
		}
		count[key[i]+1]++
	}
	for k := range far {
		count[k+1] += count[k]
	}
	out := make([]route.BlockDiff, len(blocks))
	for i, d := range blocks {
		out[count[key[i]]] = d
		count[key[i]]++
	}
	copy(blocks, out)
}

// more returns the difference plus the blocks with entries that do not change
// but are dropped for a while, and records those entries.
func (b *builder) more(special []bool) []route.BlockDiff {
	c, x := &b.p.content, b.x
	diff := slices.Clone(b.ch.diff)
	note := func(e cell) {
		special[int(e.lid)/route.BlockLen] = true
		d := route.BlockDiff{Switch: e.s, Block: uint16(int(e.lid) / route.BlockLen)}
		if len(diff) > 0 && diff[len(diff)-1] == d {
			return
		}
		if int(e.s) < len(b.p.wanted.LFT) && int(e.lid) < len(b.p.wanted.LFT[e.s]) {
			diff = append(diff, d)
		}
	}
	for l, k := range c.kind {
		if k != 0 && l >= route.RowLen(b.p.wanted.TopLID) {
			// Rows end before it, and entries beyond stay until LinearFDBTop is
			// lowered; where that matters they are cleared.
			for s := range int32(x.managed) {
				if effective(x.old, s, l) != route.Drop {
					special[l/route.BlockLen] = true
					diff = append(diff, route.BlockDiff{Switch: s, Block: uint16(l / route.BlockLen)})
				}
			}
		}
	}
	if slices.Contains(c.kind, droppedAll) {
		c.links = make([][4]uint64, x.managed)
		for i := range x.m {
			if s := int(x.from[i]); s < x.managed {
				p := x.outPort[i]
				c.links[s][p>>6] |= 1 << (p & 63)
			}
		}
	}
	for s := range c.links {
		for l, k := range c.kind {
			e := effective(x.old, int32(s), l)
			if k == droppedAll && e == effective(x.new, int32(s), l) && c.links[s][e>>6]>>(e&63)&1 != 0 {
				note(cell{ib.LID(l), int32(s)})
			}
		}
	}
	for _, h := range c.hold {
		note(h)
	}
	slices.SortFunc(diff, compareBlocks)
	return slices.Compact(diff)
}

// compact removes stages that write nothing. The last one stays if new levels,
// which hosts may use from it on, must not meet entries discarded before.
func (c *content) compact(levels bool) {
	p := c.p
	for k := len(p.Stages) - 1; k >= 0 && len(p.Stages) > 1; k-- {
		st := &p.Stages[k]
		if levels && k == len(p.Stages)-1 && p.Stages[k-1].Discards {
			continue
		}
		if len(st.LFT) > 0 || len(st.MFT) > 0 || len(st.SL2VL) > 0 || st.Repath > 0 {
			continue
		}
		p.Stages = slices.Delete(p.Stages, k, k+1)
		down := func(v *uint8) {
			if int(*v) > k && *v < split {
				*v--
			}
		}
		down(&c.main)
		down(&c.late)
		down(&c.last)
		for i := range c.stage {
			down(&c.stage[i])
		}
		for i := range c.cells {
			down(&c.cells[i].stage)
		}
		for i := range c.treeAt {
			down(&c.treeAt[i])
		}
	}
	if n := len(p.Stages); n > 0 {
		p.Stages[n-1].Drain, p.Stages[n-1].DrainHops = 0, 0
	}
}

// ports are those by which switch s sends packets of a changed group after
// stage k; k -1: before the transition.
func (c *content) ports(k, i int, s int32) [4]uint64 {
	t := c.trees[i]
	if k >= int(c.treeAt[i]) {
		return treePorts(t.now, s)
	}
	p := treePorts(t.old, s)
	if k < int(c.treeFrom) {
		return p
	}
	switch c.treeCut[i] {
	case cutShared:
		for j, m := range treePorts(t.now, s) {
			p[j] &= m
		}
	case cutAll:
		return [4]uint64{}
	}
	return p
}

// groups fills the MFT list of stage k.
func (c *content) groups(st *Stage, k int) {
	st.MFT = mcastBlocks(len(c.trees),
		func(i int) (ib.LID, []int32) { return c.trees[i].mlid(), c.trees[i].switches() },
		func(i int, s int32) [4]uint64 { return c.ports(k-1, i, s) },
		func(i int, s int32) [4]uint64 { return c.ports(k, i, s) })
}

// McastBlock fills dst with the content that stage k writes to a block of its
// MFT list: the port masks of 32 MLIDs.
func (p *Plan) McastBlock(k int, b McastBlock, dst *[32]uint16) {
	*dst = [32]uint16{}
	first := ib.LID(0xC000) + ib.LID(b.Block)*32
	put := func(l ib.LID, ports [4]uint64) {
		dst[l-first] = uint16(ports[b.Position/4] >> (b.Position % 4 * 16))
	}
	for _, t := range trees(p.wanted) {
		if t.MLID >= first && t.MLID < first+32 {
			put(t.MLID, treePorts(&t, b.Switch))
		}
	}
	for i := range p.content.trees {
		if l := p.content.trees[i].mlid(); l >= first && l < first+32 {
			put(l, p.content.ports(k, i, b.Switch))
		}
	}
}

// longest is the largest number of switches on a path to one of lids by the
// entries that sp allows; at least 1. If paths may loop, it is the longest path
// that a subnet can have.
func (x *mixer) longest(lids []ib.LID, sp spec, workers int) int {
	longest := make([]int32, max(workers, 1))
	walkers := make([]*walker, max(workers, 1))
	depths := make([][]int32, max(workers, 1))
	// One block of 64 at a time, so that tiles serve many.
	const step = route.BlockLen
	route.ForEach(workers, (len(lids)+step-1)/step, func(k, b int) {
		if walkers[k] == nil {
			walkers[k], depths[k] = x.newWalker(), make([]int32, x.n)
		}
		w, depth := walkers[k], depths[k]
		for _, l := range lids[b*step : min((b+1)*step, len(lids))] {
			x.load(w, l, sp)
			if !x.order(w) {
				longest[k] = int32(min(x.n, maxHops+1))
				return
			}
			longest[k] = max(longest[k], x.depth(w, depth))
		}
	})
	return max(int(slices.Max(longest)), 1)
}

// depth is the largest number of switches on a path by the entries in w, which
// order has been called for.
func (x *mixer) depth(w *walker, depth []int32) (most int32) {
	for _, u := range w.post {
		depth[u] = 1
		for _, c := range [2]int32{w.a[u], w.b[u]} {
			if c >= 0 {
				depth[u] = max(depth[u], depth[x.to[c]]+1)
			}
		}
		most = max(most, depth[u])
	}
	return most
}
