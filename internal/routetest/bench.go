package routetest

import (
	"testing"

	"heddle/fabric"
	"heddle/route"
)

// BenchCompute measures e on the fabrics of the benchmarks: by their names,
// trees of so many hosts, and the full subnet.
func BenchCompute(b *testing.B, e route.Engine) {
	for name, net := range map[string]func() *Net{
		"648":   func() *Net { return Tree2(36, 18, 18) },
		"5832":  func() *Net { return Tree(36, 18) },
		"11664": func() *Net { return Tree(36, 36) },
		"full":  FullSubnet,
	} {
		b.Run(name, func(b *testing.B) {
			g := net().Graph()
			b.ReportAllocs()
			for b.Loop() {
				if _, err := e.Compute(g, route.Options{Workers: 2}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchUpdateLink measures how e carries its tables over a link of the tree of
// 11,664 hosts that fails, below or above the middle switches, or returns.
func BenchUpdateLink(b *testing.B, e route.Updater) { benchUpdate(b, e, true) }

// BenchUpdate measures the same for a switch or a host that fails.
func BenchUpdate(b *testing.B, e route.Updater) { benchUpdate(b, e, false) }

func benchUpdate(b *testing.B, e route.Updater, links bool) {
	g := Tree(36, 36).Graph()
	t, err := e.Compute(g, route.Options{Workers: 2})
	if err != nil {
		b.Fatal(err)
	}
	const leaves, middles = 648, 648
	draw := Draws(1)
	link := func(low, high int32) func(w *Wear, up bool) {
		return func(w *Wear, up bool) {
			for {
				i := draw(w.Cables())
				if c := w.cables[i].a; c.From >= low && c.From < high {
					w.Cable(i, up)
					return
				}
			}
		}
	}
	for _, c := range []struct {
		name string
		do   func(w *Wear, up bool)
		link bool
		back bool
	}{
		{"Leaf", link(0, leaves), true, false},
		{"Top", link(leaves, leaves+middles), true, false},
		{"Returns", link(0, leaves+middles), true, true},
		{"Leaf", func(w *Wear, up bool) { w.Switch(draw(leaves), up) }, false, false},
		{"Middle", func(w *Wear, up bool) { w.Switch(leaves+draw(middles), up) }, false, false},
		{"Top", func(w *Wear, up bool) { w.Switch(leaves+middles+draw(324), up) }, false, false},
		{"Host", func(w *Wear, up bool) { w.End(draw(11664), up) }, false, false},
	} {
		if c.link != links {
			continue
		}
		b.Run(c.name, func(b *testing.B) {
			type step struct {
				from route.Solution
				h    *fabric.Graph
				d    *fabric.Delta
			}
			var steps []step
			for range 24 {
				w := NewWear(g)
				c.do(w, false)
				h := w.Graph()
				s := step{route.Solution{Graph: g, Tables: t}, h, fabric.Diff(g, h)}
				if c.back {
					u, err := e.Update(s.from, h, s.d, route.Options{Workers: 2})
					if err != nil {
						b.Fatal(err)
					}
					s = step{route.Solution{Graph: h, Tables: u}, g, fabric.Diff(h, g)}
				}
				steps = append(steps, s)
			}
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				s := &steps[i%len(steps)]
				i++
				if _, err := e.Update(s.from, s.h, s.d, route.Options{Workers: 2}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
