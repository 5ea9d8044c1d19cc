// Package findings says what is wrong with a subnet and what to do about it: rules, which are data
// (Rules), are evaluated on what each round of the performance manager counted and on the snapshot
// that the round belongs to.
//
// One cause is one finding. The counters of a link's two ends are evidence of the link's finding; a
// symptom has none of its own while its cause has one; and all links of a lost node are that node's.
// Findings open and close with hysteresis.
//
// Core is pure and belongs to one goroutine: the same rounds give the same findings. A Report is
// immutable and may be read by any goroutine.
package findings

import (
	"time"

	"heddle/ib"
	"heddle/mad"
	"heddle/perf"
)

// End is a port, or with Port 0 a node.
type End struct {
	GUID ib.GUID // of the node
	Port uint8
	Desc string // of the node
}

// Evidence is a fact about one end.
type Evidence struct {
	End  End
	What string // a counter or field, as the specification names it
	// Delta is what a counter counted since Since, Rate what it counted in a second by the last
	// sample that was not 0.
	Delta uint64
	Rate  float64
	// Value and Limit are those of a field or share. Limit is that of a rule which counts as well:
	// it opens at more events.
	Value, Limit float64
	Text         string // what else there is to say
	Since, At    mad.Time
}

// Finding is one thing that is wrong.
type Finding struct {
	ID       uint64 // from 1, in the order of opening
	Rule     string
	Severity Severity
	Title    string
	Do       string
	Ends     []End // two of a link, one or more nodes, at most maxEnds
	More     int   // ends that are not listed
	// Since is when the first evidence was seen, Opened when the rule's threshold was reached, and
	// Closed when it ended; 0: it has not.
	Since, Opened, Closed mad.Time
	// Why it ended: Healed, Unseen, SwitchedOff, or the name of the rule that explains it.
	Why      string
	Evidence []Evidence // at most maxEvidence
	// Action is what was done about it, or would be; the caller of the Core fills it in.
	Action string
}

// Reasons for the end of a finding.
const (
	Healed      = "healed"
	Unseen      = "not seen any more"
	SwitchedOff = "rule switched off"
)

// Limits of what is kept.
const (
	maxEnds     = 16
	maxEvidence = 16
	maxOpen     = 1000
	maxClosed   = 256
	maxTracks   = 1 << 17
	maxLost     = 1 << 16
)

// Report are all findings after a round. It is immutable.
type Report struct {
	Round  uint64
	At     mad.Time
	Open   []Finding // by ID
	Closed []Finding // those that ended last, oldest first
	// Missed is how many could not be looked at or opened because there were too many.
	Missed int
	// Rules are counts of each rule of the table, in its order.
	Rules []Count
}

// Count is how many findings a rule has, and had since the core began.
type Count struct {
	Rule                                   string
	Severity                               Severity
	Open                                   int
	Opened                                 uint64
	Healed, Unseen, Explained, SwitchedOff uint64 // reasons for which they ended
}

// Output is what a step of a Core found: Opened and Closed have what changed.
type Output struct {
	Report         *Report
	Opened, Closed []Finding
}

// source are the counters of a round; a perf.Round in production.
type source interface {
	Len() int
	At(i int32) mad.Time
	Delta(i int32, c perf.Counter) uint64
	// MayErr is false if no error counter of the port counted since the sample before.
	MayErr(i int32) bool
	WaitShare(i int32) float64
	AtEnd(i int32, c perf.Counter) bool
	Elapsed(i int32) time.Duration
}
