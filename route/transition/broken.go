package transition

import (
	"cmp"
	"math/bits"
	"slices"

	"heddle/fabric"
	"heddle/ib"
	"heddle/route"
)

// LostPort is a port of a switch that no longer leads to another switch, by the
// index of the switch.
type LostPort struct {
	Switch int32
	Port   uint8
}

// LostRow is a switch that may have forgotten entries: Was are those that it had.
type LostRow struct {
	Switch int32
	Was    []byte
}

// Pairs are the broken pairs of a graph: a switch with a CA or router port, and
// the LID of a CA or router port that the installed entries do not deliver from
// there, although links connect the two. They are immutable.
type Pairs struct {
	N int // how many

	g         *fabric.Graph
	installed *route.Tables
	lids      []ib.LID
	at        [][]uint64 // by index in lids: the switches that cannot reach it, whether they have a host or not
	hosts     []uint64   // the switches with a CA or router port
}

// Broken finds the pairs that broke with ports and rows. It scans the rows of the
// affected switches, and then walks from the dead entries upstream. So it takes time
// proportional to the channels, to ports × LIDs, and to the broken pairs × ports of a
// switch, and not to switches × LIDs.
//
// A port that leads to another switch than before does not count, nor does a LID that
// moved.
func Broken(g *fabric.Graph, installed *route.Tables, ports []LostPort, rows []LostRow) *Pairs {
	b := &Pairs{g: g, installed: installed, hosts: make([]uint64, (len(g.Switches)+63)/64)}
	for i := range g.EndPorts {
		if e := &g.EndPorts[i]; e.Type != ib.NodeSwitch && e.Switch >= 0 {
			b.hosts[e.Switch>>6] |= 1 << (e.Switch & 63)
		}
	}
	w := &pairWalk{Pairs: b, comp: parts(g), index: make([]int32, int(g.TopLID)+1)}
	ports = slices.Clone(ports)
	slices.SortFunc(ports, func(a, c LostPort) int { return int(a.Switch)<<8 + int(a.Port) - int(c.Switch)<<8 - int(c.Port) })
	for i := 0; i < len(ports); {
		s := ports[i].Switch
		var lost [256]bool
		for ; i < len(ports) && ports[i].Switch == s; i++ {
			p := ports[i].Port
			lost[p] = int(p) >= len(g.PortChannel[s]) || g.PortChannel[s][p] < 0
		}
		w.row(s, func(l int, e byte) bool { return lost[e] && e != route.Drop })
	}
	for _, r := range rows {
		row := r.Was
		out := g.PortChannel[r.Switch]
		w.row(r.Switch, func(l int, e byte) bool {
			return l < len(row) && row[l] != route.Drop && row[l] != e && (int(e) >= len(out) || out[e] < 0)
		})
	}
	w.upstream()
	for _, at := range b.at {
		for i, m := range at {
			b.N += bits.OnesCount64(m & b.hosts[i])
		}
	}
	w.sort()
	return b
}

// pairWalk finds broken pairs.
type pairWalk struct {
	*Pairs
	comp  []int32
	index []int32 // by LID: 1 + its index in lids
	queue []cell
}

// row marks the dead entries in the row of a switch.
func (w *pairWalk) row(s int32, dead func(l int, e byte) bool) {
	g := w.g
	if int(s) >= len(w.installed.LFT) || w.installed.LFT[s] == nil {
		return // unknown row
	}
	for l := 1; l < len(g.LIDOwner); l++ {
		e := effective(w.installed, s, l)
		if !dead(l, e) || g.LIDOwner[l] == fabric.NoLID {
			continue
		}
		o := &g.EndPorts[g.LIDOwner[l]]
		if o.Type == ib.NodeSwitch || o.Switch < 0 || w.comp[o.Switch] != w.comp[s] || o.Switch == s && o.Port == e {
			continue
		}
		w.mark(cell{ib.LID(l), s})
	}
}

func (w *pairWalk) mark(c cell) {
	i := w.index[c.lid]
	if i == 0 {
		w.lids = append(w.lids, c.lid)
		w.at = append(w.at, make([]uint64, len(w.hosts)))
		i = int32(len(w.lids))
		w.index[c.lid] = i
	}
	m := &w.at[i-1][c.s>>6]
	if bit := uint64(1) << (c.s & 63); *m&bit == 0 {
		*m |= bit
		w.queue = append(w.queue, c)
	}
}

// upstream marks the switches that send to marked ones.
func (w *pairWalk) upstream() {
	g := w.g
	for len(w.queue) > 0 {
		c := w.queue[len(w.queue)-1]
		w.queue = w.queue[:len(w.queue)-1]
		for k := g.Off[c.s]; k < g.Off[c.s+1]; k++ {
			ch := &g.Channels[k]
			if ch.Rev >= 0 && effective(w.installed, ch.To, int(c.lid)) == ch.InPort {
				w.mark(cell{c.lid, ch.To})
			}
		}
	}
}

// sort puts the LIDs in ascending order.
func (w *pairWalk) sort() {
	sorted := slices.Sorted(slices.Values(w.lids))
	at := make([][]uint64, len(sorted))
	for i, l := range sorted {
		at[i] = w.at[w.index[l]-1]
	}
	w.lids, w.at = sorted, at
}

// each calls fn for every pair, in ascending order of LIDs and switches.
func (b *Pairs) each(fn func(s int32, l ib.LID)) {
	for i, l := range b.lids {
		for k, m := range b.at[i] {
			for m &= b.hosts[k]; m != 0; m &= m - 1 {
				fn(int32(k<<6|bits.TrailingZeros64(m)), l)
			}
		}
	}
}

// Still counts the pairs that tables of the same graph do not deliver. Unknown
// rows (nil) deliver nothing.
func (b *Pairs) Still(t *route.Tables) int {
	return b.still(func(s int32, l ib.LID) byte { return effective(t, s, int(l)) })
}

func (b *Pairs) still(entry func(s int32, l ib.LID) byte) (n int) {
	const unknown, good, bad = 0, 1, 2
	g := b.g
	state := make([]uint8, len(g.Switches))
	var set, path []int32
	last := ib.LID(0)
	b.each(func(s int32, l ib.LID) {
		if l != last {
			for _, u := range set {
				state[u] = unknown
			}
			set, last = set[:0], l
		}
		o := &g.EndPorts[g.LIDOwner[l]]
		path = path[:0]
		u, is := s, uint8(bad)
		for state[u] == unknown {
			state[u] = bad // until the end of the path is known: a loop delivers nothing
			path = append(path, u)
			e := entry(u, l)
			if u == o.Switch {
				if e == o.Port {
					state[u] = good
				}
				break
			}
			if int(e) >= len(g.PortChannel[u]) || g.PortChannel[u][e] < 0 {
				break
			}
			u = g.Channels[g.PortChannel[u][e]].To
		}
		is = state[u]
		for _, v := range path {
			state[v] = is
		}
		set = append(set, path...)
		if is == bad {
			n++
		}
	})
	return n
}

// Repairs lists, by stage of a plan from the installed tables, the blocks that put a broken
// pair's new path in place, in ascending order: those that a switch on it which cannot
// reach the LID needs. When the last of them is acknowledged every pair works that
// the plan connects.
func (b *Pairs) Repairs(p *Plan) [][]route.BlockDiff {
	cells := b.paths(p)
	out := make([][]route.BlockDiff, len(p.Stages))
	done := make([]bool, len(cells))
	var buf [route.BlockLen]byte
	for k := range p.Stages {
		for _, d := range p.Stages[k].LFT {
			first := cell{ib.LID(d.Block) * route.BlockLen, d.Switch}
			end := int(first.lid) + route.BlockLen
			i, _ := slices.BinarySearchFunc(cells, first, func(a entryCell, c cell) int { return compareBySwitch(a.cell, c) })
			if i == len(cells) || cells[i].s != d.Switch || int(cells[i].lid) >= end {
				continue
			}
			p.Block(k, d, &buf)
			hit := false
			for ; i < len(cells) && cells[i].s == d.Switch && int(cells[i].lid) < end; i++ {
				if !done[i] && buf[cells[i].lid%route.BlockLen] == cells[i].e {
					done[i], hit = true, true
				}
			}
			if hit {
				out[k] = append(out[k], d)
			}
		}
		slices.SortFunc(out[k], compareBlocks)
	}
	return out
}

// entryCell is an entry that a path needs.
type entryCell struct {
	cell
	e byte
}

func compareBySwitch(a, b cell) int { return cmp.Or(cmp.Compare(a.s, b.s), cmp.Compare(a.lid, b.lid)) }

// paths lists the changed entries on the paths that a plan gives the pairs, at switches
// that cannot reach the LID; by switch, then LID. If the first step of a repair delivers,
// that is the path.
func (b *Pairs) paths(p *Plan) (cells []entryCell) {
	seen := make([]uint64, len(b.hosts))
	var path []entryCell
	for i, l := range b.lids {
		clear(seen)
		o := &b.g.EndPorts[b.g.LIDOwner[l]]
		follow := func(t *route.Tables, s int32) bool {
			path = path[:0]
			for u := s; ; {
				if len(path) > len(b.g.Switches) {
					return false
				}
				e := effective(t, u, int(l))
				path = append(path, entryCell{cell{l, u}, e})
				if u == o.Switch {
					return e == o.Port
				}
				out := b.g.PortChannel[u]
				if int(e) >= len(out) || out[e] < 0 {
					return false
				}
				u = b.g.Channels[out[e]].To
			}
		}
		for k, m := range b.at[i] {
			for m &= b.hosts[k]; m != 0; m &= m - 1 {
				s := int32(k<<6 | bits.TrailingZeros64(m))
				if f := p.Fitted; (f == nil || f.First == nil || !follow(f.First, s)) && !follow(p.wanted, s) {
					continue
				}
				for _, c := range path {
					at, bit := c.s>>6, uint64(1)<<(c.s&63)
					if b.at[i][at]&bit == 0 || seen[at]&bit != 0 {
						continue
					}
					seen[at] |= bit
					if c.e != effective(b.installed, c.s, int(l)) {
						cells = append(cells, c)
					}
				}
			}
		}
	}
	slices.SortFunc(cells, func(a, c entryCell) int { return compareBySwitch(a.cell, c.cell) })
	return cells
}

// Late counts the pairs that a plan connects only after a wait, or by entries
// that do not mix with packets in flight.
func (b *Pairs) Late(p *Plan) int {
	if f := p.Fitted; f != nil && f.First != nil {
		return b.Still(f.First)
	}
	for k := range len(p.Stages) - 1 {
		if st := &p.Stages[k]; st.Drain != 0 || st.Repath != 0 {
			return b.still(func(s int32, l ib.LID) byte {
				var buf [route.BlockLen]byte
				p.Block(k, route.BlockDiff{Switch: s, Block: uint16(l / route.BlockLen)}, &buf)
				return buf[l%route.BlockLen]
			})
		}
	}
	return 0
}
