package check_test

import (
	"heddle/fabric"
	"heddle/ib"
	"heddle/internal/routetest"
	"heddle/route"
	"heddle/route/check"

	"pgregory.net/rapid"
)

// drawNet is a small random net, sometimes in several parts, sometimes with
// short tables or CAs on no switch.
func drawNet(t *rapid.T) *fabric.Graph {
	draw := routetest.Draws(rapid.SliceOfN(rapid.Uint64(), 4, 4).Draw(t, "seed")...)
	n := 1 + draw(10)
	b := routetest.Random(n, draw(n+1), 2, 3, draw)
	if rapid.IntRange(0, 3).Draw(t, "parts") == 0 {
		s := b.Switches(2)
		b.Link(s, s+1)
		b.Host(s, 1)
	}
	if rapid.IntRange(0, 5).Draw(t, "loose") == 0 {
		b.Host(-1, 1)
	}
	if rapid.IntRange(0, 5).Draw(t, "short") == 0 {
		b.Cap = map[int]int{draw(n): rapid.IntRange(1, 20).Draw(t, "cap")}
	}
	return b.Graph()
}

// drawLanes gives the tables service levels and lanes, or leaves them alone.
func drawLanes(t *rapid.T, g *fabric.Graph, tb *route.Tables) {
	kind := rapid.IntRange(0, 6).Draw(t, "lanes")
	draw := routetest.Draws(rapid.Uint64().Draw(t, "lane seed"))
	most := 1 + draw(3)
	for c := range g.Channels {
		g.Channels[c].VLs = uint8(most)
	}
	if kind == 0 {
		return
	}
	tb.NumVLs = 3 - draw(6)/5
	if kind != 1 { // links of different lanes
		for c := range g.Channels {
			if draw(3) == 0 {
				v := uint8(1 + draw(3))
				g.Channels[c].VLs, g.Channels[g.Channels[c].Rev].VLs = v, v
			}
		}
	}
	if kind != 2 {
		tb.SwitchClasses(g)
		if kind > 3 { // classes of any LIDs
			tb.NumClasses = 1 + draw(5)
			for l := range tb.Class {
				tb.Class[l] = int32(draw(tb.NumClasses+1)) - 1
			}
		}
		tb.SL = make([]ib.SL, len(g.Switches)*tb.NumClasses)
		for i := range tb.SL {
			tb.SL[i] = ib.SL(draw(4))
		}
	}
	if kind == 2 || kind > 4 {
		tb.Lanes = drawSLToVL(g, kind == 6, draw)
	}
}

// drawSLToVL makes SL-to-VL tables: lanes that every link has or, if wild, any.
func drawSLToVL(g *fabric.Graph, wild bool, draw func(int) int) *route.Lanes {
	lanes := &route.Lanes{Rows: make([][16]ib.VL, 6)}
	least := uint8(15)
	for _, c := range g.Channels {
		least = min(least, c.VLs)
	}
	for i := range lanes.Rows {
		for sl := range lanes.Rows[i] {
			lanes.Rows[i][sl] = ib.VL(draw(int(least)))
			if wild && draw(12) == 0 {
				lanes.Rows[i][sl] = ib.VL([]int{0, 1, 2, 15}[draw(4)])
			}
		}
	}
	for s := range g.Switches {
		k := int(g.Switches[s].NumPorts) + 1
		lanes.Stride = append(lanes.Stride, uint16(k))
		row := make([]uint8, k*k)
		for i := range row {
			row[i] = uint8(draw(len(lanes.Rows)))
		}
		lanes.Index = append(lanes.Index, row)
	}
	return lanes
}

// checkCycle sees that a cycle is one, and that each path proves its edge.
func checkCycle(t *rapid.T, g *fabric.Graph, c *check.Cycle) {
	if len(c.Edges) < 2 {
		t.Fatalf("cycle of %d edges", len(c.Edges))
	}
	for i, e := range c.Edges {
		if next := c.Edges[(i+1)%len(c.Edges)]; e.Out != next.In {
			t.Fatalf("edge %d does not lead to the next: %+v", i, c.Edges)
		}
		if e.Src < 0 {
			t.Fatalf("edge %d has no path: %+v", i, e)
		}
		proven := false
		for k := 1; k < len(e.Path); k++ {
			proven = proven || e.Path[k-1] == e.In && e.Path[k] == e.Out
		}
		if !proven {
			t.Fatalf("the path does not go through its edge: %+v", e)
		}
	}
	_ = c.String(g)
}
