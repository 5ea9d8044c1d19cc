package daemon

import (
	"bytes"
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"heddle/api"
	"heddle/ib"
	"heddle/internal/fabrictest"
	"heddle/internal/need"
	"heddle/mad"
	"heddle/perf"
	"heddle/route/engine/auto"
	"heddle/sim"
	"heddle/sim/live"
	"heddle/sm"
	"heddle/store"
	"heddle/subnet"
)

// classPort counts the datagrams of the performance management class that a manager sends.
type classPort struct {
	mad.Transport
	perf, other atomic.Int64
}

func (p *classPort) Send(x *mad.Packet) error {
	if (*ib.MAD)(x.Data[:ib.MADLen]).Class() == ib.ClassPerf {
		p.perf.Add(1)
	} else {
		p.other.Add(1)
	}
	return p.Transport.Send(x)
}

// TestPerfOff: a manager without --perf sends no datagram of that class, and has no goroutine, timer,
// core or callback for it: what it does for packets and snapshots allocates nothing. With --perf the
// same test sees them.
func TestPerfOff(t *testing.T) {
	for _, cfg := range []*perf.Config{nil, {Period: 100 * time.Millisecond, Rate: 10_000, Window: 16, Timeout: time.Second}} {
		f, err := fabrictest.Generate("mport", []string{"4", "2"}, 1)
		if err != nil {
			t.Fatal(err)
		}
		s, err := sim.New(f, sim.Config{Seed: 1})
		if err != nil {
			t.Fatal(err)
		}
		drv := live.New(s)
		defer drv.Close()
		inner, err := drv.Port("")
		if err != nil {
			t.Fatal(err)
		}
		defer inner.Close()
		port := &classPort{Transport: inner}
		core := sm.Defaults()
		core.Engines, core.MaxWindow = auto.Engines(), 64
		up, counted := make(chan struct{}), make(chan struct{}, 1)
		d := New(Config{Port: port, Core: core, Store: store.NewMemory(), Perf: cfg, OnUp: func(*subnet.Snapshot) { close(up) }})
		d.shared.OnRound = append(d.shared.OnRound, func(*perf.Round) {
			select {
			case counted <- struct{}{}:
			default:
			}
		})
		ctx, cancel := context.WithCancel(t.Context())
		end := make(chan error, 1)
		go func() { end <- d.Run(ctx) }()
		await(t, up)
		if cfg != nil {
			await(t, counted)
		}
		_ = d.Findings(api.FindingsQuery{})
		_ = d.Worst(5)
		if _, err := d.Counters(api.CountersQuery{}); err != nil {
			t.Error(err)
		}
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		on := map[string]bool{
			"datagrams": port.perf.Load() > 0,
			"goroutine": bytes.Contains(stacks, []byte("perfLoop")),
			"core":      d.perf.core != nil || d.finder.core != nil || d.perf.packets != nil,
			"round":     d.Round() != nil,
			"wake-up":   d.shared.WakePerf != nil,
			"callbacks": len(d.shared.OnRound) > 1, // beside that of the test
		}
		for what, is := range on {
			if is != (cfg != nil) {
				t.Errorf("perf %v: %s %v", cfg != nil, what, is)
			}
		}
		if port.other.Load() == 0 {
			t.Error("the port counts nothing")
		}
		cancel()
		if err := <-end; err != nil {
			t.Error(err)
		}
		if cfg == nil {
			p := &mad.Packet{}
			if n := testing.AllocsPerRun(1000, func() { d.answered(&d.perf.agentSide, p) }); n != 0 {
				t.Errorf("an answer of a performance agent makes %v allocations", n)
			}
		}
	}
}

func await(t *testing.T, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(need.Patience):
		t.Fatal("it takes too long")
	}
}
