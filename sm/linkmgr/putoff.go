package linkmgr

import (
	"maps"

	"heddle/mad"
	"heddle/sm/topo"
	"heddle/subnet"
)

// putOff are links that are to be without routes, and have them until a time: taking their routes away has to wait
// for packets to leave, and something else was asked for meanwhile (Core.giveWay).
type putOff struct {
	links map[topo.PortID]bool // by an end
	until mad.Time
}

// PutOff lets the links that entries still lead over have routes until a time.
func (m *Manager) PutOff(until mad.Time) {
	f, links := m.Fabric, map[topo.PortID]bool{}
	for _, at := range f.Drained {
		p := f.Port(at)
		if p.Has(topo.PortDrained) && p.Has(topo.PortLinked) && (m.used(at) || m.used(p.Peer)) {
			links[m.id(at)] = true
		}
	}
	m.actions.later.add(links, until)
}

// PutOffNew lets links that are to be drained or isolated from now on have their routes until a time. It reports false, and
// does nothing, if anything else differs from the actions there are.
func (m *Manager) PutOffNew(list []subnet.PortAction, until mad.Time) bool {
	links := map[topo.PortID]bool{}
	for i := range list {
		a := &list[i]
		if hasAction(m.actions.list, a) {
			continue
		}
		ends, ok := m.linked(a)
		if !ok || a.Kind == subnet.Restore || !m.Fabric.Nodes[ends[0].Node].IsSwitch() || !m.Fabric.Nodes[ends[1].Node].IsSwitch() {
			return false
		}
		links[actionID(a)] = true
	}
	if len(list) != len(m.actions.list)+len(links) {
		return false
	}
	m.actions.later.add(links, until)
	return true
}

// add puts links off, and those that are put off already longer.
func (x *putOff) add(links map[topo.PortID]bool, until mad.Time) {
	if len(links) == 0 {
		return
	}
	maps.Copy(links, x.links)
	x.links, x.until = links, max(x.until, until)
}

// PuttingOff reports whether links are put off.
func (m *Manager) PuttingOff() bool { return len(m.actions.later.links) > 0 }

// PutOffDue reports whether the time of the links has come.
func (m *Manager) PutOffDue() bool { return m.actions.later.next() <= m.Now }

// LinksPutOff lists the actions that are put off, and until when.
func (m *Manager) LinksPutOff() (list []LinkWait) {
	for i := range m.actions.list {
		if a := &m.actions.list[i]; a.Kind != subnet.Restore && (m.actions.later.links[actionID(a)] || m.actions.later.links[topo.PortID{Node: a.Peer, Port: a.PeerPort}]) {
			list = append(list, LinkWait{a.Node, a.Port, m.actions.later.until})
		}
	}
	return list
}

// has reports whether a link is put off.
func (x *putOff) has(m *Manager, ends [2]ref) bool {
	return len(x.links) > 0 && (x.links[m.id(ends[0])] || x.links[m.id(ends[1])])
}

// next is when the time of the links has come; mad.Never if none is put off.
func (x *putOff) next() mad.Time {
	if len(x.links) == 0 {
		return mad.Never
	}
	return x.until
}

// forgetPutOff is called before links are marked.
func (m *Manager) forgetPutOff() {
	if m.PutOffDue() {
		m.actions.later = putOff{}
	}
}

// id names a port of the fabric.
func (m *Manager) id(at ref) topo.PortID {
	return topo.PortID{Node: m.Fabric.Nodes[at.Node].Info.NodeGUID, Port: at.Port}
}
