package engine

import (
	"heddle/ib"
	"heddle/route"
)

const (
	// oneMover is the number of decisions up to which one part makes them all.
	oneMover = 8192
	// moverParts is into how many parts more are cut; fixed, so that the
	// result does not depend on the number of workers.
	moverParts = 8
)

// move makes the decisions and returns which rows were written; false if the
// old tables turn out not to be trees.
func (c *updateState) move(r []Repairer) ([]bool, bool) {
	n := len(c.G.Switches)
	total := 0
	for d := range c.todo {
		total += c.weight(d)
	}
	parts := 1
	if total > oneMover {
		parts = moverParts
	}
	cut := make([]int, parts+1)
	cut[parts] = n
	sum, k := 0, 1
	for d := 0; d < n && k < parts; d++ {
		if sum >= total*k/parts {
			cut[k] = d
			k++
		}
		sum += c.weight(d)
	}
	for ; k < parts; k++ {
		cut[k] = n
	}
	lost := c.lostInto()
	movers := make([]*mover, parts)
	route.ForEach(len(r), parts, func(w, k int) {
		m := &mover{
			updateState: c, r: r[w], scale: int64(parts), delta: make([]int64, len(c.G.Channels)),
			moved: make([]uint32, n+len(c.gone)), wrote: make([]bool, n), lost: lost, ok: true,
		}
		movers[k] = m
		for d := cut[k]; d < cut[k+1]; d++ {
			m.destination(int32(d))
		}
	})
	wrote, ok := make([]bool, n), true
	for _, m := range movers {
		ok = ok && m.ok
		for ch, x := range m.delta {
			c.loads[ch] += x
		}
		for s, is := range m.wrote {
			wrote[s] = wrote[s] || is
		}
	}
	return wrote, ok
}

// weight is about how much there is to do for destination d.
func (c *updateState) weight(d int) int {
	n := 0
	for _, j := range c.todo[d].jobs {
		n += int(j.hi - j.lo)
	}
	return n + len(c.lids(int32(d)))*len(c.grown)
}

// lostInto lists the removed channels by destination switch.
func (c *updateState) lostInto() map[int32][]int32 {
	into := map[int32][]int32{}
	for _, oc := range c.Lost {
		to := c.goneIs[c.Old.Channels[oc].To]
		into[to] = append(into[to], oc)
	}
	return into
}

// mover makes the decisions for some destinations, one LID after another. The
// entries for the LID form a tree at every moment: a switch that has not moved
// yet keeps its entry's meaning in the old graph, including removed channels
// and switches.
type mover struct {
	*updateState
	r     Repairer
	scale int64   // as many parts decide alike at the same time
	delta []int64 // by channel: load that this part added
	moved []uint32
	stamp uint32 // of the LID at hand, in moved
	wrote []bool
	lost  map[int32][]int32
	stack []int32
	cand  []int32
	round [256]int64
	ok    bool
}

func (m *mover) destination(d int32) {
	if len(m.grown) > 0 {
		m.grow(m.lids(d))
		for i, e := range m.sp.first {
			if m.G.EndPorts[e].Switch == d {
				m.grow(m.sp.ahead[i])
			}
		}
	}
	col := &m.todo[d]
	for _, j := range col.jobs {
		m.stamp++
		e := m.G.LIDOwner[j.lid]
		m.set(d, j.lid, m.G.EndPorts[e].Port)
		m.moved[d] = m.stamp
		loaded := !m.sp.unloaded[e]
		for _, s := range col.switches[j.lo:j.hi] {
			m.decide(d, s, j.lid, e, loaded, j.fresh)
		}
	}
	m.todo[d] = columns{}
}

// grow accounts for switches with more or fewer loading ports than before, as
// if they had been there before.
func (m *mover) grow(lids []ib.LID) {
	n := int32(len(m.G.Switches))
	for _, l := range lids {
		if m.state[l] == fresh || m.sp.unloaded[m.G.LIDOwner[l]] {
			continue
		}
		m.stamp++
		for _, s := range m.grown {
			if s < n {
				m.walk(s, l, int64(m.sp.hosts[s])-int64(m.was[m.Switch[s]]))
			} else {
				m.walk(s, l, -int64(m.was[m.gone[s-n]]))
			}
		}
	}
}

func (m *mover) set(s int32, l ib.LID, p byte) {
	if row := m.rows[s]; row[l] != p {
		row[l], m.wrote[s] = p, true
	}
}

// decide gives switch s its entry for lid.
func (m *mover) decide(d, s int32, l ib.LID, e int32, loaded, fresh bool) {
	g := m.G
	c := int32(-1)
	if p := m.rows[s][l]; int(p) < len(g.PortChannel[s]) {
		if h := g.PortChannel[s][p]; h >= 0 && m.r.May(d, h) {
			c = h
		}
	}
	if c < 0 {
		m.cand = m.cand[:0]
		for h := g.Off[s]; h < g.Off[s+1]; h++ {
			if m.r.May(d, h) {
				m.cand = append(m.cand, h)
			}
		}
		if len(m.cand) > 0 {
			c = m.choose(s, l, e, loaded)
		}
	}
	p := byte(route.Drop)
	if c >= 0 {
		p = g.Channels[c].OutPort
	}
	if !loaded {
		m.set(s, l, p)
		return
	}
	flow := int64(m.sp.hosts[s])
	if !fresh {
		if flow = m.flow(s, l); flow > 0 {
			m.walk(s, l, -flow)
		}
	}
	m.set(s, l, p)
	m.moved[s] = m.stamp
	if flow > 0 {
		m.walk(s, l, flow)
	}
}

// choose picks one of m.cand: of those that the port's other LIDs use least,
// the least loaded. Options.PortOrder breaks ties, otherwise they alternate.
func (m *mover) choose(s int32, l ib.LID, e int32, loaded bool) int32 {
	k := len(m.cand)
	if k == 1 {
		return m.cand[0]
	}
	if !loaded {
		return m.cand[int(l)%k]
	}
	round := m.round[:k]
	clear(round)
	m.siblings(s, l, e, round)
	at := int(l) % k
	if m.sp.ordered != nil && m.sp.ordered[s] {
		at = 0
	}
	best := -1
	var least int64
	for i := range k {
		j := i + at
		if j >= k {
			j -= k
		}
		c := m.cand[j]
		x := round[j] + m.loads[c] + m.scale*m.delta[c]
		if best < 0 || x < least || (x == least && at == 0 && m.sp.place != nil && m.sp.place[c] < m.sp.place[m.cand[best]]) {
			best, least = j, x
		}
	}
	return m.cand[best]
}

// siblings marks the choices that other LIDs of port e use at switch s, as
// worker.used does.
func (m *mover) siblings(s int32, l ib.LID, e int32, round []int64) {
	const link, peer = 1 << 48, 1 << 56
	g := m.G
	look := func(at int) bool {
		if at <= 0 || at >= len(g.LIDOwner) || g.LIDOwner[at] != e {
			return false
		}
		p := m.rows[s][at]
		if int(p) >= len(g.PortChannel[s]) || g.PortChannel[s][p] < 0 {
			return true
		}
		used := g.PortChannel[s][p]
		for j, c := range m.cand {
			if c == used {
				round[j] += link
			}
			if m.sp.parallel[s] && g.Channels[c].To == g.Channels[used].To {
				round[j] += peer
			}
		}
		return true
	}
	for at := int(l) - 1; look(at); at-- {
	}
	for at := int(l) + 1; look(at); at++ {
	}
}

// entry is the entry of a switch, removed ones included, for l.
func (m *mover) entry(s int32, l ib.LID) byte {
	if n := int32(len(m.G.Switches)); s >= n {
		return m.from.LFT[m.gone[s-n]][l]
	}
	return m.rows[s][l]
}

// next is the next switch of the entry of switch s for l, and the channel of
// the new graph (-1 if removed); -1 if it leads to no switch.
func (m *mover) next(s int32, l ib.LID) (to, c int32) {
	n := int32(len(m.G.Switches))
	p := m.entry(s, l)
	var o int32
	if s < n {
		if int(p) < len(m.G.PortChannel[s]) {
			c = m.G.PortChannel[s][p]
			if c >= 0 && (m.Channel[c] >= 0 || m.moved[s] == m.stamp) {
				return m.G.Channels[c].To, c
			}
		}
		o = m.Switch[s]
		if o < 0 || m.moved[s] == m.stamp {
			return -1, -1
		}
	} else {
		o = m.gone[s-n]
	}
	old := m.Old
	if int(p) >= len(old.PortChannel[o]) || old.PortChannel[o][p] < 0 {
		return -1, -1
	}
	return m.goneIs[old.Channels[old.PortChannel[o][p]].To], -1
}

// walk adds flow to the channels that packets to l take from switch s on.
func (m *mover) walk(s int32, l ib.LID, flow int64) {
	for range len(m.moved) + 1 {
		to, c := m.next(s, l)
		if to < 0 {
			return
		}
		if c >= 0 {
			m.delta[c] += flow
		}
		s = to
	}
	m.ok = false
}

// flow counts the loading ports whose packets to l pass switch s.
func (m *mover) flow(s int32, l ib.LID) int64 {
	g := m.G
	n := int32(len(g.Switches))
	var sum int64
	m.stack = append(m.stack[:0], s)
	for steps := 0; len(m.stack) > 0; steps++ {
		if steps > len(m.moved) {
			m.ok = false
			return 0
		}
		x := m.stack[len(m.stack)-1]
		m.stack = m.stack[:len(m.stack)-1]
		if x < n {
			sum += int64(m.sp.hosts[x])
			for i := g.Off[x]; i < g.Off[x+1]; i++ {
				h := &g.Channels[i]
				if m.rows[h.To][l] == h.InPort && (m.Channel[h.Rev] >= 0 || m.moved[h.To] == m.stamp) {
					m.stack = append(m.stack, h.To)
				}
			}
		}
		if len(m.lost) == 0 {
			continue
		}
		for _, oc := range m.lost[x] {
			h := &m.Old.Channels[oc]
			u := m.goneIs[h.From]
			if m.moved[u] != m.stamp && m.entry(u, l) == h.OutPort {
				m.stack = append(m.stack, u)
			}
		}
	}
	return sum
}
