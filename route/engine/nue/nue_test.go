package nue_test

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"heddle/fabric"
	"heddle/ib"
	"heddle/internal/fabrictest"
	"heddle/internal/routetest"
	"heddle/route"
	"heddle/route/check"
	"heddle/route/engine/nue"
)

func generate(t testing.TB, lids int, what string) *fabric.Graph {
	t.Helper()
	words := strings.Fields(what)
	seed := uint64(1)
	if k := len(words) - 1; strings.HasPrefix(words[k], "#") {
		seed, _ = strconv.ParseUint(words[k][1:], 10, 64)
		words = words[:k]
	}
	f, err := fabrictest.Generate(words[0], words[1:], seed)
	if err != nil {
		t.Fatal(err)
	}
	if err := fabric.AssignLIDs(f, lids); err != nil {
		t.Fatal(err)
	}
	g, err := f.Graph(fabric.GraphOptions{VLs: 8})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func compute(t testing.TB, g *fabric.Graph, o route.Options) *route.Tables {
	t.Helper()
	tb, err := nue.Engine{}.Compute(g, o)
	if err != nil {
		t.Fatal(err)
	}
	return tb
}

// verify proves tables, and that they keep to the lanes allowed. Nue's tables
// are free of deadlocks for all traffic, also that between switches.
func verify(t testing.TB, g *fabric.Graph, tb *route.Tables, lanes int) *check.Report {
	t.Helper()
	r := check.Verify(g, tb, check.Options{Workers: 2})
	if err := r.Err(); err != nil {
		t.Fatalf("%v: %+v", err, r)
	}
	if r.CreditCyclesSwitch != 0 {
		t.Fatalf("%d credit cycles between switches", r.CreditCyclesSwitch)
	}
	if tb.NumVLs > lanes || r.VLsUsed > lanes {
		t.Fatalf("%d lanes, %d used, %d are allowed", tb.NumVLs, r.VLsUsed, lanes)
	}
	acyclic(t, g, tb)
	return r
}

// acyclic looks for cycles in a way of its own: it takes channels on which
// nothing waits away until none is left. Paths are followed from every switch.
func acyclic(t testing.TB, g *fabric.Graph, tb *route.Tables) {
	t.Helper()
	m := int32(len(g.Channels))
	waits := make([]map[int32]bool, m*int32(max(tb.NumVLs, 1)))
	in := make([]int, len(waits))
	for l := ib.LID(1); l <= g.TopLID; l++ {
		e := g.LIDOwner[l]
		if e == fabric.NoLID || g.EndPorts[e].Switch < 0 {
			continue
		}
		next := func(s int32) int32 {
			if p := tb.Entry(s, l); s != g.EndPorts[e].Switch && p != route.Drop {
				return g.PortChannel[s][p]
			}
			return -1
		}
		for s := range int32(len(g.Switches)) {
			c := next(s)
			if c < 0 {
				continue
			}
			x := next(g.Channels[c].To)
			if x < 0 {
				continue
			}
			lane := int32(tb.PathSL(s, l)) * m
			if waits[lane+c] == nil {
				waits[lane+c] = map[int32]bool{}
			}
			if !waits[lane+c][lane+x] {
				waits[lane+c][lane+x] = true
				in[lane+x]++
			}
		}
	}
	var free []int32
	for c, k := range in {
		if k == 0 {
			free = append(free, int32(c))
		}
	}
	for i := 0; i < len(free); i++ {
		for x := range waits[free[i]] {
			if in[x]--; in[x] == 0 {
				free = append(free, x)
			}
		}
	}
	if len(free) != len(in) {
		t.Fatalf("%d channels wait for one another", len(in)-len(free))
	}
}

var budgets = []int{1, 2, 3, 4, 8}

func TestEveryTopology(t *testing.T) {
	for _, what := range []string{
		"fattree 324", "kary 3 3", "mport 4 3", "xgft 3 3,2,4 1,2,2",
		"torus 6x5 hosts=2", "torus 3x3x3", "torus 2x2x2x2", "mesh 5x4", "hypercube 4",
		"hyperx 4x3 hosts=2", "hyperx 2x2 trunk=3", "dragonfly 4 2 2", "dragonfly+ 3 3 2 2", "irregular 20", "irregular 24 ports=8 hosts=3 #4",
	} {
		for _, lids := range []int{1, 4} {
			g := generate(t, lids, what)
			for _, b := range budgets {
				if lids > 1 && b != 1 && b != 3 {
					continue
				}
				t.Run(what+" "+strconv.Itoa(lids)+" "+strconv.Itoa(b), func(t *testing.T) {
					verify(t, g, compute(t, g, route.Options{MaxVLs: b, Workers: 2}), b)
				})
			}
		}
	}
}

// drawn is a net at random: irregular, a damaged torus or tree, one or
// several parts, ports with several LIDs.
func drawn(draw func(int) int) *routetest.Net {
	var b *routetest.Net
	switch draw(4) {
	case 0:
		b = routetest.Damaged(routetest.Torus(2+draw(5), 2+draw(5), 1+draw(2)), draw(8), draw)
	case 1:
		b = routetest.Damaged(routetest.Tree(4, 4), draw(10), draw)
	default:
		n := 1 + draw(28)
		b = routetest.Random(n, draw(2*n), 3, 1+draw(3), draw)
	}
	if draw(3) == 0 {
		s := b.Switches(1 + draw(4))
		b.Host(s, 2)
		if draw(2) == 0 {
			b.Host(-1, 1)
		}
		for i := range draw(4) {
			s = b.Switches(1)
			b.Host(s, 1)
			if i > 0 {
				b.Link(s, s-1)
			}
		}
	}
	return b
}

func seeds(t testing.TB, few, many uint64) (first, n uint64) {
	t.Helper()
	if v, err := strconv.ParseUint(os.Getenv("HEDDLE_SEED"), 10, 64); err == nil {
		return v, 1
	}
	if v, err := strconv.ParseUint(os.Getenv("HEDDLE_SEEDS"), 10, 64); err == nil {
		return 0, v
	}
	if os.Getenv("HEDDLE_LONG") != "" {
		return 0, many
	}
	return 0, few
}

func TestRandomNets(t *testing.T) {
	first, n := seeds(t, 200, 5000)
	for seed := first; seed < first+n; seed++ {
		draw := routetest.Draws(seed, 77)
		g := drawn(draw).Graph()
		b := budgets[draw(len(budgets))]
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			verify(t, g, compute(t, g, route.Options{MaxVLs: b, Seed: seed}), b)
		})
	}
}

func TestAnyNumberOfWorkers(t *testing.T) {
	for _, what := range []string{"fattree 648", "torus 6x6 hosts=2", "irregular 32 ports=8 hosts=4", "dragonfly 4 2 2"} {
		g := generate(t, 1, what)
		for _, b := range []int{1, 4} {
			want := compute(t, g, route.Options{MaxVLs: b, Seed: 5})
			for _, w := range []int{2, 3, 8} {
				if !compute(t, g, route.Options{MaxVLs: b, Seed: 5, Workers: w}).Equal(want) {
					t.Errorf("%s, %d lanes: %d workers give other tables than one", what, b, w)
				}
			}
		}
	}
}

// TestWholeTrees: on a complete fat tree all paths are shortest, the load is optimal,
// and one lane suffices.
func TestWholeTrees(t *testing.T) {
	for what, load := range map[string]int64{"fattree 324": 306, "fattree 648": 630, "xgft 3 6,6,6 1,6,6": 210} {
		g := generate(t, 1, what)
		r := verify(t, g, compute(t, g, route.Options{}), 1)
		if r.MaxChannelLoad != load {
			t.Errorf("%s: fullest channel %d, want %d", what, r.MaxChannelLoad, load)
		}
		if want := check.Verify(g, compute(t, g, route.Options{}), check.Options{}); want.MaxHops > 4 {
			t.Errorf("%s: %d hops", what, want.MaxHops)
		}
	}
}

// TestDamagedTrees: a tree that lost some links needs one lane, and its fullest channel
// carries little more than the remaining links require.
func TestDamagedTrees(t *testing.T) {
	g := generate(t, 1, "xgft 3 6,6,6 1,6,6")
	for seed := range uint64(3) {
		draw := routetest.Draws(seed, 8)
		cut := map[int]bool{}
		for range 4 {
			c := draw(len(g.Channels))
			cut[min(c, int(g.Channels[c].Rev))] = true
		}
		h := without(g, cut)
		r := verify(t, h, compute(t, h, route.Options{Workers: 2}), 1)
		const limit = 340 // 1.35 · 210 · 6/5
		if r.MaxChannelLoad > limit || r.AvgHops > 4 {
			t.Errorf("seed %d: fullest channel %d, at most %d is fair; %.2f hops", seed, r.MaxChannelLoad, limit, r.AvgHops)
		}
	}
}

// TestAsGoodAsOpenSM compares with OpenSM 3.3.23's tables for the same netlists with -R
// nue -Q and nue_max_num_vls as given (load of the fullest channel under all-to-all,
// mean hops between CAs).
func TestAsGoodAsOpenSM(t *testing.T) {
	for _, x := range []struct {
		what  string
		lanes int
		load  float64
		hops  float64
	}{
		{"fattree 324", 1, 486, 1.8947},
		{"fattree 324", 4, 486, 1.8947},
		{"fattree 648", 1, 936, 1.9474},
		{"fattree 648", 8, 1026, 1.9474},
		{"irregular 32 ports=8 hosts=4 #1", 1, 1240, 3.3939},
		{"irregular 32 ports=8 hosts=4 #1", 4, 946, 3.4578},
		{"irregular 32 ports=8 hosts=4 #1", 8, 904, 3.3233},
		{"irregular 32 ports=8 hosts=4 #2", 1, 1451, 3.2560},
		{"irregular 32 ports=8 hosts=4 #2", 4, 1310, 3.2474},
		{"irregular 32 ports=8 hosts=4 #3", 1, 2012, 3.3560},
		{"irregular 32 ports=8 hosts=4 #3", 8, 1318, 3.2813},
		{"torus 8x8 hosts=2", 1, 1674, 4.7318},
		{"torus 8x8 hosts=2", 4, 1302, 5.0910},
		{"torus 8x8 hosts=2", 8, 1056, 5.0305},
		{"torus 4x4x4 hosts=2", 1, 1106, 3.4719},
		{"torus 4x4x4 hosts=2", 8, 274, 3.0531},
		{"mesh 6x6 hosts=2", 1, 888, 4.2371},
		{"mesh 6x6 hosts=2", 8, 256, 3.9859},
		{"hyperx 4x4 hosts=4", 1, 100, 1.5863},
		{"hyperx 4x4 hosts=4", 8, 72, 1.5238},
		{"dragonfly 4 2 2", 1, 276, 2.6076},
		{"dragonfly 4 2 2", 8, 92, 2.3236},
	} {
		g := generate(t, 1, x.what)
		r := verify(t, g, compute(t, g, route.Options{MaxVLs: x.lanes, Workers: 2}), x.lanes)
		if float64(r.MaxChannelLoad) > 1.02*x.load {
			t.Errorf("%s, %d lanes: fullest channel %d, OpenSM's %v", x.what, x.lanes, r.MaxChannelLoad, x.load)
		}
		if r.AvgHops > 1.05*x.hops {
			t.Errorf("%s, %d lanes: %.3f hops, OpenSM's %.3f", x.what, x.lanes, r.AvgHops, x.hops)
		}
	}
}

// TestShortTables: paths avoid a switch whose table is too short, if possible.
func TestShortTables(t *testing.T) {
	b := routetest.Torus(4, 4, 2)
	b.Cap = map[int]int{5: 20, 10: 9}
	g := b.Graph()
	for _, lanes := range budgets {
		tb := compute(t, g, route.Options{MaxVLs: lanes})
		acyclic(t, g, tb)
		for s := range int32(16) {
			for l := ib.LID(1); l <= g.TopLID; l++ {
				d := g.EndPorts[g.LIDOwner[l]].Switch
				short := func(s int32) bool { return int(l) >= int(g.Switches[s].LinearFDBCap) }
				if short(s) || short(d) {
					continue
				}
				u := s
				for hops := 0; u != d; hops++ {
					p := tb.Entry(u, l)
					if p == route.Drop || hops > 16 || short(u) {
						t.Fatalf("%d lanes: LID %d does not arrive from switch %d: stuck at %d", lanes, l, s, u)
					}
					u = g.Channels[g.PortChannel[u][p]].To
				}
			}
		}
	}
}

func TestNothingToRoute(t *testing.T) {
	for _, g := range []*fabric.Graph{{Off: []int32{0}, LIDOwner: []int32{fabric.NoLID}}, (&routetest.Net{}).Graph()} {
		compute(t, g, route.Options{})
	}
	b := &routetest.Net{}
	b.Switches(1)
	verify(t, b.Graph(), compute(t, b.Graph(), route.Options{}), 1)
}

func TestPreviousOfAnotherFabric(t *testing.T) {
	g := routetest.Torus(4, 4, 1).Graph()
	if _, err := (nue.Engine{}).Compute(g, route.Options{Previous: route.New("nue", 3, 4)}); err == nil {
		t.Error("no error")
	}
}
