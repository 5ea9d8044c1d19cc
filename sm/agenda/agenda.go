// Package agenda says what the next sweep of a subnet manager is to do, when it begins, and why.
//
// Traps, light sweeps, peeks and failed writes name suspects: switches and end ports that the next
// sweep is to look at. If there are too many, or a suspect cannot be named, everything is to be
// read. A demand that arrives during a sweep counts for the sweep after it.
//
// A demanded sweep does not wait until all requests of the work between sweeps are answered or have
// timed out: a dead switch, which may be what the sweep is about, takes 3 s for each of them. It
// begins when nothing is under way any more, or Patience after it was demanded; then the unanswered
// requests are canceled and repeated later.
//
// Inputs are the demands. Outputs are the answers to the conductor (sm.Core), which begins sweeps.
package agenda

import (
	"slices"
	"time"

	"heddle/ib"
	"heddle/mad"
	"heddle/sm/env"
	"heddle/sm/notice"
	"heddle/subnet"
)

// Suspect names a switch or an end port that the next sweep is to look at.
type Suspect struct {
	GUID ib.GUID // of the node
	Port uint8   // WholeSwitch: all ports of a switch
}

// WholeSwitch is Suspect.Port for a switch with all its ports.
const WholeSwitch = 0xFF

// maxSuspects is how many suspects are kept; with more a full sweep is as cheap.
const maxSuspects = 256

// Patience is how long a demanded sweep waits at most for the work between sweeps. The answers of
// a whole light sweep come within a few milliseconds (1,620 switches take 50 windows of round
// trips), so the neighbors of a dead switch join one region; a fault of which they tell must be
// handled within 100 ms.
const Patience = 10 * time.Millisecond

// Repairs measures how long repairs take.
type Repairs interface {
	// Sign is called at the first sign of what a sweep looks for.
	Sign()
}

// Agenda is what the next sweep is to do.
type Agenda struct {
	*env.Env
	repairs Repairs

	wanted      bool // a sweep is to begin
	why         string
	full        bool      // it reads everything
	suspects    []Suspect // else what it reads
	audit       bool      // it reads all tables back
	groups      bool      // multicast groups have changed
	interruptAt mad.Time  // when it stops waiting for the work between sweeps; mad.Never
	urgent      bool      // it does not wait for moves of LIDs either

	again    bool // a sweep was demanded during the one under way
	more     bool // not for multicast groups alone
	againWhy string
}

// New returns an empty agenda.
func New(e *env.Env, repairs Repairs) *Agenda {
	return &Agenda{Env: e, repairs: repairs, interruptAt: mad.Never}
}

// Ask demands a sweep: of the suspects, unless everything is to be read.
func (a *Agenda) Ask(why string) {
	a.repairs.Sign()
	if a.BetweenSweeps() {
		a.Want(why)
		a.interruptAt = min(a.interruptAt, a.Now.Add(Patience))
		return
	}
	a.Again(why)
}

// AskFull demands a full sweep.
func (a *Agenda) AskFull(why string) {
	a.full = true
	a.Ask(why)
}

// AskRegion demands a sweep that looks at a switch, or at a CA and its switch.
func (a *Agenda) AskRegion(n int32, why string) {
	a.SuspectNode(n)
	a.Ask(why)
}

// Urgent says that the next sweep does not wait for moves of LIDs.
func (a *Agenda) Urgent() { a.urgent = true }

// Want has a sweep begin when nothing is under way.
func (a *Agenda) Want(why string) { a.wanted, a.why = true, why }

// Again has a sweep follow the one under way.
func (a *Agenda) Again(why string) { a.again, a.more, a.againWhy = true, true, why }

// Drop drops the demand for a sweep, but not what it was to look at.
func (a *Agenda) Drop() { a.wanted = false }

// Wanted reports whether a sweep is to begin.
func (a *Agenda) Wanted() bool { return a.wanted }

// Why is the reason for the next sweep.
func (a *Agenda) Why() string { return a.why }

// Because sets the reason for a sweep that a timer begins.
func (a *Agenda) Because(why string) { a.why = why }

// Demanded reports whether a sweep was demanded during the one under way, and why.
func (a *Agenda) Demanded() (why string, ok bool) { return a.againWhy, a.again }

// Interrupts reports whether a sweep waits for work that may be cut short. Moves of LIDs are asked
// for by people who wait, and their drains are bounded: only a fault is more urgent.
func (a *Agenda) Interrupts() bool {
	switch a.Phase {
	case notice.PhaseLight, notice.PhaseUpkeep:
		return a.wanted
	case notice.PhaseMove:
		return a.wanted && a.urgent
	}
	return false
}

// InterruptAt is when the work that a sweep waits for is cut short; mad.Never if none is.
func (a *Agenda) InterruptAt() mad.Time {
	if !a.Interrupts() {
		return mad.Never
	}
	return a.interruptAt
}

// ReadAll has the next sweep read everything.
func (a *Agenda) ReadAll() { a.full = true }

// NeedsFull reports whether a region is not enough for what is demanded.
func (a *Agenda) NeedsFull() bool { return a.full }

// ReadsAll reports whether the next sweep reads everything: the subnet, or all tables.
func (a *Agenda) ReadsAll() bool { return a.full || a.audit }

// Suspect has the next sweep look at a node.
func (a *Agenda) Suspect(g ib.GUID, port uint8) {
	s := Suspect{g, port}
	switch {
	case slices.Contains(a.suspects, s):
	case len(a.suspects) >= maxSuspects:
		a.full = true
	default:
		a.suspects = append(a.suspects, s)
	}
}

// SuspectSwitch has the next sweep look at all ports of a switch.
func (a *Agenda) SuspectSwitch(g ib.GUID) { a.Suspect(g, WholeSwitch) }

// SuspectLID has the next sweep look at the port that has a LID. If whole is set and that is a
// switch, the sweep looks at all its ports, and SuspectLID returns its GUID.
func (a *Agenda) SuspectLID(lid ib.LID, whole bool) ib.GUID {
	i := int32(-1)
	if a.Snapshot != nil && a.State == subnet.Master {
		i = a.Snapshot.PortByLID(lid)
	}
	if i < 0 {
		a.full = true
		return 0
	}
	p := a.Snapshot.Ports[i]
	n := &a.Snapshot.Nodes[p.Node]
	if whole && n.Info.NodeType == ib.NodeSwitch {
		a.SuspectSwitch(n.Info.NodeGUID)
		return n.Info.NodeGUID
	}
	a.Suspect(n.Info.NodeGUID, p.Num)
	return 0
}

// SuspectNode has the next sweep look at a switch, or at a CA and its switch.
func (a *Agenda) SuspectNode(n int32) {
	f := a.Fabric
	nd := &f.Nodes[n]
	if nd.IsSwitch() {
		a.SuspectSwitch(nd.Info.NodeGUID)
	} else if q := f.PortOf(n, nd.Info.LocalPortNum).Peer; q.Node >= 0 && f.Nodes[q.Node].IsSwitch() {
		a.SuspectSwitch(f.Nodes[q.Node].Info.NodeGUID)
		a.Suspect(nd.Info.NodeGUID, nd.Info.LocalPortNum)
	} else {
		a.full = true
	}
}

// Suspects are what the next sweep is to look at. The caller does not change the list.
func (a *Agenda) Suspects() []Suspect { return a.suspects }

// ClearSuspects is called when discovery looks at the suspects.
func (a *Agenda) ClearSuspects() { a.suspects = a.suspects[:0] }

// WantAudit has the next sweep read all tables back.
func (a *Agenda) WantAudit() { a.audit = true }

// Audit reports whether the sweep reads all tables back, and ends that demand.
func (a *Agenda) Audit() bool {
	audit := a.audit
	a.audit = false
	return audit
}

// RouteGroups has the next sweep route multicast groups.
func (a *Agenda) RouteGroups() { a.groups = true }

// AskGroups demands a sweep for multicast groups alone.
func (a *Agenda) AskGroups(why string) {
	more := a.more
	a.Ask(why)
	a.more = more
}

// GroupsAlone reports whether a sweep was demanded during the one under way, and that for multicast groups alone: what
// was read of the subnet is what it is.
func (a *Agenda) GroupsAlone() bool {
	return a.again && !a.more && !a.full && !a.audit && len(a.suspects) == 0
}

// RoutesGroups reports whether the next sweep routes multicast groups.
func (a *Agenda) RoutesGroups() bool { return a.groups }

// Begin is called when a sweep begins. The suspects remain until discovery looks at them. It
// reports whether multicast groups are to be routed.
func (a *Agenda) Begin() (groups bool) {
	groups = a.groups
	a.wanted, a.again, a.more, a.full, a.groups = false, false, false, false, false
	a.interruptAt, a.urgent = mad.Never, false
	return groups
}

// Ended is called when a sweep has ended and what it demanded is planned.
func (a *Agenda) Ended() { a.again, a.more = false, false }
