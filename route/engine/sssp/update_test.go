package sssp_test

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
	"heddle/route/engine"
	"heddle/route/engine/sssp"
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

// costs are those of the cheapest way between switches, by Floyd and Warshall.
func costs(g *fabric.Graph, o route.Options) [][]int {
	weights, _ := engine.Weights(g, o)
	n := len(g.Switches)
	d := make([][]int, n)
	for i := range d {
		d[i] = slices.Repeat([]int{1 << 20}, n)
		d[i][i] = 0
	}
	for c := range g.Channels {
		w := 1
		if weights != nil {
			w = int(weights[c])
		}
		from, to := g.Channels[c].From, g.Channels[c].To
		d[from][to] = min(d[from][to], w)
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

// right checks delivery, that every entry is on a cheapest path, and with
// lanes set that nothing can deadlock.
func right(t testing.TB, ctx string, g *fabric.Graph, tb *route.Tables, o route.Options, lanes bool) (allowed func(s int32, l ib.LID, c int32) bool) {
	t.Helper()
	r := check.Verify(g, tb, check.Options{})
	if r.UnreachablePairs != 0 || r.Loops != 0 || lanes && r.CreditCycles != 0 {
		t.Fatalf("%s: %v", ctx, r.Err())
	}
	d := costs(g, o)
	weights, _ := engine.Weights(g, o)
	allowed = func(s int32, l ib.LID, c int32) bool {
		dst := g.EndPorts[g.LIDOwner[l]].Switch
		w := 1
		if weights != nil {
			w = int(weights[c])
		}
		return dst >= 0 && d[s][dst] == w+d[g.Channels[c].To][dst]
	}
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
		for s := range tb.LFT {
			if int32(s) == g.EndPorts[e].Switch {
				continue
			}
			p := tb.LFT[s][l]
			if d[s][g.EndPorts[e].Switch] >= 1<<20 {
				if p != route.Drop {
					t.Fatalf("%s: switch %d sends LID %d, which it cannot reach, to port %d", ctx, s, l, p)
				}
				continue
			}
			if c := g.PortChannel[s][p]; c < 0 || !allowed(int32(s), ib.LID(l), c) {
				t.Fatalf("%s: switch %d, LID %d: port %d is not on a shortest path", ctx, s, l, p)
			}
		}
	}
	if err := sssp.Audit(tb); err != nil {
		t.Fatalf("%s: %v", ctx, err)
	}
	if tb.NumVLs > 1 && tb.SL == nil || tb.NumVLs > route.Budget(g, o.MaxVLs) {
		t.Fatalf("%s: %d lanes", ctx, tb.NumVLs)
	}
	return allowed
}

// TestUpdate: after every step the tables are right, as short as those
// computed from scratch, no entry moved without need, and rows that did not
// change are shared.
func TestUpdate(t *testing.T) {
	kept, afresh := 0, 0
	for _, seed := range need.Seeds(12, 400) {
		draw := routetest.Draws(seed, 1)
		for name, b := range nets(draw) {
			for _, e := range []route.Updater{sssp.Engine{}, sssp.DFEngine{}} {
				w := routetest.NewWear(b.Graph())
				g := w.Graph()
				o := route.Options{Workers: 1 + draw(3), SpreadLanes: draw(4) == 0}
				if draw(2) == 0 {
					for s := range g.Switches {
						if draw(3) == 0 && g.Switches[s].NumPorts > 0 {
							o.HopWeights = append(o.HopWeights, route.HopWeight{
								Switch: g.Switches[s].GUID, Port: uint8(1 + draw(int(g.Switches[s].NumPorts))), Weight: uint8(1 + draw(4)),
							})
						}
					}
				}
				lanes := e.Name() == "dfsssp"
				tb, err := e.Compute(g, o)
				if err != nil {
					t.Fatalf("%s, seed %d: %v", name, seed, err)
				}
				right(t, fmt.Sprintf("%s %s, seed %d", e.Name(), name, seed), g, tb, o, lanes)
				for step := range 12 {
					what := w.Step(draw)
					h := w.Graph()
					if len(h.Switches) == 0 {
						continue
					}
					ctx := fmt.Sprintf("%s %s, seed %d, step %d (%s)", e.Name(), name, seed, step, what)
					from := route.Solution{Graph: g, Tables: tb}
					d := fabric.Diff(g, h)
					now, err := e.Update(from, h, d, o)
					if err != nil {
						t.Fatalf("%s: %v", ctx, err)
					}
					allowed := right(t, ctx, h, now, o, lanes)
					if err := routetest.CheckUpdate(from, h, d, now, allowed); err != nil {
						t.Fatalf("%s: %v", ctx, err)
					}
					if lanes && sssp.Kept(now) {
						keepsLevels(t, ctx, from, h, d, now)
						kept++
					} else if lanes {
						afresh++
					}
					again := o
					again.Workers = 4
					if other, err := e.Update(from, h, d, again); err != nil || !other.Equal(now) {
						t.Fatalf("%s: other tables with other workers: %v", ctx, err)
					}
					g, tb = h, now
				}
			}
		}
	}
	if afresh*20 > kept {
		t.Errorf("%d updates kept the levels of what stayed, %d did not", kept, afresh)
	}
}

// keepsLevels checks that pairs whose whole path is what it was keep their
// service level.
func keepsLevels(t testing.TB, ctx string, from route.Solution, h *fabric.Graph, d *fabric.Delta, now *route.Tables) {
	t.Helper()
	was := from.Tables
	old := from.Graph
	// A class moves as a whole: look at classes none of whose LIDs changed.
	classOf := func(t *route.Tables, l int) int32 {
		if t.Class == nil {
			return int32(l)
		}
		return t.Class[l]
	}
	for s, o := range d.Switch {
		if o < 0 {
			continue
		}
		changed := map[int32]bool{}
		for l := 1; l <= int(max(h.TopLID, old.TopLID)); l++ {
			same := l <= int(h.TopLID) && l <= int(old.TopLID) && !slices.Contains(d.LIDs, ib.LID(l))
			if same && h.LIDOwner[l] != fabric.NoLID && h.EndPorts[h.LIDOwner[l]].Switch >= 0 {
				same = slices.Equal(walk(h, now, int32(s), l, nil), walk(old, was, o, l, d.OldChannel)) &&
					counted(h, int32(s), l) == counted(old, o, l)
			}
			if !same && l <= int(h.TopLID) {
				changed[classOf(now, l)] = true
			}
			if !same && l <= int(old.TopLID) && was.Class != nil && was.Class[l] >= 0 {
				// Whoever was of its class may be said to have changed too.
				for k := 1; k <= int(min(h.TopLID, old.TopLID)); k++ {
					if classOf(was, k) == classOf(was, l) {
						changed[classOf(now, k)] = true
					}
				}
			}
		}
		for l := 1; l <= int(min(h.TopLID, old.TopLID)); l++ {
			if h.LIDOwner[l] == fabric.NoLID || h.EndPorts[h.LIDOwner[l]].Switch < 0 || changed[classOf(now, l)] {
				continue
			}
			if a, b := was.PathSL(o, ib.LID(l)), now.PathSL(int32(s), ib.LID(l)); a != b && counted(h, int32(s), l) {
				t.Fatalf("%s: switch %d to LID %d: the path is the same, the level %d became %d", ctx, s, l, a, b)
			}
		}
	}
}

func counted(g *fabric.Graph, s int32, l int) bool {
	if g.EndPorts[g.LIDOwner[l]].Type != ib.NodeSwitch {
		return true
	}
	for i := range g.EndPorts {
		if e := &g.EndPorts[i]; e.Switch == s && e.Type != ib.NodeSwitch && e.LID != 0 {
			return true
		}
	}
	return false
}

// walk lists the channels of a path, in the numbers of another graph.
func walk(g *fabric.Graph, t *route.Tables, s int32, l int, as []int32) []int32 {
	var path []int32
	for s != g.EndPorts[g.LIDOwner[l]].Switch {
		p := t.Entry(s, ib.LID(l))
		if int(p) >= len(g.PortChannel[s]) || g.PortChannel[s][p] < 0 {
			return append(path, -2)
		}
		c := g.PortChannel[s][p]
		s = g.Channels[c].To
		if as != nil {
			c = as[c]
		}
		path = append(path, c)
	}
	return path
}
