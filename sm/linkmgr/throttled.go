package linkmgr

import (
	"heddle/ib"
	"heddle/sm/notice"
	"heddle/sm/topo"
)

// throttled lists the links between switches that are to have no routes because they are narrower or
// slower than both of their ends can be (Config.LeavesOut), without those of others. Where more than
// half of a switch's links to other switches are so, all of them have routes, or the rest would carry the
// packets of all: there the engines count them by their weights alone (config.OptionsFor).
func (m *Manager) throttled(others map[ref]bool) (links [][2]ref) {
	if !m.Config.LeavesOut() {
		return nil
	}
	f := m.Fabric
	all, slow := make([]int32, len(f.Nodes)), make([]int32, len(f.Nodes))
	for i := range f.Ports {
		p := &f.Ports[i]
		if !p.Has(topo.PortLinked) || p.Num == 0 || p.Peer.Node == p.Node || !f.Nodes[p.Node].IsSwitch() || !f.Nodes[p.Peer.Node].IsSwitch() {
			continue
		}
		all[p.Node]++
		if p.Info.PortState < ib.StateInit || f.Port(p.Peer).Info.PortState < ib.StateInit || !f.Throttled(p) {
			continue
		}
		slow[p.Node]++
		at := ref{Node: p.Node, Port: p.Num}
		if p.Node < p.Peer.Node && !others[at] {
			links = append(links, [2]ref{at, p.Peer})
		}
	}
	n := 0
	for _, ends := range links {
		if a, b := ends[0].Node, ends[1].Node; 2*slow[a] <= all[a] && 2*slow[b] <= all[b] {
			links[n] = ends
			n++
		}
	}
	return links[:n]
}

// sayThrottled reports which of the slow links have no routes from now on, and which have some again.
func (m *Manager) sayThrottled(slow [][2]ref, out map[ref]bool) {
	f, now := m.Fabric, map[topo.PortID]bool{}
	for _, ends := range slow {
		if !out[ends[0]] {
			continue
		}
		id := topo.PortID{Node: f.Nodes[ends[0].Node].Info.NodeGUID, Port: ends[0].Port}
		if now[id] = true; !m.actions.slow[id] {
			m.Notify(notice.Notice{
				Kind: notice.KindPortAction, Level: notice.Warn, Where: f.Where(ends[0].Node, int(ends[0].Port)), Peer: f.Where(ends[1].Node, int(ends[1].Port)),
				Text: "no route is to lead over the link: it is narrower or slower than both of its ends can be",
			})
		}
	}
	m.actions.slow = now
}
