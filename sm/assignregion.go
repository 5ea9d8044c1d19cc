package sm

import (
	"cmp"
	"slices"

	"heddle/fabric"
	"heddle/store"
)

// assignRegion gives LIDs to the end ports that a sweep of a region found:
// those that they had before, if nobody else has them, else it does what a
// full sweep does. It reports false if everything must be read.
func (c *Core) assignRegion() (ops []store.Op, ok bool) {
	if !c.reg.born {
		return nil, true
	}
	f, g := c.f, c.f.graph
	type given struct {
		p *port
		r lidRange
	}
	var list []given
	for _, n := range c.reg.nodes {
		nd := &f.nodes[n]
		if !nd.ok() {
			continue
		}
		if nd.isSwitch() && int(nd.sw.LinearFDBCap) < c.limit {
			c.giveUp("a switch with a smaller table came")
			return nil, false
		}
		ports := f.nodePorts(n)
		for i := range ports {
			p := &ports[i]
			if !p.has(pEnd) || p.lid != 0 || !nd.isSwitch() && n != f.self.Node && !p.has(pLinked) {
				continue
			}
			lmc := c.cfg.LMC
			if nd.isSwitch() {
				if lmc = 0; nd.sw.EnhancedPort0 {
					lmc = c.cfg.LMCPort0
				}
			}
			r, had := c.lids[p.guid]
			if !had {
				r, had = c.stored[p.guid]
			}
			if !had || r.lid == 0 || int(r.lid)&(1<<lmc-1) != 0 || int(r.lid)+1<<lmc > c.limit {
				return c.assignAnew()
			}
			r.lmc = lmc
			for l := int(r.lid); l < int(r.lid)+1<<lmc; l++ {
				if l < len(g.LIDOwner) && g.LIDOwner[l] != fabric.NoLID && f.ports[f.epPort[g.LIDOwner[l]]].lid != 0 {
					return c.assignAnew()
				}
			}
			for _, x := range list {
				if x.p.guid == p.guid || int(x.r.lid) < int(r.lid)+1<<lmc && int(r.lid) < int(x.r.lid)+1<<x.r.lmc {
					return c.assignAnew()
				}
			}
			list = append(list, given{p, r})
		}
	}
	for _, x := range list {
		x.p.lid, x.p.lmc = x.r.lid, x.r.lmc
		c.reg.added = append(c.reg.added, int32(f.nodes[x.p.node].first)+int32(x.p.num))
		c.lids[x.p.guid] = x.r
		if c.stored[x.p.guid] != x.r {
			c.stored[x.p.guid] = x.r
			ops = append(ops, store.Op{Kind: store.PutLID, GUID: x.p.guid, LID: x.r.lid, LMC: x.r.lmc})
		}
	}
	return ops, true
}

// assignAnew gives out the LIDs of the whole fabric, as a full sweep does. All
// that have one keep it.
func (c *Core) assignAnew() ([]store.Op, bool) {
	f := c.f
	if len(f.problems) > 0 {
		c.giveUp("LIDs are needed, and something was wrong before")
		return nil, false
	}
	for i := range f.ports {
		f.ports[i].lid, f.ports[i].lmc = 0, 0
	}
	out := c.countOut()
	ops := c.assignLIDs()
	if len(f.problems) > 0 || c.countOut() != out {
		c.unsaved = append(c.unsaved, ops...)
		c.giveUp("not every port could be given a LID")
		return nil, false
	}
	c.reg.anew = true
	return ops, true
}

// graphRegion brings the graph up to date with what a sweep of a region found.
// If nothing of it changed the graph stays the same.
func (c *Core) graphRegion() {
	f, r := c.f, &c.reg
	g := f.graph
	if r.born || r.died || r.anew || c.regrant || c.hostsMoved() {
		c.changed = true
		if r.anew {
			c.listGraph()
		} else {
			c.patchLists()
		}
		c.buildGraph()
		return
	}
	// The channels of the switches of the region, by switch.
	type part struct {
		s    int32
		list []fabric.Channel
	}
	var parts []part
	grown := 0
	for _, n := range r.nodes {
		s := f.nodes[n].gsw
		if s < 0 {
			continue
		}
		list := c.channels(s, nil)
		old := g.Channels[g.Off[s]:g.Off[s+1]]
		if slices.EqualFunc(list, old, func(a, b fabric.Channel) bool { b.Rev = a.Rev; return a == b }) {
			continue
		}
		parts = append(parts, part{s, list})
		grown += len(list) - len(old)
	}
	if len(parts) == 0 {
		return
	}
	slices.SortFunc(parts, func(a, b part) int { return cmp.Compare(a.s, b.s) })
	h := *g
	h.Channels = make([]fabric.Channel, 0, len(g.Channels)+grown)
	h.Off = make([]int32, len(g.Off))
	h.PortChannel = make([][]int32, len(g.PortChannel))
	slots := 0
	for s := range g.Switches {
		slots += int(g.Switches[s].NumPorts) + 1
	}
	slab := make([]int32, slots)
	for s := range g.Switches {
		h.Off[s] = int32(len(h.Channels))
		if len(parts) > 0 && parts[0].s == int32(s) {
			h.Channels = append(h.Channels, parts[0].list...)
			parts = parts[1:]
		} else {
			h.Channels = append(h.Channels, g.Channels[g.Off[s]:g.Off[s+1]]...)
		}
		np := int(g.Switches[s].NumPorts) + 1
		h.PortChannel[s], slab = slab[:np:np], slab[np:]
	}
	h.Off[len(g.Switches)] = int32(len(h.Channels))
	linkChannels(&h)
	f.graph = &h
	c.changed = true
}

// hostsMoved reports whether an end port of the region hangs on another port
// than the graph says.
func (c *Core) hostsMoved() bool {
	f, g := c.f, c.f.graph
	for _, n := range c.reg.nodes {
		if f.nodes[n].isSwitch() {
			continue
		}
		ports := f.nodePorts(n)
		for i := range ports {
			p := &ports[i]
			if p.lid == 0 {
				continue
			}
			at, num := int32(-1), uint8(0)
			if p.has(pLinked) {
				at, num = f.nodes[p.peer.Node].gsw, p.peer.Port
			}
			if int(p.lid) >= len(g.LIDOwner) || g.LIDOwner[p.lid] == fabric.NoLID {
				return true // another one floats there
			}
			if e := &g.EndPorts[g.LIDOwner[p.lid]]; e.GUID != p.guid || e.LID != p.lid || e.Switch != at || at >= 0 && e.Port != num {
				return true
			}
		}
	}
	return false
}

// patchLists brings the lists of switches and end ports up to date with the
// region, without looking at the rest. They stay sorted.
func (c *Core) patchLists() {
	f := c.f
	// A node that is new since a sweep that was broken off is in the list, and stays there if
	// this region does not touch it.
	const fresh = nNew | nTouched
	f.swNode = slices.DeleteFunc(f.swNode, func(ni int32) bool { return !f.nodes[ni].ok() || f.nodes[ni].flags&fresh == fresh })
	for _, ni := range c.reg.nodes {
		if n := &f.nodes[ni]; n.isSwitch() && n.ok() && n.flags&nNew != 0 && f.portOf(ni, 0).lid != 0 {
			f.swNode = insertSorted(f.swNode, ni, c.bySwitch)
		}
	}
	f.epPort = slices.DeleteFunc(f.epPort, func(pi int32) bool { return f.ports[pi].lid == 0 })
	for _, pi := range c.reg.added {
		f.epPort = insertSorted(f.epPort, pi, c.byEndPort)
	}
}

// insertSorted inserts x into a sorted list, if it is not there.
func insertSorted(list []int32, x int32, compare func(a, b int32) int) []int32 {
	i, found := slices.BinarySearchFunc(list, x, compare)
	if found {
		return list
	}
	return slices.Insert(list, i, x)
}
