package dor_test

import (
	"strings"
	"testing"

	"heddle/fabric"
	"heddle/route"
	"heddle/route/check"
	"heddle/route/engine/dor"
	"heddle/route/engine/minhop"
)

// graph generates a fabric; pull names cables to leave out.
func graph(t *testing.T, vls uint8, kind string, params ...string) *fabric.Graph {
	t.Helper()
	f, err := fabric.Generate(kind, params, 5)
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

func shortest(t *testing.T, g *fabric.Graph) *check.Report {
	t.Helper()
	tb, err := minhop.Engine{}.Compute(g, route.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return check.Verify(g, tb, check.Options{Workers: 2})
}

// TestGrids: every grid is found from the cabling, routed by shortest paths,
// with as many lanes as its rings need.
func TestGrids(t *testing.T) {
	for _, c := range []struct {
		net   string
		lanes int
	}{
		{"mesh 6x6", 1}, {"mesh 7", 1}, {"mesh 2x3x4", 1}, {"mesh 3x4x5 hosts=2", 1}, {"mesh 3x3x3x3", 1},
		{"hypercube 1", 1}, {"hypercube 5", 1}, {"hypercube 8", 1},
		{"hyperx 4x4", 1}, {"hyperx 3x5x2 trunk=2", 1}, {"hyperx 7", 1},
		{"torus 4x4", 1}, {"torus 3x3", 1}, {"torus 2x2", 1}, {"torus 3x4x4", 1},
		{"torus 5", 2}, {"torus 8x8", 2}, {"torus 5x6", 2}, {"torus 4x4x8", 2}, {"torus 6x5x7", 2}, {"torus 2x5x3", 2},
		{"torus 5x5x5x5", 2},
	} {
		t.Run(c.net, func(t *testing.T) {
			words := strings.Fields(c.net)
			g := graph(t, 8, words[0], words[1:]...)
			tb, err := dor.Engine{}.Compute(g, route.Options{Workers: 2, MaxVLs: 2})
			if err != nil {
				t.Fatal(err)
			}
			if tb.NumVLs != c.lanes {
				t.Errorf("%d lanes, want %d", tb.NumVLs, c.lanes)
			}
			r := check.Verify(g, tb, check.Options{Workers: 2})
			if !r.OK() {
				t.Errorf("%v", r.Err())
			}
			if m := shortest(t, g); r.AvgHops != m.AvgHops || r.Paths != m.Paths {
				t.Errorf("%d paths of %.4f hops, shortest are %d of %.4f", r.Paths, r.AvgHops, m.Paths, m.AvgHops)
			} else {
				t.Logf("load %d (mean %.1f), minhop %d", r.MaxChannelLoad, r.AvgChannelLoad, m.MaxChannelLoad)
			}
		})
	}
}
