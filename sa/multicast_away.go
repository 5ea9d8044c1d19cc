package sa

import (
	"fmt"
	"slices"

	"heddle/ib"
	"heddle/mad"
	"heddle/subnet"
)

// away holds the missing virtual ports whose memberships are kept for
// Config.MigrateTime. A migrating virtual machine is down at its old host before it
// is up at the new one, and continues there without rejoining. Until then no tree
// leads to it.
type away struct {
	until map[ib.GUID]mad.Time
	first mad.Time // the earliest deadline
}

// virtualGUID reports whether a GUID belongs to a virtual port or to a function of a
// shared port, which can move between hosts.
func virtualGUID(s *subnet.Snapshot, g ib.GUID) bool {
	i := s.PortByGUID(g)
	return i >= 0 && (s.Ports[i].Virtual != nil || s.Ports[i].GUID != g && s.Ports[i].Adapter != nil)
}

// waits reports whether the memberships of a missing GUID are kept for now.
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

// back removes the GUIDs that have returned, and appends them to list so that their
// groups are checked.
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

// soonest updates first.
func (a *away) soonest() {
	a.first = mad.Never
	for _, t := range a.until {
		a.first = min(a.first, t)
	}
}

// expireAway ends the memberships of virtual ports that did not return in time.
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
