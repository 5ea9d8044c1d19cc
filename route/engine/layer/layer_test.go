package layer_test

import (
	"fmt"
	"strings"
	"testing"

	"heddle/fabric"
	"heddle/ib"
	"heddle/internal/need"
	"heddle/internal/routetest"
	"heddle/route"
	"heddle/route/engine/layer"
)

// paths routes a graph by the first shortest way to every switch; a class is
// a switch.
func paths(g *fabric.Graph, symmetric bool) *layer.Paths {
	n := len(g.Switches)
	p := &layer.Paths{Ways: g.PortChannel, CA: make([]bool, n), Rows: make([][]byte, n), Symmetric: symmetric}
	to, rev := make([]int32, len(g.Channels)), make([]int32, len(g.Channels))
	for c := range g.Channels {
		to[c], rev[c] = g.Channels[c].To, g.Channels[c].Rev
	}
	p.Graph = layer.NewGraph(g.Off, to, rev)
	for i := range g.EndPorts {
		if e := &g.EndPorts[i]; e.Type != ib.NodeSwitch {
			p.CA[e.Switch] = true
		}
	}
	for s := range p.Rows {
		p.Rows[s] = make([]byte, n)
		for d := range p.Rows[s] {
			p.Rows[s][d] = route.Drop
		}
	}
	for d := range int32(n) {
		p.Cols = append(p.Cols, layer.Column{Row: d, Dst: d, Class: d, CA: p.CA[d]})
		p.Class = append(p.Class, []int32{d})
		seen := make([]bool, n)
		seen[d] = true
		queue := []int32{d}
		for h := 0; h < len(queue); h++ {
			for c := g.Off[queue[h]]; c < g.Off[queue[h]+1]; c++ {
				if v := to[c]; !seen[v] {
					seen[v] = true
					p.Rows[v][d] = g.Channels[rev[c]].OutPort
					queue = append(queue, v)
				}
			}
		}
	}
	return p
}

// acyclic follows every pair of every layer and looks for cycles, without
// anything that the package counts.
func acyclic(t *testing.T, ctx string, p *layer.Paths, l *layer.Layers) {
	t.Helper()
	n := p.Graph.Switches()
	for k := range l.Used {
		after := make([]map[int32]bool, p.Graph.Channels())
		in := make([]int, p.Graph.Channels())
		for s := range int32(n) {
			for d := range int32(n) {
				if int(l.SL[int(s)*n+int(d)]) != k || !p.CA[s] && !p.CA[d] {
					continue
				}
				last := int32(-1)
				for u := s; u != d && p.Rows[u][d] != route.Drop; {
					c := p.Ways[u][p.Rows[u][d]]
					if last >= 0 && !after[last][c] {
						if after[last] == nil {
							after[last] = map[int32]bool{}
						}
						after[last][c] = true
						in[c]++
					}
					last, u = c, p.Graph.To[c]
				}
			}
		}
		var queue []int32
		for c, k := range in {
			if k == 0 {
				queue = append(queue, int32(c))
			}
		}
		for h := 0; h < len(queue); h++ {
			for c := range after[queue[h]] {
				if in[c]--; in[c] == 0 {
					queue = append(queue, c)
				}
			}
		}
		if len(queue) < len(in) {
			t.Fatalf("%s: layer %d has a cycle", ctx, k)
		}
	}
}

// TestLayers: both methods, and spreading, leave no cycle on random nets; the counts
// equal the paths' dependencies.
func TestLayers(t *testing.T) {
	most := 0
	for _, seed := range need.Seeds(60, 2000) {
		draw := routetest.Draws(seed)
		g := routetest.Random(4+draw(28), draw(50), 2, 1, draw).Graph()
		for _, symmetric := range []bool{false, true} {
			p := paths(g, symmetric)
			for name, fill := range map[string]func(*layer.Paths) (*layer.Layers, bool){"split": layer.Split, "fit": layer.Fit} {
				ctx := fmt.Sprintf("%s, symmetric %v, seed %d", name, symmetric, seed)
				l, ok := fill(p)
				if !ok {
					t.Fatalf("%s: %d layers do not do", ctx, layer.Max)
				}
				most = max(most, l.Used)
				for _, l := range []*layer.Layers{l, l.Spread(8)} {
					acyclic(t, ctx, p, l)
					if err := l.Audit(); err != nil {
						t.Fatalf("%s: %v", ctx, err)
					}
				}
				if s := l.Spread(8); s.Used != max(8, l.Used) {
					t.Errorf("%s: %d layers spread over 8 are %d", ctx, l.Used, s.Used)
				}
			}
		}
	}
	if most < 3 {
		t.Errorf("no net needs more than %d layers", most)
	}
}

// TestRing: a ring of six needs exactly two layers; a line, one.
func TestRing(t *testing.T) {
	for _, fill := range []func(*layer.Paths) (*layer.Layers, bool){layer.Split, layer.Fit} {
		for _, symmetric := range []bool{false, true} {
			if l, ok := fill(paths(routetest.Torus(6, 1, 1).Graph(), symmetric)); !ok || l.Used != 2 {
				t.Errorf("a ring takes %d layers, want 2", l.Used)
			}
			b := routetest.Torus(6, 1, 1)
			b.Unlink(0, 5)
			if l, ok := fill(paths(b.Graph(), symmetric)); !ok || l.Used != 1 {
				t.Errorf("a line takes %d layers, want 1", l.Used)
			}
		}
	}
}

// TestOnlyTrafficThatExists: a net without hosts needs no layer.
func TestOnlyTrafficThatExists(t *testing.T) {
	if l, ok := layer.Split(paths(routetest.Torus(6, 1, 0).Graph(), true)); !ok || l.Used != 1 {
		t.Errorf("a ring without hosts takes %d layers, want 1", l.Used)
	}
}

// TestUpdateFewerLanes: layers are not updated for a graph with fewer
// lanes than they are.
func TestUpdateFewerLanes(t *testing.T) {
	p := paths(routetest.Torus(6, 1, 1).Graph(), false)
	l, _ := layer.Split(p)
	l = l.Spread(4)
	every := func(n int) []int32 {
		list := make([]int32, n)
		for i := range list {
			list[i] = int32(i)
		}
		return list
	}
	n, m := every(p.Graph.Switches()), every(p.Graph.Channels())
	c := &layer.Change{Switch: n, Gone: n, Channel: m, GoneChannel: m, Column: n, Touched: make([]bool, len(n))}
	if now := layer.Update(l, p, c, 4, 1); now == nil || now.Used != 4 {
		t.Error("four layers are not updated to four lanes")
	}
	if layer.Update(l, p, c, 3, 1) != nil {
		t.Error("four layers are updated to three lanes")
	}
}

// TestTooFewLayers: the error names the number of layers needed and the limit.
func TestTooFewLayers(t *testing.T) {
	g := routetest.Torus(4, 4, 1).Graph() // 8 lanes a link
	for _, c := range []struct {
		needs, allowed int
		want           string
	}{
		{5, 4, "x: needs 5 lanes, 4 are allowed"},
		{9, 0, fmt.Sprintf("x: needs 9 lanes, 8 are allowed (link %v port 1 has 8)", g.Switches[0].GUID)},
		{9, 12, "(link "},
		{layer.Max + 1, 4, "x: needs more than 15 lanes"},
	} {
		if err := layer.Refuse("x", c.needs, g, route.Options{MaxVLs: c.allowed}); !strings.Contains(err.Error(), c.want) {
			t.Errorf("%d of %d: %q, want %q", c.needs, c.allowed, err, c.want)
		}
	}
}
