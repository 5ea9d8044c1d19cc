package dataplane

import (
	"testing"

	"heddle/fabric"
)

// TestAllocations: an engine in steady state allocates nothing.
func TestAllocations(t *testing.T) {
	for _, in := range []Queueing{FIFO, VOQ} {
		x := newTree(t, fabric.KAry{K: 6, N: 2}, qdr)
		c := Defaults()
		c.Input, c.Lanes = in, 2
		e := mustNew(t, x.top, x.tables(2), c)
		for h := range e.NumHosts() {
			mustAdd(t, e, Stream{Src: h, To: ToAny(), Bytes: rc2k})
			mustAdd(t, e, Stream{Src: h, To: ToAny(), SL: 1, Bytes: 30, Arrival: Poisson, Gap: Microsecond, Queue: LaneQueue})
		}
		e.fetcher.on = in == FIFO
		at := Millisecond
		e.Run(at)
		if n := testing.AllocsPerRun(10, func() {
			at += 50 * Microsecond
			e.Run(at)
		}); n != 0 {
			t.Errorf("%v: %v allocations in 50 µs of a fabric at full load", in, n)
		}
		if e.det.runs == 0 {
			t.Errorf("%v: no search for a deadlock", in)
		}
		mustCheck(t, e)
	}
}
