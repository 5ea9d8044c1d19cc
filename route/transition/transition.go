package transition

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"heddle/fabric"
	"heddle/ib"
	"heddle/route"
)

// Mode is how a change of tables is applied. None of them takes a port out of
// Active.
type Mode uint8

const (
	// ModeAuto lets New choose; it is never the result.
	ModeAuto Mode = iota
	// ModeNone: the wanted tables are installed already.
	ModeNone
	// ModeDynamic: blocks may be written in any order while traffic flows.
	ModeDynamic
	// ModeDiscard: entries of the destinations that would close a cycle or a
	// loop are set to Drop first; after the drain time everything is written.
	ModeDiscard
	// ModeStatic: like ModeDiscard, for every destination that changes.
	ModeStatic
	// ModeRefused: the change is not clean and cannot be staged, because
	// packets may stay in the network without limit. Nothing should be written
	// unless the operator forces a mode.
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
	case ModeDiscard:
		return "discard"
	case ModeStatic:
		return "static-discard"
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

// Options are what New needs to know besides the tables.
type Options struct {
	Workers int
	// Force is a mode to use whatever the analysis says (ModeDynamic,
	// ModeDiscard or ModeStatic); ModeAuto chooses.
	Force Mode
	// Quiet says that no data packet can be in the subnet nor enter it (no
	// link between switches is Armed or Active): then any order will do.
	Quiet bool
	// SwitchLifetime is the longest packet lifetime of any switch, HOQLife
	// the longest head-of-queue limit of any switch port; Unlimited if one
	// has no limit. 0 counts as not known, which is Unlimited.
	SwitchLifetime, HOQLife time.Duration
	// SMPTime (k) is the mean round trip of one SMP, DirectedTime (r) what
	// directed routing adds to it, Window how many are in flight at a time
	// (0 = 1): equations 1 to 3 of the live-migration reconfiguration paper
	// (E. Tasoulas et al., 2015), with pipelining.
	SMPTime, DirectedTime time.Duration
	Window                int
}

// Plan is a transition plan: what to write, in which stages, and why.
//
// The caller carries out Stages one after the other: it writes what a stage
// lists, in any order but best in the order given, waits until everything is
// acknowledged, and then lets the stage's Drain pass. If a block of a stage is not
// acknowledged and another stage follows, the transition ends there and a new
// one is planned from what is then installed.
type Plan struct {
	Mode   Mode
	Forced bool
	Reason string // one line for logs and the API

	LIDsChanged    int // destinations with an entry that differs
	EntriesChanged int
	UnknownRows    int // switches whose installed table is not known

	Discard []ib.LID // destinations that are dropped for a while, ascending
	Stages  []Stage

	SMPs      int           // LFT blocks, SL2VL tables and MFT blocks of all stages
	Drain     time.Duration // sum over the stages
	Predicted time.Duration // for all stages, drains included
	// NeedsRepath says that service levels change, so hosts must resolve
	// their paths again.
	NeedsRepath bool

	installed, wanted *route.Tables
}

// Stage is what may be written at a time. The last stage writes the wanted
// tables.
type Stage struct {
	Discards  bool              // it clears entries for a while
	LFT       []route.BlockDiff // contents by Plan.Block, destination-rooted order
	Drain     time.Duration     // how long to wait after the last acknowledgement
	DrainHops int               // switches on the longest path that has to empty
}

// New plans the change from the installed to the wanted tables of
// one graph.
//
// While blocks are being written a packet may leave one switch by an old entry
// and the next by a new one. So the graph that must be free of cycles is the
// extended one: at each switch and destination the set {installed entry,
// wanted entry}, with every dependency that traffic can reach in that
// multi-valued routing function. The union of the two tables' dependency
// graphs is not enough (TestUnionIsNotEnough). Rows of installed that are nil
// (or all, if installed is nil) are not known: they are discarded whole
// unless the subnet is quiet.
//
// All lanes are taken together, which is exact for single-lane tables and
// errs towards discarding for others.
func New(g *fabric.Graph, installed, wanted *route.Tables, o Options) *Plan {
	if installed == nil {
		installed = &route.Tables{LFT: make([][]byte, len(wanted.LFT))}
	}
	p := &Plan{EntriesChanged: route.EntriesChanged(installed, wanted), installed: installed, wanted: wanted}
	for _, row := range installed.LFT {
		if row == nil {
			p.UnknownRows++
		}
	}
	p.NeedsRepath = installed.SL != nil && !slices.Equal(installed.SL, wanted.SL)
	changed := changedLIDs(installed, wanted)
	p.LIDsChanged = len(changed)

	diff := route.Diff(installed, wanted)
	if len(diff) == 0 {
		p.Mode, p.Reason = ModeNone, "the wanted tables are installed"
		return p
	}
	x := newExtended(g, installed, wanted)
	p.choose(x, changed, o)
	if p.Mode == ModeDiscard || p.Mode == ModeStatic {
		p.stage(x, diff)
	} else if p.Mode == ModeRefused {
		return p
	} else {
		p.Stages = []Stage{{LFT: diff}}
	}
	last := &p.Stages[len(p.Stages)-1]
	route.OrderRooted(g, last.LFT)
	for i := range p.Stages {
		p.SMPs += len(p.Stages[i].LFT)
		p.Drain += p.Stages[i].Drain
	}
	window := max(o.Window, 1)
	p.Predicted = time.Duration(p.SMPs)*(o.SMPTime+o.DirectedTime)/time.Duration(window) + p.Drain
	return p
}

// choose decides mode, reason and the destinations to discard.
func (p *Plan) choose(x *extended, changed []ib.LID, o Options) {
	if o.Quiet && (o.Force == ModeAuto || o.Force == ModeDynamic) {
		p.Mode, p.Reason = ModeDynamic, "no data traffic can be in the subnet: any order is safe"
		p.Forced = o.Force == ModeDynamic
		return
	}
	v := x.analyse(changed, o.Workers)
	switch {
	case v.clean && p.UnknownRows == 0:
		p.Mode, p.Reason = ModeDynamic, "old and new entries mix without a cycle or a loop"
	case v.clean:
		p.Mode = ModeDiscard
		p.Reason = fmt.Sprintf("tables of %d switches are not known and are cleared first", p.UnknownRows)
	case v.gaveUp != "":
		p.Mode, p.Reason = ModeStatic, v.gaveUp
		p.Discard = changed
	default:
		p.Mode = ModeDiscard
		p.Discard = v.discard
		p.Reason = fmt.Sprintf("mixing old and new entries would close cycles: %d of %d changed destinations are discarded first (%d for loops, %d for credit cycles)",
			len(v.discard), len(changed), v.loops, len(v.discard)-v.loops)
	}
	if o.Force != ModeAuto && o.Force != p.Mode {
		p.Forced = true
		p.Reason = fmt.Sprintf("%v forced (%v would be chosen: %s)", o.Force, p.Mode, p.Reason)
		p.Mode = o.Force
		switch p.Mode {
		case ModeStatic:
			p.Discard = changed
		case ModeDynamic:
			p.Discard = nil
		}
	}
	if p.Mode != ModeDiscard && p.Mode != ModeStatic {
		return
	}
	if len(p.Discard) == 0 && p.UnknownRows == 0 {
		return // forced, but nothing needs it
	}
	if o.SwitchLifetime <= 0 || o.HOQLife <= 0 {
		p.Mode = ModeRefused
		p.Discard = nil
		p.Reason += "; but switch or head-of-queue lifetimes are unlimited, so packets in flight may never drain"
		return
	}
	hops := x.longestInstalled(p.Discard)
	if p.UnknownRows > 0 {
		// Before an unknown table and after it a packet may go a longest path.
		hops = max(hops, x.longestInstalled(nil)) * 2
	}
	// A packet leaves each switch at the latest when its lifetime has passed;
	// one that just then reached the head of a queue may stay HOQLife more.
	p.Stages = []Stage{{Discards: true, DrainHops: hops, Drain: time.Duration(hops) * (o.SwitchLifetime + o.HOQLife)}}
}

// stage splits the blocks into the two stages.
func (p *Plan) stage(x *extended, diff []route.BlockDiff) {
	var first, last Stage
	if len(p.Stages) > 0 {
		first = p.Stages[0]
	}
	for _, b := range diff {
		if x.needsDiscard(p.Discard, b) {
			first.LFT = append(first.LFT, b)
		}
	}
	if len(first.LFT) == 0 { // nothing installed has to leave
		p.Stages = []Stage{{LFT: diff}}
		return
	}
	p.Stages = []Stage{first, {}}
	var mid, end [route.BlockLen]byte
	k := 0
	for _, b := range diff {
		if k < len(first.LFT) && first.LFT[k] == b {
			k++
			p.Block(0, b, &mid)
			x.wanted.Block(b.Switch, b.Block, &end)
			if mid == end {
				continue // the discard is all that was to be written
			}
		}
		last.LFT = append(last.LFT, b)
	}
	p.Stages[1] = last
}

// Block fills dst with what stage k writes to a block: in the last stage the
// wanted entries; in a stage that discards the installed ones, with Drop where
// a discarded destination changes, and Drop everywhere if the switch's table
// is not known.
func (p *Plan) Block(k int, b route.BlockDiff, dst *[route.BlockLen]byte) {
	if k == len(p.Stages)-1 {
		p.wanted.Block(b.Switch, b.Block, dst)
		return
	}
	for i := range dst {
		dst[i] = route.Drop
	}
	if int(b.Switch) >= len(p.installed.LFT) || p.installed.LFT[b.Switch] == nil {
		return
	}
	p.installed.Block(b.Switch, b.Block, dst)
	first := ib.LID(b.Block) * route.BlockLen
	i, _ := slices.BinarySearch(p.Discard, first)
	for ; i < len(p.Discard) && p.Discard[i] < first+route.BlockLen; i++ {
		l := p.Discard[i]
		if dst[l-first] != p.wanted.Entry(b.Switch, l) {
			dst[l-first] = route.Drop
		}
	}
}

// changedLIDs lists, ascending, the LIDs with a known installed entry that
// differs from the wanted one. Entries not known count as Drop: they are
// cleared first, or there is no traffic.
func changedLIDs(installed, wanted *route.Tables) []ib.LID {
	differs := make([]bool, int(max(wanted.TopLID, installed.TopLID))+1)
	top := int(min(wanted.TopLID, installed.TopLID))
	for s, row := range wanted.LFT {
		var have []byte
		if s < len(installed.LFT) {
			have = installed.LFT[s]
		}
		for at := 0; at < len(differs); at += route.BlockLen {
			end := at + route.BlockLen
			if end <= top+1 && end <= len(have) && end <= len(row) && bytes.Equal(have[at:end], row[at:end]) {
				continue
			}
			for l := max(at, 1); l < min(end, len(differs)); l++ {
				if effective(installed, int32(s), l) != effective(wanted, int32(s), l) {
					differs[l] = true
				}
			}
		}
	}
	var out []ib.LID
	for l, d := range differs {
		if d {
			out = append(out, ib.LID(l))
		}
	}
	return out
}

// effective is the entry a switch acts on: Drop where the row is not known or
// ends, or above the top.
func effective(t *route.Tables, s int32, l int) byte {
	if int(s) >= len(t.LFT) {
		return route.Drop
	}
	row := t.LFT[s]
	if l >= len(row) || l > int(t.TopLID) {
		return route.Drop
	}
	return row[l]
}
