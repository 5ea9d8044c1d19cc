// Package flood loads a Subnet Administrator with queries and measures its
// response times: the SA Flooder of E. Tasoulas, E. G. Gran, B. D. Johnsen and
// T. Skeie, "A Novel Query Caching Scheme for Dynamic InfiniBand Subnets"
// (2015), §III, Algorithm 1.
//
// A Flooder runs the instances of one port. Each queries synchronously: it
// sends a query, waits for the response or a timeout, and repeats. A Program
// decides when instances are spawned and what is measured: Experiment is
// Algorithm 1, Load a fixed number of instances.
//
// The package reads no clock and starts no goroutine: flood/live drives it in
// real time, the tests in virtual time.
package flood

import (
	"math/rand/v2"
	"time"

	"heddle/ib"
	"heddle/mad"
)

// Config sets up a Flooder.
type Config struct {
	Target Target
	// Seed of the random draws: two flooders of one run need different seeds.
	Seed uint64
	// Timeout is how long an instance waits for an answer; default 1 s.
	Timeout time.Duration
	// MaxInFlight is the port's limit (mad.Transport.MaxInFlight). Further queries
	// wait inside, and their response time includes that wait. 0: unknown.
	MaxInFlight int
	// TransportTimed: see mad.Config.
	TransportTimed bool
	// FirstTID: see mad.Config.
	FirstTID uint32
	// Dots is how many queries of each span a Tally keeps for a plot.
	Dots int
}

// MaxWindow is how many queries one port has in flight at most; further
// instances wait.
const MaxWindow = 4096

// Flooder runs the instances of one port. It is a pure state machine around a
// mad.Engine, and is driven like one: pass packets to Receive and due timers to
// Expire, call Poll after both, and return at NextTimer. It is not safe for
// concurrent use.
type Flooder struct {
	cfg    Config
	engine *mad.Engine
	rng    *rand.Rand

	asked  []mad.Time // by instance: when it sent its current query
	fresh  []bool     // by instance: waits for the end of its first query
	unborn int        // instances that are fresh

	quota uint64 // remaining queries; see Quota
	tally *Tally // nil: nothing is being measured
	req   mad.Request
}

const endless = 1<<64 - 1

// New returns a flooder without instances.
func New(c Config) *Flooder {
	if c.Timeout <= 0 {
		c.Timeout = time.Second
	}
	mc := mad.Config{
		Window: MaxWindow, MaxWindow: MaxWindow, Timeout: c.Timeout, Retries: -1,
		TransportTimed: c.TransportTimed, FirstTID: c.FirstTID,
	}
	if c.MaxInFlight > 0 {
		mc.MaxWindow = min(mc.MaxWindow, c.MaxInFlight)
	}
	if len(c.Target.Ends) == 0 {
		c.Target.Ends = []End{c.Target.Own}
	}
	c.Target.SA.QP = 1
	return &Flooder{
		cfg: c, engine: mad.NewEngine(mc), quota: endless,
		rng: rand.New(rand.NewPCG(c.Seed, c.Seed^0x9e3779b97f4a7c15)),
	}
}

// Quota bounds the queries from now on; an instance that finds no quota left
// ends.
func (f *Flooder) Quota(n uint64) { f.quota = n }

// Spawn starts n more instances.
func (f *Flooder) Spawn(now mad.Time, n int) {
	for range n {
		i := len(f.asked)
		f.asked = append(f.asked, 0)
		f.fresh = append(f.fresh, true)
		f.unborn++
		f.ask(now, i)
	}
}

// Instances is how many were spawned.
func (f *Flooder) Instances() int { return len(f.asked) }

// Populated reports whether the first query of every instance has ended.
func (f *Flooder) Populated() bool { return f.unborn == 0 }

// Idle reports whether no instance waits for an answer.
func (f *Flooder) Idle() bool { return f.engine.Idle() }

// Open starts a measurement: queries that end before Close count.
func (f *Flooder) Open(now mad.Time) { f.tally = &Tally{From: now} }

// Close ends the measurement and returns it.
func (f *Flooder) Close(now mad.Time) Tally {
	t := f.tally
	f.tally = nil
	if t == nil {
		return Tally{From: now, To: now}
	}
	t.To = now
	return *t
}

// Counted is how many queries have ended since Open, and how many of them were
// answered.
func (f *Flooder) Counted() (ended, answered uint64) {
	if f.tally == nil {
		return 0, 0
	}
	return f.tally.Answered() + f.tally.Errors(), f.tally.Answered()
}

// ask makes instance i send its next query.
func (f *Flooder) ask(now mad.Time, i int) {
	if f.quota == 0 {
		f.born(i)
		return
	}
	if f.quota != endless {
		f.quota--
	}
	f.asked[i] = now
	t := &f.cfg.Target
	f.req.Addr = t.SA
	f.req.Token = uint64(i)
	t.put(&f.req.MAD, &t.Ends[f.rng.IntN(len(t.Ends))])
	if f.engine.Submit(&f.req) != nil {
		// A million instances wait already: drop this one.
		f.born(i)
	}
}

func (f *Flooder) born(i int) {
	if f.fresh[i] {
		f.fresh[i] = false
		f.unborn--
	}
}

// Receive takes one packet from the port. It keeps neither p nor its data.
func (f *Flooder) Receive(now mad.Time, p *mad.Packet) {
	if c, kind := f.engine.Receive(now, p); kind == mad.KindCompletion {
		f.ended(now, c)
	}
}

// Expire ends the queries whose deadline has passed.
func (f *Flooder) Expire(now mad.Time) {
	f.engine.Expire(now, func(c mad.Completion) { f.ended(now, c) })
}

// NextTimer is when Expire must be called next; mad.Never if nothing waits.
func (f *Flooder) NextTimer() mad.Time { return f.engine.NextTimer() }

// Poll sends due packets. The packet is reused.
func (f *Flooder) Poll(now mad.Time, send func(*mad.Packet)) { f.engine.Poll(now, send) }

// ended records how a query ended; its instance sends the next.
func (f *Flooder) ended(now mad.Time, c mad.Completion) {
	i := int(c.Token)
	if t := f.tally; t != nil {
		f.count(t, now, now.Sub(f.asked[i]), &c)
	}
	f.born(i)
	f.ask(now, i)
}

func (f *Flooder) count(t *Tally, now mad.Time, took time.Duration, c *mad.Completion) {
	switch {
	case mad.Unanswered(c.Err):
		t.Timeouts++
	case c.Err != nil:
		t.Wrong++
	case c.MAD.Status()&ib.StatusBusy != 0:
		t.Busy++
	case c.MAD.Status() != ib.StatusOK:
		t.refuse(c.MAD.Status())
	case !f.cfg.Target.answers(c.Request, c.MAD):
		t.Wrong++
	default:
		t.answer(now, took, f.cfg.Dots, f.rng)
	}
}
