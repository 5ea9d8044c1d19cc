// Package check proves forwarding tables, independently of every engine.
//
// Verify takes a Graph and any Tables for it, from any source, and reports
// whether they are safe to install:
//
//   - delivery and no loops, for every LID from the switch of every LID;
//   - deadlock freedom by an acyclic channel dependency graph, lane by lane
//     (W. J. Dally and C. L. Seitz, 1987; J. Duato, 1995), for the traffic that
//     can exist on data lanes: paths with a CA or router port at one end at
//     least. Dependencies are taken per destination tree, and only from
//     channels that such traffic can enter by. Paths between switch port 0s
//     are verified separately, because a fat tree's roots can reach each other only
//     by a turn that data traffic never makes; VL15 is exempt. The lane of each
//     channel is the one that the SL of (source, destination) maps to there;
//   - multicast: each tree is a tree and reaches its group, and its packets'
//     dependencies, from any channel of the tree at a switch to any other, are
//     taken together with those of unicast.
//
// The package shares only types with the engines. A Report does not depend on
// the number of workers. Everything is safe for concurrent use.
package check

import (
	"errors"
	"fmt"
	"strings"

	"heddle/fabric"
	"heddle/ib"
	"heddle/route"
)

// Options of Verify.
type Options struct {
	Workers  int // parallelism, 0 = 1; the result is the same for any number
	Examples int // how many Failures and Cycles to describe; 0 = 8
	// Groups are the multicast groups of the tables' trees. nil: unknown; then
	// each tree is only verified to be a tree, not to reach its members.
	Groups []route.Group
}

// Kind is the kind of an entry's failure.
type Kind uint8

// Failures of a switch's entry for a LID.
const (
	DeadEnd   Kind = iota + 1 // no entry, or a port that leads nowhere
	Loop                      // the packet returns to the switch
	WrongPort                 // delivered, but to another end port
	BadLane                   // the next link does not have the packet's lane
)

// String names the kind in lower case.
func (k Kind) String() string {
	switch k {
	case DeadEnd:
		return "dead end"
	case Loop:
		return "loop"
	case WrongPort:
		return "wrong delivery"
	case BadLane:
		return "lane that the link does not have"
	}
	return "unknown"
}

// Failure is one LID that is not delivered, and the place where its packets
// end.
type Failure struct {
	Kind   Kind
	LID    ib.LID
	Switch int32 // where the packet stops, is misdelivered, or enters a loop
	Entry  byte  // the entry there
	Pairs  int64 // LID pairs that fail here
}

// Hop is an output channel of a path: switch, port and data lane.
type Hop struct {
	Switch int32
	Port   uint8
	Lane   uint8
}

// Dependency is one edge of a cycle: packets that hold In wait for Out, for
// example those from Src to Dst, whose whole path is given; if Dst is the LID
// of a multicast group, the path up to Out.
type Dependency struct {
	In, Out Hop
	Src     int32 // index in Graph.EndPorts
	Dst     ib.LID
	Path    []Hop
}

// Cycle is a cycle of the channel dependency graph, edge by edge: the Out of
// each is the In of the next.
type Cycle struct {
	Edges      []Dependency
	SwitchOnly bool // it needs traffic between switch port 0s
}

// Report is the verdict. Pairs are ordered pairs (source LID, destination LID)
// of different end ports.
type Report struct {
	// Malformed says what makes the tables unreadable: missing rows or service
	// levels, numbers out of range, more lanes than NumVLs; "" if nothing. Except
	// for NumVLs, nothing else was verified.
	Malformed string
	// UnreachablePairs counts the pairs whose switches are connected but whose
	// packets are not delivered.
	UnreachablePairs int64
	// DisconnectedPairs counts the pairs without a physical path; they are no
	// failure of the tables.
	DisconnectedPairs int64
	// Loops counts the forwarding loops, summed over all LIDs up to the top,
	// including those without an owner.
	Loops int64
	// CreditCycles counts the strongly connected components with a cycle in the channel
	// dependency graph (of pairs of channel and lane), for traffic with a CA or router port
	// at one end at least.
	CreditCycles int
	// CreditCyclesSwitch counts those that only exist because of traffic
	// between switch port 0s.
	CreditCyclesSwitch int
	// MulticastFailures counts the groups whose tree is not a tree, or does not
	// deliver exactly one copy to each member on its side of the fabric.
	MulticastFailures int

	// The other fields describe the delivered paths between different CA or router
	// ports: one for each pair (source port, destination LID).
	Paths          int64
	MaxHops        int     // links between switches on the longest path
	AvgHops        float64 // mean of the same
	MaxChannelLoad int64   // most paths over one channel (one direction of a link between switches)
	AvgChannelLoad float64 // mean over all channels
	// VLsUsed is how many data lanes the delivered paths with a CA at one end use
	// between switches; at least 1, which is the value for single-lane tables.
	VLsUsed int

	Failures []Failure // examples, by ascending LID
	Cycles   []Cycle   // examples, at most one for each component
	// Multicast are examples, by ascending MLID, groups without a tree last.
	Multicast []MulticastFailure
}

// OK reports whether the tables may be installed: every connected pair is
// delivered, nothing loops, no traffic of CAs can deadlock.
func (r *Report) OK() bool {
	return r.Malformed == "" && r.UnreachablePairs == 0 && r.Loops == 0 && r.CreditCycles == 0 && r.MulticastFailures == 0
}

// Err is nil if the report is OK; otherwise it gives the reason in one line.
func (r *Report) Err() error {
	if r.OK() {
		return nil
	}
	var why []string
	if r.Malformed != "" {
		why = append(why, r.Malformed)
	}
	count := func(n int64, what string) {
		if n > 1 {
			what += "s"
		}
		if n > 0 {
			why = append(why, fmt.Sprintf("%d %s", n, what))
		}
	}
	count(r.UnreachablePairs, "unreachable pair")
	count(r.Loops, "loop")
	count(int64(r.CreditCycles), "credit cycle")
	count(int64(r.MulticastFailures), "multicast failure")
	return errors.New("check: " + strings.Join(why, ", "))
}

// String prints the cycle one dependency a line, with the switches' GUIDs and a
// path that causes it, with its hops as switch/port/lane.
func (c *Cycle) String(g *fabric.Graph) string {
	var b strings.Builder
	hop := func(h Hop) { fmt.Fprintf(&b, "%v port %d lane %d", g.Switches[h.Switch].GUID, h.Port, h.Lane) }
	for _, e := range c.Edges {
		hop(e.In)
		b.WriteString(" waits for ")
		hop(e.Out)
		fmt.Fprintf(&b, " (port %v to LID %d:", g.EndPorts[e.Src].GUID, e.Dst)
		for _, h := range e.Path {
			fmt.Fprintf(&b, " %v/%d/%d", g.Switches[h.Switch].GUID, h.Port, h.Lane)
		}
		b.WriteString(")\n")
	}
	return b.String()
}
