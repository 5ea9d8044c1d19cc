// Package hotspot finds hosts that are sent more than they take, so that the ports on the way to
// them wait, and with them others that send elsewhere (W. L. Guay's thesis, Paper IV).
//
// Two signs are looked for at each switch port with a host behind it:
//
//   - Waiting: the port has packets and may not send them, because the host takes less than its link
//     carries (Algorithm 1 of the paper; the threshold is a share of time). It sends or waits nearly
//     all the time: a port that waits for a while, and has nothing to send for another, waits for
//     inputs that are busy with other ports.
//   - Full: the host takes what its link carries, so the port never waits. It is in use nearly all
//     the time, and ports that feed it wait.
//
// On the slow lane that dFtree moves flows to, those to several hot spots wait for each other, and
// then most of these show no sign. Core.Moved says whose flows are there.
//
// Core is pure and belongs to one goroutine: the same rounds and moves give the same hot spots. A
// Report is immutable and may be read by any goroutine.
package hotspot

import (
	"heddle/ib"
	"heddle/mad"
)

// Config are the thresholds. Start from Defaults.
type Config struct {
	// Wait is the share of time in which a port waits at least that is a sign, or belongs to a
	// contributor. A hot spot stays while its port waits for WaitLow or more, and for Keep of what
	// it waited for on average.
	Wait, WaitLow, Keep float64
	// Busy is the share of time for which a port that waits sends or waits at least, BusyLow that
	// for which it does while a hot spot stays (Core.saturated).
	Busy, BusyLow float64
	// Full is the share of the data rate that a port in use all the time uses at least, FullLow
	// what it has to use for a hot spot to stay.
	Full, FullLow float64
	// Trickle is the share of time for which the port sends or waits at least while a hot spot stays
	// because its flows wait behind those to others (Core.queued).
	Trickle float64
	// MaxUse is the share of its link that a contributor uses at most, where the sign is Waiting
	// (the paper's 50 %).
	MaxUse float64
	// Calm is the least number of rounds from one reopening of a host's hot spot to the next.
	Calm uint64
}

// Defaults returns the default thresholds. The hosts of the paper's test beds make their last port
// wait for 18 % of the time.
func Defaults() Config {
	return Config{Wait: 0.1, WaitLow: 0.05, Keep: 0.4, Busy: 0.9, BusyLow: 0.6, Full: 0.9, FullLow: 0.8, Trickle: 0.005, MaxUse: 0.5, Calm: 10}
}

// Sign is what shows a hot spot.
type Sign uint8

// The signs.
const (
	Waiting Sign = iota // its last port waits
	Full                // its last port is in use all the time, and ports that feed it wait
)

// String prints "waiting".
func (s Sign) String() string { return [...]string{"waiting", "full"}[s] }

// End is a port of a host, or a switch port.
type End struct {
	Node ib.GUID
	Port uint8
	Desc string // of the node
	GUID ib.GUID
	LID  ib.LID
}

// Contributor is a host that feeds a hot spot.
type Contributor struct {
	Host  End
	Since mad.Time
	// Wait and Use are those of its port in the last round.
	Wait, Use float64
	// Known: it has asked for the path. Otherwise nothing is known of what it holds, so that it may
	// be a victim.
	Known bool
}

// Holds says whether a host may hold a path to another one, by LIDs, and whether that is known.
type Holds func(src, dst ib.LID) (may, known bool)

// Victim is a host that may suffer: it waits, it does not feed the hot spot, and some of its paths
// share a waiting link with those of a contributor.
type Victim struct {
	Host      End
	Wait, Use float64
	// Via is the first such link's port.
	Via End
}

// HotSpot is a host that is sent more than it takes.
type HotSpot struct {
	ID   uint64 // from 1, in the order of opening
	Host End
	At   End // the switch port before it
	Sign Sign
	// Since is when the first sample with the sign began, Opened when it was known, and Closed when
	// it had ended; 0: it has not.
	Since, Opened, Closed mad.Time
	Wait, Use             float64 // of At, in the last round
	// Lane is the data lane on which At, or the port that feeds it most, waits most; -1: the
	// agents do not count by lane.
	Lane int
	// Behind: the port does not show the sign any more, because flows to the host share the slow lane
	// with those to others, and wait behind them.
	Behind bool
	// Contributors are in the order of port GUIDs; those of one that has ended are a few.
	// MoreContributors are those for which there was no room (limits).
	Contributors     []Contributor
	MoreContributors int
	Victims          []Victim // at most maxVictims, those that wait most first
	MoreVictims      int
	Why              string // of its end: Ended or Unseen
}

// Reasons for the end of a hot spot.
const (
	Ended  = "ended"
	Unseen = "not seen any more"
)

// Limits of what is kept.
const (
	maxVictims       = 32
	maxClosed        = 64
	maxClosedFeeders = 32 // that a hot spot which has ended keeps
	maxOpen          = 1024
	// unseenRounds is after how many rounds without a sample of its port a hot spot ends.
	unseenRounds = 10
)

// limits are what a round may find and cost. All hosts of a fabric that is full, as in an evenly
// loaded all-to-all, are hot spots fed by all others, and a slow lane helps nobody then.
type limits struct {
	spots   int // that are open
	feeders int // contributors of all open hot spots
	looks   int // hosts with the sign whose contributors are looked for
	walk    int // hops of paths on which victims are looked for
}

// limitsOf are the limits of a fabric with that many hosts. One hot spot that all hosts feed has
// room several times, and so have a dozen in a fabric of some hundred hosts.
func limitsOf(hosts int) limits {
	spots := min(max(16, hosts/32), maxOpen)
	return limits{spots: spots, feeders: max(4*hosts, 8192), looks: 4 * spots, walk: 8 << 20}
}

// Report are all hot spots after a round. It is immutable.
type Report struct {
	Round  uint64
	At     mad.Time
	Open   []HotSpot // in the order of opening
	Closed []HotSpot // those that ended last, oldest first
	// Held is how many hosts have the sign of a hot spot, but had one that was reopened a moment
	// ago.
	Held int
	// Missed is how many hosts have the sign of a hot spot for which there was no room. Above 0 the
	// fabric as a whole is full.
	Missed int
}

// Output is what a round led to.
type Output struct {
	Report         *Report
	Opened, Closed []HotSpot
	// Watch are the switches with ports of open hot spots, by port GUID, ascending: sampled last
	// in a round, they show the end of a hot spot soonest.
	Watch []ib.GUID
}
