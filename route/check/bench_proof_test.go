package check_test

import (
	"runtime"
	"slices"
	"testing"
	"time"

	"heddle/fabric"
	"heddle/internal/fabrictest"
	"heddle/route"
	"heddle/route/check"
	"heddle/route/engine/updn"
)

// failures are graphs of f with one cable between switches less each, and
// up*/down* tables for them that keep what they can and share rows.
func failures(tb testing.TB, f *fabric.Fabric, was *route.Tables, n int) (gs []*fabric.Graph, ts []*route.Tables) {
	var cables [][2]fabric.Ref
	for a, b := range f.Links {
		if f.Nodes[a.Node].IsSwitch() && f.Nodes[b.Node].IsSwitch() {
			cables = append(cables, [2]fabric.Ref{a, b})
		}
	}
	for i := range n {
		cut := cables[(i*7919+13)%len(cables)]
		g, err := f.Graph(fabric.GraphOptions{Up: func(r fabric.Ref) bool { return r != cut[0] && r != cut[1] }})
		if err != nil {
			tb.Fatal(err)
		}
		t, err := updn.Engine{}.Compute(g, route.Options{Workers: 2, Previous: was})
		if err != nil {
			tb.Fatal(err)
		}
		for s := range t.LFT {
			if slices.Equal(t.LFT[s], was.LFT[s]) {
				t.LFT[s] = was.LFT[s]
			}
		}
		gs, ts = append(gs, g), append(ts, t)
	}
	return gs, ts
}

// BenchmarkUpdate updates the proof of up*/down* tables for 11,664 hosts after the
// failure of one of several links.
func BenchmarkUpdate(b *testing.B) {
	f, err := fabrictest.Generate("fattree", []string{"11664"}, 1)
	if err != nil {
		b.Fatal(err)
	}
	if err := fabric.AssignLIDs(f, 1); err != nil {
		b.Fatal(err)
	}
	g, err := f.Graph(fabric.GraphOptions{})
	if err != nil {
		b.Fatal(err)
	}
	t, err := updn.Engine{}.Compute(g, route.Options{Workers: 2})
	if err != nil {
		b.Fatal(err)
	}
	o := check.Options{Workers: 2}
	b.Run("prove", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			check.Prove(g, t, o)
		}
	})
	gs, ts := failures(b, f, t, 8)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	p := check.Prove(g, t, o)
	runtime.GC()
	runtime.ReadMemStats(&after)
	b.Run("link", func(b *testing.B) {
		b.ReportAllocs()
		changed, cols := 0, 0
		for i := range gs {
			lids := map[int]bool{}
			for s := range t.LFT {
				for l := range t.LFT[s] {
					if t.LFT[s][l] != ts[i].LFT[s][l] {
						changed++
						lids[l] = true
					}
				}
			}
			cols += len(lids)
		}
		ds := make([]*fabric.Delta, len(gs))
		for i := range gs {
			ds[i] = fabric.Diff(g, gs[i])
		}
		i := 0
		var took []time.Duration
		b.ResetTimer()
		for b.Loop() {
			begin := time.Now()
			q := p.Update(gs[i%len(gs)], ds[i%len(gs)], ts[i%len(gs)], o)
			took = append(took, time.Since(begin))
			if !q.Incremental() || !q.OK() {
				b.Fatal(q.Err())
			}
			i++
		}
		slices.Sort(took)
		b.ReportMetric(took[len(took)/2].Seconds()*1e3, "ms-median")
		b.ReportMetric(took[0].Seconds()*1e3, "ms-least")
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/(1<<20), "MiB/proof")
		b.ReportMetric(float64(changed)/float64(len(gs)), "entries")
		b.ReportMetric(float64(cols)/float64(len(gs)), "lids")
	})
	b.Run("host", func(b *testing.B) {
		ca := int32(slices.IndexFunc(f.Nodes, func(n fabric.Node) bool { return !n.IsSwitch() }))
		g2, err := f.Graph(fabric.GraphOptions{Up: func(r fabric.Ref) bool { return r.Node != ca }})
		if err != nil {
			b.Fatal(err)
		}
		t2, err := updn.Engine{}.Compute(g2, route.Options{Workers: 2, Previous: t})
		if err != nil {
			b.Fatal(err)
		}
		for s := range t2.LFT {
			if slices.Equal(t2.LFT[s], t.LFT[s]) {
				t2.LFT[s] = t.LFT[s]
			}
		}
		d := fabric.Diff(g, g2)
		least := time.Hour
		for b.Loop() {
			begin := time.Now()
			if q := p.Update(g2, d, t2, o); !q.Incremental() || !q.OK() {
				b.Fatal(q.Err())
			}
			least = min(least, time.Since(begin))
		}
		b.ReportMetric(least.Seconds()*1e3, "ms-least")
	})
	b.Run("report", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			q := p.Update(gs[i%len(gs)], fabric.Diff(g, gs[i%len(gs)]), ts[i%len(gs)], o)
			q.Report()
		}
	})
	runtime.KeepAlive(p)
}
