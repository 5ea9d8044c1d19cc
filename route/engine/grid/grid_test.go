package grid_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"heddle/fabric"
	"heddle/internal/fabrictest"
	"heddle/internal/need"
	"heddle/internal/routetest"
	"heddle/route/engine/grid"
)

func graph(t testing.TB, net string) *fabric.Graph {
	t.Helper()
	words := strings.Fields(net)
	f, err := fabrictest.Generate(words[0], words[1:], 5)
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

// find returns the first grid that Find offers, which must be consistent.
func find(t testing.TB, g *fabric.Graph, damaged bool) (*grid.Grid, error) {
	t.Helper()
	var found *grid.Grid
	err := grid.Find(grid.NewNet(g, nil), damaged, func(gr *grid.Grid) error {
		found = gr
		return nil
	})
	if err == nil {
		consistent(t, g, found)
	}
	return found, err
}

// consistent holds a grid against its definition: one switch a cell, and every
// cable between cells that are next to each other.
func consistent(t testing.TB, g *fabric.Graph, gr *grid.Grid) {
	t.Helper()
	at := func(c int32) []int {
		out := make([]int, len(gr.Dims))
		for d := len(gr.Dims) - 1; d >= 0; d-- {
			out[d] = int(c) % gr.Dims[d].Size
			c /= int32(gr.Dims[d].Size)
		}
		return out
	}
	seen := make([]int, len(gr.Switch))
	for s, c := range gr.Cell {
		seen[c]++
		if gr.Switch[c] != int32(s) {
			t.Fatalf("switch %d stands in cell %d, which has %d", s, c, gr.Switch[c])
		}
	}
	for c, k := range seen {
		if k > 1 || k == 0 && gr.Switch[c] != -1 {
			t.Fatalf("cell %d has %d switches", c, k)
		}
	}
	for _, ch := range g.Channels {
		a, b := at(gr.Cell[ch.From]), at(gr.Cell[ch.To])
		differ := 0
		for d, dim := range gr.Dims {
			if a[d] == b[d] {
				continue
			}
			differ++
			step := (a[d] - b[d] + dim.Size) % dim.Size
			near := step == 1 || step == dim.Size-1
			if dim.Kind == grid.Path {
				near = a[d]-b[d] == 1 || b[d]-a[d] == 1
			}
			if !near && dim.Kind != grid.Full {
				t.Fatalf("a cable joins %v and %v of the %v", a, b, gr)
			}
		}
		if differ != 1 {
			t.Fatalf("a cable joins %v and %v of the %v", a, b, gr)
		}
	}
}

// sizes of a grid, ascending, with a letter for the kind.
func sizes(gr *grid.Grid) string {
	var s []string
	for _, d := range gr.Dims {
		s = append(s, fmt.Sprintf("%d%c", d.Size, "prf"[d.Kind]))
	}
	slices.Sort(s)
	return strings.Join(s, " ")
}

// TestCompleteGrids: complete grids are found regardless of GUIDs and ports.
func TestCompleteGrids(t *testing.T) {
	for net, want := range map[string]string{
		"mesh 6":           "6p",
		"mesh 4x5":         "4p 5p",
		"mesh 2x3x4":       "2f 3p 4p",
		"torus 5x7":        "5r 7r",
		"torus 3x5":        "3f 5r",
		"torus 4x5":        "2f 2f 5r",
		"torus 6x6x6":      "6r 6r 6r",
		"torus 5x5x5x5":    "5r 5r 5r 5r",
		"hypercube 7":      "2f 2f 2f 2f 2f 2f 2f",
		"hyperx 4x5":       "4f 5f",
		"hyperx 3x3x3":     "3f 3f 3f",
		"hyperx 6 trunk=3": "6f",
	} {
		for _, seed := range need.Seeds(4, 50) {
			g := routetest.Shuffle(graph(t, net), routetest.Draws(seed, 1))
			gr, err := find(t, g, false)
			if err != nil {
				t.Fatalf("%s: %v", net, err)
			}
			if got := sizes(gr); got != want || gr.Missing() != 0 {
				t.Errorf("%s (seed %d): found %s, want %s", net, seed, got, want)
			}
		}
	}
}

// TestDamaged: a torus or mesh with some failures is found, and not another grid with
// more failures.
func TestDamaged(t *testing.T) {
	for _, net := range []string{"torus 5x5", "torus 6x8", "torus 5x6x7", "torus 8x8x8", "mesh 6x6", "mesh 16x20", "mesh 5x5x5", "torus 4x4x4", "torus 3x3x5"} {
		whole := graph(t, net)
		for _, seed := range need.Seeds(4, 60) {
			draw := routetest.Draws(seed, uint64(len(whole.Switches)))
			var switches, cables []int32
			for range draw(3) {
				switches = append(switches, int32(draw(len(whole.Switches))))
			}
			for range draw(3) {
				cables = append(cables, int32(draw(len(whole.Channels))))
			}
			g := routetest.Shuffle(routetest.Without(whole, switches, cables), draw)
			gr, err := find(t, g, true)
			if err != nil && strings.Contains(err.Error(), " disconnected parts") {
				continue
			}
			if err != nil {
				t.Errorf("%s without %v and %v (seed %d): %v", net, switches, cables, seed, err)
				continue
			}
			if len(g.Switches)+len(switches) < len(gr.Switch) {
				t.Errorf("%s without %v and %v (seed %d): found a %v", net, switches, cables, seed, gr)
			}
		}
	}
}

// TestNoGrid: nets that are no grid are not taken for one.
func TestNoGrid(t *testing.T) {
	for _, net := range []string{"fattree 324", "xgft 3 3,3,3 1,3,3", "dragonfly 4 2 2", "dragonfly+ 4 4 4 4", "irregular 32", "mport 4 3"} {
		for _, damaged := range []bool{false, true} {
			if gr, err := find(t, graph(t, net), damaged); !errors.Is(err, grid.ErrNoGrid) {
				t.Errorf("%s: found a %v (%v)", net, gr, err)
			}
		}
	}
}

// TestRandom: on random nets Find ends, and never with a grid that is none.
func TestRandom(t *testing.T) {
	for _, seed := range need.Seeds(60, 3000) {
		draw := routetest.Draws(seed, 3)
		n := 1 + draw(30)
		g := routetest.Random(n, draw(2*n), 1, 1, draw).Graph()
		if _, err := find(t, g, true); err != nil && (!errors.Is(err, grid.ErrNoGrid) || strings.Contains(err.Error(), "\n")) {
			t.Errorf("seed %d: %v", seed, err)
		}
	}
}

// TestBoundedTries: a caller that accepts no grid is offered a bounded number, and gets
// its first error back.
func TestBoundedTries(t *testing.T) {
	g := routetest.Without(graph(t, "torus 4x4x4"), []int32{9}, nil)
	n := 0
	first := errors.New("first")
	err := grid.Find(grid.NewNet(g, nil), true, func(gr *grid.Grid) error {
		consistent(t, g, gr)
		if n++; n == 1 {
			return first
		}
		return errors.New("later")
	})
	if !errors.Is(err, first) || n < 2 || n > 16 {
		t.Errorf("%d tries, %v", n, err)
	}
}

// TestRingsOfFour: dimensions of two become rings of four.
func TestRingsOfFour(t *testing.T) {
	for net, want := range map[string]string{
		"torus 4x4":   "4r 4r",
		"hypercube 5": "2p 4r 4r",
		"torus 3x4":   "3r 4r",
		"hyperx 4x2":  "2p 4f",
	} {
		g := graph(t, net)
		gr, err := find(t, g, false)
		if err != nil {
			t.Fatal(err)
		}
		sq := gr.Square()
		consistent(t, g, sq)
		if got := sizes(sq); got != want {
			t.Errorf("%s: %s, want %s", net, got, want)
		}
	}
}
