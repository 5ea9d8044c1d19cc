package grid

import (
	"heddle/fabric"
	"heddle/ib"
	"heddle/route"
)

// ByPorts routes each LID by shortest paths: every switch uses the first port
// in its order that is on one, as OpenSM's dor does. In a grid cabled in the
// same order everywhere that is dimension order. It returns nil if the result
// could deadlock, if a switch's table is too short or if some switches cannot
// reach each other. Cost: O(switches × (channels + LIDs)), and the cost of
// Acyclic.
func ByPorts(n *Net, o Options) *route.Tables {
	g := n.g
	if connected(n) != nil {
		return nil
	}
	size := n.size()
	for s := range g.Switches {
		if c := ib.LID(g.Switches[s].LinearFDBCap); c != 0 && c <= g.TopLID {
			return nil
		}
	}
	column := func(d int32, hop []int32) {
		dist := make([]int32, size)
		for s := range dist {
			dist[s] = -1
			hop[s] = -1
		}
		dist[d] = 0
		queue := append(make([]int32, 0, size), d)
		for h := 0; h < len(queue); h++ {
			u := queue[h]
			for _, v := range n.neighbors(u) {
				if dist[v] < 0 {
					dist[v] = dist[u] + 1
					queue = append(queue, v)
				}
			}
		}
		for s := range int32(size) {
			best := int32(0)
			for k := n.off[s]; k < n.off[s+1]; k++ {
				if dist[n.to[k]] != dist[s]-1 {
					continue
				}
				if r := n.rank[n.chans[n.coff[k]]]; hop[s] < 0 || r < best {
					hop[s], best = k, r
				}
			}
		}
	}
	if !Acyclic(n, o.Workers, 1, column,
		func(int32, int32) ib.SL { return 0 },
		func(int32, int32, ib.SL) int { return 0 }) {
		return nil
	}
	t := route.New(o.Engine, size, g.TopLID)
	behind := make([][]ib.LID, size)
	for l, e := range g.LIDOwner {
		if e != fabric.NoLID && g.EndPorts[e].Switch >= 0 {
			s := g.EndPorts[e].Switch
			behind[s] = append(behind[s], ib.LID(l))
		}
	}
	nth := turns(g, o.HostOrder)
	hops := make([][]int32, max(o.Workers, 1))
	route.ForEach(o.Workers, size, func(w, d int) {
		if hops[w] == nil {
			hops[w] = make([]int32, size)
		}
		hop := hops[w]
		column(int32(d), hop)
		for s := range t.LFT {
			row := t.LFT[s]
			for _, l := range behind[d] {
				if s == d {
					row[l] = g.EndPorts[g.LIDOwner[l]].Port
					continue
				}
				k := hop[s]
				cs := n.chans[n.coff[k]:n.coff[k+1]]
				row[l] = g.Channels[cs[int(nth[l])%len(cs)]].OutPort
			}
		}
	})
	return t
}
