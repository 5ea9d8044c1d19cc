package cdg_test

import (
	"maps"
	"slices"
	"testing"

	"heddle/fabric"
	"heddle/internal/routetest"
	"heddle/route/cdg"

	"pgregory.net/rapid"
)

// model is the obvious twin of a Graph: a map.
type model map[cdg.Dep]int

// edges lists a model's dependencies as pairs of nodes.
func (m model) edges(g *fabric.Graph) map[[2]cdg.Hop]bool {
	out := map[[2]cdg.Hop]bool{}
	for d, n := range m {
		if n > 0 {
			back := g.PortChannel[d.Switch][d.In]
			k := &g.Channels[back]
			out[[2]cdg.Hop{{Switch: k.To, Port: k.InPort, Lane: d.InLane}, {Switch: d.Switch, Port: d.Out, Lane: d.OutLane}}] = true
		}
	}
	return out
}

// reach is the transitive closure of edges.
func reach(edges map[[2]cdg.Hop]bool) map[[2]cdg.Hop]bool {
	out := map[[2]cdg.Hop]bool{}
	nodes := map[cdg.Hop]bool{}
	for e := range edges {
		out[e] = true
		nodes[e[0]], nodes[e[1]] = true, true
	}
	for k := range nodes {
		for i := range nodes {
			if out[[2]cdg.Hop{i, k}] {
				for j := range nodes {
					if out[[2]cdg.Hop{k, j}] {
						out[[2]cdg.Hop{i, j}] = true
					}
				}
			}
		}
	}
	return out
}

func cyclic(r map[[2]cdg.Hop]bool) bool {
	for e := range r {
		if e[0] == e[1] {
			return true
		}
	}
	return false
}

func drawNet(t *rapid.T) *fabric.Graph {
	draw := routetest.Draws(rapid.Uint64().Draw(t, "seed"))
	return routetest.Random(2+draw(4), draw(5), 1, 1, draw).Graph()
}

func drawDep(t *rapid.T, g *fabric.Graph, lanes int) (cdg.Dep, bool) {
	c := rapid.IntRange(0, len(g.Channels)-1).Draw(t, "channel")
	k := &g.Channels[c]
	next := g.Channels[g.Off[k.To]:g.Off[k.To+1]]
	out := next[rapid.IntRange(0, len(next)-1).Draw(t, "next")]
	if out.OutPort == k.InPort {
		return cdg.Dep{}, false
	}
	return cdg.Dep{
		Switch: k.To, In: k.InPort, InLane: uint8(rapid.IntRange(0, lanes-1).Draw(t, "l1")),
		Out: out.OutPort, OutLane: uint8(rapid.IntRange(0, lanes-1).Draw(t, "l2")),
	}, true
}

// TestNaiveTwin changes graphs, clones of them and their orders at random and
// compares counts, cycles and components with those of maps.
func TestNaiveTwin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := drawNet(t)
		if len(g.Channels) == 0 {
			return
		}
		lanes := rapid.IntRange(1, 2).Draw(t, "lanes")
		shape := cdg.NewShape(g)
		type pair struct {
			d *cdg.Graph
			m model
			o *cdg.Order
		}
		first := cdg.New(shape, lanes)
		all := []pair{{first, model{}, first.Order()}}
		for range rapid.IntRange(1, 25).Draw(t, "steps") {
			i := rapid.IntRange(0, len(all)-1).Draw(t, "graph")
			p := &all[i]
			if len(all) < 4 && rapid.IntRange(0, 5).Draw(t, "clone") == 0 {
				c := pair{p.d.Clone(), model{}, nil}
				maps.Copy(c.m, p.m)
				if p.o != nil {
					c.o = p.o.Clone()
				}
				all = append(all, c)
				continue
			}
			if p.d.Lanes() == lanes && rapid.IntRange(0, 19).Draw(t, "widen") == 0 {
				p.d.Widen(lanes + 1)
				p.o = p.d.Order()
			}
			d, ok := drawDep(t, g, p.d.Lanes())
			if !ok {
				continue
			}
			n := rapid.IntRange(-p.m[d], 2).Draw(t, "n")
			was := p.m[d]
			p.m[d] += n
			want := 0
			if (was > 0) != (p.m[d] > 0) {
				want = 1
				if was > 0 {
					want = -1
				}
			}
			if got := p.d.Add(d, n); got != want {
				t.Fatalf("Add %+v %d times to %d: %d, want %d", d, n, was, got, want)
			}
			ring := cyclic(reach(p.m.edges(g)))
			if (p.d.Order() == nil) != ring {
				t.Fatalf("Order says %v, cycle %v: %v", ring, !ring, p.m)
			}
			checkCloses(t, g, p.d, p.m, d)
			if want > 0 && p.o != nil && p.o.Closes(p.d, []cdg.Dep{d}) != ring {
				t.Fatalf("Closes says %v, cycle %v", !ring, ring)
			}
			if want > 0 && p.o != nil && rapid.Bool().Draw(t, "all") {
				if p.o.InsertAll(p.d, []cdg.Dep{d}) == ring {
					t.Fatalf("InsertAll says %v, cycle %v", !ring, ring)
				}
			} else if want > 0 && p.o != nil {
				if p.o.Insert(p.d, d) == ring {
					t.Fatalf("Insert says %v, cycle %v", !ring, ring)
				}
			}
			if ring {
				p.o = nil
			} else if p.o == nil {
				p.o = p.d.Order()
			}
			for e := range p.m {
				if p.m[e] > 0 && p.o != nil && !p.o.Agrees(p.d, e) {
					t.Fatalf("the order disagrees with %+v", e)
				}
			}
		}
		for i := range all {
			for d, n := range all[i].m {
				if all[i].d.Count(d) != n {
					t.Fatalf("graph %d: %+v counts %d, want %d", i, d, all[i].d.Count(d), n)
				}
			}
			all[i].d.Each(func(d cdg.Dep, n int) {
				if all[i].m[d] != n {
					t.Fatalf("graph %d: %+v is there %d times, want %d", i, d, n, all[i].m[d])
				}
			})
		}
		a, b := all[0], all[len(all)-1]
		a.d.Widen(lanes + 1)
		b.d.Widen(lanes + 1)
		if got, want := a.d.Tangles(b.d), tangles(a.m.edges(g), b.m.edges(g)); got != want {
			t.Fatalf("%d tangles, want %d", got, want)
		}
	})
}

// checkCloses compares Closes with the transitive closure.
func checkCloses(t *rapid.T, g *fabric.Graph, deps *cdg.Graph, m model, d cdg.Dep) {
	edges := m.edges(g)
	var e [2]cdg.Hop
	for e = range (model{d: 1}).edges(g) { // the only one
	}
	from, to := e[0], e[1]
	c := deps.Closes(d)
	if closed := from == to || reach(edges)[[2]cdg.Hop{to, from}]; (len(c) > 0) != closed {
		t.Fatalf("%+v closes %v, want a cycle: %v", d, c, closed)
	}
	if len(c) == 0 {
		return
	}
	if c[0] != to || c[len(c)-1] != from {
		t.Fatalf("%v is not the way from %v to %v", c, to, from)
	}
	for i := range len(c) - 1 {
		if !edges[[2]cdg.Hop{c[i], c[i+1]}] {
			t.Fatalf("%v: nothing leads from %v to %v", c, c[i], c[i+1])
		}
	}
}

// tangles counts the components of the union that hold an edge of b alone.
func tangles(a, b map[[2]cdg.Hop]bool) int {
	union := map[[2]cdg.Hop]bool{}
	for e := range a {
		union[e] = true
	}
	for e := range b {
		union[e] = true
	}
	r := reach(union)
	var heads []cdg.Hop
	for e := range b {
		if a[e] || !r[[2]cdg.Hop{e[1], e[0]}] {
			continue
		}
		if !slices.ContainsFunc(heads, func(h cdg.Hop) bool { return r[[2]cdg.Hop{h, e[0]}] && r[[2]cdg.Hop{e[0], h}] }) {
			heads = append(heads, e[0])
		}
	}
	return len(heads)
}

// TestClosesTogether adds several dependencies to a graph without cycles and compares Closes with the
// transitive closure.
func TestClosesTogether(t *testing.T) {
	count := map[bool]int{}
	rapid.Check(t, func(t *rapid.T) {
		g := drawNet(t)
		if len(g.Channels) == 0 {
			return
		}
		lanes := rapid.IntRange(1, 2).Draw(t, "lanes")
		deps, m := cdg.New(cdg.NewShape(g), lanes), model{}
		order := deps.Order()
		add := func(d cdg.Dep) bool {
			m[d]++
			return deps.Add(d, 1) > 0
		}
		for range rapid.IntRange(0, 30).Draw(t, "before") {
			if d, ok := drawDep(t, g, lanes); ok && add(d) && !order.Insert(deps, d) {
				deps.Add(d, -1)
				delete(m, d)
			}
		}
		var list []cdg.Dep
		for range rapid.IntRange(1, 6).Draw(t, "together") {
			if d, ok := drawDep(t, g, lanes); ok {
				add(d)
				list = append(list, d)
			}
		}
		ring := cyclic(reach(m.edges(g)))
		count[ring]++
		if order.Closes(deps, list) != ring {
			t.Fatalf("Closes says %v, cycle %v: %v", !ring, ring, list)
		}
	})
	if count[true] == 0 || count[false] == 0 {
		t.Errorf("cycles: %v", count)
	}
}
