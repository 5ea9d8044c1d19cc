// Package atlas makes maps of a subnet in levels of detail, for a page that cannot draw 35,000 cables:
// groups of switches with bundles of cables between them; switches with a bundle for each pair; one group
// with its hosts and cables. What is wrong is always shown singly. No map has more than MaxShapes shapes.
//
// Groups follow the cables alone: the pods of a fat tree, the groups of a dragonfly, the rows or planes
// of a torus, and compact parts of anything else. Things that have gone count too (package wiring), so
// that a fault moves nothing. All maps of one wiring have the same places, in one coordinate system; the
// result depends on the wiring alone. The package is pure, and an Atlas immutable.
package atlas

import (
	"cmp"
	"slices"

	"heddle/ib"
	"heddle/subnet/wiring"
)

// Bounds of a map.
const (
	MaxShapes   = 3000 // of all kinds
	MaxProblems = 400  // of them
	maxGroups   = 128
	fewGroups   = 64  // if more have too many bundles
	largeGroup  = 256 // switches; a group of more is split if there is a way
)

// Kinds of subnets, by how their groups were found.
const (
	Tree   = "tree"
	Dense  = "groups" // parts with more cables inside than between them, as in dragonflies
	Grid   = "grid"
	Pieces = "parts" // no structure was found
)

// bundle is the cables between two things.
type bundle struct{ n, up int32 }

// place is a point of the map; y grows downwards.
type place struct{ x, y float32 }

// node is a switch or a host.
type node struct {
	at    int32 // index in Wiring.Nodes
	group int32
	// of hosts: the switch; of switches: -1
	home  int32
	hosts int32 // of switches
	lost  int32 // of the hosts: gone, or without a cable that is active
	level int32 // of switches in a tree, from 1
	place
}

// group is a part of the subnet.
type group struct {
	id       ib.GUID // of its first switch
	name     string
	kind     string  // pod, top, leaf, group, row, part
	switches []int32 // in order of GUID
	hosts    int32
	inside   int32 // cables between its switches
	place
	w, h float32
}

// Atlas has the maps of one wiring.
type Atlas struct {
	w             *wiring.Wiring
	kind          string
	shape         string          // of a grid: "10x10x10 torus"
	switches      []node          // in order of GUID
	hosts         []node          // in order of their switch and GUID
	first         []int32         // by switch: index of its first host; one more at the end
	index         map[int32]int32 // by index in Wiring.Nodes: in switches, or in hosts, less by 1 and negative
	near          [][]int32       // by switch: adjacent ones, ascending
	pairs         map[[2]int32]bundle
	groups        []group
	links         map[[2]int32]bundle // between groups
	unplaced      int                 // nodes that hang on no switch
	w0, h0        float32             // size of the whole map
	coords        [][2]int32          // of switches in a grid, within their group
	columns, rows int                 // of a group in a grid
	plane         bool                // the grid has two dimensions
}

// New makes an atlas; it takes time proportional to the cables of the wiring, and in a fabric without
// levels to the squares of cables.
func New(w *wiring.Wiring) *Atlas {
	a := &Atlas{w: w, index: map[int32]int32{}, pairs: map[[2]int32]bundle{}, links: map[[2]int32]bundle{}}
	for i := range w.Nodes {
		if w.Nodes[i].Type == ib.NodeSwitch {
			a.index[int32(i)] = int32(len(a.switches))
			a.switches = append(a.switches, node{at: int32(i), home: -1})
		}
	}
	a.cable()
	a.join()
	a.name()
	a.lay()
	return a
}

// cable finds the hosts of switches and the bundles between switches.
func (a *Atlas) cable() {
	home := make([]int32, len(a.w.Nodes))
	alive := make([]bool, len(a.w.Nodes)) // hosts with a cable that is active
	for i := range home {
		home[i] = -1
	}
	for i := range a.w.Cables {
		c := &a.w.Cables[i]
		x, y := int32(a.w.Find(c.A.GUID)), int32(a.w.Find(c.B.GUID))
		if x < 0 || y < 0 || x == y {
			continue
		}
		s, sOK := a.index[x]
		t, tOK := a.index[y]
		switch {
		case sOK && tOK:
			k := pair(s, t)
			b := a.pairs[k]
			b.n++
			if c.State == wiring.OK {
				b.up++
			}
			a.pairs[k] = b
		case sOK:
			home[y], alive[y] = first(home[y], s), alive[y] || c.State == wiring.OK
		case tOK:
			home[x], alive[x] = first(home[x], t), alive[x] || c.State == wiring.OK
		}
	}
	a.near = make([][]int32, len(a.switches))
	for k := range a.pairs {
		a.near[k[0]] = append(a.near[k[0]], k[1])
		a.near[k[1]] = append(a.near[k[1]], k[0])
	}
	for s := range a.near {
		slices.Sort(a.near[s])
	}
	for i := range a.w.Nodes {
		switch {
		case a.w.Nodes[i].Type == ib.NodeSwitch:
		case home[i] < 0:
			a.unplaced++
		default:
			a.hosts = append(a.hosts, node{at: int32(i), home: home[i]})
			a.switches[home[i]].hosts++
			if !alive[i] {
				a.switches[home[i]].lost++
			}
		}
	}
	slices.SortStableFunc(a.hosts, func(x, y node) int { return cmp.Compare(x.home, y.home) })
	a.first = make([]int32, len(a.switches)+1)
	for i := range a.hosts {
		a.first[a.hosts[i].home+1]++
		a.index[a.hosts[i].at] = -1 - int32(i)
	}
	for s := range a.switches {
		a.first[s+1] += a.first[s]
	}
}

// first is the switch on which a host is drawn that has cables to s and to others: the lowest, so that it
// stays where it is when another cable comes or goes.
func first(home, s int32) int32 {
	if home < 0 || s < home {
		return s
	}
	return home
}

func pair(s, t int32) [2]int32 {
	if s > t {
		return [2]int32{t, s}
	}
	return [2]int32{s, t}
}

// Kind is how the groups were found, and for a grid its shape.
func (a *Atlas) Kind() (kind, shape string) { return a.kind, a.shape }

// Place is where a node is.
type Place struct {
	GUID  ib.GUID
	Name  string
	Group ib.GUID // of its group
	X, Y  float32
}

// Find returns the place of a node; ok is false if it is in no map.
func (a *Atlas) Find(g ib.GUID) (p Place, ok bool) {
	at := a.w.Find(g)
	if at < 0 {
		return p, false
	}
	i, ok := a.index[int32(at)]
	if !ok {
		return p, false
	}
	n := a.node(i)
	return Place{g, a.w.Nodes[at].Name, a.groups[n.group].id, n.x, n.y}, true
}

// node is the switch or host of an entry of index.
func (a *Atlas) node(i int32) *node {
	if i < 0 {
		return &a.hosts[-1-i]
	}
	return &a.switches[i]
}
