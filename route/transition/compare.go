package transition

import (
	"bytes"
	"slices"

	"heddle/fabric"
	"heddle/ib"
	"heddle/route"
)

// cell is an entry of a forwarding table.
type cell struct {
	lid ib.LID
	s   int32
}

// maxCells bounds the list of changed entries; larger changes are processed
// destination by destination.
const maxCells = 1 << 18

// change is how two states differ.
type change struct {
	diff    []route.BlockDiff // ascending switch, block
	entries int               // entries that differ, including unknown ones
	unknown int               // switches whose installed row is unknown
	touched []bool            // by LID: a known installed entry differs
	cells   []cell            // those entries; nil if there are too many
	large   bool

	levels      []bool // by LID: a pair's service levels differ; nil: none do
	pairs       int64  // pairs (source end port, LID) whose level changes
	lanes       []LaneTable
	lids        []ib.LID // all that touched, levels or lanes concern
	trees, free []treeChange
}

// compare finds the difference in one pass over the rows. Rows that share
// memory are skipped, so the cost is that of the changes.
func (x *mixer) compare(quiet bool) *change {
	ch := &change{}
	top := int(max(x.new.TopLID, x.old.TopLID))
	ch.touched = make([]bool, top+1)
	x.compareRows(ch)
	if ch.large {
		ch.cells = nil
	}
	x.compareLevels(ch, quiet)
	x.compareLanes(ch)
	x.compareTrees(ch)
	for l := 1; l <= top; l++ {
		if ch.touched[l] || len(ch.lanes) > 0 || ch.levels != nil && l < len(ch.levels) && ch.levels[l] {
			ch.lids = append(ch.lids, ib.LID(l))
		}
	}
	return ch
}

// compareRows fills in the changed rows and entries.
func (x *mixer) compareRows(ch *change) {
	same := x.new.TopLID == x.old.TopLID
	for s, row := range x.new.LFT {
		var have []byte
		if s < len(x.old.LFT) {
			have = x.old.LFT[s]
		}
		if have == nil {
			ch.unknown++
		}
		from := 0
		if len(have) == len(row) && len(row) > 0 && (&have[0] == &row[0] || bytes.Equal(have, row)) {
			if same {
				continue
			}
			from = (int(min(x.new.TopLID, x.old.TopLID)) + 1) / route.BlockLen * route.BlockLen
		}
		x.compareRow(ch, int32(s), have, row, from)
	}
}

func (x *mixer) compareRow(ch *change, s int32, have, row []byte, from int) {
	top := int(x.new.TopLID)
	for at := from; at < max(len(row), len(ch.touched)); at += route.BlockLen {
		end := at + route.BlockLen
		if end <= len(row) && end <= len(have) && bytes.Equal(have[at:end], row[at:end]) && end <= top+1 && end <= int(x.old.TopLID)+1 {
			continue
		}
		if at < len(row) && !(len(have) >= min(end, len(row)) && bytes.Equal(have[at:min(end, len(row))], row[at:min(end, len(row))])) {
			ch.diff = append(ch.diff, route.BlockDiff{Switch: s, Block: uint16(at / route.BlockLen)})
			for l := max(at, 1); l < min(end, len(row), top+1); l++ {
				if l >= len(have) || have[l] != row[l] {
					ch.entries++
				}
			}
		}
		for l := max(at, 1); l < min(end, len(ch.touched)); l++ {
			if effective(x.old, s, l) != effective(x.new, s, l) {
				ch.touched[l] = true
				if len(ch.cells) < maxCells {
					ch.cells = append(ch.cells, cell{ib.LID(l), s})
				} else {
					ch.large = true
				}
			}
		}
	}
}

// compareLevels finds the LIDs to which some source uses other service levels
// than the wanted ones. LIDs of one class before and after have equal levels.
func (x *mixer) compareLevels(ch *change, quiet bool) {
	if quiet || x.old.SL == nil && x.new.SL == nil && x.held == nil || x.sameLevels() {
		return
	}
	known := false
	for _, row := range x.old.LFT {
		known = known || len(row) > 0
	}
	if !known {
		return // no host has resolved a path yet
	}
	ends := make([]int64, x.managed)
	for i := range x.g.EndPorts {
		if e := &x.g.EndPorts[i]; e.Switch >= 0 && e.LID != 0 {
			ends[e.Switch]++
		}
	}
	type kind struct{ old, now, held int32 }
	type verdict struct {
		differs bool
		pairs   int64
	}
	kinds := map[kind]verdict{}
	class := func(c []int32, l int) int32 {
		if l < len(c) {
			return c[l]
		}
		return -1
	}
	for l := 1; l < len(x.g.LIDOwner); l++ {
		if x.g.LIDOwner[l] == fabric.NoLID {
			continue
		}
		k := kind{class(x.old.Class, l), class(x.new.Class, l), -1}
		if x.held != nil {
			k.held = class(x.held.Class, l)
		}
		v, ok := kinds[k]
		if !ok {
			for s := range int32(x.managed) {
				if x.levelsOf(s, ib.LID(l), oldSLs|newSLs) == x.levelsOf(s, ib.LID(l), newSLs) {
					continue
				}
				v.differs = true
				if x.old.PathSL(s, ib.LID(l)) != x.new.PathSL(s, ib.LID(l)) {
					v.pairs += ends[s]
				}
			}
			kinds[k] = v
		}
		ch.pairs += v.pairs
		if v.differs {
			if ch.levels == nil {
				ch.levels = make([]bool, len(ch.touched))
			}
			ch.levels[l] = true
		}
	}
}

// sameLevels reports whether the service levels are the same memory.
func (x *mixer) sameLevels() bool {
	a, b := x.old, x.new
	return x.held == nil && len(a.SL) == len(b.SL) && len(a.Class) == len(b.Class) && len(a.SL) > 0 && len(a.Class) > 0 &&
		a.NumClasses == b.NumClasses && &a.SL[0] == &b.SL[0] && &a.Class[0] == &b.Class[0]
}

// LaneTable names one SL-to-VL table of a switch, the unit of one
// Set(SLtoVLMappingTable).
type LaneTable struct {
	Switch  int32
	In, Out uint8 // In 0: packets of the switch itself
}

// compareLanes lists the SL-to-VL tables that change, for connected output
// ports. A state without tables of its own uses SL modulo the lanes of the link.
// Only the caller knows the lanes of hosts' links, so their tables are compared
// only if both states have tables.
func (x *mixer) compareLanes(ch *change) {
	a, b := x.old.Lanes, x.new.Lanes
	if a == b || a == nil && b == nil {
		return
	}
	x.build()
	for s := range int32(x.managed) {
		ports := x.g.Switches[s].NumPorts
		for out := uint8(1); out <= ports && out != 0; out++ {
			c := x.port[int(s)<<8|int(out)]
			if c < 0 && (a == nil || b == nil) {
				continue
			}
			for in := uint8(0); in <= ports; in++ {
				if in != out && x.laneRow(a, s, in, out, c) != x.laneRow(b, s, in, out, c) {
					ch.lanes = append(ch.lanes, LaneTable{s, in, out})
				}
				if in == 255 {
					break
				}
			}
		}
	}
}

func (x *mixer) laneRow(l *route.Lanes, s int32, in, out uint8, c int32) (row [16]ib.VL) {
	if l != nil {
		if r := l.Row(s, in, out); r != nil {
			return *r
		}
	}
	vls := uint8(1)
	if c >= 0 {
		vls = x.vls[c]
	}
	for sl := range row {
		row[sl] = ib.VL(uint8(sl) % vls)
	}
	return row
}

// newLevels reports whether hosts or groups take other service levels.
func (x *mixer) newLevels(ch *change) bool {
	return ch.levels != nil || len(x.groups) > 0 && len(ch.trees) > 0 || slices.ContainsFunc(ch.trees, func(t treeChange) bool {
		return t.old != nil && t.now != nil && t.old.SL != t.now.SL
	})
}

// sortCells orders the changed entries by LID, then switch; compare lists them
// by switch.
func (ch *change) sortCells() {
	next := make([]int32, len(ch.touched)+1)
	for _, c := range ch.cells {
		next[c.lid+1]++
	}
	for l := range ch.touched {
		next[l+1] += next[l]
	}
	out := make([]cell, len(ch.cells))
	for _, c := range ch.cells {
		out[next[c.lid]] = c
		next[c.lid]++
	}
	ch.cells = out
}
