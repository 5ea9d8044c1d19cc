package fabric

// Loss is a set of failures of a Graph, by index: switches, links between switches (by
// one of their two channels, the other fails too), and end ports, whose own link fails.
type Loss struct {
	Switches, Channels, EndPorts []int32
}

// Without returns g after a loss. Remaining end ports keep their LIDs. Failed end ports,
// and those of failed switches, are removed, and their LIDs have no owner. The rest need
// not be connected: see Graph.Reach.
func (g *Graph) Without(x Loss) *Graph {
	r := &Graph{TopLID: g.TopLID}
	index := make([]int32, len(g.Switches))
	for _, s := range x.Switches {
		index[s] = -1
	}
	var kept []int32
	for s := range index {
		if index[s] == 0 {
			index[s] = int32(len(kept))
			kept = append(kept, int32(s))
		}
	}
	down := make([]bool, len(g.Channels))
	for _, c := range x.Channels {
		down[c], down[g.Channels[c].Rev] = true, true
	}
	r.Off = make([]int32, 1, len(kept)+1)
	for _, s := range kept {
		to := make([]int32, len(g.PortChannel[s]))
		fill(to)
		for c := g.Off[s]; c < g.Off[s+1]; c++ {
			ch := g.Channels[c]
			if down[c] || index[ch.To] < 0 {
				continue
			}
			to[ch.OutPort] = int32(len(r.Channels))
			ch.From, ch.To = index[ch.From], index[ch.To]
			r.Channels = append(r.Channels, ch)
		}
		r.PortChannel = append(r.PortChannel, to)
		r.Off = append(r.Off, int32(len(r.Channels)))
		r.Switches = append(r.Switches, g.Switches[s])
	}
	for i := range r.Channels {
		c := &r.Channels[i]
		c.Rev = r.PortChannel[c.To][c.InPort]
	}
	end := make([]int32, len(g.EndPorts))
	for _, e := range x.EndPorts {
		end[e] = NoLID
	}
	for i, e := range g.EndPorts {
		if end[i] == NoLID || e.Switch >= 0 && index[e.Switch] < 0 {
			end[i] = NoLID
			continue
		}
		end[i] = int32(len(r.EndPorts))
		if e.Switch >= 0 {
			e.Switch = index[e.Switch]
			if e.Port == 0 {
				r.Switches[e.Switch].EndPort = end[i]
			}
		}
		r.EndPorts = append(r.EndPorts, e)
	}
	r.LIDOwner = make([]int32, len(g.LIDOwner))
	for l, e := range g.LIDOwner {
		r.LIDOwner[l] = NoLID
		if e != NoLID {
			r.LIDOwner[l] = end[e]
		}
	}
	return r
}

// Reach reports, by switch, whether channels lead there from switch s.
func (g *Graph) Reach(s int32) []bool {
	seen := make([]bool, len(g.Switches))
	seen[s] = true
	for queue := []int32{s}; len(queue) > 0; queue = queue[1:] {
		u := queue[0]
		for c := g.Off[u]; c < g.Off[u+1]; c++ {
			if v := g.Channels[c].To; !seen[v] {
				seen[v] = true
				queue = append(queue, v)
			}
		}
	}
	return seen
}
