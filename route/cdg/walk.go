package cdg

import (
	"heddle/fabric"
	"heddle/ib"
	"heddle/route"
)

// Walker finds the dependencies that tables make, one destination at a time.
// It takes it that every end port, and every switch, sends to every LID, which
// is more than the data traffic that a fabric can have: check tells traffic
// between switches apart. It is for one goroutine.
type Walker struct {
	f     *fabric.Graph
	t     *route.Tables
	ports [][]uint8    // by switch: ports that packets are injected by
	seen  [][16]uint16 // by switch and service level: lanes walked on from there
	done  [][16]uint16 // by switch and lane: lanes of the next link told already
	out   []int32
}

// NewWalker prepares to walk t, whose rows are in the order of f's switches and
// which must not be malformed (see check.Report).
func NewWalker(f *fabric.Graph, t *route.Tables) *Walker {
	w := &Walker{f: f, t: t, out: make([]int32, len(f.Switches))}
	if t.SL == nil && t.Lanes == nil {
		return w
	}
	w.ports = make([][]uint8, len(f.Switches))
	for s := range w.ports {
		w.ports[s] = append(w.ports[s], 0)
	}
	for e := range f.EndPorts {
		if p := &f.EndPorts[e]; p.Switch >= 0 && p.Port != 0 {
			w.ports[p.Switch] = append(w.ports[p.Switch], p.Port)
		}
	}
	w.seen, w.done = make([][16]uint16, len(f.Switches)), make([][16]uint16, len(f.Switches))
	return w
}

// Each calls fn once for each dependency of packets to lid. Packets end where
// an entry leads to no other switch, and where a link does not have their lane.
//
// Complexity O(switches) if tables have no lanes, else times the ports with
// hosts of a switch.
func (w *Walker) Each(lid ib.LID, fn func(d Dep)) {
	f := w.f
	if int(lid) >= len(f.LIDOwner) || f.LIDOwner[lid] == fabric.NoLID {
		return
	}
	dst := f.EndPorts[f.LIDOwner[lid]].Switch
	for s := range w.out {
		w.out[s] = -1
		limit := int(f.Switches[s].LinearFDBCap)
		if int32(s) == dst || dst < 0 || limit > 0 && int(lid) >= limit {
			continue
		}
		if p := int(w.t.Entry(int32(s), lid)); p < len(f.PortChannel[s]) {
			w.out[s] = f.PortChannel[s][p]
		}
	}
	if w.ports == nil {
		for _, c1 := range w.out {
			if c1 < 0 {
				continue
			}
			k := &f.Channels[c1]
			if c2 := w.out[k.To]; c2 >= 0 {
				fn(Dep{Switch: k.To, In: k.InPort, Out: f.Channels[c2].OutPort})
			}
		}
		return
	}
	clear(w.seen)
	clear(w.done)
	for s := range w.ports {
		sl := w.t.PathSL(int32(s), lid)
		for _, in := range w.ports[s] {
			w.follow(int32(s), in, sl, fn)
		}
	}
}

// follow walks from a port on, until others have gone the same way before.
func (w *Walker) follow(at int32, in uint8, sl ib.SL, fn func(d Dep)) {
	last, was := int32(-1), uint8(0) // the switch before, and the lane from there
	for {
		c := w.out[at]
		if c < 0 {
			return
		}
		k := &w.f.Channels[c]
		lane := uint8(w.t.VL(at, in, k.OutPort, sl, k.VLs))
		if lane >= max(k.VLs, 1) {
			return
		}
		if last >= 0 && w.done[last][was]>>lane&1 == 0 {
			w.done[last][was] |= 1 << lane
			fn(Dep{at, in, was, k.OutPort, lane})
		}
		if w.seen[at][sl&15]>>lane&1 != 0 {
			return
		}
		w.seen[at][sl&15] |= 1 << lane
		last, was = at, lane
		at, in = k.To, k.InPort
	}
}

// AddLID changes the counts of all dependencies of packets to lid by n, and
// returns those that are new.
func (g *Graph) AddLID(w *Walker, lid ib.LID, n int) (fresh []Dep) {
	w.Each(lid, func(d Dep) {
		if g.Add(d, n) > 0 {
			fresh = append(fresh, d)
		}
	})
	return fresh
}
