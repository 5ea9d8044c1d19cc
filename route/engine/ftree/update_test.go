package ftree_test

import (
	"fmt"
	"strings"
	"testing"

	"heddle/fabric"
	"heddle/ib"
	"heddle/internal/need"
	"heddle/route"
	"heddle/route/check"
	"heddle/route/engine/ftree"
	"heddle/route/routetest"
)

// trees are small fat trees of many kinds.
func trees(t testing.TB, draw func(k int) int) []routetest.Kind {
	all := []routetest.Kind{
		{Name: "three levels", Graph: routetest.Tree(4, 4).Graph()},
		{Name: "two levels", Graph: routetest.Tree2(6, 3, 4).Graph()},
		{Name: "uneven", Graph: routetest.XGFT(3, 3, 4, 3, 2, 25, 1).Graph()},
		{Name: "several LIDs", Graph: routetest.XGFT(3, 3, 3, 2, 3, 15, 4).Graph()},
	}
	for _, k := range []string{"kary 2 4", "mport 6 3", "xgft 3 2,3,4 1,3,2", "xgft 2 4,6 1,3"} {
		all = append(all, routetest.Kind{Name: k, Graph: generate(t, k, 1+draw(2))})
	}
	// Two cables to each spine, and hosts on two spines.
	b := &routetest.Net{}
	b.Switches(6)
	for l := range 4 {
		for range 3 {
			b.Host(l, 1)
		}
		for s := range 2 {
			b.Link(l, 4+s)
			b.Link(l, 4+s)
		}
	}
	b.Host(4, 1)
	all = append(all, routetest.Kind{Name: "parallel", Graph: b.Graph()})
	return all
}

// lengths are the links of all paths between CAs, by switch and LID.
func lengths(g *fabric.Graph, tb *route.Tables) []uint8 {
	cas := make([]bool, len(g.Switches))
	for _, e := range g.EndPorts {
		if e.Type != ib.NodeSwitch && e.Switch >= 0 {
			cas[e.Switch] = true
		}
	}
	all := make([]uint8, len(g.Switches)*len(g.LIDOwner))
	for l, e := range g.LIDOwner {
		if e == fabric.NoLID || g.EndPorts[e].Type == ib.NodeSwitch || g.EndPorts[e].Switch < 0 {
			continue
		}
		for s := range g.Switches {
			if !cas[s] {
				continue
			}
			k := uint8(1)
			for u := int32(s); u != g.EndPorts[e].Switch; k++ {
				p := tb.Entry(u, ib.LID(l))
				if int(p) >= len(g.PortChannel[u]) || g.PortChannel[u][p] < 0 {
					k = 0
					break
				}
				u = g.Channels[g.PortChannel[u][p]].To
			}
			all[s*len(g.LIDOwner)+l] = k
		}
	}
	return all
}

// TestUpdate: after every step the tables are right and as short as those
// computed from scratch, or both are refused; rows that did not change are
// shared, the number of workers does not matter, and a link that fails moves
// no more entries than a computation from scratch does.
func TestUpdate(t *testing.T) {
	steps, refused, fewer := 0, 0, 0
	var kept, fresh int
	for _, seed := range need.Seeds(25, 1500) {
		draw := routetest.Draws(seed, 1)
		for i, k := range trees(t, draw) {
			draw := routetest.Draws(seed, uint64(i), 7)
			w := routetest.NewWear(k.Graph)
			o := route.Options{Workers: 1 + draw(3)}
			var g *fabric.Graph
			var tb *route.Tables
			for step := range 14 {
				what := "whole"
				if step > 0 {
					what = w.Step(draw)
				}
				h := w.Graph()
				ctx := fmt.Sprintf("%s, seed %d, step %d (%s)", k.Name, seed, step, what)
				full, fullErr := ftree.Engine{}.Compute(h, o)
				if tb == nil {
					if fullErr == nil {
						verifyNamed(t, ctx, h, full)
						g, tb = h, full
					}
					continue
				}
				steps++
				from := route.Solution{Graph: g, Tables: tb}
				d := fabric.Diff(g, h)
				now, err := ftree.Engine{}.Update(from, h, d, o)
				if (err == nil) != (fullErr == nil) && (err != nil || fullErr != nil && !twice(fullErr)) {
					t.Fatalf("%s: update %v, from scratch %v", ctx, err, fullErr)
				}
				if err != nil {
					refused++
					g, tb = nil, nil
					continue
				}
				verifyNamed(t, ctx, h, now)
				if err := routetest.CheckUpdate(from, h, d, now, func(int32, ib.LID, int32) bool { return false }); err != nil {
					t.Fatalf("%s: %v", ctx, err)
				}
				if fullErr == nil {
					verifyNamed(t, ctx, h, full)
					if string(lengths(h, now)) != string(lengths(h, full)) {
						t.Fatalf("%s: other distances than from scratch", ctx)
					}
					was := tb.Remap(g, h)
					a, b := route.EntriesChanged(was, now), route.EntriesChanged(was, full)
					kept, fresh = kept+a, fresh+b
					if a < b {
						fewer++
					}
				}
				alone, err := ftree.Engine{}.Update(from, h, d, route.Options{Workers: 8})
				if err != nil || !alone.Equal(now) {
					t.Fatalf("%s: another result with 8 workers (%v)", ctx, err)
				}
				g, tb = h, now
			}
		}
	}
	t.Logf("%d steps, %d refused, %d entries changed, %d from scratch, fewer in %d steps", steps, refused, kept, fresh, fewer)
}

// twice reports whether tables were refused for a cycle that several pivots
// close; which pivots those are depends on the layout.
func twice(err error) bool { return strings.Contains(err.Error(), "closes a cycle") }

func verifyNamed(t *testing.T, ctx string, g *fabric.Graph, tb *route.Tables) {
	t.Helper()
	r := check.Verify(g, tb, check.Options{Workers: 1})
	if r.OK() {
		return
	}
	why := ""
	for _, f := range r.Failures {
		why += fmt.Sprintf("\n%v: LID %d at switch %d, entry %d", f.Kind, f.LID, f.Switch, f.Entry)
	}
	for _, c := range r.Cycles {
		why += "\n" + c.String(g)
	}
	t.Fatalf("%s: %v%s", ctx, r.Err(), why)
}
