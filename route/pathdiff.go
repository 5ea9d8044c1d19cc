package route

import (
	"bytes"
	"slices"

	"heddle/fabric"
	"heddle/ib"
)

// PathKind is a set of differences of the path from a switch to a LID, one bit
// each.
type PathKind uint8

// Differences between two states of a path. The last three exclude all others.
const (
	PathPorts  PathKind = 1 << iota // a switch or port of the path
	PathSL                          // the service level
	PathMTU                         // the smallest MTU of the path
	PathRate                        // the lowest rate of the path
	PathOwner                       // the LID belongs to another port
	PathGained                      // there was none
	PathLost                        // the path no longer exists
)

// PathDiff is the exact set of paths (source, destination LID) that differ
// between two states of a subnet: the path record distinguisher of W. L. Guay's
// thesis (paper II), which lets a manager notify only the affected hosts. Here it
// works per destination LID, not only per destination switch, and covers all that
// a PathRecord contains. It is immutable.
//
// Sources are grouped by switch: paths of the end ports on one switch differ only
// in their own link, and Sources lists the end ports whose link changed. The MTU
// and rate of a path are the minimum over the links between switches and the
// destination's link; unknown values (0) do not count.
//
// Memory: for each LID with a difference at most a byte per switch, less if
// adjacent switches agree; LIDs with the same sources share. At most 49,151 ×
// (switches + 8) bytes, commonly a few KiB.
type PathDiff struct {
	lids []ib.LID // ascending
	at   []uint32 // by index in lids: first byte of its sources in data
	form []bool   // by index in lids: sources are stored as runs, not as one byte each
	size []uint32 // bytes of sources
	data []byte
	// Sources are the end ports (indices in the new Graph.EndPorts, ascending)
	// whose own link changed its MTU or rate, so that all their paths may differ.
	Sources []int32
}

// A run is four bytes: how many switches (two bytes, little-endian) from the
// end of the run before, and their kind, and a zero.
const runLen = 4

// DiffPaths compares all paths of two states. d is fabric.Diff of the two graphs
// (nil: it is computed). Sources and channels are those of the new graph. LIDs
// whose entries, channels and destinations are equal in both are skipped, as are
// rows that share memory.
//
// It takes time proportional to switches × LIDs with a difference; if the
// service levels do not share memory, it examines every LID.
func DiffPaths(old, now Solution, d *fabric.Delta, workers int) *PathDiff {
	if d == nil {
		d = fabric.Diff(old.Graph, now.Graph)
	}
	c := &pathComparer{old: old, now: now, d: d}
	lids := c.touch()
	const step = BlockLen
	type part struct {
		lids  []ib.LID
		size  []uint32
		form  []bool
		bytes []byte
	}
	parts := make([]part, (len(lids)+step-1)/step)
	ws := make([]*pathWorker, max(workers, 1))
	ForEach(workers, len(parts), func(worker, i int) {
		if ws[worker] == nil {
			ws[worker] = c.newWorker()
		}
		w, p := ws[worker], &parts[i]
		for _, l := range lids[i*step : min((i+1)*step, len(lids))] {
			if !w.compare(l) {
				continue
			}
			n := len(p.bytes)
			var runs bool
			p.bytes, runs = w.encode(p.bytes)
			p.lids, p.form, p.size = append(p.lids, l), append(p.form, runs), append(p.size, uint32(len(p.bytes)-n))
		}
	})
	r := &PathDiff{Sources: c.sources()}
	seen := map[uint64][]int32{} // by hash of the sources: LIDs (indices) with them
	for i := range parts {
		p := &parts[i]
		from := uint32(0)
		for j, l := range p.lids {
			b := p.bytes[from : from+p.size[j]]
			from += p.size[j]
			k := int32(len(r.lids))
			at := uint32(len(r.data))
			h := hash(b)
			for _, q := range seen[h] {
				if r.form[q] == p.form[j] && bytes.Equal(r.sources(q), b) {
					at = r.at[q]
				}
			}
			if at == uint32(len(r.data)) {
				r.data = append(r.data, b...)
				seen[h] = append(seen[h], k)
			}
			r.lids, r.at = append(r.lids, l), append(r.at, at)
			r.form, r.size = append(r.form, p.form[j]), append(r.size, p.size[j])
		}
	}
	r.data = slices.Clip(r.data)
	return r
}

func (p *PathDiff) sources(i int32) []byte { return p.data[p.at[i] : p.at[i]+p.size[i]] }

// LIDs are those that some path to differs. The caller must not change them.
func (p *PathDiff) LIDs() []ib.LID { return p.lids }

// runs calls fn for the runs of one LID while it returns true.
func (p *PathDiff) runs(i int32, fn func(from, to int32, k PathKind) bool) {
	b := p.sources(i)
	if !p.form[i] {
		for from := 0; from < len(b); {
			to := from + 1
			for to < len(b) && b[to] == b[from] {
				to++
			}
			if b[from] != 0 && !fn(int32(from), int32(to), PathKind(b[from])) {
				return
			}
			from = to
		}
		return
	}
	from := int32(0)
	for ; len(b) > 0; b = b[runLen:] {
		to := from + int32(b[0]) + int32(b[1])<<8
		if b[2] != 0 && !fn(from, to, PathKind(b[2])) {
			return
		}
		from = to
	}
}

// To calls fn for the source switches whose path to l differs, in ascending
// runs (from to to-1) of equal kind.
func (p *PathDiff) To(l ib.LID, fn func(from, to int32, k PathKind)) {
	if i, ok := slices.BinarySearch(p.lids, l); ok {
		p.runs(int32(i), func(from, to int32, k PathKind) bool { fn(from, to, k); return true })
	}
}

// pathComparer is the state that the workers of DiffPaths share.
type pathComparer struct {
	old, now Solution
	d        *fabric.Delta
	touched  []bool // by LID: worth looking at
	levels   bool   // service levels are not the same memory
	// deep is by LID: more than its service levels may differ. nil: of all LIDs.
	deep []bool
}

// touch returns the LIDs whose paths may differ, in ascending order.
func (c *pathComparer) touch() (lids []ib.LID) {
	c.touchAll()
	for l := range c.touched {
		if c.touched[l] && l > 0 {
			lids = append(lids, ib.LID(l))
		}
	}
	return lids
}

// touchAll marks the LIDs whose paths may differ.
func (c *pathComparer) touchAll() {
	a, b := c.old, c.now
	c.touched = make([]bool, max(len(a.Graph.LIDOwner), len(b.Graph.LIDOwner)))
	x, y := a.Tables, b.Tables
	c.levels = !(sameSlice(x.SL, y.SL) && sameSlice(x.Class, y.Class) && x.NumClasses == y.NumClasses && c.d.SameSwitches)
	if !c.touchEntries() {
		c.touchEach()
		return
	}
	if c.levels && !(x.SL == nil && y.SL == nil) {
		defer func() {
			c.deep = slices.Clone(c.touched)
			c.touchEach()
		}()
	}
	for _, l := range c.d.LIDs {
		c.touched[l] = true
	}
	c.touchLinks()
	for l := range min(len(a.Graph.LIDOwner), len(b.Graph.LIDOwner)) {
		p, q := a.Graph.LIDOwner[l], b.Graph.LIDOwner[l]
		if p == fabric.NoLID || q == fabric.NoLID {
			continue
		}
		if e, f := &a.Graph.EndPorts[p], &b.Graph.EndPorts[q]; e.MTU != f.MTU || e.Gbps != f.Gbps {
			c.touched[l] = true
		}
	}
}

// touchEach touches all LIDs.
func (c *pathComparer) touchEach() {
	for l := range c.touched {
		c.touched[l] = true
	}
}

// touchEntries touches the LIDs with other entries; false if a switch has no
// table before or now, so that all may differ.
func (c *pathComparer) touchEntries() bool {
	x, y := c.old.Tables, c.now.Tables
	n := len(c.touched)
	if c.d.SameSwitches && x.SharedRows(y) && x.TopLID == y.TopLID {
		if slices.ContainsFunc(y.rows(), func(row []byte) bool { return row == nil }) {
			return false
		}
		x.OtherBands(y, func(b int) { c.touchBand(b) })
		return true
	}
	x, y = x.Flat(), y.Flat()
	for s := range c.now.Graph.Switches {
		was := c.d.Switch[s]
		if was < 0 || y.LFT[s] == nil || x.LFT[was] == nil {
			return false
		}
		old, now := x.LFT[was], y.LFT[s]
		if sameSlice(old, now) && x.TopLID == y.TopLID {
			continue
		}
		for at := 0; at < n; at += BlockLen {
			end := min(at+BlockLen, n)
			if end <= min(len(old), len(now), int(x.TopLID)+1, int(y.TopLID)+1) && bytes.Equal(old[at:end], now[at:end]) {
				continue
			}
			for l := at; l < end; l++ {
				if x.Entry(was, ib.LID(l)) != y.Entry(int32(s), ib.LID(l)) {
					c.touched[l] = true
				}
			}
		}
	}
	return true
}

// touchBand touches the LIDs of a block with other entries, where both tables have the same switches.
func (c *pathComparer) touchBand(b int) {
	x, y := c.old.Tables, c.now.Tables
	for s := range int32(y.Switches()) {
		old, now := x.Part(s, b), y.Part(s, b)
		if bytes.Equal(old, now) {
			continue
		}
		for i := range now {
			if l := b*BlockLen + i; l < len(c.touched) && (i >= len(old) || old[i] != now[i]) {
				c.touched[l] = true
			}
		}
	}
}

// touchLinks touches the LIDs with equal entries over a changed link.
func (c *pathComparer) touchLinks() {
	a, b := c.old, c.now
	for i := range b.Graph.Channels {
		k := &b.Graph.Channels[i]
		if was := c.d.Channel[i]; was < 0 || k.MTU != a.Graph.Channels[was].MTU || k.Gbps != a.Graph.Channels[was].Gbps {
			c.users(b.Tables, k.From, k.OutPort)
		}
	}
	for i, is := range c.d.OldChannel {
		if is < 0 {
			k := &a.Graph.Channels[i]
			c.users(a.Tables, k.From, k.OutPort)
		}
	}
}

// users touches the LIDs that a switch sends out of a port.
func (c *pathComparer) users(t *Tables, s int32, port uint8) {
	row := t.Row(s)
	for l := range min(len(row), int(t.TopLID)+1, len(c.touched)) {
		if row[l] == port {
			c.touched[l] = true
		}
	}
}

func sameSlice[T any](a, b []T) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// sources lists the end ports of both states whose link changed its MTU or
// rate.
func (c *pathComparer) sources() (list []int32) {
	a, b := c.old.Graph.EndPorts, c.now.Graph.EndPorts
	i := 0
	for j := range b {
		for i < len(a) && a[i].GUID < b[j].GUID {
			i++
		}
		for k := i; k < len(a) && a[k].GUID == b[j].GUID; k++ {
			if a[k].NodeGUID == b[j].NodeGUID && a[k].PortNum == b[j].PortNum && (a[k].MTU != b[j].MTU || a[k].Gbps != b[j].Gbps) {
				list = append(list, int32(j))
				break
			}
		}
	}
	return list
}

// pathWorker is one worker's scratch.
type pathWorker struct {
	c        *pathComparer
	old, now pathTree
	changed  []bool     // by switch of the new graph: the ports of its path differ
	kinds    []PathKind // by switch of the new graph
}

// pathTree is the tree of paths to one LID in one state.
type pathTree struct {
	next  []int32 // by switch: channel, or -1
	state []uint8
	mtu   []ib.MTU // by switch: smallest value of the path, the destination's link included; 0: unknown
	gbps  []float32
	order []int32 // switches, each after its next hop
	stack []int32
}

func (c *pathComparer) newWorker() *pathWorker {
	tree := func(n int) pathTree {
		return pathTree{next: make([]int32, n), state: make([]uint8, n), mtu: make([]ib.MTU, n), gbps: make([]float32, n)}
	}
	n := len(c.now.Graph.Switches)
	return &pathWorker{
		c: c, old: tree(len(c.old.Graph.Switches)), now: tree(n),
		changed: make([]bool, n), kinds: make([]PathKind, n),
	}
}

// States of a switch in a pathTree.
const (
	pathFresh = iota
	pathOpen
	pathArrives
	pathEnds // dropped, or in a loop
)

// walk follows the entries for l from every switch.
func (t *pathTree) walk(s Solution, l ib.LID) {
	g := s.Graph
	clear(t.state)
	t.order = t.order[:0]
	owner := int32(fabric.NoLID)
	if int(l) < len(g.LIDOwner) {
		owner = g.LIDOwner[l]
	}
	dst := int32(-1)
	if owner != fabric.NoLID {
		e := &g.EndPorts[owner]
		if dst = e.Switch; dst >= 0 {
			t.next[dst], t.mtu[dst], t.gbps[dst] = -1, e.MTU, e.Gbps
			t.state[dst] = pathEnds
			if s.Tables.Known(dst) && s.Tables.Entry(dst, l) == e.Port {
				t.state[dst] = pathArrives
			}
			t.order = append(t.order, dst)
		}
	}
	for v := range g.Switches {
		u := int32(v)
		for t.state[u] == pathFresh {
			t.state[u] = pathOpen
			t.stack = append(t.stack, u)
			c := int32(-1)
			if s.Tables.Known(u) {
				if p := s.Tables.Entry(u, l); int(p) < len(g.PortChannel[u]) {
					c = g.PortChannel[u][p]
				}
			}
			if t.next[u] = c; c < 0 {
				break
			}
			u = g.Channels[c].To
		}
		end := uint8(pathEnds)
		if len(t.stack) > 0 && t.state[u] == pathArrives {
			end = pathArrives
		}
		for _, w := range slices.Backward(t.stack) {
			t.state[w] = end
			t.order = append(t.order, w)
			if end == pathArrives {
				k := &g.Channels[t.next[w]]
				t.mtu[w], t.gbps[w] = least(t.mtu[k.To], k.MTU), least(t.gbps[k.To], k.Gbps)
			}
		}
		t.stack = t.stack[:0]
	}
}

// least is the smaller of two values; 0 is unknown.
func least[T ib.MTU | float32](a, b T) T {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// compare fills w.kinds for l and reports whether any path differs.
func (w *pathWorker) compare(l ib.LID) (any bool) {
	if w.c.deep != nil && !w.c.deep[l] {
		return w.compareLevels(l)
	}
	return w.compareAll(l)
}

// compareAll is compare for a LID of which anything may differ.
func (w *pathWorker) compareAll(l ib.LID) (any bool) {
	c := w.c
	w.old.walk(c.old, l)
	w.now.walk(c.now, l)
	owner := PathKind(0)
	if a, b := ownerOf(c.old.Graph, l), ownerOf(c.now.Graph, l); a != nil && b != nil && (a.GUID != b.GUID || a.PortNum != b.PortNum) {
		owner = PathOwner
	}
	for _, s := range w.now.order {
		was, k := c.d.Switch[s], PathKind(0)
		before := was >= 0 && w.old.state[was] == pathArrives
		after := w.now.state[s] == pathArrives
		switch {
		case before && !after:
			k = PathLost
		case !before && after:
			k = PathGained
		}
		w.changed[s] = !before || !after
		if before && after {
			next, prev := w.now.next[s], w.old.next[was]
			switch {
			case next < 0 || prev < 0:
				w.changed[s] = next != prev || c.old.Tables.Entry(was, l) != c.now.Tables.Entry(s, l)
			default:
				w.changed[s] = c.d.Channel[next] != prev || w.changed[c.now.Graph.Channels[next].To]
			}
			if w.changed[s] {
				k |= PathPorts
			}
			if w.old.mtu[was] != w.now.mtu[s] {
				k |= PathMTU
			}
			if w.old.gbps[was] != w.now.gbps[s] {
				k |= PathRate
			}
			if c.levels && c.old.Tables.PathSL(was, l) != c.now.Tables.PathSL(s, l) {
				k |= PathSL
			}
			k |= owner
		}
		w.kinds[s] = k
		any = any || k != 0
	}
	return any
}

// compareLevels is compare for a LID of which only service levels may differ. Most differ for a few
// sources or for none, and then one walk is enough, or none.
func (w *pathWorker) compareLevels(l ib.LID) (any bool) {
	c := w.c
	clear(w.kinds)
	for s := range w.kinds {
		if was := c.d.Switch[s]; was >= 0 && c.old.Tables.PathSL(was, l) != c.now.Tables.PathSL(int32(s), l) {
			w.kinds[s], any = PathSL, true
		}
	}
	if !any {
		return false
	}
	w.now.walk(c.now, l)
	any = false
	for s := range w.kinds {
		if w.kinds[s] != 0 && w.now.state[s] != pathArrives {
			w.kinds[s] = 0
		}
		any = any || w.kinds[s] != 0
	}
	return any
}

func ownerOf(g *fabric.Graph, l ib.LID) *fabric.EndPort {
	if int(l) >= len(g.LIDOwner) || g.LIDOwner[l] == fabric.NoLID {
		return nil
	}
	return &g.EndPorts[g.LIDOwner[l]]
}

// encode appends w.kinds as runs, or byte by byte if that is shorter.
func (w *pathWorker) encode(b []byte) (out []byte, runs bool) {
	start := len(b)
	last := len(w.kinds)
	for last > 0 && w.kinds[last-1] == 0 {
		last--
	}
	for from := 0; from < last; {
		to := from + 1
		for to < last && w.kinds[to] == w.kinds[from] && to-from < 0xFFFF {
			to++
		}
		b = append(b, byte(to-from), byte((to-from)>>8), byte(w.kinds[from]), 0)
		from = to
		if len(b)-start >= len(w.kinds) {
			b = b[:start]
			for _, k := range w.kinds {
				b = append(b, byte(k))
			}
			return b, false
		}
	}
	return b, true
}

// hash is FNV-1a.
func hash(b []byte) uint64 {
	h := uint64(14695981039346656037)
	for _, c := range b {
		h = (h ^ uint64(c)) * 1099511628211
	}
	return h
}
