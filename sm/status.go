package sm

import (
	"heddle/ib"
	"heddle/mad"
	"heddle/sm/lidmove"
	"heddle/sm/linkmgr"
	"heddle/sm/notice"
	"heddle/sm/pkeymgr"
	"heddle/sm/vport"
	"heddle/subnet"
)

// Status copies the state out.
func (c *Core) Status() Status {
	s := Status{
		State: c.State, Phase: c.Phase, Todo: c.Total, Done: c.Total - c.Pending, Up: c.Up,
		PortGUID: c.Config.PortGUID, LID: c.OwnLID(), Priority: c.Config.Priority,
		Sweeps: c.Sweeps, Light: c.light.Count(), Last: c.sweep.lastReport,
	}
	s.Traps, s.FalseTraps = c.traps.Counts()
	var st mad.Stats
	c.Engine.Stats(&st)
	s.Window, s.InFlight = st.Window, st.Outstanding
	for _, a := range st.Attrs {
		if k := len(s.Attrs); k == 0 || s.Attrs[k-1].Attr != a.Attr {
			s.Attrs = append(s.Attrs, AttrStat{Attr: a.Attr})
		}
		row := &s.Attrs[len(s.Attrs)-1]
		row.Sent += a.Sent
		row.Retried += a.Retried
		row.TimedOut += a.TimedOut
		s.Sent += a.Sent
		s.Retried += a.Retried
		s.TimedOut += a.TimedOut
	}
	s.Settled = c.Settled()
	s.Unseen, s.OwnSilent = c.absent.Count()
	s.Damped, s.Disabling, s.PutOff = c.links.Damped(), c.links.Disabling(), c.links.LinksPutOff()
	s.WaitsUntil = c.install.Next()
	s.Partitions = c.pkeys.Status()
	s.Virtual = c.vports.Status()
	s.Moves = c.moveStatus()
	s.Improving = c.router.Improving()
	s.Master = c.Standing().Master
	return s
}

// Standing is the part of a Status that decides what a manager may do. It costs nothing, whereas
// Status counts ports and LIDs: milliseconds in a full subnet.
type Standing struct {
	State  subnet.SMState
	Up     bool
	Master subnet.SM // GUID 0: not known
}

// Standing tells whether this manager is the master, and which one is.
func (c *Core) Standing() Standing {
	s := Standing{State: c.State, Up: c.Up}
	switch {
	case c.State == subnet.Master:
		s.Master = subnet.SM{GUID: c.Config.PortGUID, LID: c.OwnLID(), Priority: c.Config.Priority, State: subnet.Master}
	case c.mastership.Master().GUID != 0:
		s.Master = c.mastership.Master()
	}
	return s
}

// Quiescent reports whether the core is between sweeps with none asked for:
// nothing but timers and the fabric will make it do anything.
func (c *Core) Quiescent() bool {
	return c.Phase == notice.PhaseIdle && !c.agenda.Wanted() && c.traps.Next() == mad.Never && c.Engine.Idle() && !(c.MayUpkeep() && c.vports.Unshown())
}

// Settled reports whether the last snapshot shows the subnet as this master left it: no sweep or change is
// under way or asked for, and all is stored. Reads may be under way.
func (c *Core) Settled() bool {
	return c.State == subnet.Master && c.Up && len(c.Unsaved) == 0 && !c.agenda.Wanted() && c.traps.Next() == mad.Never &&
		(c.Phase == notice.PhaseIdle || c.Phase == notice.PhaseLight)
}

// AttrStat counts the SMPs of one attribute.
type AttrStat struct {
	Attr              ib.AttrID
	Sent              uint64 // packets, retries included
	Retried, TimedOut uint64
}

// Status is a copy of a Core's state in a few numbers.
type Status struct {
	State      subnet.SMState
	Phase      notice.Phase
	Done, Todo int // progress of the phase: items done, items known so far
	Up         bool
	Settled    bool // see Core.Settled
	PortGUID   ib.GUID
	LID        ib.LID
	Priority   uint8
	Master     subnet.SM
	Window     int // SMPs allowed in flight now
	InFlight   int
	Sweeps     uint64 // sweeps finished, those of a region included
	Light      uint64 // light sweeps finished
	Traps      uint64
	FalseTraps uint64 // of Traps: those that were not from whom they said
	Sent       uint64
	Retried    uint64
	TimedOut   uint64
	Attrs      []AttrStat // in ascending attribute order
	Last       *notice.SweepReport
	Unseen     int          // nodes that do not answer and have not left
	OwnSilent  bool         // our own node is one of them
	Damped     []DampedLink // links kept out for failing again and again
	Disabling  []LinkWait   // isolated links that wait for packets to leave them
	PutOff     []LinkWait   // links that keep their routes until then, because something else comes first
	WaitsUntil mad.Time     // when packets have left and the change of tables goes on; mad.Never: nothing waits
	Partitions PartitionStatus
	Virtual    VirtualStatus
	Moves      MoveStatus
	// Improving says that the fabric is to be quiet for a while, or packets are to leave,
	// before better tables than those in force are looked for.
	Improving bool
}

// MoveStatus tells of LIDs: how many there are, and what moving them cost so far.
type MoveStatus struct {
	// LIDLimit is how many LIDs the smallest forwarding table holds; LIDsUsed how
	// many are given or kept for somebody: Ports, Functions (of prepopulated
	// vSwitches) and Interfaces (placements and VPorts) have them.
	LIDLimit, LIDsUsed           int
	Ports, Functions, Interfaces int
	Placements, Waiting          int // Waiting: placements without a location

	lidmove.Counts
}

// PartitionStatus tells how far the partitions in force are carried out.
type PartitionStatus = pkeymgr.Status

// DampedLink is a link that is kept out of the subnet for a while.
type DampedLink = linkmgr.DampedLink

// LinkWait is a link with which something is done at a time.
type LinkWait = linkmgr.LinkWait

// VirtualStatus counts virtual ports. See package vport.
type VirtualStatus = vport.Status

// WaitsForHosts reports whether a change of tables waits for hosts to use new service levels. It may
// be called between Steps.
func (c *Core) WaitsForHosts() bool { return c.install.WaitsForHosts() }
