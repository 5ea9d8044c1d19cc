package sssp_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"heddle/fabric"
	"heddle/ib"
	"heddle/internal/enginetest"
	"heddle/internal/fabrictest"
	"heddle/internal/need"
	"heddle/internal/routetest"
	"heddle/route"
	"heddle/route/check"
	"heddle/route/engine/sssp"
)

// graph generates a fabric with lids LIDs a CA port and so many lanes a link.
func graph(t testing.TB, kind string, lids int, vls uint8, seed uint64) *fabric.Graph {
	t.Helper()
	w := strings.Fields(kind)
	f, err := fabrictest.Generate(w[0], w[1:], seed)
	if err != nil {
		t.Fatal(err)
	}
	if err := fabric.AssignLIDs(f, lids); err != nil {
		t.Fatal(err)
	}
	g, err := f.Graph(fabric.GraphOptions{VLs: vls})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// kinds are fabrics of all shapes.
var kinds = []string{
	"fattree 324", "xgft 3 3,3,3 1,2,2", "kary 3 3", "mport 4 3", "torus 4x4", "torus 5x5 hosts=2", "torus 3x3x3", "mesh 5x4", "hypercube 4",
	"hyperx 3x4 hosts=2", "dragonfly 4 2 2", "dragonfly+ 2 2 2 2", "irregular 16", "irregular 32 ports=8 links=64 hosts=2", "torus 8x8",
}

// TestMatrix: every fabric with every lane budget is routed right, or refused with the
// number of lanes needed; that number then suffices, and one less does not.
func TestMatrix(t *testing.T) {
	for _, kind := range kinds {
		g := graph(t, kind, 1, 15, 1)
		full, err := sssp.DFEngine{}.Compute(g, route.Options{Workers: 2})
		if err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
		right(t, kind, g, full, route.Options{}, true)
		// A smaller load may be worth a lane that there is.
		needs := 1
		if _, err := (sssp.DFEngine{}).Compute(g, route.Options{MaxVLs: 1}); err != nil {
			if _, err := fmt.Sscanf(err.Error(), "dfsssp: needs %d lanes", &needs); err != nil || needs > full.NumVLs {
				t.Fatalf("%s: %d lanes are needed, %d are used: %v", kind, needs, full.NumVLs, err)
			}
		}
		for _, budget := range []int{1, 2, 4, 8, needs - 1, needs, full.NumVLs - 1, full.NumVLs} {
			if budget < 1 {
				continue
			}
			o := route.Options{MaxVLs: budget, SpreadLanes: budget == 8}
			tb, err := sssp.DFEngine{}.Compute(g, o)
			if budget < needs {
				if want := fmt.Sprintf("dfsssp: needs %d lanes, %d are allowed", needs, budget); err == nil || err.Error() != want {
					t.Errorf("%s, %d lanes: %v, want %q", kind, budget, err, want)
				}
				continue
			}
			if err != nil {
				t.Fatalf("%s, %d lanes: %v", kind, budget, err)
			}
			right(t, fmt.Sprintf("%s, %d lanes", kind, budget), g, tb, o, true)
			if o.SpreadLanes && (tb.NumVLs != 8 || check.Verify(g, tb, check.Options{}).VLsUsed != 8) {
				t.Errorf("%s: %d lanes used of 8", kind, tb.NumVLs)
			}
		}
	}
}

// TestLinkLimits: the budget is that of the poorest link, which is named.
func TestLinkLimits(t *testing.T) {
	g := graph(t, "torus 8x8", 1, 8, 1)
	g.Channels[7].VLs, g.Channels[g.Channels[7].Rev].VLs = 3, 2
	_, err := sssp.DFEngine{}.Compute(g, route.Options{})
	want := fmt.Sprintf("2 are allowed (link %v port %d has 2)", g.Switches[g.Channels[7].To].GUID, g.Channels[7].InPort)
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
	_, err = sssp.DFEngine{}.Compute(graph(t, "torus 20x20", 1, 15, 1), route.Options{})
	if err == nil || !strings.Contains(err.Error(), "more than 15 lanes") {
		t.Errorf("a large torus: %v", err)
	}
}

// TestRandom: random nets, with several LIDs a port, weights, previous tables
// and short tables; any number of workers.
func TestRandom(t *testing.T) {
	for _, seed := range need.Seeds(40, 2000) {
		draw := routetest.Draws(seed, 2)
		for name, b := range nets(draw) {
			g := b.Graph()
			o := route.Options{Workers: 1, SpreadLanes: draw(3) == 0}
			for s := range g.Switches {
				if draw(4) == 0 && g.Switches[s].NumPorts > 0 {
					o.HopWeights = append(o.HopWeights, route.HopWeight{
						Switch: g.Switches[s].GUID, Port: uint8(1 + draw(int(g.Switches[s].NumPorts))), Weight: uint8(1 + draw(9)),
					})
				}
			}
			for _, e := range []route.Engine{sssp.Engine{}, sssp.DFEngine{}} {
				ctx := fmt.Sprintf("%s %s, seed %d", e.Name(), name, seed)
				first, err := e.Compute(g, o)
				if err != nil {
					t.Fatalf("%s: %v", ctx, err)
				}
				right(t, ctx, g, first, o, e.Name() == "dfsssp")
				for _, workers := range []int{2, 3, 8} {
					again := o
					again.Workers = workers
					if tb, err := e.Compute(g, again); err != nil || !tb.Equal(first) {
						t.Fatalf("%s: %d workers give other tables (%v)", ctx, workers, err)
					}
				}
				// A restart keeps every entry that is still as good as the best.
				h := routetest.NewWear(g)
				h.Step(draw)
				g2 := h.Graph()
				again := o
				again.Previous = first.Remap(g, g2)
				tb, err := e.Compute(g2, again)
				if err != nil {
					t.Fatalf("%s: %v", ctx, err)
				}
				allowed := right(t, ctx, g2, tb, o, e.Name() == "dfsssp")
				for s, was := range again.Previous.LFT {
					for l := 1; was != nil && l <= int(min(g.TopLID, g2.TopLID)); l++ {
						if was[l] == tb.LFT[s][l] || int(was[l]) >= len(g2.PortChannel[s]) || g2.LIDOwner[l] == fabric.NoLID {
							continue
						}
						if c := g2.PortChannel[s][was[l]]; c >= 0 && allowed(int32(s), ib.LID(l), c) {
							t.Fatalf("%s: switch %d: LID %d moved from port %d to %d without need", ctx, s, l, was[l], tb.LFT[s][l])
						}
					}
				}
			}
		}
	}
}

// TestShortTables: paths avoid switches whose tables are too short for a LID, or the
// LID is dropped.
func TestShortTables(t *testing.T) {
	for _, seed := range need.Seeds(40, 1000) {
		draw := routetest.Draws(seed, 3)
		b := routetest.Random(8+draw(8), 10+draw(20), 3, 2, draw)
		b.Cap = map[int]int{draw(8): 5 + draw(20), draw(8): 5 + draw(20)}
		g := b.Graph()
		for _, e := range []route.Updater{sssp.Engine{}, sssp.DFEngine{}} {
			tb, err := e.Compute(g, route.Options{})
			if err != nil {
				t.Fatal(err)
			}
			hold := func(tb *route.Tables) {
				t.Helper()
				for s, row := range tb.LFT {
					for l := int(g.Switches[s].LinearFDBCap); l <= int(g.TopLID); l++ {
						if row[l] != route.Drop {
							t.Fatalf("%s, seed %d: switch %d has an entry for LID %d, its table ends at %d", e.Name(), seed, s, l, g.Switches[s].LinearFDBCap)
						}
					}
				}
				r := check.Verify(g, tb, check.Options{})
				if r.Loops > 0 || e.Name() == "dfsssp" && r.CreditCycles > 0 {
					t.Fatalf("%s, seed %d: %v", e.Name(), seed, r.Err())
				}
				for _, f := range r.Failures {
					if f.Kind != check.DeadEnd {
						t.Fatalf("%s, seed %d: %v at switch %d", e.Name(), seed, f.Kind, f.Switch)
					}
				}
			}
			hold(tb)
			now, err := e.Update(route.Solution{Graph: g, Tables: tb}, g, fabric.Diff(g, g), route.Options{})
			if err != nil {
				t.Fatal(err)
			}
			hold(now)
		}
	}
}

// TestBalance: the largest load of whole trees is the least possible.
func TestBalance(t *testing.T) {
	for hosts, want := range map[string]int64{"324": 306, "648": 630} {
		g := graph(t, "fattree "+hosts, 1, 8, 1)
		for _, e := range []route.Engine{sssp.Engine{}, sssp.DFEngine{}} {
			tb, err := e.Compute(g, route.Options{Workers: 2})
			if err != nil {
				t.Fatal(err)
			}
			if r := check.Verify(g, tb, check.Options{}); r.MaxChannelLoad != want || r.VLsUsed != 1 || !r.OK() {
				t.Errorf("%s on a tree of %s hosts: load %d, want %d; %d lanes; %v", e.Name(), hosts, r.MaxChannelLoad, want, r.VLsUsed, r.Err())
			}
		}
	}
}

// TestPathsOfOnePort: LIDs of one port use different adjacent switches, then different
// links, from every leaf that has them.
func TestPathsOfOnePort(t *testing.T) {
	b := &routetest.Net{}
	b.Switches(5) // two leaves, three spines with two cables each
	for s := 2; s < 5; s++ {
		for range 2 {
			b.Link(0, s)
			b.Link(1, s)
		}
	}
	for range 3 {
		b.Host(0, 8)
		b.Host(1, 8)
	}
	g := b.Graph()
	for _, e := range []route.Engine{sssp.Engine{}, sssp.DFEngine{}} {
		tb, err := e.Compute(g, route.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range g.EndPorts {
			p := &g.EndPorts[i]
			if p.Type == ib.NodeSwitch {
				continue
			}
			from := 1 - p.Switch
			peers, cables := map[int32]int{}, map[byte]int{}
			for k := range 8 {
				port := tb.LFT[from][int(p.LID)+k]
				peers[g.Channels[g.PortChannel[from][port]].To]++
				cables[port]++
			}
			if len(peers) != 3 || len(cables) != 6 {
				t.Errorf("%s: LIDs of port %d take %d neighbors and %d cables", e.Name(), i, len(peers), len(cables))
			}
		}
	}
}

// TestOptions: ports that do not count add no load; GUIDs that the fabric lacks are
// named.
func TestOptions(t *testing.T) {
	g := graph(t, "fattree 324", 1, 8, 1)
	var quiet []ib.GUID
	for i := range g.EndPorts {
		if p := &g.EndPorts[i]; p.Type != ib.NodeSwitch && i%2 == 0 {
			quiet = append(quiet, p.GUID)
		}
	}
	o := route.Options{Unbalanced: append(slices.Clone(quiet), 0xABC), HopWeights: []route.HopWeight{{Switch: 0xDEF, Port: 1, Weight: 2}}}
	tb, err := sssp.Engine{}.Compute(g, o)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"0x0000000000000abc", "0x0000000000000def"} {
		if !strings.Contains(tb.Note, want) {
			t.Errorf("note %q does not name %s", tb.Note, want)
		}
	}
	loads := routetest.Loads(g, tb, quiet)
	if most, least := slices.Max(loads), slices.Min(loads); most > least+18 {
		t.Errorf("loads of ports that count are between %d and %d", least, most)
	}
	if _, err := (sssp.Engine{}).Compute(g, route.Options{Previous: route.New("x", 3, 9)}); err == nil || !strings.Contains(err.Error(), "3 switches") {
		t.Errorf("tables of another graph: %v", err)
	}
}

// TestFewLanes: sequences of damage with few lanes stay within them, or are
// refused as a computation from scratch is.
func TestFewLanes(t *testing.T) {
	enginetest.FewLanes(t, sssp.DFEngine{}, func(t testing.TB, what string, g *fabric.Graph, tb *route.Tables, o route.Options) {
		right(t, what, g, tb, o, true)
	})
}

// TestScatteredLIDs: a port counts as one source, regardless of the number and values
// of its LIDs.
func TestScatteredLIDs(t *testing.T) {
	for seed := range uint64(20) {
		draw := routetest.Draws(seed, 41)
		g := routetest.Random(3+draw(6), draw(8), 3, 1+draw(3), draw).Graph()
		want := sssp.Senders(g)
		if got := sssp.Senders(routetest.VMs(g, 5, draw)); !slices.Equal(got, want) {
			t.Errorf("seed %d: senders %v with VMs, %v without", seed, got, want)
		}
	}
}
