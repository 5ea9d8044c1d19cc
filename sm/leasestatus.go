package sm

import (
	"slices"

	"heddle/ib"
	"heddle/subnet"
)

// reported are the states of placements, by what is reported of them.
var reported = [...]placementState{
	subnet.LeaseWaiting: stateWaiting, subnet.LeaseMoving: stateMoving, subnet.LeasePlaced: statePlaced, subnet.LeaseRefused: stateRefused,
}

// reportLease tells how far a lease has come, if that is news.
func (c *Core) reportLease(l *lease, s subnet.LeaseState, f failure) {
	if s >= subnet.LeasePlaced {
		c.freeEntry(l)
	}
	if s == subnet.LeaseRefused || !l.unwanted() && !l.hasFailed() {
		l.become(reported[s])
	}
	if l.implied || l.unwanted() {
		return
	}
	r := subnet.LeaseReport{GUID: l.GUID, Place: l.Place, State: s, Cause: f.cause, Reason: f.why}
	if s == subnet.LeasePlaced {
		r.SMPs, r.AtRisk = l.smps, l.atRisk
		if r.LID = c.lidOf(l); r.LID == 0 {
			r.LID = c.sharedLID(l.held)
		}
	} else {
		r.LID = c.lidOf(l)
	}
	same := r
	same.SMPs, same.AtRisk = l.told.SMPs, l.told.AtRisk
	if l.told == same && l.told.GUID != 0 {
		return
	}
	l.told = r
	c.leases.reports = append(c.leases.reports, r)
}

// sharedLID is the LID at which a function without one of its own is reached.
func (c *Core) sharedLID(p subnet.Place) ib.LID {
	if a, v := c.function(p); a != nil && v != nil && v.Info().LIDByVPortIndex != 0 {
		if k := int(v.Info().LIDByVPortIndex); k < len(a.VPorts()) && a.VPorts()[k] != nil && a.VPorts()[k].Info().LIDRequired {
			return a.VPorts()[k].Info().VPortLID
		}
	}
	if q := c.EndPort(p.Port); q != nil {
		return q.LID
	}
	return 0
}

// tellLeases hands out the reports, unless what they say is not published yet.
func (c *Core) tellLeases() {
	x := &c.leases
	if c.floatSnap {
		c.Publish()
	}
	if x.showDue {
		x.showDue = false
		c.showNow()
	}
	if len(x.reports) == 0 {
		return
	}
	if slices.ContainsFunc(x.reports, func(r subnet.LeaseReport) bool { return r.State >= subnet.LeasePlaced }) {
		c.showNow()
	}
	c.out.Leases = append(c.out.Leases, x.reports...)
	clear(x.reports)
	x.reports = x.reports[:0]
}

// midway reports whether addresses are on their way, so that what functions hold is
// neither the old state nor the new one.
func (x *leases) midway() bool {
	return x.step == batchLeave || x.step == batchRoute || x.step == batchPut
}

func (c *Core) moveStatus() MoveStatus {
	s := c.moveCount
	n := c.countLIDs()
	s.LIDLimit, s.LIDsUsed = n.Limit, n.Used()
	s.Ports, s.Functions, s.Interfaces = n.Ports, n.Functions, n.Placements
	for _, l := range c.leases.list {
		if l.state != stateEnded && !l.implied {
			s.Leases++
			if l.Place == (subnet.Place{}) {
				s.Waiting++
			}
		}
	}
	return s
}
