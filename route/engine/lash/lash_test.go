package lash_test

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
	"heddle/route/engine/lash"
)

// graph generates a fabric with so many lanes a link.
func graph(t testing.TB, kind string, vls uint8, seed uint64) *fabric.Graph {
	t.Helper()
	w := strings.Fields(kind)
	f, err := fabrictest.Generate(w[0], w[1:], seed)
	if err != nil {
		t.Fatal(err)
	}
	if err := fabric.AssignLIDs(f, 1); err != nil {
		t.Fatal(err)
	}
	g, err := f.Graph(fabric.GraphOptions{VLs: vls})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// peers are the layers, and the most paths over a channel, of OpenSM 3.3.23's
// LASH on the same netlists (its log's "Lanes needed", its forwarding tables).
var peers = []struct {
	kind  string
	seed  uint64
	lanes int
	load  int64
}{
	{"torus 4x4", 1, 2, 12},
	{"torus 5x5", 1, 3, 15},
	{"torus 6x6", 1, 4, 36},
	{"torus 8x8", 1, 6, 80},
	{"torus 10x10", 1, 8, 150},
	{"torus 3x3x3", 1, 1, 9},
	{"torus 4x4x4", 1, 5, 48},
	{"mesh 4x4", 1, 1, 16},
	{"mesh 8x8", 1, 1, 128},
	{"hypercube 4", 1, 1, 8},
	{"hypercube 6", 1, 1, 32},
	{"hyperx 4x4", 1, 1, 4},
	{"hyperx 3x3x3", 1, 1, 9},
	{"kary 4 2", 1, 1, 48},
	{"fattree 324", 1, 1, 5508},
	{"fattree 648", 1, 1, 11340},
	{"dragonfly 4 2 2", 1, 3, 88},
	{"dragonfly 4 2 2 5", 1, 2, 52},
	{"dragonfly+ 2 2 2 2", 1, 3, 20},
	{"irregular 16", 1, 2, 10},
	{"irregular 16", 2, 2, 16},
	{"irregular 16", 3, 2, 13},
	{"irregular 16", 4, 2, 12},
	{"irregular 16", 5, 2, 8},
	{"irregular 16", 13, 3, 13},
	{"irregular 32", 1, 5, 44},
	{"irregular 32", 2, 3, 30},
	{"irregular 32", 3, 4, 45},
	{"irregular 32", 4, 4, 18},
	{"irregular 32", 5, 3, 42},
	{"irregular 32", 13, 3, 20},
	{"irregular 32", 18, 3, 53},
	{"irregular 32", 20, 3, 27},
	{"irregular 32 ports=8 links=64 hosts=2", 1, 3, 192},
	{"irregular 32 ports=8 links=64 hosts=2", 2, 3, 192},
	{"irregular 32 ports=8 links=64 hosts=2", 3, 3, 172},
	{"irregular 64", 1, 8, 61},
	{"irregular 64", 3, 7, 105},
}

// TestNoMoreLanesThanOpenSM compares the number of lanes with that of OpenSM's LASH.
func TestNoMoreLanesThanOpenSM(t *testing.T) {
	for _, p := range peers {
		g := graph(t, p.kind, 15, p.seed)
		tb, err := lash.Engine{}.Compute(g, route.Options{Workers: 2})
		if err != nil {
			t.Fatalf("%s, seed %d: %v", p.kind, p.seed, err)
		}
		r := check.Verify(g, tb, check.Options{Workers: 2})
		if !r.OK() || tb.NumVLs > p.lanes || r.VLsUsed > p.lanes || r.MaxChannelLoad > p.load*102/100 {
			t.Errorf("%s, seed %d: %d lanes, OpenSM %d; load %d, OpenSM %d; %v", p.kind, p.seed, tb.NumVLs, p.lanes, r.MaxChannelLoad, p.load, r.Err())
		}
	}
}

// TestMatrix: every fabric with every lane budget is routed right, or refused
// with the number of lanes that would do.
func TestMatrix(t *testing.T) {
	for _, p := range peers {
		g := graph(t, p.kind, 15, p.seed)
		full, err := lash.Engine{}.Compute(g, route.Options{Workers: 2})
		if err != nil {
			t.Fatalf("%s: %v", p.kind, err)
		}
		for _, budget := range []int{1, 2, 4, 8, full.NumVLs - 1, full.NumVLs} {
			if budget < 1 || len(g.Switches) > 32 && budget != full.NumVLs-1 && budget != full.NumVLs {
				continue
			}
			o := route.Options{MaxVLs: budget, SpreadLanes: budget == 8}
			tb, err := lash.Engine{}.Compute(g, o)
			if budget < full.NumVLs {
				if want := fmt.Sprintf("lash: needs %d lanes, %d are allowed", full.NumVLs, budget); err == nil || err.Error() != want {
					t.Errorf("%s, %d lanes: %v, want %q", p.kind, budget, err, want)
				}
				continue
			}
			if err != nil {
				t.Fatalf("%s, %d lanes: %v", p.kind, budget, err)
			}
			right(t, fmt.Sprintf("%s, %d lanes", p.kind, budget), g, tb, o)
			if o.SpreadLanes && check.Verify(g, tb, check.Options{}).VLsUsed != 8 {
				t.Errorf("%s: not all of 8 lanes are used", p.kind)
			}
		}
	}
}

// TestRandom: random nets with any number of workers; restarts keep entries if no other
// is better.
func TestRandom(t *testing.T) {
	for _, seed := range need.Seeds(40, 2000) {
		draw := routetest.Draws(seed, 2)
		for name, b := range nets(draw) {
			g := b.Graph()
			o := route.Options{Workers: 1, SpreadLanes: draw(3) == 0}
			ctx := fmt.Sprintf("%s, seed %d", name, seed)
			first, err := lash.Engine{}.Compute(g, o)
			if err != nil {
				t.Fatalf("%s: %v", ctx, err)
			}
			right(t, ctx, g, first, o)
			for _, workers := range []int{2, 3, 8} {
				again := o
				again.Workers = workers
				if tb, err := (lash.Engine{}).Compute(g, again); err != nil || !tb.Equal(first) {
					t.Fatalf("%s: %d workers give other tables (%v)", ctx, workers, err)
				}
			}
			h := routetest.NewWear(g)
			h.Step(draw)
			g2 := h.Graph()
			again := o
			again.Previous = first.Remap(g, g2)
			tb, err := lash.Engine{}.Compute(g2, again)
			if err != nil {
				t.Fatalf("%s: %v", ctx, err)
			}
			allowed := right(t, ctx, g2, tb, o)
			for s, was := range again.Previous.LFT {
				for l := 1; was != nil && l <= int(min(g.TopLID, g2.TopLID)); l++ {
					if was[l] == tb.LFT[s][l] || int(was[l]) >= len(g2.PortChannel[s]) || g2.LIDOwner[l] == fabric.NoLID {
						continue
					}
					// The LIDs of a switch stay together; its first decides.
					if c := g2.PortChannel[s][was[l]]; c >= 0 && allowed(int32(s), ib.LID(l), c) && leads(g2, again.Previous, int32(s), ib.LID(l), g2.Channels[c].To) {
						t.Fatalf("%s: switch %d: LID %d moved from port %d to %d without need", ctx, s, l, was[l], tb.LFT[s][l])
					}
				}
			}
		}
	}
}

// leads reports whether switch s sent all LIDs behind l's switch to switch v.
func leads(g *fabric.Graph, t *route.Tables, s int32, l ib.LID, v int32) bool {
	dst := g.EndPorts[g.LIDOwner[l]].Switch
	for k, e := range g.LIDOwner {
		if e == fabric.NoLID || g.EndPorts[e].Switch != dst {
			continue
		}
		p := t.Entry(s, ib.LID(k))
		if int(p) >= len(g.PortChannel[s]) || g.PortChannel[s][p] < 0 || g.Channels[g.PortChannel[s][p]].To != v {
			return false
		}
	}
	return true
}

// TestShortTables: paths avoid switches whose tables are too short for a LID, or the
// LID is dropped.
func TestShortTables(t *testing.T) {
	for _, seed := range need.Seeds(40, 1000) {
		draw := routetest.Draws(seed, 3)
		b := routetest.Random(8+draw(8), 10+draw(20), 3, 2, draw)
		b.Cap = map[int]int{draw(8): 5 + draw(20), draw(8): 5 + draw(20)}
		g := b.Graph()
		tb, err := lash.Engine{}.Compute(g, route.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			for s, row := range tb.LFT {
				for l := int(g.Switches[s].LinearFDBCap); l <= int(g.TopLID); l++ {
					if row[l] != route.Drop {
						t.Fatalf("seed %d: switch %d has an entry for LID %d, its table ends at %d", seed, s, l, g.Switches[s].LinearFDBCap)
					}
				}
			}
			r := check.Verify(g, tb, check.Options{})
			if r.Loops > 0 || r.CreditCycles > 0 {
				t.Fatalf("seed %d: %v", seed, r.Err())
			}
			for _, f := range r.Failures {
				if f.Kind != check.DeadEnd {
					t.Fatalf("seed %d: %v at switch %d", seed, f.Kind, f.Switch)
				}
			}
			if tb, err = (lash.Engine{}).Update(route.Solution{Graph: g, Tables: tb}, g, fabric.Diff(g, g), route.Options{}); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestTrunkLinks: the LIDs of a switch share the links of a trunk evenly.
func TestTrunkLinks(t *testing.T) {
	b := &routetest.Net{}
	b.Switches(2)
	for range 4 {
		b.Link(0, 1)
	}
	for range 8 {
		b.Host(0, 1)
		b.Host(1, 1)
	}
	g := b.Graph()
	tb, err := lash.Engine{}.Compute(g, route.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for c, load := range routetest.Loads(g, tb, nil) {
		if load != 16 {
			t.Errorf("channel %d carries %d paths, want 16", c, load)
		}
	}
}

// TestFewLanes: sequences of damage with few lanes stay within them, or are
// refused as a computation from scratch is.
func TestFewLanes(t *testing.T) {
	enginetest.FewLanes(t, lash.Engine{}, func(t testing.TB, what string, g *fabric.Graph, tb *route.Tables, o route.Options) {
		right(t, what, g, tb, o)
	})
}

// TestRefusals: impossible inputs are refused with the reason.
func TestRefusals(t *testing.T) {
	g := graph(t, "torus 8x8", 2, 1)
	if _, err := (lash.Engine{}).Compute(g, route.Options{}); err == nil || !strings.Contains(err.Error(), "lash: needs 6 lanes, 2 are allowed (link 0x") {
		t.Errorf("two lanes a link: %v", err)
	}
	if _, err := (lash.Engine{}).Compute(g, route.Options{Previous: route.New("x", 3, 9)}); err == nil || !strings.Contains(err.Error(), "3 switches") {
		t.Errorf("tables of another graph: %v", err)
	}
}

// TestScatteredLIDs: a port counts as one source, regardless of the number and values
// of its LIDs.
func TestScatteredLIDs(t *testing.T) {
	for seed := range uint64(20) {
		draw := routetest.Draws(seed, 41)
		g := routetest.Random(3+draw(6), draw(8), 3, 1+draw(3), draw).Graph()
		want := lash.Senders(g)
		if got := lash.Senders(routetest.VMs(g, 5, draw)); !slices.Equal(got, want) {
			t.Errorf("seed %d: senders %v with VMs, %v without", seed, got, want)
		}
	}
}
