package grid

import (
	"cmp"
	"slices"

	"heddle/fabric"
	"heddle/ib"
	"heddle/route"
)

// hosted reports which switches have CA or router ports with LIDs.
func hosted(g *fabric.Graph) []bool {
	has := make([]bool, len(g.Switches))
	for i := range g.EndPorts {
		if e := &g.EndPorts[i]; e.Type != ib.NodeSwitch && e.Switch >= 0 && e.LID != 0 {
			has[e.Switch] = true
		}
	}
	return has
}

// tables writes the result down.
func (r *router) tables(legal, spare int) *route.Tables {
	g := r.n.g
	n := len(g.Switches)
	t := route.New(r.o.Engine, n, g.TopLID)
	nth := turns(g, r.o.HostOrder)
	hop := make([][]int32, max(r.o.Workers, 1))
	cells := make([]int32, n)
	copy(cells, r.gr.Cell)
	route.ForEach(r.o.Workers, n, func(w, s int) {
		if hop[w] == nil {
			hop[w] = make([]int32, n)
		}
		h := hop[w]
		for d := range n {
			h[d] = -1
			if d != s {
				if to := r.next(cells[s], cells[d]); to >= 0 {
					h[d] = r.n.link(int32(s), r.gr.Switch[to])
				}
			}
		}
		row := t.LFT[s]
		for l, e := range g.LIDOwner {
			if e == fabric.NoLID || g.EndPorts[e].Switch < 0 {
				continue
			}
			d := g.EndPorts[e].Switch
			if int(d) == s {
				row[l] = g.EndPorts[e].Port
			} else if k := h[d]; k >= 0 {
				cs := r.n.chans[r.n.coff[k]:r.n.coff[k+1]]
				row[l] = g.Channels[cs[(int(nth[l])+r.sum(cells[d]))%len(cs)]].OutPort
			}
		}
	})
	if legal+spare == 1 {
		return t
	}
	t.SwitchClasses(g)
	if legal > 1 {
		t.SL = make([]ib.SL, n*n)
		route.ForEach(r.o.Workers, n, func(_, s int) {
			for d := range n {
				t.SL[s*n+d] = r.level(cells[s], cells[d])
			}
		})
	} else {
		t.Class, t.NumClasses = nil, 0
	}
	t.NumVLs = legal + spare
	second := 0 // first lane of the second class
	if r.o.Classes && 2*t.NumVLs <= r.o.Budget {
		second = t.NumVLs
		t.NumVLs += second
	}
	t.Lanes = r.lanes(legal, spare, second)
	return t
}

// sum is the sum of a cell's coordinates.
func (r *router) sum(c int32) int {
	D := len(r.gr.Dims)
	k := 0
	for _, v := range r.coord[int(c)*D : int(c)*D+D] {
		k += int(v)
	}
	return k
}

// turns gives, by LID, the index of its parallel link: the ports of each
// destination switch get successive links, and the LIDs of a port the following
// ones.
func turns(g *fabric.Graph, hostOrder []uint8) []uint16 {
	var place [256]int
	for p := range place {
		place[p] = 256 + p
	}
	place[0] = 512 // the switch itself comes last
	for i, p := range hostOrder {
		if place[p] >= 256 {
			place[p] = i
		}
	}
	ports := make([]int32, 0, len(g.EndPorts))
	for i := range g.EndPorts {
		if g.EndPorts[i].Switch >= 0 {
			ports = append(ports, int32(i))
		}
	}
	slices.SortStableFunc(ports, func(a, b int32) int {
		x, y := &g.EndPorts[a], &g.EndPorts[b]
		return cmp.Or(cmp.Compare(x.Switch, y.Switch), cmp.Compare(place[x.Port], place[y.Port]))
	})
	base := make([]uint16, len(g.EndPorts))
	for i := 1; i < len(ports); i++ {
		if g.EndPorts[ports[i]].Switch == g.EndPorts[ports[i-1]].Switch {
			base[ports[i]] = base[ports[i-1]] + 1
		}
	}
	nth := make([]uint16, len(g.LIDOwner))
	for l, e := range g.LIDOwner {
		if e != fabric.NoLID {
			nth[l] = base[e] + uint16(ib.LID(l)-g.EndPorts[e].LID)
		}
	}
	return nth
}

// lanes programs the SL-to-VL tables: one row for packets to end ports, and one
// for each dimension, for turns in order and against it. Levels from 8 on use
// lanes from second on.
func (r *router) lanes(legal, spare, second int) *route.Lanes {
	g := r.n.g
	D := len(r.gr.Dims)
	l := &route.Lanes{Index: make([][]uint8, len(g.Switches)), Stride: make([]uint16, len(g.Switches))}
	l.Rows = make([][16]ib.VL, 1, 1+2*D) // row 0: to end ports, all on lane 0
	for d := range D {
		for against := range 2 {
			in := -1
			if against == 1 {
				in = r.order[D-1] // later than all but itself
			}
			var row [16]ib.VL
			for sl := range row {
				lane := r.lane(in, d, ib.SL(sl), legal, spare)
				if against == 1 && in == d && spare > 0 {
					lane = r.lane(-1, d, ib.SL(sl), legal, spare) // nothing is later
				}
				if sl >= 8 {
					lane += second
				}
				row[sl] = ib.VL(lane)
			}
			l.Rows = append(l.Rows, row)
		}
	}
	for s := range g.Switches {
		ports := int(g.Switches[s].NumPorts) + 1
		l.Stride[s] = uint16(ports)
		l.Index[s] = make([]uint8, ports*ports)
		var dim [256]int
		for p := range dim {
			dim[p] = -1
		}
		for k := r.n.off[s]; k < r.n.off[s+1]; k++ {
			for _, c := range r.n.chans[r.n.coff[k]:r.n.coff[k+1]] {
				dim[g.Channels[c].OutPort] = int(r.dim[k])
			}
		}
		for out := 1; out < ports; out++ {
			if dim[out] < 0 {
				continue
			}
			for in := range ports {
				row := 1 + 2*dim[out]
				if dim[in] >= 0 && r.turn[dim[in]] > r.turn[dim[out]] {
					row++
				}
				l.Index[s][in*ports+out] = uint8(row)
			}
		}
	}
	return l
}
