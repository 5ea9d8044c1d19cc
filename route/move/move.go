// Package move moves LIDs between ports without rerouting: the dynamic reconfiguration of
// "Towards the InfiniBand SR-IOV vSwitch architecture" (E. Tasoulas et al., 2015, §V-C).
// A LID that moves takes the entries of a LID at the destination (Copy), or two LIDs
// exchange theirs (Swap); so every new path consists of channels of existing paths.
//
//	p := check.Prove(g, installed, check.Options{…})
//	r, err := move.New(p, []move.Request{{Kind: move.Copy, LID: vm, With: pf, Mode: move.Minimal}}, move.Options{…})
//	for k, st := range r.Stages {
//		… write st.Blocks (contents: r.Block(k, …)); wait for the answers
//		… let st.Drain pass
//	}
//	… r.Tables are in force for r.Graph, r.Proof proves them
//
// Balanced is the paper's method: it writes every switch where the two entries differ,
// and afterward the LID's paths are those of its model. Minimal writes the fewest
// switches that deliver the LID from everywhere: inside a leaf, only the leaf. The
// resulting path differs from the model's; read it from the tables.
//
// # What is proved
//
// With one lane, a balanced move adds no dependency: all of the LID's new ones are its
// model's. The dependencies that a minimal move adds are inserted into a topological
// order of the channels; if they close a cycle, more switches change, at most those of a
// balanced move, and Moved says so. check.Proof.Update verifies the whole result.
//
// While tables are written, packets may meet old and new entries. Entries are written
// from the destination outwards, each after all later switches of its new path, so a
// packet follows old entries first and new ones from then on: no loop. What remains are
// dependencies of a new channel on an old one. In a tree they are turns from down to up
// at the LID's old place. Those of one place close no cycle, but those of two places may
// (a swap has two, unless one LID is Idle). Then the remaining writes wait until packets
// sent by old entries have drained; nothing is discarded if another order exists. Where
// that order would write a block twice, because LIDs of one block change in it at
// different times, or would drop entries, the package searches for an order that writes
// each block once (once.go). With Options.NoWait it does not wait: the order is the same,
// each entry is written once, and Result.Risk names a cycle that is possible for a
// moment.
//
// A LID that moves from port to port of one switch by that switch's entry alone takes all
// the channels that it took before, regardless of lanes and service levels: Result.Local.
//
// Results do not depend on the number of workers.
package move

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"heddle/fabric"
	"heddle/ib"
	"heddle/route"
	"heddle/route/check"
	"heddle/route/transition"
)

// Kind is the kind of a move.
type Kind uint8

const (
	// Copy gives LID the location and the entries of With, a LID of the
	// destination port. A LID without an owner is new (§V-B); one with an owner
	// moves (§V-C2).
	Copy Kind = iota
	// Swap lets LID and With change places and entries (§V-C1).
	Swap
	// Release removes LID from its owner, and its entries from all switches: otherwise
	// packets of hosts that still know it would cause dependencies that no proof counts.
	// A LID that will soon be assigned again need not be released: while a port keeps
	// it, it costs nothing and stays proved.
	Release
)

func (k Kind) String() string {
	switch k {
	case Copy:
		return "copy"
	case Swap:
		return "swap"
	case Release:
		return "release"
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// Mode selects the switches to write.
type Mode uint8

const (
	Balanced Mode = iota // all switches whose two entries differ
	Minimal              // the fewest that will do, if they close no credit cycle
)

func (m Mode) String() string {
	switch m {
	case Balanced:
		return "balanced"
	case Minimal:
		return "minimal"
	}
	return fmt.Sprintf("mode(%d)", uint8(m))
}

// Request is one move. LIDs of switches cannot move.
type Request struct {
	Kind Kind
	Mode Mode
	LID  ib.LID
	With ib.LID // not of Release
	// Idle says of a Swap that no host uses With: it is the LID of a virtual function
	// without a VM. While entries are written, possible packets to it are not counted;
	// otherwise a swap would have to wait for packets of two places to drain. Before
	// and after, its entries are proved like all others. It has no effect on tables
	// with several lanes.
	Idle bool
}

// Options are the other inputs of New.
type Options struct {
	Workers int
	// SwitchLifetime and HOQLife are as in transition.Options: if either is infinite (or
	// unknown, 0), a move that must wait for packets to drain is refused.
	SwitchLifetime, HOQLife time.Duration
	// Repath permits moves that change the service level of a path to or from the
	// LID. It promises that the ends resolve their paths before they send from or to
	// the new location, and that RepathTime bounds how long others use old paths.
	// Without it such a move is refused, because a VM keeps the levels of its
	// connections.
	Repath     bool
	RepathTime time.Duration
	// Groups are the multicast groups for which the tables' trees are verified, as in
	// check.Options.
	Groups []route.Group
	// NoWait continues to write where packets would have to drain first (Result.Risk). For
	// tables with several lanes it searches no order (Result.Unordered): route/transition
	// must find one.
	NoWait bool
	// Unsafe allows moves on tables that are not proved free of credit cycles. They
	// must still deliver; nothing is proved of deadlocks then.
	Unsafe bool
}

// Moved is the cost of one request by the paper's count: as if alone.
type Moved struct {
	Request         // with the Mode that was used
	Why      string // set if the mode is not the requested one, or more switches than the fewest change
	Switches int    // n′: switches with an entry that changes
	Blocks   int    // m′: blocks to write at most at a switch: 0, 1, or 2
	SMPs     int    // LFT blocks at all switches: at most n·m′
	Entries  int    // entries that change
}

// Stage is a set of blocks that may be written in any order.
type Stage struct {
	Blocks []route.BlockDiff // contents: Result.Block; by switch, block
	// Drain is how long to wait after the last acknowledgment, until packets sent
	// by older entries have left; Hops is the number of switches on the longest
	// path that must drain.
	Drain time.Duration
	Hops  int
	// Repath is how long to wait, in addition, until hosts use new levels.
	Repath time.Duration
}

// Result is the result of requests. It is immutable.
type Result struct {
	Graph  *fabric.Graph // with the LIDs at their new owners
	Tables *route.Tables // rows that do not change are shared; Memo is dropped
	Proof  *check.Proof  // of the two

	Moved    []Moved // by request
	Blocks   []route.BlockDiff
	Unmerged int // sum of Moved's SMPs: the number of SMPs if each move were done separately
	// Writes is the number of blocks in all stages; those beyond len(Blocks) are
	// the cost of the order.
	Writes int
	// Held is the number of entries that are Drop for a while, because they
	// would close a credit cycle with packets sent by older entries.
	Held int
	// Discarded are destinations that are dropped for a while, ascending; only with
	// several lanes.
	Discarded []ib.LID
	// Grown says that LIDs are above the old Tables.TopLID, so every switch's
	// LinearFDBTop must be set first.
	Grown bool
	// Local says that no path between switches changes, only ports to hosts: any mix of
	// old and new entries is safe.
	Local bool
	// Unordered says why there are no Stages although entries change; NoWait only.
	Unordered string
	// Risk names the cycle that is possible for a moment, because NoWait does not wait; nil:
	// none.
	Risk *transition.Risk
	// NeedsRepath says that service levels change (Options.Repath).
	NeedsRepath bool
	Stages      []Stage
	Reason      string // one line on the order, for logs and the API

	installed *route.Tables
	cols      []*column        // those that change, by ascending LID
	first     []int32          // by block: its first in cols
	plan      *transition.Plan // of tables with several lanes, instead of cols' stages
}

// Block fills dst with the content that stage k writes to a block of its list.
func (r *Result) Block(k int, b route.BlockDiff, dst *[route.BlockLen]byte) {
	if r.plan != nil {
		r.plan.Block(k, b, dst)
		return
	}
	r.Tables.Block(b.Switch, b.Block, dst)
	for _, c := range r.inBlock(b.Block) {
		at := &dst[c.lid%route.BlockLen]
		switch s := b.Switch; {
		case c.stage[s] == never || int(c.stage[s]) <= k:
		case int(c.left[s]) <= k:
			*at = route.Drop
		default:
			*at = c.old[s]
		}
	}
}

// New moves LIDs, one request after the other. p proves the installed tables.
// An error names the request that is impossible, and the reason; then nothing
// moves.
//
// Complexity: for each request O(switches), plus the copied rows: a batch
// copies each row once. With several lanes, as transition.New.
func New(p *check.Proof, requests []Request, o Options) (*Result, error) {
	r, err := try(p, requests, o)
	if u := (*unsound)(nil); !errors.As(err, &u) || !slices.ContainsFunc(requests, func(q Request) bool { return q.Mode == Minimal }) {
		return r, err
	}
	// With several lanes it shows only now that the fewest changes close a cycle.
	all := slices.Clone(requests)
	for i := range all {
		all[i].Mode = Balanced
	}
	if r, err = try(p, all, o); err != nil {
		return nil, err
	}
	for i := range requests {
		if requests[i].Mode == Minimal {
			r.Moved[i].Why = "the fewest changes would close a credit cycle"
		}
	}
	return r, nil
}

func try(p *check.Proof, requests []Request, o Options) (*Result, error) {
	m, err := newMover(p, o)
	if err != nil {
		return nil, err
	}
	for i := range requests {
		if err := m.request(requests[i]); err != nil {
			return nil, fmt.Errorf("move: request %d, %v of LID %d: %w", i, requests[i].Kind, requests[i].LID, err)
		}
	}
	return m.finish()
}

// unsound reports that the verifier rejects the result of the requests.
type unsound struct{ err error }

func (u *unsound) Error() string {
	return fmt.Sprintf("move: the tables after it would not be sound: %v", u.err)
}
func (u *unsound) Unwrap() error { return u.err }
