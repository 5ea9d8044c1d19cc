package cdg

import (
	"slices"
	"testing"

	"heddle/internal/need"
	"heddle/internal/routetest"
)

// TestFast does the same with a graph of narrow switches and with a copy whose shape says that they are
// wide: each answer, each cycle and each order is the same, so what depends on an order does too.
func TestFast(t *testing.T) {
	count := map[string]int{}
	for _, seed := range need.Seeds(40, 2000) {
		draw := routetest.Draws(seed)
		g := routetest.Random(2+draw(12), draw(20), 1, 1, draw).Graph()
		if len(g.Channels) == 0 {
			continue
		}
		fast := New(NewShape(g), 1)
		wide := *fast.shape
		wide.thin = false
		slow := New(&wide, 1)
		a, b := fast.Order(), slow.Order()
		drawn := func() (d Dep, ok bool) {
			k := &g.Channels[draw(len(g.Channels))]
			next := g.Channels[g.Off[k.To]:g.Off[k.To+1]]
			d = Dep{Switch: k.To, In: k.InPort, Out: next[draw(len(next))].OutPort}
			return d, d.In != d.Out
		}
		for step := range 200 {
			d, ok := drawn()
			if !ok {
				continue
			}
			list := []Dep{d}
			for range draw(4) {
				if d, ok := drawn(); ok {
					list = append(list, d)
				}
			}
			x, y := a.Closes(fast, list), b.Closes(slow, list)
			if x != y {
				t.Fatalf("seed %d, step %d: %v close a cycle: %v and %v", seed, step, list, x, y)
			}
			p, q := a.FirstClosing(fast, list), b.FirstClosing(slow, list)
			if p != q || (p >= 0) != x || p >= 0 && (a.Closes(fast, list[:p]) || !a.Closes(fast, list[:p+1])) {
				t.Fatalf("seed %d, step %d: the first of %v to close a cycle: %d and %d", seed, step, list, p, q)
			}
			if p > 0 {
				count["later"]++
			}
			if p, q := fast.Closes(d), slow.Closes(d); !slices.Equal(p, q) {
				t.Fatalf("seed %d, step %d: %v closes %v and %v", seed, step, d, p, q)
			}
			if fast.Count(d) > 0 && draw(2) == 0 {
				fast.Add(d, -1)
				slow.Add(d, -1)
				continue
			}
			was := slices.Clone(a.pos)
			x, y = a.Insert(fast, d), b.Insert(slow, d)
			if x != y || !slices.Equal(a.pos, b.pos) {
				t.Fatalf("seed %d, step %d: inserting %v: %v, %v and %v, %v", seed, step, d, x, a.pos, y, b.pos)
			}
			if x {
				fast.Add(d, 1)
				slow.Add(d, 1)
			}
			switch {
			case !x:
				count["refused"]++
			case !slices.Equal(was, a.pos):
				count["moved"]++
			}
			if draw(40) == 0 { // positions with gaps
				a.InsertAll(fast, []Dep{d})
				b.InsertAll(slow, []Dep{d})
				b.pos = slices.Clone(a.pos)
				fast, slow = fast.Clone(), slow.Clone()
			}
		}
	}
	if count["later"] < 20 || count["refused"] < 20 || count["moved"] < 20 {
		t.Errorf("too easy: %v", count)
	}
}
