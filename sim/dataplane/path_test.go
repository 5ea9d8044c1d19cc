package dataplane

import (
	"math"
	"testing"
)

// saturated sends from host 0 to host 1 and returns delivered packets in the
// given time after a warm-up.
func saturated(t *testing.T, e *Engine, bytes int, warm, dur Time) uint64 {
	t.Helper()
	mustAdd(t, e, Stream{Src: 0, To: To(1), Bytes: bytes})
	e.Run(warm)
	e.ResetStats()
	e.Run(warm + dur)
	mustCheck(t, e)
	return e.Stats().Delivered
}

func TestV2(t *testing.T) {
	e := func() *Engine {
		n := chain(qdr, qdr, qdr, qdr)
		e := mustNew(t, &n.Topology, n.tables(1), testConfig())
		mustAdd(t, e, Stream{Src: 0, To: To(1), Bytes: rc2k, Packets: 1})
		e.Run(Millisecond)
		mustCheck(t, e)
		return e
	}()
	if s := e.Stats(); s.Delivered != 1 || s.Latency.Max != 858_500 {
		t.Errorf("delivered %d, %v, want 858.5 ns; %+v", s.Delivered, s.Latency.Max, s.Dropped)
	}
	n := chain(qdr, ddr, qdr)
	e = mustNew(t, &n.Topology, n.tables(1), testConfig())
	mustAdd(t, e, Stream{Src: 0, To: To(1), Bytes: rc2k, Packets: 1})
	e.Run(Millisecond)
	if s := e.Stats(); s.Delivered != 1 || s.Latency.Max != 1_267_000 {
		t.Errorf("V3: delivered %d, %v", s.Delivered, s.Latency.Max)
	}
}

func TestV6(t *testing.T) {
	for k, want := range map[int]float64{33: 0.8095, 41: 0.9933, 42: 1, 50: 1} {
		n := chain(qdr, qdr)
		c := testConfig()
		c.LaneBuffer = k
		e := mustNew(t, &n.Topology, n.tables(1), c)
		got := float64(saturated(t, e, rc2k, 100*Microsecond, 5185*Microsecond)) / 10000
		t.Logf("K %d: %v, %d events", k, got, e.Events())
		if math.Abs(got-want) > 0.001 {
			t.Errorf("K %d: got %v", k, got)
		}
	}
}
