package sm

import (
	"slices"

	"heddle/sm/notice"
)

// follows has the phases that may come after each. What a sweep does in a phase:
//
//	discover ─► assign ─► [readback] ─► route ─► [lanes] ─► distribute
//	─► [discard ─► drain ─► distribute] … ─► top ─► lanes ─► arm ─► activate ─► idle
//
// Any of them may end the sweep (idle), and a fault may break it off for the next one
// (discover). Light sweeps, moves of LIDs and upkeep are between sweeps; a takeover is before the first.
var follows = [notice.NumPhases][]notice.Phase{
	notice.PhaseIdle:       {notice.PhaseDiscover, notice.PhaseLight, notice.PhaseMove, notice.PhaseUpkeep, notice.PhaseTakeover, notice.PhaseIdle},
	notice.PhaseDiscover:   {notice.PhaseAssign, notice.PhaseDiscover, notice.PhaseIdle},
	notice.PhaseAssign:     {notice.PhaseReadback, notice.PhaseRoute, notice.PhaseDiscover, notice.PhaseIdle},
	notice.PhaseReadback:   {notice.PhaseRoute, notice.PhaseDiscover, notice.PhaseIdle},
	notice.PhaseRoute:      {notice.PhaseLanes, notice.PhaseDistribute, notice.PhaseDiscover, notice.PhaseIdle},
	notice.PhaseDiscard:    {notice.PhaseDrain, notice.PhaseDistribute, notice.PhaseTop, notice.PhaseLanes, notice.PhaseDiscover, notice.PhaseIdle},
	notice.PhaseDrain:      {notice.PhaseDistribute, notice.PhaseTop, notice.PhaseLanes, notice.PhaseDiscover, notice.PhaseIdle},
	notice.PhaseDistribute: {notice.PhaseDistribute, notice.PhaseDiscard, notice.PhaseDrain, notice.PhaseTop, notice.PhaseLanes, notice.PhaseDiscover, notice.PhaseIdle},
	notice.PhaseTop:        {notice.PhaseLanes, notice.PhaseDiscover, notice.PhaseIdle},
	notice.PhaseLanes:      {notice.PhaseDistribute, notice.PhaseArm, notice.PhaseDiscover, notice.PhaseIdle},
	notice.PhaseArm:        {notice.PhaseActivate, notice.PhaseDiscover, notice.PhaseIdle},
	notice.PhaseActivate:   {notice.PhaseDiscover, notice.PhaseIdle},
	notice.PhaseLight:      {notice.PhaseIdle},
	notice.PhaseMove:       {notice.PhaseMove, notice.PhaseIdle},
	notice.PhaseUpkeep:     {notice.PhaseIdle},
	notice.PhaseTakeover:   {notice.PhaseIdle},
}

// enter starts a phase; its items are added next. A phase that may not follow the present one
// is a mistake of the program: it is reported, and everything is read again, because what the
// phases in between should have done is missing.
func (c *Core) enter(p notice.Phase) {
	if !slices.Contains(follows[c.Phase], p) {
		c.Notify(notice.Notice{
			Kind: notice.KindInternal, Level: notice.Error,
			Text: "phase " + p.String() + " began in phase " + c.Phase.String() + ", which is an internal error: please report it; the subnet is read again",
		})
		c.agenda.ReadAll()
		c.agenda.Again("a phase was skipped")
	}
	c.Report.Phases[c.Phase] += c.Now.Sub(c.PhaseStart)
	c.Phase, c.PhaseStart = p, c.Now
	c.Pending, c.Total = 0, 0
	c.Todo.Clear()
	c.pkeys.PhaseEnded()
}
