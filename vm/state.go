package vm

import (
	"slices"

	"heddle/ib"
	"heddle/subnet"
)

// entry is an interface and what else is known of it. It is never changed: a change
// is another entry in its place, as Views have the old one.
type entry struct {
	Interface
	before      State   // of one that is being attached: what it was
	last        outcome // how its last migration ended
	anyFunction bool    // of the place it is going to: the core chose the function
	// why is the part of Reason that is stored: why it was refused or rolled back.
	why string
}

// outcome is how a migration ended.
type outcome uint8

const (
	noMigration outcome = iota // since it was attached, or one is going on
	finished
	rolledBack
)

// guids are all GUIDs of the interface.
func (e *entry) guids() []ib.GUID {
	if e.GUID == 0 {
		return e.Aliases // it has none yet
	}
	return append([]ib.GUID{e.GUID}, e.Aliases...)
}

// places yields those that it has or keeps, known by their function.
func (e *entry) places(yield func(subnet.Place) bool) {
	_ = (e.Place.Function == 0 || yield(e.Place)) && (e.Dest.Function == 0 || yield(e.Dest))
}

// placement is what the subnet manager is to do for it; ok is false if nothing.
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
	// One that was nowhere yet has nothing that could be taken away; and a VPort
	// that already shows its GUID is not taken down by Create.
	unplaced := e.State == Created || e.Doing == DoingAttach && e.before == Created
	return l, e.GUID != 0 && (l.Place != subnet.Place{} || e.LIDKind != subnet.SharedLID || !unplaced)
}

// storedAs reports whether the records of the two are the same.
func (e *entry) storedAs(o *entry) bool {
	return e.Name == o.Name && e.storedGUID() == o.storedGUID() && e.GUIDKind == o.GUIDKind && slices.Equal(e.Aliases, o.Aliases) &&
		e.LIDKind == o.LIDKind && e.LID == o.LID && e.Pinned == o.Pinned && e.Mode == o.Mode && slices.Equal(e.Keys, o.Keys) &&
		e.State == o.State && e.Place == o.Place && e.Dest == o.Dest && e.Doing == o.Doing &&
		e.before == o.before && e.last == o.last && e.anyFunction == o.anyFunction && e.why == o.why
}

// ownLID reports whether its LID is nobody else's.
func (e *entry) ownLID() bool { return e.LIDKind != subnet.SharedLID && e.LID != 0 }

// state are the interfaces and what finds them.
type state struct {
	list    table              // which Views share
	named   map[string]*entry  // the same by name: most of what is asked for, and several times
	byGUID  map[ib.GUID]string // aliases too
	byPlace map[subnet.Place]string
	byLID   map[ib.LID]string
	byPort  map[ib.GUID]users
	busy    map[string]struct{} // that are doing something
	unread  map[string]bool     // names of records that could not be read
}

// users are how many interfaces have or keep places at a port.
type users struct{ n, floating int }

func (s *state) init() {
	s.byGUID, s.byPlace, s.byLID = map[ib.GUID]string{}, map[subnet.Place]string{}, map[ib.LID]string{}
	s.named = map[string]*entry{}
	s.byPort, s.busy, s.unread = map[ib.GUID]users{}, map[string]struct{}{}, map[string]bool{}
}

// replace puts an interface in the place of another one, or of none, in all that
// finds it. Either may be nil; both have the same name.
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

// others are how many places at a port interfaces but e have or keep.
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
