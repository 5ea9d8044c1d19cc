package show

import (
	"cmp"
	"slices"
	"sync"

	"heddle/api"
	"heddle/ib"
	"heddle/subnet"
)

// Artist draws the fabric for the page. It keeps the drawing of one snapshot for
// several pages, and what it has drawn before, so that lost nodes and links are
// drawn as lost. It is safe for concurrent use.
type Artist struct {
	mu     sync.Mutex
	made   bool               // guarded by mu
	last   api.Drawing        // guarded by mu
	hosts  map[ib.GUID]int    // most hosts a switch has had; guarded by mu
	cables map[[2]ib.GUID]int // most links two switches have had; guarded by mu
}

// remember updates the maxima drawn so far, and adds the missing nodes and
// links to d.
func (c *Artist) remember(d *api.Drawing, s *subnet.Snapshot) {
	if c.hosts == nil {
		c.hosts, c.cables = map[ib.GUID]int{}, map[[2]ib.GUID]int{}
	}
	for i := range d.Levels {
		for j := range d.Levels[i] {
			n := &d.Levels[i][j]
			g := s.Nodes[n.ID].Info.NodeGUID
			c.hosts[g] = max(c.hosts[g], n.Hosts)
			n.Hosts = c.hosts[g]
		}
	}
	now := map[[2]ib.GUID]bool{}
	for i := range d.Links {
		l := &d.Links[i]
		k := [2]ib.GUID{s.Nodes[l.A].Info.NodeGUID, s.Nodes[l.B].Info.NodeGUID} // nodes are in GUID order
		now[k] = true
		c.cables[k] = max(c.cables[k], l.N)
		l.N = c.cables[k]
	}
	for k, n := range c.cables {
		if now[k] {
			continue
		}
		if a, b := s.NodeByGUID(k[0]), s.NodeByGUID(k[1]); a >= 0 && b >= 0 {
			d.Links = append(d.Links, api.DrawLink{A: int(a), B: int(b), N: n})
		}
	}
	sortLinks(d.Links)
}

func sortLinks(l []api.DrawLink) {
	slices.SortFunc(l, func(a, b api.DrawLink) int {
		return cmp.Or(cmp.Compare(a.A, b.A), cmp.Compare(a.B, b.B))
	})
}

// Draw places the switches on levels; s may be nil.
func (c *Artist) Draw(s *subnet.Snapshot) api.Drawing {
	if s == nil {
		return api.Drawing{Levels: [][]api.DrawNode{}, Links: []api.DrawLink{}}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.made || c.last.Generation != s.Gen {
		c.last, c.made = draw(s), true
		c.remember(&c.last, s)
	}
	return c.last
}

// draw places the switches on the levels of fabric.Layout. Within a level they
// stand in GUID order, which is cabling order in most fabrics. A fabric
// without levels (a torus) is one row.
func draw(s *subnet.Snapshot) api.Drawing {
	level := s.Fabric().Layout()
	hosts, up := make([]int, len(s.Nodes)), make([]int, len(s.Nodes))
	cables := map[[2]int]*api.DrawLink{}
	for i := range s.Nodes {
		if s.Nodes[i].SwitchIndex < 0 {
			continue
		}
		for _, p := range s.NodePorts(int32(i)) {
			q := s.Port(p.Peer)
			if q == nil {
				continue
			}
			active := p.State() == ib.StateActive && q.State() == ib.StateActive
			j := int(q.Node)
			switch {
			case s.Nodes[j].Info.NodeType != ib.NodeSwitch:
				hosts[i]++
				if active {
					up[i]++
				}
			case s.Nodes[j].SwitchIndex >= 0 && j > i: // each link once, no loopback
				k := [2]int{i, j}
				l := cables[k]
				if l == nil {
					l = &api.DrawLink{A: i, B: j}
					cables[k] = l
				}
				l.N++
				if active {
					l.Up++
				}
			}
		}
	}
	out := api.Drawing{Generation: s.Gen, Levels: [][]api.DrawNode{}, Links: make([]api.DrawLink, 0, len(cables))}
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if n.SwitchIndex < 0 {
			continue
		}
		at := max(level[i], 1)
		for len(out.Levels) < at {
			out.Levels = append(out.Levels, []api.DrawNode{})
		}
		state := "ok"
		if !n.OK {
			state = "left out"
		}
		out.Levels[at-1] = append(out.Levels[at-1], api.DrawNode{
			ID: i, GUID: n.Info.NodeGUID.String(), Name: n.Desc, Hosts: hosts[i], Up: up[i], State: state,
		})
	}
	for _, l := range cables {
		out.Links = append(out.Links, *l)
	}
	sortLinks(out.Links)
	return out
}
