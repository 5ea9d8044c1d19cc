package dor_test

import (
	"reflect"
	"strings"
	"testing"

	"heddle/fabric"
	"heddle/ib"
	"heddle/internal/fabrictest"
	"heddle/internal/need"
	"heddle/internal/routetest"
	"heddle/route"
	"heddle/route/check"
	"heddle/route/engine/dor"
	"heddle/route/engine/minhop"
)

// graph generates a fabric with one LID a port.
func graph(t *testing.T, vls uint8, kind string, params ...string) *fabric.Graph {
	t.Helper()
	f, err := fabrictest.Generate(kind, params, 5)
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
		{"mesh 6x6", 1},
		{"mesh 7", 1},
		{"mesh 2x3x4", 1},
		{"mesh 3x4x5 hosts=2", 1},
		{"mesh 3x3x3x3", 1},
		{"hypercube 1", 1},
		{"hypercube 5", 1},
		{"hypercube 8", 1},
		{"hyperx 4x4", 1},
		{"hyperx 3x5x2 trunk=2", 1},
		{"hyperx 7", 1},
		{"torus 4x4", 1},
		{"torus 3x3", 1},
		{"torus 2x2", 1},
		{"torus 3x4x4", 1},
		{"torus 5", 2},
		{"torus 8x8", 2},
		{"torus 5x6", 2},
		{"torus 4x4x8", 2},
		{"torus 6x5x7", 2},
		{"torus 2x5x3", 2},
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

// TestShuffled: GUIDs and port numbers do not matter.
func TestShuffled(t *testing.T) {
	for _, net := range []string{"mesh 4x5", "torus 5x6", "hypercube 5", "hyperx 3x4", "torus 5x5x5"} {
		words := strings.Fields(net)
		whole := graph(t, 8, words[0], words[1:]...)
		for _, seed := range need.Seeds(3, 40) {
			g := routetest.Shuffle(whole, routetest.Draws(seed))
			tb, err := dor.Engine{}.Compute(g, route.Options{MaxVLs: 2, Workers: 2})
			if err != nil {
				t.Fatalf("%s (seed %d): %v", net, seed, err)
			}
			r := check.Verify(g, tb, check.Options{Workers: 2})
			if m := shortest(t, g); !r.OK() || r.AvgHops != m.AvgHops {
				t.Errorf("%s (seed %d): %v, %.3f hops, shortest %.3f", net, seed, r.Err(), r.AvgHops, m.AvgHops)
			}
		}
	}
}

// TestCutRing: on a torus with a failed link packets take the other direction of that
// ring, on the same two lanes.
func TestCutRing(t *testing.T) {
	g := graph(t, 8, "torus", "6x5")
	for c := range g.Channels {
		d := routetest.Without(g, nil, []int32{int32(c)})
		tb, err := dor.Engine{}.Compute(d, route.Options{MaxVLs: 2})
		if err != nil {
			t.Fatal(err)
		}
		if r := check.Verify(d, tb, check.Options{}); !r.OK() || r.VLsUsed > 2 {
			t.Fatalf("without channel %d: %v, %d lanes", c, r.Err(), r.VLsUsed)
		}
	}
}

// path follows the route from the first switch to the last.
func path(g *fabric.Graph, tb *route.Tables) (s string) {
	at, last := int32(0), int32(len(g.Switches)-1)
	lid := g.EndPorts[g.Switches[last].EndPort].LID
	for at != last {
		p := tb.LFT[at][lid]
		s += string('0' + p)
		at = g.Channels[g.PortChannel[at][p]].To
	}
	return s
}

// TestPortOrder: the dimension whose ports come first is routed first.
func TestPortOrder(t *testing.T) {
	g := graph(t, 8, "mesh", "3x3") // ports 1 and 2 along the first dimension, 3 and 4 along the second
	tb, err := dor.Engine{}.Compute(g, route.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got := path(g, tb); got != "1133" {
		t.Errorf("by number: ports %s", got)
	}
	o := route.Options{PortOrder: map[ib.GUID][]uint8{0xdead: {1}}}
	for i := range g.Switches {
		o.PortOrder[g.Switches[i].GUID] = []uint8{4, 3}
	}
	if tb, err = (dor.Engine{}).Compute(g, o); err != nil {
		t.Fatal(err)
	}
	if got := path(g, tb); got != "3311" {
		t.Errorf("by order: ports %s", got)
	}
	if want := "the port order names a switch that is not there: 0x000000000000dead"; tb.Note != want {
		t.Errorf("note %q, want %q", tb.Note, want)
	}
}

// TestByPorts: with an order of ports, a net that is no grid is routed by it
// if that closes no cycle.
func TestByPorts(t *testing.T) {
	order := func(g *fabric.Graph) map[ib.GUID][]uint8 {
		m := map[ib.GUID][]uint8{}
		for i := range g.Switches {
			m[g.Switches[i].GUID] = []uint8{2, 1}
		}
		return m
	}
	g := graph(t, 8, "xgft", "3", "3,3,3", "1,2,2")
	if _, err := (dor.Engine{}).Compute(g, route.Options{}); err == nil || !strings.HasPrefix(err.Error(), "dor: the switches form no grid: ") {
		t.Errorf("a tree without an order: %v", err)
	}
	tb, err := dor.Engine{}.Compute(g, route.Options{PortOrder: order(g), Workers: 2})
	if err != nil {
		t.Fatal(err)
	}
	if r, m := check.Verify(g, tb, check.Options{}), shortest(t, g); !r.OK() || r.AvgHops != m.AvgHops {
		t.Errorf("%v, %.3f hops, shortest %.3f", r.Err(), r.AvgHops, m.AvgHops)
	}
	g = graph(t, 8, "irregular", "32")
	_, err = dor.Engine{}.Compute(g, route.Options{PortOrder: order(g)})
	if err == nil || !strings.HasSuffix(err.Error(), "; the order of ports that was given closes a cycle") {
		t.Errorf("an irregular net: %v", err)
	}
}

func TestWorkers(t *testing.T) {
	g := graph(t, 8, "torus", "5x6")
	tree := graph(t, 8, "xgft", "2", "4,4", "1,2")
	for _, c := range []struct {
		g *fabric.Graph
		o route.Options
	}{{g, route.Options{}}, {routetest.Without(g, nil, []int32{3}), route.Options{}}, {tree, route.Options{PortOrder: map[ib.GUID][]uint8{1: {1}}}}} {
		var first *route.Tables
		for _, c.o.Workers = range []int{1, 2, 3, 8} {
			tb, err := dor.Engine{}.Compute(c.g, c.o)
			if err != nil {
				t.Fatal(err)
			}
			if first == nil {
				first = tb
			} else if !reflect.DeepEqual(first, tb) {
				t.Errorf("%d workers: other tables", c.o.Workers)
			}
		}
	}
}

func TestRefusals(t *testing.T) {
	mesh := graph(t, 8, "mesh", "4x4")
	for _, c := range []struct {
		g    *fabric.Graph
		o    route.Options
		want string
	}{
		{graph(t, 8, "torus", "5x5"), route.Options{MaxVLs: 1}, "dor: the 5x5 torus needs 2 lanes, 1 is allowed"},
		{graph(t, 1, "torus", "5x5"), route.Options{MaxVLs: 4}, "dor: the 5x5 torus needs 2 lanes, 1 is allowed (link 0x0000000000200000 port 1 has 1)"},
		{routetest.Without(mesh, []int32{5}, nil), route.Options{}, "dor: no path in dimension order from switch 0x0000000000200009 at (2,1) to switch 0x0000000000200000 at (0,0): 1 switch and 0 links between others are missing from the 4x4 mesh"},
		{routetest.Without(mesh, nil, []int32{20}), route.Options{}, "dor: no path in dimension order from "},
		{graph(t, 8, "fattree", "324"), route.Options{}, "dor: the switches form no grid: "},
		{graph(t, 8, "dragonfly", "4", "2", "2"), route.Options{}, "dor: the switches form no grid: "},
		{&fabric.Graph{Off: []int32{0}}, route.Options{}, "dor: there are no switches"},
	} {
		_, err := dor.Engine{}.Compute(c.g, c.o)
		if err == nil || !strings.HasPrefix(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("got  %v\nwant %s", err, c.want)
		}
	}
}

// TestParallel: parallel links are used in turn, also by a port's LIDs.
func TestParallel(t *testing.T) {
	g := graph(t, 8, "hyperx", "4", "trunk=3", "hosts=6")
	tb, err := dor.Engine{}.Compute(g, route.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r := check.Verify(g, tb, check.Options{})
	if want := int64(6 * 6 / 3); !r.OK() || r.MaxChannelLoad != want {
		t.Errorf("%v, load %d, want %d", r.Err(), r.MaxChannelLoad, want)
	}
}
