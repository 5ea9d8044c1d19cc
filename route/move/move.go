// Package move takes LIDs from one port to another without routing anew: the
// dynamic reconfiguration of "Towards the InfiniBand SR-IOV vSwitch architecture"
// (E. Tasoulas et al., 2015, §V-C). A LID that moves takes the entries of a LID
// that is there already (Copy), or two LIDs exchange theirs (Swap); so every path
// that results is made of channels that some path takes now.
//
//	p := check.Prove(g, installed, check.Options{…})
//	r, err := move.New(p, []move.Request{{Kind: move.Copy, LID: vm, With: pf, Mode: move.Minimal}}, move.Options{…})
//	for k, st := range r.Stages {
//		… write st.Blocks (contents: r.Block(k, …)); wait for the answers
//		… let st.Drain pass
//	}
//	… r.Tables are in force for r.Graph, r.Proof proves them
//
// Balanced is the paper's way: every switch where the two entries differ is
// written, and afterwards the LID's paths are those of its model. Minimal
// writes the fewest switches with which the LID is delivered from everywhere:
// inside a leaf, the leaf. What it leaves is another path than the model's, to be
// read from the tables and never assumed.
//
// # What is proved
//
// With one lane, a balanced move adds no dependency: all of the LID's new
// ones are its model's. What a minimal move adds is put into a topological order
// of the channels; if it closes a cycle, more switches change than the fewest, as many
// as it takes or at most those of a balanced move, and Moved says so.
// The result is judged once more as a whole by check.Proof.Update.
//
// While tables are written, packets may meet old and new entries. Entries are
// written from the destination outwards, each after all switches farther on
// along its new path, so packets go by old entries for a while and by new ones
// from then on: no loop. What remains are dependencies of a new channel on an
// old one. In a tree they are turns from down to up at the place that the LID
// leaves; alone they close no cycle, but those of two places may (swaps always
// have two, unless one LID is Idle). Then the rest waits until what was sent by old
// entries has drained; nothing is discarded as long as there is another order.
// Where that order would write a block twice, because LIDs of one block change in it at
// different times, or would drop entries, one is searched for in which each block is written
// once (once.go). With Options.NoWait it does not wait: the
// order is the same, each entry is written once, and Result.Risk names a cycle that is
// possible for a moment.
//
// A LID that moves from port to port of one switch by that switch's entry alone takes all
// the channels that it took before, whatever lanes and service levels there are: Result.Local.
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

// Kind says what happens to a LID.
type Kind uint8

const (
	// Copy gives LID the place and the entries of With, a LID of the port
	// that it is to be at. A LID that nobody has is new (§V-B); one that
	// somebody has moves (§V-C2).
	Copy Kind = iota
	// Swap lets LID and With change places and entries (§V-C1).
	Swap
	// Release takes LID from its owner, and its entries from all switches: packets
	// of those who still know it would go on making dependencies that no proof
	// counts. A LID that will be given out again soon need not be released: as long as a
	// port keeps it, it costs nothing and stays proved.
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

// Mode says which switches are written.
type Mode uint8

const (
	Balanced Mode = iota // all whose two entries differ
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

// Request is one move. LIDs of switches do not move.
type Request struct {
	Kind Kind
	Mode Mode
	LID  ib.LID
	With ib.LID // not of Release
	// Idle says of a Swap that nobody uses With: the LID of a virtual function without
	// a VM. While entries are being written, what packets to it could do is not
	// counted, as a swap would otherwise have to wait for packets of two places to
	// drain. Before and after, its entries are proved as any others are. Of tables
	// with several lanes it says nothing.
	Idle bool
}

// Options are what New needs to know besides.
type Options struct {
	Workers int
	// SwitchLifetime and HOQLife are as in transition.Options: with either
	// without limit (or not known, 0) a move that must wait for packets to drain is refused.
	SwitchLifetime, HOQLife time.Duration
	// Repath allows moves after which the service level of some path to or from
	// the LID is another one. It says that the ends resolve their paths before they
	// send from or to the new place, and that RepathTime bounds how long others use
	// what they knew. Without it such a move is refused: a VM takes the levels of its
	// connections along.
	Repath     bool
	RepathTime time.Duration
	// Groups are the multicast groups that the tables' trees are judged for, as for check.Options.
	Groups []route.Group
	// NoWait writes on where packets would have to drain first (Result.Risk). For tables with
	// several lanes no order is looked for then (Result.Unordered): route/transition has to
	// find one for the tables.
	NoWait bool
	// Unsafe allows moves on tables that are not proved free of credit cycles. They
	// must still deliver; nothing is proved of deadlocks then.
	Unsafe bool
}

// Moved is what one request costs, by the paper's count: as if alone.
type Moved struct {
	Request         // with the Mode that was used
	Why      string // if the mode is not the one asked for, or more than the fewest change
	Switches int    // n′: switches with an entry that changes
	Blocks   int    // m′: blocks to write at most at a switch: 0, 1, or 2
	SMPs     int    // LFT blocks at all switches: at most n·m′
	Entries  int    // entries that change
}

// Stage is what may be written at a time, in any order.
type Stage struct {
	Blocks []route.BlockDiff // contents: Result.Block; by switch, block
	// Drain is how long to wait after the last answer, until packets have left
	// that were sent by older entries; Hops is the number of switches on the
	// longest path that has to empty.
	Drain time.Duration
	Hops  int
	// Repath is how long to wait, besides, for hosts to use new levels.
	Repath time.Duration
}

// Result is what comes of requests. It is immutable.
type Result struct {
	Graph  *fabric.Graph // with the LIDs at their new owners
	Tables *route.Tables // rows that do not change are shared; Memo is dropped
	Proof  *check.Proof  // of the two

	Moved    []Moved // by request
	Blocks   []route.BlockDiff
	Unmerged int // sum of Moved's SMPs: as many would be sent one move at a time
	// Writes is the number of blocks in all stages: what is more than
	// len(Blocks) is the price of the order.
	Writes int
	// Held is the number of entries that are Drop for a while, because they
	// would close a credit cycle with packets sent by older entries.
	Held int
	// Discarded are destinations that are dropped for a while, ascending; only with
	// several lanes.
	Discarded []ib.LID
	// Grown says that LIDs are above the old Tables.TopLID, so LinearFDBTop has
	// to be set at every switch first.
	Grown bool
	// Local says that no path between switches changes, only ports to hosts do: what is
	// written mixes with all that packets may do, whatever they and hosts remember.
	Local bool
	// Unordered says why there are no Stages although entries change; NoWait only.
	Unordered string
	// Risk says which cycle is possible for a moment, because NoWait writes on; nil: none is.
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

// Block fills dst with what stage k writes to a block of its list.
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

// New moves LIDs, one request after the other, each on what the ones before it
// leave. p proves the tables in use. An error says which request cannot be, and
// why; then nothing is moved.
//
// Complexity: for each request O(switches), besides the rows that are copied: a
// batch copies each row once. With several lanes, as transition.New.
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

// unsound says that the judge refuses what came of the requests.
type unsound struct{ err error }

func (u *unsound) Error() string {
	return fmt.Sprintf("move: the tables after it would not be sound: %v", u.err)
}
func (u *unsound) Unwrap() error { return u.err }
