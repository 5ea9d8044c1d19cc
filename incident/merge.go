package incident

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"heddle/ib"
	"heddle/internal/plural"
	"heddle/subnet"
)

// group is what becomes one event.
type group struct {
	facts []Fact
	nodes map[ib.GUID]bool
	links []Link
}

// merge makes events of the facts of one sweep: one for each connected part of the subnet that went or
// came, with all of its links, one for each switch of which several other links did, and one for each
// link that is left. snap has the nodes and links.
func merge(facts []Fact, snap *subnet.Snapshot) (out []Event) {
	m := &merger{snap: snap, group: map[ib.GUID]ib.GUID{}}
	for i := range facts {
		if facts[i].Kind != linkDown && facts[i].Kind != linkUp && facts[i].Node != 0 {
			m.group[facts[i].Node] = facts[i].Node
		}
	}
	m.join()
	groups, links := map[ib.GUID]*group{}, []Fact(nil)
	for i := range facts {
		f := &facts[i]
		m.peer(f)
		root, ok := m.rootOf(f)
		if !ok {
			links = append(links, *f)
			continue
		}
		g := groups[root]
		if g == nil {
			g = &group{nodes: map[ib.GUID]bool{}}
			groups[root] = g
		}
		g.facts = append(g.facts, *f)
	}
	for n := range m.group {
		if g := groups[m.root(n)]; g != nil {
			g.nodes[n] = true
		}
	}
	for _, root := range slices.Sorted(maps.Keys(groups)) {
		out = append(out, m.whole(groups[root]))
	}
	out = append(out, m.stars(links)...)
	slices.SortStableFunc(out, func(a, b Event) int { return a.At.Compare(b.At) })
	return out
}

// merger finds the connected parts: group has the parent of each node.
type merger struct {
	snap  *subnet.Snapshot
	group map[ib.GUID]ib.GUID
}

func (m *merger) root(n ib.GUID) ib.GUID {
	for m.group[n] != n {
		m.group[n] = m.group[m.group[n]]
		n = m.group[n]
	}
	return n
}

// linksOf calls do for each link of a node. The far end may be unknown.
func (m *merger) linksOf(g ib.GUID, do func(l Link)) {
	if m.snap == nil {
		return
	}
	i := m.snap.NodeByGUID(g)
	if i < 0 {
		return
	}
	n := &m.snap.Nodes[i]
	for _, p := range m.snap.NodePorts(i) {
		if p.Num == 0 || p.Peer.Node < 0 || int(p.Peer.Node) >= len(m.snap.Nodes) {
			continue
		}
		q := &m.snap.Nodes[p.Peer.Node]
		do(Link{
			Node: g, NodeDesc: n.Desc, Port: int(p.Num),
			Peer: q.Info.NodeGUID, PeerDesc: q.Desc, PeerPort: int(p.Peer.Port),
		})
	}
}

// join connects nodes that a link connects, and adds the hosts that are behind them alone: a sweep does
// not name more than 64 nodes.
func (m *merger) join() {
	for _, n := range slices.Sorted(maps.Keys(m.group)) {
		m.linksOf(n, func(l Link) {
			if _, ok := m.group[l.Peer]; !ok {
				if m.isSwitch(l.Peer) || !m.behind(l.Peer) {
					return
				}
				m.group[l.Peer] = l.Peer
			}
			a, b := m.root(n), m.root(l.Peer)
			m.group[max(a, b)] = min(a, b)
		})
	}
}

// behind reports whether all links of a node lead to nodes of groups.
func (m *merger) behind(g ib.GUID) bool {
	all := true
	m.linksOf(g, func(l Link) {
		_, ok := m.group[l.Peer]
		all = all && ok
	})
	return all
}

func (m *merger) isSwitch(g ib.GUID) bool {
	if m.snap == nil {
		return false
	}
	i := m.snap.NodeByGUID(g)
	return i >= 0 && m.snap.Nodes[i].Info.NodeType == ib.NodeSwitch
}

// peer fills in the far end of a link.
func (m *merger) peer(f *Fact) {
	if f.Kind != linkDown && f.Kind != linkUp || f.Peer != 0 {
		return
	}
	m.linksOf(f.Node, func(l Link) {
		if l.Port == f.Port {
			f.Peer, f.PeerPort, f.PeerDesc = l.Peer, l.PeerPort, l.PeerDesc
		}
	})
}

// rootOf is the group of a fact: that of its node, or for a link that of the far end.
func (m *merger) rootOf(f *Fact) (ib.GUID, bool) {
	for _, n := range []ib.GUID{f.Node, f.Peer} {
		if _, ok := m.group[n]; ok && n != 0 {
			return m.root(n), true
		}
	}
	return 0, false
}

// what happened, by kind.
var said = map[string]string{
	nodeGone: "left the subnet", nodeSilent: "does not answer; its links are up", nodeNew: "joined the subnet",
	nodeAnswers: "answers again", linkDown: "links are down", linkUp: "links are up",
}

// whole makes the event of a connected part.
func (m *merger) whole(g *group) Event {
	// The cause is at the switch with most links to what is still there, else at the node with the lowest GUID.
	outer := map[ib.GUID]int{}
	seen := map[place]bool{}
	switches := 0
	for _, n := range slices.Sorted(maps.Keys(g.nodes)) {
		if m.isSwitch(n) {
			switches++
		}
		m.linksOf(n, func(l Link) {
			if !g.nodes[l.Peer] {
				outer[n]++
			}
			if !seen[place{l.Node, l.Port}] {
				seen[place{l.Peer, l.PeerPort}] = true
				g.links = append(g.links, l)
			}
		})
	}
	first := slices.MinFunc(slices.Sorted(maps.Keys(g.nodes)), func(a, b ib.GUID) int {
		return cmp.Or(-truth(m.isSwitch(a))+truth(m.isSwitch(b)), cmp.Compare(outer[b], outer[a]), cmp.Compare(a, b))
	})
	e := Event{Fact: g.facts[0], Merged: len(g.facts)}
	named := false
	for i := range g.facts {
		f := &g.facts[i]
		if f.Node == first && f.Kind != linkDown && f.Kind != linkUp && !named {
			at := e.At
			e.Fact, named = *f, true
			e.At = at
		}
	}
	if len(g.facts) == 1 && len(g.nodes) == 1 && len(g.links) <= 1 {
		e.Links = g.links
		return e
	}
	if e.Kind == nodeSilent { // the port was that behind which it was asked first
		e.Port, e.Peer, e.PeerPort, e.PeerDesc = -1, 0, 0, ""
	}
	e.Text = said[e.Kind] + ": " + plural.Of(len(g.links), "link")
	if others := len(g.nodes) - 1; others > 0 {
		var with []string
		own := truth(m.isSwitch(first))
		if n := switches - own; n > 0 {
			with = append(with, plural.Of(n, "switch"))
		}
		if n := others - (switches - own); n > 0 {
			with = append(with, plural.Of(n, "host"))
		}
		e.Text = said[e.Kind] + " with " + strings.Join(with, " and ") + ": " + plural.Of(len(g.links), "link")
	}
	for _, n := range slices.Sorted(maps.Keys(g.nodes)) {
		if n != first {
			e.Nodes = append(e.Nodes, Node{GUID: n, Desc: m.desc(n)})
		}
	}
	// The links of the cause come first, those to the rest of the subnet before others.
	for i := range g.links {
		if l := &g.links[i]; l.Peer == first {
			*l = l.turned()
		}
	}
	slices.SortStableFunc(g.links, func(a, b Link) int {
		return cmp.Or(truth(b.Node == first)-truth(a.Node == first), cmp.Compare(a.Node, b.Node), cmp.Compare(a.Port, b.Port))
	})
	e.Links = g.links
	e.bound()
	return e
}

func (m *merger) desc(g ib.GUID) string {
	if m.snap != nil {
		if i := m.snap.NodeByGUID(g); i >= 0 {
			return m.snap.Nodes[i].Desc
		}
	}
	return ""
}

// stars makes events of links between nodes that are there: the switch with most of them is the cause of
// its links, if these are several, and so on.
func (m *merger) stars(facts []Fact) (out []Event) {
	type cable struct {
		fact Fact
		link Link
		n    int // facts about it
	}
	var cables []*cable
	at := map[place]*cable{}
	for i := range facts {
		f := &facts[i]
		if c := at[place{f.Node, f.Port}]; c != nil && f.Node != 0 {
			c.n++ // the other end of one that is known
			continue
		}
		c := &cable{fact: *f, link: Link{f.Node, f.Peer, f.Port, f.PeerPort, f.NodeDesc, f.PeerDesc}, n: 1}
		cables = append(cables, c)
		at[place{f.Node, f.Port}] = c
		if f.Peer != 0 {
			at[place{f.Peer, f.PeerPort}] = c
		}
	}
	for len(cables) > 0 {
		degree := map[ib.GUID]int{}
		for _, c := range cables {
			degree[c.link.Node]++
			if c.link.Peer != 0 && m.isSwitch(c.link.Peer) {
				degree[c.link.Peer]++
			}
		}
		most := slices.MinFunc(slices.Sorted(maps.Keys(degree)), func(a, b ib.GUID) int {
			return cmp.Or(cmp.Compare(degree[b], degree[a]), cmp.Compare(a, b))
		})
		if degree[most] < 2 || most == 0 {
			for _, c := range cables {
				out = append(out, Event{Fact: c.fact, Merged: c.n, Links: []Link{c.link}})
			}
			return out
		}
		var e Event
		cables = slices.DeleteFunc(cables, func(c *cable) bool {
			if c.link.Node != most && c.link.Peer != most {
				return false
			}
			if c.link.Node != most {
				c.link = c.link.turned()
			}
			if e.Merged == 0 {
				e.Fact = c.fact
				e.Node, e.NodeDesc, e.Port = most, c.link.NodeDesc, -1
				e.Peer, e.PeerDesc, e.PeerPort = 0, "", 0
			}
			e.Merged += c.n
			e.Links = append(e.Links, c.link)
			return true
		})
		e.Text = fmt.Sprintf("%d %s", len(e.Links), said[e.Kind])
		e.bound()
		out = append(out, e)
	}
	return out
}

func (l Link) turned() Link {
	return Link{l.Peer, l.Node, l.PeerPort, l.Port, l.PeerDesc, l.NodeDesc}
}

// bound leaves out what is too much for one event.
func (e *Event) bound() {
	if n := len(e.Links) - maxListed; n > 0 {
		e.Links, e.More = e.Links[:maxListed], e.More+n
	}
	if n := len(e.Nodes) - maxListed; n > 0 {
		e.Nodes, e.More = e.Nodes[:maxListed], e.More+n
	}
}

func truth(b bool) int {
	if b {
		return 1
	}
	return 0
}
