package flood

import (
	"time"

	"heddle/mad"
)

// A Program decides when instances are spawned and what is measured. The driver
// of the flooders calls Step at the start, whenever one of them has become
// populated or idle, and when the time that Step last returned has come. Every
// flooder is at rest during the call.
type Program interface {
	// Step performs what is due at now and returns the latest time of its next
	// call; done: the program has ended, and so may its instances.
	Step(now mad.Time) (next mad.Time, done bool)
	// Cut ends the program early; the measurements so far stay.
	Cut(now mad.Time)
}

// Plan holds the parameters of Algorithm 1 except for the number of MIFs.
type Plan struct {
	Instances int           // k: instances that each MIF spawns in each round but the first
	Rounds    int           // m
	RoundTime time.Duration // how long is measured in each round
}

// Round is the measurement of one round.
type Round struct {
	Number    int // from 1
	Instances int // active in it, on all ports
	// Spawning is how long it took until every new instance had its first
	// answer, or none in time. Nothing of it is in the tallies.
	Spawning time.Duration
	SIF      Tally
	MIFs     []Tally
	// Cut: the round was ended before its time.
	Cut bool
}

// MIF is the sum of all MIFs, Total that and the SIF.
func (r *Round) MIF() Tally {
	all := make([]*Tally, len(r.MIFs))
	for i := range r.MIFs {
		all[i] = &r.MIFs[i]
	}
	return Sum(all...)
}

// Total is the sum of all ports.
func (r *Round) Total() Tally {
	m := r.MIF()
	if len(r.MIFs) == 0 {
		return Sum(&r.SIF)
	}
	return Sum(&r.SIF, &m)
}

// Experiment is Algorithm 1: one instance on the SIF (single-instance flooder)
// all the time, and from round 2 on Plan.Instances more each round on every MIF
// (multi-instance flooder). Each round is measured once all instances are
// active.
type Experiment struct {
	plan Plan
	sif  *Flooder
	mifs []*Flooder

	state  expState
	round  Round // the current round
	since  mad.Time
	until  mad.Time
	rounds []Round
}

type expState uint8

const (
	expNew expState = iota
	expSpawning
	expMeasuring
	expOver
)

// NewExperiment prepares a run on flooders without instances. There may be no
// MIFs.
func NewExperiment(p Plan, sif *Flooder, mifs []*Flooder) *Experiment {
	return &Experiment{plan: p, sif: sif, mifs: mifs}
}

// Rounds are those that are over.
func (x *Experiment) Rounds() []Round { return x.rounds }

// Progress returns the current round, and whether instances are being spawned.
func (x *Experiment) Progress() (round, instances int, spawning bool) {
	return x.round.Number, x.round.Instances, x.state == expSpawning
}

// Step implements Program.
func (x *Experiment) Step(now mad.Time) (next mad.Time, done bool) {
	for {
		switch x.state {
		case expNew:
			x.spawn(now)
		case expSpawning:
			if !x.populated() {
				return mad.Never, false // a timeout ends it at the latest
			}
			x.round.Spawning = now.Sub(x.since)
			x.since, x.until = now, now.Add(x.plan.RoundTime)
			x.each(func(f *Flooder) { f.Open(now) })
			x.state = expMeasuring
		case expMeasuring:
			if now < x.until {
				return x.until, false
			}
			x.close(now)
			if len(x.rounds) >= x.plan.Rounds {
				x.over()
				break
			}
			x.spawn(now)
		case expOver:
			return mad.Never, true
		}
	}
}

// spawn begins a round.
func (x *Experiment) spawn(now mad.Time) {
	x.round = Round{Number: len(x.rounds) + 1}
	if x.round.Number == 1 {
		x.sif.Spawn(now, 1)
	} else {
		for _, f := range x.mifs {
			f.Spawn(now, x.plan.Instances)
		}
	}
	x.each(func(f *Flooder) { x.round.Instances += f.Instances() })
	x.since = now
	x.state = expSpawning
}

func (x *Experiment) close(now mad.Time) {
	x.round.SIF = x.sif.Close(now)
	for _, f := range x.mifs {
		x.round.MIFs = append(x.round.MIFs, f.Close(now))
	}
	x.rounds = append(x.rounds, x.round)
}

// over lets the instances end.
func (x *Experiment) over() {
	x.each(func(f *Flooder) { f.Quota(0) })
	x.state = expOver
}

func (x *Experiment) populated() bool {
	ok := true
	x.each(func(f *Flooder) { ok = ok && f.Populated() })
	return ok
}

func (x *Experiment) each(do func(*Flooder)) {
	do(x.sif)
	for _, f := range x.mifs {
		do(f)
	}
}

// Cut implements Program: a round that was being measured counts as it is.
func (x *Experiment) Cut(now mad.Time) {
	if x.state == expMeasuring {
		x.round.Cut = now < x.until
		x.close(now)
	}
	if x.state != expOver {
		x.over()
	}
}

// Load runs a number of instances on one port, and measures from the first
// query on.
type Load struct {
	f       *Flooder
	window  int
	queries uint64
	limit   time.Duration

	begun bool
	over  bool
	until mad.Time
	tally Tally
}

// NewLoad prepares window instances that send queries queries in all (0: no
// bound) for at most limit (0: no bound).
func NewLoad(f *Flooder, window int, queries uint64, limit time.Duration) *Load {
	return &Load{f: f, window: window, queries: queries, limit: limit}
}

// Tally is the measurement once the program is over, and empty until then.
func (l *Load) Tally() Tally { return l.tally }

// Step implements Program. Queries in flight when the time is up do not count.
func (l *Load) Step(now mad.Time) (next mad.Time, done bool) {
	if !l.begun {
		l.begun, l.until = true, mad.Never
		if l.limit > 0 {
			l.until = now.Add(l.limit)
		}
		if l.queries > 0 {
			l.f.Quota(l.queries)
		}
		l.f.Open(now)
		l.f.Spawn(now, l.window)
	}
	if !l.over && (now >= l.until || l.f.Idle()) {
		l.Cut(now)
	}
	return l.until, l.over
}

// Cut implements Program.
func (l *Load) Cut(now mad.Time) {
	if l.over {
		return
	}
	l.over = true
	l.f.Quota(0)
	l.tally = l.f.Close(now)
}
