package dataplane

import (
	"math/rand/v2"
	"testing"

	"heddle/fabric"
	"heddle/ib"
	"heddle/route"
	"heddle/route/engine/ftree"
	"heddle/route/engine/vftree"
)

// tree is a fabric with tables of an engine; mostly a fat tree with the d-mod-k
// tables of route/engine/ftree.
type tree struct {
	f   *fabric.Fabric
	top *Topology
	g   *fabric.Graph
	rt  *route.Tables
	sw  []int32 // node of each switch of g
}

func newTree(t testing.TB, topo fabric.Topology, r Rate) *tree {
	t.Helper()
	return newRouted(t, topo, r, ftree.Engine{})
}

// newRouted is a fabric of any kind with the tables of an engine.
func newRouted(t testing.TB, topo fabric.Topology, r Rate, by route.Engine) *tree {
	t.Helper()
	f, err := fabric.Generate(topo, fabric.GenerateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := fabric.AssignLIDs(f, 1); err != nil {
		t.Fatal(err)
	}
	x := &tree{f: f}
	if x.top, err = FromFabric(f, DefaultCable); err != nil {
		t.Fatal(err)
	}
	for i := range x.top.Links {
		x.top.Links[i].Rate = r
	}
	if x.g, err = f.Graph(fabric.GraphOptions{VLs: 8}); err != nil {
		t.Fatal(err)
	}
	if x.rt, err = by.Compute(x.g, route.Options{}); err != nil {
		t.Fatal(err)
	}
	for i := range x.g.Switches {
		x.sw = append(x.sw, int32(f.FindGUID(x.g.Switches[i].GUID)))
	}
	return x
}

// tables are those of the tree as Tables.
func (x *tree) tables(lanes int) *Plain {
	p := NewPlain(x.top, lanes)
	for i, n := range x.sw {
		p.LFT[n] = x.rt.LFT[i]
	}
	for i := range x.f.Nodes {
		for j := range x.f.Nodes[i].Ports {
			if l := x.f.Nodes[i].Ports[j].LID; l != 0 {
				p.Attr[i][j].LID = l
			}
		}
	}
	return p
}

// leaf is the switch of each host.
func (x *tree) leaf(e *Engine) []int32 {
	out := make([]int32, e.NumHosts())
	for h := range out {
		out[h] = x.f.Port(e.HostPort(h)).Peer.Node
	}
	return out
}

// permute adds a saturated stream from each host to its image.
func permute(t testing.TB, e *Engine, perm []int, bytes int) {
	for h, d := range perm {
		if h != d {
			mustAdd(t, e, Stream{Src: h, To: To(d), Bytes: bytes})
		}
	}
}

func randomPerm(n int, seed uint64) []int {
	return rand.New(rand.NewPCG(seed, 0)).Perm(n)
}

// usedUplinks counts the (leaf, root) pairs that inter-leaf flows of a permutation
// use, and flows inside leaves.
func (x *tree) usedUplinks(e *Engine, p Tables, perm []int) (up, inside int) {
	leaf := x.leaf(e)
	used := map[[2]int32]bool{}
	for h, d := range perm {
		if leaf[h] == leaf[d] {
			if h != d {
				inside++
			}
			continue
		}
		r := e.HostPort(d)
		out := p.Route(leaf[h], x.f.Port(r).LID)
		used[[2]int32{leaf[h], int32(out)}] = true
	}
	return len(used), inside
}

// lanes are the tables of the tree, and the service levels of vftree: Algorithm 1
// of W. L. Guay et al. (2011) on its leaves.
func (x *tree) lanes(n int) (*Plain, func(src, dst int) ib.SL) {
	p := x.tables(n)
	var leaf []int32 // of each host
	number := map[int32]int32{}
	for i := range x.f.Nodes {
		if nd := &x.f.Nodes[i]; !nd.IsSwitch() {
			sw := nd.Ports[1].Peer.Node
			if _, ok := number[sw]; !ok {
				number[sw] = int32(len(number))
			}
			leaf = append(leaf, number[sw])
		}
	}
	return p, func(src, dst int) ib.SL { return ib.SL(vftree.Lane(leaf[src], leaf[dst], n)) }
}

// engineLanes are the tables with the engine's own service levels and lanes.
func (x *tree) engineLanes() (p *Plain, sl func(src, dst int) ib.SL, lanes int) {
	lanes = x.rt.NumVLs
	p = x.tables(lanes)
	index := map[int32]int32{} // node → switch of the graph
	for i, n := range x.sw {
		index[n] = int32(i)
	}
	p.SLtoVL = func(n int32, in, out uint8, sl ib.SL) ib.VL {
		if s, ok := index[n]; ok {
			return x.rt.VL(s, in, out, sl, uint8(lanes))
		}
		return ib.VL(int(sl) % lanes)
	}
	var leaf []int32
	var lid []ib.LID
	for i := range x.f.Nodes {
		if nd := &x.f.Nodes[i]; !nd.IsSwitch() {
			leaf = append(leaf, index[nd.Ports[1].Peer.Node])
			lid = append(lid, nd.Ports[1].LID)
		}
	}
	return p, func(src, dst int) ib.SL { return x.rt.PathSL(leaf[src], lid[dst]) }, lanes
}
