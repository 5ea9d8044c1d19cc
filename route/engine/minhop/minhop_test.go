package minhop_test

import (
	"testing"

	"heddle/fabric"
	"heddle/ib"
	"heddle/internal/routetest"
	"heddle/route"
	"heddle/route/check"
	"heddle/route/engine/minhop"

	"pgregory.net/rapid"
)

func compute(t rapid.TB, g *fabric.Graph, o route.Options) *route.Tables {
	t.Helper()
	tb, err := minhop.Engine{}.Compute(g, o)
	if err != nil {
		t.Fatal(err)
	}
	return tb
}

// distances by Floyd and Warshall.
func distances(g *fabric.Graph) [][]int {
	n := len(g.Switches)
	d := make([][]int, n)
	for s := range d {
		d[s] = make([]int, n)
		for v := range d[s] {
			if v != s {
				d[s][v] = 1 << 20
			}
		}
	}
	for _, c := range g.Channels {
		d[c.From][c.To] = 1
	}
	for k := range n {
		for i := range n {
			for j := range n {
				d[i][j] = min(d[i][j], d[i][k]+d[k][j])
			}
		}
	}
	return d
}

// shortest checks that every entry leads one step nearer, or is Drop where
// nothing does.
func shortest(t rapid.TB, g *fabric.Graph, tb *route.Tables) {
	t.Helper()
	d := distances(g)
	for l := 1; l <= int(g.TopLID); l++ {
		e := g.LIDOwner[l]
		for s := range g.Switches {
			got := tb.LFT[s][l]
			if e == fabric.NoLID || g.EndPorts[e].Switch < 0 || d[s][g.EndPorts[e].Switch] >= 1<<20 {
				if got != route.Drop {
					t.Fatalf("switch %d LID %d: entry %d, want Drop", s, l, got)
				}
				continue
			}
			dst := g.EndPorts[e].Switch
			if int32(s) == dst {
				if got != g.EndPorts[e].Port {
					t.Fatalf("switch %d LID %d: entry %d, want %d", s, l, got, g.EndPorts[e].Port)
				}
				continue
			}
			if got == route.Drop || g.PortChannel[s][got] < 0 {
				t.Fatalf("switch %d LID %d: entry %d leads to no switch", s, l, got)
			}
			if to := g.Channels[g.PortChannel[s][got]].To; d[to][dst] != d[s][dst]-1 {
				t.Fatalf("switch %d LID %d: %d links from switch %d, %d from here", s, l, d[to][dst], to, d[s][dst])
			}
		}
	}
}

func TestShortestOnRandomNets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := routetest.Draws(rapid.SliceOfN(rapid.Uint64(), 4, 4).Draw(t, "seed")...)
		n := 1 + draw(14)
		b := routetest.Random(n, draw(2*n), 3, 4, draw)
		if draw(3) == 0 { // a second part, and two CAs cabled to each other
			s := b.Switches(2)
			b.Link(s, s+1)
			b.Host(s+1, 2)
			b.Host(-1, 1)
			b.Host(-1, 1)
		}
		g := b.Graph()
		tb := compute(t, g, route.Options{})
		shortest(t, g, tb)
		r := check.Verify(g, tb, check.Options{})
		if r.UnreachablePairs != 0 || r.Loops != 0 {
			t.Fatal(r.Err())
		}
		again := compute(t, g, route.Options{Workers: 3, Previous: tb})
		if !again.Equal(tb) {
			t.Fatal("previous tables were as good and yet changed")
		}
	})
}

func TestAnyNumberOfWorkers(t *testing.T) {
	nets := map[string]*routetest.Net{
		"tree":  routetest.Tree(12, 12),
		"lmc":   routetest.XGFT(6, 6, 6, 6, 6, 200, 20),
		"torus": routetest.Torus(24, 24, 4),
	}
	for name, b := range nets {
		g := b.Graph()
		want := compute(t, g, route.Options{Workers: 1})
		for w := 2; w <= 8; w++ {
			if !compute(t, g, route.Options{Workers: w}).Equal(want) {
				t.Errorf("%s: %d workers give other tables than one", name, w)
			}
		}
	}
}

// TestBalanceOnTrees: with all-to-all traffic the fullest channel of a fat tree
// carries hardly more than the mean.
func TestBalanceOnTrees(t *testing.T) {
	for name, b := range map[string]*routetest.Net{
		"two levels":   routetest.Tree2(36, 18, 18),
		"three levels": routetest.Tree(16, 16),
		"half a tree":  routetest.Tree(16, 8),
	} {
		g := b.Graph()
		r := check.Verify(g, compute(t, g, route.Options{}), check.Options{})
		if !r.OK() {
			t.Fatalf("%s: %v", name, r.Err())
		}
		if float64(r.MaxChannelLoad) > 1.1*r.AvgChannelLoad {
			t.Errorf("%s: fullest channel %d, mean %.1f", name, r.MaxChannelLoad, r.AvgChannelLoad)
		}
	}
}

// TestPathsOfOnePort: a port's LIDs leave a switch by different neighbors as
// far as there are any, then by different links.
func TestPathsOfOnePort(t *testing.T) {
	b := &routetest.Net{}
	b.Switches(4) // 0 and 3 joined by 1 (two cables) and 2
	b.Link(0, 1)
	b.Link(0, 1)
	b.Link(0, 2)
	b.Link(1, 3)
	b.Link(2, 3)
	b.Host(3, 4)
	b.Host(0, 1)
	g := b.Graph()
	tb := compute(t, g, route.Options{})
	via := map[int32]int{}
	ports := map[byte]int{}
	for l := ib.LID(1); l <= 4; l++ {
		p := tb.Entry(0, l)
		ports[p]++
		via[g.Channels[g.PortChannel[0][p]].To]++
	}
	if via[1] != 2 || via[2] != 2 {
		t.Errorf("four LIDs go %d by switch 1 and %d by switch 2, want 2 and 2", via[1], via[2])
	}
	if len(ports) != 3 {
		t.Errorf("four LIDs use %d of 3 ports", len(ports))
	}
}

// TestShortTables: paths avoid a switch whose table lacks a LID, and no switch claims
// to deliver what only that one could.
func TestShortTables(t *testing.T) {
	b := &routetest.Net{Cap: map[int]int{1: 3}}
	b.Switches(4) // a ring
	for s := range 4 {
		b.Link(s, (s+1)%4)
		b.Host(s, 1) // LIDs 1–4
	}
	g := b.Graph()
	tb := compute(t, g, route.Options{})
	for l := ib.LID(3); l <= g.TopLID; l++ {
		if e := tb.Entry(1, l); e != route.Drop {
			t.Errorf("switch 1 holds LIDs below 3 only, has entry %d for %d", e, l)
		}
		if e := tb.Entry(0, l); e != route.Drop && g.EndPorts[g.LIDOwner[l]].Switch != 0 && g.Channels[g.PortChannel[0][e]].To == 1 {
			t.Errorf("LID %d is sent to switch 1, which cannot forward it", l)
		}
	}
	if e := tb.Entry(0, 3); e == route.Drop {
		t.Error("LID 3 can be reached round switch 1 but is dropped")
	}
	if e := tb.Entry(0, 6); e != route.Drop { // switch 1's own port 0
		t.Errorf("LID 6 is behind switch 1, which does not hold it; entry %d", e)
	}
}

// TestLinkFailureMovesFew: after a link failure only the necessary entries move.
func TestLinkFailureMovesFew(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := routetest.Draws(rapid.SliceOfN(rapid.Uint64(), 4, 4).Draw(t, "seed")...)
		g := routetest.Tree(6, 6).Graph()
		before := compute(t, g, route.Options{})
		h := without(g, int32(draw(len(g.Channels))))
		after := compute(t, h, route.Options{Previous: before})
		shortest(t, h, after)
		d := distances(h)
		for s := range h.Switches {
			for l := 1; l <= int(h.TopLID); l++ {
				was, is := before.LFT[s][l], after.LFT[s][l]
				if was == is {
					continue
				}
				dst := h.EndPorts[h.LIDOwner[l]].Switch
				if c := h.PortChannel[s][was]; c >= 0 && d[h.Channels[c].To][dst] == d[s][dst]-1 {
					t.Fatalf("switch %d LID %d moved from port %d to %d without need", s, l, was, is)
				}
			}
		}
	})
}

// without is g with one cable pulled.
func without(g *fabric.Graph, c int32) *fabric.Graph {
	h := *g
	h.Channels, h.Off, h.PortChannel = nil, make([]int32, len(g.Off)), nil
	for s := range g.Switches {
		row := make([]int32, len(g.PortChannel[s]))
		for p := range row {
			row[p] = -1
		}
		for k := g.Off[s]; k < g.Off[s+1]; k++ {
			if k == c || k == g.Channels[c].Rev {
				continue
			}
			row[g.Channels[k].OutPort] = int32(len(h.Channels))
			h.Channels = append(h.Channels, g.Channels[k])
		}
		h.PortChannel = append(h.PortChannel, row)
		h.Off[s+1] = int32(len(h.Channels))
	}
	for k := range h.Channels {
		h.Channels[k].Rev = h.PortChannel[h.Channels[k].To][h.Channels[k].InPort]
	}
	return &h
}

func TestPreviousOfAnotherGraph(t *testing.T) {
	g := routetest.Tree2(4, 2, 2).Graph()
	if _, err := (minhop.Engine{}).Compute(g, route.Options{Previous: route.New("x", 3, 5)}); err == nil {
		t.Error("tables for three switches were taken for six")
	}
}
