package updn_test

import (
	"slices"
	"testing"

	"heddle/fabric"
	"heddle/ib"
	"heddle/internal/routetest"
	"heddle/route"
	"heddle/route/check"
	"heddle/route/engine/updn"

	"pgregory.net/rapid"
)

func compute(t rapid.TB, g *fabric.Graph, o route.Options) *route.Tables {
	t.Helper()
	tb, err := updn.Engine{}.Compute(g, o)
	if err != nil {
		t.Fatal(err)
	}
	return tb
}

// legal walks every path: up, then down; and no path is longer than by the
// rule of 2003, which goes down wherever the destination lies below.
func legal(t rapid.TB, g *fabric.Graph, tb *route.Tables, order []int32) {
	t.Helper()
	n := len(g.Switches)
	rank := make([]int, n)
	for i, s := range order {
		rank[s] = i
	}
	const far = 1 << 20
	// down[s][d] and rule[s][d]: links of the shortest way that only goes
	// down, and by the rule of 2003.
	down, rule := make([][]int, n), make([][]int, n)
	for i := n - 1; i >= 0; i-- {
		s := order[i]
		down[s] = slices.Repeat([]int{far}, n)
		down[s][s] = 0
		for _, c := range g.Channels[g.Off[s]:g.Off[s+1]] {
			if rank[c.To] > rank[s] {
				for d, x := range down[c.To] {
					down[s][d] = min(down[s][d], x+1)
				}
			}
		}
	}
	for _, s := range order {
		rule[s] = slices.Clone(down[s])
		for d, x := range down[s] {
			for _, c := range g.Channels[g.Off[s]:g.Off[s+1]] {
				if x >= far && rank[c.To] < rank[s] {
					rule[s][d] = min(rule[s][d], rule[c.To][d]+1)
				}
			}
		}
	}
	for l := 1; l <= int(g.TopLID); l++ {
		e := &g.EndPorts[g.LIDOwner[l]]
		for s := range int32(n) {
			if e.Switch < 0 || rule[s][e.Switch] >= far {
				continue // another part; Verify knows
			}
			fell := false
			hops := 0
			for u := s; u != e.Switch; hops++ {
				c := g.Channels[g.PortChannel[u][tb.Entry(u, ib.LID(l))]]
				up := rank[c.To] < rank[u]
				if up && fell {
					t.Fatalf("from switch %d to LID %d: up again at switch %d", s, l, u)
				}
				fell = !up
				u = c.To
			}
			if hops > rule[s][e.Switch] {
				t.Fatalf("from switch %d to LID %d: %d links, want at most %d", s, l, hops, rule[s][e.Switch])
			}
		}
	}
}

func TestLegalOnRandomNets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := routetest.Draws(rapid.SliceOfN(rapid.Uint64(), 4, 4).Draw(t, "seed")...)
		n := 1 + draw(24)
		b := routetest.Random(n, draw(2*n), 2, 3, draw)
		if draw(4) == 0 {
			s := b.Switches(3)
			b.Link(s, s+1)
			b.Link(s+1, s+2)
			b.Host(s, 1)
			b.Host(s+2, 1)
		}
		g := b.Graph()
		var roots []ib.GUID
		for range draw(4) {
			roots = append(roots, g.Switches[draw(n)].GUID)
		}
		tb := compute(t, g, route.Options{Roots: roots})
		r := check.Verify(g, tb, check.Options{})
		if !r.OK() {
			t.Fatalf("%v: %+v", r.Err(), r)
		}
		legal(t, g, tb, updn.Rank(g, route.Options{Roots: roots}).Order)
		if !compute(t, g, route.Options{Roots: roots, Workers: 4, Previous: tb}).Equal(tb) {
			t.Fatal("previous tables were as good and yet changed")
		}
	})
}

func TestAnyNumberOfWorkers(t *testing.T) {
	for name, b := range map[string]*routetest.Net{
		"tree":  routetest.Tree(12, 12),
		"lmc":   routetest.XGFT(6, 6, 6, 6, 6, 200, 20),
		"torus": routetest.Torus(24, 24, 4),
	} {
		g := b.Graph()
		want := compute(t, g, route.Options{Workers: 1})
		for w := 2; w <= 8; w++ {
			if !compute(t, g, route.Options{Workers: w}).Equal(want) {
				t.Errorf("%s: %d workers give other tables than one", name, w)
			}
		}
	}
}

// TestRootsOfATree: the tops are found, all of them, and the load is spread
// over them.
func TestRootsOfATree(t *testing.T) {
	g := routetest.Tree(12, 12).Graph() // 72 leaves, 72 middle, 36 tops
	r := updn.Rank(g, route.Options{Workers: 2})
	var want []int32
	for s := int32(144); s < 180; s++ {
		want = append(want, s)
	}
	if !slices.Equal(r.Roots, want) || !r.Found || r.Note != "" {
		t.Errorf("roots %v (%q), want the 36 tops", r.Roots, r.Note)
	}
	v := check.Verify(g, compute(t, g, route.Options{}), check.Options{})
	if !v.OK() || v.MaxHops != 4 {
		t.Errorf("%v, %d hops, want clean and 4", v.Err(), v.MaxHops)
	}
	if float64(v.MaxChannelLoad) > 1.1*v.AvgChannelLoad {
		t.Errorf("fullest channel %d, mean %.1f", v.MaxChannelLoad, v.AvgChannelLoad)
	}
}

func TestOneRootOfATorus(t *testing.T) {
	g := routetest.Torus(8, 8, 1).Graph()
	r := updn.Rank(g, route.Options{})
	if !slices.Equal(r.Roots, []int32{0}) {
		t.Errorf("roots %v, want the lowest GUID alone", r.Roots)
	}
	if v := check.Verify(g, compute(t, g, route.Options{}), check.Options{}); !v.OK() {
		t.Error(v.Err())
	}
}

// TestDamagedTree: tops that lost the link to a pod stay in use, and everything
// stays reachable without a cycle.
func TestDamagedTree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := routetest.Draws(rapid.SliceOfN(rapid.Uint64(), 4, 4).Draw(t, "seed")...)
		g := routetest.Damaged(routetest.Tree(6, 6), 1+draw(20), draw).Graph()
		v := check.Verify(g, compute(t, g, route.Options{}), check.Options{})
		if !v.OK() {
			t.Fatalf("%v: %+v", v.Err(), v)
		}
	})
}

// TestRootWithoutLeaf: a spine that not every leaf is cabled to stays in use.
func TestRootWithoutLeaf(t *testing.T) {
	b := routetest.Tree2(4, 2, 2)
	b.Unlink(3, 5) // leaf 3 loses spine 5
	g := b.Graph()
	roots := []ib.GUID{g.Switches[4].GUID, g.Switches[5].GUID}
	r := updn.Rank(g, route.Options{Roots: roots})
	if !slices.Equal(r.Roots, []int32{4, 5}) || r.Note != "" {
		t.Errorf("roots %v, note %q; want both spines and no note", r.Roots, r.Note)
	}
	tb := compute(t, g, route.Options{Roots: roots})
	v := check.Verify(g, tb, check.Options{})
	if !v.OK() {
		t.Fatal(v.Err())
	}
	legal(t, g, tb, r.Order)
	used := false
	for l := 1; l <= 6; l++ {
		for s := range 3 {
			p := tb.LFT[s][l]
			used = used || p != route.Drop && g.PortChannel[s][p] >= 0 && g.Channels[g.PortChannel[s][p]].To == 5
		}
	}
	if !used {
		t.Error("spine 5 is not used at all")
	}
}

func TestUnknownRoot(t *testing.T) {
	g := routetest.Tree2(4, 2, 2).Graph()
	r := updn.Rank(g, route.Options{Roots: []ib.GUID{0xdead}})
	if !slices.Equal(r.Roots, []int32{4, 5}) || r.Note == "" || !r.Found {
		t.Errorf("%+v", r)
	}
}
