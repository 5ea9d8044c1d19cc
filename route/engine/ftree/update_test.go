package ftree_test

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
	"heddle/route/engine/ftree"
	"heddle/route/engine/minhop"
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

// TestUpdate: after every step the tables are right and paths as short as computed from
// scratch, or both are refused; unchanged rows are shared, the number of workers does
// not matter, and a failed link moves no more entries than a computation from scratch.
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
				if err := ftree.Refill(now); err != nil {
					t.Fatalf("%s: %v", ctx, err)
				}
				if err := routetest.CheckUpdate(from, h, d, now, func(int32, ib.LID, int32) bool { return false }); err != nil {
					t.Fatalf("%s: %v", ctx, err)
				}
				if fullErr == nil {
					verifyNamed(t, ctx, h, full)
					if string(lengths(h, now)) != string(lengths(h, full)) {
						t.Fatalf("%s: other distances than from scratch", ctx)
					}
					was := tb.Remap(g, h)
					a, b := routetest.EntriesChanged(was, now), routetest.EntriesChanged(was, full)
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
	var why strings.Builder
	for _, f := range r.Failures {
		why.WriteString(fmt.Sprintf("\n%v: LID %d at switch %d, entry %d", f.Kind, f.LID, f.Switch, f.Entry))
	}
	for _, c := range r.Cycles {
		why.WriteString("\n" + c.String(g))
	}
	t.Fatalf("%s: %v%s", ctx, r.Err(), why.String())
}

// TestFailureAndReturn: a failure and its repair restore the paths between hosts (the
// pivot of paths among switches may have moved), and a removed host moves no other.
func TestFailureAndReturn(t *testing.T) {
	draw := routetest.Draws(9)
	for _, k := range append(trees(t, draw), routetest.Kind{Name: "648", Graph: generate(t, "fattree 648", 1)}) {
		g := k.Graph
		o := route.Options{Workers: 2}
		tb := compute(t, g, o)
		withHosts := make([]bool, len(g.Switches))
		for s := range withHosts {
			withHosts[s] = hasHosts(g, int32(s))
		}
		for trial := range 30 {
			w := routetest.NewWear(g)
			kind := trial % 3
			which := 0
			switch kind {
			case 0:
				which = draw(w.Cables())
				w.Cable(which, false)
			case 1:
				which = draw(len(g.Switches))
				w.Switch(which, false)
			case 2:
				all := hosts(g)
				which = int(g.LIDOwner[all[draw(len(all))]])
				w.End(which, false)
			}
			h := w.Graph()
			d := fabric.Diff(g, h)
			now, err := ftree.Engine{}.Update(route.Solution{Graph: g, Tables: tb}, h, d, o)
			if err != nil {
				continue // two-level trees with a leaf of one cable, and the like
			}
			if kind == 2 {
				for s := range h.Switches {
					for l, e := range h.LIDOwner {
						if e != fabric.NoLID && now.LFT[s][l] != tb.LFT[s][l] {
							t.Fatalf("%s: without host %d LID %d has moved", k.Name, which, l)
						}
					}
				}
			}
			back, err := ftree.Engine{}.Update(route.Solution{Graph: h, Tables: now}, g, fabric.Diff(h, g), o)
			if err != nil {
				t.Fatal(err)
			}
			for s := range g.Switches {
				for l, e := range g.LIDOwner {
					if withHosts[s] && e != fabric.NoLID && g.EndPorts[e].Type != ib.NodeSwitch && back.LFT[s][l] != tb.LFT[s][l] {
						t.Fatalf("%s, trial %d (%d): LID %d is not as before", k.Name, trial, which, l)
					}
				}
			}
		}
	}
}

// TestOneLinkFails: when a link fails in a large tree, entries move at most for the
// paths over it and for disconnected switches.
func TestOneLinkFails(t *testing.T) {
	g := generate(t, "xgft 3 6,6,6 1,6,6", 1)
	tb := compute(t, g, route.Options{})
	draw := routetest.Draws(2)
	for range 40 {
		w := routetest.NewWear(g)
		w.Cable(draw(w.Cables()), false)
		h := w.Graph()
		d := fabric.Diff(g, h)
		now, err := ftree.Engine{}.Update(route.Solution{Graph: g, Tables: tb}, h, d, route.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range hosts(g) {
			// Who sent packets of hosts over the cable, directly or not?
			for s := range g.Switches {
				if !hasHosts(g, int32(s)) || now.LFT[s][l] == tb.LFT[s][l] {
					continue
				}
				hit := false
				for u := int32(s); u != g.EndPorts[g.LIDOwner[l]].Switch; {
					c := g.PortChannel[u][tb.Entry(u, l)]
					hit = hit || d.OldChannel[c] < 0
					u = g.Channels[c].To
				}
				dest := g.EndPorts[g.LIDOwner[l]].Switch
				own := slices.ContainsFunc(g.Channels[g.Off[dest]:g.Off[dest+1]], func(c fabric.Channel) bool { return d.OldChannel[g.PortChannel[dest][c.OutPort]] < 0 })
				if !hit && !own {
					t.Fatalf("LID %d has moved at switch %d", l, s)
				}
			}
		}
	}
}

// foreign is the memory of another engine.
type foreign struct{}

func (foreign) Maker() string { return "foreign" }

// TestForeignMemo: tables of another engine, or none, are no start.
func TestForeignMemo(t *testing.T) {
	g := generate(t, "xgft 2 4,6 1,3", 1)
	tb := compute(t, g, route.Options{})
	other := *tb
	other.Memo = foreign{}
	for _, from := range []*route.Tables{nil, &other} {
		now, err := ftree.Engine{}.Update(route.Solution{Graph: g, Tables: from}, g, fabric.Diff(g, g), route.Options{})
		if err != nil || !now.Equal(tb) {
			t.Errorf("%v", err)
		}
	}
	now, err := ftree.Engine{}.Update(route.Solution{Graph: g, Tables: tb}, g, fabric.Diff(g, g), route.Options{Rebalance: true})
	if err != nil || !now.Equal(tb) {
		t.Errorf("rebalanced: %v", err)
	}
}

// TestRestart: a restarted manager finds the columns in the installed tables, although
// hosts have come and gone; those of another engine are no guide.
func TestRestart(t *testing.T) {
	draw := routetest.Draws(12)
	for _, k := range []string{"fattree 324", "fattree 648", "xgft 3 4,4,8 1,4,4", "xgft 4 3,3,3,6 1,3,3,3"} {
		g := generate(t, k, 1)
		tb := compute(t, g, route.Options{})
		w := routetest.NewWear(g)
		all := hosts(g)
		for range 5 {
			w.End(int(g.LIDOwner[all[draw(len(all)-1)]]), false)
		}
		h := w.Graph()
		d := fabric.Diff(g, h)
		now, err := ftree.Engine{}.Update(route.Solution{Graph: g, Tables: tb}, h, d, route.Options{})
		if err != nil {
			t.Fatal(err)
		}
		installed := &route.Tables{Engine: "installed", LFT: now.LFT, TopLID: now.TopLID, NumVLs: 1}
		again := compute(t, h, route.Options{Previous: installed, Workers: 2})
		if n := routetest.EntriesChanged(now, again); n != 0 {
			t.Errorf("%s: %d entries changed by a restart, without the old tables %d", k, n, routetest.EntriesChanged(now, compute(t, h, route.Options{})))
		}
		short, err := minhop.Engine{}.Compute(g, route.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if !compute(t, g, route.Options{Previous: short}).Equal(tb) {
			t.Errorf("%s: the tables of minhop have left their mark", k)
		}
	}
	g := generate(t, "xgft 2 4,6 1,3", 1)
	if _, err := (ftree.Engine{}).Compute(g, route.Options{Previous: route.New("x", 3, 5)}); err == nil {
		t.Error("previous tables of another graph")
	}
}
