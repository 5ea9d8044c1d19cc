package sm

import (
	"cmp"
	"slices"

	"heddle/fabric"
	"heddle/sm/topo"
)

// graphRegion brings the graph up to date with what a sweep of a region found.
// If nothing of it changed the graph stays the same.
func (c *Core) graphRegion() {
	f, r := c.Fabric, &c.reg
	g := f.Graph
	if r.born || r.died || r.anew || c.routing.regrant || c.hostsMoved() {
		c.routing.changed = true
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
		s := f.Nodes[n].GraphSwitch
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
	f.Graph = &h
	c.routing.changed = true
}

// hostsMoved reports whether an end port of the region hangs on another port
// than the graph says.
func (c *Core) hostsMoved() bool {
	f, g := c.Fabric, c.Fabric.Graph
	for _, n := range c.reg.nodes {
		if f.Nodes[n].IsSwitch() {
			continue
		}
		ports := f.NodePorts(n)
		for i := range ports {
			p := &ports[i]
			if p.LID == 0 {
				continue
			}
			at, num := int32(-1), uint8(0)
			if p.Has(topo.PortLinked) {
				at, num = f.Nodes[p.Peer.Node].GraphSwitch, p.Peer.Port
			}
			if int(p.LID) >= len(g.LIDOwner) || g.LIDOwner[p.LID] == fabric.NoLID {
				return true // another one floats there
			}
			if e := &g.EndPorts[g.LIDOwner[p.LID]]; e.GUID != p.GUID || e.LID != p.LID || e.Switch != at || at >= 0 && e.Port != num {
				return true
			}
		}
	}
	return false
}

// patchLists brings the lists of switches and end ports up to date with the
// region, without looking at the rest. They stay sorted.
func (c *Core) patchLists() {
	f := c.Fabric
	// A node that is new since a sweep that was broken off is in the list, and stays there if
	// this region does not touch it.
	const fresh = topo.NodeNew | topo.NodeTouched
	f.SwitchNode = slices.DeleteFunc(f.SwitchNode, func(ni int32) bool { return !f.Nodes[ni].OK() || f.Nodes[ni].Flags&fresh == fresh })
	for _, ni := range c.reg.nodes {
		if n := &f.Nodes[ni]; n.IsSwitch() && n.OK() && n.Flags&topo.NodeNew != 0 && f.PortOf(ni, 0).LID != 0 {
			f.SwitchNode = insertSorted(f.SwitchNode, ni, c.bySwitch)
		}
	}
	f.EndPort = slices.DeleteFunc(f.EndPort, func(pi int32) bool { return f.Ports[pi].LID == 0 })
	for _, pi := range c.reg.added {
		f.EndPort = insertSorted(f.EndPort, pi, c.byEndPort)
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
