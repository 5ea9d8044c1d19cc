package dataplane

import (
	"fmt"
	"runtime"
	"slices"
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

// BenchmarkEngine runs fabrics at full load. Package internal/bench has the goals.
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

// BenchmarkIdle is a step of a large fabric in which nothing happens: what each
// management event costs more where a subnet has a data plane.
func BenchmarkIdle(b *testing.B) {
	t := newTree(b, fabric.FatTree{Hosts: 11664}, qdr)
	e := mustNew(b, t.top, t.tables(1), Defaults())
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		e.Run(Time(i+1) * Microsecond)
	}
}

// BenchmarkWorkers is a fabric at full load with 1 and 2 workers. What must hold
// at 11,664 hosts is that two take a 1.5th of the time (s/ms). Where other programs
// use the processors too, see what one worker takes and divide it by the critical
// path of two: that leaves out what they wait at the end of windows, and what they
// slow each other down by using one memory.
func BenchmarkWorkers(b *testing.B) {
	for _, x := range []struct {
		name  string
		hosts int
		to    func(n, h int) Destination
		step  Time
	}{
		{"648 uniform", 648, anyone, 10 * Microsecond},
		{"11664 uniform", 11664, anyone, Microsecond},
		{"11664 shift", 11664, shifted, Microsecond},
	} {
		var t *tree
		for _, workers := range []int{1, 2} {
			start := func(b *testing.B) *Engine {
				if testing.Short() && x.step < 10*Microsecond {
					b.Skip("large")
				}
				if t == nil {
					t = newTree(b, fabric.FatTree{Hosts: x.hosts}, qdr)
				}
				c := Defaults()
				c.Workers = workers
				e := mustNew(b, t.top, t.tables(1), c)
				for h := range e.NumHosts() {
					mustAdd(b, e, Stream{Src: h, To: x.to(e.NumHosts(), h), Bytes: rc2k})
				}
				e.Run(30 * qdr.Time(rc2k))
				return e
			}
			b.Run(fmt.Sprintf("%s %d", x.name, workers), func(b *testing.B) {
				e := start(b)
				from, events, used := e.Now(), processed(e), cpu()
				b.ResetTimer()
				for i := range b.N {
					e.Run(from + Time(i+1)*x.step)
				}
				b.StopTimer()
				ms := float64(e.Now()-from) / float64(Millisecond)
				b.ReportMetric(float64(processed(e)-events)/b.Elapsed().Seconds()/1e6, "Mevents/s")
				b.ReportMetric((cpu()-used).Seconds()/ms, "cpu-s/ms")
				b.ReportMetric(b.Elapsed().Seconds()/ms, "s/ms")
			})
			if workers == 1 {
				continue
			}
			b.Run(fmt.Sprintf("%s %d critical path", x.name, workers), func(b *testing.B) {
				e := start(b)
				from, events, windows, used := e.Now(), processed(e), e.workers.windows, cpu()
				b.ResetTimer()
				path := criticalPath(e, from+Time(b.N)*x.step)
				b.StopTimer()
				used = cpu() - used
				ms := float64(e.Now()-from) / float64(Millisecond)
				b.ReportMetric(path.Seconds()/ms, "critical-s/ms")
				b.ReportMetric(used.Seconds()/ms, "cpu-s/ms")
				b.ReportMetric(float64(processed(e)-events)/float64(e.workers.windows-windows), "events/window")
			})
		}
	}
}

// criticalPath runs the parts one after the other, and sums up the processor time
// of the slowest part of each window.
func criticalPath(e *Engine, until Time) (path time.Duration) {
	for e.now < until {
		e.startWindows()
		for turn := 0; ; turn ^= 1 {
			to, more := e.window(turn, until)
			if !more {
				break
			}
			took := make([]time.Duration, len(e.parts))
			for k := range e.parts {
				before := cpu()
				e.work(k, turn, to)
				took[k] = cpu() - before
			}
			for k := range e.parts {
				before := cpu()
				e.receive(k, turn)
				took[k] += cpu() - before
			}
			path += slices.Max(took)
		}
		e.endWindows()
		stop := min(until, e.lookAt())
		for _, p := range e.parts {
			p.now = stop
		}
		if stop < until {
			e.detect()
		}
	}
	return path
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
