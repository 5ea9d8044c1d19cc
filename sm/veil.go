package sm

import (
	"slices"

	"heddle/ib"
	"heddle/sm/topo"
	"heddle/sm/vport"
	"heddle/subnet"
)

// A new master knows nothing of a node that does not answer. What the hosts behind it
// registered is still theirs (unseen.go), so until all that is up has answered there is a
// veil over the subnet, and whoever was not found may be behind it. Where M_Keys are in use
// the store has the cables of switches, which says more:
//
//   - Ports that it has behind a silent one, over any number of cables, and that were not
//     found elsewhere, are unsure.
//   - Other ports that it has and that were not found are gone: where they were was seen.
//
// Virtual ports, which the store places nowhere, may be behind the veil in any case. It
// covers those of each adapter that was not asked for all of them yet, too.
//
// A link that came up anew (Init) hides nobody: who was behind it has left.

// veilMoved has the next snapshot say anew what is behind the veil.
func (c *Core) veilMoved() {
	if c.Snapshot != nil && (c.Snapshot.Veiled || len(c.Snapshot.Unsure) > 0) {
		c.absent.veilNews = true
	}
}

// showVeil fills in what a snapshot says of ports that were not found.
func (c *Core) showVeil(s *subnet.Snapshot) {
	c.absent.veilNews = false
	s.Veiled, s.Gone = false, nil
	s.Unsure = c.unsure()
	if !c.absent.veiled {
		return
	}
	hidden, all, some := c.hidden()
	s.Veiled = some || slices.ContainsFunc(c.vports.All(), (*vport.Adapter).ToBeMet)
	if !s.Veiled {
		c.absent.veiled = false // who falls silent from now on was seen
		return
	}
	s.Unsure = append(s.Unsure, hidden...)
	slices.Sort(s.Unsure)
	s.Unsure = slices.Compact(s.Unsure)
	if all {
		return
	}
	found := c.foundPorts()
	for _, g := range c.neighbors {
		if !found[g] && !s.IsUnsure(g) {
			s.Gone = append(s.Gone, g)
		}
	}
	slices.Sort(s.Gone)
	s.Gone = slices.Compact(s.Gone)
}

// foundPorts are the GUIDs of the ports that the discovery found.
func (c *Core) foundPorts() map[ib.GUID]bool {
	f := c.Fabric
	found := make(map[ib.GUID]bool, len(f.Nodes))
	for i := range f.Ports {
		if p := &f.Ports[i]; f.Nodes[p.Node].Flags&topo.NodeGone == 0 && p.Has(topo.PortEnd) {
			found[p.GUID] = true
		}
	}
	return found
}

// hidden lists the ports that the store has behind ports where nobody answers, or nobody
// who can be read. all: it may be any. some: there are such ports.
func (c *Core) hidden() (list []ib.GUID, all, some bool) {
	f := c.Fabric
	found := c.foundPorts()
	in := map[ib.GUID]bool{}
	add := func(g ib.GUID) {
		_, given := c.lids.Assigned(g) // it was seen in this mastership
		if _, there := f.Find(g); !there && !found[g] && !in[g] && !given {
			in[g] = true
			list = append(list, g)
		}
	}
	for i := range f.Ports {
		p := &f.Ports[i]
		n := &f.Nodes[p.Node]
		if n.Flags&topo.NodeGone != 0 || !c.silentAt(p) {
			continue
		}
		some = true
		if g := c.neighbors[topo.PortID{Node: n.Info.NodeGUID, Port: p.Num}]; g != 0 {
			add(g)
		} else {
			all = true
		}
	}
	if !some {
		return nil, false, false
	}
	ahead := map[ib.GUID][]ib.GUID{} // by node and by port GUID, which are one for most switches
	named := map[ib.GUID]bool{}
	for at, g := range c.neighbors {
		ahead[at.Node] = append(ahead[at.Node], g)
		ahead[g] = append(ahead[g], at.Node)
		named[g] = true
	}
	for at := range c.neighbors {
		if !named[at.Node] { // a switch whose port has another GUID: nothing leads to it here
			add(at.Node)
		}
	}
	for i := 0; i < len(list); i++ {
		for _, g := range ahead[list[i]] {
			add(g)
		}
	}
	return list, all, true
}

// silentAt reports whether somebody unknown is behind a port whose link carries data.
func (c *Core) silentAt(p *topo.Port) bool {
	f := c.Fabric
	n := &f.Nodes[p.Node]
	if p.Has(topo.PortLoop) || !n.IsSwitch() && (ref{Node: p.Node, Port: p.Num}) != f.Self || n.IsSwitch() && p.Num == 0 {
		return false
	}
	switch {
	case !p.Has(topo.PortKnown):
		return true // nobody knows whether it is up
	case p.Info.PortState < ib.StateArmed:
		return false
	case p.Peer.Node < 0:
		return !p.Has(topo.PortHeld)
	}
	o := &f.Nodes[p.Peer.Node]
	return o.Flags&(topo.NodeOut|topo.NodeUnseen) == topo.NodeOut || !f.Port(p.Peer).Has(topo.PortKnown)
}
