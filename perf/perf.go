// Package perf is the performance manager: it reads the port counters of a subnet (IBA §16.1)
// evenly over a period, adds them up, and publishes what each round of polling found.
//
// Core is a state machine like sm.Core and sa.Core: the shell gives it events, one at a time, and
// does what the output lists. It only reads: it never sends a Set, so it never clears a counter,
// and other tools see the values that they expect. A counter that goes back was cleared by
// somebody else, or overflowed, and is added up across that (delta.go).
//
// What it found is a Round: totals, differences and rates of every port, by the index of the port
// in the snapshot that the round belongs to. Rounds are immutable. Other cores take them as events
// and hold them as long as they like.
package perf

import (
	"time"

	"heddle/ib"
	"heddle/mad"
	"heddle/subnet"
)

// Config configures a core. Begin with Defaults.
type Config struct {
	// Period is the time between two samples of a port, above 0.
	Period time.Duration
	// Rate is the highest number of requests per second. If the ports need more, the period
	// becomes longer, and a notice says so.
	Rate int
	// Window is the highest number of requests in flight.
	Window int
	// Timeout is how long the first try of a request waits, and Retries how many tries follow.
	Timeout time.Duration
	Retries int
	// Hosts has ports of channel adapters and routers polled, in addition to those of switches.
	Hosts bool
	// Details has the attributes read that break errors and waiting down, where the counters
	// that they break down have grown.
	Details bool
	// Lanes has data and packets by virtual lane read in addition, where ports count them, each
	// slowEvery-th round.
	Lanes bool
	// History is how many samples of a port are kept in memory, 8 bytes each.
	History int
	// FirstTID and TransportTimed are those of mad.Config.
	FirstTID       uint32
	TransportTimed bool
}

// Defaults is the configuration of a manager unless told otherwise.
func Defaults() Config {
	return Config{
		Period: 10 * time.Second, Rate: 20_000, Window: 64, Timeout: 250 * time.Millisecond, Retries: 2,
		Hosts: true, Details: true, History: 30,
	}
}

// Event is an input of a Core.
type Event interface{ isEvent() }

// Published is a new snapshot. Ports are polled while it is that of a master whose subnet is up.
type Published struct{ Snap *subnet.Snapshot }

// Received are packets of the performance management class. The core does not keep them.
type Received struct{ List []*mad.Packet }

// Timer is the time that Output.Timer named, or an earlier one.
type Timer struct{}

// Watch has agents, by ascending port GUID, read last in each round from the next one on, so that the
// round shows what they counted a moment ago. It replaces those of before.
type Watch struct{ Agents []ib.GUID }

// Configure changes the period, the rate and what is read beside the basic counters, from the next
// round on. The rest of the Config does not count.
type Configure struct{ Config Config }

func (Configure) isEvent() {}
func (Published) isEvent() {}
func (Watch) isEvent()     {}
func (Received) isEvent()  {}
func (Timer) isEvent()     {}

// Output is what a step of a Core wants done, in the order of the fields.
type Output struct {
	// Sends go to the port; their Data is valid until the next step.
	Sends []mad.Packet
	// Publish, if not nil, is the newest round.
	Publish *Round
	Notices []Notice
	// Timer is when a Timer event is due; mad.Never: none.
	Timer mad.Time
}

// Reset empties the output and keeps its memory.
func (o *Output) Reset() {
	clear(o.Notices)
	*o = Output{Sends: o.Sends[:0], Notices: o.Notices[:0], Timer: mad.Never}
}

// Notice is something to be told: one event, one line of the log.
type Notice struct {
	// Kind is one of the Kind constants; Warn: it needs a human.
	Kind string
	Warn bool
	Text string
}

// The kinds of notices.
const (
	KindSilent   = "perf_silent"   // an agent does not answer, or answers again
	KindCleared  = "perf_cleared"  // counters went back
	KindRedirect = "perf_redirect" // an agent redirects to another one
	KindPeriod   = "perf_period"   // the period cannot be kept
	KindStuck    = "perf_stuck"    // a counter has reached its end and counts no more
	KindRefused  = "perf_refused"  // an agent does not give its counters
)

// Status is the state of a core in numbers.
type Status struct {
	Rounds    uint64        // rounds published
	Period    time.Duration // of the present round
	Ports     int           // ports of the present round
	Agents    int           // known agents
	Silent    int           // of them, those that are set aside because they do not answer
	Requests  uint64        // Gets sent, retries not counted
	Failed    uint64        // of them, those that were not answered or were refused
	Strange   uint64        // answers that do not fit their requests
	Cleared   uint64        // ports whose counters went back
	Window    int           // present limit of requests in flight
	InFlight  int
	LastRound time.Duration // how long the last round took
}
