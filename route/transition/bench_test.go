package transition_test

import (
	"testing"

	"heddle/fabric"
	"heddle/internal/routetest"
	"heddle/route"
	"heddle/route/check"
	"heddle/route/engine/updn"
	"heddle/route/transition"
)

// BenchmarkNew plans changes of three sizes: a few entries without a proof (few), one
// lost link with the proof of the wanted tables (link), all destinations rebalanced
// (all).
func BenchmarkNew(b *testing.B) {
	for _, c := range []struct {
		name string
		net  func() *routetest.Net
	}{
		{"5832", func() *routetest.Net { return routetest.Tree(36, 18) }},
		{"11664", func() *routetest.Net { return routetest.Tree(36, 36) }},
		{"full", routetest.FullSubnet},
	} {
		g := c.net().Graph()
		o := route.Options{Workers: 2}
		old, err := updn.Engine{}.Compute(g, o)
		if err != nil {
			b.Fatal(err)
		}
		other := o
		for i := len(g.EndPorts) - 1; i >= 0; i-- {
			other.RoutingOrder = append(other.RoutingOrder, g.EndPorts[i].GUID)
		}
		wanted, err := updn.Engine{}.Compute(g, other)
		if err != nil {
			b.Fatal(err)
		}
		few := old.Clone()
		for i := range 20 {
			few.LFT[i][1+i*int(g.TopLID)/20] = route.Drop
		}
		to := limited
		to.Workers = 2
		run := func(name string, g *fabric.Graph, a, w *route.Tables, o transition.Options) {
			b.Run(c.name+"/"+name, func(b *testing.B) {
				b.ReportAllocs()
				var p *transition.Plan
				for b.Loop() {
					p = transition.New(g, a, w, o)
				}
				b.ReportMetric(float64(len(p.Discard)), "discards")
				b.ReportMetric(float64(p.LIDsChanged), "LIDs")
				b.ReportMetric(float64(len(p.Stages)), "stages")
			})
		}
		run("few", g, old, few, to)
		run("all", g, old, wanted, to)

		cut := c.net()
		cut.Unlink(0, int(g.Channels[g.Off[0]].To))
		h := cut.Graph()
		d := fabric.Diff(g, h)
		next, err := updn.Engine{}.Update(route.Solution{Graph: g, Tables: old}, h, d, o)
		if err != nil {
			b.Fatal(err)
		}
		proof := check.Prove(h, next, check.Options{Workers: 2})
		run("link-alone", h, old, next, to)
		to.Proved, to.ProvedOrder = proof.Dependencies()
		run("link", h, old, next, to)
	}
}

// BenchmarkRepair repairs the loss of a link when the engine's tables do not mix with
// the installed ones.
func BenchmarkRepair(b *testing.B) {
	for _, c := range []struct {
		name string
		net  func() *routetest.Net
	}{
		{"torus-20x20", func() *routetest.Net { return routetest.Torus(20, 20, 4) }},
		{"5832", func() *routetest.Net { return routetest.Tree(36, 18) }},
		{"11664", func() *routetest.Net { return routetest.Tree(36, 36) }},
	} {
		g := c.net().Graph()
		o := route.Options{Workers: 2}
		old, err := updn.Engine{}.Compute(g, o)
		if err != nil {
			b.Fatal(err)
		}
		cut := c.net()
		cut.Unlink(0, int(g.Channels[g.Off[0]].To))
		h := cut.Graph()
		next, err := updn.Engine{}.Update(route.Solution{Graph: g, Tables: old}, h, fabric.Diff(g, h), o)
		if err != nil {
			b.Fatal(err)
		}
		to := limited
		to.Workers, to.Before = 2, g
		inst := old.Follow(g, h)
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			var r *transition.Fitted
			for b.Loop() {
				r = transition.Repair(h, inst, next, to)
			}
			if r == nil || len(r.LIDs) == 0 {
				b.Fatal("nothing was broken")
			}
			b.ReportMetric(float64(len(r.LIDs)), "LIDs")
			b.ReportMetric(float64(r.Broken), "pairs")
		})
	}
}
