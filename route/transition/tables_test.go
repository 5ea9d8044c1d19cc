package transition_test

import (
	"math/rand/v2"

	"heddle/fabric"
	"heddle/ib"
	"heddle/route"
	"heddle/route/engine/updn"
)

// randomTables are updn's from a random root, with service levels, lanes and
// trees as kind says.
func randomTables(g *fabric.Graph, rng *rand.Rand, levels, lanes, trees bool) *route.Tables {
	t, err := updn.Engine{}.Compute(g, route.Options{Roots: []ib.GUID{g.Switches[rng.IntN(len(g.Switches))].GUID}})
	if err != nil {
		panic(err)
	}
	if levels {
		t.SwitchClasses(g)
		t.SL = make([]ib.SL, len(g.Switches)*t.NumClasses)
		for i := range t.SL {
			t.SL[i] = ib.SL(rng.IntN(4))
		}
		t.NumVLs = 4
	}
	if lanes {
		t.Lanes = &route.Lanes{}
		for range 3 {
			var row [16]ib.VL
			for sl := range row {
				row[sl] = ib.VL(rng.IntN(3))
				if rng.IntN(12) == 0 {
					row[sl] = 15
				}
			}
			t.Lanes.Rows = append(t.Lanes.Rows, row)
		}
		for s := range g.Switches {
			st := int(g.Switches[s].NumPorts) + 1
			index := make([]uint8, st*st)
			for i := range index {
				index[i] = uint8(rng.IntN(3))
			}
			t.Lanes.Index, t.Lanes.Stride = append(t.Lanes.Index, index), append(t.Lanes.Stride, uint16(st))
		}
	}
	if trees {
		t.Multicast = &route.Multicast{}
		for i := range 1 + rng.IntN(3) {
			if rng.IntN(4) > 0 {
				t.Multicast.Trees = append(t.Multicast.Trees, randomTree(g, rng, 0xC000+ib.LID(i*20), levels))
			}
		}
	}
	return t
}

// randomTree grows a tree over the tables' kind of legal paths: breadth first
// from a random switch.
func randomTree(g *fabric.Graph, rng *rand.Rand, mlid ib.LID, levels bool) route.Tree {
	t := route.Tree{MLID: mlid}
	if levels {
		t.SL = ib.SL(rng.IntN(4))
	}
	n := len(g.Switches)
	ports := make([][4]uint64, n)
	in := make([]bool, n)
	queue := []int32{int32(rng.IntN(n))}
	in[queue[0]] = true
	set := func(s int32, p uint8) { ports[s][p/64] |= 1 << (p % 64) }
	for len(queue) > 0 {
		u := queue[0]
		queue = queue[1:]
		for _, c := range g.Channels[g.Off[u]:g.Off[u+1]] {
			if !in[c.To] && rng.IntN(8) > 0 {
				in[c.To] = true
				set(u, c.OutPort)
				set(c.To, c.InPort)
				queue = append(queue, c.To)
			}
		}
	}
	for i := range g.EndPorts {
		if e := &g.EndPorts[i]; e.Switch >= 0 && in[e.Switch] && rng.IntN(2) == 0 {
			set(e.Switch, e.Port)
		}
	}
	for s := range n {
		if in[s] {
			t.Switches, t.Ports = append(t.Switches, int32(s)), append(t.Ports, ports[s])
		}
	}
	return t
}
