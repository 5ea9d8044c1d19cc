package minhop_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"heddle/fabric"
	"heddle/ib"
	"heddle/internal/need"
	"heddle/internal/routetest"
	"heddle/route"
	"heddle/route/check"
	"heddle/route/engine/minhop"
)

// weigh draws hop weights for some ports.
func weigh(g *fabric.Graph, draw func(int) int, most int) []route.HopWeight {
	var all []route.HopWeight
	for _, c := range g.Channels {
		if draw(3) == 0 {
			all = append(all, route.HopWeight{Switch: g.Switches[c.From].GUID, Port: c.OutPort, Weight: uint8(1 + draw(most))})
		}
	}
	return all
}

// cheapest checks entries against costs by Floyd and Warshall.
func cheapest(g *fabric.Graph, tb *route.Tables, o route.Options) error {
	n := len(g.Switches)
	cost := map[[2]int]int{}
	for _, h := range o.HopWeights {
		for s := range g.Switches {
			if g.Switches[s].GUID == h.Switch {
				cost[[2]int{s, int(h.Port)}] = int(h.Weight)
			}
		}
	}
	at := func(c *fabric.Channel) int {
		if w, ok := cost[[2]int{int(c.From), int(c.OutPort)}]; ok {
			return w
		}
		return 1
	}
	const far = 1 << 20
	d := make([][]int, n)
	for s := range d {
		d[s] = slices.Repeat([]int{far}, n)
		d[s][s] = 0
	}
	for i := range g.Channels {
		c := &g.Channels[i]
		d[c.From][c.To] = min(d[c.From][c.To], at(c))
	}
	for k := range n {
		for i := range n {
			for j := range n {
				d[i][j] = min(d[i][j], d[i][k]+d[k][j])
			}
		}
	}
	for l := 1; l <= int(g.TopLID); l++ {
		e := g.LIDOwner[l]
		if e == fabric.NoLID || g.EndPorts[e].Switch < 0 {
			continue
		}
		dst := g.EndPorts[e].Switch
		for s := range g.Switches {
			if int32(s) == dst || d[s][dst] >= far {
				continue
			}
			p := tb.LFT[s][l]
			if int(p) >= len(g.PortChannel[s]) || g.PortChannel[s][p] < 0 {
				return fmt.Errorf("switch %d LID %d: entry %d", s, l, p)
			}
			c := &g.Channels[g.PortChannel[s][p]]
			if d[c.To][dst]+at(c) != d[s][dst] {
				return fmt.Errorf("switch %d LID %d: cost %d by port %d, %d is possible", s, l, d[c.To][dst]+at(c), p, d[s][dst])
			}
		}
	}
	return nil
}

func TestHopWeights(t *testing.T) {
	for _, seed := range need.Seeds(60, 1000) {
		draw := routetest.Draws(seed, 3)
		for i, k := range routetest.Kinds(draw) {
			name, draw := k.Name, routetest.Draws(seed, uint64(i), 7)
			w := routetest.NewWear(k.Graph)
			g := w.Graph()
			o := route.Options{Workers: 1 + draw(3), HopWeights: weigh(g, draw, []int{3, 20, 255}[draw(3)])}
			tb := compute(t, g, o)
			if err := cheapest(g, tb, o); err != nil {
				t.Fatalf("%s, seed %d: %v", name, seed, err)
			}
			for step := range 5 {
				what := w.Step(draw)
				h := w.Graph()
				if len(h.Switches) == 0 {
					continue
				}
				ctx := fmt.Sprintf("%s, seed %d, step %d (%s)", name, seed, step, what)
				now, err := minhop.Engine{}.Update(route.Solution{Graph: g, Tables: tb}, h, fabric.Diff(g, h), o)
				if err != nil {
					t.Fatalf("%s: %v", ctx, err)
				}
				if err := cheapest(h, now, o); err != nil {
					t.Fatalf("%s: %v", ctx, err)
				}
				if now.Memo != nil {
					if err := minhop.CheckMemo(h, now, o); err != nil {
						t.Fatalf("%s: %v", ctx, err)
					}
				}
				g, tb = h, now
			}
		}
	}
}

// TestUnknownGUIDsNoted: the tables' note names GUIDs of options that the fabric lacks.
func TestUnknownGUIDsNoted(t *testing.T) {
	g := routetest.Tree2(3, 2, 2).Graph()
	tb := compute(t, g, route.Options{
		HopWeights:   []route.HopWeight{{Switch: 0xa1, Port: 1, Weight: 3}, {Switch: g.Switches[0].GUID, Port: 200, Weight: 3}},
		PortOrder:    map[ib.GUID][]uint8{0xa2: {1}, g.Switches[0].GUID: {200, 3}},
		RoutingOrder: []ib.GUID{0xa3},
		Unbalanced:   []ib.GUID{0xa4},
	})
	for _, want := range []string{"hop weights", "00a1", "port order", "00a2", "routing order", "00a3", "unbalanced", "00a4"} {
		if !strings.Contains(tb.Note, want) {
			t.Errorf("note %q does not say %q", tb.Note, want)
		}
	}
	if tb := compute(t, g, route.Options{RoutingOrder: []ib.GUID{g.EndPorts[0].GUID}}); tb.Note != "" {
		t.Errorf("note %q", tb.Note)
	}
}

// TestPortOrder: among equally loaded choices the named ports come first, in
// their order.
func TestPortOrder(t *testing.T) {
	g := routetest.Tree2(2, 4, 1).Graph() // leaf 0: port 1 the host, 2 to 5 the spines
	for _, order := range [][]uint8{{5, 3}, {2}, {4, 2, 3, 5}} {
		tb := compute(t, g, route.Options{PortOrder: map[ib.GUID][]uint8{g.Switches[0].GUID: order}})
		if got := tb.LFT[0][2]; got != order[0] { // LID 2: the other leaf's host
			t.Errorf("order %v: port %d", order, got)
		}
	}
}

// TestUnbalanced: paths to ports that count as no load do not push others
// aside, nor do paths from them.
func TestUnbalanced(t *testing.T) {
	g := routetest.Tree2(2, 2, 4).Graph() // LIDs 5–8 on leaf 1
	all := compute(t, g, route.Options{})
	count := func(tb *route.Tables, lids ...int) (n [8]int) {
		for _, l := range lids {
			n[tb.LFT[0][l]]++
		}
		return n
	}
	if n := count(all, 5, 6, 7, 8); n[5] != 2 || n[6] != 2 {
		t.Fatalf("four LIDs use ports %v", n)
	}
	tb := compute(t, g, route.Options{Unbalanced: []ib.GUID{g.EndPorts[4].GUID, g.EndPorts[6].GUID}})
	if n := count(tb, 6, 8); n[5] != 1 || n[6] != 1 {
		t.Errorf("the two LIDs that count use ports %v", n)
	}
	if r := check.Verify(g, tb, check.Options{}); !r.OK() {
		t.Error(r.Err())
	}
}

// TestRoutingOrder: the LID named first finds all channels empty.
func TestRoutingOrder(t *testing.T) {
	g := routetest.Tree2(2, 3, 3).Graph() // LIDs 4–6 on leaf 1; leaf 0: spines on ports 4–6
	for l := ib.LID(4); l <= 6; l++ {
		tb := compute(t, g, route.Options{RoutingOrder: []ib.GUID{g.EndPorts[g.LIDOwner[l]].GUID}})
		if p := tb.LFT[0][l]; p != 4 {
			t.Errorf("LID %d, first of all, leaves by port %d", l, p)
		}
	}
}

// TestUpdateWithOptions: loads stay exact with any options, and the result does not
// depend on the number of workers.
func TestUpdateWithOptions(t *testing.T) {
	for _, seed := range need.Seeds(30, 500) {
		draw := routetest.Draws(seed, 4)
		for i, k := range routetest.Kinds(draw) {
			name, draw := k.Name, routetest.Draws(seed, uint64(i), 7)
			w := routetest.NewWear(k.Graph)
			g := w.Graph()
			o := route.Options{PortOrder: map[ib.GUID][]uint8{}}
			for e := range g.EndPorts {
				switch draw(6) {
				case 0:
					o.RoutingOrder = append(o.RoutingOrder, g.EndPorts[e].GUID)
				case 1:
					o.Unbalanced = append(o.Unbalanced, g.EndPorts[e].GUID)
				}
			}
			for s := range g.Switches {
				if draw(3) == 0 {
					o.PortOrder[g.Switches[s].GUID] = []uint8{uint8(1 + draw(6)), uint8(1 + draw(6))}
				}
			}
			tb := compute(t, g, o)
			for step := range 6 {
				what := w.Step(draw)
				h := w.Graph()
				if len(h.Switches) == 0 {
					continue
				}
				ctx := fmt.Sprintf("%s, seed %d, step %d (%s)", name, seed, step, what)
				from, d := route.Solution{Graph: g, Tables: tb}, fabric.Diff(g, h)
				now, err := minhop.Engine{}.Update(from, h, d, o)
				if err != nil {
					t.Fatalf("%s: %v", ctx, err)
				}
				shortest(t, h, now)
				if err := minhop.CheckMemo(h, now, o); err != nil {
					t.Fatalf("%s: %v", ctx, err)
				}
				for _, workers := range []int{2, 3, 8} {
					o.Workers = workers
					if again, err := (minhop.Engine{}).Update(from, h, d, o); err != nil || !again.Equal(now) {
						t.Fatalf("%s: %d workers give other tables (%v)", ctx, workers, err)
					}
				}
				o.Workers = 0
				g, tb = h, now
			}
		}
	}
}
