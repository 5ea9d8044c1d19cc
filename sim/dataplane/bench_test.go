package dataplane

import (
	"fmt"
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
			start, events, delivered, used := e.Now(), processed(e), e.Stats().Delivered, cpu()
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
			events, delivered = processed(e)-events, e.Stats().Delivered-delivered
			b.ReportMetric(float64(events)/sec/1e6, "Mevents/cpu-s")
			b.ReportMetric(float64(delivered)/sec/1e6, "Mpackets/cpu-s")
			b.ReportMetric(float64(events)/float64(delivered), "events/packet")
			b.ReportMetric(sec/(float64(e.Now()-start)/float64(Millisecond)), "cpu-s/ms")
			b.ReportMetric(float64(e.Bytes())/(1<<20), "MiB")
			runtime.KeepAlive(t)
		})
	}
}

// BenchmarkWorkers is 11,664 hosts at full load with 1 and 2 workers: in real time
// two must be 1.5 times as fast. Where other programs use the processors, compare
// instead what the slower part takes (critical-s/ms) with what one worker takes:
// that leaves out only what the workers wait for each other.
func BenchmarkWorkers(b *testing.B) {
	for _, workers := range []int{1, 2} {
		for _, x := range []struct {
			name string
			to   func(n, h int) Destination
		}{{"uniform", anyone}, {"shift", shifted}} {
			b.Run(fmt.Sprintf("%s %d", x.name, workers), func(b *testing.B) {
				t := newTree(b, fabric.FatTree{Hosts: 11664}, qdr)
				c := Defaults()
				c.Workers = workers
				e := mustNew(b, t.top, t.tables(1), c)
				for h := range e.NumHosts() {
					mustAdd(b, e, Stream{Src: h, To: x.to(e.NumHosts(), h), Bytes: rc2k})
				}
				e.Run(30 * qdr.Time(rc2k))
				start, events, windows, used := e.Now(), processed(e), e.workers.windows, cpu()
				b.ResetTimer()
				for i := range b.N {
					e.Run(start + Time(i+1)*Microsecond)
				}
				b.StopTimer()
				events = processed(e) - events
				ms := float64(e.Now()-start) / float64(Millisecond)
				b.ReportMetric(float64(events)/b.Elapsed().Seconds()/1e6, "Mevents/s")
				b.ReportMetric((cpu()-used).Seconds()/ms, "cpu-s/ms")
				b.ReportMetric(b.Elapsed().Seconds()/ms, "s/ms")
				if n := e.workers.windows - windows; n > 0 {
					b.ReportMetric(float64(events)/float64(n), "events/window")
				}
			})
		}
	}
}

// processed is how many events have been processed, those of credits included.
func processed(e *Engine) (n uint64) {
	for _, p := range e.parts {
		n += p.events
	}
	return n
}

func anyone(int, int) Destination  { return ToAny() }
func shifted(n, h int) Destination { return To((h + n/2 + 1) % n) }
