package check

import (
	"cmp"
	"math/bits"
	"slices"
	"sync"
)

// updater is one worker of an update.
type updater struct {
	*update
	old, now side
	ops      []op
	spare    []op // memory for ops
	bad      bool // the new tables are not sound, or it takes a full proof to see
	a, b     []op // scratch of whole
	others   []otherLanes

	// Scratch of local. region holds the switches whose packets to the current LID
	// pass a switch with a changed entry, by old entries or by new ones; both give
	// the same set.
	stamp  []int32 // by switch: in the region if it is round
	round  int32
	region []int32
	sorted []int32
}

// otherLanes are lanes of a LID that are not those of the proof before.
type otherLanes struct {
	lid  int
	used uint16
}

// side holds the state for the old or the new tables.
type side struct {
	j    *verifier
	sign int64   // of load: -1 for the old tables, 1 for the new ones
	load []int64 // by channel: added or removed paths; one slice for both sides if channels have the same numbers
	hist []int64
	w    *scratch

	// By switch of the region:
	ch   []int32 // channel, or -1
	dist []int32 // links until packets arrive or end
	ok   []bool  // they arrive
	cas  []int64 // CA ports of the region whose packets pass
	caby []int32 // switches with CAs whose packets pass
}

// updaters have the memory of updates that are over: to allocate it and to collect it takes as long as
// an update of a few LIDs.
var updaters = sync.Pool{New: func() any { return new(updater) }}

func newUpdater(u *update) *updater {
	c := updaters.Get().(*updater)
	if len(c.stamp) != u.now.n {
		*c = updater{stamp: make([]int32, u.now.n)}
	}
	c.update = u
	load := make([]int64, len(u.now.to))
	c.now.begin(u.now, 1, load)
	if !u.wires {
		load = make([]int64, len(u.old.to))
	}
	c.old.begin(u.old, -1, load)
	return c
}

// begin makes a side ready that may have served another update for as many switches.
func (s *side) begin(j *verifier, sign int64, load []int64) {
	s.j, s.sign, s.load = j, sign, load
	if len(s.hist) != j.n+1 {
		s.hist = make([]int64, j.n+1)
	}
	clear(s.hist)
	w := s.w
	if w == nil || len(w.ca) != j.lanes*j.lanes || (w.state != nil) != (j.mode == general) {
		s.w = nil
		return
	}
	w.load, w.hist, w.lanes, w.used, w.part = load, s.hist, 0, 0, partial{}
}

// done keeps the memory of c, which nothing refers to any more, for another update.
func (c *updater) done() {
	const most = 1 << 16 // operations
	c.update, c.bad, c.others = nil, false, nil
	if c.spare = c.ops[:0]; cap(c.ops) > most {
		c.spare = nil
	}
	c.ops = nil
	for _, s := range [2]*side{&c.old, &c.now} {
		s.j, s.load = nil, nil
		if s.w != nil {
			s.w.load = nil
		}
	}
	updaters.Put(c)
}

// verify updates the result of one LID.
func (c *updater) verify(x item) {
	l := int(x.lid)
	switch {
	case x.whole || c.update.now.mode != single && len(x.at) > 0:
		c.column(l)
		return
	case len(x.at) > 0:
		if !c.local(l, x.at) {
			return
		}
	default:
		c.round++
	}
	if len(c.weights) > 0 && !c.bad {
		c.reweigh(l)
	}
}

// column verifies all switches for a LID, by both tables.
func (c *updater) column(l int) {
	isOldCA := c.old.column(l)
	isCA := c.now.column(l)
	w := c.now.w
	if w.part.loops > 0 || w.refused || w.round || c.now.failed() {
		c.bad = true
		return
	}
	if c.used[l] != uint16(w.used) {
		c.others = append(c.others, otherLanes{l, uint16(w.used)})
	}
	hadOwner, _, _ := c.old.j.destination(l)
	owner, _, _ := c.now.j.destination(l)
	for u := range c.now.j.n {
		c.a, c.b = c.a[:0], c.b[:0]
		if hadOwner >= 0 {
			c.a = c.old.deps(c.a, int32(u), isOldCA)
		}
		if owner >= 0 {
			c.b = c.now.deps(c.b, int32(u), isCA)
		}
		if slices.Equal(c.a, c.b) {
			continue
		}
		for _, x := range c.a {
			c.ops = append(c.ops, op{x.d, -x.ca, -x.sw})
		}
		c.ops = append(c.ops, c.b...)
	}
}

// column follows one side's entries for a LID.
func (s *side) column(l int) (isCA bool) {
	j := s.j
	if s.w == nil {
		s.w = j.scratchFor(1, s.load, s.hist)
		s.w.less = s.sign < 0
	}
	w := s.w
	entries := w.tile[:j.n]
	for u := range entries {
		entries[u] = j.effective(int32(u), l)
	}
	dst, port, isCA := j.destination(l)
	w.part, w.refused, w.used = partial{}, false, 0
	w.bad = j.walk(w, entries, dst, port) && dst >= 0
	if dst < 0 || w.part.loops > 0 {
		return isCA
	}
	j.depend(w, l, dst, port, isCA)
	if isCA && !w.refused {
		j.measure(w, dst)
	}
	return isCA
}

// failed reports whether a connected switch's packets do not arrive, or some
// are on a lane that the tables do not claim.
func (s *side) failed() bool {
	t := s.j.t
	return s.w.bad || t.NumVLs > 0 && bits.Len32(s.w.lanes) > t.NumVLs
}

// deps lists the dependencies that packets leaving switch u make at the next.
func (s *side) deps(list []op, u int32, isCA bool) []op {
	w, j := s.w, s.j
	c1 := w.ch[u]
	if c1 < 0 {
		return list
	}
	c2 := w.ch[j.to[c1]]
	if c2 < 0 {
		return list
	}
	j.eachDep(w, u, isCA, func(l1, l2 int, ca, sw uint32) {
		list = append(list, op{j.dep(c1, c2, l1, l2), int32(ca), int32(sw)})
	})
	return list
}

// regionMost is the largest region that is processed switch by switch.
const regionMost = 64

// upstream sets the region: the changed switches and those that send a LID to
// them. It is false if there are more than regionMost.
func (c *updater) upstream(l int, at []int32, dst int32) bool {
	j := c.old.j
	c.round++
	c.region = c.region[:0]
	for _, s := range at {
		c.stamp[s] = c.round
		c.old.ch[s] = j.channel(s, l)
		c.region = append(c.region, s)
	}
	for h := 0; h < len(c.region); h++ {
		v := c.region[h]
		for k := j.g.Off[v]; k < j.g.Off[v+1]; k++ {
			u := j.to[k]
			if c.stamp[u] == c.round || u == dst {
				continue
			}
			if r := j.g.Channels[k].Rev; r >= 0 && j.channel(u, l) == r {
				if len(c.region) == regionMost {
					return false
				}
				c.stamp[u] = c.round
				c.old.ch[u] = r
				c.region = append(c.region, u)
			}
		}
	}
	return true
}

// local updates a LID by the switches upstream of changed entries; false if it
// verified the whole LID instead.
func (c *updater) local(l int, at []int32) bool {
	j := c.old.j
	dst, port, isCA := j.destination(l)
	if dst < 0 || len(at) > regionMost || slices.Contains(at, dst) {
		c.column(l)
		return false
	}
	if c.old.ch == nil {
		c.old.room()
		c.now.room()
	}
	if !c.upstream(l, at, dst) {
		c.column(l)
		return false
	}
	for _, u := range c.region {
		c.now.ch[u] = c.now.j.channel(u, l)
	}
	if !c.resolve(&c.old, l, dst, port) || !c.resolve(&c.now, l, dst, port) {
		c.bad = true
		return false
	}
	for _, u := range c.region {
		if !c.now.ok[u] && c.now.j.comp[u] == c.now.j.comp[dst] {
			c.bad = true
			return false
		}
	}
	c.flow(&c.old, l, dst, isCA, -1)
	c.flow(&c.now, l, dst, isCA, 1)
	for _, u := range c.region {
		a, had := c.old.dep(c, u, l, dst, isCA)
		b, has := c.now.dep(c, u, l, dst, isCA)
		if had && has && a.d == b.d {
			if b.ca -= a.ca; b.ca != 0 {
				c.ops = append(c.ops, op{b.d, b.ca, 0})
			}
			continue
		}
		if had {
			c.ops = append(c.ops, op{a.d, -a.ca, -a.sw})
		}
		if has {
			c.ops = append(c.ops, b)
		}
	}
	return true
}

func (s *side) room() {
	n := s.j.n
	s.ch, s.dist, s.ok = make([]int32, n), make([]int32, n), make([]bool, n)
	s.cas, s.caby = make([]int64, n), make([]int32, n)
}

// channelTo is where switch u sends l, whether in the region or not.
func (c *updater) channelTo(s *side, u int32, l int, dst int32) int32 {
	switch {
	case u == dst:
		return -1
	case c.stamp[u] == c.round:
		return s.ch[u]
	}
	return s.j.channel(u, l)
}

// resolve finds how far packets of the region's switches go; false if they
// loop.
func (c *updater) resolve(s *side, l int, dst int32, port uint8) bool {
	const notYet, open = -1, -2
	j := s.j
	for _, u := range c.region {
		s.dist[u] = notYet
	}
	for _, u := range c.region {
		if s.dist[u] != notYet {
			continue
		}
		way := c.sorted[:0]
		v := u
		d, ok := int32(-1), false
		for {
			if c.stamp[v] != c.round {
				d, ok = c.outside(s, v, l, dst, port)
				if d < 0 {
					return false
				}
				break
			}
			if s.dist[v] == open {
				return false
			}
			if s.dist[v] != notYet {
				d, ok = s.dist[v], s.ok[v]
				break
			}
			s.dist[v] = open
			way = append(way, v)
			k := s.ch[v]
			if k < 0 {
				break
			}
			v = j.to[k]
		}
		for i := len(way) - 1; i >= 0; i-- {
			d++
			s.dist[way[i]], s.ok[way[i]] = d, ok
		}
		c.sorted = way
	}
	return true
}

// outside follows entries that are the same on both sides; -1: they form a loop.
func (c *updater) outside(s *side, v int32, l int, dst int32, port uint8) (dist int32, ok bool) {
	for dist = range int32(s.j.n + 1) {
		if v == dst {
			return dist, s.j.effective(dst, l) == port
		}
		k := s.j.channel(v, l)
		if k < 0 {
			return dist, false
		}
		v = s.j.to[k]
	}
	return -1, false
}

// flow counts the packets that pass each of the region's switches, there and on
// the rest of the path.
func (c *updater) flow(s *side, l int, dst int32, isCA bool, sign int32) {
	j := s.j
	for _, u := range c.region {
		s.cas[u], s.caby[u] = int64(j.casAt[u]), min(j.casAt[u], 1)
	}
	c.sorted = append(c.sorted[:0], c.region...)
	if len(c.sorted) > 1 {
		slices.SortFunc(c.sorted, func(a, b int32) int { return cmp.Compare(s.dist[b], s.dist[a]) })
	}
	for _, u := range c.sorted {
		if isCA && s.ok[u] {
			s.hist[s.dist[u]] += int64(j.casAt[u])
		}
		k := s.ch[u]
		if k < 0 {
			continue
		}
		f := s.cas[u]
		if !isCA || !s.ok[u] {
			f = 0
		}
		s.load[k] += s.sign * f
		v := j.to[k]
		if c.stamp[v] == c.round {
			s.cas[v] += s.cas[u]
			s.caby[v] += s.caby[u]
			continue
		}
		by := sign * s.caby[u]
		if isCA {
			by = 0
		}
		c.onward(s, v, l, dst, f, by)
	}
}

// onward counts packets on their path from switch v outside the region: f paths
// on the channels, from more switches with CAs for the dependencies.
func (c *updater) onward(s *side, v int32, l int, dst int32, f int64, by int32) {
	j := s.j
	if f == 0 && by == 0 || v == dst {
		return
	}
	k := j.channel(v, l)
	for k >= 0 {
		s.load[k] += s.sign * f
		v = j.to[k]
		if v == dst {
			return
		}
		next := j.channel(v, l)
		if by != 0 && next >= 0 {
			c.ops = append(c.ops, op{d: j.dep(k, next, 0, 0), ca: by})
		}
		k = next
	}
}

// dep is the dependency that packets leaving switch u of the region make.
func (s *side) dep(c *updater, u int32, l int, dst int32, isCA bool) (op, bool) {
	k := s.ch[u]
	if k < 0 {
		return op{}, false
	}
	next := c.channelTo(s, s.j.to[k], l, dst)
	if next < 0 {
		return op{}, false
	}
	x := op{d: s.j.dep(k, next, 0, 0), ca: 1}
	if !isCA {
		x.ca, x.sw = s.caby[u], 1
	}
	return x, true
}

// reweigh counts the packets to l of CAs that were added or removed outside the
// region.
func (c *updater) reweigh(l int) {
	s := &c.now
	dst, port, isCA := s.j.destination(l)
	if dst < 0 {
		return
	}
	for _, u := range c.weights {
		if c.stamp[u] == c.round {
			continue
		}
		more := int64(s.j.casAt[u]) - int64(c.old.j.casAt[u])
		by := min(s.j.casAt[u], 1) - min(c.old.j.casAt[u], 1)
		if isCA {
			by = 0
			dist, ok := c.outside(s, u, l, dst, port)
			if !ok {
				continue
			}
			s.hist[dist] += more
		} else {
			more = 0
		}
		c.onward(s, u, l, dst, more, by)
	}
}
