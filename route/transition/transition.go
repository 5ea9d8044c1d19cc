// Package transition plans the change from the installed forwarding tables to the
// wanted ones: what to write, in which stages, and how long to wait between them,
// so that traffic continues without a forwarding loop or a credit cycle.
//
//	p := transition.New(g, installed, wanted, transition.Options{…})
//	for k, st := range p.Stages {
//		… write st.SL2VL, st.LFT (contents: p.Block(k, …)), st.MFT; wait for the answers
//		… let st.Drain pass
//	}
//
// While tables are being written a packet may leave one switch by an old entry
// and the next by a new one, and hosts keep the service level of an established
// connection until they learn another one. So the graph that must be free of
// cycles is the extended one: at each switch and destination the set {installed
// entry, wanted entry}, for each pair the set {old, new} of service levels, at
// each pair of ports {old, new} SL-to-VL table, with every dependency between
// lanes of channels that data traffic can reach in that multi-valued routing
// function. The union of the two tables' own dependency graphs is not enough
// (TestUnionIsNotEnough). The data traffic is that of route/check: packets with a
// CA or router port at one end at least.
//
// A plan is a pure function of its arguments and does not depend on the number of
// workers. It must not be changed once made; any number of goroutines may read
// it.
package transition

import (
	"fmt"
	"time"

	"heddle/fabric"
	"heddle/ib"
	"heddle/route"
	"heddle/route/cdg"
)

// Mode is how a change of tables is applied. None of them takes a port out of
// Active.
type Mode uint8

const (
	// ModeAuto lets New choose; it is never the result.
	ModeAuto Mode = iota
	// ModeNone: the wanted tables are already installed.
	ModeNone
	// ModeDynamic: one stage; all blocks may be written in any order while traffic
	// flows.
	ModeDynamic
	// ModeStaged: an order of updates in several stages, with a drain between two,
	// in which every stage is free of cycles and loops. Nothing is discarded.
	ModeStaged
	// ModeDiscard: entries of the destinations that would close a cycle or a
	// loop are set to Drop first; after the drain time everything is written.
	ModeDiscard
	// ModeStatic: like ModeDiscard, for every destination that changes.
	ModeStatic
	// ModeRepair: broken pairs are connected first, without other changes
	// (NewRepair).
	ModeRepair
	// ModeRefused: the change is not clean and cannot be staged, because
	// packets may stay in the network, or hosts with their old service
	// levels, without limit. Nothing should be written unless the operator
	// forces a mode.
	ModeRefused
)

// String is the name used in logs and in the API.
func (m Mode) String() string {
	switch m {
	case ModeAuto:
		return "auto"
	case ModeNone:
		return "none"
	case ModeDynamic:
		return "dynamic"
	case ModeStaged:
		return "staged"
	case ModeDiscard:
		return "discard"
	case ModeStatic:
		return "static-discard"
	case ModeRepair:
		return "repair"
	case ModeRefused:
		return "refused"
	}
	return fmt.Sprintf("mode(%d)", uint8(m))
}

// Unlimited is a lifetime without limit.
const Unlimited time.Duration = -1

// Lifetime is the duration of a SwitchInfo.LifeTimeValue or PortInfo.HOQLife
// code: 4.096 µs × 2^code, Unlimited above 19 (IBA §14.2.5.4, §14.2.5.6).
func Lifetime(code uint8) time.Duration {
	if code > 19 {
		return Unlimited
	}
	return 4096 * time.Nanosecond << code
}

// Options are the inputs of New besides the tables.
type Options struct {
	Workers int
	// Force is a mode to use regardless of the analysis (ModeDynamic, ModeStaged,
	// ModeDiscard or ModeStatic); ModeAuto chooses. ModeStaged is used only if
	// such an order exists.
	Force Mode
	// Quiet says that no data packet can be in the subnet or enter it (no link
	// between switches is Armed or Active): then any order is safe.
	Quiet bool
	// SwitchLifetime is the longest packet lifetime of any switch, HOQLife the
	// longest head-of-queue limit of any switch port; Unlimited if one has no
	// limit. 0 means unknown, which counts as Unlimited.
	SwitchLifetime, HOQLife time.Duration
	// RepathTime is the longest time until hosts use the new service level of a pair
	// once they can resolve it. 0: without limit; then a change in which an old
	// level could deadlock on the wanted tables is refused.
	RepathTime time.Duration
	// MaxVLs is how many data lanes may be used; 0 = as many as every link between
	// switches has.
	MaxVLs int
	// Lifted says that Lift changed the installed service levels: Approach then
	// gives a destination its wanted levels only with or after its entries.
	Lifted bool

	// LanesUnknown says that switches may hold other SL-to-VL tables than the
	// installed ones, as after an aborted transition. All tables are then written
	// while no data flows between switches.
	LanesUnknown bool
	// Held are service levels that hosts may use besides those of the installed
	// tables, because they were not notified of earlier transitions.
	Held *Held
	// Before is the graph of the installed tables, nil if unknown. It tells which
	// LIDs without an owner belonged to switches.
	Before *fabric.Graph
	// Recent are states that were installed before the current one, as far back as
	// packets may remember them. If the change conflicts with such packets, the
	// plan begins with a wait.
	Recent []Recent
	// GroupLevels are service levels, one bit each, that members of a multicast group
	// may use besides those of its trees, by MLID: the levels they had before its
	// tree was removed.
	GroupLevels map[ib.LID]uint16
	// Frozen are switches that are not in the graph (their agent does not answer,
	// so they can be neither read nor written) but are linked to it and still
	// forward by their tables.
	Frozen []Frozen
	// Left are links between switches of the graph that are not channels of it (a
	// port did not answer) although data may still cross them.
	Left []LeftCable
	// Lost are links between switches of the graph that were channels recently: packets
	// that crossed them may be in flight.
	Lost []LeftCable

	// Proved are the dependencies of the wanted tables, counted or not, for the
	// graph and the data traffic that check.Verify assumes, and ProvedOrder an
	// order of them (nil: it is computed). They make it possible to plan a small
	// change without processing unchanged destinations. Neither is modified.
	Proved      *cdg.Graph
	ProvedOrder *cdg.Order

	// ComputeTime (PCt) is what computing the wanted tables took, SMPTime (k)
	// the mean time of one SMP from request to answer, DirectedTime (r) what
	// directed routing adds to it, Window how many are in flight at a time
	// (0 = 1). The prediction is RCt = PCt + LFTDt with LFTDt = n·m·(k + r):
	// equations 1 to 3 of the live-migration reconfiguration paper (E. Tasoulas
	// et al., 2015), where n·m is the number of SMPs. Theirs are not
	// pipelined; ours divides LFTDt by the window, and adds the drains.
	//
	// k and r are measured by the caller: k + r is the mean round trip of the
	// SMPs it sent on directed routes, k that of those sent by LID.
	ComputeTime, SMPTime, DirectedTime time.Duration
	Window                             int

	spare uint16 // levels that may come into use
}

// Frozen is a switch outside the graph that forwards by entries which cannot
// be changed. Its hosts are taken to send on any service level in use.
type Frozen struct {
	GUID ib.GUID
	// Row are its entries as last known, those that its LinearFDBTop puts in force;
	// nil if nothing is known, then it is taken to forward nothing.
	Row    []byte
	Cables []FrozenCable // up, to switches of the graph or other frozen ones
}

// FrozenCable is a cable between two switches, seen from a frozen one.
type FrozenCable struct {
	Port     uint8
	Peer     ib.GUID // node GUID of the switch at the other end
	PeerPort uint8
	VLs      uint8 // data lanes, 0 = 1
}

// LeftCable is a cable between two switches of the graph, by node GUID and port.
type LeftCable struct {
	Switch, Peer   ib.GUID
	Port, PeerPort uint8
	VLs            uint8 // data lanes, 0 = 1
}

// Plan is a transition plan: what to write, in which stages, and why.
//
// The caller carries out Stages one after the other: it writes what a stage
// lists, in any order but best in the order given, waits until everything is
// acknowledged, and then lets the stage's Drain and Repath pass. If something of
// a stage is not acknowledged and another stage follows, the transition ends
// there and a new one is planned from what is then installed.
//
// New service levels may be handed out to hosts from the beginning of the
// last stage on, with Repath from the beginning of that stage's wait on.
type Plan struct {
	Mode   Mode
	Forced bool
	Reason string // one line for logs and the API

	LIDsChanged    int // destinations with an entry or a service level that differs
	EntriesChanged int
	UnknownRows    int // switches whose installed table is not known

	Discard []ib.LID // destinations that are dropped for a while, ascending
	Groups  []ib.LID // multicast groups whose tree is cut to what both trees share for a while
	Held    int      // (switch, destination) entries dropped until hosts use new levels
	Stages  []Stage

	SMPs   int           // LFT blocks, SL2VL tables and MFT blocks of all stages
	Drain  time.Duration // sum over the stages
	Repath time.Duration // sum over the stages
	// Distribution is LFTDt of Options, Predicted RCt with the waits.
	Distribution, Predicted time.Duration
	// NeedsRepath says that service levels change, so hosts must resolve
	// their paths again, RepathPairs for how many pairs (source end port, LID).
	NeedsRepath bool
	RepathPairs int64

	// Fitted is what a plan of ModeRepair carries out. Risk is nil if it is
	// proved at every step.
	Fitted *Fitted
	Risk   *Risk

	g                 *fabric.Graph
	installed, wanted *route.Tables
	content           content
	steps             []*route.Tables // by stage: the entries after it; nil: content has them
	unordered         bool            // steps are not all in rooted order
}

// Stage is what may be written at a time. After the last stage the wanted
// tables are installed.
type Stage struct {
	Discards  bool              // it clears entries or cuts trees for a while
	SL2VL     []LaneTable       // contents: the wanted tables'
	LFT       []route.BlockDiff // contents: Plan.Block; destination-rooted order
	MFT       []McastBlock      // contents: Plan.McastBlock
	Drain     time.Duration     // how long to wait after the last acknowledgment
	DrainHops int               // switches on the longest path that has to empty
	Repath    time.Duration     // additional wait until hosts use new levels
}

// New plans the change from the installed to the wanted tables of one graph.
// nil rows of installed (or all, if installed is nil) are not known: they are
// discarded whole unless the subnet is quiet. Service levels and lanes of
// installed are those that hosts and switches use now; nil levels are 0, nil
// lanes SL modulo the lanes of the link. A wanted state without Multicast leaves
// the groups of the installed one alone only if that has none either.
//
// In order of preference the result is dynamic, staged by an order of
// updates, staged by discarding the fewest destinations that a greedy search
// finds, and static. Time and memory: see analyze, inOrder and search; the
// whole is bounded by a multiple of switches × LIDs for a graph's size.
func New(g *fabric.Graph, installed, wanted *route.Tables, o Options) *Plan {
	if installed == nil {
		installed = &route.Tables{LFT: make([][]byte, len(wanted.LFT))}
	}
	x := newMixer(g, installed, wanted, &o)
	ch := x.compare(o.Quiet)
	p := &Plan{
		EntriesChanged: ch.entries, UnknownRows: ch.unknown, LIDsChanged: len(ch.lids),
		RepathPairs: ch.pairs, NeedsRepath: ch.pairs > 0, g: g, installed: installed, wanted: wanted,
	}
	if !o.LanesUnknown && len(ch.diff) == 0 && len(ch.lanes) == 0 && len(ch.trees) == 0 && len(ch.lids) == 0 {
		p.Mode, p.Reason = ModeNone, "the wanted tables are installed"
		b := &builder{p: p, x: x, ch: ch, o: &o}
		if wait, hops := b.untilFree(); wait > 0 {
			p.Mode, p.Drain = ModeStaged, wait
			p.Reason += "; packets that went by links which are back must leave first"
			p.Stages = []Stage{{Drain: wait, DrainHops: hops}}
			p.Predicted = o.ComputeTime + p.Drain
		}
		return p
	}
	b := &builder{p: p, x: x, ch: ch, o: &o}
	b.choose()
	if p.Mode == ModeRefused {
		return p
	}
	b.inTurn()
	for i := range p.Stages {
		st := &p.Stages[i]
		b.rooted(st.LFT)
		p.SMPs += len(st.LFT) + len(st.SL2VL) + len(st.MFT)
		p.Drain += st.Drain
		p.Repath += st.Repath
	}
	p.Distribution = time.Duration(p.SMPs) * (o.SMPTime + o.DirectedTime) / time.Duration(max(o.Window, 1))
	p.Predicted = o.ComputeTime + p.Distribution + p.Drain + p.Repath
	return p
}
