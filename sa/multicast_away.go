package sa

import (
	"fmt"
	"slices"

	"heddle/ib"
	"heddle/mad"
	"heddle/subnet"
)

// away are the virtual ports whose memberships wait for them: a virtual machine that
// migrates is down at its old place before it is up at the new one, and goes on
// there without joining anew. Nothing leads to it meanwhile.
type away struct {
	until map[ib.GUID]mad.Time
	first mad.Time // the earliest of them
}

// virtualGUID reports whether a GUID is that of a virtual port, or of a function of a
// shared port: what moves from host to host.
func virtualGUID(s *subnet.Snapshot, g ib.GUID) bool {
	i := s.PortByGUID(g)
	return i >= 0 && (s.Ports[i].Virtual != nil || s.Ports[i].GUID != g && s.Ports[i].Adapter != nil)
}

// waits reports whether the memberships of a GUID that is gone are kept for now.
func (a *away) waits(c *Core, old *subnet.Snapshot, g ib.GUID) bool {
	if until, ok := a.until[g]; ok {
		return c.now < until
	}
	d := c.migrateTime()
	if d == 0 || old == nil || !virtualGUID(old, g) {
		return false
	}
	if a.until == nil {
		a.until = map[ib.GUID]mad.Time{}
	}
	a.until[g] = c.now + d
	return true
}

// back forgets GUIDs that are in the subnet again, and adds them to a list: what they
// may be in is to be looked at.
func (a *away) back(s *subnet.Snapshot, list []ib.GUID) []ib.GUID {
	n := len(list)
	for g := range a.until {
		if s.PortByGUID(g) >= 0 {
			delete(a.until, g)
			list = append(list, g)
		}
	}
	if len(list) > n {
		slices.Sort(list)
	}
	return list
}

// soonest finds the earliest of those that are away.
func (a *away) soonest() {
	a.first = mad.Never
	for _, t := range a.until {
		a.first = min(a.first, t)
	}
}

// expire ends the memberships of virtual ports that did not come back.
func (x *multicast) expireAway(c *Core) {
	if len(x.away.until) == 0 || c.now < x.away.first || !serves(c.snap) {
		return
	}
	for g, t := range x.away.until {
		if t <= c.now && c.maybeThere(c.snap, g) {
			x.away.until[g] = c.now + c.migrateTime()
		}
	}
	left := 0
	for i := 0; i < len(x.list); i++ {
		g := x.list[i]
		for k := len(g.Members) - 1; k >= 0; k-- {
			if t, ok := x.away.until[g.Members[k].PortGID.GUID()]; ok && t <= c.now {
				x.takeOut(c, g, k)
				left++
			}
		}
		if g.unkept() {
			x.remove(c, g, "its full members, virtual machines, left the subnet")
			i--
		}
	}
	for g, t := range x.away.until {
		if t <= c.now {
			delete(x.away.until, g)
		}
	}
	if x.away.soonest(); left > 0 {
		c.notice("members_left", fmt.Sprintf("%d memberships in multicast groups ended: their virtual machines left the subnet", left))
	}
}
