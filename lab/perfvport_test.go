package lab

import (
	"testing"
	"time"

	"heddle/perf"
	"heddle/sim"
)

// TestVPortCounters: each virtual port has totals of its own, which are what it sent and received,
// also after VPorts came and went.
func TestVPortCounters(t *testing.T) {
	f := gen(t, "xgft", "1", "4", "1")
	cfg := perf.Defaults()
	cfg.Period = time.Second
	b := newPerfBed(t, f, sim.Config{HopLatency: time.Microsecond}, cfg)
	node := f.Nodes[1].Name()
	hypervisor(t, b.c, node, sim.Hypervisor{Model: sim.VPorts, VFs: 4}, 2)
	b.start()
	b.c.Run(4 * cfg.Period)
	has := func() map[uint16]perf.VPortSample {
		m := map[uint16]perf.VPortSample{}
		for _, v := range b.last.Virtual {
			m[v.Index] = v
		}
		return m
	}
	if got := has(); len(got) != 2 || got[1].Elapsed == 0 || got[2].Elapsed == 0 {
		t.Fatalf("VPorts %+v", got)
	}
	count := func(index int, words, relay uint64, clear bool) {
		t.Helper()
		x := sim.Tally{XmitWords: words, XmitPkts: words / 10}
		x.Errors[0] = relay
		if err := b.c.Sim.CountVPort(vf(t, b.c, node, index), &x, clear); err != nil {
			t.Fatal(err)
		}
	}
	const relayErrors = perf.NumVPortCounters - 1
	was := has()
	count(2, 1000, 7, false)
	b.c.Run(2 * cfg.Period)
	count(2, 30, 0, true) // another tool clears them
	// A VPort comes that has a lower place in no list, and one goes.
	enableVPort(t, b.c, node, 4)
	disableVPort(t, b.c, node, 1)
	b.m.Sweep(false)
	b.c.Run(5 * cfg.Period)
	count(4, 50, 0, false)
	b.c.Run(2 * cfg.Period)
	now := has()
	if d := now[2].Total[perf.XmitData] - was[2].Total[perf.XmitData]; d != 1030 || now[2].Value[perf.XmitData] != 30 {
		t.Errorf("VPort 2 sent %d words and shows %d; want 1,030 and 30", d, now[2].Value[perf.XmitData])
	}
	if n := now[2].Total[relayErrors]; n != 7 {
		t.Errorf("VPort 2 has %d relay errors, want 7", n)
	}
	if now[4].Total[perf.XmitData] != 50 || now[1].Total[perf.XmitData] != was[1].Total[perf.XmitData] || b.sets != 0 {
		t.Errorf("%+v, %d Sets", now, b.sets)
	}
}
