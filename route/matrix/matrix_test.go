// Package matrix holds the tests of every engine on every kind of fabric with
// every budget of lanes: right by the verifier's report, or refused with a reason.
package matrix

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"heddle/fabric"
	"heddle/internal/fabrictest"
	"heddle/internal/need"
	"heddle/internal/routetest"
	"heddle/route"
	"heddle/route/check"
	"heddle/route/engine/dnup"
	"heddle/route/engine/dor"
	"heddle/route/engine/file"
	"heddle/route/engine/ftree"
	"heddle/route/engine/lash"
	"heddle/route/engine/minhop"
	"heddle/route/engine/nue"
	"heddle/route/engine/sssp"
	"heddle/route/engine/torus"
	"heddle/route/engine/updn"
	"heddle/route/engine/vftree"
	"heddle/route/osmdump"
)

// A promise says what an engine must do.
type promise struct {
	engine route.Engine
	// loops: the engine promises delivery only, not freedom from deadlock,
	// but on whole trees.
	loops bool
	// must says on which fabrics the engine must succeed with so many lanes;
	// elsewhere it may refuse.
	must func(n net, lanes int) bool
	// lanes: the only refusal allowed is for want of lanes.
	lanes bool
}

func always(net, int) bool { return true }

func onTree(n net, _ int) bool { return n.tree }

// engines is the table to extend when there is a new one.
var engines = []promise{
	{engine: minhop.Engine{}, loops: true, must: always},
	{engine: sssp.Engine{}, loops: true, must: always},
	{engine: updn.Engine{}, must: always},
	{engine: dnup.Engine{}, must: always},
	{engine: nue.Engine{}, must: always},
	{engine: ftree.Engine{}, must: onTree},
	{engine: vftree.Engine{}, must: onTree},
	{engine: sssp.DFEngine{}, must: onTree, lanes: true},
	{engine: lash.Engine{}, must: onTree, lanes: true},
	{engine: dor.Engine{}, must: func(n net, lanes int) bool { return n.grid > 0 && n.grid <= lanes }},
	{engine: torus.Engine{}, must: func(n net, lanes int) bool { return n.torus > 0 && n.torus <= lanes }},
	{engine: fromFile{}, must: always},
}

// net is a fabric with what the engines for special shapes must make of it.
type net struct {
	name  string
	graph *fabric.Graph
	tree  bool // a tree without damage
	grid  int  // lanes that dor needs, 0: may refuse
	torus int  // lanes that torus needs, 0: may refuse
}

// budgets of lanes.
var budgets = []int{1, 2, 4, 8}

func generate(t testing.TB, text string) *fabric.Graph {
	t.Helper()
	words := strings.Fields(text)
	f, err := fabrictest.Generate(words[0], words[1:], 3)
	if err != nil {
		t.Fatal(err)
	}
	if err := fabric.AssignLIDs(f, 1); err != nil {
		t.Fatal(err)
	}
	g, err := f.Graph(fabric.GraphOptions{VLs: 8})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// damaged is a net after so many switches and cables have failed.
func damaged(g *fabric.Graph, switches, cables int, seed uint64) *fabric.Graph {
	draw := routetest.Draws(seed, uint64(len(g.Switches)))
	var ss, cs []int32
	for range switches {
		ss = append(ss, int32(draw(len(g.Switches))))
	}
	for range cables {
		cs = append(cs, int32(draw(len(g.Channels))))
	}
	return routetest.Without(g, ss, cs)
}

// small are the regular nets.
var small = []net{
	{name: "xgft 2 4,4 1,2", tree: true},
	{name: "xgft 3 3,3,3 1,3,3", tree: true},
	{name: "kary 3 3", tree: true},
	{name: "mport 4 3", tree: true},
	{name: "torus 5x5", grid: 2, torus: 2},
	{name: "torus 4x4", grid: 1, torus: 2},
	{name: "torus 8x8", grid: 2, torus: 2},
	{name: "torus 3x4x5", grid: 2, torus: 2},
	{name: "mesh 4x5", grid: 1, torus: 1},
	{name: "mesh 3x3x3", grid: 1, torus: 1},
	{name: "hypercube 4", grid: 1, torus: 2},
	{name: "hypercube 5", grid: 1, torus: 2},
	{name: "hyperx 4x4", grid: 1},
	{name: "hyperx 3x4 trunk=2", grid: 1},
	{name: "dragonfly 4 2 2"},
	{name: "dragonfly+ 3 3 2 3"},
	{name: "irregular 16"},
}

// large are more of them, for make test-long.
var large = []net{
	{name: "fattree 324", tree: true},
	{name: "fattree 648", tree: true},
	{name: "xgft 3 4,4,4 1,2,2", tree: true},
	{name: "kary 4 3", tree: true},
	{name: "mport 8 3", tree: true},
	{name: "torus 10x10", grid: 2, torus: 2},
	{name: "torus 6x6x6", grid: 2, torus: 2},
	{name: "mesh 10x10", grid: 1, torus: 1},
	{name: "hypercube 7", grid: 1},
	{name: "hyperx 6x6", grid: 1},
	{name: "hyperx 3x3x3 trunk=2", grid: 1},
	{name: "dragonfly+ 4 4 4 4"},
	{name: "irregular 64"},
}

// shapes are nets, whole and damaged.
func shapes(t testing.TB, list []net) []net {
	var nets []net
	for _, n := range list {
		n.graph = generate(t, n.name)
		nets = append(nets, n)
		d := net{name: n.name + " damaged", graph: damaged(n.graph, 1, 2, 7)}
		nets = append(nets, d)
		if n.torus == 2 && !strings.HasPrefix(n.name, "hypercube") {
			nets = append(nets, net{name: n.name + " without a switch", graph: damaged(n.graph, 1, 0, 4), torus: 4})
			nets = append(nets, net{name: n.name + " without a cable", graph: damaged(n.graph, 0, 1, 4), torus: 2})
		}
	}
	return nets
}

// TestMatrix: every engine on every kind of fabric with every budget.
func TestMatrix(t *testing.T) { matrix(t, small) }

func TestMatrixLarge(t *testing.T) {
	need.Long(t)
	matrix(t, large)
}

func matrix(t *testing.T, list []net) {
	for _, n := range shapes(t, list) {
		t.Run(n.name, func(t *testing.T) {
			for _, p := range engines {
				for _, lanes := range budgets {
					p.holds(t, n, lanes)
				}
			}
		})
	}
}

// TestIrregular: the same on random nets.
func TestIrregular(t *testing.T) {
	for _, seed := range need.Seeds(12, 200) {
		n := net{name: fmt.Sprintf("irregular, HEDDLE_SEED=%d", seed), graph: irregular(seed)}
		for _, p := range engines {
			for _, lanes := range budgets {
				p.holds(t, n, lanes)
			}
		}
	}
}

// irregular is a random connected net of up to 24 switches.
func irregular(seed uint64) *fabric.Graph {
	draw := routetest.Draws(seed, 99)
	size := 2 + draw(23)
	return routetest.Random(size, draw(2*size), 3, 1+draw(2), draw).Graph()
}

// holds computes tables and holds them against the promise. It returns nil if
// the engine refuses the net.
func (p promise) holds(t testing.TB, n net, lanes int) *route.Tables {
	t.Helper()
	what := fmt.Sprintf("%s on %s with %d lanes", p.engine.Name(), n.name, lanes)
	tb, err := p.engine.Compute(n.graph, route.Options{Workers: 2, MaxVLs: lanes})
	if err != nil {
		p.refusal(t, what, err, p.must(n, lanes))
		return nil
	}
	p.verify(t, what, n.graph, tb, lanes, n.tree)
	return tb
}

// refusal looks at an error: one line that begins with the engine's name.
func (p promise) refusal(t testing.TB, what string, err error, must bool) {
	t.Helper()
	text := err.Error()
	switch {
	case must:
		t.Errorf("%s is refused: %v", what, err)
	case !strings.HasPrefix(text, p.engine.Name()+": ") || strings.Contains(text, "\n") || len(text) > 400:
		t.Errorf("%s: the reason of the refusal is no clear line: %q", what, text)
	case p.lanes && !strings.Contains(text, "lanes"):
		t.Errorf("%s is refused, and not for want of lanes: %v", what, err)
	}
}

func (p promise) verify(t testing.TB, what string, g *fabric.Graph, tb *route.Tables, lanes int, tree bool) {
	t.Helper()
	r := check.Verify(g, tb, check.Options{Workers: 2})
	if p.loops && !tree {
		if r.UnreachablePairs != 0 || r.Loops != 0 {
			t.Errorf("%s: %v", what, r.Err())
		}
	} else if !r.OK() {
		t.Errorf("%s: %v", what, r.Err())
	}
	if r.VLsUsed > lanes || tb.NumVLs > lanes || r.VLsUsed > tb.NumVLs {
		t.Errorf("%s: %d lanes are used, the tables say %d", what, r.VLsUsed, tb.NumVLs)
	}
	if tb.Engine != p.engine.Name() {
		t.Errorf("%s: the tables say %q", what, tb.Engine)
	}
}

// TestUpdate: tables updated over failures and repairs are as right as computed ones.
func TestUpdate(t *testing.T) {
	rounds := 3
	for _, n := range shapes(t, small) {
		if strings.Contains(n.name, " without ") {
			continue
		}
		t.Run(n.name, func(t *testing.T) {
			for _, p := range engines {
				if _, ok := p.engine.(route.Updater); ok {
					for _, seed := range need.Seeds(1, 20) {
						p.updates(t, n, seed, rounds)
					}
				}
			}
		})
	}
	for _, seed := range need.Seeds(8, 200) {
		n := net{name: fmt.Sprintf("irregular, HEDDLE_SEED=%d", seed), graph: irregular(seed)}
		for _, p := range engines {
			if _, ok := p.engine.(route.Updater); ok {
				p.updates(t, n, seed, rounds)
			}
		}
	}
}

// carried lets something fail and return, again and again.
func (p promise) updates(t testing.TB, n net, seed uint64, rounds int) {
	t.Helper()
	const lanes = 8
	e := p.engine.(route.Updater)
	o := route.Options{Workers: 2, MaxVLs: lanes}
	tb, err := e.Compute(n.graph, o)
	if err != nil {
		return // TestMatrix tells
	}
	draw := routetest.Draws(seed, 5)
	at := route.Solution{Graph: n.graph, Tables: tb}
	for round := range rounds {
		for _, g := range []*fabric.Graph{damaged(n.graph, draw(2), 1+draw(2), seed+uint64(round)<<32), n.graph} {
			what := fmt.Sprintf("%s updated over change %d of %s (seed %d)", e.Name(), round, n.name, seed)
			next, err := e.Update(at, g, fabric.Diff(at.Graph, g), o)
			if err != nil {
				_, fresh := e.Compute(g, o)
				if fresh == nil {
					t.Errorf("%s: refused, but computed from scratch: %v", what, err)
				}
				p.refusal(t, what, err, false)
				return
			}
			p.verify(t, what, g, next, lanes, n.tree && g == n.graph)
			at = route.Solution{Graph: g, Tables: next}
		}
	}
}

// fromFile is the file engine with what updn's tables look like in a dump.
type fromFile struct{}

func (fromFile) Name() string { return "file" }

func (fromFile) Compute(g *fabric.Graph, o route.Options) (*route.Tables, error) {
	tb, err := updn.Engine{}.Compute(g, o)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := routetest.WriteLFTs(&b, g, tb); err != nil {
		return nil, err
	}
	d, err := osmdump.ReadRoutes(&b)
	if err != nil {
		return nil, err
	}
	got, err := file.Engine{Dump: d}.Compute(g, o)
	if err == nil && !slices.EqualFunc(got.LFT, tb.LFT, bytes.Equal) {
		return nil, fmt.Errorf("file: other tables than were dumped")
	}
	return got, err
}
