package lab

import (
	"testing"

	"heddle/perf/dftree"
)

// TestHotSpotsShareALane: several hosts are hot at the same time, fed by the same others. On the slow
// lane their flows wait for each other, so each host takes less than its link carries; none of the hot
// spots ends before the load does.
func TestHotSpotsShareALane(t *testing.T) {
	for _, take := range []float64{0.82, 1} {
		b := newHotBed(t, hotOptions{seed: 2, mode: dftree.Act, leaves: 4, hosts: 4, ups: 4, take: take})
		var all []*Stream
		for _, hot := range []int{1, 6, 11} {
			for from := 2; from <= 16; from++ {
				if from != 6 && from != 11 {
					all = append(all, b.stream(from, hot))
				}
			}
		}
		b.periods(12)
		r, _ := b.Loaded.Manager.HotSpots()
		for i := range r.Open {
			x := &r.Open[i]
			t.Logf("take %v: %s %v waits %.2f, uses %.2f, %d contributors", take, x.Host.Desc, x.Sign, x.Wait, x.Use, len(x.Contributors))
		}
		if len(b.opened) != 3 || len(b.closed) != 0 {
			t.Errorf("take %v: %d opened, %d closed", take, len(b.opened), len(b.closed))
		}
		slow := 0
		for _, s := range all {
			if s.Conn.QP().Path().SL == b.slow {
				slow++
			}
		}
		if slow != len(all) {
			t.Errorf("take %v: %d of %d flows are on the slow lane", take, slow, len(all))
		}
		for _, s := range all {
			s.Stop()
		}
		b.periods(3)
		for _, s := range all {
			if s.Conn.QP().Path().SL != 0 {
				t.Fatalf("take %v: a flow is on the slow lane", take)
			}
		}
	}
}
