package transition

import (
	"heddle/fabric"
	"heddle/ib"
	"heddle/route"
)

// walker holds one worker's scratch for walking one destination at a time.
type walker struct {
	a, b    []int32 // by switch: channels of the entries that may be installed, or -1
	arrive  []uint16
	seen    []bool
	state   []uint8
	stack   []int32
	post    []int32 // switches, each after those it sends to
	tileNew []byte  // wanted entries of one block, LID by LID
	tileOld []byte
	block   int // whose entries the tiles hold
	oldToo  bool

	slots [][16]uint16 // by 2·switch (+1 for b): lanes by service level on that channel
	links
	// For rooted order.
	old, now, rank []int32
	postNow        []int32
	later          []uint16
	fresh          []bool

	sets  [2]depSet
	into  depSet // where dependencies go; nil: edges
	skip  depSet // dependencies that edges leaves out
	edges []edge
}

// links chain the channels in use by the switch they enter.
type links struct {
	head, next []int32
	levels     []uint16
}

func (x *mixer) newWalker() *walker {
	n := x.n
	w := &walker{
		a: make([]int32, n), b: make([]int32, n), seen: make([]bool, n), fresh: make([]bool, n), state: make([]uint8, n),
		arrive: make([]uint16, n), tileNew: make([]byte, route.BlockLen*n), tileOld: make([]byte, route.BlockLen*n), block: -1,
	}
	if x.tables {
		w.slots = make([][16]uint16, 2*n)
		w.links = links{make([]int32, n), make([]int32, 2*n), make([]uint16, 2*n)}
	}
	return w
}

// tiles fills the tiles with the entries of 64 LIDs.
func (x *mixer) tiles(w *walker, block int, oldToo bool) {
	if w.block == block && (w.oldToo || !oldToo) {
		return
	}
	if w.block != block {
		x.tile(w.tileNew, x.new, block)
	}
	w.block, w.oldToo = block, oldToo
	if oldToo {
		x.tile(w.tileOld, x.old, block)
	}
}

func (x *mixer) tile(tile []byte, t *route.Tables, block int) {
	n := x.n
	var b [route.BlockLen]byte
	lo := block * route.BlockLen
	for s := range n {
		row, top := []byte(nil), int(t.TopLID)
		switch {
		case s >= x.managed:
			row, top = x.frozen[s-x.managed].Row, len(x.frozen[s-x.managed].Row)-1
		case s < len(t.LFT):
			row = t.LFT[s]
		}
		k := 0
		if hi := min(lo+route.BlockLen, len(row), top+1); hi > lo {
			k = copy(b[:], row[lo:hi])
		}
		for ; k < route.BlockLen; k++ {
			b[k] = route.Drop
		}
		at := s
		for _, e := range b {
			tile[at] = e
			at += n
		}
	}
}

// load fills w with the channels of the entries for l that sp says; where
// there is one only, b is -1.
func (x *mixer) load(w *walker, l ib.LID, sp spec) {
	x.tiles(w, int(l)/route.BlockLen, sp&oldEntries != 0)
	at := int(l) % route.BlockLen * x.n
	now, was := w.tileNew[at:at+x.n], w.tileOld[at:at+x.n]
	switch {
	case sp&oldEntries == 0:
		for s, e := range now {
			w.a[s], w.b[s] = x.port[s<<8|int(e)], -1
		}
	case sp&newEntries == 0:
		for s, e := range was {
			w.a[s], w.b[s] = x.port[s<<8|int(e)], -1
		}
	default:
		for s, e := range now {
			w.a[s], w.b[s] = x.port[s<<8|int(e)], -1
			if f := was[s]; f != e {
				w.b[s] = x.port[s<<8|int(f)]
			}
		}
	}
}

// fromAnywhere reports whether any switch may send data packets to l: to a CA
// or router port, or to a LID without an owner, all may; to a
// switch port 0 only CAs do, as far as deadlocks are concerned.
func (x *mixer) fromAnywhere(l ib.LID) bool {
	if x.alone[l] != 0 {
		return true
	}
	if int(l) < len(x.g.LIDOwner) && x.g.LIDOwner[l] != fabric.NoLID {
		return x.g.EndPorts[x.g.LIDOwner[l]].Type != ib.NodeSwitch
	}
	if b := x.before; b != nil && int(l) < len(b.LIDOwner) && b.LIDOwner[l] != fabric.NoLID {
		return b.EndPorts[b.LIDOwner[l]].Type != ib.NodeSwitch
	}
	return true
}

// order fills w.post; false if some choice of the entries in w sends a packet
// round.
func (x *mixer) order(w *walker) bool {
	const fresh, open, done = 0, 1, 2
	clear(w.state)
	w.post = w.post[:0]
	for s := range w.a {
		if w.state[s] != fresh {
			continue
		}
		w.stack = append(w.stack[:0], int32(s))
		for len(w.stack) > 0 {
			u := w.stack[len(w.stack)-1]
			if w.state[u] != fresh {
				w.stack = w.stack[:len(w.stack)-1]
				if w.state[u] == open {
					w.state[u] = done
					w.post = append(w.post, u)
				}
				continue
			}
			w.state[u] = open
			for _, c := range [2]int32{w.a[u], w.b[u]} {
				if c < 0 {
					continue
				}
				v := x.to[c]
				if w.state[v] == open {
					return false
				}
				if w.state[v] == fresh {
					w.stack = append(w.stack, v)
				}
			}
		}
	}
	return true
}

func (x *mixer) add(w *walker, c1, v1, c2, v2 int32) {
	b := x.bit(c1, v1, c2, v2)
	switch {
	case w.into != nil:
		if m := uint64(1) << (b & 63); w.into[b>>6]&m == 0 {
			w.into[b>>6] |= m
		}
	case w.skip == nil || !w.skip.has(b):
		w.edges = append(w.edges, edge{c1*x.lanes + v1, c2*x.lanes + v2, b})
	}
}

// deps adds every dependency that packets to l can make by the entries that
// load left in w. With more than one lane the entries must not loop, and order
// must have been called.
func (x *mixer) deps(w *walker, l ib.LID, sp spec) {
	switch {
	case x.lanes == 1:
		x.depsSingle(w, l, x.fromAnywhere(l), sp)
	case !x.tables:
		x.start(w, l, sp)
		x.depsModulo(w)
	default:
		x.start(w, l, sp)
		x.depsTables(w, x.fromAnywhere(l), sp)
	}
}

func (x *mixer) depsSingle(w *walker, l ib.LID, all bool, sp spec) {
	if !all {
		var strays []stray
		if sp&oldEntries != 0 {
			strays = x.strays[l]
		}
		x.reach(w, strays)
	}
	for u := range w.a {
		if !all && !w.seen[u] {
			continue
		}
		for _, c1 := range [2]int32{w.a[u], w.b[u]} {
			if c1 < 0 {
				continue
			}
			v := x.to[c1]
			if c2 := w.a[v]; c2 >= 0 {
				x.add(w, c1, 0, c2, 0)
			}
			if c2 := w.b[v]; c2 >= 0 {
				x.add(w, c1, 0, c2, 0)
			}
		}
	}
}

// reach marks in w.seen the switches that packets from CAs can visit.
func (x *mixer) reach(w *walker, strays []stray) {
	w.stack = w.stack[:0]
	for s, ca := range x.hasCA {
		w.seen[s] = ca
		if ca {
			w.stack = append(w.stack, int32(s))
		}
	}
	for _, k := range strays {
		if !w.seen[k.s] {
			w.seen[k.s] = true
			w.stack = append(w.stack, k.s)
		}
	}
	for len(w.stack) > 0 {
		u := w.stack[len(w.stack)-1]
		w.stack = w.stack[:len(w.stack)-1]
		for _, c := range [2]int32{w.a[u], w.b[u]} {
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

// start sets w.arrive to the service levels that packets to l start with at
// each switch.
func (x *mixer) start(w *walker, l ib.LID, sp spec) {
	if m := x.alone[l]; m != 0 {
		for s := range w.arrive {
			w.arrive[s] = m
		}
		return
	}
	all := x.fromAnywhere(l)
	for s := range w.arrive {
		switch {
		case !all && !x.hasCA[s]:
			w.arrive[s] = 0
		case s >= x.managed:
			w.arrive[s] = x.levels // its hosts' levels are unknown
		default:
			w.arrive[s] = x.levelsOf(int32(s), l, sp)
		}
	}
	if sp&oldEntries == 0 {
		return
	}
	for _, k := range x.strays[l] {
		w.arrive[k.s] |= k.levels
	}
}

func (x *mixer) levelsOf(s int32, l ib.LID, sp spec) (m uint16) {
	if x.told != nil && x.told[l] != nil {
		return x.told[l][s]
	}
	if sp&oldSLs != 0 {
		m = 1<<(x.old.PathSL(s, l)&15) | x.held.levels(s, l)
	}
	if sp&newSLs != 0 {
		m |= 1 << (x.new.PathSL(s, l) & 15)
	}
	return m
}

// depsModulo is for links that use lane SL modulo their lanes.
func (x *mixer) depsModulo(w *walker) {
	for i := len(w.post) - 1; i >= 0; i-- {
		u := w.post[i]
		m := w.arrive[u]
		if m == 0 {
			continue
		}
		for _, c1 := range [2]int32{w.a[u], w.b[u]} {
			if c1 < 0 {
				continue
			}
			v := x.to[c1]
			w.arrive[v] |= m
			for _, c2 := range [2]int32{w.a[v], w.b[v]} {
				x.addLevels(w, c1, c2, m)
			}
		}
	}
}

// depsTables is for SL-to-VL tables, where the lane depends on the input port
// as well.
func (x *mixer) depsTables(w *walker, all bool, sp spec) {
	for s := range w.head {
		w.head[s] = -1
	}
	for i := len(w.post) - 1; i >= 0; i-- {
		u := w.post[i]
		ports := x.ports[u]
		if all {
			ports = x.injected[u]
		}
		for k, c2 := range [2]int32{w.a[u], w.b[u]} {
			if c2 < 0 {
				continue
			}
			slot := 2*u + int32(k)
			w.slots[slot], w.levels[slot] = [16]uint16{}, 0
			x.inject(w, slot, c2, ports, w.arrive[u], sp)
			for j := w.head[u]; j >= 0; j = w.next[j] {
				c1 := w.a[j/2]
				if j&1 != 0 {
					c1 = w.b[j/2]
				}
				x.passOn(w, slot, c2, j, c1, sp)
			}
			v := x.to[c2]
			w.next[slot], w.head[v] = w.head[v], slot
		}
	}
}
