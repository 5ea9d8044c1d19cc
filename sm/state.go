package sm

import (
	"heddle/mad"
	"heddle/sm/discover"
	"heddle/sm/notice"
	"heddle/subnet"
)

// This file has the states of the conductor. Each comment names the files that write the state.

// sweepState is the state of the sweep under way, or of the last one (sweep.go).
type sweepState struct {
	start       mad.Time
	madBase     mad.Stats // the engine's counters when the sweep began
	attempts    int       // sweeps in a row that failed in part, or during which something changed
	refused     bool      // no tables could be installed
	armAll      bool      // links came up that were not armed because no tables could be installed
	persistWait bool      // LIDs and M_Keys are being stored
	// The partner's port is giving up LIDs that ours is to get; it has, or failed to.
	exchanging, exchanged bool
	unfinished            bool // the tables of the last sweep are written in part
	sound                 bool // the last sweep had no error: Fabric is the whole subnet
	lastReport            *notice.SweepReport
	upCounts              subnet.Counts
}

// breakState counts the sweeps that were broken off, and has what they left unfinished (breakoff.go).
type breakState struct {
	count   int      // sweeps in a row that were broken off
	gaveWay int      // changes that gave way to others, since the last that did not
	at      mad.Time // when the sweep under way is broken off
	why     string
	carry   discover.Carry
}

// schedule has the times of work between sweeps; mad.Never where there is none (timers.go).
type schedule struct {
	fullAt       mad.Time // a full sweep that nothing asked for
	reactivateAt mad.Time // our own port is looked at again
	retryAt      mad.Time // what was left out is tried again
	retryWait    int      // doublings of RetryInterval
}

// shownState says what the last snapshot lacks (sweep.go, upkeep.go).
type shownState struct {
	gen   uint64 // of the last snapshot
	moved bool   // LIDs have moved: its graph and tables are older
	ports bool   // ports have other LIDs
	told  uint64 // generation of the last snapshot that announced service levels before their use
}
