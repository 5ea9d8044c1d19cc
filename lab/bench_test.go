package lab

import (
	"runtime"
	"testing"
	"time"

	"heddle/sim"
	"heddle/sm"
)

// BenchmarkBringUp brings a fat tree up from nothing; the time is real, the
// fabric answers at once.
func BenchmarkBringUp(b *testing.B) {
	for _, hosts := range []string{"324", "648", "5832", "11664"} {
		b.Run(hosts, func(b *testing.B) {
			f := gen(b, "fattree", hosts)
			b.ReportAllocs()
			sent := 0
			for b.Loop() {
				c, err := NewCluster(f, sim.Config{})
				if err != nil {
					b.Fatal(err)
				}
				cfg := DefaultConfig()
				m, err := c.Start(firstCA(f), cfg, nil)
				if err != nil {
					b.Fatal(err)
				}
				if err := c.RunUntil(time.Minute, m.Up); err != nil {
					b.Fatal(err)
				}
				sent += m.Sent
				b.ReportMetric(float64(m.Sent), "SMPs")
				var ms runtime.MemStats
				runtime.GC()
				runtime.ReadMemStats(&ms)
				b.ReportMetric(float64(ms.HeapAlloc)/1e6, "liveMB")
				runtime.KeepAlive(c)
				for i := range m.Notices {
					if n := &m.Notices[i]; n.Kind == sm.KindSweepEnd {
						b.Logf("%s", n.Text)
					}
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(sent), "ns/SMP")
		})
	}
}
