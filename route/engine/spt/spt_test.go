package spt_test

import (
	"fmt"
	"slices"
	"testing"

	"heddle/fabric"
	"heddle/internal/need"
	"heddle/internal/routetest"
	"heddle/route/engine/spt"
)

// table is a plain sink.
type table struct {
	keep, got map[[2]int]int32
}

func (t *table) Keep(col int, s int32) int32 {
	if c, ok := t.keep[[2]int{col, int(s)}]; ok {
		return c
	}
	return -1
}

func (t *table) Set(col int, s, c int32) { t.got[[2]int{col, int(s)}] = c }

func network(g *fabric.Graph) *spt.Net {
	n := &spt.Net{
		Off: g.Off, To: make([]int32, len(g.Channels)), Rev: make([]int32, len(g.Channels)),
		Load: make([]uint64, len(g.Channels)), Sources: slices.Repeat([]uint32{1}, len(g.Switches)),
	}
	for c := range g.Channels {
		n.To[c], n.Rev[c] = g.Channels[c].To, g.Channels[c].Rev
	}
	return n
}

// TestTrees: every switch is on a cheapest path over switches that are not barred,
// loads equal those of the paths, and permitted entries are kept.
func TestTrees(t *testing.T) {
	for _, seed := range need.Seeds(100, 3000) {
		draw := routetest.Draws(seed)
		g := routetest.Random(2+draw(20), draw(40), 1, 1, draw).Graph()
		n := len(g.Switches)
		net := network(g)
		if draw(2) == 0 {
			net.Cost = make([]uint8, len(g.Channels))
			for c := range net.Cost {
				net.Cost[c] = uint8(1 + draw(255))
			}
		}
		net.Barred = [][]bool{nil, make([]bool, n)}
		for s := range net.Barred[1] {
			net.Barred[1][s] = draw(5) == 0
		}
		var cols []spt.Column
		for d := range int32(n) {
			for i := range draw(4) {
				cols = append(cols, spt.Column{Dst: d, Paths: 1, Siblings: uint8(i)})
			}
			if !net.Barred[1][d] {
				cols = append(cols, spt.Column{Dst: d, Class: 1, Paths: uint32(draw(3))})
			}
		}
		first := &table{got: map[[2]int]int32{}}
		spt.Run(net, cols, first, 1+draw(4))
		ctx := fmt.Sprintf("seed %d", seed)
		loads := make([]uint64, len(net.Load))
		for i, col := range cols {
			barred := net.Barred[col.Class]
			dist := bellman(net, col.Dst, barred)
			for s := range n {
				c, ok := first.got[[2]int{i, s}]
				switch {
				case int32(s) == col.Dst:
					if ok {
						t.Fatalf("%s: the destination is told of", ctx)
					}
				case dist[s] == 1<<30:
					if !ok || c != -1 {
						t.Fatalf("%s: column %d: switch %d has channel %d, want none", ctx, i, s, c)
					}
				case !ok || c < 0 || dist[net.To[c]]+cost(net, c) != dist[s]:
					t.Fatalf("%s: column %d: switch %d takes channel %d, not on a cheapest path", ctx, i, s, c)
				default:
					for u := int32(s); u != col.Dst; u = net.To[first.got[[2]int{i, int(u)}]] {
						loads[first.got[[2]int{i, int(u)}]] += uint64(col.Paths)
					}
				}
			}
		}
		if !slices.Equal(loads, net.Load) {
			t.Fatalf("%s: loads are not those of the paths", ctx)
		}
		clear(net.Load)
		again := &table{keep: first.got, got: map[[2]int]int32{}}
		spt.Run(net, cols, again, 1)
		for k, c := range first.got {
			if again.got[k] != c {
				t.Fatalf("%s: column %d: switch %d moved from channel %d to %d without need", ctx, k[0], k[1], c, again.got[k])
			}
		}
	}
}

func cost(net *spt.Net, c int32) int {
	if net.Cost == nil {
		return 1
	}
	return int(net.Cost[c])
}

// bellman finds the costs to a switch the slow way (R. Bellman, 1958).
func bellman(net *spt.Net, dst int32, barred []bool) []int {
	dist := slices.Repeat([]int{1 << 30}, len(net.Off)-1)
	dist[dst] = 0
	for range dist {
		for c, v := range net.To {
			u := net.To[net.Rev[c]]
			if dist[v] < 1<<30 && (barred == nil || !barred[u]) {
				dist[u] = min(dist[u], dist[v]+cost(net, int32(c)))
			}
		}
	}
	return dist
}
