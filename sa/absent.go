package sa

import (
	"slices"

	"heddle/ib"
	"heddle/subnet"
)

// What a port registered ends when it is known that the port left, never because it could not
// be seen. absent are the ports with memberships or subscriptions that no snapshot has had
// since this manager began to serve the subnet: what was missing before that nobody knows.
type absent map[ib.GUID]bool

// published follows a new state of the subnet, and is called before anything ends by it.
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
		for _, g := range c.mc.list {
			for i := range g.Members {
				look(g.Members[i].PortGID.GUID())
			}
		}
		for _, sub := range c.inform.all.list {
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

// and adds those that are known to be gone by now to an ascending list, and forgets them.
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

// maybeThere reports whether a port that a snapshot does not have may be in the subnet all
// the same.
func (c *Core) maybeThere(s *subnet.Snapshot, g ib.GUID) bool {
	return s.IsUnsure(g) || c.absent[g] && s.MayHide(g)
}
