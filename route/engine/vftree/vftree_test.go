package vftree_test

import (
	"slices"
	"strings"
	"testing"

	"heddle/fabric"
	"heddle/ib"
	"heddle/internal/need"
	"heddle/internal/routetest"
	"heddle/route"
	"heddle/route/check"
	"heddle/route/engine/ftree"
	"heddle/route/engine/vftree"
)

func compute(t testing.TB, e vftree.Engine, g *fabric.Graph, o route.Options) *route.Tables {
	t.Helper()
	tb, err := e.Compute(g, o)
	if err != nil {
		t.Fatal(err)
	}
	return tb
}

func verify(t testing.TB, g *fabric.Graph, tb *route.Tables) {
	t.Helper()
	if err := check.Verify(g, tb, check.Options{Workers: 2}).Err(); err != nil {
		t.Fatal(err)
	}
}

// paper is Algorithm 1 as it is printed, for so many leaves; what it adds
// after a remainder is brought below the number of lanes.
func paper(leaves, lanes int) [][]int {
	vl := make([][]int, leaves)
	set := make([][]bool, leaves)
	for i := range vl {
		vl[i], set[i] = make([]int, leaves), make([]bool, leaves)
	}
	for src := range leaves {
		v := src * 2 % lanes
		if src*2/lanes%2 == 1 {
			v = (src*2%lanes + 1) % lanes
		}
		for dst := range leaves {
			switch {
			case dst > src:
				if !set[src][dst] {
					vl[src][dst], set[src][dst] = v, true
				}
				if !set[dst][src] {
					vl[dst][src], set[dst][src] = v, true
				}
				v = (v + 1) % lanes
			case dst == src:
				vl[dst][src], set[dst][src] = 0, true
			}
		}
	}
	return vl
}

func TestAlgorithm(t *testing.T) {
	for leaves := 1; leaves < 40; leaves++ {
		for lanes := 1; lanes <= 15; lanes++ {
			for a, row := range paper(leaves, lanes) {
				for b, want := range row {
					if got := vftree.Lane(int32(a), int32(b), lanes); int(got) != want {
						t.Fatalf("%d leaves, %d lanes: leaves %d and %d on lane %d, the paper has %d", leaves, lanes, a, b, got, want)
					}
				}
			}
		}
	}
}

// TestFigure4: on the paper's tree of three leaves with two hosts each and two spines,
// hosts 3 and 5 share a link up from leaf A and use lanes 0 and 1.
func TestFigure4(t *testing.T) {
	g := routetest.Tree2(3, 2, 2).Graph()
	tb := compute(t, vftree.Engine{}, g, route.Options{})
	verify(t, g, tb)
	if tb.NumVLs != 2 {
		t.Errorf("%d lanes for three leaves", tb.NumVLs)
	}
	if tb.Entry(0, 3) != tb.Entry(0, 5) || tb.Entry(0, 3) == tb.Entry(0, 4) {
		t.Errorf("leaf A sends LIDs 3, 4, 5 by ports %d, %d, %d", tb.Entry(0, 3), tb.Entry(0, 4), tb.Entry(0, 5))
	}
	if tb.PathSL(0, 3) != 0 || tb.PathSL(0, 5) != 1 {
		t.Errorf("on lanes %d and %d", tb.PathSL(0, 3), tb.PathSL(0, 5))
	}
}

// TestInvariants: lanes are symmetric and even, and with enough of them all
// destinations that a leaf reaches by one link are on separate lanes.
func TestInvariants(t *testing.T) {
	for _, c := range []struct {
		b     *routetest.Net
		lanes int
	}{
		{routetest.Tree2(6, 3, 3), 0}, {routetest.Tree2(8, 4, 4), 0}, {routetest.Tree2(12, 6, 6), 3}, {routetest.Tree(4, 4), 2}, {routetest.XGFT(3, 3, 4, 3, 2, 25, 2), 5},
	} {
		g := c.b.Graph()
		tb := compute(t, vftree.Engine{Lanes: c.lanes}, g, route.Options{})
		verify(t, g, tb)
		if c.lanes > 0 && tb.NumVLs != c.lanes {
			t.Errorf("%d lanes, asked for %d", tb.NumVLs, c.lanes)
		}
		plain, err := ftree.Engine{}.Compute(g, route.Options{})
		if err != nil {
			t.Fatal(err)
		}
		used := make([]int, tb.NumVLs)
		leaves := 0
		for s := range g.Switches {
			if !slices.Equal(tb.LFT[s], plain.LFT[s]) {
				t.Fatal("not the tables of ftree")
			}
			if leaf(g, int32(s)) {
				leaves++
			}
		}
		for l, e := range g.LIDOwner {
			if e == fabric.NoLID || g.EndPorts[e].Type == ib.NodeSwitch {
				continue
			}
			d := g.EndPorts[e].Switch
			for m, f := range g.LIDOwner {
				if f == fabric.NoLID {
					continue
				}
				s := g.EndPorts[f].Switch
				there, back := tb.PathSL(s, ib.LID(l)), tb.PathSL(d, ib.LID(m))
				if there != back || int(there) >= tb.NumVLs {
					t.Fatalf("from switch %d to LID %d on lane %d, back on %d", s, l, there, back)
				}
				if (s == d || g.EndPorts[f].Type == ib.NodeSwitch && !leaf(g, s)) && there != 0 {
					t.Fatalf("from switch %d to LID %d on lane %d", s, l, there)
				}
				if s != d && leaf(g, s) {
					used[there]++
				}
			}
		}
		if float64(slices.Max(used)) > 2*float64(slices.Min(used)) {
			t.Errorf("lanes are used %v times", used)
		}
		if c.lanes != 0 {
			continue
		}
		// Those to leaves after it, which the paper counts through.
		for s := range int32(leaves) {
			type way struct {
				port byte
				sl   ib.SL
			}
			seen := map[way]int32{}
			for l, e := range g.LIDOwner {
				if e == fabric.NoLID || g.EndPorts[e].Type == ib.NodeSwitch || g.EndPorts[e].Switch <= s {
					continue
				}
				w := way{tb.Entry(s, ib.LID(l)), tb.PathSL(s, ib.LID(l))}
				if was, ok := seen[w]; ok && was != g.EndPorts[e].Switch {
					t.Fatalf("leaf %d reaches leaves %d and %d by port %d on lane %d", s, was, g.EndPorts[e].Switch, w.port, w.sl)
				}
				seen[w] = g.EndPorts[e].Switch
			}
		}
	}
}

func leaf(g *fabric.Graph, s int32) bool {
	return slices.ContainsFunc(g.EndPorts, func(e fabric.EndPort) bool { return e.Switch == s && e.Type != ib.NodeSwitch })
}

func TestBudget(t *testing.T) {
	g := routetest.Tree2(12, 4, 4).Graph() // 8 lanes on each link
	if tb := compute(t, vftree.Engine{}, g, route.Options{}); tb.NumVLs != 8 {
		t.Errorf("%d lanes of 8", tb.NumVLs)
	}
	if tb := compute(t, vftree.Engine{}, g, route.Options{MaxVLs: 3}); tb.NumVLs != 3 {
		t.Errorf("%d lanes of 3", tb.NumVLs)
	}
	if _, err := (vftree.Engine{Lanes: 9}).Compute(g, route.Options{}); err == nil || !strings.Contains(err.Error(), "vftree: needs 9 lanes, 8 are allowed (link 0x") {
		t.Errorf("9 lanes: %v", err)
	}
	if _, err := (vftree.Engine{Lanes: 4}).Compute(g, route.Options{MaxVLs: 2}); err == nil || err.Error() != "vftree: needs 4 lanes, 2 are allowed" {
		t.Errorf("4 lanes of 2: %v", err)
	}
	if _, err := (vftree.Engine{Lanes: 16}).Compute(g, route.Options{}); err == nil {
		t.Error("16 lanes")
	}
	if _, err := (vftree.Engine{}).Compute(routetest.Torus(4, 4, 1).Graph(), route.Options{}); err == nil || !strings.HasPrefix(err.Error(), "vftree: no tree: ") {
		t.Errorf("a torus: %v", err)
	}
}

// TestUpdate: tables stay right over changes, and pairs of leaves keep their
// service levels.
func TestUpdate(t *testing.T) {
	for _, seed := range need.Seeds(30, 600) {
		draw := routetest.Draws(seed, 2)
		for i, base := range []*fabric.Graph{
			routetest.Tree(4, 4).Graph(), routetest.Tree2(8, 4, 3).Graph(), routetest.XGFT(3, 3, 3, 2, 3, 15, 4).Graph(),
		} {
			w := routetest.NewWear(base)
			e := vftree.Engine{Lanes: draw(4)}
			var g *fabric.Graph
			var tb *route.Tables
			levels := map[[2]ib.GUID]ib.SL{}
			for step := range 12 {
				if step > 0 {
					w.Step(draw)
				}
				h := w.Graph()
				var now *route.Tables
				var err error
				if tb == nil {
					now, err = e.Compute(h, route.Options{Workers: 2})
					clear(levels)
				} else {
					now, err = e.Update(route.Solution{Graph: g, Tables: tb}, h, fabric.Diff(g, h), route.Options{Workers: 1 + draw(3)})
				}
				if err != nil {
					tb = nil
					continue
				}
				verify(t, h, now)
				for s := range h.Switches {
					for l, o := range h.LIDOwner {
						if o == fabric.NoLID || !leaf(h, int32(s)) || !leaf(h, h.EndPorts[o].Switch) {
							continue
						}
						pair := [2]ib.GUID{h.Switches[s].GUID, h.Switches[h.EndPorts[o].Switch].GUID}
						sl := now.PathSL(int32(s), ib.LID(l))
						if was, ok := levels[pair]; ok && was != sl {
							t.Fatalf("seed %d, net %d, step %d: from switch %v to %v by SL %d, before by %d", seed, i, step, pair[0], pair[1], sl, was)
						}
						levels[pair] = sl
					}
				}
				g, tb = h, now
			}
		}
	}
}

func TestAnyNumberOfWorkers(t *testing.T) {
	g := routetest.Tree(8, 6).Graph()
	one := compute(t, vftree.Engine{}, g, route.Options{})
	for _, workers := range []int{2, 3, 8} {
		if !compute(t, vftree.Engine{}, g, route.Options{Workers: workers}).Equal(one) {
			t.Errorf("another result with %d workers", workers)
		}
	}
}

func BenchmarkCompute(b *testing.B) { routetest.BenchCompute(b, vftree.Engine{}) }

func BenchmarkUpdateLink(b *testing.B) { routetest.BenchUpdateLink(b, vftree.Engine{}) }
