package sa

import (
	"slices"

	"heddle/ib"
	"heddle/subnet"
)

// absent holds the ports with memberships or subscriptions that no snapshot has contained
// since this manager became master. A registration ends only when the port is known to have
// left, not when it merely could not be read. Ports missing before the mastership began may
// still exist, so their registrations stay.
type absent map[ib.GUID]bool

// published processes a new snapshot. It runs before any registration is ended.
func (a *absent) published(c *Core, old, s *subnet.Snapshot) {
	if !serves(s) {
		return
	}
	if !serves(old) {
		*a = absent{}
		if !s.Veiled {
			return
		}
		look := func(g ib.GUID) {
			if s.PortByGUID(g) < 0 {
				(*a)[g] = true
			}
		}
		for _, g := range c.groups.list {
			for i := range g.Members {
				look(g.Members[i].PortGID.GUID())
			}
		}
		for _, sub := range c.subscriptions.all.list {
			look(sub.GID.GUID())
		}
		return
	}
	for g := range *a {
		if s.PortByGUID(g) >= 0 {
			delete(*a, g)
		}
	}
}

// and appends the ports now known to be gone to an ascending list, and clears their
// marks.
func (a absent) and(s *subnet.Snapshot, list []ib.GUID) []ib.GUID {
	n := len(list)
	for g := range a {
		if !s.MayHide(g) {
			delete(a, g)
			list = append(list, g)
		}
	}
	if len(list) > n {
		slices.Sort(list)
	}
	return list
}

// maybeThere reports whether a port missing from a snapshot may still be in the subnet.
func (c *Core) maybeThere(s *subnet.Snapshot, g ib.GUID) bool {
	return s.IsUnsure(g) || c.absent[g] && s.MayHide(g)
}
