package lab

import (
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"heddle/ib"
	"heddle/ib/pm"
	"heddle/mad"
	"heddle/perf"
	"heddle/sim"
)

// TestSilentAgents: one agent in ten does not answer. The others are read as if all did, and those
// that answer again are read at once.
func TestSilentAgents(t *testing.T) {
	f := gen(t, "fattree", "324")
	cfg := perf.Defaults()
	cfg.Period = 2 * time.Second
	b := newPerfBed(t, f, sim.Config{Seed: 1, HopLatency: time.Microsecond, SMALatency: 20 * time.Microsecond}, cfg)
	r := rand.New(rand.NewPCG(1, 2))
	silent := map[ib.GUID]bool{}
	for i := 1; i < len(f.Nodes); i++ {
		if r.IntN(10) == 0 {
			silent[f.Nodes[i].GUID] = true
			b.model(i, &sim.PMA{Silent: true})
		}
	}
	worst := time.Duration(0)
	asked := map[ib.LID]int{} // requests to silent agents
	b.m.OnRound(func(r *perf.Round) {
		for i := range int32(r.Len()) {
			if p := r.Snap.Ports[i]; !silent[r.Snap.Nodes[p.Node].Info.NodeGUID] {
				worst = max(worst, r.Elapsed(i))
			}
		}
	})
	b.m.OnSend = func(p *mad.Packet) {
		if ib.Class(p.Data[1]) == ib.ClassPerf {
			asked[p.Addr.LID]++
		}
	}
	b.start()
	const rounds = 40
	b.c.Run(rounds * cfg.Period)
	if late := cfg.Period + cfg.Period/10; worst == 0 || worst > late {
		t.Errorf("a port was read after %v, want at most %v", worst, late)
	}
	st := b.m.Counters()
	if st.Silent != len(silent) {
		t.Errorf("%d agents are silent, want %d", st.Silent, len(silent))
	}
	told := 0
	for _, n := range b.m.CounterNotices() {
		if n.Kind == perf.KindSilent {
			told++
		}
	}
	if told != len(silent) {
		t.Errorf("%d notices about %d silent agents", told, len(silent))
	}
	for i := range b.last.Len() {
		p := b.last.Snap.Ports[i]
		if n := asked[p.LID]; p.LID != 0 && silent[b.last.Snap.Nodes[p.Node].Info.NodeGUID] && n > rounds {
			t.Errorf("LID %v was asked %d times in %d periods", p.LID, n, rounds)
		}
	}
	for i := range f.Nodes {
		if silent[f.Nodes[i].GUID] {
			b.model(i, &sim.PMA{})
		}
	}
	// The longest pause, and then a round for the rest of the node.
	if err := b.c.RunUntil(35*cfg.Period, func() bool { return b.m.Counters().Silent == 0 }); err != nil {
		t.Error(err)
	}
	b.c.Run(2 * cfg.Period)
	for i := range int32(b.last.Len()) {
		if p := b.last.Snap.Ports[i]; p.Num != 0 && p.Known && p.Info.PortPhysicalState == ib.PhysLinkUp && !b.last.Flags(i).Has(perf.Sampled) {
			t.Fatalf("%v port %d was not read, %d agents are silent", b.last.Snap.Nodes[p.Node].Desc, p.Num, b.m.Counters().Silent)
		}
	}
	if b.sets != 0 {
		t.Errorf("%d Sets", b.sets)
	}
}

// TestRedirectOne: an agent that gives its counters and redirects further attributes to itself does not
// keep the manager busy: each redirection begins the port anew.
func TestRedirectOne(t *testing.T) {
	f := gen(t, "xgft", "2", "4,4", "1,4")
	cfg := perf.Defaults()
	cfg.Period, cfg.Lanes = time.Second, true
	b := newPerfBed(t, f, sim.Config{Seed: 1}, cfg)
	own, n := ib.LID(0), 0
	b.m.OnReceive = func(p *mad.Packet) {
		m := (*ib.MAD)(p.Data)
		if m.Class() != ib.ClassPerf || m.AttrID() != pm.AttrPortVLOpData {
			return
		}
		if own == 0 {
			own = p.Addr.LID
		}
		if p.Addr.LID == own {
			redirectTo(m, pm.Data(m), pm.ClassVersion, own)
			n++
		}
	}
	b.start()
	const rounds = 60
	b.c.Run(rounds * cfg.Period)
	if n == 0 || n > 5*rounds {
		t.Errorf("%d redirections in %d rounds", n, rounds)
	}
	if st := b.m.Counters(); st.Rounds < rounds-2 {
		t.Errorf("%+v", st)
	}
}

// liveHeap is the memory in use.
func liveHeap() uint64 {
	var ms runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&ms)
	return ms.HeapAlloc
}

// BenchmarkCounters polls all ports of the full subnet, in virtual time: the time is that of the
// core for one round, without the simulator's.
func BenchmarkCounters(b *testing.B) {
	f := gen(b, "fattree", "11664")
	cfg := perf.Defaults()
	bed := newPerfBed(b, f, sim.Config{ExtendedErrorCounters: true, HopLatency: 500 * time.Nanosecond}, cfg)
	bed.quiet = true
	began := time.Now()
	bed.m.perf.clock = func() time.Duration { return time.Since(began) }
	bed.start()
	bed.c.Run(2 * cfg.Period)
	round := bed.last.Number
	bed.m.perf.cpu, bed.m.perf.slowest = 0, 0
	for b.Loop() {
		bed.c.Run(cfg.Period)
	}
	n := float64(bed.last.Number - round)
	b.ReportMetric(bed.m.perf.cpu.Seconds()/n*1000, "core-ms/round")
	b.ReportMetric(float64(bed.m.perf.slowest.Microseconds())/1000, "slowest-step-ms")
	b.ReportMetric(float64(bed.last.Status.Ports), "ports")
	with := liveHeap()
	bed.m.perf.core, bed.last = nil, nil
	bed.m.shared.Round.Store(nil)
	b.ReportMetric(float64(with-liveHeap())/(1<<20), "MiB")
	runtime.KeepAlive(bed)
}
