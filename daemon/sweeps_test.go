package daemon

import (
	"testing"
	"time"

	"heddle/sm"
)

// TestSweepsKept: the newest sweeps are kept, the newest first, and no more than that.
func TestSweepsKept(t *testing.T) {
	var k sweeps
	start := time.Unix(0, 0)
	for i := range keptSweeps + 5 {
		k.add(&sm.SweepReport{SMPs: uint64(i)}, start.Add(time.Duration(i)*time.Second))
	}
	list := k.list()
	if len(list) != keptSweeps || list[0].SMPs != keptSweeps+4 || list[keptSweeps-1].SMPs != 5 || !list[0].Time.Equal(start.Add((keptSweeps+4)*time.Second)) {
		t.Errorf("%d sweeps: %+v", len(list), list)
	}
}
