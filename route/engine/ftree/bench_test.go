package ftree_test

import (
	"testing"

	"heddle/fabric"
	"heddle/route"
	"heddle/route/engine/ftree"
	"heddle/route/routetest"
)

func BenchmarkCompute(b *testing.B) {
	for name, c := range map[string]struct {
		kind string
		lids int
	}{"11664": {"fattree 11664", 1}, "fullsubnet": {"fattree 2853", 17}, "5832": {"fattree 5832", 1}} {
		b.Run(name, func(b *testing.B) {
			g := generate(b, c.kind, c.lids)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := (ftree.Engine{}).Compute(g, route.Options{Workers: 2}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkUpdate pulls and returns cables of the 36-port 3-tree in turn.
func BenchmarkUpdate(b *testing.B) {
	f, err := fabric.Generate("fattree", []string{"11664"}, 1)
	if err != nil {
		b.Fatal(err)
	}
	if err := fabric.AssignLIDs(f, 1); err != nil {
		b.Fatal(err)
	}
	whole, err := f.Graph(fabric.GraphOptions{})
	if err != nil {
		b.Fatal(err)
	}
	tb := compute(b, whole, route.Options{Workers: 2})
	draw := routetest.Draws(7)
	sw := f.SwitchNodes()
	for b.Loop() {
		b.StopTimer()
		c := &whole.Channels[draw(len(whole.Channels))]
		out := fabric.Ref{Node: sw[c.From], Port: c.OutPort}
		g, err := f.Graph(fabric.GraphOptions{Up: func(r fabric.Ref) bool { return r != out }})
		if err != nil {
			b.Fatal(err)
		}
		d := fabric.Diff(whole, g)
		b.StartTimer()
		_, err = ftree.Engine{}.Update(route.Solution{Graph: whole, Tables: tb}, g, d, route.Options{Workers: 2})
		if err != nil {
			b.Fatal(err)
		}
	}
}
