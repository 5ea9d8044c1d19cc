package dataplane

import (
	"fmt"
	"math"
	"os"
	"testing"
)

// vcase is a validation case: what a set-up must give, by theory, by hand or as
// published. Tolerance 0 is equality to the picosecond or the packet.
type vcase struct {
	id, what string
	long     bool // runs in make test-long only
	run      func(t *testing.T) []result
}

// result is a measured value beside the expected one.
type result struct {
	what      string
	got, want float64
	tol       float64
	how       comparison
}

type comparison string

const (
	relative comparison = "±%"
	absolute comparison = "±"
	atLeast  comparison = "≥"
	atMost   comparison = "≤"
)

func (r *result) ok() bool {
	switch r.how {
	case atLeast:
		return r.got >= r.want
	case atMost:
		return r.got <= r.want
	case relative:
		return math.Abs(r.got-r.want) <= r.tol*math.Abs(r.want)
	}
	return math.Abs(r.got-r.want) <= r.tol
}

func (r *result) String() string {
	s := fmt.Sprintf("%-34s %14.6g  want %s %.6g", r.what, r.got, r.how, r.want)
	if r.tol != 0 {
		s += fmt.Sprintf(" (%g)", r.tol)
	}
	return s
}

func exact(what string, got, want float64) result { return result{what, got, want, 0, absolute} }
func near(what string, got, want, tol float64) result {
	return result{what, got, want, tol, absolute}
}

func within(what string, got, want, share float64) result {
	return result{what, got, want, share, relative}
}
func least(what string, got, want float64) result { return result{what, got, want, 0, atLeast} }
func most(what string, got, want float64) result  { return result{what, got, want, 0, atMost} }

// full reports whether cases run in full size.
func full() bool { return os.Getenv("HEDDLE_LONG") != "" }

// TestValidation runs all cases of the validation table V1–V49 that streams can
// show. Those missing need reliable connections (V40) or a manager (V41:
// lab/experiment).
func TestValidation(t *testing.T) {
	for _, list := range [][]vcase{pathCases, queueCases, patternCases, hotCases, faultCases, programCases, congestionCases} {
		for _, c := range list {
			t.Run(c.id, func(t *testing.T) {
				if c.long && !full() {
					t.Skip("long: runs in make test-long")
				}
				for _, r := range c.run(t) {
					t.Log(r.String())
					if !r.ok() {
						t.Errorf("%s, %s: %s", c.id, c.what, r.String())
					}
				}
			})
		}
	}
}

// measure runs e for a warm-up and then for a window.
func measure(t testing.TB, e *Engine, warm, window Time) *Stats {
	t.Helper()
	e.Run(warm)
	e.ResetStats()
	e.Run(warm + window)
	mustCheck(t, e)
	return e.Stats()
}

// gbps is the payload of n packets in a time in Gb/s.
func gbps(n uint64, payload int, d Time) float64 {
	return float64(n) * float64(payload) * 8 / (float64(d) / float64(Nanosecond))
}
