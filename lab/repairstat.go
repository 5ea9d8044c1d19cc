package lab

import (
	"fmt"
	"slices"
	"time"
)

// RepairSummary adds up trials.
type RepairSummary struct {
	Trials int
	Faults int // all of them
	// Breaking counts the faults that broke a pair which has another path; the
	// other counts and times are of these.
	Breaking int
	Pairs    int // that they broke
	Late     int // among them those that stale plans broke
	// Drained counts the faults with a drain while a pair was broken, DrainTime
	// adds these drains up.
	Drained   int
	DrainTime time.Duration
	// ManagerBroke counts the pairs that the manager broke, ManagerFaults the
	// faults, breaking or not, after which it did.
	ManagerBroke, ManagerFaults int
	ManagerLongest              time.Duration
	Unrepaired                  int
	SMPs, Writes                int
	// Ratios are the maximum channel loads at the end of the trials relative to
	// those of fresh tables.
	Ratios []float64
	// Times are the repair times of the breaking faults.
	Times  []time.Duration
	sorted bool
}

// Add adds a trial.
func (s *RepairSummary) Add(r *RepairResult) {
	s.Trials++
	s.sorted = false
	for i := range r.Faults {
		f := &r.Faults[i]
		s.Faults++
		s.SMPs += f.SMPs
		s.Writes += f.Writes
		s.ManagerBroke += f.ManagerBroke
		s.ManagerLongest = max(s.ManagerLongest, f.ManagerLongest)
		s.Unrepaired += f.Unrepaired
		if f.ManagerBroke > 0 {
			s.ManagerFaults++
		}
		if f.Broken == 0 && f.Drain == 0 {
			continue
		}
		s.Breaking++
		s.Pairs += f.Broken
		s.Late += f.Late
		s.DrainTime += f.Drain
		if f.Drain > 0 {
			s.Drained++
		}
		s.Times = append(s.Times, f.Time)
	}
	if r.Load > 0 && r.Fresh > 0 {
		s.Ratios = append(s.Ratios, float64(r.Load)/float64(r.Fresh))
	}
}

// Merge adds what another summary has.
func (s *RepairSummary) Merge(o *RepairSummary) {
	s.Trials += o.Trials
	s.Faults += o.Faults
	s.Breaking += o.Breaking
	s.Pairs += o.Pairs
	s.Late += o.Late
	s.Drained += o.Drained
	s.DrainTime += o.DrainTime
	s.ManagerBroke += o.ManagerBroke
	s.ManagerFaults += o.ManagerFaults
	s.ManagerLongest = max(s.ManagerLongest, o.ManagerLongest)
	s.Unrepaired += o.Unrepaired
	s.SMPs += o.SMPs
	s.Writes += o.Writes
	s.Ratios = append(s.Ratios, o.Ratios...)
	s.Times = append(s.Times, o.Times...)
	s.sorted = false
}

// Quantile is the repair time that a share q of the breaking faults does not
// exceed; 1 is the maximum.
func (s *RepairSummary) Quantile(q float64) time.Duration {
	if len(s.Times) == 0 {
		return 0
	}
	if !s.sorted {
		slices.Sort(s.Times)
		s.sorted = true
	}
	return s.Times[min(len(s.Times)-1, int(q*float64(len(s.Times))))]
}

// DrainShare is the share of the breaking faults with a drain while a pair was
// broken.
func (s *RepairSummary) DrainShare() float64 { return share(s.Drained, s.Breaking) }

// Load returns the median and the maximum of Ratios, 0 if there are none.
func (s *RepairSummary) Load() (median, most float64) {
	if len(s.Ratios) == 0 {
		return 0, 0
	}
	slices.Sort(s.Ratios)
	return s.Ratios[len(s.Ratios)/2], s.Ratios[len(s.Ratios)-1]
}

// String is one line.
func (s *RepairSummary) String() string {
	med, most := s.Load()
	return fmt.Sprintf("%d trials, %d faults, %d of them broke %d pairs; repair p50 %v p99 %v max %v; drains while a pair was broken: %.1f %%; the manager broke %d pairs after %d faults, for %v at most; load %.2f, %.2f at most",
		s.Trials, s.Faults, s.Breaking, s.Pairs, s.Quantile(0.5), s.Quantile(0.99), s.Quantile(1), 100*s.DrainShare(),
		s.ManagerBroke, s.ManagerFaults, s.ManagerLongest, med, most)
}

func share(n, of int) float64 { return float64(n) / float64(max(of, 1)) }
