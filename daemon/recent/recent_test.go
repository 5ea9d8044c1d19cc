package recent

import (
	"testing"
	"time"

	"heddle/sm"
)

// TestKept: the newest sweeps and repairs are kept, the newest first, and no more than that. All
// repairs are counted, and each sweep goes to the metrics once.
func TestKept(t *testing.T) {
	var s Sweeps
	var r Repairs
	if s.List() == nil || r.List() == nil {
		t.Error("a list without elements is null in JSON")
	}
	start := time.Unix(0, 0)
	for i := range Kept + 5 {
		now := start.Add(time.Duration(i) * time.Second)
		s.Add(&sm.SweepReport{SMPs: uint64(i)}, now)
		r.Add(&sm.Repair{Broken: 3, Left: 1, Took: time.Second}, now)
	}
	last := start.Add((Kept + 4) * time.Second)
	sweeps := s.List()
	if len(sweeps) != Kept || sweeps[0].SMPs != Kept+4 || sweeps[Kept-1].SMPs != 5 || !sweeps[0].Time.Equal(last) {
		t.Errorf("%d sweeps: %+v", len(sweeps), sweeps)
	}
	repairs := r.List()
	if len(repairs) != Kept || !repairs[0].Time.Equal(last) || !repairs[Kept-1].Time.Equal(start.Add(5*time.Second)) {
		t.Errorf("%d repairs: %+v", len(repairs), repairs)
	}
	if v := r.Values("safe"); v.Count != Kept+5 || v.Pairs != 2*(Kept+5) || v.Policy != "safe" {
		t.Errorf("%+v", v)
	}
	if a, b := len(s.Take()), len(s.Take()); a != Kept+5 || b != 0 {
		t.Errorf("the metrics get %d sweeps, and %d again", a, b)
	}
}
