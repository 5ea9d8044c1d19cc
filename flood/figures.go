package flood

import (
	"time"

	"heddle/ib"
)

// Figures is a tally in human-readable units, for JSON output. Response times
// are in microseconds.
type Figures struct {
	Seconds  float64 `json:"seconds"`
	Answered uint64  `json:"answered"`
	QPS      float64 `json:"qps"`
	Mean     float64 `json:"mean_us"`
	Median   float64 `json:"p50_us"`
	StdDev   float64 `json:"stddev_us"`
	P90      float64 `json:"p90_us"`
	P99      float64 `json:"p99_us"`
	P999     float64 `json:"p999_us"`
	Max      float64 `json:"max_us"`
	// Errors is the sum of those below.
	Errors   uint64            `json:"errors"`
	Timeouts uint64            `json:"timeouts"`
	Busy     uint64            `json:"busy"`
	Refused  uint64            `json:"refused"`
	Wrong    uint64            `json:"wrong"`
	Statuses map[string]uint64 `json:"statuses,omitempty"` // of the refused
}

// FiguresOf reads a tally.
func FiguresOf(t *Tally) Figures {
	us := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }
	r := &t.Response
	f := Figures{
		Seconds: t.Seconds(), Answered: t.Answered(), QPS: t.QPS(),
		Mean: us(r.Mean()), Median: us(r.Quantile(0.5)), StdDev: us(r.StdDev()),
		P90: us(r.Quantile(0.9)), P99: us(r.Quantile(0.99)), P999: us(r.Quantile(0.999)), Max: us(r.Max()),
		Errors: t.Errors(), Timeouts: t.Timeouts, Busy: t.Busy, Refused: t.Refused, Wrong: t.Wrong,
	}
	for s, n := range t.Statuses {
		if f.Statuses == nil {
			f.Statuses = map[string]uint64{}
		}
		f.Statuses[s.Text(ib.ClassSA)] += n
	}
	return f
}

// RoundFigures are the figures of one round, with those of the SIF separate.
type RoundFigures struct {
	Round     int       `json:"round"`
	Instances int       `json:"instances"`
	Spawning  float64   `json:"spawn_seconds"`
	Cut       bool      `json:"cut,omitempty"`
	SIF       Figures   `json:"sif"`
	MIF       Figures   `json:"mif"`  // all MIFs
	MIFs      []Figures `json:"mifs"` // each
	Total     Figures   `json:"total"`
}

// FiguresOfRound reads a round.
func FiguresOfRound(r *Round) RoundFigures {
	mif, total := r.MIF(), r.Total()
	f := RoundFigures{
		Round: r.Number, Instances: r.Instances, Spawning: r.Spawning.Seconds(), Cut: r.Cut,
		SIF: FiguresOf(&r.SIF), MIF: FiguresOf(&mif), MIFs: []Figures{}, Total: FiguresOf(&total),
	}
	for i := range r.MIFs {
		f.MIFs = append(f.MIFs, FiguresOf(&r.MIFs[i]))
	}
	return f
}
