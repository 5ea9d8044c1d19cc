package toposort_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"heddle/internal/toposort"
)

// graph is adjacency lists of both directions.
type graph struct{ out, in [][]int32 }

func newGraph(n int) *graph { return &graph{out: make([][]int32, n), in: make([][]int32, n)} }

func (g *graph) succ(x int32, buf []int32) []int32 { return append(buf, g.out[x]...) }
func (g *graph) pred(x int32, buf []int32) []int32 { return append(buf, g.in[x]...) }

func (g *graph) add(u, v int32) {
	g.out[u] = append(g.out[u], v)
	g.in[v] = append(g.in[v], u)
}

// reaches searches depth first: the plain way to know whether an edge closes a cycle.
func (g *graph) reaches(from, to int32, seen []bool) bool {
	if from == to {
		return true
	}
	seen[from] = true
	return slices.ContainsFunc(g.out[from], func(z int32) bool { return !seen[z] && g.reaches(z, to, seen) })
}

// TestInsert adds and removes random edges. Insert refuses exactly the edges that close a cycle,
// every edge goes forward afterward, and positions stay a permutation.
func TestInsert(t *testing.T) {
	var ins toposort.Inserter // shared by graphs of several sizes
	refused, moved := 0, 0
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		n := 2 + r.IntN(40)
		g, pos := newGraph(n), make([]int32, n)
		for i, p := range r.Perm(n) {
			pos[i] = int32(p)
		}
		for range 4 * n {
			u, v := int32(r.IntN(n)), int32(r.IntN(n))
			if r.IntN(4) == 0 && len(g.out[u]) > 0 { // remove an edge
				v = g.out[u][0]
				g.out[u] = g.out[u][1:]
				g.in[v] = slices.DeleteFunc(slices.Clone(g.in[v]), func(z int32) bool { return z == u })
				g.out[u] = slices.DeleteFunc(g.out[u], func(z int32) bool { return z == v })
				continue
			}
			old := slices.Clone(pos)
			cycle := g.reaches(v, u, make([]bool, n))
			if ok := ins.Insert(pos, u, v, g.succ, g.pred); ok == cycle {
				t.Fatalf("seed %d: Insert(%d, %d) = %v, and the edge closes a cycle: %v", seed, u, v, ok, cycle)
			}
			if cycle {
				refused++
				if !slices.Equal(pos, old) {
					t.Fatalf("seed %d: a refused edge changed the order", seed)
				}
				continue
			}
			if !slices.Equal(pos, old) {
				moved++
				list := ins.Moved()
				for x := range pos {
					if pos[x] != old[x] && !slices.Contains(list, int32(x)) {
						t.Fatalf("seed %d: node %d moved, and Moved does not list it", seed, x)
					}
				}
			}
			g.add(u, v)
			for x, out := range g.out {
				for _, y := range out {
					if pos[x] >= pos[y] {
						t.Fatalf("seed %d: edge %d→%d goes backward", seed, x, y)
					}
				}
			}
			sorted := slices.Sorted(slices.Values(pos))
			for i, p := range sorted {
				if int(p) != i {
					t.Fatalf("seed %d: positions are no permutation", seed)
				}
			}
		}
	}
	if refused < 1000 || moved < 1000 {
		t.Errorf("%d edges refused and %d orders changed: the graphs are too easy", refused, moved)
	}
}

// TestStop: a search that its caller stops changes nothing and does not affect the next
// one.
func TestStop(t *testing.T) {
	g, pos := newGraph(3), []int32{2, 1, 0} // in order: 2, 1, 0
	g.add(2, 1)
	var ins toposort.Inserter
	stop := func(x int32, buf []int32) []int32 { ins.Stop = true; return g.succ(x, buf) }
	if ins.Insert(pos, 0, 2, stop, g.pred) || !slices.Equal(pos, []int32{2, 1, 0}) {
		t.Errorf("a stopped search made room: %v", pos)
	}
	if !ins.Insert(pos, 0, 2, g.succ, g.pred) || !slices.Equal(pos, []int32{0, 2, 1}) {
		t.Errorf("0 before 2 before 1: positions %v", pos)
	}
	if ins.Visits != 2 {
		t.Errorf("%d edges visited, want one in each search", ins.Visits)
	}
	g.add(0, 2)
	if ins.Insert(pos, 1, 0, g.succ, g.pred) {
		t.Error("1→0 closes a cycle, and there is room for it")
	}
	if ins.Insert(pos, 1, 1, g.succ, g.pred) {
		t.Error("an edge from a node to itself found room")
	}
}

func BenchmarkInsert(b *testing.B) {
	const n = 4096
	r := rand.New(rand.NewPCG(1, 1))
	type edge struct{ u, v int32 }
	edges := make([]edge, 4*n)
	rank := r.Perm(n)
	for i := range edges {
		u, v := int32(r.IntN(n)), int32(r.IntN(n))
		if rank[u] > rank[v] {
			u, v = v, u
		}
		edges[i] = edge{u, v}
	}
	for b.Loop() {
		var ins toposort.Inserter
		g, pos := newGraph(n), make([]int32, n)
		for i := range pos {
			pos[i] = int32(i)
		}
		for _, e := range edges {
			if ins.Insert(pos, e.u, e.v, g.succ, g.pred) {
				g.add(e.u, e.v)
			}
		}
	}
}
