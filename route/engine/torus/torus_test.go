package torus_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"heddle/fabric"
	"heddle/ib"
	"heddle/internal/fabrictest"
	"heddle/internal/need"
	"heddle/internal/routetest"
	"heddle/route"
	"heddle/route/check"
	"heddle/route/engine/minhop"
	"heddle/route/engine/torus"
)

func graph(t testing.TB, vls uint8, net string) *fabric.Graph {
	t.Helper()
	words := strings.Fields(net)
	f, err := fabrictest.Generate(words[0], words[1:], 5)
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

// right computes tables and verifies them.
func right(t testing.TB, e torus.Engine, g *fabric.Graph, o route.Options) (*route.Tables, *check.Report) {
	t.Helper()
	tb, err := e.Compute(g, o)
	if err != nil {
		t.Fatal(err)
	}
	r := check.Verify(g, tb, check.Options{Workers: 2})
	if !r.OK() {
		t.Fatal(r.Err())
	}
	if o.MaxVLs > 0 && (r.VLsUsed > o.MaxVLs || tb.NumVLs > o.MaxVLs) {
		t.Fatalf("%d lanes are used, the tables say %d, %d are allowed", r.VLsUsed, tb.NumVLs, o.MaxVLs)
	}
	return tb, r
}

// TestCompleteTori: whole tori are routed by shortest paths on two lanes, with a
// second class where there are four.
func TestCompleteTori(t *testing.T) {
	for _, net := range []string{
		"torus 5", "torus 3x3", "torus 4x4", "torus 6x5", "torus 8x8 hosts=2", "torus 4x4x4", "torus 3x4x5", "torus 5x6x7", "torus 2x5", "torus 2x2x6",
		"mesh 4x5", "mesh 3x3x4", "hypercube 3", "hypercube 6",
	} {
		t.Run(net, func(t *testing.T) {
			g := graph(t, 8, net)
			m, err := minhop.Engine{}.Compute(g, route.Options{})
			if err != nil {
				t.Fatal(err)
			}
			want := check.Verify(g, m, check.Options{Workers: 2})
			for _, budget := range []int{2, 3, 4, 7, 8} {
				tb, r := right(t, torus.Engine{}, g, route.Options{MaxVLs: budget, Workers: 2})
				if r.AvgHops != want.AvgHops || r.Paths != want.Paths {
					t.Errorf("budget %d: %d paths of %.4f hops, shortest are %d of %.4f", budget, r.Paths, r.AvgHops, want.Paths, want.AvgHops)
				}
				if r.VLsUsed > 2 {
					t.Errorf("budget %d: %d lanes are used", budget, r.VLsUsed)
				}
				if rings := tb.Lanes != nil; rings && (tb.Note == "") != (budget >= 4) {
					t.Errorf("budget %d: note %q", budget, tb.Note)
				}
				if r.MaxChannelLoad > want.MaxChannelLoad {
					t.Errorf("budget %d: load %d, minhop's %d", budget, r.MaxChannelLoad, want.MaxChannelLoad)
				}
			}
		})
	}
}

// TestClasses: levels 8 to 15 stay off the lanes of 0 to 7.
func TestClasses(t *testing.T) {
	g := graph(t, 8, "torus 5x5")
	for _, budget := range []int{4, 8} {
		tb, _ := right(t, torus.Engine{}, g, route.Options{MaxVLs: budget})
		for _, c := range g.Channels {
			for in := range int(g.Switches[c.From].NumPorts) + 1 {
				for sl := range ib.SL(8) {
					low := tb.VL(c.From, uint8(in), c.OutPort, sl, 8)
					high := tb.VL(c.From, uint8(in), c.OutPort, sl+8, 8)
					if int(low) >= budget/2 || int(high) != int(low)+budget/2 {
						t.Fatalf("budget %d: level %d takes lane %d, level %d lane %d", budget, sl, low, sl+8, high)
					}
				}
			}
		}
	}
}

// TestOneFailurePerRing: with at most one failed switch or link on each ring four lanes
// always suffice.
func TestOneFailurePerRing(t *testing.T) {
	for _, sizes := range [][]int{{4, 4}, {5, 5}, {6, 5}, {8, 8}, {7, 3}, {4, 4, 4}, {5, 5, 5}, {4, 5, 6}, {3, 3, 3}, {6, 6, 4}} {
		name := strings.Trim(strings.ReplaceAll(fmt.Sprint(sizes), " ", "x"), "[]")
		g := graph(t, 8, "torus "+name)
		for _, seed := range need.Seeds(4, 300) {
			draw := routetest.Draws(seed, uint64(len(g.Switches)))
			switches, cables := onePerRing(g, sizes, draw)
			d := routetest.Without(g, switches, cables)
			for _, budget := range []int{2, 4, 8} {
				tb, err := torus.Engine{}.Compute(d, route.Options{MaxVLs: budget, Workers: 2})
				if err != nil {
					if budget > 2 || !strings.HasPrefix(err.Error(), "torus: ") || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), "lanes") {
						t.Errorf("torus %s without switches %v, channels %v, %d lanes: %v", name, switches, cables, budget, err)
					}
					continue
				}
				if r := check.Verify(d, tb, check.Options{Workers: 2}); !r.OK() || r.VLsUsed > budget || tb.NumVLs > budget {
					t.Errorf("torus %s without switches %v, channels %v, %d lanes: %v, %d used", name, switches, cables, budget, r.Err(), r.VLsUsed)
				}
			}
		}
	}
}

// onePerRing draws failures such that no ring has two, one switch and then
// cables, for as long as there are rings left that chance finds.
func onePerRing(g *fabric.Graph, sizes []int, draw func(int) int) (switches, cables []int32) {
	coord := func(s int32) []int {
		c := make([]int, len(sizes))
		for d := len(sizes) - 1; d >= 0; d-- {
			c[d] = int(s) % sizes[d]
			s /= int32(sizes[d])
		}
		return c
	}
	hit := map[string]bool{}
	ring := func(c []int, d int) string {
		c = slices.Clone(c)
		c[d] = -1
		return fmt.Sprint(c)
	}
	if draw(3) > 0 {
		s := int32(draw(len(g.Switches)))
		switches = append(switches, s)
		for d := range sizes {
			hit[ring(coord(s), d)] = true
		}
	}
	for range draw(4) {
		c := int32(draw(len(g.Channels)))
		a, b := coord(g.Channels[c].From), coord(g.Channels[c].To)
		for d := range sizes {
			if a[d] == b[d] {
				continue
			}
			if r := ring(a, d); !hit[r] {
				hit[r] = true
				cables = append(cables, c)
			}
		}
	}
	return switches, cables
}

// TestAnyFailures: with any failures, tables are right or refused.
func TestAnyFailures(t *testing.T) {
	for _, net := range []string{"torus 5x5", "torus 3x4x5", "mesh 4x4", "mesh 3x3x3", "hypercube 5", "torus 8x8"} {
		g := graph(t, 8, net)
		for _, seed := range need.Seeds(12, 200) {
			draw := routetest.Draws(seed, 77)
			var switches, cables []int32
			for range draw(4) {
				switches = append(switches, int32(draw(len(g.Switches))))
			}
			for range draw(5) {
				cables = append(cables, int32(draw(len(g.Channels))))
			}
			d := routetest.Without(g, switches, cables)
			tb, err := torus.Engine{}.Compute(d, route.Options{MaxVLs: 1 << draw(4), Workers: 2})
			if err != nil {
				if !strings.HasPrefix(err.Error(), "torus: ") || strings.Contains(err.Error(), "\n") {
					t.Errorf("%s: %q", net, err)
				}
				continue
			}
			if r := check.Verify(d, tb, check.Options{Workers: 2}); !r.OK() {
				t.Errorf("%s without switches %v, channels %v: %v", net, switches, cables, r.Err())
			}
		}
	}
}

func TestWorkers(t *testing.T) {
	g := graph(t, 8, "torus 5x6")
	d := routetest.Without(g, []int32{7}, []int32{0})
	for _, g := range []*fabric.Graph{g, d} {
		var first *route.Tables
		for _, workers := range []int{0, 1, 2, 3, 8} {
			tb, err := torus.Engine{}.Compute(g, route.Options{Workers: workers})
			if err != nil {
				t.Fatal(err)
			}
			if first == nil {
				first = tb
			} else if !reflect.DeepEqual(first, tb) {
				t.Errorf("%d workers: other tables", workers)
			}
		}
	}
}

func TestRefusals(t *testing.T) {
	short := graph(t, 8, "torus 5x5")
	short.Switches[3].LinearFDBCap = 10
	for _, c := range []struct {
		g    *fabric.Graph
		o    route.Options
		want string
	}{
		{graph(t, 1, "torus 5x5"), route.Options{}, "torus: the 5x5 torus needs 2 lanes, 1 is allowed (link 0x0000000000200000 port 1 has 1)"},
		{graph(t, 8, "torus 5x5"), route.Options{MaxVLs: 1}, "torus: the 5x5 torus needs 2 lanes, 1 is allowed"},
		{graph(t, 8, "fattree 324"), route.Options{}, "torus: the switches form no grid: "},
		{graph(t, 8, "dragonfly 4 2 2"), route.Options{}, "torus: the switches form no grid: "},
		{graph(t, 8, "irregular 32"), route.Options{}, "torus: the switches form no grid: "},
		{graph(t, 8, "hyperx 5x5"), route.Options{}, "torus: the switches form a 5x5 HyperX, which is no torus; dor routes it"},
		{graph(t, 8, "torus 5x5x5x5"), route.Options{}, "torus: the switches form a 5x5x5x5 torus, three dimensions at most are routed; dor takes more"},
		{short, route.Options{}, "torus: the table of switch 0x0000000000200003 holds 10 entries, the top LID is 50"},
		{routetest.Without(graph(t, 8, "mesh 3"), nil, []int32{0}), route.Options{}, "torus: the switches are in 2 disconnected parts"},
		{&fabric.Graph{Off: []int32{0}}, route.Options{}, "torus: there are no switches"},
	} {
		_, err := torus.Engine{}.Compute(c.g, c.o)
		if err == nil || !strings.HasPrefix(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("got  %v\nwant %s", err, c.want)
		}
	}
}

// TestUpdate: without a configuration too, no failure and no return changes a
// path's service level, rows that stay are shared, and as few tables as
// possible change.
func TestUpdate(t *testing.T) {
	for _, net := range []string{"torus 5x6", "torus 4x4", "torus 4x4x4"} {
		g := graph(t, 8, net)
		first, _ := right(t, torus.Engine{}, g, route.Options{Workers: 2})
		level := map[[2]ib.GUID]ib.SL{}
		for s := range g.Switches {
			for e := range g.EndPorts {
				level[[2]ib.GUID{g.Switches[s].GUID, g.EndPorts[e].GUID}] = first.PathSL(int32(s), g.EndPorts[e].LID)
			}
		}
		for _, seed := range need.Seeds(6, 200) {
			draw := routetest.Draws(seed, 8)
			at := route.Solution{Graph: g, Tables: first}
			for range 4 {
				now := g
				if draw(3) > 0 {
					// The lowest GUID, where coordinates begin, fails now and then.
					s := int32(draw(len(g.Switches)) * draw(2))
					now = routetest.Without(g, []int32{s}, nil)
				} else if draw(2) > 0 {
					now = routetest.Without(g, nil, []int32{int32(draw(len(g.Channels)))})
				}
				d := fabric.Diff(at.Graph, now)
				tb, err := torus.Engine{}.Update(at, now, d, route.Options{Workers: 2})
				if err != nil {
					t.Fatalf("%s (seed %d): %v", net, seed, err)
				}
				if r := check.Verify(now, tb, check.Options{Workers: 2}); !r.OK() {
					t.Fatalf("%s (seed %d): %v", net, seed, r.Err())
				}
				for s := range now.Switches {
					for e := range now.EndPorts {
						if sl := tb.PathSL(int32(s), now.EndPorts[e].LID); sl != level[[2]ib.GUID{now.Switches[s].GUID, now.EndPorts[e].GUID}] {
							t.Fatalf("%s (seed %d): the level from %v to %v has become %d", net, seed, now.Switches[s].GUID, now.EndPorts[e].GUID, sl)
						}
					}
					if o := d.Switch[s]; o >= 0 && slices.Equal(tb.LFT[s], at.Tables.LFT[o]) && &tb.LFT[s][0] != &at.Tables.LFT[o][0] {
						t.Fatalf("%s (seed %d): the row of switch %d is the same and not shared", net, seed, s)
					}
				}
				at = route.Solution{Graph: now, Tables: tb}
			}
		}
	}
}
