package lab

import (
	"runtime"
	"testing"
	"time"

	"heddle/congestion"
	"heddle/mad"
	"heddle/shell"
	"heddle/sim"
)

// timedCongestion is a core whose steps are timed.
type timedCongestion struct {
	core         *congestion.Core
	cpu, slowest time.Duration
}

func (c *timedCongestion) Step(now mad.Time, ev congestion.Event, out *congestion.Output) {
	began := time.Now()
	c.core.Step(now, ev, out)
	took := time.Since(began)
	c.cpu, c.slowest = c.cpu+took, max(c.slowest, took)
}

// BenchmarkCongestion has the full subnet get its settings, in virtual time, and then read for ten
// minutes: the times are those of the core, without the simulator's.
func BenchmarkCongestion(b *testing.B) {
	f := gen(b, "fattree", "11664")
	for b.Loop() {
		cfg := congestion.Defaults()
		cfg.Mode = congestion.Act
		bed := newCCBed(b, f, sim.Config{HopLatency: 500 * time.Nanosecond}, cfg)
		bed.m.OnSend = nil
		timed := &timedCongestion{core: bed.m.cong.core}
		bed.m.cong.shell = shell.NewCongestion(timed, congestionEdge{bed.m.cong}, &bed.m.shared)
		bed.m.shared.WakeCongestion = bed.m.cong.shell.Mail
		bed.start()
		began := bed.c.Sim.Now()
		bed.settled(10 * time.Minute)
		b.ReportMetric(bed.c.Sim.Now().Sub(began).Seconds(), "s-to-settle")
		b.ReportMetric(timed.cpu.Seconds()*1000, "core-ms-to-settle")
		st := bed.m.CongestionStatus()
		b.ReportMetric(float64(st.Requests), "requests-to-settle")
		timed.cpu = 0
		bed.c.Run(10 * time.Minute)
		b.ReportMetric(timed.cpu.Seconds()*1000/600, "core-ms/s")
		b.ReportMetric(float64(timed.slowest.Microseconds())/1000, "slowest-step-ms")
		b.ReportMetric(float64(bed.m.CongestionStatus().Requests-st.Requests)/600, "requests/s")
		with := liveHeap()
		bed.m.cong.core, timed.core = nil, nil
		bed.m.shared.Congestion.Store(nil)
		b.ReportMetric(float64(with-liveHeap())/(1<<20), "MiB")
		runtime.KeepAlive(bed)
	}
}
