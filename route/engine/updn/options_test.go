package updn_test

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
	"heddle/route/engine/updn"
)

// TestOptions: with any options, tables are proved right, and Update keeps the state
// that computing from scratch would, with exact loads, for any number of workers.
func TestOptions(t *testing.T) {
	for _, seed := range need.Seeds(20, 500) {
		draw := routetest.Draws(seed, 6)
		for i, k := range routetest.Kinds(draw) {
			draw := routetest.Draws(seed, uint64(i), 8)
			w := routetest.NewWear(k.Graph)
			g := w.Graph()
			o := route.Options{IDs: map[ib.GUID]uint64{}, PortOrder: map[ib.GUID][]uint8{}, ConnectRoots: draw(2) == 0}
			for s := range g.Switches {
				guid := g.Switches[s].GUID
				if draw(2) == 0 {
					o.IDs[guid] = uint64(draw(4))
				}
				if draw(4) == 0 {
					o.PortOrder[guid] = []uint8{uint8(1 + draw(6)), uint8(1 + draw(6))}
				}
				if draw(6) == 0 {
					o.Roots = append(o.Roots, guid)
				}
			}
			for _, c := range g.Channels {
				if draw(6) == 0 {
					o.HopWeights = append(o.HopWeights, route.HopWeight{Switch: g.Switches[c.From].GUID, Port: c.OutPort, Weight: uint8(1 + draw(5))})
				}
			}
			for e := range g.EndPorts {
				switch draw(6) {
				case 0:
					o.RoutingOrder = append(o.RoutingOrder, g.EndPorts[e].GUID)
				case 1:
					o.Unbalanced = append(o.Unbalanced, g.EndPorts[e].GUID)
				}
			}
			mirrored := draw(3) == 0
			e := route.Updater(updn.Engine{})
			if mirrored {
				e = updn.Mirrored{}
			}
			tb, err := e.Compute(g, o)
			if err != nil {
				t.Fatal(err)
			}
			for step := range 5 {
				what := w.Step(draw)
				h := w.Graph()
				if len(h.Switches) == 0 {
					continue
				}
				ctx := fmt.Sprintf("%s, seed %d, step %d (%s)", k.Name, seed, step, what)
				from, d := route.Solution{Graph: g, Tables: tb}, fabric.Diff(g, h)
				now, err := e.Update(from, h, d, o)
				if err != nil {
					t.Fatalf("%s: %v", ctx, err)
				}
				if r := check.Verify(h, now, check.Options{}); !r.OK() || r.CreditCyclesSwitch > 0 {
					t.Fatalf("%s: %v", ctx, r.Err())
				}
				if now.Memo != nil {
					if err := updn.CheckMemo(h, now, o, mirrored); err != nil {
						t.Fatalf("%s: %v", ctx, err)
					}
				}
				for _, workers := range []int{2, 3, 8} {
					p := o
					p.Workers = workers
					if again, err := e.Update(from, h, d, p); err != nil || !again.Equal(now) {
						t.Fatalf("%s: %d workers give other tables (%v)", ctx, workers, err)
					}
				}
				g, tb = h, now
			}
		}
	}
}

// TestIDs: among switches of one level the smaller ID is the upper one.
func TestIDs(t *testing.T) {
	g := routetest.Torus(4, 4, 1).Graph()
	ids := map[ib.GUID]uint64{}
	for s := range g.Switches {
		ids[g.Switches[s].GUID] = uint64(100 - s)
	}
	o := route.Options{Roots: []ib.GUID{g.Switches[5].GUID}}
	plain := updn.Rank(g, o).Order
	o.IDs = ids
	turned := updn.Rank(g, o).Order
	if plain[0] != 5 || turned[0] != 5 {
		t.Fatalf("the root is not first: %v, %v", plain, turned)
	}
	o.IDs[0xbeef] = 1
	if note := updn.Rank(g, o).Note; !strings.Contains(note, "ids") || !strings.Contains(note, "beef") {
		t.Errorf("note %q does not name the ID of no switch", note)
	}
	if !slices.Equal(plain[1:5], []int32{1, 4, 6, 9}) || !slices.Equal(turned[1:5], []int32{9, 6, 4, 1}) {
		t.Errorf("level 1 is %v by GUID and %v by ID", plain[1:5], turned[1:5])
	}
}

// TestRootsReachEachOther by legal paths, in whole and damaged trees.
func TestRootsReachEachOther(t *testing.T) {
	for _, seed := range need.Seeds(20, 200) {
		draw := routetest.Draws(seed, 9)
		g := routetest.Damaged(routetest.Tree(6, 6), draw(20), draw).Graph()
		r := updn.Rank(g, route.Options{})
		tb := compute(t, g, route.Options{ConnectRoots: true})
		legal(t, g, tb, r.Order)
		if v := check.Verify(g, tb, check.Options{}); !v.OK() || v.CreditCyclesSwitch > 0 {
			t.Fatalf("seed %d: %v, %d cycles of switches", seed, v.Err(), v.CreditCyclesSwitch)
		}
	}
}

// TestShortTables: switches whose tables lack LIDs are lowest in the order, so that
// paths can avoid them.
func TestShortTables(t *testing.T) {
	for _, seed := range need.Seeds(60, 500) {
		draw := routetest.Draws(seed, 10)
		b := routetest.Torus(4, 4, 2)
		b.Cap = map[int]int{draw(16): 1 + draw(48), draw(16): 1 + draw(48)}
		g := b.Graph()
		want := check.Verify(g, tables(t, minhop.Engine{}, g), check.Options{})
		for _, e := range []route.Updater{updn.Engine{}, updn.Mirrored{}} {
			tb := tables(t, e, g)
			if r := check.Verify(g, tb, check.Options{}); r.UnreachablePairs > want.UnreachablePairs || r.Loops+int64(r.CreditCycles) > 0 {
				t.Fatalf("seed %d, %s: %v; min-hop leaves %d pairs", seed, e.Name(), r.Err(), want.UnreachablePairs)
			}
			h := routetest.Without(g, nil, []int32{int32(draw(len(g.Channels)))})
			now, err := e.Update(route.Solution{Graph: g, Tables: tb}, h, fabric.Diff(g, h), route.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if r := check.Verify(h, now, check.Options{}); r.Loops+int64(r.CreditCycles) > 0 {
				t.Fatalf("seed %d, %s: %v", seed, e.Name(), r.Err())
			}
		}
	}
}

func tables(t *testing.T, e route.Engine, g *fabric.Graph) *route.Tables {
	t.Helper()
	tb, err := e.Compute(g, route.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return tb
}
