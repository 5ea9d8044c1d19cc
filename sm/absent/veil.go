package absent

import (
	"slices"

	"heddle/ib"
	"heddle/sm/topo"
	"heddle/sm/vport"
	"heddle/subnet"
)

// A new master knows nothing of a node that does not answer. What the hosts behind that node
// registered is still theirs. So until everything that is up has answered there is a veil over the
// subnet, and any node that was not found may be behind it. Where M_Keys are in use the store has
// the links of switches, which narrows this down:
//
//   - Stored ports behind a silent one, over any number of links, that were not found elsewhere
//     are unsure.
//   - Other stored ports that were not found are gone: discovery has seen their old places.
//
// The store has no places of virtual ports, so a virtual port may be behind the veil in any case.
// The veil also covers the virtual ports of each adapter that has not been asked for all of them.
//
// A link that came up anew (Init) hides no node: the node that was behind it has left.

// Veil begins a mastership in which nothing has been seen yet.
func (a *Nodes) Veil() { a.veiled = true }

// Veiled reports whether nodes may exist that have not been seen in this mastership.
func (a *Nodes) Veiled() bool { return a.veiled }

// ToShow reports whether the next snapshot is to be updated by Show.
func (a *Nodes) ToShow() bool { return a.veilNews }

// AdapterMet has the next snapshot updated by Show, because an adapter has named its virtual ports.
func (a *Nodes) AdapterMet() {
	if a.Snapshot != nil && (a.Snapshot.Veiled || len(a.Snapshot.Unsure) > 0) {
		a.veilNews = true
	}
}

// Show fills in what a snapshot says of ports that were not found.
func (a *Nodes) Show(s *subnet.Snapshot) {
	a.veilNews = false
	s.Veiled, s.Gone = false, nil
	s.Unsure = a.unsure()
	if !a.veiled {
		return
	}
	hidden, all, some := a.hidden()
	s.Veiled = some || slices.ContainsFunc(a.needs.VPorts.All(), (*vport.Adapter).ToBeMet)
	if !s.Veiled {
		a.veiled = false // a node that falls silent from now on has been seen
		return
	}
	s.Unsure = append(s.Unsure, hidden...)
	slices.Sort(s.Unsure)
	s.Unsure = slices.Compact(s.Unsure)
	if all {
		return
	}
	found := a.foundPorts()
	for _, g := range a.needs.Keys.Neighbors() {
		if !found[g] && !s.IsUnsure(g) {
			s.Gone = append(s.Gone, g)
		}
	}
	slices.Sort(s.Gone)
	s.Gone = slices.Compact(s.Gone)
}

// foundPorts are the GUIDs of the ports that the discovery found.
func (a *Nodes) foundPorts() map[ib.GUID]bool {
	f := a.Fabric
	found := make(map[ib.GUID]bool, len(f.Nodes))
	for i := range f.Ports {
		if p := &f.Ports[i]; f.Nodes[p.Node].Flags&topo.NodeGone == 0 && p.Has(topo.PortEnd) {
			found[p.GUID] = true
		}
	}
	return found
}

// hidden lists the stored ports behind ports where no node answers, or none that can be read. some
// reports whether there are such ports, and all whether any port may be behind them.
func (a *Nodes) hidden() (list []ib.GUID, all, some bool) {
	f := a.Fabric
	found := a.foundPorts()
	in := map[ib.GUID]bool{}
	add := func(g ib.GUID) {
		_, given := a.needs.LIDs.Assigned(g) // seen in this mastership
		if _, there := f.Find(g); !there && !found[g] && !in[g] && !given {
			in[g] = true
			list = append(list, g)
		}
	}
	for i := range f.Ports {
		p := &f.Ports[i]
		n := &f.Nodes[p.Node]
		if n.Flags&topo.NodeGone != 0 || !a.silentAt(p) {
			continue
		}
		some = true
		if g := a.needs.Keys.Neighbors()[topo.PortID{Node: n.Info.NodeGUID, Port: p.Num}]; g != 0 {
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
	for at, g := range a.needs.Keys.Neighbors() {
		ahead[at.Node] = append(ahead[at.Node], g)
		ahead[g] = append(ahead[g], at.Node)
		named[g] = true
	}
	for at := range a.needs.Keys.Neighbors() {
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

// silentAt reports whether an unknown node is behind a port whose link carries data.
func (a *Nodes) silentAt(p *topo.Port) bool {
	f := a.Fabric
	n := &f.Nodes[p.Node]
	if p.Has(topo.PortLoop) || !n.IsSwitch() && (ref{Node: p.Node, Port: p.Num}) != f.Self || n.IsSwitch() && p.Num == 0 {
		return false
	}
	switch {
	case !p.Has(topo.PortKnown):
		return true // it is unknown whether its link is up
	case p.Info.PortState < ib.StateArmed:
		return false
	case p.Peer.Node < 0:
		return !p.Has(topo.PortHeld)
	}
	o := &f.Nodes[p.Peer.Node]
	return o.Flags&(topo.NodeOut|topo.NodeUnseen) == topo.NodeOut || !f.Port(p.Peer).Has(topo.PortKnown)
}

// unsure lists the end ports without a LID that are absent or excluded, or behind a switch that
// is, and the virtual ports that were behind them.
func (a *Nodes) unsure() (list []ib.GUID) {
	f := a.Fabric
	for i := range f.Ports {
		p := &f.Ports[i]
		if !p.Has(topo.PortEnd) || p.LID != 0 {
			continue
		}
		if f.Nodes[p.Node].Flags&(topo.NodeUnseen|topo.NodeOut) != 0 || p.Peer.Node >= 0 && f.Nodes[p.Peer.Node].Flags&(topo.NodeUnseen|topo.NodeOut) != 0 {
			list = append(list, p.GUID)
		}
	}
	slices.Sort(list)
	list = slices.Compact(list)
	list = append(list, a.needs.VPorts.Unsure(list)...)
	slices.Sort(list)
	return slices.Compact(list)
}
