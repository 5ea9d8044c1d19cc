package vm

import (
	"slices"

	"heddle/ib"
	"heddle/subnet"
)

// entry is an interface with the core's own fields. It is immutable, because Views share it: a
// change replaces the entry.
type entry struct {
	Interface
	before      State   // during an attach: the state before
	last        outcome // how its last migration ended
	anyFunction bool    // the core chose the function of the next place
	// resumed: during a finish: it is of an earlier manager, which may have answered it as done.
	// unsure: and the subnet manager has not said yet that it is not.
	resumed, unsure bool
	// why is the part of Reason that is stored: why it was refused or rolled back.
	why string
}

// outcome is how a migration ended.
type outcome uint8

const (
	noMigration outcome = iota // none since it was attached, or one is in progress
	finished
	rolledBack
)

// guids are all GUIDs of the interface.
func (e *entry) guids() []ib.GUID {
	if e.GUID == 0 {
		return e.Aliases // it has no GUID of its own yet
	}
	return append([]ib.GUID{e.GUID}, e.Aliases...)
}

// places yields the places, with a function, that it has or reserves.
func (e *entry) places(yield func(subnet.Place) bool) {
	_ = (e.Place.Function == 0 || yield(e.Place)) && (e.Dest.Function == 0 || yield(e.Dest))
}

// placement is what the subnet manager is to carry out for it; ok is false if nothing.
func (e *entry) placement() (l subnet.Placement, ok bool) {
	l = subnet.Placement{GUID: e.GUID, LIDKind: e.LIDKind, Mode: e.Mode, Aliases: e.Aliases}
	if e.Pinned {
		l.LID = e.LID
	}
	switch {
	case e.Doing == DoingFinish:
		l.Place = e.Dest
	case e.Doing != DoingDetach && e.Place.Function != 0:
		l.Place = e.Place
	}
	// A new interface has no address to remove, and Create must not take down a VPort that
	// already shows the GUID.
	unplaced := e.State == Created || e.Doing == DoingAttach && e.before == Created
	return l, e.GUID != 0 && (l.Place != subnet.Place{} || e.LIDKind != subnet.SharedLID || !unplaced)
}

// storedAs reports whether both have the same record.
func (e *entry) storedAs(o *entry) bool {
	return e.Name == o.Name && e.storedGUID() == o.storedGUID() && e.GUIDKind == o.GUIDKind && slices.Equal(e.Aliases, o.Aliases) &&
		e.LIDKind == o.LIDKind && e.LID == o.LID && e.Pinned == o.Pinned && e.Mode == o.Mode && slices.Equal(e.Keys, o.Keys) &&
		e.State == o.State && e.Place == o.Place && e.Dest == o.Dest && e.Doing == o.Doing &&
		e.before == o.before && e.last == o.last && e.anyFunction == o.anyFunction && e.why == o.why
}

// ownLID reports whether its LID belongs to it alone.
func (e *entry) ownLID() bool { return e.LIDKind != subnet.SharedLID && e.LID != 0 }

// state holds the interfaces and their indices.
type state struct {
	list    table              // shared with Views
	named   map[string]*entry  // the same by name, for the most frequent lookup
	byGUID  map[ib.GUID]string // aliases too
	byPlace map[subnet.Place]string
	byLID   map[ib.LID]string
	byPort  map[ib.GUID]users
	busy    map[string]struct{} // with an operation in progress
	unread  map[string]bool     // names of records that could not be read
}

// users counts the interfaces that have or reserve places at a port.
type users struct{ n, floating int }

func (s *state) init() {
	s.byGUID, s.byPlace, s.byLID = map[ib.GUID]string{}, map[subnet.Place]string{}, map[ib.LID]string{}
	s.named = map[string]*entry{}
	s.byPort, s.busy, s.unread = map[ib.GUID]users{}, map[string]struct{}{}, map[string]bool{}
}

// replace replaces an interface in the list and all indices. Either may be nil; both have the
// same name.
func (c *Core) replace(old, new *entry) { //nolint:revive // old and new are what they are
	if old != nil {
		for p := range old.places {
			delete(c.byPlace, p)
		}
		c.use(old, -1)
		if old.ownLID() && c.byLID[old.LID] == old.Name {
			delete(c.byLID, old.LID)
		}
		if old.Doing != "" {
			delete(c.busy, old.Name)
		}
		c.pool.count(old, -1)
	}
	if old != nil && (new == nil || old.GUID != new.GUID) {
		for _, g := range old.guids() {
			delete(c.byGUID, g)
			c.pool.freed(g)
		}
	}
	c.members.regrant(old, new)
	if new == nil {
		delete(c.named, old.Name)
		c.list.drop(old.Name)
		return
	}
	if old == nil || old.GUID != new.GUID {
		for _, g := range new.guids() {
			c.byGUID[g] = new.Name
		}
	}
	for p := range new.places {
		c.byPlace[p] = new.Name
	}
	c.use(new, 1)
	if new.ownLID() {
		c.byLID[new.LID] = new.Name
	}
	if new.Doing != "" {
		c.busy[new.Name] = struct{}{}
	}
	c.pool.count(new, 1)
	c.named[new.Name] = new
	c.list.put(new)
}

func (c *Core) use(e *entry, sign int) {
	for _, p := range [...]subnet.Place{e.Place, e.Dest} {
		if p.Port == 0 {
			continue
		}
		u := c.byPort[p.Port]
		u.n += sign
		if e.LIDKind == subnet.FloatingLID {
			u.floating += sign
		}
		if u == (users{}) {
			delete(c.byPort, p.Port)
		} else {
			c.byPort[p.Port] = u
		}
	}
}

// others counts the places at a port that interfaces other than e have or reserve.
func (c *Core) others(e *entry, port ib.GUID) users {
	u := c.byPort[port]
	for _, p := range [...]subnet.Place{e.Place, e.Dest} {
		if p.Port == port {
			u.n--
			if e.LIDKind == subnet.FloatingLID {
				u.floating--
			}
		}
	}
	return u
}
