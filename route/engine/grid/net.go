// Package grid finds the coordinates of grids of switches and routes them
// dimension by dimension. The engines dor and torus use it.
//
// A grid is a Cartesian product of lines: paths (mesh), rings (torus) or full
// meshes (HyperX; a hypercube is a product of full meshes of two). Nothing is
// configured: the lines are derived from the links. A complete grid is factored
// by its squares (T. Feder, "Product graph representations", 1992; W. Imrich
// and I. Peterin, 2007), a damaged one of up to three dimensions is fitted into
// the smallest complete grid that contains it.
package grid

import (
	"cmp"
	"slices"

	"heddle/fabric"
)

// Net is the graph of the switches without parallel links.
type Net struct {
	g     *fabric.Graph
	off   []int32 // the links of switch s are off[s]…off[s+1]-1
	to    []int32 // by link: the adjacent switch, ascending for each switch
	rev   []int32 // by link: the same link seen from there
	coff  []int32 // the channels of link k are chans[coff[k]:coff[k+1]]
	chans []int32
	rank  []int32 // by channel: its place in the order in which its switch tries ports
}

// NewNet makes the Net of a graph. Ports are tried in the order that order
// gives for their switch, then by number.
func NewNet(g *fabric.Graph, order func(s int32) []uint8) *Net {
	n := len(g.Switches)
	net := &Net{g: g, off: make([]int32, n+1), rank: make([]int32, len(g.Channels))}
	var place [256]int32
	var cs []int32
	for s := range int32(n) {
		for p := range place {
			place[p] = int32(p) + 256
		}
		if order != nil {
			for i, p := range order(s) {
				if place[p] >= 256 {
					place[p] = int32(i)
				}
			}
		}
		cs = cs[:0]
		for c := g.Off[s]; c < g.Off[s+1]; c++ {
			net.rank[c] = place[g.Channels[c].OutPort]
			cs = append(cs, c)
		}
		slices.SortFunc(cs, func(a, b int32) int {
			return cmp.Or(cmp.Compare(g.Channels[a].To, g.Channels[b].To), cmp.Compare(net.rank[a], net.rank[b]))
		})
		for i, c := range cs {
			if i == 0 || g.Channels[c].To != g.Channels[cs[i-1]].To {
				net.to = append(net.to, g.Channels[c].To)
				net.coff = append(net.coff, int32(len(net.chans)))
			}
			net.chans = append(net.chans, c)
		}
		net.off[s+1] = int32(len(net.to))
	}
	net.coff = append(net.coff, int32(len(net.chans)))
	net.rev = make([]int32, len(net.to))
	for s := range int32(n) {
		for k := net.off[s]; k < net.off[s+1]; k++ {
			net.rev[k] = net.link(net.to[k], s)
		}
	}
	return net
}

func (n *Net) size() int { return len(n.off) - 1 }

func (n *Net) neighbors(s int32) []int32 { return n.to[n.off[s]:n.off[s+1]] }

func (n *Net) degree(s int32) int { return int(n.off[s+1] - n.off[s]) }

// link is the link from s to t, or -1.
func (n *Net) link(s, t int32) int32 {
	nb := n.neighbors(s)
	if len(nb) <= 8 {
		for i, v := range nb {
			if v == t {
				return n.off[s] + int32(i)
			}
		}
		return -1
	}
	if i, ok := slices.BinarySearch(nb, t); ok {
		return n.off[s] + int32(i)
	}
	return -1
}

// parts counts the connected parts of the net without the links that skip
// names, and numbers the switches by part in the order of their first.
func (n *Net) parts(skip func(k int32) bool) (part []int32, count int) {
	part = make([]int32, n.size())
	for s := range part {
		part[s] = -1
	}
	var queue []int32
	for s := range part {
		if part[s] >= 0 {
			continue
		}
		part[s] = int32(count)
		queue = append(queue[:0], int32(s))
		for len(queue) > 0 {
			u := queue[len(queue)-1]
			queue = queue[:len(queue)-1]
			for k := n.off[u]; k < n.off[u+1]; k++ {
				if v := n.to[k]; part[v] < 0 && (skip == nil || !skip(k)) {
					part[v] = int32(count)
					queue = append(queue, v)
				}
			}
		}
		count++
	}
	return part, count
}
