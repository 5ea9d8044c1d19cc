package sa_test

import (
	"testing"
	"time"

	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/route/engine/ftree"
	"heddle/sa"
	"heddle/subnet"
)

// BenchmarkSlowPaths has all hosts of a tree of 11,664 feed two hot spots, the most that may move:
// 23,326 paths go to the slow lane and come back. "set" is one such change; with "told" each host
// subscribes and holds its two paths, so that all get a Report. "query" is an answer beside such a
// plan, for paths that are not in it and for those that are; "query/none" without a plan.
func BenchmarkSlowPaths(b *testing.B) {
	s := fabricSnapshot(b, ftree.Engine{}, 0, 1, "fattree", "11664")
	var hosts []*subnet.Port
	for _, p := range s.EndPortPort {
		if s.Ports[p].Num != 0 {
			hosts = append(hosts, s.Ports[p])
		}
	}
	hot := [2]*subnet.Port{hosts[0], hosts[5000]}
	var pairs []subnet.PortPair
	var in []sa.Request
	for _, h := range hosts {
		for _, to := range hot {
			if h == to {
				continue
			}
			pairs = append(pairs, subnet.PortPair{From: h.GUID, To: to.GUID})
			in = append(in, sa.Request{From: mad.Addr{LID: h.LID, QP: 1}, Data: ask(
				ib.MethodGet, wire.AttrPathRecord, wire.PathCompSLID|wire.PathCompDLID|wire.PathCompNumbPath|wire.PathCompReversible,
				&wire.PathRecord{SLID: h.LID, DLID: to.LID, NumbPath: 1, Reversible: true},
			)})
		}
	}
	slow := subnet.NewSlowPaths(3, pairs)
	until := mad.Time(0).Add(time.Hour)
	set := func(b *testing.B, r *fixture) {
		sent := 0
		b.ReportAllocs()
		for b.Loop() {
			for _, p := range []*subnet.SlowPaths{slow, nil} {
				r.step(sa.SetSlowPaths{Paths: p, Snap: s, Until: until})
				for r.timer <= r.now {
					r.step(sa.Timer{})
				}
				b.StopTimer()
				sent += len(r.reports())
				b.StartTimer()
			}
		}
		b.ReportMetric(float64(b.Elapsed().Microseconds())/1000/float64(2*b.N), "ms/change")
		b.ReportMetric(float64(sent)/float64(2*b.N), "reports/change")
	}
	b.Run("set", func(b *testing.B) { set(b, newFixture(b, s, sa.Config{Signal: sa.SignalRepath})) })
	b.Run("set/told", func(b *testing.B) {
		r := newFixture(b, s, sa.Config{Signal: sa.SignalRepath})
		var list []sa.Request
		for _, h := range hosts {
			list = append(list, sa.Request{From: mad.Addr{LID: h.LID, QP: 1}, Data: inform(trapNumber(smp.TrapRePath))})
		}
		r.step(sa.Requests{List: list})
		r.step(sa.Requests{List: in})
		r.reports()
		set(b, r)
	})
	r := newFixture(b, s, sa.Config{Signal: sa.SignalRepath})
	r.step(sa.SetSlowPaths{Paths: slow, Snap: s, Until: until})
	for _, c := range []struct {
		name string
		src  *sa.Source
		reqs []sa.Request
	}{
		{"query/none", &sa.Source{Snap: s, Opt: &sa.Options{SAKey: 7}, View: &sa.View{}}, hostPairs(s, 1<<12)},
		{"query/others", &sa.Source{Snap: s, Opt: &sa.Options{SAKey: 7}, View: &sa.View{Slow: slow}}, hostPairs(s, 1<<12)},
		{"query/slow", &sa.Source{Snap: s, Opt: &sa.Options{SAKey: 7}, View: &sa.View{Slow: slow}}, in},
	} {
		b.Run(c.name, func(b *testing.B) {
			buf := make([]byte, 0, 512)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if _, v := sa.Answer(c.src, &c.reqs[i*4099%len(c.reqs)], buf); v != sa.Answered {
					b.Fatal("no answer")
				}
			}
		})
	}
}
