// Package bed has what several published experiments share: subnets under a real
// manager whose hosts send packets, the test beds and trees of W. L. Guay's thesis
// (2014), and claims. Package experiment and the packages below it stand on it.
//
// A bed belongs to one goroutine, and its seed repeats it.
package bed

import (
	"fmt"
	"math"
	"time"

	"heddle/report"
	"heddle/sim/dataplane"
)

// The hosts of the thesis' test beds: what PCIe 1.1 x8 lets through, in Gb/s of
// payload, and packets of 2 KiB as RC sends them.
const (
	HostGbps = 12.9
	Payload  = 2048
	Bytes    = Payload + dataplane.OverheadRC
)

// Settle is the virtual time in which a subnet without faults comes up.
const Settle = 10 * time.Minute

// Times of the devices: of a MAD over one link, and of an agent for one request.
const (
	HopLatency = time.Microsecond
	SMALatency = 5 * time.Microsecond
)

// Options are those of every experiment.
type Options struct {
	Seed uint64
	// Runs is how many times something is run; 0 = the experiment's own number.
	Runs int
	// Sizes are numbers of hosts; nil = the experiment's own.
	Sizes []int
	// Progress, if set, hears what is being done.
	Progress func(text string)
}

// Say tells what is being done.
func (o *Options) Say(format string, a ...any) {
	if o.Progress != nil {
		o.Progress(fmt.Sprintf(format, a...))
	}
}

// Flow is a stream from one host to another, numbered from 1.
type Flow [2]int

// String prints "1-5".
func (f Flow) String() string { return fmt.Sprintf("%d-%d", f[0], f[1]) }

// Gbps is what so many bytes on the wire are per d, in Gb/s of payload.
func Gbps(bytes uint64, d time.Duration) float64 {
	return float64(bytes) / Bytes * Payload * 8 / float64(d.Nanoseconds())
}

// Total is the sum of x.
func Total(x []float64) (s float64) {
	for _, v := range x {
		s += v
	}
	return s
}

// Average is the mean of x, 0 of nothing.
func Average(x []float64) float64 { return Total(x) / float64(max(len(x), 1)) }

// Near reports whether x is at most the given part of want away from it.
func Near(x, want, part float64) bool { return math.Abs(x-want) <= part*want }

// Claim makes a claim; measured is a format.
func Claim(what, published string, holds bool, measured string, values ...any) report.Claim {
	return report.Claim{What: what, Published: published, Measured: fmt.Sprintf(measured, values...), Holds: holds}
}

// RatesOverTime adds a plot of the rates of flows to a section, and their columns to its table, whose
// first column is the time. Each row, from 1, has means of so many steps.
func RatesOverTime(s *report.Section, p report.Plot, flows []string, steps [][]float64, each int) {
	for i, f := range flows {
		p.Columns = append(p.Columns, len(s.Table.Columns))
		s.Table.Columns = append(s.Table.Columns, f)
		for row := 0; (row+1)*each <= len(steps); row++ {
			if row == len(s.Table.Rows) {
				s.Table.Rows = append(s.Table.Rows, []any{row + 1})
			}
			v := 0.0
			for _, step := range steps[row*each : (row+1)*each] {
				v += step[i] / float64(each)
			}
			s.Table.Rows[row] = append(s.Table.Rows[row], v)
		}
	}
	s.Plots = append(s.Plots, p)
}
