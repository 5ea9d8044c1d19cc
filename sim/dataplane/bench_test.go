package dataplane

import (
	"runtime"
	"syscall"
	"testing"
	"time"

	"heddle/fabric"
)

// cpu is the processor time of the process: builders are shared.
func cpu() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkEngine runs fabrics at full load. What must hold on one core of the
// builder: 5 M events/s and 3 s for a millisecond at 648 hosts, 2.5 M events/s and
// 120 s at 11,664 (QDR, 2 KiB), 800 s for one of NDR, 4 KiB; 96 and 600 MiB.
func BenchmarkEngine(b *testing.B) {
	tree72 := fabric.XGFT{Children: []int{6, 12}, Parents: []int{1, 6}}
	for _, x := range []struct {
		name  string
		topo  fabric.Topology
		rate  Rate
		bytes int
		to    func(n, h int) Destination
		step  Time
	}{
		{"72 uniform", tree72, qdr, rc2k, anyone, 100 * Microsecond},
		{"648 uniform", fabric.FatTree{Hosts: 648}, qdr, rc2k, anyone, 10 * Microsecond},
		{"648 shift", fabric.FatTree{Hosts: 648}, qdr, rc2k, shifted, 10 * Microsecond},
		{"11664 uniform", fabric.FatTree{Hosts: 11664}, qdr, rc2k, anyone, Microsecond},
		{"11664 shift", fabric.FatTree{Hosts: 11664}, qdr, rc2k, shifted, Microsecond},
		{"11664 shift NDR", fabric.FatTree{Hosts: 11664}, ndr, rc4k, shifted, 100 * Nanosecond},
	} {
		b.Run(x.name, func(b *testing.B) {
			if testing.Short() && x.step < 10*Microsecond {
				b.Skip("large")
			}
			t := newTree(b, x.topo, x.rate)
			e := mustNew(b, t.top, t.tables(1), Defaults())
			for h := range e.NumHosts() {
				mustAdd(b, e, Stream{Src: h, To: x.to(e.NumHosts(), h), Bytes: x.bytes})
			}
			e.Run(30 * x.rate.Time(x.bytes))
			start, events, delivered, used := e.Now(), e.Events(), e.Stats().Delivered, cpu()
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N {
				e.Run(start + Time(i+1)*x.step)
			}
			b.StopTimer()
			sec := (cpu() - used).Seconds()
			if sec == 0 {
				sec = b.Elapsed().Seconds()
			}
			events, delivered = e.Events()-events, e.Stats().Delivered-delivered
			b.ReportMetric(float64(events)/sec/1e6, "Mevents/cpu-s")
			b.ReportMetric(float64(delivered)/sec/1e6, "Mpackets/cpu-s")
			b.ReportMetric(float64(events)/float64(delivered), "events/packet")
			b.ReportMetric(sec/(float64(e.Now()-start)/float64(Millisecond)), "cpu-s/ms")
			b.ReportMetric(float64(e.Bytes())/(1<<20), "MiB")
			runtime.KeepAlive(t)
		})
	}
}

func anyone(int, int) Destination  { return ToAny() }
func shifted(n, h int) Destination { return To((h + n/2 + 1) % n) }
