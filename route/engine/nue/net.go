package nue

import (
	"heddle/fabric"
	"heddle/ib"
)

// net is the read-only state that all layers share: the complete channel
// dependency graph and the LIDs of each switch.
type net struct {
	g    *fabric.Graph
	n    int
	from []int32 // by channel
	to   []int32
	rev  []int32
	// The dependency of channel c on channel x, which leaves the switch that c
	// enters, has index base[c]+x.
	base []int32
	deps int

	hosts []uint32 // by switch: CA and router ports with LIDs
	total uint64   // sum of hosts
	// LIDs attached to switch s are lids[off[s]:off[s+1]]: those of CA and router
	// ports, cas[s] of them, in ascending order, then those of its port 0.
	off  []int32
	cas  []int32
	lids []ib.LID

	size  []int32 // by switch: number of switches in its component
	comp  []int32 // by switch: the lowest of those
	short []bool  // by switch: its table does not hold all LIDs
	limit bool    // there is such a switch
}

func newNet(g *fabric.Graph) *net {
	n, m := len(g.Switches), len(g.Channels)
	slab := make([]int32, 4*m)
	w := &net{
		g: g, n: n, from: slab[:m], to: slab[m : 2*m], rev: slab[2*m : 3*m], base: slab[3*m:],
		hosts: make([]uint32, n), off: make([]int32, n+1), cas: make([]int32, n),
	}
	for c := range g.Channels {
		k := &g.Channels[c]
		w.from[c], w.to[c], w.rev[c] = k.From, k.To, k.Rev
		w.base[c] = int32(w.deps) - g.Off[k.To]
		w.deps += int(g.Off[k.To+1] - g.Off[k.To])
	}
	has := make([]bool, len(g.EndPorts))
	for _, e := range g.LIDOwner {
		if e == fabric.NoLID || g.EndPorts[e].Switch < 0 {
			continue
		}
		p := &g.EndPorts[e]
		w.off[p.Switch+1]++
		if p.Type == ib.NodeSwitch {
			continue
		}
		w.cas[p.Switch]++
		if !has[e] {
			has[e] = true
			w.hosts[p.Switch]++
			w.total++
		}
	}
	for s := range n {
		w.off[s+1] += w.off[s]
	}
	w.lids = make([]ib.LID, w.off[n])
	next := make([]int32, 2*n)
	for s := range n {
		next[s], next[n+s] = w.off[s], w.off[s]+w.cas[s]
	}
	for l, e := range g.LIDOwner {
		if e == fabric.NoLID || g.EndPorts[e].Switch < 0 {
			continue
		}
		at := &next[g.EndPorts[e].Switch]
		if g.EndPorts[e].Type == ib.NodeSwitch {
			at = &next[int32(n)+g.EndPorts[e].Switch]
		}
		w.lids[*at] = ib.LID(l)
		*at++
	}
	w.components()
	w.short = make([]bool, n)
	for s := range int32(n) {
		w.short[s] = !w.holds(s, g.TopLID)
		w.limit = w.limit || w.short[s]
	}
	return w
}

func (w *net) components() {
	w.size, w.comp = make([]int32, w.n), make([]int32, w.n)
	list := make([]int32, 0, w.n)
	for s := range int32(w.n) {
		if w.size[s] > 0 {
			continue
		}
		list = append(list[:0], s)
		w.size[s] = 1
		for i := 0; i < len(list); i++ {
			for c := w.g.Off[list[i]]; c < w.g.Off[list[i]+1]; c++ {
				if v := w.to[c]; w.size[v] == 0 {
					w.size[v] = 1
					list = append(list, v)
				}
			}
		}
		for _, v := range list {
			w.size[v], w.comp[v] = int32(len(list)), s
		}
	}
}

// behind lists the LIDs attached to switch d, those of CA and router ports
// first.
func (w *net) behind(d int32) []ib.LID { return w.lids[w.off[d]:w.off[d+1]] }

// holds reports whether the table of switch s has an entry for LID l.
func (w *net) holds(s int32, l ib.LID) bool {
	c := ib.LID(w.g.Switches[s].LinearFDBCap)
	return c == 0 || l < c
}

// floor is a lower bound on the load of the fullest channel under all-to-all:
// the packets that the hosts of one switch send, or receive, over its links.
func (w *net) floor() uint64 {
	var lids, most uint64
	for s := range w.n {
		lids += uint64(w.cas[s])
	}
	for s := range w.n {
		k := uint64(w.g.Off[s+1] - w.g.Off[s])
		if k == 0 {
			continue
		}
		h := uint64(w.hosts[s])
		most = max(most, (h*(lids-uint64(w.cas[s]))+k-1)/k, ((w.total-h)*uint64(w.cas[s])+k-1)/k)
	}
	return most
}
