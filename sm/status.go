package sm

import (
	"heddle/mad"
	"heddle/subnet"
)

// Status copies the state out.
func (c *Core) Status() Status {
	s := Status{
		State: c.state, Phase: c.phase, Todo: c.phaseTotal, Done: c.phaseTotal - c.pend, Up: c.up,
		PortGUID: c.cfg.PortGUID, LID: c.ownLID(), Priority: c.cfg.Priority,
		Sweeps: c.sweeps, Light: c.lights, Traps: c.trapCount, FalseTraps: c.falseTraps, Last: c.lastReport,
	}
	var st mad.Stats
	c.eng.Stats(&st)
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
	s.Unseen, s.OwnSilent = c.silence()
	s.Damped = c.dampedLinks()
	s.Partitions = c.partitionStatus()
	s.Virtual = c.virtualStatus()
	s.Moves = c.moveStatus()
	s.Improving = c.improving || c.improveAt != mad.Never
	switch {
	case c.state == subnet.Master:
		s.Master = subnet.SM{GUID: c.cfg.PortGUID, LID: s.LID, Priority: c.cfg.Priority, State: subnet.Master}
	case c.master.Info.GUID != 0:
		s.Master = c.master.Public()
	}
	return s
}

// Quiescent reports whether the core is between sweeps with none asked for:
// nothing but timers and the fabric will make it do anything.
func (c *Core) Quiescent() bool {
	return c.phase == PhaseIdle && !c.wantSweep && c.trapAt == mad.Never && c.eng.Idle() && !(c.mayUpkeep() && c.virt.unshown())
}
