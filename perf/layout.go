package perf

import (
	"slices"

	"heddle/ib"
	"heddle/subnet"
)

// What a snapshot says of polling a port.
const (
	neverRead uint8 = iota
	alwaysRead
	seldomRead // it has no link
)

// sortPorts notes what the snapshot says of polling each port, once for a snapshot: to go through all
// ports of a snapshot takes some milliseconds.
func (c *Core) sortPorts() {
	if c.kindsOf == c.snap {
		return
	}
	n := c.now.len()
	c.kinds = slices.Grow(c.kinds[:0], n)[:n]
	for i := range c.kinds {
		c.kinds[i] = c.kind(int32(i))
	}
	c.kindsOf = c.snap
}

// kind is what the snapshot says of polling port i.
func (c *Core) kind(i int32) uint8 {
	if c.kindsOf == c.snap {
		return c.kinds[i]
	}
	p := c.snap.Ports[i]
	n := &c.snap.Nodes[p.Node]
	read := true
	switch {
	case !n.OK || n.Unseen || !p.Known:
		read = false
	case n.SwitchIndex < 0:
		read = c.cfg.Hosts && p.LID != 0
	case p.Num == 0:
		read = n.Switch.EnhancedPort0
	case p.Info.PortPhysicalState != ib.PhysLinkUp:
		return seldomRead
	}
	if read {
		return alwaysRead
	}
	return neverRead
}

// onSnapshot takes a new snapshot over. What is known of ports stays with them.
func (c *Core) onSnapshot(s *subnet.Snapshot) {
	if !usable(s) {
		if c.snap != nil {
			c.engine.CancelAll()
			for _, a := range c.order {
				a.busy, a.todo = false, 0
			}
			c.snap = nil
		}
		return
	}
	same := c.sameLayout(s)
	if c.snap != nil && s.Tables != c.snap.Tables {
		c.giveChance()
	}
	began := c.snap == nil
	c.snap = s
	c.self = s.PortIndex(s.Self)
	if !same {
		c.relayout(s)
	}
	if began && c.number > 0 {
		c.startRound()
	} else if !same && c.number > 0 {
		c.recount()
	}
}

// fewBad is how many bad rounds in a row an agent may have had to be asked again when routes change:
// it may have been silent because there was none.
const fewBad = 3

// giveChance has agents asked in the next round that have not been silent for long.
func (c *Core) giveChance() {
	if c.silent == 0 { // with every move of a LID
		return
	}
	for _, a := range c.order {
		if a.bad > 0 && a.bad <= fewBad {
			a.until = 0
		}
	}
}

// sameLayout reports whether the ports of s have the indices that the columns have.
func (c *Core) sameLayout(s *subnet.Snapshot) bool {
	if len(s.Nodes) != len(c.layout) || c.now.len() != int(s.FirstVPort()) {
		return false
	}
	if c.snap != nil && subnet.SameNodes(c.snap, s) {
		return true
	}
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if n.Info.NodeGUID != c.layout[i] || n.First != c.firsts[i] {
			return false
		}
	}
	return true
}

// relayout moves all columns to the indices of s, and finds the agents.
func (c *Core) relayout(s *subnet.Snapshot) {
	n := int(s.FirstVPort())
	was := make([]int32, n)
	for i := range was {
		was[i] = -1
	}
	k := 0 // nodes are in ascending order in both
	for i := range s.Nodes {
		node := &s.Nodes[i]
		for k < len(c.layout) && c.layout[k] < node.Info.NodeGUID {
			k++
		}
		if k == len(c.layout) || c.layout[k] != node.Info.NodeGUID {
			continue
		}
		had := c.now.len()
		if k+1 < len(c.firsts) {
			had = int(c.firsts[k+1])
		}
		for j := range len(s.NodePorts(int32(i))) {
			if old := int(c.firsts[k]) + j; old < had {
				was[int(node.First)+j] = int32(old)
			}
		}
	}
	round := max(c.number, 1) // before the first round, the blocks are for that
	c.now, c.before = c.now.moved(was, round), c.before.moved(was, round)
	c.tick = moved(c.tick, was)
	c.history = c.history.moved(was)
	c.points = moved(c.points, was)
	var cleared []int32
	for i, f := range c.now.flags {
		if f.Has(Cleared) {
			cleared = append(cleared, int32(i))
		}
	}
	c.cleared = cleared
	c.layout, c.firsts = make([]ib.GUID, len(s.Nodes)), make([]int32, len(s.Nodes))
	for i := range s.Nodes {
		c.layout[i], c.firsts[i] = s.Nodes[i].Info.NodeGUID, s.Nodes[i].First
	}
	c.findAgents(s)
}

func moved[T any](old []T, was []int32) []T {
	x := make([]T, len(was))
	for i, k := range was {
		if k >= 0 && int(k) < len(old) {
			x[i] = old[k]
		}
	}
	return x
}

// findAgents lists the agents of s in the order of their ports. One that was known stays what it
// was; requests of the others are forgotten.
func (c *Core) findAgents(s *subnet.Snapshot) {
	seen := make(map[ib.GUID]*agent, len(c.order))
	c.order = c.order[:0]
	add := func(main, first, last int32) {
		g := s.Ports[main].GUID
		a := c.byPort[g]
		if a == nil {
			a = &agent{guid: g, id: int32(len(c.agents))}
			c.agents = append(c.agents, a)
		}
		a.node, a.main, a.first, a.last = s.Ports[main].Node, main, first, last
		seen[g] = a
		c.order = append(c.order, a)
	}
	for i := range s.Nodes {
		n := &s.Nodes[i]
		end := n.First + int32(len(s.NodePorts(int32(i)))) - 1
		if n.SwitchIndex >= 0 {
			add(n.First, n.First, end)
			continue
		}
		for p := n.First; p <= end; p++ {
			if s.Ports[p].GUID != 0 && s.Ports[p].LID != 0 {
				add(p, p, p)
			}
		}
	}
	c.engine.CancelAll()
	c.silent = 0
	for id, a := range c.agents {
		if a == nil {
			continue
		}
		a.busy, a.todo = false, 0
		if seen[a.guid] != a {
			c.agents[id] = nil
		} else if a.told {
			c.silent++
		}
	}
	c.byPort = seen
	c.compact()
}

// compact numbers the agents anew if most numbers are free. No request is in flight.
func (c *Core) compact() {
	if len(c.agents) <= 2*len(c.order)+16 {
		return
	}
	c.agents = append([]*agent(nil), c.order...)
	for id, a := range c.agents {
		a.id = int32(id)
	}
}

// recount goes on with a round whose ports changed. As many as were due are passed over: most of them
// were read, and those whose requests were under way come in the next round. So a subnet that
// changes all the time does not keep the last ports from being read.
func (c *Core) recount() {
	c.countPorts()
	for c.released < c.due() {
		a := c.advance()
		if a == nil {
			return
		}
		a.next = a.released
		c.released++
	}
}
