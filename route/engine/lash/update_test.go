package lash_test

import (
	"fmt"
	"slices"
	"testing"

	"heddle/fabric"
	"heddle/ib"
	"heddle/internal/need"
	"heddle/internal/routetest"
	"heddle/route"
	"heddle/route/check"
	"heddle/route/engine/lash"
)

// nets are small fabrics of many kinds.
func nets(draw func(int) int) map[string]*routetest.Net {
	return map[string]*routetest.Net{
		"tree":      routetest.Tree(4, 4),
		"two level": routetest.Tree2(6, 3, 4),
		"torus":     routetest.Torus(4, 4, 2),
		"random":    routetest.Random(10+draw(20), draw(30), 3, 1, draw),
		"lmc":       routetest.Random(6+draw(10), draw(20), 2, 4, draw),
		"line":      routetest.Random(2+draw(4), 0, 2, 1, draw),
	}
}

// distances between switches, by Floyd and Warshall.
func distances(g *fabric.Graph) [][]int {
	n := len(g.Switches)
	d := make([][]int, n)
	for i := range d {
		d[i] = slices.Repeat([]int{1 << 20}, n)
		d[i][i] = 0
	}
	for c := range g.Channels {
		d[g.Channels[c].From][g.Channels[c].To] = 1
	}
	for k := range n {
		for i := range n {
			for j := range n {
				d[i][j] = min(d[i][j], d[i][k]+d[k][j])
			}
		}
	}
	return d
}

// right checks delivery, shortest paths, one tree for each switch, symmetric
// levels and freedom from deadlock.
func right(t testing.TB, ctx string, g *fabric.Graph, tb *route.Tables, o route.Options) (allowed func(s int32, l ib.LID, c int32) bool) {
	t.Helper()
	if err := check.Verify(g, tb, check.Options{}).Err(); err != nil {
		t.Fatalf("%s: %v", ctx, err)
	}
	if err := lash.Audit(tb); err != nil {
		t.Fatalf("%s: %v", ctx, err)
	}
	if tb.NumVLs > 1 && tb.SL == nil || tb.NumVLs > route.Budget(g, o.MaxVLs) {
		t.Fatalf("%s: %d lanes", ctx, tb.NumVLs)
	}
	d := distances(g)
	tree := map[[2]int32]int32{} // by switch and destination: the next switch
	for l := 1; l < len(g.LIDOwner); l++ {
		e := g.LIDOwner[l]
		if e == fabric.NoLID || g.EndPorts[e].Switch < 0 {
			for s := range tb.LFT {
				if p := tb.LFT[s][l]; p != route.Drop {
					t.Fatalf("%s: switch %d sends LID %d, which nobody has, to port %d", ctx, s, l, p)
				}
			}
			continue
		}
		dst := g.EndPorts[e].Switch
		for s := range int32(len(tb.LFT)) {
			if s == dst {
				continue
			}
			p := tb.LFT[s][l]
			if d[s][dst] >= 1<<20 {
				if p != route.Drop {
					t.Fatalf("%s: switch %d sends LID %d, which it cannot reach, to port %d", ctx, s, l, p)
				}
				continue
			}
			v := g.Channels[g.PortChannel[s][p]].To
			if d[v][dst]+1 != d[s][dst] {
				t.Fatalf("%s: switch %d, LID %d: port %d is not on a shortest path", ctx, s, l, p)
			}
			if was, ok := tree[[2]int32{s, dst}]; ok && was != v {
				t.Fatalf("%s: switch %d sends LIDs of switch %d to switches %d and %d", ctx, s, dst, was, v)
			}
			tree[[2]int32{s, dst}] = v
		}
	}
	for a := range tb.NumClasses {
		for b := range a {
			if tb.SL[a*tb.NumClasses+b] != tb.SL[b*tb.NumClasses+a] {
				t.Fatalf("%s: levels %d and %d between switches %d and %d", ctx, tb.SL[a*tb.NumClasses+b], tb.SL[b*tb.NumClasses+a], a, b)
			}
		}
	}
	return func(s int32, l ib.LID, c int32) bool {
		dst := g.EndPorts[g.LIDOwner[l]].Switch
		return dst >= 0 && d[g.Channels[c].To][dst]+1 == d[s][dst]
	}
}

// TestUpdate: after every step the tables are right and paths as short as computed from
// scratch, no entry moved without need, unchanged rows are shared, and pairs with
// unchanged paths keep their levels.
func TestUpdate(t *testing.T) {
	kept, afresh := 0, 0
	for _, seed := range need.Seeds(16, 800) {
		draw := routetest.Draws(seed, 1)
		for name, b := range nets(draw) {
			w := routetest.NewWear(b.Graph())
			g := w.Graph()
			o := route.Options{Workers: 1 + draw(3), SpreadLanes: draw(4) == 0}
			tb, err := lash.Engine{}.Compute(g, o)
			if err != nil {
				t.Fatalf("%s, seed %d: %v", name, seed, err)
			}
			right(t, fmt.Sprintf("%s, seed %d", name, seed), g, tb, o)
			for step := range 12 {
				what := w.Step(draw)
				h := w.Graph()
				if len(h.Switches) == 0 {
					continue
				}
				ctx := fmt.Sprintf("%s, seed %d, step %d (%s)", name, seed, step, what)
				from := route.Solution{Graph: g, Tables: tb}
				d := fabric.Diff(g, h)
				now, err := lash.Engine{}.Update(from, h, d, o)
				if err != nil {
					t.Fatalf("%s: %v", ctx, err)
				}
				allowed := right(t, ctx, h, now, o)
				if lash.Kept(now) {
					kept++
					if err := routetest.CheckUpdate(from, h, d, now, allowed); err != nil {
						t.Fatalf("%s: %v", ctx, err)
					}
					keepsLevels(t, ctx, from, h, d, now)
				} else {
					afresh++
				}
				again := o
				again.Workers = 4
				if other, err := (lash.Engine{}).Update(from, h, d, again); err != nil || !other.Equal(now) {
					t.Fatalf("%s: other tables with other workers: %v", ctx, err)
				}
				g, tb = h, now
			}
		}
	}
	if afresh*20 > kept {
		t.Errorf("%d updates kept the levels of what stayed, %d did not", kept, afresh)
	}
}

// keepsLevels checks that pairs of switches whose paths both ways are what
// they were keep their service level.
func keepsLevels(t testing.TB, ctx string, from route.Solution, h *fabric.Graph, d *fabric.Delta, now *route.Tables) {
	t.Helper()
	first := func(g *fabric.Graph) []ib.LID { // by switch: a LID behind it
		lids := make([]ib.LID, len(g.Switches))
		for l, e := range g.LIDOwner {
			if e != fabric.NoLID && g.EndPorts[e].Switch >= 0 && lids[g.EndPorts[e].Switch] == 0 {
				lids[g.EndPorts[e].Switch] = ib.LID(l)
			}
		}
		return lids
	}
	hosts := func(g *fabric.Graph) []bool {
		ca := make([]bool, len(g.Switches))
		for _, e := range g.LIDOwner {
			if e != fabric.NoLID && g.EndPorts[e].Switch >= 0 && g.EndPorts[e].Type != ib.NodeSwitch {
				ca[g.EndPorts[e].Switch] = true
			}
		}
		return ca
	}
	old := from.Graph
	newLID, oldLID, newCA, oldCA := first(h), first(old), hosts(h), hosts(old)
	same := func(a, b int32) bool {
		x, y := d.Switch[a], d.Switch[b]
		return newLID[b] != 0 && oldLID[y] != 0 &&
			slices.Equal(walk(h, now, a, newLID[b], nil), walk(old, from.Tables, x, oldLID[y], d.OldSwitch))
	}
	for a := range int32(len(h.Switches)) {
		for b := range a {
			x, y := d.Switch[a], d.Switch[b]
			if x < 0 || y < 0 || !(newCA[a] || newCA[b]) || newCA[a] != oldCA[x] || newCA[b] != oldCA[y] || !same(a, b) || !same(b, a) {
				continue
			}
			if was, is := from.Tables.PathSL(x, oldLID[y]), now.PathSL(a, newLID[b]); was != is {
				t.Fatalf("%s: switches %d and %d: the paths are the same, level %d became %d", ctx, a, b, was, is)
			}
		}
	}
}

// walk lists the switches of a path, in the numbers of another graph.
func walk(g *fabric.Graph, t *route.Tables, s int32, l ib.LID, as []int32) []int32 {
	var path []int32
	for s != g.EndPorts[g.LIDOwner[l]].Switch {
		p := t.Entry(s, l)
		if int(p) >= len(g.PortChannel[s]) || g.PortChannel[s][p] < 0 {
			return append(path, -2)
		}
		s = g.Channels[g.PortChannel[s][p]].To
		if as != nil {
			path = append(path, as[s])
		} else {
			path = append(path, s)
		}
	}
	return path
}
