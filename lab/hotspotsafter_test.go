package lab

import (
	"testing"
	"time"

	"heddle/ib"
	"heddle/perf"
	"heddle/perf/dftree"
	"heddle/route/engine/ftree"
	"heddle/store"
)

// TestHotSpotRestart: the manager dies while flows are on the slow lane. It starts again with its
// store, or without, as another one would, and moves nothing itself: all flows are back within a
// second of the subnet being up, although nothing tells the new manager of them.
func TestHotSpotRestart(t *testing.T) {
	for _, kept := range []bool{true, false} {
		o := hotOptions{seed: 1, engine: ftree.Engine{}, mode: dftree.Act, leaves: 3, hosts: 2, ups: 1, take: 0.82, store: store.NewMemory()}
		b := newHotBed(t, o)
		var hot []*Stream
		for _, h := range []int{1, 4, 6} {
			hot = append(hot, b.stream(h, 5))
		}
		b.periods(6)
		for _, s := range hot {
			if s.Conn.QP().Path().SL == 0 {
				t.Fatalf("a flow has not moved")
			}
		}
		b.Loaded.Manager.Kill()
		o.mode = dftree.Observe
		if !kept {
			o.store = store.NewMemory()
		}
		b.Loaded.Manager = hotManager(t, b.Cluster, o, o.store)
		up := b.Sim.Now()
		if err := b.RunUntil(time.Second, func() bool {
			for _, s := range hot {
				if q := s.Conn.QP(); q.Path().SL != 0 || q.State().String() != "RTS" {
					return false
				}
			}
			return true
		}); err != nil {
			t.Errorf("with the store %v: flows are on the slow lane: %v", kept, err)
		}
		t.Logf("with the store %v: back %v after the subnet was up", kept, b.Sim.Now().Sub(up))
		b.periods(2)
		for _, s := range hot {
			if err := s.Check(); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestWatch: agents that are watched are read last in each round, and in their place again when they
// are not.
func TestWatch(t *testing.T) {
	b := newHotBed(t, hotOptions{seed: 1, mode: dftree.Off, leaves: 3, hosts: 2, ups: 1, take: 1})
	m := b.Loaded.Manager
	s := m.Snap
	at := s.PortByPortGUID(b.host(1).ep.PortGUID())
	last := func() bool {
		r := m.Round()
		for i := range int32(r.Len()) {
			if r.Elapsed(i) > 0 && r.At(i) > r.At(at) {
				return false
			}
		}
		return true
	}
	b.periods(3)
	if last() {
		t.Fatal("it is last anyway")
	}
	m.perf.shell.Step(perf.Watch{Agents: []ib.GUID{s.Ports[at].GUID}})
	for range 3 {
		b.periods(3)
		if !last() {
			t.Error("a watched agent is not read last")
		}
	}
	m.perf.shell.Step(perf.Watch{})
	b.periods(3)
	if last() {
		t.Error("it is read last though nobody watches it")
	}
}
