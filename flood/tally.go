package flood

import (
	"math/rand/v2"
	"time"

	"heddle/ib"
	"heddle/mad"
)

// Tally counts the queries of one or several ports that ended in one time span.
type Tally struct {
	From, To mad.Time
	// Response is the response time of those that were answered with a record.
	Response Stats
	// Timeouts got no response in time, or were undeliverable according to the
	// port; Busy were refused by an overloaded SA; Refused got another error
	// status, see Statuses; Wrong got a response to something else.
	Timeouts, Busy, Refused, Wrong uint64
	// Statuses counts the refused by status, nil if there are none.
	Statuses map[ib.Status]uint64
	// Dots are some of the answered queries, for a plot; in no order.
	Dots []Dot
}

// Dot is one query: when it ended and how long it took.
type Dot struct {
	At   mad.Time
	Took time.Duration
}

// Answered is how many were answered with a record.
func (t *Tally) Answered() uint64 { return t.Response.N() }

// Errors is how many were not.
func (t *Tally) Errors() uint64 { return t.Timeouts + t.Busy + t.Refused + t.Wrong }

// Seconds is how long it took.
func (t *Tally) Seconds() float64 { return t.To.Sub(t.From).Seconds() }

// QPS is the answered queries of each second.
func (t *Tally) QPS() float64 {
	if s := t.Seconds(); s > 0 {
		return float64(t.Answered()) / s
	}
	return 0
}

// Sum adds tallies of the same span, without their dots.
func Sum(all ...*Tally) Tally {
	var sum Tally
	for i, t := range all {
		if i == 0 {
			sum.From, sum.To = t.From, t.To
		}
		sum.From, sum.To = min(sum.From, t.From), max(sum.To, t.To)
		sum.Response.Merge(&t.Response)
		sum.Timeouts += t.Timeouts
		sum.Busy += t.Busy
		sum.Refused += t.Refused
		sum.Wrong += t.Wrong
		for s, n := range t.Statuses {
			if sum.Statuses == nil {
				sum.Statuses = map[ib.Status]uint64{}
			}
			sum.Statuses[s] += n
		}
	}
	return sum
}

func (t *Tally) refuse(s ib.Status) {
	if t.Statuses == nil {
		t.Statuses = map[ib.Status]uint64{}
	}
	t.Statuses[s]++
	t.Refused++
}

// answer records an answered query. It keeps a uniform sample of at most dots
// queries (reservoir sampling).
func (t *Tally) answer(now mad.Time, took time.Duration, dots int, rng *rand.Rand) {
	t.Response.Add(took)
	switch {
	case len(t.Dots) < dots:
		t.Dots = append(t.Dots, Dot{now, took})
	case dots > 0:
		if k := rng.Uint64N(t.Answered()); k < uint64(dots) {
			t.Dots[k] = Dot{now, took}
		}
	}
}
