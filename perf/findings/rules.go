package findings

import (
	"slices"
	"time"

	"heddle/perf"
	"heddle/subnet"
)

// Severity says how soon a human should look.
type Severity uint8

// The severities.
const (
	Info Severity = iota
	Warning
	Critical
)

// String is the severity in lower case.
func (s Severity) String() string {
	return [...]string{"info", "warning", "critical"}[min(s, Critical)]
}

// Rule is one line of the table: when a finding opens and closes, and what it says.
//
// A rule with Counters counts: events of each counter at each end of a link fill a bucket, which
// drains at the harmless rate. The finding opens when a bucket has more events than its threshold,
// as ibqueryerrors takes thresholds; what the buckets of an end have adds up, each as a part of its
// threshold. It closes when there was no more than four times the harmless rate for Quiet. The other
// rules look at states or shares: the finding opens when the value has been Open or more for Hold,
// and closes when it was below Close for Quiet.
type Rule struct {
	Name     string
	Severity Severity
	Title    string // what it is
	Do       string // what to do about it

	// Off: it is looked at, because others may depend on it, and has no findings.
	Off bool

	Counters []perf.Counter // at most maxCounters
	// Limits are the thresholds of Counters; nil: each has Open.
	Limits []float64
	// Harmless is how many events of a counter in an hour are none; BER: in addition those that the
	// bit error rate of the link's speed permits.
	Harmless float64
	BER      bool
	// UpOnly: events in samples in which the link went down come from training, and do not count.
	UpOnly bool
	// Flowing: events of a port that waits for credits do not count, as they come from congestion.
	Flowing bool

	// Share: Open and Close are shares of time. Otherwise a rule without Counters looks at a state.
	Share       bool
	Open, Close float64
	Hold, Quiet time.Duration

	// Act is what is to be done with the link of a finding: Drain, Isolate or nothing. Only rules about
	// links (Link) can have one.
	Act  subnet.PortActionKind
	Link bool

	// Causes are rules, earlier in the table, of which this one is a symptom. There is no finding
	// while one of them has one.
	Causes []Cause
}

// maxCounters is how many counters a rule can have.
const maxCounters = 5

// Limit is the threshold of the rule's counter k.
func (r *Rule) Limit(k int) float64 {
	if r.Limits != nil {
		return r.Limits[k]
	}
	return r.Open
}

// exceeded reports whether an end has too many events: of one counter more than its threshold, or of
// several, which add up as parts of their thresholds.
func (r *Rule) exceeded(level *[2][maxCounters]float64) bool {
	for side := range level {
		full := 0.0
		for k := range r.Counters {
			switch l, limit := level[side][k], r.Limit(k); {
			case limit > 0:
				full += l / limit
			case l > 0:
				return true
			}
		}
		if full > 1 {
			return true
		}
	}
	return false
}

// Cause is a rule that explains others.
type Cause struct {
	Name  string
	Scope Scope
}

// Scope says which findings of a rule explain a symptom.
type Scope uint8

// The scopes.
const (
	SameSubject Scope = iota // of the same link or node
	OneEnd                   // of a node at one end of the link
	Anywhere                 // any in the subnet
)

// quiet is how long a counter has to be silent: three times ibdiagnet's shortest time between two
// readings.
const quiet = 15 * time.Minute

// Names of the rules that code refers to.
const (
	NodeLost      = "node_lost"
	NodeRestart   = "node_restart"
	LinkLost      = "link_lost"
	BadCable      = "bad_cable"
	LinkFlap      = "link_flap"
	Degraded      = "degraded_link"
	DuplicateGUID = "duplicate_guid"
	StuckInit     = "stuck_init"
	HalfActive    = "half_active"
	Congestion    = "congestion"
	NoDescription = "no_description"
	SameDesc      = "same_description"
	LowMTU        = "low_mtu"
	FewVLs        = "few_vls"
)

// Rules is the table, causes before their symptoms. It is a new copy on each call.
func Rules() []Rule { return slices.Concat(linkRules(), counterRules(), nodeRules()) }

// linkRules are about nodes and links that go, come back, or are worse than they can be.
func linkRules() []Rule {
	return []Rule{
		{
			Name: DuplicateGUID, Severity: Critical, Open: 1, Close: 1, Quiet: time.Minute,
			Title: "two nodes claim one GUID",
			Do:    "Find both nodes by the paths in the evidence, and give one of them its own GUID by its firmware.",
		},
		{
			Name: NodeLost, Severity: Critical, Open: 1, Close: 1, Hold: 4 * time.Minute, Quiet: time.Minute,
			Title: "a node is gone with all its links",
			Do:    "Check power and firmware of the node; its cables are not to blame.",
		},
		{
			Name: LinkLost, Severity: Warning, Open: 1, Close: 1, Hold: 4 * time.Minute, Quiet: time.Minute,
			Title:  "a link is gone",
			Do:     "Check whether the device at the far end is on; then reseat the cable at both ends, then replace it.",
			Causes: []Cause{{NodeLost, OneEnd}},
		},
		{
			Name: NodeRestart, Severity: Warning, Open: 1, Close: 1, Quiet: quiet,
			Title:  "all links of a node went down and came back",
			Do:     "Ask who restarted the node; if nobody did, read its log and check its power supplies.",
			Causes: []Cause{{NodeLost, SameSubject}},
		},
		{
			Name: BadCable, Severity: Warning, Act: subnet.Drain, Link: true, Open: 10, BER: true, Harmless: 1, UpOnly: true, Quiet: quiet,
			Counters: []perf.Counter{
				perf.SymbolErrors, perf.LinkErrorRecovery, perf.RcvErrors, perf.LocalLinkIntegrity, perf.ExcessiveBufOverrun,
			},
			Title:  "a link has bit errors",
			Do:     "The end with errors receives them: clean and reseat the connectors, then swap cable or module.",
			Causes: []Cause{{LinkLost, SameSubject}, {NodeLost, OneEnd}, {NodeRestart, OneEnd}},
		},
		{
			Name: Degraded, Severity: Warning, Link: true, Open: 1, Close: 1, Quiet: time.Minute,
			Title: "a link is narrower or slower than both its ends can be",
			Do:    "Reseat the cable; look for a limit that somebody set at an end, or a cable made for less.",
		},
		{
			Name: LinkFlap, Severity: Warning, Link: true, Open: 0, Quiet: quiet, Counters: []perf.Counter{perf.LinkDowned},
			Title: "a link went down and came back",
			Do:    "If neither end was restarted, reseat the cable; if it happens again, replace it.",
			Causes: []Cause{
				{LinkLost, SameSubject}, {NodeLost, OneEnd}, {NodeRestart, OneEnd}, {BadCable, SameSubject}, {Degraded, SameSubject},
			},
		},
		{
			Name: HalfActive, Severity: Warning, Link: true, Open: 1, Close: 1, Hold: time.Minute, Quiet: time.Minute,
			Title: "one end of a link is Active and the other is not",
			Do:    "Reset the link; if it stays, reset the end that is not Active.",
		},
		{
			Name: StuckInit, Severity: Warning, Open: 1, Close: 1, Hold: time.Minute, Quiet: time.Minute,
			Title: "a link is up and does not become Active",
			Do:    "Read the manager's problems of these ports: an end refuses what it is told, or does not answer.",
		},
		{
			Name: Congestion, Severity: Warning, Share: true, Open: 0.3, Close: 0.1, Hold: 30 * time.Second, Quiet: time.Minute,
			Title: "a port waits to send, and nothing behind it does",
			Do:    "See who sends to this port ('heddle ctl perf top'); a host that takes too little is slow or has a sick adapter.",
		},
	}
}

// counterRules are about counters that say little of the link itself.
func counterRules() []Rule {
	return []Rule{
		{
			Name: "discards", Severity: Warning, Link: true, Open: 100, Harmless: 10, Flowing: true, Quiet: quiet,
			Counters: []perf.Counter{perf.XmitDiscards},
			Title:    "a port discards packets without waiting",
			Do:       "Read its PortXmitDiscardDetails: an inactive port, or packets longer than the neighbor's MTU.",
			Causes: []Cause{
				{LinkLost, SameSubject},
				{NodeLost, OneEnd},
				{NodeRestart, OneEnd},
				{BadCable, SameSubject},
				{LinkFlap, SameSubject},
				{HalfActive, SameSubject},
				{StuckInit, SameSubject},
			},
		},
		{
			Name: "remote_errors", Severity: Info, Open: 100, Harmless: 10, Quiet: quiet,
			Counters: []perf.Counter{perf.RcvRemotePhysErrors},
			Title:    "packets arrive that were marked bad before",
			Do:       "A link upstream has bit errors, but its port does not count them: read agents that are silent.",
			Causes:   []Cause{{BadCable, Anywhere}},
		},
		{
			Name: "relay_errors", Severity: Warning, Open: 100, Harmless: 10, Quiet: quiet,
			Counters: []perf.Counter{perf.RcvSwitchRelayErrors},
			Title:    "a switch cannot forward what arrives",
			Do:       "Read its PortRcvErrorDetails: a destination without a route, a lane that is not mapped, or a loop.",
		},
		{
			Name: "constraint_errors", Severity: Warning, Open: 100, Harmless: 10, Quiet: quiet,
			Counters: []perf.Counter{perf.XmitConstraintErrors, perf.RcvConstraintErrors},
			Title:    "a switch port refuses packets of a partition",
			Do:       "A host uses a P_Key that it was not given: compare its table with 'heddle ctl partitions'.",
		},
		{
			Name: "vl15_dropped", Severity: Info, Open: 100, Harmless: 60, Quiet: quiet,
			Counters: []perf.Counter{perf.VL15Dropped},
			Title:    "management packets are dropped for want of buffers",
			Do:       "Look for tools that scan the subnet, or lower the manager's window.",
			Causes:   []Cause{{NodeRestart, OneEnd}, {LinkFlap, SameSubject}},
		},
		{
			Name: "qp1_dropped", Severity: Info, Open: 100, Harmless: 60, Quiet: quiet,
			Counters: []perf.Counter{perf.QP1Dropped},
			Title:    "an agent drops requests",
			Do:       "Poll this agent less often: two or more tools read it at once.",
		},
	}
}

// nodeRules are about what nodes say of themselves.
func nodeRules() []Rule {
	return []Rule{
		{
			Name: NoDescription, Severity: Info, Open: 1, Close: 1, Hold: time.Minute, Quiet: time.Minute,
			Title: "a node has no description",
			Do:    "Set it by the driver (rdma-ndd does) or on the switch.",
		},
		{
			Name: SameDesc, Severity: Info, Open: 1, Close: 1, Hold: time.Minute, Quiet: time.Minute,
			Title: "nodes of one kind share a description",
			Do:    "Give each its own; until then tell them apart by GUID.",
		},
		{
			Name: LowMTU, Severity: Warning, Open: 1, Close: 1, Hold: time.Minute, Quiet: time.Minute,
			Title: "a node's ports take shorter packets than those of most nodes of its kind",
			Do:    "Compare its firmware and settings with the others: paths through it lose their MTU.",
		},
		{
			Name: FewVLs, Severity: Warning, Open: 1, Close: 1, Hold: time.Minute, Quiet: time.Minute,
			Title: "a node's ports have fewer data VLs than those of most nodes of its kind",
			Do:    "Compare its firmware and settings with the others: engines with layers get fewer of them.",
		},
	}
}
