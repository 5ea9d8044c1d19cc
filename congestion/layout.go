package congestion

import (
	"fmt"

	"heddle/ib"
	"heddle/ib/cc"
	"heddle/mad"
	"heddle/subnet"
)

// usable reports whether nodes of a snapshot are to be asked.
func usable(s *subnet.Snapshot) bool {
	return s != nil && s.Up && s.State == subnet.Master && s.Tables != nil && s.Self != subnet.NoRef()
}

// onSnapshot takes a new snapshot over. What is known of agents stays. While the mode is Off it costs
// nothing.
func (c *Core) onSnapshot(s *subnet.Snapshot) {
	if c.newest = s; c.mode == Off || !usable(s) {
		c.leave()
		return
	}
	c.snap, c.self = s, s.PortIndex(s.Self)
	c.findAgents(s)
	hosts := 0
	for _, a := range c.order {
		if !a.sw && a.here {
			hosts++
		}
	}
	senders := c.cfg.Policy.Senders
	if senders == 0 {
		senders = atMost(hosts, c.senders)
	}
	if senders != c.senders {
		c.senders, c.changed = senders, true
		clear(c.shared)
		for _, a := range c.order {
			if a.sends {
				c.again(a, c.t)
			}
		}
	}
}

// leave ends all visits: this manager is not the master, or the subnet is not up.
func (c *Core) leave() {
	if c.snap == nil {
		return
	}
	c.stop()
	for _, a := range c.order {
		a.here = false
	}
	c.snap, c.changed = nil, true
}

// findAgents lists the agents of s in the order of their ports. One that comes, or comes back, is
// visited immediately, and so is one whose settings depend on a link that changed.
func (c *Core) findAgents(s *subnet.Snapshot) {
	seen := make(map[ib.GUID]*agent, len(c.order))
	was := c.order
	c.order = make([]*agent, 0, len(was))
	for i := range s.Nodes {
		n := &s.Nodes[i]
		ports := s.NodePorts(int32(i))
		switch {
		case n.SwitchIndex >= 0:
			c.found(s, ports[0], n.First, seen)
		case n.Info.NodeType == ib.NodeCA:
			for k, p := range ports {
				if p.GUID != 0 && p.LID != 0 {
					c.found(s, p, n.First+int32(k), seen)
				}
			}
		}
	}
	for _, a := range was {
		if seen[a.guid] == a {
			continue
		}
		if a.place >= 0 {
			c.due.Remove(a.place)
		}
		if a.stage != idle {
			c.active--
		}
		c.engine.Cancel(uint64(a.id)<<32, uint64(a.id)<<32|1<<32-1)
		c.agents[a.id], c.changed = nil, true
		c.spare = append(c.spare, a.id)
	}
	c.byPort = seen
}

// found takes over one agent of s.
func (c *Core) found(s *subnet.Snapshot, p *subnet.Port, i int32, seen map[ib.GUID]*agent) {
	if seen[p.GUID] != nil {
		return
	}
	n := &s.Nodes[p.Node]
	a := c.byPort[p.GUID]
	if a == nil {
		a = &agent{guid: p.GUID, id: c.free(), sw: n.SwitchIndex >= 0, place: -1, log: mad.Never}
		c.agents[a.id], c.changed = a, true
	}
	a.node, a.port = p.Node, i
	seen[p.GUID] = a
	c.order = append(c.order, a)
	links := linksOf(s, a)
	here := n.OK && !n.Unseen && p.LID != 0
	switch {
	case !here:
		if a.here = false; a.place >= 0 {
			c.due.Remove(a.place)
		}
	case !a.here:
		a.here, a.misses, a.visit = true, 0, c.t
		c.again(a, c.t)
	case links != a.links:
		c.again(a, c.t)
	}
	a.links = links
}

// free is an id that no agent has.
func (c *Core) free() int32 {
	if n := len(c.spare); n > 0 {
		id := c.spare[n-1]
		c.spare = c.spare[:n-1]
		return id
	}
	c.agents = append(c.agents, nil)
	return int32(len(c.agents) - 1)
}

// links are those that the settings of an agent depend on.
type links struct {
	hosts cc.PortMask // ports of a switch to hosts
	rate  ib.Rate     // of an adapter's link
	mtu   ib.MTU
}

func linksOf(s *subnet.Snapshot, a *agent) (l links) {
	if !a.sw {
		p := s.Ports[a.port]
		l.rate, l.mtu = p.Rate, p.MTU
		return l
	}
	for _, p := range s.NodePorts(a.node) {
		if p.Num != 0 && toHost(s, p) {
			l.hosts.Add(p.Num)
		}
	}
	return l
}

// name is an agent as notices have it.
func (c *Core) name(a *agent) string {
	p := c.snap.Ports[a.port]
	n := &c.snap.Nodes[p.Node]
	if a.sw {
		return fmt.Sprintf("switch %v %q, LID %v", n.Info.NodeGUID, n.Desc, p.LID)
	}
	return fmt.Sprintf("%v %q port %d, LID %v", n.Info.NodeGUID, n.Desc, p.Num, p.LID)
}

// lidName is the node with a LID.
func (c *Core) lidName(lid ib.LID) string {
	if i := c.snap.PortByLID(lid); i >= 0 {
		return fmt.Sprintf("%q (LID %v)", c.snap.Nodes[c.snap.Ports[i].Node].Desc, lid)
	}
	return fmt.Sprintf("LID %v", lid)
}
