package dftree

import (
	"fmt"
	"testing"

	"heddle/ib"
	"heddle/internal/fabrictest"
	"heddle/internal/snaptest"
	"heddle/perf/hotspot"
	"heddle/route/engine/ftree"
)

// BenchmarkMost has the most paths that move: two hot spots that all hosts feed.
func BenchmarkMost(b *testing.B) {
	for _, hosts := range []int{648, 11664} {
		f, err := fabrictest.Generate("fattree", []string{fmt.Sprint(hosts)}, 1)
		if err != nil {
			b.Fatal(err)
		}
		s := snaptest.New(b, f, ftree.Engine{}, 8)
		r := &hotspot.Report{}
		for e := range s.Graph.EndPorts {
			if p := &s.Graph.EndPorts[e]; p.Type != ib.NodeSwitch && len(r.Open) < 5 {
				r.Open = append(r.Open, hotspot.HotSpot{ID: uint64(e + 1), Host: hotspot.End{GUID: p.GUID}})
			}
		}
		for i := range r.Open {
			for e := range s.Graph.EndPorts {
				if p := &s.Graph.EndPorts[e]; p.Type != ib.NodeSwitch && p.GUID != r.Open[i].Host.GUID {
					r.Open[i].Contributors = append(r.Open[i].Contributors, hotspot.Contributor{Host: hotspot.End{GUID: p.GUID}})
				}
			}
		}
		b.Run(fmt.Sprint(hosts), func(b *testing.B) {
			c := New(Config{Mode: Act})
			b.ReportAllocs()
			for b.Loop() {
				b.ReportMetric(float64(c.Step(s, r).Paths.Len()), "paths")
			}
		})
	}
}
