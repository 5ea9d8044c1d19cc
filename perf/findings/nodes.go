package findings

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"heddle/ib"
	"heddle/mad"
	"heddle/subnet"
)

// kind are nodes that are expected to be alike: those of one type.
type kind struct {
	node ib.NodeType
	what string
}

// nodeStates looks at descriptions, GUIDs, and what nodes can less than most of their kind.
func (c *Core) nodeStates() {
	s := c.snap
	named := map[kind][]End{}
	mtu, vls := map[ib.NodeType]map[int]int{}, map[ib.NodeType]map[int]int{}
	lowest := func(i int32) (m, v, ports int) {
		for _, p := range s.NodePorts(i) {
			if !p.Known || p.Num == 0 || p.Info.PortPhysicalState != ib.PhysLinkUp {
				continue
			}
			if x := p.Info.MTUCap.Bytes(); ports == 0 || x < m {
				m = x
			}
			if x := ib.VLsOf(p.Info.VLCap); ports == 0 || x < v {
				v = x
			}
			ports++
		}
		return m, v, ports
	}
	for i := range s.Nodes {
		n := &s.Nodes[i]
		e := End{GUID: n.Info.NodeGUID, Desc: n.Desc}
		if n.Desc == "" {
			c.state(NoDescription, key{a: e.place()}, []End{e}, Evidence{End: e, What: "NodeDescription", Text: "empty"})
		} else {
			named[kind{n.Info.NodeType, n.Desc}] = append(named[kind{n.Info.NodeType, n.Desc}], e)
		}
		if m, v, ports := lowest(int32(i)); ports > 0 {
			note(mtu, n.Info.NodeType, m)
			note(vls, n.Info.NodeType, v)
		}
	}
	for k, list := range named { // each in any order: they are marked one by one
		if len(list) > 1 {
			c.state(SameDesc, key{a: place{ib.GUID(k.node), 0}, text: k.what}, list,
				Evidence{End: list[0], What: "NodeDescription", Value: float64(len(list)), Limit: 1, Text: strconv.Quote(k.what)})
		}
	}
	for i := range s.Nodes {
		n := &s.Nodes[i]
		m, v, ports := lowest(int32(i))
		if ports == 0 {
			continue
		}
		e := End{GUID: n.Info.NodeGUID, Desc: n.Desc}
		if most := usual(mtu[n.Info.NodeType]); m < most {
			c.state(LowMTU, key{a: e.place()}, []End{e}, Evidence{End: e, What: "MTUCap", Value: float64(m), Limit: float64(most)})
		}
		if most := usual(vls[n.Info.NodeType]); v < most {
			c.state(FewVLs, key{a: e.place()}, []End{e}, Evidence{End: e, What: "VLCap", Value: float64(v), Limit: float64(most)})
		}
	}
	for _, p := range s.Problems {
		if p.Kind == DuplicateGUID {
			e := End{GUID: p.GUID, Desc: p.Node}
			c.state(DuplicateGUID, key{a: e.place()}, []End{e}, Evidence{End: e, What: "NodeGUID", Text: p.Text})
		}
	}
}

func note(m map[ib.NodeType]map[int]int, t ib.NodeType, v int) {
	if m[t] == nil {
		m[t] = map[int]int{}
	}
	m[t][v]++
}

// usual is the value that more than half of all have, 0 if there is none.
func usual(count map[int]int) int {
	all := 0
	for _, n := range count {
		all += n
	}
	for v, n := range count {
		if 2*n > all {
			return v
		}
	}
	return 0
}

// lostLink is a link that was there, and is not any more.
type lostLink struct {
	a, b  End
	since mad.Time
}

func (l *lostLink) key() [2]place { return [2]place{l.a.place(), l.b.place()} }

func (c *Core) isLost(k key) bool { return c.lost[[2]place{k.a, k.b}] != nil }

// forgetAfter is how long a link that is gone is missed: then it was taken away deliberately.
const forgetAfter = 24 * time.Hour

// findLost compares the links of the last snapshot with those of s.
func (c *Core) findLost(s *subnet.Snapshot) {
	if c.snap == s {
		if len(c.lost) > 0 {
			c.forget(nil)
		}
		return
	}
	here := map[place]place{}
	eachLink(s, func(l *link) { here[l.a.place()], here[l.b.place()] = l.b.place(), l.a.place() })
	if c.snap != nil {
		eachLink(c.snap, func(l *link) {
			if here[l.a.place()] == (place{}) && here[l.b.place()] == (place{}) && len(c.lost) < maxLost && !isDisabled(s, l.a) && !isDisabled(s, l.b) {
				x := &lostLink{l.a, l.b, c.now}
				if c.lost[x.key()] == nil {
					c.lost[x.key()] = x
				}
			}
		})
	}
	c.forget(here)
}

// isDisabled reports whether somebody disabled a port: its link is not missed.
func isDisabled(s *subnet.Snapshot, e End) bool {
	i := s.NodeByGUID(e.GUID)
	if i < 0 || int(e.Port) >= len(s.NodePorts(i)) {
		return false
	}
	return s.NodePorts(i)[e.Port].Info.PortPhysicalState == ib.PhysDisabled
}

// forget drops the links that are back, whose ports have other links, and those missed for long.
func (c *Core) forget(here map[place]place) {
	maps.DeleteFunc(c.lost, func(k [2]place, l *lostLink) bool {
		return here[k[0]] != (place{}) || here[k[1]] != (place{}) || c.now.Sub(l.since) >= forgetAfter
	})
	c.lostAt = make(map[place]*lostLink, 2*len(c.lost))
	for k, l := range c.lost {
		c.lostAt[k[0]], c.lostAt[k[1]] = l, l
	}
}

// lostLinks says which links and nodes are gone. Nodes that are gone and joined by links that are gone
// are one part of the subnet: if one cable leads to it, that cable is gone, and otherwise the nodes at
// which most of its cables end.
func (c *Core) lostLinks() {
	if len(c.lost) == 0 {
		return
	}
	here := map[ib.GUID]bool{}
	for i := range c.snap.Nodes {
		here[c.snap.Nodes[i].Info.NodeGUID] = !c.snap.Nodes[i].Unseen
	}
	all := slices.SortedFunc(maps.Values(c.lost), func(x, y *lostLink) int {
		return compareKeys(key{a: x.a.place(), b: x.b.place()}, key{a: y.a.place(), b: y.b.place()})
	})
	part := map[ib.GUID]ib.GUID{} // of a node that is gone: another one of its part
	var find func(g ib.GUID) ib.GUID
	find = func(g ib.GUID) ib.GUID {
		if p, ok := part[g]; ok && p != g {
			part[g] = find(p)
			return part[g]
		}
		return g
	}
	for _, l := range all {
		if !here[l.a.GUID] && !here[l.b.GUID] {
			part[find(l.a.GUID)] = find(l.b.GUID)
		}
	}
	border := map[ib.GUID][]*lostLink{} // of each part
	for _, l := range all {
		switch {
		case here[l.a.GUID] && here[l.b.GUID]:
			c.markLost(l, "")
		case here[l.a.GUID]:
			border[find(l.b.GUID)] = append(border[find(l.b.GUID)], l)
		case here[l.b.GUID]:
			border[find(l.a.GUID)] = append(border[find(l.a.GUID)], l)
		}
	}
	for _, links := range border {
		c.lostPart(links, here)
	}
}

// lostPart marks what a part of the subnet that is gone was joined by.
func (c *Core) lostPart(links []*lostLink, here map[ib.GUID]bool) {
	gone := func(l *lostLink) End {
		if here[l.a.GUID] {
			return l.b
		}
		return l.a
	}
	for len(links) > 0 {
		count := map[ib.GUID]int{}
		for _, l := range links {
			count[gone(l).GUID]++
		}
		worst := slices.MaxFunc(slices.Sorted(maps.Keys(count)), func(x, y ib.GUID) int { return cmp.Compare(count[x], count[y]) })
		e := End{GUID: worst}
		var evidence []Evidence
		rest := links[:0:0]
		for _, l := range links {
			if gone(l).GUID != worst {
				rest = append(rest, l)
				continue
			}
			e.Desc = gone(l).Desc
			if count[worst] == 1 {
				c.markLost(l, "the far end is gone with it")
			}
			evidence = append(evidence, Evidence{
				End: gone(l), What: "link", Value: float64(count[worst]), Text: fmt.Sprintf("gone for %v", c.now.Sub(l.since).Round(time.Second)),
			})
		}
		if count[worst] > 1 {
			c.mark(NodeLost, key{a: e.place()}, []End{e}, evidence...)
		}
		links = rest
	}
}

func (c *Core) markLost(l *lostLink, text string) {
	c.mark(LinkLost, key{a: l.a.place(), b: l.b.place()}, []End{l.a, l.b}, Evidence{End: l.a, What: "link", Text: text})
}

// together is within how many rounds the links of a node that restarts are seen to have been down.
const together = 3

// restarts finds the nodes all of whose links went down together, those with most links first.
func (c *Core) restarts() {
	flap, ok := c.number[LinkFlap]
	if !ok {
		return
	}
	flapped := map[ib.GUID]map[key]bool{}
	for k, t := range c.tracks {
		if k.rule != flap || t.counted == 0 || t.counted+together <= c.round {
			continue
		}
		for _, g := range [2]ib.GUID{k.a.guid, k.b.guid} {
			if flapped[g] == nil {
				flapped[g] = map[key]bool{}
			}
			flapped[g][k] = true
		}
	}
	if len(flapped) == 0 {
		return
	}
	links := map[ib.GUID]int{}
	eachLink(c.snap, func(l *link) { links[l.a.GUID]++; links[l.b.GUID]++ })
	for {
		worst, most := ib.GUID(0), 1
		for _, g := range slices.Sorted(maps.Keys(flapped)) {
			if n := len(flapped[g]); n > most && n == links[g] {
				worst, most = g, n
			}
		}
		if worst == 0 {
			return
		}
		e := End{GUID: worst}
		for k := range flapped[worst] {
			for _, x := range c.tracks[k].ends {
				if x.GUID == worst {
					e.Desc = x.Desc
				}
			}
			for g := range flapped {
				if g != worst {
					delete(flapped[g], k)
				}
			}
		}
		delete(flapped, worst)
		c.mark(NodeRestart, key{a: e.place()}, []End{e}, Evidence{End: e, What: "LinkDownedCounter", Value: float64(most), Text: "links of the node went down together"})
		if t := c.tracks[key{rule: c.number[NodeRestart], a: e.place()}]; t != nil && t.crossed == 0 {
			t.crossed = max(c.round-1, 1) // nothing is to be waited for
		}
	}
}
